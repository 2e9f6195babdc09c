/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  The executor: find the sequential scans, give each its ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SCAN_H
#define RINGCTL_SCAN_H

#include "nodes/execnodes.h"

extern void scan_install_hooks(void);
extern List *scan_facts(PlanState *ps);
extern void scan_lend_finished(void);

#endif							/* RINGCTL_SCAN_H */
