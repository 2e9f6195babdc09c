/*-------------------------------------------------------------------------
 *
 * write_ring.h
 *	  The ring that bulk loads write through: pg_ringctl.write_ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_WRITE_RING_H
#define RINGCTL_WRITE_RING_H

#include "executor/execdesc.h"
#include "params.h"

/* Relations of a table: itself, its TOAST table, and that table's index. */
#define RELATIONS_OF_TABLE	3

/* Is the parameter set, and in force?  If so, bulk loads may be caught. */
static inline bool
write_ring_is_set(void)
{
	return param_write_ring >= 0 && param_enabled && param_mode == MODE_CONTROL;
}

extern void write_ring_catch(Oid relid);
extern void write_ring_catch_at_startup(QueryDesc *queryDesc, const Oid *made);

#endif							/* RINGCTL_WRITE_RING_H */
