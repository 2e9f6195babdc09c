/*-------------------------------------------------------------------------
 *
 * prewarm.c
 *	  Read a relation, through a ring of a given size or without one.
 *
 * Without a ring this does what pg_prewarm does: it fills shared_buffers.
 * Through a ring it reads everything, and leaves nothing there but the ring:
 * it brings a relation into the operating system's cache at the speed of
 * asynchronous I/O, verifies its checksums, or measures.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "common/relpath.h"
#include "compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "params.h"
#include "policy.h"
#include "registry.h"
#include "relations.h"
#include "scan.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(pg_ringctl_prewarm);

typedef enum PrewarmMode
{
	PREWARM_PREFETCH,
	PREWARM_READ,
	PREWARM_BUFFER,
} PrewarmMode;

/* What is asked for. */
typedef struct PrewarmJob
{
	Relation	rel;
	Oid			lockedTable;	/* an index's table, locked too; or invalid */
	ForkNumber	forknum;
	PrewarmMode mode;
	int			ring_kb;
	int64		first_block;
	int64		last_block;		/* the last one to be read: first - 1 if none */
} PrewarmJob;

/* What came out. */
typedef struct PrewarmResult
{
	int64		blocks;
	int			ring_buffers;
	RingCounts	counts;			/* in buffer mode */
} PrewarmResult;

/* Reads the blocks of a range through a stream. */
typedef struct PrewarmReader
{
	Reader		reader;			/* must be first */
	BlockNumber next_block;
	BlockNumber last_exclusive;
} PrewarmReader;

/* Raise an error if an argument is null that may not be. */
static void
check_not_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"%s\" cannot be null", name)));
}

static PrewarmMode
parse_mode(const char *mode)
{
	if (strcmp(mode, "prefetch") == 0)
		return PREWARM_PREFETCH;
	if (strcmp(mode, "read") == 0)
		return PREWARM_READ;
	if (strcmp(mode, "buffer") == 0)
		return PREWARM_BUFFER;

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid prewarm mode: \"%s\"", mode),
			 errhint("Valid prewarm modes are \"prefetch\", \"read\", and \"buffer\".")));
	return PREWARM_BUFFER;		/* keep compiler quiet */
}

/* Raise an error if there can be no ring of this size in this mode. */
static void
check_ring(int ring_kb, PrewarmMode mode)
{
	if (ring_kb < -1 || ring_kb > RING_MAX_KB ||
		(ring_kb > 0 && ring_kb < RING_MIN_KB))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ring size must be -1, 0 or between %d kB and %d kB",
						RING_MIN_KB, RING_MAX_KB),
				 errhint("-1 is the ring that a sequential scan would get, 0 is no ring.")));

	if (ring_kb != 0 && mode != PREWARM_BUFFER)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only prewarm mode \"buffer\" can use a ring"),
				 errhint("The other modes do not read into shared buffers; set \"ring_kb\" to 0.")));

	if (ring_kb != 0 && !param_enabled)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot use a ring while pg_ringctl is switched off"),
				 errhint("Set \"%s\" to on, or read without a ring.", "pg_ringctl.enabled")));
}

/*
 * Open the relation and check that the user may read it.  For an index that is
 * decided by its table, which is locked first, as everybody does.
 */
static void
open_relation(PrewarmJob *job, Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	Oid			table = relid;
	AclResult	aclresult;

	job->lockedTable = InvalidOid;
	if (relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX)
	{
		table = job->lockedTable = IndexGetRelation(relid, true);
		if (OidIsValid(table))
			LockRelationOid(table, AccessShareLock);
	}

	job->rel = relations_open(relid, AccessShareLock);

	/* It may be another one than we looked up before it was locked. */
	if (table != relid &&
		(!OidIsValid(table) || table != IndexGetRelation(relid, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not find parent table of index \"%s\"",
						RelationGetRelationName(job->rel))));

	aclresult = pg_class_aclcheck(table, GetUserId(), ACL_SELECT);
	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, get_relkind_objtype(job->rel->rd_rel->relkind),
					   RelationGetRelationName(job->rel));
}

static void
close_relation(PrewarmJob *job)
{
	relation_close(job->rel, AccessShareLock);
	if (OidIsValid(job->lockedTable))
		UnlockRelationOid(job->lockedTable, AccessShareLock);
}

/* Raise an error if there is nothing on disk that we can read. */
static void
check_storage(PrewarmJob *job, const char *forkname)
{
	Relation	rel = job->rel;
	char		relkind = rel->rd_rel->relkind;
	bool		partitioned = relkind == RELKIND_PARTITIONED_TABLE ||
		relkind == RELKIND_PARTITIONED_INDEX;

	if (!RELKIND_HAS_STORAGE(relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" does not have storage",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind),
				 partitioned ? errhint("Name its partitions instead.") : 0));

	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));

	if (RelationUsesLocalBuffers(rel) && job->ring_kb != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read a temporary relation through a ring"),
				 errdetail("Temporary relations are not in shared buffers.")));

	if (!smgrexists(RelationGetSmgr(rel), job->forknum))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fork \"%s\" does not exist for relation \"%s\"",
						forkname, RelationGetRelationName(rel))));
}

/* Raise an error if a block, given as an argument, is not there. */
static int64
check_block(PrewarmJob *job, int64 block, int64 nblocks, const char *which)
{
	if (block < 0 || block >= nblocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s block number %lld is out of range",
						which, (long long) block),
				 errdetail("Fork \"%s\" of relation \"%s\" has %lld blocks; the first one is 0.",
						   forkNames[job->forknum],
						   RelationGetRelationName(job->rel),
						   (long long) nblocks)));
	return block;
}

/* Which blocks? */
static void
get_range(PrewarmJob *job, FunctionCallInfo fcinfo)
{
	int64		nblocks = RelationGetNumberOfBlocksInFork(job->rel, job->forknum);

	job->first_block = 0;
	job->last_block = nblocks - 1;

	if (!PG_ARGISNULL(4))
		job->first_block = check_block(job, PG_GETARG_INT64(4), nblocks, "starting");
	if (!PG_ARGISNULL(5))
		job->last_block = check_block(job, PG_GETARG_INT64(5), nblocks, "ending");

	if (!PG_ARGISNULL(4) && !PG_ARGISNULL(5) && job->last_block < job->first_block)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ending block number %lld is before starting block number %lld",
						(long long) job->last_block, (long long) job->first_block)));
}

/*
 * Check the arguments, open the relation, check what it is, and the range: in
 * this order, so that the first error is the one to mend first.
 */
static void
get_job(PrewarmJob *job, FunctionCallInfo fcinfo)
{
	char	   *forkname;

	check_not_null(fcinfo, 1, "ring_kb");
	check_not_null(fcinfo, 2, "mode");
	check_not_null(fcinfo, 3, "fork");

	job->ring_kb = PG_GETARG_INT32(1);
	job->mode = parse_mode(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	forkname = text_to_cstring(PG_GETARG_TEXT_PP(3));
	job->forknum = forkname_to_number(forkname);
	check_ring(job->ring_kb, job->mode);

	open_relation(job, PG_GETARG_OID(0));
	check_storage(job, forkname);
	get_range(job, fcinfo);
}

/* Hint the operating system to read the blocks, and don't wait for it. */
static int64
prefetch_blocks(const PrewarmJob *job)
{
#ifdef USE_PREFETCH
	for (int64 block = job->first_block; block <= job->last_block; block++)
	{
		CHECK_FOR_INTERRUPTS();
		PrefetchBuffer(job->rel, job->forknum, block);
	}
	return job->last_block - job->first_block + 1;
#else
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("prefetch is not supported by this build")));
	return 0;					/* keep compiler quiet */
#endif
}

/* Read the blocks, but not into shared buffers. */
static int64
read_blocks(const PrewarmJob *job)
{
	static PGIOAlignedBlock blockbuffer;

	for (int64 block = job->first_block; block <= job->last_block; block++)
	{
		CHECK_FOR_INTERRUPTS();
		smgrread(RelationGetSmgr(job->rel), job->forknum, block, blockbuffer.data);
	}
	return job->last_block - job->first_block + 1;
}

/* The stream's callback. */
static BlockNumber
next_block_of_range(ReadStream *stream pg_attribute_unused(), void *arg,
					void *per_buffer_data pg_attribute_unused())
{
	PrewarmReader *reader = (PrewarmReader *) arg;

	return reader->next_block < reader->last_exclusive ?
		reader->next_block++ : InvalidBlockNumber;
}

/* The ring that this job reads through. */
static void
choose_ring(const PrewarmJob *job, RingOptions *options)
{
	if (job->ring_kb < 0)
		policy_for_scan(job->rel, RelationGetNumberOfBlocks(job->rel),
						MODE_CONTROL, options, NULL);
	else
		policy_for_size(job->rel, job->ring_kb, options);
	options->alone = true;
}

/* Read the blocks into shared buffers, through a ring or without one. */
static void
buffer_blocks(const PrewarmJob *job, PrewarmResult *result)
{
	PrewarmReader *reader;
	ReadStream *stream;
	RingOptions options;
	Buffer		buffer;
	Ring	   *ring;

	scan_lend_finished();
	choose_ring(job, &options);

	reader = MemoryContextAllocZero(TopMemoryContext, sizeof(PrewarmReader));
	reader->next_block = job->first_block;
	reader->last_exclusive = job->last_block + 1;
	reader->reader.scans = 1;
	registry_begin_reader(&reader->reader, READER_PREWARM,
						  RelationGetRelid(job->rel), &options);
	ring = reader->reader.ring;
	registry_start_pass(&reader->reader, job->last_block - job->first_block + 1);

	stream = ring_begin_stream(ring,
							   READ_STREAM_MAINTENANCE | READ_STREAM_FULL |
							   COMPAT_READ_STREAM_BATCHING,
							   job->rel, job->forknum,
							   next_block_of_range, reader);
	while ((buffer = read_stream_next_buffer(stream, NULL)) != InvalidBuffer)
	{
		CHECK_FOR_INTERRUPTS();
		ReleaseBuffer(buffer);
		ring_consume_next(ring);
		result->blocks++;
	}
	registry_hide(&reader->reader);
	read_stream_end(stream);

	ring_forget_relation(ring);
	result->ring_buffers = ring_public(ring)->nbuffers;
	result->counts = *ring_counts(ring);
	registry_end_reader(&reader->reader);
}

static Datum
make_result(FunctionCallInfo fcinfo, PrewarmMode mode,
			const PrewarmResult *result, double elapsed_ms)
{
	const RingCounts *counts = &result->counts;
	int64		blks_read = counts->blks_read + counts->blks_unringed;
	TupleDesc	tupdesc;
	Datum		values[7];
	bool		nulls[7] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	values[0] = Int64GetDatum(result->blocks);
	values[1] = Int64GetDatum(result->blocks - blks_read);
	values[2] = Int64GetDatum(blks_read);
	values[3] = Int32GetDatum(result->ring_buffers);
	values[4] = Int64GetDatum(counts->reuses);
	values[5] = Int64GetDatum(counts->escapes_pinned + counts->escapes_dirty +
							  counts->escapes_adopted);
	values[6] = Float8GetDatum(elapsed_ms);

	/* The other modes know nothing of buffers. */
	for (int i = 1; i <= 5; i++)
		nulls[i] = (mode != PREWARM_BUFFER);

	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_prewarm(relation regclass, ring_kb integer, mode text, fork text,
 *					  first_block bigint, last_block bigint)
 *
 * Reads the blocks from first_block to last_block (null: from the first, to
 * the last) of a fork of the relation, and tells how many there were, how many
 * of them were found in shared buffers and how many read, what the ring did,
 * and how long it took, in ms.
 */
Datum
pg_ringctl_prewarm(PG_FUNCTION_ARGS)
{
	PrewarmJob	job;
	PrewarmResult result = {0};
	instr_time	start;
	instr_time	end;

	ring_require_server();
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	get_job(&job, fcinfo);

	INSTR_TIME_SET_CURRENT(start);
	switch (job.mode)
	{
		case PREWARM_PREFETCH:
			result.blocks = prefetch_blocks(&job);
			break;
		case PREWARM_READ:
			result.blocks = read_blocks(&job);
			break;
		case PREWARM_BUFFER:
			buffer_blocks(&job, &result);
			break;
	}
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);

	close_relation(&job);
	return make_result(fcinfo, job.mode, &result, INSTR_TIME_GET_MILLISEC(end));
}
