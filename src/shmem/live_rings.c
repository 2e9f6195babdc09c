/*-------------------------------------------------------------------------
 *
 * live_rings.c
 *	  The rings that are in use now, for every session to see.
 *
 * While a ring runs, its public part and its slots are in shared memory, and
 * the ring works on them there.  So nothing has to be reported while a scan
 * runs, and other sessions see the ring as its process last saw it.
 *
 *	  places, by ProcNumber       the segment of a process
 *	  +-----+-----+-----+       +--------------------------------------------+
 *	  | pid |  0  | pid |       | LiveRing[MAX_SHOWN]   RingSlot[MAX_SLOTS]  |
 *	  | seg |     | seg-+------>|  0: shown, slots ---------->|<---->|       |
 *	  +-----+-----+-----+       |  1: not in use                             |
 *	                            +--------------------------------------------+
 *
 * A process makes its segment when a ring begins, and keeps it for its next
 * rings, because it takes time to make one.  At the end of a transaction that
 * has not used the segment, the process gives it back if the last transaction
 * that used it ended a second or more before.  If there are more than half of
 * the maximum number of segments, the process gives it back at the end of each
 * transaction.  So sessions without a transaction leave half of them to
 * others.  (If the limit is lowered, this holds once each session has ended a
 * transaction.)
 *
 * The segment's size is a constant, so no user can make a session use more.
 * All segments together take no more than pg_ringctl.max_shared_memory, so
 * that they leave room for others, such as parallel queries.  If there is no
 * room for a ring, or the segment can't be made because the system has no
 * memory for it, the ring is in private memory: it works, but is not shown.
 * If there is room for the ring but not for its slots, only the slots are in
 * private memory.  In both cases the ring is counted in not_shown, unless the
 * process has no shared memory at all.
 *
 * There is no lock.  Only the process itself writes to its segment.  When a
 * ring takes the place of another one, the process sets "shown" to 0, writes
 * everything else, and then sets "shown" to the number of the new ring.
 * Another session that reads a ring copies it, and then checks that "shown"
 * has not changed; if it has, the copy is void.  (A ring that starts another
 * pass keeps its number.  A copy made at that moment may have parts of both
 * passes.)
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "params.h"
#include "shmem/area.h"
#include "shmem/live_rings.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

/* Maximum number of rings of one process that are shown. */
#define MAX_SHOWN		16

/*
 * Maximum number of slots that these rings have together.  They take 128 kB.
 * With shared_buffers of 256 MB or more, and default settings otherwise, a
 * ring that sizes itself may grow to some 2,500 buffers.
 */
#ifndef MAX_SLOTS
#define MAX_SLOTS		4096
#endif

/*
 * A segment that was not used for this number of seconds is given back at the
 * end of a transaction.
 */
#define KEEP_FOR_S		1

/* Seconds until the next attempt, if dsm_create() has failed. */
#define RETRY_AFTER_S	5

struct LiveRing
{
	pg_atomic_uint64 shown;		/* ringid while the ring is shown; else 0 */
	LiveInfo	info;
	RingPublic	public;
	int			first_slot;		/* index of its first slot in the segment */
	int			nslots;			/* number of slots there; may be 0 */
	bool		in_use;			/* used by the owner only */
};

/* What is in a process's segment. */
typedef struct LiveSegment
{
	LiveRing	rings[MAX_SHOWN];
	RingSlot	slots[MAX_SLOTS];
} LiveSegment;

typedef struct LivePlace
{
	pg_atomic_uint32 pid;		/* 0: no process is attached */
	pg_atomic_uint32 segment;	/* a dsm_handle */
	uint64		nrings;			/* rings that got a number so far; used by the
								 * owner only */
	char		pad[PG_CACHE_LINE_SIZE - 2 * sizeof(uint64)];
} LivePlace;

typedef struct LivePart
{
	pg_atomic_uint64 not_shown; /* rings that were not shown, or whose slots
								 * were not, because there was no room, or no
								 * segment */
	pg_atomic_uint32 nsegments; /* segments of all processes */
	int			nplaces;
	LivePlace	places[FLEXIBLE_ARRAY_MEMBER];
} LivePart;

static LivePart *live = NULL;
static LivePlace *my_place = NULL;
static dsm_segment *my_dsm_segment = NULL;
static LiveSegment *my_segment = NULL;

/* Is this process's segment counted in nsegments? */
static bool segment_counted = false;

/*
 * Has a ring begun in the segment since maybe_release_segment() last looked?
 * When did the last transaction that used the segment end?
 */
static bool segment_used = false;
static TimestampTz last_used = 0;

/* When the last try to make a segment failed; 0 if it succeeded. */
static TimestampTz last_failed = 0;

static int
places_wanted(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

static void
init_live(void *part)
{
	LivePart   *new = part;

	pg_atomic_init_u64(&new->not_shown, 0);
	pg_atomic_init_u32(&new->nsegments, 0);
	new->nplaces = places_wanted();
	for (int i = 0; i < new->nplaces; i++)
	{
		pg_atomic_init_u32(&new->places[i].pid, 0);
		pg_atomic_init_u32(&new->places[i].segment, DSM_HANDLE_INVALID);
	}
}

/* Maximum number of segments of all processes. */
static uint32
max_segments(void)
{
	return (Size) param_max_shared_memory * 1024 / sizeof(LiveSegment);
}

/*
 * Count a segment before it is made.  Returns false if there are as many as
 * there may be.
 */
static bool
count_segment(void)
{
	if (segment_counted)
		return true;			/* counted by a call that was cancelled */
	if (pg_atomic_fetch_add_u32(&live->nsegments, 1) < max_segments())
		segment_counted = true;
	else
		pg_atomic_fetch_sub_u32(&live->nsegments, 1);
	return segment_counted;
}

static void
uncount_segment(void)
{
	if (segment_counted)
		pg_atomic_fetch_sub_u32(&live->nsegments, 1);
	segment_counted = false;
}

/* The process exits: other sessions must not look at its rings any more. */
static void
forget_place(void)
{
	pg_atomic_write_u32(&my_place->segment, DSM_HANDLE_INVALID);
	pg_atomic_write_u32(&my_place->pid, 0);
	uncount_segment();
}

/*
 * live_attach
 *		Attach this process to the live rings.  Raises an error if that can't
 *		be done.
 */
void
live_attach(void)
{
	if (live == NULL)
		live = shared_part(PART_LIVE,
						   offsetof(LivePart, places) +
						   places_wanted() * sizeof(LivePlace),
						   init_live);
	if (my_place != NULL || MyProcNumber < 0 || MyProcNumber >= live->nplaces)
		return;

	shared_on_exit(forget_place);
	my_place = &live->places[MyProcNumber];
	pg_atomic_write_u32(&my_place->segment, DSM_HANDLE_INVALID);
	pg_atomic_write_u32(&my_place->pid, MyProcPid);
}

/* Does any ring of this process use its segment? */
static bool
segment_is_in_use(void)
{
	for (int i = 0; i < MAX_SHOWN; i++)
		if (my_segment->rings[i].in_use)
			return true;
	return false;
}

/* May this process keep a segment that it does not use now? */
static bool
may_keep_segment(TimestampTz now)
{
	return now - last_used < KEEP_FOR_S * USECS_PER_SEC &&
		pg_atomic_read_u32(&live->nsegments) <= max_segments() / 2;
}

static void
release_segment(void)
{
	pg_atomic_write_u32(&my_place->segment, DSM_HANDLE_INVALID);
	my_segment = NULL;
	dsm_detach(my_dsm_segment);
	uncount_segment();
}

/*
 * A transaction, or a ring of a failed transaction or subtransaction, has
 * ended.  Give the segment back if this process may not keep it.  If a ring of
 * a failed query still uses it, nothing happens until that ring ends, too.
 * Does not throw.
 */
static void
maybe_release_segment(void)
{
	TimestampTz now;

	if (my_segment == NULL || segment_is_in_use())
		return;
	now = GetCurrentTimestamp();
	if (segment_used)
		last_used = now;
	segment_used = false;
	if (!may_keep_segment(now))
		release_segment();
}

static void
at_end_of_transaction(XactEvent event, void *arg pg_attribute_unused())
{
	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PARALLEL_PRE_COMMIT &&
		event != XACT_EVENT_PRE_PREPARE)
		maybe_release_segment();
}

/* Make the segment of this process. */
static void
make_segment(void)
{
	static bool registered = false;
	dsm_segment *segment;
	LiveSegment *new;

	if (!registered)
		RegisterXactCallback(at_end_of_transaction, NULL);
	registered = true;
	if (!count_segment())
		return;

	last_failed = GetCurrentTimestamp();
	segment = dsm_create(sizeof(LiveSegment), DSM_CREATE_NULL_IF_MAXSEGMENTS);
	if (segment == NULL)
		return;
	last_failed = 0;
	dsm_pin_mapping(segment);
	new = dsm_segment_address(segment);
	memset(new, 0, sizeof(LiveSegment));
	for (int i = 0; i < MAX_SHOWN; i++)
		pg_atomic_init_u64(&new->rings[i].shown, 0);
	my_dsm_segment = segment;
	my_segment = new;
	pg_write_barrier();
	pg_atomic_write_u32(&my_place->segment, dsm_segment_handle(segment));
}

/* Is it too early to try again to make a segment? */
static bool
has_failed_lately(void)
{
	return last_failed != 0 &&
		!TimestampDifferenceExceeds(last_failed, GetCurrentTimestamp(),
									RETRY_AFTER_S * 1000);
}

/*
 * An unused ring in this process's segment; makes the segment if there is
 * none.  NULL if the segment can't be made, or if all its rings are in use.
 */
static LiveRing *
get_unused_ring(void)
{
	if (my_place == NULL || (my_segment == NULL && has_failed_lately()))
		return NULL;
	if (my_segment == NULL &&
		(!shared_try_segment(make_segment) || my_segment == NULL))
	{
		uncount_segment();
		return NULL;
	}
	segment_used = true;
	for (int i = 0; i < MAX_SHOWN; i++)
		if (!my_segment->rings[i].in_use)
			return &my_segment->rings[i];
	return NULL;
}

/* Index of the first of nslots free slots in the segment; -1 if not found. */
static int
find_free_slots(int nslots)
{
	int			first = 0;

	for (int i = 0; i < MAX_SHOWN; i++)
	{
		const LiveRing *ring = &my_segment->rings[i];

		if (ring->in_use && ring->nslots > 0 &&
			first < ring->first_slot + ring->nslots &&
			ring->first_slot < first + nslots)
		{
			first = ring->first_slot + ring->nslots;
			i = -1;				/* rings before this one may overlap now */
		}
	}
	return first + nslots <= MAX_SLOTS ? first : -1;
}

static void
count_not_shown(void)
{
	if (live != NULL)
		pg_atomic_fetch_add_u64(&live->not_shown, 1);
}

/*
 * live_enter
 *		Returns a ring in the segment, with nslots slots, or without slots if
 *		there is no room for them; or NULL if there is no room for the ring, or
 *		the segment can't be made.  Other sessions do not see the ring until
 *		live_show().  The slots are not initialized: a ring that has room for
 *		thousands of slots may use a few only.  The caller must give the ring
 *		back with live_leave().
 *
 * If it returns NULL, or a ring without the slots that were asked for, sets
 * *not_shown, and counts the ring unless *not_shown was set before.  Raises an
 * error only if the query is cancelled while the segment is made.
 */
LiveRing *
live_enter(int nslots, bool *not_shown)
{
	LiveRing   *ring = get_unused_ring();
	int			first_slot = ring != NULL ? find_free_slots(nslots) : -1;

	if (first_slot < 0 && !*not_shown)
	{
		count_not_shown();
		*not_shown = true;
	}
	if (ring == NULL)
		return NULL;
	memset(&ring->public, 0, sizeof(RingPublic));
	ring->in_use = true;
	ring->first_slot = Max(0, first_slot);
	ring->nslots = first_slot < 0 ? 0 : nslots;
	return ring;
}

/*
 * live_leave
 *		The ring is not in use any more.  Does not throw.
 */
void
live_leave(LiveRing *ring)
{
	live_hide(ring);
	ring->in_use = false;
	if (!IsTransactionState() && !proc_exit_inprogress)
		maybe_release_segment();	/* the (sub)transaction has ended or
									 * failed */
}

/*
 * live_new_ringid
 *		Returns a number for a ring, which no other ring gets while the server
 *		runs; or 0 if this process can't show rings.
 *
 * Each process counts its own rings, so that sessions do not contend for a
 * counter.
 */
uint64
live_new_ringid(void)
{
	if (my_place == NULL)
		return 0;
	return my_place->nrings++ * live->nplaces + (my_place - live->places) + 1;
}

/*
 * live_show
 *		From now on other sessions see the ring, under this number.  Does
 *		nothing if they see it already.
 */
void
live_show(LiveRing *ring, uint64 ringid, const LiveInfo *info)
{
	if (pg_atomic_read_u64(&ring->shown) != 0)
		return;
	ring->info = *info;
	pg_write_barrier();
	pg_atomic_write_u64(&ring->shown, ringid);
}

/*
 * live_hide
 *		From now on other sessions do not see the ring.
 */
void
live_hide(LiveRing *ring)
{
	pg_atomic_write_u64(&ring->shown, 0);
	pg_write_barrier();
}

/* The ring's public part, and its slots (NULL if it has none there). */
RingPublic *
live_public(LiveRing *ring)
{
	return &ring->public;
}

RingSlot *
live_slots(LiveRing *ring)
{
	return ring->nslots > 0 ? &my_segment->slots[ring->first_slot] : NULL;
}

/*
 * Number of rings since the server started that were not shown, or whose slots
 * were not shown.
 */
int64
live_not_shown(void)
{
	return pg_atomic_read_u64(&live->not_shown);
}

/*
 * Copy a ring's slots; NULL if none are shown.  The ring may be changing while
 * we read it, so check that we do not read beyond the segment.
 */
static RingSlot *
copy_slots(const LiveSegment *segment, const LiveRing *ring, int nslots)
{
	int			first = ring->first_slot;
	RingSlot   *slots;

	if (nslots <= 0 || nslots > ring->nslots || first < 0 || first + nslots > MAX_SLOTS)
		return NULL;
	slots = palloc(nslots * sizeof(RingSlot));
	memcpy(slots, &segment->slots[first], nslots * sizeof(RingSlot));
	return slots;
}

/*
 * Copy one ring.  Returns false if it is not shown, or if it was hidden or
 * replaced meanwhile.
 */
static bool
view_ring(LiveSegment *segment, int i, bool slots, LiveView *view)
{
	LiveRing   *ring = &segment->rings[i];

	view->ringid = pg_atomic_read_u64(&ring->shown);
	if (view->ringid == 0)
		return false;
	pg_read_barrier();
	view->info = ring->info;
	view->public = ring->public;
	view->slots = slots ? copy_slots(segment, ring, view->public.nbuffers) : NULL;
	pg_read_barrier();
	return pg_atomic_read_u64(&ring->shown) == view->ringid;
}

/* Add to *views the rings of the process that has this place and this pid. */
static void
view_place(LivePlace *place, uint32 pid, bool slots, List **views)
{
	dsm_handle	handle = pg_atomic_read_u32(&place->segment);
	dsm_segment *attached = NULL;
	LiveSegment *segment = my_segment;

	if (handle == DSM_HANDLE_INVALID)
		return;
	if (place != my_place)
	{
		attached = dsm_attach(handle);
		if (attached == NULL)
			return;				/* it was given back meanwhile */
		if (dsm_segment_map_length(attached) < sizeof(LiveSegment))
		{
			dsm_detach(attached);
			return;				/* another segment got the same handle */
		}
		segment = dsm_segment_address(attached);
	}
	for (int i = 0; i < MAX_SHOWN; i++)
	{
		LiveView   *view = palloc(sizeof(LiveView));

		view->pid = pid;
		if (view_ring(segment, i, slots, view))
			*views = lappend(*views, view);
		else
			pfree(view);
	}
	if (attached != NULL)
		dsm_detach(attached);
}

/*
 * live_read
 *		Returns copies of the shown rings, a List of palloc'd LiveViews.
 *
 * If only_pid is not 0, copy only the rings of that process.  slots: copy
 * their slots, too?  No session waits for this.
 */
List *
live_read(int only_pid, bool slots)
{
	List	   *views = NIL;

	for (int i = 0; i < live->nplaces; i++)
	{
		uint32		pid = pg_atomic_read_u32(&live->places[i].pid);

		if (pid == 0 || (only_pid != 0 && pid != (uint32) only_pid))
			continue;
		view_place(&live->places[i], pid, slots, &views);
		CHECK_FOR_INTERRUPTS();
	}
	return views;
}
