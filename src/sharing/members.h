/*-------------------------------------------------------------------------
 *
 * members.h
 *	  The scans that share reads, and where each of them is.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_MEMBERS_H
#define RINGCTL_MEMBERS_H

#include "port/atomics.h"
#include "storage/block.h"
#include "storage/procnumber.h"
#include "storage/relfilelocator.h"
#include "utils/timestamp.h"

/*
 * One scan that shares.  Its process writes to it all the time, so no two
 * members are on one cache line.
 */
typedef struct Member
{
	RelFileLocator locator;		/* relNumber 0: not in use */
	int			next;			/* next member of the relation, in a circle */
	BlockNumber nblocks;		/* size of the relation */
	BlockNumber block;			/* block where the scan joined */
	int64		joined_position;	/* position of that block */
	ProcNumber	proc;
	ProcNumber	lock_group;		/* the lock group's leader; if there is no
								 * group, the same as proc */
	bool		parallel;		/* one of the processes of a parallel scan */
	pg_atomic_uint32 shared;	/* does the relation have scans other than
								 * this one and its siblings?  Changes under
								 * the lock, but is read without it */
	/* the following change without the lock */
	pg_atomic_uint64 position;	/* of the block that the scan gets next */
	pg_atomic_uint64 asked;		/* position of the block that the scan asks
								 * for */
	pg_atomic_uint32 pace_ns;	/* time for a block; 0: not known yet */
	pg_atomic_uint32 waits_elsewhere;	/* was its process seen waiting for
										 * what D in sharing.c names? */
	pg_atomic_uint32 stepped_at;	/* when the scan made its last step: see
									 * members_second() */
	char		pad[PG_CACHE_LINE_SIZE];
} Member;

extern void members_attach(void);
extern Member *member_join(const RelFileLocator *locator, BlockNumber nblocks,
						   int window, bool parallel, BlockNumber block,
						   int64 ahead);
extern void member_leave(Member *me);
extern bool members_lock_to_look(void);
extern void members_unlock(void);
extern int	members_shared_relations(void);
extern Member *member_next(const Member *member);

/* The present time, in seconds. */
static inline uint32
members_second(void)
{
	return (uint32) (GetCurrentTimestamp() / USECS_PER_SEC);
}

/* The position of the block that the scan gets next. */
static inline int64
position_of(Member *member)
{
	return (int64) pg_atomic_read_u64(&member->position);
}

/* The position of the block that the scan asks for. */
static inline int64
asked_by(Member *member)
{
	return (int64) pg_atomic_read_u64(&member->asked);
}

/*
 * Two scans have found the relation to be a and b blocks large.  Are these
 * sizes so close that the scans' positions can be compared?
 */
static inline bool
same_size(BlockNumber a, BlockNumber b, int window)
{
	return Max(a, b) - Min(a, b) <= (BlockNumber) (window / 8);
}

/* Do both members belong to parallel scans of the same lock group? */
static inline bool
is_sibling(const Member *a, const Member *b)
{
	return a->parallel && b->parallel && a->lock_group == b->lock_group;
}

#endif							/* RINGCTL_MEMBERS_H */
