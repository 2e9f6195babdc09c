/*-------------------------------------------------------------------------
 *
 * lend.c
 *	  Lend the buffers of the session's finished rings to its next ring.
 *
 * When a scan ends, the buffers of its ring still hold its last pages.  They
 * are lent to the session's next ring, so that a query over a thousand
 * partitions uses the buffers of one ring, not of a thousand:
 *
 *	  scan 1 ends --lend--> | oldest ... newest | --take back--> scan 2 begins
 *
 * The stack is in the session's private memory.  Any process may give a lent
 * buffer to another page.  So a buffer is only taken back if it still holds
 * what it held when it was lent.
 *
 * The server reads the first blocks of most sequential scans by itself
 * (seqscan.c).  Unless the ring is only to observe, the server gets lent
 * buffers for that, too.  If the scan goes on, its ring takes over the buffers
 * that the server has read into.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "executor/instrument.h"
#include "ring/ring_private.h"
#include "utils/rel.h"

/*
 * A stack of lent buffers.  Each finished ring has lent its buffers, the
 * oldest first, unless it only observes, and except for those that
 * buffers_to_keep() leaves in the pool.  The buffers of a server's ring are
 * put here when one of our rings takes its place (ring_take_over()).  Other
 * buffers were let go when rings shrank, and hold no page.  As long as a lent
 * buffer holds what it held when it was lent, a ring can take it back and
 * needs no victim of the clock sweep.
 *
 * A buffer may be in the stack twice: it was let go, came back to a ring as a
 * victim, and was let go again.  If two slots take it back, one of them is
 * later found to be lost.
 */
static struct
{
	RingSlot   *slots;
	int			count;
	int			reserved;		/* sum of the capacities of the running rings
								 * that may lend their buffers */
	int			last_size;		/* size of the last lent ring that sized
								 * itself, at most its base_capacity if it had
								 * a window */
	int			capacity;		/* entries allocated: at least count plus the
								 * slots of the rings that "reserved" is for */
}			lent;

/*
 * The last pass whose first blocks the server has begun to read: its strategy,
 * and the number of blocks that this process had read before.
 */
static struct
{
	BufferAccessStrategy strategy;
	int64		reads_before;
}			begun;

/* Does the n-th lent buffer still hold what it held when it was lent? */
static bool
is_still_lent(int n)
{
	const RingSlot *slot = &lent.slots[n];

	return BufferTagsEqual(&GetBufferDescriptor(slot->buffer - 1)->tag, &slot->tag);
}

/*
 * Look at the buffers that were lent last, until "wanted" of them are found
 * that still hold what they held, and remove the others.  Returns how many
 * were found: less than "wanted" if the stack has no more.
 */
static int
find_lent(int wanted)
{
	int			first = lent.count;
	int			found = 0;
	int			kept;

	while (first > 0 && found < wanted)
		if (is_still_lent(--first))
			found++;
	if (found == lent.count - first)
		return found;			/* the usual case: there is none to remove */
	kept = first;
	for (int n = first; n < lent.count; n++)
		if (is_still_lent(n))
			lent.slots[kept++] = lent.slots[n];
	lent.count = kept;
	return Min(kept - first, wanted);	/* other processes change the headers */
}

/*
 * lend_slot
 *		Lend a slot's buffer.  lend_make_room() must have made room for it.
 */
void
lend_slot(const RingSlot *slot)
{
	Assert(lent.count < lent.capacity);
	lent.slots[lent.count++] = *slot;
}

/*
 * lend_take_back
 *		Take back the buffer that was lent last, among those that still hold
 *		what they held.  Returns false if there is none.
 */
bool
lend_take_back(RingSlot *slot)
{
	while (lent.count > 0)
	{
		*slot = lent.slots[--lent.count];
		if (is_still_lent(lent.count))
			return true;
	}
	return false;
}

/*
 * lend_make_room
 *		Make room in the stack for nbuffers buffers, in addition to those that
 *		are lent or reserved.
 *
 * This is done when a ring starts, because its buffers may be lent while a
 * transaction aborts.  At that time, memory must not be allocated.
 */
void
lend_make_room(int nbuffers)
{
	int			capacity = lent.count + lent.reserved + nbuffers;

	if (capacity > lent.capacity)
	{
		(void) find_lent(lent.count);
		capacity = lent.count + lent.reserved + nbuffers;
	}
	if (capacity > lent.capacity)
	{
		RingSlot   *slots;

		capacity = Max(capacity, 2 * lent.capacity);
		slots = MemoryContextAllocExtended(ring_context,
										   capacity * sizeof(RingSlot),
										   MCXT_ALLOC_HUGE);
		if (lent.slots != NULL)
		{
			memcpy(slots, lent.slots, lent.count * sizeof(RingSlot));
			pfree(lent.slots);
		}
		lent.slots = slots;
		lent.capacity = capacity;
	}
}

/*
 * lend_buffers
 *		Lend the buffers of a ring that has finished, the oldest first.  The
 *		newest "keep" buffers are not lent: they stay in the pool.  Empty slots
 *		do not count.
 */
void
lend_buffers(Ring *ring, int keep)
{
	int			nbuffers = ring->public->nbuffers;
	int			to_lend = ring->public->occupied - keep;

	lent.reserved -= ring->options.capacity;
	if (sizes_itself(ring))
		lent.last_size = nbuffers;
	if (ring->options.window > 0)	/* the next scan might not share reads */
		lent.last_size = Min(nbuffers, ring->options.base_capacity);

	for (int n = 1; n <= nbuffers; n++)
	{
		int			slot = slot_ahead(ring, n);

		if (ring->slots[slot].buffer != InvalidBuffer && to_lend-- > 0)
			lend_slot(&ring->slots[slot]);
		ring->strategy->buffers[slot] = InvalidBuffer;
	}
	ring->public->occupied = 0;
}

/*
 * Fill the slots with lent buffers, if takes_lent.  If there are not enough,
 * the other slots become empty.
 */
static void
fill_slots(Ring *ring, bool takes_lent)
{
	int			nbuffers = ring->public->nbuffers;
	int			first = nbuffers;

	while (takes_lent && first > 0 && lend_take_back(&ring->slots[first - 1]))
	{
		first--;
		ring->strategy->buffers[first] = ring->slots[first].buffer;
	}
	ring->public->occupied = nbuffers - first;
	memset(ring->slots, 0, first * sizeof(RingSlot));
	memset(ring->strategy->buffers, 0, first * sizeof(Buffer));

	/* The first slot with a buffer is taken next. */
	ring->strategy->current = ring->public->current =
		(first > 0 ? first : nbuffers) - 1;
	ring->ahead.own_known = false;
	forget_reusable(ring);
}

/*
 * lend_fill
 *		Set the size of a ring that has no buffers, and fill the ring with lent
 *		buffers.  If there are not enough, the other slots stay empty.
 *
 * The buffers that were lent last are taken first, so that a session which
 * once read through two rings at a time does not go on using the buffers of
 * both.  They go into the slots that the next reads take, the oldest buffer
 * first.  A ring whose reader is to leave its first pages in the pool takes no
 * lent buffers before it has read these pages, because these buffers would
 * stay behind in the pool, too.
 */
void
lend_fill(Ring *ring)
{
	int			nbuffers;

	if (!ring->options.observe)
		lent.reserved += ring->options.capacity;

	/*
	 * If the session's last ring that sized itself was larger, begin with its
	 * size, or with as many buffers as are still lent if these are fewer.
	 */
	nbuffers = Min(lent.last_size, ring->options.capacity);
	if (nbuffers > ring->options.nbuffers)
		nbuffers = find_lent(nbuffers);
	nbuffers = Max(nbuffers, ring->options.nbuffers);
	nbuffers = Max(nbuffers, ring->size.taken_over);
	ring->size.taken_over = 0;
	/* An observed ring can't grow: give it room for all look-ahead pins. */
	if (ring->options.observe)
		nbuffers = ring->options.base_capacity;
	ring->size.max_needed = ring->size.flush_room = 0;
	ring_set_sharing(ring, false, 0, false);
	ring->sharing.shrink_requested = false;
	ring_set_size(ring, nbuffers);
	ring->wal.may_put_off = nbuffers;

	fill_slots(ring, !ring->options.observe && !ring->in_first_reads);
	ring->ahead.pending = 0;
}

/*
 * lend_fill_anew
 *		The reader has left its first pages in the pool (leave_first).  The
 *		last of them are in the slots: let these pages stay, too, and fill the
 *		slots with lent buffers.  From now on the ring is tight, unless it is
 *		still open for free buffers (free_first).
 */
void
lend_fill_anew(Ring *ring)
{
	ring->in_first_reads = false;
	fill_slots(ring, true);
	ring->ahead.reads_at_start = ring->ahead.reads_at_exchange =
		ring->public->counts.blks_read;
}

/*
 * lend_cancel_reservation
 *		The ring, which was filled by lend_fill(), will lend nothing: give back
 *		the room that was made for its buffers.
 */
void
lend_cancel_reservation(const Ring *ring)
{
	lent.reserved -= ring->options.capacity;
}

/*
 * ring_server_begins
 *		The server is about to read the first blocks of a pass through this
 *		strategy.
 */
void
ring_server_begins(BufferAccessStrategy strategy)
{
	begun.strategy = strategy;
	begun.reads_before = pgBufferUsage.shared_blks_read;
}

/*
 * Has the server read all the first blocks of this pass, "asked" in number,
 * through this strategy?  We assume so if this process has read that number of
 * blocks since the pass began, and at least as many slots of the strategy were
 * taken.  (17 also counts a block as read that another process has read
 * meanwhile.  Such a block usually takes no slot.)  came_round: does slot 0,
 * which is taken last, hold one of these blocks?
 *
 * The answer may be no although all were read: if, since this pass began, this
 * process has begun another such pass or read other blocks; or if slot 0 was
 * taken and its buffer was lost.  It may be yes although some were found in
 * shared buffers: if this process has read as many other blocks, and an
 * earlier pass or rejected buffers have taken as many slots.
 */
static inline bool
all_were_read(BufferAccessStrategy strategy, int asked, bool came_round)
{
	return begun.strategy == strategy &&
		pgBufferUsage.shared_blks_read - begun.reads_before == asked &&
		(came_round ? strategy->nbuffers : strategy->current) >= asked;
}

/*
 * ring_lend_to_server
 *		The server reads the first blocks of a scan through its own strategy:
 *		it is about to begin, or goes on.  Put lent buffers for the first
 *		"most" blocks into those slots of the strategy that the server has not
 *		taken yet.  If there are enough, and the server can reuse them, these
 *		blocks need no other buffers.  (The server rejects buffers of dirty
 *		pages whose WAL is not flushed.)
 *
 * The buffers stay in the stack.  If the scan goes on, ring_take_over()
 * removes those that the server has read other pages into.
 */
void
ring_lend_to_server(BufferAccessStrategy strategy, int most)
{
	int			taken = strategy->current;

	/* The server takes slot 1 first, and slot 0 last. */
	if (strategy->buffers[0] != InvalidBuffer)
		return;
	most = find_lent(Min(most, strategy->nbuffers) - taken);
	for (int n = 1; n <= most; n++)
		strategy->buffers[(taken + n) % strategy->nbuffers] =
			lent.slots[lent.count - n].buffer;
}

/* Let a ring that only observes begin with these slots of the strategy. */
static void
observe_from(Ring *ring, const RingSlot *slots, int nslots)
{
	int			nbuffers = ring->own.nbuffers;

	nslots = Min(nslots, nbuffers);
	ring->saved_slots = MemoryContextAllocZero(ring_context, nbuffers * sizeof(RingSlot));
	memcpy(ring->saved_slots, slots, nslots * sizeof(RingSlot));
	for (int i = 0; i < nbuffers; i++)
		ring->strategy->buffers[i] = ring->saved_slots[i].buffer;
	ring->own.occupied = nslots;
	ring->own.current = ring->strategy->current = Max(0, nslots - 1);
}

/* Is this buffer lent, and does it still hold its page? */
static bool
is_lent(Buffer buffer, const BufferTag *tag)
{
	for (int n = lent.count; n > 0; n--)
		if (lent.slots[n - 1].buffer == buffer)
			return BufferTagsEqual(&lent.slots[n - 1].tag, tag);
	return false;
}

/*
 * ring_take_over
 *		The server has read the first blocks of a scan, from first_block on,
 *		through the strategy "from".  It has asked for "asked" blocks, and the
 *		scan has got "got" of them.  From now on the scan goes on through this
 *		ring, which has not been started yet: take over the counts and buffers.
 *		rel_nblocks: size of the relation; after its last block the scan goes
 *		on with block 0.
 *
 * Each read took a slot of the strategy, and counts as a fill.  But if a
 * slot's buffer is lent and still holds the page with which it was lent, we
 * assume that the block was found there, and not read.
 *
 * The slots may show too few reads.  For two reasons, a block that the server
 * has read may be in no slot any more: another process has taken its buffer;
 * or buffers that the server rejected took slots, too, so that it went round
 * the ring and reused the block's slot.  So if all_were_read() says so, all
 * blocks count as read, whatever the slots hold.
 */
void
ring_take_over(Ring *ring, BufferAccessStrategy from, Relation rel,
			   BlockNumber first_block, BlockNumber rel_nblocks,
			   int asked, int got)
{
	RingCounts *counts = &ring->own.counts;
	RingSlot   *slots = palloc(from->nbuffers * sizeof(RingSlot));
	int			nslots = 0;
	int			reads;
	bool		came_round = false;

	for (int n = 1; n <= from->nbuffers; n++)
	{
		int			slotno = (from->current + n) % from->nbuffers;
		Buffer		buffer = from->buffers[slotno];
		BufferTag	tag;

		if (buffer == InvalidBuffer)
			continue;
		tag = GetBufferDescriptor(buffer - 1)->tag;
		if (BufTagMatchesRelFileLocator(&tag, &rel->rd_locator) &&
			BufTagGetForkNum(&tag) == MAIN_FORKNUM &&
			((uint64) tag.blockNum + rel_nblocks - first_block) % rel_nblocks < (uint64) asked &&
			!is_lent(buffer, &tag))
		{
			RingSlot   *slot = &slots[nslots++];

			slot->buffer = buffer;
			slot->tag = tag;
			slot->relid = RelationGetRelid(rel);
			slot->state = SLOT_FREE;
			came_round |= slotno == 0;
		}
	}
	counts->blocks += asked;
	counts->consumed += got;
	counts->unconsumed += asked - got;
	reads = all_were_read(from, asked, came_round) ? asked : nslots;
	counts->blks_read += reads;
	counts->fills += reads;

	if (ring->options.observe)
		observe_from(ring, slots, nslots);
	else
	{
		ring->size.taken_over = Min(nslots, ring->options.capacity);
		/* Lent buffers that the server has used are among "slots" now. */
		(void) find_lent(from->nbuffers);
		lend_make_room(nslots);
		for (int i = 0; i < nslots; i++)
			lend_slot(&slots[i]);
	}
	pfree(slots);
}
