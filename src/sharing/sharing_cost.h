/*-------------------------------------------------------------------------
 *
 * sharing_cost.h
 *	  What reads cost a scan, and whether waiting for another one pays.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SHARING_COST_H
#define RINGCTL_SHARING_COST_H

#include "portability/instr_time.h"
#include "storage/block.h"
#include "utils/rel.h"

/* What a scan has measured; times in ms. */
typedef struct ScanCost
{
	uint8		costly;			/* a bit for each of the last eight measured
								 * reads: was it slow? */
	int			nprobes;		/* measured reads so far */
	int			steps_to_probe; /* if this is 1 or less, a read is measured at
								 * the next step or, after PROBES_AT_FIRST
								 * reads, at the next step at which the scan
								 * may wait */
	instr_time	began;			/* when the scan joined others */
	double		cpu_ms_at_start;	/* CPU time of the process when the scan
									 * joined others */
	double		waited_ms;		/* time that it waited for other scans and for
								 * measured reads */
	int64		pace_position;	/* position where its pace was last taken */
	double		pace_taken_ms;	/* the scan's own time when its pace was last
								 * taken */
	double		saved_ms;		/* time that the scan could still wait after
								 * its last wait; below 0 if that wait was too
								 * long */
	double		saved_at_ms;	/* the scan's own time at its last wait */
} ScanCost;

extern void cost_begin(ScanCost *cost, int64 position);
extern void cost_probe(ScanCost *cost, Relation rel, BlockNumber block);
extern bool cost_reads_are_expensive(const ScanCost *cost);
extern uint32 cost_take_pace(ScanCost *cost, int64 position);
extern bool cost_wait_pays(const ScanCost *cost, uint32 my_pace, uint32 its_pace);
extern bool cost_may_wait(const ScanCost *cost);
extern void cost_note_wait(ScanCost *cost, double waited_ms);

#endif							/* RINGCTL_SHARING_COST_H */
