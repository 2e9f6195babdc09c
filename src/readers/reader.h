/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  A reader of a relation, from its first block until it ends or fails.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_READER_H
#define RINGCTL_READER_H

#include "lib/ilist.h"
#include "shmem/live_rings.h"
#include "portability/instr_time.h"
#include "ring/ring.h"
#include "shmem/stats.h"
#include "utils/resowner.h"

/*
 * One reader of a relation.  If a kind of reader needs more members, its
 * struct has this one as its first member.
 */
typedef struct Reader
{
	dlist_node	node;			/* for the creator's use */
	Ring	   *ring;
	LiveInfo	info;			/* what other sessions see of the reader */
	uint64		ringid;
	ResourceOwner owner;		/* ends the reader if the query fails */
	void		(*failed) (struct Reader *reader);	/* the query failed */
	void		(*finished) (struct Reader *reader);	/* counts are final */
	void		(*lend) (struct Reader *reader);	/* see reader_may_lend() */
	dlist_node	lend_node;		/* in the session's list, if it may lend */
	int64		scans;			/* passes that this process counts as scans */
	int64		workers;		/* passes that this process ran as a worker */
	bool		running;		/* is its clock running? */
	instr_time	started;		/* when the clock was started, if it runs */
	instr_time	elapsed;		/* time that the clock ran, up to when it was
								 * last stopped */
} Reader;

extern void reader_attach_shared(void);
extern void *reader_make(MemoryContext context, Size size);
extern void reader_begin(Reader *reader, ReaderKind kind, Oid relid,
						 const RingOptions *options);
extern void reader_start_pass(Reader *reader, int64 blocks_total);
extern void reader_show_pass(Reader *reader, int64 blocks_total);
extern void reader_show(Reader *reader);
extern void reader_hide(Reader *reader);
extern void reader_end(Reader *reader);
extern void reader_may_lend(Reader *reader, bool may_lend);
extern void reader_lend_finished(void);
extern void reader_start_clock(Reader *reader);
extern void reader_stop_clock(Reader *reader);
extern void reader_count_scan(ReaderKind kind, Oid relid);
extern const char *reader_kind_name(int32 kind);

#endif							/* RINGCTL_READER_H */
