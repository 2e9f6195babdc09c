/*-------------------------------------------------------------------------
 *
 * params.h
 *	  The configuration parameters, as the rest of the code reads them.
 *
 * They are defined in pg_ringctl.c, with a description of every special
 * value.  Sizes are in kB, thresholds in blocks, headroom in buffers.
 * param_mode is a ScanMode, param_dirty_pages a DirtyPages.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PARAMS_H
#define RINGCTL_PARAMS_H

#define KB_PER_BUFFER	(BLCKSZ / 1024)

/* Limits of the ring size that a user may ask for, in kB */
#define RING_MIN_KB		64
#define RING_MAX_KB		(16 * 1024 * 1024)

/*
 * The least size, other than 0, that pg_ringctl.write_ring may ask for.  The
 * server extends a relation by up to 64 blocks at a time, and pins all of
 * them.  If a ring has little room besides these, its buffers escape.
 */
#define WRITE_RING_MIN_KB	(128 * KB_PER_BUFFER)

/* What pg_ringctl does to scans: pg_ringctl.mode */
typedef enum ScanMode
{
	MODE_CONTROL,				/* their rings are ours, and are kept tight */
	MODE_OBSERVE,				/* their rings are like the server's, and are
								 * only watched */
	MODE_OFF,					/* the scans are not touched */
} ScanMode;

/* What happens to a page that the scan dirtied: pg_ringctl.dirty_pages */
typedef enum DirtyPages
{
	DIRTY_WRITE,				/* it is written, so that the ring stays
								 * tight; but see plan_dirty_to_leave() */
	DIRTY_LEAVE,				/* it is left behind if its WAL is not
								 * flushed, as in the server */
} DirtyPages;

extern bool param_enabled;
extern int	param_mode;
extern int	param_scan_ring;
extern int	param_scan_threshold;
extern int	param_dirty_pages;
extern bool param_use_policies;
extern bool param_scan_sharing;
extern bool param_free_buffers_first;
extern int	param_write_ring;
extern bool param_index_read_ahead;
extern int	param_index_read_ahead_after;
extern int	param_headroom;
extern int	param_max_ring;
extern bool param_track;
extern int	param_max_entries;
extern int	param_max_shared_memory;

#endif							/* RINGCTL_PARAMS_H */
