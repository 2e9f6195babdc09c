/*-------------------------------------------------------------------------
 *
 * scan_query.h
 *	  The readers of the scans of each query: see scan_query.c.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SCAN_QUERY_H
#define RINGCTL_SCAN_QUERY_H

#include "readers/scan_reader.h"

/*
 * Number of queries and utility commands of this session that have readers of
 * scans.
 */
extern int	scan_nqueries;

/* The memory of these readers. */
extern MemoryContext scan_context;

extern ScanReader *scan_find_reader(const PlanState *ps);
extern void scan_set_running(const EState *estate, bool now_running);
extern QueryScans *scan_leave_query(const void *owner);
extern void scan_end_query(QueryScans *query);
extern void query_init(void);

/* For scan_reader.c */
extern void query_add_reader(const void *owner, ScanReader *reader);
extern int64 query_may_leave(const ScanReader *reader, int64 blocks);
extern int *query_dirty_to_leave(const ScanReader *reader);
extern void query_remove_reader(ScanReader *reader);
extern void query_set_running(ScanReader *reader, bool now_running);

#endif							/* RINGCTL_SCAN_QUERY_H */
