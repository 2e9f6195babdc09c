/*-------------------------------------------------------------------------
 *
 * prewarm_all.c
 *	  Read a table with all that belongs to it.
 *
 * First the parts of the table are listed (prewarm_parts.c).  Then one part
 * after another is opened, read by the leader and its workers
 * (prewarm_workers.c), and closed.  Each part is locked only while it is
 * listed, measured, or read.  While an index is locked, so is its table.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "common/arguments.h"
#include "common/clock.h"
#include "common/results.h"
#include "compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "readers/prewarm_parts.h"
#include "readers/prewarm.h"
#include "ring/plan.h"
#include "shmem/progress.h"
#include "common/relations.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_prewarm_all);

/* Raise an error if the relation is not a table. */
static void
check_table(Relation rel)
{
	char		relkind = rel->rd_rel->relkind;

	if (!RELKIND_HAS_TABLE_AM(relkind) && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" is not a table", RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind),
				 RELKIND_HAS_STORAGE(relkind) ?
				 errhint("Name a table, a partitioned table, or a materialized view. For other relations with storage, use \"%s\".",
						 "pg_ringctl_prewarm") :
				 errhint("Name a table, a partitioned table, or a materialized view.")));
}

/*
 * Check the relation, and list its parts.  Nothing stays locked.  As in a
 * query, the privilege to read the table is enough for all its parts.
 */
static List *
get_parts(Oid relid, const List *kinds, PrewarmOptions *options)
{
	OpenRelation open;
	List	   *parts;

	relations_open_to_read(&open, relid);
	check_table(open.rel);
	relations_check_present(open.rel);
	relations_check_buffers(open.rel, options->ring_kb > 0);
	prewarm_adapt_options(options, open.rel);
	parts = parts_list(open.rel, kinds);
	relations_close_read(&open);
	return parts;
}

/* How many blocks the parts have, before any of them is read. */
typedef struct PartsSize
{
	int64		blocks;			/* of all parts */
	int64		have_to_fit;	/* of these, blocks that have to fit into
								 * shared buffers */
	int64		largest;		/* of the largest part */
} PartsSize;

static PartsSize
measure_parts(const List *parts, int ring_kb)
{
	PartsSize	size = {0};

	foreach_ptr(Part, part, parts)
	{
		OpenRelation open;

		CHECK_FOR_INTERRUPTS();
		if (relations_try_open(&open, part->relid, part->table))
		{
			int64		nblocks = RelationGetNumberOfBlocks(open.rel);

			size.blocks += nblocks;
			size.have_to_fit += prewarm_blocks_to_fit(open.rel, ring_kb, nblocks);
			size.largest = Max(size.largest, nblocks);
			relations_close_read(&open);
		}
	}
	return size;
}

/*
 * Put a row into the result.  If there was no room for any block of the part,
 * all columns except for the first are null.
 */
static void
put_part(ReturnSetInfo *rsinfo, const Part *part, const LoadResult *result,
		 bool left_out, double elapsed_time)
{
	Datum		values[1 + PREWARM_RESULT_COLUMNS];
	bool		nulls[1 + PREWARM_RESULT_COLUMNS] = {0};

	values[0] = ObjectIdGetDatum(part->relid);
	prewarm_put_result(result, elapsed_time, &values[1]);
	if (left_out)
		memset(&nulls[1], true, PREWARM_RESULT_COLUMNS * sizeof(bool));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Read one part, if it is still there. */
static void
read_part(ParallelPrewarm *parallel, FitBudget *fit, const Part *part, int ring_kb,
		  ReturnSetInfo *rsinfo)
{
	OpenRelation open;
	LoadResult	result = {0};
	int64		nblocks;
	instr_time	start;

	if (!relations_try_open(&open, part->relid, part->table))
	{
		ereport(NOTICE,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("skipping \"%s\" --- relation no longer exists", part->name)));
		return;
	}

	pgstat_progress_update_param(PROGRESS_RELATION, part->relid);
	nblocks = RelationGetNumberOfBlocks(open.rel);
	INSTR_TIME_SET_CURRENT(start);
	prewarm_read(parallel, fit, ring_kb, open.rel, MAIN_FORKNUM, 0, nblocks, &result);
	put_part(rsinfo, part, &result, nblocks > 0 && result.blocks == 0,
			 milliseconds_since(start));
	relations_close_read(&open);
}

/* What is to be read, and where the rows go. */
typedef struct AllJob
{
	const List *parts;
	PrewarmOptions options;
	ReturnSetInfo *rsinfo;
} AllJob;

/* Read all parts, with the help of workers. */
static void
read_parts(void *arg)
{
	const AllJob *job = arg;
	const PrewarmOptions *options = &job->options;
	FitBudget	fit = {.action = options->fit};
	PartsSize	size = measure_parts(job->parts, options->ring_kb);
	ParallelPrewarm parallel = {.nworkers = options->workers};

	plan_notice_cap(options->ring_kb, size.largest);
	fit_warn(&fit, size.have_to_fit);
	pgstat_progress_update_param(PROGRESS_TOTAL,
								 fit_count_readable(&fit, size.have_to_fit, size.blocks));

	foreach_ptr(Part, part, job->parts)
	{
		CHECK_FOR_INTERRUPTS();
		read_part(&parallel, &fit, part, options->ring_kb, job->rsinfo);
	}
	parallel_prewarm_end(&parallel);
	fit_report_left_out(&fit);
}

/*
 * pg_ringctl_prewarm_all(relation regclass, ring text, parts text[],
 *						  workers integer, fit text)
 * pg_ringctl_prewarm_all(relation regclass, ring bigint, ...)
 *
 * Reads these parts of a table, or of all leaves of a partitioned table.
 * Returns one row for each relation, with the columns of pg_ringctl_prewarm().
 */
Datum
pg_ringctl_prewarm_all(PG_FUNCTION_ARGS)
{
	AllJob		job;
	List	   *kinds;

	ring_require_server();
	job.rsinfo = results_begin_set(fcinfo, 1 + PREWARM_RESULT_COLUMNS);
	if (PG_ARGISNULL(0))
		return (Datum) 0;

	prewarm_get_options(fcinfo, 1, 3, 4, &job.options);
	prewarm_check_enabled(job.options.ring_kb);
	args_check_not_null(fcinfo, 2, "parts");
	kinds = parts_parse(PG_GETARG_ARRAYTYPE_P(2));
	job.parts = get_parts(PG_GETARG_OID(0), kinds, &job.options);

	progress_run(COMMAND_PREWARM_ALL, PG_GETARG_OID(0), read_parts, &job);
	return (Datum) 0;
}
