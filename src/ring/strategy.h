/*-------------------------------------------------------------------------
 *
 * strategy.h
 *	  The server's private struct of a buffer access strategy.
 *
 * The server hides this struct in freelist.c.  Its layout is the same in 17,
 * 18 and 19; strategy_check() verifies that when the library is loaded.  Only
 * files of src/ring/ include this file.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_STRATEGY_H
#define RINGCTL_STRATEGY_H

#include "storage/bufmgr.h"

typedef struct BufferAccessStrategyData
{
	BufferAccessStrategyType btype;
	int			nbuffers;
	int			current;		/* the slot that was taken last */
	Buffer		buffers[FLEXIBLE_ARRAY_MEMBER];
} BufferAccessStrategyData;

extern const char *strategy_check(void);
extern int	strategy_server_buffers(void);

#endif							/* RINGCTL_STRATEGY_H */
