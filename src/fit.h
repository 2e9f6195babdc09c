/*-------------------------------------------------------------------------
 *
 * fit.h
 *	  Does what is to be read fit into shared buffers?
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_FIT_H
#define RINGCTL_FIT_H

/* What to do if it does not. */
typedef enum FitAction
{
	FIT_WARN,					/* say so, and read everything */
	FIT_STOP,					/* read what fits */
	FIT_IGNORE,
} FitAction;

/* One call of a function that reads. */
typedef struct Fit
{
	FitAction	action;
	int64		asked;			/* blocks that were to be read */
	int64		granted;		/* of them, those that may be */
} Fit;

extern FitAction fit_parse(const char *name);
extern void fit_warn(int64 blocks);
extern int64 fit_take(Fit *fit, int64 blocks);
extern void fit_tell(const Fit *fit);

#endif							/* RINGCTL_FIT_H */
