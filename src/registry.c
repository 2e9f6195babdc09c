/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Who reads through a ring, and the cumulative counters.
 *
 * A reader is a scan or a prewarm from its first block to its last.  While it
 * runs, its ring counts for itself, where others can see it (live.c).  When it
 * ends, its counts are added to the row of its relation:
 *
 *	    Reader { Ring { counts } }         dshash in shared memory
 *	               |                     +-----------------------------------+
 *	               +-------------------->| (datid, relid, kind) -> counters  |
 *	         registry_end_reader()       +-----------------------------------+
 *
 * A query that fails takes no part in this: its resource owner ends its
 * readers.  It should not need memory then, so the row is made when the reader
 * begins; if the row went away meanwhile, the counts of the failed reader are
 * lost with it.
 *
 * The number of rows is bounded.  When a row is to be added and there is no
 * room, the one that was used least recently goes.  To find it, all rows are
 * sorted by last use once, and the oldest are kept as victims; a victim that
 * was used after that is passed over.  Rows that are no victims were all used
 * later, so the order is exact, and its cost is spread over many rows.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "escapes.h"
#include "lib/dshash.h"
#include "params.h"
#include "registry.h"
#include "share.h"
#include "shared.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define MAX_VICTIMS		256

/* A row as it is in the hash table; the key comes first. */
typedef struct SharedRow
{
	StatsRow	row;
	uint64		used;			/* the clock when it was last used */
} SharedRow;

typedef struct Victim
{
	StatsKey	key;
	uint64		used;			/* the row's clock when it became a victim */
} Victim;

typedef struct CountersPart
{
	LWLock		lock;			/* protects what follows, and who adds or
								 * removes a row holds it exclusively */
	dshash_table_handle rows;	/* made by who comes first */
	int64		relations;		/* number of rows */
	int64		dealloc;		/* rows that had to go */
	TimestampTz stats_reset;
	int			nvictims;		/* the oldest is the last one */
	Victim		victims[MAX_VICTIMS];

	pg_atomic_uint64 clock;		/* ticks whenever a row is used */
	pg_atomic_uint64 removals;	/* times that rows were removed */
} CountersPart;

static CountersPart *counters = NULL;
static dshash_table *rows = NULL;

/* The row that this process prepared last, and the removals before that. */
static StatsKey last_prepared;
static uint64 last_removals;

static const dshash_parameters rows_params = {
	.key_size = sizeof(StatsKey),
	.entry_size = sizeof(SharedRow),
	.compare_function = dshash_memcmp,
	.hash_function = dshash_memhash,
	.copy_function = dshash_memcpy,
};

static void reader_failed(Datum res);

/* Before the relation is let go of, after its buffers' pins are. */
static const ResourceOwnerDesc reader_resource = {
	.name = "pg_ringctl reader",
	.release_phase = RESOURCE_RELEASE_BEFORE_LOCKS,
	.release_priority = RELEASE_PRIO_RELCACHE_REFS - 1,
	.ReleaseResource = reader_failed,
};

static void
init_counters(void *part)
{
	CountersPart *new = part;

	LWLockInitialize(&new->lock, shared_tranche());
	new->rows = DSHASH_HANDLE_INVALID;
	new->stats_reset = GetCurrentTimestamp();
	pg_atomic_init_u64(&new->clock, 0);
	pg_atomic_init_u64(&new->removals, 0);
}

/* Make the table of rows, or attach to it. */
static void
attach_rows(void)
{
	dshash_parameters params = rows_params;

	params.tranche_id = shared_tranche();

	LWLockAcquire(&counters->lock, LW_EXCLUSIVE);
	if (counters->rows == DSHASH_HANDLE_INVALID)
	{
		rows = dshash_create(shared_area(), &params, NULL);
		counters->rows = dshash_get_hash_table_handle(rows);
	}
	else
		rows = dshash_attach(shared_area(), &params, counters->rows, NULL);
	LWLockRelease(&counters->lock);
}

/*
 * registry_attach
 *		Attach this process to what readers share; raises an error if that
 *		can't be done.
 */
void
registry_attach(void)
{
	MemoryContext oldcontext;

	if (rows != NULL)
		return;

	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	shared_attach();
	live_attach();
	escapes_attach();
	share_attach();
	counters = shared_part(PART_COUNTERS, sizeof(CountersPart), init_counters);
	attach_rows();
	MemoryContextSwitchTo(oldcontext);
}

/* What users call this kind of reader. */
const char *
registry_kind_name(int32 kind)
{
	return kind == READER_PREWARM ? "prewarm" : "seqscan";
}

/* For the one row that is used now. */
static inline uint64
tick(void)
{
	return pg_atomic_add_fetch_u64(&counters->clock, 1);
}

static int
compare_victims(const void *a, const void *b)
{
	uint64		used_a = ((const Victim *) a)->used;
	uint64		used_b = ((const Victim *) b)->used;

	return used_a < used_b ? 1 : used_a > used_b ? -1 : 0;
}

/* Sort all rows by last use, and keep the oldest as victims. */
static void
choose_victims(void)
{
	dshash_seq_status seq;
	SharedRow  *row;
	Victim	   *all = palloc(counters->relations * sizeof(Victim));
	int			nrows = 0;

	dshash_seq_init(&seq, rows, false);
	while ((row = dshash_seq_next(&seq)) != NULL && nrows < counters->relations)
	{
		all[nrows].key = row->row.key;
		all[nrows++].used = row->used;
	}
	dshash_seq_term(&seq);

	/* oldest last: they are taken from the end */
	qsort(all, nrows, sizeof(Victim), compare_victims);
	counters->nvictims = Min(nrows, MAX_VICTIMS);
	memcpy(counters->victims, all + (nrows - counters->nvictims),
		   counters->nvictims * sizeof(Victim));
	pfree(all);
}

/* Remove the row that was used least recently.  The lock is held. */
static void
remove_oldest_row(void)
{
	for (;;)
	{
		Victim		victim;
		SharedRow  *row;

		if (counters->nvictims == 0)
			choose_victims();
		if (counters->nvictims == 0)
			return;

		victim = counters->victims[--counters->nvictims];
		row = dshash_find(rows, &victim.key, true);
		if (row == NULL)
			continue;
		if (row->used == victim.used)
		{
			dshash_delete_entry(rows, row);
			pg_atomic_fetch_add_u64(&counters->removals, 1);
			counters->relations--;
			counters->dealloc++;
			return;
		}
		dshash_release_lock(rows, row);
	}
}

/*
 * Add a row, make room for it if need be, and return it locked.
 *
 * Where max_relations was lowered by much, so many rows have to go that others,
 * who can't be cancelled while they wait for the lock, would wait for long:
 * then some go with each row that comes.
 */
static SharedRow *
add_row(const StatsKey *key)
{
	SharedRow  *row;
	bool		found;

	LWLockAcquire(&counters->lock, LW_EXCLUSIVE);
	for (int n = 0; n < MAX_VICTIMS && counters->relations > 0 &&
		 counters->relations >= param_max_relations; n++)
		remove_oldest_row();

	row = dshash_find_or_insert(rows, key, &found);
	if (!found)
	{
		memset(&row->row.counters, 0, sizeof(StatsCounters));
		row->used = 0;
		/* If a row went, it may have been this one: it counts since now. */
		row->row.counters.stats_reset = counters->dealloc > 0 ?
			GetCurrentTimestamp() : counters->stats_reset;
		counters->relations++;
	}
	LWLockRelease(&counters->lock);
	return row;
}

/* Find the row of key and lock it, or add it. */
static SharedRow *
find_or_add_row(const StatsKey *key)
{
	SharedRow  *row = dshash_find(rows, key, true);

	return row != NULL ? row : add_row(key);
}

/* The row was used now: unlock it. */
static void
release_row(SharedRow *row)
{
	row->used = tick();
	dshash_release_lock(rows, row);
}

/*
 * What a reader needs of shared memory when it begins.  Who scans one relation
 * again and again need not look each time whether the row is there.
 */
static void
prepare(void *arg)
{
	const StatsKey *key = arg;
	SharedRow  *row;

	registry_attach();
	if (!param_track ||
		(memcmp(key, &last_prepared, sizeof(StatsKey)) == 0 &&
		 pg_atomic_read_u64(&counters->removals) == last_removals))
		return;
	last_removals = pg_atomic_read_u64(&counters->removals);
	row = find_or_add_row(key);
	release_row(row);
	last_prepared = *key;
}

/* Add up what one reader counted. */
static void
add_counts(StatsCounters *sum, const Reader *reader, TimestampTz now)
{
	sum->scans += reader->scans;
	sum->workers += reader->workers;
	ring_add_counts(&sum->ring, ring_counts(reader->ring));
	sum->elapsed_ms += INSTR_TIME_GET_MILLISEC(reader->elapsed);

	sum->ring_buffers = ring_public(reader->ring)->nbuffers;
	sum->ring_buffers_max = Max(sum->ring_buffers_max,
								ring_public(reader->ring)->nbuffers_max);
	sum->last_scan = now;
}

/* Add to a row, and unlock it. */
static void
add_to_row(SharedRow *row, const Reader *reader)
{
	add_counts(&row->row.counters, reader, GetCurrentTimestamp());
	release_row(row);
}

/* A reader has ended: its row gets its counts, or if that had to go, another. */
static void
report_end(void *arg)
{
	const Reader *reader = arg;

	add_to_row(find_or_add_row(&reader->key), reader);
}

/* A reader has failed: there is no memory for another row now. */
static void
report_failure(void *arg)
{
	const Reader *reader = arg;
	SharedRow  *row = dshash_find(rows, &reader->key, true);

	if (row != NULL)
		add_to_row(row, reader);
}

/* Report what the reader counted, and free its ring and itself. */
static void
finish_reader(Reader *reader, bool failed)
{
	registry_stop_clock(reader);
	ring_close(reader->ring);
	if (!failed)
		live_free_retired();

	PG_TRY();
	{
		if (param_track && rows != NULL)
			shared_try(failed ? report_failure : report_end, reader);
		if (reader->finished && !failed)
			reader->finished(reader);
	}
	PG_FINALLY();
	{
		ring_free(reader->ring);
		pfree(reader);
	}
	PG_END_TRY();
}

/* The ring's host, for a reader: while the ring runs, it is in live.c's. */
static RingPublic *
ring_enters(void *arg, int nslots, RingSlot **slots)
{
	Reader	   *reader = arg;

	reader->live = live_enter(nslots);
	*slots = nslots > 0 ? live_slots(reader->live) : NULL;
	return live_public(reader->live);
}

static void
ring_leaves(void *arg)
{
	Reader	   *reader = arg;

	live_leave(reader->live);
	reader->live = NULL;
}

static void
buffer_escaped(void *arg pg_attribute_unused(), const RingSlot *slot,
			   RingSlotState reason)
{
	Escape		escape = {
		.buffer = slot->buffer,
		.tag = slot->tag,
		.datid = MyDatabaseId,
		.relid = slot->relid,
		.reason = reason,
		.pid = MyProcPid,
		.escaped_at = GetCurrentTimestamp(),
	};

	escapes_log(&escape);
}

static const RingHost reader_host = {
	.enter = ring_enters,
	.leave = ring_leaves,
	.escaped = buffer_escaped,
};

/* What others see of the reader, but for its passes. */
static void
set_info(Reader *reader, const RingOptions *options)
{
	PGPROC	   *leader = IsParallelWorker() ? MyProc->lockGroupLeader : NULL;

	reader->info.leader_pid = leader ? leader->pid : 0;
	reader->info.datid = reader->key.datid;
	reader->info.relid = reader->key.relid;
	reader->info.kind = reader->key.kind;
	reader->info.source = options->source;
}

/*
 * registry_make_reader
 *		Memory for a reader: size bytes of the context, which lives as long as the
 *		session, zeroed, and a Reader before all else.
 *
 * It belongs to the registry: registry_end_reader() frees it; if the query
 * fails, its resource owner does.  Then failed() is called first, if the creator
 * has set it, so that he forgets the reader; it may not throw.
 */
void *
registry_make_reader(MemoryContext context, Size size)
{
	Reader	   *reader;

	ResourceOwnerEnlarge(CurrentResourceOwner);
	reader = MemoryContextAllocZero(context, size);
	reader->owner = CurrentResourceOwner;
	ResourceOwnerRemember(reader->owner, PointerGetDatum(reader), &reader_resource);
	return reader;
}

/*
 * registry_begin_reader
 *		The reader begins to read the relation, through a ring made of these
 *		options, which is the registry's, too.
 */
void
registry_begin_reader(Reader *reader, ReaderKind kind, Oid relid,
					  const RingOptions *options)
{
	reader->key.datid = MyDatabaseId;
	reader->key.relid = relid;
	reader->key.kind = kind;

	shared_try(prepare, &reader->key);
	reader->ringid = live_new_ringid();
	set_info(reader, options);
	reader->ring = ring_create(options, &reader_host, reader);
	ring_start(reader->ring);
	registry_start_clock(reader);
}

/*
 * registry_start_pass
 *		The reader starts to read so many blocks: from now on others see it.
 */
void
registry_start_pass(Reader *reader, int64 blocks_total)
{
	ring_start_pass(reader->ring);
	live_hide(reader->live);
	reader->info.blocks_total = blocks_total;
	reader->info.started = GetCurrentTimestamp();
	registry_show(reader);
}

/*
 * registry_show, registry_hide
 *		From now on others see the reader's ring, or don't.
 */
void
registry_show(Reader *reader)
{
	if (reader->live != NULL)
		live_show(reader->live, reader->ringid, &reader->info);
}

void
registry_hide(Reader *reader)
{
	if (reader->live != NULL)
		live_hide(reader->live);
}

/*
 * registry_end_reader
 *		The reader's stream has ended: report its counts, free it and its ring.
 */
void
registry_end_reader(Reader *reader)
{
	ResourceOwnerForget(reader->owner, PointerGetDatum(reader), &reader_resource);
	finish_reader(reader, false);
}

/* Called by the resource owner: the query failed. */
static void
reader_failed(Datum res)
{
	Reader	   *reader = (Reader *) DatumGetPointer(res);

	if (reader->failed)
		reader->failed(reader);
	if (reader->ring == NULL)
	{
		pfree(reader);
		return;
	}
	ring_forget_relation(reader->ring);
	finish_reader(reader, true);
}

/* Scans of a relation. */
typedef struct ScanCount
{
	StatsKey	key;
	int64		scans;
} ScanCount;

static void
add_scans(void *arg)
{
	const ScanCount *count = arg;
	SharedRow  *row;

	registry_attach();
	row = find_or_add_row(&count->key);
	row->row.counters.scans += count->scans;
	row->row.counters.last_scan = GetCurrentTimestamp();
	release_row(row);
}

/*
 * registry_count_scans
 *		Count scans of a relation that had no reader in this process.
 */
void
registry_count_scans(ReaderKind kind, Oid relid, int64 scans)
{
	ScanCount	count = {{MyDatabaseId, relid, kind}, scans};

	if (param_track)
		shared_try(add_scans, &count);
}

/*
 * registry_start_clock, registry_stop_clock
 *		A reader's time goes on, or stands still: its query is between two
 *		fetches, or it has come to its end and waits for a rescan.
 */
void
registry_start_clock(Reader *reader)
{
	if (reader->running)
		return;
	reader->running = true;
	INSTR_TIME_SET_CURRENT(reader->started);
}

void
registry_stop_clock(Reader *reader)
{
	instr_time	now;

	if (!reader->running)
		return;
	reader->running = false;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_ACCUM_DIFF(reader->elapsed, now, reader->started);
}

/*
 * registry_read
 *		All rows of counters, palloc'd in *rows; returns their number.
 */
int
registry_read(StatsRow **result)
{
	dshash_seq_status seq;
	SharedRow  *row;
	int			nrows = 0;
	int			size = 64;

	registry_attach();
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
 * registry_read_info
 *		How many rows there are, how many of them and of the log of escaped
 *		buffers had to go since the last reset of all, and when that was.
 */
void
registry_read_info(int64 *relations, int64 *dealloc, int64 *dropped,
				   TimestampTz *stats_reset)
{
	registry_attach();
	LWLockAcquire(&counters->lock, LW_SHARED);
	*relations = counters->relations;
	*dealloc = counters->dealloc;
	*stats_reset = counters->stats_reset;
	*dropped = escapes_dropped();
	LWLockRelease(&counters->lock);
}

/*
 * registry_reset
 *		Forget the counters of a database, a relation (of every database, if
 *		none is given), or all: 0 stands for any.  Returns when.
 *
 * A reset of all starts from nothing; else the rows stay, at zero, and say
 * since when they count.
 */
TimestampTz
registry_reset(Oid datid, Oid relid)
{
	dshash_seq_status seq;
	SharedRow  *row;
	TimestampTz now = GetCurrentTimestamp();
	bool		all = !OidIsValid(datid) && !OidIsValid(relid);

	registry_attach();
	LWLockAcquire(&counters->lock, LW_EXCLUSIVE);
	dshash_seq_init(&seq, rows, true);
	while ((row = dshash_seq_next(&seq)) != NULL)
	{
		if (all)
		{
			dshash_delete_current(&seq);
			counters->relations--;
		}
		else if ((!OidIsValid(datid) || row->row.key.datid == datid) &&
				 (!OidIsValid(relid) || row->row.key.relid == relid))
		{
			memset(&row->row.counters, 0, sizeof(StatsCounters));
			row->row.counters.stats_reset = now;
		}
	}
	dshash_seq_term(&seq);
	if (all)
	{
		pg_atomic_fetch_add_u64(&counters->removals, 1);
		counters->dealloc = 0;
		counters->nvictims = 0;
		counters->stats_reset = now;
		escapes_reset_dropped();
	}
	LWLockRelease(&counters->lock);
	return now;
}
