/*-------------------------------------------------------------------------
 *
 * bitmapscan.h
 *	  Bitmap heap scans: decide what becomes of each.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_BITMAPSCAN_H
#define RINGCTL_BITMAPSCAN_H

#include "nodes/execnodes.h"
#include "storage/block.h"

extern TupleTableSlot *bitmapscan_first_call(PlanState *ps, int n);
extern BlockNumber bitmapscan_expected_blocks(const PlanState *ps, BlockNumber nblocks);

#endif							/* RINGCTL_BITMAPSCAN_H */
