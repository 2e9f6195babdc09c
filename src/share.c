/*-------------------------------------------------------------------------
 *
 * share.c
 *	  Scans of one relation that run at the same time share their reads.
 *
 * A scan that begins starts where another one is, and from then on each of
 * them finds in shared_buffers what the one in front has read, as long as
 * they stay close.  Two things keep them close: whoever reads keeps in its
 * ring what the others have still to come to, and whoever is too far in front
 * waits a little.
 *
 *	    --- v ------------------------------------------------------------>
 *	        rear                                   front
 *	          C........B............................A
 *	          |<------------- behind -------------->|
 *	          |<---------------- window ------------------->|
 *
 *	    A keeps in its ring what it has read since C's position, B as well.
 *	    A waits when it has asked for blocks five sixteenths of a window beyond
 *	    what C has asked for; the rest is for what C has asked for and not got,
 *	    and for buffers that rings have still to let go.
 *
 * The positions are on a line, not on a circle.  A scan's v is the number of
 * the block that it asks for (for the others, that it has got: what is between
 * is its look-ahead, and pinned), and it goes on counting when the scan wraps
 * around at the relation's end.  A scan that begins takes over the v of the
 * one that it starts at.  So it is always clear who is in front, whoever is
 * last never waits, and no two wait for each other, however small the
 * relation is.  (Scans that began before the relation grew wrap around a
 * little earlier; until they end, that is off by much less than a window.)
 *
 * The processes of one parallel scan divide its blocks, so they do not share
 * with each other.  One that gets no processor for a while may be far behind
 * with a chunk that nobody else will do; so the scan is where the foremost one
 * has asked for a block.
 *
 * Nobody is waited for who
 *	  - is of the same process or lock group: a self-join, a leader and its
 *	    workers;
 *	  - does not run: its cursor is idle, or its process waits for a client, a
 *	    lock, another process, a foreign server or the time;
 *	  - has not moved for PATIENCE_MS;
 *	  - or has cost more than it can be worth.  Let the one in front be r times
 *	    as fast.  If it waits, it takes r times as long.  If it does not, both
 *	    read for themselves, and where storage is the limit, the slower one
 *	    takes 1/r of what it has: then it takes 1 + 1/r times as long.  That is
 *	    the same for r = 1.618.  So nobody waits longer than 0.618 of the time
 *	    that it has run, and a second at most to begin with.
 * The last two are let go: for good, by all, and a parallel scan as a whole.  So
 * is one that is farther behind than two windows.  Who is let go is a level
 * lower from then on, and those on one level wait for each other: the slow
 * ones, too.  But pages are kept for all who are close, on whatever level: else
 * they would come to just those that are about to be reused.
 *
 * The members are in a fixed array, linked by relation.  Joining and leaving
 * take the lock; a member writes its own position without it; who looks at
 * the others takes it in shared mode, if it can have it at once, or looks the
 * next time.
 *
 * The ideas are those of synchronized scans (syncscan.c) and of the thread
 * "Buffer cache is not scan resistant" on pgsql-hackers.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "portability/instr_time.h"
#include "share.h"
#include "shared.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

/* Who has not moved for so long is not waited for any more. */
#define PATIENCE_MS		200

/* What a scan may wait, of the time that it has run: see above. */
#define WORTH_WAITING	0.618

/*
 * What a scan may wait at first, before it has run for long: most of what it
 * will take at least, at some microseconds a block; but not so much that it
 * matters to one that ends early.  All that begin together begin slowly.
 */
#define CREDIT_MS		100
#define CREDIT_MS_PER_BLOCK	0.002
#define MAX_CREDIT_MS	1000

/* Who is farther in front than so many blocks waits. */
#define MAX_APART(window)	((uint64) (window) * 5 / 16)

/*
 * What is read is not kept for who is farther behind: what a ring has kept longest
 * is what it reuses next, and nobody shall come to that.  Who was must come closer
 * before it is again: a whole window is not let go and kept in turn.
 */
#define MAX_BEHIND(window)	((uint64) (window) * 7 / 8)
#define MAX_BEHIND_AGAIN(window)	((uint64) (window) * 3 / 4)

/* How long one wait takes before the others are looked at again. */
#define NAP_US			200

/* So many times who begins waits until it is noticed: see share_meet(). */
#define NAPS_TO_MEET	10

/* Who shares looks at the others once in so many blocks that it asks for. */
#define STEPS_PER_LOOK	16

/* Each process writes to its own all the time: no two are on one cache line. */
typedef struct Member
{
	RelFileLocator locator;		/* relNumber 0: not in use */
	int			next;			/* of the same relation, in a circle */
	BlockNumber nblocks;
	ProcNumber	proc;
	ProcNumber	lock_group;		/* its leader's, or its own */
	bool		parallel;		/* one of several processes of a scan */
	uint64		first_v;		/* where the scan began, with all its workers */
	BlockNumber first_block;	/* and which block that was */
	/* these change without the lock */
	pg_atomic_uint64 v;			/* what it has got */
	pg_atomic_uint64 asked;		/* what it has asked for */
	pg_atomic_uint32 paused;
	pg_atomic_uint32 level;		/* times that it was let go */
	pg_atomic_uint32 noticed;	/* one in front keeps for it what it comes to */
	char		pad[PG_CACHE_LINE_SIZE];
} Member;

typedef struct SharePart
{
	LWLock		lock;
	int			nmembers;
	int			nused;			/* those behind the first so many are not in use */
	Member		members[FLEXIBLE_ARRAY_MEMBER];
} SharePart;

struct ShareScan
{
	Member	   *member;
	Member	   *followed;		/* another process's that is to notice it, or NULL */
	int			window;			/* blocks */
	uint64		v;
	int			steps_to_look;	/* before it looks at the others again */
	ShareState	state;			/* what it saw then */
	Member	   *last;			/* whom it keeps most for, or NULL */
	Member	   *rear;			/* whom it waits for, or NULL */
	uint64		rear_v;			/* where that was when it last moved */
	instr_time	rear_moved;		/* and when */
	instr_time	began;			/* later by the time that it has paused */
	instr_time	paused;			/* since when it does now; or zero */
	double		waited_ms;
};

static SharePart *share = NULL;
static uint32 wait_event = 0;

static int
members_wanted(void)
{
	return 2 * MaxBackends;
}

static void
init_share(void *part)
{
	SharePart  *new = part;

	LWLockInitialize(&new->lock, shared_tranche());
	new->nmembers = members_wanted();
	new->nused = 0;
	for (int i = 0; i < new->nmembers; i++)
	{
		pg_atomic_init_u64(&new->members[i].v, 0);
		pg_atomic_init_u64(&new->members[i].asked, 0);
		pg_atomic_init_u32(&new->members[i].paused, 0);
		pg_atomic_init_u32(&new->members[i].level, 0);
		pg_atomic_init_u32(&new->members[i].noticed, 0);
	}
}

/*
 * share_attach
 *		Attach this process; raises an error if that can't be done.
 */
void
share_attach(void)
{
	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("RingShare");
	if (share == NULL)
		share = shared_part(PART_SHARE,
							offsetof(SharePart, members) +
							members_wanted() * sizeof(Member), init_share);
}

static inline bool
in_use(const Member *member)
{
	return RelFileNumberIsValid(member->locator.relNumber);
}

static inline bool
is_paused(Member *member)
{
	return pg_atomic_read_u32(&member->paused) != 0;
}

static inline uint32
level_of(Member *member)
{
	return pg_atomic_read_u32(&member->level);
}

static double
milliseconds_since(instr_time then)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, then);
	return INSTR_TIME_GET_MILLISEC(now);
}

static ProcNumber
my_lock_group(void)
{
	return MyProc->lockGroupLeader ? GetNumberFromPGProc(MyProc->lockGroupLeader) :
		MyProcNumber;
}

/* Are they processes of the same parallel scan? */
static inline bool
is_sibling(const Member *a, const Member *b)
{
	return a->parallel && b->parallel && a->lock_group == b->lock_group &&
		a->first_v == b->first_v && a->nblocks == b->nblocks;
}

/*
 * Let a scan go, with all its processes.  For good: a level only grows.  The
 * lock is held.
 */
static void
let_go(Member *member, uint32 level)
{
	Member	   *one = member;

	do
	{
		uint32		expected = level;

		if (one == member || is_sibling(one, member))
			pg_atomic_compare_exchange_u32(&one->level, &expected, level + 1);
		one = &share->members[one->next];
	} while (one != member);
}

/* Can their positions be compared?  Off by a little is good enough. */
static bool
same_size(BlockNumber a, BlockNumber b, int window)
{
	return Max(a, b) - Min(a, b) <= (BlockNumber) (window / 8);
}

/*
 * The scan of the same lock group that has begun already at this block: a
 * parallel scan's, of which we are a worker or the leader.  The lock is held.
 */
static Member *
same_scan(const RelFileLocator *locator, BlockNumber nblocks, BlockNumber start)
{
	for (int i = 0; i < share->nused; i++)
	{
		Member	   *member = &share->members[i];

		if (RelFileLocatorEquals(member->locator, *locator) &&
			member->lock_group == my_lock_group() && member->parallel &&
			member->nblocks == nblocks && member->first_block == start)
			return member;
	}
	return NULL;
}

/* Does a scan of this relation that begins want to start where this one is? */
static bool
is_to_follow(Member *member, const RelFileLocator *locator, BlockNumber nblocks,
			 int window)
{
	return RelFileLocatorEquals(member->locator, *locator) &&
		!is_paused(member) && same_size(member->nblocks, nblocks, window);
}

/*
 * The last one of those that are together at the front, on the uppermost level:
 * whoever starts there finds all that they have read.  Not one that is about to
 * begin itself, if there is another.  The lock is held.
 */
static Member *
best_to_follow(const RelFileLocator *locator, BlockNumber nblocks, int window)
{
	Member	   *front = NULL;
	Member	   *best = NULL;

	for (int i = 0; i < share->nused; i++)
	{
		Member	   *member = &share->members[i];

		if (is_to_follow(member, locator, nblocks, window) &&
			(front == NULL || level_of(member) < level_of(front) ||
			 (level_of(member) == level_of(front) &&
			  pg_atomic_read_u64(&member->v) > pg_atomic_read_u64(&front->v))))
			front = member;
	}
	best = front;
	for (int i = 0; front != NULL && i < share->nused; i++)
	{
		Member	   *member = &share->members[i];
		uint64		v = pg_atomic_read_u64(&member->v);

		if (is_to_follow(member, locator, nblocks, window) &&
			level_of(member) == level_of(front) &&
			pg_atomic_read_u64(&member->asked) > member->first_v &&
			v + MAX_BEHIND(window) >= pg_atomic_read_u64(&front->v) &&
			v < pg_atomic_read_u64(&best->v))
			best = member;
	}
	return best;
}

/* Put a new member into the array; NULL if it is full.  The lock is held. */
static Member *
add_member(const RelFileLocator *locator)
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
	if (other)
	{
		new->next = other->next;
		other->next = new - share->members;
	}
	else
		new->next = new - share->members;
	return new;
}

/* Which block is at v? */
static BlockNumber
block_at(const Member *member, uint64 v)
{
	return (member->first_block + (v - member->first_v)) % member->nblocks;
}

/*
 * share_join
 *		A scan of the relation, which has nblocks blocks, begins; returns its
 *		part, palloc'd in the current memory context, or NULL if there is no
 *		room for one more, or this process has not got all that is shared, or
 *		the parallel scan that it is part of does not share (any more).
 *
 * window: how many blocks back this scan can keep for others.  parallel: this is
 * one of the processes of a parallel scan.  start: where it would begin; if
 * may_move, it shall begin at share_start() instead.
 */
ShareScan *
share_join(Relation rel, BlockNumber nblocks, int window, bool parallel,
		   BlockNumber start, bool may_move)
{
	ShareScan  *scan;
	const RelFileLocator *locator = &rel->rd_locator;
	Member	   *to_follow = NULL;
	Member	   *member = NULL;
	uint64		first_v = start;
	BlockNumber first_block = start;

	if (share == NULL)
		return NULL;
	scan = palloc0(sizeof(ShareScan));

	LWLockAcquire(&share->lock, LW_EXCLUSIVE);
	if (may_move)
		to_follow = best_to_follow(locator, nblocks, window);
	else
		to_follow = same_scan(locator, nblocks, start);
	if (to_follow != NULL && may_move)
	{
		first_v = pg_atomic_read_u64(&to_follow->v);
		first_block = block_at(to_follow, first_v) % nblocks;
	}
	else if (to_follow != NULL)
		first_v = to_follow->first_v;

	if (to_follow != NULL || may_move)
		member = add_member(locator);
	if (member != NULL)
	{
		member->nblocks = nblocks;
		member->proc = MyProcNumber;
		member->lock_group = my_lock_group();
		member->parallel = parallel;
		member->first_v = first_v;
		member->first_block = first_block;
		pg_atomic_write_u64(&member->v, first_v);
		pg_atomic_write_u64(&member->asked, first_v);
		pg_atomic_write_u32(&member->paused, 0);
		pg_atomic_write_u32(&member->noticed, 0);
		pg_atomic_write_u32(&member->level, to_follow ? level_of(to_follow) : 0);
	}
	LWLockRelease(&share->lock);

	if (member == NULL)
	{
		pfree(scan);
		return NULL;
	}
	scan->member = member;
	if (may_move && to_follow != NULL && to_follow->lock_group != my_lock_group())
		scan->followed = to_follow;
	scan->window = window;
	scan->v = first_v;
	INSTR_TIME_SET_CURRENT(scan->began);
	return scan;
}

/* The block that the scan begins with. */
BlockNumber
share_start(const ShareScan *scan)
{
	return scan->member->first_block;
}

/*
 * Does the process of this member run, so that waiting for it may help?  Not if
 * it waits itself for a client, a lock, another process, a foreign server or the
 * time; or for the sake of another scan of its: who is last never waits for this
 * one's.
 */
static bool
is_running(const Member *member)
{
	uint32		info = *(volatile uint32 *) &GetPGProcByNumber(member->proc)->wait_event_info;

	if (info == WAIT_EVENT_BUFFER_IO)
		return true;			/* for another process's read of a page */
	switch (info & 0xFF000000)
	{
		case PG_WAIT_LOCK:
		case PG_WAIT_CLIENT:
		case PG_WAIT_IPC:
		case PG_WAIT_TIMEOUT:
		case PG_WAIT_ACTIVITY:
		case PG_WAIT_EXTENSION: /* such as this file's own */
			return false;
		default:
			return true;
	}
}

/* Remember who is last, and since when it has been there. */
static void
note_rear(ShareScan *scan, Member *rear, uint64 v)
{
	if (rear != NULL && (rear != scan->rear || v != scan->rear_v))
	{
		scan->rear_v = v;
		INSTR_TIME_SET_CURRENT(scan->rear_moved);
	}
	scan->rear = rear;
}

/* Has waiting for the last one gone on for too long? */
static bool
is_out_of_patience(const ShareScan *scan)
{
	double		ran = milliseconds_since(scan->began) - scan->waited_ms;
	double		credit = Max(CREDIT_MS, Min(MAX_CREDIT_MS,
											CREDIT_MS_PER_BLOCK * scan->member->nblocks));

	return milliseconds_since(scan->rear_moved) > PATIENCE_MS ||
		scan->waited_ms > credit + WORTH_WAITING * ran;
}

/*
 * Is another process of the same parallel scan in front of this one?  Then that
 * says how far the scan has come: a process that is behind has a chunk to do
 * that nobody else will.
 */
static bool
is_behind_sibling(Member *member)
{
	uint64		asked = pg_atomic_read_u64(&member->asked);

	if (!member->parallel)
		return false;
	for (Member *other = &share->members[member->next]; other != member;
		 other = &share->members[other->next])
		if (is_sibling(other, member) && pg_atomic_read_u64(&other->asked) > asked)
			return true;
	return false;
}

/*
 * Does this scan keep what it reads for another one, which has got so much?  Not
 * only for those on its own level: see above.
 */
static bool
keeps_for(const ShareScan *scan, const Member *member, uint64 v)
{
	return v + (member == scan->last ? MAX_BEHIND(scan->window) :
				MAX_BEHIND_AGAIN(scan->window)) >= scan->v;
}

/* Tell one that begins behind this scan that it may: see share_meet(). */
static void
notice(const ShareScan *scan, Member *member)
{
	if (pg_atomic_read_u32(&member->noticed) == 0 &&
		pg_atomic_read_u64(&member->asked) <= scan->v &&
		member->lock_group != scan->member->lock_group)
		pg_atomic_write_u32(&member->noticed, 1);
}

/* Look at the others.  The lock is held, in shared mode. */
static void
look_at_others(ShareScan *scan)
{
	Member	   *me = scan->member;
	Member	   *last = NULL;
	Member	   *rear = NULL;
	uint64		rear_v = 0;
	uint64		last_v = scan->v;
	uint32		level = level_of(me);
	int			nothers = 0;

	for (int i = me->next; &share->members[i] != me; i = share->members[i].next)
	{
		Member	   *member = &share->members[i];
		uint64		v;
		uint64		asked;
		bool		may_wait;

		if (is_paused(member) || is_sibling(member, me) ||
			!same_size(member->nblocks, me->nblocks, scan->window))
			continue;
		v = pg_atomic_read_u64(&member->v);
		asked = pg_atomic_read_u64(&member->asked);
		may_wait = level_of(member) == level && member->lock_group != me->lock_group;
		if (asked + 2 * scan->window < scan->v && may_wait &&
			!is_behind_sibling(member))
			let_go(member, level);
		if (member == scan->last && !keeps_for(scan, member, v) && !me->parallel)
			scan->state.lost = true;
		if (asked > scan->v + 2 * scan->window || asked + MAX_BEHIND(scan->window) < scan->v)
			continue;
		nothers++;
		if (keeps_for(scan, member, v))
		{
			notice(scan, member);
			if (v < last_v)
			{
				last = member;
				last_v = v;
			}
		}
		if (asked < scan->v && may_wait && (rear == NULL || asked < rear_v) &&
			is_running(member) && !is_behind_sibling(member))
		{
			rear = member;
			rear_v = asked;
		}
	}

	scan->last = last;
	note_rear(scan, rear, rear_v);
	scan->state.shared = nothers > 0;
	scan->state.behind = scan->v - last_v;
	scan->state.wait = rear != NULL && scan->v - rear_v > MAX_APART(scan->window);
	if (scan->state.wait && is_out_of_patience(scan))
	{
		let_go(rear, level);
		scan->state.wait = false;
	}
}

/* Look at the others if the lock can be had; else the next time. */
static void
try_to_look(ShareScan *scan)
{
	if (!LWLockConditionalAcquire(&share->lock, LW_SHARED))
		return;
	look_at_others(scan);
	LWLockRelease(&share->lock);
	scan->steps_to_look = scan->state.shared ? STEPS_PER_LOOK : 1;
}

/*
 * share_is_shared
 *		Did anybody share with the scan when it looked last?
 */
bool
share_is_shared(const ShareScan *scan)
{
	return scan->state.shared;
}

/*
 * share_step
 *		The scan asks for a block, and comes to another one next; both as so
 *		many after its first one.
 */
const ShareState *
share_step(ShareScan *scan, int64 offset, int64 next_offset)
{
	uint64		v = scan->member->first_v + offset;

	scan->state.lost = false;
	scan->state.behind += (int64) (v - scan->v);
	scan->v = v;
	pg_atomic_write_u64(&scan->member->v, scan->member->first_v + next_offset);
	pg_atomic_write_u64(&scan->member->asked, v);
	if (--scan->steps_to_look <= 0)
		try_to_look(scan);
	if (!scan->state.shared)
		scan->state.behind = 0;
	return &scan->state;
}

/* Wait a little.  Can be cancelled. */
static void
nap(void)
{
	compat_submit_staged();
	pgstat_report_wait_start(wait_event);
	pg_usleep(NAP_US);
	pgstat_report_wait_end();
	CHECK_FOR_INTERRUPTS();
}

/* Begin where the one that is followed is now. */
static void
catch_up(ShareScan *scan)
{
	Member	   *me = scan->member;
	Member	   *followed = scan->followed;
	uint64		v;

	LWLockAcquire(&share->lock, LW_EXCLUSIVE);
	v = pg_atomic_read_u64(&followed->v);
	if (RelFileLocatorEquals(followed->locator, me->locator) && v > me->first_v)
	{
		me->first_block = block_at(followed, v) % me->nblocks;
		me->first_v = scan->v = v;
		pg_atomic_write_u64(&me->v, v);
		pg_atomic_write_u64(&me->asked, v);
	}
	LWLockRelease(&share->lock);
}

/*
 * share_meet
 *		A scan that begins waits, a few milliseconds at most, until the one that it
 *		follows, or another one there, has noticed it and keeps what it reads, and
 *		begins where that is then.  Can be cancelled.
 *
 * Who is alone has a small ring, reuses a page soon after it has got it, and tells
 * where it is now and then only.  Who began there would pin pages just between the
 * last look at their slots and the read that takes them.  But what the other one
 * comes to after it has noticed this scan is kept.
 */
void
share_meet(ShareScan *scan)
{
	if (scan->followed == NULL)
		return;
	for (int naps = 0; naps < NAPS_TO_MEET && in_use(scan->followed) &&
		 pg_atomic_read_u32(&scan->member->noticed) == 0; naps++)
		nap();
	catch_up(scan);
}

/*
 * share_wait
 *		Wait a little, as share_step() said, and look again.  Can be cancelled.
 */
const ShareState *
share_wait(ShareScan *scan)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	nap();
	scan->waited_ms += milliseconds_since(start);
	try_to_look(scan);
	return &scan->state;
}

/*
 * share_pause
 *		The scan stops for an unknown time, or goes on.
 */
void
share_pause(ShareScan *scan, bool paused)
{
	pg_atomic_write_u32(&scan->member->paused, paused ? 1 : 0);
	if (paused)
		INSTR_TIME_SET_CURRENT(scan->paused);
	else if (!INSTR_TIME_IS_ZERO(scan->paused))
	{
		instr_time	now;

		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_ACCUM_DIFF(scan->began, now, scan->paused);
		INSTR_TIME_SET_ZERO(scan->paused);
	}
}

/*
 * share_leave
 *		The scan does not share any more; frees its part.  Does not throw.
 */
void
share_leave(ShareScan *scan)
{
	Member	   *me = scan->member;
	int			index = me - share->members;
	int			i = me->next;

	LWLockAcquire(&share->lock, LW_EXCLUSIVE);
	while (share->members[i].next != index)
		i = share->members[i].next;
	share->members[i].next = me->next;
	memset(&me->locator, 0, sizeof(RelFileLocator));
	while (share->nused > 0 && !in_use(&share->members[share->nused - 1]))
		share->nused--;
	LWLockRelease(&share->lock);
	pfree(scan);
}
