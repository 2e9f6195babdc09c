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
 * "shown" is still the same, and if not, the copy is void.  (A ring that begins
 * to read again keeps its number: a copy of that moment may be of both.)
 *
 * The slots' memory is kept with the LiveRing, too, unless it is large, or some
 * other rings' is kept already.  Then it is retired, and freed when nobody may be
 * reading it: readers of slots hold the place's lock in shared mode, and where
 * the owner can't get it at once, it leaves the freeing for later.  The memory
 * says itself for how many slots it has room, so that who has got hold of a
 * pointer to it never reads too far.
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

/* Memory for slots that is larger than this is not kept; and for so many rings. */
#define KEPT_SLOTS_SIZE	(1024 * 1024)
#define MAX_KEPT		8

/* Memory for the slots of a ring. */
typedef struct SlotMemory
{
	dsa_pointer next_retired;	/* in the place's list, if it shall be freed */
	int			capacity;		/* of so many slots */
	RingSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} SlotMemory;

struct LiveRing
{
	dsa_pointer next;			/* in the place's list; never changes */
	pg_atomic_uint64 shown;		/* ringid while others may see it; else 0 */
	LiveInfo	info;
	RingPublic	public;
	volatile dsa_pointer slots; /* a SlotMemory, or none */
	SlotMemory *local_slots;	/* where the owner sees it */
	bool		private;		/* in private memory, nobody sees it */
};

typedef struct LivePlace
{
	pg_atomic_uint32 pid;		/* 0: no process that could show a ring */
	dsa_pointer rings;			/* the newest first */
	dsa_pointer retired;		/* SlotMemory to be freed; the owner's */
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

/*
 * How many rings I have in shared memory, and those that are not in use: last
 * those that have kept their slots, which are taken first.
 */
static int	nrings = 0;
static LiveRing **unused = NULL;
static int	nunused = 0;
static int	nkept = 0;
static int	max_unused = 0;

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
		new->places[i].retired = InvalidDsaPointer;
		LWLockInitialize(&new->places[i].lock, shared_tranche());
	}
}

/* Leaving may not fail: have room for all my rings to leave, and another. */
static void
make_room_to_leave(void)
{
	int			max = Max(16, 2 * (nrings + 1));

	if (nrings + 1 <= max_unused)
		return;
	unused = unused == NULL ?
		MemoryContextAlloc(TopMemoryContext, max * sizeof(LiveRing *)) :
		repalloc_huge(unused, max * sizeof(LiveRing *));
	max_unused = max;
}

static void
put_unused(LiveRing *ring)
{
	LiveRing  **first_kept = &unused[nunused - nkept];

	unused[nunused++] = ring;
	if (ring->local_slots != NULL)
		nkept++;
	else
	{
		unused[nunused - 1] = *first_kept;
		*first_kept = ring;
	}
}

/* One that is not in use; NULL if there is none. */
static LiveRing *
take_unused(void)
{
	LiveRing   *ring;

	if (nunused == 0)
		return NULL;
	ring = unused[--nunused];
	if (ring->local_slots != NULL)
		nkept--;
	return ring;
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
	LivePlace  *place;

	if (live == NULL)
		live = shared_part(PART_LIVE,
						   offsetof(LivePart, places) +
						   (MaxBackends + NUM_AUXILIARY_PROCS) * sizeof(LivePlace),
						   init_live);
	if (my_place != NULL || MyProcNumber < 0 || MyProcNumber >= live->nplaces)
		return;

	place = &live->places[MyProcNumber];
	nrings = nunused = nkept = 0;	/* an earlier try may have failed half-way */
	for (dsa_pointer p = place->rings; DsaPointerIsValid(p);)
	{
		LiveRing   *ring = dsa_get_address(shared_area(), p);

		make_room_to_leave();
		ring->local_slots = DsaPointerIsValid(ring->slots) ?
			dsa_get_address(shared_area(), ring->slots) : NULL;
		nrings++;
		put_unused(ring);
		p = ring->next;
	}
	my_place = place;
	before_shmem_exit(forget_place, (Datum) 0);
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

static void
free_retired(void *arg pg_attribute_unused())
{
	if (!LWLockConditionalAcquire(&my_place->lock, LW_EXCLUSIVE))
		return;
	while (DsaPointerIsValid(my_place->retired))
	{
		dsa_pointer p = my_place->retired;

		my_place->retired = ((SlotMemory *) dsa_get_address(shared_area(), p))->next_retired;
		dsa_free(shared_area(), p);
	}
	LWLockRelease(&my_place->lock);
}

/*
 * live_free_retired
 *		Free what has to be freed, if nobody looks just now.  Not in an abort.
 */
void
live_free_retired(void)
{
	if (my_place != NULL && DsaPointerIsValid(my_place->retired))
		shared_try(free_retired, NULL);
}

static inline int
capacity_of(const LiveRing *ring)
{
	return ring->local_slots == NULL ? 0 : ring->local_slots->capacity;
}

static inline Size
slots_size(int nslots)
{
	return offsetof(SlotMemory, slots) + nslots * sizeof(RingSlot);
}

/* Get rid of the memory of the ring's slots. */
static void
drop_slots(LiveRing *ring)
{
	SlotMemory *memory = ring->local_slots;
	dsa_pointer p = ring->slots;

	ring->local_slots = NULL;
	ring->slots = InvalidDsaPointer;
	if (ring->private && memory != NULL)
		pfree(memory);
	else if (memory != NULL)
	{
		memory->next_retired = my_place->retired;
		my_place->retired = p;
	}
}

/* Give the ring memory for so many slots; false if it can't be had. */
static bool
make_slots(LiveRing *ring, int nslots)
{
	dsa_pointer p = InvalidDsaPointer;
	SlotMemory *memory;

	if (ring->private)
		memory = MemoryContextAllocExtended(TopMemoryContext, slots_size(nslots),
											MCXT_ALLOC_HUGE);
	else
	{
		p = shared_allocate(slots_size(nslots));
		if (!DsaPointerIsValid(p))
			return false;
		memory = dsa_get_address(shared_area(), p);
	}
	memory->capacity = nslots;
	memset(memory->slots, 0, nslots * sizeof(RingSlot));
	pg_write_barrier();			/* from now on others may see it */
	ring->local_slots = memory;
	ring->slots = p;
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
	live_free_retired();

	/* without a place, what it has of its predecessor's is not all */
	if (my_place != NULL)
	{
		ring = take_unused();
		if (ring == NULL)
			ring = make_shared();
	}
	if (ring == NULL)
		ring = make_private();

	if (capacity_of(ring) < nslots)
	{
		drop_slots(ring);
		if (!make_slots(ring, nslots))
		{
			put_unused(ring);
			ring = make_private();
			make_slots(ring, nslots);
		}
	}
	else if (nslots > 0)
		memset(ring->local_slots->slots, 0, nslots * sizeof(RingSlot));
	memset(&ring->public, 0, sizeof(RingPublic));
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
	if (slots_size(capacity_of(ring)) > KEPT_SLOTS_SIZE || nkept >= MAX_KEPT)
		drop_slots(ring);
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
	return ring->local_slots == NULL ? NULL : ring->local_slots->slots;
}

/*
 * Copy the ring's slots; NULL if there are none.  The place's lock is held, so
 * whatever memory we find here stays, even if the ring has got other by now.
 */
static RingSlot *
copy_slots(const LiveRing *ring, int nslots)
{
	dsa_pointer p = ring->slots;
	SlotMemory *memory;
	RingSlot   *slots;

	if (nslots <= 0 || !DsaPointerIsValid(p))
		return NULL;
	pg_read_barrier();
	memory = dsa_get_address(shared_area(), p);
	if (memory->capacity < nslots)
		return NULL;
	slots = palloc_extended(nslots * sizeof(RingSlot), MCXT_ALLOC_HUGE);
	memcpy(slots, memory->slots, nslots * sizeof(RingSlot));
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
	view->slots = slots ? copy_slots(ring, view->public.nbuffers) : NULL;
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
