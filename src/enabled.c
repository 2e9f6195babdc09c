/*-------------------------------------------------------------------------
 *
 * enabled.c
 *	  The kill switch: is pg_ringctl on, now and in the middle of a scan?
 *
 * A backend reloads its configuration between commands only, so a scan that
 * runs for an hour does not see pg_ringctl.enabled change.  Two ways lead
 * there all the same:
 *
 *	- A shared counter says how often the parameter was switched off.  Every
 *	  backend that reloads, and finds it off now, adds one.  A scan that sees
 *	  the counter move lets its ring go.
 *	- The backend that runs the scan knows that a reload is pending.  It may
 *	  not apply it, but it may look at what the configuration files say.
 *
 * A parallel worker is not told of reloads, so it asks to be.  It begins with
 * what the postmaster has loaded, and takes over what its leader has, who may not
 * have reloaded yet: if that is "on" after "off", it is off.
 *
 * A scan that was let go stays so until its end, also if the parameter is
 * switched on again meanwhile.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "enabled.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "shared.h"
#include "utils/builtins.h"
#include "utils/conffiles.h"
#include "utils/guc_tables.h"

/* While a reload is pending, look at the files so often. */
#define LOOK_INTERVAL_MS	500

#define ENABLED_NAME		"pg_ringctl.enabled"

/* In a parallel worker: it was off before the leader's parameters came. */
static bool was_off = false;

/* What the files said when this process looked, while a reload was pending. */
static struct
{
	instr_time	when;			/* zero: it has not looked */
	bool		off;
}			last_look;

/*
 * enabled_assign
 *		Assign hook of pg_ringctl.enabled: tell the scans that run.
 */
void
enabled_assign(bool newval, void *extra pg_attribute_unused())
{
	pg_atomic_uint32 *offs = shared_offs();

	if (!param_enabled && newval && InitializingParallelWorker)
		was_off = true;
	if (newval)
		memset(&last_look, 0, sizeof(last_look));
	if (param_enabled && !newval && offs != NULL)
		pg_atomic_fetch_add_u32(offs, 1);
}

/*
 * enabled_mark
 *		Remember how things are when a reader starts.
 */
void
enabled_mark(EnabledMark *mark)
{
	mark->now = shared_offs();
	mark->offs = mark->now ? pg_atomic_read_u32(mark->now) : 0;
	mark->off = was_off;
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

	/* What the postmaster was started with goes before the files. */
	if (find_option(ENABLED_NAME, false, false, ERROR)->reset_source > PGC_S_FILE)
		return false;

	compat_submit_staged();
	if (!ParseConfigFile(ConfigFileName, true, NULL, 0, CONF_FILE_START_DEPTH,
						 DEBUG2, &head, &tail) ||
		!ParseConfigFile(PG_AUTOCONF_FILENAME, false, NULL, 0,
						 CONF_FILE_START_DEPTH, DEBUG2, &head, &tail))
		on = true;				/* broken files will not be loaded */
	else
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
 * The same, as of the last look.  That the files say "off" is counted once, not
 * by every scan that this statement begins.
 */
static bool
files_said_off(pg_atomic_uint32 *offs)
{
	instr_time	now;
	instr_time	since;
	bool		was = last_look.off;

	INSTR_TIME_SET_CURRENT(now);
	since = now;
	INSTR_TIME_SUBTRACT(since, last_look.when);
	if (!INSTR_TIME_IS_ZERO(last_look.when) &&
		INSTR_TIME_GET_MILLISEC(since) < LOOK_INTERVAL_MS)
		return last_look.off;

	last_look.when = now;
	last_look.off = files_say_off();
	if (last_look.off && !was && offs != NULL)
		pg_atomic_fetch_add_u32(offs, 1);
	return last_look.off;
}

/*
 * enabled_look
 *		What enabled_still() asks when something has changed.
 */
bool
enabled_look(EnabledMark *mark)
{
	if (mark->off)
		return false;

	if (!param_enabled ||
		(mark->now && pg_atomic_read_u32(mark->now) != mark->offs))
		mark->off = true;
	else if (ConfigReloadPending)
		mark->off = files_said_off(mark->now);
	return !mark->off;
}
