/*-------------------------------------------------------------------------
 *
 * plan_words.c
 *	  Say in words which ring a scan of a relation gets, and why.
 *
 * plan.c decides, and fills in what led to the decision (PlanReasons).  This
 * file puts it into words: sentences for EXPLAIN and for the functions that
 * users call, and one word for the source of a ring's size, which the views
 * show, too.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "params.h"
#include "ring/plan.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/*
 * plan_source_name
 *		Where a ring's size came from, in one word.
 */
const char *
plan_source_name(RingSource source)
{
	switch (source)
	{
		case SOURCE_NONE:
			return "none";
		case SOURCE_SERVER:
			return "server";
		case SOURCE_POLICY:
			return "policy";
		case SOURCE_PARAMETER:
			return "scan_ring";
		case SOURCE_CHOSEN:
			return "chosen";
		case SOURCE_ARGUMENT:
			return "argument";
		case SOURCE_MAX_RING:
			return "max_ring";
	}
	return "unknown";
}

/*
 * plan_untouched
 *		In words, palloc'd, why a scan of this relation would not be touched
 *		now; NULL if it would be.
 */
const char *
plan_untouched(Relation rel)
{
	const char *reason = plan_exclusion(rel);

	if (reason == NULL && !param_enabled)
		reason = "pg_ringctl.enabled is off";
	if (reason == NULL && param_mode == MODE_OFF)
		reason = "pg_ringctl.mode is off";
	return reason ? psprintf("not touched: %s", reason) : NULL;
}

/*
 * In words, what sets a parameter's value: "scan_ring in the policy of
 * archive", or the parameter itself, if relid is invalid.
 */
static const char *
setter_in_words(Oid relid, const char *name)
{
	char	   *relname = OidIsValid(relid) ? get_rel_name(relid) : NULL;

	if (!OidIsValid(relid))
		return psprintf("pg_ringctl.%s", name);
	return psprintf("%s in the policy of %s", name,
					relname ? quote_identifier(relname) : "a dropped relation");
}

/* Was the ring's size asked for, and does the relation fit into the ring? */
static bool
is_cut_to_relation(const RingOptions *options, const PlanReasons *reasons)
{
	return (options->source == SOURCE_POLICY || options->source == SOURCE_PARAMETER) &&
		options->nbuffers > 0 && (BlockNumber) options->nbuffers >= reasons->nblocks;
}

/*
 * plan_in_words
 *		In words, why plan_for_scan() gave these options; palloc'd.
 */
char *
plan_in_words(const RingOptions *options, const PlanReasons *reasons)
{
	const char *ring = setter_in_words(reasons->ring_from, "scan_ring");

	if (is_cut_to_relation(options, reasons))
		return psprintf("%s allows a ring as large as the relation", ring);
	switch (options->source)
	{
		case SOURCE_NONE:
			return psprintf(ngettext("%u block is not more than the threshold of %d (%s)",
									 "%u blocks are not more than the threshold of %d (%s)",
									 reasons->nblocks),
							reasons->nblocks, reasons->threshold,
							reasons->threshold_is_set ?
							setter_in_words(reasons->threshold_from, "scan_threshold") :
							"a quarter of shared_buffers");
		case SOURCE_SERVER:
			if (reasons->mode == MODE_CONTROL)
				return psprintf("%u blocks fit into shared_buffers: the server's own ring",
								reasons->nblocks);
			return pstrdup("pg_ringctl.mode is observe: the server's own ring");
		case SOURCE_POLICY:
		case SOURCE_PARAMETER:
			return psprintf(options->nbuffers == 0 ? "%s is 0" : "the size is that of %s",
							ring);
		case SOURCE_CHOSEN:
			return psprintf(ngettext("%s is -1: the ring sizes itself, up to %d buffer",
									 "%s is -1: the ring sizes itself, up to %d buffers",
									 options->capacity),
							ring, options->capacity);
		case SOURCE_MAX_RING:
			return psprintf("%s%scapped %s",
							OidIsValid(reasons->ring_from) ? ring : "",
							OidIsValid(reasons->ring_from) ? ", " : "",
							plan_is_capped_by_pool() ? "to half of shared_buffers" :
							param_max_ring < 0 ?
							"by pg_ringctl.max_ring: -1 is an eighth of shared_buffers" :
							"by pg_ringctl.max_ring");
		case SOURCE_ARGUMENT:
			break;				/* a prewarm's, not a scan's */
	}
	return pstrdup("the size was asked for");
}
