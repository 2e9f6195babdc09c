/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  The cumulative statistics: what rings did, for each relation.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_STATS_H
#define RINGCTL_STATS_H

#include "datatype/timestamp.h"
#include "ring_types.h"

/*
 * The kinds of readers, and what users call them.  pg_ringctl_stats has rows
 * of its own for each kind.
 */
#define READER_KINDS(KIND) \
	KIND(READER_SEQSCAN, "seqscan") \
	KIND(READER_TIDRANGESCAN, "tidrangescan") \
	KIND(READER_BITMAPSCAN, "bitmapscan") \
	KIND(READER_INDEXSCAN, "indexscan") \
	KIND(READER_TOAST, "toast") \
	KIND(READER_COPY, "copy") \
	KIND(READER_INDEX_BUILD, "index_build") \
	KIND(READER_PREWARM, "prewarm")

#define READER_KIND_MEMBER(kind, name)	kind,

typedef enum ReaderKind
{
	READER_KINDS(READER_KIND_MEMBER)
} ReaderKind;

/* The key of a row of counters.  It is hashed as bytes: no padding. */
typedef struct StatsKey
{
	Oid			datid;
	Oid			relid;
	int32		kind;			/* a ReaderKind */
} StatsKey;

/* A row of counters; the view pg_ringctl_stats explains them. */
typedef struct StatsCounters
{
	int64		scans;
	int64		workers;
	RingCounts	ring;
	int			ring_buffers;	/* size of the last scan's ring */
	int			ring_buffers_max;
	double		elapsed_ms;
	TimestampTz last_scan;		/* when the last scan ended */
	TimestampTz stats_reset;	/* when this row began to count */
} StatsCounters;

typedef struct StatsRow
{
	StatsKey	key;
	StatsCounters counters;
} StatsRow;

/* Numbers about the statistics themselves. */
typedef struct StatsInfo
{
	int64		nrows;
	int64		dealloc;		/* rows removed because there was no room */
	TimestampTz stats_reset;	/* when all rows were last reset */
} StatsInfo;

extern void stats_init(void);
extern void stats_attach(void);
extern void stats_prepare(ReaderKind kind, Oid relid);
extern void stats_add(ReaderKind kind, Oid relid, const StatsCounters *counters);
extern int	stats_read(StatsRow **rows);
extern void stats_read_info(StatsInfo *info);
extern TimestampTz stats_reset(Oid datid, Oid relid, int *nrows);

#endif							/* RINGCTL_STATS_H */
