/*-------------------------------------------------------------------------
 *
 * enabled.h
 *	  The kill switch: is pg_ringctl on, now and in the middle of a scan?
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_ENABLED_H
#define RINGCTL_ENABLED_H

#include "params.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"

/* What a reader remembers when it starts. */
typedef struct EnabledMark
{
	pg_atomic_uint32 *now;		/* times that it has been switched off so far;
								 * NULL: nobody counts */
	uint32		offs;			/* times that it had been switched off */
	bool		off;			/* was switched off since */
} EnabledMark;

extern void enabled_assign(bool newval, void *extra);
extern void enabled_mark(EnabledMark *mark);
extern void enabled_listen(void);
extern bool enabled_look(EnabledMark *mark);

/*
 * enabled_still
 *		Is pg_ringctl still on?  Cheap enough to be asked for every block.
 */
static inline bool
enabled_still(EnabledMark *mark)
{
	if (likely(!mark->off && param_enabled && !ConfigReloadPending &&
			   (mark->now == NULL || pg_atomic_read_u32(mark->now) == mark->offs)))
		return true;
	return enabled_look(mark);
}

#endif							/* RINGCTL_ENABLED_H */
