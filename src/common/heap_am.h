/*-------------------------------------------------------------------------
 *
 * heap_am.h
 *	  Put functions of ours in the place of heap's, for one relation at a time.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_HEAP_AM_H
#define RINGCTL_HEAP_AM_H

#include "access/hio.h"
#include "access/tableam.h"
#include "lib/ilist.h"
#include "utils/rel.h"
#include "utils/resowner.h"

/* Called with a scan that was caught, before the scan reads a block. */
typedef void (*ScanBegunMtd) (TableScanDesc scan);

/*
 * Called with the state of a bulk insertion that was caught, before the first
 * row is inserted.
 */
typedef void (*InsertBegunMtd) (BulkInsertStateData *bistate);

/* Called before heap fetches a tuple for an index scan: see heap_am_hold(). */
typedef void (*BeforeFetchMtd) (IndexFetchTableData *scan, ItemPointer tid, void *arg);

/* Called with a relation that was made: see heap_am_watch_creation(). */
typedef void (*RelationMadeMtd) (Oid relid);

/* A relation with functions of ours: see heap_am.c. */
typedef struct HeapAmSwap HeapAmSwap;

extern dlist_head heap_am_catches;

/* How many catches has this process made so far? */
extern uint64 heap_am_ncatches_made;

/*
 * heap_am_any_catch
 *		Is a scan, or an insertion, to be caught?  This is called at the start
 *		of every query and of every utility command.
 */
static inline bool
heap_am_any_catch(void)
{
	return !dlist_is_empty(&heap_am_catches);
}

extern void heap_am_watch_creation(RelationMadeMtd made);
extern void heap_am_relation_changed(Oid relid);
extern bool heap_am_is_heap(Relation rel);
extern void heap_am_catch(Relation rel, ScanBegunMtd on_scan, InsertBegunMtd insert_begun);
extern void heap_am_drop_catches(uint64 since);
extern HeapAmSwap *heap_am_hold(Relation rel, BeforeFetchMtd before_fetch, void *arg);
extern void heap_am_let_go_of_all(void);
extern void heap_am_release(HeapAmSwap *swap);
extern void heap_am_forget(HeapAmSwap *swap);

#endif							/* RINGCTL_HEAP_AM_H */
