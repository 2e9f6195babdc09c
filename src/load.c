/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Read blocks of a relation into shared buffers, through a ring or not.
 *
 * What every kind of prewarm does, once it knows which blocks: open a stream,
 * take each buffer, let it go.  The reader is in the registry meanwhile, where
 * others see how far it has come.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "depth.h"
#include "enabled.h"
#include "load.h"
#include "miscadmin.h"
#include "policy.h"
#include "registry.h"
#include "scan.h"
#include "utils/memutils.h"

/*
 * load_choose_ring
 *		The options of a ring of ring_kb kB: 0 is none, -1 the one that a
 *		sequential scan of the relation would get.
 */
void
load_choose_ring(Relation rel, int ring_kb, RingOptions *options)
{
	policy_for_load(rel, ring_kb, options);
	options->alone = true;
}

/* What is read, in which order. */
typedef struct Load
{
	ReadStreamBlockNumberCB next_block; /* the caller's callback */
	void	   *next_block_arg;
	Ring	   *ring;
	EnabledMark enabled;
	Depth		depth;			/* how far the stream looks ahead */
	bool		changes;		/* another one shall take its place */
} Load;

/*
 * The stream's callback.  If another one shall take its place, it ends first.  If
 * the kill switch is thrown, it goes on as one of the server's would.
 */
static BlockNumber
next_block_to_load(ReadStream *stream, void *arg, void *per_buffer_data)
{
	Load	   *load = (Load *) arg;

	if (unlikely(!enabled_still(&load->enabled)))
	{
		depth_settle(&load->depth);
		ring_let_go(load->ring);
	}
	load->changes = depth_changes(&load->depth);
	if (load->changes)
		return InvalidBlockNumber;
	return load->next_block(stream, load->next_block_arg, per_buffer_data);
}

/* Take each buffer of the stream, and let it go. */
static void
drain(ReadStream *stream, Ring *ring, LoadResult *result)
{
	Buffer		buffer;

	while ((buffer = read_stream_next_buffer(stream, NULL)) != InvalidBuffer)
	{
		CHECK_FOR_INTERRUPTS();
		ReleaseBuffer(buffer);
		ring_consume_next(ring);
		result->blocks++;
	}
}

/*
 * load_blocks
 *		Read the blocks that next_block hands out, as a read stream's callback,
 *		into shared buffers.
 *
 * blocks_total is how many others shall see that there are, for all processes
 * that read them together.  What came of it is in *result.
 */
void
load_blocks(Relation rel, ForkNumber forknum, const RingOptions *options,
			int64 blocks_total, ReadStreamBlockNumberCB next_block,
			void *next_block_arg, LoadResult *result)
{
	Reader	   *reader;
	ReadStream *stream = NULL;
	Load		load = {.next_block = next_block,.next_block_arg = next_block_arg};
	Ring	   *ring;

	scan_lend_finished();

	reader = registry_make_reader(TopMemoryContext, sizeof(Reader));
	if (IsParallelWorker())
		reader->workers = 1;	/* the leader counts the scan */
	else
		reader->scans = 1;
	registry_begin_reader(reader, READER_PREWARM, RelationGetRelid(rel), options);
	ring = load.ring = reader->ring;
	enabled_mark(&load.enabled);
	registry_start_pass(reader, blocks_total);

	depth_begin(&load.depth, ring, blocks_total);
	do
	{
		if (stream != NULL)
		{
			read_stream_end(stream);
			ring_start(ring);
			depth_changed(&load.depth);
		}
		stream = ring_begin_stream(ring,
								   READ_STREAM_FULL | COMPAT_READ_STREAM_BATCHING,
								   rel, forknum, depth_ahead(&load.depth),
								   next_block_to_load, &load);
		drain(stream, ring, result);
	} while (load.changes);
	registry_hide(reader);
	read_stream_end(stream);

	ring_forget_relation(ring);
	result->ring_buffers = ring_public(ring)->nbuffers;
	result->counts = *ring_counts(ring);
	registry_end_reader(reader);
}
