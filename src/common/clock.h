/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  How long something took.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_CLOCK_H
#define RINGCTL_CLOCK_H

#include "portability/instr_time.h"

/* The time since then, in ms. */
static inline double
milliseconds_since(instr_time then)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, then);
	return INSTR_TIME_GET_MILLISEC(now);
}

#endif							/* RINGCTL_CLOCK_H */
