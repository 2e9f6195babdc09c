/*-------------------------------------------------------------------------
 *
 * crew.c
 *	  A leader and its workers, who read ranges of blocks together.
 *
 * The leader opens a relation and gives out a range of its blocks; everybody
 * opens it, too, and takes chunks of the range until there are none left, with
 * a reader and a ring of his own; when all are done the leader may close the
 * relation, and give out the next range.
 *
 *	leader   call ---> give 1 --> take chunks --> wait --> give 2 --> ... end
 *	                     |                         ^         |             |
 *	                     v                         |         v             v
 *	workers  start ----> open --> take chunks --> close ---> open --> ... exit
 *
 * So the workers start only once, and the ring of each goes with it from one
 * relation to the next (see ring_lend()): a thousand partitions leave no more
 * behind than one.  All of those that started take part in every range; but a
 * range no larger than the smallest chunk the leader reads alone, and where
 * there are no others, none is started.
 *
 * They are parallel workers in the server's sense: one lock group, so that a
 * worker is given the lock that its leader holds, also while somebody waits for
 * an exclusive one; one transaction; their errors are the leader's; and when
 * its transaction fails, whatever the reason, they end before it does.
 *
 * Chunks come from one counter.  They are long, so that everybody reads
 * sequentially, and get shorter towards the end, so that all end together.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "compat.h"
#include "crew.h"
#include "enabled.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/wait_event.h"

/* Limits of a chunk, in blocks. */
#define MIN_CHUNK		16
#define MAX_CHUNK		1024

/* A process takes one of so many parts of what would be left for it. */
#define CHUNKS_LEFT		4

/* Keys of what is in the parallel context's segment. */
#define KEY_CREW			UINT64CONST(0x52430001)
#define KEY_BUFFER_USAGE	UINT64CONST(0x52430002)
#define KEY_WAL_USAGE		UINT64CONST(0x52430003)
#define KEY_QUERY			UINT64CONST(0x52430004)

/* A range of blocks. */
typedef struct Range
{
	Oid			relid;
	ForkNumber	forknum;
	RingOptions options;
	int64		first_block;
	int64		nblocks;
	int			nprocesses;		/* that take chunks of it */
	pg_atomic_uint64 taken;		/* blocks in chunks that were taken */
} Range;

/* A process that takes chunks. */
typedef struct Taker
{
	Range	   *range;
	int64		next_block;		/* of the chunk that it has */
	int64		end_block;		/* the first one after it */
} Taker;

/* What the leader and the workers share. */
typedef struct CrewShared
{
	uint32		magic;			/* comes first, in every version */
	Range		range;			/* written while nobody works */
	ConditionVariable given;	/* there is another range, or none any more */
	ConditionVariable done;		/* nobody works any more */

	slock_t		lock;			/* protects the rest */
	int			nranges;		/* so many ranges were given out so far */
	bool		ended;			/* there will be no other one */
	int			working;		/* workers that are not done with this one */
	LoadResult	result;			/* of those that are */
} CrewShared;

/* Changes with the layout: library files may be replaced under a session. */
#define CREW_MAGIC		((uint32) (0x52430000 + sizeof(CrewShared)))

struct Crew
{
	int			nworkers;		/* to be started when there is work for them */
	ParallelContext *pcxt;		/* NULL: the leader is alone */
	CrewShared *shared;
};

extern PGDLLEXPORT void crew_worker_main(dsm_segment *seg, shm_toc *toc);

/* What somebody waits for, as pg_stat_activity shows it. */
static uint32 wait_for_range = 0;
static uint32 wait_for_workers = 0;

static void
init_wait_events(void)
{
	if (wait_for_range == 0)
		wait_for_range = WaitEventExtensionNew("RingPrewarmNext");
	if (wait_for_workers == 0)
		wait_for_workers = WaitEventExtensionNew("RingPrewarmFinish");
}

static void
set_range(Range *range, Relation rel, ForkNumber forknum,
		  const RingOptions *options, int64 first_block, int64 nblocks,
		  int nprocesses)
{
	range->relid = RelationGetRelid(rel);
	range->forknum = forknum;
	range->options = *options;
	if (nprocesses > 1)
		range->options.near_ahead = 0;	/* they would time each other */
	range->first_block = first_block;
	range->nblocks = nblocks;
	range->nprocesses = nprocesses;
	pg_atomic_init_u64(&range->taken, 0);
}

/* How many blocks shall be taken of those that are left? */
static int64
chunk_size(int64 left, int nprocesses)
{
	int64		size = left / ((int64) nprocesses * CHUNKS_LEFT);

	if (nprocesses == 1)
		return left;
	return Min(left, Max(MIN_CHUNK, Min(size, MAX_CHUNK)));
}

/* Take another chunk, if there is one. */
static bool
take_chunk(Taker *taker)
{
	Range	   *range = taker->range;
	uint64		taken = pg_atomic_read_u64(&range->taken);
	int64		size;

	do
	{
		size = chunk_size(range->nblocks - (int64) taken, range->nprocesses);
		if (size == 0)
			return false;
	} while (!pg_atomic_compare_exchange_u64(&range->taken, &taken, taken + size));

	taker->next_block = range->first_block + (int64) taken;
	taker->end_block = taker->next_block + size;
	return true;
}

/* The stream's callback. */
static BlockNumber
next_block_of_range(ReadStream *stream pg_attribute_unused(), void *arg,
					void *per_buffer_data pg_attribute_unused())
{
	Taker	   *taker = (Taker *) arg;

	if (taker->next_block == taker->end_block && !take_chunk(taker))
		return InvalidBlockNumber;
	return (BlockNumber) taker->next_block++;
}

/* Read chunks of the range until there are none left. */
static void
read_chunks(Relation rel, Range *range, LoadResult *result)
{
	Taker		taker = {.range = range};

	load_blocks(rel, range->forknum, &range->options, range->nblocks,
				next_block_of_range, &taker, result);
}

static void
add_result(LoadResult *sum, const LoadResult *result)
{
	sum->blocks += result->blocks;
	sum->ring_buffers += result->ring_buffers;
	ring_add_counts(&sum->counts, &result->counts);
}

/*
 * Reserve room in the context's segment, and start so many workers, or as many
 * as can be had.  Should there be no room for a segment, it is the leader's own
 * memory, and there are no workers.
 */
static void
start_workers(Crew *crew, int nworkers)
{
	ParallelContext *pcxt;
	Size		query_len = debug_query_string ? strlen(debug_query_string) + 1 : 0;
	Size		buffer_usage = mul_size(sizeof(BufferUsage), nworkers);
	Size		wal_usage = mul_size(sizeof(WalUsage), nworkers);

	EnterParallelMode();
	crew->pcxt = pcxt = CreateParallelContext("pg_ringctl", "crew_worker_main",
											  nworkers);
	shm_toc_estimate_chunk(&pcxt->estimator, sizeof(CrewShared));
	shm_toc_estimate_chunk(&pcxt->estimator, buffer_usage);
	shm_toc_estimate_chunk(&pcxt->estimator, wal_usage);
	shm_toc_estimate_chunk(&pcxt->estimator, query_len);
	shm_toc_estimate_keys(&pcxt->estimator, 4);
	InitializeParallelDSM(pcxt);

	crew->shared = shm_toc_allocate(pcxt->toc, sizeof(CrewShared));
	memset(crew->shared, 0, sizeof(CrewShared));
	crew->shared->magic = CREW_MAGIC;
	ConditionVariableInit(&crew->shared->given);
	ConditionVariableInit(&crew->shared->done);
	SpinLockInit(&crew->shared->lock);
	shm_toc_insert(pcxt->toc, KEY_CREW, crew->shared);

	shm_toc_insert(pcxt->toc, KEY_BUFFER_USAGE,
				   shm_toc_allocate(pcxt->toc, buffer_usage));
	shm_toc_insert(pcxt->toc, KEY_WAL_USAGE,
				   shm_toc_allocate(pcxt->toc, wal_usage));
	if (query_len > 0)
	{
		char	   *query = shm_toc_allocate(pcxt->toc, query_len);

		memcpy(query, debug_query_string, query_len);
		shm_toc_insert(pcxt->toc, KEY_QUERY, query);
	}

	LaunchParallelWorkers(pcxt);
}

/* There is work for them: start the workers, or as many as can be had. */
static void
call_workers(Crew *crew)
{
	int			nworkers = crew->nworkers;

	crew->nworkers = 0;
	/* A worker can't have any: it is in its leader's lock group. */
	if (IsParallelWorker())
	{
		ereport(NOTICE,
				(errmsg("a parallel worker cannot launch parallel workers")));
		return;
	}

	init_wait_events();
	start_workers(crew, nworkers);
	if (crew->pcxt->nworkers_launched < nworkers)
		ereport(NOTICE,
				(errmsg("launched %d of %d parallel workers",
						crew->pcxt->nworkers_launched, nworkers),
				 errhint("You might need to increase \"%s\" or \"%s\".",
						 "max_parallel_workers", "max_worker_processes")));
}

/*
 * crew_begin
 *		A crew of the session and so many workers, or as many as can be had when
 *		there is work for them; palloc'd, and to be given to crew_end().
 *
 * From crew_read() to crew_end() the session may be in parallel mode: it may
 * not write.
 */
Crew *
crew_begin(int nworkers)
{
	Crew	   *crew = palloc0(sizeof(Crew));

	crew->nworkers = nworkers;
	return crew;
}

static void
give_range(CrewShared *shared, int nworkers)
{
	SpinLockAcquire(&shared->lock);
	shared->nranges++;
	shared->working = nworkers;
	memset(&shared->result, 0, sizeof(LoadResult));
	SpinLockRelease(&shared->lock);
	ConditionVariableBroadcast(&shared->given);
}

static bool
workers_are_done(CrewShared *shared)
{
	bool		done;

	SpinLockAcquire(&shared->lock);
	done = (shared->working == 0);
	SpinLockRelease(&shared->lock);
	return done;
}

/* Wait until all workers, if they start at all, are done with the range. */
static void
wait_until_done(Crew *crew)
{
	WaitForParallelWorkersToAttach(crew->pcxt);

	ConditionVariablePrepareToSleep(&crew->shared->done);
	while (!workers_are_done(crew->shared))
		ConditionVariableSleep(&crew->shared->done, wait_for_workers);
	ConditionVariableCancelSleep();
}

/*
 * crew_read
 *		Read nblocks blocks of the relation, from first_block on, into shared
 *		buffers.  The sum of what came of it is in *result.
 */
void
crew_read(Crew *crew, Relation rel, ForkNumber forknum,
		  const RingOptions *options, int64 first_block, int64 nblocks,
		  LoadResult *result)
{
	int			nworkers;

	if (crew->nworkers > 0 && nblocks > MIN_CHUNK)
		call_workers(crew);
	nworkers = crew->pcxt ? crew->pcxt->nworkers_launched : 0;

	if (nworkers == 0 || nblocks <= MIN_CHUNK)
	{
		Range		range;

		set_range(&range, rel, forknum, options, first_block, nblocks, 1);
		read_chunks(rel, &range, result);
		return;
	}

	set_range(&crew->shared->range, rel, forknum, options, first_block, nblocks,
			  nworkers + 1);
	give_range(crew->shared, nworkers);
	read_chunks(rel, &crew->shared->range, result);
	wait_until_done(crew);
	add_result(result, &crew->shared->result);
}

/*
 * crew_end
 *		There is nothing more to read.
 */
void
crew_end(Crew *crew)
{
	ParallelContext *pcxt = crew->pcxt;

	if (pcxt != NULL)
	{
		BufferUsage *buffer_usage = shm_toc_lookup(pcxt->toc, KEY_BUFFER_USAGE, false);
		WalUsage   *wal_usage = shm_toc_lookup(pcxt->toc, KEY_WAL_USAGE, false);

		SpinLockAcquire(&crew->shared->lock);
		crew->shared->ended = true;
		SpinLockRelease(&crew->shared->lock);
		ConditionVariableBroadcast(&crew->shared->given);

		WaitForParallelWorkersToFinish(pcxt);
		for (int i = 0; i < pcxt->nworkers_launched; i++)
			InstrAccumParallelQuery(&buffer_usage[i], &wal_usage[i]);
		DestroyParallelContext(pcxt);
		ExitParallelMode();
	}
	pfree(crew);
}

/* Has the leader given out more ranges than a worker saw, or ended? */
static bool
leader_went_on(CrewShared *shared, int seen, bool *ended)
{
	bool		went_on;

	SpinLockAcquire(&shared->lock);
	*ended = shared->ended;
	went_on = *ended || shared->nranges > seen;
	SpinLockRelease(&shared->lock);
	return went_on;
}

/* Wait for the range after those seen; returns whether there is one. */
static bool
wait_for_next(CrewShared *shared, int seen)
{
	bool		ended;

	ConditionVariablePrepareToSleep(&shared->given);
	while (!leader_went_on(shared, seen, &ended))
		ConditionVariableSleep(&shared->given, wait_for_range);
	ConditionVariableCancelSleep();
	return !ended;
}

/* A worker reads its chunks of a range, and adds what came of it. */
static void
work_on_range(CrewShared *shared)
{
	LoadResult	result = {0};
	Relation	rel = relation_open(shared->range.relid, AccessShareLock);
	bool		last;

	read_chunks(rel, &shared->range, &result);
	relation_close(rel, AccessShareLock);

	SpinLockAcquire(&shared->lock);
	add_result(&shared->result, &result);
	last = (--shared->working == 0);
	SpinLockRelease(&shared->lock);
	if (last)
		ConditionVariableSignal(&shared->done);
}

/*
 * crew_worker_main
 *		What a worker does: called by the server, in a transaction that is a
 *		copy of the leader's.
 */
void
crew_worker_main(dsm_segment *seg pg_attribute_unused(), shm_toc *toc)
{
	CrewShared *shared = shm_toc_lookup(toc, KEY_CREW, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);

	if (shared->magic != CREW_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("library \"%s\" was replaced while the session was using it",
						"pg_ringctl"),
				 errhint("Start a new session.")));

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);

	enabled_listen();
	init_wait_events();
	InstrStartParallelQuery();
	for (int seen = 0; wait_for_next(shared, seen); seen++)
		work_on_range(shared);
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);
}
