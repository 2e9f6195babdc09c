/*-------------------------------------------------------------------------
 *
 * prewarm_workers.c
 *	  A leader and its workers read ranges of blocks together.
 *
 * The leader opens a relation and gives out a range of its blocks.  Each
 * worker opens the relation, too.  The leader and the workers take chunks of
 * the range until none is left, each process with a reader and a ring of its
 * own.  When all are done, the leader may close the relation, and give out the
 * next range.
 *
 *	leader   call ---> give 1 --> take chunks --> wait --> give 2 --> ... end
 *	                     |                         ^         |             |
 *	                     v                         |         v             v
 *	workers  start ----> open --> take chunks --> close ---> open --> ... exit
 *
 * So the workers start only once, and each keeps the buffers of its ring from
 * one relation to the next (see lend.c).  Through a ring, a prewarm of a
 * thousand partitions leaves no more pages behind than one of a single
 * partition.  A range that is no larger than MIN_CHUNK is read by the leader
 * alone, and all others by the leader and all workers that have started.  No
 * worker is started before there is a range larger than MIN_CHUNK.
 *
 * The workers are the server's parallel workers.  They are in the leader's
 * lock group, so that a worker gets the lock that its leader holds even while
 * another session waits for an exclusive lock.  They run in a copy of the
 * leader's transaction.  Their errors become errors of the leader.  If the
 * leader's transaction fails, for whatever reason, the workers end before the
 * transaction does.
 *
 * Chunks come from one counter.  Chunks are long, so that each process reads
 * sequentially, and get shorter towards the end of the range, so that all
 * processes end together.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "compat.h"
#include "readers/prewarm_workers.h"
#include "shmem/kill_switch.h"
#include "shmem/progress.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/wait_event.h"

/*
 * Limits of a chunk, in blocks, if several processes read the range.  The last
 * chunk may be smaller.
 */
#define MIN_CHUNK		16
#define MAX_CHUNK		1024

/* A chunk is 1/CHUNKS_LEFT of a process's share of the blocks still left. */
#define CHUNKS_LEFT		4

/* Keys in the parallel context's segment. */
#define KEY_SHARED			UINT64CONST(0x52430001)
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
	int			nprocesses;		/* processes that take chunks of it */
	pg_atomic_uint64 taken;		/* blocks in the chunks taken so far */
} Range;

/* A process that takes chunks, and its present chunk. */
typedef struct ChunkReader
{
	Range	   *range;
	int64		next_block;		/* next block of the chunk */
	int64		end_block;		/* first block after the chunk */
} ChunkReader;

/* What the leader and the workers share. */
typedef struct ParallelPrewarmShared
{
	uint32		magic;			/* must be first, in every version */
	Range		range;			/* written while no worker reads */
	ConditionVariable given;	/* a range was given out, or all have been */
	ConditionVariable done;		/* all workers are done with the range */

	slock_t		lock;			/* protects the following */
	int			nranges;		/* ranges given out so far */
	bool		ended;			/* all ranges have been given out */
	int			working;		/* workers that are not done with the range */
	LoadResult	result;			/* sum of the workers that are done */
} ParallelPrewarmShared;

/*
 * A number that changes with the size of the struct.  If the library's file is
 * replaced while a session uses it, the workers of that session load the new
 * file.  So if the layout is changed, but not the size, change the constant.
 */
#define PARALLEL_PREWARM_MAGIC		((uint32) (0x52430000 + sizeof(ParallelPrewarmShared)))

extern PGDLLEXPORT void parallel_prewarm_main(dsm_segment *seg, shm_toc *toc);

/* Wait events, as pg_stat_activity shows them. */
static uint32 wait_for_range = 0;
static uint32 wait_for_workers = 0;

static void
init_wait_events(void)
{
	if (wait_for_range == 0)
		wait_for_range = WaitEventExtensionNew("RingctlPrewarmNext");
	if (wait_for_workers == 0)
		wait_for_workers = WaitEventExtensionNew("RingctlPrewarmFinish");
}

static void
set_range(Range *range, Relation rel, ForkNumber forknum,
		  const RingOptions *options, int64 first_block, int64 nblocks,
		  int nprocesses)
{
	range->relid = RelationGetRelid(rel);
	range->forknum = forknum;
	range->options = *options;
	range->first_block = first_block;
	range->nblocks = nblocks;
	range->nprocesses = nprocesses;
	pg_atomic_init_u64(&range->taken, 0);
}

/* How long is the next chunk of the blocks that are left? */
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
take_chunk(ChunkReader *reader)
{
	Range	   *range = reader->range;
	uint64		taken = pg_atomic_read_u64(&range->taken);
	int64		size;

	do
	{
		size = chunk_size(range->nblocks - (int64) taken, range->nprocesses);
		if (size == 0)
			return false;
	} while (!pg_atomic_compare_exchange_u64(&range->taken, &taken, taken + size));

	reader->next_block = range->first_block + (int64) taken;
	reader->end_block = reader->next_block + size;
	return true;
}

/* The stream's callback. */
static BlockNumber
next_block_of_range(ReadStream *stream pg_attribute_unused(), void *arg,
					void *per_buffer_data pg_attribute_unused())
{
	ChunkReader *reader = (ChunkReader *) arg;

	if (reader->next_block == reader->end_block && !take_chunk(reader))
		return InvalidBlockNumber;
	return (BlockNumber) reader->next_block++;
}

/* Read chunks of the range until there are none left. */
static void
read_chunks(Relation rel, Range *range, LoadResult *result)
{
	ChunkReader reader = {.range = range};

	load_blocks(rel, range->forknum, &range->options, range->nblocks,
				next_block_of_range, &reader, result);
}

static void
add_result(LoadResult *sum, const LoadResult *result)
{
	sum->blocks += result->blocks;
	sum->ring_buffers += result->ring_buffers;
	ring_add_counts(&sum->counts, &result->counts);
}

/*
 * Make a parallel context, and start nworkers workers, or fewer if the server
 * can't start that many.  If the server has no slot left for a shared
 * segment, the context is in the leader's own memory, and there are no
 * workers.  Raises an error if the memory for the segment runs out.
 */
static void
start_workers(ParallelPrewarm *parallel, int nworkers)
{
	ParallelContext *pcxt;
	Size		query_len = debug_query_string ? strlen(debug_query_string) + 1 : 0;
	Size		buffer_usage = mul_size(sizeof(BufferUsage), nworkers);
	Size		wal_usage = mul_size(sizeof(WalUsage), nworkers);

	EnterParallelMode();
	parallel->pcxt = pcxt = CreateParallelContext("pg_ringctl", "parallel_prewarm_main",
												  nworkers);
	shm_toc_estimate_chunk(&pcxt->estimator, sizeof(ParallelPrewarmShared));
	shm_toc_estimate_chunk(&pcxt->estimator, buffer_usage);
	shm_toc_estimate_chunk(&pcxt->estimator, wal_usage);
	shm_toc_estimate_chunk(&pcxt->estimator, query_len);
	shm_toc_estimate_keys(&pcxt->estimator, 4);
	InitializeParallelDSM(pcxt);

	parallel->shared = shm_toc_allocate(pcxt->toc, sizeof(ParallelPrewarmShared));
	memset(parallel->shared, 0, sizeof(ParallelPrewarmShared));
	parallel->shared->magic = PARALLEL_PREWARM_MAGIC;
	ConditionVariableInit(&parallel->shared->given);
	ConditionVariableInit(&parallel->shared->done);
	SpinLockInit(&parallel->shared->lock);
	shm_toc_insert(pcxt->toc, KEY_SHARED, parallel->shared);

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

/* There is work for the workers: start them. */
static void
call_workers(ParallelPrewarm *parallel)
{
	int			nworkers = parallel->nworkers;

	parallel->nworkers = 0;
	/* A worker can't have workers: it belongs to its leader's lock group. */
	if (IsParallelWorker())
	{
		ereport(NOTICE,
				(errmsg("a parallel worker cannot launch parallel workers")));
		return;
	}

	init_wait_events();
	start_workers(parallel, nworkers);
	if (parallel->pcxt->nworkers_launched < nworkers)
		ereport(NOTICE,
				(errmsg("launched %d of %d parallel workers",
						parallel->pcxt->nworkers_launched, nworkers),
				 errhint("You might need to increase \"%s\" or \"%s\".",
						 "max_parallel_workers", "max_worker_processes")));
}

static void
give_range(ParallelPrewarmShared *shared, int nworkers)
{
	SpinLockAcquire(&shared->lock);
	shared->nranges++;
	shared->working = nworkers;
	memset(&shared->result, 0, sizeof(LoadResult));
	SpinLockRelease(&shared->lock);
	ConditionVariableBroadcast(&shared->given);
}

static bool
workers_are_done(ParallelPrewarmShared *shared)
{
	bool		done;

	SpinLockAcquire(&shared->lock);
	done = (shared->working == 0);
	SpinLockRelease(&shared->lock);
	return done;
}

/*
 * Wait until all workers are done with the range.  Raises an error if a worker
 * could not start, or has failed.
 */
static void
wait_until_done(ParallelPrewarm *parallel)
{
	WaitForParallelWorkersToAttach(parallel->pcxt);

	ConditionVariablePrepareToSleep(&parallel->shared->done);
	while (!workers_are_done(parallel->shared))
		ConditionVariableSleep(&parallel->shared->done, wait_for_workers);
	ConditionVariableCancelSleep();
}

/*
 * parallel_prewarm_read
 *		Read nblocks blocks of the relation, from first_block on, into shared
 *		buffers.  *result must be zeroed, and gets the sum of all processes.
 */
void
parallel_prewarm_read(ParallelPrewarm *parallel, Relation rel, ForkNumber forknum,
					  const RingOptions *options, int64 first_block, int64 nblocks,
					  LoadResult *result)
{
	int			nworkers;

	if (parallel->nworkers > 0 && nblocks > MIN_CHUNK)
		call_workers(parallel);
	nworkers = parallel->pcxt ? parallel->pcxt->nworkers_launched : 0;

	pgstat_progress_update_param(PROGRESS_WORKERS, nworkers);
	pgstat_progress_update_param(PROGRESS_PHASE, PHASE_READING);
	if (nworkers == 0 || nblocks <= MIN_CHUNK)
	{
		Range		range;

		set_range(&range, rel, forknum, options, first_block, nblocks, 1);
		read_chunks(rel, &range, result);
		return;
	}

	set_range(&parallel->shared->range, rel, forknum, options, first_block, nblocks,
			  nworkers + 1);
	give_range(parallel->shared, nworkers);
	read_chunks(rel, &parallel->shared->range, result);
	pgstat_progress_update_param(PROGRESS_PHASE, PHASE_WAITING);
	wait_until_done(parallel);
	add_result(result, &parallel->shared->result);
}

/*
 * parallel_prewarm_end
 *		There is nothing more to read: wait until the workers have ended, and
 *		leave parallel mode.
 */
void
parallel_prewarm_end(ParallelPrewarm *parallel)
{
	ParallelContext *pcxt = parallel->pcxt;

	if (pcxt != NULL)
	{
		BufferUsage *buffer_usage = shm_toc_lookup(pcxt->toc, KEY_BUFFER_USAGE, false);
		WalUsage   *wal_usage = shm_toc_lookup(pcxt->toc, KEY_WAL_USAGE, false);

		SpinLockAcquire(&parallel->shared->lock);
		parallel->shared->ended = true;
		SpinLockRelease(&parallel->shared->lock);
		ConditionVariableBroadcast(&parallel->shared->given);

		WaitForParallelWorkersToFinish(pcxt);
		for (int i = 0; i < pcxt->nworkers_launched; i++)
			InstrAccumParallelQuery(&buffer_usage[i], &wal_usage[i]);
		DestroyParallelContext(pcxt);
		ExitParallelMode();
	}
}

/* Has the leader given out more than "seen" ranges, or ended? */
static bool
leader_went_on(ParallelPrewarmShared *shared, int seen, bool *ended)
{
	bool		went_on;

	SpinLockAcquire(&shared->lock);
	*ended = shared->ended;
	went_on = *ended || shared->nranges > seen;
	SpinLockRelease(&shared->lock);
	return went_on;
}

/* Wait for the next range after "seen" ranges.  False if there is none. */
static bool
wait_for_next(ParallelPrewarmShared *shared, int seen)
{
	bool		ended;

	ConditionVariablePrepareToSleep(&shared->given);
	while (!leader_went_on(shared, seen, &ended))
		ConditionVariableSleep(&shared->given, wait_for_range);
	ConditionVariableCancelSleep();
	return !ended;
}

/* In a worker: read chunks of the range, and add the result. */
static void
work_on_range(ParallelPrewarmShared *shared)
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
 * parallel_prewarm_main
 *		Main function of a worker.  The server calls it in a copy of the
 *		leader's transaction.
 */
void
parallel_prewarm_main(dsm_segment *seg pg_attribute_unused(), shm_toc *toc)
{
	ParallelPrewarmShared *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);

	if (shared->magic != PARALLEL_PREWARM_MAGIC)
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
