/*-------------------------------------------------------------------------
 *
 * blocks.c
 *	  Read the blocks of a list, in a better order than the list's.
 *
 *	  list --> window (reorder.c) --> read stream, ring (load.c) --> buffers
 *
 * The list is what somebody will need: the blocks that an index names, those
 * that were in shared buffers before a restart.  It is walked where it is, an
 * array as long as it may be, twice: once to check all of it, so that a bad
 * block is an error before anything is read, and once to read.  Nothing that
 * we allocate depends on its length.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "args.h"
#include "funcapi.h"
#include "load.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "prewarm.h"
#include "relations.h"
#include "reorder.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(pg_ringctl_prewarm_blocks);

/* What is asked for. */
typedef struct BlocksJob
{
	OpenRelation open;
	ArrayType  *list;
	int			ring_kb;
	int			window;
	ReorderMode mode;

	ArrayIterator iterator;		/* the rest of the list */
	Reorder    *reorder;		/* those of it that wait */
	BlockNumber previous;		/* the block that was asked for last */
	int64		seek_distance;	/* how far apart they were, all together */
} BlocksJob;

static ReorderMode
parse_mode(const char *mode)
{
	if (strcmp(mode, "none") == 0)
		return REORDER_NONE;
	if (strcmp(mode, "zigzag") == 0)
		return REORDER_ZIGZAG;
	if (strcmp(mode, "sorted") == 0)
		return REORDER_SORTED;

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid reorder mode: \"%s\"", mode),
			 errhint("Valid reorder modes are \"none\", \"zigzag\", and \"sorted\".")));
	return REORDER_NONE;		/* keep compiler quiet */
}

/* How many blocks are listed; those listed twice count twice. */
static int
count_listed(const BlocksJob *job)
{
	return ArrayGetNItems(ARR_NDIM(job->list), ARR_DIMS(job->list));
}

static void
rewind_list(BlocksJob *job)
{
	job->iterator = array_create_iterator(job->list, 0, NULL);
}

/* The next one of the list; false if there is none. */
static bool
next_listed(BlocksJob *job, int64 *block)
{
	Datum		value;
	bool		isnull;

	CHECK_FOR_INTERRUPTS();
	if (!array_iterate(job->iterator, &value, &isnull))
		return false;
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"%s\" cannot contain nulls", "blocks")));
	*block = DatumGetInt64(value);
	return true;
}

/*
 * Raise an error if a block is listed that is not there.  None can go away
 * after that, while we hold our lock.
 */
static void
check_list(BlocksJob *job)
{
	int64		nblocks = RelationGetNumberOfBlocks(job->open.rel);
	int64		block;

	rewind_list(job);
	while (next_listed(job, &block))
		prewarm_check_block(job->open.rel, MAIN_FORKNUM, block, nblocks, "block");
}

/*
 * Check the arguments, open the relation, check what it is, and the blocks: in
 * this order, so that the first error is the one to mend first.
 */
static void
get_job(BlocksJob *job, FunctionCallInfo fcinfo)
{
	args_check_not_null(fcinfo, 1, "blocks");
	args_check_not_null(fcinfo, 2, "ring_kb");
	args_check_not_null(fcinfo, 3, "window_blocks");
	args_check_not_null(fcinfo, 4, "reorder");

	job->ring_kb = PG_GETARG_INT32(2);
	job->window = PG_GETARG_INT32(3);
	job->mode = parse_mode(text_to_cstring(PG_GETARG_TEXT_PP(4)));
	prewarm_check_ring(job->ring_kb);
	prewarm_check_enabled(job->ring_kb);
	args_check_between("window_blocks", job->window, 1, REORDER_MAX_WINDOW);

	relations_open_to_read(&job->open, PG_GETARG_OID(0));
	relations_check_storage(job->open.rel, MAIN_FORKNUM, job->ring_kb != 0);
	job->list = PG_GETARG_ARRAYTYPE_P(1);
	check_list(job);
}

/* The window's source. */
static BlockNumber
next_listed_block(void *arg)
{
	int64		block;

	return next_listed((BlocksJob *) arg, &block) ?
		(BlockNumber) block : InvalidBlockNumber;
}

/* The stream's callback. */
static BlockNumber
next_block_of_window(ReadStream *stream pg_attribute_unused(), void *arg,
					 void *per_buffer_data pg_attribute_unused())
{
	BlocksJob  *job = (BlocksJob *) arg;
	BlockNumber block = reorder_next(job->reorder);

	if (block != InvalidBlockNumber)
	{
		if (job->previous != InvalidBlockNumber)
			job->seek_distance += block > job->previous ?
				block - job->previous : job->previous - block;
		job->previous = block;
	}
	return block;
}

/* Read the blocks into shared buffers, through a ring or without one. */
static void
buffer_blocks(BlocksJob *job, LoadResult *result)
{
	int			length = count_listed(job);
	RingOptions options;

	if (length == 0)
		return;

	rewind_list(job);
	job->reorder = reorder_create(job->mode, Min(job->window, length),
								  next_listed_block, job);
	job->previous = InvalidBlockNumber;
	job->seek_distance = 0;

	load_choose_ring(job->open.rel, job->ring_kb, &options);
	options.returns = true;
	load_blocks(job->open.rel, MAIN_FORKNUM, &options, length,
				next_block_of_window, job, result);
}

static Datum
make_result(FunctionCallInfo fcinfo, const LoadResult *result,
			int64 seek_distance, double elapsed_ms)
{
	int64		blks_read = ring_blocks_read(&result->counts);
	TupleDesc	tupdesc;
	Datum		values[5];
	bool		nulls[5] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	values[0] = Int64GetDatum(result->blocks);
	values[1] = Int64GetDatum(result->blocks - blks_read);
	values[2] = Int64GetDatum(blks_read);
	values[3] = Int64GetDatum(seek_distance);
	values[4] = Float8GetDatum(elapsed_ms);

	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_prewarm_blocks(relation regclass, blocks bigint[],
 *							 ring_kb integer, window_blocks integer,
 *							 reorder text)
 *
 * Reads the listed blocks of the relation's main fork, reordered within a
 * window, and tells how many were asked for, how many of them were found in
 * shared buffers and how many read, how far apart they were, one from the
 * next, all together, and how long it took, in ms.
 */
Datum
pg_ringctl_prewarm_blocks(PG_FUNCTION_ARGS)
{
	BlocksJob	job = {0};
	LoadResult	result = {0};
	instr_time	start;
	instr_time	end;

	ring_require_server();
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	get_job(&job, fcinfo);

	INSTR_TIME_SET_CURRENT(start);
	buffer_blocks(&job, &result);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);

	relations_close(&job.open);
	return make_result(fcinfo, &result, job.seek_distance,
					   INSTR_TIME_GET_MILLISEC(end));
}
