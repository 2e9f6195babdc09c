/*-------------------------------------------------------------------------
 *
 * block_order.h
 *	  Put blocks into a better order, in a window of limited size.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_BLOCK_ORDER_H
#define RINGCTL_BLOCK_ORDER_H

#include "storage/block.h"

#define REORDER_MAX_WINDOW	(1024 * 1024)

typedef enum ReorderMode
{
	REORDER_NONE,				/* first in, first out */
	REORDER_ZIGZAG,				/* up, down, up ... */
	REORDER_SORTED,				/* window by window, each in ascending order */
} ReorderMode;

typedef struct Reorder Reorder;

/*
 * Where the blocks come from.  Returns the next block.  After the last block,
 * returns InvalidBlockNumber at every call.
 */
typedef BlockNumber (*ReorderSource) (void *arg);

extern Reorder *reorder_create(ReorderMode mode, int window,
							   ReorderSource source, void *source_arg);
extern BlockNumber reorder_next(Reorder *reorder);
extern int64 reorder_again(const Reorder *reorder);

#endif							/* RINGCTL_BLOCK_ORDER_H */
