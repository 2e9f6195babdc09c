/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between server majors, in one place.
 *
 * Each difference gets a name of its own here and the code that is the same
 * for all majors uses that name.  No other file asks for PG_VERSION_NUM.
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
#include "storage/fd.h"
#include "storage/lwlock.h"
#include "storage/read_stream.h"
#include "utils/spccache.h"
#if PG_VERSION_NUM >= 180000
#include "storage/aio.h"
#endif

/* 18 lets a module tell its name and version. */
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

/* A buffer's state word grew to 64 bits in 19. */
#if PG_VERSION_NUM >= 190000
typedef uint64 compat_buf_state;
#define compat_read_buf_state(desc)	pg_atomic_read_u64(&(desc)->state)
#else
typedef uint32 compat_buf_state;
#define compat_read_buf_state(desc)	pg_atomic_read_u32(&(desc)->state)
#endif

/* So did locking a buffer's header; unlocking it without a change, too. */
#if PG_VERSION_NUM >= 190000
#define compat_unlock_buf_header(desc, state) \
	((void) (state), UnlockBufHdr(desc))
#else
#define compat_unlock_buf_header(desc, state)	UnlockBufHdr(desc, state)
#endif

/* 17 does not tell whether a buffer that it evicted had to be written before. */
#if PG_VERSION_NUM >= 180000
#define compat_evict_unpinned_buffer(buffer, dirty, flushed) \
	EvictUnpinnedBuffer(buffer, flushed)
#else
#define compat_evict_unpinned_buffer(buffer, dirty, flushed) \
	(EvictUnpinnedBuffer(buffer) && (*(flushed) = (dirty), true))
#endif

/*
 * From 18 on a module may add options to EXPLAIN; from 19 on auto_explain can
 * be told to use them.
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
 * From 18 on a stream may stage several I/Os before it submits them; who then
 * blocks in a stream's callback must submit them first.
 */
#if PG_VERSION_NUM >= 180000
#define COMPAT_READ_STREAM_BATCHING	READ_STREAM_USE_BATCHING
#define compat_submit_staged()		pgaio_submit_staged()
#else
#define COMPAT_READ_STREAM_BATCHING	0
#define compat_submit_staged()		((void) 0)
#endif

/*
 * How many reads a stream over this relation, one that does maintenance or
 * another, may have under way at once; 17 does one after the other.
 */
static inline int
compat_reads_at_once(Relation rel pg_attribute_unused(),
					 bool maintenance pg_attribute_unused())
{
#if PG_VERSION_NUM >= 180000
	Oid			space = rel->rd_rel->reltablespace;

	return maintenance ? get_tablespace_maintenance_io_concurrency(space) :
		get_tablespace_io_concurrency(space);
#else
	return 0;
#endif
}

/*
 * How many buffers it may look ahead, before a strategy limits it: one read
 * more.  17 never looks further than one read ahead where the access is
 * sequential.
 */
static inline int
compat_lookahead_limit(Relation rel, bool maintenance)
{
	int64		limit = ((int64) compat_reads_at_once(rel, maintenance) + 1) * io_combine_limit;

#if PG_VERSION_NUM >= 180000
	limit = Min(limit, GetPinLimit());
#else
	uint32		pins = (uint32) limit;

	LimitAdditionalPins(&pins);
	limit = pins;
#endif
	return (int) Max(1, Min(limit, PG_INT16_MAX));
}

/*
 * Does a read go on while the process does something else?  If not, looking
 * farther ahead than one read only makes the CPU's cache work.
 */
#if PG_VERSION_NUM >= 180000
#define compat_reads_are_asynchronous()	(io_method != IOMETHOD_SYNC)
#else
#define compat_reads_are_asynchronous()	false
#endif

/*
 * From how many reads ahead on may looking ahead cost more than it gains?  18
 * does not see where there is nothing to wait for; and its io_uring hands a read
 * through the operating system's cache to a kernel thread when more than four
 * are under way.
 */
#if PG_VERSION_NUM >= 190000 || PG_VERSION_NUM < 180000
#define compat_reads_that_cost()	PG_INT32_MAX
#else
#define compat_reads_that_cost() \
	(io_method > IOMETHOD_WORKER && (io_direct_flags & IO_DIRECT_DATA) == 0 ? 6 : PG_INT32_MAX)
#endif

/*
 * Does look-ahead come to an end where a stream reads nothing itself?  Not in
 * 19, where others are reading what it finds: it waits for these reads as for
 * its own.
 */
#if PG_VERSION_NUM >= 190000
#define compat_hits_end_lookahead()	false
#else
#define compat_hits_end_lookahead()	true
#endif

/* Begin a sequential scan exactly as SeqNext() of this major does. */
static inline TableScanDesc
compat_begin_seqscan(SeqScanState *node)
{
	EState	   *estate = node->ss.ps.state;
#if PG_VERSION_NUM >= 190000
	uint32		flags = SO_NONE;

	if (ScanRelIsReadOnly(&node->ss))
		flags |= SO_HINT_REL_READ_ONLY;
	if (estate->es_instrument & INSTRUMENT_IO)
		flags |= SO_SCAN_INSTRUMENT;

	return table_beginscan(node->ss.ss_currentRelation, estate->es_snapshot,
						   0, NULL, flags);
#else
	return table_beginscan(node->ss.ss_currentRelation, estate->es_snapshot,
						   0, NULL);
#endif
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

/* 19 can be told where a parallel scan starts and ends. */
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

/* 19 shares the names of LWLock tranches, before each process told its own. */
#if PG_VERSION_NUM >= 190000
#define compat_new_tranche(name)			LWLockNewTrancheId(name)
#define compat_name_tranche(tranche, name)	((void) 0)
#else
#define compat_new_tranche(name)			LWLockNewTrancheId()
#define compat_name_tranche(tranche, name)	LWLockRegisterTranche(tranche, name)
#endif

#endif							/* RINGCTL_COMPAT_H */
