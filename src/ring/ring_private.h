/*-------------------------------------------------------------------------
 *
 * ring_private.h
 *	  What the files of src/ring/ know of a ring: see ring.c.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_RING_PRIVATE_H
#define RINGCTL_RING_PRIVATE_H

#include "access/xlogdefs.h"
#include "compat.h"
#include "ring/ring.h"
#include "ring/strategy.h"
#include "shmem/kill_switch.h"
#include "shmem/live_rings.h"

/*
 * A ring's life:
 *
 *	  CREATED --start--> RUNNING --lend, close--> STOPPED
 *	                        ^                        |
 *	                        +---------start----------+
 *
 * While a ring runs, its strategy has buffers, and other sessions may see its
 * public part and its slots.  A stopped ring has no buffers: the session's
 * next ring may have them.  But a ring that only observes keeps its buffers
 * when it is lent.
 */
typedef enum RingState
{
	RING_CREATED,
	RING_RUNNING,
	RING_STOPPED,
} RingState;

/*
 * What the stream has asked for: asked.c; the slots that come next: tend.c.
 * For own blocks see may_hold_own_blocks().
 */
typedef struct RingAhead
{
	int			reach;			/* maximum number of blocks in one read */
	int			pending;		/* blocks asked for, whose read has not begun;
								 * an upper bound */
	int			nreusable;		/* next slots that earlier calls have tended,
								 * or found reusable as they are */
	int			calls_to_skip;	/* next calls that need not look at slots */
	int			quiet_calls;	/* next calls that only count their blocks:
								 * see quiet.c */
	BlockNumber *asked;			/* last blocks asked for; the n-th one is at
								 * index n & asked_mask */
	int64		asked_mask;
	int64		reads_at_start; /* counts.blks_read when the stream started,
								 * or the ring began anew */
	int64		reads_at_exchange;	/* counts.blks_read at the latest of these
									 * events: the stream started, the ring
									 * began anew, an own block was noted, or
									 * was moved to a later slot */
	bool		own_known;		/* are own_low and own_high known? */
	BlockNumber own_low;		/* all own blocks are between these two, */
	BlockNumber own_high;		/* inclusive */
	int64		own_asked;		/* counts.blocks at the latest of these
								 * events: a block between own_low and
								 * own_high was asked for, or an own block was
								 * noted */
	bool		at_end;			/* all blocks have been asked for */
} RingAhead;

/* How large the ring has to be: size.c. */
typedef struct RingSize
{
	int			max_needed;		/* maximum number of buffers needed in this
								 * revolution */
	int			flush_room;		/* buffers for dirty pages whose WAL is
								 * flushed together */
	int			revolutions_unflushed;	/* revolutions since flush_room was
										 * last needed */
	int			calls_in_revolution;	/* calls in this revolution */
	int			server_buffers; /* size of the server's own ring */
	int			taken_over;		/* buffers taken over from the server's own
								 * ring, before the ring starts */
} RingSize;

/* What is kept for other scans: size.c. */
typedef struct RingSharing
{
	bool		shared;			/* do other scans share reads with this one? */
	int64		blocks_to_keep; /* number of blocks that the last of these
								 * scans is behind */
	bool		shrink_requested;	/* a scan has fallen too far behind */
	int64	   *reads_log;		/* blks_read at each BLOCKS_PER_LOG-th block */
	int64		log_mask;
	int64		hits_seen;		/* hits at the last ring_set_sharing() */
} RingSharing;

/* WAL of the pages in the ring: tend.c. */
typedef struct RingWal
{
	XLogRecPtr	flushed;		/* WAL is known to be flushed up to here */
	XLogRecPtr	end;			/* WAL is known to reach up to here, at least */
	XLogRecPtr	announced;		/* the WAL writer was asked to flush up to
								 * here */
	int			calls_since_announce;	/* calls since ring_announce_wal()
										 * last decided whether to ask the WAL
										 * writer */
	bool		dirty_seen;		/* was a dirty page seen since then? */
	int			may_put_off;	/* number of dirty pages that may be put off
								 * before more slots are taken */
} RingWal;

struct Ring
{
	RingState	state;
	RingOptions options;
	EnabledMark enabled;
	LiveRing   *live;			/* NULL unless the ring runs, and the
								 * process's segment has room for it */
	bool		not_shown;		/* was it counted as not shown? */
	RingPublic *public;			/* points into *live, or to own */
	RingPublic	own;

	ReadStreamBlockNumberCB next_block; /* the caller's callback */
	void	   *next_block_arg;

	Oid			relid;			/* what is read */
	RelFileLocator locator;
	ForkNumber	forknum;

	BufferAccessStrategy strategy;	/* NULL: reads without a ring */
	RingSlot   *slots;			/* our copy of the strategy's array; NULL if
								 * the ring does not run or has no strategy */
	RingSlot   *private_slots;	/* the same, if there is no room in *live;
								 * else NULL */
	RingSlot   *saved_slots;	/* slots of an observed ring that does not run
								 * at the moment */
	bool		in_first_reads; /* are the pages of the next read to be left
								 * in the pool, because of leave_first? */

	RingAhead	ahead;
	RingSize	size;
	RingSharing sharing;
	RingWal		wal;
};

/*
 * A batch: the number of dirty pages that one flush of WAL should serve.
 * Their full-page images take up to 1 MB, which is also the default amount of
 * WAL that wakes the WAL writer (wal_writer_flush_after).
 */
#define FLUSH_BATCH		(1024 * 1024 / BLCKSZ)

/*
 * Maximum number of buffers that a ring has for dirty pages whose WAL is not
 * flushed.  While the WAL writer flushes the WAL of one batch, the next
 * batches gather.
 */
#define MAX_FLUSH_ROOM	(4 * FLUSH_BATCH)

/*
 * For each slot that is taken, this number of dirty pages may be put off, then
 * or later.
 */
#define MAX_PUT_OFF		4

/*
 * The ring keeps this number of blocks in addition to those that other scans
 * have not reached yet.  Each of these scans pins the page that it is at, and
 * what we know of their positions may be a little out of date.
 */
#define KEEP_MORE		256

/* Blocks between two entries of reads_log: see reads_among_last(). */
#define BLOCKS_PER_LOG	16

/* What the next slots need that ring_tend_slots() can't do itself. */
typedef struct TendNeed
{
	bool		unpinned_slot;	/* a slot is pinned, and was not exchanged
								 * with an unpinned one */
	XLogRecPtr	wal;			/* WAL must be flushed up to here, if valid */
} TendNeed;

/* The memory of all rings of the session. */
extern MemoryContext ring_context;

/* The slot n places after current. */
static inline int
slot_ahead(const Ring *ring, int n)
{
	int			slot = ring->public->current + n;

	Assert(n <= ring->public->nbuffers);
	return slot >= ring->public->nbuffers ? slot - ring->public->nbuffers : slot;
}

static inline BufferDesc *
slot_header(const Ring *ring, int slot)
{
	return GetBufferDescriptor(ring->strategy->buffers[slot] - 1);
}

static inline void
empty_slot(Ring *ring, int slot)
{
	if (ring->slots[slot].buffer != InvalidBuffer)
		ring->public->occupied--;
	ring->strategy->buffers[slot] = InvalidBuffer;
	ring->slots[slot].buffer = InvalidBuffer;
	ring->slots[slot].state = SLOT_FREE;
}

/*
 * The slot's buffer was given to another page, or was replaced without a read
 * of ours.  A ring that only observes keeps the buffer, so the loss must be
 * counted only once.
 */
static inline void
note_loss(Ring *ring, RingSlot *slot)
{
	if (slot->state != SLOT_LOST)
		ring->public->counts.slots_lost++;
	slot->state = SLOT_LOST;
}

/* Is this a page of the relation and fork that the stream reads? */
static inline bool
tag_is_ours(const Ring *ring, const BufferTag *tag)
{
	return BufTagMatchesRelFileLocator(tag, &ring->locator) &&
		BufTagGetForkNum(tag) == ring->forknum;
}

/* Does the ring reuse dirty pages, rather than leave them behind? */
static inline bool
keeps_dirty(const Ring *ring)
{
	return ring->options.write_dirty && !ring->options.observe;
}

/*
 * The ring keeps dirty pages.  Is it to leave the next one in the pool all the
 * same, if its WAL is not flushed?  See plan_dirty_to_leave().
 */
static inline bool
leaves_dirty(const Ring *ring)
{
	return ring->options.leave_dirty != NULL && *ring->options.leave_dirty > 0;
}

/*
 * The index, for asked_block(), of the block that the reader gets next: the
 * number of blocks that were asked for before it.
 */
static inline int64
next_to_consume(const Ring *ring)
{
	return ring->public->counts.consumed + ring->public->counts.unconsumed;
}

/* Number of blocks that were asked for and that the reader is still to get. */
static inline int64
blocks_ahead(const Ring *ring)
{
	return ring->public->counts.blocks - next_to_consume(ring);
}

/*
 * Since the stream started, or the ring began anew, has the stream taken fewer
 * slots than the ring has?  This counts reads, unlike calls_in_revolution,
 * which also counts hits.
 */
static inline bool
in_first_revolution(const Ring *ring)
{
	return ring->public->counts.blks_read - ring->ahead.reads_at_start < ring->public->nbuffers;
}

/*
 * The n-th block that was asked for, counted from 0 over the ring's whole
 * life, if that is remembered.  Blocks that ring_take_over() has counted are
 * not: their entries are 0 until they are overwritten.
 */
static inline BlockNumber *
asked_block(const Ring *ring, int64 n)
{
	return &ring->ahead.asked[n & ring->ahead.asked_mask];
}

/* May this be one of the own blocks that the ring holds? */
static inline bool
may_be_own(const Ring *ring, BlockNumber block)
{
	return block >= ring->ahead.own_low && block <= ring->ahead.own_high;
}

/* If the slot holds an own block, note that from now on the ring holds it. */
static inline void
note_own_block(Ring *ring, const RingSlot *slot)
{
	if (slot->buffer == InvalidBuffer || !tag_is_ours(ring, &slot->tag))
		return;
	ring->ahead.own_low = Min(ring->ahead.own_low, slot->tag.blockNum);
	ring->ahead.own_high = Max(ring->ahead.own_high, slot->tag.blockNum);
	ring->ahead.own_asked = ring->public->counts.blocks;
	ring->ahead.reads_at_exchange = ring->public->counts.blks_read;
}

/*
 * May the ring hold own blocks, that is, blocks that the stream will ask for?
 * If the stream finds such a block in the ring, it pins the slot's buffer.
 *
 * The ring may hold own blocks that were read before the stream started, or
 * that came with lent buffers when the ring began anew (lend_fill_anew()) or
 * grew (ring_grow()).  They are gone when all slots have been taken since
 * then.  But if a slot with an own block was exchanged with a later slot, all
 * slots must have been taken since that exchange.  If the reader repeats
 * blocks, all its blocks are own blocks.
 */
static inline bool
may_hold_own_blocks(const Ring *ring)
{
	return ring->options.repeats_blocks ||
		(ring->ahead.own_low <= ring->ahead.own_high &&
		 ring->public->counts.blks_read - ring->ahead.reads_at_exchange < ring->public->nbuffers);
}

/*
 * May a pending block be an own block, so that the stream will find it in the
 * ring?
 */
static inline bool
may_find_own_blocks(const Ring *ring)
{
	return may_hold_own_blocks(ring) &&
		(ring->options.repeats_blocks ||
		 ring->public->counts.blocks - ring->ahead.own_asked < ring->ahead.reach);
}

/*
 * Does a slot with this tag hold a pending block?  If so, the stream will find
 * the block there, and pin the buffer before or while the next read takes its
 * slots.
 */
static inline bool
holds_pending_block(const Ring *ring, const BufferTag *tag)
{
	if (!may_find_own_blocks(ring) || !tag_is_ours(ring, tag))
		return false;
	for (int64 n = ring->public->counts.blocks - ring->ahead.pending; n < ring->public->counts.blocks; n++)
		if (*asked_block(ring, n) == tag->blockNum)
			return true;
	return false;
}

/*
 * Is the slot free of pins?  It is if it is empty, or if its buffer is not
 * pinned and the stream is not about to pin it.
 */
static inline bool
slot_is_unpinned(const Ring *ring, int slot)
{
	return ring->strategy->buffers[slot] == InvalidBuffer ||
		(BUF_STATE_GET_REFCOUNT(compat_read_buf_state(slot_header(ring, slot))) == 0 &&
		 !holds_pending_block(ring, &ring->slots[slot].tag));
}

/*
 * The LSN of the slot's page; invalid if no WAL needs to be flushed for the
 * page, because it is clean or its relation is unlogged.
 */
static inline XLogRecPtr
slot_lsn(const Ring *ring, int slot, compat_buf_state state)
{
	if ((state & BM_DIRTY) == 0 || (state & BM_PERMANENT) == 0)
		return InvalidXLogRecPtr;
	return PageGetLSN(BufferGetPage(ring->strategy->buffers[slot]));
}

/*
 * The slot of a page with this slot_lsn() will be taken soon.  If the page is
 * dirty and its relation is logged, note that for ring_announce_wal().  Note
 * it even if the page's WAL is flushed: the page shows that the reader dirties
 * pages, and the WAL of those that it dirties now is still to be flushed.
 */
static inline void
note_dirty(Ring *ring, XLogRecPtr lsn)
{
	if (lsn != InvalidXLogRecPtr)
		ring->wal.dirty_seen = true;
}

/*
 * Is the slot empty, or in the usual state, in which it is reusable: its page
 * is still there, no process uses the page, and the page is clean, or, if the
 * ring keeps dirty pages, can be written because its WAL is known to be
 * flushed?  This is called two or three times for each block, so it must be
 * cheap.  If the answer is no, tend_one_slot() looks closer.
 */
static inline bool
slot_is_plainly_reusable(Ring *ring, int slotno)
{
	const RingSlot *slot = &ring->slots[slotno];
	BufferDesc *header;
	compat_buf_state state;
	XLogRecPtr	lsn;

	if ((slot->state != SLOT_FREE && slot->state != SLOT_DIRTY) ||
		ring->strategy->buffers[slotno] != slot->buffer)
		return false;
	if (slot->buffer == InvalidBuffer)
		return true;

	header = GetBufferDescriptor(slot->buffer - 1);
	state = compat_read_buf_state(header);
	if (BUF_STATE_GET_REFCOUNT(state) != 0 || BUF_STATE_GET_USAGECOUNT(state) > 1 ||
		!BufferTagsEqual(&header->tag, &slot->tag))
		return false;
	if ((state & BM_DIRTY) == 0)
		return true;

	lsn = slot_lsn(ring, slotno, state);
	if (!keeps_dirty(ring) || lsn > ring->wal.flushed)
		return false;
	note_dirty(ring, lsn);
	return true;
}

/* The next slots have to be looked at again. */
static inline void
forget_reusable(Ring *ring)
{
	ring->ahead.nreusable = 0;
	ring->ahead.calls_to_skip = 0;
	ring->ahead.quiet_calls = 0;
}

static inline void
exchange_slots(Ring *ring, int a, int b)
{
	RingSlot	slot = ring->slots[a];

	ring->slots[a] = ring->slots[b];
	ring->slots[b] = slot;
	ring->strategy->buffers[a] = ring->slots[a].buffer;
	ring->strategy->buffers[b] = ring->slots[b].buffer;
}

/*
 * Is the ring open?  If so, each read takes a buffer from the pool and leaves
 * the page there.  If the reader is to leave some pages in the pool
 * (leave_first), the ring is open for its first reads.  If the ring is to use
 * free buffers first (free_first), it is open until a call finds that the
 * server has none.  Then it stays closed.  (In a full pool a few buffers
 * become free now and then, for example by TRUNCATE.  But the server does not
 * tell how many are free, so a read might need more and evict pages.)
 */
static inline bool
leaves_buffers(const Ring *ring)
{
	return !ring->options.observe &&
		(ring->in_first_reads || ring->options.free_first);
}

/* How many buffers of a ring with these options may look-ahead pin? */
static inline int
pin_limit(const RingOptions *options)
{
	return Max(1, options->capacity - (options->observe ? 0 : options->headroom));
}

/* Can the ring's size change? */
static inline bool
sizes_itself(const Ring *ring)
{
	return ring->options.capacity > ring->options.nbuffers && !ring->options.observe;
}

/* Number of blocks that reads_log covers, back from the last one asked for. */
static inline int
blocks_remembered(const Ring *ring)
{
	return ring->options.window + KEEP_MORE;
}

/*
 * The last entry of reads_log that was made when no more than "blocks" blocks
 * had been asked for.
 */
static inline int64 *
logged_reads(const Ring *ring, int64 blocks)
{
	return &ring->sharing.reads_log[(blocks / BLOCKS_PER_LOG) & ring->sharing.log_mask];
}

/* asked.c */
extern void ring_allocate_history(Ring *ring, Relation rel);

/* watch.c */
extern void ring_watch_slot(Ring *ring, int slotno, bool came_round);

/*
 * Watch the slot if the server has emptied or filled it since the last look.
 */
static inline void
watch_if_unseen(Ring *ring, int slotno)
{
	if (ring->strategy->buffers[slotno] != ring->slots[slotno].buffer)
		ring_watch_slot(ring, slotno, true);
}

/* tend.c */
extern void ring_look_for_own_blocks(Ring *ring);
extern TendNeed ring_tend_slots(Ring *ring, int pending);
extern void ring_leave_slots(Ring *ring, int pending);
extern void ring_flush_wal(Ring *ring, XLogRecPtr lsn);
extern void ring_announce_wal(Ring *ring);

/* size.c */
extern void ring_set_size(Ring *ring, int nbuffers);
extern void ring_grow(Ring *ring, int more);
extern void ring_fit_size(Ring *ring);
extern bool ring_may_grow_past_pinned(const Ring *ring);
extern bool ring_grow_past_pinned(Ring *ring);
extern bool ring_make_flush_room(Ring *ring);

/* lend.c */
extern void lend_slot(const RingSlot *slot);
extern bool lend_take_back(RingSlot *slot);
extern void lend_make_room(int nbuffers);
extern void lend_buffers(Ring *ring, int keep);
extern void lend_cancel_reservation(const Ring *ring);
extern void lend_fill(Ring *ring);
extern void lend_fill_anew(Ring *ring);

#endif							/* RINGCTL_RING_PRIVATE_H */
