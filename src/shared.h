/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  The memory that all processes with this library share.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SHARED_H
#define RINGCTL_SHARED_H

#include "port/atomics.h"
#include "utils/dsa.h"

/* What is kept there, each by a file of its own. */
typedef enum SharedPart
{
	PART_COUNTERS,				/* registry.c */
	PART_LIVE,					/* live.c */
	PART_ESCAPES,				/* escapes.c */
	PART_FACTS,					/* facts.c */
	PART_SHARE,					/* share.c */
} SharedPart;

#define NUM_SHARED_PARTS	(PART_SHARE + 1)

/* Fills a new part; not before it has, another process can see it. */
typedef void (*SharedInit) (void *part);

extern void shared_attach(void);
extern dsa_area *shared_area(void);
extern int	shared_tranche(void);
extern void *shared_part(SharedPart which, Size size, SharedInit init);
extern dsa_pointer shared_allocate(Size size);
extern bool shared_try(void (*function) (void *arg), void *arg);
extern pg_atomic_uint32 *shared_offs(void);

#endif							/* RINGCTL_SHARED_H */
