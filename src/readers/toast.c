/*-------------------------------------------------------------------------
 *
 * toast.c
 *	  TOAST values of relations that are scanned go through rings of their own.
 *
 * The server reads TOAST tables without a ring.  So a scan that fetches the
 * values of many rows replaces the whole pool, even if the scan itself goes
 * through a tight ring, or is small:
 *
 *	    scan of t --> row --> value in pg_toast_t --> index --> heap block
 *	                                                            ^
 *	                                        before_fetch() reads it through
 *	                                        the ring, and hands it to heap
 *
 * The executor has no hook for the fetch of a value.  But each fetch goes
 * through index_fetch_tuple() of the TOAST table's access method, where we put
 * a function of ours (heap_am.c).  This function reads the block itself, into
 * a buffer of the ring.  After that heap finds that the index scan already has
 * the buffer.
 *
 * A reader of a TOAST table begins with the scan of the table that owns the
 * TOAST table.  It ends with the query, because values may be fetched long
 * after their row was read.  It has no ring until it has missed FIRST_MISSES
 * blocks: a few values are worth keeping in shared buffers.
 *
 * What is not done: values are not read ahead.  A look-up of a row by an index
 * has no reader, so the server reads its values without a ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "common/heap_am.h"
#include "compat.h"
#include "executor/instrument.h"
#include "readers/reader.h"
#include "readers/toast.h"
#include "ring/plan.h"
#include "shmem/kill_switch.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Blocks that one query may miss before its TOAST values get a ring. */
#define FIRST_MISSES	64

/*
 * For a TOAST table that was small, the real size is looked up once in this
 * number of looks.
 */
#define LOOKS_PER_SIZE	64

typedef struct ToastReader
{
	Reader		reader;			/* must be first */
	const void *owner;			/* the query's EState, or a utility command */
	HeapAmSwap *hold;
	RingOptions options;		/* of the ring that it may get */
	BlockNumber nblocks;		/* of the TOAST table */
	EnabledMark enabled;
	int64		misses;			/* blocks that were read, not found */
} ToastReader;

bool		toast_any = false;

static dlist_head toasts = DLIST_STATIC_INIT(toasts);

/* --- A fetch --- */

/* Enough blocks were missed: from now on the reader has a ring. */
static void
begin_ring(ToastReader *toast, Relation rel)
{
	reader_begin(&toast->reader, READER_TOAST, RelationGetRelid(rel), &toast->options);
	reader_stop_clock(&toast->reader);	/* its fetches are not timed */
	ring_begin_reads(toast->reader.ring, rel, MAIN_FORKNUM);
	reader_start_pass(&toast->reader, toast->nblocks);
}

/* The strategy to read this block with; NULL for none. */
static BufferAccessStrategy
strategy_for(ToastReader *toast, Relation rel, BlockNumber block)
{
	if (toast->reader.ring == NULL && toast->misses >= FIRST_MISSES)
		begin_ring(toast, rel);
	return toast->reader.ring ? ring_before_read(toast->reader.ring, block) : NULL;
}

/*
 * A tuple of the TOAST table is about to be fetched: let the index scan have
 * the buffer of its block.
 */
static void
before_fetch(IndexFetchTableData *scan, ItemPointer tid, void *arg)
{
	ToastReader *toast = arg;
	IndexFetchHeapData *fetch = (IndexFetchHeapData *) scan;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	BufferAccessStrategy strategy;
	int64		reads = pgBufferUsage.shared_blks_read;
	Buffer		buffer;

	if (compat_fetch_holds_block(fetch, block) || !enabled_still(&toast->enabled))
		return;
	strategy = strategy_for(toast, scan->rel, block);
	buffer = ReadBufferExtended(scan->rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	compat_fetch_set_buffer(fetch, block, buffer);
	toast->misses += pgBufferUsage.shared_blks_read - reads;
}

/* --- A reader --- */

static void
unlink_toast(ToastReader *toast)
{
	dlist_delete(&toast->reader.node);
	toast_any = !dlist_is_empty(&toasts);
}

/* The reader's query failed. */
static void
toast_failed(Reader *failed)
{
	ToastReader *toast = (ToastReader *) failed;

	if (toast->hold == NULL)
		return;
	heap_am_forget(toast->hold);
	unlink_toast(toast);
}

static void
make_toast(const void *owner, Relation toastrel, const RingOptions *options)
{
	ToastReader *toast = reader_make(TopMemoryContext, sizeof(ToastReader));

	toast->reader.failed = toast_failed;
	if (IsParallelWorker())
		toast->reader.workers = 1;
	else
		toast->reader.scans = 1;
	toast->owner = owner;
	toast->options = *options;
	toast->nblocks = RelationGetNumberOfBlocks(toastrel);
	enabled_mark(&toast->enabled);
	toast->hold = heap_am_hold(toastrel, before_fetch, toast);
	dlist_push_head(&toasts, &toast->reader.node);
	toast_any = true;
}

/* The larger of the two tables decides whether there is a ring. */
static BlockNumber
blocks_that_count(Relation rel, Relation toastrel)
{
	return Max(RelationGetNumberOfBlocks(rel), RelationGetNumberOfBlocks(toastrel));
}

/*
 * Was the TOAST table too small to be worth a reader when this process saw its
 * size last?  Most TOAST tables are, so this must be cheap: it takes no lock
 * on the table.  Returns false, so that the caller locks the table and looks
 * up its real size, if this process knows no size; and also once in
 * LOOKS_PER_SIZE calls.
 */
static bool
was_small(Oid toastid)
{
	static int	looks = 0;
	Relation	toastrel;
	BlockNumber nblocks = InvalidBlockNumber;

	if (++looks % LOOKS_PER_SIZE == 0)
		return false;
	toastrel = RelationIdGetRelation(toastid);
	if (toastrel == NULL)
		return false;
	if (toastrel->rd_smgr != NULL)
		nblocks = toastrel->rd_smgr->smgr_cached_nblocks[MAIN_FORKNUM];
	RelationClose(toastrel);
	return nblocks <= FIRST_MISSES; /* false if the size is not known */
}

/*
 * toast_begin
 *		The relation is about to be scanned by the query or utility command
 *		"owner".  If its TOAST table is large enough, let the values that are
 *		fetched from it go through a ring.
 *
 * The relation is locked, so no other session can drop its TOAST table.  If
 * this session already has a reader of the TOAST table, for another scan, that
 * reader serves both scans.
 */
void
toast_begin(const void *owner, Relation rel)
{
	Oid			toastid = rel->rd_rel->reltoastrelid;
	Relation	toastrel;

	if (!OidIsValid(toastid) || policy_mode() != MODE_CONTROL ||
		policy_exclusion(rel) != NULL || heap_am_is_held(toastid) ||
		was_small(toastid))
		return;

	toastrel = table_open(toastid, AccessShareLock);
	if (RelationGetNumberOfBlocks(toastrel) > FIRST_MISSES && heap_am_is_heap(toastrel))
	{
		RingOptions options;

		policy_for_toast(rel, blocks_that_count(rel, toastrel), &options);
		if (options.nbuffers > 0)
			make_toast(owner, toastrel, &options);
	}
	table_close(toastrel, AccessShareLock);
}

/*
 * toast_end
 *		The query or utility command has ended: end its readers of TOAST
 *		tables.
 */
void
toast_end(const void *owner)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &toasts)
	{
		ToastReader *toast = dlist_container(ToastReader, reader.node, iter.cur);

		if (toast->owner != owner)
			continue;
		heap_am_release(toast->hold);
		unlink_toast(toast);
		reader_end(&toast->reader);
	}
}
