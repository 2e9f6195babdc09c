/*-------------------------------------------------------------------------
 *
 * prewarm.h
 *	  What the functions that prewarm have in common.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PREWARM_H
#define RINGCTL_PREWARM_H

#include "readers/prewarm_workers.h"
#include "readers/prewarm_fit.h"
#include "fmgr.h"

/* The columns from blocks to elapsed_time. */
#define PREWARM_RESULT_COLUMNS	7

/* Arguments that say how to read. */
typedef struct PrewarmOptions
{
	int			ring_kb;		/* size of the ring in kB; 0: no ring; -1: the
								 * ring that a sequential scan would get, or,
								 * if that is the server's own, one that sizes
								 * itself */
	int			workers;		/* maximum number of parallel workers */
	FitAction	fit;
} PrewarmOptions;

extern int	prewarm_get_ring(FunctionCallInfo fcinfo, int argno);
extern void prewarm_check_enabled(int ring_kb);
extern void prewarm_check_block(Relation rel, ForkNumber forknum, int64 block,
								int64 nblocks, const char *which);
extern void prewarm_get_options(FunctionCallInfo fcinfo, int ring_argno,
								int workers_argno, int fit_argno,
								PrewarmOptions *options);
extern void prewarm_adapt_options(PrewarmOptions *options, Relation rel);
extern int64 prewarm_blocks_to_fit(Relation rel, int ring_kb, int64 nblocks);
extern void prewarm_read(ParallelPrewarm *parallel, FitBudget *fit, int ring_kb, Relation rel,
						 ForkNumber forknum, int64 first_block, int64 nblocks,
						 LoadResult *result);
extern void prewarm_put_result(const LoadResult *result, double elapsed_time,
							   Datum *values);

#endif							/* RINGCTL_PREWARM_H */
