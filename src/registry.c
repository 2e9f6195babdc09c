/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Shared memory: who reads through a ring, and the cumulative counters.
 *
 * A reader is a scan or a prewarm from its first block to its last.  While it
 * runs it counts in its own memory; when it ends, its counts are added to the
 * row of its relation:
 *
 *	    backend                          shared memory
 *
 *	  Reader { Ring { counts } }       named DSM segment   DSA area
 *	        |                          +------------+     +--------------------+
 *	        |  registry_end_reader()   | lock       |     | dshash:            |
 *	        +--------------------------| handles ---+---->| (datid, relid,     |
 *	                                   | victims    |     |  kind) -> counters |
 *	                                   +------------+     +--------------------+
 *
 * The segment comes from the DSM registry, so that nobody has to restart the
 * server; its name carries the version of the layout, so that an old and a
 * new library in one cluster never read each other's.
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
 * If shared memory can't be had, the session says so once and goes on without
 * counters: a user's query never fails for them.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "lib/dshash.h"
#include "params.h"
#include "registry.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Change it with everything below that is in shared memory. */
#ifndef RINGCTL_LAYOUT
#define RINGCTL_LAYOUT	"1"
#endif
#define SEGMENT_NAME	"pg_ringctl layout " RINGCTL_LAYOUT
#define TRANCHE_NAME	"pg_ringctl"

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

typedef struct SharedState
{
	/* Set once, when the segment is created. */
	int			tranche;
	LWLock		lock;			/* protects what follows, and who adds or
								 * removes a row holds it exclusively */
	dsa_handle	area;			/* both are made by who comes first */
	dshash_table_handle rows;
	int64		relations;		/* number of rows */
	int64		dealloc;		/* rows that had to go */
	TimestampTz stats_reset;
	int			nvictims;		/* the oldest is the last one */
	Victim		victims[MAX_VICTIMS];

	pg_atomic_uint64 clock;		/* ticks whenever a row is used */

	/* Read for every block: on a cache line that nothing else writes to. */
	char		pad[PG_CACHE_LINE_SIZE];
	pg_atomic_uint32 offs;		/* times that "enabled" was switched off */
} SharedState;

static SharedState *shared = NULL;
static dsa_area *area = NULL;
static dshash_table *rows = NULL;
static bool unavailable = false;

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
init_segment(COMPAT_DSM_INIT_PARAMS)
{
	SharedState *state = segment;

	memset(state, 0, sizeof(SharedState));
	state->tranche = compat_new_tranche(TRANCHE_NAME);
	LWLockInitialize(&state->lock, state->tranche);
	state->area = DSA_HANDLE_INVALID;
	state->rows = DSHASH_HANDLE_INVALID;
	state->stats_reset = GetCurrentTimestamp();
	pg_atomic_init_u64(&state->clock, 0);
	pg_atomic_init_u32(&state->offs, 0);
}

/* Make the table of rows, or attach to it. */
static void
attach_rows(SharedState *state)
{
	dshash_parameters params = rows_params;

	params.tranche_id = state->tranche;

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	if (area == NULL && state->area == DSA_HANDLE_INVALID)
	{
		area = dsa_create(state->tranche);
		dsa_pin(area);
		dsa_pin_mapping(area);
		state->area = dsa_get_handle(area);
	}
	else if (area == NULL)
	{
		area = dsa_attach(state->area);
		dsa_pin_mapping(area);
	}

	if (state->rows == DSHASH_HANDLE_INVALID)
	{
		rows = dshash_create(area, &params, NULL);
		state->rows = dshash_get_hash_table_handle(rows);
	}
	else
		rows = dshash_attach(area, &params, state->rows, NULL);
	LWLockRelease(&state->lock);
}

/* Attach this backend to shared memory; errors are the caller's to catch. */
static void
attach(void)
{
	MemoryContext oldcontext;
	SharedState *state;
	bool		found;

	if (rows != NULL)
		return;

	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	state = compat_named_dsm_segment(SEGMENT_NAME, sizeof(SharedState),
									 init_segment, &found);
	compat_name_tranche(state->tranche, TRANCHE_NAME);
	attach_rows(state);
	shared = state;
	MemoryContextSwitchTo(oldcontext);
}

/* For the one row that is used now. */
static inline uint64
tick(void)
{
	return pg_atomic_add_fetch_u64(&shared->clock, 1);
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
	Victim	   *all = palloc(shared->relations * sizeof(Victim));
	int			nrows = 0;

	dshash_seq_init(&seq, rows, false);
	while ((row = dshash_seq_next(&seq)) != NULL && nrows < shared->relations)
	{
		all[nrows].key = row->row.key;
		all[nrows++].used = row->used;
	}
	dshash_seq_term(&seq);

	/* oldest last: they are taken from the end */
	qsort(all, nrows, sizeof(Victim), compare_victims);
	shared->nvictims = Min(nrows, MAX_VICTIMS);
	memcpy(shared->victims, all + (nrows - shared->nvictims),
		   shared->nvictims * sizeof(Victim));
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

		if (shared->nvictims == 0)
			choose_victims();
		if (shared->nvictims == 0)
			return;

		victim = shared->victims[--shared->nvictims];
		row = dshash_find(rows, &victim.key, true);
		if (row == NULL)
			continue;
		if (row->used == victim.used)
		{
			dshash_delete_entry(rows, row);
			shared->relations--;
			shared->dealloc++;
			return;
		}
		dshash_release_lock(rows, row);
	}
}

/* Add a row, make room for it if need be, and return it locked. */
static SharedRow *
add_row(const StatsKey *key)
{
	SharedRow  *row;
	bool		found;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	while (shared->relations > 0 && shared->relations >= param_max_relations)
		remove_oldest_row();

	row = dshash_find_or_insert(rows, key, &found);
	if (!found)
	{
		memset(&row->row.counters, 0, sizeof(StatsCounters));
		row->used = 0;
		/* If a row went, it may have been this one: it counts since now. */
		row->row.counters.stats_reset = shared->dealloc > 0 ?
			GetCurrentTimestamp() : shared->stats_reset;
		shared->relations++;
	}
	LWLockRelease(&shared->lock);
	return row;
}

/* Find the row of key and lock it, or add it. */
static SharedRow *
find_or_add_row(const StatsKey *key)
{
	SharedRow  *row = dshash_find(rows, key, true);

	return row != NULL ? row : add_row(key);
}

/* What a reader needs of shared memory when it begins. */
static void
prepare(const StatsKey *key)
{
	SharedRow  *row;

	attach();
	if (!param_track)
		return;
	row = find_or_add_row(key);
	row->used = tick();
	dshash_release_lock(rows, row);
}

/* Is this an error that the user or the administrator has asked for? */
static bool
is_wanted(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
		error->sqlerrcode == ERRCODE_CRASH_SHUTDOWN;
}

/*
 * Prepare for a reader; but if that fails, say so once and do without: never
 * fail the user's query for it.
 *
 * Nothing that is called here leaves more behind than LWLocks when it fails.
 * The executor holds none when it asks a node for a row.
 */
static void
try_prepare(const StatsKey *key)
{
	MemoryContext oldcontext = CurrentMemoryContext;

	if (unavailable)
		return;

	PG_TRY();
	{
		prepare(key);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		if (is_wanted(error))
			PG_RE_THROW();

		FlushErrorState();
		LWLockReleaseAll();
		unavailable = true;
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("pg_ringctl goes on without counters in this session"),
				 errdetail_internal("%s", error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();
}

/* Add up what one reader counted. */
static void
add_counts(StatsCounters *sum, const Reader *reader)
{
	const RingCounts *counts = ring_counts(reader->ring);

	sum->scans += reader->scans;
	sum->workers += reader->workers;
	sum->ring.blocks += counts->blocks;
	sum->ring.blks_read += counts->blks_read;
	sum->ring.blks_unringed += counts->blks_unringed;
	sum->ring.fills += counts->fills;
	sum->ring.reuses += counts->reuses;
	sum->ring.escapes_pinned += counts->escapes_pinned;
	sum->ring.escapes_adopted += counts->escapes_adopted;
	sum->ring.escapes_dirty += counts->escapes_dirty;
	sum->ring.slots_lost += counts->slots_lost;
	sum->ring.wal_flushes += counts->wal_flushes;
	sum->elapsed_ms += INSTR_TIME_GET_MILLISEC(reader->elapsed);

	sum->ring_buffers = ring_buffers(reader->ring);
	sum->ring_buffers_max = Max(sum->ring_buffers_max, sum->ring_buffers);
	sum->last_scan = GetCurrentTimestamp();
}

/* Report what the reader counted, and free its ring and itself. */
static void
finish_reader(Reader *reader, bool failed)
{
	SharedRow  *row = NULL;

	registry_stop_clock(reader);
	ring_watch(reader->ring);

	if (param_track && rows != NULL)
	{
		row = dshash_find(rows, &reader->key, true);
		if (row == NULL && !failed)
		{
			try_prepare(&reader->key);
			row = dshash_find(rows, &reader->key, true);
		}
	}
	if (row != NULL)
	{
		add_counts(&row->row.counters, reader);
		row->used = tick();
		dshash_release_lock(rows, row);
	}

	ring_free(reader->ring);
	pfree(reader);
}

/*
 * registry_begin_reader
 *		A reader of the relation begins, with a ring made of these options.
 *
 * *reader is zeroed memory that lives as long as the session, with nothing
 * but "failed" set (may be NULL).  It belongs to the registry from now on, as
 * does the ring: registry_end_reader() frees them; if the query fails, its
 * resource owner does.  Then failed() is called first, so that the creator
 * forgets it; it may not throw.  If this throws, the reader is still the
 * caller's.
 */
void
registry_begin_reader(Reader *reader, ReaderKind kind, Oid relid,
					  const RingOptions *options)
{
	reader->key.datid = MyDatabaseId;
	reader->key.relid = relid;
	reader->key.kind = kind;
	reader->owner = CurrentResourceOwner;

	try_prepare(&reader->key);
	ResourceOwnerEnlarge(reader->owner);
	reader->ring = ring_create(options);
	ResourceOwnerRemember(reader->owner, PointerGetDatum(reader), &reader_resource);
	registry_start_clock(reader);
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
	ring_forget_relation(reader->ring);
	finish_reader(reader, true);
}

/*
 * registry_count_scans
 *		Count scans of a relation that had no reader in this process.
 */
void
registry_count_scans(ReaderKind kind, Oid relid, int64 scans)
{
	StatsKey	key = {MyDatabaseId, relid, kind};
	SharedRow  *row;

	try_prepare(&key);
	if (!param_track || rows == NULL)
		return;

	row = dshash_find(rows, &key, true);
	if (row != NULL)
	{
		row->row.counters.scans += scans;
		row->row.counters.last_scan = GetCurrentTimestamp();
		dshash_release_lock(rows, row);
	}
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

	attach();
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
 *		How many rows there are, how many had to go since the last reset of
 *		all, and when that was.
 */
void
registry_read_info(int64 *relations, int64 *dealloc, TimestampTz *stats_reset)
{
	attach();
	LWLockAcquire(&shared->lock, LW_SHARED);
	*relations = shared->relations;
	*dealloc = shared->dealloc;
	*stats_reset = shared->stats_reset;
	LWLockRelease(&shared->lock);
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

	attach();
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	dshash_seq_init(&seq, rows, true);
	while ((row = dshash_seq_next(&seq)) != NULL)
	{
		if (all)
		{
			dshash_delete_current(&seq);
			shared->relations--;
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
		shared->dealloc = 0;
		shared->nvictims = 0;
		shared->stats_reset = now;
	}
	LWLockRelease(&shared->lock);
	return now;
}

/*
 * registry_offs
 *		The shared count of how often "enabled" was switched off; NULL in a
 *		process that has not attached to shared memory.
 */
pg_atomic_uint32 *
registry_offs(void)
{
	return shared ? &shared->offs : NULL;
}
