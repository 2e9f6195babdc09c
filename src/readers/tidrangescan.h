/*-------------------------------------------------------------------------
 *
 * tidrangescan.h
 *	  TID range scans: decide what becomes of each.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_TIDRANGESCAN_H
#define RINGCTL_TIDRANGESCAN_H

#include "nodes/execnodes.h"
#include "storage/block.h"

extern TupleTableSlot *tidrangescan_first_call(PlanState *ps, int n);
extern bool tidrangescan_is_small(const PlanState *ps, BlockNumber nblocks);

#endif							/* RINGCTL_TIDRANGESCAN_H */
