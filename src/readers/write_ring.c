/*-------------------------------------------------------------------------
 *
 * write_ring.c
 *	  The ring that bulk loads write through: pg_ringctl.write_ring.
 *
 * COPY FROM, CREATE TABLE AS and REFRESH MATERIALIZED VIEW write through a ring
 * of the server's, of 16 MB.  When a load begins to insert, its strategy is
 * replaced by one of another size:
 *
 *	  COPY t FROM			t is open: catch its insertion
 *	  CREATE TABLE AS,
 *	  REFRESH ...			the query's receiver starts, and has opened the new
 *							table: catch its insertion
 *
 * The strategy is the server's kind for bulk writes.  It reuses dirty buffers
 * itself, so there is nothing to tend, and what it does is not counted.
 *
 * COPY into a partitioned table opens the leaves when it has rows for them, where
 * we have no hook: they keep the server's ring.
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

/* What the receiver that is about to start does by itself. */
static void (*receiver_startup) (DestReceiver *self, int operation, TupleDesc typeinfo);
static const Oid *receiver_made;

/* A bulk insertion that was caught begins: give it a ring of the size that is set. */
static void
insertion_begun(BulkInsertStateData *bistate)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(GetMemoryChunkContext(bistate));

	FreeAccessStrategy(bistate->strategy);
	bistate->strategy = param_write_ring == 0 ? NULL :
		GetAccessStrategyWithSize(BAS_BULKWRITE, policy_capped_kb(param_write_ring));
	MemoryContextSwitchTo(oldcontext);
}

/*
 * write_ring_catch
 *		The relation, which is open and locked, is about to be loaded.
 */
void
write_ring_catch(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && policy_exclusion(rel) == NULL)
		heap_am_catch_insertion(rel, insertion_begun);
	RelationClose(rel);
}

/* The receiver starts: it makes or opens the table that it writes to. */
static void
start_receiver(DestReceiver *self, int operation, TupleDesc typeinfo)
{
	self->rStartup = receiver_startup;
	self->rStartup(self, operation, typeinfo);

	/*
	 * The table was made last, or before its TOAST table and the index of
	 * that.
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
 *		The query is about to run for a command that writes its rows to a new
 *		table.  made will have the relations that it made last.
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
