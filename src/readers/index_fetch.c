/*-------------------------------------------------------------------------
 *
 * index_fetch.c
 *	  Fetches of an index scan that read ahead, or through a ring.
 *
 * The server reads the heap pages of an index scan one by one, each when its
 * tuple is fetched.  But a btree scan knows more: when it comes to a leaf
 * page, it notes the TIDs of all items on this page that it will return.  We
 * list the heap blocks of these items, feed them to a read stream, and when
 * the heap is about to fetch a tuple, we hand over the pinned buffer of its
 * block:
 *
 *	  leaf page's items:  | A | A | B | C | B | D | E |
 *	                        ^       ^               ^
 *	          fetched now --+       |               |
 *	          blocks: A B C B D E   +-- being read  +-- asked for next
 *
 * The idea is that of the thread "index prefetching" on pgsql-hackers; there
 * the server itself reads ahead.
 *
 * Where our code comes in: an index scan calls the table access method through
 * the IndexFetchTableData that it has begun.  We put a larger one in its
 * place:
 *
 *	  IndexScanDesc --> xs_heapfetch --> IndexFetch { IndexFetchHeapData heap;
 *	                                                  our state }
 *	                                       |
 *	                                       heap.xs_base.rel --> a relation that
 *	                                       has only a pointer to our routine
 *
 * Before our functions call heap's, they put the real relation there.  Heap's
 * functions find the struct that they know at the beginning of ours.  So
 * nothing but this one scan is touched, and relcache entries are left alone.
 *
 * A. Nothing is read ahead until the pass has missed index_read_ahead_after
 *	  heap pages.  So a short scan, and one whose pages are cached, costs
 *	  hardly more than before.
 * B. Each leaf page has a stream of its own.  The first stream begins to look
 *	  ahead with one block, as streams do.  The following ones begin with the
 *	  blocks of a full read, because no stream can be told to begin at the
 *	  look-ahead distance that the last one has come to.  If none of the heap
 *	  pages that a leaf page points to was missed, there is no read-ahead until
 *	  index_read_ahead_after pages have been missed again.
 * C. If the rows go to a LIMIT, and the nodes between hand on rows one by one
 *	  (executor.c), no more blocks are asked for than the LIMIT is expected to
 *	  want.  If it wants more, another stream begins, with one block.
 * D. If the scan turns within a leaf, or goes back to a mark, what was read
 *	  ahead is given up, and the misses are counted anew.
 * E. An index-only scan visits the heap for some items only.  The visibility
 *	  map says for which.
 * F. If the scan is to have a ring but not to read ahead, each block is read
 *	  when its tuple is fetched, through the ring, once as many pages have been
 *	  missed as in A.  D does not apply, and while there is a mark, a rescan
 *	  does not count the misses anew, either.
 *
 * What is not done: nothing is read ahead for the next leaf page.  Its items
 * are known only when the scan comes to it.  If we looked at it earlier, its
 * items would be compared with the scan's keys twice.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/visibilitymap.h"
#include "compat.h"
#include "executor/instrument.h"
#include "readers/index_fetch.h"
#include "readers/scan_reader.h"
#include "params.h"
#include "ring/plan.h"
#include "shmem/kill_switch.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* A block that was asked for, and the first item that is on it. */
typedef struct AskedBlock
{
	BlockNumber block;
	int			item;
} AskedBlock;

/* The items of one leaf page that are being read ahead. */
typedef struct LeafAhead
{
	BlockNumber leaf;
	int			step;			/* 1: forward, -1: backward */
	int			next_item;		/* item whose block may be asked for next */
	int			nasked;			/* blocks asked for */
	int			ntaken;			/* of these, blocks that the stream has handed
								 * out */
	int			last_item;		/* item that was fetched last */
	AskedBlock	asked[MaxTIDsPerBTreePage];
} LeafAhead;

typedef struct IndexFetch
{
	IndexFetchHeapData heap;	/* must be first */
	Relation	rel;
	IndexScanDesc scan;
	ScanState  *node;
	const LimitState *limit;	/* above the scan; or NULL */
	bool		reads_ahead;	/* false: it only reads through a ring */
	int64		fetches;		/* tuples fetched in this pass, including the
								 * one that is being fetched */
	int64		misses;			/* pages read, ahead or not, since they were
								 * last counted anew: see B, D and F */
	ScanReader *reader;			/* NULL until a pass has missed enough */
	ReadStream *stream;			/* of this leaf; or NULL */
	LeafAhead  *ahead;
	int64		misses_at_leaf; /* misses when the stream began */
	Buffer		vmbuffer;		/* of an index-only scan */
	EnabledMark enabled;
} IndexFetch;

static const TableAmRoutine *heap = NULL;
static TableAmRoutine our_routine;

/* A relation that has nothing but a pointer to our routine. */
static RelationData our_relation;

/* --- What comes next --- */

/*
 * About how many blocks does the LIMIT above the scan still want?  The
 * estimate assumes that each row takes as many fetches as the rows of this
 * pass took on average.
 */
static int64
blocks_wanted(const IndexFetch *fetch)
{
	const LimitState *limit = fetch->limit;
	double		rows;
	double		fetches;

	if (limit == NULL || limit->noCount)
		return PG_INT64_MAX;
	rows = (double) limit->count + limit->offset - limit->position;
	fetches = rows * fetch->fetches / (limit->position + 1);
	return (int64) Max(1, Min(fetches, (double) PG_INT32_MAX));
}

/* Must the heap be visited for an item on this block? */
static bool
visits_heap(IndexFetch *fetch, BlockNumber block)
{
	return !fetch->scan->xs_want_itup ||
		!VM_ALL_VISIBLE(fetch->rel, block, &fetch->vmbuffer);
}

/*
 * The stream's callback.  Find the leaf page's next item whose tuple is on
 * another heap block than the one asked for last, and for which the heap must
 * be visited.  Return that heap block.
 */
static BlockNumber
next_block(ReadStream *stream pg_attribute_unused(), void *arg,
		   void *per_buffer_data pg_attribute_unused())
{
	IndexFetch *fetch = arg;
	LeafAhead  *ahead = fetch->ahead;
	const BTScanPosData *pos = &((BTScanOpaque) fetch->scan->opaque)->currPos;

	if (ahead->nasked - ahead->ntaken >= blocks_wanted(fetch))
		return InvalidBlockNumber;
	while (ahead->next_item >= pos->firstItem && ahead->next_item <= pos->lastItem)
	{
		int			item = ahead->next_item;
		BlockNumber block = ItemPointerGetBlockNumber(&pos->items[item].heapTid);

		ahead->next_item += ahead->step;
		if ((ahead->nasked > 0 && ahead->asked[ahead->nasked - 1].block == block) ||
			!visits_heap(fetch, block))
			continue;
		ahead->asked[ahead->nasked].block = block;
		ahead->asked[ahead->nasked++].item = item;
		return block;
	}
	return InvalidBlockNumber;
}

/* --- Streams --- */

static void
end_stream(IndexFetch *fetch)
{
	if (fetch->stream == NULL)
		return;
	read_stream_end(fetch->stream);
	fetch->stream = NULL;
	ring_drop_unconsumed(fetch->reader->reader.ring);
}

/* The scan has missed enough pages for the first time. */
static void
begin_reader(IndexFetch *fetch)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(fetch->rel);
	RingOptions options;

	plan_for_index_scan(fetch->rel, nblocks, &options);
	if (fetch->reads_ahead)
		fetch->ahead = MemoryContextAlloc(fetch->node->ps.state->es_query_cxt,
										  sizeof(LeafAhead));
	fetch->reader = scan_begin_reader(READER_INDEXSCAN, &fetch->node->ps, &options);
	fetch->reader->expected = nblocks;
	if (!fetch->reads_ahead)
		ring_begin_reads(fetch->reader->reader.ring, fetch->rel);
	scan_begin_index_pass(fetch->reader);
}

/*
 * Begin to read ahead on the leaf page that the scan is on, from the item that
 * the scan is at.
 */
static void
begin_stream(IndexFetch *fetch, const BTScanPosData *pos)
{
	bool		full = fetch->stream != NULL;
	MemoryContext oldcontext = MemoryContextSwitchTo(fetch->node->ps.state->es_query_cxt);

	end_stream(fetch);
	if (fetch->reader == NULL)
		begin_reader(fetch);
	fetch->ahead->leaf = pos->currPage;
	fetch->ahead->step = ScanDirectionIsForward(pos->dir) ? 1 : -1;
	fetch->ahead->next_item = pos->itemIndex;
	fetch->ahead->nasked = fetch->ahead->ntaken = 0;
	fetch->misses_at_leaf = fetch->misses;

	/*
	 * In an index-only scan the callback looks at the visibility map and may
	 * block: no batches.
	 */
	fetch->stream = ring_begin_stream(fetch->reader->reader.ring,
									  (full ? READ_STREAM_FULL : READ_STREAM_DEFAULT) |
									  (fetch->scan->xs_want_itup ? 0 :
									   COMPAT_READ_STREAM_BATCHING),
									  fetch->rel, MAIN_FORKNUM, next_block, fetch, 0);
	ring_start(fetch->reader->reader.ring);
	MemoryContextSwitchTo(oldcontext);
}

/* --- A fetch --- */

/*
 * Take from the stream the buffer of this block, which the item is on.
 * Returns an invalid buffer if the stream does not have it.
 */
static Buffer
take_buffer(IndexFetch *fetch, int item, BlockNumber block)
{
	LeafAhead  *ahead = fetch->ahead;
	Buffer		buffer;

	while ((buffer = read_stream_next_buffer(fetch->stream, NULL)) != InvalidBuffer)
	{
		const AskedBlock *asked = &ahead->asked[ahead->ntaken++];

		ring_consume_next(fetch->reader->reader.ring);
		if (asked->block == block)
			return buffer;
		ReleaseBuffer(buffer);	/* its items were not wanted */
		if ((asked->item - item) * ahead->step > 0)
			break;				/* too far */
	}
	return InvalidBuffer;
}

/* Is the scan on the leaf that is being read ahead, and did it not go back? */
static bool
goes_on(const IndexFetch *fetch, const BTScanPosData *pos)
{
	const LeafAhead *ahead = fetch->ahead;

	return pos->currPage == ahead->leaf &&
		(pos->itemIndex - ahead->last_item) * ahead->step > 0;
}

/*
 * The pinned buffer of this block, if the block has been read ahead, or is
 * read now as the first one of a stream.  Otherwise an invalid buffer.
 */
static Buffer
buffer_ahead(IndexFetch *fetch, BlockNumber block)
{
	const BTScanPosData *pos = &((BTScanOpaque) fetch->scan->opaque)->currPos;
	Buffer		buffer;

	if (!BTScanPosIsValid(*pos))
		return InvalidBuffer;
	if (fetch->stream == NULL || !goes_on(fetch, pos))
	{
		if (fetch->stream != NULL && (pos->currPage == fetch->ahead->leaf ||
									  fetch->misses == fetch->misses_at_leaf))
		{
			/* pause until enough pages have been missed again */
			end_stream(fetch);
			fetch->misses = 0;
			return InvalidBuffer;
		}
		begin_stream(fetch, pos);
	}

	fetch->ahead->last_item = pos->itemIndex;
	buffer = take_buffer(fetch, pos->itemIndex, block);
	if (buffer == InvalidBuffer)
		end_stream(fetch);
	return buffer;
}

/* Read this block through the ring, without looking ahead. */
static Buffer
read_through_ring(IndexFetch *fetch, BlockNumber block)
{
	if (fetch->reader == NULL)
		begin_reader(fetch);
	return ReadBufferExtended(fetch->rel, MAIN_FORKNUM, block, RBM_NORMAL,
							  ring_before_read(fetch->reader->reader.ring, fetch->rel,
											   block));
}

/* A tuple on this block is about to be fetched. */
static void
before_fetch(IndexFetch *fetch, BlockNumber block)
{
	int64		reads = pgBufferUsage.shared_blks_read;
	Buffer		buffer;

	if (compat_fetch_holds_block(&fetch->heap, block) ||
		fetch->misses < param_index_read_ahead_after)
		return;
	if (!enabled_still(&fetch->enabled))
	{
		end_stream(fetch);
		return;
	}
	buffer = fetch->reads_ahead ? buffer_ahead(fetch, block) : read_through_ring(fetch, block);
	if (fetch->reader != NULL)
		ring_count_unringed(fetch->reader->reader.ring,
							pgBufferUsage.shared_blks_read - reads);
	if (BufferIsValid(buffer))
	{
		compat_fetch_set_buffer(&fetch->heap, block, buffer);
		compat_fetch_prune(&fetch->heap);
	}
}

static bool
our_index_fetch_tuple(IndexFetchTableData *scan, ItemPointer tid,
					  Snapshot snapshot, TupleTableSlot *slot,
					  bool *call_again, bool *all_dead)
{
	IndexFetch *fetch = (IndexFetch *) scan;
	int64		reads = pgBufferUsage.shared_blks_read;
	bool		found;

	scan->rel = fetch->rel;
	if (!*call_again)
	{
		fetch->fetches++;
		before_fetch(fetch, ItemPointerGetBlockNumber(tid));
	}
	found = heap->index_fetch_tuple(scan, tid, snapshot, slot, call_again, all_dead);
	scan->rel = &our_relation;
	fetch->misses += pgBufferUsage.shared_blks_read - reads;
	return found;
}

/* May the scan go back to a mark? */
static bool
has_mark(const IndexFetch *fetch)
{
	const BTScanOpaqueData *opaque = (BTScanOpaque) fetch->scan->opaque;

	return opaque->markItemIndex >= 0 || BTScanPosIsValid(opaque->markPos);
}

/*
 * The scan ends, is rescanned, or goes back to a mark.
 *
 * A merge join may go back to its mark after each row.  If the misses were
 * counted anew each time, a scan that only reads through a ring might never
 * miss enough pages to use it again.  So if such a scan has a mark, its misses
 * are kept.
 */
static void
our_index_fetch_reset(IndexFetchTableData *scan)
{
	IndexFetch *fetch = (IndexFetch *) scan;

	end_stream(fetch);
	if (fetch->misses > 0 && (fetch->reads_ahead || !has_mark(fetch)))
		fetch->misses = 0;
	fetch->fetches = 0;
	if (BufferIsValid(fetch->vmbuffer))
		ReleaseBuffer(fetch->vmbuffer);
	fetch->vmbuffer = InvalidBuffer;
	scan->rel = fetch->rel;
	heap->index_fetch_reset(scan);
	scan->rel = &our_relation;
}

static void
our_index_fetch_end(IndexFetchTableData *scan)
{
	our_index_fetch_reset(scan);
	scan->rel = ((IndexFetch *) scan)->rel;
	heap->index_fetch_end(scan);
}

static void
make_routine(void)
{
	if (heap != NULL)
		return;
	heap = GetHeapamTableAmRoutine();
	our_routine = *heap;
	our_routine.index_fetch_tuple = our_index_fetch_tuple;
	our_routine.index_fetch_reset = our_index_fetch_reset;
	our_routine.index_fetch_end = our_index_fetch_end;
	our_relation.rd_tableam = &our_routine;
}

/*
 * index_fetch_can_attach
 *		May the fetches of this scan become ours?  They may not if they are
 *		ours already, or if the scan holds a heap page.
 */
bool
index_fetch_can_attach(IndexScanDesc scan)
{
	return scan->xs_heapfetch != NULL && scan->xs_heapfetch->rel != &our_relation &&
		!BufferIsValid(((IndexFetchHeapData *) scan->xs_heapfetch)->xs_cbuf);
}

/*
 * index_fetch_attach
 *		Let the fetches of a node's btree scan be ours.  Must be called in the
 *		memory context of the query, and only if index_fetch_can_attach().
 *
 * limit: the LIMIT that gets the node's rows, or NULL.  reads_ahead: do the
 * fetches read ahead?  If not, they only read through a ring.
 */
void
index_fetch_attach(IndexScanDesc scan, ScanState *node, const LimitState *limit,
				   bool reads_ahead)
{
	IndexFetch *fetch;

	make_routine();
	fetch = palloc0(sizeof(IndexFetch));
	fetch->heap = *(IndexFetchHeapData *) scan->xs_heapfetch;
	table_index_fetch_end(scan->xs_heapfetch);
	fetch->heap.xs_base.rel = &our_relation;
	fetch->rel = scan->heapRelation;
	fetch->scan = scan;
	fetch->node = node;
	fetch->limit = limit;
	fetch->reads_ahead = reads_ahead;
	fetch->vmbuffer = InvalidBuffer;
	enabled_mark(&fetch->enabled);
	scan->xs_heapfetch = &fetch->heap.xs_base;
}
