/*-------------------------------------------------------------------------
 *
 * sql_counts.h
 *	  The counts of a ring, as columns of a row.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SQL_COUNTS_H
#define RINGCTL_SQL_COUNTS_H

#include "fmgr.h"
#include "ring_types.h"

/* Columns that put_counts() sets. */
#define ONE_COLUMN(name, label)	+ 1
#define COUNTS_COLUMNS	(2 RING_COUNTS(ONE_COLUMN, ONE_COLUMN))

/*
 * put_counts
 *		Set the columns blocks and blks_hit, and those of RING_COUNTS; times
 *		are in ms.  Returns the number of these columns.
 */
static inline int
put_counts(Datum *values, const RingCounts *counts)
{
	int			i = 0;

	values[i++] = Int64GetDatum(counts->blocks);
	values[i++] = Int64GetDatum(ring_blocks_hit(counts));
#define COUNT(name, label)	values[i++] = Int64GetDatum(counts->name);
#define TIME(name, label)	values[i++] = Float8GetDatum(counts->name / 1000.0);
	RING_COUNTS(COUNT, TIME)
#undef COUNT
#undef TIME
		return i;
}

#endif							/* RINGCTL_SQL_COUNTS_H */
