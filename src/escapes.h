/*-------------------------------------------------------------------------
 *
 * escapes.h
 *	  The log of buffers that escaped from a ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_ESCAPES_H
#define RINGCTL_ESCAPES_H

#include "datatype/timestamp.h"
#include "ring.h"

typedef struct Escape
{
	Buffer		buffer;
	BufferTag	tag;			/* the page that it had then */
	Oid			datid;
	Oid			relid;
	RingSlotState reason;		/* SLOT_PINNED, SLOT_DIRTY or SLOT_ADOPTED */
	int			pid;			/* whose ring it was */
	TimestampTz escaped_at;
} Escape;

extern void escapes_attach(void);
extern void escapes_log(const Escape *escape);
extern int	escapes_read(Escape **escapes);
extern int64 escapes_dropped(void);
extern void escapes_reset_dropped(void);

#endif							/* RINGCTL_ESCAPES_H */
