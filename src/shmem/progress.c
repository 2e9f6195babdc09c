/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  The progress of commands that prewarm.
 *
 * The server's progress reporting works only for the server's own commands.
 * So here each process has a place in shared memory, by its ProcNumber:
 *
 *	    +----------+----------+----------+
 *	    | Progress |  (none)  | Progress |
 *	    +----------+----------+----------+
 *	      ^      ^
 *	      |      +-- blocks_done: written by the process and its workers
 *	      +--------- the rest: written by the process that runs the command
 *
 * A lock protects the places, except for blocks_done, which changes most
 * often: the processes add to it without the lock.
 *
 * If there is no shared memory, the command runs, and shows no progress.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "common/clock.h"
#include "compat.h"
#include "miscadmin.h"
#include "shmem/area.h"
#include "shmem/progress.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

typedef struct ProgressPlace
{
	Progress	progress;		/* its blocks_done is not used */
	pg_atomic_uint64 blocks_done;
} ProgressPlace;

typedef struct ProgressPart
{
	LWLock		lock;
	int			nplaces;
	ProgressPlace places[FLEXIBLE_ARRAY_MEMBER];
} ProgressPart;

static ProgressPart *part = NULL;

/* The place of the command that this process takes part in; or NULL. */
static ProgressPlace *place = NULL;

static void
init_progress(void *memory)
{
	ProgressPart *new = memory;

	LWLockInitialize(&new->lock, shared_tranche());
	new->nplaces = MaxBackends;
	for (int i = 0; i < new->nplaces; i++)
		pg_atomic_init_u64(&new->places[i].blocks_done, 0);
}

/*
 * This process's command has ended, or failed; or the process exits.  A worker
 * leaves its leader's place as it is.
 */
static void
end_command(void)
{
	if (place != NULL && place->progress.pid == MyProcPid)
	{
		LWLockAcquire(&part->lock, LW_EXCLUSIVE);
		place->progress.pid = 0;
		LWLockRelease(&part->lock);
	}
	place = NULL;
}

static void
attach_progress(void *arg pg_attribute_unused())
{
	if (part != NULL)
		return;
	shared_attach();
	part = shared_part(PART_PROGRESS,
					   offsetof(ProgressPart, places) +
					   MaxBackends * sizeof(ProgressPlace), init_progress);
	shared_on_exit(end_command);
}

/* The place of a process; NULL if it has none. */
static ProgressPlace *
place_of(ProcNumber proc)
{
	if (!shared_try(attach_progress, NULL) || proc < 0 || proc >= part->nplaces)
		return NULL;
	return &part->places[proc];
}

/* This process begins a command. */
static void
begin_command(ProgressCommand command, Oid relid)
{
	place = place_of(MyProcNumber);
	if (place == NULL)
		return;

	pg_atomic_write_u64(&place->blocks_done, 0);
	LWLockAcquire(&part->lock, LW_EXCLUSIVE);
	memset(&place->progress, 0, sizeof(Progress));
	place->progress.pid = MyProcPid;
	place->progress.datid = MyDatabaseId;
	place->progress.relid = relid;
	place->progress.command = command;
	place->progress.phase = PHASE_INITIALIZING;
	place->progress.started = GetCurrentTimestamp();
	LWLockRelease(&part->lock);
}

/*
 * progress_run
 *		Run a command, which the user has called for this relation, and show
 *		its progress.  Returns the elapsed time in ms.
 */
double
progress_run(ProgressCommand command, Oid relid, void (*run) (void *arg), void *arg)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	begin_command(command, relid);
	PG_TRY();
	{
		run(arg);
	}
	PG_FINALLY();
	{
		end_command();
	}
	PG_END_TRY();
	return milliseconds_since(start);
}

/*
 * progress_set_total
 *		The command has to read this number of blocks, in all its relations.
 */
void
progress_set_total(int64 blocks)
{
	if (place == NULL)
		return;
	LWLockAcquire(&part->lock, LW_EXCLUSIVE);
	place->progress.blocks_total = blocks;
	LWLockRelease(&part->lock);
}

/*
 * progress_set_relation
 *		The command reads this relation now.
 */
void
progress_set_relation(Oid relid)
{
	if (place == NULL)
		return;
	LWLockAcquire(&part->lock, LW_EXCLUSIVE);
	place->progress.relid = relid;
	LWLockRelease(&part->lock);
}

/*
 * progress_set_phase
 *		The command is in this phase now, and this number of workers help.
 */
void
progress_set_phase(ProgressPhase phase, int workers)
{
	if (place == NULL ||
		(place->progress.phase == phase && place->progress.workers == workers))
		return;
	LWLockAcquire(&part->lock, LW_EXCLUSIVE);
	place->progress.phase = phase;
	place->progress.workers = workers;
	LWLockRelease(&part->lock);
}

/*
 * progress_add
 *		This process has read this number of blocks.  A parallel worker adds
 *		them to the count of its leader's command.
 */
void
progress_add(int64 blocks)
{
	if (IsParallelWorker() && place == NULL)
		place = place_of(ParallelLeaderProcNumber);
	if (place != NULL)
		pg_atomic_fetch_add_u64(&place->blocks_done, blocks);
}

/*
 * progress_read
 *		Copy the running commands to palloc'd *all, and return their number.
 *		Raises an error if this process can't attach to shared memory.
 */
int
progress_read(Progress **all)
{
	int			n = 0;

	attach_progress(NULL);
	*all = palloc(part->nplaces * sizeof(Progress));
	LWLockAcquire(&part->lock, LW_SHARED);
	for (int i = 0; i < part->nplaces; i++)
	{
		ProgressPlace *other = &part->places[i];

		if (other->progress.pid == 0)
			continue;
		(*all)[n] = other->progress;
		(*all)[n++].blocks_done = pg_atomic_read_u64(&other->blocks_done);
	}
	LWLockRelease(&part->lock);
	return n;
}

#define NAME(member, name)	[member] = name,

/*
 * progress_command_name, progress_phase_name
 *		What users call the command or the phase.
 */
const char *
progress_command_name(ProgressCommand command)
{
	static const char *const names[] = {PROGRESS_COMMANDS(NAME)};

	return names[command];
}

const char *
progress_phase_name(ProgressPhase phase)
{
	static const char *const names[] = {PROGRESS_PHASES(NAME)};

	return names[phase];
}
