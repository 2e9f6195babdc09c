/*-------------------------------------------------------------------------
 *
 * depth.h
 *	  Find out whether a stream is faster when it looks less far ahead.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_DEPTH_H
#define RINGCTL_DEPTH_H

#include "portability/instr_time.h"
#include "ring.h"

/* So many windows of a phase are timed, an odd number: it takes the median. */
#define DEPTH_TIMED_WINDOWS		5

typedef enum DepthPhase
{
	DEPTH_SETTLED,				/* nothing more to find out */
	DEPTH_FAR,					/* looks far ahead, and is timed */
	DEPTH_TRIAL,				/* looks less far ahead, and is timed */
	DEPTH_NEAR,					/* that was faster */
} DepthPhase;

/* What one reader has found out so far. */
typedef struct Depth
{
	Ring	   *ring;
	DepthPhase	phase;
	int			window_blocks;
	int			countdown;		/* blocks left in this window */
	int			windows;		/* so many went by in this phase */
	int64		reads;			/* of the ring, when the phase began */
	instr_time	phase_start;
	instr_time	window_start;
	uint64		timed[DEPTH_TIMED_WINDOWS]; /* ns of each, in this phase */
	uint64		far_ns;			/* what a window takes, looking far ahead */
	int			slow;			/* windows that took longer, lately */
	int			trials;			/* so many were made, lately */
} Depth;

extern void depth_begin(Depth *depth, Ring *ring, int64 nblocks);
extern void depth_settle(Depth *depth);
extern void depth_interrupt(Depth *depth);
extern void depth_changed(Depth *depth);
extern bool depth_end_window(Depth *depth);
extern int	depth_ahead(const Depth *depth);

/*
 * depth_changes
 *		Called for each block that the stream asks for: shall the stream be
 *		replaced by one that looks depth_ahead() buffers ahead?  If so, it is not
 *		to be called again before depth_changed() is, when that has been done.
 */
static inline bool
depth_changes(Depth *depth)
{
	return unlikely(--depth->countdown == 0) && depth_end_window(depth);
}

#endif							/* RINGCTL_DEPTH_H */
