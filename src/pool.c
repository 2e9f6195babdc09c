/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  The buffer pool as scans have left it: what escaped, whose pages are
 *	  there, and a way to get rid of what was left behind.
 *
 * Every buffer belongs to one of
 *
 *	    in a ring    a ring that is in use now has it in a slot, with its page
 *	    escaped      the log says that it escaped, and it still has that page
 *	    else         of some relation, or free
 *
 * The headers are read as pg_buffercache does, each for itself, without
 * stopping anybody: the whole is not of one moment.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "args.h"
#include "catalog/pg_inherits.h"
#include "compat.h"
#include "escapes.h"
#include "funcapi.h"
#include "live.h"
#include "registry.h"
#include "relations.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_escapes);
PG_FUNCTION_INFO_V1(pg_ringctl_reclaim);
PG_FUNCTION_INFO_V1(pg_ringctl_pollution);
PG_FUNCTION_INFO_V1(pg_ringctl_map);

#define ESCAPES_COLUMNS		10
#define RECLAIM_COLUMNS		3
#define POLLUTION_COLUMNS	7

/* The picture has so many lines, at most, and so many glyphs in a line. */
#define MAP_HEIGHT			16
#define MAP_MAX_WIDTH		1000

/* What is known of a buffer, one byte for each. */
#define BUFFER_IN_RING		0x01
#define BUFFER_ESCAPED		0x02

/* A buffer's header, all of one moment. */
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
 * What a glyph of the map stands for.  Where a buffer could be several, it is
 * the first of them.
 */
typedef enum Glyph
{
	GLYPH_RING,
	GLYPH_ESCAPED,
	GLYPH_RELATION,
	GLYPH_DIRTY,
	GLYPH_OTHER,
	GLYPH_FREE,
} Glyph;

#define NUM_GLYPHS			(GLYPH_FREE + 1)

static const char glyphs[NUM_GLYPHS] = {'R', 'E', '#', 'd', 'o', '.'};
static const char *const glyph_names[NUM_GLYPHS] = {
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

/* Does the buffer still have this page? */
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
	LiveView   *views;
	Header		header;
	int			nviews = live_read(0, true, &views);

	for (int i = 0; i < nviews; i++)
	{
		for (int n = 0; views[i].slots && n < views[i].public.nbuffers; n++)
		{
			RingSlot   *slot = &views[i].slots[n];

			/* It is being written to, so doubt even the buffer's number. */
			if (slot->buffer > 0 && slot->buffer <= NBuffers &&
				has_page(slot->buffer, &slot->tag, &header))
				marks[slot->buffer - 1] |= BUFFER_IN_RING;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Mark what is in rings and what escaped, in palloc'd *marks.  Also returns
 * the escaped ones, palloc'd in *escaped, and their number.
 */
static int
find_escaped(uint8 **marks, Escape **escaped)
{
	int			nlogged;
	int			n = 0;
	Header		header;

	registry_attach();
	*marks = palloc_extended(NBuffers, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	mark_rings(*marks);

	/* The newest come first: what is older is about an earlier page. */
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
reason_name(RingSlotState reason)
{
	return reason == SLOT_DIRTY ? "dirty" :
		reason == SLOT_ADOPTED ? "adopted" : "pinned";
}

static void
put_escape(ReturnSetInfo *rsinfo, const Escape *escape)
{
	Datum		values[ESCAPES_COLUMNS];
	bool		nulls[ESCAPES_COLUMNS] = {0};
	Header		header;
	int			i = 0;

	if (!has_page(escape->buffer, &escape->tag, &header))
		return;					/* gone since */

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
 * One row for each buffer that escaped from a ring, is in no ring now, and
 * still has the page that it had then.
 */
Datum
pg_ringctl_escapes(PG_FUNCTION_ARGS)
{
	uint8	   *marks;
	Escape	   *escaped;
	int			n;

	ring_require_server();
	InitMaterializedSRF(fcinfo, 0);

	n = find_escaped(&marks, &escaped);
	for (int i = 0; i < n; i++)
		put_escape((ReturnSetInfo *) fcinfo->resultinfo, &escaped[i]);
	return (Datum) 0;
}

/*
 * Evict a buffer that escaped, unless somebody else uses it: pins it, or has
 * used it again.  It may change hands before it is evicted; then the server
 * evicts another page, which does no harm but a read.
 */
static bool
evict_escaped(const Escape *escape, bool *flushed)
{
	Header		header;

	return has_page(escape->buffer, &escape->tag, &header) &&
		escape->reason != SLOT_ADOPTED &&
		header.refcount == 0 && header.usagecount <= 1 &&
		compat_evict_unpinned_buffer(escape->buffer, header.dirty, flushed);
}

/*
 * pg_ringctl_reclaim(relation regclass)
 *
 * Evicts the buffers that pg_ringctl_escapes() shows, of the relation with its
 * partitions, or all if it is null.  Leaves what is pinned or adopted.
 */
Datum
pg_ringctl_reclaim(PG_FUNCTION_ARGS)
{
	uint8	   *marks;
	Escape	   *escaped;
	TupleDesc	tupdesc;
	Datum		values[RECLAIM_COLUMNS];
	bool		nulls[RECLAIM_COLUMNS] = {0};
	List	   *relids = NIL;
	int			nescaped;
	int32		evicted = 0;
	int32		written = 0;
	int32		skipped = 0;

	ring_require_server();
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!PG_ARGISNULL(0))
	{
		relation_close(relations_open(PG_GETARG_OID(0), AccessShareLock), AccessShareLock);
		relids = find_all_inheritors(PG_GETARG_OID(0), NoLock, NULL);
	}

	nescaped = find_escaped(&marks, &escaped);
	for (int i = 0; i < nescaped; i++)
	{
		bool		flushed = false;

		CHECK_FOR_INTERRUPTS();
		if (relids != NIL && (escaped[i].datid != MyDatabaseId ||
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
 * One row for each relation, of whatever database, that has buffers.
 */
Datum
pg_ringctl_pollution(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint8	   *marks;
	Escape	   *escaped;
	HASH_SEQ_STATUS seq;
	RelationBuffers *count;

	ring_require_server();
	InitMaterializedSRF(fcinfo, 0);

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

/* Where the relation's pages are stored. */
static RelFileLocator
locator_of(Oid relid)
{
	RelFileLocator locator;
	Relation	rel = relations_open(relid, AccessShareLock);

	if (RelationUsesLocalBuffers(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary relation \"%s\" is not in shared buffers",
						RelationGetRelationName(rel))));
	if (!RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" does not have storage",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind)));
	locator = rel->rd_locator;
	relation_close(rel, AccessShareLock);
	return locator;
}

/* What does the buffer stand for in the map?  relation may be NULL. */
static Glyph
glyph_of(Buffer buffer, uint8 mark, const RelFileLocator *relation)
{
	Header		header;

	read_header(buffer, &header);
	if (!header.used)
		return GLYPH_FREE;
	if (mark & BUFFER_IN_RING)
		return GLYPH_RING;
	if (mark & BUFFER_ESCAPED)
		return GLYPH_ESCAPED;
	if (relation && BufTagMatchesRelFileLocator(&header.tag, relation))
		return GLYPH_RELATION;
	return header.dirty ? GLYPH_DIRTY : GLYPH_OTHER;
}

static void
put_line(ReturnSetInfo *rsinfo, const char *line)
{
	Datum		values[1] = {CStringGetTextDatum(line)};
	bool		nulls[1] = {false};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Draw the picture, and count what every buffer stands for. */
static void
draw_map(ReturnSetInfo *rsinfo, int width, int per_glyph, const uint8 *marks,
		 const RelFileLocator *relation, int64 *totals)
{
	StringInfoData line;
	Buffer		buffer = 1;

	initStringInfo(&line);
	while (buffer <= NBuffers)
	{
		int			counts[NUM_GLYPHS] = {0};
		int			most = 0;

		for (int i = 0; i < per_glyph && buffer <= NBuffers; i++, buffer++)
		{
			Glyph		glyph = glyph_of(buffer, marks[buffer - 1], relation);

			counts[glyph]++;
			totals[glyph]++;
		}
		for (int i = 1; i < NUM_GLYPHS; i++)
			if (counts[i] > counts[most])
				most = i;
		appendStringInfoChar(&line, glyphs[most]);

		if (line.len == width || buffer > NBuffers)
		{
			put_line(rsinfo, line.data);
			resetStringInfo(&line);
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * pg_ringctl_map(width integer, relation regclass)
 *
 * The buffer pool as a picture of text, each glyph a bucket of buffers: what
 * most of them are.  Below it a legend, with exact numbers.
 */
Datum
pg_ringctl_map(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			width = PG_ARGISNULL(0) ? 64 : PG_GETARG_INT32(0);
	RelFileLocator relation;
	bool		has_relation = !PG_ARGISNULL(1);
	int			per_glyph;
	int64		totals[NUM_GLYPHS] = {0};
	uint8	   *marks;
	Escape	   *escaped;

	ring_require_server();
	args_check_between("width", width, 1, MAP_MAX_WIDTH);
	if (has_relation)
		relation = locator_of(PG_GETARG_OID(1));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);

	find_escaped(&marks, &escaped);
	per_glyph = (NBuffers - 1) / (width * MAP_HEIGHT) + 1;
	draw_map(rsinfo, width, per_glyph, marks, has_relation ? &relation : NULL, totals);

	put_line(rsinfo, "");
	put_line(rsinfo, psprintf("each glyph is what most of %d buffers are", per_glyph));
	for (int i = 0; i < NUM_GLYPHS; i++)
	{
		if (i == GLYPH_RELATION && !has_relation)
			continue;
		put_line(rsinfo, psprintf("%c  %-14s %10lld  %5.1f %%", glyphs[i], glyph_names[i],
								  (long long) totals[i],
								  100.0 * totals[i] / NBuffers));
	}
	return (Datum) 0;
}
