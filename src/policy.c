/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Which ring does this relation get, and why.
 *
 * Three parameters may be set for a relation by a policy: then that is what
 * they are for its scans, unless use_policies is off.  With these, one rule, in
 * this order:
 *
 *	1. A relation that is not larger than the threshold gets no ring.
 *	2. In observe mode, the ring is the server's, and so is the threshold.
 *	3. A size that the user gave is that size: 0 is none.
 *	4. Else the ring sizes itself: it begins with room for one read, and may
 *	   grow to
 *
 *		look-ahead + a read + a batch of pages whose WAL is flushed at once
 *		+ headroom
 *
 *	   It looks ahead no farther than is of use: see useful_lookahead().
 *
 *	5. What comes out of 3 and 4 is capped by max_ring.  What that leaves to a
 *	   ring that sizes itself is for what others have still to come to, where
 *	   scans share, and for more batches of dirty pages.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/catalog.h"
#include "compat.h"
#include "labels.h"
#include "params.h"
#include "policy.h"
#include "relations.h"
#include "utils/lsyscache.h"
#include "utils/builtins.h"

#define KB_PER_BUFFER	(BLCKSZ / 1024)

/* How many blocks scans that share may be apart: 16 MB, but at least 1. */
#define SHARE_WINDOW		(16 * 1024 / KB_PER_BUFFER)
#define MIN_SHARE_WINDOW	(1024 / KB_PER_BUFFER)

/* So many reads under way are many: see useful_lookahead(). */
#define MANY_READS	8

/*
 * policy_source_name
 *		In one word, where a ring's size came from.
 */
const char *
policy_source_name(RingSource source)
{
	switch (source)
	{
		case SOURCE_THRESHOLD:
			return "threshold";
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
 * policy_exclusion
 *		Why sequential scans of this relation are never touched; NULL if they
 *		are.
 */
const char *
policy_exclusion(Relation rel)
{
	if (rel->rd_tableam != GetHeapamTableAmRoutine())
		return "not a heap table";
	if (RelationUsesLocalBuffers(rel))
		return "temporary table, not in shared buffers";
	if (IsCatalogRelation(rel))
		return "system catalog";
	return NULL;
}

/*
 * policy_mode
 *		What is done to sequential scans now.
 */
ScanMode
policy_mode(void)
{
	return param_enabled ? param_mode : MODE_OFF;
}

/* What the parameters are for scans of one relation. */
typedef struct ScanParams
{
	int			scan_ring;
	Oid			ring_from;		/* whose policy says so; or invalid */
	int			scan_threshold;
	Oid			threshold_from;
	int			dirty_pages;
} ScanParams;

static ScanParams
params_for_scan(Oid relid)
{
	ScanParams	params = {
		.scan_ring = param_scan_ring,
		.scan_threshold = param_scan_threshold,
		.dirty_pages = param_dirty_pages,
	};
	const RelationPolicy *policy = param_use_policies ? labels_policy(relid) : NULL;

	if (policy == NULL)
		return params;
	if (policy->sets_scan_ring)
	{
		params.scan_ring = policy->scan_ring;
		params.ring_from = policy->relid;
	}
	if (policy->sets_scan_threshold)
	{
		params.scan_threshold = policy->scan_threshold;
		params.threshold_from = policy->relid;
	}
	if (policy->sets_dirty_pages)
		params.dirty_pages = policy->dirty_pages;
	return params;
}

/* Cap a ring of so many buffers as max_ring says; 0 is no ring and stays 0. */
static int
cap_ring(int nbuffers)
{
	int			cap = param_max_ring < 0 ? NBuffers / 8 : param_max_ring / KB_PER_BUFFER;

	if (nbuffers == 0)
		return 0;
	return Max(1, Min(nbuffers, Min(cap, NBuffers)));
}

/*
 * What a ring begins with that sizes itself: what it needs while one read is
 * under way, with a page in use.
 */
static int
first_buffers(void)
{
	return io_combine_limit + 1 + io_combine_limit / 2 + param_headroom;
}

/*
 * How many buffers such a ring looks ahead, 0 for no limit but the server's.
 * Where reads are not asynchronous, more than one read only wears out the CPU's
 * cache.  Else the server looks one read farther than may be under way at once,
 * as far as it may pin so many buffers; where these reads are many, that one is
 * not worth its buffers.
 */
static int
useful_lookahead(Relation rel, bool maintenance)
{
	int			limit = compat_lookahead_limit(rel, maintenance);

	if (!compat_reads_are_asynchronous())
		return io_combine_limit;
	if (limit <= MANY_READS * io_combine_limit)
		return 0;
	return Min(limit, compat_reads_at_once(rel, maintenance) * io_combine_limit);
}

/*
 * What it may grow to: a read more than look-ahead, and what keeps it closed
 * when every page is dirtied.  At least the server's size.
 */
static int
most_buffers(Relation rel, bool maintenance)
{
	int			closed = compat_lookahead_limit(rel, maintenance) +
		io_combine_limit + ring_flush_batch() + param_headroom;

	return Max(ring_server_buffers(), closed);
}

/* A ring of this size, which stays so. */
static void
set_fixed_size(RingOptions *options, int nbuffers, RingSource source)
{
	options->nbuffers = options->capacity = options->enough = cap_ring(nbuffers);
	options->max_ahead = options->near_ahead = 0;
	options->source = options->nbuffers < nbuffers ? SOURCE_MAX_RING : source;
}

/* A ring that finds the right size itself. */
static void
set_own_size(Relation rel, RingOptions *options)
{
	int			most = most_buffers(rel, options->maintenance);

	options->capacity = options->enough = cap_ring(most);
	options->nbuffers = Min(first_buffers(), options->capacity);
	options->source = options->capacity < most ? SOURCE_MAX_RING : SOURCE_CHOSEN;
	options->max_ahead = useful_lookahead(rel, options->maintenance);
}

/* Where looking far ahead may cost more than it gains, it finds out. */
static void
allow_near_lookahead(Relation rel, RingOptions *options)
{
	int			far_ahead = policy_lookahead(rel, options);

	if (far_ahead / io_combine_limit < compat_reads_that_cost())
		return;
	options->max_ahead = far_ahead;
	options->near_ahead = io_combine_limit;
}

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
	if (ring_kb < 0)
		allow_near_lookahead(rel, options);
	options->write_dirty = (dirty_pages == DIRTY_WRITE);
}

/*
 * Let the ring grow farther while others scan the relation, too: by up to a
 * window, if there is room for one that is worth it.
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
 * Let it grow farther while it waits for WAL again and again, too, by more
 * batches: the window, where there is one, may be room enough.
 */
static void
add_flush_room(RingOptions *options)
{
	int			more = ring_most_flush_room() - ring_flush_batch();

	options->capacity = Max(options->capacity, cap_ring(options->enough + more));
}

/* As policy_for_scan(), for a scan that does maintenance or another. */
static void
choose_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
				bool maintenance, RingOptions *options, PolicyReasons *reasons)
{
	ScanParams	params = params_for_scan(RelationGetRelid(rel));
	bool		own_threshold = params.scan_threshold >= 0 && mode == MODE_CONTROL;
	int			server_threshold = NBuffers / 4;	/* as initscan() */
	int			threshold = own_threshold ? params.scan_threshold : server_threshold;
	int			ring_kb = params.scan_ring;
	RingSource	source = OidIsValid(params.ring_from) ? SOURCE_POLICY : SOURCE_PARAMETER;

	if (nblocks <= (BlockNumber) threshold)
	{
		ring_kb = 0;
		source = SOURCE_THRESHOLD;
	}
	else if (mode != MODE_CONTROL)
	{
		ring_kb = 0;
		source = SOURCE_SERVER;
	}
	fill_options(rel, maintenance, ring_kb, source, params.dirty_pages, options);
	options->observe = (mode != MODE_CONTROL);
	if (source == SOURCE_SERVER)
		options->nbuffers = options->capacity = options->enough = ring_server_buffers();
	if (options->capacity > options->nbuffers)
	{
		if (param_share_scans && !maintenance && nblocks > (BlockNumber) server_threshold)
			add_window(options);
		add_flush_room(options);
	}

	if (reasons != NULL)
	{
		reasons->mode = mode;
		reasons->nblocks = nblocks;
		reasons->threshold = threshold;
		reasons->own_threshold = own_threshold;
		reasons->ring_from = params.ring_from;
		reasons->threshold_from = params.threshold_from;
	}
}

/*
 * policy_for_scan
 *		The options of the ring of a sequential scan of the relation, which
 *		has nblocks blocks, in that mode; and if reasons is not NULL, why.
 *		options->nbuffers is 0 if it gets none.
 */
void
policy_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
				RingOptions *options, PolicyReasons *reasons)
{
	choose_for_scan(rel, nblocks, mode, false, options, reasons);
}

/*
 * policy_for_load
 *		The options of a ring of ring_kb kB through which blocks of the relation
 *		are loaded, which is maintenance: 0 is none, -1 the one that a scan of it
 *		would get.
 */
void
policy_for_load(Relation rel, int ring_kb, RingOptions *options)
{
	/* On a standby an unlogged relation has its init fork only. */
	if (ring_kb < 0)
		choose_for_scan(rel,
						relations_absent(rel) ? 0 : RelationGetNumberOfBlocks(rel),
						MODE_CONTROL, true, options, NULL);
	else
		fill_options(rel, true, ring_kb, SOURCE_ARGUMENT, param_dirty_pages, options);
}

/*
 * policy_lookahead
 *		How many buffers a scan of the relation may look ahead, through a ring
 *		of these options.
 */
int
policy_lookahead(Relation rel, const RingOptions *options)
{
	int			limit = compat_lookahead_limit(rel, options->maintenance);
	int			headroom = options->observe ? 0 : options->headroom;

	if (options->nbuffers > 0)
		limit = Min(limit, Max(1, options->capacity - headroom));
	if (options->max_ahead > 0)
		limit = Min(limit, options->max_ahead);
	return limit;
}

/* In words, why it is not as the user might expect. */
static const char *
mode_in_words(ScanMode mode)
{
	if (!param_enabled)
		return "pg_ringctl.enabled is off: ";
	if (mode == MODE_OFF)
		return "pg_ringctl.mode is off: ";
	if (mode == MODE_OBSERVE)
		return "pg_ringctl.mode is observe: ";
	return "";
}

/* Who set a parameter: "the policy of archive", or the parameter itself. */
static const char *
setter_in_words(Oid relid, const char *name)
{
	char	   *relname = OidIsValid(relid) ? get_rel_name(relid) : NULL;

	if (!OidIsValid(relid))
		return psprintf("pg_ringctl.%s", name);
	return psprintf("%s in the policy of %s", name,
					relname ? quote_identifier(relname) : "a dropped relation");
}

/*
 * policy_in_words
 *		Why policy_for_scan() gave these options; palloc'd.
 */
char *
policy_in_words(const RingOptions *options, const PolicyReasons *reasons)
{
	const char *how = mode_in_words(reasons->mode);
	const char *ring = setter_in_words(reasons->ring_from, "scan_ring");

	switch (options->source)
	{
		case SOURCE_THRESHOLD:
			return psprintf("%s%u blocks are not more than the threshold of %d (%s)",
							how, reasons->nblocks, reasons->threshold,
							reasons->own_threshold ?
							setter_in_words(reasons->threshold_from, "scan_threshold") :
							"a quarter of shared_buffers");
		case SOURCE_SERVER:
			return psprintf("%sthe server's own ring", how);
		case SOURCE_POLICY:
		case SOURCE_PARAMETER:
			return psprintf(options->nbuffers == 0 ? "%s is 0" : "the size is that of %s",
							ring);
		case SOURCE_CHOSEN:
			return psprintf("chosen because %s is -1: "
							"%d buffers or more to begin with, up to %d where look-ahead, dirty pages or sharing need them",
							ring, options->nbuffers, options->capacity);
		case SOURCE_MAX_RING:
			return psprintf("%s%scapped by pg_ringctl.max_ring%s",
							OidIsValid(reasons->ring_from) ? ring : "",
							OidIsValid(reasons->ring_from) ? ", " : "",
							param_max_ring < 0 ?
							": -1 is an eighth of shared_buffers" : "");
		case SOURCE_ARGUMENT:
			break;				/* not of a scan */
	}
	return pstrdup("the size was asked for");
}
