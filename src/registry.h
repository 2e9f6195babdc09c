/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  Shared memory: who reads through a ring, and the cumulative counters.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_REGISTRY_H
#define RINGCTL_REGISTRY_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "live.h"
#include "portability/instr_time.h"
#include "ring.h"
#include "utils/resowner.h"

/* What kind of reader: one row of pg_ringctl_stats for each. */
typedef enum ReaderKind
{
	READER_SEQSCAN,
	READER_PREWARM,
} ReaderKind;

/* What a row of counters is about.  No padding: it is hashed as bytes. */
typedef struct StatsKey
{
	Oid			datid;
	Oid			relid;
	int32		kind;			/* a ReaderKind */
} StatsKey;

/* A row of counters; see pg_ringctl_stats for what they mean. */
typedef struct StatsCounters
{
	int64		scans;
	int64		workers;
	RingCounts	ring;
	int			ring_buffers;	/* of the last scan */
	int			ring_buffers_max;
	double		elapsed_ms;
	TimestampTz last_scan;		/* when the last one ended */
	TimestampTz stats_reset;	/* since when this row counts */
} StatsCounters;

typedef struct StatsRow
{
	StatsKey	key;
	StatsCounters counters;
} StatsRow;

/*
 * One reader of a relation, from its first block until it ends or fails.
 * scan.c embeds it, as its first member; load.c uses it as it is.
 */
typedef struct Reader
{
	dlist_node	node;			/* in a list of its creator's */
	StatsKey	key;
	Ring	   *ring;
	LiveRing   *live;			/* while its stream runs */
	LiveInfo	info;			/* what others see of it */
	uint64		ringid;
	ResourceOwner owner;		/* ends it, should the query fail */
	void		(*failed) (struct Reader *reader);	/* tells the creator so */
	void		(*finished) (struct Reader *reader);	/* the counts are final */
	int64		scans;
	int64		workers;
	bool		running;		/* is the clock running? */
	instr_time	started;		/* then since when */
	instr_time	elapsed;		/* time before that */
} Reader;

extern void registry_attach(void);
extern void *registry_make_reader(MemoryContext context, Size size);
extern void registry_begin_reader(Reader *reader, ReaderKind kind, Oid relid,
								  const RingOptions *options);
extern void registry_start_pass(Reader *reader, int64 blocks_total);
extern void registry_show(Reader *reader);
extern void registry_hide(Reader *reader);
extern void registry_end_reader(Reader *reader);
extern void registry_count_scans(ReaderKind kind, Oid relid, int64 scans);
extern void registry_start_clock(Reader *reader);
extern void registry_stop_clock(Reader *reader);

extern const char *registry_kind_name(int32 kind);
extern int	registry_read(StatsRow **rows);
extern void registry_read_info(int64 *relations, int64 *dealloc,
							   int64 *dropped, TimestampTz *stats_reset);
extern TimestampTz registry_reset(Oid datid, Oid relid);

#endif							/* RINGCTL_REGISTRY_H */
