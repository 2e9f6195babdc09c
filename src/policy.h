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

extern void policy_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
							RingOptions *options);
extern void policy_for_size(Relation rel, int ring_kb, RingOptions *options);
extern ScanMode policy_mode(void);
extern int	policy_threshold(ScanMode mode);
extern int	policy_lookahead(Relation rel, const RingOptions *options);
extern const char *policy_exclusion(Relation rel);
extern const char *policy_source_name(RingSource source);
extern char *policy_in_words(BlockNumber nblocks, ScanMode mode,
							 const RingOptions *options);

#endif							/* RINGCTL_POLICY_H */
