/*-------------------------------------------------------------------------
 *
 * size.c
 *	  Make a ring as large as it needs to be.
 *
 * A ring that sizes itself grows when it needs more buffers.  It shrinks when
 * it was too large for a whole revolution.  A revolution has ended when the
 * stream has asked for as many blocks as the ring has slots.
 *
 * The strategy's array has room for the ring's capacity.  New slots are
 * inserted right after "current", so they are taken next.  All other slots
 * keep their order, so pinned buffers are reached later than before.
 *
 *	       current                                current
 *	  +---+---+---+---+---+    +---+---+---+---+---+---+---+---+
 *	  | n | n | o | o | o | -> | n | n |   |   |   | o | o | o |
 *	  +---+---+---+---+---+    +---+---+---+---+---+---+---+---+
 *
 *	  n newest, o oldest
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "ring/ring_private.h"

/*
 * If the room for dirty pages is not used in this number of whole revolutions,
 * give it up.
 */
#define KEEP_FLUSH_ROOM	2

/*
 * ring_set_size
 *		The ring has nbuffers slots from now on.
 */
void
ring_set_size(Ring *ring, int nbuffers)
{
	ring->strategy->nbuffers = nbuffers;
	ring->public->nbuffers = nbuffers;
	ring->public->nbuffers_max = Max(ring->public->nbuffers_max, nbuffers);
}

/*
 * How many of the last "blocks" blocks asked for were read through this ring?
 * The result may be too large, by less than the blocks of one read plus 2 *
 * BLOCKS_PER_LOG, or, if the log does not reach back so far, by more.
 */
static int64
reads_among_last(const Ring *ring, int64 blocks)
{
	const RingCounts *counts = &ring->public->counts;
	int64		since = counts->blocks - blocks - BLOCKS_PER_LOG;

	if (ring->sharing.reads_log == NULL || blocks > blocks_remembered(ring))
		return blocks;			/* no log, or it does not reach back so far */
	if (since < 0)
		return Min(blocks, counts->blks_read);
	return counts->blks_read - *logged_reads(ring, since);
}

/*
 * ring_set_sharing
 *		Set whether other scans share reads with this one, and how many blocks
 *		the last of these scans is behind.  The ring keeps these blocks.  If
 *		scans share reads, count the hits since the last call.
 *
 * fell_behind: has another scan fallen too far behind?  If so, when the ring's
 * size is adjusted the next time, let go of the buffers that were kept only
 * for that scan.
 */
void
ring_set_sharing(Ring *ring, bool shared, int64 blocks_to_keep, bool fell_behind)
{
	RingCounts *counts = &ring->public->counts;
	int64		hits = ring_blocks_hit(counts) - ring->ahead.pending;

	ring->sharing.shared = shared;
	ring->sharing.blocks_to_keep = Min(blocks_to_keep, ring->options.window);
	ring->sharing.shrink_requested |= fell_behind;
	if (shared)
		counts->blks_shared += hits - ring->sharing.hits_seen;
	ring->sharing.hits_seen = hits;
}

/*
 * ring_add_waits
 *		Count waits for other scans, and time of such waits.
 */
void
ring_add_waits(Ring *ring, int64 waits, int64 microseconds)
{
	ring->public->counts.share_waits += waits;
	ring->public->counts.share_wait_us += microseconds;
}

/*
 * How many buffers does the ring need now?  The sum of
 *
 * 1. the blocks that the stream has asked for and the reader has not got yet:
 *	  they are pinned, or being read, or pending;
 * 2. one more read, for three reasons: a block that is counted as pending may
 *	  be pinned in this ring, because the stream has found it there
 *	  (count_pending() can't see that), and tending needs an unpinned slot for
 *	  it all the same; other scans may pin buffers; and the last read's blocks
 *	  should stay while the next ones are read, because small queries start at
 *	  one of them (see report_location());
 * 3. the headroom;
 * 4. the room for dirty pages.
 *
 * If scans share reads, the ring also keeps blocks that other scans have not
 * reached yet.  It keeps only those that it has read itself, because each of
 * the other blocks is in the ring that has read it.
 *
 * The result is at least the ring's first size, and at least what one read
 * takes.  (Usually the first size is more than a read, but io_combine_limit
 * may have been raised since.)
 */
static int
buffers_needed(const Ring *ring)
{
	int64		needed = blocks_ahead(ring);

	if (ring->sharing.shared)
		needed = reads_among_last(ring, Max(needed, ring->sharing.blocks_to_keep + KEEP_MORE));
	needed += ring->ahead.reach + ring->options.headroom + ring->size.flush_room;
	needed = Max(needed, Max(ring->options.nbuffers, ring->ahead.reach));
	return (int) Min(needed, ring->options.capacity);
}

/*
 * ring_may_grow_past_pinned
 *		May the ring grow because one of the next slots is pinned?
 *
 * The ring may not grow for that reason if it may hold own blocks, and no
 * other scan shares reads: in this case the pins are those of the stream's own
 * look-ahead, for which the ring has room.
 */
bool
ring_may_grow_past_pinned(const Ring *ring)
{
	return sizes_itself(ring) && (ring->sharing.shared || !may_hold_own_blocks(ring)) &&
		ring->public->nbuffers < ring->options.capacity;
}

/*
 * ring_grow
 *		Insert "more" slots after current: see the picture at the top.
 *
 * The new slots get buffers that the session's rings have lent, as in
 * lend_fill(), unless the reader is still to leave pages in the pool
 * (leave_first).  New slots for which there is no buffer are empty.
 */
void
ring_grow(Ring *ring, int more)
{
	int			first = ring->public->current + 1;
	int			tail = ring->public->nbuffers - first;
	Buffer	   *buffers = &ring->strategy->buffers[first];
	RingSlot   *slots = &ring->slots[first];

	memmove(buffers + more, buffers, tail * sizeof(Buffer));
	memmove(slots + more, slots, tail * sizeof(RingSlot));
	for (int i = more - 1; i >= 0; i--)
	{
		if (!ring->in_first_reads && lend_take_back(&slots[i]))
		{
			ring->public->occupied++;
			note_own_block(ring, &slots[i]);
		}
		else
			memset(&slots[i], 0, sizeof(RingSlot));
		buffers[i] = slots[i].buffer;
	}
	ring_set_size(ring, ring->public->nbuffers + more);
	forget_reusable(ring);
}

/* Can this slot, which was just watched, be removed from the ring? */
static bool
is_releasable(const Ring *ring, int slotno)
{
	return slot_is_unpinned(ring, slotno) &&
		(ring->slots[slotno].buffer == InvalidBuffer ||
		 (compat_read_buf_state(slot_header(ring, slotno)) & BM_DIRTY) == 0);
}

/*
 * Let a slot's buffer go.
 *
 * The ring would have reused the buffer soon, so its page should not stay in
 * shared buffers: evict it, unless another process uses the page.  After that
 * any process can use the buffer.  But we lend it, so that if no process does,
 * the ring takes it back when it grows again.
 */
static void
release(Ring *ring, int slotno)
{
	RingSlot   *slot = &ring->slots[slotno];
	BufferDesc *header = GetBufferDescriptor(slot->buffer - 1);
	bool		flushed;

	if (tag_is_clear(&header->tag))
		ClearBufferTag(&slot->tag); /* another process has evicted the page */
	else if (!BufferTagsEqual(&header->tag, &slot->tag))
	{
		note_loss(ring, slot);
		empty_slot(ring, slotno);
		return;
	}
	if (slot_has_page(slot))
		ring->public->counts.released++;
	if (BUF_STATE_GET_USAGECOUNT(compat_read_buf_state(header)) <= 1 &&
		(!slot_has_page(slot) ||
		 compat_evict_unpinned_buffer(slot->buffer, false, &flushed)))
	{
		ClearBufferTag(&slot->tag);
		lend_slot(slot);
	}
	empty_slot(ring, slotno);
}

/*
 * Look at nslots slots, from "first" on, and remove from the ring those whose
 * buffers can be let go.  Returns how many were removed.
 */
static int
take_out(Ring *ring, int first, int nslots)
{
	int			end = first + nslots;
	int			kept = first;
	int			rest = ring->public->nbuffers - end;

	for (int slotno = first; slotno < end; slotno++)
	{
		watch_if_unseen(ring, slotno);
		if (!is_releasable(ring, slotno))
			exchange_slots(ring, slotno, kept++);
		else if (ring->slots[slotno].buffer != InvalidBuffer)
			release(ring, slotno);
	}
	if (kept == end)
		return 0;

	memmove(&ring->strategy->buffers[kept], &ring->strategy->buffers[end],
			rest * sizeof(Buffer));
	memmove(&ring->slots[kept], &ring->slots[end], rest * sizeof(RingSlot));
	ring_set_size(ring, ring->public->nbuffers - (end - kept));
	forget_reusable(ring);
	return end - kept;
}

/*
 * Remove at most "less" slots from the ring, of those that come next: from the
 * slot after current to the end of the array, then from its beginning.
 */
static void
shrink(Ring *ring, int less)
{
	int			first = ring->public->current + 1;
	int			tail = ring->public->nbuffers - first;

	compat_submit_staged();		/* evicting may block */
	take_out(ring, first, Min(less, tail));
	if (less > tail)
	{
		ring->public->current -= take_out(ring, 0, Min(less - tail,
													   ring->public->current));
		ring->strategy->current = ring->public->current;
	}
}

/*
 * A revolution has ended.  Returns by how many buffers the ring was too large
 * during the revolution, or 0 if it was too large by only a few.
 *
 * In the first revolution this is not known, and the result is 0: the stream
 * begins to look ahead with one block, and the ring may have begun with the
 * size of the session's last ring.
 *
 * A ring needs the room for dirty pages only once for each batch of dirty
 * pages, so the room is given up only after KEEP_FLUSH_ROOM whole revolutions
 * in which it was not needed.
 */
static int
end_revolution(Ring *ring)
{
	int			excess = ring->public->nbuffers -
		Max(ring->size.max_needed, ring->options.nbuffers);

	if (++ring->size.revolutions_unflushed > KEEP_FLUSH_ROOM)
		ring->size.flush_room = 0;
	ring->size.max_needed = ring->size.calls_in_revolution = 0;
	if (in_first_revolution(ring) ||
		excess < Max(ring->ahead.reach, ring->public->nbuffers / 8))
		return 0;
	return excess;
}

/*
 * ring_fit_size
 *		Give a ring that sizes itself the size that it needs.
 *
 * If scans share reads, the ring grows by at least one read at a time: such a
 * ring is large, and a few buffers more do not matter.
 *
 * If another scan has fallen too far behind, the ring shrinks at once.  If it
 * did not, it would soon reuse the buffers with the pages that the other scan
 * is reading now, and would find some of them pinned.
 */
void
ring_fit_size(Ring *ring)
{
	int			needed = buffers_needed(ring);
	int			nbuffers = ring->public->nbuffers;
	int			least = ring->sharing.shared ? ring->ahead.reach : 1;
	int			excess = 0;

	ring->size.max_needed = Max(ring->size.max_needed, needed);
	if (ring->size.calls_in_revolution >= nbuffers)
		excess = end_revolution(ring);

	if (needed > nbuffers)
		ring_grow(ring, Min(Max(needed - nbuffers, least),
							ring->options.capacity - nbuffers));
	else if (leaves_buffers(ring))
		return;					/* the slots' pages are not to be evicted */
	else if (InterruptHoldoffCount > 0)
		return;					/* an LWLock may be held: evicting takes one */
	else if (ring->sharing.shrink_requested)
		shrink(ring, nbuffers - needed);
	else if (excess > 0)
		shrink(ring, Min(excess, nbuffers - needed));
	ring->sharing.shrink_requested = false;
}

/*
 * ring_grow_past_pinned
 *		One of the next slots is pinned, and ring_tend_slots() has not
 *		exchanged it with an unpinned one.  (Usually another scan follows this
 *		one, and pins slots that look-ahead does not pin.)  If the ring may
 *		grow, let it grow, so that pinned slots are reached later.  Returns
 *		whether it has grown.
 */
bool
ring_grow_past_pinned(Ring *ring)
{
	if (!ring_may_grow_past_pinned(ring))
		return false;
	ring_grow(ring, Min(ring->ahead.reach,
						ring->options.capacity - ring->public->nbuffers));
	return true;
}

/*
 * ring_make_flush_room
 *		WAL would have to be flushed for the next slots.  From now on the ring
 *		needs room for a batch of dirty pages.  If it lacks at least as many
 *		slots as a read takes, let it grow instead: the new slots are taken
 *		next, and one later flush serves many pages.  Returns whether the ring
 *		has grown.
 */
bool
ring_make_flush_room(Ring *ring)
{
	int			more;

	if (!sizes_itself(ring))
		return false;
	ring->size.revolutions_unflushed = 0;
	ring->size.flush_room = Max(ring->size.flush_room, FLUSH_BATCH);
	more = buffers_needed(ring) - ring->public->nbuffers;
	if (more < ring->ahead.reach)
		return false;
	ring_grow(ring, more);
	return true;
}
