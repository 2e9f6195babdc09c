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
 * TOAST table, or soon after that scan's first row (seqscan.c); for an index
 * scan, when the scan gets a reader of its own (index_fetch.c).  It ends with
 * the query, because values may be fetched long after their row was read.  A
 * reader reads its first blocks without a ring.  Their number is leave_first
 * (plan_for_toast()), less the number of blocks that the query's other readers
 * of TOAST tables had left when this reader began.  The readers of a utility
 * command have rings from the beginning, because a command is seldom repeated.
 *
 * Between the fetches of two values a reader has no page pinned.  So when
 * another reader of the session begins, a reader of values lends its ring, and
 * its next fetch starts the ring again.  So the values of a thousand
 * partitions go through one ring.
 *
 * All fetches from the TOAST table come to the reader: also those of other
 * scans and of other queries of the session, say of look-ups by key in a loop
 * over a cursor.  They may fetch the same few values again and again.  In the
 * ring, these would be lost again and again.  So if the ring has read a block
 * MOST_RING_READS times, soon after each other, the block is read without the
 * ring from then on, and stays in the pool as it would without us.  (Not after
 * the first read, because a query may fetch each value twice.  Two reads are
 * not soon after each other if a large part of the pool was read between them,
 * as by a rescan: then the block might be gone without us, too.)
 *
 * Most TOAST tables are small, so the decision must cost next to nothing.  For
 * each TOAST table of a scanned table, the session remembers the size that it
 * has seen, and looks at the real size only once in LOOKS_PER_SIZE queries and
 * scans:
 *
 *	    pg_toast_t   ->   200 blocks, 17 looks
 *	    pg_toast_u   ->     0 blocks, 1023 looks: the next reads the real size
 *
 * A look at the real size of a TOAST table that is new to the session costs
 * about 17,000 instructions and half a kilobyte, mostly to read a row of
 * pg_class.  So before a query runs, the session looks at no more than
 * TOAST_NEW_LOOKS of them; the next queries look at others.  Partitions are
 * mostly alike, so that is usually enough.
 *
 * We never wait for a lock on a TOAST table.  If another session has locked
 * it, to rewrite or truncate it, its values are left alone, and the next scan
 * tries again.
 *
 * What is not done: values are not read ahead.  An index scan without a reader
 * of its own, and a bitmap heap scan that is left alone, begin no reader of
 * values.  Their values are read without a ring unless another scan has begun
 * one.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/parallel.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "common/heap_am.h"
#include "compat.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "readers/reader.h"
#include "readers/toast.h"
#include "ring/plan.h"
#include "shmem/kill_switch.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/*
 * If a table has fewer blocks than this, its TOAST values are no reason to
 * take the nodes of a query.
 */
#define TOAST_MIN_BLOCKS	16

/*
 * The real size of a TOAST table is looked at once in this number of queries
 * and scans of its owner.
 */
#define LOOKS_PER_SIZE		1024

/*
 * When the session has seen this number of TOAST tables, it forgets all sizes
 * and begins anew.
 */
#define MOST_SEEN			65536

/* The size of a TOAST table, as this session has seen it. */
typedef struct SeenToast
{
	Oid			toastid;		/* hash key */
	BlockNumber nblocks;
	int			looks;			/* looks at nblocks since it was set, or more:
								 * see known_size() */
	char		status;			/* hash status */
} SeenToast;

#define SH_PREFIX		seen
#define SH_ELEMENT_TYPE	SeenToast
#define SH_KEY_TYPE		Oid
#define SH_KEY			toastid
#define SH_HASH_KEY(tb, key)	murmurhash32(key)
#define SH_EQUAL(tb, a, b)		((a) == (b))
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

typedef struct ToastReader
{
	Reader		reader;			/* must be first */
	const void *owner;			/* the query's EState, or a utility command */
	HeapAmSwap *hold;
	RingOptions options;		/* of the ring that it may get */
	BlockNumber nblocks;		/* of the TOAST table */
	EnabledMark enabled;
	uint32		number;			/* of this reader in the session */
	int64		misses;			/* blocks that were read, not found */
	int64		wanted_again;	/* of these, blocks that the ring had read
								 * often enough before: read without it */
	bool		broken;			/* has an attempt to start the ring failed? */
} ToastReader;

dlist_head	toast_readers = DLIST_STATIC_INIT(toast_readers);

int			toast_looks_left = 0;

static seen_hash * seen = NULL;

/*
 * The session remembers the blocks that it has last read through rings of
 * TOAST values: about SERVER_THRESHOLD of them, but at least MIN_REMEMBERED
 * and at most MAX_REMEMBERED.
 */
#define MIN_REMEMBERED		4096
#define MAX_REMEMBERED		65536

/*
 * When a reader's ring has read a block this number of times, with no more
 * than SERVER_THRESHOLD blocks read between two of them, the block is usually
 * read without the ring; see is_wanted_again().
 */
#define MOST_RING_READS		2

/* A block that was read through a ring. */
typedef struct RingRead
{
	uint32		reader;			/* number of the ToastReader; 0 if not used */
	BlockNumber block;
	uint32		times;			/* how often the ring has read it in a row,
								 * each time soon after the last one */
	uint32		last;			/* the reader's misses at the last time */
} RingRead;

/* The block n of reader r is at index (n + r) % nremembered. */
static RingRead *ring_reads = NULL;
static uint32 nremembered = 0;

/* --- Blocks that are wanted again --- */

static void
make_ring_reads(void)
{
	if (ring_reads != NULL)
		return;
	nremembered = Max(MIN_REMEMBERED, Min(SERVER_THRESHOLD, MAX_REMEMBERED));
	ring_reads = MemoryContextAllocZero(TopMemoryContext, nremembered * sizeof(RingRead));
}

static RingRead *
place_of(const ToastReader *toast, BlockNumber block)
{
	return &ring_reads[(block + toast->number) % nremembered];
}

static bool
is_remembered(const RingRead *read, const ToastReader *toast, BlockNumber block)
{
	return read->reader == toast->number && read->block == block;
}

/* How many blocks has the reader read since the ring has read this one? */
static uint32
reads_since(const RingRead *read, const ToastReader *toast)
{
	return (uint32) toast->misses - read->last;
}

/* The block was read through the reader's ring. */
static void
remember(const ToastReader *toast, BlockNumber block)
{
	RingRead   *read = place_of(toast, block);
	bool		soon = is_remembered(read, toast, block) &&
		reads_since(read, toast) <= (uint32) SERVER_THRESHOLD;

	read->times = soon ? read->times + 1 : 1;
	read->reader = toast->number;
	read->block = block;
	read->last = (uint32) toast->misses;
}

/*
 * Is this block to be read without the ring?  It is if the reader's ring has
 * read it MOST_RING_READS times, and has given its buffer to another block
 * since then.  The answer is also yes if the ring has read the block more
 * often: then the block was once lost although the ring had not reused its
 * buffer.  At most SERVER_THRESHOLD reads bypass the ring for this reason.
 * After that the ring is tight, even if a query fetches all its values many
 * times.
 */
static bool
is_wanted_again(const ToastReader *toast, BlockNumber block)
{
	const RingRead *read = place_of(toast, block);

	return is_remembered(read, toast, block) &&
		toast->wanted_again < SERVER_THRESHOLD &&
		(read->times > MOST_RING_READS ||
		 (read->times == MOST_RING_READS &&
		  reads_since(read, toast) >= (uint32) toast->options.nbuffers));
}

/* --- A fetch --- */

/* Called by reader_lend_finished(): see reader_may_lend(). */
static void
lend(Reader *reader)
{
	ring_lend(reader->ring);
	reader_may_lend(reader, false);
}

/* Enough blocks were missed: from now on the reader has a ring. */
static void
begin_ring(ToastReader *toast, Relation rel)
{
	RingOptions options = toast->options;

	make_ring_reads();
	options.leave_first = 0;	/* those blocks have been left already */
	reader_begin(&toast->reader, READER_TOAST, RelationGetRelid(rel), &options);
	reader_stop_clock(&toast->reader);	/* its fetches are not timed */
	ring_begin_reads(toast->reader.ring, rel);
	reader_start_pass(&toast->reader, toast->nblocks);
}

/* Start the ring, for the first time or after it was lent. */
static void
start_ring(ToastReader *toast, Relation rel)
{
	if (toast->reader.ring == NULL)
		begin_ring(toast, rel);
	else
	{
		ring_start(toast->reader.ring);
		reader_show(&toast->reader);
	}
	reader_may_lend(&toast->reader, true);
}

/* The strategy to read this block with; NULL for none. */
static BufferAccessStrategy
strategy_for(ToastReader *toast, Relation rel, BlockNumber block)
{
	if (toast->broken || toast->misses < toast->options.leave_first)
		return NULL;
	if (dlist_node_is_detached(&toast->reader.lend_node))
	{
		/*
		 * If start_ring() fails, a function that the query calls may catch
		 * the error.  Then the query goes on, and this reader with it.
		 */
		toast->broken = true;
		start_ring(toast, rel);
		toast->broken = false;
	}
	if (is_wanted_again(toast, block))
		return NULL;
	return ring_before_read(toast->reader.ring, rel, block);
}

/*
 * A tuple of the TOAST table is about to be fetched: let the index scan have
 * the buffer of its block.
 *
 * The page is not pruned, whether there is a ring or not yet.  Pruning would
 * make the page dirty, and a ring for TOAST values leaves dirty pages behind.
 * From 19 on, pruning may make a page dirty even if there is nothing to prune,
 * because it resets pd_prune_xid, which an insert sets.
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
	if (pgBufferUsage.shared_blks_read == reads)
		return;
	toast->misses++;
	if (strategy != NULL)
		remember(toast, block);
	else if (toast->reader.ring != NULL)
		toast->wanted_again++;
}

/* --- A reader --- */

/* The reader's query failed. */
static void
toast_failed(Reader *failed)
{
	ToastReader *toast = (ToastReader *) failed;

	reader_may_lend(failed, false);
	if (toast->hold == NULL)
		return;
	heap_am_forget(toast->hold);
	dlist_delete(&toast->reader.node);
}

/* How many blocks have the owner's readers left in the pool so far? */
static int64
blocks_left(const void *owner)
{
	int64		left = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &toast_readers)
	{
		ToastReader *toast = dlist_container(ToastReader, reader.node, iter.cur);

		if (toast->owner == owner)
			left += Min(toast->misses, toast->options.leave_first);
	}
	return left;
}

static void
make_toast(const void *owner, Relation toastrel, BlockNumber nblocks,
		   const RingOptions *options)
{
	static uint32 readers_made = 0;
	ToastReader *toast = reader_make(TopMemoryContext, sizeof(ToastReader));

	toast->reader.failed = toast_failed;
	toast->reader.lend = lend;
	if (IsParallelWorker())
		toast->reader.workers = 1;
	else
		toast->reader.scans = 1;
	toast->owner = owner;
	toast->number = ++readers_made;
	toast->options = *options;
	toast->options.leave_first = Max(0, options->leave_first - blocks_left(owner));
	toast->nblocks = nblocks;
	enabled_mark(&toast->enabled);
	toast->hold = heap_am_hold(toastrel, before_fetch, toast);
	dlist_push_head(&toast_readers, &toast->reader.node);
}

/* --- Which TOAST tables --- */

/*
 * The size of a relation's files, in blocks.  The files are not opened, and an
 * error counts as their end, because the query may need no value at all.  If
 * it does, the fetch raises the error.
 */
static BlockNumber
file_size(RelFileLocator locator)
{
	char	   *path = compat_relation_path(locator);
	BlockNumber nblocks = 0;

	for (BlockNumber segment = 0; nblocks == segment * (BlockNumber) RELSEG_SIZE; segment++)
	{
		char	   *file = segment == 0 ? pstrdup(path) : psprintf("%s.%u", path, segment);
		struct stat status;
		bool		exists = stat(file, &status) == 0;

		pfree(file);
		if (!exists)
			break;
		nblocks += status.st_size / BLCKSZ;
	}
	pfree(path);
	return nblocks;
}

/*
 * The real size of a TOAST table, whose owner is locked.  It is not locked
 * itself: if it is just being rewritten, a wrong size does no harm.
 */
static BlockNumber
look_at_size(Oid toastid)
{
	BlockNumber nblocks = 0;
	HeapTuple	tuple;

	AcceptInvalidationMessages();
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(toastid));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		RelFileLocator locator = {
			.spcOid = form->reltablespace ? form->reltablespace : MyDatabaseTableSpace,
			.dbOid = MyDatabaseId,
			.relNumber = form->relfilenode,
		};

		/* to open the relation would cost kilobytes of memory */
		if (RelFileNumberIsValid(locator.relNumber))
			nblocks = file_size(locator);
		ReleaseSysCache(tuple);
	}
	return nblocks;
}

/*
 * The size of a TOAST table, as the session has seen it.  If the session has
 * not seen it, and may not look, the result is 0.
 *
 * A query of many partitions looks at the sizes of all their TOAST tables.  If
 * "looks" began with the same value for each of them, one query would have to
 * read all these sizes anew.  So it begins with a value computed from the OID.
 */
static BlockNumber
known_size(Oid toastid, bool may_look)
{
	SeenToast  *toast;
	BlockNumber nblocks;
	bool		found;

	toast = seen ? seen_lookup(seen, toastid) : NULL;
	if (toast != NULL && ++toast->looks < LOOKS_PER_SIZE)
		return toast->nblocks;
	if (toast == NULL && !may_look)
		return 0;

	toast_looks_left--;
	nblocks = look_at_size(toastid);
	if (seen == NULL)
		seen = seen_create(TopMemoryContext, 32, NULL);
	if (toast == NULL && seen->members >= MOST_SEEN)
		seen_reset(seen);
	toast = seen_insert(seen, toastid, &found);
	toast->nblocks = nblocks;
	toast->looks = found ? 0 : toastid % LOOKS_PER_SIZE;
	return nblocks;
}

/* The size of the relation as last seen; if none was seen, look now. */
static BlockNumber
scanned_blocks(Relation rel)
{
	BlockNumber nblocks = plan_seen_blocks(rel);

	return nblocks != InvalidBlockNumber ? nblocks : RelationGetNumberOfBlocks(rel);
}

/*
 * toast_look_up
 *		The slow path of toast_may_matter().  Counts as a look at the size that
 *		the session remembers.
 */
bool
toast_look_up(Relation rel)
{
	int			threshold = param_scan_ring > 0 ? SERVER_THRESHOLD : NBuffers;

	if (plan_mode() != MODE_CONTROL || rel->rd_smgr == NULL ||
		rel->rd_smgr->smgr_cached_nblocks[MAIN_FORKNUM] < TOAST_MIN_BLOCKS ||
		plan_exclusion(rel) != NULL)
		return false;
	return known_size(rel->rd_rel->reltoastrelid, toast_looks_left > 0) > (BlockNumber) threshold;
}

/*
 * toast_begin
 *		The relation is about to be scanned by the query or utility command
 *		"owner".  If its TOAST table is large enough, let the values that are
 *		fetched from it go through a ring.  is_query: is "owner" a query?
 *
 * The relation is locked, so no other session can drop its TOAST table.  If
 * this session already has a reader of the TOAST table, for another scan, that
 * reader serves both scans until the query that made it ends.  After
 * that, the values of this scan are read without a ring.
 */
void
toast_begin(const void *owner, Relation rel, bool is_query)
{
	Oid			toastid = rel->rd_rel->reltoastrelid;
	Relation	toastrel;
	BlockNumber nblocks;
	RingOptions options;

	if (!OidIsValid(toastid) || plan_mode() != MODE_CONTROL ||
		plan_exclusion(rel) != NULL)
		return;

	nblocks = known_size(toastid, true);
	if (nblocks == 0)			/* often no row has a value there */
		return;

	/* The larger of the two tables decides whether there is a ring. */
	plan_for_toast(rel, Max(scanned_blocks(rel), nblocks), &options);
	if (options.nbuffers == 0 || nblocks <= (BlockNumber) options.nbuffers ||
		!ConditionalLockRelationOid(toastid, AccessShareLock))
		return;
	if (!is_query)
		options.leave_first = 0;

	/*
	 * If this session has the TOAST table open already, there is a reader of
	 * it; or there may be a scan with heap_getnext(), which would refuse our
	 * routine.
	 */
	toastrel = table_open(toastid, NoLock);
	if (toastrel->rd_refcnt == 1 && heap_am_is_heap(toastrel))
		make_toast(owner, toastrel, nblocks, &options);
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

	dlist_foreach_modify(iter, &toast_readers)
	{
		ToastReader *toast = dlist_container(ToastReader, reader.node, iter.cur);

		if (toast->owner != owner)
			continue;
		heap_am_release(toast->hold);
		dlist_delete(&toast->reader.node);
		reader_may_lend(&toast->reader, false);
		reader_end(&toast->reader);
	}
}
