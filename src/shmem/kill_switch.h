/*-------------------------------------------------------------------------
 *
 * kill_switch.h
 *	  The kill switch: switch pg_ringctl off, even in the middle of a scan.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_KILL_SWITCH_H
#define RINGCTL_KILL_SWITCH_H

#include "params.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"

/* What a ring or a reader remembers of the kill switch. */
typedef struct EnabledMark
{
	pg_atomic_uint32 *shared_count; /* shared count that changes whenever
									 * pg_ringctl is switched off; NULL: there
									 * is none */
	uint32		off_count;		/* its value at enabled_mark() */
	bool		switched_off;	/* is pg_ringctl off for it? */
} EnabledMark;

extern void enabled_assign(bool newval, void *extra);
extern void enabled_mark(EnabledMark *mark);
extern void enabled_listen(void);
extern bool enabled_look(EnabledMark *mark);

/*
 * enabled_still
 *		Is pg_ringctl still on?  Cheap enough to be called for every block.
 */
static inline bool
enabled_still(EnabledMark *mark)
{
	if (likely(!mark->switched_off && param_enabled && !ConfigReloadPending &&
			   (mark->shared_count == NULL || pg_atomic_read_u32(mark->shared_count) == mark->off_count)))
		return true;
	return enabled_look(mark);
}

#endif							/* RINGCTL_KILL_SWITCH_H */
