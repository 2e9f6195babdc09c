/*-------------------------------------------------------------------------
 *
 * ring.c
 *	  One ring of shared buffers: make it, open a stream on it, watch its
 *	  slots, close it.
 *
 * A ring is the server's BufferAccessStrategy: an array of buffer numbers and
 * the index of the slot that was handed out last.  Every read of a block that
 * is not in shared_buffers takes the next slot.  If the slot is empty, a
 * victim of the clock sweep fills it; if its buffer is free, the buffer is
 * reused; if it is not, a victim of the clock sweep takes its place and the
 * old buffer has escaped: it stays behind in shared_buffers, where the scan
 * was not meant to leave anything.
 *
 * The server tells nobody about this, and offers no way to influence it.  But
 * a read stream asks a callback for every block before it reads it, and we
 * own the array.  So, at every call:
 *
 *	1. next_block says which block comes next;
 *	2. the ring is watched: what became of the slots that were passed?
 *	3. the ring is tended: the slots that may be taken before the next call
 *	   are put into a state in which the server will reuse them.
 *
 *	    slots ahead, oldest first                 slots behind, newest last
 *	    |<--- reach --->|                                       |
 *	  +---+---+---+---+---+---+---+---+---+---+---+---+---+---+---+
 *	  | f | D | f | P | f | f | f | f | f | f | s | s | s | s | s |
 *	  +---+---+---+---+---+---+---+---+---+---+---+---+---+---+---+
 *	    ^           |   ^   |                   |               |
 *	    |           +-exchange                  +- look-ahead  -+- current
 *	    next to be taken
 *
 *	  f free, s pinned by the stream's look-ahead, P pinned by something else
 *	  (a tuple slot that points to an old page), D dirty, its WAL not flushed
 *
 * Between two calls no more slots are taken than there are blocks that wait
 * to be read, and these are never more than one combined read: the reach.  In
 * the picture P is exchanged with a free slot beyond the reach (or in a small
 * ring, with one farther away within it), and WAL is flushed up to D's LSN.
 * Then the next read finds only buffers that it can reuse: the ring is closed.
 *
 * A page is read and scanned in two microseconds where the operating system has
 * it, so a call must be cheap.  Most are quiet: the slots of the next read are
 * looked at together, as soon as the last one has begun; nothing is left to do
 * for its blocks then until the read is full, and its slots are looked at again.
 *
 * Look-ahead: the server lets it pin the whole ring, and then the ring comes
 * round to buffers that are still pinned.  The stream asks for the ring's
 * size once, when it begins; at that moment we show it a ring that is smaller
 * by the headroom.
 *
 * Dirty buffers: the server gives up a dirty buffer whose WAL is not flushed.
 * A scan that sets hint bits with checksums on dirties every page.  We flush
 * when such a page comes into reach, and then up to the highest LSN of the
 * pages that follow, a batch of them, so that one wait for the WAL's disk
 * serves many pages; half a batch earlier we ask the WAL writer to go ahead,
 * so that mostly there is nothing left to wait for.  A ring that sizes itself
 * makes room for the batch; and if it has to wait nevertheless, for four, so that
 * the WAL writer flushes one while others gather.
 *
 * Where few pages are dirty, as behind an UPDATE of some rows, a batch would
 * take a large ring.  Instead such a page is put off: it is exchanged with the
 * clean page that the reader has let go last, and comes round once more.  So
 * dirty pages gather in the ring, and the scan goes on with the clean ones,
 * until hardly any are left, or the WAL writer has flushed in the meantime.
 *
 * Strangers: the clock sweep may take a buffer out of the ring and give it to
 * another page.  The slot still names it.  We remember the tag that each slot
 * held, and empty a slot whose buffer has another one now.  A buffer without a
 * page is nobody else's, and stays: where somebody else was first to read a
 * block, the victim that was found for it has none.
 *
 * Watching is a comparison with a private copy of the array.  Normally only
 * the slots that "current" passed are looked at.  Where the server may have
 * rejected many dirty buffers (it passes a slot for each), or a read may be
 * as large as the ring, "current" may have come full circle; that shows in
 * the slot after it, which can only have changed if it was passed as well,
 * and then the whole array is compared.
 *
 * A ring's buffers stay behind when its scan ends.  They are lent to the
 * session's next ring, so that a query over a thousand
 * partitions holds one ring, not a thousand: see ring_lend().
 *
 * Buffer headers are read without a lock or a pin here.  That is safe (their
 * memory never goes away) and good enough: what we see decides only what we
 * count and prepare, the server decides again, under the header's lock, what
 * it takes.
 *
 * The ideas are those of the threads "BAS_BULKREAD vs read stream" and
 * "Buffer cache is not scan resistant" on pgsql-hackers.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "compat.h"
#include "executor/instrument.h"
#include "pgstat.h"
#include "ring.h"
#include "utils/memutils.h"

/*
 * How many slots' worth of WAL one flush serves, at best.  A megabyte of full
 * page images, which is also what wakes the WAL writer (wal_writer_flush_after).
 */
#define FLUSH_BATCH		(1024 * 1024 / BLCKSZ)

/*
 * The most slots that a ring has room for because their WAL is not flushed: the
 * WAL writer begins to flush when a batch is there, and others gather until it
 * has.
 */
#define MAX_FLUSH_ROOM	(4 * FLUSH_BATCH)

/*
 * For a clean page to put a dirty one off, so many slots are looked at, and as many
 * as a read takes, which may hold those that were put off just before.
 */
#define CLEAN_PROBES	8

/* So many times in a revolution it is looked at whether the ring is too large. */
#define QUARTERS		4

/* How often it is remembered how much was read so far: see reads_among_last(). */
#define BLOCKS_PER_LOG	16

/*
 * So many blocks more are kept than others have still to come to: they hold the
 * page that they are at, and what is known of them is a little old.
 */
#define KEEP_MORE		256

/*
 * So many slots beyond the reach are looked at one by one for an unpinned one,
 * then in steps that double.  Look-ahead pins the newest slots without a gap,
 * and may pin nearly all; a few pins of other kinds stand alone; and somebody
 * who follows the scan pins some in a row, and next those that come after them:
 * so the steps are large at first.  If they come to none, small ones may.
 */
#define NEAR_SPARES		8
#define MAX_DOUBLINGS	20
#define FEW_DOUBLINGS	5

/*
 * The server's private struct (freelist.c), the same in 17, 18 and 19.  Known
 * to this file alone, and proven by ring_check_server() before first use.
 */
typedef struct BufferAccessStrategyData
{
	BufferAccessStrategyType btype;
	int			nbuffers;
	int			current;		/* the slot that was handed out last */
	Buffer		buffers[FLEXIBLE_ARRAY_MEMBER];
} BufferAccessStrategyData;

/* What look_for_own_blocks() has found. */
typedef enum OwnBlocks
{
	OWN_UNKNOWN,
	OWN_NONE,
	OWN_SOME,
} OwnBlocks;

struct Ring
{
	RingOptions options;
	const RingHost *host;
	void	   *host_arg;
	RingPublic *public;			/* the host's while entered, else own */
	RingPublic	own;
	bool		entered;		/* runs: its public part is the host's */

	ReadStreamBlockNumberCB next_block; /* the caller's callback */
	void	   *next_block_arg;

	Relation	rel;			/* what is read, while it is open */
	const PgStat_TableStatus *stats;	/* its statistics, after that */
	Oid			relid;
	RelFileLocator locator;
	ForkNumber	forknum;

	BufferAccessStrategy strategy;	/* NULL: reads without a ring */
	RingSlot   *slots;			/* our copy of the array; NULL while lent */
	RingSlot   *kept;			/* of an observed ring that doesn't run */
	int			reach;			/* most slots that one read may take */
	int			pending;		/* blocks that may wait to be read, at most */
	int			tended;			/* slots ahead that are known to be fit */
	int			quiet;			/* so many calls need not look at any */
	int64		reads_at_start; /* counts.blks_read when the stream started */
	int64		own_put_off;	/* and when an own block was put off after that */
	OwnBlocks	own_blocks;		/* were any of the stream's in the ring then? */
	BlockNumber *asked;			/* the last blocks asked for: the n-th is at
								 * n & mask */
	int64		asked_mask;
	int			calls_at_rest;	/* calls since current moved */
	int			max_at_rest;	/* after so many of them only one is pending */

	int			peak;			/* most buffers needed in this quarter of a
								 * revolution */
	int			flush_room;		/* of them, to flush WAL for many pages */
	int			quarters_unflushed; /* since that was needed */
	bool		shared;			/* with others who follow, or are in front */
	int64		behind;			/* blocks that the last of them is behind */
	bool		narrow;			/* one of them has fallen too far behind */
	int64	   *reads_log;		/* blks_read at every so many blocks */
	int64		log_mask;
	int64		hits_seen;		/* when sharing was last counted */
	int			excess;			/* slots that it shall get rid of */
	int			calls;			/* in this quarter */

	XLogRecPtr	flushed;		/* WAL known to be flushed up to here */
	XLogRecPtr	announced;		/* and the WAL writer asked up to here */
	int			calls_to_announce;

	int64		misses_seen;	/* misses_so_far(), when last watched */
};

/*
 * The buffers of the session's finished rings: a stack of rings, each with its
 * oldest buffer first; and those that rings let go, which hold no page.  They
 * are anybody's to take, but where nobody did, no victim need be searched for.
 * (One that came back as a victim and was let go once more is here twice; the
 * slot that uses it second is seen to be lost.)
 */
static struct
{
	RingSlot   *slots;
	int			count;
	int			expected;		/* slots of the rings that will be lent */
	int			last;			/* size of the last one */
	int			capacity;		/* room for all of these, always */
}			lent;

static MemoryContext ring_context = NULL;

/* What ring_check_server() found, if anything. */
static const char *mismatch = NULL;

static BlockNumber ring_next_block(ReadStream *stream, void *arg,
								   void *per_buffer_data);
static void make_room_to_lend(int nbuffers);
static void tend(Ring *ring, BlockNumber block);

/*
 * ring_check_server
 *		Does the server's private struct look as this file believes?
 *
 * Makes a ring, checks every field against what it must hold, and checks that
 * what is written through our declaration is read back by the server's own
 * functions.  Works in the postmaster, too.  Returns false, with a WARNING, if
 * anything is different; then no ring may be made.
 */
bool
ring_check_server(void)
{
	int			nbuffers = Min(NBuffers / 8, 32);
	BufferAccessStrategy strategy;
	bool		zero = true;
	bool		size_read_back;

	strategy = GetAccessStrategyWithSize(BAS_BULKREAD, 32 * (BLCKSZ / 1024));

	if (strategy == NULL ||
		GetMemoryChunkSpace(strategy) <
		offsetof(BufferAccessStrategyData, buffers) + nbuffers * sizeof(Buffer))
		mismatch = "A buffer access strategy is smaller than expected.";
	else if (strategy->btype != BAS_BULKREAD)
		mismatch = "A buffer access strategy's type is not where expected.";
	else if (strategy->nbuffers != nbuffers ||
			 GetAccessStrategyBufferCount(strategy) != nbuffers)
		mismatch = "A buffer access strategy's size is not where expected.";
	else
	{
		zero = (strategy->current == 0);
		for (int i = 0; i < nbuffers; i++)
			zero = zero && strategy->buffers[i] == InvalidBuffer;

		strategy->nbuffers = nbuffers - 1;
		size_read_back = GetAccessStrategyBufferCount(strategy) == nbuffers - 1 &&
			GetAccessStrategyPinLimit(strategy) == nbuffers - 1;
		strategy->nbuffers = nbuffers;

		if (!zero)
			mismatch = "A new buffer access strategy is not empty.";
		else if (!size_read_back)
			mismatch = "The server does not see a changed size of a buffer access strategy.";
	}

#ifdef RINGCTL_TEST_MISMATCH
	mismatch = "It was built to find a mismatch.";
#endif

	FreeAccessStrategy(strategy);

	if (mismatch != NULL)
		ereport(WARNING,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pg_ringctl does not work on this server and does nothing"),
				 errdetail_internal("%s", mismatch)));
	return mismatch == NULL;
}

/*
 * ring_require_server
 *		Raise an error if ring_check_server() found that nothing works here.
 */
void
ring_require_server(void)
{
	if (mismatch != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pg_ringctl does not work on this server"),
				 errdetail_internal("%s", mismatch)));
}

/*
 * ring_server_buffers
 *		Size, in buffers, of the ring that the server gives a sequential scan.
 */
int
ring_server_buffers(void)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	int			nbuffers = GetAccessStrategyBufferCount(strategy);

	FreeAccessStrategy(strategy);
	return nbuffers;
}

/*
 * ring_flush_batch
 *		The room, in buffers, that a ring needs beside look-ahead and headroom
 *		so that one flush of WAL serves many dirty pages.
 */
int
ring_flush_batch(void)
{
	return FLUSH_BATCH;
}

/*
 * ring_most_flush_room
 *		The same where every page is dirty, so that the WAL writer can flush for
 *		some while others gather.
 */
int
ring_most_flush_room(void)
{
	return MAX_FLUSH_ROOM;
}

/* The ring has so many slots from now on. */
static void
set_size(Ring *ring, int nbuffers)
{
	ring->strategy->nbuffers = nbuffers;
	ring->public->nbuffers = nbuffers;
	ring->public->nbuffers_max = Max(ring->public->nbuffers_max, nbuffers);
}

/* Of how many blocks is it remembered which ones this ring has read? */
static inline int
blocks_remembered(const Ring *ring)
{
	return ring->options.window + KEEP_MORE;
}

/* How many buffers may look-ahead pin, where it is to be at most max_ahead? */
static int
pin_limit(const Ring *ring, int max_ahead)
{
	int			limit = ring->options.capacity - ring->options.headroom;

	if (max_ahead > 0)
		limit = Min(limit, max_ahead);
	return Max(1, limit);
}

/* Let others see the ring from now on, if the host lets them. */
static void
enter(Ring *ring)
{
	if (ring->strategy != NULL && !ring->options.observe)
		make_room_to_lend(ring->options.capacity);
	ring->public = ring->host->enter(ring->host_arg, ring->options.capacity,
									 &ring->slots);
	*ring->public = ring->own;
	ring->entered = true;
}

/* Its stream does not run any more: take home what is still needed. */
static void
leave(Ring *ring)
{
	ring->own = *ring->public;
	ring->public = &ring->own;
	ring->slots = NULL;
	ring->entered = false;
	ring->host->leave(ring->host_arg);
}

/*
 * ring_create
 *		Make a ring of options->nbuffers buffers, 0 for none.  One that sizes
 *		itself begins with the size of the session's last one, if that is larger.
 *
 * host is called with host_arg for as long as the ring lives.
 *
 * It lives until ring_free(), in the session's memory: an aborted query's
 * ring is still there when its counts are collected.  ring_start() before it
 * is used.
 */
Ring *
ring_create(const RingOptions *options, const RingHost *host, void *host_arg)
{
	Size		size = sizeof(Ring);
	Ring	   *ring;

	if (ring_context == NULL)
		ring_context = AllocSetContextCreate(TopMemoryContext, "pg_ringctl rings",
											 ALLOCSET_DEFAULT_SIZES);

	if (options->nbuffers > 0)
		size = MAXALIGN(size) + offsetof(BufferAccessStrategyData, buffers) +
			options->capacity * sizeof(Buffer);

	ring = MemoryContextAllocZero(ring_context, size);
	ring->options = *options;
	ring->host = host;
	ring->host_arg = host_arg;
	ring->own.nbuffers = ring->own.nbuffers_max = options->nbuffers;
	ring->public = &ring->own;

	if (options->nbuffers > 0)
	{
		ring->strategy = (BufferAccessStrategy) ((char *) ring + MAXALIGN(sizeof(Ring)));
		ring->strategy->btype = BAS_BULKREAD;
		ring->strategy->nbuffers = options->nbuffers;
	}
	return ring;
}

/*
 * What tells reads without a ring from hits: blocks that were not found.  If
 * others may read meanwhile, only the relation's own statistics will do.
 */
static inline int64
misses_so_far(const Ring *ring)
{
	const PgStat_TableStatus *stats = ring->rel ? ring->rel->pgstat_info : ring->stats;

	if (ring->options.alone)
		return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
	return stats == NULL ? 0 : stats->counts.blocks_fetched - stats->counts.blocks_hit;
}

/* What a ring that reads this relation remembers of its blocks. */
static void
make_memory(Ring *ring, Relation rel)
{
	int			ahead = compat_lookahead_limit(rel, ring->options.maintenance) +
		2 * MAX_IO_COMBINE_LIMIT;

	ring->asked_mask = pg_nextpower2_32(ahead) - 1;
	ring->asked = MemoryContextAlloc(ring_context,
									 (ring->asked_mask + 1) * sizeof(BlockNumber));

	if (ring->options.window > 0)
	{
		ring->log_mask = pg_nextpower2_32(blocks_remembered(ring) / BLOCKS_PER_LOG + 4) - 1;
		ring->reads_log = MemoryContextAllocZero(ring_context,
												 (ring->log_mask + 1) * sizeof(int64));
	}
}

/*
 * ring_begin_stream
 *		Begin a read stream whose reads go through the ring.
 *
 * flags, rel, forknum: as for read_stream_begin_relation(); that it does
 * maintenance, the ring's options say.  It looks at most max_ahead buffers
 * ahead, 0 for no limit but the server's and the ring's.  next_block is called
 * with next_block_arg and says which block comes next.  The stream is the
 * caller's to end, before ring_free(); it lives in the current memory context.
 *
 * Another stream may be begun on the same ring, to take the first one's place:
 * when that has ended, call ring_start().
 */
ReadStream *
ring_begin_stream(Ring *ring, int flags, Relation rel, ForkNumber forknum,
				  int max_ahead, ReadStreamBlockNumberCB next_block,
				  void *next_block_arg)
{
	ReadStream *stream;

	if (ring->asked == NULL)
		make_memory(ring, rel);

	ring->next_block = next_block;
	ring->next_block_arg = next_block_arg;
	ring->rel = rel;
	ring->relid = RelationGetRelid(rel);
	ring->locator = rel->rd_locator;
	ring->forknum = forknum;
	ring->misses_seen = misses_so_far(ring);

	/* The stream asks for the pin limit now, and never again. */
	if (ring->strategy && !ring->options.observe)
		ring->strategy->nbuffers = pin_limit(ring, max_ahead);

	if (ring->options.maintenance)
		flags |= READ_STREAM_MAINTENANCE;
	stream = read_stream_begin_relation(flags, ring->strategy, rel, forknum,
										ring_next_block, ring, 0);

	if (ring->strategy)
	{
		ring->reach = Min(io_combine_limit, ring->strategy->nbuffers);
		ring->strategy->nbuffers = ring->public->nbuffers;

		/*
		 * Look-ahead shrinks by one a hit, some time after the last read was
		 * waited for.  After so many calls without a read there is none left,
		 * and nothing is pending but one block.
		 */
		ring->max_at_rest = compat_hits_end_lookahead() ?
			3 * ring->options.capacity + 2 * io_combine_limit : PG_INT32_MAX;
	}
	return stream;
}

/* The slot n places after the one that was handed out last. */
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

static void
empty_slot(Ring *ring, int slot)
{
	if (ring->slots[slot].buffer != InvalidBuffer)
		ring->public->occupied--;
	ring->strategy->buffers[slot] = InvalidBuffer;
	ring->slots[slot].buffer = InvalidBuffer;
	ring->slots[slot].state = SLOT_FREE;
}

/* Is this the page of a block that the stream reads? */
static inline bool
tag_is_ours(const Ring *ring, const BufferTag *tag)
{
	return BufTagMatchesRelFileLocator(tag, &ring->locator) &&
		BufTagGetForkNum(tag) == ring->forknum;
}

/* Does the slot differ from what we saw last? */
static inline bool
slot_changed(const Ring *ring, int slot)
{
	Buffer		buffer = ring->strategy->buffers[slot];

	return buffer != ring->slots[slot].buffer ||
		(buffer != InvalidBuffer &&
		 !BufferTagsEqual(&slot_header(ring, slot)->tag, &ring->slots[slot].tag));
}

/* Does the ring keep itself closed, and so dirty pages inside? */
static inline bool
keeps_dirty(const Ring *ring)
{
	return ring->options.write_dirty && !ring->options.observe;
}

/*
 * Why did the server not reuse this slot's buffer?  It looks at pins first,
 * then at the usage count, then at the page.  We look a little later than it
 * did; if nothing is left to see then, what was seen before decides.
 *
 * Where we keep the ring closed, a slot that was fit can only have been pinned
 * by somebody else since, who uses the page, too.  A dirty buffer was rejected and
 * its slot emptied, so it can only have been replaced if the ring came round to
 * it again.
 */
static RingSlotState
escape_reason(const Ring *ring, const RingSlot *slot, bool came_round)
{
	BufferDesc *header = GetBufferDescriptor(slot->buffer - 1);
	compat_buf_state state = compat_read_buf_state(header);
	bool		pinned_by_us = slot->state == SLOT_PINNED || !keeps_dirty(ring);

	if (!slot_holds_page(slot))
		return SLOT_LOST;		/* nothing of ours stays behind */
	if (BUF_STATE_GET_REFCOUNT(state) == 0)
	{
		if (BUF_STATE_GET_USAGECOUNT(state) > 1 || slot->state == SLOT_ADOPTED)
			return SLOT_ADOPTED;
		if (came_round && (state & BM_DIRTY) && slot->state != SLOT_PINNED)
			return SLOT_DIRTY;
	}
	return pinned_by_us ? SLOT_PINNED : SLOT_ADOPTED;
}

/* The page in the slot stayed behind. */
static void
report_escape(const Ring *ring, const RingSlot *slot, RingSlotState reason)
{
	ring->host->escaped(ring->host_arg, slot, reason);
}

/* Another buffer holds one of our blocks in the slot: count what happened. */
static void
count_replacement(Ring *ring, const RingSlot *slot, bool came_round)
{
	RingCounts *counts = &ring->public->counts;
	RingSlotState reason;

	if (slot->buffer == InvalidBuffer)
	{
		counts->fills++;
		return;
	}

	reason = escape_reason(ring, slot, came_round);
	if (reason != SLOT_LOST)
		report_escape(ring, slot, reason);
	switch (reason)
	{
		case SLOT_FREE:			/* is no reason */
			Assert(false);
			break;
		case SLOT_PINNED:
			counts->escapes_pinned++;
			break;
		case SLOT_ADOPTED:
			counts->escapes_adopted++;
			break;
		case SLOT_DIRTY:
			/* rejected on the way round, and filled again when it came back */
			counts->escapes_dirty++;
			counts->fills++;
			break;
		case SLOT_LOST:
			counts->slots_lost++;
			counts->fills++;
			break;
	}
}

/*
 * The server rejected the slot's buffer, because its page was dirty.  The page
 * escaped, unless it is a stranger's, who took the buffer just before.
 */
static void
count_rejection(Ring *ring, const RingSlot *slot)
{
	if (!slot_holds_page(slot))
	{
		ring->public->counts.slots_lost++;
		return;
	}
	ring->public->counts.escapes_dirty++;
	report_escape(ring, slot, SLOT_DIRTY);
}

/*
 * Compare one slot with what we saw last, count what happened to it, and
 * remember what is in it now.  came_round says whether it may have been passed
 * more than once.
 *
 * Called for each block that is read, so it is inline.
 */
static pg_attribute_always_inline void
watch_slot(Ring *ring, int slotno, bool came_round)
{
	RingSlot   *slot = &ring->slots[slotno];
	Buffer		buffer = ring->strategy->buffers[slotno];
	BufferTag	tag;

	if (buffer == InvalidBuffer)
	{
		/* Only StrategyRejectBuffer() empties a slot. */
		if (slot->buffer != InvalidBuffer)
		{
			count_rejection(ring, slot);
			empty_slot(ring, slotno);
		}
		return;
	}

	tag = slot_header(ring, slotno)->tag;
	if (buffer == slot->buffer && BufferTagsEqual(&tag, &slot->tag))
		return;					/* passed over, or not reached yet */

	if (tag_is_ours(ring, &tag))
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
		 * A stranger's page: the buffer was taken from us, or the server put
		 * a victim into the slot that somebody else snatched before it was
		 * read into.  Never reuse that, unless we only observe.  But if there
		 * is no page, somebody else was first to read the block: the buffer is
		 * free, and the next read takes it.
		 */
		if (slot->buffer != InvalidBuffer &&
			!(tag_is_clear(&tag) && slot->buffer == buffer))
			ring->public->counts.slots_lost++;
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
	slot->state = SLOT_FREE;
}

/*
 * May current have come full circle since we watched last?  Then the slot after
 * it was passed as well.
 *
 * Where we keep the ring closed, and it has more slots than one read takes,
 * that takes many rejections, which empty slots; so it is enough to look for
 * another buffer there.  Another page in the same buffer does not prove it: the
 * clock sweep may have taken the buffer, and even given it back to us for an
 * empty slot.
 */
static bool
came_round(const Ring *ring)
{
	int			next = slot_ahead(ring, 1);

	if (keeps_dirty(ring) && ring->public->nbuffers > ring->reach)
		return ring->strategy->buffers[next] != ring->slots[next].buffer;
	return slot_changed(ring, next);
}

/*
 * Without a ring, what the misses grew by since the last call was read by this
 * stream, but never more than it asked for.  In 19 there may be less of them: a
 * block that another process is reading counts as a hit when it has been waited
 * for.  (If the same query reads the relation in another way too, a hit may be
 * taken for a read.)
 */
static void
count_unringed(Ring *ring)
{
	RingCounts *counts = &ring->public->counts;
	int64		misses = misses_so_far(ring);
	int64		unringed = counts->blks_unringed + misses - ring->misses_seen;

	counts->blks_unringed = Max(0, Min(unringed, counts->blocks));
	ring->misses_seen = misses;
}

/*
 * When the server's ring comes round within one read, because it rejected many
 * dirty buffers, that may come to a slot that it took itself just before, and
 * replace the buffer, which is pinned.  The slot does not show that; but the
 * relation's statistics count one more block that was not found.
 */
static void
count_unseen(Ring *ring, int64 seen, bool round)
{
	RingCounts *counts = &ring->public->counts;
	int64		misses = misses_so_far(ring);
	int64		unseen = Min(misses - ring->misses_seen - seen,
							 counts->blocks - counts->blks_read);

	if (round && unseen > 0 && unseen <= ring->reach)
	{
		counts->blks_read += unseen;
		counts->escapes_pinned += unseen;
	}
	ring->misses_seen = misses;
}

/*
 * ring_watch
 *		Count what happened to the slots since the last call.
 *
 * Called for every block; and once more when the stream has ended, because
 * its last read starts after its last call.
 */
void
ring_watch(Ring *ring)
{
	int			current;
	int			passed;
	bool		round;
	int64		reads = ring->public->counts.blks_read;

	ring->quiet = 0;
	if (ring->strategy == NULL)
		count_unringed(ring);
	if (ring->slots == NULL)
		return;

	/* slot_ahead() counts from where the server is now */
	current = ring->public->current;
	ring->public->current = ring->strategy->current;

	passed = ring->public->current - current;
	if (passed < 0)
		passed += ring->public->nbuffers;
	round = came_round(ring);
	if (round)
		passed = ring->public->nbuffers;

	ring->calls_at_rest = passed > 0 ? 0 : ring->calls_at_rest + 1;
	ring->tended = Max(0, ring->tended - passed);

	/* from the one that was handed out last, backwards */
	for (int slot = ring->public->current; passed > 0; passed--)
	{
		watch_slot(ring, slot, round);
		slot = (slot == 0 ? ring->public->nbuffers : slot) - 1;
	}
	if (ring->options.observe)
		count_unseen(ring, ring->public->counts.blks_read - reads, round);
	ring->pending = Max(0, ring->pending - (int) (ring->public->counts.blks_read - reads));
}

/* Which of the blocks asked for comes next to be handed out? */
static inline int64
next_to_consume(const Ring *ring)
{
	return ring->public->counts.consumed + ring->public->counts.unconsumed;
}

/* In how many slots are blocks that are being read, or were and wait for it? */
static inline int
slots_ahead(const Ring *ring)
{
	int64		asked = ring->public->counts.blocks - next_to_consume(ring);

	return (int) Max(0, asked - ring->pending);
}

/*
 * ring_consume
 *		The reader holds this block now: it has got it, and what was asked for
 *		before it.
 */
void
ring_consume(Ring *ring, BlockNumber block)
{
	RingCounts *counts = &ring->public->counts;
	int64		next = next_to_consume(ring);

	/* It has had it for some time; or another pass begins where one ended. */
	if (next > 0 && ring->asked[(next - 1) & ring->asked_mask] == block &&
		(next == counts->blocks || ring->asked[next & ring->asked_mask] != block))
		return;
	for (int64 n = next; n < counts->blocks; n++)
	{
		if (ring->asked[n & ring->asked_mask] == block)
		{
			counts->consumed += n + 1 - next;
			return;
		}
	}
}

/*
 * ring_consume_next, ring_consume_rest
 *		The reader has got another block, or all that were asked for.
 */
void
ring_consume_next(Ring *ring)
{
	if (next_to_consume(ring) < ring->public->counts.blocks)
		ring->public->counts.consumed++;
}

void
ring_consume_rest(Ring *ring)
{
	ring->public->counts.consumed += ring->public->counts.blocks - next_to_consume(ring);
}

/*
 * ring_drop_rest
 *		The reader ends, or starts somewhere else, and does not want the blocks
 *		that it has asked for but not got.
 */
void
ring_drop_rest(Ring *ring)
{
	ring->public->counts.unconsumed += ring->public->counts.blocks - next_to_consume(ring);
}

/*
 * The stream pins what it finds, and may find its own blocks in the ring: those
 * that were read before it started, until the ring has come round.  Where such
 * a slot was exchanged, it comes later: then the round counts from there.  A
 * reader that returns to blocks which it has had may find them at any time.
 */
static inline bool
may_find_own_blocks(const Ring *ring)
{
	return ring->options.returns ||
		(ring->own_blocks != OWN_NONE &&
		 ring->public->counts.blks_read - ring->own_put_off < ring->public->nbuffers);
}

/*
 * A stream that finds everything elsewhere never brings the ring round.  So when
 * it has read nothing for some calls, look whether there are blocks of its in the
 * ring at all: what it reads later in the same pass it does not ask for again.
 */
static void
look_for_own_blocks(Ring *ring)
{
	if (ring->own_blocks != OWN_UNKNOWN || ring->options.returns ||
		ring->calls_at_rest < 2 * ring->reach ||
		ring->public->counts.blks_read != ring->reads_at_start)
		return;

	ring->own_blocks = OWN_NONE;
	for (int slot = 0; slot < ring->public->nbuffers && ring->own_blocks == OWN_NONE; slot++)
		if (ring->slots[slot].buffer != InvalidBuffer &&
			tag_is_ours(ring, &ring->slots[slot].tag))
			ring->own_blocks = OWN_SOME;
}

/*
 * Does the slot hold a block that waits to be read?  It will be found there and
 * pinned, before or while the next read takes slots.
 */
static bool
holds_pending_block(const Ring *ring, const BufferTag *tag)
{
	if (!may_find_own_blocks(ring) || !tag_is_ours(ring, tag))
		return false;
	for (int64 n = ring->public->counts.blocks - ring->pending; n < ring->public->counts.blocks; n++)
		if (ring->asked[n & ring->asked_mask] == tag->blockNum)
			return true;
	return false;
}

/* May a read take the slot: is it empty, or will nobody pin its buffer? */
static inline bool
slot_is_unpinned(const Ring *ring, int slot)
{
	return ring->strategy->buffers[slot] == InvalidBuffer ||
		(BUF_STATE_GET_REFCOUNT(compat_read_buf_state(slot_header(ring, slot))) == 0 &&
		 !holds_pending_block(ring, &ring->slots[slot].tag));
}

/*
 * Where the slots are that a pinned one may be exchanged with, in places from
 * current: beyond the reach, or if there is none, within it.
 */
typedef struct Spares
{
	int			next_beyond;
	int			misses;			/* in a row */
	bool		again;			/* once more, in smaller steps */
	int			last_within;
	int			last_clean;		/* for dirty ones; 0: not known yet */
	int			probes;
} Spares;

/* The next spare beyond those that were looked at; -1 if these steps find none. */
static int
search_beyond(const Ring *ring, Spares *spares)
{
	int			max_doublings = spares->again ? FEW_DOUBLINGS : MAX_DOUBLINGS;

	while (spares->next_beyond <= ring->public->nbuffers)
	{
		int			slot = slot_ahead(ring, spares->next_beyond);

		if (slot_is_unpinned(ring, slot))
		{
			spares->misses = 0;
			spares->next_beyond++;
			return slot;
		}
		spares->misses++;
		spares->next_beyond += spares->misses <= NEAR_SPARES ? 1 :
			1 << Min(spares->misses - NEAR_SPARES, max_doublings);
	}
	return -1;
}

/* The next spare beyond the reach; -1 if none is found. */
static int
spare_beyond(const Ring *ring, Spares *spares)
{
	int			slot = search_beyond(ring, spares);

	if (slot < 0 && !spares->again)
	{
		spares->again = true;
		spares->misses = 0;
		spares->next_beyond = ring->reach + 1;
		slot = search_beyond(ring, spares);
	}
	return slot;
}

/* The next spare within the reach, farther away than n places; -1 if none. */
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

static void
exchange_slots(Ring *ring, int a, int b)
{
	RingSlot	slot = ring->slots[a];

	ring->slots[a] = ring->slots[b];
	ring->slots[b] = slot;
	ring->strategy->buffers[a] = ring->slots[a].buffer;
	ring->strategy->buffers[b] = ring->slots[b].buffer;
}

/*
 * The LSN of a slot's page, or an invalid one if it needs no WAL flushed: it
 * is clean, or nobody's after a crash.
 */
static inline XLogRecPtr
slot_lsn(const Ring *ring, int slot, compat_buf_state state)
{
	if ((state & BM_DIRTY) == 0 || (state & BM_PERMANENT) == 0)
		return InvalidXLogRecPtr;
	return PageGetLSN(BufferGetPage(ring->strategy->buffers[slot]));
}

/* Can the ring's size change? */
static inline bool
sizes_itself(const Ring *ring)
{
	return ring->options.capacity > ring->options.nbuffers && !ring->options.observe;
}

/*
 * May it grow because of pins?  Where it alone finds its own blocks, these pins
 * are its own, and it has room for them.
 */
static inline bool
can_step_aside(const Ring *ring)
{
	return sizes_itself(ring) && (ring->shared || !may_find_own_blocks(ring)) &&
		ring->public->nbuffers < ring->options.capacity;
}

/*
 * Even before it looks for a spare slot within the reach?  Where reads are
 * shared, others are meant to pin what is in it, and each ring would come to
 * hold what all of them hold: there it is the last resort.
 */
static inline bool
had_better_step_aside(const Ring *ring)
{
	return !ring->shared && can_step_aside(ring);
}

/*
 * Is the slot in the state that nearly all are in: what was in it is still
 * there, clean, and nobody uses it?  Asked for each block twice, so it is to be
 * cheap; tend_slot() looks closer.
 */
static inline bool
slot_is_plainly_fit(const Ring *ring, int slotno)
{
	const RingSlot *slot = &ring->slots[slotno];
	BufferDesc *header;
	compat_buf_state state;

	if (slot->buffer == InvalidBuffer || slot->state != SLOT_FREE ||
		ring->strategy->buffers[slotno] != slot->buffer)
		return false;

	header = GetBufferDescriptor(slot->buffer - 1);
	state = compat_read_buf_state(header);
	return (state & BM_DIRTY) == 0 &&
		BUF_STATE_GET_REFCOUNT(state) == 0 &&
		BUF_STATE_GET_USAGECOUNT(state) <= 1 &&
		BufferTagsEqual(&header->tag, &slot->tag);
}

/*
 * Look at the slot n places ahead, which a read may take soon, and make it fit
 * to be reused.  Returns the LSN up to which WAL must be flushed for it, if
 * any.
 *
 * A pinned buffer is exchanged with an unpinned one from beyond the reach, so
 * that the next read does not come to it.  If there is none, and the ring had
 * better not step aside, it is exchanged with one from farther away within the
 * reach: look-ahead then pins all the others, and leaves no room for a read that
 * would take more than the unpinned ones.
 */
static XLogRecPtr
tend_slot(Ring *ring, int n, Spares *spares)
{
	int			slotno = slot_ahead(ring, n);
	RingSlot   *slot = &ring->slots[slotno];

	for (;;)
	{
		BufferDesc *header;
		compat_buf_state state;
		int			spare;

		/* The server emptied or filled it without our seeing it pass. */
		if (ring->strategy->buffers[slotno] != slot->buffer)
			watch_slot(ring, slotno, true);
		if (slot->buffer == InvalidBuffer)
			return InvalidXLogRecPtr;

		header = slot_header(ring, slotno);
		state = compat_read_buf_state(header);

		if (tag_is_clear(&header->tag))
			ClearBufferTag(&slot->tag); /* the page is gone, the buffer is not */
		else if (!BufferTagsEqual(&header->tag, &slot->tag))
		{
			ring->public->counts.slots_lost++;
			if (!ring->options.observe)
				empty_slot(ring, slotno);
			else
				slot->tag = header->tag;	/* counted, the server goes on */
			return InvalidXLogRecPtr;
		}

		if (slot_is_unpinned(ring, slotno))
		{
			XLogRecPtr	lsn = slot_lsn(ring, slotno, state);

			if (BUF_STATE_GET_USAGECOUNT(state) > 1)
				slot->state = SLOT_ADOPTED;
			else
				slot->state = (state & BM_DIRTY) ? SLOT_DIRTY : SLOT_FREE;
			return slot->state == SLOT_DIRTY ? lsn : InvalidXLogRecPtr;
		}

		slot->state = SLOT_PINNED;
		if (ring->options.observe)
			return InvalidXLogRecPtr;

		spare = spare_beyond(ring, spares);
		if (spare < 0 && !had_better_step_aside(ring))
			spare = spare_within(ring, n, spares);
		if (spare < 0)
			return InvalidXLogRecPtr;	/* if the ring can't grow, it will
										 * escape when a read comes to it */
		exchange_slots(ring, slotno, spare);
		if (may_find_own_blocks(ring) && tag_is_ours(ring, &ring->slots[spare].tag))
			ring->own_put_off = ring->public->counts.blks_read;
	}
}

/*
 * May dirty pages be put off?  Not where reads are shared: what was read last is
 * what others come to next.  Not where own blocks may be found: that must come
 * to an end.  And a ring that sizes itself makes room for them first.
 */
static inline bool
can_put_off(const Ring *ring)
{
	return !ring->shared && !may_find_own_blocks(ring) &&
		(ring->flush_room > 0 || !sizes_itself(ring));
}

/* Does the slot hold a clean page that nobody uses, or has used again? */
static inline bool
slot_is_clean(const Ring *ring, int slot)
{
	compat_buf_state state;

	if (ring->strategy->buffers[slot] == InvalidBuffer || !slot_is_unpinned(ring, slot))
		return false;
	state = compat_read_buf_state(slot_header(ring, slot));
	return (state & BM_DIRTY) == 0 && BUF_STATE_GET_USAGECOUNT(state) <= 1;
}

/*
 * The slot n places ahead holds a page whose WAL would have to be flushed.  Put
 * it off, if there is a clean one among those that the reader has let go last:
 * look-ahead has pinned what comes after these.  Returns whether there is.
 */
static bool
put_off(Ring *ring, int n, Spares *spares)
{
	if (spares->last_clean == 0)
		spares->last_clean = ring->public->nbuffers - slots_ahead(ring);

	while (spares->probes < ring->reach + CLEAN_PROBES && spares->last_clean > ring->reach)
	{
		int			spare = slot_ahead(ring, spares->last_clean--);

		if (slot_is_clean(ring, spare))
		{
			spares->probes = 0;
			exchange_slots(ring, slot_ahead(ring, n), spare);
			ring->quarters_unflushed = 0;
			return true;
		}
		spares->probes++;
	}
	return false;
}

/* How much WAL is there to be flushed? */
static XLogRecPtr
end_of_wal(void)
{
	return RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();
}

/*
 * Would WAL have to be flushed for a page with this LSN?
 *
 * It was read without a lock and may be nonsense, or the page is damaged: never
 * ask for more WAL than there is, but leave such a page to the server.
 */
static bool
needs_flush(Ring *ring, XLogRecPtr lsn)
{
	if (lsn <= ring->flushed)
		return false;
	if (XLogNeedsFlush(lsn))
		return lsn <= end_of_wal();
	ring->flushed = lsn;
	return false;
}

/*
 * As tend_slot(), but a page whose WAL would have to be flushed is put off, if
 * that can be.  Returns an LSN only if WAL must be flushed up to it.
 */
static XLogRecPtr
tend_slot_or_put_off(Ring *ring, int n, Spares *spares)
{
	XLogRecPtr	lsn;

	do
	{
		lsn = tend_slot(ring, n, spares);
		if (!keeps_dirty(ring) || !needs_flush(ring, lsn))
			return InvalidXLogRecPtr;
	} while (can_put_off(ring) && put_off(ring, n, spares));

	return lsn;
}

/* The highest LSN among the pages that come next, a batch of them. */
static XLogRecPtr
batch_lsn(const Ring *ring)
{
	int			batch = Min(ring->public->nbuffers, ring->reach + FLUSH_BATCH);
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
 * Flush WAL up to lsn, which belongs to a page that may be reused before the next
 * call; and, as it has to be waited for, for those that come after it.
 */
static void
flush_wal(Ring *ring, XLogRecPtr lsn)
{
	XLogRecPtr	batch = batch_lsn(ring);

	if (needs_flush(ring, batch))
		lsn = Max(lsn, batch);
	compat_submit_staged();
	XLogFlush(lsn);
	ring->flushed = Max(ring->flushed, lsn);
	ring->public->counts.wal_flushes++;
	ring->flush_room = Min(2 * ring->flush_room, MAX_FLUSH_ROOM);
}

/* Where it is remembered how many reads there had been at a block. */
static inline int64 *
logged_reads(const Ring *ring, int64 blocks)
{
	return &ring->reads_log[(blocks / BLOCKS_PER_LOG) & ring->log_mask];
}

/* How many of the last so many blocks has this ring read itself? */
static int64
reads_among_last(const Ring *ring, int64 blocks)
{
	const RingCounts *counts = &ring->public->counts;
	int64		since = counts->blocks - blocks - BLOCKS_PER_LOG;

	if (ring->reads_log == NULL || blocks > blocks_remembered(ring))
		return blocks;			/* more than is remembered */
	if (since < 0)
		return Min(blocks, counts->blks_read);
	return counts->blks_read - *logged_reads(ring, since);
}

/*
 * ring_keep
 *		Are the reads shared, and how many blocks ago was what the last of the
 *		others comes to next?  That and what was read since is kept.
 */
void
ring_keep(Ring *ring, bool shared, int64 behind)
{
	ring->shared = shared;
	ring->behind = Min(behind, ring->options.window);
}

/*
 * ring_narrow
 *		One of the others has fallen too far behind: what was kept for it alone
 *		goes at once.
 */
void
ring_narrow(Ring *ring)
{
	ring->narrow = true;
}

/*
 * ring_count_sharing
 *		Count what was found since the last call, if reads are shared now, and how
 *		long the scan waited for them, in microseconds (0: it did not).
 */
void
ring_count_sharing(Ring *ring, int64 waited_us)
{
	RingCounts *counts = &ring->public->counts;
	int64		hits = counts->blocks - counts->blks_read - ring->pending;

	if (ring->shared)
		counts->blks_shared += hits - ring->hits_seen;
	ring->hits_seen = hits;
	if (waited_us > 0)
	{
		counts->share_waits++;
		counts->share_wait_us += waited_us;
	}
}

/*
 * How many buffers does the ring need now?  As many as the stream has asked
 * for and the reader has not got yet, which are pinned, being read or about to
 * be; the headroom; half a read, so that most calls can be quiet; and room for a
 * flush of WAL.  Where reads are shared, what other scans have still to come to
 * is kept, too, and a whole read, because they pin some of it; but only what
 * this ring has read itself is in its slots: the others keep what they have
 * read.  Never less than it began with, nor than one read takes, which is more
 * if io_combine_limit was raised since.
 */
static int
buffers_needed(const Ring *ring)
{
	int64		ahead = ring->public->counts.blocks - next_to_consume(ring);
	int64		needed = ahead + ring->reach / 2;

	if (ring->shared)
		needed = ring->reach +
			reads_among_last(ring, Max(ahead, ring->behind + KEEP_MORE));
	needed += ring->options.headroom + ring->flush_room;
	needed = Max(needed, Max(ring->options.nbuffers, ring->reach));
	return (int) Min(needed, ring->options.capacity);
}

/* Lend a slot's buffer; make_room_to_lend() has made room for it. */
static void
lend_slot(const RingSlot *slot)
{
	Assert(lent.count < lent.capacity);
	lent.slots[lent.count++] = *slot;
}

/*
 * Take the newest of the lent buffers that are still what they were, and return
 * true; or false if there is none.
 */
static bool
take_lent(RingSlot *slot)
{
	while (lent.count > 0)
	{
		*slot = lent.slots[--lent.count];
		if (BufferTagsEqual(&GetBufferDescriptor(slot->buffer - 1)->tag, &slot->tag))
			return true;
	}
	return false;
}

/*
 * Insert so many slots after the one that was handed out last: those that will
 * be taken next.  All others keep their order, so whatever is pinned now comes
 * round later than before.
 *
 * The new slots get what the session's last rings left or let go, or are empty.
 */
static void
grow(Ring *ring, int more)
{
	int			first = ring->public->current + 1;
	int			tail = ring->public->nbuffers - first;
	Buffer	   *buffers = &ring->strategy->buffers[first];
	RingSlot   *slots = &ring->slots[first];

	memmove(buffers + more, buffers, tail * sizeof(Buffer));
	memmove(slots + more, slots, tail * sizeof(RingSlot));
	for (int i = more - 1; i >= 0; i--)
	{
		if (take_lent(&slots[i]))
		{
			ring->public->occupied++;
			ring->own_blocks = OWN_UNKNOWN;
		}
		else
			memset(&slots[i], 0, sizeof(RingSlot));
		buffers[i] = slots[i].buffer;
	}
	set_size(ring, ring->public->nbuffers + more);
	ring->tended = 0;
}

/* May the buffer in this slot, which we have watched, be let go now? */
static bool
is_releasable(const Ring *ring, int slotno)
{
	return slot_is_unpinned(ring, slotno) &&
		(ring->slots[slotno].buffer == InvalidBuffer ||
		 (compat_read_buf_state(slot_header(ring, slotno)) & BM_DIRTY) == 0);
}

/*
 * Let a slot's buffer go.  It was the next one to be reused, so its page shall
 * not outlive that: it is evicted, unless somebody else uses it.  Then the
 * buffer is the next victim of anybody; but we remember it, for when the ring
 * grows again.
 */
static void
release(Ring *ring, int slotno)
{
	RingSlot   *slot = &ring->slots[slotno];
	BufferDesc *header = GetBufferDescriptor(slot->buffer - 1);
	bool		flushed;

	if (slot_has_page(slot))
		ring->public->counts.released++;
	if (BufferTagsEqual(&header->tag, &slot->tag) &&
		BUF_STATE_GET_USAGECOUNT(compat_read_buf_state(header)) <= 1 &&
		(!slot_has_page(slot) ||
		 compat_evict_unpinned_buffer(slot->buffer, false, &flushed)))
	{
		ClearBufferTag(&slot->tag);
		lend_slot(slot);
	}
	empty_slot(ring, slotno);
}

/*
 * Of so many slots from first on take those out of the ring whose buffers can be
 * let go.  Returns how many.
 */
static int
take_out(Ring *ring, int first, int among)
{
	int			end = first + among;
	int			kept = first;
	int			rest = ring->public->nbuffers - end;

	for (int slotno = first; slotno < end; slotno++)
	{
		if (ring->strategy->buffers[slotno] != ring->slots[slotno].buffer)
			watch_slot(ring, slotno, true);
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
	set_size(ring, ring->public->nbuffers - (end - kept));
	ring->tended = 0;
	return end - kept;
}

/*
 * Take at most so many slots out of the ring, those that would be taken next:
 * from the one after current to the array's end, then from its beginning.
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
 * Give the ring the size that it needs: more at once, less when it was too
 * large for a quarter of a revolution, and then little by little.  A window
 * grows by a read at a time: it is large, and has no need to be tight.  But what
 * was kept for one that has fallen too far behind goes at once: the ring would
 * come to just the pages that that one does, and find some of them pinned.
 */
static void
fit_size(Ring *ring)
{
	int			needed = buffers_needed(ring);
	int			nbuffers = ring->public->nbuffers;
	int			least = ring->shared ? ring->reach : 1;

	ring->peak = Max(ring->peak, needed);
	if (needed > nbuffers)
	{
		ring->excess = 0;
		grow(ring, Min(Max(needed - nbuffers, least),
					   ring->options.capacity - nbuffers));
	}
	else if (ring->narrow)
		shrink(ring, nbuffers - needed);
	else if (ring->excess > 0)
	{
		int			less = Min(Min(ring->excess, ring->reach), nbuffers - needed);

		shrink(ring, less);
		ring->excess -= less;
	}
	ring->narrow = false;
}

/*
 * A quarter of a revolution has gone by, or would have if all blocks had been
 * read and not found: was the ring too large?  Not in the first revolution: the
 * stream begins to look ahead with one block, and the ring with the size that
 * the last one found to be right.  Room to flush WAL is kept for two whole ones,
 * because it is needed once in a batch of pages.
 */
static void
end_quarter(Ring *ring)
{
	int			excess = ring->public->nbuffers - Max(ring->peak, ring->options.nbuffers);
	int64		reads = ring->public->counts.blks_read - ring->reads_at_start;

	if (++ring->quarters_unflushed > 2 * QUARTERS)
		ring->flush_room = 0;
	ring->excess = 0;
	if (reads >= ring->public->nbuffers &&
		excess >= Max(ring->reach, ring->public->nbuffers / 8))
		ring->excess = excess;
	ring->peak = ring->calls = 0;
}

/*
 * WAL would have to be flushed for the slots that come next.  If the ring may
 * grow so that one flush serves many pages, and has not done so, let it grow
 * instead: the new slots come next.  Returns whether it did.
 */
static bool
make_flush_room(Ring *ring)
{
	int			more;

	if (!sizes_itself(ring))
		return false;
	ring->quarters_unflushed = 0;
	ring->flush_room = Max(ring->flush_room, FLUSH_BATCH);
	more = buffers_needed(ring) - ring->public->nbuffers;
	if (more < ring->reach)
		return false;
	grow(ring, more);
	tend(ring, InvalidBlockNumber);
	return true;
}

/* Ask the WAL writer, half a batch at a time, to flush what we wrote. */
static void
announce_wal(Ring *ring)
{
	if (ring->calls_to_announce < FLUSH_BATCH / 2)
		return;
	ring->calls_to_announce = 0;

	if (XactLastRecEnd > ring->announced && !RecoveryInProgress())
	{
		ring->announced = XactLastRecEnd;
		XLogSetAsyncXactLSN(XactLastRecEnd);
	}
}

/*
 * How many blocks may wait to be read after this call, which asked for this
 * one, at most?  One more than before, and never more than one read takes; what
 * was read since is not among them.  Hits are not seen, so where there are any
 * it may be fewer; but while everything is a hit, there is only one.
 */
static int
count_pending(Ring *ring, BlockNumber block)
{
	if (ring->calls_at_rest > ring->max_at_rest)
		ring->pending = ring->tended = 0;
	if (block != InvalidBlockNumber)
		ring->pending = Min(ring->pending + 1, ring->reach);
	return ring->pending;
}

/*
 * A slot that comes next is pinned, and there is none to exchange it with:
 * somebody follows the scan, and pins what look-ahead does not.  If the ring
 * may grow, let it: then what is pinned comes later.  Returns whether it did.
 */
static bool
step_aside(Ring *ring)
{
	if (!can_step_aside(ring))
		return false;
	grow(ring, Min(ring->reach, ring->options.capacity - ring->public->nbuffers));
	tend(ring, InvalidBlockNumber);
	return true;
}

/*
 * Look at the slots that may be taken before later calls, too, as far as there
 * is nothing to do with them: until then these calls may be quiet.  Where all
 * are fit, and a full read does not come, because some of its blocks are hits,
 * half of a read's calls may.
 */
static void
look_farther(Ring *ring)
{
	while (ring->tended < ring->reach &&
		   slot_is_plainly_fit(ring, slot_ahead(ring, ring->tended + 1)))
		ring->tended++;
	if (ring->tended == ring->reach && ring->pending == ring->reach)
		ring->quiet = ring->reach / 2;
	else
		ring->quiet = Min(ring->tended, ring->reach - 1) - ring->pending;
}

/*
 * Look at the slots that may be taken before the next call, and make them fit
 * to be reused: those that were not looked at yet, and once more all of them
 * when they make a full read, or may have become unfit.
 */
static void
tend(Ring *ring, BlockNumber block)
{
	int			pending = count_pending(ring, block);
	bool		own_blocks = may_find_own_blocks(ring);
	bool		all = pending == ring->reach || own_blocks;
	XLogRecPtr	lsn = InvalidXLogRecPtr;
	Spares		spares = {
		.next_beyond = ring->reach + 1,
		.last_within = ring->reach,
	};

	for (int n = all ? 1 : ring->tended + 1; n <= pending; n++)
	{
		int			slotno = slot_ahead(ring, n);

		if (own_blocks || !slot_is_plainly_fit(ring, slotno))
			lsn = Max(lsn, tend_slot_or_put_off(ring, n, &spares));

		if (!ring->options.observe && ring->slots[slotno].state == SLOT_PINNED)
		{
			if (step_aside(ring))
				return;
			break;				/* look at it again the next time */
		}
		ring->tended = n;
	}
	if (!own_blocks && ring->public->nbuffers > ring->reach &&
		ring->calls_at_rest <= ring->max_at_rest)
		look_farther(ring);

	if (!keeps_dirty(ring))
		return;

	if (needs_flush(ring, lsn) && !make_flush_room(ring))
		flush_wal(ring, lsn);
	announce_wal(ring);
}

/* Note that a block was asked for, or the end was found. */
static inline void
note_asked(Ring *ring, BlockNumber block)
{
	RingCounts *counts = &ring->public->counts;

	if (ring->reads_log != NULL && counts->blocks % BLOCKS_PER_LOG == 0)
		*logged_reads(ring, counts->blocks) = counts->blks_read;
	if (block != InvalidBlockNumber)
		ring->asked[counts->blocks++ & ring->asked_mask] = block;
	ring->calls++;
	ring->calls_to_announce++;
}

/*
 * Is there nothing to do?  No slot was taken since the last call, and those
 * that may be before the next one are fit: they were looked at together.
 */
static inline bool
is_quiet(const Ring *ring, BlockNumber block)
{
	return ring->quiet > 0 && block != InvalidBlockNumber &&
		ring->strategy->current == ring->public->current;
}

/* Watch the ring, fit its size, and tend its slots. */
static void
attend(Ring *ring, BlockNumber block)
{
	ring_watch(ring);
	note_asked(ring, block);
	if (ring->strategy == NULL)
		return;
	if (sizes_itself(ring))
	{
		if (ring->calls >= ring->public->nbuffers / QUARTERS)
			end_quarter(ring);
		fit_size(ring);
	}
	look_for_own_blocks(ring);
	tend(ring, block);
}

/*
 * The read stream's callback: which block comes next?
 *
 * Most calls are quiet, those of a scan through a closed ring: all but two for
 * a read.
 *
 * Runs in batch mode mostly: what may block here (a flush of WAL, the eviction
 * of a buffer that is let go, waiting for another scan) submits first what is
 * staged.
 */
static BlockNumber
ring_next_block(ReadStream *stream, void *arg, void *per_buffer_data)
{
	Ring	   *ring = (Ring *) arg;
	BlockNumber block;

	block = ring->next_block(stream, ring->next_block_arg, per_buffer_data);

	if (is_quiet(ring, block))
	{
		ring->quiet--;
		ring->pending = Min(ring->pending + 1, ring->reach);
		ring->calls_at_rest++;
		note_asked(ring, block);
	}
	else
		attend(ring, block);
	return block;
}

/*
 * ring_forget_relation
 *		Watch the ring while the relation is still open, and never look at the
 *		relation again.
 *
 * Its statistics stay until the end of the transaction: a stream that ends
 * early may start a last read then.
 */
void
ring_forget_relation(Ring *ring)
{
	ring_watch(ring);
	if (ring->rel != NULL)
		ring->stats = ring->rel->pgstat_info;
	ring->rel = NULL;
}

/*
 * ring_resume
 *		The stream goes on after a pause in which anything may have happened to
 *		the buffers: trust nothing that was seen before.
 */
void
ring_resume(Ring *ring)
{
	ring->tended = ring->quiet = 0;
}

/*
 * ring_let_go
 *		From now on only watch: the kill switch was thrown.
 *
 * Its size does not change any more, but its stream goes on looking ahead: there
 * has to be room for as much as that may pin.
 */
void
ring_let_go(Ring *ring)
{
	if (ring->options.observe)
		return;
	if (ring->slots != NULL && ring->strategy != NULL)
	{
		int			more = ring->options.enough - ring->public->nbuffers;

		ring_watch(ring);
		if (more > 0)
			grow(ring, more);
		ring->misses_seen = misses_so_far(ring);
		lent.expected -= ring->options.capacity;	/* it will lend nothing */
	}
	ring->options.observe = true;
}

/* Give the ring's buffers to the session's next ring, the oldest first. */
static void
lend_slots(Ring *ring)
{
	int			nbuffers = ring->public->nbuffers;

	lent.expected -= ring->options.capacity;
	lent.last = nbuffers;
	if (ring->options.window > 0)	/* the next one may be alone */
		lent.last = Min(nbuffers, ring->options.enough);

	for (int n = 1; n <= nbuffers; n++)
	{
		int			slot = slot_ahead(ring, n);

		if (ring->slots[slot].buffer != InvalidBuffer)
			lend_slot(&ring->slots[slot]);
		ring->strategy->buffers[slot] = InvalidBuffer;
	}
	ring->public->occupied = 0;
}

/*
 * ring_lend
 *		The stream has come to its end: nobody needs to see the ring any more,
 *		and its buffers go to the session's next ring.
 *
 * Should it start again (a rescan), ring_start() gives it buffers again, these
 * or others.  The strategy itself stays with its stream, which knows its
 * address.  A ring that is only observed keeps its buffers, as the server's
 * do.
 */
void
ring_lend(Ring *ring)
{
	if (!ring->entered)
		return;

	ring_watch(ring);
	if (ring->slots != NULL && ring->options.observe)
	{
		Size		size = ring->public->nbuffers * sizeof(RingSlot);

		ring->kept = MemoryContextAlloc(ring_context, size);
		memcpy(ring->kept, ring->slots, size);
	}
	else if (ring->slots != NULL)
		lend_slots(ring);
	leave(ring);
}

/*
 * Make room for a ring of so many buffers to be lent, beside those that will
 * be; now that nothing is aborting.
 */
static void
make_room_to_lend(int nbuffers)
{
	int			capacity = lent.count + lent.expected + nbuffers;

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
 * Give the ring the buffers that the session's finished rings left, as many as
 * it has room for; it has none now.  Those of the last ring are taken first,
 * so that a session which once read through two rings at a time does not keep
 * both in use.  They are put where the next reads take them, the oldest first.
 */
static void
take_back(Ring *ring)
{
	int			nbuffers;
	int			first;

	if (!ring->options.observe)
		lent.expected += ring->options.capacity;

	/* Begin with the size that the last one found to be right. */
	nbuffers = Max(ring->options.nbuffers, Min(lent.last, ring->options.capacity));
	if (ring->options.observe)
		nbuffers = ring->options.enough;
	ring->peak = ring->flush_room = ring->excess = 0;
	ring_keep(ring, false, 0);
	ring->narrow = false;
	set_size(ring, nbuffers);

	first = nbuffers;
	while (!ring->options.observe && first > 0 && take_lent(&ring->slots[first - 1]))
	{
		first--;
		ring->strategy->buffers[first] = ring->slots[first].buffer;
	}
	ring->public->occupied = nbuffers - first;
	memset(ring->slots, 0, first * sizeof(RingSlot));
	memset(ring->strategy->buffers, 0, first * sizeof(Buffer));

	/* The next slot to be handed out is the first of these. */
	ring->strategy->current = ring->public->current =
		(first > 0 ? first : nbuffers) - 1;
	ring->own_blocks = OWN_UNKNOWN;
	ring->calls_at_rest = 0;
	ring->pending = 0;
	ring->tended = 0;
}

/*
 * ring_start
 *		The stream starts, or starts again somewhere else: at the beginning,
 *		or in the other direction.  If the ring was lent, it gets buffers
 *		again.
 */
void
ring_start(Ring *ring)
{
	if (!ring->entered)
	{
		enter(ring);
		if (ring->kept != NULL)
		{
			memcpy(ring->slots, ring->kept,
				   ring->public->nbuffers * sizeof(RingSlot));
			pfree(ring->kept);
			ring->kept = NULL;
		}
		else if (ring->strategy != NULL)
			take_back(ring);
	}
	else
		ring_watch(ring);		/* its last read began after its last call */
	if (ring->public->counts.blks_read != ring->reads_at_start)
		ring->own_blocks = OWN_UNKNOWN;
	ring->reads_at_start = ring->own_put_off = ring->public->counts.blks_read;
	ring->quiet = 0;
}

/*
 * ring_start_pass
 *		As ring_start(), for a reader that begins with its first block.
 */
void
ring_start_pass(Ring *ring)
{
	ring_start(ring);
	ring->public->before = ring->public->counts.consumed;
}

/*
 * ring_close
 *		The stream has ended, or is about to vanish with a failed query: watch
 *		the ring a last time, and lend its buffers.  Its counts can still be
 *		read until ring_free().  May not throw.
 */
void
ring_close(Ring *ring)
{
	ring_watch(ring);
	ring_drop_rest(ring);
	if (!ring->entered)
		return;
	if (ring->slots != NULL && !ring->options.observe)
		lend_slots(ring);
	leave(ring);
}

/*
 * ring_free
 *		Free a closed ring.
 */
void
ring_free(Ring *ring)
{
	if (ring->kept != NULL)
		pfree(ring->kept);
	if (ring->asked != NULL)
		pfree(ring->asked);
	if (ring->reads_log != NULL)
		pfree(ring->reads_log);
	pfree(ring);
}

/* What it was made of. */
const RingOptions *
ring_options(const Ring *ring)
{
	return &ring->options;
}

/* Are its reads shared with others now? */
bool
ring_is_shared(const Ring *ring)
{
	return ring->shared;
}

/* Of the blocks that were asked for, the next one to get; or an invalid one. */
BlockNumber
ring_next_to_get(const Ring *ring)
{
	int64		next = next_to_consume(ring);

	return next < ring->public->counts.blocks ?
		ring->asked[next & ring->asked_mask] : InvalidBlockNumber;
}

/* What others see of it. */
const RingPublic *
ring_public(const Ring *ring)
{
	return ring->public;
}

/* What it did so far. */
const RingCounts *
ring_counts(const Ring *ring)
{
	return &ring->public->counts;
}

/*
 * ring_add_counts
 *		Add what one ring did to what others did.
 */
void
ring_add_counts(RingCounts *to, const RingCounts *from)
{
	to->blocks += from->blocks;
	to->blks_read += from->blks_read;
	to->blks_unringed += from->blks_unringed;
	to->consumed += from->consumed;
	to->unconsumed += from->unconsumed;
	to->fills += from->fills;
	to->reuses += from->reuses;
	to->escapes_pinned += from->escapes_pinned;
	to->escapes_dirty += from->escapes_dirty;
	to->escapes_adopted += from->escapes_adopted;
	to->slots_lost += from->slots_lost;
	to->wal_flushes += from->wal_flushes;
	to->released += from->released;
	to->blks_shared += from->blks_shared;
	to->share_waits += from->share_waits;
	to->share_wait_us += from->share_wait_us;
}
