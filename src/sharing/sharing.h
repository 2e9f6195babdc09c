/*-------------------------------------------------------------------------
 *
 * sharing.h
 *	  Scans of one relation that run at the same time share their reads.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SHARING_H
#define RINGCTL_SHARING_H

#include "storage/block.h"
#include "utils/rel.h"

/* Blocks between two steps of a scan that shares: see share_step(). */
#define BLOCKS_PER_STEP	16

/* One scan's part in sharing; see sharing.c. */
typedef struct ShareScan ShareScan;

/* What a scan has found when it last looked at the other scans. */
typedef struct ShareState
{
	bool		shared;			/* do other scans share reads with this one? */
	bool		wait;			/* does it pay to call share_nap()? */
	bool		scan_fell_behind;	/* has the last of the other scans just
									 * fallen too far behind?  Never true in a
									 * parallel scan */
	int64		blocks_to_keep; /* number of blocks from the last of the scans
								 * that share reads up to this scan; the ring
								 * must keep those of them that it has read */
} ShareState;

extern void sharing_attach(void);
extern ShareScan *share_join(Relation rel, BlockNumber nblocks, int window,
							 bool parallel, BlockNumber block, int64 offset,
							 int64 ahead);
extern const ShareState *share_step(ShareScan *scan, BlockNumber asked,
									int64 offset, int64 ahead);
extern const ShareState *share_nap(ShareScan *scan, double *waited_ms);
extern void share_leave(ShareScan *scan);

#endif							/* RINGCTL_SHARING_H */
