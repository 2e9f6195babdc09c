/*-------------------------------------------------------------------------
 *
 * prewarm.c
 *	  Read a relation, through a ring of a given size or without one.
 *
 * Without a ring, a prewarm fills shared_buffers, as pg_prewarm does, but by
 * default reads only as many blocks as fit (prewarm_fit.c).  Through a ring,
 * it reads all blocks, but leaves only the ring's pages in shared_buffers.
 * That is useful to bring a relation into the operating system's cache at the
 * speed of asynchronous I/O, to verify its checksums, or to measure.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/arguments.h"
#include "common/results.h"
#include "compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "params.h"
#include "ring/plan.h"
#include "postmaster/bgworker_internals.h"
#include "readers/prewarm.h"
#include "shmem/progress.h"
#include "common/relations.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(pg_ringctl_prewarm);

typedef enum PrewarmMode
{
	PREWARM_PREFETCH,
	PREWARM_READ,
	PREWARM_BUFFER,
} PrewarmMode;

/* What a call of pg_ringctl_prewarm() asks for. */
typedef struct PrewarmJob
{
	OpenRelation open;
	ForkNumber	forknum;
	PrewarmMode mode;
	PrewarmOptions options;
	int64		first_block;
	int64		nblocks;
	LoadResult	result;
} PrewarmJob;

/* The values of "mode". */
static const struct config_enum_entry modes[] = {
	{"buffer", PREWARM_BUFFER, false},
	{"read", PREWARM_READ, false},
	{"prefetch", PREWARM_PREFETCH, false},
	{NULL, 0, false}
};

/*
 * prewarm_get_ring
 *		The size in kB of the ring that the argument with this number asks for.
 *		Each function that prewarms is declared twice: the argument is text
 *		with the syntax of pg_ringctl.scan_ring, or a number of kB.  Raises an
 *		error if the argument is null (22004) or not valid (22023).
 */
int
prewarm_get_ring(FunctionCallInfo fcinfo, int argno)
{
	Oid		   *types;
	int			ntypes;
	int64		kb;

	args_check_not_null(fcinfo, argno, "ring");
	(void) get_func_signature(fcinfo->flinfo->fn_oid, &types, &ntypes);
	Assert(argno < ntypes);
	if (types[argno] == TEXTOID)
		kb = args_parse_size("ring", text_to_cstring(PG_GETARG_TEXT_PP(argno)), GUC_UNIT_KB);
	else
		kb = PG_GETARG_INT64(argno);
	return args_check_ring("ring", kb,
						   "-1 is the ring that a sequential scan would get, or, if that is the server's own, one that sizes itself; 0 is no ring.");
}

/*
 * prewarm_get_options
 *		Check the arguments with these numbers, and fill in the options.
 *		Raises an error if an argument is null (22004) or not valid (22023).
 */
void
prewarm_get_options(FunctionCallInfo fcinfo, int ring_argno, int workers_argno,
					int fit_argno, PrewarmOptions *options)
{
	args_check_not_null(fcinfo, workers_argno, "workers");
	args_check_not_null(fcinfo, fit_argno, "fit");

	options->ring_kb = prewarm_get_ring(fcinfo, ring_argno);
	options->workers = PG_GETARG_INT32(workers_argno);
	options->fit = fit_parse(text_to_cstring(PG_GETARG_TEXT_PP(fit_argno)));
	args_check_between("workers", options->workers,
					   0, MAX_PARALLEL_WORKER_LIMIT);
}

/*
 * prewarm_check_enabled
 *		If pg_ringctl is switched off, raise an error (55000), unless ring_kb
 *		is 0, which asks for no ring.
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
 *		Change the options to what can be done with this relation and its
 *		parts.
 *
 * If there is a ring, it does not matter whether the blocks fit into shared
 * buffers.  There is a ring if ring_kb is above 0.  If ring_kb is -1, it is
 * decided later for each part whether there is one.  A temporary relation is
 * read into local buffers, so whether it fits into shared buffers does not
 * matter, either; and parallel workers can't read it.
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
				 errhint("The other modes do not read into shared buffers; set \"ring\" to 0.")));
	if (options->workers > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only prewarm mode \"buffer\" can use parallel workers"),
				 errhint("Set \"workers\" to 0.")));
}

/*
 * prewarm_check_block
 *		Raise an error (22023) if this fork of the relation, which has nblocks
 *		blocks, does not have this block.  which: what the error calls the
 *		block.
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
				 errdetail_plural("Fork \"%s\" of relation \"%s\" has %lld block, counted from 0.",
								  "Fork \"%s\" of relation \"%s\" has %lld blocks, counted from 0.",
								  nblocks, forkNames[forknum],
								  RelationGetRelationName(rel),
								  (long long) nblocks)));
}

/* Get the range of blocks from the arguments, and check it. */
static void
get_range(PrewarmJob *job, FunctionCallInfo fcinfo)
{
	Relation	rel = job->open.rel;
	int64		nblocks = RelationGetNumberOfBlocksInFork(rel, job->forknum);
	int64		last_block = nblocks - 1;

	job->first_block = 0;

	if (!PG_ARGISNULL(4))
	{
		job->first_block = PG_GETARG_INT64(4);
		prewarm_check_block(rel, job->forknum, job->first_block, nblocks, "starting block");
	}
	if (!PG_ARGISNULL(5))
	{
		last_block = PG_GETARG_INT64(5);
		prewarm_check_block(rel, job->forknum, last_block, nblocks, "ending block");
	}

	if (!PG_ARGISNULL(4) && !PG_ARGISNULL(5) && last_block < job->first_block)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ending block number %lld is before starting block number %lld",
						(long long) last_block, (long long) job->first_block)));
	job->nblocks = last_block - job->first_block + 1;
}

/*
 * Check the arguments, open the relation, check its kind, and check the range,
 * in this order, so that the first error is for what the user has to correct
 * first.
 */
static void
get_job(PrewarmJob *job, FunctionCallInfo fcinfo)
{
	PrewarmOptions *options = &job->options;

	args_check_not_null(fcinfo, 2, "mode");
	args_check_not_null(fcinfo, 3, "fork");
	job->mode = args_parse_choice("mode", text_to_cstring(PG_GETARG_TEXT_PP(2)), modes);
	job->forknum = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(3)));

	prewarm_get_options(fcinfo, 1, 6, 7, options);
	check_mode(job->mode, options);
	prewarm_check_enabled(options->ring_kb);

	relations_open_to_read(&job->open, PG_GETARG_OID(0));
	relations_check_storage(job->open.rel, job->forknum, options->ring_kb > 0);
	relations_notice_children(job->open.rel, "pg_ringctl_prewarm_all");
	get_range(job, fcinfo);
	plan_notice_cap(options->ring_kb, job->nblocks);
	prewarm_adapt_options(options, job->open.rel);
}

/* Hint the operating system to read the blocks; don't wait for the reads. */
static void
prefetch_blocks(PrewarmJob *job)
{
#ifdef USE_PREFETCH
	for (; job->result.blocks < job->nblocks; job->result.blocks++)
	{
		CHECK_FOR_INTERRUPTS();
		PrefetchBuffer(job->open.rel, job->forknum, job->first_block + job->result.blocks);
		progress_add(1);
	}
#else
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("prefetch is not supported by this build")));
#endif
}

/* Read the blocks, but not into shared buffers. */
static void
read_blocks(PrewarmJob *job)
{
	static PGIOAlignedBlock blockbuffer;

	for (; job->result.blocks < job->nblocks; job->result.blocks++)
	{
		CHECK_FOR_INTERRUPTS();
		smgrread(RelationGetSmgr(job->open.rel), job->forknum,
				 job->first_block + job->result.blocks, blockbuffer.data);
		progress_add(1);
	}
}

/*
 * prewarm_blocks_to_fit
 *		How many of nblocks blocks of the relation have to fit into shared
 *		buffers?  If they are read through a ring, none.
 */
int64
prewarm_blocks_to_fit(Relation rel, int ring_kb, int64 nblocks)
{
	RingOptions options;

	plan_for_prewarm(rel, ring_kb, &options);
	return options.nbuffers > 0 ? 0 : nblocks;
}

/*
 * prewarm_read
 *		Read nblocks blocks of a fork of the relation, from first_block on,
 *		into shared buffers; if there is no ring, only as many of them as
 *		fit_take() grants.
 *
 * parallel: the processes that read.  fit: what has been granted to this
 * command so far; it is updated.  ring_kb: as in PrewarmOptions.  *result must
 * be zeroed.
 */
void
prewarm_read(ParallelPrewarm *parallel, FitBudget *fit, int ring_kb, Relation rel,
			 ForkNumber forknum, int64 first_block, int64 nblocks,
			 LoadResult *result)
{
	RingOptions options;

	plan_for_prewarm(rel, ring_kb, &options);
	if (options.nbuffers == 0)
		nblocks = fit_take(fit, nblocks);
	parallel_prewarm_read(parallel, rel, forknum, &options, first_block, nblocks, result);
}

/* Read the blocks into shared buffers, through a ring or without one. */
static void
buffer_blocks(PrewarmJob *job)
{
	const PrewarmOptions *options = &job->options;
	FitBudget	fit = {.action = options->fit};
	int64		have_to_fit = prewarm_blocks_to_fit(job->open.rel, options->ring_kb,
													job->nblocks);
	ParallelPrewarm parallel = {.nworkers = options->workers};

	fit_warn(&fit, have_to_fit);
	pgstat_progress_update_param(PROGRESS_TOTAL,
								 fit_count_readable(&fit, have_to_fit, job->nblocks));
	prewarm_read(&parallel, &fit, options->ring_kb, job->open.rel, job->forknum,
				 job->first_block, job->nblocks, &job->result);
	parallel_prewarm_end(&parallel);
	fit_report_left_out(&fit);
}

/* Read the blocks, in any mode. */
static void
read_job(void *arg)
{
	PrewarmJob *job = arg;

	pgstat_progress_update_param(PROGRESS_TOTAL, job->nblocks);
	pgstat_progress_update_param(PROGRESS_PHASE, PHASE_READING);
	switch (job->mode)
	{
		case PREWARM_PREFETCH:
			prefetch_blocks(job);
			break;
		case PREWARM_READ:
			read_blocks(job);
			break;
		case PREWARM_BUFFER:
			buffer_blocks(job);
			break;
	}
}

/*
 * prewarm_put_result
 *		Fill PREWARM_RESULT_COLUMNS columns with the result.  elapsed_time is
 *		in ms.
 */
void
prewarm_put_result(const LoadResult *result, double elapsed_time, Datum *values)
{
	const RingCounts *counts = &result->counts;

	values[0] = Int64GetDatum(result->blocks);
	values[1] = Int64GetDatum(result->blocks - result->counts.blks_read);
	values[2] = Int64GetDatum(result->counts.blks_read);
	values[3] = Int32GetDatum(result->ring_buffers);
	values[4] = Int64GetDatum(counts->reuses);
	values[5] = Int64GetDatum(counts->escapes_pinned + counts->escapes_dirty +
							  counts->escapes_adopted);
	values[6] = Float8GetDatum(elapsed_time);
}

static Datum
make_result(TupleDesc tupdesc, PrewarmMode mode, const LoadResult *result,
			double elapsed_time)
{
	Datum		values[PREWARM_RESULT_COLUMNS];
	bool		nulls[PREWARM_RESULT_COLUMNS] = {0};

	prewarm_put_result(result, elapsed_time, values);

	/* The other modes do not read into shared buffers. */
	for (int i = 1; i <= 5; i++)
		nulls[i] = (mode != PREWARM_BUFFER);

	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_prewarm(relation regclass, ring text, mode text, fork text,
 *					  first_block bigint, last_block bigint, workers integer,
 *					  fit text)
 * pg_ringctl_prewarm(relation regclass, ring bigint, ...)
 *
 * Reads the blocks of a fork of the relation from first_block to last_block;
 * null stands for the first or last block of the fork.  Returns the number of
 * blocks, how many were found in shared buffers and how many were read, what
 * the ring did, and the elapsed time in ms.
 *
 * ring: size of the ring; 0 means no ring, -1 the ring that a sequential scan
 * would get, or, where that is the server's own, one that sizes itself.  mode:
 * "buffer" reads into shared buffers, "read" past them, and "prefetch" only
 * gives hints to the operating system; with the last two, blks_hit, blks_read
 * and the columns of the ring are null.  workers: number of parallel workers
 * that help.  fit: what to do if the blocks do not fit into shared buffers.
 */
Datum
pg_ringctl_prewarm(PG_FUNCTION_ARGS)
{
	PrewarmJob	job = {0};
	TupleDesc	tupdesc;
	double		elapsed_time;

	ring_require_server();
	tupdesc = results_row_type(fcinfo, PREWARM_RESULT_COLUMNS);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	get_job(&job, fcinfo);

	elapsed_time = progress_run(COMMAND_PREWARM, PG_GETARG_OID(0), read_job, &job);
	relations_close_read(&job.open);
	return make_result(tupdesc, job.mode, &job.result, elapsed_time);
}
