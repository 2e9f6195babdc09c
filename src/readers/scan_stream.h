/*-------------------------------------------------------------------------
 *
 * scan_stream.h
 *	  The read streams of scans, which take the place of the server's.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SCAN_STREAM_H
#define RINGCTL_SCAN_STREAM_H

#include "readers/scan_reader.h"
#include "ring/plan.h"

extern void scan_set_stream(HeapScanDesc scan, ReadStream *stream);
extern void scan_set_ring_stream(ScanReader *reader);
extern RingProspect scan_prospect(HeapScanDesc scan);

#endif							/* RINGCTL_SCAN_STREAM_H */
