/*-------------------------------------------------------------------------
 *
 * indexscan.c
 *	  Index scans: decide which of them read ahead, or through a ring.
 *
 * The fetches of a plain or index-only scan of a btree index on a heap may be
 * ours (index_fetch.c), for two reasons, which are independent:
 *
 * A. pg_ringctl.index_read_ahead, or the table's policy, says that its heap
 *	  pages are read ahead;
 * B. the size of the ring of the table's scans is set, the table is over the
 *	  threshold, and the planner expects more rows than the number of blocks
 *	  that stay in the pool before the ring is tight.
 *
 * If the planner expects no more rows than the number of pages that must be
 * missed first (index_read_ahead_after), the scan is left alone.  Otherwise, a
 * scan for which A or B holds is attached at its first call.  If a scan has no
 * descriptor by then, we begin it as the node would.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am.h"
#include "compat.h"
#include "lib/ilist.h"
#include "readers/index_fetch.h"
#include "readers/indexscan.h"
#include "readers/nodes.h"
#include "ring/plan.h"
#include "utils/rel.h"

/* A scan under a LIMIT, in the memory of its query. */
typedef struct LimitedScan
{
	dlist_node	node;
	const PlanState *ps;
	const LimitState *limit;
	MemoryContextCallback callback;
} LimitedScan;

static dlist_head limited_scans = DLIST_STATIC_INIT(limited_scans);

static Relation
index_of(const PlanState *ps)
{
	return IsA(ps, IndexScanState) ? ((const IndexScanState *) ps)->iss_RelationDesc :
		((const IndexOnlyScanState *) ps)->ioss_RelationDesc;
}

/*
 * indexscan_may_be_taken
 *		Does anything ask for read-ahead or a ring for the node's scan?
 */
bool
indexscan_may_be_taken(const PlanState *ps)
{
	Relation	rel = ((const ScanState *) ps)->ss_currentRelation;

	return plan_reads_ahead(rel) ||
		plan_index_scan_has_ring(rel, ps->plan->plan_rows);
}

/*
 * indexscan_exclusion
 *		Why the node's scan is left alone; NULL if it is not.
 */
const char *
indexscan_exclusion(const PlanState *ps)
{
	if (ps->plan->plan_rows <= param_index_read_ahead_after)
		return "few rows are expected";
	if (!indexscan_may_be_taken(ps))
		return "neither read-ahead nor a ring is asked for";
	/* EXPLAIN alone does not open the index */
	if (index_of(ps) != NULL && index_of(ps)->rd_rel->relam != BTREE_AM_OID)
		return "not a btree index";
	return plan_exclusion(((const ScanState *) ps)->ss_currentRelation);
}

/* The query's memory is about to be freed, with this LimitedScan in it. */
static void
forget_limited_scan(void *arg)
{
	dlist_delete(&((LimitedScan *) arg)->node);
}

/*
 * indexscan_note_limit
 *		Remember until the query ends that the node's rows go to this LIMIT.
 */
void
indexscan_note_limit(PlanState *ps, const LimitState *limit)
{
	LimitedScan *limited = MemoryContextAllocZero(ps->state->es_query_cxt,
												  sizeof(LimitedScan));

	limited->ps = ps;
	limited->limit = limit;
	limited->callback.func = forget_limited_scan;
	limited->callback.arg = limited;
	dlist_push_head(&limited_scans, &limited->node);
	MemoryContextRegisterResetCallback(ps->state->es_query_cxt, &limited->callback);
}

static const LimitState *
limit_of(const PlanState *ps)
{
	dlist_iter	iter;

	dlist_foreach(iter, &limited_scans)
	{
		LimitedScan *limited = dlist_container(LimitedScan, node, iter.cur);

		if (limited->ps == ps)
			return limited->limit;
	}
	return NULL;
}

/*
 * indexscan_first_call
 *		An index scan that was taken is called for its first row.
 */
TupleTableSlot *
indexscan_first_call(PlanState *ps, int n)
{
	Relation	rel = ((ScanState *) ps)->ss_currentRelation;
	MemoryContext oldcontext;
	IndexScanDesc scan = IsA(ps, IndexScanState) ?
		((IndexScanState *) ps)->iss_ScanDesc : ((IndexOnlyScanState *) ps)->ioss_ScanDesc;

	/* If another library has wrapped us, this may be a later call. */
	if (plan_mode() != MODE_CONTROL ||
		(scan != NULL && !index_fetch_can_attach(scan)) ||
		!indexscan_may_be_taken(ps))
		return node_hand_back(ps, n);

	oldcontext = MemoryContextSwitchTo(ps->state->es_query_cxt);
	scan = IsA(ps, IndexScanState) ? compat_begin_indexscan((IndexScanState *) ps) :
		compat_begin_indexonlyscan((IndexOnlyScanState *) ps);
	index_fetch_attach(scan, (ScanState *) ps, limit_of(ps), plan_reads_ahead(rel));
	MemoryContextSwitchTo(oldcontext);
	return node_hand_back(ps, n);
}
