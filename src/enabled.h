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

/* What a reader remembers when it starts. */
typedef struct EnabledMark
{
	uint32		offs;			/* times that it had been switched off */
	uint32		calls;			/* calls of enabled_still() */
	bool		off;			/* was switched off since */
} EnabledMark;

extern void enabled_assign(bool newval, void *extra);
extern void enabled_mark(EnabledMark *mark);
extern bool enabled_still(EnabledMark *mark);

#endif							/* RINGCTL_ENABLED_H */
