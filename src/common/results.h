/*-------------------------------------------------------------------------
 *
 * results.h
 *	  The rows that our functions return.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_RESULTS_H
#define RINGCTL_RESULTS_H

#include "access/tupdesc.h"
#include "fmgr.h"
#include "nodes/execnodes.h"

extern ReturnSetInfo *results_begin_set(FunctionCallInfo fcinfo, int ncolumns);
extern TupleDesc results_row_type(FunctionCallInfo fcinfo, int ncolumns);

#endif							/* RINGCTL_RESULTS_H */
