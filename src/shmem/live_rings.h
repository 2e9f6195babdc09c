/*-------------------------------------------------------------------------
 *
 * live_rings.h
 *	  The rings that are in use now, for every session to see.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_LIVE_RINGS_H
#define RINGCTL_LIVE_RINGS_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "ring_types.h"

typedef struct LiveRing LiveRing;

/* What other sessions see of a ring, besides its public part. */
typedef struct LiveInfo
{
	int			leader_pid;		/* if this is a parallel worker; else 0 */
	Oid			datid;
	Oid			relid;
	int32		kind;			/* a ReaderKind */
	RingSource	source;			/* where the size came from */
	int64		blocks_total;	/* blocks that this pass has to read */
	TimestampTz started;		/* when this pass started */
} LiveInfo;

/* A ring as another session sees it. */
typedef struct LiveView
{
	uint64		ringid;
	int			pid;
	LiveInfo	info;
	RingPublic	public;
	RingSlot   *slots;			/* public.nbuffers slots; NULL if none are
								 * shown, or the caller wants none */
} LiveView;

extern void live_attach(void);
extern LiveRing *live_enter(int nslots, bool *not_shown);
extern void live_leave(LiveRing *ring);
extern void live_show(LiveRing *ring, uint64 ringid, const LiveInfo *info);
extern void live_hide(LiveRing *ring);
extern uint64 live_new_ringid(void);
extern int64 live_not_shown(void);
extern RingPublic *live_public(LiveRing *ring);
extern RingSlot *live_slots(LiveRing *ring);

extern List *live_read(int only_pid, bool slots);

#endif							/* RINGCTL_LIVE_RINGS_H */
