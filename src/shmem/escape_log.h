/*-------------------------------------------------------------------------
 *
 * escape_log.h
 *	  The log of buffers that escaped from a ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_ESCAPE_LOG_H
#define RINGCTL_ESCAPE_LOG_H

#include "datatype/timestamp.h"
#include "ring_types.h"

typedef struct Escape
{
	Buffer		buffer;
	BufferTag	tag;			/* page in the buffer when it escaped */
	Oid			datid;
	Oid			relid;
	EscapeReason reason;		/* never ESCAPE_NONE */
	int			pid;			/* process that had the ring */
	TimestampTz escaped_at;
} Escape;

extern void escapes_add(const Escape *escape);
extern int	escapes_read(Escape **result);
extern int64 escapes_dropped(void);
extern void escapes_reset_dropped(void);

#endif							/* RINGCTL_ESCAPE_LOG_H */
