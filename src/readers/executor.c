/*-------------------------------------------------------------------------
 *
 * executor.c
 *	  The executor's hooks: find the nodes that readers are for.
 *
 * There are readers for some kinds of plan nodes.  When a query starts, and
 * plan_may_matter() or toast_may_matter() is true for any of its relations,
 * each node of these kinds in its plan gets a function of ours for its first
 * calls, unless its scan is excluded.  This function decides what becomes of
 * the scan, and then puts the node's own function back:
 *
 *	  ExecutorStart --> take_nodes() --> first_calls_of()
 *	                                      SeqScan       --> seqscan.c
 *	                                      TidRangeScan  --> tidrangescan.c
 *	                                      BitmapHeap..  --> bitmapscan.c
 *	                                      Index..Scan   --> indexscan.c
 *	                                      Gather        --> scan_workers.c
 *
 * (A Gather has no reader.  Its function notes the handle under which the
 * workers publish what their scans did.)
 *
 * If no relation of a query can matter, the query is left alone.  If a node is
 * never called, nothing is decided for its scan.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "common/heap_am.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "readers/bitmapscan.h"
#include "readers/executor.h"
#include "readers/indexscan.h"
#include "readers/nodes.h"
#include "readers/scan_query.h"
#include "readers/scan_reader.h"
#include "readers/scan_workers.h"
#include "readers/seqscan.h"
#include "readers/tidrangescan.h"
#include "readers/toast.h"
#include "readers/utility.h"
#include "readers/write_ring.h"
#include "ring/plan.h"
#include "shmem/area.h"
#include "shmem/kill_switch.h"
#include "utils/rel.h"

/* The query that last ran for a limited number of rows; it may have ended. */
static const EState *last_query_run = NULL;

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorEnd_hook_type prev_ExecutorEnd = NULL;

/*
 * The function that is called for the node's first rows; NULL if the node is
 * never taken.  may_stop: may a node above it stop it before it has returned
 * all rows?
 */
static TakenNodeMtd
first_calls_of(const PlanState *ps, bool may_stop)
{
	switch (nodeTag(ps))
	{
		case T_SeqScanState:
			return may_stop ? seqscan_first_calls_alone : seqscan_first_calls;
		case T_TidRangeScanState:
			return tidrangescan_first_call;
#ifdef COMPAT_BITMAP_STREAM
		case T_BitmapHeapScanState:
			return bitmapscan_first_call;
#endif
		case T_IndexScanState:
		case T_IndexOnlyScanState:
			return indexscan_first_call;
		case T_GatherState:
		case T_GatherMergeState:
			return scan_first_gather_call;
		default:
			return NULL;
	}
}

/*
 * executor_is_gather
 *		Is this a Gather or a Gather Merge?  These are taken, but they scan no
 *		relation.
 */
bool
executor_is_gather(const PlanState *ps)
{
	return IsA(ps, GatherState) || IsA(ps, GatherMergeState);
}

/*
 * executor_is_index_scan
 *		Is the node an index scan?  Its reader may read without a ring.
 */
bool
executor_is_index_scan(const PlanState *ps)
{
	return IsA(ps, IndexScanState) || IsA(ps, IndexOnlyScanState);
}

/*
 * executor_may_have_reader
 *		Does this node scan a relation, and is there a kind of reader for its
 *		scan?  For an index scan the answer is no unless read-ahead or a ring
 *		was asked for.
 */
bool
executor_may_have_reader(const PlanState *ps)
{
	return first_calls_of(ps, false) != NULL && !executor_is_gather(ps) &&
		(!executor_is_index_scan(ps) || indexscan_may_be_taken(ps));
}

/* Why a node that first_calls_of() knows is not taken; NULL if it is. */
static const char *
exclusion_of(const PlanState *ps)
{
	if (executor_is_gather(ps))
		return NULL;
	if (executor_is_index_scan(ps))
		return indexscan_exclusion(ps);
	return plan_exclusion(((const ScanState *) ps)->ss_currentRelation);
}

/*
 * Does the node return the rows of its only child one by one, so that a LIMIT
 * above the node limits the child, too?
 */
static bool
hands_on_rows(const PlanState *ps)
{
	return IsA(ps, ResultState) || IsA(ps, SubqueryScanState) ||
		IsA(ps, LockRowsState) || IsA(ps, UniqueState);
}

/* A walk over the nodes of a plan. */
typedef struct Walk
{
	const List *subplans;		/* roots of all walks but the first one */
	const LimitState *limit;	/* LIMIT that gets the rows of the node that
								 * is visited next; or NULL */
	bool		may_stop;		/* may the node that is visited next be
								 * stopped, by a node above it, before it has
								 * returned all rows? */
} Walk;

/*
 * The LIMIT that gets the rows of the nodes below ps.  limit: the one that
 * gets the rows of ps.  Either may be NULL.
 */
static const LimitState *
limit_below(const PlanState *ps, const LimitState *limit)
{
	if (IsA(ps, LimitState))
		return (const LimitState *) ps;
	return hands_on_rows(ps) ? limit : NULL;
}

/* Does the aggregation get all rows before it returns the first one? */
static inline bool
reads_all_first(const Agg *agg)
{
	return agg->aggstrategy == AGG_PLAIN || agg->aggstrategy == AGG_HASHED;
}

/* Is ps a nested loop that needs only one inner row for each outer row? */
static inline bool
needs_one_row(const PlanState *ps)
{
	return IsA(ps, NestLoopState) &&
		(((const JoinState *) ps)->single_match ||
		 ((const JoinState *) ps)->jointype == JOIN_ANTI);
}

/*
 * May a node stop the nodes below ps before they have returned all rows?
 * may_stop: the same for ps itself.
 *
 * Three cases are not considered: a LIMIT above a parallel worker's part of
 * the plan, of which the worker does not know; a hash join, which stops its
 * outer side if its inner side is empty; and, from 18 on, a sorted SetOp,
 * which stops its inner side when its outer side has ended.
 */
static bool
may_stop_below(const PlanState *ps, bool may_stop)
{
	switch (nodeTag(ps))
	{
		case T_LimitState:
		case T_MergeJoinState:
		case T_CustomScanState:
			return true;
		case T_WindowAggState:
			return may_stop || ((const WindowAgg *) ps->plan)->runCondition != NIL;
		case T_SortState:
		case T_HashState:
		case T_ModifyTableState:
			return false;
		case T_AggState:
			return may_stop && !reads_all_first((const Agg *) ps->plan);
		default:
			return may_stop;
	}
}

static void take_nodes(PlanState *ps, Walk *walk);

/*
 * Callback of planstate_tree_walker(), which comes to a node's subplans before
 * and after its children.
 */
static bool
take_unless_subplan(PlanState *ps, void *walk)
{
	if (!list_member_ptr(((Walk *) walk)->subplans, ps))
		take_nodes(ps, walk);
	return false;
}

/*
 * Take nodes below ps.  planstate_tree_walker() would cost too much in small
 * queries, which most are.  So it is called only for nodes that have other
 * children than an outer and an inner node.  (No node below a BitmapAnd or
 * BitmapOr has a reader.)
 */
static void
take_nodes_below(PlanState *ps, Walk *walk)
{
	switch (nodeTag(ps))
	{
		case T_AppendState:
		case T_MergeAppendState:
		case T_SubqueryScanState:
		case T_CustomScanState:
			(void) planstate_tree_walker(ps, take_unless_subplan, walk);
			return;
		default:
			break;
	}
	if (outerPlanState(ps) != NULL)
		take_nodes(outerPlanState(ps), walk);
	if (innerPlanState(ps) != NULL)
	{
		walk->may_stop |= needs_one_row(ps);
		take_nodes(innerPlanState(ps), walk);
	}
}

/*
 * Take every node at or below ps that first_calls_of() knows, except for
 * scans that are excluded.  Subplans are left to walks of their own, because a
 * subplan may be below many nodes, for example those of partitions.
 *
 * ExecInitNode() has gone as deep, with larger stack frames, so the stack's
 * depth need not be checked here.
 */
static void
take_nodes(PlanState *ps, Walk *walk)
{
	const LimitState *limit = walk->limit;
	bool		may_stop = walk->may_stop;
	TakenNodeMtd first_calls = first_calls_of(ps, may_stop);

	if (first_calls != NULL && exclusion_of(ps) == NULL)
	{
		node_take(ps, first_calls);
		if (limit != NULL && executor_is_index_scan(ps))
			indexscan_note_limit(ps, limit);
	}
	walk->limit = limit_below(ps, limit);
	walk->may_stop = may_stop_below(ps, may_stop);
	take_nodes_below(ps, walk);
	walk->limit = limit;
	walk->may_stop = may_stop;
}

static void
take_nodes_of(PlanState *root, const List *subplans, bool may_stop)
{
	Walk		walk = {.subplans = subplans,.may_stop = may_stop};

	take_nodes(root, &walk);
}

/*
 * Does the query have a relation for which plan_may_matter() or
 * toast_may_matter() is true?
 */
static inline bool
has_relation_that_matters(const EState *estate)
{
	Relation   *rels = estate->es_relations;

	for (int n = (int) estate->es_range_table_size; n > 0; n--, rels++)
		if (*rels != NULL && (plan_may_matter(*rels) || toast_may_matter(*rels)))
			return true;
	return false;
}

/*
 * Take the nodes of the plan, and of each of its subplans.  A subplan may be
 * stopped before it has returned all rows: EXISTS, for example, needs one row.
 */
static void
take_all_nodes(QueryDesc *queryDesc)
{
	const List *subplans = queryDesc->estate->es_subplanstates;
	ListCell   *lc;

	take_nodes_of(queryDesc->planstate, subplans, false);
	foreach(lc, subplans)
	{
		if (lfirst(lc) != NULL)
			take_nodes_of((PlanState *) lfirst(lc), subplans, true);
	}
}

/* The query is about to run, and some of its relations may matter. */
static pg_noinline void
prepare_query(QueryDesc *queryDesc)
{
	if (queryDesc->planstate == NULL)
		return;
	if (IsParallelWorker())
		enabled_listen();
	take_all_nodes(queryDesc);
	if (node_nfunctions > 0)
		executor_watch_runs();
}

static void
ringctl_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	EState	   *estate;

	shared_watch_exit();
	if (unlikely(heap_am_any_catch()))
		heap_am_drop_catches(heap_am_ncatches_made);	/* see utility.c */
	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);

	estate = queryDesc->estate;
	/* The EState of a query that has ended may have had the same address. */
	if (unlikely(last_query_run == estate))
		last_query_run = NULL;
	if (unlikely(scan_partial_query == estate))
		scan_partial_query = NULL;
	toast_looks_left = TOAST_NEW_LOOKS;
	if (plan_mode() != MODE_OFF && (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 &&
		has_relation_that_matters(estate))
		prepare_query(queryDesc);
}

static inline void
run_query(COMPAT_RUN_PARAMS)
{
	if (prev_ExecutorRun)
		prev_ExecutorRun(COMPAT_RUN_ARGS);
	else
		standard_ExecutorRun(COMPAT_RUN_ARGS);
}

/*
 * Count this run of a query.  Is it one of many runs in a row within one
 * statement of the client?  A loop in a function runs its query once for every
 * row, or every few rows.  Resuming and pausing the readers around each run
 * would cost more than the rows do.  So from the fourth run in a row on, until
 * another query runs for a limited number of rows, or until the next statement
 * of the client, nothing is done: a reader that the third run has paused stays
 * paused, and a reader that begins later is not paused.  (A run without a
 * limit of rows pauses both.)
 */
static bool
is_in_loop(const EState *estate)
{
	static TimestampTz last_statement = 0;
	static int	runs = 0;
	TimestampTz statement = GetCurrentStatementStartTimestamp();

	runs = estate == last_query_run && statement == last_statement ? Min(runs + 1, 3) : 0;
	last_query_run = estate;
	last_statement = statement;
	return runs > 2;
}

/*
 * The query has been run: let its readers pause, unless ExecutorFinish() will
 * run its data-modifying CTEs to their end.
 */
static void
let_pause(QueryDesc *queryDesc)
{
	if (scan_nqueries > 0 && !queryDesc->plannedstmt->hasModifyingCTE)
		scan_set_running(queryDesc->estate, false);
}

/*
 * Run a query for a limited number of rows, and let its readers pause after
 * that, unless it is run in a loop.
 *
 * If the query fails and a function that called it catches the error,
 * scan_partial_query remains.  It is only compared, so that does no harm: at
 * worst a scan of the calling query shares its reads.
 */
static void
run_and_pause(COMPAT_RUN_PARAMS)
{
	bool		in_loop = is_in_loop(queryDesc->estate);
	const EState *outer = scan_partial_query;

	if (scan_nqueries > 0 && !in_loop)
		scan_set_running(queryDesc->estate, true);
	scan_partial_query = queryDesc->estate;
	run_query(COMPAT_RUN_ARGS);
	scan_partial_query = outer;
	if (!in_loop)
		let_pause(queryDesc);
}

/*
 * Most queries are run once, to their end.  A cursor's query may be run many
 * times: its readers pause between two runs.
 *
 * A query that was run to its end may stay open, too, as long as its portal
 * does.  So its readers pause as well.
 */
static pg_noinline void
run_with_readers(COMPAT_RUN_PARAMS)
{
	if (count != 0)
	{
		run_and_pause(COMPAT_RUN_ARGS);
		return;
	}
	if (scan_nqueries > 0)
		scan_set_running(queryDesc->estate, true);
	run_query(COMPAT_RUN_ARGS);
	let_pause(queryDesc);
}

static void
ringctl_ExecutorRun(COMPAT_RUN_PARAMS)
{
	if (unlikely(write_ring_is_set()))
		utility_before_run(queryDesc);
	if (node_nfunctions == 0)
		run_query(COMPAT_RUN_ARGS);
	else
		run_with_readers(COMPAT_RUN_ARGS);
}

static inline void
end_query(QueryDesc *queryDesc)
{
	if (prev_ExecutorEnd)
		prev_ExecutorEnd(queryDesc);
	else
		standard_ExecutorEnd(queryDesc);
}

/* End a query that may have readers, or parallel workers. */
static pg_noinline void
end_query_with_readers(QueryDesc *queryDesc)
{
	QueryScans *query = scan_leave_query(queryDesc->estate);
	List	   *contexts = scan_parallel_contexts(queryDesc->estate);
	Bitmapset  *uncalled = contexts != NIL ? scan_uncalled(queryDesc) : NULL;
	const EState *estate = queryDesc->estate;

	end_query(queryDesc);

	scan_end_query(query);
	toast_end(estate);
	scan_remember_workers(contexts, uncalled);
}

static void
ringctl_ExecutorEnd(QueryDesc *queryDesc)
{
	if (likely(scan_nqueries == 0 && !toast_any() && !scan_any_parallel()))
		end_query(queryDesc);
	else
		end_query_with_readers(queryDesc);
}

/*
 * executor_watch_runs
 *		From now on we are told when a query runs and ends.
 *
 * This is called when the first node is taken, or when the first command that
 * fills a new table may be given a ring.  So a session in which neither
 * happens does not pay for these hooks.
 */
void
executor_watch_runs(void)
{
	static bool watched = false;

	if (watched)
		return;
	watched = true;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = ringctl_ExecutorRun;
	prev_ExecutorEnd = ExecutorEnd_hook;
	ExecutorEnd_hook = ringctl_ExecutorEnd;
}

/*
 * executor_install_hooks
 *		From now on every query of this session is looked at when it starts.
 */
void
executor_install_hooks(void)
{
	query_init();

	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = ringctl_ExecutorStart;
}
