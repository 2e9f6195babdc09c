/*-------------------------------------------------------------------------
 *
 * params.h
 *	  The configuration parameters, as the rest of the code reads them.
 *
 * They are defined in pg_ringctl.c, with a description of every special
 * value.  Sizes are in kB, thresholds in blocks.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PARAMS_H
#define RINGCTL_PARAMS_H

/* The limits of a ring's size that a user may ask for, in kB. */
#define RING_MIN_KB		64
#define RING_MAX_KB		(16 * 1024 * 1024)

/* What pg_ringctl does to a sequential scan: pg_ringctl.mode */
typedef enum ScanMode
{
	MODE_CONTROL,				/* its ring is ours, and stays closed */
	MODE_OBSERVE,				/* its ring is the server's, only counted */
	MODE_OFF,					/* the scan is not touched */
} ScanMode;

/* What happens to a page that was dirtied: pg_ringctl.dirty_pages */
typedef enum DirtyPages
{
	DIRTY_WRITE,				/* written, so that the ring stays closed */
	DIRTY_LEAVE,				/* left behind, as the server does */
} DirtyPages;

extern bool param_enabled;
extern int	param_mode;
extern int	param_scan_ring;
extern int	param_scan_threshold;
extern int	param_dirty_pages;
extern bool param_use_policies;
extern bool param_share_scans;
extern int	param_headroom;
extern int	param_max_ring;
extern bool param_track;
extern int	param_max_relations;

#endif							/* RINGCTL_PARAMS_H */
