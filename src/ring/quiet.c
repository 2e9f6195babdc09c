/*-------------------------------------------------------------------------
 *
 * quiet.c
 *	  Passes that start quietly, without a look at the whole ring.
 *
 * A node above a scan may stop the scan after its first row and rescan it,
 * thousands of times: a correlated EXISTS does so.  If the scan once went far
 * enough to get a ring, each of these short passes would start the ring again
 * and tend its slots, which costs up to a third as much as the pass itself.
 *
 * So if the last pass was left early, and nothing was read since the last
 * call, a pass starts quietly: its first QUIET_CALLS calls only count their
 * blocks.  If the scan goes on, the next call does all that the start of a
 * pass and a call have to do:
 *
 *	  call	   1		2	  |		3
 *	  block	 first	 first+1  |	 first+2
 *			counted	 counted  |	ring_start(), watched, tended
 *
 * The ring stays tight, because a pass starts quietly only if the next
 * QUIET_CALLS slots are reusable as they are, and hold none of these blocks.
 * So it does not matter which of the blocks are found in shared buffers and
 * which are read.  If one is read, the next call is an ordinary one.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ring/ring_private.h"

/*
 * Number of calls that only count their blocks.  To return a row of the first
 * block, the stream asks for two blocks, if it finds the first one in shared
 * buffers.
 */
#define QUIET_CALLS		2

/* Does the slot hold one of the first QUIET_CALLS blocks of a pass? */
static bool
holds_first_block(const Ring *ring, int slotno, BlockNumber first)
{
	const RingSlot *slot = &ring->slots[slotno];

	return slot->buffer != InvalidBuffer && tag_is_ours(ring, &slot->tag) &&
		slot->tag.blockNum >= first && slot->tag.blockNum < first + QUIET_CALLS;
}

/*
 * ring_start_quietly
 *		The stream starts a forward pass over the nblocks blocks of a relation,
 *		at the block "first", and has left its last pass early.  If the pass
 *		can start quietly, note that, and return true.  Otherwise
 *		ring_start_pass() must be called.
 *
 * If the pass starts quietly, the stream's callback must look at
 * ring_is_quiet() in each call, and call ring_start() as soon as it is false.
 */
bool
ring_start_quietly(Ring *ring, BlockNumber first, BlockNumber nblocks)
{
	if (ring->slots == NULL || ring->sharing.shared || ring->in_first_reads ||
		ring->public->nbuffers <= Max(ring->ahead.reach, QUIET_CALLS) ||
		ring->strategy->current != ring->public->current ||
		first + QUIET_CALLS >= nblocks)
		return false;
	for (int n = 1; n <= QUIET_CALLS; n++)
	{
		int			slot = slot_ahead(ring, n);

		if (!slot_is_plainly_reusable(ring, slot) || holds_first_block(ring, slot, first) ||
			(leaves_buffers(ring) && ring->slots[slot].buffer != InvalidBuffer))
			return false;
	}
	ring->ahead.calls_to_skip = 0;
	ring->ahead.quiet_calls = QUIET_CALLS;
	ring->public->consumed_before_pass = ring->public->counts.consumed;
	return true;
}

/*
 * ring_is_quiet
 *		Does the next call only count its block?
 */
bool
ring_is_quiet(const Ring *ring)
{
	return ring->ahead.quiet_calls > 0 &&
		ring->strategy->current == ring->public->current;
}
