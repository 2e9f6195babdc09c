/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  The progress of commands that prewarm.
 *
 * Besides the progress of a command, the server keeps the kind of the command
 * (ProgressCommandType).  That is a number, and the server accepts any.  So
 * commands of ours have a number of their own, and are reported like the
 * server's: by pgstat_progress_...().  The server forgets the command when the
 * transaction or a subtransaction fails.
 *
 * As for the server's commands, nothing is reported if track_activities is
 * off, and a process has only one command at a time: if the function was
 * called by a command of the server's, that one is not shown any more.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "common/clock.h"
#include "shmem/progress.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/*
 * progress_run
 *		Run a command, which the user has called for this relation, and show
 *		its progress.  Returns the elapsed time in ms.
 */
double
progress_run(ProgressCommand command, Oid relid, void (*run) (void *arg), void *arg)
{
	static const int params[] = {PROGRESS_KIND, PROGRESS_RELATION, PROGRESS_STARTED};
	const int64 values[] = {command, relid, GetCurrentTimestamp()};
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	pgstat_progress_start_command(PROGRESS_COMMAND_RINGCTL, relid);
	pgstat_progress_update_multi_param(lengthof(params), params, values);
	run(arg);
	pgstat_progress_end_command();
	return milliseconds_since(start);
}

/*
 * Tell the leader that this parallel worker has read this number of blocks.
 * The server's function leaves memory behind in early minor releases.
 */
static void
tell_leader(int64 blocks)
{
	static MemoryContext context = NULL;
	MemoryContext oldcontext;

	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "pg_ringctl progress",
										ALLOCSET_SMALL_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	pgstat_progress_parallel_incr_param(PROGRESS_DONE, blocks);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(context);
}

/*
 * progress_add
 *		This process has read this number of blocks.  A parallel worker that
 *		runs no command of its own adds them to the count of its leader's
 *		command.
 */
void
progress_add(int64 blocks)
{
	if (!pgstat_track_activities)
		return;
	if (IsParallelWorker() &&
		MyBEEntry->st_progress_command != PROGRESS_COMMAND_RINGCTL)
		tell_leader(blocks);
	else
		pgstat_progress_incr_param(PROGRESS_DONE, blocks);
}
