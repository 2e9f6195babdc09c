/*-------------------------------------------------------------------------
 *
 * sql_stats.c
 *	  Show users the cumulative statistics.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "funcapi.h"
#include "common/results.h"
#include "shmem/escape_log.h"
#include "readers/reader.h"
#include "sql/sql_counts.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_stats);
PG_FUNCTION_INFO_V1(pg_ringctl_stats_info);
PG_FUNCTION_INFO_V1(pg_ringctl_stats_reset);

#define STATS_COLUMNS	(10 + COUNTS_COLUMNS)
#define INFO_COLUMNS	5

static void
put_row(ReturnSetInfo *rsinfo, const StatsRow *row)
{
	const StatsCounters *c = &row->counters;
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {0};
	int			i = 0;

	values[i++] = ObjectIdGetDatum(row->key.datid);
	values[i++] = ObjectIdGetDatum(row->key.relid);
	values[i++] = CStringGetTextDatum(reader_kind_name(row->key.kind));
	values[i++] = Int64GetDatum(c->scans);
	values[i++] = Int64GetDatum(c->workers);
	values[i++] = Int32GetDatum(c->ring_buffers);
	values[i++] = Int32GetDatum(c->ring_buffers_max);
	values[i++] = Float8GetDatum(c->elapsed_ms);
	nulls[i] = (c->last_scan == 0);
	values[i++] = TimestampTzGetDatum(c->last_scan);
	values[i++] = TimestampTzGetDatum(c->stats_reset);
	i += put_counts(&values[i], &c->ring);
	Assert(i == STATS_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_stats()
 *
 * Returns one row for each database, relation and kind of reader that was
 * counted.
 */
Datum
pg_ringctl_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	StatsRow   *rows;
	int			nrows;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, STATS_COLUMNS);

	reader_attach_shared();
	nrows = stats_read(&rows);
	for (int i = 0; i < nrows; i++)
		put_row(rsinfo, &rows[i]);
	return (Datum) 0;
}

/*
 * pg_ringctl_stats_info()
 *
 * Returns how many rows of counters there are, how many were removed because
 * there was no room, how many entries of the log of escapes were dropped, how
 * many rings could not be shown, or not with their slots, and when all
 * counters were last reset.
 */
Datum
pg_ringctl_stats_info(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Datum		values[INFO_COLUMNS];
	bool		nulls[INFO_COLUMNS] = {0};
	StatsInfo	info;

	ring_require_server();
	tupdesc = results_row_type(fcinfo, INFO_COLUMNS);

	reader_attach_shared();
	stats_read_info(&info);
	values[0] = Int64GetDatum(info.nrows);
	values[1] = Int64GetDatum(info.dealloc);
	values[2] = Int64GetDatum(escapes_dropped());
	values[3] = Int64GetDatum(live_not_shown());
	values[4] = TimestampTzGetDatum(info.stats_reset);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/* Tell the user that nothing was reset. */
static void
notice_nothing_reset(Oid datid, Oid relid)
{
	ereport(NOTICE,
			(errmsg("there are no statistics to reset"),
			 !OidIsValid(datid) ?
			 errdetail("There is no row for a relation with OID %u.", relid) :
			 !OidIsValid(relid) ?
			 errdetail("There is no row for a database with OID %u.", datid) :
			 errdetail("There is no row for a relation with OID %u in a database with OID %u.",
					   relid, datid)));
}

/*
 * pg_ringctl_stats_reset(datid oid, relid oid)
 *
 * Resets the counters of a relation, of a database, or all; 0 stands for any
 * relation or database.  If all are reset, the number of dropped entries of
 * the log of escapes is reset, too.  Returns the time of the reset.
 */
Datum
pg_ringctl_stats_reset(PG_FUNCTION_ARGS)
{
	Oid			datid = PG_GETARG_OID(0);
	Oid			relid = PG_GETARG_OID(1);
	TimestampTz reset;
	int			nrows;

	ring_require_server();
	reader_attach_shared();
	if (!OidIsValid(datid) && !OidIsValid(relid))
		escapes_reset_dropped();
	reset = stats_reset(datid, relid, &nrows);
	if (nrows == 0 && (OidIsValid(datid) || OidIsValid(relid)))
		notice_nothing_reset(datid, relid);
	PG_RETURN_TIMESTAMPTZ(reset);
}
