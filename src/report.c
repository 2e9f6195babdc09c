/*-------------------------------------------------------------------------
 *
 * report.c
 *	  What users see of the counters.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "funcapi.h"
#include "registry.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_stats);
PG_FUNCTION_INFO_V1(pg_ringctl_stats_info);
PG_FUNCTION_INFO_V1(pg_ringctl_stats_reset);

#define STATS_COLUMNS	26
#define INFO_COLUMNS	4

/* Put one row of counters into the result. */
static void
put_row(ReturnSetInfo *rsinfo, const StatsRow *row)
{
	const StatsCounters *c = &row->counters;
	const RingCounts *ring = &c->ring;
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {0};
	int			i = 0;

	values[i++] = ObjectIdGetDatum(row->key.datid);
	values[i++] = ObjectIdGetDatum(row->key.relid);
	values[i++] = CStringGetTextDatum(registry_kind_name(row->key.kind));
	values[i++] = Int64GetDatum(c->scans);
	values[i++] = Int64GetDatum(c->workers);
	values[i++] = Int64GetDatum(ring->blocks);
	values[i++] = Int64GetDatum(ring_blocks_hit(ring));
	values[i++] = Int64GetDatum(ring->blks_read);
	values[i++] = Int64GetDatum(ring->blks_unringed);
	values[i++] = Int64GetDatum(ring->fills);
	values[i++] = Int64GetDatum(ring->reuses);
	values[i++] = Int64GetDatum(ring->escapes_pinned);
	values[i++] = Int64GetDatum(ring->escapes_dirty);
	values[i++] = Int64GetDatum(ring->escapes_adopted);
	values[i++] = Int64GetDatum(ring->slots_lost);
	values[i++] = Int64GetDatum(ring->unconsumed);
	values[i++] = Int32GetDatum(c->ring_buffers);
	values[i++] = Int32GetDatum(c->ring_buffers_max);
	values[i++] = Int64GetDatum(ring->wal_flushes);
	values[i++] = Int64GetDatum(ring->released);
	values[i++] = Int64GetDatum(ring->blks_shared);
	values[i++] = Int64GetDatum(ring->share_waits);
	values[i++] = Float8GetDatum(ring->share_wait_us / 1000.0);
	values[i++] = Float8GetDatum(c->elapsed_ms);
	nulls[i] = (c->last_scan == 0);
	values[i++] = TimestampTzGetDatum(c->last_scan);
	values[i++] = TimestampTzGetDatum(c->stats_reset);
	Assert(i == STATS_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_stats()
 *
 * One row for each database, relation and kind of reader that was counted.
 */
Datum
pg_ringctl_stats(PG_FUNCTION_ARGS)
{
	StatsRow   *rows;
	int			nrows;

	ring_require_server();
	InitMaterializedSRF(fcinfo, 0);

	nrows = registry_read(&rows);
	for (int i = 0; i < nrows; i++)
		put_row((ReturnSetInfo *) fcinfo->resultinfo, &rows[i]);
	return (Datum) 0;
}

/*
 * pg_ringctl_stats_info()
 *
 * How many rows of counters there are, how many of them and of the log of
 * escaped buffers had to go because there was no room, and when all were reset.
 */
Datum
pg_ringctl_stats_info(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Datum		values[INFO_COLUMNS];
	bool		nulls[INFO_COLUMNS] = {0};
	int64		relations;
	int64		dealloc;
	int64		dropped;
	TimestampTz stats_reset;

	ring_require_server();
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	registry_read_info(&relations, &dealloc, &dropped, &stats_reset);
	values[0] = Int64GetDatum(relations);
	values[1] = Int64GetDatum(dealloc);
	values[2] = Int64GetDatum(dropped);
	values[3] = TimestampTzGetDatum(stats_reset);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_stats_reset(datid oid, relid oid)
 *
 * Sets the counters of a relation, of a database, or all, back to zero; 0
 * stands for any.  Returns when.
 */
Datum
pg_ringctl_stats_reset(PG_FUNCTION_ARGS)
{
	ring_require_server();
	PG_RETURN_TIMESTAMPTZ(registry_reset(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}
