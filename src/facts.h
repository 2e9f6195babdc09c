/*-------------------------------------------------------------------------
 *
 * facts.h
 *	  What the scans of a query did, also in its parallel workers.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_FACTS_H
#define RINGCTL_FACTS_H

#include "nodes/pg_list.h"
#include "ring.h"
#include "storage/dsm_impl.h"

/* Of more scans than this, the last ones are remembered. */
#define MAX_REMEMBERED_SCANS	1000

/* What one process did for one scan of a plan. */
typedef struct ScanFacts
{
	int			plan_node_id;
	Oid			relid;
	int			worker;			/* number of the parallel worker; -1: none */
	int			nbuffers;		/* size of the ring; 0: it had none */
	RingSource	source;
	int64		scans;			/* 0 in a worker if another process counts them */
	double		elapsed_ms;
	RingCounts	counts;
} ScanFacts;

extern void facts_publish(dsm_handle query, const ScanFacts *facts);
extern List *facts_of_workers(dsm_handle query, int plan_node_id);
extern void facts_discard(dsm_handle query);
extern void facts_add(ScanFacts *sum, const ScanFacts *facts);
extern void facts_remember(const ScanFacts *facts);
extern List *facts_remembered(void);

#endif							/* RINGCTL_FACTS_H */
