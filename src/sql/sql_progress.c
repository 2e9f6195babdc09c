/*-------------------------------------------------------------------------
 *
 * sql_progress.c
 *	  Show users the progress of commands that prewarm.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/results.h"
#include "compat.h"
#include "funcapi.h"
#include "ring/ring.h"
#include "shmem/progress.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_progress);

#define PROGRESS_COLUMNS	9

/*
 * pg_ringctl_progress()
 *
 * Returns one row for each command that prewarms now, in any session.
 */
Datum
pg_ringctl_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	Progress   *all;
	int			n;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, PROGRESS_COLUMNS);

	n = progress_read(&all);
	for (int row = 0; row < n; row++)
	{
		const Progress *progress = &all[row];
		Datum		values[PROGRESS_COLUMNS];
		bool		nulls[PROGRESS_COLUMNS] = {0};
		int			i = 0;

		values[i++] = Int32GetDatum(progress->pid);
		values[i++] = ObjectIdGetDatum(progress->datid);
		values[i++] = ObjectIdGetDatum(progress->relid);
		values[i++] = CStringGetTextDatum(progress_command_name(progress->command));
		values[i++] = CStringGetTextDatum(progress_phase_name(progress->phase));
		values[i++] = Int64GetDatum(progress->blocks_total);
		values[i++] = Int64GetDatum(progress->blocks_done);
		values[i++] = Int32GetDatum(progress->workers);
		values[i++] = TimestampTzGetDatum(progress->started);
		Assert(i == PROGRESS_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
