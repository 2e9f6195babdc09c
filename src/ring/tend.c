/*-------------------------------------------------------------------------
 *
 * tend.c
 *	  Put the slots that come next into a state in which the server will reuse
 *	  their buffers.
 *
 *	    slots ahead, oldest first                 slots behind, newest last
 *	    |<- reach ->|                                           |
 *	  +---+---+---+---+---+---+---+---+---+---+---+---+---+---+---+
 *	  | f | D | f | P | f | f | f | f | f | f | s | s | s | s | s |
 *	  +---+---+---+---+---+---+---+---+---+---+---+---+---+---+---+
 *	    ^           |   ^                       |               |
 *	    |           +-exchange                  +- look-ahead  -+- current
 *	    next to be taken
 *
 *	  f free, s pinned by the stream's look-ahead, P pinned by something else
 *	  (a tuple slot that points to an old page), D dirty, its WAL not flushed
 *
 * A block is pending when the stream has asked for it and has not begun to
 * read it.  Before the next call, the server takes at most one slot for each
 * pending block, and one more for each buffer that it gives up: because the
 * buffer is dirty, or because another process has begun to use the buffer (see
 * tend_beyond_reach()).  There are at most as many pending blocks as one
 * combined read can take; this number is the reach.
 *
 * In the picture, P is exchanged with an unpinned slot beyond the reach.  (If
 * there is none, the ring grows; or, if it had better not, P is exchanged with
 * a later unpinned slot within the reach: see had_better_grow().)  For D, WAL
 * is flushed up to the page's LSN.  After that the next read finds only
 * buffers that it can reuse: the ring is tight.  Tending itself neither
 * changes the ring's size nor flushes WAL: it returns what the slots need, and
 * ring.c takes care of that.
 *
 * Reading and scanning a page that the operating system has cached takes two
 * microseconds, so a call must be cheap.  The first call after a read looks at
 * all slots in reach, up to the first one that is not reusable as it is.  The
 * next calls skip these slots.  When the pending blocks make a full read, a
 * call looks at all slots of that read once more, and at half as many after
 * them.  (The blocks may all be found in shared buffers, and then no read
 * comes.  If so, slots are looked at again after as many calls as a read has
 * blocks.)  If slots may be pinned at any time (see calls_to_skip()), no call
 * is skipped: each call tends the slots that the pending blocks will take and
 * that no earlier call has tended.  If these blocks make a full read, if a
 * block was found in shared buffers since the last call, or if the stream may
 * find own blocks, the call tends all slots that the pending blocks will take.
 *
 * Dirty pages: the server rejects a dirty buffer if its WAL is not flushed.  A
 * scan that sets hint bits dirties every page; if checksums or wal_log_hints
 * are on, it also writes WAL for each page that was not changed since the last
 * checkpoint.  When such a page comes into reach, WAL is flushed up to the
 * highest LSN of a whole batch of the pages that come next, so that many pages
 * need only one wait.  Every FLUSH_BATCH / 2 calls, if dirty pages were looked
 * at, the WAL writer is asked to flush the WAL that this process has written,
 * so that usually no wait is needed.
 *
 * If few pages are dirty, as after an UPDATE of some rows, a ring would have
 * to be large to hold a batch of them.  Instead, a dirty page is put off:
 * "current" is moved over its slot, so that the slot is taken one revolution
 * later.  So dirty pages gather in the ring while the scan goes on with the
 * clean ones, until there are few clean ones or the WAL writer has flushed.
 *
 * If the scan finds rows that its query changes or locks, and the ring can
 * grow, the first pages that would need a flush are left in the pool instead.
 * As long as the query may leave more pages, the WAL writer is not asked to
 * flush.  See plan_dirty_to_leave().
 *
 * Lost slots: the clock sweep may give a buffer of the ring to another page,
 * while the slot still names the buffer.  So our copy of the slot has the tag
 * of the page that we read.  If the buffer has another tag now, the slot is
 * emptied.  If the buffer has no page, the slot keeps the buffer, because no
 * process uses it.  (A buffer is left without a page if two processes read the
 * same block at the same time: each finds a victim for it, but only one victim
 * gets the page.)
 *
 * If a ring only observes, tending changes no slot.  It only notes the state
 * of the slots, to tell later why a buffer has escaped.
 *
 * Buffer headers are read without a lock or a pin.  Tending only prepares: the
 * server checks again, atomically, whether it can reuse a buffer.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "compat.h"
#include "ring/ring_private.h"
#include "storage/lmgr.h"

/*
 * ring_look_for_own_blocks
 *		Note which own blocks the ring holds, unless that is known.
 *
 * If that is not known, the stream has normally just started.  The blocks that
 * it reads after that do not matter, because it does not ask for them again.
 * But if the ring was open for free buffers until now, its slots hold blocks
 * that the stream has read, and for one revolution these count as own blocks.
 */
void
ring_look_for_own_blocks(Ring *ring)
{
	if (ring->ahead.own_known || ring->options.repeats_blocks)
		return;

	ring->ahead.own_known = true;
	ring->ahead.own_low = MaxBlockNumber;
	ring->ahead.own_high = 0;
	for (int slot = 0; slot < ring->public->nbuffers; slot++)
		note_own_block(ring, &ring->slots[slot]);
}

/*
 * Where the search for unpinned slots goes on, counted in places after
 * current; and how many dirty pages this call has put off.
 */
typedef struct Spares
{
	int			next_beyond;	/* next slot to look at beyond the reach,
								 * upward */
	int			last_within;	/* next slot to look at within the reach,
								 * downward */
	int			put_off;
} Spares;

/* The next unpinned slot beyond the reach; -1 if there is none. */
static int
spare_beyond(const Ring *ring, Spares *spares)
{
	while (spares->next_beyond <= ring->public->nbuffers)
	{
		int			slot = slot_ahead(ring, spares->next_beyond++);

		if (slot_is_unpinned(ring, slot))
			return slot;
	}
	return -1;
}

/*
 * The last unpinned slot within the reach; -1 if there is none that is more
 * than n places ahead.
 */
static int
spare_within(const Ring *ring, int n, Spares *spares)
{
	while (spares->last_within > n)
	{
		int			slot = slot_ahead(ring, spares->last_within--);

		if (slot_is_unpinned(ring, slot))
			return slot;
	}
	return -1;
}

/*
 * If all slots beyond the reach are pinned, should the ring grow, rather than
 * use a slot within the reach?
 *
 * If scans share reads, growing is the last resort.  Other scans are meant to
 * pin buffers of this ring.  If the rings grew because of that, each of them
 * would become as large as all of them together.
 */
static inline bool
had_better_grow(const Ring *ring)
{
	return !ring->sharing.shared && ring_may_grow_past_pinned(ring);
}

/*
 * Look at the slot n places ahead, which a read may take soon, and make it
 * reusable if possible.  Returns the LSN up to which WAL must be flushed
 * before the slot's page can be written; invalid if the page needs no flush,
 * or if the server will not reuse the buffer.  WAL may already be flushed up
 * to that LSN.
 *
 * If the buffer is pinned, the slot is exchanged with an unpinned one beyond
 * the reach, so that the next read does not take the pinned buffer.  If there
 * is no such slot, and the ring had better not grow, the slot is exchanged
 * with a later unpinned one within the reach.  If it is look-ahead that pins
 * all slots beyond the reach, that is good enough: the pin limit does not let
 * the next read take more slots than there are unpinned ones.  If other scans
 * pin them, the ring may still grow: see ring_grow_past_pinned().
 */
static XLogRecPtr
tend_one_slot(Ring *ring, int n, Spares *spares)
{
	int			slotno = slot_ahead(ring, n);
	RingSlot   *slot = &ring->slots[slotno];

	for (;;)
	{
		BufferDesc *header;
		compat_buf_state state;
		int			spare;

		watch_if_unseen(ring, slotno);
		if (slot->buffer == InvalidBuffer)
			return InvalidXLogRecPtr;

		header = slot_header(ring, slotno);
		state = compat_read_buf_state(header);

		if (tag_is_clear(&header->tag))
			ClearBufferTag(&slot->tag); /* the slot keeps the buffer */
		else if (!BufferTagsEqual(&header->tag, &slot->tag))
		{
			note_loss(ring, slot);
			if (!ring->options.observe)
				empty_slot(ring, slotno);
			else
				slot->tag = header->tag;
			return InvalidXLogRecPtr;
		}
		if (slot->state == SLOT_LOST)
			return InvalidXLogRecPtr;

		if (slot_is_unpinned(ring, slotno))
		{
			XLogRecPtr	lsn;

			if (BUF_STATE_GET_USAGECOUNT(state) > 1)
			{
				slot->state = SLOT_ADOPTED;
				return InvalidXLogRecPtr;
			}
			slot->state = (state & BM_DIRTY) ? SLOT_DIRTY : SLOT_FREE;
			lsn = slot_lsn(ring, slotno, state);
			note_dirty(ring, lsn);
			return lsn;
		}

		slot->state = SLOT_PINNED;
		if (ring->options.observe)
			return InvalidXLogRecPtr;

		spare = spare_beyond(ring, spares);
		if (spare < 0 && !had_better_grow(ring))
			spare = spare_within(ring, n, spares);
		if (spare < 0)
			return InvalidXLogRecPtr;	/* if the ring can't grow, the buffer
										 * will escape */
		exchange_slots(ring, slotno, spare);
		if (may_hold_own_blocks(ring) && tag_is_ours(ring, &ring->slots[spare].tag) &&
			may_be_own(ring, ring->slots[spare].tag.blockNum))
			ring->ahead.reads_at_exchange = ring->public->counts.blks_read;
	}
}

/*
 * About how many slots does look-ahead pin?  Their blocks are being read, or
 * have been read and the reader has not got them yet.  Blocks that were found
 * in shared buffers may be counted, too, although they take no slot.  And
 * because "pending" is an upper bound, the result may be too small.
 */
static inline int
slots_pinned_ahead(const Ring *ring)
{
	int64		asked = blocks_ahead(ring);

	return (int) Max(0, asked - ring->ahead.pending);
}

/*
 * May dirty pages be put off?
 *
 * They may not if scans share reads: other scans need the pages that were read
 * last, and the ring would come to these earlier.  Nor may they as long as the
 * ring may hold own blocks: a page that is put off stays in the ring for
 * longer.  And if a ring sizes itself, it first grows to make room for dirty
 * pages.
 */
static inline bool
can_put_off(const Ring *ring)
{
	return !ring->sharing.shared && !may_hold_own_blocks(ring) &&
		(ring->size.flush_room > 0 || !sizes_itself(ring));
}

/*
 * The slot n places ahead holds a dirty page whose WAL is not flushed.  Put
 * the page off: exchange its slot with the slot right after current, and move
 * current to that slot.  Then the slot that was n + 1 places ahead is n places
 * ahead.
 *
 * A page that was put off is looked at again in each revolution.  To limit the
 * cost of these looks, returns false if may_put_off is 0: see MAX_PUT_OFF.
 *
 * Also returns false if current is only two reads away from the slots that
 * look-ahead pins, because the pages of the last read should stay for a while:
 * see buffers_needed().  (Pages that earlier calls have put off may lie
 * between the pinned slots.  In that case pinned slots come into reach, and
 * tend_one_slot() exchanges them.)
 */
static bool
put_off(Ring *ring, int n, Spares *spares)
{
	int			reach = ring->ahead.reach;
	int			next = slot_ahead(ring, 1);

	if (ring->wal.may_put_off == 0 ||
		spares->put_off + 2 * reach + slots_pinned_ahead(ring) >= ring->public->nbuffers)
		return false;

	exchange_slots(ring, slot_ahead(ring, n), next);
	ring->strategy->current = ring->public->current = next;
	ring->wal.may_put_off--;
	spares->put_off++;
	spares->next_beyond = Max(spares->next_beyond - 1, reach + 1);
	ring->size.revolutions_unflushed = 0;
	return true;
}

/* The end of WAL, up to which it can be flushed. */
static XLogRecPtr
end_of_wal(void)
{
	return RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();
}

/*
 * Must WAL be flushed before a page with this LSN can be written?
 *
 * The LSN was read without a lock, and the page may be damaged.  If the LSN is
 * beyond the end of WAL, return false: the server has to deal with that page.
 */
static bool
needs_flush(Ring *ring, XLogRecPtr lsn)
{
	if (lsn <= ring->wal.flushed)
		return false;
	if (XLogNeedsFlush(lsn))
	{
		/* Finding the end of WAL takes a spinlock. */
		if (lsn > ring->wal.end)
			ring->wal.end = end_of_wal();
		return lsn <= ring->wal.end;
	}
	ring->wal.flushed = RecoveryInProgress() ? lsn : GetFlushRecPtr(NULL);
	return false;
}

/*
 * The slot n places ahead holds a dirty page whose WAL is not flushed.  If the
 * query may still leave such a page in the pool, empty the slot.  Returns
 * whether the slot was emptied.
 *
 * The page may have come with a lent buffer.  If it is of a relation whose
 * rows this transaction changes or locks, such as the partition that the query
 * has scanned before, it may be left.  The lock shows that.  Otherwise an
 * earlier query has dirtied the page by reading it, and promised to leave
 * nothing.
 */
static bool
leave_dirty(Ring *ring, int n)
{
	int			slotno = slot_ahead(ring, n);

	if (!leaves_dirty(ring) ||
		!CheckRelationOidLockedByMe(ring->slots[slotno].relid, RowShareLock, true))
		return false;
	(*ring->options.leave_dirty)--;
	empty_slot(ring, slotno);
	return true;
}

/*
 * Like tend_one_slot(), but if WAL would have to be flushed for the page,
 * leave the page in the pool, or put it off, if possible.  Returns an LSN only
 * if WAL is not flushed up to that LSN yet.
 */
static XLogRecPtr
tend_slot_or_put_off(Ring *ring, int n, Spares *spares)
{
	XLogRecPtr	lsn;

	do
	{
		lsn = tend_one_slot(ring, n, spares);
		if (!keeps_dirty(ring) || !needs_flush(ring, lsn) || leave_dirty(ring, n))
			return InvalidXLogRecPtr;
	} while (can_put_off(ring) && put_off(ring, n, spares));

	return lsn;
}

/* The highest LSN of the batch of pages that comes next. */
static XLogRecPtr
batch_lsn(const Ring *ring)
{
	int			batch = Min(ring->public->nbuffers, ring->ahead.reach + FLUSH_BATCH);
	XLogRecPtr	lsn = InvalidXLogRecPtr;

	for (int n = 1; n <= batch; n++)
	{
		int			slot = slot_ahead(ring, n);
		compat_buf_state state;

		if (ring->strategy->buffers[slot] == InvalidBuffer)
			continue;
		state = compat_read_buf_state(slot_header(ring, slot));
		if (BUF_STATE_GET_REFCOUNT(state) == 0)
			lsn = Max(lsn, slot_lsn(ring, slot, state));
	}
	return lsn;
}

/*
 * ring_flush_wal
 *		Flush WAL up to lsn, because the buffer of a page with this LSN may be
 *		reused before the next call.  As we have to wait anyway, also flush WAL
 *		for the batch of pages that comes next.
 */
void
ring_flush_wal(Ring *ring, XLogRecPtr lsn)
{
	XLogRecPtr	batch = batch_lsn(ring);

	if (needs_flush(ring, batch))
		lsn = Max(lsn, batch);
	compat_submit_staged();
	XLogFlush(lsn);
	ring->wal.flushed = Max(ring->wal.flushed, lsn);
	ring->public->counts.wal_flushes++;

	/*
	 * In the first revolution, the dirty pages may be those of the session's
	 * last scan.  That they need a flush does not mean that this scan needs
	 * more room.
	 */
	if (!in_first_revolution(ring))
		ring->size.flush_room = Min(2 * ring->size.flush_room, MAX_FLUSH_ROOM);
}

/*
 * ring_announce_wal
 *		Once in FLUSH_BATCH / 2 calls, ask the WAL writer to flush the WAL that
 *		this process has written.  But do not if no dirty page was looked at
 *		since the last time, or as long as the ring may leave dirty pages in
 *		the pool: the flush would serve little or nothing, and would make other
 *		processes wait.
 */
void
ring_announce_wal(Ring *ring)
{
	bool		dirty_seen = ring->wal.dirty_seen;

	if (ring->wal.calls_since_announce < FLUSH_BATCH / 2)
		return;
	ring->wal.calls_since_announce = 0;
	ring->wal.dirty_seen = false;
	if (!dirty_seen || leaves_dirty(ring))
		return;

	if (XactLastRecEnd > ring->wal.announced && !RecoveryInProgress())
	{
		ring->wal.announced = XactLastRecEnd;
		XLogSetAsyncXactLSN(XactLastRecEnd);
	}
}

/*
 * Has a buffer of this ring escaped because it was pinned, or used outside the
 * ring?  If so, another reader probably uses the relation, and more buffers
 * will be pinned or used.
 */
static inline bool
has_met_others(const Ring *ring)
{
	const RingCounts *counts = &ring->public->counts;

	return counts->escapes_adopted > 0 || counts->escapes_pinned > 0;
}

/*
 * The slots for the pending blocks were tended.  How many of the next calls,
 * until the next read, need not look at slots?
 *
 * Each call adds at most one pending block.  So look for more slots that are
 * reusable as they are.  The call that makes the pending blocks a full read
 * looks at all slots once more, so it is not skipped; the calls after it are.
 *
 * No call is skipped if slots may be pinned at any time: because scans share
 * reads, because another reader has used pages of the ring before, or because
 * the stream finds own blocks.  Nor is one skipped if current may go round the
 * whole ring in one read: it may then be back where it was, and
 * next_slots_are_ready() would not notice the read.
 */
static int
calls_to_skip(Ring *ring, int pending)
{
	int			reach = ring->ahead.reach;

	if (ring->public->nbuffers <= reach || ring->sharing.shared ||
		has_met_others(ring) || may_find_own_blocks(ring))
		return 0;
	while (ring->ahead.nreusable < reach &&
		   slot_is_plainly_reusable(ring, slot_ahead(ring, ring->ahead.nreusable + 1)))
		ring->ahead.nreusable++;
	if (pending == reach)
		return ring->ahead.nreusable == reach ? reach - 1 : 0;
	return Max(0, Min(ring->ahead.nreusable, reach - 1) - pending);
}

/*
 * A full read is pending.  The server takes more slots than the read has
 * blocks if another reader pins a page that the server is about to replace,
 * mostly while the server writes the page.  So exchange pinned slots after
 * those for the pending blocks, too: half as many, because this is rare.
 * Their pages need no flush of WAL yet.  Look neither at slots that look-ahead
 * pins, nor at the one that the reader is at.
 *
 * If scans share reads, this is not done: other scans need the pages beyond,
 * in their order.
 */
static void
tend_beyond_reach(Ring *ring, bool own_blocks, Spares *spares)
{
	int			reach = ring->ahead.reach;
	int			last = Min(reach + (reach + 1) / 2,
						   ring->public->nbuffers - slots_pinned_ahead(ring) - 1);

	for (int n = reach + 1; n <= last; n++)
	{
		spares->next_beyond = Max(spares->next_beyond, n + 1);
		if (own_blocks || !slot_is_plainly_reusable(ring, slot_ahead(ring, n)))
			(void) tend_one_slot(ring, n, spares);
	}
}

/*
 * ring_tend_slots
 *		Make reusable the slots that may be taken before the next call, one for
 *		each pending block.  Returns what else these slots need.
 *
 * Normally only the slots that no earlier call has tended are looked at.  All
 * of them are looked at again if a full read is pending, or if the stream may
 * find own blocks in the ring and pin them.  Before a full read, some more
 * slots are looked at: see tend_beyond_reach().
 */
TendNeed
ring_tend_slots(Ring *ring, int pending)
{
	bool		own_blocks = may_find_own_blocks(ring);
	bool		all = pending == ring->ahead.reach || own_blocks;
	TendNeed	need = {false, InvalidXLogRecPtr};
	Spares		spares = {
		.next_beyond = ring->ahead.reach + 1,
		.last_within = ring->ahead.reach,
	};

	for (int n = all ? 1 : ring->ahead.nreusable + 1; n <= pending; n++)
	{
		if (own_blocks || !slot_is_plainly_reusable(ring, slot_ahead(ring, n)))
			need.wal = Max(need.wal, tend_slot_or_put_off(ring, n, &spares));

		if (!ring->options.observe &&
			ring->slots[slot_ahead(ring, n)].state == SLOT_PINNED)
		{
			need.unpinned_slot = true;
			ring->ahead.nreusable = n - 1;	/* the next call looks at it again */
			break;
		}
		ring->ahead.nreusable = n;
	}

	if (pending == ring->ahead.reach && !need.unpinned_slot &&
		!ring->sharing.shared && !ring->options.observe)
		tend_beyond_reach(ring, own_blocks, &spares);
	ring->ahead.calls_to_skip = calls_to_skip(ring, pending);

	if (!needs_flush(ring, need.wal))
		need.wal = InvalidXLogRecPtr;
	return need;
}

/*
 * ring_leave_slots
 *		The ring is open: empty the slots that may be taken before the next
 *		call, one for each pending block, unless an earlier call has done so.
 *		Their pages stay in shared buffers.
 *
 * If the ring is open as long as there are free buffers, empty all slots in
 * reach, so that the next calls need not look at slots.
 */
void
ring_leave_slots(Ring *ring, int pending)
{
	int			reach = ring->ahead.reach;
	bool		may_skip = !ring->in_first_reads && ring->public->nbuffers > reach;

	for (int n = ring->ahead.nreusable + 1; n <= (may_skip ? reach : pending); n++)
	{
		int			slotno = slot_ahead(ring, n);

		watch_if_unseen(ring, slotno);
		empty_slot(ring, slotno);
		ring->ahead.nreusable = n;
	}
	if (may_skip)
		ring->ahead.calls_to_skip = calls_to_skip(ring, pending);
}
