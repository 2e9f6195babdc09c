/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  What a scan did with its ring, or would do, told to users.
 *
 * Three ways: the option RING of EXPLAIN, from 18 on; pg_ringctl_last_scans(),
 * which has the same facts on every major; and pg_ringctl_resolve(), for a
 * table that nobody scans yet.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "explain.h"
#include "facts.h"
#include "funcapi.h"
#include "params.h"
#include "policy.h"
#include "relations.h"
#include "scan.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_last_scans);
PG_FUNCTION_INFO_V1(pg_ringctl_resolve);

#define LAST_SCANS_COLUMNS	24
#define RESOLVE_COLUMNS		7

#define KB_PER_BUFFER		(BLCKSZ / 1024)

#ifdef COMPAT_EXPLAIN_OPTIONS

static int	extension_id = -1;
static explain_per_node_hook_type prev_explain_per_node = NULL;

/* The option as it was given; allocated where the ExplainState is. */
typedef struct RingOption
{
	bool		ring;
} RingOption;

static void
ring_option(ExplainState *es, DefElem *opt, ParseState *pstate pg_attribute_unused())
{
	RingOption *option = palloc(sizeof(RingOption));

	option->ring = defGetBoolean(opt);
	SetExplainExtensionState(es, extension_id, option);
}

static bool
ring_is_wanted(ExplainState *es)
{
	RingOption *option = GetExplainExtensionState(es, extension_id);

	return option != NULL && option->ring;
}

/* Which ring, in text: "1792kB  Buffers: 224  Source: chosen". */
static void
print_ring(ExplainState *es, int nbuffers, RingSource source, const char *reason)
{
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyBool("Attached", true, es);
		ExplainPropertyInteger("Ring Size", "kB", (int64) nbuffers * KB_PER_BUFFER, es);
		ExplainPropertyInteger("Ring Buffers", NULL, nbuffers, es);
		ExplainPropertyText("Source", policy_source_name(source), es);
		if (reason)
			ExplainPropertyText("Reason", reason, es);
		return;
	}

	ExplainIndentText(es);
	if (nbuffers > 0)
		appendStringInfo(es->str, "Ring: %lldkB  Buffers: %d",
						 (long long) nbuffers * KB_PER_BUFFER, nbuffers);
	else
		appendStringInfoString(es->str, "Ring: none");
	appendStringInfo(es->str, "  Source: %s", policy_source_name(source));
	if (reason)
		appendStringInfo(es->str, "  Reason: %s", reason);
	appendStringInfoChar(es->str, '\n');
}

/* What was done through it. */
static void
print_counts(ExplainState *es, const RingCounts *counts)
{
	ExplainPropertyInteger("Blocks", NULL, counts->blocks, es);
	ExplainPropertyInteger("Hit Blocks", NULL, ring_blocks_hit(counts), es);
	ExplainPropertyInteger("Read Blocks", NULL, ring_blocks_read(counts), es);
	ExplainPropertyInteger("Unconsumed Blocks", NULL, counts->unconsumed, es);
	ExplainPropertyInteger("Fills", NULL, counts->fills, es);
	ExplainPropertyInteger("Reuses", NULL, counts->reuses, es);
	ExplainPropertyInteger("Pinned Escapes", NULL, counts->escapes_pinned, es);
	ExplainPropertyInteger("Dirty Escapes", NULL, counts->escapes_dirty, es);
	ExplainPropertyInteger("Adopted Escapes", NULL, counts->escapes_adopted, es);
	ExplainPropertyInteger("Lost Slots", NULL, counts->slots_lost, es);
	ExplainPropertyInteger("WAL Flushes", NULL, counts->wal_flushes, es);
	ExplainPropertyInteger("Released Buffers", NULL, counts->released, es);
	ExplainPropertyInteger("Shared Blocks", NULL, counts->blks_shared, es);
	ExplainPropertyInteger("Share Waits", NULL, counts->share_waits, es);
	ExplainPropertyFloat("Share Wait Time", "ms", counts->share_wait_us / 1000.0, 3, es);
}

/* The same in text; which is "Ring", or says which worker's. */
static void
print_counts_text(ExplainState *es, const char *which, const ScanFacts *facts)
{
	const RingCounts *counts = &facts->counts;

	ExplainIndentText(es);
	appendStringInfo(es->str,
					 "%s Blocks: total=%lld hit=%lld read=%lld unconsumed=%lld\n",
					 which, (long long) counts->blocks,
					 (long long) ring_blocks_hit(counts), (long long) ring_blocks_read(counts),
					 (long long) counts->unconsumed);
	if (facts->nbuffers == 0)
		return;
	ExplainIndentText(es);
	appendStringInfo(es->str,
					 "%s Slots: fills=%lld reuses=%lld lost=%lld  "
					 "Escapes: pinned=%lld dirty=%lld adopted=%lld  WAL Flushes: %lld\n",
					 which, (long long) counts->fills, (long long) counts->reuses,
					 (long long) counts->slots_lost,
					 (long long) counts->escapes_pinned,
					 (long long) counts->escapes_dirty,
					 (long long) counts->escapes_adopted,
					 (long long) counts->wal_flushes);
	if (counts->blks_shared == 0 && counts->share_waits == 0)
		return;
	ExplainIndentText(es);
	appendStringInfo(es->str, "%s Sharing: blocks=%lld waits=%lld time=%.3f\n",
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

/* Each worker by itself; one that was started more than once is one. */
static void
print_workers(ExplainState *es, List *all)
{
	bool		text = es->format == EXPLAIN_FORMAT_TEXT;
	ListCell   *lc;

	list_sort(all, compare_workers);
	if (!text)
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
		if (text)
			print_counts_text(es, psprintf("Worker %d Ring", worker), &sum);
		else
		{
			ExplainOpenGroup("Worker", NULL, true, es);
			ExplainPropertyInteger("Worker Number", NULL, worker, es);
			print_counts(es, &sum.counts);
			ExplainCloseGroup("Worker", NULL, true, es);
		}
	}
	if (!text)
		ExplainCloseGroup("Workers", "Workers", false, es);
}

/* There was no ring of ours, and this is why. */
static void
print_not_attached(ExplainState *es, const char *reason)
{
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainIndentText(es);
		appendStringInfo(es->str, "Ring: not attached  Reason: %s\n", reason);
	}
	else
	{
		ExplainPropertyBool("Attached", false, es);
		ExplainPropertyText("Reason", reason, es);
	}
}

/* Why is this node not touched, now?  Or NULL. */
static const char *
node_exclusion(const PlanState *ps)
{
	const char *exclusion = !IsA(ps, SeqScanState) ? "not a sequential scan" :
		policy_exclusion(((const SeqScanState *) ps)->ss.ss_currentRelation);

	if (exclusion == NULL && !param_enabled)
		return "pg_ringctl.enabled is off";
	if (exclusion == NULL && param_mode == MODE_OFF)
		return "pg_ringctl.mode is off";
	return exclusion;
}

/* Why has a scan that could have been attached to no facts? */
static const char *
missing_reason(const PlanState *ps)
{
	if (ps->instrument != NULL && ps->instrument->nloops == 0)
		return "never executed";
	if (!param_track)
		return param_mode == MODE_OBSERVE ?
			"pg_ringctl.mode is observe, and pg_ringctl.track is off" :
			"nothing to do, and pg_ringctl.track is off";
	return "nothing was counted";
}

/* EXPLAIN ANALYZE: what the scan did. */
static void
print_facts(ExplainState *es, PlanState *ps)
{
	List	   *all = scan_facts(ps);
	ScanFacts	sum = {.worker = -1};
	bool		text = es->format == EXPLAIN_FORMAT_TEXT;
	bool		workers = false;
	ListCell   *lc;

	if (all == NIL)
	{
		print_not_attached(es, missing_reason(ps));
		return;
	}
	foreach(lc, all)
	{
		facts_add(&sum, lfirst(lc));
		workers = workers || ((ScanFacts *) lfirst(lc))->worker >= 0;
	}

	print_ring(es, sum.nbuffers, sum.source, NULL);
	if (text)
		print_counts_text(es, "Ring", &sum);
	else
		print_counts(es, &sum.counts);
	if (es->verbose && workers)
		print_workers(es, all);
}

/* EXPLAIN without ANALYZE: what the scan would get now. */
static void
print_plan(ExplainState *es, PlanState *ps)
{
	Relation	rel = ((ScanState *) ps)->ss_currentRelation;
	RingOptions options;
	PolicyReasons reasons;

	policy_for_scan(rel, RelationGetNumberOfBlocks(rel), policy_mode(), &options,
					&reasons);
	print_ring(es, options.nbuffers, options.source,
			   policy_in_words(&options, &reasons));
}

/* Does this kind of node read the blocks of a table? */
static bool
is_table_scan(const PlanState *ps)
{
	switch (nodeTag(ps))
	{
		case T_SeqScanState:
		case T_SampleScanState:
		case T_IndexScanState:
		case T_IndexOnlyScanState:
		case T_BitmapHeapScanState:
		case T_TidScanState:
		case T_TidRangeScanState:
			return true;
		default:
			return false;
	}
}

static void
explain_node(PlanState *planstate, List *ancestors, const char *relationship,
			 const char *plan_name, ExplainState *es)
{
	const char *exclusion;

	if (prev_explain_per_node)
		prev_explain_per_node(planstate, ancestors, relationship, plan_name, es);
	if (!ring_is_wanted(es) || !is_table_scan(planstate))
		return;

	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainOpenGroup("Ring", "Ring", true, es);
	exclusion = node_exclusion(planstate);
	if (exclusion != NULL)
		print_not_attached(es, exclusion);
	else if (es->analyze)
		print_facts(es, planstate);
	else
		print_plan(es, planstate);
	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainCloseGroup("Ring", "Ring", true, es);
}

/*
 * explain_install_hooks
 *		From now on EXPLAIN has the option RING.
 */
void
explain_install_hooks(void)
{
	extension_id = GetExplainExtensionId("pg_ringctl");
	compat_register_explain_option("ring", ring_option);
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
	const RingCounts *counts = &facts->counts;
	Datum		values[LAST_SCANS_COLUMNS];
	bool		nulls[LAST_SCANS_COLUMNS] = {0};
	int			i = 0;

	values[i++] = Int32GetDatum(facts->plan_node_id);
	values[i++] = ObjectIdGetDatum(facts->relid);
	nulls[i] = (facts->worker < 0);
	values[i++] = Int32GetDatum(facts->worker);
	values[i++] = Int64GetDatum(facts->scans);
	values[i++] = Int64GetDatum((int64) facts->nbuffers * KB_PER_BUFFER);
	values[i++] = Int32GetDatum(facts->nbuffers);
	values[i++] = CStringGetTextDatum(policy_source_name(facts->source));
	values[i++] = Int64GetDatum(counts->blocks);
	values[i++] = Int64GetDatum(ring_blocks_hit(counts));
	values[i++] = Int64GetDatum(counts->blks_read);
	values[i++] = Int64GetDatum(counts->blks_unringed);
	values[i++] = Int64GetDatum(counts->unconsumed);
	values[i++] = Int64GetDatum(counts->fills);
	values[i++] = Int64GetDatum(counts->reuses);
	values[i++] = Int64GetDatum(counts->escapes_pinned);
	values[i++] = Int64GetDatum(counts->escapes_dirty);
	values[i++] = Int64GetDatum(counts->escapes_adopted);
	values[i++] = Int64GetDatum(counts->slots_lost);
	values[i++] = Int64GetDatum(counts->wal_flushes);
	values[i++] = Int64GetDatum(counts->released);
	values[i++] = Int64GetDatum(counts->blks_shared);
	values[i++] = Int64GetDatum(counts->share_waits);
	values[i++] = Float8GetDatum(counts->share_wait_us / 1000.0);
	values[i++] = Float8GetDatum(facts->elapsed_ms);
	Assert(i == LAST_SCANS_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_last_scans()
 *
 * One row for each scan of this session's last statement that had any, and
 * each process that took part in it.
 */
Datum
pg_ringctl_last_scans(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	ring_require_server();
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, facts_remembered())
		put_facts((ReturnSetInfo *) fcinfo->resultinfo, lfirst(lc));
	return (Datum) 0;
}

/* Open a relation that can be scanned sequentially. */
static Relation
open_table(Oid relid)
{
	Relation	rel = relations_open(relid, AccessShareLock);

	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot scan relation \"%s\" sequentially",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind),
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
				 errhint("Name its partitions instead.") : 0));
	relations_check_buffers(rel, false);
	relations_check_present(rel);
	return rel;
}

/*
 * pg_ringctl_resolve(relation regclass)
 *
 * Which ring a sequential scan of the relation would get now, in this session,
 * and why; nothing but the why if it is never touched.
 */
Datum
pg_ringctl_resolve(PG_FUNCTION_ARGS)
{
	Relation	rel;
	RingOptions options;
	PolicyReasons reasons;
	const char *exclusion;
	TupleDesc	tupdesc;
	Datum		values[RESOLVE_COLUMNS] = {0};
	bool		nulls[RESOLVE_COLUMNS] = {0};
	int			i = 0;

	ring_require_server();
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	rel = open_table(PG_GETARG_OID(0));
	exclusion = policy_exclusion(rel);
	policy_for_scan(rel, RelationGetNumberOfBlocks(rel), policy_mode(), &options,
					&reasons);

	values[i++] = Int64GetDatum((int64) options.nbuffers * KB_PER_BUFFER);
	values[i++] = Int32GetDatum(options.nbuffers);
	values[i++] = CStringGetTextDatum(policy_source_name(options.source));
	values[i++] = Int32GetDatum(policy_lookahead(rel, &options));
	values[i++] = Int64GetDatum(reasons.threshold);
	if (exclusion != NULL)
		memset(nulls, true, i * sizeof(bool));
	values[i++] = Int64GetDatum((int64) reasons.nblocks);
	values[i++] = CStringGetTextDatum(exclusion ? psprintf("not touched: %s", exclusion) :
									  policy_in_words(&options, &reasons));
	Assert(i == RESOLVE_COLUMNS);

	relation_close(rel, AccessShareLock);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}
