/*-------------------------------------------------------------------------
 *
 * prewarm_all.c
 *	  Read a table with all that belongs to it.
 *
 * First it is listed what there is to read (parts.c).  Then one part after the
 * other is opened, read by the leader and its workers (crew.c) and closed:
 * nothing stays locked longer than it is read.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parts.h"
#include "prewarm.h"
#include "relations.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_prewarm_all);

/* Raise an error if this is no table. */
static void
check_table(Relation rel)
{
	char		relkind = rel->rd_rel->relkind;

	if (!RELKIND_HAS_TABLE_AM(relkind) && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" is not a table", RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind),
				 errhint("Name a table, a partitioned table or a materialized view; \"%s\" reads whatever else has storage.",
						 "pg_ringctl_prewarm")));
}

/*
 * Check the relation, and list its parts.  Nothing stays locked.  Who may read
 * a table may read all its parts, as in a query.
 */
static List *
get_parts(Oid relid, int kinds, PrewarmOptions *options)
{
	OpenRelation open;
	List	   *parts;

	relations_open_to_read(&open, relid);
	check_table(open.rel);
	relations_check_present(open.rel);
	relations_check_buffers(open.rel, options->ring_kb != 0);
	prewarm_adapt_options(options, open.rel);
	parts = parts_list(open.rel, kinds);
	relations_close(&open);
	return parts;
}

/* How many blocks, of all of these as they are now, have to fit? */
static int64
count_blocks(const List *parts, int ring_kb)
{
	int64		blocks = 0;

	foreach_ptr(Part, part, parts)
	{
		OpenRelation open;

		CHECK_FOR_INTERRUPTS();
		if (relations_try_open(&open, part->relid, part->table))
		{
			blocks += prewarm_blocks_to_fit(open.rel, ring_kb,
											RelationGetNumberOfBlocks(open.rel));
			relations_close(&open);
		}
	}
	return blocks;
}

/* Put a row into the result. */
static void
put_part(ReturnSetInfo *rsinfo, const Part *part, const LoadResult *result,
		 double elapsed_ms)
{
	Datum		values[1 + PREWARM_RESULT_COLUMNS];
	bool		nulls[1 + PREWARM_RESULT_COLUMNS] = {0};

	values[0] = ObjectIdGetDatum(part->relid);
	prewarm_put_result(result, elapsed_ms, &values[1]);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Read one part, if it is still there. */
static void
read_part(Crew *crew, Fit *fit, const Part *part, int ring_kb,
		  ReturnSetInfo *rsinfo)
{
	OpenRelation open;
	LoadResult	result = {0};
	instr_time	start;
	instr_time	end;

	if (!relations_try_open(&open, part->relid, part->table))
	{
		ereport(NOTICE,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("skipping \"%s\" --- relation no longer exists", part->name)));
		return;
	}

	INSTR_TIME_SET_CURRENT(start);
	prewarm_read(crew, fit, ring_kb, open.rel, MAIN_FORKNUM, 0,
				 RelationGetNumberOfBlocks(open.rel), &result);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);

	relations_close(&open);
	put_part(rsinfo, part, &result, INSTR_TIME_GET_MILLISEC(end));
}

/*
 * pg_ringctl_prewarm_all(relation regclass, ring_kb integer, parts text[],
 *						  workers integer, fit text)
 *
 * Reads these parts of a table, or of all leaves of a partitioned table: one
 * row for each relation, with what pg_ringctl_prewarm() tells of it.
 */
Datum
pg_ringctl_prewarm_all(PG_FUNCTION_ARGS)
{
	PrewarmOptions options;
	Fit			fit = {0};
	int			kinds;
	List	   *parts;
	Crew	   *crew;

	ring_require_server();
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		return (Datum) 0;

	prewarm_get_options(fcinfo, 1, 3, 4, &options);
	prewarm_check_enabled(options.ring_kb);
	args_check_not_null(fcinfo, 2, "parts");
	kinds = parts_parse(PG_GETARG_ARRAYTYPE_P(2));
	parts = get_parts(PG_GETARG_OID(0), kinds, &options);

	if (options.fit == FIT_WARN)
		fit_warn(count_blocks(parts, options.ring_kb));
	fit.action = options.fit;

	crew = crew_begin(options.workers);
	foreach_ptr(Part, part, parts)
	{
		CHECK_FOR_INTERRUPTS();
		read_part(crew, &fit, part, options.ring_kb,
				  (ReturnSetInfo *) fcinfo->resultinfo);
	}
	crew_end(crew);
	fit_tell(&fit);
	return (Datum) 0;
}
