/*-------------------------------------------------------------------------
 *
 * ring.h
 *	  One ring of shared buffers: make it, open a stream on it, watch its
 *	  slots, close it.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_RING_H
#define RINGCTL_RING_H

#include "storage/read_stream.h"
#include "utils/rel.h"

typedef struct Ring Ring;

/* What to make. */
typedef struct RingOptions
{
	int			nbuffers;		/* size in buffers, 0: read without a ring */
	int			headroom;		/* buffers of it that look-ahead may not pin */
	bool		observe;		/* only watch: behave exactly as the server */
	bool		alone;			/* this process reads nothing else meanwhile */
	bool		write_dirty;	/* flush WAL so that dirty pages stay inside */
} RingOptions;

/*
 * What it did.  blks_read = fills + reuses + escapes_pinned + escapes_adopted,
 * always; escapes_dirty and slots_lost empty a slot and are no reads.
 */
typedef struct RingCounts
{
	int64		blocks;			/* blocks asked for */
	int64		blks_read;		/* of them, read into a slot of the ring */
	int64		blks_unringed;	/* of them, read without a ring */
	int64		fills;			/* reads into a slot that was empty */
	int64		reuses;			/* reads into the buffer that a slot held */
	int64		escapes_pinned; /* the slot's buffer was pinned, it was
								 * replaced */
	int64		escapes_adopted;	/* somebody else uses it too, replaced */
	int64		escapes_dirty;	/* reuse needed a WAL flush: slot emptied */
	int64		slots_lost;		/* held another page meanwhile: slot emptied */
	int64		wal_flushes;	/* times that we flushed WAL for it */
} RingCounts;

extern bool ring_check_server(void);
extern void ring_require_server(void);
extern int	ring_server_buffers(void);
extern int	ring_flush_batch(void);

extern Ring *ring_create(const RingOptions *options);
extern ReadStream *ring_begin_stream(Ring *ring, int flags, Relation rel,
									 ForkNumber forknum,
									 ReadStreamBlockNumberCB next_block,
									 void *next_block_arg);
extern void ring_watch(Ring *ring);
extern void ring_forget_relation(Ring *ring);
extern void ring_resume(Ring *ring);
extern void ring_let_go(Ring *ring);
extern void ring_lend(Ring *ring);
extern void ring_start(Ring *ring);
extern void ring_free(Ring *ring);

extern int	ring_buffers(const Ring *ring);
extern const RingCounts *ring_counts(const Ring *ring);

#endif							/* RINGCTL_RING_H */
