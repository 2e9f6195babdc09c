/*-------------------------------------------------------------------------
 *
 * sql_pool.c
 *	  Show the buffer pool as scans have left it: which buffers have escaped,
 *	  and which relations have pages in the pool.  Evict buffers that have
 *	  escaped.
 *
 * Every buffer is in the first of these states that applies:
 *
 *	    in a ring    a ring that is shown (see live_rings.c) has the buffer in
 *	                 a slot, and the buffer still has the page that the slot
 *	                 names
 *	    escaped      it has escaped (see the log), and still has the same page
 *	    other        neither of these; it may be free
 *
 * Buffer headers are read in the same way as in pg_buffercache: each under its
 * own lock.  So no session is stopped, but the result as a whole does not show
 * a single moment.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "common/arguments.h"
#include "common/results.h"
#include "compat.h"
#include "shmem/escape_log.h"
#include "funcapi.h"
#include "shmem/live_rings.h"
#include "readers/reader.h"
#include "common/relations.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_escapes);
PG_FUNCTION_INFO_V1(pg_ringctl_reclaim);
PG_FUNCTION_INFO_V1(pg_ringctl_reclaim_all);
PG_FUNCTION_INFO_V1(pg_ringctl_pollution);
PG_FUNCTION_INFO_V1(pg_ringctl_map);
PG_FUNCTION_INFO_V1(pg_ringctl_map_relation);

#define ESCAPES_COLUMNS		10
#define RECLAIM_COLUMNS		3
#define POLLUTION_COLUMNS	7

/* The map has at most MAP_HEIGHT lines, of at most MAP_MAX_WIDTH glyphs. */
#define MAP_HEIGHT			16
#define MAP_MAX_WIDTH		1000

/* Marks of a buffer. */
#define BUFFER_IN_RING		0x01
#define BUFFER_ESCAPED		0x02

/* A copy of a buffer's header. */
typedef struct Header
{
	BufferTag	tag;
	bool		used;			/* has a page */
	bool		dirty;
	int			usagecount;
	int			refcount;
} Header;

/* The buffers of one relation. */
typedef struct RelationBuffers
{
	RelFileLocator locator;		/* the key; must be first */
	int64		buffers;
	int64		in_ring;
	int64		escaped;
	int64		dirty;
} RelationBuffers;

/*
 * The states of a buffer that the map shows, each with a glyph of its own.  A
 * buffer without a page is in the last state, any other buffer in the first
 * one that applies.
 */
typedef enum BufferState
{
	BUFFER_STATE_RING,
	BUFFER_STATE_ESCAPED,
	BUFFER_STATE_RELATION,
	BUFFER_STATE_DIRTY,
	BUFFER_STATE_OTHER,
	BUFFER_STATE_FREE,
} BufferState;

#define NUM_BUFFER_STATES	(BUFFER_STATE_FREE + 1)

static const char glyphs[NUM_BUFFER_STATES] = {'R', 'E', '#', 'd', 'o', '.'};
static const char *const state_names[NUM_BUFFER_STATES] = {
	"in a ring", "escaped", "this relation", "other, dirty", "other", "free"
};

static void
read_header(Buffer buffer, Header *header)
{
	BufferDesc *desc = GetBufferDescriptor(buffer - 1);
	compat_buf_state state = LockBufHdr(desc);

	header->tag = desc->tag;
	header->used = (state & BM_TAG_VALID) && (state & BM_VALID);
	header->dirty = (state & BM_DIRTY) != 0;
	header->usagecount = BUF_STATE_GET_USAGECOUNT(state);
	header->refcount = BUF_STATE_GET_REFCOUNT(state);
	compat_unlock_buf_header(desc, state);
}

/* Does the buffer still have this page?  Copies its header in any case. */
static bool
has_page(Buffer buffer, const BufferTag *tag, Header *header)
{
	read_header(buffer, header);
	return header->used && BufferTagsEqual(&header->tag, tag);
}

/* Mark the buffers that are in the slots of rings. */
static void
mark_rings(uint8 *marks)
{
	Header		header;

	foreach_ptr(LiveView, view, live_read(0, true))
	{
		for (int n = 0; view->slots && n < view->public.nbuffers; n++)
		{
			RingSlot   *slot = &view->slots[n];

			/*
			 * The slot may be changing, so its buffer number may be invalid.
			 */
			if (slot->buffer > 0 && slot->buffer <= NBuffers &&
				has_page(slot->buffer, &slot->tag, &header))
				marks[slot->buffer - 1] |= BUFFER_IN_RING;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Mark the buffers that are in rings and those that have escaped, in palloc'd
 * *marks.  Also put the log entries of the escaped buffers into palloc'd
 * *escaped, and return the number of these entries.
 */
static int
find_escaped(uint8 **marks, Escape **escaped)
{
	int			nlogged;
	int			n = 0;
	Header		header;

	reader_attach_shared();
	*marks = palloc_extended(NBuffers, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	mark_rings(*marks);

	/*
	 * The newest entries come first.  Skip older entries of the same buffer,
	 * and entries of buffers that are in rings.
	 */
	nlogged = escapes_read(escaped);
	for (int i = 0; i < nlogged; i++)
	{
		Escape	   *escape = &(*escaped)[i];

		if ((*marks)[escape->buffer - 1] == 0 &&
			has_page(escape->buffer, &escape->tag, &header))
		{
			(*marks)[escape->buffer - 1] |= BUFFER_ESCAPED;
			(*escaped)[n++] = *escape;
		}
	}
	return n;
}

static const char *
reason_name(EscapeReason reason)
{
	return reason == ESCAPE_DIRTY ? "dirty" :
		reason == ESCAPE_ADOPTED ? "adopted" : "pinned";
}

static void
put_escape(ReturnSetInfo *rsinfo, const Escape *escape)
{
	Datum		values[ESCAPES_COLUMNS];
	bool		nulls[ESCAPES_COLUMNS] = {0};
	Header		header;
	int			i = 0;

	if (!has_page(escape->buffer, &escape->tag, &header))
		return;					/* the page is gone */

	values[i++] = Int32GetDatum(escape->buffer);
	values[i++] = ObjectIdGetDatum(escape->datid);
	values[i++] = ObjectIdGetDatum(escape->relid);
	values[i++] = Int16GetDatum(BufTagGetForkNum(&escape->tag));
	values[i++] = Int64GetDatum((int64) escape->tag.blockNum);
	values[i++] = CStringGetTextDatum(reason_name(escape->reason));
	values[i++] = Int32GetDatum(escape->pid);
	values[i++] = TimestampTzGetDatum(escape->escaped_at);
	values[i++] = BoolGetDatum(header.dirty);
	values[i++] = Int16GetDatum(header.usagecount);
	Assert(i == ESCAPES_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_escapes()
 *
 * Returns one row for each buffer that has escaped from a ring, is in no ring
 * now, and still has the page that it had when it escaped.
 */
Datum
pg_ringctl_escapes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	uint8	   *marks;
	Escape	   *escaped;
	int			n;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, ESCAPES_COLUMNS);

	n = find_escaped(&marks, &escaped);
	for (int i = 0; i < n; i++)
		put_escape(rsinfo, &escaped[i]);
	return (Datum) 0;
}

/*
 * Evict a buffer that has escaped, unless it was adopted, a process pins it,
 * or its usage count says that it was used again.  Returns whether it was
 * evicted.  *flushed, which must be false, is set to true if its page was
 * written.
 *
 * If the buffer gets another page just before the eviction, that page is
 * evicted instead.  That does no harm: it can be read again.
 */
static bool
evict_escaped(const Escape *escape, bool *flushed)
{
	Header		header;

	return has_page(escape->buffer, &escape->tag, &header) &&
		escape->reason != ESCAPE_ADOPTED &&
		header.refcount == 0 && header.usagecount <= 1 &&
		compat_evict_unpinned_buffer(escape->buffer, header.dirty, flushed);
}

/*
 * Evict the buffers that pg_ringctl_escapes() shows, except for those that are
 * pinned, adopted or used again.  relids: the relations of this database whose
 * buffers are evicted; NIL stands for all relations of all databases.  Returns
 * a row: how many buffers were evicted, were written, and were left alone.
 */
static Datum
reclaim(FunctionCallInfo fcinfo, List *relids)
{
	uint8	   *marks;
	Escape	   *escaped;
	TupleDesc	tupdesc = results_row_type(fcinfo, RECLAIM_COLUMNS);
	Datum		values[RECLAIM_COLUMNS];
	bool		nulls[RECLAIM_COLUMNS] = {0};
	int			nescaped;
	int32		evicted = 0;
	int32		written = 0;
	int32		skipped = 0;

	nescaped = find_escaped(&marks, &escaped);
	for (int i = 0; i < nescaped; i++)
	{
		bool		flushed = false;

		CHECK_FOR_INTERRUPTS();
		if (relids != NIL &&
			(escaped[i].datid != relations_database(escaped[i].relid) ||
			 !list_member_oid(relids, escaped[i].relid)))
			continue;
		if (evict_escaped(&escaped[i], &flushed))
			evicted++;
		else
			skipped++;
		if (flushed)
			written++;
	}

	values[0] = Int32GetDatum(evicted);
	values[1] = Int32GetDatum(written);
	values[2] = Int32GetDatum(skipped);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_reclaim(relation regclass)
 *
 * Evicts the escaped buffers of the relation, or of its partitions.
 */
Datum
pg_ringctl_reclaim(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	List	   *leaves;

	ring_require_server();
	leaves = relations_leaves(relid, "pg_ringctl_reclaim", true);

	/*
	 * If a partitioned table has no partitions, evict nothing: pass its own
	 * OID, because NIL stands for all relations.
	 */
	return reclaim(fcinfo, leaves != NIL ? leaves : list_make1_oid(relid));
}

/*
 * pg_ringctl_reclaim_all()
 *
 * Evicts the escaped buffers of all relations of all databases.
 */
Datum
pg_ringctl_reclaim_all(PG_FUNCTION_ARGS)
{
	ring_require_server();
	return reclaim(fcinfo, NIL);
}

/* Count all buffers by relation, in a new hash table. */
static HTAB *
count_by_relation(const uint8 *marks)
{
	HASHCTL		ctl = {
		.keysize = sizeof(RelFileLocator),
		.entrysize = sizeof(RelationBuffers),
		.hcxt = CurrentMemoryContext,
	};
	HTAB	   *table = hash_create("buffers of relations", 256, &ctl,
									HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for (Buffer buffer = 1; buffer <= NBuffers; buffer++)
	{
		Header		header;
		RelFileLocator locator;
		RelationBuffers *count;
		bool		found;

		CHECK_FOR_INTERRUPTS();
		read_header(buffer, &header);
		if (!header.used)
			continue;

		locator = BufTagGetRelFileLocator(&header.tag);
		count = hash_search(table, &locator, HASH_ENTER, &found);
		if (!found)
			memset((char *) count + sizeof(RelFileLocator), 0,
				   sizeof(RelationBuffers) - sizeof(RelFileLocator));
		count->buffers++;
		if (marks[buffer - 1] & BUFFER_IN_RING)
			count->in_ring++;
		else if (marks[buffer - 1] & BUFFER_ESCAPED)
			count->escaped++;
		if (header.dirty)
			count->dirty++;
	}
	return table;
}

/*
 * pg_ringctl_pollution()
 *
 * Returns one row for each relation, of any database, that has buffers.
 */
Datum
pg_ringctl_pollution(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	uint8	   *marks;
	Escape	   *escaped;
	HASH_SEQ_STATUS seq;
	RelationBuffers *count;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, POLLUTION_COLUMNS);

	find_escaped(&marks, &escaped);
	hash_seq_init(&seq, count_by_relation(marks));
	while ((count = hash_seq_search(&seq)) != NULL)
	{
		Datum		values[POLLUTION_COLUMNS];
		bool		nulls[POLLUTION_COLUMNS] = {0};

		values[0] = ObjectIdGetDatum(count->locator.spcOid);
		values[1] = ObjectIdGetDatum(count->locator.dbOid);
		values[2] = ObjectIdGetDatum(count->locator.relNumber);
		values[3] = Int64GetDatum(count->buffers);
		values[4] = Int64GetDatum(count->in_ring);
		values[5] = Int64GetDatum(count->escaped);
		values[6] = Int64GetDatum(count->dirty);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* The files of the relation that stands out in a map, or of its partitions. */
typedef struct Locators
{
	int			n;
	RelFileLocator *locators;	/* sorted */
} Locators;

static int
compare_locators(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(RelFileLocator));
}

/* The files of a relation, or of its partitions. */
static Locators *
locators_of(Oid relid)
{
	List	   *leaves = relations_leaves(relid, "pg_ringctl_map_relation", true);
	Locators   *result = palloc0(sizeof(Locators));

	result->locators = palloc0(list_length(leaves) * sizeof(RelFileLocator));
	foreach_oid(leaf, leaves)
	{
		Relation	rel = try_relation_open(leaf, AccessShareLock);

		if (rel == NULL)
			continue;			/* dropped meanwhile */
		result->locators[result->n++] = rel->rd_locator;
		relation_close(rel, AccessShareLock);
	}
	qsort(result->locators, result->n, sizeof(RelFileLocator), compare_locators);
	return result;
}

static bool
is_of(const BufferTag *tag, const Locators *relation)
{
	RelFileLocator locator = BufTagGetRelFileLocator(tag);

	return bsearch(&locator, relation->locators, relation->n, sizeof(RelFileLocator),
				   compare_locators) != NULL;
}

/* In which of these states is the buffer?  relation may be NULL. */
static BufferState
state_of(Buffer buffer, uint8 mark, const Locators *relation)
{
	Header		header;

	read_header(buffer, &header);
	if (!header.used)
		return BUFFER_STATE_FREE;
	if (mark & BUFFER_IN_RING)
		return BUFFER_STATE_RING;
	if (mark & BUFFER_ESCAPED)
		return BUFFER_STATE_ESCAPED;
	if (relation && is_of(&header.tag, relation))
		return BUFFER_STATE_RELATION;
	return header.dirty ? BUFFER_STATE_DIRTY : BUFFER_STATE_OTHER;
}

static void
put_line(ReturnSetInfo *rsinfo, const char *line)
{
	Datum		values[1] = {CStringGetTextDatum(line)};
	bool		nulls[1] = {false};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Draw the map, and count the buffers in each state. */
static void
draw_map(ReturnSetInfo *rsinfo, int width, int per_glyph, const uint8 *marks,
		 const Locators *relation, int64 *totals)
{
	StringInfoData line;
	Buffer		buffer = 1;

	initStringInfo(&line);
	while (buffer <= NBuffers)
	{
		int			counts[NUM_BUFFER_STATES] = {0};
		int			most = 0;

		for (int i = 0; i < per_glyph && buffer <= NBuffers; i++, buffer++)
		{
			BufferState state = state_of(buffer, marks[buffer - 1], relation);

			CHECK_FOR_INTERRUPTS();
			counts[state]++;
			totals[state]++;
		}
		for (int i = 1; i < NUM_BUFFER_STATES; i++)
			if (counts[i] > counts[most])
				most = i;
		appendStringInfoChar(&line, glyphs[most]);

		if (line.len == width || buffer > NBuffers)
		{
			put_line(rsinfo, line.data);
			resetStringInfo(&line);
		}
	}
}

/*
 * Returns a picture of the buffer pool, as text.  Each glyph stands for a
 * bucket of buffers, and shows the most frequent of their states.  A legend
 * with exact numbers follows.  If relation is not NULL, the buffers of that
 * relation stand out.
 */
static Datum
map(FunctionCallInfo fcinfo, int width, const Locators *relation)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			per_glyph = (NBuffers - 1) / (width * MAP_HEIGHT) + 1;
	int64		totals[NUM_BUFFER_STATES] = {0};
	uint8	   *marks;
	Escape	   *escaped;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	find_escaped(&marks, &escaped);
	draw_map(rsinfo, width, per_glyph, marks, relation, totals);

	put_line(rsinfo, "");
	put_line(rsinfo, per_glyph == 1 ? "each glyph is one buffer" :
			 psprintf("each glyph is the most frequent state of %d buffers", per_glyph));
	for (int i = 0; i < NUM_BUFFER_STATES; i++)
	{
		if (i == BUFFER_STATE_RELATION && relation == NULL)
			continue;
		put_line(rsinfo, psprintf("%c  %-14s %10lld  %5.1f %%", glyphs[i], state_names[i],
								  (long long) totals[i],
								  100.0 * totals[i] / NBuffers));
	}
	return (Datum) 0;
}

/*
 * pg_ringctl_map(width integer)
 *
 * Returns the picture of the whole buffer pool, "width" glyphs to a line.
 * Raises an error (22023) if width is not between 1 and MAP_MAX_WIDTH.
 */
Datum
pg_ringctl_map(PG_FUNCTION_ARGS)
{
	int			width = PG_GETARG_INT32(0);

	ring_require_server();
	args_check_between("width", width, 1, MAP_MAX_WIDTH);
	return map(fcinfo, width, NULL);
}

/*
 * pg_ringctl_map_relation(relation regclass, width integer)
 *
 * Returns the same picture, in which the buffers of the relation, or of its
 * partitions, stand out, unless they are in a ring or have escaped.
 */
Datum
pg_ringctl_map_relation(PG_FUNCTION_ARGS)
{
	int			width = PG_GETARG_INT32(1);

	ring_require_server();
	args_check_between("width", width, 1, MAP_MAX_WIDTH);
	return map(fcinfo, width, locators_of(PG_GETARG_OID(0)));
}
