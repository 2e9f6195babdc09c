/*-------------------------------------------------------------------------
 *
 * reorder.c
 *	  Blocks in a better order, through a window of bounded memory.
 *
 * Whoever follows an index may read the table in random order: the next block
 * is a third of the table away.  But it is known which blocks come later, so as
 * many as the window holds can wait in it for a better moment.  A block that
 * waits already is not added again, in any mode, and a block that is handed out
 * makes room for the next.
 *
 * Zigzag is what an elevator does, with two heaps:
 *
 *	  source ... 3 9 6 -->  6 is ahead: up;  3 is behind: down
 *
 *	            down (max-heap)           up (min-heap)
 *	         +-----------------+     +----------------------+
 *	         |  0  1  2  3  4  |     |  6  8  11  13  17 .. |
 *	         +-----------------+     +----------------------+
 *	  blocks -------------------o----------------------------->
 *	                            5: position, going up
 *
 * Going up, the lowest block of "up" is next; a new block that is at or above
 * the position goes there, too, any other one into "down".  When "up" is empty
 * we turn: all that is in "down" is below the position now, and its highest
 * block is next.  So nothing ever moves from one heap to the other, and each
 * block costs O(log window).
 *
 * New blocks join the sweep while it goes by: of blocks in random order it
 * takes 1.5 windows, on a way as long as the table.  Sorting window by window
 * takes one, and has to come back for the next.  So from one block to the next
 * it is 1/3 of the table in the order given, 2 / window of it sorted, and
 * 2/3 / window in zigzag: window / 2 times less than without.
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
#include "lib/binaryheap.h"
#include "reorder.h"

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
	uint32		window;			/* most blocks that wait */
	ReorderSource source;
	void	   *source_arg;

	waiting_hash *waiting;		/* what is in the window */

	/* First in, first out: the window is a circular queue. */
	BlockNumber *queue;
	uint32		first;			/* where the next one is */

	/* Otherwise they are in heaps; only a zigzag goes down. */
	binaryheap *up;
	binaryheap *down;
	bool		going_up;
	BlockNumber position;		/* the block that was handed out last */
};

/* A binaryheap has the largest on top: here that is the lowest block. */
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
 *		A window over the blocks that the source hands out.
 *
 * All the memory that it needs, some 30 bytes for each block of the window, is
 * allocated now, in the current memory context, and goes with it.
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

/* Let a block wait, unless it does so already. */
static void
add(Reorder *reorder, BlockNumber block)
{
	uint32		nwaiting = reorder->waiting->members;
	bool		found;

	waiting_insert(reorder->waiting, block, &found);
	if (found)
		return;

	if (reorder->mode == REORDER_NONE)
		reorder->queue[(reorder->first + nwaiting) % reorder->window] = block;
	else
		binaryheap_add(heap_for(reorder, block), UInt32GetDatum(block));
}

/* Fill the window; that of sorted blocks when all of it was handed out. */
static void
fill(Reorder *reorder)
{
	BlockNumber block;

	if (reorder->mode == REORDER_SORTED && reorder->waiting->members > 0)
		return;
	while (reorder->waiting->members < reorder->window &&
		   (block = reorder->source(reorder->source_arg)) != InvalidBlockNumber)
		add(reorder, block);
}

/* The heap that the next block is in: turn if there is nothing ahead. */
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
