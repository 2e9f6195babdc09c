/*-------------------------------------------------------------------------
 *
 * tidrangescan.c
 *	  TID range scans: decide what becomes of each.
 *
 * The server gives a TID range scan no ring, however many blocks its range
 * has.  So tools that copy a table in ranges of ctid replace the whole pool.
 * Here a scan gets a ring of ours if a scan of the whole table would get one,
 * and if its range has more blocks than the threshold (by default, than a
 * quarter of the pool).
 *
 * The scan has to be attached before its first block is read: if its filter
 * lets no row pass, the first call for a row reads all blocks.  So at the
 * first call:
 *
 *	1. we compute the bounds of the range as the node will, as far as that may
 *	   be done (must_not_compute());
 *	2. if the range has enough blocks, we begin the scan with an empty range;
 *	3. we attach a reader to the scan, and call the node.  The node finds that
 *	   its scan has begun, sets the range and rescans, which resets our stream.
 *
 * A parallel scan (from 19 on) has its descriptor already.  A rescan keeps the
 * ring, even if its range is small.  If the range of the first pass is small,
 * the scan is left alone for good.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_operator.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "readers/nodes.h"
#include "readers/scan_query.h"
#include "readers/scan_reader.h"
#include "readers/scan_stream.h"
#include "readers/tidrangescan.h"
#include "readers/toast.h"
#include "ring/plan.h"
#include "utils/rel.h"

/* The blocks that bound a range; both are in it. */
typedef struct BlockRange
{
	int64		first;
	int64		last;
} BlockRange;

static bool
is_ctid(const Node *node)
{
	return node != NULL && IsA(node, Var) &&
		((const Var *) node)->varattno == SelfItemPointerAttributeNumber;
}

/* Does the operator bound the range from above, if ctid is on its left? */
static bool
bounds_from_above(Oid opno)
{
	return opno == TIDLessOperator || opno == TIDLessEqOperator;
}

static bool
is_user_function(Oid funcid, void *context pg_attribute_unused())
{
	return funcid >= FirstNormalObjectId;
}

/*
 * May the expression call a function that is not the server's own?  The
 * functions that a domain's CHECK constraints call are not in the expression,
 * so the answer is yes if there is a coercion to a domain.
 */
static bool
calls_user_function(Node *node, void *context)
{
	return node != NULL &&
		(IsA(node, CoerceToDomain) ||
		 check_functions_in_node(node, is_user_function, context) ||
		 expression_tree_walker(node, calls_user_function, context));
}

/*
 * Must the expression not be computed before the node does so?  Initializing a
 * subplan here would add it to the node once more.  A function that a user has
 * made may do something that users notice, and the node will call it, too.
 */
static bool
must_not_compute(Node *expr)
{
	return contain_subplans(expr) || calls_user_function(expr, NULL);
}

/*
 * Narrow the range by one of the node's quals, "ctid op value" or "value op
 * ctid".  If *only_constants is true, no value is computed: a qual whose value
 * is not a constant narrows nothing.  If this value must not be computed,
 * *only_constants is set, so that later values are not computed either: this
 * one may be null, and after a null the server computes no other value.
 *
 * If the value is null, makes the range empty and returns false; the caller
 * must not look at other quals.
 */
static bool
narrow_range(BlockRange *range, OpExpr *qual, const PlanState *ps, bool *only_constants)
{
	bool		ctid_is_left = is_ctid(get_leftop(qual));
	Expr	   *value = (Expr *) (ctid_is_left ? get_rightop(qual) : get_leftop(qual));
	int64		block;
	Datum		tid;
	bool		isnull;

	if (IsA(value, Const))		/* the usual case, and cheap */
	{
		tid = ((Const *) value)->constvalue;
		isnull = ((Const *) value)->constisnull;
	}
	else if (*only_constants || must_not_compute((Node *) value))
	{
		*only_constants = true;
		return true;
	}
	else
		tid = ExecEvalExprSwitchContext(ExecInitExpr(value, (PlanState *) ps),
										ps->ps_ExprContext, &isnull);
	if (isnull)
	{
		range->last = -1;
		return false;
	}
	block = ItemPointerGetBlockNumberNoCheck((ItemPointer) DatumGetPointer(tid));
	if (bounds_from_above(qual->opno) == ctid_is_left)
		range->last = Min(range->last, block);
	else
		range->first = Max(range->first, block);
	return true;
}

/*
 * The blocks of the range that the node is about to scan; if first > last,
 * there are none.  The result may be larger than the range: by one block at
 * each end, because only the block numbers of the bounds are looked at, or by
 * more if narrow_range() leaves out a qual.
 */
static BlockRange
range_of(const PlanState *ps, bool only_constants)
{
	const TidRangeScan *plan = (const TidRangeScan *) ps->plan;
	BlockRange	range = {0, MaxBlockNumber};
	MemoryContext oldcontext = MemoryContextSwitchTo(ps->ps_ExprContext->ecxt_per_tuple_memory);

	foreach_node(OpExpr, qual, plan->tidrangequals)
	{
		if (!narrow_range(&range, qual, ps, &only_constants))
			break;
	}
	MemoryContextSwitchTo(oldcontext);
	ResetExprContext(ps->ps_ExprContext);
	return range;
}

/* Number of blocks of the range in a relation of nblocks blocks. */
static BlockNumber
blocks_in_range(BlockRange range, BlockNumber nblocks)
{
	return (BlockNumber) Max(0, Min(range.last, (int64) nblocks - 1) - range.first + 1);
}

/*
 * Does the scan, which is about to begin, get a ring of ours?  *nblocks is set
 * to the relation's size if it does.
 *
 * Whether the ring is to be ours depends on the relation's size, not on the
 * range's: a tool may copy a large table in ranges that would each fit into
 * the pool.  The range only has to be over the threshold.  Most ranges are
 * not, whatever the relation's size, and then the size need not be asked for.
 */
static bool
gets_ring(TidRangeScanState *node, BlockNumber *nblocks)
{
	Relation	rel = node->ss.ss_currentRelation;
	BlockRange	range = range_of(&node->ss.ps, false);

	if (plan_prospect(rel, blocks_in_range(range, MaxBlockNumber),
					  MODE_CONTROL) == RING_NONE)
		return false;
	*nblocks = RelationGetNumberOfBlocks(rel);
	return plan_prospect(rel, *nblocks, MODE_CONTROL) > RING_OF_SERVER &&
		plan_prospect(rel, blocks_in_range(range, *nblocks), MODE_CONTROL) != RING_NONE;
}

/*
 * tidrangescan_is_small
 *		Do the constants in the node's quals say that its range, in a relation
 *		of nblocks blocks, is too small for a ring?  Computes nothing, so it
 *		may be asked in EXPLAIN.
 */
bool
tidrangescan_is_small(const PlanState *ps, BlockNumber nblocks)
{
	Relation	rel = ((const ScanState *) ps)->ss_currentRelation;

	return plan_prospect(rel, blocks_in_range(range_of(ps, true), nblocks),
						 MODE_CONTROL) == RING_NONE;
}

/* Attach a reader to the node's scan, which has not read a block yet. */
static void
attach(TidRangeScanState *node, BlockNumber nblocks)
{
	RingOptions options;
	ScanReader *reader;

	if (node->ss.ss_currentScanDesc == NULL)
		node->ss.ss_currentScanDesc = compat_begin_tidrangescan(node);
	plan_for_scan(node->ss.ss_currentRelation, nblocks, MODE_CONTROL, &options, NULL);
	reader = scan_begin_reader(READER_TIDRANGESCAN, &node->ss.ps, &options);
	scan_set_ring_stream(reader);
}

/*
 * tidrangescan_first_call
 *		A TID range scan is called for its first row.
 *
 * The server gives the scan no ring, so in observe mode there is nothing to
 * count.
 */
TupleTableSlot *
tidrangescan_first_call(PlanState *ps, int n)
{
	TidRangeScanState *node = castNode(TidRangeScanState, ps);
	MemoryContext oldcontext;
	BlockNumber nblocks;

	/* If another library has wrapped us, this may be a later call. */
	if (plan_mode() != MODE_CONTROL || node->trss_inScan ||
		(node_is_wrapped(ps, n) && scan_find_reader(ps) != NULL))
		return node_hand_back(ps, n);

	oldcontext = MemoryContextSwitchTo(ps->state->es_query_cxt);
	if (gets_ring(node, &nblocks))
		attach(node, nblocks);
	else
		toast_begin(ps->state, node->ss.ss_currentRelation, true);
	MemoryContextSwitchTo(oldcontext);
	return node_hand_back(ps, n);
}
