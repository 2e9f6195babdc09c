/*-------------------------------------------------------------------------
 *
 * live.c
 *	  The rings that are in use now, for every session to see.
 *
 * While a ring runs, its public part and its slots are in shared memory, and
 * the ring works on them there.  So nothing has to be reported while a scan
 * runs, and others see it exactly as it is.
 *
 *	    places, by ProcNumber
 *	    +------+------+------+------+
 *	    | pid  | pid  |  0   | pid  |  each its process's own
 *	    +--|---+--|---+------+------+
 *	       |      v
 *	       |    LiveRing { shown = 0, ... }          kept for the next ring
 *	       v
 *	     LiveRing { shown = ringid, info, public, slots }
 *	       |                                    |
 *	       v next                               v
 *	     LiveRing { shown = ringid, ... }    RingSlot[]
 *
 * Nobody waits.  Only the process itself writes to its place, and it never
 * frees a LiveRing: others follow the list without a lock.  "shown" is set to
 * the ring's number after all has been written, and to 0 before anything
 * changes that belongs to another ring; who has copied a ring looks whether
 * "shown" is still the same, and if not, the copy is void.
 *
 * The slots' memory is kept with the LiveRing, too, unless it is large.  Then
 * it is freed, and nobody may be reading it: readers of slots hold the place's
 * lock in shared mode, and where the owner can't get it at once, it leaves the
 * freeing for later.
 *
 * A place has the pid of its process in it from when that attaches until it
 * exits.  Whatever kills a process without letting it exit makes the
 * postmaster start all of shared memory anew.  If shared memory can't be had,
 * the ring lives in private memory and is not shown.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "live.h"
#include "shared.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/memutils.h"

/* Memory for slots that is larger than this is not kept. */
#define KEPT_SLOTS_SIZE	(256 * 1024)

struct LiveRing
{
	dsa_pointer next;			/* in the place's list; never changes */
	pg_atomic_uint64 shown;		/* ringid while others may see it; else 0 */
	LiveInfo	info;
	RingPublic	public;
	dsa_pointer slots;			/* room for "capacity" of them */
	int			capacity;
	RingSlot   *local_slots;	/* where the owner sees them */
	bool		private;		/* in private memory, nobody sees it */
};

typedef struct LivePlace
{
	pg_atomic_uint32 pid;		/* 0: no process that could show a ring */
	dsa_pointer rings;			/* the newest first */
	LWLock		lock;			/* see above: protects the slots' memory */
} LivePlace;

typedef struct LivePart
{
	pg_atomic_uint64 last_ringid;
	int			nplaces;
	LivePlace	places[FLEXIBLE_ARRAY_MEMBER];
} LivePart;

static LivePart *live = NULL;
static LivePlace *my_place = NULL;

/* How many rings I have in shared memory, and those that are not in use. */
static int	nrings = 0;
static LiveRing **unused = NULL;
static int	nunused = 0;
static int	max_unused = 0;

/* Slots' memory that has to be freed, when nobody looks at it. */
static dsa_pointer *retired = NULL;
static int	nretired = 0;
static int	max_retired = 0;

static void
init_live(void *part)
{
	LivePart   *new = part;

	pg_atomic_init_u64(&new->last_ringid, 0);
	new->nplaces = MaxBackends + NUM_AUXILIARY_PROCS;
	for (int i = 0; i < new->nplaces; i++)
	{
		pg_atomic_init_u32(&new->places[i].pid, 0);
		new->places[i].rings = InvalidDsaPointer;
		LWLockInitialize(&new->places[i].lock, shared_tranche());
	}
}

/* Make room for "count" elements in an array of such a size. */
static void *
make_room(void *array, int count, int *max, Size size)
{
	if (count <= *max)
		return array;
	*max = Max(16, 2 * count);
	return array == NULL ? MemoryContextAlloc(TopMemoryContext, *max * size) :
		repalloc_huge(array, *max * size);
}

/* Leaving may not fail: have room for all my rings to leave, and another. */
static void
make_room_to_leave(void)
{
	unused = make_room(unused, nrings + 1, &max_unused, sizeof(LiveRing *));
	retired = make_room(retired, nretired + nrings + 1, &max_retired,
						sizeof(dsa_pointer));
}

static void
put_unused(LiveRing *ring)
{
	unused[nunused++] = ring;
}

/* Before the process exits: none of its rings is there any more. */
static void
forget_place(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	LiveRing   *ring;

	pg_atomic_write_u32(&my_place->pid, 0);
	for (dsa_pointer p = my_place->rings; DsaPointerIsValid(p); p = ring->next)
	{
		ring = dsa_get_address(shared_area(), p);
		pg_atomic_write_u64(&ring->shown, 0);
	}
}

/*
 * live_attach
 *		Attach this process to the live rings, and if it can have some, take
 *		over what its predecessor left.  Raises an error if that can't be done.
 */
void
live_attach(void)
{
	if (live == NULL)
		live = shared_part(PART_LIVE,
						   offsetof(LivePart, places) +
						   (MaxBackends + NUM_AUXILIARY_PROCS) * sizeof(LivePlace),
						   init_live);
	if (my_place != NULL || MyProcNumber < 0 || MyProcNumber >= live->nplaces)
		return;

	before_shmem_exit(forget_place, (Datum) 0);
	my_place = &live->places[MyProcNumber];
	for (dsa_pointer p = my_place->rings; DsaPointerIsValid(p);)
	{
		LiveRing   *ring = dsa_get_address(shared_area(), p);

		make_room_to_leave();
		nrings++;
		put_unused(ring);
		ring->local_slots = DsaPointerIsValid(ring->slots) ?
			dsa_get_address(shared_area(), ring->slots) : NULL;
		p = ring->next;
	}
	pg_atomic_write_u32(&my_place->pid, MyProcPid);
}

/* A ring that is only in private memory. */
static LiveRing *
make_private(void)
{
	LiveRing   *ring = MemoryContextAllocZero(TopMemoryContext, sizeof(LiveRing));

	pg_atomic_init_u64(&ring->shown, 0);
	ring->private = true;
	return ring;
}

/* A new ring of mine in shared memory; NULL if it can't be had. */
static LiveRing *
make_shared(void)
{
	dsa_pointer p = shared_allocate(sizeof(LiveRing));
	LiveRing   *ring;

	if (!DsaPointerIsValid(p))
		return NULL;
	ring = dsa_get_address(shared_area(), p);
	memset(ring, 0, sizeof(LiveRing));
	pg_atomic_init_u64(&ring->shown, 0);
	ring->slots = InvalidDsaPointer;
	ring->next = my_place->rings;
	pg_write_barrier();
	my_place->rings = p;
	nrings++;
	return ring;
}

/* Free what has to be freed, if nobody looks just now. */
static void
free_retired(void)
{
	if (nretired == 0 || !LWLockConditionalAcquire(&my_place->lock, LW_EXCLUSIVE))
		return;
	while (nretired > 0)
		dsa_free(shared_area(), retired[--nretired]);
	LWLockRelease(&my_place->lock);
}

/* Get rid of the memory of the ring's slots. */
static void
drop_slots(LiveRing *ring)
{
	if (ring->private && ring->local_slots != NULL)
		pfree(ring->local_slots);
	else if (DsaPointerIsValid(ring->slots))
		retired[nretired++] = ring->slots;
	ring->slots = InvalidDsaPointer;
	ring->local_slots = NULL;
	ring->capacity = 0;
}

/* Give the ring memory for so many slots; false if it can't be had. */
static bool
make_slots(LiveRing *ring, int nslots)
{
	Size		size = nslots * sizeof(RingSlot);

	if (ring->private)
		ring->local_slots = MemoryContextAllocExtended(TopMemoryContext, size,
													   MCXT_ALLOC_HUGE);
	else
	{
		ring->slots = shared_allocate(size);
		if (!DsaPointerIsValid(ring->slots))
			return false;
		ring->local_slots = dsa_get_address(shared_area(), ring->slots);
	}
	ring->capacity = nslots;
	return true;
}

/*
 * live_enter
 *		A ring with so many slots, which nobody sees yet; zeroed.
 */
LiveRing *
live_enter(int nslots)
{
	LiveRing   *ring = NULL;

	make_room_to_leave();
	free_retired();

	if (nunused > 0)
		ring = unused[--nunused];
	else if (my_place != NULL)
		ring = make_shared();
	if (ring == NULL)
		ring = make_private();

	if (ring->capacity < nslots)
	{
		drop_slots(ring);
		if (!make_slots(ring, nslots))
		{
			put_unused(ring);
			ring = make_private();
			make_slots(ring, nslots);
		}
	}
	memset(&ring->public, 0, sizeof(RingPublic));
	if (nslots > 0)
		memset(ring->local_slots, 0, nslots * sizeof(RingSlot));
	return ring;
}

/*
 * live_leave
 *		The ring does not need its place any more.  Does not throw.
 */
void
live_leave(LiveRing *ring)
{
	live_hide(ring);
	if (ring->private)
	{
		drop_slots(ring);
		pfree(ring);
		return;
	}
	if (ring->capacity * sizeof(RingSlot) > KEPT_SLOTS_SIZE)
	{
		drop_slots(ring);
		free_retired();
	}
	put_unused(ring);
}

/* A number for a ring that no other ring of this cluster's run has. */
uint64
live_new_ringid(void)
{
	return live == NULL ? 0 : pg_atomic_add_fetch_u64(&live->last_ringid, 1);
}

/*
 * live_show
 *		From now on others see the ring, under this number.  No effect on one
 *		that they see already.
 */
void
live_show(LiveRing *ring, uint64 ringid, const LiveInfo *info)
{
	if (ring->private || pg_atomic_read_u64(&ring->shown) != 0)
		return;
	ring->info = *info;
	pg_write_barrier();
	pg_atomic_write_u64(&ring->shown, ringid);
}

/*
 * live_hide
 *		From now on nobody sees the ring.
 */
void
live_hide(LiveRing *ring)
{
	pg_atomic_write_u64(&ring->shown, 0);
	pg_write_barrier();
}

/* Where the ring's public part is, and its slots. */
RingPublic *
live_public(LiveRing *ring)
{
	return &ring->public;
}

RingSlot *
live_slots(LiveRing *ring)
{
	return ring->local_slots;
}

/* Copy the ring's slots; the place's lock is held. */
static RingSlot *
copy_slots(const LiveRing *ring, int nslots)
{
	RingSlot   *slots = palloc_extended(nslots * sizeof(RingSlot), MCXT_ALLOC_HUGE);

	memcpy(slots, dsa_get_address(shared_area(), ring->slots),
		   nslots * sizeof(RingSlot));
	return slots;
}

/*
 * Copy one ring.  Returns false if it is not shown, or has changed hands
 * meanwhile.
 */
static bool
view_ring(LiveRing *ring, bool slots, LiveView *view)
{
	view->ringid = pg_atomic_read_u64(&ring->shown);
	if (view->ringid == 0)
		return false;
	pg_read_barrier();
	view->info = ring->info;
	view->public = ring->public;
	view->slots = NULL;
	if (slots && view->public.nbuffers > 0 &&
		view->public.nbuffers <= ring->capacity && DsaPointerIsValid(ring->slots))
		view->slots = copy_slots(ring, view->public.nbuffers);
	pg_read_barrier();
	return pg_atomic_read_u64(&ring->shown) == view->ringid;
}

/*
 * live_read
 *		Copies of the rings that are shown, palloc'd in *views; returns their
 *		number.
 *
 * pid: only those of this process, if not 0.  slots: copy their slots, too.
 * Makes nobody wait.
 */
int
live_read(int only_pid, bool slots, LiveView **views)
{
	int			nviews = 0;
	int			size = 64;

	*views = palloc(size * sizeof(LiveView));
	for (int i = 0; i < live->nplaces; i++)
	{
		LivePlace  *place = &live->places[i];
		uint32		pid = pg_atomic_read_u32(&place->pid);
		LiveRing   *ring;

		if (pid == 0 || (only_pid != 0 && pid != (uint32) only_pid))
			continue;
		pg_read_barrier();
		if (slots)
			LWLockAcquire(&place->lock, LW_SHARED);
		for (dsa_pointer p = place->rings; DsaPointerIsValid(p); p = ring->next)
		{
			ring = dsa_get_address(shared_area(), p);
			if (nviews == size)
			{
				size *= 2;
				*views = repalloc_huge(*views, size * sizeof(LiveView));
			}
			if (view_ring(ring, slots, &(*views)[nviews]) &&
				pg_atomic_read_u32(&place->pid) == pid)
				(*views)[nviews++].pid = pid;
		}
		if (slots)
			LWLockRelease(&place->lock);
		CHECK_FOR_INTERRUPTS();
	}
	return nviews;
}
