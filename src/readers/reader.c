/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  The life of a reader of a relation.
 *
 * A reader reads one relation.  It is a scan, a prewarm, or the fetches of
 * TOAST values for a query or a utility command.  Its life:
 *
 *	  make --> begin --> start_pass --> ... --> end
 *	   |         |         |  ^  |
 *	   |         |         |  +--+ rescan
 *	   |         |         |
 *	   +---------+---------+----> fails: the resource owner ends it
 *
 * While a reader runs, its ring counts what it does, in memory that other
 * sessions can see (live_rings.c).  When the reader ends, these counts go into
 * the statistics (stats.c).
 *
 * If a query fails, its resource owner ends its readers.  At that time, memory
 * must not be allocated.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "common/relations.h"
#include "compat.h"
#include "readers/reader.h"
#include "sharing/sharing.h"
#include "shmem/area.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/*
 * Each call of reader_lend_finished() asks at most this number of readers to
 * lend their rings.
 */
#define MAX_LOOKED_AT			4

static void reader_failed(Datum res);

/* Readers that may lend their rings; the one added last is first */
static dlist_head may_lend_list = DLIST_STATIC_INIT(may_lend_list);

/* A reader is released after its buffer pins, and before its relation. */
static const ResourceOwnerDesc reader_resource = {
	.name = "pg_ringctl reader",
	.release_phase = RESOURCE_RELEASE_BEFORE_LOCKS,
	.release_priority = RELEASE_PRIO_RELCACHE_REFS - 1,
	.ReleaseResource = reader_failed,
};

/*
 * reader_attach_shared
 *		Attach this process to what readers share; raises an error if that
 *		can't be done.
 */
void
reader_attach_shared(void)
{
	static bool attached = false;
	MemoryContext oldcontext;

	if (attached)
		return;
	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	shared_attach();
	live_attach();
	sharing_attach();
	stats_attach();
	MemoryContextSwitchTo(oldcontext);
	attached = true;
}

static void
attach_shared(void *arg pg_attribute_unused())
{
	reader_attach_shared();
}

/*
 * reader_kind_name
 *		What users call this kind of reader.
 */
const char *
reader_kind_name(int32 kind)
{
#define NAME(kind, name)	[kind] = name,
	static const char *const names[] = {READER_KINDS(NAME)};
#undef NAME

	return kind >= 0 && kind < (int) lengthof(names) ? names[kind] : "unknown";
}

/* Add what the reader did to the statistics, unless it had no ring. */
static void
count_reader(const Reader *reader)
{
	const RingPublic *ring = ring_public(reader->ring);
	StatsCounters counters = {0};

	if (ring->nbuffers_max == 0)
		return;
	counters.scans = reader->scans;
	counters.workers = reader->workers;
	counters.ring = *ring_counts(reader->ring);
	counters.ring_buffers = ring->nbuffers;
	counters.ring_buffers_max = ring->nbuffers_max;
	counters.elapsed_ms = INSTR_TIME_GET_MILLISEC(reader->elapsed);
	counters.last_scan = GetCurrentTimestamp();
	stats_add(reader->info.kind, reader->info.relid, &counters);
}

/*
 * Count what the reader did, tell its creator by finished() unless the query
 * failed, and free its ring and the reader itself.  A reader that never began
 * is only freed.
 */
static void
finish_reader(Reader *reader, bool failed)
{
	if (reader->ring == NULL)
	{
		pfree(reader);
		return;
	}
	reader_stop_clock(reader);
	ring_close(reader->ring);
	count_reader(reader);

	PG_TRY();
	{
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

/* Set what other sessions see of the reader, except for its present pass. */
static void
set_info(Reader *reader, ReaderKind kind, Oid relid, RingSource source)
{
	PGPROC	   *leader = IsParallelWorker() ? MyProc->lockGroupLeader : NULL;

	reader->info.leader_pid = leader ? leader->pid : 0;
	reader->info.datid = relations_database(relid);
	reader->info.relid = relid;
	reader->info.kind = kind;
	reader->info.source = source;
}

/*
 * reader_make
 *		Allocate "size" zeroed bytes, which begin with a Reader, in a context
 *		that lives as long as the session.
 *
 * reader_end() frees the reader.  If the query fails, its resource owner frees
 * the reader.  Before that the resource owner calls failed(), if the creator
 * of the reader has set it.  failed() must remove the reader from the
 * creator's lists, call reader_may_lend(reader, false) if the reader may lend,
 * and must not throw.
 */
void *
reader_make(MemoryContext context, Size size)
{
	Reader	   *reader;

	ResourceOwnerEnlarge(CurrentResourceOwner);
	reader = MemoryContextAllocZero(context, size);
	reader->owner = CurrentResourceOwner;
	ResourceOwnerRemember(reader->owner, PointerGetDatum(reader), &reader_resource);
	return reader;
}

/*
 * reader_begin
 *		The reader begins to read the relation, through a new ring with these
 *		options.  Raises an error if memory runs out; the resource owner then
 *		ends the reader.
 */
void
reader_begin(Reader *reader, ReaderKind kind, Oid relid,
			 const RingOptions *options)
{
	reader_lend_finished();
	shared_try(attach_shared, NULL);
	/* A reader without a ring is not counted: see count_reader(). */
	if (options->nbuffers > 0)
		stats_prepare(kind, relid);
	reader->ringid = live_new_ringid();
	set_info(reader, kind, relid, options->source);
	reader->ring = ring_create(options);
	reader_start_clock(reader);
}

/*
 * reader_start_pass
 *		The reader starts a pass over blocks_total blocks.  From now on other
 *		sessions see it.
 */
void
reader_start_pass(Reader *reader, int64 blocks_total)
{
	ring_start_pass(reader->ring);
	reader_show_pass(reader, blocks_total);
}

/*
 * reader_show_pass
 *		Let other sessions see the reader in this pass, which starts now.
 */
void
reader_show_pass(Reader *reader, int64 blocks_total)
{
	reader_hide(reader);
	reader->info.blocks_total = blocks_total;
	reader->info.started = GetCurrentTimestamp();
	reader_show(reader);
}

/*
 * reader_show, reader_hide
 *		From now on other sessions see the reader, or do not.
 */
void
reader_show(Reader *reader)
{
	LiveRing   *live = ring_live(reader->ring);

	if (live != NULL)
		live_show(live, reader->ringid, &reader->info);
}

void
reader_hide(Reader *reader)
{
	LiveRing   *live = ring_live(reader->ring);

	if (live != NULL)
		live_hide(live);
}

/*
 * reader_end
 *		The reader's stream has ended: count what the reader did, and free the
 *		reader and its ring.  A reader that never began is only freed.
 */
void
reader_end(Reader *reader)
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
	finish_reader(reader, true);
}

/*
 * reader_may_lend
 *		Note whether the reader may lend its ring soon.  A reader may do so
 *		once its stream has asked for all blocks, or if the reader has no page
 *		pinned between its fetches (toast.c).
 *
 * reader_lend_finished() calls lend() of this reader if this reader is among
 * the MAX_LOOKED_AT that were added last.  If the ring can be lent now, lend()
 * lends it (ring_lend()) and calls this function with false.
 */
void
reader_may_lend(Reader *reader, bool may_lend)
{
	if (!dlist_node_is_detached(&reader->lend_node))
		dlist_delete_thoroughly(&reader->lend_node);
	if (may_lend)
		dlist_push_head(&may_lend_list, &reader->lend_node);
}

/*
 * reader_lend_finished
 *		A reader or a pass is about to begin, a pass that has started quietly
 *		goes on, or the server is about to read the first blocks of a scan, or
 *		goes on to read them: let the readers that can lend their rings do so.
 *
 * Only the MAX_LOOKED_AT readers that were added last are asked.  If a query
 * scans one partition after another, the first of them is that of the
 * partition that was scanned just before.  The others are asked because a
 * query may scan several tables in turn.
 */
void
reader_lend_finished(void)
{
	dlist_mutable_iter iter;
	int			looked_at = 0;

	dlist_foreach_modify(iter, &may_lend_list)
	{
		Reader	   *reader = dlist_container(Reader, lend_node, iter.cur);

		reader->lend(reader);
		if (++looked_at == MAX_LOOKED_AT)
			break;
	}
}

/*
 * reader_start_clock, reader_stop_clock
 *		Start or stop a reader's clock.  The clock is stopped between two runs
 *		of the query, and from the moment when the stream has asked for all
 *		blocks of a pass until the scan is rescanned or turns.  (If the query
 *		is run in a loop, the time may be inexact: see is_in_loop().)
 */
void
reader_start_clock(Reader *reader)
{
	if (reader->running)
		return;
	reader->running = true;
	INSTR_TIME_SET_CURRENT(reader->started);
}

void
reader_stop_clock(Reader *reader)
{
	instr_time	now;

	if (!reader->running)
		return;
	reader->running = false;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_ACCUM_DIFF(reader->elapsed, now, reader->started);
}

/*
 * reader_count_scan
 *		Count a scan that had no reader in this process.
 */
void
reader_count_scan(ReaderKind kind, Oid relid)
{
	StatsCounters counters = {.scans = 1,.last_scan = GetCurrentTimestamp()};

	shared_try(attach_shared, NULL);
	stats_prepare(kind, relid);
	stats_add(kind, relid, &counters);
}
