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

#include "storage/buf_internals.h"
#include "storage/read_stream.h"
#include "utils/rel.h"

typedef struct Ring Ring;

/* Where a ring's size came from: see policy_source_name(). */
typedef enum RingSource
{
	SOURCE_THRESHOLD,			/* none: the relation is too small for one */
	SOURCE_SERVER,				/* the server's own */
	SOURCE_POLICY,				/* the relation's policy, or an ancestor's */
	SOURCE_PARAMETER,			/* pg_ringctl.scan_ring */
	SOURCE_CHOSEN,				/* by us */
	SOURCE_ARGUMENT,			/* of a function */
	SOURCE_MAX_RING,			/* one of these, but capped */
} RingSource;

/* What to make. */
typedef struct RingOptions
{
	int			nbuffers;		/* size in buffers, 0: read without a ring */
	int			capacity;		/* what it may grow to; nbuffers: it stays so */
	int			enough;			/* of that, for all that look-ahead may pin */
	int			max_ahead;		/* most buffers to look ahead; 0: no limit */
	int			near_ahead;		/* and this may be faster; 0: it isn't */
	int			window;			/* most blocks to keep for other scans: part
								 * of capacity */
	RingSource	source;			/* why this size */
	int			headroom;		/* buffers of it that look-ahead may not pin */
	bool		observe;		/* only watch: behave exactly as the server */
	bool		alone;			/* this process reads nothing else meanwhile */
	bool		returns;		/* may ask for a block once more, at any time */
	bool		maintenance;	/* reads as far ahead as maintenance does */
	bool		write_dirty;	/* flush WAL so that dirty pages stay inside */
} RingOptions;

/*
 * What it did.  blks_read = fills + reuses + escapes_pinned + escapes_adopted,
 * always; escapes_dirty and slots_lost empty a slot and are no reads.  When
 * the stream has ended, blocks = consumed + unconsumed; until then, what is
 * between is its look-ahead.
 */
typedef struct RingCounts
{
	int64		blocks;			/* blocks asked for */
	int64		consumed;		/* of them, handed out to the reader */
	int64		unconsumed;		/* of them, not wanted: it ended before, or
								 * turned */
	int64		blks_read;		/* of them, read into a slot of the ring */
	int64		blks_unringed;	/* of them, read without a ring */
	int64		fills;			/* reads into a slot that was empty */
	int64		reuses;			/* reads into the buffer that a slot held */
	int64		escapes_pinned; /* the slot's buffer was pinned, it was
								 * replaced */
	int64		escapes_adopted;	/* somebody else uses it too, replaced */
	int64		escapes_dirty;	/* reuse needed a WAL flush: slot emptied */
	int64		slots_lost;		/* held another page meanwhile: slot emptied */
	int64		released;		/* buffers let go because the ring shrank */
	int64		wal_flushes;	/* times that we flushed WAL for it */
	int64		blks_shared;	/* blocks found while sharing with others */
	int64		share_waits;	/* times that it waited for them */
	int64		share_wait_us;	/* and how long, in microseconds */
} RingCounts;

/* Blocks that were read into any buffer, and those that were there. */
static inline int64
ring_blocks_read(const RingCounts *counts)
{
	return counts->blks_read + counts->blks_unringed;
}

static inline int64
ring_blocks_hit(const RingCounts *counts)
{
	return counts->blocks - ring_blocks_read(counts);
}

/* In what state a slot's buffer was when it was last within reach. */
typedef enum RingSlotState
{
	SLOT_FREE,
	SLOT_PINNED,
	SLOT_ADOPTED,
	SLOT_DIRTY,
	SLOT_LOST,					/* it holds another page */
} RingSlotState;

/* What the ring knows of a slot: the buffer in it, and the page it held. */
typedef struct RingSlot
{
	Buffer		buffer;
	BufferTag	tag;
	Oid			relid;			/* whose page */
	RingSlotState state;
} RingSlot;

/* Is this the tag of a buffer without a page? */
static inline bool
tag_is_clear(const BufferTag *tag)
{
	return tag->blockNum == InvalidBlockNumber;
}

/* Does the slot's buffer hold a page, or was it let go, and not used since? */
static inline bool
slot_has_page(const RingSlot *slot)
{
	return !tag_is_clear(&slot->tag);
}

/* And does it still hold that page? */
static inline bool
slot_holds_page(const RingSlot *slot)
{
	return slot_has_page(slot) &&
		BufferTagsEqual(&GetBufferDescriptor(slot->buffer - 1)->tag, &slot->tag);
}

/*
 * The part of a ring that others may look at.  Whoever reads it while the ring
 * runs sees each field as it is, but not all of them at the same moment.
 */
typedef struct RingPublic
{
	int			nbuffers;		/* size in buffers, now; 0: no ring */
	int			nbuffers_max;	/* the largest that it had */
	int			occupied;		/* slots that hold a buffer */
	int			current;		/* the slot that was handed out last */
	int64		before;			/* counts.consumed when this pass started */
	RingCounts	counts;
} RingPublic;

/*
 * Who gives the ring's public part a place where others can see it, and wants
 * to hear of escapes.
 *
 * enter: returns room for the public part, and in *slots for so many slots
 * (NULL if 0), all zeroed.  leave: the ring needs that room no more; may not
 * throw.  escaped: the page in the slot was left behind, because its buffer was
 * in this state; may neither throw nor wait.
 */
typedef struct RingHost
{
	RingPublic *(*enter) (void *arg, int nslots, RingSlot **slots);
	void		(*leave) (void *arg);
	void		(*escaped) (void *arg, const RingSlot *slot, RingSlotState reason);
} RingHost;

extern bool ring_check_server(void);
extern void ring_require_server(void);
extern int	ring_server_buffers(void);
extern int	ring_flush_batch(void);
extern int	ring_most_flush_room(void);

extern Ring *ring_create(const RingOptions *options, const RingHost *host,
						 void *host_arg);
extern ReadStream *ring_begin_stream(Ring *ring, int flags, Relation rel,
									 ForkNumber forknum, int max_ahead,
									 ReadStreamBlockNumberCB next_block,
									 void *next_block_arg);
extern void ring_watch(Ring *ring);
extern void ring_keep(Ring *ring, bool shared, int64 behind);
extern void ring_narrow(Ring *ring);
extern void ring_count_sharing(Ring *ring, int64 waited_us);
extern void ring_consume(Ring *ring, BlockNumber block);
extern void ring_consume_next(Ring *ring);
extern void ring_consume_rest(Ring *ring);
extern void ring_drop_rest(Ring *ring);
extern void ring_forget_relation(Ring *ring);
extern void ring_resume(Ring *ring);
extern void ring_let_go(Ring *ring);
extern void ring_lend(Ring *ring);
extern void ring_start(Ring *ring);
extern void ring_start_pass(Ring *ring);
extern void ring_close(Ring *ring);
extern void ring_free(Ring *ring);

extern const RingOptions *ring_options(const Ring *ring);
extern bool ring_is_shared(const Ring *ring);
extern BlockNumber ring_next_to_get(const Ring *ring);
extern const RingPublic *ring_public(const Ring *ring);
extern const RingCounts *ring_counts(const Ring *ring);
extern void ring_add_counts(RingCounts *to, const RingCounts *from);

#endif							/* RINGCTL_RING_H */
