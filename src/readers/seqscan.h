/*-------------------------------------------------------------------------
 *
 * seqscan.h
 *	  Sequential scans: decide what becomes of each.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SEQSCAN_H
#define RINGCTL_SEQSCAN_H

#include "nodes/execnodes.h"

extern TupleTableSlot *seqscan_first_calls(PlanState *ps, int n);
extern TupleTableSlot *seqscan_first_calls_alone(PlanState *ps, int n);

#endif							/* RINGCTL_SEQSCAN_H */
