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

extern void scan_install_hooks(void);
extern void scan_lend_finished(void);

#endif							/* RINGCTL_SCAN_H */
