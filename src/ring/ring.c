/*-------------------------------------------------------------------------
 *
 * ring.c
 *	  One ring of shared buffers: make it, open a stream on it, watch its
 *	  slots, close it.
 *
 * A ring is the server's BufferAccessStrategy: an array of slots with buffer
 * numbers, and "current", the index of the last slot that was taken (or that
 * we have put off: see tend.c).  To read a block that is not in
 * shared_buffers, the server takes the next slot.  If the slot is empty, a
 * free buffer or a victim of the clock sweep fills it.  If the slot has a
 * buffer, the server reuses the buffer if possible.  If not, the buffer
 * escapes: it stays behind in shared_buffers, where the scan was not meant to
 * leave anything.  There are three reasons:
 *
 *	pinned		The buffer is pinned.  The server puts a victim into the slot.
 *	adopted		The page is also used outside the ring.  The server puts a
 *				victim into the slot.
 *	dirty		The page is dirty, and its WAL is not flushed.  The server
 *				empties the slot, and takes the next one.
 *
 * The server does not report escapes, and has no hook to prevent them.  But a
 * read stream calls a callback for every block before it reads the block, and
 * we own the array.  So, at every call (but see next_slots_are_ready() and
 * quiet.c):
 *
 *	- next_block returns the block that comes next.
 *	- The ring is watched (watch.c): what became of the slots that were taken
 *	  since the last call?
 *	- The ring is tended (tend.c): the slots that may be taken before the next
 *	  call are put into a state in which the server will reuse them.  If that
 *	  is not enough, the ring grows (size.c) and is tended again, or WAL is
 *	  flushed.
 *
 * The server lets look-ahead pin the whole ring.  But when all buffers are
 * pinned, so are those in the next slots.  The stream asks for the ring's size
 * only once, when it begins.  At that moment we set the strategy's size to the
 * number of buffers that look-ahead may pin: the ring's capacity minus the
 * headroom.
 *
 * When a scan ends, the buffers of its ring are lent to the session's next
 * ring (lend.c).
 *
 * The ideas are those of the threads "BAS_BULKREAD vs read stream" and
 * "Buffer cache is not scan resistant" on pgsql-hackers.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "ring/ring_private.h"
#include "utils/memutils.h"
#include "utils/rel.h"

MemoryContext ring_context = NULL;

/* What ring_check_server() has found wrong; or NULL. */
static const char *mismatch = NULL;

static BlockNumber ring_next_block(ReadStream *stream, void *arg,
								   void *per_buffer_data);
static void watch_and_tend(Ring *ring, BlockNumber block);

/*
 * ring_check_server
 *		Is the server's private struct as strategy.h declares it?  If not, warn
 *		and return false.  In that case rings must not be made.  A parallel
 *		worker does not warn, because its leader has done so.
 */
bool
ring_check_server(void)
{
	mismatch = strategy_check();
	if (mismatch != NULL)
		ereport(IsParallelWorker() ? DEBUG1 : WARNING,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pg_ringctl does not work on this server and does nothing"),
				 errdetail_internal("%s", mismatch)));
	return mismatch == NULL;
}

/*
 * ring_require_server
 *		Raise an error if ring_check_server() has returned false.
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
 * The ring runs from now on.  If there is room in this process's segment,
 * other sessions see the ring once it is shown: see live_show().  What has no
 * room there is in private memory.
 *
 * If that can't be allocated, raises an error.  The ring then counts as
 * running, but has no slots until ring_close().
 */
static void
start_running(Ring *ring)
{
	int			nslots = ring->options.capacity;

	if (ring->strategy != NULL && !ring->options.observe)
		lend_make_room(nslots);
	ring->live = live_enter(nslots, &ring->not_shown);
	ring->state = RING_RUNNING;
	if (ring->live != NULL)
	{
		ring->slots = live_slots(ring->live);
		ring->public = live_public(ring->live);
		*ring->public = ring->own;
	}
	if (ring->slots == NULL && nslots > 0)
		ring->slots = ring->private_slots =
			MemoryContextAllocExtended(ring_context, nslots * sizeof(RingSlot),
									   MCXT_ALLOC_HUGE);
}

/*
 * How many of the newest buffers of a finished ring must not be lent, so that
 * their pages stay in the pool?
 *
 * If the reader is still to leave pages in the pool (leave_first), none is
 * lent.
 *
 * Otherwise, if the stream was left before its end, the same query may run
 * again and read the same blocks up to there.  So unless the ring has a fixed
 * size, keep as many of the buffers that were read into as the server's own
 * ring would leave in the pool.
 */
static int
buffers_to_keep(const Ring *ring)
{
	if (ring->in_first_reads)
		return ring->public->nbuffers;
	if (!sizes_itself(ring) || ring->ahead.at_end)
		return 0;
	return (int) Min(ring->size.server_buffers, ring->public->counts.blks_read);
}

/*
 * The ring does not run any more: lend its buffers, unless it only observes,
 * and keep its public part in private memory.
 */
static void
stop_running(Ring *ring)
{
	if (ring->slots != NULL && !ring->options.observe)
		lend_buffers(ring, buffers_to_keep(ring));
	ring->state = RING_STOPPED;
	ring->own = *ring->public;
	ring->public = &ring->own;
	if (ring->private_slots != NULL)
		pfree(ring->private_slots);
	ring->slots = ring->private_slots = NULL;
	if (ring->live != NULL)
		live_leave(ring->live);
	ring->live = NULL;
}

/*
 * ring_create
 *		Make a ring with these options.  Call ring_start() before it is used.
 *		If options->nbuffers is 0, the reads go without a strategy, and the
 *		"ring" only counts them.
 *
 * The ring lives until ring_free(), in the session's memory.  So after a query
 * was aborted, its ring is still there and its counts can be collected.
 */
Ring *
ring_create(const RingOptions *options)
{
	int			server_buffers = options->nbuffers > 0 ? strategy_server_buffers() : 0;
	Size		header = sizeof(Ring);
	Size		buffers = 0;
	Ring	   *ring;

	if (ring_context == NULL)
		ring_context = AllocSetContextCreate(TopMemoryContext, "pg_ringctl rings",
											 ALLOCSET_DEFAULT_SIZES);

	if (options->nbuffers > 0)
	{
		header = MAXALIGN(header) + offsetof(BufferAccessStrategyData, buffers);
		buffers = options->capacity * sizeof(Buffer);
	}

	/* ring_start() sets the buffers of the slots that the ring has. */
	ring = MemoryContextAlloc(ring_context, header + buffers);
	memset(ring, 0, header);
	ring->options = *options;
	ring->own.nbuffers = ring->own.nbuffers_max = options->nbuffers;
	ring->in_first_reads = options->leave_first > 0;
	ring->public = &ring->own;
	enabled_mark(&ring->enabled);

	if (options->nbuffers > 0)
	{
		ring->strategy = (BufferAccessStrategy) ((char *) ring + MAXALIGN(sizeof(Ring)));
		ring->strategy->btype = BAS_BULKREAD;
		ring->strategy->nbuffers = options->nbuffers;
		ring->size.server_buffers = server_buffers;
	}
	return ring;
}

/* The ring is about to read blocks of this fork of the relation. */
static void
set_relation(Ring *ring, Relation rel, ForkNumber forknum)
{
	if (ring->ahead.asked == NULL)
		ring_allocate_history(ring, rel);
	ring->relid = RelationGetRelid(rel);
	ring->locator = rel->rd_locator;
	ring->forknum = forknum;
}

/*
 * ring_begin_stream
 *		Begin a read stream whose reads go through the ring.
 *
 * flags, rel, forknum, per_buffer_data_size: as for
 * read_stream_begin_relation(), but the ring's options say whether the stream
 * is for maintenance.  next_block is called with next_block_arg, and returns
 * the block that comes next.  The stream lives in the current memory context.
 * Unless the query has failed, the caller must end the stream before it calls
 * ring_free().
 *
 * To read through another stream, end this one, call ring_drop_unconsumed(),
 * begin another stream on the same ring, and call ring_start().
 */
ReadStream *
ring_begin_stream(Ring *ring, int flags, Relation rel, ForkNumber forknum,
				  ReadStreamBlockNumberCB next_block, void *next_block_arg,
				  size_t per_buffer_data_size)
{
	ReadStream *stream;

	set_relation(ring, rel, forknum);
	ring->next_block = next_block;
	ring->next_block_arg = next_block_arg;

	/* The stream asks for the pin limit now, and never again. */
	if (ring->strategy && !ring->options.observe)
		ring->strategy->nbuffers = pin_limit(&ring->options);

	if (ring->options.maintenance)
		flags |= READ_STREAM_MAINTENANCE;
	stream = read_stream_begin_relation(flags, ring->strategy, rel, forknum,
										ring_next_block, ring, per_buffer_data_size);

	if (ring->strategy)
	{
		ring->ahead.reach = Min(io_combine_limit, ring->strategy->nbuffers);
		ring->strategy->nbuffers = ring->public->nbuffers;
	}
	return stream;
}

/*
 * ring_begin_reads
 *		From now on blocks of the relation are read through the ring one by
 *		one, without a stream.  ring_before_read() must be called for each.
 */
void
ring_begin_reads(Ring *ring, Relation rel)
{
	set_relation(ring, rel, MAIN_FORKNUM);
	ring->ahead.reach = 1;
}

/*
 * ring_before_read
 *		Make the ring ready for the caller to read this block, and return the
 *		strategy to read the block with; NULL if there is no ring.  The block
 *		counts as consumed.  If the ring keeps dirty pages, WAL may be flushed,
 *		so the caller must not hold a lock that other processes need.
 *
 * rel is the relation of ring_begin_reads().  If the relation's lock was
 * released since then, the relation may have a new file.
 */
BufferAccessStrategy
ring_before_read(Ring *ring, Relation rel, BlockNumber block)
{
	ring->locator = rel->rd_locator;
	watch_and_tend(ring, block);
	ring_consume_next(ring);
	return ring->strategy;
}

/* Note that a block was asked for, or that there is none left to ask for. */
static inline void
note_asked(Ring *ring, BlockNumber block)
{
	RingCounts *counts = &ring->public->counts;

	if (ring->sharing.reads_log != NULL && counts->blocks % BLOCKS_PER_LOG == 0)
		*logged_reads(ring, counts->blocks) = counts->blks_read;
	if (block != InvalidBlockNumber)
		*asked_block(ring, counts->blocks++) = block;
	if (may_be_own(ring, block))
		ring->ahead.own_asked = counts->blocks;
	ring->size.calls_in_revolution++;
	ring->wal.calls_since_announce++;
}

/*
 * The stream asks for this block, or, if it is InvalidBlockNumber, for no more
 * blocks.  Called once for each block.  Returns how many blocks are pending
 * now, at most.
 *
 * Each call adds one, up to what one read takes.  ring_watch() has subtracted
 * the blocks that were read since the last call.  It can't see hits, so the
 * true number may be smaller.  But a block that the reader has got is not
 * pending.  So if the stream finds all blocks in shared buffers, and therefore
 * looks ahead less and less, the number becomes small.
 */
static inline int
count_pending(Ring *ring, BlockNumber block)
{
	if (block != InvalidBlockNumber)
		ring->ahead.pending = Min(ring->ahead.pending + 1,
								  Min(ring->ahead.reach, (int) blocks_ahead(ring)));
	return ring->ahead.pending;
}

/* The call only counts the block that the stream asks for. */
static inline void
count_only(Ring *ring, BlockNumber block)
{
	note_asked(ring, block);
	(void) count_pending(ring, block);
}

/*
 * The stream asks for this block.  Has an earlier call tended all slots that
 * may be taken before the next call, or found them reusable as they are, and
 * has nothing been read since?  If so, the block only has to be counted: see
 * calls_to_skip() in tend.c.
 */
static inline bool
next_slots_are_ready(const Ring *ring, BlockNumber block)
{
	return ring->ahead.calls_to_skip > 0 && block != InvalidBlockNumber &&
		ring->strategy->current == ring->public->current &&
		!ring->sharing.shared &&
		!(may_be_own(ring, block) && may_hold_own_blocks(ring));
}

/*
 * The kill switch was thrown: the ring only observes from now on.
 *
 * After that the ring can't grow, but its stream goes on looking ahead.  So
 * first give the ring room for all buffers that look-ahead may pin.
 */
static void
stop_control(Ring *ring)
{
	if (ring->options.observe)
		return;
	if (ring->slots != NULL)
	{
		int			more = ring->options.base_capacity - ring->public->nbuffers;

		ring_watch(ring);
		if (more > 0)
			ring_grow(ring, more);
		lend_cancel_reservation(ring);
	}
	ring->options.observe = true;
	forget_reusable(ring);
}

/*
 * Watch the ring, adjust its size, and tend its slots.  Each time the ring has
 * grown, other slots come next, and these have to be tended.  If the kill
 * switch was thrown, the ring only observes from now on.
 */
static void
watch_and_tend(Ring *ring, BlockNumber block)
{
	TendNeed	need;
	int			pending_before;
	int			pending;

	if (unlikely(!enabled_still(&ring->enabled)))
		stop_control(ring);
	if (next_slots_are_ready(ring, block))
	{
		count_only(ring, block);
		ring->ahead.calls_to_skip--;
		return;
	}
	if (ring_is_quiet(ring))
	{
		count_only(ring, block);
		ring->ahead.quiet_calls--;
		return;
	}

	ring_watch(ring);
	note_asked(ring, block);
	ring->ahead.at_end = (block == InvalidBlockNumber);
	if (ring->strategy == NULL)
		return;
	if (sizes_itself(ring))
		ring_fit_size(ring);
	pending_before = ring->ahead.pending;
	pending = count_pending(ring, block);

	/*
	 * If the number of pending blocks has not grown, a block was found in
	 * shared buffers, or no block is left to ask for.  In both cases slots
	 * that were found reusable may be pinned by now.
	 */
	if (pending <= pending_before)
		forget_reusable(ring);
	if (ring->in_first_reads && !ring->options.observe &&
		ring->public->counts.blks_read + pending > ring->options.leave_first)
		lend_fill_anew(ring);
	if (ring->options.free_first && !compat_have_free_buffer())
		ring->options.free_first = false;
	if (leaves_buffers(ring))
	{
		ring_leave_slots(ring, pending);
		return;
	}
	ring_look_for_own_blocks(ring);

	need = ring_tend_slots(ring, pending);
	while ((need.unpinned_slot && ring_grow_past_pinned(ring)) ||
		   (need.wal != InvalidXLogRecPtr && ring_make_flush_room(ring)))
		need = ring_tend_slots(ring, pending);

	if (need.wal != InvalidXLogRecPtr)
		ring_flush_wal(ring, need.wal);
	if (keeps_dirty(ring))
		ring_announce_wal(ring);
}

/*
 * The read stream's callback: which block comes next?
 *
 * The stream may be in batch mode.  So before anything in here that may wait
 * for I/O of another process, such as a flush of WAL, the eviction of a
 * buffer, or a wait for another scan, staged I/Os must be submitted.  LWLocks
 * that are never held during I/O need no such care.
 */
static BlockNumber
ring_next_block(ReadStream *stream, void *arg, void *per_buffer_data)
{
	Ring	   *ring = (Ring *) arg;
	BlockNumber block;

	block = ring->next_block(stream, ring->next_block_arg, per_buffer_data);
	watch_and_tend(ring, block);
	return block;
}

/*
 * ring_resume
 *		The stream goes on after a pause.  The buffers may have changed
 *		meanwhile, so the next slots have to be looked at again.
 */
void
ring_resume(Ring *ring)
{
	forget_reusable(ring);
}

/*
 * ring_lend
 *		The stream has come to its end, or the reader has no page pinned at the
 *		moment: hide the ring, and lend its buffers to the session's next ring.
 *
 * If the reader goes on (a rescan, or another fetch), ring_start() gives the
 * ring buffers, the same ones or others.  The strategy stays where it is,
 * because the stream has its address.  A ring that only observes keeps its
 * buffers, as the server's own ring does.
 */
void
ring_lend(Ring *ring)
{
	if (ring->state != RING_RUNNING)
		return;

	ring_watch(ring);
	if (ring->slots != NULL && ring->options.observe)
	{
		Size		size = ring->public->nbuffers * sizeof(RingSlot);

		ring->saved_slots = MemoryContextAlloc(ring_context, size);
		memcpy(ring->saved_slots, ring->slots, size);
	}
	stop_running(ring);
}

/*
 * ring_start
 *		The stream starts, or starts again: at the beginning, or in the other
 *		direction.  Or a pass that has started quietly goes on (quiet.c).  If
 *		the ring is new or was lent, it gets buffers.
 */
void
ring_start(Ring *ring)
{
	if (ring->state != RING_RUNNING)
	{
		start_running(ring);
		if (ring->saved_slots != NULL)
		{
			memcpy(ring->slots, ring->saved_slots,
				   ring->public->nbuffers * sizeof(RingSlot));
			pfree(ring->saved_slots);
			ring->saved_slots = NULL;
		}
		else if (ring->strategy != NULL)
			lend_fill(ring);
	}
	else
		ring_watch(ring);		/* the last read began after the last call */
	if (ring->public->counts.blks_read != ring->ahead.reads_at_start)
		ring->ahead.own_known = false;
	forget_reusable(ring);
	ring->ahead.reads_at_start = ring->ahead.reads_at_exchange = ring->public->counts.blks_read;
	ring->ahead.at_end = false;
}

/*
 * ring_start_pass
 *		Like ring_start(), for a reader that starts a pass.
 */
void
ring_start_pass(Ring *ring)
{
	/* the first pass includes the blocks that the server has read before */
	bool		first = ring->state == RING_CREATED;

	ring_start(ring);
	ring->public->consumed_before_pass = first ? 0 : ring->public->counts.consumed;
}

/*
 * ring_close
 *		The stream has ended, or is about to vanish with a failed query: watch
 *		the ring one last time, and lend its buffers.  Its counts can be read
 *		until ring_free().  Must not throw while a transaction aborts.
 */
void
ring_close(Ring *ring)
{
	ring_watch(ring);
	ring_drop_unconsumed(ring);
	if (ring->state != RING_RUNNING)
		return;
	stop_running(ring);
}

/*
 * ring_free
 *		Free a closed ring.
 */
void
ring_free(Ring *ring)
{
	if (ring->saved_slots != NULL)
		pfree(ring->saved_slots);
	if (ring->ahead.asked != NULL)
		pfree(ring->ahead.asked);
	if (ring->sharing.reads_log != NULL)
		pfree(ring->sharing.reads_log);
	pfree(ring);
}

/*
 * The ring among the live rings; NULL while it does not run, or if there is no
 * room for it.
 */
LiveRing *
ring_live(const Ring *ring)
{
	return ring->live;
}

const RingOptions *
ring_options(const Ring *ring)
{
	return &ring->options;
}

/* What other sessions may see of the ring. */
const RingPublic *
ring_public(const Ring *ring)
{
	return ring->public;
}

/* The ring's counts so far. */
const RingCounts *
ring_counts(const Ring *ring)
{
	return &ring->public->counts;
}
