/*-------------------------------------------------------------------------
 *
 * block_order.c
 *	  Put blocks into a better order, in a window of limited size.
 *
 * A list of blocks that comes from an index may be in random order.  Then the
 * next block is a third of the table away, on average.  But the list also says
 * which blocks come later, so a window of blocks can wait for a better moment.
 * In all modes, a block that is already waiting is not added again.  Each
 * block that is handed out makes room for another one, but in mode "sorted"
 * the window is filled only when it is empty.
 *
 * Zigzag is what an elevator does, with two heaps:
 *
 *	  source ... 3 7 -->  7 is ahead: up;  3 is behind: down
 *
 *	            down (max-heap)           up (min-heap)
 *	         +-----------------+     +----------------------+
 *	         |  0  1  2  4     |     |  6  8   9  11  13 .. |
 *	         +-----------------+     +----------------------+
 *	  blocks -------------------o----------------------------->
 *	                            5: position, going up
 *
 * Going up, the lowest block of "up" is next.  A new block at or above the
 * position goes into "up", any other block into "down".  When "up" is empty we
 * turn: all blocks in "down" are below the position now, and the highest of
 * them is next.  So no block ever moves from one heap to the other, and each
 * block costs O(log window).
 *
 * New blocks join the current sweep if they are still ahead.  So if the list
 * is in random order, one sweep over the table hands out 1.5 windows of
 * blocks.  Sorting window by window hands out one window in a sweep, and then
 * has to go back to the table's beginning.  So the average distance from one
 * block to the next, as a part of the table, is 1/3 in the order given, 2 /
 * window in mode "sorted", and 2/3 / window in mode "zigzag".  So in zigzag it
 * is window / 2 times shorter than in the order given.
 *
 * The idea is from the thread "index prefetching" on pgsql-hackers.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/int.h"
#include "compat.h"
#include "lib/binaryheap.h"
#include "readers/block_order.h"

/*
 * One call of fill() may take very many blocks: a whole window, or more if the
 * list repeats blocks.  Each time it has taken this number of blocks, it
 * submits the reads that the stream has staged, because other processes may
 * wait for these reads.
 */
#define BLOCKS_BEFORE_SUBMIT	1024

/* A block that waits in the window. */
typedef struct Waiting
{
	BlockNumber block;			/* hash key */
	char		status;			/* hash status */
} Waiting;

#define SH_PREFIX		waiting
#define SH_ELEMENT_TYPE	Waiting
#define SH_KEY_TYPE		BlockNumber
#define SH_KEY			block
#define SH_HASH_KEY(tb, key)	murmurhash32(key)
#define SH_EQUAL(tb, a, b)		((a) == (b))
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct Reorder
{
	ReorderMode mode;
	uint32		window;			/* maximum number of blocks that wait */
	ReorderSource source;
	void	   *source_arg;

	waiting_hash *waiting;		/* what is in the window */
	int64		again;			/* blocks not added a second time */

	/* In mode "none", the window is a circular queue. */
	BlockNumber *queue;
	uint32		first;			/* index of the next block */

	/* In the other modes, the window is in heaps; only zigzag has "down". */
	binaryheap *up;
	binaryheap *down;
	bool		going_up;
	BlockNumber position;		/* the block that was handed out last */
};

/*
 * A binaryheap has the largest element on top: here that is the lowest block.
 */
static int
compare_up(Datum a, Datum b, void *arg pg_attribute_unused())
{
	return pg_cmp_u32(DatumGetUInt32(b), DatumGetUInt32(a));
}

static int
compare_down(Datum a, Datum b, void *arg pg_attribute_unused())
{
	return pg_cmp_u32(DatumGetUInt32(a), DatumGetUInt32(b));
}

/*
 * reorder_create
 *		Make a window over the blocks that the source hands out.  window:
 *		maximum number of blocks that wait in it, from 1 to
 *		REORDER_MAX_WINDOW.
 *
 * The memory of the window, a few hundred bytes and at most 35 bytes for each
 * block, is allocated now, in the current memory context, and is freed with
 * that context.  Only the hash table may grow later.
 */
Reorder *
reorder_create(ReorderMode mode, int window, ReorderSource source, void *source_arg)
{
	Reorder    *reorder = palloc0(sizeof(Reorder));

	Assert(window >= 1 && window <= REORDER_MAX_WINDOW);
	reorder->mode = mode;
	reorder->window = window;
	reorder->source = source;
	reorder->source_arg = source_arg;
	reorder->waiting = waiting_create(CurrentMemoryContext, window, NULL);
	reorder->going_up = true;

	if (mode == REORDER_NONE)
		reorder->queue = palloc(window * sizeof(BlockNumber));
	else
		reorder->up = binaryheap_allocate(window, compare_up, NULL);
	if (mode == REORDER_ZIGZAG)
		reorder->down = binaryheap_allocate(window, compare_down, NULL);
	return reorder;
}

/* The heap that a new block belongs to. */
static binaryheap *
heap_for(const Reorder *reorder, BlockNumber block)
{
	if (reorder->mode == REORDER_SORTED || block > reorder->position)
		return reorder->up;
	if (block < reorder->position)
		return reorder->down;
	return reorder->going_up ? reorder->up : reorder->down;
}

/* Add a block to the window, unless it is there already. */
static void
add(Reorder *reorder, BlockNumber block)
{
	uint32		nwaiting = reorder->waiting->members;
	bool		found;

	waiting_insert(reorder->waiting, block, &found);
	if (found)
	{
		reorder->again++;
		return;
	}

	if (reorder->mode == REORDER_NONE)
		reorder->queue[(reorder->first + nwaiting) % reorder->window] = block;
	else
		binaryheap_add(heap_for(reorder, block), UInt32GetDatum(block));
}

/* Fill the window; in mode "sorted", only when it is empty. */
static void
fill(Reorder *reorder)
{
	BlockNumber block;
	int			taken = 0;

	if (reorder->mode == REORDER_SORTED && reorder->waiting->members > 0)
		return;
	while (reorder->waiting->members < reorder->window &&
		   (block = reorder->source(reorder->source_arg)) != InvalidBlockNumber)
	{
		add(reorder, block);
		if (++taken % BLOCKS_BEFORE_SUBMIT == 0)
			compat_submit_staged();
	}
}

/* The heap that the next block is in.  Zigzag turns if nothing is ahead. */
static binaryheap *
next_heap(Reorder *reorder)
{
	if (reorder->mode == REORDER_ZIGZAG &&
		binaryheap_empty(reorder->going_up ? reorder->up : reorder->down))
		reorder->going_up = !reorder->going_up;
	return reorder->going_up ? reorder->up : reorder->down;
}

/* Take the next block out of a window that is not empty. */
static BlockNumber
take(Reorder *reorder)
{
	BlockNumber block;

	if (reorder->mode == REORDER_NONE)
	{
		block = reorder->queue[reorder->first];
		reorder->first = (reorder->first + 1) % reorder->window;
	}
	else
		block = DatumGetUInt32(binaryheap_remove_first(next_heap(reorder)));

	waiting_delete(reorder->waiting, block);
	return reorder->position = block;
}

/*
 * reorder_next
 *		The next block, or InvalidBlockNumber if there is none.
 */
BlockNumber
reorder_next(Reorder *reorder)
{
	fill(reorder);
	return reorder->waiting->members > 0 ? take(reorder) : InvalidBlockNumber;
}

/*
 * reorder_again
 *		How many blocks of the source were not added, because they were already
 *		waiting in the window?
 */
int64
reorder_again(const Reorder *reorder)
{
	return reorder->again;
}
