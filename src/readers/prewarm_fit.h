/*-------------------------------------------------------------------------
 *
 * prewarm_fit.h
 *	  What to do if the blocks to be read do not fit into shared buffers.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PREWARM_FIT_H
#define RINGCTL_PREWARM_FIT_H

typedef enum FitAction
{
	FIT_WARN,					/* warn, and read all blocks */
	FIT_STOP,					/* read the blocks that fit */
	FIT_IGNORE,					/* read all blocks */
} FitAction;

/* How many blocks one call of a function may read without a ring. */
typedef struct FitBudget
{
	FitAction	action;
	int64		asked;			/* blocks asked for so far */
	int64		granted;		/* of these, blocks granted so far */
} FitBudget;

extern FitAction fit_parse(const char *name);
extern int64 fit_count_readable(const FitBudget *fit, int64 have_to_fit, int64 all);
extern void fit_warn(const FitBudget *fit, int64 blocks);
extern int64 fit_take(FitBudget *fit, int64 blocks);
extern void fit_report_left_out(const FitBudget *fit);

#endif							/* RINGCTL_PREWARM_FIT_H */
