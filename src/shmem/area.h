/*-------------------------------------------------------------------------
 *
 * area.h
 *	  The memory that all processes with the library share.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_AREA_H
#define RINGCTL_AREA_H

#include "port/atomics.h"
#include "utils/dsa.h"

/* The parts of the shared memory.  Each belongs to one file. */
typedef enum SharedPart
{
	PART_STATS,					/* stats.c */
	PART_LIVE,					/* live_rings.c */
	PART_ESCAPES,				/* escape_log.c */
	PART_FACTS,					/* scan_facts.c */
	PART_SHARE,					/* members.c */
} SharedPart;

#define NUM_SHARED_PARTS	(PART_SHARE + 1)

/* Initializes a new part.  No other process can see the part yet. */
typedef void (*SharedInit) (void *part);

/* Called when the process exits, before it detaches from shared memory. */
typedef void (*SharedExit) (void);

/* See shared_try_segment(). */
typedef void (*SharedMakeSegment) (void);

extern bool shared_watches_exit;

extern void shared_begin_to_watch_exit(void);
extern void shared_on_exit(SharedExit function);
extern void shared_attach(void);
extern Size shared_room(void);
extern dsa_area *shared_area(void);
extern int	shared_tranche(void);
extern void *shared_part(SharedPart which, Size size, SharedInit init);
extern void *shared_find_part(SharedPart which);
extern bool shared_try(void (*function) (void *arg), void *arg);
extern bool shared_try_segment(SharedMakeSegment function);
extern pg_atomic_uint32 *shared_off_count(void);

/*
 * shared_watch_exit
 *		From now on we are told when this process exits.
 *
 * The server's PG_ENSURE_ERROR_CLEANUP() fails if an exit callback is
 * registered in its block.  A reader may begin in such a block: in that of
 * REPACK (CONCURRENTLY) in 19, or in one of another library.  So call this
 * when any query or utility command starts: usually the process has run one
 * before such a block.  (If it has not, the block raises an error.)
 */
static inline void
shared_watch_exit(void)
{
	if (unlikely(!shared_watches_exit))
		shared_begin_to_watch_exit();
}

#endif							/* RINGCTL_AREA_H */
