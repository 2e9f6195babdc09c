/*-------------------------------------------------------------------------
 *
 * members.c
 *	  The scans that share reads, and where each of them is.
 *
 * The scans that share are members of a fixed array in shared memory.  Those
 * of one relation are linked in a circle:
 *
 *	    members:  [ a ] [ b ] [ - ] [ a ] [ b ] [ a ]	(a, b: relations)
 *	                |_________________|___________|		next, and back again
 *	                      |_________________|
 *
 * Joining and leaving take the lock in exclusive mode.  Every few blocks a
 * scan publishes its position, without the lock, and looks at the other scans,
 * with the lock in shared mode.  If the lock can't be had at once, or if a
 * process waits to acquire it in exclusive mode, the scan does not look.  (The
 * server grants a lock in shared mode even if a process waits to acquire it in
 * exclusive mode.  If a hundred scans look, that process could wait for a long
 * time.)
 *
 * The positions are on a line, not on a circle.  A scan that joins computes
 * its position from its distance to the nearest other scan.  It goes on
 * counting when it wraps around at the relation's end.  So it is always clear
 * which scan is in front, however small the relation is.  (Scans that began
 * before the relation grew wrap around a little earlier.  Until they end,
 * their positions are off by an eighth of a full window at most.)
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sharing/members.h"
#include "shmem/area.h"
#include "storage/lwlock.h"
#include "storage/proc.h"

typedef struct SharingPart
{
	LWLock		lock;
	pg_atomic_uint32 nwaiting;	/* processes that wait for the lock in
								 * exclusive mode */
	int			nmembers;
	int			nused;			/* members with this index or a higher one are
								 * not in use */
	int			nshared;		/* relations with more than one scan */
	Member		members[FLEXIBLE_ARRAY_MEMBER];
} SharingPart;

static SharingPart *share = NULL;

static int
members_wanted(void)
{
	return 2 * MaxBackends;
}

static void
init_share(void *part)
{
	SharingPart *new = part;

	LWLockInitialize(&new->lock, shared_tranche());
	pg_atomic_init_u32(&new->nwaiting, 0);
	new->nmembers = members_wanted();
	for (int i = 0; i < new->nmembers; i++)
	{
		pg_atomic_init_u32(&new->members[i].shared, 0);
		pg_atomic_init_u64(&new->members[i].position, 0);
		pg_atomic_init_u64(&new->members[i].asked, 0);
		pg_atomic_init_u32(&new->members[i].pace_ns, 0);
		pg_atomic_init_u32(&new->members[i].waits_elsewhere, 0);
		pg_atomic_init_u32(&new->members[i].stepped_at, 0);
	}
}

/*
 * members_attach
 *		Attach this process to the array; raises an error if that can't be
 *		done.
 */
void
members_attach(void)
{
	if (share == NULL)
		share = shared_part(PART_SHARE,
							offsetof(SharingPart, members) +
							members_wanted() * sizeof(Member), init_share);
}

/*
 * member_next
 *		The next member of the relation, in a circle.  The lock is held.
 */
Member *
member_next(const Member *member)
{
	return &share->members[member->next];
}

static inline bool
in_use(const Member *member)
{
	return RelFileNumberIsValid(member->locator.relNumber);
}

static ProcNumber
my_lock_group(void)
{
	return MyProc->lockGroupLeader ? GetNumberFromPGProc(MyProc->lockGroupLeader) :
		MyProcNumber;
}

/* --- Joining and leaving --- */

/* Acquire the lock in exclusive mode; scans that only look give way. */
static void
lock_to_change(void)
{
	pg_atomic_fetch_add_u32(&share->nwaiting, 1);
	LWLockAcquire(&share->lock, LW_EXCLUSIVE);
	pg_atomic_fetch_sub_u32(&share->nwaiting, 1);
}

/* Which block is at this position? */
static BlockNumber
block_at(const Member *member, int64 position)
{
	int64		distance = (position - member->joined_position) % member->nblocks;

	return (BlockNumber) ((member->block + distance + member->nblocks) % member->nblocks);
}

/* Distance from one block to another, the shorter way around the relation. */
static int64
signed_distance(BlockNumber from, BlockNumber to, BlockNumber nblocks)
{
	int64		distance = (int64) to - from;

	if (distance > nblocks / 2)
		return distance - nblocks;
	if (distance < -(int64) (nblocks / 2))
		return distance + nblocks;
	return distance;
}

/*
 * The position of this block, computed from its distance to the nearest scan
 * of the relation that has found about the same size.  If there is none, the
 * position is the block number plus 2^40, which is far from zero.  The lock is
 * held.
 */
static int64
position_for(const RelFileLocator *locator, BlockNumber nblocks, int window,
			 BlockNumber block)
{
	int64		position = (INT64CONST(1) << 40) + block;
	int64		nearest = PG_INT64_MAX;

	for (int i = 0; i < share->nused; i++)
	{
		Member	   *member = &share->members[i];
		int64		other = position_of(member);
		int64		distance;

		if (!RelFileLocatorEquals(member->locator, *locator) ||
			!same_size(member->nblocks, nblocks, window))
			continue;
		distance = signed_distance(block_at(member, other) % nblocks, block, nblocks);
		if (i64abs(distance) < nearest)
		{
			nearest = i64abs(distance);
			position = other + distance;
		}
	}
	return position;
}

/*
 * A scan of the member's relation has joined or left.  Note in each member of
 * the relation whether there are two scans now, where all processes of the
 * parallel scans of one lock group count as one scan.  was_shared: were there
 * two before?  The lock is held, in exclusive mode.
 */
static void
note_scans(Member *member, bool was_shared)
{
	bool		shared = false;

	for (Member *other = member_next(member); other != member; other = member_next(other))
		shared |= !is_sibling(other, member);
	pg_atomic_write_u32(&member->shared, shared ? 1 : 0);
	for (Member *other = member_next(member); other != member; other = member_next(other))
		pg_atomic_write_u32(&other->shared, shared ? 1 : 0);
	share->nshared += (int) shared - (int) was_shared;
}

/*
 * Put a new member into the array, and return it; NULL if the array is full.
 * parallel: is it one of the processes of a parallel scan?  The lock is held.
 */
static Member *
add_member(const RelFileLocator *locator, bool parallel)
{
	Member	   *new = NULL;
	Member	   *other = NULL;

	for (int i = 0; i < share->nused; i++)
	{
		Member	   *member = &share->members[i];

		if (!in_use(member))
			new = new ? new : member;
		else if (RelFileLocatorEquals(member->locator, *locator))
			other = member;
	}
	if (new == NULL && share->nused < share->nmembers)
		new = &share->members[share->nused++];
	if (new == NULL)
		return NULL;
	new->locator = *locator;
	new->parallel = parallel;
	new->lock_group = my_lock_group();
	new->next = new - share->members;
	if (other != NULL)
	{
		new->next = other->next;
		other->next = new - share->members;
	}
	note_scans(new, other != NULL && pg_atomic_read_u32(&other->shared) != 0);
	return new;
}

/*
 * member_join
 *		A scan of the relation joins the other scans of the relation.  Returns
 *		the new member; or NULL if the array is full, or if this process could
 *		not attach.  The caller must call member_leave().
 *
 * nblocks, window, parallel, block, ahead: see share_join().
 */
Member *
member_join(const RelFileLocator *locator, BlockNumber nblocks, int window,
			bool parallel, BlockNumber block, int64 ahead)
{
	Member	   *member;
	int64		position;

	if (share == NULL)
		return NULL;
	lock_to_change();
	position = position_for(locator, nblocks, window, block);
	member = add_member(locator, parallel);
	if (member != NULL)
	{
		member->nblocks = nblocks;
		member->block = block;
		member->joined_position = position;
		member->proc = MyProcNumber;
		pg_atomic_write_u64(&member->position, (uint64) position);
		pg_atomic_write_u64(&member->asked, (uint64) (position + ahead));
		pg_atomic_write_u32(&member->pace_ns, 0);
		pg_atomic_write_u32(&member->waits_elsewhere, 0);
		pg_atomic_write_u32(&member->stepped_at, members_second());
	}
	members_unlock();
	return member;
}

/*
 * member_leave
 *		The scan does not share reads any more.  Does not throw.
 */
void
member_leave(Member *me)
{
	Member	   *previous = me;

	lock_to_change();
	while (member_next(previous) != me)
		previous = member_next(previous);
	previous->next = me->next;
	note_scans(previous, pg_atomic_read_u32(&me->shared) != 0);
	memset(&me->locator, 0, sizeof(RelFileLocator));
	while (share->nused > 0 && !in_use(&share->members[share->nused - 1]))
		share->nused--;
	members_unlock();
}

/* --- For a scan that looks at the other scans --- */

/*
 * members_lock_to_look
 *		Acquire the lock in shared mode, if it can be had at once and no
 *		process waits to acquire it in exclusive mode.  Returns whether it was
 *		acquired.  If so, the caller must call members_unlock().
 */
bool
members_lock_to_look(void)
{
	return pg_atomic_read_u32(&share->nwaiting) == 0 &&
		LWLockConditionalAcquire(&share->lock, LW_SHARED);
}

/*
 * members_unlock
 *		Release the lock, which members_lock_to_look() or lock_to_change() has
 *		acquired.
 */
void
members_unlock(void)
{
	LWLockRelease(&share->lock);
}

/*
 * Does the relation of this member have two scans that run?  second: the
 * present time, see members_second().  A scan runs if it made its last step in
 * that second, in the one before, or in a later one.  (It may be in a later
 * one because the clock was read earlier.)  If the member is not the
 * relation's first one in the array, the result is false.
 */
static bool
two_scans_run(Member *first, uint32 second)
{
	Member	   *member = first;
	Member	   *runs = NULL;
	bool		found = false;

	do
	{
		if ((int32) (second - pg_atomic_read_u32(&member->stepped_at)) <= 1)
		{
			found |= runs != NULL && !is_sibling(runs, member);
			runs = runs ? runs : member;
		}
		member = member_next(member);
	} while (member > first);
	return found && member == first;
}

/*
 * members_shared_relations
 *		How many relations have more than one scan that runs?  If only one
 *		relation has more than one scan, it counts even if its scans do not
 *		run.  The lock is held.
 *
 * A scan may stand still for hours, because its client does not read, or
 * because it waits for a lock.  If it counted, a user who holds such scans of
 * some tables would leave no window to anybody.  Counting looks at all
 * members, so each process does it once in a second, or when the number of
 * relations that have more than one scan has changed.
 */
int
members_shared_relations(void)
{
	static int	nshared = 0;
	static uint32 counted_at = 0;
	static int	nrunning = 0;
	uint32		second;

	if (share->nshared <= 1)
		return share->nshared;
	second = members_second();
	if (nshared == share->nshared && counted_at == second)
		return nrunning;
	nshared = share->nshared;
	counted_at = second;
	nrunning = 0;
	for (int i = 0; i < share->nused; i++)
		if (in_use(&share->members[i]) && two_scans_run(&share->members[i], second))
			nrunning++;
	return nrunning;
}
