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
#include "funcapi.h"
#include "ring/ring.h"
#include "shmem/progress.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_progress);

#define PROGRESS_COLUMNS	9

#define NAME(member, name)	[member] = name,

static const char *const command_names[] = {PROGRESS_COMMANDS(NAME)};
static const char *const phase_names[] = {PROGRESS_PHASES(NAME)};

/*
 * pg_ringctl_progress()
 *
 * Returns one row for each command that prewarms, in any session.  As in the
 * server's views of progress, a transaction goes on seeing what it has seen at
 * first.
 */
Datum
pg_ringctl_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	int			n;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, PROGRESS_COLUMNS);

	n = pgstat_fetch_stat_numbackends();
	for (int backend = 1; backend <= n; backend++)
	{
		const PgBackendStatus *status =
			&pgstat_get_local_beentry_by_index(backend)->backendStatus;
		const int64 *params = status->st_progress_param;
		Datum		values[PROGRESS_COLUMNS];
		bool		nulls[PROGRESS_COLUMNS] = {0};
		int			i = 0;

		if (status->st_progress_command != PROGRESS_COMMAND_RINGCTL ||
			params[PROGRESS_STARTED] == 0)
			continue;
		values[i++] = Int32GetDatum(status->st_procpid);
		values[i++] = ObjectIdGetDatum(status->st_databaseid);
		values[i++] = ObjectIdGetDatum((Oid) params[PROGRESS_RELATION]);
		values[i++] = CStringGetTextDatum(command_names[params[PROGRESS_KIND]]);
		values[i++] = CStringGetTextDatum(phase_names[params[PROGRESS_PHASE]]);
		values[i++] = Int64GetDatum(params[PROGRESS_TOTAL]);
		values[i++] = Int64GetDatum(params[PROGRESS_DONE]);
		values[i++] = Int32GetDatum((int32) params[PROGRESS_WORKERS]);
		values[i++] = TimestampTzGetDatum(params[PROGRESS_STARTED]);
		Assert(i == PROGRESS_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
