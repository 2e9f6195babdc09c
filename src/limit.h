/*-------------------------------------------------------------------------
 *
 * limit.h
 *	  How many rows does a LIMIT still want of a scan below it?
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_LIMIT_H
#define RINGCTL_LIMIT_H

#include "nodes/execnodes.h"

extern void limit_note(LimitState *limit);
extern int64 limit_rows_wanted(const SeqScanState *scan);

#endif							/* RINGCTL_LIMIT_H */
