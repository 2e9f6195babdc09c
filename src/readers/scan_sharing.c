/*-------------------------------------------------------------------------
 *
 * scan_sharing.c
 *	  A sequential scan's part in sharing reads with other scans (sharing.c).
 *
 *	  begins --> BLOCKS_PER_STEP blocks --> joins --> steps --> leaves
 *
 * A scan leaves when it has asked for all blocks, changes its direction, is
 * rescanned, pauses, ends, fails, or finds that the kill switch was thrown.
 * Until it leaves, it keeps in its ring pages that other scans have not
 * reached yet, under the conditions that sharing.c describes.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "params.h"
#include "readers/scan_sharing.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/*
 * May the scan share its reads?  It may only if pg_ringctl.scan_sharing is on,
 * if the server would synchronize the scan with other scans, if the scan runs
 * forward, and if its ring has room to keep pages for other scans.  A scan
 * does not share its reads
 *
 * A. in a rescan, because that starts where the first pass started;
 * B. if a node above it may stop it early, such as a Limit node; if its query
 *	  is run for a limited number of rows, like the query of a cursor or of
 *	  SELECT INTO in PL/pgSQL; or if it is a scan of a utility command;
 * C. if interrupts are held off, because in that case a wait could not be
 *	  cancelled.  (An index locks a page, which holds off interrupts, while it
 *	  calls a support function, which may run a query.)
 */
static bool
may_share(const ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;

	return !reader->alone && !scan_has_begun(reader) && param_scan_sharing &&
		InterruptHoldoffCount == 0 &&
		reader->node != NULL && scan_partial_query != reader->node->state &&
		ring_options(reader->reader.ring)->window > 0 &&
		(scan->rs_base.rs_flags & SO_ALLOW_SYNC) != 0 &&
		ScanDirectionIsForward(scan->rs_dir);
}

/*
 * scan_begin_sharing
 *		A pass begins.  If the scan may share its reads, it joins the other
 *		scans when it has asked for BLOCKS_PER_STEP blocks.
 */
void
scan_begin_sharing(ScanReader *reader)
{
	if (may_share(reader))
		reader->blocks_to_step = BLOCKS_PER_STEP;
}

/*
 * Wait for another scan as long as that pays.  The wait is counted when it
 * begins, because it may be cancelled.  One microsecond is counted with it, so
 * that the time is not zero if any wait was counted.
 */
static const ShareState *
wait_for_others(ScanReader *reader, const ShareState *state)
{
	ring_add_waits(reader->reader.ring, 1, 1);
	while (state->wait)
	{
		double		waited_ms;

		state = share_nap(reader->share, &waited_ms);
		ring_add_waits(reader->reader.ring, 0, (int64) (waited_ms * 1000));
	}
	return state;
}

/*
 * Join the other scans.  The block that the scan gets next is "next", which is
 * "offset" blocks from the scan's start, and "ahead" blocks before the one
 * that it asks for.
 */
static void
join_others(ScanReader *reader, BlockNumber next, int64 offset, int64 ahead)
{
	HeapScanDesc scan = reader->scan;
	MemoryContext oldcontext = MemoryContextSwitchTo(GetMemoryChunkContext(reader));

	reader->share = share_join(scan->rs_base.rs_rd, scan->rs_nblocks,
							   ring_options(reader->reader.ring)->window,
							   scan->rs_base.rs_parallel != NULL, next, offset, ahead);
	MemoryContextSwitchTo(oldcontext);
	if (reader->share == NULL)
		reader->blocks_to_step = PG_INT64_MAX;
}

/*
 * scan_share
 *		Make a step: tell the other scans how far this one is, keep the pages
 *		that they have not reached yet, and wait if this scan is too far in
 *		front, or follows another one.  The first call only joins the other
 *		scans.
 *
 * block: the block that the scan asks for.  start: the block that it began
 * with.  Must be called when blocks_to_step blocks have been asked for.
 */
void
scan_share(ScanReader *reader, BlockNumber block, BlockNumber start)
{
	Ring	   *ring = reader->reader.ring;
	HeapScanDesc scan = reader->scan;
	BlockNumber next = ring_next_to_get(ring);
	int64		offset;
	int64		ahead;
	const ShareState *state;

	if (ring_options(ring)->observe)
	{
		scan_leave_sharing(reader); /* the kill switch was thrown */
		return;
	}
	reader->blocks_to_step = BLOCKS_PER_STEP;
	if (next == InvalidBlockNumber)
		next = block;
	offset = blocks_between(start, next, scan->rs_nblocks);
	ahead = blocks_between(next, block, scan->rs_nblocks);
	if (reader->share == NULL)
	{
		join_others(reader, next, offset, ahead);
		return;
	}
	state = share_step(reader->share, block, offset, ahead);
	if (unlikely(state->wait))
		state = wait_for_others(reader, state);
	ring_set_sharing(ring, state->shared, state->blocks_to_keep, state->scan_fell_behind);
}

/*
 * scan_leave_sharing
 *		The scan does not share its reads any more.
 */
void
scan_leave_sharing(ScanReader *reader)
{
	if (reader->share != NULL)
		share_leave(reader->share);
	reader->share = NULL;
	reader->blocks_to_step = PG_INT64_MAX;
	if (reader->reader.ring != NULL)
		ring_set_sharing(reader->reader.ring, false, 0, false);
}
