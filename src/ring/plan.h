/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  Decide which ring a scan of a relation gets, and say why.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PLAN_H
#define RINGCTL_PLAN_H

#include "access/parallel.h"
#include "access/transam.h"
#include "policies/policies.h"
#include "miscadmin.h"
#include "params.h"
#include "ring/ring.h"
#include "storage/block.h"
#include "storage/smgr.h"
#include "utils/rel.h"

/* Smallest useful window for scans that share reads, in blocks: 1 MB. */
#define MIN_SHARE_WINDOW	(1024 * 1024 / BLCKSZ)

/* Why a scan gets the ring that it gets. */
typedef struct PlanReasons
{
	ScanMode	mode;			/* what is done to scans */
	BlockNumber nblocks;		/* size of the relation; or, to say why a
								 * bitmap heap scan gets no ring, number of
								 * blocks expected */
	int			threshold;		/* larger relations use a ring */
	bool		threshold_is_set;	/* by a parameter or policy; if not, the
									 * threshold is a quarter of the pool, or
									 * the whole pool */
	Oid			ring_from;		/* relation whose policy set scan_ring; or
								 * invalid */
	Oid			threshold_from; /* relation whose policy set scan_threshold;
								 * or invalid */
} PlanReasons;

/*
 * plan_mode
 *		What pg_ringctl does to scans now.
 */
static inline ScanMode
plan_mode(void)
{
	return param_enabled ? param_mode : MODE_OFF;
}

/* The server uses a ring for relations larger than this: see initscan(). */
#define SERVER_THRESHOLD	(NBuffers / 4)

/*
 * policy_may_be_set
 *		Does the relation have a policy, as far as this session knows?  This is
 *		cheap enough to be called for each relation of each query.
 *
 * If another session has set a policy, this session knows of it when it has
 * received the invalidation message, which happens when it next locks a
 * relation.
 */
static inline bool
policy_may_be_set(Relation rel)
{
	return !labels_none && param_use_policies &&
		RelationGetRelid(rel) >= FirstNormalObjectId &&
		labels_look_up(RelationGetRelid(rel));
}

/*
 * plan_seen_blocks
 *		The number of blocks that the relation had when this backend last
 *		looked.  If the server does not remember that, the result is
 *		InvalidBlockNumber, the largest number of all.
 */
static inline BlockNumber
plan_seen_blocks(Relation rel)
{
	SMgrRelation smgr = rel->rd_smgr;

	return smgr ? smgr->smgr_cached_nblocks[MAIN_FORKNUM] : InvalidBlockNumber;
}

extern BlockNumber plan_look_at_size(Relation rel);

/*
 * plan_may_matter
 *		May a scan of the relation get a ring, or an index scan of it read
 *		ahead?
 *
 * This is called for every relation of every query, so it must be cheap.  The
 * answer is not exact: it depends on the number of blocks that this backend
 * saw last, when it planned a query or began a scan.  If the server does not
 * remember that, the backend looks now.  A parallel worker has seen no
 * relation, and does not look, because the query may have many relations that
 * this worker never scans: there the answer is yes.
 */
static inline bool
plan_may_matter(Relation rel)
{
	BlockNumber nblocks;

	if (RelationUsesLocalBuffers(rel))
		return false;
	if (rel->rd_smgr == NULL && !RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		return false;			/* such as a partitioned table */
	if (param_scan_threshold >= 0 || param_index_read_ahead)
		return true;
	nblocks = plan_seen_blocks(rel);
	if (unlikely(nblocks == InvalidBlockNumber && !IsParallelWorker()))
		nblocks = plan_look_at_size(rel);
	if (nblocks > (BlockNumber) SERVER_THRESHOLD)
		return true;
	return policy_may_be_set(rel);
}

/*
 * Will a scan get a ring?  Callers compare these values, so their order
 * matters: up to RING_LEFT_TO_SERVER there is nothing to watch, and from
 * RING_BY_DEFAULT on the ring is ours.
 */
typedef enum RingProspect
{
	RING_NONE,
	RING_LEFT_TO_SERVER,		/* the server's, if any; we do nothing */
	RING_OF_SERVER,				/* the server's, if any; we watch it */
	RING_BY_DEFAULT,			/* yes, one of ours */
	RING_ASKED_FOR,				/* yes, because a parameter or policy is set */
} RingProspect;

extern RingProspect plan_prospect(Relation rel, BlockNumber nblocks, ScanMode mode);
extern void plan_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
						  RingOptions *options, PlanReasons *reasons);
extern void plan_for_bitmap_scan(Relation rel, BlockNumber nblocks, RingOptions *options);
extern bool plan_reads_ahead(Relation rel);
extern bool plan_index_scan_has_ring(Relation rel, double rows);
extern void plan_for_index_scan(Relation rel, BlockNumber nblocks, RingOptions *options);
extern void plan_for_toast(Relation owner, BlockNumber nblocks, RingOptions *options);
extern void plan_for_prewarm(Relation rel, int ring_kb, RingOptions *options);
extern int	plan_capped_kb(int kb);
extern bool plan_is_capped_by_pool(void);
extern void plan_cap_to_relation(RingOptions *options, int64 nblocks);
extern void plan_notice_cap(int kb, int64 nblocks);
extern int	plan_dirty_to_leave(void);
extern int	plan_lookahead(Relation rel, const RingOptions *options);
extern const char *plan_exclusion(Relation rel);

/* plan_words.c */
extern const char *plan_untouched(Relation rel);
extern const char *plan_source_name(RingSource source);
extern char *plan_in_words(const RingOptions *options,
						   const PlanReasons *reasons);

#endif							/* RINGCTL_PLAN_H */
