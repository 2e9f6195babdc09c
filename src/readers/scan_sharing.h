/*-------------------------------------------------------------------------
 *
 * scan_sharing.h
 *	  A sequential scan's part in sharing reads with other scans: for
 *	  scan_reader.c only.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SCAN_SHARING_H
#define RINGCTL_SCAN_SHARING_H

#include "readers/scan_reader.h"

extern void scan_begin_sharing(ScanReader *reader);
extern void scan_share(ScanReader *reader, BlockNumber block, BlockNumber start);
extern void scan_leave_sharing(ScanReader *reader);

#endif							/* RINGCTL_SCAN_SHARING_H */
