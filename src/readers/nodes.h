/*-------------------------------------------------------------------------
 *
 * nodes.h
 *	  Replace the functions of plan nodes by functions of ours.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_NODES_H
#define RINGCTL_NODES_H

#include "nodes/execnodes.h"

/*
 * Called when a node that was taken is asked for a row.  The node's function
 * and this one are a pair, which has the number n (nodes.c).  n must be passed
 * on to the functions below.
 */
typedef TupleTableSlot *(*TakenNodeMtd) (PlanState *ps, int n);

/*
 * How many pairs of functions have a number so far; 0 if no node was taken.
 */
extern int	node_nfunctions;

extern bool node_take(PlanState *ps, TakenNodeMtd taken_node);
extern bool node_is_taken(const PlanState *ps);
extern bool node_is_wrapped(const PlanState *ps, int n);
extern TupleTableSlot *node_call(PlanState *ps, int n);
extern void node_restore(PlanState *ps, int n);
extern TupleTableSlot *node_hand_back(PlanState *ps, int n);

#endif							/* RINGCTL_NODES_H */
