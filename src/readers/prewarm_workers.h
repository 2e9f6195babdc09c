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

#include "access/parallel.h"
#include "readers/load.h"

/*
 * A prewarm by this process and its workers, which are started when there is
 * work for them.  All members but nworkers must be zeroed; call
 * parallel_prewarm_end() at the end.  Between the first
 * parallel_prewarm_read() and parallel_prewarm_end() the session may be in
 * parallel mode, in which it can't write.
 */
typedef struct ParallelPrewarm
{
	int			nworkers;		/* workers yet to be started, at most */
	ParallelContext *pcxt;		/* NULL: the leader is alone */
	struct ParallelPrewarmShared *shared;
} ParallelPrewarm;

extern void parallel_prewarm_read(ParallelPrewarm *parallel, Relation rel, ForkNumber forknum,
								  const RingOptions *options, int64 first_block,
								  int64 nblocks, LoadResult *result);
extern void parallel_prewarm_end(ParallelPrewarm *parallel);

#endif							/* RINGCTL_PREWARM_WORKERS_H */
