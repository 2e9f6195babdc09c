/*-------------------------------------------------------------------------
 *
 * scan_reader.h
 *	  The readers of scans, and their passes: see scan_reader.c.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SCAN_READER_H
#define RINGCTL_SCAN_READER_H

#include "access/heapam.h"
#include "nodes/execnodes.h"
#include "readers/reader.h"
#include "readers/scan_facts.h"
#include "sharing/sharing.h"

/* The readers of one running query or utility command: see scan_query.c. */
typedef struct QueryScans QueryScans;

/* Where an attached scan is in its pass: see scan_reader.c. */
typedef enum PassState
{
	PASS_IDLE,					/* no pass is in progress */
	PASS_READING,
	PASS_ASKED_ALL,				/* its stream knows that no block is left */
} PassState;

/* One scan that we attached to. */
typedef struct ScanReader
{
	Reader		reader;			/* must be first */
	QueryScans *query;
	dlist_node	running_node;	/* in the query's list, while in a pass */
	PlanState  *node;			/* valid while the query runs; NULL: the scan
								 * is a utility command's */
	int			plan_node_id;	/* -1: the scan has no node */
	bool		is_parallel;	/* processes share the node's blocks */
	bool		for_leader;		/* in a worker: is the scan in the leader's
								 * query, not in that of a function? */
	HeapScanDesc scan;			/* NULL: this is an index scan */
	PassState	pass;
	int			blocks_of_server;	/* blocks that the server has read of the
									 * pass that our stream is about to begin;
									 * else 0 */
	BlockNumber expected;		/* blocks that a pass is expected to read, or
								 * all of the relation for an index scan; 0:
								 * the scan descriptor says */
	BlockNumber reported;		/* the position reported last: see
								 * scan_stream.c */
	ScanDirection direction;	/* direction when it last asked for a block */
	bool		quiet;			/* has the pass started quietly, and not gone
								 * on since? */
	ShareScan  *share;			/* the scan's part in sharing; or NULL */
	bool		alone;			/* never share reads */
	int64		blocks_to_step; /* blocks until scan_share() must be called */
} ScanReader;

/*
 * The EState of the innermost query that runs now for a limited number of
 * rows, as a cursor's query does; or NULL.  It may only be compared: after an
 * error it may be that of a query that has failed (see run_and_pause()).
 */
extern const EState *scan_partial_query;

extern ScanReader *scan_begin_reader(ReaderKind kind, PlanState *ps,
									 const RingOptions *options);
extern ScanReader *scan_begin_reader_of_command(ReaderKind kind, const void *command,
												HeapScanDesc scan,
												const RingOptions *options);
extern void scan_begin_pass(ScanReader *reader);
extern void scan_begin_index_pass(ScanReader *reader);
extern BlockNumber scan_note_next_block(ScanReader *reader, BlockNumber block,
										BlockNumber start);
extern void scan_get_facts(ScanReader *reader, ScanFacts *facts);

/* For scan_query.c */
extern void scan_pause_reader(ScanReader *reader);
extern void scan_resume_reader(ScanReader *reader);
extern void scan_leave_reader(ScanReader *reader);
extern void scan_end_reader(ScanReader *reader);

/* Has the scan's first pass begun? */
static inline bool
scan_has_begun(const ScanReader *reader)
{
	return reader->reader.info.started != 0;
}

/* Distance from one block to another, going forward around the relation. */
static inline int64
blocks_between(BlockNumber from, BlockNumber to, BlockNumber nblocks)
{
	return to >= from ? to - from : (int64) nblocks - from + to;
}

#endif							/* RINGCTL_SCAN_READER_H */
