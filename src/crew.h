/*-------------------------------------------------------------------------
 *
 * crew.h
 *	  A leader and its workers, who read ranges of blocks together.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_CREW_H
#define RINGCTL_CREW_H

#include "load.h"

typedef struct Crew Crew;

extern Crew *crew_begin(int nworkers);
extern void crew_read(Crew *crew, Relation rel, ForkNumber forknum,
					  const RingOptions *options, int64 first_block,
					  int64 nblocks, LoadResult *result);
extern void crew_end(Crew *crew);

#endif							/* RINGCTL_CREW_H */
