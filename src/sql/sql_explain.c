/*-------------------------------------------------------------------------
 *
 * sql_explain.c
 *	  Tell users what a scan did with its ring, or would do.
 *
 * There are three ways: the option RING of EXPLAIN, from 18 on;
 * pg_ringctl_last_scans(), which has the same facts on every major; and
 * pg_ringctl_resolve(), for a table that is not scanned yet.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "common/results.h"
#include "compat.h"
#include "sql/sql_explain.h"
#include "readers/scan_facts.h"
#include "funcapi.h"
#include "params.h"
#include "ring/plan.h"
#include "common/relations.h"
#include "readers/bitmapscan.h"
#include "readers/executor.h"
#include "readers/indexscan.h"
#include "readers/scan_workers.h"
#include "readers/tidrangescan.h"
#include "sql/sql_counts.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_last_scans);
PG_FUNCTION_INFO_V1(pg_ringctl_resolve);

#define LAST_SCANS_COLUMNS	(8 + COUNTS_COLUMNS)
#define RESOLVE_COLUMNS		9

#ifdef COMPAT_EXPLAIN_OPTIONS

static int	extension_id = -1;
static explain_per_node_hook_type prev_explain_per_node = NULL;

/* The option RING as the user gave it, in the memory of the ExplainState. */
typedef struct ExplainRing
{
	bool		ring;
} ExplainRing;

static void
handle_ring_option(ExplainState *es, DefElem *opt, ParseState *pstate pg_attribute_unused())
{
	ExplainRing *option = palloc(sizeof(ExplainRing));

	option->ring = defGetBoolean(opt);
	SetExplainExtensionState(es, extension_id, option);
}

static bool
ring_is_wanted(ExplainState *es)
{
	ExplainRing *option = GetExplainExtensionState(es, extension_id);

	return option != NULL && option->ring;
}

/*
 * Print which ring a scan has or would get.  In text this is "Ring: 1792kB
 * (224 buffers)  Source: chosen".  reason: why the scan gets this ring; or
 * NULL.
 */
static void
print_ring(ExplainState *es, int nbuffers, RingSource source, const char *reason)
{
	int64		kb = (int64) nbuffers * KB_PER_BUFFER;

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyBool("Attached", true, es);
		ExplainPropertyInteger("Ring Size", "kB", kb, es);
		ExplainPropertyInteger("Ring Buffers", NULL, nbuffers, es);
		ExplainPropertyText("Source", plan_source_name(source), es);
		if (reason)
			ExplainPropertyText("Reason", reason, es);
		return;
	}

	ExplainIndentText(es);
	appendStringInfo(es->str, ngettext("Ring: %lldkB (%d buffer)  Source: %s",
									   "Ring: %lldkB (%d buffers)  Source: %s", nbuffers),
					 (long long) kb, nbuffers, plan_source_name(source));
	if (reason)
		appendStringInfo(es->str, "  Reason: %s", reason);
	appendStringInfoChar(es->str, '\n');
}

/* Print that there is no ring, or that nothing is read ahead, and why. */
static void
print_none(ExplainState *es, const char *what, const char *reason)
{
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainIndentText(es);
		appendStringInfo(es->str, "%s: none  Reason: %s\n", what, reason);
		return;
	}
	ExplainPropertyBool("Attached", false, es);
	ExplainPropertyText("Reason", reason, es);
}

static void
print_no_ring(ExplainState *es, const char *reason)
{
	print_none(es, "Ring", reason);
}

/* Print the counts of a ring, in a format other than text. */
static void
print_counts(ExplainState *es, const RingCounts *counts)
{
	ExplainPropertyInteger("Blocks", NULL, counts->blocks, es);
	ExplainPropertyInteger("Hit Blocks", NULL, ring_blocks_hit(counts), es);
#define COUNT(name, label)	ExplainPropertyInteger(label, NULL, counts->name, es);
#define TIME(name, label)	ExplainPropertyFloat(label, "ms", counts->name / 1000.0, 3, es);
	RING_COUNTS(COUNT, TIME)
#undef COUNT
#undef TIME
}

/* Print the counts of a ring in text.  which: "Ring", or "Worker n Ring". */
static void
print_counts_text(ExplainState *es, const char *which, const RingCounts *counts)
{
	ExplainIndentText(es);
	appendStringInfo(es->str,
					 "%s Blocks: total=%lld hit=%lld read=%lld unconsumed=%lld\n",
					 which, (long long) counts->blocks,
					 (long long) ring_blocks_hit(counts), (long long) counts->blks_read,
					 (long long) counts->unconsumed);
	ExplainIndentText(es);
	appendStringInfo(es->str,
					 "%s Slots: fills=%lld reuses=%lld lost=%lld released=%lld  "
					 "Escapes: pinned=%lld dirty=%lld adopted=%lld  WAL Flushes: %lld\n",
					 which, (long long) counts->fills, (long long) counts->reuses,
					 (long long) counts->slots_lost,
					 (long long) counts->released,
					 (long long) counts->escapes_pinned,
					 (long long) counts->escapes_dirty,
					 (long long) counts->escapes_adopted,
					 (long long) counts->wal_flushes);
	if (counts->blks_shared == 0 && counts->share_waits == 0)
		return;
	ExplainIndentText(es);
	appendStringInfo(es->str, "%s Scan Sharing: hit=%lld waits=%lld time=%.3f\n",
					 which, (long long) counts->blks_shared,
					 (long long) counts->share_waits,
					 counts->share_wait_us / 1000.0);
}

static int
compare_workers(const ListCell *a, const ListCell *b)
{
	const ScanFacts *facts_a = lfirst(a);
	const ScanFacts *facts_b = lfirst(b);

	return facts_a->worker - facts_b->worker;
}

/*
 * Print the counts of each worker.  If a worker was started more than once,
 * print the sum of its counts.
 */
static void
print_workers(ExplainState *es, List *all)
{
	bool		in_text = es->format == EXPLAIN_FORMAT_TEXT;
	ListCell   *lc;

	list_sort(all, compare_workers);
	ExplainOpenGroup("Workers", "Workers", false, es);
	for (int i = 0; i < list_length(all);)
	{
		int			worker = ((ScanFacts *) list_nth(all, i))->worker;
		ScanFacts	sum = {.worker = worker};

		for_each_from(lc, all, i)
		{
			if (((ScanFacts *) lfirst(lc))->worker != worker)
				break;
			facts_add(&sum, lfirst(lc));
			i++;
		}
		if (worker < 0)
			continue;			/* the leader */
		if (in_text)
			print_counts_text(es, psprintf("Worker %d Ring", worker), &sum.counts);
		else
		{
			ExplainOpenGroup("Worker", NULL, true, es);
			ExplainPropertyInteger("Worker Number", NULL, worker, es);
			print_counts(es, &sum.counts);
			ExplainCloseGroup("Worker", NULL, true, es);
		}
	}
	ExplainCloseGroup("Workers", "Workers", false, es);
}

/* For EXPLAIN ANALYZE: print what the scan did. */
static void
print_facts(ExplainState *es, List *all)
{
	ScanFacts	sum = {.worker = -1};
	bool		workers = false;
	ListCell   *lc;

	foreach(lc, all)
	{
		facts_add(&sum, lfirst(lc));
		workers = workers || ((ScanFacts *) lfirst(lc))->worker >= 0;
	}

	print_ring(es, sum.nbuffers, sum.source, NULL);
	if (es->format == EXPLAIN_FORMAT_TEXT)
		print_counts_text(es, "Ring", &sum.counts);
	else
		print_counts(es, &sum.counts);
	if (es->verbose && workers)
		print_workers(es, all);
}

/*
 * Print which ring a scan of the relation would get now.  Under EXPLAIN
 * ANALYZE this is called only for a scan that had no reader.  If the scan
 * would get a ring, but was never executed, print that it was not executed.
 * If it was left to the server's ring, print that ring.  Otherwise, print why
 * it had no reader.
 */
static void
print_plan(ExplainState *es, const PlanState *ps, Relation rel)
{
	RingOptions options;
	PlanReasons reasons;
	const char *range_is_small = "its range is too small";
	BlockNumber nblocks;
	const char *untouched = plan_untouched(rel);

	if (untouched == NULL && param_mode == MODE_OBSERVE && !IsA(ps, SeqScanState))
		untouched = "pg_ringctl.mode is observe, and the server uses no ring for such scans";
	if (untouched != NULL)
	{
		print_no_ring(es, untouched);
		return;
	}
	nblocks = RelationGetNumberOfBlocks(rel);
	if (IsA(ps, BitmapHeapScanState))
		nblocks = bitmapscan_expected_blocks(ps, nblocks);
	plan_for_scan(rel, nblocks, plan_mode(), &options, &reasons);
	if (options.nbuffers == 0)
		print_no_ring(es, plan_in_words(&options, &reasons));
	else if (options.source == SOURCE_SERVER && !IsA(ps, SeqScanState))
		print_no_ring(es, "the blocks to be read fit into shared_buffers");
	else if (IsA(ps, TidRangeScanState) && tidrangescan_is_small(ps, nblocks))
		print_no_ring(es, range_is_small);
	else if (es->analyze && ps->instrument != NULL && ps->instrument->nloops == 0)
		print_no_ring(es, "never executed");
	else if (!es->analyze ||
			 (options.source == SOURCE_SERVER && param_mode == MODE_CONTROL))
	{
		/* a bitmap scan's ring is planned for the whole relation */
		if (IsA(ps, BitmapHeapScanState))
			plan_for_scan(rel, RelationGetNumberOfBlocks(rel), plan_mode(),
						  &options, &reasons);
		print_ring(es, options.nbuffers, options.source,
				   plan_in_words(&options, &reasons));
	}
	else if (IsA(ps, TidRangeScanState))
		print_no_ring(es, range_is_small);
	else
		print_no_ring(es, "left before it had read enough");
}

/*
 * The name of the group of what is printed about the node.  For an index scan
 * that may read ahead it is "Read Ahead", even if the scan has a ring, too.
 * In text, where groups are not named, only print_none() uses this name.
 */
static const char *
group_name(const PlanState *ps)
{
	return executor_is_index_scan(ps) &&
		plan_reads_ahead(((const ScanState *) ps)->ss_currentRelation) ?
		"Read Ahead" : "Ring";
}

/*
 * Why has the index scan, which may read ahead or through a ring, not done so,
 * or not yet?
 */
static const char *
why_not_read_ahead(const ExplainState *es, const PlanState *ps)
{
	if (plan_mode() == MODE_OBSERVE)
		return "index scans are not touched in mode observe";
	if (!es->analyze)
		return "begins only after the scan has missed some pages";
	if (ps->instrument != NULL && ps->instrument->nloops == 0)
		return "never executed";
	return "few pages were missed";
}

/*
 * Print what the index scan has read ahead, or what its ring did.  If it has
 * no facts ("all" is NIL), print why.
 */
static void
print_read_ahead(ExplainState *es, const PlanState *ps, List *all)
{
	Relation	rel = ((const ScanState *) ps)->ss_currentRelation;
	const char *untouched = plan_untouched(rel);
	ScanFacts	sum = {.worker = -1};
	ListCell   *lc;

	if (all == NIL)
	{
		if (untouched == NULL)
			untouched = indexscan_exclusion(ps);
		print_none(es, group_name(ps),
				   untouched ? untouched : why_not_read_ahead(es, ps));
		return;
	}
	foreach(lc, all)
		facts_add(&sum, lfirst(lc));
	if (sum.nbuffers > 0)
	{
		print_facts(es, all);
		return;
	}
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyBool("Attached", true, es);
		print_counts(es, &sum.counts);
		return;
	}
	ExplainIndentText(es);
	appendStringInfo(es->str, "Read Ahead: total=%lld hit=%lld read=%lld unconsumed=%lld\n",
					 (long long) sum.counts.blocks,
					 (long long) ring_blocks_hit(&sum.counts),
					 (long long) sum.counts.blks_read,
					 (long long) sum.counts.unconsumed);
}

static void
explain_node(PlanState *planstate, List *ancestors, const char *relationship,
			 const char *plan_name, ExplainState *es)
{
	const char *group;
	List	   *facts = NIL;

	if (prev_explain_per_node)
		prev_explain_per_node(planstate, ancestors, relationship, plan_name, es);
	if (!ring_is_wanted(es) || !executor_may_have_reader(planstate))
		return;

	group = group_name(planstate);
	ExplainOpenGroup(group, group, true, es);
	if (es->analyze)
		facts = scan_facts_of_node(planstate);
	if (executor_is_index_scan(planstate))
		print_read_ahead(es, planstate, facts);
	else if (facts != NIL)
		print_facts(es, facts);
	else
		print_plan(es, planstate, ((ScanState *) planstate)->ss_currentRelation);
	ExplainCloseGroup(group, group, true, es);
}

/*
 * explain_install_hooks
 *		From now on EXPLAIN has the option RING.
 */
void
explain_install_hooks(void)
{
	extension_id = GetExplainExtensionId("pg_ringctl");
	compat_register_explain_option("ring", handle_ring_option);
	prev_explain_per_node = explain_per_node_hook;
	explain_per_node_hook = explain_node;
}

#else							/* no COMPAT_EXPLAIN_OPTIONS */

void
explain_install_hooks(void)
{
}

#endif

/* Put what one process did for a scan into the result. */
static void
put_facts(ReturnSetInfo *rsinfo, const ScanFacts *facts)
{
	Datum		values[LAST_SCANS_COLUMNS];
	bool		nulls[LAST_SCANS_COLUMNS] = {0};
	int			i = 0;

	nulls[i] = (facts->plan_node_id < 0);
	values[i++] = Int32GetDatum(facts->plan_node_id);
	values[i++] = ObjectIdGetDatum(facts->relid);
	nulls[i] = (facts->worker < 0);
	values[i++] = Int32GetDatum(facts->worker);
	values[i++] = Int64GetDatum(facts->scans);
	values[i++] = Int64GetDatum((int64) facts->nbuffers * KB_PER_BUFFER);
	values[i++] = Int32GetDatum(facts->nbuffers);
	values[i++] = CStringGetTextDatum(plan_source_name(facts->source));
	values[i++] = Float8GetDatum(facts->elapsed_ms);
	i += put_counts(&values[i], &facts->counts);
	Assert(i == LAST_SCANS_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_last_scans()
 *
 * Returns the scans of this session's last statement that had scans with a
 * reader: one row for each scan and each process that took part in the scan,
 * but only the last MAX_REMEMBERED_SCANS of these.
 */
Datum
pg_ringctl_last_scans(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	ListCell   *lc;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, LAST_SCANS_COLUMNS);
	foreach(lc, facts_remembered())
		put_facts(rsinfo, lfirst(lc));
	return (Datum) 0;
}

/* Raise an error if neither the relation nor its partitions can be scanned. */
static void
check_table(Oid relid)
{
	Relation	rel = relations_open_existing(relid, AccessShareLock);
	char		relkind = rel->rd_rel->relkind;

	if (!RELKIND_HAS_TABLE_AM(relkind) && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot scan relation \"%s\" sequentially",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind)));
	relation_close(rel, AccessShareLock);
}

/* Put a row into the result: which ring would a scan of the relation get? */
static void
put_resolved(ReturnSetInfo *rsinfo, Relation rel)
{
	RingOptions options;
	PlanReasons reasons;
	const char *untouched = plan_untouched(rel);
	Datum		values[RESOLVE_COLUMNS] = {0};
	bool		nulls[RESOLVE_COLUMNS] = {0};
	int			i = 0;

	plan_for_scan(rel, RelationGetNumberOfBlocks(rel), plan_mode(), &options,
				  &reasons);

	values[i++] = ObjectIdGetDatum(RelationGetRelid(rel));
	values[i++] = Int64GetDatum((int64) options.nbuffers * KB_PER_BUFFER);
	values[i++] = Int32GetDatum(options.nbuffers);
	values[i++] = Int32GetDatum(options.capacity);
	values[i++] = CStringGetTextDatum(plan_source_name(options.source));
	nulls[i] = (options.nbuffers == 0);
	values[i++] = Int32GetDatum(plan_lookahead(rel, &options));
	values[i++] = Int64GetDatum(reasons.threshold);
	if (untouched != NULL)
		memset(&nulls[1], true, (i - 1) * sizeof(bool));
	values[i++] = Int64GetDatum((int64) reasons.nblocks);
	values[i++] = CStringGetTextDatum(untouched ? untouched :
									  plan_in_words(&options, &reasons));
	Assert(i == RESOLVE_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_resolve(relation regclass)
 *
 * Returns which ring a sequential scan of the relation, or of each of its
 * partitions, would get now in this session, and why.  If scans of the
 * relation are not touched, the columns of the ring are null.
 */
Datum
pg_ringctl_resolve(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	ReturnSetInfo *rsinfo;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, RESOLVE_COLUMNS);

	check_table(relid);
	foreach_oid(leaf, relations_leaves(relid, "pg_ringctl_resolve", false))
	{
		Relation	rel = try_relation_open(leaf, AccessShareLock);

		if (rel == NULL)
			continue;			/* dropped meanwhile */
		relations_check_buffers(rel, false);
		put_resolved(rsinfo, rel);
		relation_close(rel, AccessShareLock);
	}
	return (Datum) 0;
}
