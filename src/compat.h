/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between server majors, in one place.
 *
 * Each difference has a name here, which the other files use.  No other file
 * asks for PG_VERSION_NUM.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_COMPAT_H
#define RINGCTL_COMPAT_H

#if PG_VERSION_NUM < 170000
#error "pg_ringctl needs PostgreSQL 17 or later"
#endif

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/dsm_registry.h"
#include "storage/lwlock.h"
#include "storage/read_stream.h"
#include "utils/spccache.h"
#if PG_VERSION_NUM >= 180000
#include "storage/aio.h"
#endif

/* From 18 on, a module can tell its name and version. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_MODULE_MAGIC(module, module_version) \
	PG_MODULE_MAGIC_EXT(.name = module, .version = module_version)
#else
#define COMPAT_MODULE_MAGIC(module, module_version) \
	PG_MODULE_MAGIC
#endif

/* ExecutorRun() lost execute_once in 18. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_RUN_PARAMS	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define COMPAT_RUN_ARGS		queryDesc, direction, count
#else
#define COMPAT_RUN_PARAMS	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define COMPAT_RUN_ARGS		queryDesc, direction, count, execute_once
#endif

/* In 19, CLUSTER is a form of REPACK. */
#if PG_VERSION_NUM >= 190000
#define COMPAT_CLUSTER_STMT		T_RepackStmt
#else
#define COMPAT_CLUSTER_STMT		T_ClusterStmt
#endif

/*
 * The hook that is called when the planner makes the RelOptInfo of a relation.
 */
#if PG_VERSION_NUM >= 190000
#include "optimizer/pathnode.h"
typedef build_simple_rel_hook_type compat_relation_hook_type;
#define compat_relation_hook	build_simple_rel_hook
#define COMPAT_RELATION_HOOK_PARAMS	PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define COMPAT_RELATION_HOOK_ARGS	root, rel, rte
#define COMPAT_RELATION_HOOK_RELID	rte->relid
#define COMPAT_RELATION_HOOK_INHERITS	rte->inh
#else
#include "optimizer/plancat.h"
typedef get_relation_info_hook_type compat_relation_hook_type;
#define compat_relation_hook	get_relation_info_hook
#define COMPAT_RELATION_HOOK_PARAMS	PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel
#define COMPAT_RELATION_HOOK_ARGS	root, relid, inhparent, rel
#define COMPAT_RELATION_HOOK_RELID	relid
#define COMPAT_RELATION_HOOK_INHERITS	inhparent
#endif

/* Does COPY TO take a partitioned table?  From 19 on it does. */
#define COMPAT_COPIES_PARTITIONED	(PG_VERSION_NUM >= 190000)

/* A buffer's state word grew to 64 bits in 19. */
#if PG_VERSION_NUM >= 190000
typedef uint64 compat_buf_state;
#define compat_read_buf_state(desc)	pg_atomic_read_u64(&(desc)->state)
#else
typedef uint32 compat_buf_state;
#define compat_read_buf_state(desc)	pg_atomic_read_u32(&(desc)->state)
#endif

/* In 19, UnlockBufHdr() does not take the state any more. */
#if PG_VERSION_NUM >= 190000
#define compat_unlock_buf_header(desc, state) \
	((void) (state), UnlockBufHdr(desc))
#else
#define compat_unlock_buf_header(desc, state)	UnlockBufHdr(desc, state)
#endif

/* The path of the first file of a permanent relation's main fork; palloc'd. */
#if PG_VERSION_NUM >= 180000
#define compat_relation_path(locator) \
	pstrdup(relpathperm(locator, MAIN_FORKNUM).str)
#else
#define compat_relation_path(locator)	relpathperm(locator, MAIN_FORKNUM)
#endif

/*
 * From 18 on, EvictUnpinnedBuffer() tells whether it had to write the buffer.
 * For 17, the caller says in "dirty" whether the buffer was dirty.
 */
#if PG_VERSION_NUM >= 180000
#define compat_evict_unpinned_buffer(buffer, dirty, flushed) \
	EvictUnpinnedBuffer(buffer, flushed)
#else
#define compat_evict_unpinned_buffer(buffer, dirty, flushed) \
	(EvictUnpinnedBuffer(buffer) && (*(flushed) = (dirty), true))
#endif

/*
 * From 18 on, a module can add options to EXPLAIN.  From 19 on, auto_explain
 * can use them.
 */
#if PG_VERSION_NUM >= 180000
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "commands/defrem.h"
#define COMPAT_EXPLAIN_OPTIONS
#endif
#if PG_VERSION_NUM >= 190000
#define compat_register_explain_option(name, handler) \
	RegisterExtensionExplainOption(name, handler, GUCCheckBooleanExplainOption)
#elif PG_VERSION_NUM >= 180000
#define compat_register_explain_option(name, handler) \
	RegisterExtensionExplainOption(name, handler)
#endif

/*
 * From 18 on, a stream may stage several I/Os before it submits them.  A
 * callback of the stream that may block must submit them first.
 */
#if PG_VERSION_NUM >= 180000
#define COMPAT_READ_STREAM_BATCHING	READ_STREAM_USE_BATCHING
#define compat_submit_staged()		pgaio_submit_staged()
#else
#define COMPAT_READ_STREAM_BATCHING	0
#define compat_submit_staged()		((void) 0)
#endif

/*
 * How many buffers may a stream over this relation look ahead, if no strategy
 * limits it?  maintenance: is the stream for maintenance?  The result is at
 * most the number of buffers that this backend may pin.  From 18 on, the
 * server allows one read more than may be in progress at once.  In 17 the
 * result is one read, because a stream with sequential access looks no farther
 * ahead.  (In 17 a stream with random access may look farther ahead.)
 */
static inline int
compat_lookahead_limit(Relation rel pg_attribute_unused(),
					   bool maintenance pg_attribute_unused())
{
#if PG_VERSION_NUM >= 180000
	Oid			space = rel->rd_rel->reltablespace;
	int64		reads = maintenance ? get_tablespace_maintenance_io_concurrency(space) :
		get_tablespace_io_concurrency(space);
	int64		limit = Min((reads + 1) * io_combine_limit, GetPinLimit());
#else
	uint32		limit = io_combine_limit;

	LimitAdditionalPins(&limit);
#endif
	return (int) Max(1, Min(limit, PG_INT16_MAX));
}

/*
 * Does a stream that finds its blocks in shared_buffers lose the look-ahead
 * with which it could have several reads in progress?  In 18 it does.  But in
 * 17, and in 18 with io_method = sync, a stream with sequential access never
 * has more than one read in progress.  In 19 the stream goes on looking ahead
 * for a while.
 */
#if PG_VERSION_NUM >= 180000 && PG_VERSION_NUM < 190000
#define compat_found_blocks_end_look_ahead()	(io_method != IOMETHOD_SYNC)
#else
#define compat_found_blocks_end_look_ahead()	false
#endif

/*
 * Functions that begin a scan got the argument "flags" in 19.  Compute it as
 * plan nodes do.
 */
#if PG_VERSION_NUM >= 190000
static inline uint32
compat_scan_flags(ScanState *node)
{
	uint32		flags = SO_NONE;

	if (ScanRelIsReadOnly(node))
		flags |= SO_HINT_REL_READ_ONLY;
	if (node->ps.state->es_instrument & INSTRUMENT_IO)
		flags |= SO_SCAN_INSTRUMENT;
	return flags;
}
#define COMPAT_SCAN_FLAGS(node)	, compat_scan_flags(node)
#else
#define COMPAT_SCAN_FLAGS(node)
#endif

/* The options of an insertion became unsigned in 19. */
#if PG_VERSION_NUM >= 190000
typedef uint32 compat_insert_options;
#else
typedef int compat_insert_options;
#endif

/* 19 has no list of free buffers. */
#if PG_VERSION_NUM >= 190000
#define compat_have_free_buffer()	false
#else
#define compat_have_free_buffer()	have_free_buffer()
#endif

/* From 18 on a bitmap heap scan uses a read stream. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_BITMAP_STREAM

/* Begin a bitmap heap scan exactly as BitmapTableScanSetup() does. */
static inline TableScanDesc
compat_begin_bitmapscan(BitmapHeapScanState *node)
{
	return table_beginscan_bm(node->ss.ss_currentRelation,
							  node->ss.ps.state->es_snapshot,
							  0, NULL COMPAT_SCAN_FLAGS(&node->ss));
}
#endif

/* Begin a sequential scan exactly as SeqNext() does. */
static inline TableScanDesc
compat_begin_seqscan(SeqScanState *node)
{
	return table_beginscan(node->ss.ss_currentRelation,
						   node->ss.ps.state->es_snapshot,
						   0, NULL COMPAT_SCAN_FLAGS(&node->ss));
}

/*
 * Begin a scan as TidRangeNext() does, but with an empty range.  When the node
 * finds that its scan has begun, it sets the range itself.
 */
static inline TableScanDesc
compat_begin_tidrangescan(TidRangeScanState *node)
{
	ItemPointerData lowest;
	ItemPointerData highest;

	ItemPointerSet(&lowest, 0, 1);
	ItemPointerSet(&highest, 0, 0);
	return table_beginscan_tidrange(node->ss.ss_currentRelation,
									node->ss.ps.state->es_snapshot,
									&lowest, &highest COMPAT_SCAN_FLAGS(&node->ss));
}

/* The argument "instrument" of index_beginscan(), which 17 lacks. */
#if PG_VERSION_NUM >= 190000
#define COMPAT_INDEX_INSTRUMENT(instrument)	instrument,
#elif PG_VERSION_NUM >= 180000
#define COMPAT_INDEX_INSTRUMENT(instrument)	&(instrument),
#else
#define COMPAT_INDEX_INSTRUMENT(instrument)
#endif

/*
 * Begin an index scan exactly as IndexNext() does, and an index-only scan as
 * IndexOnlyNext() does, if the node has not begun it.
 */
static inline IndexScanDesc
compat_begin_indexscan(IndexScanState *node)
{
	if (node->iss_ScanDesc != NULL)
		return node->iss_ScanDesc;
	node->iss_ScanDesc =
		index_beginscan(node->ss.ss_currentRelation, node->iss_RelationDesc,
						node->ss.ps.state->es_snapshot,
						COMPAT_INDEX_INSTRUMENT(node->iss_Instrument)
						node->iss_NumScanKeys, node->iss_NumOrderByKeys
						COMPAT_SCAN_FLAGS(&node->ss));
	if (node->iss_NumRuntimeKeys == 0 || node->iss_RuntimeKeysReady)
		index_rescan(node->iss_ScanDesc, node->iss_ScanKeys, node->iss_NumScanKeys,
					 node->iss_OrderByKeys, node->iss_NumOrderByKeys);
	return node->iss_ScanDesc;
}

static inline IndexScanDesc
compat_begin_indexonlyscan(IndexOnlyScanState *node)
{
	if (node->ioss_ScanDesc != NULL)
		return node->ioss_ScanDesc;
	node->ioss_ScanDesc =
		index_beginscan(node->ss.ss_currentRelation, node->ioss_RelationDesc,
						node->ss.ps.state->es_snapshot,
						COMPAT_INDEX_INSTRUMENT(node->ioss_Instrument)
						node->ioss_NumScanKeys, node->ioss_NumOrderByKeys
						COMPAT_SCAN_FLAGS(&node->ss));
	node->ioss_ScanDesc->xs_want_itup = true;
	node->ioss_VMBuffer = InvalidBuffer;
	if (node->ioss_NumRuntimeKeys == 0 || node->ioss_RuntimeKeysReady)
		index_rescan(node->ioss_ScanDesc, node->ioss_ScanKeys, node->ioss_NumScanKeys,
					 node->ioss_OrderByKeys, node->ioss_NumOrderByKeys);
	return node->ioss_ScanDesc;
}

/* In 19 the scan's I/O statistics are collected by its stream. */
#if PG_VERSION_NUM >= 190000
static inline void
compat_instrument_stream(HeapScanDesc scan, ReadStream *stream)
{
	if (scan->rs_base.rs_flags & SO_SCAN_INSTRUMENT)
		read_stream_enable_stats(stream, &scan->rs_base.rs_instrument->io);
}
#else
#define compat_instrument_stream(scan, stream)	((void) 0)
#endif

/*
 * A process of a parallel scan begins: do what heap's own scan does, that is,
 * reset what this process knows of its chunk of blocks, and set the scan's
 * first block, unless another process has done so.  In 19, the caller can say
 * where the scan starts and how many blocks it reads.
 */
static inline void
compat_parallelscan_startblock_init(HeapScanDesc scan)
{
	ParallelBlockTableScanDesc bpscan =
		(ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;

#if PG_VERSION_NUM >= 190000
	table_block_parallelscan_startblock_init(scan->rs_base.rs_rd,
											 scan->rs_parallelworkerdata,
											 bpscan, scan->rs_startblock,
											 scan->rs_numblocks);
#else
	table_block_parallelscan_startblock_init(scan->rs_base.rs_rd,
											 scan->rs_parallelworkerdata,
											 bpscan);
#endif
}

/*
 * Does an index scan hold the buffer of this heap block already?  From 19 on
 * the scan knows the block's number.
 */
static inline bool
compat_fetch_holds_block(const IndexFetchHeapData *fetch, BlockNumber block)
{
#if PG_VERSION_NUM >= 190000
	return fetch->xs_blk == block;
#else
	return BufferIsValid(fetch->xs_cbuf) && BufferGetBlockNumber(fetch->xs_cbuf) == block;
#endif
}

/*
 * Let an index scan hold this pinned buffer of a heap block instead of the one
 * that it holds.  heapam_index_fetch_tuple() does the same when it has read a
 * block, and then prunes the page.
 */
static inline void
compat_fetch_set_buffer(IndexFetchHeapData *fetch, BlockNumber block pg_attribute_unused(),
						Buffer buffer)
{
	if (BufferIsValid(fetch->xs_cbuf))
		ReleaseBuffer(fetch->xs_cbuf);
	fetch->xs_cbuf = buffer;
#if PG_VERSION_NUM >= 190000
	fetch->xs_blk = block;
#endif
}

/* Prune the page that an index scan has just begun to hold. */
static inline void
compat_fetch_prune(IndexFetchHeapData *fetch)
{
#if PG_VERSION_NUM >= 190000
	heap_page_prune_opt(fetch->xs_base.rel, fetch->xs_cbuf, &fetch->xs_vmbuffer,
						(fetch->xs_base.flags & SO_HINT_REL_READ_ONLY) != 0);
#else
	heap_page_prune_opt(fetch->xs_base.rel, fetch->xs_cbuf);
#endif
}

/* The DSM registry's init callback got an argument in 19. */
#if PG_VERSION_NUM >= 190000
#define COMPAT_DSM_INIT_PARAMS	void *segment, void *arg pg_attribute_unused()
#define compat_named_dsm_segment(name, size, init, found) \
	GetNamedDSMSegment(name, size, init, found, NULL)
#else
#define COMPAT_DSM_INIT_PARAMS	void *segment
#define compat_named_dsm_segment(name, size, init, found) \
	GetNamedDSMSegment(name, size, init, found)
#endif

/*
 * In 19, all processes share the names of LWLock tranches.  Before, each
 * process had to register the name.
 */
#if PG_VERSION_NUM >= 190000
#define compat_new_tranche(name)			LWLockNewTrancheId(name)
#define compat_name_tranche(tranche, name)	((void) 0)
#else
#define compat_new_tranche(name)			LWLockNewTrancheId()
#define compat_name_tranche(tranche, name)	LWLockRegisterTranche(tranche, name)
#endif

#endif							/* RINGCTL_COMPAT_H */
