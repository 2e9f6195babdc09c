/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  The executor: find the sequential scans, give each its ring.
 *
 * When a query starts, every sequential scan of its plan gets another
 * function to be called for its first row.  That function begins the scan, as
 * the scan would itself, ends the read stream that the scan has begun, and
 * begins one with our ring and our callback in its place.  Then it puts the
 * scan's own function back.  So nothing remains on the path of a row, but of
 * the last ones: see last_calls().  A scan that is never called costs nothing.
 *
 *	  ExecutorStart    ps->ExecProcNode = first_call
 *	  first call       ps->ExecProcNode = the scan's own; attach
 *	  ...              the callback, once a block
 *	  ExecutorEnd      streams end; count, lend the ring to the next scan
 *
 * The stream is the scan's: heap_rescan() resets it and heap_endscan() ends
 * it, because it is in rs_read_stream.  The ring is the reader's, which ends
 * after the stream.  scan->rs_strategy is left as it is: initscan() may free
 * it during a rescan.
 *
 * A long scan may find out that it is faster when it looks less far ahead, or
 * farther: then another stream takes over between two rows, see change_depth().
 *
 * A parallel scan has begun already when it is called first, in the leader and
 * in each worker; each of them attaches its own ring.
 *
 * A scan that came to its end keeps its ring until the next scan of the
 * session begins, and lends it then.  Whether it really came to its end shows
 * in the scan descriptor: the stream has no more blocks (it asked us) and the
 * scan holds no buffer (it is not inited).  Should it be scanned again, the
 * ring gets buffers again.
 *
 * If the query fails, the registry's resource owner ends the readers; nothing
 * of the executor's is looked at then.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/syncscan.h"
#include "common/hashfn.h"
#include "compat.h"
#include "depth.h"
#include "enabled.h"
#include "executor/execParallel.h"
#include "facts.h"
#include "limit.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "params.h"
#include "policy.h"
#include "postmaster/bgworker.h"
#include "registry.h"
#include "scan.h"
#include "share.h"
#include "shared.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* The node of a relation with no more blocks stays watched: see last_calls(). */
#define MAX_BLOCKS_WATCHED		512

/* A scan under a LIMIT looks ahead one page in so many: see cap_lookahead(). */
#define LIMIT_PAGES_PER_AHEAD	4

/* As long as nobody shares with it, a scan tells where it is so often. */
#define BLOCKS_PER_STEP			16

/* How many such slots there are: see query_keeps_pins(). */
#define SLOTS_THAT_KEEP_PINS	3

/* A query has room for so many readers at first, in the hash of its nodes. */
#define NODES_AT_FIRST			4

struct nodes_hash;

/* The readers of one running query. */
typedef struct QueryScans
{
	dlist_node	node;
	EState	   *estate;			/* which query */
	dlist_head	readers;
	struct nodes_hash *by_node; /* the same; in the query's memory */
} QueryScans;

/* One sequential scan that we attached to. */
typedef struct ScanReader
{
	Reader		reader;			/* must be first */
	dlist_node	active_node;
	bool		active;			/* in the list of active readers */
	QueryScans *query;
	PlanState  *node;			/* while the query runs */
	ExecProcNodeMtd node_function;	/* the node's own, while another one has
									 * its place */
	bool		watched;		/* it saw all calls since the last block was
								 * asked for */
	int			plan_node_id;
	bool		for_leader;		/* part of the query that a worker runs for
								 * its leader, not of a function's in it */
	HeapScanDesc scan;
	EnabledMark enabled;
	Depth		depth;			/* how far its stream looks ahead */
	bool		changing;		/* its stream shall be replaced */
	ExprStateEvalFunc qual_function;	/* of the node's qual, while
										 * changing_qual() has its place */
	ShareScan  *share;			/* its part in sharing; NULL if it has none */
	bool		begun;			/* had its first pass */
	ScanDirection direction;	/* in which it asked for blocks last */
	bool		ended;			/* the stream was told that there is no more */
} ScanReader;

/* Which reader does a node have?  A plan may have thousands of them. */
typedef struct NodeReader
{
	const PlanState *node;		/* hash key */
	ScanReader *reader;
	char		status;			/* hash status */
} NodeReader;

#define SH_PREFIX		nodes
#define SH_ELEMENT_TYPE	NodeReader
#define SH_KEY_TYPE		const PlanState *
#define SH_KEY			node
#define SH_HASH_KEY(tb, key)	((uint32) murmurhash64((uint64) (uintptr_t) (key)))
#define SH_EQUAL(tb, a, b)		((a) == (b))
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Queries with readers, the newest first. */
static dlist_head queries = DLIST_STATIC_INIT(queries);

/* Readers that run, or have ended but still hold a ring. */
static dlist_head active = DLIST_STATIC_INIT(active);

/* A Gather of a running query, and its parallel context; in its memory. */
typedef struct ParallelQuery
{
	dlist_node	node;
	const EState *estate;
	dsm_handle	handle;
	MemoryContextCallback callback;
} ParallelQuery;

static dlist_head parallel_queries = DLIST_STATIC_INIT(parallel_queries);

static MemoryContext scan_context = NULL;

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;
static ExecutorEnd_hook_type prev_ExecutorEnd = NULL;

static void
activate(ScanReader *reader)
{
	if (!reader->active)
		dlist_push_head(&active, &reader->active_node);
	reader->active = true;
}

static void
deactivate(ScanReader *reader)
{
	if (reader->active)
		dlist_delete(&reader->active_node);
	reader->active = false;
}

/* The query's own list of readers; made if there is none and "make" says so. */
static QueryScans *
query_scans(EState *estate, bool make)
{
	QueryScans *query;
	nodes_hash *by_node;
	dlist_iter	iter;

	dlist_foreach(iter, &queries)
	{
		query = dlist_container(QueryScans, node, iter.cur);
		if (query->estate == estate)
			return query;
	}
	if (!make)
		return NULL;

	/* If memory fails, nothing of it may be in the list. */
	by_node = nodes_create(estate->es_query_cxt, NODES_AT_FIRST, NULL);
	query = MemoryContextAlloc(scan_context, sizeof(QueryScans));
	query->estate = estate;
	query->by_node = by_node;
	dlist_init(&query->readers);
	dlist_push_head(&queries, &query->node);
	return query;
}

static void
forget_query(QueryScans *query)
{
	dlist_delete(&query->node);
	pfree(query);
}

/* The scan does not share its reads any more. */
static void
leave_sharing(ScanReader *reader)
{
	if (reader->share != NULL)
		share_leave(reader->share);
	reader->share = NULL;
}

/* A reader is about to go: take it out of all lists; the last one takes its query. */
static void
unlink_reader(ScanReader *reader)
{
	leave_sharing(reader);
	deactivate(reader);
	dlist_delete(&reader->reader.node);
	if (dlist_is_empty(&reader->query->readers))
		forget_query(reader->query);
}

/* The registry says that a reader's query failed. */
static void
scan_failed(Reader *failed)
{
	unlink_reader((ScanReader *) failed);
}

/*
 * Has the scan come to its end, with all blocks done?  Or been rescanned, after
 * its stream had asked for the last one, and not been called since.
 */
static bool
is_drained(const ScanReader *reader)
{
	return reader->ended && !reader->scan->rs_inited &&
		!BufferIsValid(reader->scan->rs_cbuf);
}

/*
 * What the last pass had asked for, but not got.  Where last_calls() has watched
 * it, all that it got is noted.  If it asked for its last block and was not
 * called again, nobody knows; most probably that call went to the end.
 */
static void
settle_pass(ScanReader *reader)
{
	Ring	   *ring = reader->reader.ring;

	if (!reader->watched)
	{
		if (reader->ended)
			ring_consume_rest(ring);
		else					/* after the last call it got one more, or
								 * more where that waited */
			ring_consume_next(ring);
	}
	ring_drop_rest(ring);
}

/* How far has the scan come? */
static void
note_consumed(ScanReader *reader)
{
	if (is_drained(reader))
		settle_pass(reader);
	else if (reader->scan->rs_cblock != InvalidBlockNumber)
		ring_consume(reader->reader.ring, reader->scan->rs_cblock);
}

/*
 * scan_lend_finished
 *		Let the scans that have come to their end lend their rings, for a
 *		reader that is about to begin.
 */
void
scan_lend_finished(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &active)
	{
		ScanReader *reader = dlist_container(ScanReader, active_node, iter.cur);

		if (is_drained(reader))
		{
			note_consumed(reader);
			ring_lend(reader->reader.ring);
			deactivate(reader);
		}
	}
}

/*
 * Does this process count the scan?  A parallel scan is counted by its leader,
 * or if that takes no part, by the first worker.  See remember_workers() for
 * what neither of them is called for.
 */
static bool
counts_scan(const ScanReader *reader)
{
	if (!IsParallelWorker() || reader->scan->rs_base.rs_parallel == NULL)
		return true;
	return ParallelWorkerNumber == 0 && !parallel_leader_participation;
}

/* How many blocks does a pass have to do? */
static BlockNumber
blocks_to_scan(const HeapScanDesc scan)
{
	return Min(scan->rs_nblocks, scan->rs_numblocks);
}

static TupleTableSlot *last_calls(PlanState *ps);
static TupleTableSlot *changing_call(PlanState *ps);
static void change_depth(ScanReader *reader);
static Datum changing_qual(ExprState *state, ExprContext *econtext, bool *isnull);

/* The reader of a node of a running query; NULL if it has none. */
static ScanReader *
find_reader(const PlanState *ps)
{
	QueryScans *query;
	NodeReader *entry;

	/* mostly it is the one that began last */
	if (!dlist_is_empty(&active))
	{
		ScanReader *newest = dlist_head_element(ScanReader, active_node, &active);

		if (newest->node == ps)
			return newest;
	}
	query = query_scans(ps->state, false);
	entry = query ? nodes_lookup(query->by_node, ps) : NULL;
	return entry ? entry->reader : NULL;
}

/* That of a node whose function's place, or its qual's, another one has. */
static ScanReader *
reader_of(const PlanState *ps)
{
	ScanReader *reader = find_reader(ps);

	if (reader == NULL)
		elog(ERROR, "could not find the reader of a sequential scan");
	return reader;
}

/* Where a node's own function is, so that what takes its place is timed, too. */
static ExecProcNodeMtd *
node_place(PlanState *ps)
{
	return ps->instrument ? &ps->ExecProcNodeReal : &ps->ExecProcNode;
}

/* Another function takes the place of the node's own. */
static void
take_node(ScanReader *reader, ExecProcNodeMtd function)
{
	ExecProcNodeMtd *place = node_place(reader->node);

	if (reader->node_function == NULL)
		reader->node_function = *place;
	*place = function;
}

/* Put the node's own function back, if another one has its place. */
static void
restore_node(ScanReader *reader)
{
	if (reader->node_function != NULL)
		*node_place(reader->node) = reader->node_function;
	reader->node_function = NULL;
}

/*
 * Have the stream replaced at the next row that the scan finds: where the node
 * has a qual, that is looked at for every row, else every row is returned.  If
 * last_calls() has the node's place, that will see to it.
 */
static void
request_change(ScanReader *reader)
{
	ExprState  *qual = reader->node->qual;

	reader->changing = true;
	if (qual == NULL && reader->node_function == NULL)
		take_node(reader, changing_call);
	else if (qual != NULL && reader->qual_function == NULL)
	{
		reader->qual_function = qual->evalfunc;
		qual->evalfunc = changing_qual;
	}
}

/* The scan has got everything. */
static void
end_pass(ScanReader *reader)
{
	reader->watched = true;
	ring_consume_rest(reader->reader.ring);
	registry_hide(&reader->reader);
	registry_stop_clock(&reader->reader);
}

/* The scan starts to read, for the first time or again. */
static void
begin_pass(ScanReader *reader)
{
	if (counts_scan(reader))
		reader->reader.scans++;
	if (IsParallelWorker())
		reader->reader.workers++;

	leave_sharing(reader);
	ring_keep(reader->reader.ring, false, 0);

	settle_pass(reader);
	if (reader->scan->rs_nblocks > MAX_BLOCKS_WATCHED)
		restore_node(reader);
	reader->watched = reader->node_function != NULL;
	if (reader->changing)
		request_change(reader);
	reader->direction = reader->scan->rs_dir;
	reader->ended = false;
	scan_lend_finished();
	activate(reader);
	registry_start_pass(&reader->reader, blocks_to_scan(reader->scan));
	registry_start_clock(&reader->reader);
}

/* The stream goes on from where the scan is: what it had asked for is dropped. */
static void
restart_ring(ScanReader *reader)
{
	note_consumed(reader);
	ring_drop_rest(reader->reader.ring);
	ring_start(reader->reader.ring);
}

/* The scan turns round, in the middle. */
static void
turn(ScanReader *reader)
{
	reader->direction = reader->scan->rs_dir;
	reader->ended = false;
	leave_sharing(reader);
	ring_keep(reader->reader.ring, false, 0);
	if (reader->changing)
		request_change(reader);
	restart_ring(reader);
	registry_show(&reader->reader);
	registry_start_clock(&reader->reader);
}

/*
 * Takes the place of a node's function when its stream has asked for its last
 * block, but has not handed out all that it asked for: to see where the scan
 * ends, look at every row that is still to come.  It stays there if the
 * relation is so small that its next pass will soon come to this point, too.
 */
static TupleTableSlot *
last_calls(PlanState *ps)
{
	ScanReader *reader = reader_of(ps);
	TupleTableSlot *slot;

	if (reader->ended && !is_drained(reader))
	{
		reader->watched = true;
		registry_show(&reader->reader);
		registry_start_clock(&reader->reader);
	}
	change_depth(reader);
	slot = reader->node_function(ps);
	if (TupIsNull(slot))
	{
		if (is_drained(reader))
			end_pass(reader);
	}
	else if (reader->watched)
		note_consumed(reader);
	return slot;
}

/* What both callbacks do with the block that they found. */
static BlockNumber
hand_out(ScanReader *reader, BlockNumber block)
{
	if (unlikely(!enabled_still(&reader->enabled)))
	{
		leave_sharing(reader);
		depth_settle(&reader->depth);
		ring_let_go(reader->reader.ring);
	}
	if (unlikely(reader->direction != reader->scan->rs_dir))
		turn(reader);
	note_consumed(reader);

	if (block == InvalidBlockNumber)
	{
		reader->ended = true;
		leave_sharing(reader);
		ring_keep(reader->reader.ring, false, 0);
		registry_hide(&reader->reader);
		registry_stop_clock(&reader->reader);
		take_node(reader, last_calls);
	}
	return block;
}

/* How far is it from one block to another, forward? */
static inline int64
blocks_between(BlockNumber from, BlockNumber to, BlockNumber nblocks)
{
	return to >= from ? to - from : (int64) nblocks - from + to;
}

/*
 * Tell the others where the scan is, keep for them what they have still to come
 * to, and if it is too far in front, wait for them.
 */
static void
step(ScanReader *reader, BlockNumber block, BlockNumber start)
{
	Ring	   *ring = reader->reader.ring;
	BlockNumber next = ring_next_to_get(ring);
	BlockNumber nblocks = reader->scan->rs_nblocks;
	const ShareState *state;
	int64		waited_us = 0;

	if (next == InvalidBlockNumber)
		next = block;
	state = share_step(reader->share, blocks_between(start, block, nblocks),
					   blocks_between(start, next, nblocks));
	if (unlikely(state->wait))
	{
		instr_time	began;
		instr_time	end;

		INSTR_TIME_SET_CURRENT(began);
		while (state->wait && enabled_still(&reader->enabled))
			state = share_wait(reader->share);
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_SUBTRACT(end, began);
		waited_us = Max(1, (int64) INSTR_TIME_GET_MICROSEC(end));
	}
	ring_keep(ring, state->shared, state->behind);
	if (state->lost)
		ring_narrow(ring);
	ring_count_sharing(ring, waited_us);
}

/* Is this block one at which to tell them? */
static inline bool
is_step(const ScanReader *reader, BlockNumber block)
{
	return reader->share != NULL && block != InvalidBlockNumber &&
		(block % BLOCKS_PER_STEP == 0 || share_is_shared(reader->share));
}

/*
 * Would the server synchronize this scan with others, and can its ring keep
 * what they need?  Only in its first pass: a rescan starts where it did.  And
 * not where somebody holds a lightweight lock, as an index does on a page while
 * it calls its support functions: who waits then can't be cancelled.
 */
static bool
may_share(ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;
	bool		first = !reader->begun;

	reader->begun = true;
	return first && param_share_scans && InterruptHoldoffCount == 0 &&
		ring_options(reader->reader.ring)->window > 0 &&
		(scan->rs_base.rs_flags & SO_ALLOW_SYNC) != 0 &&
		ScanDirectionIsForward(scan->rs_dir) &&
		scan->rs_nblocks > 0 && scan->rs_numblocks == InvalidBlockNumber;
}

/* Join those who scan the same relation, and start where they are. */
static void
join(ScanReader *reader, BlockNumber start, bool may_move)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(scan_context);
	HeapScanDesc scan = reader->scan;

	bool		parallel = scan->rs_base.rs_parallel != NULL;
	int			window = ring_options(reader->reader.ring)->window;

	/*
	 * The processes of a parallel scan are whole chunks apart, and each keeps
	 * only what it has read itself, so together they can keep more.
	 */
	reader->share = share_join(scan->rs_base.rs_rd, scan->rs_nblocks,
							   parallel ? 2 * window : window,
							   parallel, start, may_move);
	MemoryContextSwitchTo(oldcontext);
	if (reader->share != NULL)
		share_meet(reader->share);
}

static void
begin_sharing(ScanReader *reader)
{
	if (!may_share(reader))
		return;
	join(reader, reader->scan->rs_startblock, true);
	if (reader->share != NULL)
		reader->scan->rs_startblock = share_start(reader->share);
}

/*
 * A parallel scan has one start for all its processes: the first one of them
 * may choose it, as long as there is none.
 */
static void
begin_sharing_parallel(ScanReader *reader, ParallelBlockTableScanDesc pscan)
{
	bool		share = pscan->base.phs_syncscan && may_share(reader);

	if (share && pscan->phs_startblock == InvalidBlockNumber)
	{
		BlockNumber where = ss_get_location(reader->scan->rs_base.rs_rd,
											reader->scan->rs_nblocks);

		join(reader, where, true);
		if (reader->share != NULL)
		{
			BlockNumber start = share_start(reader->share);
			bool		first = false;

			SpinLockAcquire(&pscan->phs_mutex);
			if (pscan->phs_startblock == InvalidBlockNumber)
			{
				pscan->phs_startblock = start;
				first = true;
			}
			SpinLockRelease(&pscan->phs_mutex);
			if (!first)
				leave_sharing(reader);
		}
	}
	compat_parallelscan_startblock_init(reader->scan);
	if (share && reader->share == NULL)
		join(reader, pscan->phs_startblock, false);
}

/* Where the scan starts; the same as heapgettup_initial_block(). */
static BlockNumber
initial_block(HeapScanDesc scan)
{
	if (scan->rs_nblocks == 0 || scan->rs_numblocks == 0)
		return InvalidBlockNumber;

	if (ScanDirectionIsForward(scan->rs_dir))
		return scan->rs_startblock;

	/* A backward scan would only disturb those that follow this one. */
	scan->rs_base.rs_flags &= ~SO_ALLOW_SYNC;

	if (scan->rs_numblocks != InvalidBlockNumber)
		return (scan->rs_startblock + scan->rs_numblocks - 1) % scan->rs_nblocks;
	return scan->rs_startblock > 0 ? scan->rs_startblock - 1 : scan->rs_nblocks - 1;
}

/* Is the scan complete?  Counts down what heap_setscanlimits() allows. */
static bool
limit_reached(HeapScanDesc scan)
{
	return scan->rs_numblocks != InvalidBlockNumber && --scan->rs_numblocks == 0;
}

/* Which block comes next; the same as heapgettup_advance_block(). */
static BlockNumber
advance_block(HeapScanDesc scan)
{
	BlockNumber block = scan->rs_prefetch_block;

	if (ScanDirectionIsForward(scan->rs_dir))
	{
		if (++block >= scan->rs_nblocks)
			block = 0;

		/* Before the end is noticed, so that the report ends where it began. */
		if (scan->rs_base.rs_flags & SO_ALLOW_SYNC)
			ss_report_location(scan->rs_base.rs_rd, block);

		if (block == scan->rs_startblock || limit_reached(scan))
			return InvalidBlockNumber;
		return block;
	}

	if (block == scan->rs_startblock || limit_reached(scan))
		return InvalidBlockNumber;
	return (block == 0 ? scan->rs_nblocks : block) - 1;
}

/* The callback of a serial scan. */
static BlockNumber
next_block_serial(ReadStream *stream pg_attribute_unused(), void *arg,
				  void *per_buffer_data pg_attribute_unused())
{
	ScanReader *reader = (ScanReader *) arg;
	HeapScanDesc scan = reader->scan;

	if (unlikely(!scan->rs_inited))
	{
		begin_pass(reader);
		begin_sharing(reader);
		scan->rs_prefetch_block = initial_block(scan);
		scan->rs_inited = true;
	}
	else
		scan->rs_prefetch_block = advance_block(scan);

	if (is_step(reader, scan->rs_prefetch_block) && ScanDirectionIsForward(scan->rs_dir))
		step(reader, scan->rs_prefetch_block, scan->rs_startblock);
	if (!reader->changing && depth_changes(&reader->depth))
		request_change(reader);
	return hand_out(reader, scan->rs_prefetch_block);
}

/* The callback of a parallel scan, in the leader and in each worker. */
static BlockNumber
next_block_parallel(ReadStream *stream pg_attribute_unused(), void *arg,
					void *per_buffer_data pg_attribute_unused())
{
	ScanReader *reader = (ScanReader *) arg;
	HeapScanDesc scan = reader->scan;

	ParallelBlockTableScanDesc pscan =
		(ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;

	if (unlikely(!scan->rs_inited))
	{
		begin_pass(reader);
		begin_sharing_parallel(reader, pscan);
		scan->rs_inited = true;
	}
	scan->rs_prefetch_block =
		table_block_parallelscan_nextpage(scan->rs_base.rs_rd,
										  scan->rs_parallelworkerdata, pscan);

	if (is_step(reader, scan->rs_prefetch_block))
		step(reader, scan->rs_prefetch_block, pscan->phs_startblock);
	return hand_out(reader, scan->rs_prefetch_block);
}

/* What the reader did so far. */
static void
get_facts(const ScanReader *reader, ScanFacts *facts)
{
	const RingPublic *ring = ring_public(reader->reader.ring);

	facts->plan_node_id = reader->plan_node_id;
	facts->relid = reader->reader.key.relid;
	facts->worker = IsParallelWorker() ? ParallelWorkerNumber : -1;
	facts->nbuffers = ring->nbuffers;
	facts->source = ring_options(reader->reader.ring)->source;
	facts->scans = reader->reader.scans;
	facts->elapsed_ms = INSTR_TIME_GET_MILLISEC(reader->reader.elapsed);
	facts->counts = *ring_counts(reader->reader.ring);
}

/* The registry says that a reader has ended, and its counts are final. */
static void
scan_finished(Reader *finished)
{
	ScanReader *reader = (ScanReader *) finished;
	ScanFacts	facts;

	get_facts(reader, &facts);
	if (!IsParallelWorker())
		facts_remember(&facts);
	else if (reader->for_leader)
		facts_publish(DatumGetUInt32(MyBgworkerEntry->bgw_main_arg), &facts);
}

/* Make the reader of a scan, with its ring. */
static ScanReader *
make_reader(SeqScanState *node, const RingOptions *options)
{
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	ScanReader *reader;
	bool		found PG_USED_FOR_ASSERTS_ONLY;

	scan_lend_finished();

	reader = registry_make_reader(scan_context, sizeof(ScanReader));
	reader->scan = scan;
	reader->query = query_scans(node->ss.ps.state, true);
	nodes_insert(reader->query->by_node, &node->ss.ps, &found)->reader = reader;
	Assert(!found);
	reader->node = &node->ss.ps;
	reader->plan_node_id = node->ss.ps.plan->plan_node_id;
	reader->for_leader = IsParallelWorker() && node->ss.ps.state->es_query_dsa != NULL;
	reader->reader.failed = scan_failed;
	reader->reader.finished = scan_finished;
	dlist_push_tail(&reader->query->readers, &reader->reader.node);

	registry_begin_reader(&reader->reader, READER_SEQSCAN,
						  RelationGetRelid(scan->rs_base.rs_rd), options);
	enabled_mark(&reader->enabled);
	return reader;
}

/*
 * Does the query lock or change rows?  Then it has slots that keep the page of
 * a row pinned until it comes to the next such row: of the old tuple, of the
 * triggers' old tuple, and of EvalPlanQual.
 */
static bool
query_keeps_pins(const EState *estate)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;

	return stmt->commandType != CMD_SELECT || stmt->rowMarks != NIL ||
		stmt->hasModifyingCTE;
}

/*
 * Look-ahead for a scan that will be left after a number of rows: a part of
 * the pages that these are on, by the planner's reckoning, so that in the end
 * not much was read for nothing.  If there are fewer rows on a page the scan
 * goes on, and looks ahead no farther.
 */
static void
cap_lookahead(SeqScanState *node, RingOptions *options)
{
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	int64		rows = limit_rows_wanted(node);
	double		pages;
	double		ahead;

	if (rows < 0 || options->observe || scan->rs_base.rs_parallel != NULL)
		return;
	pages = (double) rows * scan->rs_nblocks / Max(1.0, node->ss.ps.plan->plan_rows);
	ahead = Max(1, pages / LIMIT_PAGES_PER_AHEAD);
	if (ahead < policy_lookahead(scan->rs_base.rs_rd, options))
	{
		options->max_ahead = (int) ahead;
		options->near_ahead = 0;
	}
}

/* Give the scan a stream that goes through the reader's ring. */
static void
replace_stream(ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;
	ReadStream *stream;

	stream = ring_begin_stream(reader->reader.ring,
							   READ_STREAM_SEQUENTIAL | COMPAT_READ_STREAM_BATCHING,
							   scan->rs_base.rs_rd, MAIN_FORKNUM,
							   depth_ahead(&reader->depth),
							   scan->rs_base.rs_parallel ?
							   next_block_parallel : next_block_serial,
							   reader);
	compat_instrument_stream(scan, stream);

	read_stream_end(scan->rs_read_stream);
	scan->rs_read_stream = stream;
}

/*
 * The stream shall look ahead less far, or farther: another one takes over, from
 * the block after the one that the scan is at.  What the first one had read
 * ahead is found there.  It is what heap_fetch_next_buffer() does where a scan
 * turns round.
 *
 * If the scan is not in the middle, where that can be done, it is left for later.
 */
static void
change_depth(ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;
	MemoryContext oldcontext;

	if (!reader->changing || reader->ended || !scan->rs_inited ||
		!BufferIsValid(scan->rs_cbuf) || scan->rs_numblocks != InvalidBlockNumber)
		return;
	reader->changing = false;

	oldcontext = MemoryContextSwitchTo(reader->node->state->es_query_cxt);
	replace_stream(reader);
	restart_ring(reader);
	scan->rs_prefetch_block = scan->rs_cblock;
	depth_changed(&reader->depth);
	MemoryContextSwitchTo(oldcontext);
}

/* Takes the place of a node's function when its stream shall be replaced. */
static TupleTableSlot *
changing_call(PlanState *ps)
{
	ScanReader *reader = reader_of(ps);

	restore_node(reader);
	change_depth(reader);
	return (*node_place(ps)) (ps);
}

/* And of its qual's, if it has one. */
static Datum
changing_qual(ExprState *state, ExprContext *econtext, bool *isnull)
{
	ScanReader *reader = reader_of(state->parent);

	state->evalfunc = reader->qual_function;
	reader->qual_function = NULL;
	change_depth(reader);
	return state->evalfunc(state, econtext, isnull);
}

/* Attach a reader, and a ring if the policy says so, to a scan's first call. */
static void
attach_scan(SeqScanState *node)
{
	MemoryContext oldcontext;
	HeapScanDesc scan;
	RingOptions options;

	if (policy_mode() == MODE_OFF)
		return;

	oldcontext = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);

	/* The parallel ones have begun already. */
	if (node->ss.ss_currentScanDesc == NULL)
		node->ss.ss_currentScanDesc = compat_begin_seqscan(node);
	scan = (HeapScanDesc) node->ss.ss_currentScanDesc;

	policy_for_scan(node->ss.ss_currentRelation, scan->rs_nblocks, param_mode,
					&options, NULL);
	if (query_keeps_pins(node->ss.ps.state))
		options.headroom += SLOTS_THAT_KEEP_PINS;
	cap_lookahead(node, &options);

	/* Attach if that changes anything, or if somebody counts. */
	if (param_track ||
		(!options.observe && (options.nbuffers > 0 || scan->rs_strategy != NULL)))
	{
		ScanReader *reader = make_reader(node, &options);

		depth_begin(&reader->depth, reader->reader.ring,
					scan->rs_base.rs_parallel ? 0 : blocks_to_scan(scan));
		replace_stream(reader);
	}

	MemoryContextSwitchTo(oldcontext);
}

/* Takes the place of a sequential scan's function for its first row. */
static TupleTableSlot *
first_call(PlanState *ps)
{
	ExecSetExecProcNode(ps, ps->ExecProcNodeReal);
	attach_scan(castNode(SeqScanState, ps));
	return ps->ExecProcNode(ps);
}

/* The query's memory goes, and this in it. */
static void
forget_parallel_query(void *arg)
{
	ParallelQuery *query = arg;

	dlist_delete(&query->node);
}

/* A parallel query starts; which parallel context it has will be known later. */
static ParallelQuery *
note_parallel_query(EState *estate)
{
	ParallelQuery *query;

	/* If no other runs, what is in our box is of queries that failed. */
	if (dlist_is_empty(&parallel_queries))
		facts_discard(DSM_HANDLE_INVALID);

	query = MemoryContextAllocZero(estate->es_query_cxt, sizeof(ParallelQuery));
	query->estate = estate;
	query->handle = DSM_HANDLE_INVALID;
	query->callback.func = forget_parallel_query;
	query->callback.arg = query;
	dlist_push_tail(&parallel_queries, &query->node);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &query->callback);
	return query;
}

/*
 * Takes the place of a Gather's function for its first row.  When that is
 * there, so is the parallel context: remember which, for the facts that its
 * workers will publish.  Should there be none, because no worker was to be
 * had, nobody will.
 */
static TupleTableSlot *
first_gather_call(PlanState *ps)
{
	ParallelExecutorInfo *pei;
	TupleTableSlot *slot;
	ParallelQuery *query;

	ExecSetExecProcNode(ps, ps->ExecProcNodeReal);
	query = note_parallel_query(ps->state);
	slot = ps->ExecProcNode(ps);

	pei = IsA(ps, GatherState) ? castNode(GatherState, ps)->pei :
		castNode(GatherMergeState, ps)->pei;
	if (pei != NULL && pei->pcxt->seg != NULL)
		query->handle = dsm_segment_handle(pei->pcxt->seg);
	return slot;
}

/* The parallel contexts of a query: a list of their handles, as OIDs. */
static List *
parallel_contexts(const EState *estate)
{
	List	   *handles = NIL;
	dlist_iter	iter;

	dlist_foreach(iter, &parallel_queries)
	{
		ParallelQuery *query = dlist_container(ParallelQuery, node, iter.cur);

		if (query->estate == estate && query->handle != DSM_HANDLE_INVALID)
			handles = lappend_oid(handles, query->handle);
	}
	return handles;
}

/*
 * scan_facts
 *		What the processes of this query did for a scan of its plan, so far: a
 *		palloc'd list of palloc'd ScanFacts, this process first.
 */
List *
scan_facts(PlanState *ps)
{
	ScanReader *reader = find_reader(ps);
	List	   *result = NIL;
	ListCell   *handle;

	if (reader != NULL)
	{
		ScanFacts  *facts = palloc(sizeof(ScanFacts));

		get_facts(reader, facts);
		/* The query has run: what is not consumed now will never be. */
		facts->counts.unconsumed = facts->counts.blocks - facts->counts.consumed;
		result = lappend(result, facts);
	}

	foreach(handle, parallel_contexts(ps->state))
		result = list_concat(result, facts_of_workers(lfirst_oid(handle),
													  ps->plan->plan_node_id));
	return result;
}

/*
 * All workers are done: remember what they did.  What they did for a node that
 * their leader was not called for may not be counted as a scan yet: if the leader
 * takes no part, the first of them counts, but it may have had nothing to do with
 * some of the scans that they share out.
 */
static void
remember_workers(List *handles, Bitmapset *unled)
{
	ListCell   *handle;

	foreach(handle, handles)
	{
		List	   *sheets = facts_of_workers(lfirst_oid(handle), -1);

		foreach_ptr(ScanFacts, facts, sheets)
			if (facts->scans > 0)
				unled = bms_del_member(unled, facts->plan_node_id);

		foreach_ptr(ScanFacts, facts, sheets)
		{
			if (bms_is_member(facts->plan_node_id, unled))
			{
				unled = bms_del_member(unled, facts->plan_node_id);
				facts->scans = 1;
				registry_count_scans(READER_SEQSCAN, facts->relid, 1);
			}
			facts_remember(facts);
		}
		facts_discard(lfirst_oid(handle));
	}
}

/*
 * Have every sequential scan below ps call us first.  Some are found twice
 * (alternatives of a hashed subplan), that does no harm.
 */
static bool
find_scans(PlanState *ps, void *context)
{
	if (IsA(ps, SeqScanState) &&
		policy_exclusion(((SeqScanState *) ps)->ss.ss_currentRelation) == NULL)
		ps->ExecProcNode = first_call;
	else if (IsA(ps, GatherState) || IsA(ps, GatherMergeState))
		ps->ExecProcNode = first_gather_call;
	else if (IsA(ps, LimitState))
		limit_note((LimitState *) ps);
	return planstate_tree_walker(ps, find_scans, context);
}

/*
 * Note the parallel scans below ps, by their nodes, that this process was never
 * called for: it takes no part, or the workers were done before.
 */
static bool
note_unled_scans(PlanState *ps, void *context)
{
	Bitmapset **unled = context;

	if (IsA(ps, SeqScanState) && ps->ExecProcNode == first_call &&
		((SeqScanState *) ps)->ss.ss_currentScanDesc != NULL)
		*unled = bms_add_member(*unled, ps->plan->plan_node_id);
	return planstate_tree_walker(ps, note_unled_scans, context);
}

/* Not all subplans can be reached from the top of the plan. */
static void
find_all_scans(QueryDesc *queryDesc)
{
	ListCell   *lc;

	find_scans(queryDesc->planstate, NULL);
	foreach(lc, queryDesc->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL)
			find_scans((PlanState *) lfirst(lc), NULL);
	}
}

static void
scan_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	if (IsParallelWorker())
		enabled_listen();
	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);

	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 && queryDesc->planstate != NULL)
		find_all_scans(queryDesc);
}

/* Others shall see exactly where the scan stands while its query pauses. */
static void
pause_reader(ScanReader *reader)
{
	registry_stop_clock(&reader->reader);
	depth_interrupt(&reader->depth);
	ring_watch(reader->reader.ring);
	note_consumed(reader);
	if (reader->share != NULL)
		share_pause(reader->share, true);
}

/* The query's readers go on, or pause. */
static void
set_running(EState *estate, bool running)
{
	dlist_iter	iter;

	dlist_foreach(iter, &active)
	{
		ScanReader *reader = dlist_container(ScanReader, active_node, iter.cur);

		if (reader->query->estate != estate)
			continue;
		if (running && !is_drained(reader))
		{
			registry_start_clock(&reader->reader);
			ring_resume(reader->reader.ring);
			if (reader->share != NULL)
				share_pause(reader->share, false);
		}
		else if (!running)
			pause_reader(reader);
	}
}

/* A cursor's query may be run many times; what is between is not its time. */
static void
scan_ExecutorRun(COMPAT_RUN_PARAMS)
{
	set_running(queryDesc->estate, true);

	if (prev_ExecutorRun)
		prev_ExecutorRun(COMPAT_RUN_ARGS);
	else
		standard_ExecutorRun(COMPAT_RUN_ARGS);

	set_running(queryDesc->estate, false);
}

/*
 * What WITH modifies is modified to the end here, if the query has not read it
 * all.
 */
static void
scan_ExecutorFinish(QueryDesc *queryDesc)
{
	EState	   *estate = queryDesc->estate;

	if (estate->es_auxmodifytables != NIL)
		set_running(estate, true);

	if (prev_ExecutorFinish)
		prev_ExecutorFinish(queryDesc);
	else
		standard_ExecutorFinish(queryDesc);

	if (estate->es_auxmodifytables != NIL)
		set_running(estate, false);
}

/*
 * Before the streams end and the relations are closed: the scans are about to
 * be freed, so never look at them again.
 */
static void
leave_scans(QueryScans *query)
{
	dlist_iter	iter;

	dlist_foreach(iter, &query->readers)
	{
		ScanReader *reader = dlist_container(ScanReader, reader.node, iter.cur);

		registry_stop_clock(&reader->reader);
		registry_hide(&reader->reader);
		if (reader->active)
			note_consumed(reader);
		ring_forget_relation(reader->reader.ring);
		deactivate(reader);
	}
}

/* When the streams have read what they had still to read. */
static void
end_readers(QueryScans *query)
{
	bool		more = true;

	while (more)
	{
		ScanReader *reader = dlist_container(ScanReader, reader.node,
											 dlist_head_node(&query->readers));

		more = dlist_has_next(&query->readers, &reader->reader.node);
		unlink_reader(reader);
		registry_end_reader(&reader->reader);
	}
}

static void
scan_ExecutorEnd(QueryDesc *queryDesc)
{
	QueryScans *query = query_scans(queryDesc->estate, false);
	List	   *handles = parallel_contexts(queryDesc->estate);
	Bitmapset  *unled = NULL;

	if (query != NULL)
		leave_scans(query);
	if (handles != NIL)
		note_unled_scans(queryDesc->planstate, &unled);

	if (prev_ExecutorEnd)
		prev_ExecutorEnd(queryDesc);
	else
		standard_ExecutorEnd(queryDesc);

	if (query != NULL)
		end_readers(query);
	remember_workers(handles, unled);
}

/*
 * scan_install_hooks
 *		From now on every query of this session is looked at.
 */
void
scan_install_hooks(void)
{
	scan_context = AllocSetContextCreate(TopMemoryContext, "pg_ringctl scans",
										 ALLOCSET_DEFAULT_SIZES);

	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = scan_ExecutorStart;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = scan_ExecutorRun;
	prev_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = scan_ExecutorFinish;
	prev_ExecutorEnd = ExecutorEnd_hook;
	ExecutorEnd_hook = scan_ExecutorEnd;
}
