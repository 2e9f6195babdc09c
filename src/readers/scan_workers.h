/*-------------------------------------------------------------------------
 *
 * scan_workers.h
 *	  What parallel workers did for the scans of a query.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SCAN_WORKERS_H
#define RINGCTL_SCAN_WORKERS_H

#include "executor/execdesc.h"
#include "lib/ilist.h"
#include "nodes/bitmapset.h"

/* The Gathers of this session whose workers may publish what they did. */
extern dlist_head scan_running_gathers;

/*
 * scan_any_parallel
 *		Is there such a Gather?  This is called at the end of every query.
 */
static inline bool
scan_any_parallel(void)
{
	return !dlist_is_empty(&scan_running_gathers);
}

extern TupleTableSlot *scan_first_gather_call(PlanState *ps, int n);
extern List *scan_parallel_contexts(const EState *estate);
extern Bitmapset *scan_uncalled(QueryDesc *queryDesc);
extern void scan_remember_workers(List *contexts, Bitmapset *uncalled);
extern List *scan_facts_of_node(PlanState *ps);

#endif							/* RINGCTL_SCAN_WORKERS_H */
