/*-------------------------------------------------------------------------
 *
 * index_fetch.h
 *	  Fetches of an index scan that read ahead, or through a ring: for
 *	  indexscan.c only.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_INDEX_FETCH_H
#define RINGCTL_INDEX_FETCH_H

#include "access/relscan.h"
#include "nodes/execnodes.h"

extern bool index_fetch_can_attach(IndexScanDesc scan);
extern void index_fetch_attach(IndexScanDesc scan, ScanState *node,
							   const LimitState *limit, bool reads_ahead);

#endif							/* RINGCTL_INDEX_FETCH_H */
