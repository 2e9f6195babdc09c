/*-------------------------------------------------------------------------
 *
 * utility.c
 *	  Utility commands: scans of COPY TO and of index builds, and bulk loads.
 *
 * These commands scan a table without a plan node.  We get to know of the scan
 * before it begins, and catch it (heap_am.c):
 *
 *	  ProcessUtility		COPY t TO			CREATE INDEX, REINDEX, ...
 *	    |						|						|
 *	    |					CheckPerms hook			planner's hook (see B)
 *	    |						+-----------+-----------+
 *	    |									|
 *	    |							heap_am_catch(t)
 *	    |									|
 *	    |							scan begins: begin_caught_scan()
 *	    v
 *	  the command has ended: its readers end
 *
 * A. COPY checks the privileges on its table when the table is open and
 *	  locked, and before the scan begins.  If row-level security applies to the
 *	  user, COPY TO becomes a query, and COPY FROM fails.  From 19 on COPY TO
 *	  takes a partitioned table, too; then the scans of its leaves are caught.
 * B. When an index is built, the server asks the planner for the number of
 *	  parallel workers, just before the access method scans the table.  But our
 *	  hook is not called if the access method has no parallel build, or if
 *	  max_parallel_maintenance_workers is 0.  In these cases the scan of a
 *	  plain CREATE INDEX is caught by the hook that is called when the index's
 *	  catalog entry has been made, and the scans of other commands, CREATE
 *	  INDEX CONCURRENTLY included, are not caught.
 *
 * There is no hook that parallel workers of an index build would call, so each
 * of them reads through the server's ring.
 *
 * Only the command's own scan may be caught.  Before that scan begins, the
 * server may call a function of the user, to fold an index's predicate, and
 * the function may scan the same table.  It may even open a cursor on the
 * table: the cursor's scan would outlive the command, but our reader ends with
 * the command.  So when a query (executor.c) or another command starts, all
 * catches of scans are dropped.  And the scan of another portal, that is, of a
 * cursor that was opened before, is not caught.
 *
 * A command may commit and go on in another transaction (CREATE INDEX
 * CONCURRENTLY).  Its readers end before the commit.
 *
 * For COPY FROM, the hook that is called when privileges are checked tells
 * write_ring.c which table is about to be loaded.  For CREATE TABLE AS, and
 * CREATE and REFRESH MATERIALIZED VIEW, the hook for objects notes the new
 * table, and the hook for ExecutorRun() (executor.c) tells write_ring.c.  (If
 * the new table is temporary, as for REFRESH CONCURRENTLY, its load is not
 * caught.)
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "common/heap_am.h"
#include "compat.h"
#include "nodes/pathnodes.h"
#include "params.h"
#include "policies/policies.h"
#include "readers/executor.h"
#include "readers/scan_query.h"
#include "readers/scan_reader.h"
#include "readers/scan_stream.h"
#include "readers/toast.h"
#include "readers/utility.h"
#include "readers/write_ring.h"
#include "ring/plan.h"
#include "shmem/area.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/rls.h"

/*
 * A command that is running, and may have scans or loads to be caught; or any
 * command that runs inside such a command, for example in a function that is
 * called for a row.  The inner command has an entry of its own, so that what
 * it scans is not taken for the outer command's next scan.
 */
typedef struct UtilityCommand
{
	struct UtilityCommand *outer;	/* the one that it runs in; or NULL */
	ReaderKind	kind;			/* kind of its readers */
	const RangeVar *copied;		/* the table of COPY, until its privileges are
								 * checked; or NULL */
	bool		is_from;		/* is it COPY FROM? */
	bool		creates_index;	/* is it CREATE INDEX? */
	bool		fills_table;	/* does it write a query's rows to a new
								 * table? */
	Oid			made[RELATIONS_OF_TABLE];	/* relations that it has made
											 * last, the newest first */
} UtilityCommand;

static UtilityCommand *command = NULL;	/* the innermost one */

/* Is our hook for COPY there? */
static bool watches_permissions = false;

static ProcessUtility_hook_type prev_ProcessUtility = NULL;
static ExecutorCheckPerms_hook_type prev_ExecutorCheckPerms = NULL;
static compat_relation_hook_type prev_relation_hook = NULL;

/* --- A scan --- */

/* The command's scans up to now have ended. */
static void
end_scans(const UtilityCommand *cmd)
{
	scan_end_query(scan_leave_query(cmd));
	toast_end(cmd);
}

/* A scan that was caught has begun, and has not read a block yet. */
static void
begin_caught_scan(TableScanDesc sscan)
{
	HeapScanDesc scan = (HeapScanDesc) sscan;
	RingOptions options;
	ScanReader *reader;

	if (command == NULL || plan_mode() == MODE_OFF)
		return;
	end_scans(command);			/* its scans run one after another */
	toast_begin(command, sscan->rs_rd, false);
	if (scan_prospect(scan) <= RING_LEFT_TO_SERVER)
		return;
	plan_for_scan(sscan->rs_rd, scan->rs_nblocks, param_mode, &options, NULL);
	reader = scan_begin_reader_of_command(command->kind, command, scan, &options);
	scan_set_ring_stream(reader);
}

/* The command is about to scan this relation, which is locked. */
static void
catch_scan(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && plan_exclusion(rel) == NULL)
		heap_am_catch(rel, begin_caught_scan, NULL);
	RelationClose(rel);
}

/* --- COPY --- */

/* May a scan of the table, or the values that it fetches, need a ring? */
static bool
may_need_ring(Relation rel)
{
	if (OidIsValid(rel->rd_rel->reltoastrelid))
		return true;
	RelationGetNumberOfBlocks(rel); /* plan_may_matter() looks at the size
									 * that was last seen */
	return plan_may_matter(rel);
}

/*
 * COPY is about to scan this table, which it has opened and locked, or, if the
 * table is partitioned and COPY takes such tables, each of its leaves.
 */
static void
catch_copy(Relation rel)
{
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE && COMPAT_COPIES_PARTITIONED)
	{
		foreach_oid(leaf, find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL))
		{
			CHECK_FOR_INTERRUPTS();
			catch_scan(leaf);
		}
	}
	else if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && may_need_ring(rel))
		catch_scan(RelationGetRelid(rel));
}

static bool
becomes_query(Relation rel)
{
	return rel->rd_rel->relrowsecurity &&
		check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED;
}

/*
 * Does COPY begin now?  If so, catch its scan or its load, unless COPY becomes
 * a query.  The user has just been found to have these privileges.  This is
 * COPY's own check if the privileges are on a table with the name that is in
 * the command and, for COPY FROM, include INSERT.
 */
static bool
copy_begins(const UtilityCommand *copy, const RTEPermissionInfo *privileges)
{
	Relation	rel;
	bool		begins;

	if (copy->is_from && (privileges->requiredPerms & ACL_INSERT) == 0)
		return false;
	rel = RelationIdGetRelation(privileges->relid);
	if (rel == NULL)
		return false;
	begins = strcmp(RelationGetRelationName(rel), copy->copied->relname) == 0;
	if (begins && !becomes_query(rel))
	{
		if (copy->is_from)
			write_ring_catch(privileges->relid);
		else
			catch_copy(rel);
	}
	RelationClose(rel);
	return begins;
}

/*
 * COPY checks the privileges of the user on its table.  Before that, queries
 * of functions in its WHERE clause may run; later checks are not COPY's own.
 */
static bool
ringctl_ExecutorCheckPerms(List *rangeTable, List *perminfos, bool ereport_on_violation)
{
	bool		allowed = prev_ExecutorCheckPerms ?
		prev_ExecutorCheckPerms(rangeTable, perminfos, ereport_on_violation) : true;

	if (command != NULL && command->copied != NULL && allowed && list_length(perminfos) == 1 &&
		copy_begins(command, linitial_node(RTEPermissionInfo, perminfos)))
		command->copied = NULL;
	return allowed;
}

/*
 * Let COPY's check of privileges call us.  Our hook is there only while COPY
 * runs, because otherwise every query would call it.  If another library has
 * put its hook before ours meanwhile, ours stays.
 */
static void
watch_permissions(void)
{
	if (watches_permissions)
		return;
	prev_ExecutorCheckPerms = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = ringctl_ExecutorCheckPerms;
	watches_permissions = true;
}

static void
unwatch_permissions(void)
{
	if (ExecutorCheckPerms_hook != ringctl_ExecutorCheckPerms)
		return;
	ExecutorCheckPerms_hook = prev_ExecutorCheckPerms;
	watches_permissions = false;
}

/* --- Building an index --- */

/*
 * The planner makes the RelOptInfo of a relation.  If root->parse has no
 * jointree, it is the dummy query of plan_create_index_workers() or
 * plan_cluster_use_sort().  Only the former marks the relation as a parent
 * (rte->inh).  (Our hook is always there: it costs some ten instructions for
 * each relation that is planned.)
 */
static void
ringctl_relation_hook(COMPAT_RELATION_HOOK_PARAMS)
{
	if (prev_relation_hook)
		prev_relation_hook(COMPAT_RELATION_HOOK_ARGS);
	if (command != NULL && command->kind == READER_INDEX_BUILD &&
		root->parse->jointree == NULL && COMPAT_RELATION_HOOK_INHERITS)
		catch_scan(COMPAT_RELATION_HOOK_RELID);
}

/*
 * A relation has been made while the innermost command runs: remember it, for
 * the load of a new table.
 *
 * If the relation is the index of CREATE INDEX, the command scans the table
 * next: catch that scan.  (If the index is made concurrently, nothing is
 * scanned in this transaction, and the catch is forgotten.)
 */
static void
relation_made(Oid relid)
{
	Oid			table;

	memmove(&command->made[1], &command->made[0],
			(RELATIONS_OF_TABLE - 1) * sizeof(Oid));
	command->made[0] = relid;
	if (!command->creates_index)
		return;
	CommandCounterIncrement();	/* index_create() does that next anyway */
	table = IndexGetRelation(relid, true);
	if (OidIsValid(table))
		catch_scan(table);

	/*
	 * If the first index is not that of a partitioned table, no other index
	 * follows.  Then we need not be told any more, unless this command runs
	 * in another one.
	 */
	if (command->outer == NULL && !OidIsValid(command->made[1]) &&
		get_rel_relkind(relid) == RELKIND_INDEX)
		heap_am_watch_creation(NULL);
}

/* --- Commands --- */

/*
 * utility_before_run
 *		A query is about to run, and pg_ringctl.write_ring is set: if the query
 *		fills a new table, let that load use the ring.
 */
void
utility_before_run(QueryDesc *queryDesc)
{
	if (command != NULL && command->fills_table)
		write_ring_catch_at_startup(queryDesc, command->made);
}

/*
 * May the command have scans or loads to be caught?  If so, describe it in
 * *cmd.
 */
static bool
describe_command(const Node *statement, UtilityCommand *cmd)
{
	switch (nodeTag(statement))
	{
		case T_CopyStmt:
			cmd->kind = READER_COPY;
			cmd->copied = ((const CopyStmt *) statement)->relation;
			cmd->is_from = ((const CopyStmt *) statement)->is_from;
			return cmd->copied != NULL && (!cmd->is_from || write_ring_is_set());
		case T_CreateTableAsStmt:
			cmd->fills_table = true;
			return write_ring_is_set();
		case T_IndexStmt:
		case T_ReindexStmt:
		case T_AlterTableStmt:
		case T_VacuumStmt:
		case T_RefreshMatViewStmt:
		case COMPAT_CLUSTER_STMT:
			cmd->kind = READER_INDEX_BUILD;
			cmd->creates_index = IsA(statement, IndexStmt);
			cmd->fills_table = IsA(statement, RefreshMatViewStmt);
			return true;
		default:
			return false;
	}
}

/* Is there a running COPY that has not checked privileges yet? */
static bool
copy_waits(void)
{
	const UtilityCommand *cmd = command;

	while (cmd != NULL && cmd->copied == NULL)
		cmd = cmd->outer;
	return cmd != NULL;
}

/* The parameters of ProcessUtility(). */
#define UTILITY_PARAMS	PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, \
	ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv, \
	DestReceiver *dest, QueryCompletion *qc
#define UTILITY_ARGS		pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc

static void
process_utility(UTILITY_PARAMS)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(UTILITY_ARGS);
	else
		standard_ProcessUtility(UTILITY_ARGS);
}

/* Is it SECURITY LABEL FOR our provider? */
static bool
names_our_labels(const Node *statement)
{
	const char *provider = IsA(statement, SecLabelStmt) ?
		((const SecLabelStmt *) statement)->provider : NULL;

	return provider != NULL && strcmp(provider, LABEL_PROVIDER) == 0;
}

static void
ringctl_ProcessUtility(UTILITY_PARAMS)
{
	UtilityCommand this_command = {.outer = command};
	uint64		ncatches = heap_am_ncatches_made;

	shared_watch_exit();
	if (unlikely(heap_am_any_catch()))
		heap_am_drop_catches(ncatches);
	if (nodeTag(pstmt->utilityStmt) == COMPAT_CLUSTER_STMT)
		heap_am_let_go_of_all();
	if (names_our_labels(pstmt->utilityStmt))
		labels_accept();
	if (!describe_command(pstmt->utilityStmt, &this_command) || plan_mode() == MODE_OFF)
	{
		if (command == NULL)
		{
			process_utility(UTILITY_ARGS);
			return;
		}
		this_command = (UtilityCommand)
		{
			.outer = command
		};
	}
	command = &this_command;
	if (this_command.copied != NULL)
		watch_permissions();
	if (this_command.creates_index)
		heap_am_watch_creation(relation_made);
	if (this_command.fills_table && write_ring_is_set())
	{
		heap_am_watch_creation(relation_made);
		executor_watch_runs();
	}
	PG_TRY();
	{
		process_utility(UTILITY_ARGS);
	}
	PG_FINALLY();
	{
		command = this_command.outer;
		if (!copy_waits())
			unwatch_permissions();
		if (command == NULL)
			heap_am_watch_creation(NULL);
		heap_am_drop_catches(ncatches);
	}
	PG_END_TRY();
	end_scans(&this_command);
}

/* The command commits, and may go on. */
static void
end_scans_before_commit(XactEvent event, void *arg pg_attribute_unused())
{
	if (event == XACT_EVENT_PRE_COMMIT)
		for (UtilityCommand *cmd = command; cmd != NULL; cmd = cmd->outer)
			end_scans(cmd);
}

/*
 * utility_install_hooks
 *		From now on the utility commands of this session are looked at.
 */
void
utility_install_hooks(void)
{
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = ringctl_ProcessUtility;
	prev_relation_hook = compat_relation_hook;
	compat_relation_hook = ringctl_relation_hook;
	RegisterXactCallback(end_scans_before_commit, NULL);
}
