/*-------------------------------------------------------------------------
 *
 * limit.c
 *	  How many rows does a LIMIT still want of a scan below it?
 *
 * A scan that will be left after a few rows needs no look-ahead to speak of.
 * The executor tells a Sort how many rows are wanted of it, but not a scan, so
 * we look: the Limit nodes of each running query are noted, and when a scan is
 * called for its first row, we go down from them, by the way on which that
 * call came.
 *
 *	  Limit          knows its count and offset: it called
 *	    Append       at its second child, say
 *	      SeqScan
 *	      SeqScan    is this the one that asks?
 *
 * Only nodes that pass on every row are on that way; where rows may get lost,
 * by a filter or a join, nobody knows how many are wanted.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "limit.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"

/* A Limit of a running query; in its memory. */
typedef struct NotedLimit
{
	dlist_node	node;
	const LimitState *limit;
	MemoryContextCallback callback;
} NotedLimit;

static dlist_head limits = DLIST_STATIC_INIT(limits);

/* The query's memory goes, and this in it. */
static void
forget_limit(void *arg)
{
	NotedLimit *noted = arg;

	dlist_delete(&noted->node);
}

/*
 * limit_note
 *		A query with this Limit starts.
 */
void
limit_note(LimitState *limit)
{
	MemoryContext context = limit->ps.state->es_query_cxt;
	NotedLimit *noted = MemoryContextAlloc(context, sizeof(NotedLimit));

	noted->limit = limit;
	noted->callback.func = forget_limit;
	noted->callback.arg = noted;
	dlist_push_head(&limits, &noted->node);
	MemoryContextRegisterResetCallback(context, &noted->callback);
}

/* May a LockRows leave out many rows, because others have locked them? */
static bool
skips_locked(const LockRows *lock)
{
	foreach_node(PlanRowMark, mark, lock->rowMarks)
	{
		if (mark->waitPolicy == LockWaitSkip)
			return true;
	}
	return false;
}

/*
 * The node that this one is calling, if it passes on every row that it gets;
 * else NULL.  The same nodes as in ExecSetTupleBound(), without those that
 * collect rows in any order, and with LockRows where it loses one but seldom.
 */
static const PlanState *
called_by(const PlanState *ps)
{
	switch (nodeTag(ps))
	{
		case T_AppendState:
			{
				const AppendState *append = (const AppendState *) ps;

				return append->as_whichplan < 0 ? NULL :
					append->appendplans[append->as_whichplan];
			}
		case T_SubqueryScanState:
			return ps->qual ? NULL : ((const SubqueryScanState *) ps)->subplan;
		case T_ResultState:
			return ps->qual ? NULL : outerPlanState(ps);
		case T_LockRowsState:
			return skips_locked((const LockRows *) ps->plan) ? NULL : outerPlanState(ps);
		case T_LimitState:
			return outerPlanState(ps);
		default:
			return NULL;
	}
}

static bool
has_executor_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXEC;
	return expression_tree_walker(node, has_executor_param, context);
}

/* May a Limit want another number of rows when it is rescanned? */
static bool
may_change(const Limit *limit)
{
	if (contain_volatile_functions(limit->limitCount) ||
		contain_volatile_functions(limit->limitOffset))
		return true;
	return !bms_is_empty(limit->plan.extParam) &&
		(has_executor_param(limit->limitCount, NULL) ||
		 has_executor_param(limit->limitOffset, NULL));
}

/*
 * The rows that a Limit wants, of those that it has not got; -1: not known.  If
 * it may be rescanned with other parameters, fewer rows of other nodes may come
 * before this scan's the next time.
 */
static int64
rows_wanted(const LimitState *limit)
{
	int64		got = bms_is_empty(limit->ps.plan->extParam) ? limit->position : 0;

	if (limit->lstate == LIMIT_INITIAL || limit->noCount ||
		limit->limitOption == LIMIT_OPTION_WITH_TIES ||
		may_change((const Limit *) limit->ps.plan) ||
		limit->count > PG_INT64_MAX - limit->offset)
		return -1;
	return Max(0, limit->offset + limit->count - got);
}

/*
 * limit_rows_wanted
 *		How many rows a Limit wants of a scan that is called for its first one;
 *		-1 if there is none, or if nobody knows.
 */
int64
limit_rows_wanted(const SeqScanState *scan)
{
	int64		wanted = -1;
	dlist_iter	iter;

	if (scan->ss.ps.qual != NULL)
		return -1;

	dlist_foreach(iter, &limits)
	{
		const LimitState *limit = dlist_container(NotedLimit, node, iter.cur)->limit;
		const PlanState *called;
		int64		rows;

		if (limit->ps.state != scan->ss.ps.state)
			continue;
		for (called = called_by(&limit->ps);
			 called != NULL && called != &scan->ss.ps;
			 called = called_by(called));
		rows = called == NULL ? -1 : rows_wanted(limit);
		if (rows >= 0 && (wanted < 0 || rows < wanted))
			wanted = rows;
	}
	return wanted;
}
