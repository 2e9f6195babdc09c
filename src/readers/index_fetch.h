/*-------------------------------------------------------------------------
 *
 * index_fetch.h
 *	  Fetches of an index scan that read ahead: for indexscan.c only.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_INDEX_FETCH_H
#define RINGCTL_INDEX_FETCH_H

#include "access/relscan.h"
#include "nodes/execnodes.h"

/*
 * The heap pages that one pass of a scan must miss before it reads ahead.  A scan
 * that is expected to return no more rows is left alone.
 */
#define MISSES_BEFORE_READ_AHEAD	16

extern void index_fetch_attach(IndexScanDesc scan, ScanState *node,
							   const LimitState *limit);

#endif							/* RINGCTL_INDEX_FETCH_H */
