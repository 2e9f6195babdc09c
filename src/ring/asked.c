/*-------------------------------------------------------------------------
 *
 * asked.c
 *	  The blocks that were asked for, and which of them the reader has got.
 *
 * A stream asks for blocks ahead of its reader.  The ring remembers the last
 * of these blocks, in the order in which they were asked for.  The reader says
 * how far it has got.  The blocks after that are ahead: they have been read,
 * are being read, or their reads have not begun.
 *
 *	    --- blocks, in the order in which they were asked for ----------->
 *	    |<---- consumed or unconsumed ---->|<--- blocks_ahead() --->|
 *	    0                          next_to_consume()          counts.blocks
 *
 * If the reader ends, or goes on somewhere else, it does not get the blocks
 * that are ahead then.  They are counted as unconsumed.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "port/pg_bitutils.h"
#include "ring/ring_private.h"
#include "utils/rel.h"

/*
 * ring_allocate_history
 *		Allocate what the ring remembers of the blocks that were asked for,
 *		before its first stream, or series of reads, over this relation begins.
 *
 * The ring remembers as many blocks as a stream with sequential access can
 * look ahead now, and some more.  A stream may look ahead farther than that:
 * in 17 if its access is random, and a later stream if the user has changed a
 * parameter meanwhile.  But only prewarms and index scans have such streams.
 * Of the blocks that they ask for, only the pending ones are looked up, and
 * these are never more than MAX_IO_COMBINE_LIMIT.
 */
void
ring_allocate_history(Ring *ring, Relation rel)
{
	int			ahead = compat_lookahead_limit(rel, ring->options.maintenance) +
		2 * MAX_IO_COMBINE_LIMIT;

	ring->ahead.asked_mask = pg_nextpower2_32(ahead) - 1;
	ring->ahead.asked = MemoryContextAllocZero(ring_context,
											   (ring->ahead.asked_mask + 1) * sizeof(BlockNumber));

	if (ring->options.window > 0)
	{
		ring->sharing.log_mask = pg_nextpower2_32(blocks_remembered(ring) / BLOCKS_PER_LOG + 4) - 1;
		ring->sharing.reads_log = MemoryContextAllocZero(ring_context,
														 (ring->sharing.log_mask + 1) * sizeof(int64));
	}
}

/*
 * ring_consume
 *		The reader is at this block now: it has got the block, and all blocks
 *		that were asked for before.
 */
void
ring_consume(Ring *ring, BlockNumber block)
{
	RingCounts *counts = &ring->public->counts;
	int64		next = next_to_consume(ring);

	/*
	 * If this is the last block that the reader is known to have got, there
	 * is nothing to do.  But if the block that comes next has the same
	 * number, a new pass may have begun where the last pass ended.
	 */
	if (next > 0 && *asked_block(ring, next - 1) == block &&
		(next == counts->blocks || *asked_block(ring, next) != block))
		return;
	for (int64 n = next; n < counts->blocks; n++)
	{
		if (*asked_block(ring, n) == block)
		{
			counts->consumed += n + 1 - next;
			return;
		}
	}
}

/*
 * ring_consume_next, ring_consume_all
 *		The reader has got the next block, or all that were asked for.
 */
void
ring_consume_next(Ring *ring)
{
	if (next_to_consume(ring) < ring->public->counts.blocks)
		ring->public->counts.consumed++;
}

void
ring_consume_all(Ring *ring)
{
	ring->public->counts.consumed += blocks_ahead(ring);
}

/*
 * ring_drop_unconsumed
 *		The reader ends, or goes on somewhere else.  It will not get the blocks
 *		that were asked for and that it has not got so far.
 */
void
ring_drop_unconsumed(Ring *ring)
{
	ring->public->counts.unconsumed += blocks_ahead(ring);
}

/*
 * ring_count_unringed
 *		This number of blocks was read without a ring.  If there is a ring,
 *		this has no effect: the ring counts its reads itself.
 *
 * The caller may have counted pages of other relations, too, so no more blocks
 * are counted than were asked for.
 */
void
ring_count_unringed(Ring *ring, int64 reads)
{
	RingCounts *counts = &ring->public->counts;

	if (ring->strategy != NULL)
		return;
	reads = Min(reads, counts->blocks - counts->blks_read);
	counts->blks_read += reads;
	counts->fills += reads;
}

/*
 * ring_next_to_get
 *		The block that the reader gets next, if it has been asked for already;
 *		otherwise InvalidBlockNumber.
 */
BlockNumber
ring_next_to_get(const Ring *ring)
{
	int64		next = next_to_consume(ring);

	return next < ring->public->counts.blocks ?
		*asked_block(ring, next) : InvalidBlockNumber;
}
