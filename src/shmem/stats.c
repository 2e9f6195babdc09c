/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  The cumulative statistics: what rings did, for each relation.
 *
 * A reader that ends adds its counts to what is pending in its own backend.
 * This takes no lock.  At the end of a transaction, what is pending is added
 * to the rows in shared memory:
 *
 *	  backend                                 dshash in shared memory
 *	  (relid, kind) -> counts   --flush-->    (datid, relid, kind) -> counters
 *
 * pgstat does the same with the statistics of tables.  A transaction flushes
 * at its end if readers have asked for FLUSH_BLOCKS blocks since the last
 * flush, if FLUSH_INTERVAL_MS have passed since then, or if the hash table of
 * pending counts has more than MAX_PENDING entries.  A parallel worker always
 * flushes.  Otherwise the counts wait for the end of a later transaction, or
 * until the backend exits or reads the statistics itself.
 *
 * A transaction that is aborted flushes by the same rules.  The readers of a
 * failed query end later in the abort, when memory must not be allocated.  So
 * the pending entry and the row are made when the backend begins to read a
 * relation for the first time.  If the row has been removed since then, the
 * counts stay pending.  If a flush is due when a reader of a failed query
 * ends, only what is pending for its relation and kind is flushed; the other
 * counts wait for a later transaction, or for the end of this one if only a
 * subtransaction is aborted.
 *
 * There are at most max_entries rows, and no more than fit into half of
 * shared_room().  If there is no room for a row, the 5 % of the rows that were
 * used least recently are removed.  (pg_stat_statements also removes 5 %, but
 * those with the least usage.)
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "common/relations.h"
#include "compat.h"
#include "lib/dshash.h"
#include "params.h"
#include "shmem/area.h"
#include "shmem/stats.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/*
 * Flush at the end of a transaction if readers have asked for this number of
 * blocks, hits included, since the last flush.
 */
#define FLUSH_BLOCKS		1000

/*
 * Also flush at the end of a transaction if this time has passed since the
 * last flush.
 */
#define FLUSH_INTERVAL_MS	1000

/* When there is no room for a row, this percentage of the rows is removed. */
#define DEALLOC_PERCENT		5

/*
 * Space that a row takes in the area, including its share of the hash table's
 * buckets and of dsa's overhead.
 */
#define ROW_SPACE			320

/* Counts of this backend that are not yet in shared memory. */
typedef struct PendingKey
{
	Oid			relid;
	int32		kind;			/* a ReaderKind */
} PendingKey;

typedef struct Pending
{
	PendingKey	key;
	StatsCounters counters;
	char		status;			/* hash status */
} Pending;

#define SH_PREFIX		pending
#define SH_ELEMENT_TYPE	Pending
#define SH_KEY_TYPE		PendingKey
#define SH_KEY			key
#define SH_HASH_KEY(tb, k)	hash_combine(murmurhash32((k).relid), (uint32) (k).kind)
#define SH_EQUAL(tb, a, b)	((a).relid == (b).relid && (a).kind == (b).kind)
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/*
 * If there are more pending entries than this at the end of a transaction,
 * flush and remove them.
 */
#define MAX_PENDING		1000

/* A row as it is in the hash table; the key comes first. */
typedef struct SharedRow
{
	StatsRow	row;
	TimestampTz used;			/* when it was made, or its last scan ended */
} SharedRow;

typedef struct StatsPart
{
	LWLock		lock;			/* protects what follows; held exclusively to
								 * add or remove rows */
	dshash_table_handle rows;	/* made by the first process */
	int64		nrows;
	int64		dealloc;		/* rows removed because there was no room */
	TimestampTz stats_reset;
} StatsPart;

static StatsPart *part = NULL;
static dshash_table *rows = NULL;

static pending_hash *pending = NULL;
static int64 pending_blocks = 0;	/* asked for since the last flush */
static bool is_pending = false;
static TimestampTz last_flush = 0;

static const dshash_parameters rows_params = {
	.key_size = sizeof(StatsKey),
	.entry_size = sizeof(SharedRow),
	.compare_function = dshash_memcmp,
	.hash_function = dshash_memhash,
	.copy_function = dshash_memcpy,
};

static void at_exit(void);

static void
init_stats(void *memory)
{
	StatsPart  *new = memory;

	LWLockInitialize(&new->lock, shared_tranche());
	new->rows = DSHASH_HANDLE_INVALID;
	new->stats_reset = GetCurrentTimestamp();
}

/*
 * stats_attach
 *		Attach this process to the statistics; raises an error if that can't be
 *		done.
 */
void
stats_attach(void)
{
	dshash_parameters params = rows_params;

	if (rows != NULL)
		return;
	part = shared_part(PART_STATS, sizeof(StatsPart), init_stats);
	params.tranche_id = shared_tranche();

	LWLockAcquire(&part->lock, LW_EXCLUSIVE);
	if (part->rows == DSHASH_HANDLE_INVALID)
	{
		rows = dshash_create(shared_area(), &params, NULL);
		part->rows = dshash_get_hash_table_handle(rows);
	}
	else
		rows = dshash_attach(shared_area(), &params, part->rows, NULL);
	LWLockRelease(&part->lock);
	shared_on_exit(at_exit);
}

/* The largest number of rows. */
static int64
most_rows(void)
{
	return Min(param_max_entries, (int64) shared_room() / 2 / ROW_SPACE);
}

static int
compare_times(const void *a, const void *b)
{
	TimestampTz time_a = *(const TimestampTz *) a;
	TimestampTz time_b = *(const TimestampTz *) b;

	return (time_a > time_b) - (time_a < time_b);
}

/*
 * Of the how_many least recently used rows, return the latest time of use.
 * The lock is held.
 */
static TimestampTz
dealloc_horizon(int64 how_many)
{
	TimestampTz *times = palloc_extended(part->nrows * sizeof(TimestampTz),
										 MCXT_ALLOC_HUGE);
	dshash_seq_status seq;
	SharedRow  *row;
	int64		n = 0;
	TimestampTz horizon;

	dshash_seq_init(&seq, rows, false);
	while ((row = dshash_seq_next(&seq)) != NULL && n < part->nrows)
		times[n++] = row->used;
	dshash_seq_term(&seq);

	qsort(times, n, sizeof(TimestampTz), compare_times);
	horizon = n > 0 ? times[Min(how_many, n) - 1] : 0;
	pfree(times);
	return horizon;
}

/* Remove the rows that were used least recently.  The lock is held. */
static void
dealloc_rows(void)
{
	int64		most = most_rows();
	int64		left = Max(Max(1, part->nrows - most + 1),
						   most * DEALLOC_PERCENT / 100);
	TimestampTz horizon = dealloc_horizon(left);
	dshash_seq_status seq;
	SharedRow  *row;

	dshash_seq_init(&seq, rows, true);
	while (left > 0 && (row = dshash_seq_next(&seq)) != NULL)
	{
		if (row->used > horizon)
			continue;
		dshash_delete_current(&seq);
		part->nrows--;
		part->dealloc++;
		left--;
	}
	dshash_seq_term(&seq);
}

/*
 * Add a row, after making room for it if necessary, and return the row locked.
 */
static SharedRow *
add_row(const StatsKey *key)
{
	SharedRow  *row;
	bool		found;

	LWLockAcquire(&part->lock, LW_EXCLUSIVE);
	if (part->nrows >= most_rows())
		dealloc_rows();

	row = dshash_find_or_insert(rows, key, &found);
	if (!found)
	{
		StatsCounters *counters = &row->row.counters;

		memset(counters, 0, sizeof(StatsCounters));
		row->used = GetCurrentTimestamp();
		/* This row may have existed before, and may have been removed. */
		counters->stats_reset = part->dealloc > 0 ? row->used : part->stats_reset;
		part->nrows++;
	}
	LWLockRelease(&part->lock);
	return row;
}

static void
add_counters(StatsCounters *sum, const StatsCounters *counters)
{
	sum->scans += counters->scans;
	sum->workers += counters->workers;
	ring_add_counts(&sum->ring, &counters->ring);
	sum->elapsed_ms += counters->elapsed_ms;
	if (counters->ring_buffers > 0) /* 0: the scan had no reader here */
		sum->ring_buffers = counters->ring_buffers;
	sum->ring_buffers_max = Max(sum->ring_buffers_max, counters->ring_buffers_max);
	sum->last_scan = Max(sum->last_scan, counters->last_scan);
}

/*
 * Move the pending counts of an entry to its row.  If there is no row, add one
 * if may_add_row is true, or else leave the counts pending.  Returns whether
 * they are still pending.
 */
static bool
flush_entry(Pending *entry, bool may_add_row)
{
	Oid			relid = entry->key.relid;
	StatsKey	key = {relations_database(relid), relid, entry->key.kind};
	SharedRow  *row;

	if (entry->counters.last_scan == 0)
		return false;
	row = dshash_find(rows, &key, true);
	if (row == NULL && may_add_row)
	{
		row = add_row(&key);
		row->row.counters.stats_reset = Min(row->row.counters.stats_reset,
											entry->counters.last_scan);
	}
	if (row == NULL)
		return true;
	add_counters(&row->row.counters, &entry->counters);
	row->used = Max(row->used, entry->counters.last_scan);
	dshash_release_lock(rows, row);
	memset(&entry->counters, 0, sizeof(StatsCounters));
	return false;
}

/* The same for all entries.  Returns whether any counts are still pending. */
static bool
flush_entries(bool may_add_rows)
{
	pending_iterator iter;
	Pending    *entry;
	bool		left = false;

	pending_start_iterate(pending, &iter);
	while ((entry = pending_iterate(pending, &iter)) != NULL)
		left |= flush_entry(entry, may_add_rows);
	return left;
}

/*
 * Move pending counts to shared memory.  Begin with the rows that exist, so
 * that none of these is removed to make room for a new one.  If only_found is
 * true, add no new rows, because that needs memory.
 */
static void
flush_pending(void *arg)
{
	bool		only_found = *(bool *) arg;
	bool		left = flush_entries(false);

	if (left && !only_found)
		left = flush_entries(true);
	is_pending = left;
	pending_blocks = 0;
}

/*
 * Flush if anything is pending.  only_found must be true while a transaction
 * aborts.
 */
static void
flush(bool only_found)
{
	if (!is_pending || rows == NULL)
		return;
	last_flush = GetCurrentTimestamp();
	shared_try(flush_pending, &only_found);
}

/* Flush one entry while a transaction aborts. */
static void
flush_aborted(void *entry)
{
	(void) flush_entry(entry, false);
}

/* Is it time to flush? */
static bool
is_due(void)
{
	return is_pending &&
		(pending_blocks >= FLUSH_BLOCKS || IsParallelWorker() ||
		 TimestampDifferenceExceeds(last_flush, GetCurrentTimestamp(),
									FLUSH_INTERVAL_MS));
}

/*
 * Flush at the end of a transaction.  If there are too many entries, remove
 * all of them.  This loses the counts that could not be flushed and, if the
 * transaction aborts, those of its readers, because they end after this.
 *
 * If the process exits, do nothing: at_exit() will flush.  An error would be
 * fatal now, and the transaction's locks would never be released.
 */
static void
flush_at_end(bool only_found)
{
	bool		too_many = pending->members > MAX_PENDING;

	if (proc_exit_inprogress)
		return;
	if (too_many || is_due())
		flush(only_found);
	if (too_many)
	{
		pending_destroy(pending);
		pending = NULL;
		is_pending = false;
	}
}

static void
at_end_of_transaction(XactEvent event, void *arg pg_attribute_unused())
{
	if (pending == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			flush_at_end(false);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			flush_at_end(true);
			break;
		default:
			break;
	}
}

/*
 * The process exits.  End an open transaction first: this also ends its
 * readers, which add their counts.  Moreover, an error in flush() is fatal at
 * this time, and the callbacks that come after this one must not find an open
 * transaction.
 */
static void
at_exit(void)
{
	if (pending == NULL)
		return;
	AbortOutOfAnyTransaction();
	flush(false);
}

/*
 * stats_init
 *		Called once, when the library is loaded.
 *
 * The server calls transaction callbacks in reverse order of registration.  So
 * this must be called before other files register the callbacks that end
 * readers before a commit.
 */
void
stats_init(void)
{
	RegisterXactCallback(at_end_of_transaction, NULL);
}

/*
 * Make a row, if there is none yet.  If other rows must be removed to make
 * room, flush first, so that rows which this backend has just used are not
 * removed.
 */
static void
prepare_row(void *arg)
{
	const StatsKey *key = arg;
	SharedRow  *row = dshash_find(rows, key, false);

	if (row == NULL)
	{
		if (part->nrows >= most_rows())
			flush(true);
		row = add_row(key);
	}
	dshash_release_lock(rows, row);
}

/*
 * stats_prepare
 *		A reader of this kind begins to read the relation: allocate what
 *		stats_add() will need.
 */
void
stats_prepare(ReaderKind kind, Oid relid)
{
	PendingKey	key = {relid, kind};
	Pending    *entry;
	bool		found;

	if (!param_track)
		return;
	if (pending == NULL)
		pending = pending_create(TopMemoryContext, 16, NULL);
	entry = pending_insert(pending, key, &found);
	if (found)
		return;
	memset(&entry->counters, 0, sizeof(StatsCounters));
	if (rows != NULL)
	{
		StatsKey	row_key = {relations_database(relid), relid, kind};

		shared_try(prepare_row, &row_key);
	}
}

/*
 * stats_add
 *		Add the counts of a reader to what is pending, without allocating
 *		memory.  Does nothing if stats_prepare() was not called for the reader.
 */
void
stats_add(ReaderKind kind, Oid relid, const StatsCounters *counters)
{
	PendingKey	key = {relid, kind};
	Pending    *entry;

	if (!param_track || pending == NULL)
		return;
	entry = pending_lookup(pending, key);
	if (entry == NULL)
		return;
	add_counters(&entry->counters, counters);
	is_pending = true;
	pending_blocks += counters->ring.blocks;

	/*
	 * If the transaction is being aborted, at_end_of_transaction() came
	 * before; if only a subtransaction is, it is still to come.  A query over
	 * many partitions has many readers, so flush only this reader's entry. If
	 * the process exits, at_exit() will flush.
	 */
	if (!IsTransactionState() && !proc_exit_inprogress && rows != NULL && is_due())
		shared_try(flush_aborted, entry);
}

/*
 * stats_read
 *		Copy all rows of counters to palloc'd *result, and return their number.
 */
int
stats_read(StatsRow **result)
{
	dshash_seq_status seq;
	SharedRow  *row;
	int			nrows = 0;
	int			size = 64;

	flush(false);
	*result = palloc(size * sizeof(StatsRow));

	dshash_seq_init(&seq, rows, false);
	while ((row = dshash_seq_next(&seq)) != NULL)
	{
		if (nrows == size)
		{
			size *= 2;
			*result = repalloc_huge(*result, size * sizeof(StatsRow));
		}
		(*result)[nrows++] = row->row;
	}
	dshash_seq_term(&seq);
	return nrows;
}

/*
 * stats_read_info
 *		Get the number of rows, the time when all rows were last reset, and the
 *		number of rows removed since then because there was no room.
 */
void
stats_read_info(StatsInfo *info)
{
	flush(false);
	LWLockAcquire(&part->lock, LW_SHARED);
	info->nrows = part->nrows;
	info->dealloc = part->dealloc;
	info->stats_reset = part->stats_reset;
	LWLockRelease(&part->lock);
}

/*
 * stats_reset
 *		Reset the counters of a relation, of a database, or all: 0 stands for
 *		any relation or database.  Returns the time of the reset, and in *nrows
 *		the number of rows.
 *
 * If all are reset, all rows are removed.  Otherwise the rows stay, with their
 * counters at zero, and say when they began to count.
 */
TimestampTz
stats_reset(Oid datid, Oid relid, int *nrows)
{
	dshash_seq_status seq;
	SharedRow  *row;
	TimestampTz now;
	bool		all = !OidIsValid(datid) && !OidIsValid(relid);

	*nrows = 0;
	flush(false);
	now = GetCurrentTimestamp();
	LWLockAcquire(&part->lock, LW_EXCLUSIVE);
	dshash_seq_init(&seq, rows, true);
	while ((row = dshash_seq_next(&seq)) != NULL)
	{
		if (all)
		{
			dshash_delete_current(&seq);
			part->nrows--;
			(*nrows)++;
		}
		else if ((!OidIsValid(datid) || row->row.key.datid == datid) &&
				 (!OidIsValid(relid) || row->row.key.relid == relid))
		{
			memset(&row->row.counters, 0, sizeof(StatsCounters));
			row->row.counters.stats_reset = now;
			(*nrows)++;
		}
	}
	dshash_seq_term(&seq);
	if (all)
	{
		part->dealloc = 0;
		part->stats_reset = now;
	}
	LWLockRelease(&part->lock);
	return now;
}
