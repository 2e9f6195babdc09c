/*-------------------------------------------------------------------------
 *
 * shared.c
 *	  The memory that all processes with this library share.
 *
 *	    named DSM segment              DSA area
 *	    +---------------------+      +-------------------------------------+
 *	    | area          ------+----->| counters   registry.c, a dshash too |
 *	    | parts[]       ------+----->| live       live.c: places and rings |
 *	    | offs                |      | escapes    escapes.c: the log       |
 *	    +---------------------+      | facts      facts.c: from workers    |
 *	                                 | share      share.c: who is where    |
 *	                                 +-------------------------------------+
 *
 * The segment comes from the DSM registry, so that nobody has to restart the
 * server; its name carries the version of the layout, so that an old and a
 * new library in one cluster never read each other's.  What belongs together
 * is a part, made by the process that needs it first.
 *
 * A user's query never fails because shared memory can't be had: what may
 * fail while one runs goes through shared_try(), which says so once, and the
 * session goes on without.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "miscadmin.h"
#include "shared.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* Change it with everything that is in shared memory. */
#ifndef RINGCTL_LAYOUT
#define RINGCTL_LAYOUT	"6"
#endif
#define SEGMENT_NAME	"pg_ringctl layout " RINGCTL_LAYOUT
#define TRANCHE_NAME	"pg_ringctl"

typedef struct Shared
{
	int			tranche;		/* set once, when the segment is created */
	LWLock		lock;			/* protects what follows */
	dsa_handle	area;			/* made by who comes first */
	dsa_pointer parts[NUM_SHARED_PARTS];	/* these, too */

	/* Read for every block: on a cache line that nothing else writes to. */
	char		pad[PG_CACHE_LINE_SIZE];
	pg_atomic_uint32 offs;		/* times that "enabled" was switched off */
} Shared;

static Shared *shared = NULL;
static dsa_area *area = NULL;

/* Did shared_try() fail once? */
static bool unavailable = false;

static void
init_segment(COMPAT_DSM_INIT_PARAMS)
{
	Shared	   *state = segment;

	memset(state, 0, sizeof(Shared));
	state->tranche = compat_new_tranche(TRANCHE_NAME);
	LWLockInitialize(&state->lock, state->tranche);
	state->area = DSA_HANDLE_INVALID;
	for (int i = 0; i < NUM_SHARED_PARTS; i++)
		state->parts[i] = InvalidDsaPointer;
	pg_atomic_init_u32(&state->offs, 0);
}

/*
 * shared_attach
 *		Attach this process to the shared memory; raises an error if that can't
 *		be done.
 */
void
shared_attach(void)
{
	MemoryContext oldcontext;
	Shared	   *state;
	bool		found;

	if (shared != NULL)
		return;

	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	state = compat_named_dsm_segment(SEGMENT_NAME, sizeof(Shared),
									 init_segment, &found);
	compat_name_tranche(state->tranche, TRANCHE_NAME);

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	if (state->area == DSA_HANDLE_INVALID)
	{
		area = dsa_create(state->tranche);
		dsa_pin(area);
		state->area = dsa_get_handle(area);
	}
	else
		area = dsa_attach(state->area);
	dsa_pin_mapping(area);
	LWLockRelease(&state->lock);

	shared = state;
	MemoryContextSwitchTo(oldcontext);
}

/* The area that all parts are in, and the tranche of their locks. */
dsa_area *
shared_area(void)
{
	return area;
}

int
shared_tranche(void)
{
	return shared->tranche;
}

/*
 * shared_part
 *		A part of the shared memory; made, with "size" zeroed bytes and then
 *		init(), if it is not there yet.  Raises an error if it can't be.
 */
void *
shared_part(SharedPart which, Size size, SharedInit init)
{
	dsa_pointer part;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	part = shared->parts[which];
	if (part == InvalidDsaPointer)
	{
		part = dsa_allocate_extended(area, size, DSA_ALLOC_ZERO | DSA_ALLOC_HUGE);
		init(dsa_get_address(area, part));
		shared->parts[which] = part;
	}
	LWLockRelease(&shared->lock);
	return dsa_get_address(area, part);
}

/* Is this an error that the user or the administrator has asked for? */
static bool
is_wanted(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
		error->sqlerrcode == ERRCODE_CRASH_SHUTDOWN;
}

/*
 * shared_try
 *		Call a function that needs shared memory; but if it fails, say so once
 *		and do without from now on.  Returns whether it succeeded.
 *
 * The function may leave nothing behind when it fails but LWLocks and another
 * resource owner.  The executor holds no LWLocks when it asks a node for a row,
 * and a read stream none when it asks for a block.  Who called the executor may:
 * an index does, on a page, when it calls a support function that is a query.
 * We could not tell his from ours: the scans of such a query are not counted.
 *
 * A query that fails may call this, too, while its transaction is aborted.  No
 * interrupt may come then, and an error must leave that as it was.
 */
bool
shared_try(void (*function) (void *arg), void *arg)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ResourceOwner oldowner = CurrentResourceOwner;
	uint32		holdoffs = InterruptHoldoffCount;
	uint32		cancel_holdoffs = QueryCancelHoldoffCount;

	if (unavailable || (IsTransactionState() && InterruptHoldoffCount > 0))
		return false;

	PG_TRY();
	{
		function(arg);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		/* dsa.c has another one while it makes or attaches a segment */
		CurrentResourceOwner = oldowner;
		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		if (is_wanted(error))
			PG_RE_THROW();

		FlushErrorState();
		LWLockReleaseAll();
		InterruptHoldoffCount = holdoffs;
		QueryCancelHoldoffCount = cancel_holdoffs;
		unavailable = true;
		compat_submit_staged(); /* telling the client may block */
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("pg_ringctl neither counts nor shows the scans of this session any more"),
				 errdetail_internal("%s", error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();
	return !unavailable;
}

typedef struct Allocation
{
	Size		size;
	dsa_pointer pointer;
} Allocation;

static void
allocate(void *arg)
{
	Allocation *allocation = arg;

	allocation->pointer = dsa_allocate_extended(area, allocation->size, DSA_ALLOC_HUGE);
}

/*
 * shared_allocate
 *		Memory from the area, not zeroed; or InvalidDsaPointer if there is none
 *		to be had.
 */
dsa_pointer
shared_allocate(Size size)
{
	Allocation	allocation = {size, InvalidDsaPointer};

	shared_try(allocate, &allocation);
	return allocation.pointer;
}

/*
 * shared_offs
 *		The shared count of how often "enabled" was switched off; NULL in a
 *		process that has not attached to shared memory.
 */
pg_atomic_uint32 *
shared_offs(void)
{
	return shared ? &shared->offs : NULL;
}
