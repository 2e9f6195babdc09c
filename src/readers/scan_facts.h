/*-------------------------------------------------------------------------
 *
 * scan_facts.h
 *	  What the scans of a query did, those in parallel workers included.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SCAN_FACTS_H
#define RINGCTL_SCAN_FACTS_H

#include "nodes/pg_list.h"
#include "ring/ring.h"
#include "storage/dsm_impl.h"

/* At most this number of ScanFacts are remembered: the last ones. */
#define MAX_REMEMBERED_SCANS	1000

/* What one process did for one scan of a plan. */
typedef struct ScanFacts
{
	int			plan_node_id;	/* -1: of no plan */
	int			kind;			/* a ReaderKind */
	Oid			relid;
	int			worker;			/* parallel worker number; -1: not a worker */
	int			nbuffers;		/* size of the ring; 0: no ring */
	RingSource	source;
	int64		scans;			/* 0 if another process counts the scan */
	double		elapsed_ms;
	RingCounts	counts;
} ScanFacts;

extern void facts_publish(dsm_handle gather, const ScanFacts *facts);
extern List *facts_of_workers(dsm_handle gather, int plan_node_id);
extern void facts_discard(dsm_handle gather);
extern void facts_add(ScanFacts *sum, const ScanFacts *facts);
extern void facts_remember(const ScanFacts *facts);
extern List *facts_remembered(void);

#endif							/* RINGCTL_SCAN_FACTS_H */
