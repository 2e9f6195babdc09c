/*-------------------------------------------------------------------------
 *
 * kill_switch.c
 *	  The kill switch: switch pg_ringctl off, even in the middle of a scan.
 *
 * A backend reloads its configuration only between commands, so a scan that
 * runs for an hour does not see pg_ringctl.enabled change.  It learns of the
 * change in two other ways:
 *
 *	- When a backend reloads and finds the parameter switched off, it
 *	  increments a shared count.  A scan that sees the count change stops
 *	  controlling its ring.
 *	- The backend that runs the scan knows when a reload is pending.  It can't
 *	  reload yet, but it can read the configuration files.
 *
 * Parallel workers ignore SIGHUP, so a worker installs a handler for it.  A
 * worker begins with the value that the postmaster has loaded, and then takes
 * over its leader's value.  If the postmaster's value is off and the leader's
 * is on, the leader has not reloaded yet, and the worker acts as if the
 * parameter were off.
 *
 * A scan that has stopped controlling its ring does not control it again, even
 * if the parameter is switched on meanwhile.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "shmem/kill_switch.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "shmem/area.h"
#include "utils/builtins.h"
#include "utils/conffiles.h"
#include "utils/guc_tables.h"

/*
 * While a reload is pending, read the files again after this time at first,
 * then each time after twice as long, but at most MAX_LOOK_INTERVAL_MS.
 */
#define LOOK_INTERVAL_MS		500
#define MAX_LOOK_INTERVAL_MS	(16 * LOOK_INTERVAL_MS)

#define ENABLED_NAME		"pg_ringctl.enabled"

/*
 * In a parallel worker: was "enabled" off until the leader's value was
 * restored?
 */
static bool off_in_postmaster = false;

/* What this process last read in the files, while a reload was pending. */
static struct
{
	instr_time	when;			/* zero: not read yet */
	int			interval_ms;	/* until they are read again */
	bool		off;
}			last_look;

/*
 * enabled_assign
 *		Assign hook of pg_ringctl.enabled: if the parameter was switched off,
 *		tell the running scans of all processes.
 */
void
enabled_assign(bool newval, void *extra pg_attribute_unused())
{
	pg_atomic_uint32 *off_count = shared_off_count();

	if (!param_enabled && newval && InitializingParallelWorker)
		off_in_postmaster = true;
	if (newval)
		memset(&last_look, 0, sizeof(last_look));
	if (param_enabled && !newval && off_count != NULL)
		pg_atomic_fetch_add_u32(off_count, 1);
}

/*
 * enabled_mark
 *		A ring or a reader begins: remember the state of the kill switch.
 */
void
enabled_mark(EnabledMark *mark)
{
	mark->shared_count = shared_off_count();
	mark->off_count = mark->shared_count ? pg_atomic_read_u32(mark->shared_count) : 0;
	mark->switched_off = off_in_postmaster;
	if (!ConfigReloadPending)
		memset(&last_look, 0, sizeof(last_look));
}

/*
 * enabled_listen
 *		From now on this parallel worker knows when a reload is pending.
 */
void
enabled_listen(void)
{
	static bool listening = false;

	Assert(IsParallelWorker());
	if (!listening)
		pqsignal(SIGHUP, SignalHandlerForConfigReload);
	listening = true;
}

/* Do the configuration files, not yet loaded by this backend, say "off"? */
static bool
files_say_off(void)
{
	ConfigVariable *head = NULL;
	ConfigVariable *tail = NULL;
	bool		on = true;

	/* The postmaster's command line has precedence over the files. */
	if (find_option(ENABLED_NAME, false, false, ERROR)->reset_source > PGC_S_FILE)
		return false;

	compat_submit_staged();
	/* broken files will not be loaded */
	if (ParseConfigFile(ConfigFileName, true, NULL, 0, CONF_FILE_START_DEPTH,
						DEBUG2, &head, &tail) &&
		ParseConfigFile(PG_AUTOCONF_FILENAME, false, NULL, 0,
						CONF_FILE_START_DEPTH, DEBUG2, &head, &tail))
	{
		for (ConfigVariable *item = head; item != NULL; item = item->next)
			if (!item->ignore && pg_strcasecmp(item->name, ENABLED_NAME) == 0 &&
				!parse_bool(item->value, &on))
				on = true;
	}
	FreeConfigVariables(head);
	return !on;
}

/*
 * The same, but read the files only if it is time to.  When they say "off" for
 * the first time, increment the shared count.  This is done once, not for
 * every scan that this statement begins.
 *
 * Reading the files may log something, such as that an included file is
 * missing.  A statement that runs for hours must not log that all the time.
 */
static bool
files_last_said_off(pg_atomic_uint32 *off_count)
{
	instr_time	now;
	instr_time	since;
	bool		was = last_look.off;

	INSTR_TIME_SET_CURRENT(now);
	since = now;
	INSTR_TIME_SUBTRACT(since, last_look.when);
	if (!INSTR_TIME_IS_ZERO(last_look.when) &&
		INSTR_TIME_GET_MILLISEC(since) < last_look.interval_ms)
		return last_look.off;

	last_look.when = now;
	last_look.interval_ms = last_look.interval_ms == 0 ? LOOK_INTERVAL_MS :
		Min(2 * last_look.interval_ms, MAX_LOOK_INTERVAL_MS);
	last_look.off = files_say_off();
	if (last_look.off && !was && off_count != NULL)
		pg_atomic_fetch_add_u32(off_count, 1);
	return last_look.off;
}

/*
 * enabled_look
 *		The part of enabled_still() that runs when something has changed.
 */
bool
enabled_look(EnabledMark *mark)
{
	if (mark->switched_off)
		return false;

	if (!param_enabled ||
		(mark->shared_count && pg_atomic_read_u32(mark->shared_count) != mark->off_count))
		mark->switched_off = true;
	else if (ConfigReloadPending)
		mark->switched_off = files_last_said_off(mark->shared_count);
	return !mark->switched_off;
}
