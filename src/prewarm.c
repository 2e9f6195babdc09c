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

#include "args.h"
#include "compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "params.h"
#include "postmaster/bgworker_internals.h"
#include "prewarm.h"
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
	PrewarmOptions options;
	int64		first_block;
	int64		last_block;		/* the last one to be read: first - 1 if none */
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

/*
 * prewarm_check_ring
 *		Raise an error if there can be no ring of this size.
 */
void
prewarm_check_ring(int ring_kb)
{
	if (ring_kb < -1 || ring_kb > RING_MAX_KB ||
		(ring_kb > 0 && ring_kb < RING_MIN_KB))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be -1, 0 or between %d kB and %d kB",
						"ring_kb", RING_MIN_KB, RING_MAX_KB),
				 errhint("-1 is the ring that a sequential scan would get, 0 is no ring.")));
}

/*
 * prewarm_get_options
 *		Check the arguments with these numbers, and fill in the options.
 */
void
prewarm_get_options(FunctionCallInfo fcinfo, int ring_kb_argno,
					int workers_argno, int fit_argno, PrewarmOptions *options)
{
	args_check_not_null(fcinfo, ring_kb_argno, "ring_kb");
	args_check_not_null(fcinfo, workers_argno, "workers");
	args_check_not_null(fcinfo, fit_argno, "fit");

	options->ring_kb = PG_GETARG_INT32(ring_kb_argno);
	options->workers = PG_GETARG_INT32(workers_argno);
	options->fit = fit_parse(text_to_cstring(PG_GETARG_TEXT_PP(fit_argno)));
	prewarm_check_ring(options->ring_kb);
	args_check_between("workers", options->workers,
					   0, MAX_PARALLEL_WORKER_LIMIT);
}

/*
 * prewarm_check_enabled
 *		Raise an error if that ring can't be had because we are switched off.
 */
void
prewarm_check_enabled(int ring_kb)
{
	if (ring_kb != 0 && !param_enabled)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot use a ring while pg_ringctl is switched off"),
				 errhint("Set \"%s\" to on, or read without a ring.", "pg_ringctl.enabled")));
}

/*
 * prewarm_adapt_options
 *		Change the options to what can be done with this relation, and its
 *		parts.
 *
 * Whether it fits is asked only where there is no ring: with a size there is
 * one, with -1 each part decides.  A temporary relation is not in shared
 * buffers, so it is not asked there, either, and nobody else can read it.
 */
void
prewarm_adapt_options(PrewarmOptions *options, Relation rel)
{
	if (options->ring_kb > 0 || RelationUsesLocalBuffers(rel))
		options->fit = FIT_IGNORE;

	if (options->workers > 0 && RelationUsesLocalBuffers(rel))
	{
		ereport(NOTICE,
				(errmsg("reading temporary relation \"%s\" without parallel workers",
						RelationGetRelationName(rel))));
		options->workers = 0;
	}
}

/* Raise an error if this mode can't do what the options say. */
static void
check_mode(PrewarmMode mode, const PrewarmOptions *options)
{
	if (mode == PREWARM_BUFFER)
		return;

	if (options->ring_kb != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only prewarm mode \"buffer\" can use a ring"),
				 errhint("The other modes do not read into shared buffers; set \"ring_kb\" to 0.")));
	if (options->workers > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only prewarm mode \"buffer\" can use parallel workers"),
				 errhint("Set \"workers\" to 0.")));
}

/*
 * prewarm_check_block
 *		Raise an error if a fork that has nblocks blocks has no such one; which
 *		says what it is to the user.
 */
void
prewarm_check_block(Relation rel, ForkNumber forknum, int64 block,
					int64 nblocks, const char *which)
{
	if (block < 0 || block >= nblocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s number %lld is out of range",
						which, (long long) block),
				 errdetail("Fork \"%s\" of relation \"%s\" has %lld blocks; the first one is 0.",
						   forkNames[forknum], RelationGetRelationName(rel),
						   (long long) nblocks)));
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
		prewarm_check_block(rel, job->forknum, job->first_block, nblocks, "starting block");
	}
	if (!PG_ARGISNULL(5))
	{
		job->last_block = PG_GETARG_INT64(5);
		prewarm_check_block(rel, job->forknum, job->last_block, nblocks, "ending block");
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
	PrewarmOptions *options = &job->options;

	args_check_not_null(fcinfo, 2, "mode");
	args_check_not_null(fcinfo, 3, "fork");
	job->mode = parse_mode(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	job->forknum = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(3)));

	prewarm_get_options(fcinfo, 1, 6, 7, options);
	check_mode(job->mode, options);
	prewarm_check_enabled(options->ring_kb);

	relations_open_to_read(&job->open, PG_GETARG_OID(0));
	relations_check_storage(job->open.rel, job->forknum, options->ring_kb != 0);
	get_range(job, fcinfo);
	prewarm_adapt_options(options, job->open.rel);
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

/*
 * prewarm_blocks_to_fit
 *		How many of so many blocks of the relation have to fit into shared
 *		buffers: none, if they are read through a ring.
 */
int64
prewarm_blocks_to_fit(Relation rel, int ring_kb, int64 nblocks)
{
	RingOptions options;

	load_choose_ring(rel, ring_kb, &options);
	return options.nbuffers > 0 ? 0 : nblocks;
}

/*
 * prewarm_read
 *		Read so many blocks of the relation, or as many of them as fit, into
 *		shared buffers.
 */
void
prewarm_read(Crew *crew, Fit *fit, int ring_kb, Relation rel,
			 ForkNumber forknum, int64 first_block, int64 nblocks,
			 LoadResult *result)
{
	RingOptions options;

	load_choose_ring(rel, ring_kb, &options);
	if (options.nbuffers == 0)
		nblocks = fit_take(fit, nblocks);
	crew_read(crew, rel, forknum, &options, first_block, nblocks, result);
}

/* Read the blocks into shared buffers, through a ring or without one. */
static void
buffer_blocks(const PrewarmJob *job, LoadResult *result)
{
	const PrewarmOptions *options = &job->options;
	int64		nblocks = job->last_block - job->first_block + 1;
	Fit			fit = {.action = options->fit};
	Crew	   *crew;

	if (options->fit == FIT_WARN)
		fit_warn(prewarm_blocks_to_fit(job->open.rel, options->ring_kb, nblocks));
	crew = crew_begin(options->workers);
	prewarm_read(crew, &fit, options->ring_kb, job->open.rel, job->forknum,
				 job->first_block, nblocks, result);
	crew_end(crew);
	fit_tell(&fit);
}

/*
 * prewarm_put_result
 *		Fill PREWARM_RESULT_COLUMNS columns with what came out.
 */
void
prewarm_put_result(const LoadResult *result, double elapsed_ms, Datum *values)
{
	const RingCounts *counts = &result->counts;
	int64		blks_read = ring_blocks_read(counts);

	values[0] = Int64GetDatum(result->blocks);
	values[1] = Int64GetDatum(result->blocks - blks_read);
	values[2] = Int64GetDatum(blks_read);
	values[3] = Int32GetDatum(result->ring_buffers);
	values[4] = Int64GetDatum(counts->reuses);
	values[5] = Int64GetDatum(counts->escapes_pinned + counts->escapes_dirty +
							  counts->escapes_adopted);
	values[6] = Float8GetDatum(elapsed_ms);
}

static Datum
make_result(FunctionCallInfo fcinfo, PrewarmMode mode,
			const LoadResult *result, double elapsed_ms)
{
	TupleDesc	tupdesc;
	Datum		values[PREWARM_RESULT_COLUMNS];
	bool		nulls[PREWARM_RESULT_COLUMNS] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	prewarm_put_result(result, elapsed_ms, values);

	/* The other modes know nothing of buffers. */
	for (int i = 1; i <= 5; i++)
		nulls[i] = (mode != PREWARM_BUFFER);

	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_prewarm(relation regclass, ring_kb integer, mode text, fork text,
 *					  first_block bigint, last_block bigint, workers integer,
 *					  fit text)
 *
 * Reads the blocks from first_block to last_block (null: from the first, to
 * the last) of a fork of the relation, and tells how many there were, how many
 * of them were found in shared buffers and how many read, what the ring did,
 * and how long it took, in ms.  So many workers help; fit is for blocks that do
 * not fit into shared buffers.
 */
Datum
pg_ringctl_prewarm(PG_FUNCTION_ARGS)
{
	PrewarmJob	job;
	LoadResult	result = {0};
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
