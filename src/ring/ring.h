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

#include "ring_types.h"
#include "storage/read_stream.h"
#include "utils/rel.h"

typedef struct Ring Ring;

/* What kind of ring ring_create() makes. */
typedef struct RingOptions
{
	int			nbuffers;		/* least size in buffers, and the first one
								 * unless lend_fill() begins with more; 0: no
								 * ring */
	int			capacity;		/* largest size; nbuffers if it is fixed */
	int			base_capacity;	/* capacity without the window and without
								 * additional room for dirty pages */
	int			window;			/* maximum number of blocks to keep for other
								 * scans; part of capacity */
	RingSource	source;			/* where the size came from */
	int			headroom;		/* buffers that look-ahead must leave unpinned */
	bool		observe;		/* only watch, change nothing */
	bool		repeats_blocks; /* the reader may ask for any block again */
	bool		maintenance;	/* look ahead as maintenance commands do */
	bool		write_dirty;	/* flush WAL so that the buffers of dirty
								 * pages are reused */
	bool		free_first;		/* leave pages in the pool until the server
								 * has no free buffers */
	int64		leave_first;	/* number of first reads whose pages are left
								 * in the pool */
	int		   *leave_dirty;	/* number of dirty pages whose WAL is not
								 * flushed that the query's rings may still
								 * leave in the pool; NULL: this ring leaves
								 * none */
} RingOptions;

/*
 * The public part of a running ring is in a LiveRing, if the process's segment
 * has room for one: see live_rings.c.
 */
struct LiveRing;

extern bool ring_check_server(void);
extern void ring_require_server(void);

extern Ring *ring_create(const RingOptions *options);
extern ReadStream *ring_begin_stream(Ring *ring, int flags, Relation rel,
									 ForkNumber forknum,
									 ReadStreamBlockNumberCB next_block,
									 void *next_block_arg,
									 size_t per_buffer_data_size);
extern void ring_begin_reads(Ring *ring, Relation rel);
extern BufferAccessStrategy ring_before_read(Ring *ring, Relation rel, BlockNumber block);
extern void ring_server_begins(BufferAccessStrategy strategy);
extern void ring_lend_to_server(BufferAccessStrategy strategy, int most);
extern void ring_take_over(Ring *ring, BufferAccessStrategy from, Relation rel,
						   BlockNumber first_block, BlockNumber rel_nblocks,
						   int asked, int got);
extern void ring_watch(Ring *ring);
extern void ring_set_sharing(Ring *ring, bool shared, int64 blocks_to_keep,
							 bool fell_behind);
extern void ring_add_waits(Ring *ring, int64 waits, int64 microseconds);
extern void ring_consume(Ring *ring, BlockNumber block);
extern void ring_consume_next(Ring *ring);
extern void ring_consume_all(Ring *ring);
extern void ring_drop_unconsumed(Ring *ring);
extern void ring_count_unringed(Ring *ring, int64 reads);
extern void ring_resume(Ring *ring);
extern void ring_lend(Ring *ring);
extern void ring_start(Ring *ring);
extern void ring_start_pass(Ring *ring);
extern bool ring_start_quietly(Ring *ring, BlockNumber first, BlockNumber nblocks);
extern bool ring_is_quiet(const Ring *ring);
extern void ring_close(Ring *ring);
extern void ring_free(Ring *ring);

extern struct LiveRing *ring_live(const Ring *ring);
extern const RingOptions *ring_options(const Ring *ring);
extern BlockNumber ring_next_to_get(const Ring *ring);
extern const RingPublic *ring_public(const Ring *ring);
extern const RingCounts *ring_counts(const Ring *ring);

#endif							/* RINGCTL_RING_H */
