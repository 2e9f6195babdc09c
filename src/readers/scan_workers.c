/*-------------------------------------------------------------------------
 *
 * scan_workers.c
 *	  What parallel workers did for the scans of a query.
 *
 * A worker publishes what it did under the handle of its parallel context
 * (scan_facts.c).  To collect this, the leader has to know the handles of its
 * query's parallel contexts.  So each Gather is taken until its first call.
 * This call makes the parallel context.  After the call we note the context's
 * handle.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "executor/execParallel.h"
#include "nodes/nodeFuncs.h"
#include "readers/executor.h"
#include "readers/nodes.h"
#include "readers/scan_query.h"
#include "readers/scan_reader.h"
#include "readers/scan_workers.h"
#include "ring/plan.h"
#include "utils/rel.h"

/* A Gather of a running query, in the query's memory. */
typedef struct RunningGather
{
	dlist_node	node;
	const EState *estate;
	dsm_handle	handle;			/* of its parallel context's segment */
	MemoryContextCallback callback;
} RunningGather;

dlist_head	scan_running_gathers = DLIST_STATIC_INIT(scan_running_gathers);

/*
 * If no Gather runs, then everything that workers have published and
 * that was not collected belongs to queries that failed.
 */
static void
discard_of_failed(void)
{
	if (dlist_is_empty(&scan_running_gathers))
		facts_discard(DSM_HANDLE_INVALID);
}

/*
 * The query's memory is about to be freed, with this RunningGather in it.  If
 * the query failed, its transaction is being aborted, and its workers have
 * exited already.  If not, scan_remember_workers() has yet to collect what its
 * workers have published: keep it.
 */
static void
forget_gather(void *arg)
{
	RunningGather *gather = arg;

	dlist_delete(&gather->node);
	if (!IsTransactionState())
		discard_of_failed();
}

/* A Gather starts.  The handle of its parallel context is not known yet. */
static RunningGather *
note_gather(EState *estate)
{
	RunningGather *gather;

	discard_of_failed();
	gather = MemoryContextAllocZero(estate->es_query_cxt, sizeof(RunningGather));
	gather->estate = estate;
	gather->handle = DSM_HANDLE_INVALID;
	gather->callback.func = forget_gather;
	gather->callback.arg = gather;
	dlist_push_tail(&scan_running_gathers, &gather->node);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &gather->callback);
	return gather;
}

typedef struct SubplanWalk
{
	const List *subplans;		/* of the whole query */
	List	   *seen;			/* those that were walked */
} SubplanWalk;

/*
 * Is there a taken scan at or below ps that would get a ring, or be observed,
 * if it began to read its whole table now?  An index scan need only have been
 * taken.
 *
 * Each subplan is walked only once, because a subplan may be below many nodes,
 * for example those of partitions.
 */
static bool
has_ring_below(PlanState *ps, void *context)
{
	SubplanWalk *walk = context;

	if (list_member_ptr(walk->subplans, ps))
	{
		if (list_member_ptr(walk->seen, ps))
			return false;
		walk->seen = lappend(walk->seen, ps);
	}
	if (node_is_taken(ps) && !executor_is_gather(ps))
	{
		Relation	rel = ((ScanState *) ps)->ss_currentRelation;

		if (executor_is_index_scan(ps) ||
			plan_prospect(rel, RelationGetNumberOfBlocks(rel),
						  plan_mode()) > RING_LEFT_TO_SERVER)
			return true;
	}
	return planstate_tree_walker(ps, has_ring_below, context);
}

/* Is there such a scan below the Gather? */
static bool
gather_has_ring(PlanState *ps)
{
	SubplanWalk walk = {ps->state->es_subplanstates, NIL};
	bool		has_ring = has_ring_below(outerPlanState(ps), &walk);

	list_free(walk.seen);
	return has_ring;
}

/* The Gather's parallel context; NULL if it has none yet. */
static ParallelExecutorInfo *
parallel_context(PlanState *ps)
{
	return IsA(ps, GatherState) ? castNode(GatherState, ps)->pei :
		castNode(GatherMergeState, ps)->pei;
}

static bool
has_begun(PlanState *ps)
{
	return parallel_context(ps) != NULL ||
		(IsA(ps, GatherState) ? castNode(GatherState, ps)->initialized :
		 castNode(GatherMergeState, ps)->initialized);
}

/*
 * scan_first_gather_call
 *		A Gather that was taken is asked for a row.  If another library has
 *		wrapped our function, this may be a later row than the first one.  In
 *		that case there is nothing to do.
 *
 * When the Gather has returned the row, it has its parallel context: note the
 * handle under which its workers publish.  If there is no context, or if the
 * context has no segment, there are no workers.
 */
TupleTableSlot *
scan_first_gather_call(PlanState *ps, int n)
{
	ParallelExecutorInfo *pei;
	TupleTableSlot *slot;
	RunningGather *gather = NULL;

	node_restore(ps, n);
	if (plan_mode() != MODE_OFF && !has_begun(ps) && gather_has_ring(ps))
		gather = note_gather(ps->state);
	slot = node_call(ps, n);
	if (gather == NULL)
		return slot;

	pei = parallel_context(ps);
	if (pei != NULL && pei->pcxt->seg != NULL)
		gather->handle = dsm_segment_handle(pei->pcxt->seg);
	return slot;
}

/*
 * scan_parallel_contexts
 *		The handles of a query's parallel contexts, as a palloc'd list of OIDs.
 */
List *
scan_parallel_contexts(const EState *estate)
{
	List	   *handles = NIL;
	dlist_iter	iter;

	dlist_foreach(iter, &scan_running_gathers)
	{
		RunningGather *gather = dlist_container(RunningGather, node, iter.cur);

		if (gather->estate == estate && gather->handle != DSM_HANDLE_INVALID)
			handles = lappend_oid(handles, gather->handle);
	}
	return handles;
}

/*
 * Does this process take no part in the node's parallel scan?  Either it has
 * never called the node, or the node is an index scan and few pages were
 * missed here, so that there is no reader.
 */
static bool
takes_no_part(const PlanState *ps)
{
	return node_is_taken(ps) ||
		(executor_is_index_scan(ps) && scan_find_reader(ps) == NULL);
}

/*
 * Note the plan nodes of the parallel scans at or below ps in which this
 * process takes no part.
 */
static bool
note_uncalled(PlanState *ps, void *context)
{
	Bitmapset **uncalled = context;

	if (ps->plan->parallel_aware && takes_no_part(ps))
		*uncalled = bms_add_member(*uncalled, ps->plan->plan_node_id);
	return planstate_tree_walker(ps, note_uncalled, context);
}

/*
 * scan_uncalled
 *		The plan node IDs of a query's parallel scans in which this process
 *		takes no part, as a palloc'd set.
 */
Bitmapset *
scan_uncalled(QueryDesc *queryDesc)
{
	Bitmapset  *uncalled = NULL;

	note_uncalled(queryDesc->planstate, &uncalled);
	return uncalled;
}

/*
 * scan_remember_workers
 *		All workers of a query are done: remember what they did.  contexts,
 *		uncalled: what scan_parallel_contexts() and scan_uncalled() returned
 *		before the query ended; "uncalled" is changed.
 *
 * If the leader takes no part in a scan, perhaps no process has counted it: no
 * worker counts a parallel index scan, and for other scans the process that
 * counts_scan() names may have taken no part.  Such a scan is counted here.
 * If it has no ring, only its facts count it, not the statistics.
 */
void
scan_remember_workers(List *contexts, Bitmapset *uncalled)
{
	ListCell   *handle;

	foreach(handle, contexts)
	{
		List	   *published = facts_of_workers(lfirst_oid(handle), -1);

		foreach_ptr(ScanFacts, facts, published)
		{
			if (facts->scans > 0)
				uncalled = bms_del_member(uncalled, facts->plan_node_id);
		}

		foreach_ptr(ScanFacts, facts, published)
		{
			if (bms_is_member(facts->plan_node_id, uncalled))
			{
				uncalled = bms_del_member(uncalled, facts->plan_node_id);
				facts->scans = 1;
				if (facts->nbuffers > 0)
					reader_count_scan(facts->kind, facts->relid);
			}
			facts_remember(facts);
		}
		facts_discard(lfirst_oid(handle));
	}
}

/*
 * scan_facts_of_node
 *		What each process of a query did so far for a scan of its plan.
 *		Returns a palloc'd list of palloc'd ScanFacts, this process first.
 */
List *
scan_facts_of_node(PlanState *ps)
{
	ScanReader *reader = scan_find_reader(ps);
	List	   *result = NIL;
	ListCell   *handle;

	if (reader != NULL)
	{
		ScanFacts  *facts = palloc(sizeof(ScanFacts));

		scan_get_facts(reader, facts);
		result = lappend(result, facts);
	}

	foreach(handle, scan_parallel_contexts(ps->state))
		result = list_concat(result, facts_of_workers(lfirst_oid(handle),
													  ps->plan->plan_node_id));
	return result;
}
