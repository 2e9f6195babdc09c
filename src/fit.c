/*-------------------------------------------------------------------------
 *
 * fit.c
 *	  Does what is to be read fit into shared buffers?
 *
 * Without a ring, blocks beyond the size of the pool only throw out those that
 * were read before them, and everybody else's.  The user says what to do then:
 * hear of it before anything is read, read what fits, or neither.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fit.h"
#include "miscadmin.h"

/*
 * fit_parse
 *		The action of that name.  Raises an error if there is none.
 */
FitAction
fit_parse(const char *name)
{
	if (strcmp(name, "warn") == 0)
		return FIT_WARN;
	if (strcmp(name, "stop") == 0)
		return FIT_STOP;
	if (strcmp(name, "ignore") == 0)
		return FIT_IGNORE;

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\": \"%s\"", "fit", name),
			 errhint("Valid values are \"warn\", \"stop\", and \"ignore\".")));
	return FIT_IGNORE;			/* keep compiler quiet */
}

/*
 * fit_warn
 *		So many blocks are to be read: say so if they do not fit.
 */
void
fit_warn(int64 blocks)
{
	if (blocks > NBuffers)
		ereport(WARNING,
				(errmsg("the blocks to be read do not fit into shared buffers"),
				 errdetail("There are %lld blocks, and \"shared_buffers\" has room for %d.",
						   (long long) blocks, NBuffers),
				 errhint("Read them through a ring (\"ring_kb\"), or only as many as fit (\"fit\" => 'stop').")));
}

/*
 * fit_take
 *		So many blocks are to be read: returns how many of them may be.
 */
int64
fit_take(Fit *fit, int64 blocks)
{
	int64		granted = blocks;

	if (fit->action == FIT_STOP)
		granted = Min(blocks, NBuffers - fit->granted);
	fit->asked += blocks;
	fit->granted += granted;
	return granted;
}

/*
 * fit_tell
 *		Everything that fits was read: tell what was left out.
 */
void
fit_tell(const Fit *fit)
{
	if (fit->asked > fit->granted)
		ereport(NOTICE,
				(errmsg("%lld of %lld blocks were left out",
						(long long) (fit->asked - fit->granted),
						(long long) fit->asked),
				 errdetail("\"shared_buffers\" has room for %d.", NBuffers)));
}
