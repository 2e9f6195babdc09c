/*-------------------------------------------------------------------------
 *
 * ring_types.h
 *	  What all files know of a ring: its counts, its slots, its public part.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_RING_TYPES_H
#define RINGCTL_RING_TYPES_H

#include "storage/buf_internals.h"

/* Where a ring's size came from: see plan_source_name(). */
typedef enum RingSource
{
	SOURCE_NONE,				/* there is no ring */
	SOURCE_SERVER,				/* the ring is the server's own, or one like
								 * it that only observes */
	SOURCE_POLICY,				/* policy of the relation, or of an ancestor */
	SOURCE_PARAMETER,			/* pg_ringctl.scan_ring */
	SOURCE_CHOSEN,				/* ours: the ring sizes itself, or is the
								 * small one for TOAST values */
	SOURCE_ARGUMENT,			/* argument of a function */
	SOURCE_MAX_RING,			/* one of the above, limited by max_ring or by
								 * half of the pool */
} RingSource;

/*
 * The counts of a ring, besides the blocks asked for and consumed.
 * COUNT(name, label) is a number, TIME(name, label) a time in microseconds.
 * The statistics have sums of all of them, in this order, and EXPLAIN prints
 * them under their labels; in text it has shorter words of its own.
 *
 * Always, blks_read = fills + reuses + escapes_pinned + escapes_adopted.
 * escapes_dirty and slots_lost are slots, not reads.  An index scan that reads
 * ahead without a ring, and a prewarm without a ring, count their reads as
 * fills.
 *
 *	blks_read		blocks read into a slot of the ring
 *	fills			reads into an empty slot, or into one whose buffer had
 *					lost its page and was replaced
 *	reuses			reads into the buffer that the slot held
 *	escapes_pinned	reads into a slot whose pinned buffer was replaced
 *	escapes_dirty	slots that the server has emptied because reuse needed a
 *					flush of WAL
 *	escapes_adopted reads into a slot whose buffer was replaced because
 *					its page is also used outside the ring
 *	slots_lost		slots whose buffer was given to another page, or was
 *					replaced without a read of ours; if the slot still names a
 *					buffer with another page, the ring empties the slot,
 *					unless it only observes
 *	unconsumed		blocks asked for that the reader did not get, because it
 *					ended, was rescanned, or went on somewhere else
 *	wal_flushes		times that we flushed WAL for the ring
 *	released		buffers that held a page and were let go because the ring
 *					shrank
 *	blks_shared		blocks found in shared buffers while scans shared reads
 *	share_waits		times that the scan waited for another scan
 *	share_wait_us	time of these waits
 */
#define RING_COUNTS(COUNT, TIME) \
	COUNT(blks_read, "Read Blocks") \
	COUNT(fills, "Fills") \
	COUNT(reuses, "Reuses") \
	COUNT(escapes_pinned, "Pinned Escapes") \
	COUNT(escapes_dirty, "Dirty Escapes") \
	COUNT(escapes_adopted, "Adopted Escapes") \
	COUNT(slots_lost, "Lost Slots") \
	COUNT(unconsumed, "Unconsumed Blocks") \
	COUNT(wal_flushes, "WAL Flushes") \
	COUNT(released, "Released Buffers") \
	COUNT(blks_shared, "Scan Sharing Hit Blocks") \
	COUNT(share_waits, "Scan Sharing Waits") \
	TIME(share_wait_us, "Scan Sharing Wait Time")

#define RING_COUNT_FIELD(name, label)	int64		name;

/*
 * When the stream has ended, blocks = consumed + unconsumed.  Until then,
 * blocks - consumed - unconsumed is what the stream has looked ahead.
 */
typedef struct RingCounts
{
	int64		blocks;			/* blocks asked for */
	int64		consumed;		/* blocks that the reader has got */
				RING_COUNTS(RING_COUNT_FIELD, RING_COUNT_FIELD)
} RingCounts;

/*
 * Blocks that were asked for and not read: they were found in shared buffers,
 * or their read had not begun when the ring was last watched.
 */
static inline int64
ring_blocks_hit(const RingCounts *counts)
{
	return counts->blocks - counts->blks_read;
}

/* The state of a slot's buffer when it was last watched or tended. */
typedef enum RingSlotState
{
	SLOT_FREE,					/* none of the following */
	SLOT_PINNED,
	SLOT_ADOPTED,				/* its page is also used outside the ring */
	SLOT_DIRTY,
	SLOT_LOST,					/* the buffer was given to another page; a
								 * ring that only observes keeps it */
} RingSlotState;

/* Why a slot's buffer was not reused. */
typedef enum EscapeReason
{
	ESCAPE_NONE,				/* the buffer does not hold our page any more:
								 * nothing of ours stays behind */
	ESCAPE_PINNED,
	ESCAPE_ADOPTED,				/* its page is also used outside the ring */
	ESCAPE_DIRTY,
} EscapeReason;

/* What the ring knows of a slot, from its last look at it. */
typedef struct RingSlot
{
	Buffer		buffer;
	BufferTag	tag;			/* the page in the buffer */
	Oid			relid;			/* the page's relation, unless the slot is
								 * lost */
	RingSlotState state;
} RingSlot;

/* Is this the tag of a buffer without a page? */
static inline bool
tag_is_clear(const BufferTag *tag)
{
	return tag->blockNum == InvalidBlockNumber;
}

/*
 * Did the buffer hold a page at the last look?  After an eviction it holds
 * none.
 */
static inline bool
slot_has_page(const RingSlot *slot)
{
	return !tag_is_clear(&slot->tag);
}

/* Does the buffer still hold the page that it held at the last look? */
static inline bool
slot_holds_page(const RingSlot *slot)
{
	return slot_has_page(slot) &&
		BufferTagsEqual(&GetBufferDescriptor(slot->buffer - 1)->tag, &slot->tag);
}

/*
 * The part of a ring that other sessions may read.  They take no lock, so
 * while the ring runs, the values that they read may be from different
 * moments.
 */
typedef struct RingPublic
{
	int			nbuffers;		/* present size in buffers; 0: no ring */
	int			nbuffers_max;	/* largest size so far */
	int			occupied;		/* slots that hold a buffer */
	int			current;		/* the last slot that was taken or put off */
	int64		consumed_before_pass;	/* counts.consumed when this pass
										 * started */
	RingCounts	counts;
} RingPublic;

/*
 * ring_add_counts
 *		Add the counts of a ring to a sum.
 */
static inline void
ring_add_counts(RingCounts *to, const RingCounts *from)
{
#define ADD(name, label)	to->name += from->name;
	to->blocks += from->blocks;
	to->consumed += from->consumed;
	RING_COUNTS(ADD, ADD)
#undef ADD
}

#endif							/* RINGCTL_RING_TYPES_H */
