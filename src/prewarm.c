/*-------------------------------------------------------------------------
 *
 * prewarm.c
 *	  Read a relation, through a ring of a given size or without one.
 *
 * Without a ring this does what pg_prewarm does: it fills shared_buffers.
 * Through a ring it reads everything, and leaves nothing there but the ring:
 * it brings a relation into the operating system's cache at the speed of
 * asynchronous I/O, verifies its checksums, or measures.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "funcapi.h"
#include "load.h"
#include "miscadmin.h"
#include "relations.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(pg_ringctl_prewarm);

typedef enum PrewarmMode
{
	PREWARM_PREFETCH,
	PREWARM_READ,
	PREWARM_BUFFER,
} PrewarmMode;

/* What is asked for. */
typedef struct PrewarmJob
{
	OpenRelation open;
	ForkNumber	forknum;
	PrewarmMode mode;
	int			ring_kb;
	int64		first_block;
	int64		last_block;		/* the last one to be read: first - 1 if none */
	int64		next_block;
} PrewarmJob;

static PrewarmMode
parse_mode(const char *mode)
{
	if (strcmp(mode, "prefetch") == 0)
		return PREWARM_PREFETCH;
	if (strcmp(mode, "read") == 0)
		return PREWARM_READ;
	if (strcmp(mode, "buffer") == 0)
		return PREWARM_BUFFER;

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid prewarm mode: \"%s\"", mode),
			 errhint("Valid prewarm modes are \"prefetch\", \"read\", and \"buffer\".")));
	return PREWARM_BUFFER;		/* keep compiler quiet */
}

/* Raise an error if there can be no ring of this size in this mode. */
static void
check_ring(int ring_kb, PrewarmMode mode)
{
	load_check_ring(ring_kb);
	if (ring_kb != 0 && mode != PREWARM_BUFFER)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only prewarm mode \"buffer\" can use a ring"),
				 errhint("The other modes do not read into shared buffers; set \"ring_kb\" to 0.")));
}

/* Which blocks? */
static void
get_range(PrewarmJob *job, FunctionCallInfo fcinfo)
{
	Relation	rel = job->open.rel;
	int64		nblocks = RelationGetNumberOfBlocksInFork(rel, job->forknum);

	job->first_block = 0;
	job->last_block = nblocks - 1;

	if (!PG_ARGISNULL(4))
	{
		job->first_block = PG_GETARG_INT64(4);
		load_check_block(rel, job->forknum, job->first_block, nblocks, "starting block");
	}
	if (!PG_ARGISNULL(5))
	{
		job->last_block = PG_GETARG_INT64(5);
		load_check_block(rel, job->forknum, job->last_block, nblocks, "ending block");
	}

	if (!PG_ARGISNULL(4) && !PG_ARGISNULL(5) && job->last_block < job->first_block)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ending block number %lld is before starting block number %lld",
						(long long) job->last_block, (long long) job->first_block)));
}

/*
 * Check the arguments, open the relation, check what it is, and the range: in
 * this order, so that the first error is the one to mend first.
 */
static void
get_job(PrewarmJob *job, FunctionCallInfo fcinfo)
{
	load_check_not_null(fcinfo, 1, "ring_kb");
	load_check_not_null(fcinfo, 2, "mode");
	load_check_not_null(fcinfo, 3, "fork");

	job->ring_kb = PG_GETARG_INT32(1);
	job->mode = parse_mode(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	job->forknum = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	check_ring(job->ring_kb, job->mode);

	relations_open_to_read(&job->open, PG_GETARG_OID(0));
	relations_check_storage(job->open.rel, job->forknum, job->ring_kb != 0);
	get_range(job, fcinfo);
}

/* Hint the operating system to read the blocks, and don't wait for it. */
static int64
prefetch_blocks(const PrewarmJob *job)
{
#ifdef USE_PREFETCH
	for (int64 block = job->first_block; block <= job->last_block; block++)
	{
		CHECK_FOR_INTERRUPTS();
		PrefetchBuffer(job->open.rel, job->forknum, block);
	}
	return job->last_block - job->first_block + 1;
#else
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("prefetch is not supported by this build")));
	return 0;					/* keep compiler quiet */
#endif
}

/* Read the blocks, but not into shared buffers. */
static int64
read_blocks(const PrewarmJob *job)
{
	static PGIOAlignedBlock blockbuffer;

	for (int64 block = job->first_block; block <= job->last_block; block++)
	{
		CHECK_FOR_INTERRUPTS();
		smgrread(RelationGetSmgr(job->open.rel), job->forknum, block, blockbuffer.data);
	}
	return job->last_block - job->first_block + 1;
}

/* The stream's callback. */
static BlockNumber
next_block_of_range(ReadStream *stream pg_attribute_unused(), void *arg,
					void *per_buffer_data pg_attribute_unused())
{
	PrewarmJob *job = (PrewarmJob *) arg;

	return job->next_block <= job->last_block ?
		job->next_block++ : InvalidBlockNumber;
}

/* Read the blocks into shared buffers, through a ring or without one. */
static void
buffer_blocks(PrewarmJob *job, LoadResult *result)
{
	Relation	rel = job->open.rel;
	RingOptions options;

	load_choose_ring(rel, job->ring_kb, &options);
	job->next_block = job->first_block;
	load_blocks(rel, job->forknum, &options, job->last_block - job->first_block + 1,
				next_block_of_range, job, result);
}

static Datum
make_result(FunctionCallInfo fcinfo, PrewarmMode mode,
			const LoadResult *result, double elapsed_ms)
{
	const RingCounts *counts = &result->counts;
	int64		blks_read = counts->blks_read + counts->blks_unringed;
	TupleDesc	tupdesc;
	Datum		values[7];
	bool		nulls[7] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	values[0] = Int64GetDatum(result->blocks);
	values[1] = Int64GetDatum(result->blocks - blks_read);
	values[2] = Int64GetDatum(blks_read);
	values[3] = Int32GetDatum(result->ring_buffers);
	values[4] = Int64GetDatum(counts->reuses);
	values[5] = Int64GetDatum(counts->escapes_pinned + counts->escapes_dirty +
							  counts->escapes_adopted);
	values[6] = Float8GetDatum(elapsed_ms);

	/* The other modes know nothing of buffers. */
	for (int i = 1; i <= 5; i++)
		nulls[i] = (mode != PREWARM_BUFFER);

	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_prewarm(relation regclass, ring_kb integer, mode text, fork text,
 *					  first_block bigint, last_block bigint)
 *
 * Reads the blocks from first_block to last_block (null: from the first, to
 * the last) of a fork of the relation, and tells how many there were, how many
 * of them were found in shared buffers and how many read, what the ring did,
 * and how long it took, in ms.
 */
Datum
pg_ringctl_prewarm(PG_FUNCTION_ARGS)
{
	PrewarmJob	job;
	LoadResult result = {0};
	instr_time	start;
	instr_time	end;

	ring_require_server();
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	get_job(&job, fcinfo);

	INSTR_TIME_SET_CURRENT(start);
	switch (job.mode)
	{
		case PREWARM_PREFETCH:
			result.blocks = prefetch_blocks(&job);
			break;
		case PREWARM_READ:
			result.blocks = read_blocks(&job);
			break;
		case PREWARM_BUFFER:
			buffer_blocks(&job, &result);
			break;
	}
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);

	relations_close(&job.open);
	return make_result(fcinfo, job.mode, &result, INSTR_TIME_GET_MILLISEC(end));
}
