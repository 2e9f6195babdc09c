/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  Which ring does this relation get, and why.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_POLICY_H
#define RINGCTL_POLICY_H

#include "params.h"
#include "ring.h"
#include "storage/block.h"
#include "utils/rel.h"

/* Why a scan gets the ring that it gets. */
typedef struct PolicyReasons
{
	ScanMode	mode;			/* what is done to sequential scans */
	BlockNumber nblocks;		/* size of the relation */
	int			threshold;		/* above which it is scanned through a ring */
	bool		own_threshold;	/* that is what somebody chose */
	Oid			ring_from;		/* the relation whose policy said how large */
	Oid			threshold_from; /* or where the threshold is; or invalid */
} PolicyReasons;

extern void policy_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
							RingOptions *options, PolicyReasons *reasons);
extern void policy_for_load(Relation rel, int ring_kb, RingOptions *options);
extern ScanMode policy_mode(void);
extern int	policy_lookahead(Relation rel, const RingOptions *options);
extern const char *policy_exclusion(Relation rel);
extern const char *policy_source_name(RingSource source);
extern char *policy_in_words(const RingOptions *options,
							 const PolicyReasons *reasons);

#endif							/* RINGCTL_POLICY_H */
