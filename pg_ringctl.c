/*-------------------------------------------------------------------------
 *
 * pg_ringctl.c
 *	  What the module is: magic, parameters, hooks.
 *
 * Big scans read through buffer access strategies, which are private rings of
 * shared buffers.  pg_ringctl makes these rings visible, controllable and
 * tight.  docs/architecture.md describes the folders and files of src/, and
 * how they depend on each other.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "compat.h"
#include "shmem/area.h"
#include "shmem/kill_switch.h"
#include "sql/sql_explain.h"
#include "policies/policies.h"
#include "params.h"
#include "ring/ring.h"
#include "shmem/stats.h"
#include "readers/executor.h"
#include "readers/utility.h"
#include "utils/guc.h"

COMPAT_MODULE_MAGIC("pg_ringctl", "1.0.0");

bool		param_enabled = true;
int			param_mode = MODE_CONTROL;
int			param_scan_ring = -1;
int			param_scan_threshold = -1;
int			param_dirty_pages = DIRTY_WRITE;
bool		param_use_policies = true;
bool		param_scan_sharing = true;
bool		param_free_buffers_first = true;
int			param_write_ring = -1;
bool		param_index_read_ahead = false;
int			param_index_read_ahead_after = 16;
int			param_headroom = 2;
int			param_max_ring = -1;
bool		param_track = true;
int			param_max_entries = 5000;
int			param_max_shared_memory = 16 * 1024;

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
 * May the parameter with this name be set to this size of a ring, in kB?  The
 * size may be -1, 0, or at least "least".
 *
 * The result depends on nothing but the value.  If a check hook accepted a
 * value in the leader and rejected it in a parallel worker, the worker would
 * fail.
 */
static bool
check_ring(const char *name, int value, int least)
{
	if (value <= 0 || value >= least)
		return true;
	GUC_check_errdetail("\"%s\" must be -1, 0 or between %d kB and %d kB.",
						name, least, RING_MAX_KB);
	return false;
}

static bool
check_scan_ring(int *newval, void **extra pg_attribute_unused(),
				GucSource source pg_attribute_unused())
{
	return check_ring("pg_ringctl.scan_ring", *newval, RING_MIN_KB);
}

static bool
check_write_ring(int *newval, void **extra pg_attribute_unused(),
				 GucSource source pg_attribute_unused())
{
	return check_ring("pg_ringctl.write_ring", *newval, WRITE_RING_MIN_KB);
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

/* Define the parameters that each session can set for its own scans and loads. */
static void
define_scan_params(void)
{
	DefineCustomEnumVariable("pg_ringctl.mode",
							 "Sets what pg_ringctl does to scans.",
							 "\"control\" gives them a ring of the chosen size and keeps pages from escaping from it; "
							 "\"observe\" only counts, and their rings have the server's size and behavior; "
							 "\"off\" does not touch them.",
							 &param_mode, MODE_CONTROL, mode_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.scan_ring",
							"Sets the size of the ring of shared buffers that a scan reads through.",
							"-1 means that the size is chosen for you; 0 means no ring: "
							"the relation is read into shared buffers like a small one. "
							"Any other size is at least 64 kB.",
							&param_scan_ring, -1, -1, RING_MAX_KB,
							PGC_USERSET, GUC_UNIT_KB, check_scan_ring, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.scan_threshold",
							"Sets the size above which a relation is scanned through a ring of pg_ringctl.",
							"-1 means the size of shared buffers if pg_ringctl.scan_ring is -1; "
							"otherwise it means a quarter of shared buffers, as in the server. "
							"0 means that relations of any size are scanned through a ring.",
							&param_scan_threshold, -1, -1, INT_MAX,
							PGC_USERSET, GUC_UNIT_BLOCKS, NULL, NULL, NULL);

	DefineCustomEnumVariable("pg_ringctl.dirty_pages",
							 "Sets what happens to a page in the ring that the scan has dirtied.",
							 "\"write\" flushes its WAL and writes it, so that the buffer stays in the ring; "
							 "\"leave\" leaves it behind in shared buffers if its WAL is not flushed, as the server does; "
							 "so does \"write\" with the first such pages of a query, up to 1/32 of shared buffers, if the scan finds rows that the query changes or locks and the ring can grow.",
							 &param_dirty_pages, DIRTY_WRITE, dirty_pages_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.use_policies",
							 "Lets the policies of relations set the parameters of their scans.",
							 "If this is off, policies are ignored.",
							 &param_use_policies, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.scan_sharing",
							 "Lets scans of one table that run at the same time share their reads.",
							 "The server starts a scan at the block that another scan of the table has reached. Each scan then keeps in its ring the pages "
							 "that the others have not reached yet, and one may wait a little for another one. "
							 "Applies only to tables whose scans the server itself would synchronize, and to rings that size themselves.",
							 &param_scan_sharing, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.free_buffers_first",
							 "Lets a scan leave its pages in shared buffers until there are no free buffers.",
							 "An empty pool is filled that way, and no page is evicted. "
							 "Applies only if pg_ringctl chooses the size of the ring, and only on servers that keep a list of free buffers (17 and 18).",
							 &param_free_buffers_first, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.index_read_ahead",
							 "Lets index scans read the pages of their table ahead.",
							 "Only scans of btree indexes read ahead, and only if they are expected to return more rows than pg_ringctl.index_read_ahead_after. effective_io_concurrency limits how far.",
							 &param_index_read_ahead, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.index_read_ahead_after",
							"Sets how many pages of its table an index scan must miss before it reads ahead or through a ring.",
							"0 means from the first page on. A scan that is not expected to return more rows than this is left alone. For developers.",
							&param_index_read_ahead_after, 16, 0, INT_MAX / 2,
							PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.write_ring",
							"Sets the size of the ring of shared buffers that bulk loads write through.",
							"Applies to COPY FROM into a table that is not partitioned, CREATE TABLE AS, CREATE MATERIALIZED VIEW, and REFRESH MATERIALIZED VIEW without CONCURRENTLY; not to temporary tables. "
							"-1 means the server's ring, of 16 MB, or an eighth of shared buffers if that is less; 0 means no ring, so that what is loaded stays in shared buffers. "
							"Other sizes are at least 1 MB; if pg_ringctl.max_ring is less than that, the load keeps the server's ring. No load gets more than an eighth of shared buffers.",
							&param_write_ring, -1, -1, RING_MAX_KB,
							PGC_USERSET, GUC_UNIT_KB, check_write_ring, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.headroom",
							"Sets the number of a ring's buffers that look-ahead must leave unpinned.",
							"0 means that it may pin the whole ring, as in the server. "
							"If the statement locks or changes rows, look-ahead leaves three more unpinned.",
							&param_headroom, 2, 0, INT_MAX / 2,
							PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

/* Define the parameters that only the administrator can set. */
static void
define_system_params(void)
{
	DefineCustomBoolVariable("pg_ringctl.enabled",
							 "Switches pg_ringctl on or off everywhere.",
							 "Off wins over every other setting, and reaches scans that are already running.",
							 &param_enabled, true,
							 PGC_SIGHUP, 0, NULL, enabled_assign, NULL);

	DefineCustomIntVariable("pg_ringctl.max_ring",
							"Sets the largest size of a ring, whether the size is asked for or chosen.",
							"-1 means the server's limit, an eighth of shared buffers. Any other size is at least 64 kB. "
							"No ring has more than half of shared buffers.",
							&param_max_ring, -1, -1, RING_MAX_KB,
							PGC_SUSET, GUC_UNIT_KB, check_max_ring, NULL, NULL);

	DefineCustomBoolVariable("pg_ringctl.track",
							 "Collects cumulative statistics of scans and prewarms.",
							 NULL,
							 &param_track, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.max_entries",
							"Sets the maximum number of rows of statistics that are kept.",
							"There is one row for each combination of database, relation and kind of reader. "
							"When there is no room for another row, the least recently used rows are removed. "
							"The rows take at most half of what is left of pg_ringctl.max_shared_memory after the space that is reserved for all processes.",
							&param_max_entries, 5000, 100, INT_MAX / 2,
							PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pg_ringctl.max_shared_memory",
							"Sets the limit of the shared memory that all sessions use together.",
							"This memory holds statistics, the log of escapes, what parallel workers report, scans that share reads, and where each process shows its rings. "
							"The limit is fixed when the first session needs the memory. "
							"It is never less than what is reserved for all processes, plus 2 MB. "
							"In addition, each process that reads through a ring, prewarms or reads ahead has a segment of 132 kB, and may keep it between transactions. "
							"The present value of this parameter also limits all these segments together.",
							&param_max_shared_memory, 16 * 1024, 4 * 1024, 1024 * 1024,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
}

/*
 * Called when the library is loaded: because it is preloaded, because one of
 * its functions is created or called, by LOAD, or in a parallel worker because
 * its leader has loaded it.
 */
void
_PG_init(void)
{
	define_scan_params();
	define_system_params();
	MarkGUCPrefixReserved("pg_ringctl");
	labels_init();
	if (!process_shared_preload_libraries_in_progress)
		shared_watch_exit();

	/*
	 * On a server that we don't know, leave all scans alone, and raise no
	 * error.  Only register the label provider, and do it now, because the
	 * hook that would do it at the first SECURITY LABEL is not installed.
	 */
	if (ring_check_server())
	{
		stats_init();
		executor_install_hooks();
		utility_install_hooks();
		explain_install_hooks();
	}
	else
		labels_accept();
}
