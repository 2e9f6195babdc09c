/*-------------------------------------------------------------------------
 *
 * indexscan.h
 *	  Index scans: decide which of them read ahead, or through a ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_INDEXSCAN_H
#define RINGCTL_INDEXSCAN_H

#include "nodes/execnodes.h"

extern bool indexscan_may_be_taken(const PlanState *ps);
extern const char *indexscan_exclusion(const PlanState *ps);
extern void indexscan_note_limit(PlanState *ps, const LimitState *limit);
extern TupleTableSlot *indexscan_first_call(PlanState *ps, int n);

#endif							/* RINGCTL_INDEXSCAN_H */
