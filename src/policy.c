/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Which ring does this relation get, and why.
 *
 * One rule, in this order:
 *
 *	1. A relation that is not larger than the threshold gets no ring.
 *	2. In observe mode, the ring is the server's.
 *	3. A size that the user gave is that size: 0 is none.
 *	4. Else it is the server's size, but never less than what keeps the ring
 *	   closed when every page is dirtied:
 *
 *		look-ahead + a batch of pages whose WAL is flushed at once + headroom
 *
 *	5. What comes out of 3 and 4 is capped by max_ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "params.h"
#include "policy.h"

#define KB_PER_BUFFER	(BLCKSZ / 1024)

/* Is a relation of so many blocks read through a ring at all? */
static bool
wants_ring(BlockNumber nblocks, ScanMode mode)
{
	if (param_scan_threshold < 0 || mode == MODE_OBSERVE)
		return nblocks > (BlockNumber) (NBuffers / 4);	/* as initscan() */
	return nblocks > (BlockNumber) param_scan_threshold;
}

/* Cap a ring of so many buffers as max_ring says; 0 is no ring and stays 0. */
static int
cap_ring(int nbuffers)
{
	int			cap = param_max_ring < 0 ? NBuffers / 8 : param_max_ring / KB_PER_BUFFER;

	if (nbuffers == 0)
		return 0;
	return Max(1, Min(nbuffers, Min(cap, NBuffers)));
}

/* The size that is chosen when the user gave none. */
static int
chosen_buffers(Relation rel)
{
	int			closed = compat_lookahead_limit(rel) + ring_flush_batch() + param_headroom;

	return Max(ring_server_buffers(), closed);
}

/*
 * policy_for_size
 *		The options of a ring of ring_kb kB: -1 is the size that is chosen for
 *		a sequential scan of the relation, 0 is none.
 */
void
policy_for_size(Relation rel, int ring_kb, RingOptions *options)
{
	int			nbuffers = ring_kb < 0 ? chosen_buffers(rel) : ring_kb / KB_PER_BUFFER;

	memset(options, 0, sizeof(RingOptions));
	options->nbuffers = cap_ring(nbuffers);
	options->headroom = param_headroom;
	options->write_dirty = (param_dirty_pages == DIRTY_WRITE);
}

/*
 * policy_for_scan
 *		The options of the ring of a sequential scan of the relation, which
 *		has nblocks blocks, in that mode.  options->nbuffers is 0 if it gets
 *		none.
 */
void
policy_for_scan(Relation rel, BlockNumber nblocks, ScanMode mode,
				RingOptions *options)
{
	policy_for_size(rel, param_scan_ring, options);
	if (mode == MODE_OBSERVE)
	{
		options->nbuffers = ring_server_buffers();
		options->observe = true;
	}
	if (!wants_ring(nblocks, mode))
		options->nbuffers = 0;
}
