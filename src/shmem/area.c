/*-------------------------------------------------------------------------
 *
 * area.c
 *	  The memory that all processes with the library share.
 *
 *	    named DSM segment          DSA area
 *	    +---------------+        +-----------------------------------------+
 *	    | area    ------+------->| stats      stats.c: rows in a dshash    |
 *	    | parts[] ------+------->| live       live_rings.c: places         |
 *	    | off_count     |        | escapes    escape_log.c: the log        |
 *	    +---------------+        | facts      scan_facts.c: lists          |
 *	                             | share      members.c: scans             |
 *	                             +-----------------------------------------+
 *
 * The segment comes from the DSM registry, so that the server need not be
 * restarted.  Its name contains the version of the layout, so that an old and
 * a new library in one cluster never use the same segment.  Each part is made
 * by the first process that needs it.
 *
 * No query fails because shared memory can't be had, unless it calls a
 * function of ours that reads or resets what is there, or that prewarms with
 * parallel workers.  Everything else that may fail for that reason while a
 * query runs is called through shared_try() or shared_try_segment().  At the
 * first failure, shared_try() warns (but not in a parallel worker), and from
 * then on calls no function in this session.  So the session counts nothing
 * more.  If it has attached to the log of escapes and to the sharing of scans,
 * these go on.  Its live rings are shown as long as it keeps the segment that
 * it has; it can't make another one.  If only the segment of its live rings
 * can't be made, the session just does not show them for a while: see
 * shared_try_segment().
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "compat.h"
#include "miscadmin.h"
#include "params.h"
#include "shmem/area.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* Must be changed whenever the layout of anything in shared memory changes. */
#ifndef RINGCTL_LAYOUT
#define RINGCTL_LAYOUT	"17"
#endif
#define SEGMENT_NAME	"pg_ringctl layout " RINGCTL_LAYOUT
#define TRANCHE_NAME	"pg_ringctl"

/*
 * Space in the area for a process, in all parts together.  A LivePlace, a
 * PublishedList and two Members take 576 bytes together; the rest is for
 * rounding.
 */
#define SPACE_PER_PROCESS	640

/* The least space for everything else: rows, the log, lists. */
#define MIN_ROOM			(2 * 1024 * 1024)

typedef struct Shared
{
	int			tranche;		/* set once, when the segment is created */
	LWLock		lock;			/* protects area and parts */
	dsa_handle	area;			/* made by the first process */
	Size		size_limit;		/* of the area, in bytes; set when it is made */
	dsa_pointer parts[NUM_SHARED_PARTS];	/* each made by the first process
											 * that needs it */

	/* off_count is read for every block: keep it off the lock's cache line. */
	char		pad[PG_CACHE_LINE_SIZE];
	pg_atomic_uint32 off_count; /* changes when "enabled" is switched off */
} Shared;

static Shared *shared = NULL;
static dsa_area *area = NULL;

/* Did shared_try() fail once? */
static bool unavailable = false;

/* Functions to call when this process exits, the last one first. */
static SharedExit exits[NUM_SHARED_PARTS];
static int	nexits = 0;
bool		shared_watches_exit = false;

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
	pg_atomic_init_u32(&state->off_count, 0);
}

/*
 * Run the last exit function.  If it raises an error, the server does not come
 * back here, but calls the callbacks that are still registered.  So register
 * ourselves for the other functions before we call this one.
 */
static void
run_exits(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	SharedExit	function;

	if (nexits == 0)
		return;
	function = exits[--nexits];
	if (nexits > 0)
		before_shmem_exit(run_exits, (Datum) 0);
	function();
}

/*
 * shared_begin_to_watch_exit
 *		The slow path of shared_watch_exit().
 */
void
shared_begin_to_watch_exit(void)
{
	before_shmem_exit(run_exits, (Datum) 0);
	shared_watches_exit = true;
}

/*
 * shared_on_exit
 *		From now on "function" is called when this process exits.  Each part
 *		may do this once, after shared_attach().  Does not throw.
 */
void
shared_on_exit(SharedExit function)
{
	Assert(nexits < (int) lengthof(exits));
	exits[nexits++] = function;
}

/* Detach the segments that a resource owner has, and free the owner. */
static void
free_owner(ResourceOwner owner)
{
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	ResourceOwnerDelete(owner);
}

/*
 * Call a function with a resource owner of its own.  When the function ends,
 * segments that it has not pinned are detached at once.  The end of the
 * transaction would be too late: if the function fails, the caller may catch
 * the error, and the transaction goes on.  In that case all LWLocks are
 * released before the segments are detached.
 */
static void
call_with_owner(void (*function) (void))
{
	ResourceOwner oldowner = CurrentResourceOwner;
	ResourceOwner owner = ResourceOwnerCreate(NULL, "pg_ringctl");

	CurrentResourceOwner = owner;
	PG_TRY();
	{
		function();
	}
	PG_CATCH();
	{
		CurrentResourceOwner = oldowner;
		LWLockReleaseAll();
		free_owner(owner);
		PG_RE_THROW();
	}
	PG_END_TRY();
	CurrentResourceOwner = oldowner;
	free_owner(owner);
}

static Size
space_for_processes(void)
{
	return (Size) MaxBackends * SPACE_PER_PROCESS;
}

/* Attach to the segment and the area, or make them. */
static void
attach(void)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	bool		found;
	Shared	   *state = compat_named_dsm_segment(SEGMENT_NAME, sizeof(Shared),
												 init_segment, &found);

	compat_name_tranche(state->tranche, TRANCHE_NAME);

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	if (state->area == DSA_HANDLE_INVALID)
	{
		area = dsa_create(state->tranche);
		state->size_limit = Max((Size) param_max_shared_memory * 1024,
								space_for_processes() + MIN_ROOM);
		dsa_set_size_limit(area, state->size_limit);
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

/*
 * shared_attach
 *		Attach this process to the shared memory; raises an error if that can't
 *		be done.
 *
 * If this fails, the area does not stay attached (see call_with_owner()), and
 * a later try may succeed.
 */
void
shared_attach(void)
{
	if (shared != NULL)
		return;

	shared_watch_exit();
	call_with_owner(attach);
}

/*
 * shared_room
 *		Number of bytes of the area that are left when each process has its
 *		places.
 */
Size
shared_room(void)
{
	return shared->size_limit - space_for_processes();
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
 *		Returns a part of the shared memory.  If the part does not exist yet,
 *		allocates "size" zeroed bytes and calls init() with them.  Raises an
 *		error if that can't be done.
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

/*
 * shared_find_part
 *		Returns a part of the shared memory, or NULL if it does not exist yet.
 */
void *
shared_find_part(SharedPart which)
{
	dsa_pointer part;

	LWLockAcquire(&shared->lock, LW_SHARED);
	part = shared->parts[which];
	LWLockRelease(&shared->lock);
	return DsaPointerIsValid(part) ? dsa_get_address(area, part) : NULL;
}

/* Was the query cancelled, by a user, by a timeout, or for recovery? */
static bool
is_cancel(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE;
}

/*
 * Call a function.  If it raises an error, clear the error state, and return a
 * copy of the error; otherwise return NULL.  But the error of a cancelled
 * query is raised again.
 *
 * When the function fails, it may leave LWLocks held and CurrentResourceOwner
 * changed, but nothing else.
 */
static ErrorData *
error_of_call(void (*function) (void *arg), void *arg)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ResourceOwner oldowner = CurrentResourceOwner;
	uint32		holdoffs = InterruptHoldoffCount;
	uint32		cancel_holdoffs = QueryCancelHoldoffCount;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		function(arg);
	}
	PG_CATCH();
	{
		/* dsa.c changes this while it makes or attaches a segment */
		CurrentResourceOwner = oldowner;
		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		if (is_cancel(error))
			PG_RE_THROW();

		FlushErrorState();
		LWLockReleaseAll();
		InterruptHoldoffCount = holdoffs;
		QueryCancelHoldoffCount = cancel_holdoffs;
	}
	PG_END_TRY();
	return error;
}

/*
 * May a function that needs shared memory be called now?
 *
 * If it fails, all LWLocks are released, so the caller must not hold any.  The
 * executor holds none when it asks a node for a row, and a read stream holds
 * none when it asks for a block.  But the caller of the executor may hold one:
 * in 17 and 18, an index holds the LWLock of a page while it calls a support
 * function, which may run a query.  In this case the answer is no, because an
 * LWLock holds off interrupts.  (In 19 the answer is no, too: the lock of a
 * page is no LWLock there, but it also holds off interrupts.)  So the rings of
 * that query may not be shown, and its counts go into shared memory later.
 */
static inline bool
may_try(void)
{
	return !unavailable && !(IsTransactionState() && InterruptHoldoffCount > 0);
}

/*
 * shared_try
 *		Call a function that needs shared memory.  If it raises an error, warn
 *		(but not in a parallel worker), and never call such a function again in
 *		this session; but see is_cancel().  Returns whether the function was
 *		called and has succeeded.
 *
 * When the function fails, it must leave nothing behind but LWLocks: see
 * error_of_call() and shared_attach().
 *
 * This is also called while a transaction is aborted.  At that time interrupts
 * are held off, and they must still be held off after an error.  If the
 * transaction is aborted because of an error that has not been reported yet,
 * an error here loses the message of the first one.
 */
bool
shared_try(void (*function) (void *arg), void *arg)
{
	ErrorData  *error;

	if (!may_try())
		return false;
	error = error_of_call(function, arg);
	if (error == NULL)
		return true;

	unavailable = true;
	compat_submit_staged();		/* telling the client may block */
	HOLD_INTERRUPTS();			/* the caller may not be able to take an error */
	ereport(IsParallelWorker() ? DEBUG1 : WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("pg_ringctl does not count the scans of this session any more, and may not show them"),
			 errdetail_internal("%s", error->message)));
	RESUME_INTERRUPTS();
	FreeErrorData(error);
	return false;
}

/* call_with_owner() for error_of_call(): arg points to the function. */
static void
call_segment_function(void *arg)
{
	call_with_owner(*(SharedMakeSegment *) arg);
}

/*
 * shared_try_segment
 *		Call a function that makes a segment of its own, and pins its mapping.
 *		If it raises an error, say nothing: a later call may succeed; but see
 *		is_cancel().  Returns whether the function was called and has
 *		succeeded.
 */
bool
shared_try_segment(SharedMakeSegment function)
{
	ErrorData  *error;

	if (!may_try())
		return false;
	error = error_of_call(call_segment_function, &function);
	if (error != NULL)
		FreeErrorData(error);
	return error == NULL;
}

/*
 * shared_off_count
 *		The shared count that each process increments when it finds "enabled"
 *		switched off; NULL in a process that has not attached to shared memory.
 */
pg_atomic_uint32 *
shared_off_count(void)
{
	return shared ? &shared->off_count : NULL;
}
