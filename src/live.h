/*-------------------------------------------------------------------------
 *
 * live.h
 *	  The rings that are in use now, for every session to see.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_LIVE_H
#define RINGCTL_LIVE_H

#include "datatype/timestamp.h"
#include "ring.h"

typedef struct LiveRing LiveRing;

/* What there is to know of a ring, beside what it does itself. */
typedef struct LiveInfo
{
	int			leader_pid;		/* of a parallel worker; else 0 */
	Oid			datid;
	Oid			relid;
	int32		kind;			/* a ReaderKind */
	RingSource	source;			/* where the size came from */
	int64		blocks_total;	/* that this pass has to do */
	TimestampTz started;		/* when this pass started */
} LiveInfo;

/* A ring as another session sees it. */
typedef struct LiveView
{
	uint64		ringid;
	int			pid;
	LiveInfo	info;
	RingPublic	public;
	RingSlot   *slots;			/* public.nbuffers of them; NULL if not asked
								 * for, or none */
} LiveView;

extern void live_attach(void);
extern LiveRing *live_enter(int nslots);
extern void live_leave(LiveRing *ring);
extern void live_free_retired(void);
extern void live_show(LiveRing *ring, uint64 ringid, const LiveInfo *info);
extern void live_hide(LiveRing *ring);
extern uint64 live_new_ringid(void);
extern RingPublic *live_public(LiveRing *ring);
extern RingSlot *live_slots(LiveRing *ring);

extern int	live_read(int pid, bool slots, LiveView **views);

#endif							/* RINGCTL_LIVE_H */
