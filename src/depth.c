/*-------------------------------------------------------------------------
 *
 * depth.c
 *	  Find out whether a stream is faster when it looks less far ahead.
 *
 * Looking far ahead is right where storage is slow.  Where the operating system
 * has the pages, there is nothing to wait for, and what it costs depends on the
 * I/O method: worker has its copying done by other processes, but io_uring in
 * 18 hands every read to a kernel thread as soon as more than a few are under
 * way, which costs more than to copy the pages at once; and the pages wear out
 * the CPU's cache until they are used.  19 looks only as far ahead as reads have
 * to be waited for; 18 always as far as it may.
 *
 * Nobody knows beforehand what the operating system has.  So a large scan tries:
 * for a number of windows of blocks it looks far ahead, for as many one read,
 * and stays with what was faster.
 *
 *	  FAR      s t t t t t <--------+   t: timed; s: not, look-ahead settles
 *	             |                  |
 *	             | far_ns: median   |   again and again slower than far_ns (the
 *	             v                  |   cache has ended, or the machine has other
 *	  TRIAL    s t t t t t --+      |   things to do), or long ago
 *	             |           |      |
 *	             | faster    +------|-> not faster: looks far ahead, SETTLED
 *	             v                  |
 *	  NEAR     t t t t t t ... -----+
 *
 * A trial is given up when it has taken the time that far look-ahead takes for as
 * many windows: where a read takes long, that is soon.  Only long scans make one.
 *
 * The depth of a stream is given to it when it begins.  So to change it, the
 * reader begins another stream on the same ring; that is the reader's business,
 * because only it knows which blocks come next.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "depth.h"

/* Blocks in a window, at least; never less than twice what is ahead. */
#define MIN_WINDOW_BLOCKS	512

/* Windows of a phase that are not timed. */
#define SETTLING_WINDOWS	1

#define PHASE_WINDOWS		(SETTLING_WINDOWS + DEPTH_TIMED_WINDOWS)

/* A trial is made by scans that are so many times as long as it. */
#define TRIALS_IN_A_SCAN	20

/* So many slow windows more than fast ones prove that it is slower now. */
#define SLOW_WINDOWS		8

/* Then it is tried again, but so often at most... */
#define MAX_TRIALS			8

/* ...in so many windows.  After these it is tried in any case. */
#define WINDOWS_BETWEEN		(64 * PHASE_WINDOWS)

static void
begin_window(Depth *depth)
{
	depth->countdown = depth->window_blocks;
	INSTR_TIME_SET_CURRENT(depth->window_start);
}

static void
begin_phase(Depth *depth, DepthPhase phase)
{
	depth->phase = phase;
	depth->windows = 0;
	depth->slow = 0;
	depth->reads = ring_counts(depth->ring)->blks_read;
	begin_window(depth);
	depth->phase_start = depth->window_start;
}

/*
 * depth_settle
 *		It stays as it is from now on.
 */
void
depth_settle(Depth *depth)
{
	depth->phase = DEPTH_SETTLED;
	depth->countdown = PG_INT32_MAX;
}

/*
 * depth_begin
 *		A reader begins to read about so many blocks through the ring.
 */
void
depth_begin(Depth *depth, Ring *ring, int64 nblocks)
{
	const RingOptions *options = ring_options(ring);

	depth->ring = ring;
	depth->window_blocks = Max(MIN_WINDOW_BLOCKS, 2 * options->max_ahead);
	if (options->near_ahead == 0 ||
		nblocks < (int64) TRIALS_IN_A_SCAN * PHASE_WINDOWS * depth->window_blocks)
		depth_settle(depth);
	else
		begin_phase(depth, DEPTH_FAR);
}

/*
 * depth_interrupt
 *		The window that goes by now says nothing: the reader pauses.  Who does so all
 *		the time would never come to the end of a trial, so that is given up, and
 *		near look-ahead, too, as soon as its window ends.
 */
void
depth_interrupt(Depth *depth)
{
	if (depth->phase == DEPTH_FAR)
		begin_phase(depth, DEPTH_FAR);
	else if (depth->phase == DEPTH_TRIAL)
		depth->far_ns = 0;
	else if (depth->phase == DEPTH_NEAR)
		depth->slow = SLOW_WINDOWS;
}

/*
 * depth_changed
 *		The stream has been replaced: its time counts from now on.
 */
void
depth_changed(Depth *depth)
{
	if (depth->phase != DEPTH_SETTLED)
		begin_phase(depth, depth->phase);
}

static int
compare_ns(const void *a, const void *b)
{
	uint64		ns_a = *(const uint64 *) a;
	uint64		ns_b = *(const uint64 *) b;

	return (ns_a > ns_b) - (ns_a < ns_b);
}

static uint64
median(uint64 *timed)
{
	qsort(timed, DEPTH_TIMED_WINDOWS, sizeof(uint64), compare_ns);
	return timed[DEPTH_TIMED_WINDOWS / 2];
}

/* Were most blocks of this phase read, and not found? */
static bool
most_were_read(const Depth *depth)
{
	int64		reads = ring_counts(depth->ring)->blks_read - depth->reads;

	return reads >= (int64) depth->windows * depth->window_blocks / 2;
}

/* Nanoseconds since then. */
static uint64
ns_since(instr_time then, instr_time now)
{
	INSTR_TIME_SUBTRACT(now, then);
	return INSTR_TIME_GET_NANOSEC(now);
}

/* Far look-ahead was timed: try the other one, unless there is nothing to read. */
static bool
end_far(Depth *depth)
{
	if (!most_were_read(depth))
	{
		begin_phase(depth, DEPTH_FAR);
		return false;
	}
	depth->far_ns = median(depth->timed);
	depth->trials++;
	begin_phase(depth, DEPTH_TRIAL);
	return true;
}

/* It was tried: was it faster? */
static bool
end_trial(Depth *depth)
{
	if (most_were_read(depth) && median(depth->timed) < depth->far_ns)
	{
		begin_phase(depth, DEPTH_NEAR);
		return false;
	}
	depth_settle(depth);
	return true;
}

/* Near look-ahead was faster: is it still?  From time to time, try again. */
static bool
end_near_window(Depth *depth, uint64 ns)
{
	depth->slow = ns > depth->far_ns ? depth->slow + 1 : Max(0, depth->slow - 1);
	if (++depth->windows == WINDOWS_BETWEEN)
		depth->trials = 0;
	else if (depth->slow < SLOW_WINDOWS)
		return false;
	if (depth->trials < MAX_TRIALS)
		begin_phase(depth, DEPTH_FAR);
	else
		depth_settle(depth);
	return true;
}

/* Where reads are shared, others wait for them: no trials. */
static bool
end_shared_window(Depth *depth)
{
	bool		far = (depth->phase == DEPTH_FAR);

	if (far)
		begin_phase(depth, DEPTH_FAR);
	else
		depth_settle(depth);
	return !far;
}

/*
 * depth_end_window
 *		A window has gone by; returns whether the stream shall be replaced.
 */
bool
depth_end_window(Depth *depth)
{
	instr_time	now;
	uint64		ns;

	if (depth->phase == DEPTH_SETTLED)
	{
		depth_settle(depth);
		return false;
	}

	INSTR_TIME_SET_CURRENT(now);
	ns = ns_since(depth->window_start, now);
	begin_window(depth);

	if (ring_is_shared(depth->ring))
		return end_shared_window(depth);
	if (depth->phase == DEPTH_NEAR)
		return end_near_window(depth, ns);

	if (depth->windows >= SETTLING_WINDOWS)
		depth->timed[depth->windows - SETTLING_WINDOWS] = ns;
	depth->windows++;

	if (depth->phase == DEPTH_TRIAL &&
		ns_since(depth->phase_start, now) > PHASE_WINDOWS * depth->far_ns)
	{
		depth_settle(depth);
		return true;
	}
	if (depth->windows < PHASE_WINDOWS)
		return false;
	return depth->phase == DEPTH_FAR ? end_far(depth) : end_trial(depth);
}

/*
 * depth_ahead
 *		How many buffers the stream shall look ahead now, 0 for no limit but the
 *		server's.
 */
int
depth_ahead(const Depth *depth)
{
	const RingOptions *options = ring_options(depth->ring);

	return depth->phase == DEPTH_TRIAL || depth->phase == DEPTH_NEAR ?
		options->near_ahead : options->max_ahead;
}
