/*-------------------------------------------------------------------------
 *
 * prewarm_workers.h
 *	  A leader and its workers read ranges of blocks together.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PREWARM_WORKERS_H
#define RINGCTL_PREWARM_WORKERS_H

#include "readers/load.h"

typedef struct ParallelPrewarm ParallelPrewarm;

extern ParallelPrewarm *parallel_prewarm_begin(int nworkers);
extern void parallel_prewarm_read(ParallelPrewarm *parallel, Relation rel, ForkNumber forknum,
								  const RingOptions *options, int64 first_block,
								  int64 nblocks, LoadResult *result);
extern void parallel_prewarm_end(ParallelPrewarm *parallel);

#endif							/* RINGCTL_PREWARM_WORKERS_H */
