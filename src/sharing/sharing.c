/*-------------------------------------------------------------------------
 *
 * sharing.c
 *	  Scans of one relation that run at the same time share their reads.
 *
 * The server begins a scan at the block that another scan of the relation has
 * last reported (syncscan.c).  From then on, each scan finds the pages in
 * shared_buffers that the other scan has read, as long as the two stay close
 * enough.  So each scan keeps in its ring the pages that other scans have not
 * reached yet, and the scan in front may wait for the last one.
 *
 *	    --- position ----------------------------------------------------->
 *	          C        B                            A
 *	          |<------------- behind -------------->|
 *	          |<---------------- window ------------------->|
 *
 *	    A and B keep in their rings the pages that they have read from C's
 *	    position on.  If A is more than 5/16 of a window in front of C, A may
 *	    wait.
 *
 * Sharing must never cost more than it saves:
 *
 * A. A scan joins the other scans when our stream has asked for
 *	  BLOCKS_PER_STEP blocks (scan_sharing.c).  It does not join if a node
 *	  above it in its process may stop it early.  No scan waits before it
 *	  begins.
 * B. Until a scan has measured that reads are expensive (sharing_cost.c), it
 *	  keeps no pages for other scans and does not wait for them.
 * C. If the scan that is too far behind read all blocks itself, its reads
 *	  would slow this scan down.  A scan waits for such a scan only if, by an
 *	  estimate, the wait costs it less time than that (sharing_cost.c, C).  The
 *	  length of a wait for a leader (H) is limited by F only.
 * D. A scan never waits for a scan of the same process or lock group (a
 *	  self-join, a leader and its workers).  Nor does it wait for a scan whose
 *	  process is in a wait of the class Client, Lock, IPC (except BufferIo),
 *	  Timeout (except SpinDelay), Activity or Extension.  A scan that was seen
 *	  waiting for one of these, except in share_nap(), does not wait for other
 *	  scans at all: the estimate takes all time in which the process had no
 *	  processor for time spent on reads, which is wrong for such a scan.
 * E. The processes of a parallel scan divide its blocks.  They keep pages for
 *	  other scans, but they do not wait, and other scans do not wait for them.
 *	  If one of them gets no processor for a while, only its present chunk of
 *	  blocks is late; the others go on with the rest of the relation.
 * F. All waits of a scan for other scans together take about a tenth of the
 *	  time that it runs without waiting, and a single wait takes about 10 ms at
 *	  most (sharing_cost.c, D).  So whatever has stopped the slower scan, the
 *	  wait is short.
 * G. The windows of all relations together are no more than one full window,
 *	  the window that a relation would have alone, so that scans of many
 *	  relations can't fill the pool.  (If the scans of a relation run in
 *	  several groups, far apart, each group has the relation's window.)  The
 *	  more relations have scans that share reads, the smaller the windows are;
 *	  if they would be smaller than a minimum, there are none.  Relations do
 *	  not count as long as fewer than two of their scans make steps.
 * H. In 18, if reads are asynchronous, one of the scans that ask for about the
 *	  same block leads, and the others follow: they wait until the leader has
 *	  asked for the blocks that they are about to ask for.  See below.
 *
 * Every BLOCKS_PER_STEP blocks a scan makes a step: it publishes its position
 * and looks at the other scans (members.c).  No scan waits for one that it
 * sees in share_nap(), so no two scans wait for each other for long.
 *
 * Why scans follow a leader: in PostgreSQL 18, a stream that finds blocks in
 * shared_buffers looks less far ahead, by one block for each block found.  If
 * two scans are at the same place, each overtakes the other one now and then,
 * and has to read blocks.  Before it looks far enough ahead to have several
 * reads in progress, it finds blocks that the other scan has read.  So there
 * is seldom more than one read in progress, and both scans take longer than
 * two scans that share nothing.  A scan that is always in front reads as fast
 * as if it were alone.
 *
 * What is not done: a scan is never moved to where another scan is, and no
 * scan waits for another one to begin.
 *
 * The ideas are those of synchronized scans (syncscan.c) and of the thread
 * "Buffer cache is not scan resistant" on pgsql-hackers.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "compat.h"
#include "ring/plan.h"
#include "sharing/members.h"
#include "sharing/sharing.h"
#include "sharing/sharing_cost.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

/* A scan may wait for one that is more than this number of blocks behind. */
#define MAX_APART(window)	((int64) (window) * 5 / 16)

/*
 * Stop keeping pages for a scan when it is more than 7/8 of a window behind.
 * At that distance the pages that the scan needs next are in the buffers that
 * the ring reuses next, and the scan would pin them.  Keep pages again when
 * the scan is less than 3/4 of a window behind; if both limits were the same,
 * a ring might drop and keep a whole window alternately.
 */
#define MAX_BEHIND(window)			((int64) (window) * 7 / 8)
#define MAX_BEHIND_AGAIN(window)	((int64) (window) * 3 / 4)

/* A wait consists of naps of this length: see share_nap(). */
#define NAP_US			200

struct ShareScan
{
	Member	   *member;
	Relation	rel;
	int			window;			/* blocks */
	int64		first_offset;	/* blocks from the scan's start to where it
								 * joined */
	int64		position;
	ShareState	state;			/* what it found when it last looked */
	Member	   *last;			/* scan for which it keeps the most pages; or
								 * NULL */

	ScanCost	cost;
};

static uint32 wait_event = 0;

/*
 * sharing_attach
 *		Attach this process; raises an error if that can't be done.
 */
void
sharing_attach(void)
{
	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("RingctlScanSharing");
	members_attach();
}

/* --- Joining and leaving --- */

/*
 * share_join
 *		A scan of the relation joins the other scans of the relation.  Returns
 *		the scan's part in sharing, palloc'd in the current memory context; or
 *		NULL if the array of members is full, or if this process could not
 *		attach.
 *
 * nblocks: size of the relation.  window: number of blocks that this scan can
 * keep for other scans.  parallel: is this a process of a parallel scan?
 * block: the block that the scan gets next.  offset: number of blocks from the
 * scan's first block to "block".  ahead: number of blocks from "block" to the
 * one that the scan asks for now.
 */
ShareScan *
share_join(Relation rel, BlockNumber nblocks, int window, bool parallel,
		   BlockNumber block, int64 offset, int64 ahead)
{
	ShareScan  *scan = palloc0(sizeof(ShareScan));

	scan->member = member_join(&rel->rd_locator, nblocks, window, parallel,
							   block, ahead);
	if (scan->member == NULL)
	{
		pfree(scan);
		return NULL;
	}
	scan->rel = rel;
	scan->window = window;
	scan->first_offset = offset;
	scan->position = scan->member->joined_position;
	cost_begin(&scan->cost, scan->position);
	return scan;
}

/*
 * share_leave
 *		The scan does not share reads any more: free its part in sharing.  Does
 *		not throw.
 */
void
share_leave(ShareScan *scan)
{
	member_leave(scan->member);
	pfree(scan);
}

/* --- Looking at the other scans --- */

/*
 * Does the member's process make progress, as far as its wait event tells?  A
 * process that waits for I/O, a buffer or a lightweight lock counts as making
 * progress.  A wait for the member can help only if its process makes
 * progress.  If the process waits for what D above names, remember that.
 */
static bool
is_running(Member *member)
{
	uint32		info = *(volatile uint32 *) &GetPGProcByNumber(member->proc)->wait_event_info;

	if (info == WAIT_EVENT_BUFFER_IO || info == WAIT_EVENT_SPIN_DELAY)
		return true;			/* it waits for I/O of another process, or for
								 * a spinlock */
	if (info == wait_event)
		return false;			/* it is in share_nap() itself */
	switch (info & 0xFF000000)
	{
		case PG_WAIT_LOCK:
		case PG_WAIT_CLIENT:
		case PG_WAIT_IPC:
		case PG_WAIT_TIMEOUT:
		case PG_WAIT_ACTIVITY:
		case PG_WAIT_EXTENSION:
			if (pg_atomic_read_u32(&member->waits_elsewhere) == 0)
				pg_atomic_write_u32(&member->waits_elsewhere, 1);
			return false;
		default:
			return true;
	}
}

/*
 * May this scan wait for the member, if the member is too far behind, or if it
 * leads (is_leader_of())?
 */
static inline bool
may_wait_for(const ShareScan *scan, Member *member)
{
	const Member *me = scan->member;

	return !me->parallel && !member->parallel &&
		member->lock_group != me->lock_group &&
		pg_atomic_read_u32(&scan->member->waits_elsewhere) == 0;
}

/*
 * Does the member, which is running, lead "me"?  ahead: the position of the
 * block that the member asks for, minus that of the block that "me" asks for.
 * Of two scans that ask for about the same block, the one that comes later in
 * the array leads, unless its process was seen waiting for what D above names.
 * So two scans never follow each other.
 */
static inline bool
is_leader_of(Member *member, const Member *me, int64 ahead)
{
	return member > me && i64abs(ahead) < BLOCKS_PER_STEP &&
		pg_atomic_read_u32(&member->waits_elsewhere) == 0;
}

/* The scan shares reads with no other scan now. */
static void
keep_nothing(ShareScan *scan)
{
	memset(&scan->state, 0, sizeof(ShareState));
	scan->last = NULL;
}

/* Look at the other scans.  The lock is held, in shared mode. */
static void
look_at_others(ShareScan *scan)
{
	Member	   *me = scan->member;
	int64		window = scan->window / Max(members_shared_relations(), 1);
	Member	   *last = NULL;
	int64		last_behind = 0;
	Member	   *awaited = NULL;
	int64		awaited_behind = 0;
	bool		has_leader = false;
	bool		finds_blocks = false;
	bool		follows;
	bool		too_far;

	if (window < MIN_SHARE_WINDOW)
	{
		keep_nothing(scan);
		return;
	}
	scan->state.shared = false;
	for (Member *member = member_next(me); member != me; member = member_next(member))
	{
		int64		behind = scan->position - position_of(member);
		bool		runs;
		int64		reach;
		int64		ahead;

		if (is_sibling(member, me) ||
			!same_size(member->nblocks, me->nblocks, scan->window))
			continue;
		runs = is_running(member);
		reach = member == scan->last ? MAX_BEHIND(window) : MAX_BEHIND_AGAIN(window);
		if (member == scan->last && behind > reach && !me->parallel)
			scan->state.scan_fell_behind = true;
		if (behind > reach || behind < -2 * window)
			continue;
		scan->state.shared = true;
		if (behind > last_behind)
		{
			last = member;
			last_behind = behind;
		}
		if (!runs || !may_wait_for(scan, member))
			continue;
		ahead = asked_by(member) - asked_by(me);
		has_leader |= is_leader_of(member, me, ahead);

		/*
		 * A scan that is at least a step ahead, but not too far, has asked
		 * for the blocks that this scan asks for next.  So this scan need not
		 * follow a leader.
		 */
		finds_blocks |= ahead >= BLOCKS_PER_STEP && -behind <= MAX_BEHIND(window);
		if (behind > awaited_behind)
		{
			awaited = member;
			awaited_behind = behind;
		}
	}

	scan->last = last;
	scan->state.blocks_to_keep = last_behind;
	follows = has_leader && !finds_blocks && compat_found_blocks_end_look_ahead();
	too_far = awaited != NULL && awaited_behind > MAX_APART(window) &&
		cost_wait_pays(&scan->cost, pg_atomic_read_u32(&me->pace_ns),
					   pg_atomic_read_u32(&awaited->pace_ns));
	scan->state.wait = (follows || too_far) && cost_may_wait(&scan->cost);
}

/*
 * Look at the other scans, if reads are expensive, and if the lock can be had
 * at once.
 */
static void
try_to_look(ShareScan *scan)
{
	if (!cost_reads_are_expensive(&scan->cost))
	{
		keep_nothing(scan);
		return;
	}
	if (!members_lock_to_look())
		return;
	look_at_others(scan);
	members_unlock();
}

/*
 * share_step
 *		The scan makes a step.  It asks for the block "asked" now, which is
 *		"ahead" blocks after the block that it gets next.  The block that it
 *		gets next is "offset" blocks from the scan's start.  Returns what the
 *		scan finds out about the other scans.
 */
const ShareState *
share_step(ShareScan *scan, BlockNumber asked, int64 offset, int64 ahead)
{
	Member	   *me = scan->member;
	int64		position = me->joined_position + offset - scan->first_offset;
	uint32		pace;

	scan->state.scan_fell_behind = scan->state.wait = false;
	if (scan->state.shared)
		scan->state.blocks_to_keep += position - scan->position;
	scan->position = position;
	pg_atomic_write_u64(&me->position, (uint64) position);
	pg_atomic_write_u64(&me->asked, (uint64) (position + ahead));
	pg_atomic_write_u32(&me->stepped_at, members_second());

	/* No other scan?  If one joins just now, the next step finds it. */
	if (pg_atomic_read_u32(&me->shared) == 0)
	{
		keep_nothing(scan);
		return &scan->state;
	}
	pace = cost_take_pace(&scan->cost, position);
	if (pace != 0)
		pg_atomic_write_u32(&me->pace_ns, pace);
	cost_probe(&scan->cost, scan->rel, asked);
	try_to_look(scan);
	return &scan->state;
}

/*
 * share_nap
 *		Nap for NAP_US, because share_step() has found that this may pay, and
 *		look at the other scans again.  Returns what the scan finds out: if
 *		"wait" is still set, call this again.  *waited_ms gets the time of the
 *		nap, in ms.  Raises an error if the query was cancelled.
 */
const ShareState *
share_nap(ShareScan *scan, double *waited_ms)
{
	instr_time	start;

	compat_submit_staged();
	INSTR_TIME_SET_CURRENT(start);
	pgstat_report_wait_start(wait_event);
	pg_usleep(NAP_US);
	pgstat_report_wait_end();
	CHECK_FOR_INTERRUPTS();
	*waited_ms = milliseconds_since(start);
	cost_note_wait(&scan->cost, *waited_ms);
	scan->state.wait = false;
	try_to_look(scan);
	return &scan->state;
}
