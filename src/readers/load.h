/*-------------------------------------------------------------------------
 *
 * load.h
 *	  Read blocks of a relation into shared buffers, through a ring or not.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_LOAD_H
#define RINGCTL_LOAD_H

#include "ring/ring.h"

/* What load_blocks() has done. */
typedef struct LoadResult
{
	int64		blocks;			/* blocks read, or found in shared buffers */
	int			ring_buffers;	/* size of the ring at the end, or sum of the
								 * rings of all processes; 0: none */
	RingCounts	counts;			/* what the ring did; without a ring, only
								 * what was read */
} LoadResult;

extern void load_blocks(Relation rel, ForkNumber forknum,
						const RingOptions *options, int64 blocks_total,
						ReadStreamBlockNumberCB next_block, void *next_block_arg,
						LoadResult *result);

#endif							/* RINGCTL_LOAD_H */
