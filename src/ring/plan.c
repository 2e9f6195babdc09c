/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Decide which ring a scan of a relation gets.
 *
 * For scans of one relation, the relation's policy may replace the values of
 * some parameters, unless use_policies is off.  The first of these rules that
 * applies decides:
 *
 *	1. If the relation is not larger than the threshold, there is no ring.
 *	   Unless the user has given one, the threshold is the server's: a quarter
 *	   of the pool.
 *	2. In observe mode, the ring is the server's, and so is the threshold.
 *	3. If the user has given a size, the ring has that size; 0 means no ring.
 *	4. If the user has given no threshold, and the relation fits into the pool,
 *	   the ring is the server's.  That ring leaks.  So scans that are repeated
 *	   may come to find the whole relation in the pool, which they would never
 *	   do with a tight ring.
 *	5. Otherwise the ring sizes itself.  It begins with room for a read and a
 *	   half, or with the size of the session's last ring (lend_fill()), and may
 *	   grow to
 *
 *		look-ahead + a read + a batch of pages whose WAL is flushed together
 *		+ headroom
 *
 * max_ring limits the sizes of 3 and 5.  If max_ring leaves room, a ring that
 * sizes itself may grow farther: to keep blocks for other scans, if scans
 * share reads, and to hold more batches of dirty pages.
 *
 * If a scan finds rows that its query changes or locks, a ring that sizes
 * itself leaves some dirty pages in the pool: see plan_dirty_to_leave().
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "compat.h"
#include "common/heap_am.h"
#include "policies/policies.h"
#include "params.h"
#include "optimizer/cost.h"
#include "ring/plan.h"
#include "ring/ring_private.h"
#include "common/relations.h"

/*
 * Maximum number of blocks to keep for other scans: 16 MB, or less in a small
 * pool.
 */
#define SHARE_WINDOW	Min(16 * 1024 / KB_PER_BUFFER, NBuffers / 16)

/* The ring that we choose for TOAST values, which are read one by one. */
#define TOAST_RING_KB	256

/*
 * plan_exclusion
 *		Why scans of this relation are never touched; NULL if they may be.
 */
const char *
plan_exclusion(Relation rel)
{
	if (!heap_am_is_heap(rel))
		return "not a heap table";
	if (RelationUsesLocalBuffers(rel))
		return "temporary table, not in shared buffers";
	if (IsCatalogRelation(rel))
		return "system catalog";
	return NULL;
}

/* The values of parameters for scans of one relation. */
typedef struct ScanParams
{
	int			scan_ring;
	int			scan_threshold;
	int			dirty_pages;
} ScanParams;

/*
 * The values for scans of this relation.  *why gets the relations whose
 * policies have set scan_ring and scan_threshold.
 */
static ScanParams
params_for_scan(Oid relid, PlanReasons *why)
{
	ScanParams	params = {
		.scan_ring = param_scan_ring,
		.scan_threshold = param_scan_threshold,
		.dirty_pages = param_dirty_pages,
	};
	const RelationPolicy *policy = param_use_policies ? labels_policy(relid) : NULL;

	why->ring_from = why->threshold_from = InvalidOid;
	if (policy == NULL)
		return params;
	if (policy->sets_scan_ring)
	{
		params.scan_ring = policy->scan_ring;
		why->ring_from = policy->relid;
	}
	if (policy->sets_scan_threshold)
	{
		params.scan_threshold = policy->scan_threshold;
		why->threshold_from = policy->relid;
	}
	if (policy->sets_dirty_pages)
		params.dirty_pages = policy->dirty_pages;
	return params;
}

/* The largest ring that max_ring allows, in buffers. */
static int
max_ring_buffers(void)
{
	return param_max_ring < 0 ? NBuffers / 8 : param_max_ring / KB_PER_BUFFER;
}

/*
 * Limit the size of a ring to max_ring and to half of the pool.  0, which
 * means no ring, stays 0.
 */
static int
cap_ring(int nbuffers)
{
	if (nbuffers == 0)
		return 0;
	return Max(1, Min(nbuffers, Min(max_ring_buffers(), NBuffers / 2)));
}

/*
 * plan_is_capped_by_pool
 *		Is it the pool, rather than max_ring, that limits the size of rings?
 */
bool
plan_is_capped_by_pool(void)
{
	return max_ring_buffers() > NBuffers / 2;
}

/*
 * plan_look_at_size
 *		The slow path of plan_may_matter(), for a relation whose number of
 *		blocks this backend does not know.  Returns that number; or 0 if the
 *		relation is not a heap, because its scans get no ring.
 */
BlockNumber
plan_look_at_size(Relation rel)
{
	return heap_am_is_heap(rel) ? RelationGetNumberOfBlocks(rel) : 0;
}

/*
 * plan_capped_kb
 *		The size in kB that a ring gets if this size, which is above 0, is set.
 */
int
plan_capped_kb(int kb)
{
	return cap_ring(kb / KB_PER_BUFFER) * KB_PER_BUFFER;
}

/*
 * plan_cap_to_relation
 *		Limit a ring to the number of blocks to be read.
 */
void
plan_cap_to_relation(RingOptions *options, int64 nblocks)
{
	int			most = (int) Max(1, Min(nblocks, PG_INT32_MAX));

	options->nbuffers = Min(options->nbuffers, most);
	options->base_capacity = Min(options->base_capacity, most);
	options->capacity = Min(options->capacity, most);
	options->window = Min(options->window,
						  options->capacity - options->base_capacity);
}

/*
 * The first size of a ring that sizes itself: one buffer for the page that the
 * reader uses, and what buffers_needed() adds up when the stream has looked
 * ahead by half a read.  The ring grows as soon as more is needed.
 */
static int
first_buffers(void)
{
	return 1 + io_combine_limit + io_combine_limit / 2 + param_headroom;
}

/*
 * The size that a ring that sizes itself may grow to: room for look-ahead, for
 * one more read, and for a batch of dirty pages, so that nothing escapes even
 * if the scan dirties every page.  The result is at least the size of the
 * server's ring.
 */
static int
most_buffers(Relation rel, bool maintenance)
{
	int			tight = compat_lookahead_limit(rel, maintenance) +
		io_combine_limit + FLUSH_BATCH + param_headroom;

	return Max(strategy_server_buffers(), tight);
}

/*
 * plan_notice_cap
 *		The user has asked for a ring of this size, in kB, to read nblocks
 *		blocks through.  If the ring will be smaller than that, and smaller
 *		than nblocks, tell the user.
 */
void
plan_notice_cap(int kb, int64 nblocks)
{
	int			asked = kb / KB_PER_BUFFER;
	int			nbuffers = cap_ring(asked);

	if (kb <= 0 || nbuffers >= Min(asked, nblocks))
		return;
	ereport(NOTICE,
			(errmsg("a ring of %d kB is used instead of one of %d kB",
					nbuffers * KB_PER_BUFFER, kb),
			 plan_is_capped_by_pool() ?
			 errdetail("No ring takes more than half of \"%s\".", "shared_buffers") :
			 param_max_ring < 0 ?
			 errdetail("\"%s\" is -1, which stands for an eighth of \"%s\".",
					   "pg_ringctl.max_ring", "shared_buffers") :
			 errdetail("\"%s\" is %d kB.", "pg_ringctl.max_ring", param_max_ring)));
}

/* The ring has this size, and keeps it. */
static void
set_fixed_size(RingOptions *options, int nbuffers, RingSource source)
{
	options->nbuffers = options->capacity = options->base_capacity = cap_ring(nbuffers);
	options->source = options->nbuffers < nbuffers ? SOURCE_MAX_RING : source;
}

/* The ring sizes itself. */
static void
set_own_size(Relation rel, RingOptions *options)
{
	int			most = most_buffers(rel, options->maintenance);

	options->capacity = options->base_capacity = cap_ring(most);
	options->nbuffers = Min(first_buffers(), options->capacity);
	options->source = options->capacity < most ? SOURCE_MAX_RING : SOURCE_CHOSEN;
}

/*
 * The options of a ring.  If ring_kb is below 0, the ring sizes itself;
 * otherwise it has that size, in kB, and 0 means no ring.  source: where the
 * size came from.  dirty_pages: a DirtyPages.
 */
static void
fill_options(Relation rel, bool maintenance, int ring_kb, RingSource source,
			 int dirty_pages, RingOptions *options)
{
	memset(options, 0, sizeof(RingOptions));
	options->maintenance = maintenance;
	if (ring_kb < 0)
		set_own_size(rel, options);
	else
		set_fixed_size(options, ring_kb / KB_PER_BUFFER, source);
	options->headroom = param_headroom;
	options->write_dirty = (dirty_pages == DIRTY_WRITE);
	options->free_first = source == SOURCE_CHOSEN && !maintenance &&
		param_free_buffers_first;
}

/*
 * Let the ring grow farther while scans share reads: by a window.  But if the
 * pool or max_ring leaves too little room for a useful window, do nothing.
 */
static void
add_window(RingOptions *options)
{
	int			capacity = cap_ring(options->capacity + SHARE_WINDOW);

	if (capacity - options->capacity < MIN_SHARE_WINDOW)
		return;
	options->window = capacity - options->capacity;
	options->capacity = capacity;
}

/*
 * Let the ring grow farther while its scan waits for WAL repeatedly: by more
 * batches of dirty pages.  If there is a window, the batches use the window's
 * room.
 */
static void
add_flush_room(RingOptions *options)
{
	int			more = MAX_FLUSH_ROOM - FLUSH_BATCH;

	options->capacity = Max(options->capacity, cap_ring(options->base_capacity + more));
}

/* Which ring a scan gets, before its size is computed. */
typedef struct Choice
{
	ScanParams	params;
	PlanReasons why;
	RingSource	source;			/* SOURCE_NONE: no ring */
} Choice;

/*
 * The relation is over the threshold, and the user has not set the ring's
 * size.
 */
static void
choose_by_default(Choice *choice)
{
	choice->source = SOURCE_CHOSEN;
	if (choice->why.threshold_is_set)
		return;
	if (choice->why.nblocks > (BlockNumber) NBuffers)
		choice->why.threshold = NBuffers;
	else
		choice->source = SOURCE_SERVER;
}

static void
choose(Relation rel, BlockNumber nblocks, ScanMode mode, Choice *choice)
{
	choice->params = params_for_scan(RelationGetRelid(rel), &choice->why);
	choice->why.mode = mode;
	choice->why.nblocks = nblocks;
	choice->why.threshold_is_set = mode == MODE_CONTROL && choice->params.scan_threshold >= 0;
	choice->why.threshold = choice->why.threshold_is_set ? choice->params.scan_threshold :
		SERVER_THRESHOLD;

	if (nblocks <= (BlockNumber) choice->why.threshold)
		choice->source = SOURCE_NONE;
	else if (mode != MODE_CONTROL)
		choice->source = SOURCE_SERVER;
	else if (choice->params.scan_ring < 0)
		choose_by_default(choice);
	else if (OidIsValid(choice->why.ring_from))
		choice->source = SOURCE_POLICY;
	else
		choice->source = SOURCE_PARAMETER;
}

/* The options of the ring that was chosen. */
static void
set_options(Relation rel, const Choice *choice, bool maintenance, RingOptions *options)
{
	switch (choice->source)
	{
		case SOURCE_NONE:
			memset(options, 0, sizeof(RingOptions));
			options->source = SOURCE_NONE;
			options->observe = choice->why.mode != MODE_CONTROL;
			options->maintenance = maintenance;
			return;
		case SOURCE_SERVER:
			fill_options(rel, maintenance, 0, SOURCE_SERVER,
						 choice->params.dirty_pages, options);
			options->observe = true;
			options->nbuffers = options->capacity = options->base_capacity =
				strategy_server_buffers();
			return;
		default:
			fill_options(rel, maintenance, choice->params.scan_ring,
						 choice->source, choice->params.dirty_pages, options);
			break;
	}
	if (options->capacity > options->nbuffers)
	{
		if (param_scan_sharing && !maintenance &&
			choice->why.nblocks > (BlockNumber) SERVER_THRESHOLD)
			add_window(options);
		add_flush_room(options);
	}
	if (options->nbuffers > 0)
	{
		/* if the relation fits into the ring, max_ring is not the limit */
		if (choice->why.nblocks <= (BlockNumber) options->capacity)
			options->source = choice->source;
		plan_cap_to_relation(options, choice->why.nblocks);
	}
}

/*
 * plan_prospect
 *		Will a scan of nblocks blocks of the relation get a ring in this mode,
 *		and has the user asked for the ring?  This is cheaper than
 *		plan_for_scan().
 */
RingProspect
plan_prospect(Relation rel, BlockNumber nblocks, ScanMode mode)
{
	Choice		choice;

	choose(rel, nblocks, mode, &choice);
	switch (choice.source)
	{
		case SOURCE_NONE:
			return RING_NONE;
		case SOURCE_SERVER:
			return mode == MODE_CONTROL ? RING_LEFT_TO_SERVER : RING_OF_SERVER;
		case SOURCE_CHOSEN:
			return choice.why.threshold_is_set ? RING_ASKED_FOR : RING_BY_DEFAULT;
		default:
			return choice.params.scan_ring == 0 ? RING_NONE : RING_ASKED_FOR;
	}
}

/*
 * plan_for_scan
 *		Fill in the options of the ring that a scan of nblocks blocks of the
 *		relation gets in this mode.  If the scan gets no ring,
 *		options->nbuffers is 0.  If reasons is not NULL, also say why.
 */
void
plan_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
			  RingOptions *options, PlanReasons *reasons)
{
	Choice		choice;

	choose(rel, nblocks, mode, &choice);
	set_options(rel, &choice, false, options);
	if (reasons != NULL)
		*reasons = choice.why;
}

/*
 * Number of blocks that a reader may leave in the pool before its ring is
 * tight, if no other reader of its query has left any.
 */
static int
blocks_to_leave(const Choice *choice)
{
	int			blocks = Min(choice->why.threshold, SERVER_THRESHOLD);

	/* each process of a parallel query leaves its part */
	return IsInParallelMode() ? blocks / (max_parallel_workers_per_gather + 1) : blocks;
}

/*
 * plan_for_bitmap_scan
 *		Fill in the options of the ring of a bitmap scan of the relation, which
 *		has nblocks blocks.
 *
 * The scan is expected to read more blocks than the threshold, but may read
 * fewer.  So it leaves its first blocks in the pool, as it would without a
 * ring.
 */
void
plan_for_bitmap_scan(Relation rel, BlockNumber nblocks, RingOptions *options)
{
	Choice		choice;

	choose(rel, nblocks, MODE_CONTROL, &choice);
	set_options(rel, &choice, false, options);
	options->leave_first = blocks_to_leave(&choice);
}

/*
 * plan_reads_ahead
 *		Do index scans of the relation read ahead?
 */
bool
plan_reads_ahead(Relation rel)
{
	const RelationPolicy *policy = policy_may_be_set(rel) ?
		labels_policy(RelationGetRelid(rel)) : NULL;

	return policy != NULL && policy->sets_index_read_ahead ?
		policy->index_read_ahead : param_index_read_ahead;
}

/*
 * Choose for an index scan, which gets no ring unless the size of the ring is
 * set.  Returns whether there is a ring.
 */
static bool
choose_for_index_scan(Relation rel, BlockNumber nblocks, Choice *choice)
{
	choose(rel, nblocks, MODE_CONTROL, choice);
	return choice->source != SOURCE_NONE && choice->params.scan_ring > 0;
}

/*
 * plan_index_scan_has_ring
 *		Does an index scan of the relation get a ring if it is expected to
 *		return this number of rows?  It gets none if the number of rows is not
 *		larger than the number of pages that stay in the pool before the ring
 *		is tight.
 */
bool
plan_index_scan_has_ring(Relation rel, double rows)
{
	Choice		choice;

	if (param_scan_ring <= 0 && !policy_may_be_set(rel))
		return false;
	return choose_for_index_scan(rel, RelationGetNumberOfBlocks(rel), &choice) &&
		rows > blocks_to_leave(&choice);
}

/*
 * plan_for_index_scan
 *		Fill in the options of the ring of an index scan of the relation, which
 *		has nblocks blocks.  If the scan gets no ring, options->nbuffers is 0.
 *
 * An index scan may come back to a page many times, so it gets a ring only if
 * the user has set a size.  Its first blocks, as many as blocks_to_leave()
 * says, stay in the pool.
 */
void
plan_for_index_scan(Relation rel, BlockNumber nblocks, RingOptions *options)
{
	Choice		choice;

	if (!choose_for_index_scan(rel, nblocks, &choice))
	{
		memset(options, 0, sizeof(RingOptions));
		options->source = SOURCE_NONE;
		return;
	}
	set_options(rel, &choice, false, options);
	options->repeats_blocks = true;
	options->leave_first = blocks_to_leave(&choice);
}

/*
 * plan_for_toast
 *		Fill in the options of the ring through which values of the relation's
 *		TOAST table are read while the relation is scanned.  nblocks is the
 *		size of the larger of the two tables.  If there is no ring,
 *		options->nbuffers is 0.
 *
 * The rules are those for scans of the relation, but where such a scan would
 * get the server's ring, there is none.  If we choose the size, the ring is
 * small, because there is no look-ahead.  The ring is used only after
 * leave_first blocks have been read without one.  So each run of a repeated
 * query leaves more of its values in the pool; if there is room, all of them
 * are there in the end.  No WAL is flushed for dirty pages, whatever
 * dirty_pages is, because a ring of the size that we choose is too small to
 * flush WAL for many of them at once.
 */
void
plan_for_toast(Relation owner, BlockNumber nblocks, RingOptions *options)
{
	Choice		choice;
	int			ring_kb;

	choose(owner, nblocks, MODE_CONTROL, &choice);
	if (choice.source == SOURCE_NONE || choice.source == SOURCE_SERVER)
	{
		memset(options, 0, sizeof(RingOptions));
		return;
	}
	ring_kb = choice.params.scan_ring < 0 ? TOAST_RING_KB : choice.params.scan_ring;
	fill_options(owner, false, ring_kb, choice.source, DIRTY_LEAVE, options);
	options->repeats_blocks = true;
	options->leave_first = blocks_to_leave(&choice);
	if (options->nbuffers > 0)
		plan_cap_to_relation(options, nblocks);
}

/*
 * plan_for_prewarm
 *		Fill in the options of the ring that a prewarm of the relation reads
 *		through.  ring_kb: size in kB; 0 means no ring; if it is -1, the size
 *		is chosen as for a sequential scan of the relation, but instead of the
 *		server's ring there is one that sizes itself.
 */
void
plan_for_prewarm(Relation rel, int ring_kb, RingOptions *options)
{
	/* A scan of a temporary relation gets no ring. */
	if (ring_kb < 0 && RelationUsesLocalBuffers(rel))
		ring_kb = 0;

	if (ring_kb < 0)
	{
		Choice		choice;

		/* On a standby an unlogged relation has only its init fork. */
		choose(rel, relations_absent(rel) ? 0 : RelationGetNumberOfBlocks(rel),
			   MODE_CONTROL, &choice);
		if (choice.source == SOURCE_SERVER)
			choice.source = SOURCE_CHOSEN;
		set_options(rel, &choice, true, options);
	}
	else
		fill_options(rel, true, ring_kb, ring_kb == 0 ? SOURCE_NONE : SOURCE_ARGUMENT,
					 param_dirty_pages, options);
}

/*
 * plan_dirty_to_leave
 *		How many dirty pages may the rings of a query leave in the pool,
 *		although dirty_pages is "write"?  A ring leaves pages only if their WAL
 *		is not flushed, if its scan finds rows that the query changes or locks,
 *		and if the ring can grow.
 *
 * If none were left, a statement that changes a few rows of a large table
 * would write nearly all pages that it has changed, one by one, before it
 * ends.  The server leaves such a page in the pool, for the checkpointer to
 * write, if its WAL is not flushed when its slot comes round.
 */
int
plan_dirty_to_leave(void)
{
	return cap_ring(NBuffers / 32);
}

/*
 * plan_lookahead
 *		How many buffers may a scan of the relation look ahead if it reads
 *		through a ring with these options?
 */
int
plan_lookahead(Relation rel, const RingOptions *options)
{
	int			limit = compat_lookahead_limit(rel, options->maintenance);

	return options->nbuffers > 0 ? Min(limit, pin_limit(options)) : limit;
}
