/*-------------------------------------------------------------------------
 *
 * prewarm_fit.c
 *	  What to do if the blocks to be read do not fit into shared buffers.
 *
 * If more blocks are read without a ring than shared_buffers has room for, the
 * last ones evict the first ones, and the pages of other sessions.  The user
 * says what to do in that case: warn before anything is read, read only what
 * fits, or read all without a warning.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/arguments.h"
#include "readers/prewarm_fit.h"
#include "miscadmin.h"

/*
 * fit_parse
 *		The action with this name.  Raises an error (22023) if there is none.
 */
FitAction
fit_parse(const char *name)
{
	static const struct config_enum_entry actions[] = {
		{"stop", FIT_STOP, false},
		{"warn", FIT_WARN, false},
		{"ignore", FIT_IGNORE, false},
		{NULL, 0, false}
	};

	return args_parse_choice("fit", name, actions);
}

/*
 * fit_warn
 *		Warn if this number of blocks does not fit into shared buffers, and the
 *		user wants to be warned.
 */
void
fit_warn(const FitBudget *fit, int64 blocks)
{
	if (fit->action == FIT_WARN && blocks > NBuffers)
		ereport(WARNING,
				(errmsg("the blocks to be read do not fit into shared buffers"),
				 errdetail("There are %lld blocks, and \"%s\" has room for %d.",
						   (long long) blocks, "shared_buffers", NBuffers),
				 errhint("Read them through a ring (ring => '1MB'), or only as many as fit (fit => 'stop').")));
}

/*
 * fit_take
 *		This number of blocks is to be read.  Returns how many of them may be
 *		read.
 */
int64
fit_take(FitBudget *fit, int64 blocks)
{
	int64		granted = blocks;

	if (fit->action == FIT_STOP)
		granted = Min(blocks, NBuffers - fit->granted);
	fit->asked += blocks;
	fit->granted += granted;
	return granted;
}

/*
 * fit_count_readable
 *		"all" blocks are to be read, and "have_to_fit" of these have to fit
 *		into shared buffers.  Returns how many blocks will be read.
 */
int64
fit_count_readable(const FitBudget *fit, int64 have_to_fit, int64 all)
{
	if (fit->action != FIT_STOP || have_to_fit <= NBuffers)
		return all;
	return all - have_to_fit + NBuffers;
}

/*
 * fit_report_left_out
 *		Tell the user how many blocks were left out, if any were.
 */
void
fit_report_left_out(const FitBudget *fit)
{
	int64		left_out = fit->asked - fit->granted;

	if (left_out > 0)
		ereport(NOTICE,
				(errmsg_plural("%lld of %lld blocks was left out",
							   "%lld of %lld blocks were left out",
							   left_out, (long long) left_out,
							   (long long) fit->asked),
				 errdetail("\"%s\" has room for %d blocks.", "shared_buffers", NBuffers),
				 errhint("To read them all, use a ring (ring => '1MB'), or fit => 'ignore'.")));
}
