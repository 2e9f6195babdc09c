/*-------------------------------------------------------------------------
 *
 * utility.c
 *	  Scans of utility commands: COPY TO, and building an index; and the loads
 *	  of others.
 *
 * These commands scan a table without a plan node.  We know of the scan before
 * it begins, and catch it (heap_am.c):
 *
 *	  ProcessUtility		COPY t TO			CREATE INDEX, REINDEX, ...
 *	    |						|						|
 *	    |					CheckPerms hook			hook of the planner, which is
 *	    |						|					asked for the number of workers
 *	    |						+-----------+-----------+
 *	    |									|
 *	    |							heap_am_catch_scan(t)
 *	    |									|
 *	    |							scan begins: scan_begun() attaches a reader
 *	    v
 *	  the command has ended: its readers end
 *
 * A. COPY checks the privileges on its table when the table is open and locked,
 *	  and the scan has not begun.  With row-level security COPY becomes a query.
 *	  From 19 on COPY takes a partitioned table: then the scans of its leaves
 *	  are caught.
 * B. Where an index is built, the server asks the planner for the number of
 *	  parallel workers, just before the access method scans the table.  It does
 *	  not ask if the access method knows no parallel build, or if
 *	  max_parallel_maintenance_workers is 0.  Then, for CREATE INDEX, the hook
 *	  that is called when the index's catalog entry has been made serves as well.
 *
 * Parallel workers that build an index have no hook that we know of, so each of
 * them reads through the server's ring.
 *
 * A command may commit and go on in another transaction (CREATE INDEX
 * CONCURRENTLY).  Its readers end before that.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "common/heap_am.h"
#include "compat.h"
#include "nodes/pathnodes.h"
#include "params.h"
#include "readers/executor.h"
#include "readers/scan_reader.h"
#include "readers/scan_stream.h"
#include "readers/toast.h"
#include "readers/utility.h"
#include "readers/write_ring.h"
#include "ring/plan.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/rls.h"

/* A command that runs, and may have scans to be caught. */
typedef struct UtilityCommand
{
	struct UtilityCommand *outer;	/* the one that it runs in; or NULL */
	ReaderKind	kind;			/* of its readers */
	const RangeVar *copied;		/* the table of COPY, until its privileges are
								 * checked; or NULL */
	bool		is_from;		/* is it COPY FROM? */
	bool		creates_index;	/* is it CREATE INDEX? */
	bool		fills_table;	/* does it write a query's rows to a new
								 * table? */
	Oid			made[RELATIONS_OF_TABLE];	/* the relations that it made
											 * last, the newest first */
} UtilityCommand;

static UtilityCommand *command = NULL;	/* the innermost one */
static bool watches_permissions = false;	/* is our hook for COPY there? */

static ProcessUtility_hook_type prev_ProcessUtility = NULL;
static ExecutorCheckPerms_hook_type prev_ExecutorCheckPerms = NULL;
static object_access_hook_type prev_object_access = NULL;
static compat_relation_hook_type prev_relation_hook = NULL;

/* --- A scan --- */

/* The command's scans up to now have ended. */
static void
end_scans(const UtilityCommand *cmd)
{
	scan_end_command(cmd);
	toast_end(cmd);
}

/* A scan that was caught has begun, and has not read a block yet. */
static void
scan_begun(TableScanDesc sscan)
{
	HeapScanDesc scan = (HeapScanDesc) sscan;
	Relation	rel = sscan->rs_rd;
	RingOptions options;
	ScanReader *reader;

	if (command == NULL || policy_mode() == MODE_OFF)
		return;
	end_scans(command);			/* one is after the other */
	if (policy_prospect(rel, scan->rs_nblocks, param_mode) == RING_NONE)
	{
		if (scan->rs_strategy != NULL)
			scan_set_plain_stream(scan);
		toast_begin(command, rel);
		return;
	}
	policy_for_scan(rel, scan->rs_nblocks, param_mode, &options, NULL);
	reader = scan_begin_reader_of_command(command->kind, command, scan, &options);
	scan_set_ring_stream(reader, options.max_ahead);
}

/* The command is about to scan this relation, which is locked. */
static void
catch_scan(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && policy_exclusion(rel) == NULL)
		heap_am_catch_scan(rel, scan_begun);
	RelationClose(rel);
}

/* --- COPY --- */

/* May a scan of the table, or the values that it fetches, need a ring? */
static bool
may_need_ring(Relation rel)
{
	if (OidIsValid(rel->rd_rel->reltoastrelid))
		return true;
	RelationGetNumberOfBlocks(rel); /* policy_may_matter() looks at the last
									 * known size */
	return policy_may_matter(rel);
}

/*
 * COPY is about to scan this table, which it has opened and locked: each of its
 * leaves if it is partitioned.
 */
static void
catch_copy(Relation rel)
{
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		foreach_oid(leaf, find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL))
			catch_scan(leaf);
	}
	else if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && may_need_ring(rel))
		catch_scan(RelationGetRelid(rel));
}

/* With row-level security COPY becomes a query. */
static bool
becomes_query(Relation rel)
{
	return rel->rd_rel->relrowsecurity &&
		check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED;
}

/* The user may copy this table. */
static void
copy_begins(Oid relid, const RangeVar *copied, bool is_from)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return;
	if (strcmp(RelationGetRelationName(rel), copied->relname) == 0 && !becomes_query(rel))
	{
		if (is_from)
			write_ring_catch(relid);
		else
			catch_copy(rel);
	}
	RelationClose(rel);
}

/* COPY checks the privileges of the user on its table. */
static bool
ringctl_ExecutorCheckPerms(List *rangeTable, List *perminfos, bool ereport_on_violation)
{
	bool		allowed = prev_ExecutorCheckPerms ?
		prev_ExecutorCheckPerms(rangeTable, perminfos, ereport_on_violation) : true;
	const RangeVar *copied = command ? command->copied : NULL;

	if (copied == NULL)
		return allowed;
	command->copied = NULL;		/* what comes later is not COPY's own check */
	if (allowed && list_length(perminfos) == 1)
		copy_begins(linitial_node(RTEPermissionInfo, perminfos)->relid, copied,
					command->is_from);
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
 * The planner builds its picture of a relation.  If there is no query, it was
 * asked how many workers the building of an index on this relation should have.
 */
static void
ringctl_relation_hook(COMPAT_RELATION_HOOK_PARAMS)
{
	if (prev_relation_hook)
		prev_relation_hook(COMPAT_RELATION_HOOK_ARGS);
	if (command != NULL && root->parse->jointree == NULL &&
		COMPAT_RELATION_HOOK_INHERITS)
		catch_scan(COMPAT_RELATION_HOOK_RELID);
}

/*
 * A relation is about to be dropped: a TOAST table that we hold is dropped before
 * its owner, and if that is in use, the server says so itself.
 *
 * A relation has been made: remember it, for the load of a new table.
 *
 * CREATE INDEX has made the index's catalog entry.  It scans the table next, but
 * if the index is made concurrently, nothing is scanned in this transaction.
 */
static void
ringctl_object_access(ObjectAccessType access, Oid classId, Oid objectId,
					  int subId, void *arg)
{
	Oid			table;

	if (prev_object_access)
		prev_object_access(access, classId, objectId, subId, arg);
	if (access == OAT_DROP && classId == RelationRelationId && toast_any)
		heap_am_let_go(objectId);
	if (command == NULL || access != OAT_POST_CREATE ||
		classId != RelationRelationId || subId != 0)
		return;
	memmove(&command->made[1], &command->made[0],
			(RELATIONS_OF_TABLE - 1) * sizeof(Oid));
	command->made[0] = objectId;
	if (!command->creates_index)
		return;
	CommandCounterIncrement();	/* index_create() does that next anyway */
	table = IndexGetRelation(objectId, true);
	if (OidIsValid(table))
		catch_scan(table);
}

/* --- Commands --- */

/*
 * utility_before_run
 *		A query is about to run, and pg_ringctl.write_ring is set.
 */
void
utility_before_run(QueryDesc *queryDesc)
{
	if (command != NULL && command->fills_table)
		write_ring_catch_at_startup(queryDesc, command->made);
}

/* May the command have scans to be caught?  Fills in what it is. */
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

static void
process_utility(COMPAT_UTILITY_PARAMS)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(COMPAT_UTILITY_ARGS);
	else
		standard_ProcessUtility(COMPAT_UTILITY_ARGS);
}

static void
ringctl_ProcessUtility(COMPAT_UTILITY_PARAMS)
{
	UtilityCommand this_command = {.outer = command};
	int			ncatches;

	if (!describe_command(pstmt->utilityStmt, &this_command) || policy_mode() == MODE_OFF)
	{
		process_utility(COMPAT_UTILITY_ARGS);
		return;
	}
	ncatches = heap_am_ncatches();
	command = &this_command;
	if (this_command.copied != NULL)
		watch_permissions();
	if (this_command.fills_table && write_ring_is_set())
		executor_watch_runs();
	PG_TRY();
	{
		process_utility(COMPAT_UTILITY_ARGS);
	}
	PG_FINALLY();
	{
		command = this_command.outer;
		unwatch_permissions();
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
	prev_object_access = object_access_hook;
	object_access_hook = ringctl_object_access;
	prev_relation_hook = compat_relation_hook;
	compat_relation_hook = ringctl_relation_hook;
	RegisterXactCallback(end_scans_before_commit, NULL);
}
