/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Which ring does this relation get, and why.
 *
 * One rule, in this order:
 *
 *	1. A relation that is not larger than the threshold gets no ring.
 *	2. In observe mode, the ring is the server's.
 *	3. A size that the user gave is that size: 0 is none.
 *	4. Else it is the server's size, but never less than what keeps the ring
 *	   closed when every page is dirtied:
 *
 *		look-ahead + a batch of pages whose WAL is flushed at once + headroom
 *
 *	5. What comes out of 3 and 4 is capped by max_ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/catalog.h"
#include "compat.h"
#include "params.h"
#include "policy.h"

#define KB_PER_BUFFER	(BLCKSZ / 1024)

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

/*
 * policy_threshold
 *		The size, in blocks, above which a relation is scanned through a ring.
 */
int
policy_threshold(ScanMode mode)
{
	if (param_scan_threshold < 0 || mode != MODE_CONTROL)
		return NBuffers / 4;	/* as initscan() */
	return param_scan_threshold;
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

/* The size that keeps the ring closed when every page is dirtied. */
static int
closed_buffers(Relation rel)
{
	return compat_lookahead_limit(rel) + ring_flush_batch() + param_headroom;
}

/* The size that is chosen when the user gave none. */
static int
chosen_buffers(Relation rel)
{
	return Max(ring_server_buffers(), closed_buffers(rel));
}

static void
fill_options(Relation rel, int ring_kb, RingSource source, RingOptions *options)
{
	int			nbuffers = ring_kb < 0 ? chosen_buffers(rel) : ring_kb / KB_PER_BUFFER;

	memset(options, 0, sizeof(RingOptions));
	options->nbuffers = cap_ring(nbuffers);
	options->source = options->nbuffers < nbuffers ? SOURCE_MAX_RING :
		ring_kb < 0 ? SOURCE_CHOSEN : source;
	options->headroom = param_headroom;
	options->write_dirty = (param_dirty_pages == DIRTY_WRITE);
}

/*
 * policy_for_size
 *		The options of a ring that was asked for with ring_kb kB: -1 is the
 *		size that is chosen for a sequential scan of the relation, 0 is none.
 */
void
policy_for_size(Relation rel, int ring_kb, RingOptions *options)
{
	fill_options(rel, ring_kb, SOURCE_ARGUMENT, options);
}

/*
 * policy_for_scan
 *		The options of the ring of a sequential scan of the relation, which
 *		has nblocks blocks, in that mode.  options->nbuffers is 0 if it gets
 *		none.
 */
void
policy_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
				RingOptions *options)
{
	fill_options(rel, param_scan_ring, SOURCE_PARAMETER, options);
	if (mode != MODE_CONTROL)
	{
		options->nbuffers = ring_server_buffers();
		options->source = SOURCE_SERVER;
		options->observe = true;
	}
	if (nblocks <= (BlockNumber) policy_threshold(mode))
	{
		options->nbuffers = 0;
		options->source = SOURCE_THRESHOLD;
	}
}

/*
 * policy_lookahead
 *		How many buffers a scan of the relation may look ahead, through a ring
 *		of these options.
 */
int
policy_lookahead(Relation rel, const RingOptions *options)
{
	int			limit = compat_lookahead_limit(rel);
	int			headroom = options->observe ? 0 : options->headroom;

	return options->nbuffers == 0 ? limit :
		Min(limit, Max(1, options->nbuffers - headroom));
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

/*
 * policy_in_words
 *		Why policy_for_scan() gave these options; palloc'd.
 */
char *
policy_in_words(Relation rel, BlockNumber nblocks, ScanMode mode,
				const RingOptions *options)
{
	const char *how = mode_in_words(mode);

	switch (options->source)
	{
		case SOURCE_THRESHOLD:
			return psprintf("%s%u blocks are not more than the threshold of %d (%s)",
							how, nblocks, policy_threshold(mode),
							param_scan_threshold < 0 || mode != MODE_CONTROL ?
							"a quarter of shared_buffers" : "pg_ringctl.scan_threshold");
		case SOURCE_SERVER:
			return psprintf("%sthe server's own ring", how);
		case SOURCE_PARAMETER:
			return psprintf(options->nbuffers == 0 ?
							"pg_ringctl.scan_ring is 0" :
							"the size is that of pg_ringctl.scan_ring");
		case SOURCE_CHOSEN:
			if (options->nbuffers > closed_buffers(rel))
				return psprintf("the server's size, chosen because pg_ringctl.scan_ring is -1");
			return psprintf("chosen because pg_ringctl.scan_ring is -1: "
							"look-ahead of %d, %d for a flush of WAL, headroom of %d",
							compat_lookahead_limit(rel), ring_flush_batch(),
							param_headroom);
		case SOURCE_MAX_RING:
			return psprintf("capped by pg_ringctl.max_ring%s", param_max_ring < 0 ?
							": -1 is an eighth of shared_buffers" : "");
		case SOURCE_ARGUMENT:
			break;				/* not of a scan */
	}
	return pstrdup("the size was asked for");
}
