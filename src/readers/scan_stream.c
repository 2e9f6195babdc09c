/*-------------------------------------------------------------------------
 *
 * scan_stream.c
 *	  The read streams of scans, which take the place of the server's.
 *
 * A sequential scan (also one of a utility command) or a TID range scan may
 * get one of two streams of ours:
 *
 * A. one that reads through a ring of ours; or
 * B. one that reads without a ring, if the server gives the scan a ring but
 *	  the scan is to have none.
 *
 * Both ask for blocks in the same order as heapam.c.  Since heapam.c does not
 * export its functions for that, this file has copies of them.  But a scan
 * with a ring reports another block as its position, unless it is parallel or
 * the ring is only observed: see report_location().  A bitmap heap scan brings
 * its own stream (bitmapscan.c).
 *
 * The scan owns the stream, which is in rs_read_stream: heap_rescan() resets
 * the stream, and heap_endscan() ends it.  The reader owns the ring, and ends
 * after the stream.  scan->rs_strategy is left as it is: initscan() may free
 * it during a rescan.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/syncscan.h"
#include "compat.h"
#include "params.h"
#include "readers/scan_stream.h"
#include "utils/rel.h"

/*
 * ss_report_location() only takes note of blocks that are a multiple of this:
 * see syncscan.c.
 */
#define REPORT_INTERVAL		(128 * 1024 / BLCKSZ)

#define STREAM_FLAGS	(READ_STREAM_SEQUENTIAL | COMPAT_READ_STREAM_BATCHING)

/* --- The order of blocks --- */

/* Where the scan starts; the same as heapgettup_initial_block(). */
static BlockNumber
initial_block(HeapScanDesc scan)
{
	if (scan->rs_nblocks == 0 || scan->rs_numblocks == 0)
		return InvalidBlockNumber;

	if (ScanDirectionIsForward(scan->rs_dir))
		return scan->rs_startblock;

	/* The position of a backward scan would only mislead forward scans. */
	scan->rs_base.rs_flags &= ~SO_ALLOW_SYNC;

	if (scan->rs_numblocks != InvalidBlockNumber)
		return (scan->rs_startblock + scan->rs_numblocks - 1) % scan->rs_nblocks;
	return scan->rs_startblock > 0 ? scan->rs_startblock - 1 : scan->rs_nblocks - 1;
}

/* Is the scan complete?  Decrements the limit set by heap_setscanlimits(). */
static bool
limit_reached(HeapScanDesc scan)
{
	return scan->rs_numblocks != InvalidBlockNumber && --scan->rs_numblocks == 0;
}

/*
 * Report where this scan is, so that later scans can start there.  next: the
 * block that the stream asks for.
 *
 * heapam.c reports the block that the stream asks for.  The stream collects
 * several blocks before it starts a read, so for most of the time the read of
 * this block has not been started.  Many small queries, with a LIMIT or
 * EXISTS, start at the block, and have to read it themselves.  So we report a
 * block that the scan got a little earlier, and which is usually still in the
 * ring.  A scan without a ring (reader is NULL), or whose ring is only
 * observed, reports what it would report without us.
 */
static void
report_location(HeapScanDesc scan, ScanReader *reader, BlockNumber next)
{
	BlockNumber location = scan->rs_cblock;

	if (reader == NULL || ring_options(reader->reader.ring)->observe)
	{
		ss_report_location(scan->rs_base.rs_rd, next);
		return;
	}

	/* the scan has come round, or has got no block yet */
	if (next == scan->rs_startblock || location == InvalidBlockNumber)
		location = next;
	else
		location -= location % REPORT_INTERVAL;
	if (next == scan->rs_startblock || location != reader->reported)
		ss_report_location(scan->rs_base.rs_rd, location);
	reader->reported = location;
}

/*
 * Which block comes next; the same as heapgettup_advance_block(), except for
 * report_location().  reader: NULL if the scan has no ring.
 */
static BlockNumber
advance_block(HeapScanDesc scan, ScanReader *reader)
{
	BlockNumber block = scan->rs_prefetch_block;

	if (ScanDirectionIsForward(scan->rs_dir))
	{
		if (++block >= scan->rs_nblocks)
			block = 0;

		/*
		 * Report before checking for the end, so that the last report of a
		 * scan is its start block.
		 */
		if ((scan->rs_base.rs_flags & SO_ALLOW_SYNC) != 0)
			report_location(scan, reader, block);

		if (block == scan->rs_startblock || limit_reached(scan))
			return InvalidBlockNumber;
		return block;
	}

	if (block == scan->rs_startblock || limit_reached(scan))
		return InvalidBlockNumber;
	return (block == 0 ? scan->rs_nblocks : block) - 1;
}

/* --- The streams' callbacks --- */

/* The first block of a pass, after those that the server has read already. */
static BlockNumber
first_block(ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;
	int			nread = reader->blocks_of_server;

	reader->blocks_of_server = 0;
	if (nread == 0)
		return initial_block(scan);
	scan->rs_prefetch_block = ((uint64) scan->rs_startblock + nread - 1) % scan->rs_nblocks;
	return advance_block(scan, reader);
}

/* The callback of a serial scan. */
static BlockNumber
next_block_serial(ReadStream *stream pg_attribute_unused(), void *arg,
				  void *per_buffer_data pg_attribute_unused())
{
	ScanReader *reader = (ScanReader *) arg;
	HeapScanDesc scan = reader->scan;

	if (unlikely(!scan->rs_inited))
	{
		scan_begin_pass(reader);
		scan->rs_prefetch_block = first_block(reader);
		scan->rs_inited = true;
	}
	else
		scan->rs_prefetch_block = advance_block(scan, reader);
	return scan_note_next_block(reader, scan->rs_prefetch_block, scan->rs_startblock);
}

/* The callback of a parallel scan, in the leader and in each worker. */
static BlockNumber
next_block_parallel(ReadStream *stream pg_attribute_unused(), void *arg,
					void *per_buffer_data pg_attribute_unused())
{
	ScanReader *reader = (ScanReader *) arg;
	HeapScanDesc scan = reader->scan;
	ParallelBlockTableScanDesc pscan =
		(ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;

	if (unlikely(!scan->rs_inited))
	{
		scan_begin_pass(reader);
		compat_parallelscan_startblock_init(scan);
		scan->rs_inited = true;
	}
	scan->rs_prefetch_block =
		table_block_parallelscan_nextpage(scan->rs_base.rs_rd,
										  scan->rs_parallelworkerdata, pscan);
	return scan_note_next_block(reader, scan->rs_prefetch_block, pscan->phs_startblock);
}

/* The callback of a scan without a ring: there is nothing to watch. */
static BlockNumber
next_block_unringed(ReadStream *stream pg_attribute_unused(), void *arg,
					void *per_buffer_data pg_attribute_unused())
{
	HeapScanDesc scan = (HeapScanDesc) arg;
	ParallelBlockTableScanDesc pscan =
		(ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;

	if (pscan != NULL && !scan->rs_inited)
		compat_parallelscan_startblock_init(scan);
	if (pscan != NULL)
		scan->rs_prefetch_block =
			table_block_parallelscan_nextpage(scan->rs_base.rs_rd,
											  scan->rs_parallelworkerdata, pscan);
	else
		scan->rs_prefetch_block = scan->rs_inited ? advance_block(scan, NULL) : initial_block(scan);
	scan->rs_inited = true;
	return scan->rs_prefetch_block;
}

/*
 * scan_set_stream
 *		End the scan's stream, and put this one in its place.  From now on the
 *		scan owns this stream.
 */
void
scan_set_stream(HeapScanDesc scan, ReadStream *stream)
{
	Assert(scan->rs_read_stream != NULL);	/* heap reads by a stream */
	compat_instrument_stream(scan, stream);
	read_stream_end(scan->rs_read_stream);
	scan->rs_read_stream = stream;
}

/*
 * scan_set_ring_stream
 *		Let the scan read through its reader's ring.
 *
 * If the server has read the first blocks, its stream has begun by looking
 * ahead one block.  Our stream need not begin like that once more, unless all
 * these blocks were found in shared buffers.
 */
void
scan_set_ring_stream(ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;
	int			flags = STREAM_FLAGS |
		(reader->blocks_of_server > 0 && ring_counts(reader->reader.ring)->blks_read > 0 ?
		 READ_STREAM_FULL : 0);

	scan_set_stream(scan, ring_begin_stream(reader->reader.ring, flags,
											scan->rs_base.rs_rd, MAIN_FORKNUM,
											scan->rs_base.rs_parallel ?
											next_block_parallel : next_block_serial,
											reader, 0));
}

/* Let the scan read without the ring that the server gives it. */
static void
set_plain_stream(HeapScanDesc scan)
{
	scan_set_stream(scan, read_stream_begin_relation(STREAM_FLAGS, NULL,
													 scan->rs_base.rs_rd, MAIN_FORKNUM,
													 next_block_unringed, scan, 0));
}

/*
 * scan_prospect
 *		Will the scan, which is about to start a pass, get a ring?
 *
 * If the result is RING_NONE or RING_LEFT_TO_SERVER, the scan needs no reader:
 * a scan that is to have no ring gets a stream without the ring that the
 * server gave it.  Otherwise the caller must begin a reader, at once or after
 * the first blocks (seqscan.c).  TOAST values are up to the caller.
 */
RingProspect
scan_prospect(HeapScanDesc scan)
{
	RingProspect prospect = plan_prospect(scan->rs_base.rs_rd, scan->rs_nblocks, param_mode);

	if (prospect == RING_NONE && scan->rs_strategy != NULL)
		set_plain_stream(scan);
	return prospect;
}
