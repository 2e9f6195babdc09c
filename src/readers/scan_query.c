/*-------------------------------------------------------------------------
 *
 * scan_query.c
 *	  The readers of the scans of each query.
 *
 * Readers are kept by query, because a session may have many cursors:
 *
 *	  queries (a hash) ---> QueryScans ---> readers: all
 *	                                  \---> running: readers in a pass
 *
 * What happens to a query happens to all its readers: it pauses, goes on, is
 * about to end, and ends.  A utility command is like a query without pauses.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "readers/scan_query.h"
#include "ring/plan.h"
#include "utils/memutils.h"

struct QueryScans
{
	const void *owner;			/* the query's EState, or a utility command */
	dlist_head	readers;
	dlist_head	running;		/* readers whose pass is not over */
	int			dirty_to_leave; /* number of dirty pages that the readers'
								 * rings may still leave in the pool */
};

typedef struct QueryEntry
{
	const void *owner;			/* hash key */
	QueryScans *scans;
	char		status;			/* hash status */
} QueryEntry;

#define SH_PREFIX		queries
#define SH_ELEMENT_TYPE	QueryEntry
#define SH_KEY_TYPE		const void *
#define SH_KEY			owner
#define SH_HASH_KEY(tb, key)	((uint32) murmurhash64((uint64) (uintptr_t) (key)))
#define SH_EQUAL(tb, a, b)		((a) == (b))
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

int			scan_nqueries = 0;
MemoryContext scan_context = NULL;

static queries_hash *queries = NULL;

/*
 * query_init
 *		Called once, when the library is loaded.
 */
void
query_init(void)
{
	scan_context = AllocSetContextCreate(TopMemoryContext, "pg_ringctl scans",
										 ALLOCSET_SMALL_SIZES);
	queries = queries_create(scan_context, 4, NULL);
}

/* The readers of a query or utility command; NULL if it has none. */
static QueryScans *
find_query(const void *owner)
{
	QueryEntry *entry;

	if (scan_nqueries == 0)
		return NULL;
	entry = queries_lookup(queries, owner);
	return entry ? entry->scans : NULL;
}

/* The same; if there are none yet, make room for them. */
static QueryScans *
make_query(const void *owner)
{
	bool		found;
	QueryEntry *entry = queries_insert(queries, owner, &found);
	QueryScans *query;

	if (found && entry->scans != NULL)
		return entry->scans;
	entry->scans = NULL;		/* in case there is no memory */
	query = MemoryContextAlloc(scan_context, sizeof(QueryScans));
	query->owner = owner;
	query->dirty_to_leave = plan_dirty_to_leave();
	dlist_init(&query->readers);
	dlist_init(&query->running);
	entry->scans = query;
	scan_nqueries++;
	return query;
}

static void
forget_query(QueryScans *query)
{
	queries_delete(queries, query->owner);
	scan_nqueries--;
	pfree(query);
}

/*
 * query_add_reader
 *		The reader belongs to the query, or to the utility command, that owner
 *		identifies.  Raises an error if memory runs out.
 */
void
query_add_reader(const void *owner, ScanReader *reader)
{
	QueryScans *query = make_query(owner);

	dlist_push_tail(&query->readers, &reader->reader.node);
	reader->query = query;
}

/*
 * query_may_leave
 *		The reader is about to begin.  Alone, it would leave its first "blocks"
 *		blocks in the pool.  Returns how many of them it may leave, given what
 *		the query's other readers have left so far.
 *
 * If two readers read at the same time, as below a join, the second one begins
 * before the first one has left much, and both leave their blocks.
 *
 * The loop is usually short: most scans leave no blocks, and otherwise the
 * first readers in the list have usually left as many blocks as may be left.
 */
int64
query_may_leave(const ScanReader *reader, int64 blocks)
{
	dlist_iter	iter;

	dlist_foreach(iter, &reader->query->readers)
	{
		Ring	   *ring = dlist_container(ScanReader, reader.node, iter.cur)->reader.ring;

		if (blocks <= 0)
			return 0;
		if (ring != NULL)
			blocks -= Min(ring_counts(ring)->blks_read, ring_options(ring)->leave_first);
	}
	return Max(0, blocks);
}

/*
 * query_dirty_to_leave
 *		Returns a pointer to the number of dirty pages that the rings of the
 *		reader's query may still leave in the pool: see plan_dirty_to_leave().
 *		It is valid until the reader is removed from the query.
 */
int *
query_dirty_to_leave(const ScanReader *reader)
{
	return &reader->query->dirty_to_leave;
}

/*
 * query_set_running
 *		The reader is in a pass from now on, or in none.  To be called before
 *		reader->pass is changed.
 */
void
query_set_running(ScanReader *reader, bool now_running)
{
	bool		was_running = reader->pass != PASS_IDLE;

	if (now_running && !was_running)
		dlist_push_tail(&reader->query->running, &reader->running_node);
	else if (!now_running && was_running)
		dlist_delete(&reader->running_node);
}

/*
 * query_remove_reader
 *		Take the reader, which is in no pass, out of its query.  If it is the
 *		last one, forget the query.
 */
void
query_remove_reader(ScanReader *reader)
{
	Assert(reader->pass == PASS_IDLE);
	dlist_delete(&reader->reader.node);
	if (dlist_is_empty(&reader->query->readers))
		forget_query(reader->query);
}

/*
 * scan_find_reader
 *		The reader of a node of a running query; NULL if it has none.
 *
 * EXPLAIN calls this for the scans of a plan, mostly in the order in which the
 * readers were made.  So the reader that was found moves to the end: then the
 * next one is in front.
 */
ScanReader *
scan_find_reader(const PlanState *ps)
{
	QueryScans *query = find_query(ps->state);
	dlist_iter	iter;

	if (query == NULL)
		return NULL;
	dlist_foreach(iter, &query->readers)
	{
		ScanReader *reader = dlist_container(ScanReader, reader.node, iter.cur);

		if (reader->node == ps)
		{
			dlist_move_tail(&query->readers, &reader->reader.node);
			return reader;
		}
	}
	return NULL;
}

/*
 * scan_set_running
 *		The query goes on, or pauses, and its readers with it.
 */
void
scan_set_running(const EState *estate, bool now_running)
{
	QueryScans *query = find_query(estate);
	dlist_iter	iter;

	if (query == NULL)
		return;
	dlist_foreach(iter, &query->running)
	{
		ScanReader *reader = dlist_container(ScanReader, running_node, iter.cur);

		if (now_running)
			scan_resume_reader(reader);
		else
			scan_pause_reader(reader);
	}
}

/*
 * scan_leave_query
 *		The streams of a query are about to end, and its scans are about to be
 *		freed; those of a utility command have ended already.  From now on the
 *		readers must not use them.  Returns the readers, for scan_end_query();
 *		NULL if there are none.
 */
QueryScans *
scan_leave_query(const void *owner)
{
	QueryScans *query = find_query(owner);
	dlist_iter	iter;

	if (query == NULL)
		return NULL;
	dlist_foreach(iter, &query->readers)
		scan_leave_reader(dlist_container(ScanReader, reader.node, iter.cur));
	return query;
}

/*
 * scan_end_query
 *		The query's streams have ended, and all reads with them: end the
 *		readers.  query may be NULL.
 */
void
scan_end_query(QueryScans *query)
{
	bool		more = query != NULL;

	while (more)
	{
		ScanReader *reader = dlist_container(ScanReader, reader.node,
											 dlist_head_node(&query->readers));

		more = dlist_has_next(&query->readers, &reader->reader.node);
		scan_end_reader(reader);
	}
}
