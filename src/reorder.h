/*-------------------------------------------------------------------------
 *
 * reorder.h
 *	  Blocks in a better order, through a window of bounded memory.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_REORDER_H
#define RINGCTL_REORDER_H

#include "storage/block.h"

#define REORDER_MAX_WINDOW	(1024 * 1024)

typedef enum ReorderMode
{
	REORDER_NONE,				/* first in, first out */
	REORDER_ZIGZAG,				/* up, down, up ... */
	REORDER_SORTED,				/* window by window, each from below */
} ReorderMode;

typedef struct Reorder Reorder;

/*
 * Where the blocks come from: returns the next one, InvalidBlockNumber after
 * the last, and then again.
 */
typedef BlockNumber (*ReorderSource) (void *arg);

extern Reorder *reorder_create(ReorderMode mode, int window,
							   ReorderSource source, void *source_arg);
extern BlockNumber reorder_next(Reorder *reorder);

#endif							/* RINGCTL_REORDER_H */
