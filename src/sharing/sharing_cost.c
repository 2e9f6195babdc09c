/*-------------------------------------------------------------------------
 *
 * sharing_cost.c
 *	  What reads cost a scan, and whether waiting for another one pays.
 *
 * Sharing saves reads, so it pays only if reads cost something.  Each scan
 * measures this for itself:
 *
 * A. Now and then the scan reads one block that its stream is about to ask
 *	  for, and measures the time.  If the operating system has the block in its
 *	  cache, the read takes some microseconds.  If at least COSTLY_READS of the
 *	  last eight measured reads took READ_COSTS_US or more, reads are
 *	  expensive.  (Fewer slow reads may be due to waits for a processor.)
 * B. A scan's pace is the time that it takes for a block.  Its waits for other
 *	  scans and for measured reads do not count.
 * C. Let the scan in front be r times as fast as the last scan.  If the scan
 *	  in front waits, it takes r times as long.  If it does not wait, both
 *	  scans read all blocks themselves.  The scan in front spends a part s of
 *	  its time on reads.  In the same time, the last scan makes only 1/r as
 *	  many reads.  So its reads slow the scan in front down by s/r at most, and
 *	  waiting may pay as long as
 *
 *			r - 1 <= s / r		or		r (r - 1) <= s
 *
 *	  For s we take the part of the front scan's own time in which its process
 *	  had no processor.  But some storage serves two scans as fast as one.
 *	  There the reads of the last scan do not slow the scan in front down at
 *	  all, and we can't tell such storage from other storage.  So a scan waits
 *	  for one that is too far behind only if r is no more than MOST_SLOWER.
 *	  Then it loses no more than a tenth of its time, whatever the storage is
 *	  like.
 * D. C relies on paces that may have changed, and a scan that follows a leader
 *	  (sharing.c) can't tell how fast it would be alone.  So all waits of a
 *	  scan together may take a tenth of its own time.  What it has not used of
 *	  that, it saves for later, but no more than MOST_SAVED_MS.  Measured reads
 *	  use up that time, too, except for the first PROBES_AT_FIRST.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>
#include <sys/time.h>

#include "common/clock.h"
#include "compat.h"
#include "port/pg_bitutils.h"
#include "sharing/sharing_cost.h"
#include "storage/smgr.h"

/*
 * A read that takes this time or more is taken for a read from storage, not
 * from a cache.
 */
#define READ_COSTS_US	30

/*
 * Reads are expensive if at least this number of the last eight measured reads
 * took that time or more.
 */
#define COSTLY_READS	5

/*
 * While there are other scans, a read is measured at each of the first
 * PROBES_AT_FIRST steps.  After that, a read is measured once in
 * STEPS_PER_PROBE steps, or, if reads are expensive, once in
 * STEPS_PER_COSTLY_PROBE, because the scan has to wait for each of them.  If
 * the scan may not wait at such a step, a later step measures a read.
 */
#define STEPS_PER_PROBE	32
#define STEPS_PER_COSTLY_PROBE	256
#define PROBES_AT_FIRST	8

/*
 * A scan waits for a scan that is too far behind it only if that scan's time
 * for a block is at most this number of times its own.
 */
#define MOST_SLOWER		1.1

/* See D above. */
#define MOST_SAVED_MS	10

/* Blocks over which a scan takes its pace. */
#define BLOCKS_PER_PACE	256

/* The time that this process has had a processor. */
static double
cpu_milliseconds(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return 0;
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000.0 +
		(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000.0;
}

/* The time that the scan has run, without its waits. */
static double
own_milliseconds(const ScanCost *cost)
{
	return milliseconds_since(cost->began) - cost->waited_ms;
}

/* How long may the scan wait now, in ms?  See D above. */
static double
time_to_wait(const ScanCost *cost)
{
	double		since = own_milliseconds(cost) - cost->saved_at_ms;

	return Min(cost->saved_ms + since / 10, MOST_SAVED_MS);
}

/*
 * cost_begin
 *		Begin to measure a scan, which is at this position.  *cost must be
 *		zeroed.
 */
void
cost_begin(ScanCost *cost, int64 position)
{
	cost->pace_position = position;
	cost->cpu_ms_at_start = cpu_milliseconds();
	INSTR_TIME_SET_CURRENT(cost->began);
}

/*
 * cost_probe
 *		If it is time for a measured read, read this block, which the stream is
 *		about to ask for, and see how long that takes.
 *
 * The read does not go through shared buffers.  So the read is not counted,
 * and if the page changes meanwhile, that does no harm.  The first measured
 * reads do not use up the time of D above: otherwise, where reads take long,
 * the scan could not wait when that helps most.
 */
void
cost_probe(ScanCost *cost, Relation rel, BlockNumber block)
{
	static PGIOAlignedBlock page;
	bool		is_first = cost->nprobes < PROBES_AT_FIRST;
	instr_time	start;
	double		took_ms;

	if (--cost->steps_to_probe > 0 || (!is_first && !cost_may_wait(cost)))
		return;

	compat_submit_staged();
	INSTR_TIME_SET_CURRENT(start);
	smgrread(RelationGetSmgr(rel), MAIN_FORKNUM, block, page.data);
	took_ms = milliseconds_since(start);
	cost->costly = (uint8) (cost->costly << 1) |
		(took_ms * 1000 >= READ_COSTS_US ? 1 : 0);

	if (is_first)
		cost->waited_ms += took_ms;
	else
		cost_note_wait(cost, took_ms);
	if (++cost->nprobes >= PROBES_AT_FIRST)
		cost->steps_to_probe = cost_reads_are_expensive(cost) ?
			STEPS_PER_COSTLY_PROBE : STEPS_PER_PROBE;
}

/*
 * cost_reads_are_expensive
 *		Do reads cost enough that saving them may pay?
 */
bool
cost_reads_are_expensive(const ScanCost *cost)
{
	return pg_number_of_ones[cost->costly] >= COSTLY_READS;
}

/*
 * cost_take_pace
 *		The scan is at this position now.  Returns its pace, in ns for a block,
 *		since the pace was last taken; or 0 if that was less than
 *		BLOCKS_PER_PACE blocks ago.
 */
uint32
cost_take_pace(ScanCost *cost, int64 position)
{
	int64		blocks = position - cost->pace_position;
	double		now_ms;
	double		pace;

	if (blocks < BLOCKS_PER_PACE)
		return 0;
	now_ms = own_milliseconds(cost);
	pace = (now_ms - cost->pace_taken_ms) * 1e6 / blocks;
	cost->pace_position = position;
	cost->pace_taken_ms = now_ms;
	return (uint32) Max(1, Min(pace, PG_UINT32_MAX));
}

/* The part of the scan's own time in which this process had no processor. */
static double
part_without_cpu(const ScanCost *cost)
{
	double		ran = own_milliseconds(cost);
	double		cpu = cpu_milliseconds() - cost->cpu_ms_at_start;

	return ran <= 0 ? 0 : Max(0, 1 - cpu / ran);
}

/*
 * cost_wait_pays
 *		Does it pay for a scan with the pace my_pace to wait for one with the
 *		pace its_pace?  Both are in ns for a block.  If one of them is 0, it is
 *		not known yet, and the result is false.  See C above.
 */
bool
cost_wait_pays(const ScanCost *cost, uint32 my_pace, uint32 its_pace)
{
	double		r;

	if (my_pace == 0 || its_pace == 0)
		return false;
	r = (double) its_pace / my_pace;
	return r <= MOST_SLOWER && r * (r - 1) <= part_without_cpu(cost);
}

/*
 * cost_may_wait
 *		Is there any time left that the scan may wait?  See D above.
 */
bool
cost_may_wait(const ScanCost *cost)
{
	return time_to_wait(cost) > 0;
}

/*
 * cost_note_wait
 *		The scan has just waited for this time, in ms.
 */
void
cost_note_wait(ScanCost *cost, double waited_ms)
{
	cost->waited_ms += waited_ms;
	/* from here on, the scan's own time does not include this wait */
	cost->saved_ms = time_to_wait(cost) - waited_ms;
	cost->saved_at_ms = own_milliseconds(cost);
}
