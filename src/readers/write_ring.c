/*-------------------------------------------------------------------------
 *
 * write_ring.c
 *	  The ring that bulk loads write through: pg_ringctl.write_ring.
 *
 * COPY FROM, CREATE TABLE AS, and CREATE and REFRESH MATERIALIZED VIEW write
 * through a ring of the server, which has 16 MB, or an eighth of the pool if
 * that is less.  When a load begins to insert, we replace its strategy by one
 * of another size:
 *
 *	  COPY t FROM			t is open: catch its insertion
 *	  CREATE ... AS,
 *	  REFRESH ...			the query's receiver starts, and has opened the new
 *							table: catch its insertion
 *
 * Our strategy is of the server's type for bulk writes.  The server reuses the
 * dirty buffers of such a strategy, so there is nothing to tend, and nothing
 * is counted.
 *
 * COPY into a partitioned table opens each leaf when it has rows for the leaf.
 * There is no hook for us at that point, so the leaves keep the server's ring.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "common/heap_am.h"
#include "readers/write_ring.h"
#include "ring/plan.h"
#include "storage/bufmgr.h"
#include "tcop/dest.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

/*
 * The startup function of the receiver that is about to start, and the
 * last relations made by the receiver's command, newest first.
 */
static void (*receiver_startup) (DestReceiver *self, int operation, TupleDesc typeinfo);
static const Oid *receiver_made;

/*
 * A bulk insertion that was caught begins: give it a ring of the size that
 * pg_ringctl.write_ring says, or no ring if that is 0.  The ring gets no more
 * than max_ring, and no more than the server allows, which is an eighth of the
 * pool.  If max_ring leaves less than WRITE_RING_MIN_KB, the insertion keeps
 * the server's ring.
 */
static void
insertion_begun(BulkInsertStateData *bistate)
{
	int			kb = param_write_ring <= 0 ? 0 : plan_capped_kb(param_write_ring);
	MemoryContext oldcontext;

	/* The parameter may have been changed since the catch was made. */
	if (param_write_ring < 0 || (kb > 0 && kb < WRITE_RING_MIN_KB))
		return;
	oldcontext = MemoryContextSwitchTo(GetMemoryChunkContext(bistate));
	FreeAccessStrategy(bistate->strategy);
	bistate->strategy = kb == 0 ? NULL : GetAccessStrategyWithSize(BAS_BULKWRITE, kb);
	MemoryContextSwitchTo(oldcontext);
}

/*
 * write_ring_catch
 *		The relation, which is open and locked, is about to be loaded: let its
 *		next bulk insertion use the ring that pg_ringctl.write_ring asks for.
 */
void
write_ring_catch(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && plan_exclusion(rel) == NULL)
		heap_am_catch(rel, NULL, insertion_begun);
	RelationClose(rel);
}

/* The receiver starts: it makes or opens the table that it writes to. */
static void
start_receiver(DestReceiver *self, int operation, TupleDesc typeinfo)
{
	self->rStartup = receiver_startup;
	self->rStartup(self, operation, typeinfo);

	/*
	 * The table is the relation made last, or the one made before its TOAST
	 * table and that table's index.
	 */
	for (int i = 0; i < RELATIONS_OF_TABLE; i++)
	{
		char		relkind = get_rel_relkind(receiver_made[i]);

		if (relkind == RELKIND_RELATION || relkind == RELKIND_MATVIEW)
		{
			write_ring_catch(receiver_made[i]);
			break;
		}
	}
}

/*
 * write_ring_catch_at_startup
 *		The query is about to run for a command that writes the query's rows to
 *		a new table: call write_ring_catch() when that table is there.  made:
 *		where the last RELATIONS_OF_TABLE relations that the command has made
 *		will be noted, the newest first.
 */
void
write_ring_catch_at_startup(QueryDesc *queryDesc, const Oid *made)
{
	DestReceiver *receiver = queryDesc->dest;

	if (receiver->mydest != DestIntoRel && receiver->mydest != DestTransientRel)
		return;
	receiver_startup = receiver->rStartup;
	receiver_made = made;
	receiver->rStartup = start_receiver;
}
