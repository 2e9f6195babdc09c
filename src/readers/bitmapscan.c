/*-------------------------------------------------------------------------
 *
 * bitmapscan.c
 *	  Bitmap heap scans: decide what becomes of each.
 *
 * The server gives bitmap heap scans no ring, and most of them should have
 * none: they read some pages of a table, and are repeated soon.  But a scan
 * that reads most of a large table replaces the whole pool.
 *
 *	    expected to read more blocks than the threshold?
 *	        no  --> left alone
 *	        yes --> attached, with a ring that is tight after N reads:
 *
 *	    reads:  1 ................... N | ....................
 *	            pages stay in the pool  | the ring is tight
 *
 * If no threshold is set, it is the size of the pool, or a quarter of the pool
 * if the size of the ring is set.  If that size is 0, the scan is left alone.
 * N is the threshold, but at most a quarter of the pool.  The processes of a
 * parallel query divide N among themselves.  In each process, the blocks that
 * earlier scans of the query have left are subtracted from its part of N.
 * Pages that are found in the pool do not count.  So a scan that is repeated
 * finds the pages that it left before, and leaves others, too.  If there is
 * room, all its pages are in the pool in the end.
 *
 * The expected number of blocks is computed from the planner's estimate of the
 * rows of the bitmap, by the formula that compute_bitmap_pages() has for a
 * single scan.
 *
 * From 18 on a bitmap heap scan uses a read stream.  On 17 it is left alone.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "compat.h"
#include "nodes/tidbitmap.h"
#include "readers/bitmapscan.h"
#include "readers/nodes.h"
#include "readers/scan_reader.h"
#include "readers/scan_stream.h"
#include "ring/plan.h"
#include "utils/rel.h"

#ifdef COMPAT_BITMAP_STREAM

/* The next block of the bitmap; the same as bitmapheap_stream_read_next(). */
static BlockNumber
next_in_bitmap(HeapScanDesc scan, TBMIterateResult *result)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!tbm_iterate(&scan->rs_base.st.rs_tbmiterator, result))
			return InvalidBlockNumber;
	} while (!IsolationIsSerializable() && result->blockno >= scan->rs_nblocks);

	return result->blockno;
}

/* The stream's callback. */
static BlockNumber
next_block(ReadStream *stream pg_attribute_unused(), void *arg,
		   void *per_buffer_data)
{
	ScanReader *reader = (ScanReader *) arg;

	if (!reader->scan->rs_inited)
	{
		scan_begin_pass(reader);
		reader->scan->rs_inited = true; /* a rescan resets this */
	}
	return scan_note_next_block(reader, next_in_bitmap(reader->scan, per_buffer_data), 0);
}

/*
 * bitmapscan_expected_blocks
 *		How many of the relation's nblocks blocks the node is expected to read.
 */
BlockNumber
bitmapscan_expected_blocks(const PlanState *ps, BlockNumber nblocks)
{
	double		tuples = outerPlan(ps->plan)->plan_rows;
	double		pages = 2.0 * nblocks * tuples / (2.0 * nblocks + tuples);

	return nblocks == 0 ? 0 : (BlockNumber) Min(ceil(pages), nblocks);
}

/*
 * Is it known, without the relation's size, that the scan gets no ring?  It is
 * if few rows are expected, as for most bitmaps, or if the size of the ring is
 * 0.
 */
static bool
never_reads_enough(const PlanState *ps)
{
	double		tuples = Min(outerPlan(ps->plan)->plan_rows, MaxBlockNumber);

	return plan_prospect(((const ScanState *) ps)->ss_currentRelation,
						 (BlockNumber) tuples, MODE_CONTROL) == RING_NONE;
}

/* Attach a reader to the node's scan, which has not begun. */
static void
attach(BitmapHeapScanState *node, BlockNumber nblocks, BlockNumber expected)
{
	Relation	rel = node->ss.ss_currentRelation;
	RingOptions options;
	ScanReader *reader;

	node->ss.ss_currentScanDesc = compat_begin_bitmapscan(node);
	plan_for_bitmap_scan(rel, nblocks, &options);
	reader = scan_begin_reader(READER_BITMAPSCAN, &node->ss.ps, &options);
	reader->expected = expected;
	scan_set_stream(reader->scan,
					ring_begin_stream(reader->reader.ring,
									  READ_STREAM_DEFAULT | COMPAT_READ_STREAM_BATCHING,
									  rel, MAIN_FORKNUM, next_block, reader, sizeof(TBMIterateResult)));
}

/*
 * bitmapscan_first_call
 *		A bitmap heap scan is called for its first row.
 *
 * The server gives the scan no ring, so in observe mode there is nothing to
 * count.
 */
TupleTableSlot *
bitmapscan_first_call(PlanState *ps, int n)
{
	BitmapHeapScanState *node = castNode(BitmapHeapScanState, ps);
	Relation	rel = node->ss.ss_currentRelation;
	MemoryContext oldcontext;
	BlockNumber nblocks;
	BlockNumber expected;

	if (plan_mode() != MODE_CONTROL || node->ss.ss_currentScanDesc != NULL ||
		never_reads_enough(ps))
		return node_hand_back(ps, n);

	oldcontext = MemoryContextSwitchTo(ps->state->es_query_cxt);
	nblocks = RelationGetNumberOfBlocks(rel);
	expected = bitmapscan_expected_blocks(ps, nblocks);
	if (plan_prospect(rel, expected, MODE_CONTROL) > RING_OF_SERVER)
		attach(node, nblocks, expected);
	MemoryContextSwitchTo(oldcontext);
	return node_hand_back(ps, n);
}

#endif							/* COMPAT_BITMAP_STREAM */
