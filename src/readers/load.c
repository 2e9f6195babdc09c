/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Read blocks of a relation into shared buffers, through a ring or not.
 *
 * Every prewarm into shared buffers calls load_blocks() when it knows which
 * blocks to read.  load_blocks() begins a stream, and takes and releases each
 * buffer of the stream.  Meanwhile other sessions see the reader's ring, and
 * how far the reader is.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "executor/instrument.h"
#include "readers/load.h"
#include "miscadmin.h"
#include "ring/plan.h"
#include "readers/reader.h"
#include "shmem/progress.h"
#include "utils/memutils.h"

/*
 * Blocks between two reports of progress.  A parallel worker reports by a
 * message to its leader, so it reports less often.
 */
#define BLOCKS_PER_REPORT			16
#define BLOCKS_PER_WORKERS_REPORT	256

static void
drain(ReadStream *stream, Ring *ring, LoadResult *result)
{
	int			per_report = IsParallelWorker() ? BLOCKS_PER_WORKERS_REPORT : BLOCKS_PER_REPORT;
	Buffer		buffer;

	while ((buffer = read_stream_next_buffer(stream, NULL)) != InvalidBuffer)
	{
		CHECK_FOR_INTERRUPTS();
		ReleaseBuffer(buffer);
		ring_consume_next(ring);
		if (++result->blocks % per_report == 0)
			progress_add(per_report);
	}
	progress_add(result->blocks % per_report);
}

/* Blocks that this process has read so far, through a ring or not. */
static int64
blocks_read(void)
{
	return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
}

/*
 * load_blocks
 *		Read blocks into shared buffers.  next_block, which is called as a read
 *		stream's callback, returns the blocks.
 *
 * blocks_total: number of blocks that all processes are to read together.
 * Other sessions see it, and the ring gets no more buffers than that.  *result
 * must be zeroed.
 */
void
load_blocks(Relation rel, ForkNumber forknum, const RingOptions *asked_options,
			int64 blocks_total, ReadStreamBlockNumberCB next_block,
			void *next_block_arg, LoadResult *result)
{
	RingOptions options = *asked_options;
	int64		read_before;
	Reader	   *reader;
	ReadStream *stream;
	Ring	   *ring;

	plan_cap_to_relation(&options, blocks_total);

	reader = reader_make(TopMemoryContext, sizeof(Reader));
	if (IsParallelWorker())
		reader->workers = 1;	/* the leader counts the scan */
	else
		reader->scans = 1;
	reader_begin(reader, READER_PREWARM, RelationGetRelid(rel), &options);
	ring = reader->ring;
	reader_start_pass(reader, blocks_total);

	stream = ring_begin_stream(ring,
							   READ_STREAM_FULL | COMPAT_READ_STREAM_BATCHING,
							   rel, forknum, next_block, next_block_arg, 0);
	read_before = blocks_read();
	drain(stream, ring, result);
	reader_hide(reader);
	read_stream_end(stream);

	ring_watch(ring);
	result->ring_buffers = ring_public(ring)->nbuffers;
	ring_count_unringed(ring, blocks_read() - read_before);
	result->counts = *ring_counts(ring);
	reader_end(reader);
}
