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

extern TupleTableSlot *tidrangescan_first_call(PlanState *ps, int n);

#endif							/* RINGCTL_TIDRANGESCAN_H */
