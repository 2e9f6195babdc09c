/*-------------------------------------------------------------------------
 *
 * share.h
 *	  Scans of one relation that run at the same time share their reads.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SHARE_H
#define RINGCTL_SHARE_H

#include "storage/block.h"
#include "utils/rel.h"

/* One scan's part in it; see share.c. */
typedef struct ShareScan ShareScan;

/* How things stand, for one scan. */
typedef struct ShareState
{
	bool		shared;			/* does anybody share with it now? */
	bool		wait;			/* should it wait a little? */
	bool		lost;			/* has one just fallen too far behind? */
	int64		behind;			/* blocks back to the last one that shares: what
								 * must stay in the ring */
} ShareState;

extern void share_attach(void);
extern ShareScan *share_join(Relation rel, BlockNumber nblocks, int window,
							 bool parallel, BlockNumber start, bool may_move);
extern void share_meet(ShareScan *scan);
extern BlockNumber share_start(const ShareScan *scan);
extern bool share_is_shared(const ShareScan *scan);
extern const ShareState *share_step(ShareScan *scan, int64 offset,
									int64 next_offset);
extern const ShareState *share_wait(ShareScan *scan);
extern void share_pause(ShareScan *scan, bool paused);
extern void share_leave(ShareScan *scan);

#endif							/* RINGCTL_SHARE_H */
