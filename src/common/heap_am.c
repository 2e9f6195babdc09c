/*-------------------------------------------------------------------------
 *
 * heap_am.c
 *	  Put functions of ours in the place of heap's, for one relation at a time.
 *
 * COPY, index builds, bulk loads and fetches of TOAST values use a table
 * without a plan node.  But they find the table access method's functions in
 * the table's relcache entry.  There a copy of heap's routine, with some
 * functions of ours, can take the place of heap's routine:
 *
 *	    relcache entry                  relcache entry
 *	    of a table that we swapped      of any other table
 *	    +------------+                  +------------+
 *	    | rd_tableam |--> our_routine   | rd_tableam |--> heap's routine
 *	    +------------+    |             +------------+
 *	                      +-- scan_begin         ours, then heap's
 *	                      +-- tuple_insert       ours, then heap's
 *	                      +-- multi_insert       ours, then heap's
 *	                      +-- index_fetch_tuple  ours, then heap's
 *	                      +-- all others         heap's
 *
 * There are two kinds of swaps:
 *
 * A. A catch is for the next scan, or the next bulk insertion, that begins.
 *	  Before that scan or insertion begins, heap's routine is put back, because
 *	  heap_getnext() refuses any other one.  So any scan that begins drops the
 *	  catch, even if the catch is for an insertion, or for another portal's
 *	  scan.  A catch holds no reference to the relcache entry, because ALTER
 *	  TABLE and other commands refuse to touch a table that has more references
 *	  than they expect.  So if the entry is invalidated, the catch is
 *	  forgotten, and the server does what it would do without us.  An entry
 *	  without references vanishes only by an invalidation, or by a drop; after
 *	  a drop the server processes an invalidation before anything looks at the
 *	  catch again.  (A server that was built with RELCACHE_FORCE_RELEASE is not
 *	  supported.)
 * B. A hold is for all tuples that index scans fetch from the table, until the
 *	  hold is released.  It does hold a reference, so that the entry stays
 *	  where it is.  If the entry is invalidated, it is rebuilt with heap's
 *	  routine, and we swap the routine again.  (There is one exception.  If the
 *	  abort of a subtransaction invalidates the entry, the entry is only
 *	  marked, and is rebuilt when it is next opened.  After that the hold has
 *	  no effect until the entry is invalidated again.)  If a scan of the table
 *	  begins, as for REINDEX, heap's routine is put back for good.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "common/heap_am.h"
#include "compat.h"
#include "lib/ilist.h"
#include "tcop/pquery.h"
#include "utils/memutils.h"

struct HeapAmSwap
{
	dlist_node	node;
	Relation	rel;
	Oid			relid;
	ScanBegunMtd on_scan;		/* a catch of a scan: called with that scan */
	InsertBegunMtd insert_begun;	/* a catch of an insertion: called with
									 * its state */
	Portal		portal;			/* a catch: portal that was active when it was
								 * made */
	uint64		number;			/* a catch: its number; catches are numbered
								 * from 1 as they are made */
	BeforeFetchMtd before_fetch;	/* a hold: called for each tuple */
	void	   *arg;
	ResourceOwner owner;		/* a hold: owner of the reference; NULL once
								 * the reference was given back */
};

static const TableAmRoutine *heap = NULL;
static TableAmRoutine our_routine;

dlist_head	heap_am_catches = DLIST_STATIC_INIT(heap_am_catches);
uint64		heap_am_ncatches_made = 0;
static dlist_head holds = DLIST_STATIC_INIT(holds);

static object_access_hook_type prev_object_access = NULL;
static bool hook_is_set = false;	/* is our hook there? */
static RelationMadeMtd on_creation = NULL;

/* --- The functions of our routine --- */

static HeapAmSwap *
find_swap(dlist_head *swaps, Relation rel)
{
	dlist_iter	iter;

	dlist_foreach(iter, swaps)
	{
		HeapAmSwap *swap = dlist_container(HeapAmSwap, node, iter.cur);

		if (swap->rel == rel)
			return swap;
	}
	return NULL;
}

/* No swap of the relation needs our routine any more. */
static void
swap_back(Relation rel)
{
	if (rel->rd_tableam == &our_routine)
		rel->rd_tableam = heap;
}

/* A relation has only one catch, so only a hold may still need our routine. */
static void
drop_catch(HeapAmSwap *swap)
{
	dlist_delete(&swap->node);
	if (find_swap(&holds, swap->rel) == NULL)
		swap_back(swap->rel);
	pfree(swap);
}

/*
 * From now on before_fetch() is not called for the relation.  A catch may
 * still need our routine.
 */
static void
end_hold(HeapAmSwap *swap)
{
	dlist_delete(&swap->node);
	if (find_swap(&heap_am_catches, swap->rel) == NULL)
		swap_back(swap->rel);
}

/* End a hold, and give its reference back. */
static void
let_go(HeapAmSwap *swap)
{
	ResourceOwner owner = CurrentResourceOwner;

	if (swap->owner == NULL)
		return;					/* the hold has ended already */
	end_hold(swap);
	CurrentResourceOwner = swap->owner;
	RelationDecrementReferenceCount(swap->rel);
	CurrentResourceOwner = owner;
	swap->owner = NULL;
}

/*
 * Is this the scan that is to be caught?  The scan of another portal is not: a
 * cursor may have been opened before the catch was made.  Nor are the scans of
 * ANALYZE and TABLESAMPLE.
 */
static bool
is_caught(const HeapAmSwap *swap, uint32 flags)
{
	return swap != NULL && swap->portal == ActivePortal &&
		(flags & SO_TYPE_SEQSCAN) != 0;
}

static TableScanDesc
our_scan_begin(Relation rel, Snapshot snapshot, int nkeys, ScanKeyData *key,
			   ParallelTableScanDesc pscan, uint32 flags)
{
	HeapAmSwap *swap = find_swap(&heap_am_catches, rel);
	HeapAmSwap *hold = find_swap(&holds, rel);
	ScanBegunMtd begun = is_caught(swap, flags) ? swap->on_scan : NULL;
	TableScanDesc scan;

	if (hold != NULL)
		let_go(hold);
	if (swap != NULL)
		drop_catch(swap);
	swap_back(rel);
	scan = heap->scan_begin(rel, snapshot, nkeys, key, pscan, flags);
	if (begun != NULL)
		begun(scan);
	return scan;
}

/*
 * A row is about to be inserted.  If this insertion is to be caught, call
 * back.  If the relation has our routine, but neither a catch nor a hold, give
 * it heap's again.  That happens if all relcache entries were invalidated at
 * once: heap_am_relation_changed() frees all catches, but the server keeps the
 * entry of a relation that this transaction has made or rewritten.
 */
static void
before_insertion(Relation rel, BulkInsertStateData *bistate)
{
	HeapAmSwap *swap = find_swap(&heap_am_catches, rel);
	InsertBegunMtd begun = swap ? swap->insert_begun : NULL;

	if (swap == NULL && find_swap(&holds, rel) == NULL)
		swap_back(rel);
	if (begun == NULL || bistate == NULL)
		return;
	drop_catch(swap);
	begun(bistate);
}

static void
our_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
				 compat_insert_options options, BulkInsertStateData *bistate)
{
	before_insertion(rel, bistate);
	heap->tuple_insert(rel, slot, cid, options, bistate);
}

static void
our_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
				 compat_insert_options options, BulkInsertStateData *bistate)
{
	before_insertion(rel, bistate);
	heap->multi_insert(rel, slots, nslots, cid, options, bistate);
}

static bool
our_index_fetch_tuple(IndexFetchTableData *scan, ItemPointer tid,
					  Snapshot snapshot, TupleTableSlot *slot,
					  bool *call_again, bool *all_dead)
{
	HeapAmSwap *swap = find_swap(&holds, scan->rel);

	if (swap != NULL)
	{
		/* find the hold at once for the next chunk of the value */
		dlist_move_head(&holds, &swap->node);
		if (!*call_again)
			swap->before_fetch(scan, tid, swap->arg);
	}
	return heap->index_fetch_tuple(scan, tid, snapshot, slot, call_again, all_dead);
}

/* --- Relations that are made or dropped --- */

/*
 * A relation is about to be dropped.  If we hold it, let go, so that our
 * reference does not prevent the drop.  A table that a query uses still
 * can't be dropped: the query has the table open, and the server refuses.
 */
static void
before_drop(Oid relid)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &holds)
	{
		HeapAmSwap *swap = dlist_container(HeapAmSwap, node, iter.cur);

		if (swap->relid == relid)
			let_go(swap);
	}
}

static void
ringctl_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, classId, objectId, subId, arg);
	if (classId != RelationRelationId)
		return;
	if (access == OAT_DROP)
		before_drop(objectId);
	else if (access == OAT_POST_CREATE && subId == 0 && on_creation != NULL)
		on_creation(objectId);
}

/*
 * Let the server tell us of objects as long as there is a hold, or
 * on_creation() is to be called.  At other times our hook must not be there:
 * if any object access hook is set, the server does more for each call of a
 * function that has its own search_path.  If another library has put its hook
 * before ours meanwhile, ours stays.
 */
static void
set_hook(void)
{
	bool		needed = on_creation != NULL || !dlist_is_empty(&holds);

	if (needed && !hook_is_set)
	{
		prev_object_access = object_access_hook;
		object_access_hook = ringctl_object_access;
		hook_is_set = true;
	}
	else if (!needed && object_access_hook == ringctl_object_access)
	{
		object_access_hook = prev_object_access;
		hook_is_set = false;
	}
}

/*
 * heap_am_watch_creation
 *		Call made() with each relation that this session makes from now on;
 *		NULL: stop that.
 *
 * (This is here because drops need the same hook.)
 */
void
heap_am_watch_creation(RelationMadeMtd made)
{
	on_creation = made;
	set_hook();
}

/* --- Swaps --- */

/*
 * heap_am_relation_changed
 *		A relcache entry was invalidated; InvalidOid stands for all of them.
 *		Called by policies.c, whose callback serves both files: a backend can
 *		register only a few.
 */
void
heap_am_relation_changed(Oid relid)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &heap_am_catches)
	{
		HeapAmSwap *swap = dlist_container(HeapAmSwap, node, iter.cur);

		if (relid == InvalidOid || relid == swap->relid)
		{
			dlist_delete(&swap->node);
			pfree(swap);
		}
	}
	dlist_foreach_modify(iter, &holds)
	{
		HeapAmSwap *swap = dlist_container(HeapAmSwap, node, iter.cur);

		if ((relid == InvalidOid || relid == swap->relid) &&
			swap->rel->rd_tableam == heap)
			swap->rel->rd_tableam = &our_routine;
	}
}

static void
make_routine(void)
{
	if (heap != NULL)
		return;
	heap = GetHeapamTableAmRoutine();
	our_routine = *heap;
	our_routine.scan_begin = our_scan_begin;
	our_routine.tuple_insert = our_tuple_insert;
	our_routine.multi_insert = our_multi_insert;
	our_routine.index_fetch_tuple = our_index_fetch_tuple;
}

/*
 * heap_am_is_heap
 *		Is the relation a heap, swapped or not?
 */
bool
heap_am_is_heap(Relation rel)
{
	return rel->rd_tableam == GetHeapamTableAmRoutine() ||
		rel->rd_tableam == &our_routine;
}

static HeapAmSwap *
make_swap(Relation rel)
{
	HeapAmSwap *swap;

	make_routine();
	swap = MemoryContextAllocZero(TopMemoryContext, sizeof(HeapAmSwap));
	swap->rel = rel;
	swap->relid = RelationGetRelid(rel);
	return swap;
}

/*
 * heap_am_catch
 *		Call on_scan() with the next scan of the relation, if it is a
 *		sequential scan, and if the active portal is still the same when it
 *		begins.  Or call insert_begun() with the state of the next bulk
 *		insertion into the relation, in whichever portal that is.  The other
 *		function is NULL.
 *
 * The relation is a heap, which the caller has locked.  If there is a catch
 * for the relation already, this has no effect.
 */
void
heap_am_catch(Relation rel, ScanBegunMtd on_scan, InsertBegunMtd insert_begun)
{
	HeapAmSwap *swap;

	Assert(heap_am_is_heap(rel));
	if (rel->rd_tableam == &our_routine && find_swap(&heap_am_catches, rel) != NULL)
		return;
	swap = make_swap(rel);
	swap->on_scan = on_scan;
	swap->insert_begun = insert_begun;
	swap->portal = ActivePortal;
	swap->number = ++heap_am_ncatches_made;
	dlist_push_tail(&heap_am_catches, &swap->node);
	rel->rd_tableam = &our_routine;
}

/*
 * heap_am_drop_catches
 *		Drop all catches of scans, because the next scan may not be the one
 *		that is to be caught.  Of the catches of insertions, drop those that
 *		were made since heap_am_ncatches_made had this value.
 */
void
heap_am_drop_catches(uint64 since)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &heap_am_catches)
	{
		HeapAmSwap *swap = dlist_container(HeapAmSwap, node, iter.cur);

		if (swap->on_scan != NULL || swap->number > since)
			drop_catch(swap);
	}
}

/*
 * heap_am_hold
 *		Call before_fetch() with arg before any index scan of this session
 *		fetches a tuple of the relation.
 *
 * The relation is a heap, which the caller has opened, and which has no hold
 * yet.  The hold has a reference to the relation, which belongs to the current
 * resource owner.  The caller must end the hold, and so free it, with
 * heap_am_release(), or with heap_am_forget() if the resource owner's query
 * fails.  If before that the relation is dropped or scanned, or CLUSTER
 * begins, before_fetch() is not called any more, but the hold must still be
 * ended.  If the abort of a subtransaction invalidates the relcache entry,
 * calls may stop for a while: see the top of this file.
 */
HeapAmSwap *
heap_am_hold(Relation rel, BeforeFetchMtd before_fetch, void *arg)
{
	HeapAmSwap *swap;

	Assert(heap_am_is_heap(rel));
	RelationIncrementReferenceCount(rel);
	swap = make_swap(rel);
	swap->before_fetch = before_fetch;
	swap->arg = arg;
	swap->owner = CurrentResourceOwner;
	dlist_push_head(&holds, &swap->node);
	set_hook();
	rel->rd_tableam = &our_routine;
	return swap;
}

/*
 * heap_am_let_go_of_all
 *		CLUSTER is about to begin, perhaps of a TOAST table.  It refuses a
 *		table that has more references than it expects, so give back those of
 *		all holds, as if the relations were dropped.
 */
void
heap_am_let_go_of_all(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &holds)
		let_go(dlist_container(HeapAmSwap, node, iter.cur));
}

/*
 * heap_am_release
 *		End a hold, and give its reference back.
 */
void
heap_am_release(HeapAmSwap *swap)
{
	let_go(swap);
	set_hook();
	pfree(swap);
}

/*
 * heap_am_forget
 *		End a hold whose resource owner is about to give the reference back.
 */
void
heap_am_forget(HeapAmSwap *swap)
{
	if (swap->owner != NULL)
		end_hold(swap);
	set_hook();
	pfree(swap);
}
