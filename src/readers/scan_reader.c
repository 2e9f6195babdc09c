/*-------------------------------------------------------------------------
 *
 * scan_reader.c
 *	  The readers of scans, and their passes.
 *
 * The scans are those of plan nodes (sequential, TID range, bitmap heap and
 * index scans) and of utility commands.  A pass of an attached scan:
 *
 *	             begins            finds no block left
 *	  IDLE -------------> READING ------------------> ASKED_ALL
 *	    ^                  ^ ^  |                       |  |
 *	    |                  | +--+ turns, is rescanned   |  |
 *	    |                  +------ turns, is rescanned -+  |
 *	    +--------------------- drained, its ring is lent --+
 *
 * The stream looks ahead.  So when it finds no block left, the scan has
 * usually not got all blocks yet.  When the scan is done with them, only its
 * descriptor shows that: the descriptor has no buffer and, except in a bitmap
 * heap scan, is not inited.  Such a scan is drained.  It keeps its ring until
 * another reader or pass of the session begins.  Then it lends the ring, if
 * its reader is among those that are asked (see reader_lend_finished()).  If
 * the scan is rescanned, its ring gets buffers again.  (If the bound at which
 * a TID range scan ends is within a page, the scan stops there and is never
 * drained.  Its ring is lent when the query ends.)
 *
 * An index scan has no such descriptor.  Its reader has a single pass, which
 * lasts until the query ends; index_fetch.c has its streams.
 *
 * scan_query.c keeps the readers by query.  If the query fails, the readers'
 * resource owner ends them.  At that time, what belongs to the executor must
 * not be used.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "optimizer/optimizer.h"
#include "postmaster/bgworker.h"
#include "readers/scan_query.h"
#include "readers/scan_reader.h"
#include "readers/scan_sharing.h"
#include "readers/toast.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Tuple table slots that keep a page pinned: see query_keeps_pins(). */
#define SLOTS_THAT_KEEP_PINS	3

const EState *scan_partial_query = NULL;

/* --- A pass --- */

/*
 * When the stream has asked for all blocks, the ring may be lent soon.  But
 * the ring of a utility command is lent only when its reader ends: the command
 * frees its scan without telling us, so we can't look at the scan to see
 * whether it has got all blocks.
 */
static void
set_pass(ScanReader *reader, PassState pass)
{
	query_set_running(reader, pass != PASS_IDLE);
	reader->pass = pass;
	reader_may_lend(&reader->reader, pass == PASS_ASKED_ALL && reader->node != NULL);
}

/*
 * Has the scan got all blocks of its pass?  A bitmap heap scan does not reset
 * rs_inited at its end.
 */
static bool
is_drained(const ScanReader *reader)
{
	const HeapScanDesc scan = reader->scan;

	if (scan == NULL)
		return false;			/* an index scan: not known here */
	return reader->pass == PASS_ASKED_ALL && !BufferIsValid(scan->rs_cbuf) &&
		(!scan->rs_inited || (scan->rs_base.rs_flags & SO_TYPE_BITMAPSCAN) != 0);
}

/*
 * The pass is over, or was given up: count its last blocks.  If the stream has
 * asked for all blocks, the scan has probably got all of them.  If not, the
 * scan may have got one more block since the last call of the stream's
 * callback.
 */
static void
count_rest_of_pass(ScanReader *reader)
{
	Ring	   *ring = reader->reader.ring;

	if (reader->pass == PASS_ASKED_ALL)
		ring_consume_all(ring);
	else
		ring_consume_next(ring);
	ring_drop_unconsumed(ring);
}

/* Note how many blocks the scan has got. */
static void
note_consumed(ScanReader *reader)
{
	if (is_drained(reader))
		count_rest_of_pass(reader);
	else if (reader->scan != NULL && reader->scan->rs_cblock != InvalidBlockNumber)
		ring_consume(reader->reader.ring, reader->scan->rs_cblock);
}

/* Called by reader_lend_finished(): see reader_may_lend(). */
static void
lend_if_drained(Reader *asked_all)
{
	ScanReader *reader = (ScanReader *) asked_all;

	if (!is_drained(reader))
		return;
	note_consumed(reader);
	ring_lend(reader->reader.ring);
	set_pass(reader, PASS_IDLE);
}

/*
 * Does this process count the scan?  A parallel scan is counted by the leader,
 * or by worker 0 if the leader takes no part.  If that process never calls the
 * node, scan_remember_workers() counts the scan.
 */
static bool
counts_scan(const ScanReader *reader)
{
	if (!IsParallelWorker() || !reader->is_parallel)
		return true;
	return ParallelWorkerNumber == 0 && !parallel_leader_participation;
}

/* How many blocks does a pass have to read? */
static BlockNumber
blocks_to_scan(const ScanReader *reader)
{
	if (reader->expected > 0)
		return reader->expected;
	return Min(reader->scan->rs_nblocks, reader->scan->rs_numblocks);
}

/*
 * The scan starts to read.  Does this pass start quietly (quiet.c)?  If a node
 * above the scan can stop it, and the last pass was left early, this one is
 * likely to be left early, too.  Then it starts quietly, if that is possible.
 */
static inline bool
starts_quietly(const ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;

	return reader->alone && scan->rs_base.rs_parallel == NULL &&
		reader->pass == PASS_READING &&
		ScanDirectionIsForward(reader->direction) && scan->rs_dir == reader->direction &&
		ring_start_quietly(reader->reader.ring, scan->rs_startblock, scan->rs_nblocks);
}

/* A pass that has started quietly goes on: do now what its start left out. */
static pg_noinline void
go_on(ScanReader *reader)
{
	reader->quiet = false;
	reader_lend_finished();
	ring_start(reader->reader.ring);
	reader_show_pass(&reader->reader, blocks_to_scan(reader));
}

/*
 * scan_begin_pass
 *		The scan starts to read, for the first time or again.
 */
void
scan_begin_pass(ScanReader *reader)
{
	HeapScanDesc scan = reader->scan;

	if (counts_scan(reader))
		reader->reader.scans++;
	if (IsParallelWorker())
		reader->reader.workers++;

	if (scan_has_begun(reader))
		count_rest_of_pass(reader);
	reader->quiet = starts_quietly(reader);
	if (reader->quiet)
		return;
	scan_leave_sharing(reader);
	set_pass(reader, PASS_READING);
	reader->direction = scan->rs_dir;
	reader->reported = scan->rs_startblock;
	scan_begin_sharing(reader);
	reader_lend_finished();
	reader_start_pass(&reader->reader, blocks_to_scan(reader));
	reader_start_clock(&reader->reader);
}

/*
 * scan_begin_index_pass
 *		The index scan begins to read through its reader.  Its only pass lasts
 *		until the query ends.
 */
void
scan_begin_index_pass(ScanReader *reader)
{
	if (!IsParallelWorker() || !reader->is_parallel)
		reader->reader.scans++;
	if (IsParallelWorker())
		reader->reader.workers++;
	set_pass(reader, PASS_READING);
	reader_start_pass(&reader->reader, reader->expected);
}

/* The scan changes its direction in the middle of a pass. */
static void
change_direction(ScanReader *reader)
{
	reader->direction = reader->scan->rs_dir;
	scan_leave_sharing(reader);
	note_consumed(reader);
	set_pass(reader, PASS_READING);
	ring_drop_unconsumed(reader->reader.ring);
	ring_start(reader->reader.ring);
	reader_show(&reader->reader);
	reader_start_clock(&reader->reader);
}

/* The stream has asked for all blocks of the pass. */
static void
end_asking(ScanReader *reader)
{
	scan_leave_sharing(reader);
	set_pass(reader, PASS_ASKED_ALL);
	reader_hide(&reader->reader);
	reader_stop_clock(&reader->reader);
}

/*
 * scan_note_next_block
 *		The stream asks for this block next, or, if the block is invalid, for
 *		no more blocks.  Note how far the scan is, and make a step in sharing
 *		if one is due.
 *
 * Called by the streams' callbacks.  Returns the block.  start: the block that
 * the scan began with.
 */
BlockNumber
scan_note_next_block(ScanReader *reader, BlockNumber block, BlockNumber start)
{
	if (unlikely(reader->direction != reader->scan->rs_dir))
		change_direction(reader);
	if (unlikely(reader->quiet) && !ring_is_quiet(reader->reader.ring))
		go_on(reader);
	note_consumed(reader);

	if (block == InvalidBlockNumber)
		end_asking(reader);
	else if (unlikely(--reader->blocks_to_step <= 0))
		scan_share(reader, block, start);
	return block;
}

/*
 * scan_pause_reader, scan_resume_reader
 *		The query pauses, or goes on.  During the pause the reader's clock is
 *		stopped, and other sessions see exactly how far the scan is.
 *
 * Scans share their reads only if their query is run to its end (but see
 * run_and_pause()), so they need not join the other scans again.
 */
void
scan_pause_reader(ScanReader *reader)
{
	reader_stop_clock(&reader->reader);
	ring_watch(reader->reader.ring);
	note_consumed(reader);
	if (reader->share != NULL)
		scan_leave_sharing(reader);
}

void
scan_resume_reader(ScanReader *reader)
{
	if (reader->pass == PASS_ASKED_ALL)
		return;
	reader_start_clock(&reader->reader);
	ring_resume(reader->reader.ring);
}

/*
 * scan_leave_reader
 *		The reader's stream is about to end, and its scan is about to be freed.
 *		From now on the reader must not use them.
 *
 * The scan of a utility command is freed already, and must not be looked at.
 * It has got all blocks that it has asked for: if it had not, the command
 * would have failed.
 */
void
scan_leave_reader(ScanReader *reader)
{
	reader_stop_clock(&reader->reader);
	reader_hide(&reader->reader);
	if (reader->node == NULL)
		count_rest_of_pass(reader);
	else if (reader->pass != PASS_IDLE)
		note_consumed(reader);
	ring_watch(reader->reader.ring);
	set_pass(reader, PASS_IDLE);
}

/* --- A reader of a scan --- */

/* What the reader did so far, up to the last look at its ring. */
static void
get_facts(const ScanReader *reader, ScanFacts *facts)
{
	const RingPublic *ring = ring_public(reader->reader.ring);

	facts->plan_node_id = reader->plan_node_id;
	facts->kind = reader->reader.info.kind;
	facts->relid = reader->reader.info.relid;
	facts->worker = IsParallelWorker() ? ParallelWorkerNumber : -1;
	facts->nbuffers = ring->nbuffers;
	facts->source = ring_options(reader->reader.ring)->source;
	facts->scans = reader->reader.scans;
	facts->elapsed_ms = INSTR_TIME_GET_MILLISEC(reader->reader.elapsed);
	facts->counts = *ring_counts(reader->reader.ring);
}

/*
 * scan_get_facts
 *		Set *facts to what the reader did so far.  Must be called after the
 *		last run of the query: blocks that are not consumed by then count as
 *		unconsumed.
 */
void
scan_get_facts(ScanReader *reader, ScanFacts *facts)
{
	if (reader->pass != PASS_IDLE)
	{
		ring_watch(reader->reader.ring);
		note_consumed(reader);
	}
	get_facts(reader, facts);
	facts->counts.unconsumed = facts->counts.blocks - facts->counts.consumed;
}

/* The reader has ended, and its counts are final. */
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

/* Take the reader out of all lists. */
static void
unlink_reader(ScanReader *reader)
{
	scan_leave_sharing(reader);
	set_pass(reader, PASS_IDLE);
	query_remove_reader(reader);
}

/* The reader's query failed. */
static void
scan_failed(Reader *failed)
{
	ScanReader *reader = (ScanReader *) failed;

	if (reader->query != NULL)
		unlink_reader(reader);
}

/*
 * Does the query lock or change rows?  If so, SLOTS_THAT_KEEP_PINS tuple table
 * slots may each keep the page of a row pinned until the next such row: the
 * slot of the old tuple, that of the triggers' old tuple, and that of
 * EvalPlanQual.
 */
static bool
query_keeps_pins(const EState *estate)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;

	return stmt->commandType != CMD_SELECT || stmt->rowMarks != NIL ||
		stmt->hasModifyingCTE;
}

/*
 * Does the node find rows that the query changes or locks?  Another scan of
 * the same relation, as in a self-join, does not, unless the rows that it
 * finds are changed or locked, too.
 */
static bool
node_finds_rows_to_change(const PlanState *ps)
{
	EState	   *estate = ps->state;
	Index		scanrelid = ((Scan *) ps->plan)->scanrelid;
	ExecRowMark *mark = ExecFindRowMark(estate, scanrelid, true);

	return (estate->es_result_relations != NULL &&
			estate->es_result_relations[scanrelid - 1] != NULL) ||
		(mark != NULL && RowMarkRequiresRowShareLock(mark->markType));
}

/* The reader belongs to the scan of a plan node. */
static void
set_node(ScanReader *reader, PlanState *ps)
{
	reader->node = ps;
	reader->plan_node_id = ps->plan->plan_node_id;
	reader->is_parallel = ps->plan->parallel_aware;
	reader->for_leader = IsParallelWorker() && ps->state->es_query_dsa != NULL;
}

static ScanReader *
begin_reader(ReaderKind kind, Relation rel, HeapScanDesc scan, const void *owner,
			 PlanState *ps, const RingOptions *options)
{
	ScanReader *reader = reader_make(scan_context, sizeof(ScanReader));
	RingOptions own_options = *options;

	reader->reader.failed = scan_failed;
	reader->reader.lend = lend_if_drained;
	reader->reader.finished = scan_finished;
	reader->scan = scan;
	query_add_reader(owner, reader);
	own_options.leave_first = query_may_leave(reader, options->leave_first);
	reader->plan_node_id = -1;
	if (ps != NULL)
	{
		set_node(reader, ps);
		if (query_keeps_pins(ps->state))
			own_options.headroom += SLOTS_THAT_KEEP_PINS;
		if (options->capacity > options->nbuffers && node_finds_rows_to_change(ps))
			own_options.leave_dirty = query_dirty_to_leave(reader);
	}
	reader->blocks_to_step = PG_INT64_MAX;
	reader_begin(&reader->reader, kind, RelationGetRelid(rel), &own_options);
	return reader;
}

/*
 * scan_begin_reader
 *		Begin the reader of a plan node's scan, with a ring of these options,
 *		and return the reader.  From now on the scan's TOAST values may go
 *		through a ring, too.
 *
 * Unless it is an index scan, the scan must have its descriptor already.
 * scan_end_query() ends the reader; if the query fails, or memory runs out
 * here, the reader's resource owner does.
 */
ScanReader *
scan_begin_reader(ReaderKind kind, PlanState *ps, const RingOptions *options)
{
	ScanState  *node = (ScanState *) ps;
	ScanReader *reader = begin_reader(kind, node->ss_currentRelation,
									  (HeapScanDesc) node->ss_currentScanDesc,
									  ps->state, ps, options);

	toast_begin(ps->state, node->ss_currentRelation, true);
	return reader;
}

/*
 * scan_begin_reader_of_command
 *		The same for a scan of a utility command, but its TOAST values are up
 *		to the caller.  command identifies the command in scan_leave_query().
 */
ScanReader *
scan_begin_reader_of_command(ReaderKind kind, const void *command,
							 HeapScanDesc scan, const RingOptions *options)
{
	return begin_reader(kind, scan->rs_base.rs_rd, scan, command, NULL, options);
}

/*
 * scan_end_reader
 *		The reader's stream and all its reads have ended: end the reader.
 */
void
scan_end_reader(ScanReader *reader)
{
	unlink_reader(reader);
	reader_end(&reader->reader);
}
