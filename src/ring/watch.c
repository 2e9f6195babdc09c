/*-------------------------------------------------------------------------
 *
 * watch.c
 *	  Find out what became of a ring's slots since the last look.
 *
 * Watching compares the strategy's array with our copy of it.  Normally only
 * the slots that "current" has passed since the last look are compared.  But
 * "current" may have gone round the whole ring, because a read may be as large
 * as the ring, or because the server has rejected many dirty buffers and has
 * passed one slot for each.  In that case "current" has also passed the slot
 * that is now right after it, and that slot has changed.  So if that slot has
 * changed, the whole array is compared (but see came_round()).
 *
 * Buffer headers are read without a lock or a pin.  That is safe, because
 * their memory never goes away.  What was read may be out of date, but then
 * only the counts are wrong, or a slot is emptied that could have been reused.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "ring/ring_private.h"
#include "shmem/escape_log.h"
#include "utils/timestamp.h"

/* Has the slot changed since the last look? */
static inline bool
slot_changed(const Ring *ring, int slot)
{
	Buffer		buffer = ring->strategy->buffers[slot];

	return buffer != ring->slots[slot].buffer ||
		(buffer != InvalidBuffer &&
		 !BufferTagsEqual(&slot_header(ring, slot)->tag, &ring->slots[slot].tag));
}

/*
 * Why did the server not reuse this slot's buffer?
 *
 * The server looks at pins first, then at the usage count, then at the page.
 * We look a little later.  If the reason can't be seen any more, we go by the
 * state that the slot had when it was last tended.
 *
 * If the ring keeps dirty pages, tending has noted which of the next slots
 * were pinned, by the scan or by another process.  If the buffer of any other
 * slot is pinned now, it was pinned after that, and not by the scan: the page
 * is also used outside the ring, and counts as adopted.  If the ring does not
 * keep dirty pages, the server may reject some of them and take slots that
 * were not tended, so in such a ring every escape because of a pin counts as
 * pinned.
 *
 * When the server rejects a dirty buffer, the slot becomes empty.  So if the
 * slot has another buffer after that, current has passed the slot twice.
 */
static EscapeReason
escape_reason(const Ring *ring, const RingSlot *slot, bool came_round)
{
	BufferDesc *header = GetBufferDescriptor(slot->buffer - 1);
	compat_buf_state state = compat_read_buf_state(header);
	bool		counts_as_pinned = slot->state == SLOT_PINNED || !keeps_dirty(ring);

	if (!slot_holds_page(slot))
		return ESCAPE_NONE;		/* no page of ours stays behind */
	if (BUF_STATE_GET_REFCOUNT(state) == 0)
	{
		if (BUF_STATE_GET_USAGECOUNT(state) > 1 || slot->state == SLOT_ADOPTED)
			return ESCAPE_ADOPTED;
		if (came_round && (state & BM_DIRTY) && slot->state != SLOT_PINNED)
			return ESCAPE_DIRTY;
	}
	return counts_as_pinned ? ESCAPE_PINNED : ESCAPE_ADOPTED;
}

/* Log that the page in the slot has escaped. */
static void
report_escape(const RingSlot *slot, EscapeReason reason)
{
	Escape		escape = {
		.buffer = slot->buffer,
		.tag = slot->tag,
		.datid = slot->tag.dbOid,
		.relid = slot->relid,
		.reason = reason,
		.pid = MyProcPid,
		.escaped_at = GetCurrentTimestamp(),
	};

	escapes_add(&escape);
}

/*
 * The slot has another buffer now, with one of our blocks.  Count what
 * happened to the old buffer, which is still in *slot.
 */
static void
count_replacement(Ring *ring, const RingSlot *slot, bool came_round)
{
	RingCounts *counts = &ring->public->counts;
	EscapeReason reason;

	if (slot->buffer == InvalidBuffer || slot->state == SLOT_LOST)
	{
		counts->fills++;
		return;
	}

	reason = escape_reason(ring, slot, came_round);
	if (reason != ESCAPE_NONE)
		report_escape(slot, reason);
	switch (reason)
	{
		case ESCAPE_PINNED:
			counts->escapes_pinned++;
			break;
		case ESCAPE_ADOPTED:
			counts->escapes_adopted++;
			break;
		case ESCAPE_DIRTY:
			/* emptied by a rejection, and filled when current came round */
			counts->escapes_dirty++;
			counts->fills++;
			break;
		case ESCAPE_NONE:
			counts->slots_lost++;
			counts->fills++;
			break;
	}
}

/*
 * The server has rejected the slot's buffer, because its page was dirty.  If
 * the buffer still holds our page, that page has escaped.  If not, the buffer
 * has lost our page, before or after the rejection: count it as lost.
 */
static void
count_rejection(Ring *ring, RingSlot *slot)
{
	if (!slot_holds_page(slot))
		note_loss(ring, slot);
	if (slot->state == SLOT_LOST)
		return;
	ring->public->counts.escapes_dirty++;
	report_escape(slot, ESCAPE_DIRTY);
}

/*
 * ring_watch_slot
 *		Compare one slot with our copy, count what happened to it, and update
 *		our copy.  came_round: may current have passed the slot more than once?
 */
void
ring_watch_slot(Ring *ring, int slotno, bool came_round)
{
	RingSlot   *slot = &ring->slots[slotno];
	Buffer		buffer = ring->strategy->buffers[slotno];
	BufferTag	tag;
	bool		was_read;

	if (buffer == InvalidBuffer)
	{
		/* The server empties a slot only in StrategyRejectBuffer(). */
		if (slot->buffer != InvalidBuffer)
		{
			count_rejection(ring, slot);
			empty_slot(ring, slotno);
		}
		return;
	}

	tag = slot_header(ring, slotno)->tag;
	if (buffer == slot->buffer && BufferTagsEqual(&tag, &slot->tag))
		return;					/* the slot has not changed */

	/*
	 * A ring never reads more blocks than the stream has asked for.  If more
	 * slots than that seem to have been read into, then for some of them the
	 * clock sweep has taken the buffer, and another process has read a block
	 * of the relation into it.  We can't tell which slots these are, so we
	 * assume that they are the ones that are compared last.
	 */
	was_read = tag_is_ours(ring, &tag) &&
		ring->public->counts.blks_read < ring->public->counts.blocks;
	if (was_read)
	{
		ring->public->counts.blks_read++;
		if (buffer == slot->buffer)
			ring->public->counts.reuses++;
		else
			count_replacement(ring, slot, came_round);
	}
	else
	{
		/*
		 * The ring has read nothing into this buffer.  If it holds a page,
		 * the clock sweep has taken the buffer from us; or the server has put
		 * a victim into the slot, and another process has taken the victim
		 * before our block was read into it.  Unless we only observe, empty
		 * the slot, so that the buffer is not reused.
		 *
		 * If the buffer holds no page, another process was first to read our
		 * block, or the buffer's page was evicted or dropped.  Keep the
		 * buffer: the next read that comes to this slot uses it, unless
		 * another process has taken it meanwhile.
		 *
		 * If the slot has another buffer, or its buffer holds another page,
		 * the old buffer counts as lost, although its page may have stayed
		 * behind: no read of ours has replaced the buffer.
		 */
		if (slot->buffer != InvalidBuffer &&
			!(tag_is_clear(&tag) && slot->buffer == buffer))
			note_loss(ring, slot);
		if (!ring->options.observe && !tag_is_clear(&tag))
		{
			empty_slot(ring, slotno);
			return;
		}
	}
	if (slot->buffer == InvalidBuffer)
		ring->public->occupied++;
	slot->buffer = buffer;
	slot->tag = tag;
	slot->relid = ring->relid;
	slot->state = was_read || tag_is_clear(&tag) ? SLOT_FREE : SLOT_LOST;
}

/*
 * May current have gone round the whole ring since the last look?  If so, it
 * has passed the slot after it, too, and that slot has changed.
 *
 * If the ring keeps dirty pages and is larger than a read, current goes round
 * only if the server gives up many buffers, and nearly all of these are
 * rejections.  A rejection empties its slot, so the slot after current is then
 * empty, or has another buffer.  But if the slot has the same buffer with
 * another page, that is no sign of a full round: the clock sweep may have
 * taken the buffer, and may even have given it back to us, for an empty slot.
 */
static bool
came_round(const Ring *ring)
{
	int			next = slot_ahead(ring, 1);

	if (keeps_dirty(ring) && ring->public->nbuffers > ring->ahead.reach)
		return ring->strategy->buffers[next] != ring->slots[next].buffer;
	return slot_changed(ring, next);
}

/*
 * ring_watch
 *		Count what happened to the slots since the last look.
 *
 * Called by the stream's callback, and wherever else the counts must be up to
 * date.  Also called when the stream has ended, because the last read begins
 * after the last call of the callback.
 */
void
ring_watch(Ring *ring)
{
	int			current;
	int			passed;
	bool		round;
	int64		reads = ring->public->counts.blks_read;

	if (ring->slots == NULL)
		return;

	/* slot_ahead() counts from public->current */
	current = ring->public->current;
	ring->public->current = ring->strategy->current;

	passed = ring->public->current - current;
	if (passed < 0)
		passed += ring->public->nbuffers;
	round = came_round(ring);
	if (round)
		passed = ring->public->nbuffers;

	if (passed > 0)
	{
		ring->ahead.calls_to_skip = 0;
		ring->wal.may_put_off = Min(ring->wal.may_put_off + MAX_PUT_OFF * passed,
									ring->public->nbuffers);
	}
	ring->ahead.nreusable = Max(0, ring->ahead.nreusable - passed);

	/* backwards, from the slot that was taken last */
	for (int slot = ring->public->current; passed > 0; passed--)
	{
		ring_watch_slot(ring, slot, round);
		slot = (slot == 0 ? ring->public->nbuffers : slot) - 1;
	}
	ring->ahead.pending = Max(0, ring->ahead.pending - (int) (ring->public->counts.blks_read - reads));
}
