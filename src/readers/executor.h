/*-------------------------------------------------------------------------
 *
 * executor.h
 *	  The executor's hooks: find the nodes that readers are for.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_EXECUTOR_H
#define RINGCTL_EXECUTOR_H

#include "nodes/execnodes.h"

extern void executor_install_hooks(void);
extern void executor_watch_runs(void);
extern bool executor_may_have_reader(const PlanState *ps);
extern bool executor_is_gather(const PlanState *ps);
extern bool executor_is_index_scan(const PlanState *ps);

#endif							/* RINGCTL_EXECUTOR_H */
