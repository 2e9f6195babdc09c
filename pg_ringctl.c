/*-------------------------------------------------------------------------
 *
 * pg_ringctl.c
 *	  What the module is: magic, parameters, hooks.
 *
 * pg_ringctl makes buffer access strategies, the private rings of shared
 * buffers that big scans run in, visible, controllable and tight.  The files
 * that its picture is made of; each of the others says what it is for:
 *
 *	  src/policy.c      which ring does this relation get, and why
 *	  src/labels.c      policies of relations, kept as security labels
 *	  src/ring.c        one ring: its buffers, and how they are kept inside
 *	  src/scan.c        the executor: gives each sequential scan its ring
 *	  src/prewarm.c     reads a relation through a ring, or without one
 *	  src/registry.c    who reads through a ring, and the cumulative counters
 *	  src/share.c       scans that run at the same time share their reads
 *	  src/live.c        the rings that are in use now
 *	  src/escapes.c     the log of buffers that escaped
 *	  src/facts.c       what the scans of a query did, workers included
 *	  src/shared.c      the memory that all processes share
 *	  src/enabled.c     the kill switch
 *	  src/compat.h      every difference between server majors
 *
 * What users see of it:
 *
 *	  src/report.c      the counters
 *	  src/rings.c       the rings in use, slot by slot
 *	  src/pool.c        shared_buffers, and what escaped into them
 *	  src/explain.c     a query's scans, and what a scan would get
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "compat.h"
#include "enabled.h"
#include "explain.h"
#include "labels.h"
#include "params.h"
#include "ring.h"
#include "scan.h"
#include "utils/guc.h"

COMPAT_MODULE_MAGIC("pg_ringctl", "1.0");

bool		param_enabled = true;
int			param_mode = MODE_CONTROL;
int			param_scan_ring = -1;
int			param_scan_threshold = -1;
int			param_dirty_pages = DIRTY_WRITE;
bool		param_use_policies = true;
bool		param_share_scans = true;
int			param_headroom = 2;
int			param_max_ring = -1;
bool		param_track = true;
int			param_max_relations = 5000;

static const struct config_enum_entry mode_options[] = {
	{"control", MODE_CONTROL, false},
	{"observe", MODE_OBSERVE, false},
	{"off", MODE_OFF, false},
	{NULL, 0, false}
};

static const struct config_enum_entry dirty_pages_options[] = {
	{"write", DIRTY_WRITE, false},
	{"leave", DIRTY_LEAVE, false},
	{NULL, 0, false}
};

/*
 * Depends on nothing but the value: a check hook that refuses in a parallel
 * worker what the leader took would kill the worker.
 */
static bool
check_scan_ring(int *newval, void **extra pg_attribute_unused(),
				GucSource source pg_attribute_unused())
{
	if (*newval <= 0 || *newval >= RING_MIN_KB)
		return true;
	GUC_check_errdetail("\"%s\" must be -1, 0 or between %d kB and %d kB.",
						"pg_ringctl.scan_ring", RING_MIN_KB, RING_MAX_KB);
	return false;
}

static bool
check_max_ring(int *newval, void **extra pg_attribute_unused(),
			   GucSource source pg_attribute_unused())
{
	if (*newval < 0 || *newval >= RING_MIN_KB)
		return true;
	GUC_check_errdetail("\"%s\" must be -1 or between %d kB and %d kB.",
						"pg_ringctl.max_ring", RING_MIN_KB, RING_MAX_KB);
	return false;
}

/* What a session may choose for its own scans. */
static void
define_scan_params(void)
{
	DefineCustomEnumVariable("pg_ringctl.mode",
							 "Sets what pg_ringctl does to sequential scans.",
							 "\"control\" gives them a ring of the chosen size and keeps it closed; "
							 "\"observe\" leaves them the server's own ring and behaviour and only counts; "
							 "\"off\" does not touch them.",
							 &param_mode, MODE_CONTROL, mode_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.scan_ring",
							"Sets the size of the ring of shared buffers that a sequential scan reads through.",
							"-1 means that the size is chosen for you; 0 means no ring: "
							"the relation is read into shared buffers like a small one.",
							&param_scan_ring, -1, -1, RING_MAX_KB,
							PGC_USERSET, GUC_UNIT_KB, check_scan_ring, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.scan_threshold",
							"Sets the size above which a relation is scanned through a ring.",
							"-1 means the server's rule, a quarter of shared buffers; "
							"0 means that every relation is.",
							&param_scan_threshold, -1, -1, INT_MAX,
							PGC_USERSET, GUC_UNIT_BLOCKS, NULL, NULL, NULL);

	DefineCustomEnumVariable("pg_ringctl.dirty_pages",
							 "Sets what happens to a page in the ring that the scan has dirtied.",
							 "\"write\" flushes its WAL and writes it, so that the buffer stays in the ring; "
							 "\"leave\" leaves it behind in shared buffers, as the server does.",
							 &param_dirty_pages, DIRTY_WRITE, dirty_pages_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.use_policies",
							 "Lets the policies of relations set the parameters of their scans.",
							 "Off leaves them out: the parameters are what they are, for every relation.",
							 &param_use_policies, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.share_scans",
							 "Lets scans of one table that run at the same time share their reads.",
							 "They start where another one is, keep in their rings what the others have still to come to, "
							 "and the one in front waits a little. "
							 "Only tables that the server itself would scan synchronized, and rings that size themselves.",
							 &param_share_scans, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.headroom",
							"Sets how many buffers of a ring look-ahead may not pin.",
							"0 means that it may pin the whole ring, as the server lets it; but for "
							"three buffers, where the statement locks or changes rows.",
							&param_headroom, 2, 0, INT_MAX / 2,
							PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

/* What is decided for all sessions. */
static void
define_system_params(void)
{
	DefineCustomBoolVariable("pg_ringctl.enabled",
							 "Switches pg_ringctl on or off everywhere.",
							 "Off wins over every other setting, and reaches scans that are already running.",
							 &param_enabled, true,
							 PGC_SIGHUP, 0, NULL, enabled_assign, NULL);

	DefineCustomIntVariable("pg_ringctl.max_ring",
							"Sets the largest ring that anybody gets, whether asked for or chosen.",
							"-1 means the server's limit, an eighth of shared buffers.",
							&param_max_ring, -1, -1, RING_MAX_KB,
							PGC_SUSET, GUC_UNIT_KB, check_max_ring, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.track",
							 "Collects cumulative statistics of scans and prewarms.",
							 NULL,
							 &param_track, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.max_relations",
							"Sets the number of rows of statistics that are kept.",
							"There is one for each database, relation and kind of reader. "
							"When there is no room for another one, the least recently used one goes.",
							&param_max_relations, 5000, 100, INT_MAX / 2,
							PGC_SUSET, 0, NULL, NULL, NULL);
}

/*
 * Called when the library is loaded: for a session, for the whole server, or
 * because one of its functions is called.
 */
void
_PG_init(void)
{
	define_scan_params();
	define_system_params();
	MarkGUCPrefixReserved("pg_ringctl");
	labels_register();

	/* On a server that we don't know, do nothing, and keep nobody out. */
	if (ring_check_server())
	{
		scan_install_hooks();
		explain_install_hooks();
	}
}
