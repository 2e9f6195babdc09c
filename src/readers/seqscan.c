/*-------------------------------------------------------------------------
 *
 * seqscan.c
 *	  Sequential scans: decide what becomes of each.
 *
 * A sequential scan that was taken (executor.c) calls us for its first rows,
 * until we have decided what becomes of the scan:
 *
 *	            first call for a row
 *	                    |
 *	         +----------+------------------------+
 *	         |          |                        |
 *	   A left alone   B the server reads       C attached
 *	                    the first blocks         ^
 *	                    |          |             |
 *	                    v          +-------------+
 *	               given up          wants more
 *
 * A. Most scans are of small tables and get no ring, or are left to the
 *	  server's ring.  They pay only for this decision, and for the one on TOAST
 *	  values (toast.c).  If the values may need a ring, we are usually called
 *	  once more: their reader does not begin before the scan is asked for its
 *	  second row, or starts its second pass, because many scans are asked for
 *	  one row only (see must_wait_for_second_row()).
 * B. A scan that would get a ring by default, or whose ring is only observed,
 *	  may be given up after a few rows, by a LIMIT or EXISTS.  So first the
 *	  server reads FIRST_BLOCKS blocks by itself: we only set the limit that
 *	  heap_setscanlimits() would set, and lend buffers to the server's ring.
 *	  If the scan wants more than these blocks, it is attached, and goes on
 *	  from there.  If it is given up twice, it is left alone from then on: a
 *	  subquery may be rescanned thousands of times.  (This can't be done if
 *	  another library has wrapped our function.)
 * C. An attached scan has a reader (scan_reader.c) and a ring (ring.c).  A
 *	  stream with our ring and our callback takes the place of the scan's
 *	  stream (scan_stream.c).  From then on, none of our functions is called
 *	  for a row, unless another library has wrapped ours.
 *
 * The scan descriptor tells how far a scan is, so nothing needs to be
 * allocated before a scan is attached:
 *
 *	  not inited, no limit		no pass is in progress
 *	  inited, no limit			the server has read one row, and the values in
 *								TOAST may need a ring
 *	  inited, with a limit		the scan is reading the first blocks
 *	  not inited, with a limit	the scan is at the limit, if the last call
 *								returned no row
 *
 * In the last case the relation has more blocks than the limit, so the scan
 * has not ended.  The server may count the limit down, so we look only at
 * whether there is a limit, not at its value.
 *
 * A parallel scan has its descriptor before its first call, in the leader and
 * in each worker.  If it gets a ring, each of these processes attaches one of
 * its own at its first call.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "params.h"
#include "readers/nodes.h"
#include "readers/seqscan.h"
#include "readers/scan_query.h"
#include "readers/scan_reader.h"
#include "readers/scan_stream.h"
#include "readers/toast.h"
#include "ring/plan.h"
#include "utils/rel.h"

/*
 * In case B, the server reads this number of blocks before the scan is
 * attached, or fewer if the scan turns.  Most scans that are given up early
 * need no more blocks than these, and the server's own ring has room for them.
 */
#define FIRST_BLOCKS			32

/*
 * If a node above the scan may stop the scan, and the scan has no filter, the
 * server gets this number of lent buffers at first, and the others when the
 * scan goes on to a second block.  So an EXISTS does not pay for the others.
 *
 * Before the server returns a row of the second block, it has usually read
 * three blocks: its look-ahead begins with one block, and doubles.  If
 * io_combine_limit is less than 4, it may have read six.
 */
#define FIRST_LENT				6

/*
 * If one call passes whole blocks without a visible row, the server needs more
 * than FIRST_LENT buffers, and takes the others from the pool.  So that this
 * happens only once in a session, from then on each of the session's scans
 * gets all buffers at first.
 */
static int	first_lent = FIRST_LENT;

/* --- The first blocks --- */

/* Is the scan limited to its first blocks? */
static inline bool
has_limit(HeapScanDesc scan)
{
	return scan->rs_numblocks != InvalidBlockNumber;
}

/*
 * Is the scan at this limit?  Do not call this after the limit was set and
 * before the node was called: in that state the descriptor looks the same.
 */
static inline bool
came_to_limit(HeapScanDesc scan)
{
	return has_limit(scan) && !scan->rs_inited;
}

/* Let the ring take over the first blocks that the server has read. */
static void
take_over_first_blocks(ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;
	int			asked = FIRST_BLOCKS;
	int			got = asked;

	if (scan->rs_inited && scan->rs_prefetch_block != InvalidBlockNumber)
		asked = (int) blocks_between(scan->rs_startblock, scan->rs_prefetch_block,
									 scan->rs_nblocks) + 1;
	if (scan->rs_inited)
		got = (int) blocks_between(scan->rs_startblock, scan->rs_cblock,
								   scan->rs_nblocks) + 1;
	ring_take_over(reader->reader.ring, scan->rs_strategy, scan->rs_base.rs_rd,
				   scan->rs_startblock, scan->rs_nblocks, asked, Min(got, asked));
}

/*
 * May the server read the scan's first blocks, through its own ring?  It may
 * not if max_ring allows fewer than FIRST_BLOCKS buffers, because our ring is
 * to take over the buffers of these blocks.
 */
static bool
server_may_begin(const SeqScanState *node, RingProspect prospect)
{
	const int	first_kb = FIRST_BLOCKS * KB_PER_BUFFER;
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;

	return scan->rs_base.rs_parallel == NULL &&
		scan->rs_strategy != NULL && scan->rs_nblocks > FIRST_BLOCKS &&
		GetAccessStrategyBufferCount(scan->rs_strategy) >= FIRST_BLOCKS &&
		ScanDirectionIsForward(node->ss.ps.state->es_direction) &&
		(prospect == RING_OF_SERVER || plan_capped_kb(first_kb) == first_kb);
}

/* Does the server get only first_lent lent buffers at first? */
static inline bool
gets_few_at_first(const SeqScanState *node, bool alone)
{
	return alone && node->ss.ps.qual == NULL;
}

/*
 * The server is about to read the first blocks, or goes on to read them: lend
 * it buffers for "nblocks" of them, unless its ring is only to be observed.
 */
static void
lend_for_first_blocks(const SeqScanState *node, int nblocks)
{
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;

	reader_lend_finished();
	if (plan_mode() == MODE_CONTROL)
		ring_lend_to_server(scan->rs_strategy, nblocks);
}

/* --- What becomes of a scan --- */

/*
 * Attach a reader to the scan, with a ring of these options.  alone: the scan
 * does not share its reads.
 */
static void
attach_ring(SeqScanState *node, RingOptions *options, bool alone)
{
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	bool		after_first_blocks = came_to_limit(scan);
	bool		in_first_blocks = has_limit(scan) && !after_first_blocks;
	ScanReader *reader;

	reader = scan_begin_reader(READER_SEQSCAN, &node->ss.ps, options);
	reader->alone = alone;
	if (has_limit(scan))
		take_over_first_blocks(reader);
	if (after_first_blocks)
		reader->blocks_of_server = FIRST_BLOCKS;
	scan->rs_numblocks = InvalidBlockNumber;
	if (in_first_blocks)
	{
		scan_begin_pass(reader);
		scan->rs_prefetch_block = scan->rs_cblock;
	}
	scan_set_ring_stream(reader);
}

/* Does the expression use a column of rel whose values may be TOAST values? */
static bool
may_fetch_values(Node *expression, void *rel)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, Var))
	{
		AttrNumber	attno = ((Var *) expression)->varattno;

		return attno == 0 ||	/* the whole row */
			(attno > 0 &&
			 TupleDescAttr(RelationGetDescr((Relation) rel), attno - 1)->attlen == -1);
	}
	return expression_tree_walker(expression, may_fetch_values, rel);
}

/*
 * May the ring for the relation's TOAST values wait until the scan goes on?
 * It may not if the filter may fetch such values: if no row passes the filter,
 * one call may fetch the values of many rows.
 */
static inline bool
values_may_wait(const SeqScanState *node)
{
	return node->ss.ps.qual == NULL ||
		!may_fetch_values((Node *) node->ss.ps.plan->qual, node->ss.ss_currentRelation);
}

/*
 * The scan gets no ring of ours.  May its TOAST values need one, and may that
 * ring wait until we are called once more?  If another library has wrapped our
 * function, it would be called for every row, so the answer is no.
 */
static inline bool
must_wait_for_second_row(const SeqScanState *node)
{
	return node->ss.ss_currentScanDesc->rs_parallel == NULL &&
		node_is_taken(&node->ss.ps) &&
		toast_may_matter(node->ss.ss_currentRelation) && values_may_wait(node);
}

/*
 * Decide what becomes of a scan that has a descriptor and is about to start a
 * pass.  Returns true if we must be called again: the server reads the scan's
 * first blocks, or its first row.  Otherwise the scan was attached or is left
 * alone, and our work is done.  again: did an earlier pass end before it was
 * decided what becomes of the scan?
 */
static bool
decide_for(SeqScanState *node, bool alone, bool again)
{
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	Relation	rel = node->ss.ss_currentRelation;
	RingProspect prospect = scan_prospect(scan);

	if (prospect <= RING_LEFT_TO_SERVER)
	{
		if (!again && must_wait_for_second_row(node))
			return true;
		toast_begin(node->ss.ps.state, rel, true);
		return false;
	}
	if (prospect == RING_ASKED_FOR || !server_may_begin(node, prospect))
	{
		RingOptions options;

		plan_for_scan(rel, scan->rs_nblocks, param_mode, &options, NULL);
		attach_ring(node, &options, alone || again);
		return false;
	}

	if (!values_may_wait(node))
		toast_begin(node->ss.ps.state, rel, true);
	ring_server_begins(scan->rs_strategy);
	lend_for_first_blocks(node, gets_few_at_first(node, alone) ? first_lent : FIRST_BLOCKS);
	scan->rs_numblocks = FIRST_BLOCKS;
	return true;
}

/* The same for a node whose scan may have no descriptor yet. */
static bool
decide(SeqScanState *node, bool alone, bool again)
{
	MemoryContext oldcontext;
	bool		call_again;

	if (plan_mode() == MODE_OFF)
		return false;

	oldcontext = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	/* A parallel scan has its descriptor already. */
	if (node->ss.ss_currentScanDesc == NULL)
		node->ss.ss_currentScanDesc = compat_begin_seqscan(node);
	call_again = decide_for(node, alone, again);
	MemoryContextSwitchTo(oldcontext);
	return call_again;
}

/*
 * Attach the scan, after its first blocks or in the middle of them.  If the
 * scan would not get a ring any more, because a parameter was changed, attach
 * it as in observe mode: its ring has the size of the server's, and is only
 * watched.
 */
static void
attach_now(SeqScanState *node, bool alone)
{
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	Relation	rel = node->ss.ss_currentRelation;
	MemoryContext oldcontext = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	RingOptions options;

	plan_for_scan(rel, scan->rs_nblocks, plan_mode(), &options, NULL);
	if (options.nbuffers == 0)
		plan_for_scan(rel, scan->rs_nblocks, MODE_OBSERVE, &options, NULL);
	attach_ring(node, &options, alone);
	MemoryContextSwitchTo(oldcontext);
}

/* --- The first calls --- */

/*
 * Is was_at, the block that the scan was at, the first block of its pass?  The
 * answer is also yes if was_at is invalid, because then the scan had not begun
 * to read.
 */
static inline bool
was_in_first_block(HeapScanDesc scan, BlockNumber was_at)
{
	return was_at == scan->rs_startblock || was_at == InvalidBlockNumber;
}

/*
 * Has the last call taken the scan beyond the first block of its pass?
 * was_at: the block that the scan was at before that call.
 */
static inline bool
left_first_block(HeapScanDesc scan, BlockNumber was_at)
{
	return scan->rs_cblock != was_at && scan->rs_cblock != scan->rs_startblock &&
		was_in_first_block(scan, was_at);
}

/*
 * Has the last call taken the scan from its first block, or from before it,
 * beyond the second block?
 */
static inline bool
went_beyond_second_block(HeapScanDesc scan, BlockNumber was_at)
{
	return was_in_first_block(scan, was_at) &&
		(!scan->rs_inited ||
		 blocks_between(scan->rs_startblock, scan->rs_cblock, scan->rs_nblocks) > 1);
}

/* The scan goes on: its TOAST values may need a ring. */
static pg_noinline void
begin_values(SeqScanState *node)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);

	toast_begin(node->ss.ps.state, node->ss.ss_currentRelation, true);
	MemoryContextSwitchTo(oldcontext);
}

/*
 * The scan is about to start a pass.  Did an earlier pass end before it was
 * decided what becomes of the scan?  If so, the scan has a descriptor.  But so
 * has a parallel scan before its first pass.
 */
static inline bool
had_a_pass(HeapScanDesc scan)
{
	return scan != NULL && scan->rs_base.rs_parallel == NULL;
}

static TupleTableSlot *seqscan_last_calls(PlanState *ps, int n);

/*
 * Let the server return a row of the first blocks, or the first row of a scan
 * that gets no ring of ours.  If the scan has come to the limit, attach it,
 * and return its next row.
 *
 * This is called for each row of the first blocks, so it must be quick.
 */
static inline TupleTableSlot *
call_in_first_blocks(PlanState *ps, int n, bool alone)
{
	SeqScanState *node = castNode(SeqScanState, ps);
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	BlockNumber block = scan->rs_cblock;
	TupleTableSlot *slot = node_call(ps, n);

	if (likely(!TupIsNull(slot) && scan->rs_cblock == block))
		return slot;
	if (gets_few_at_first(node, alone) && has_limit(scan) &&
		went_beyond_second_block(scan, block))
		first_lent = FIRST_BLOCKS;
	if (TupIsNull(slot) && came_to_limit(scan))
	{
		attach_now(node, alone);
		return node_hand_back(ps, n);
	}
	if (has_limit(scan) && left_first_block(scan, block))
	{
		if (alone)
			lend_for_first_blocks(node, FIRST_BLOCKS);
		begin_values(node);
	}
	return slot;
}

/*
 * A scan that was taken is asked for a row.  It is about to start a pass, or
 * the server has read its first row, or it is to go back.
 */
static pg_noinline TupleTableSlot *
decide_and_call(PlanState *ps, int n, bool last_try, bool alone)
{
	SeqScanState *node = castNode(SeqScanState, ps);
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;

	if (scan == NULL || (!scan->rs_inited && !has_limit(scan)))
	{
		bool		again = had_a_pass(scan);

		if ((again && last_try) ||
			(node_is_wrapped(ps, n) && scan_find_reader(ps) != NULL) ||
			!decide(node, alone, again))
			return node_hand_back(ps, n);
		if (again && !node_is_wrapped(ps, n))
		{
			node_restore(ps, n);
			/* If the node is not taken again, nothing would lift the limit. */
			if (!node_take(ps, seqscan_last_calls))
				scan->rs_numblocks = InvalidBlockNumber;
			return ps->ExecProcNodeReal(ps);
		}
	}
	else if (has_limit(scan) && scan->rs_inited)
	{
		attach_now(node, alone);
		return node_hand_back(ps, n);
	}
	else if (!has_limit(scan) && !node_is_wrapped(ps, n))
	{
		begin_values(node);
		return node_hand_back(ps, n);
	}
	return call_in_first_blocks(ps, n, alone);
}

/*
 * A sequential scan that was taken is asked for a row.  last_try: the scan was
 * given up in its first blocks before; if it is given up there again, leave it
 * alone from then on.  alone: the scan does not share its reads.
 */
static inline TupleTableSlot *
call_node(PlanState *ps, int n, bool last_try, bool alone)
{
	HeapScanDesc scan = (HeapScanDesc) ((SeqScanState *) ps)->ss.ss_currentScanDesc;

	if (likely(scan != NULL && scan->rs_inited && has_limit(scan) &&
			   ScanDirectionIsForward(ps->state->es_direction)))
		return call_in_first_blocks(ps, n, alone);
	return decide_and_call(ps, n, last_try, alone);
}

/*
 * seqscan_first_calls
 *		A sequential scan that was taken is asked for a row.
 *
 * If another library has wrapped our function, it still calls our function
 * when the scan has a reader.  In that case we only pass the call on.
 */
TupleTableSlot *
seqscan_first_calls(PlanState *ps, int n)
{
	return call_node(ps, n, false, false);
}

/*
 * seqscan_first_calls_alone
 *		The same, if a node above the scan may stop it before it has returned
 *		all rows.
 */
TupleTableSlot *
seqscan_first_calls_alone(PlanState *ps, int n)
{
	return call_node(ps, n, false, true);
}

/* The same in the second pass, if the first one was given up. */
static TupleTableSlot *
seqscan_last_calls(PlanState *ps, int n)
{
	return call_node(ps, n, true, true);
}
