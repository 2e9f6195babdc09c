/*-------------------------------------------------------------------------
 *
 * sql_rings.c
 *	  Show users the rings that are in use now.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/results.h"
#include "compat.h"
#include "funcapi.h"
#include "shmem/live_rings.h"
#include "ring/plan.h"
#include "readers/reader.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_ringctl_rings);
PG_FUNCTION_INFO_V1(pg_ringctl_ring_slots);

#define RINGS_COLUMNS	23
#define SLOTS_COLUMNS	13

static void
put_ring(ReturnSetInfo *rsinfo, const LiveView *view)
{
	const RingPublic *ring = &view->public;
	const RingCounts *counts = &ring->counts;
	Datum		values[RINGS_COLUMNS];
	bool		nulls[RINGS_COLUMNS] = {0};
	int			i = 0;

	values[i++] = Int64GetDatum(view->ringid);
	values[i++] = Int32GetDatum(view->pid);
	nulls[i] = (view->info.leader_pid == 0);
	values[i++] = Int32GetDatum(view->info.leader_pid);
	values[i++] = ObjectIdGetDatum(view->info.datid);
	values[i++] = ObjectIdGetDatum(view->info.relid);
	values[i++] = CStringGetTextDatum(reader_kind_name(view->info.kind));
	values[i++] = CStringGetTextDatum(plan_source_name(view->info.source));
	values[i++] = Int64GetDatum((int64) ring->nbuffers * KB_PER_BUFFER);
	values[i++] = Int32GetDatum(ring->nbuffers);
	values[i++] = Int32GetDatum(ring->occupied);
	nulls[i] = (ring->nbuffers == 0);
	values[i++] = Int32GetDatum(ring->current);

	/* The scan goes on while we read, so a difference may be negative. */
	values[i++] = Int64GetDatum(Max(0, counts->blocks - counts->consumed -
									counts->unconsumed));
	values[i++] = Int64GetDatum(view->info.blocks_total);
	values[i++] = Int64GetDatum(Max(0, counts->consumed - ring->consumed_before_pass));
	values[i++] = Int64GetDatum(counts->fills);
	values[i++] = Int64GetDatum(counts->reuses);
	values[i++] = Int64GetDatum(counts->escapes_pinned);
	values[i++] = Int64GetDatum(counts->escapes_dirty);
	values[i++] = Int64GetDatum(counts->escapes_adopted);
	values[i++] = Int64GetDatum(counts->blks_shared);
	values[i++] = Int64GetDatum(counts->share_waits);
	values[i++] = Float8GetDatum(counts->share_wait_us / 1000.0);
	values[i++] = TimestampTzGetDatum(view->info.started);
	Assert(i == RINGS_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_rings()
 *
 * Returns one row for each reader, of whatever session, if the reader reads
 * now and is shown (live_rings.c), with its ring if it has one.  No session
 * waits for this function.
 */
Datum
pg_ringctl_rings(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, RINGS_COLUMNS);

	reader_attach_shared();
	foreach_ptr(LiveView, view, live_read(0, false))
		put_ring(rsinfo, view);
	return (Datum) 0;
}

static void
put_slot(ReturnSetInfo *rsinfo, const LiveView *view, int slotno)
{
	const RingSlot *slot = &view->slots[slotno];
	Datum		values[SLOTS_COLUMNS] = {0};
	bool		nulls[SLOTS_COLUMNS] = {0};
	bool		empty;
	bool		has_own;
	int			i = 0;

	/* The buffer number may also be invalid because the slot is changing. */
	empty = slot->buffer <= 0 || slot->buffer > NBuffers;

	/* A lent buffer may have come with a page of another relation. */
	has_own = !empty && slot_has_page(slot) && slot->state != SLOT_LOST &&
		slot->relid == view->info.relid;

	values[i++] = Int64GetDatum(view->ringid);
	values[i++] = Int32GetDatum(view->pid);
	values[i++] = ObjectIdGetDatum(view->info.datid);
	values[i++] = ObjectIdGetDatum(view->info.relid);
	nulls[i] = !has_own;
	values[i++] = Int16GetDatum(BufTagGetForkNum(&slot->tag));
	values[i++] = Int32GetDatum(slotno);
	if (empty)
		memset(&nulls[i], true, 6 * sizeof(bool));
	else
	{
		BufferDesc *header = GetBufferDescriptor(slot->buffer - 1);
		compat_buf_state state = compat_read_buf_state(header);

		values[i] = Int32GetDatum(slot->buffer);
		values[i + 1] = Int64GetDatum((int64) slot->tag.blockNum);
		nulls[i + 1] = !has_own;
		values[i + 2] = BoolGetDatum(has_own && slot_holds_page(slot));
		values[i + 3] = BoolGetDatum((state & BM_DIRTY) != 0);
		values[i + 4] = Int16GetDatum(BUF_STATE_GET_USAGECOUNT(state));
		values[i + 5] = Int32GetDatum(BUF_STATE_GET_REFCOUNT(state));
	}
	i += 6;
	values[i++] = BoolGetDatum(slotno == view->public.current);
	Assert(i == SLOTS_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * pg_ringctl_ring_slots()
 * pg_ringctl_ring_slots(pid integer)
 *
 * Returns one row for each slot of the rings of all processes, or of one.
 * There are no rows for a ring that is not shown, or whose slots are not in
 * its process's segment (see live_rings.c).
 */
Datum
pg_ringctl_ring_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	List	   *views = NIL;

	ring_require_server();
	rsinfo = results_begin_set(fcinfo, SLOTS_COLUMNS);

	reader_attach_shared();
	if (PG_NARGS() == 0)
		views = live_read(0, true);
	else if (PG_GETARG_INT32(0) > 0)
		views = live_read(PG_GETARG_INT32(0), true);

	foreach_ptr(LiveView, view, views)
	{
		for (int slot = 0; view->slots && slot < view->public.nbuffers; slot++)
		{
			CHECK_FOR_INTERRUPTS();
			put_slot(rsinfo, view, slot);
		}
	}
	return (Datum) 0;
}
