/*-------------------------------------------------------------------------
 *
 * prewarm_blocks.c
 *	  Read the blocks of a list, in a better order than the list's.
 *
 *	  list -> window (block_order.c) -> read stream, ring (load.c) -> buffers
 *
 * The list names blocks that will be needed, for example those that an index
 * points to, or those that were in shared buffers before a restart.  The list
 * is an array of any length.  We go through it twice: once to check all
 * blocks, so that a wrong one raises an error before anything is read, and
 * once to read them.  How much memory we allocate, apart from the list itself,
 * depends on the window, not on the length of the list.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/arguments.h"
#include "common/results.h"
#include "funcapi.h"
#include "readers/load.h"
#include "miscadmin.h"
#include "ring/plan.h"
#include "readers/prewarm.h"
#include "shmem/progress.h"
#include "common/relations.h"
#include "readers/block_order.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(pg_ringctl_prewarm_blocks);

#define BLOCKS_RESULT_COLUMNS	(1 + PREWARM_RESULT_COLUMNS)

/* What a call of pg_ringctl_prewarm_blocks() asks for. */
typedef struct BlocksJob
{
	OpenRelation open;
	ArrayType  *list;
	int			ring_kb;
	int			window;
	ReorderMode mode;
	FitAction	fit;

	ArrayIterator iterator;		/* the rest of the list */
	Reorder    *reorder;		/* the window of blocks that wait */
	BlockNumber previous;		/* the block that was handed out last */
	int64		seek_distance;	/* sum of the distances from each block handed
								 * out to the next */
	int64		handed_out;		/* number of blocks handed out */
	int64		most;			/* number of blocks that may be handed out */
	int64		again;			/* number of blocks listed again while they
								 * waited, at the last report of progress */
	LoadResult	result;
} BlocksJob;

/* The values of "reorder". */
static const struct config_enum_entry reorder_modes[] = {
	{"zigzag", REORDER_ZIGZAG, false},
	{"sorted", REORDER_SORTED, false},
	{"none", REORDER_NONE, false},
	{NULL, 0, false}
};

/* The length of the list.  A block that is listed twice counts twice. */
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

/* The next block of the list; false if there is none. */
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
 * Raise an error if a listed block does not exist.  We hold a lock on the
 * relation, so the relation can't be truncated after this check.
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
 * Check the arguments, open the relation, check its kind, and check the
 * blocks, in this order, so that the first error is for what the user has to
 * correct first.
 */
static void
get_job(BlocksJob *job, FunctionCallInfo fcinfo)
{
	args_check_not_null(fcinfo, 1, "blocks");
	args_check_not_null(fcinfo, 3, "window_blocks");
	args_check_not_null(fcinfo, 4, "reorder");
	args_check_not_null(fcinfo, 5, "fit");

	job->ring_kb = prewarm_get_ring(fcinfo, 2);
	job->window = PG_GETARG_INT32(3);
	job->mode = args_parse_choice("reorder", text_to_cstring(PG_GETARG_TEXT_PP(4)), reorder_modes);
	job->fit = fit_parse(text_to_cstring(PG_GETARG_TEXT_PP(5)));
	prewarm_check_enabled(job->ring_kb);
	args_check_between("window_blocks", job->window, 1, REORDER_MAX_WINDOW);

	relations_open_to_read(&job->open, PG_GETARG_OID(0));
	relations_check_storage(job->open.rel, MAIN_FORKNUM, job->ring_kb > 0);
	relations_notice_children(job->open.rel, "pg_ringctl_prewarm_all");
	if (RelationUsesLocalBuffers(job->open.rel))
		job->fit = FIT_IGNORE;
	job->list = PG_GETARG_ARRAYTYPE_P(1);
	check_list(job);
	plan_notice_cap(job->ring_kb, count_listed(job));
}

/* The window's source. */
static BlockNumber
next_listed_block(void *arg)
{
	int64		block;

	return next_listed((BlocksJob *) arg, &block) ?
		(BlockNumber) block : InvalidBlockNumber;
}

/*
 * Report as done the blocks that were listed again while they waited: they are
 * not read a second time.  They do not count against "most".
 */
static void
report_again(BlocksJob *job)
{
	int64		again = reorder_again(job->reorder);

	if (again == job->again)
		return;
	progress_add(again - job->again);
	job->again = again;
	pgstat_progress_update_param(PROGRESS_TOTAL, Min(count_listed(job), job->most + again));
}

/* The stream's callback. */
static BlockNumber
next_block_of_window(ReadStream *stream pg_attribute_unused(), void *arg,
					 void *per_buffer_data pg_attribute_unused())
{
	BlocksJob  *job = (BlocksJob *) arg;
	BlockNumber block;

	if (job->handed_out == job->most)
		return InvalidBlockNumber;
	block = reorder_next(job->reorder);
	report_again(job);
	if (block != InvalidBlockNumber)
	{
		if (job->previous != InvalidBlockNumber)
			job->seek_distance += block > job->previous ?
				block - job->previous : job->previous - block;
		job->previous = block;
		job->handed_out++;
	}
	return block;
}

/* If there was no room for all blocks, tell how many were left out. */
static void
report_left_out(BlocksJob *job)
{
	FitBudget	fit = {.asked = job->handed_out,.granted = job->handed_out};

	if (job->handed_out < job->most)
		return;
	while (reorder_next(job->reorder) != InvalidBlockNumber)
		fit.asked++;
	fit_report_left_out(&fit);
}

/* Read the blocks into shared buffers, through a ring or without one. */
static void
buffer_blocks(void *arg)
{
	BlocksJob  *job = arg;
	int			length = count_listed(job);
	FitBudget	fit = {.action = job->fit};
	RingOptions options;

	if (length == 0)
		return;

	plan_for_prewarm(job->open.rel, job->ring_kb, &options);
	options.repeats_blocks = true;
	job->most = options.nbuffers > 0 ? length : fit_take(&fit, length);
	fit_warn(&fit, options.nbuffers > 0 ? 0 : length);

	pgstat_progress_update_param(PROGRESS_TOTAL, job->most);
	pgstat_progress_update_param(PROGRESS_PHASE, PHASE_READING);
	rewind_list(job);
	job->reorder = reorder_create(job->mode, Min(job->window, length),
								  next_listed_block, job);
	job->previous = InvalidBlockNumber;
	load_blocks(job->open.rel, MAIN_FORKNUM, &options, job->most,
				next_block_of_window, job, &job->result);
	report_left_out(job);
}

static Datum
make_result(TupleDesc tupdesc, const LoadResult *result, int64 seek_distance,
			double elapsed_time)
{
	Datum		values[BLOCKS_RESULT_COLUMNS];
	bool		nulls[BLOCKS_RESULT_COLUMNS] = {0};
	int			last = BLOCKS_RESULT_COLUMNS - 1;

	prewarm_put_result(result, elapsed_time, values);
	values[last] = values[last - 1];	/* elapsed_time comes last */
	values[last - 1] = Int64GetDatum(seek_distance);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * pg_ringctl_prewarm_blocks(relation regclass, blocks bigint[],
 *							 ring text, window_blocks integer,
 *							 reorder text, fit text)
 * pg_ringctl_prewarm_blocks(relation regclass, blocks bigint[],
 *							 ring bigint, ...)
 *
 * Reads the listed blocks of the relation's main fork, reordered within a
 * window.  Returns the number of blocks, how many were found in shared buffers
 * and how many were read, what the ring did, the sum of the distances from
 * each block to the next, and the elapsed time in ms.  fit: what to do if the
 * blocks do not fit into shared buffers.
 */
Datum
pg_ringctl_prewarm_blocks(PG_FUNCTION_ARGS)
{
	BlocksJob	job = {0};
	TupleDesc	tupdesc;
	double		elapsed_time;

	ring_require_server();
	tupdesc = results_row_type(fcinfo, BLOCKS_RESULT_COLUMNS);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	get_job(&job, fcinfo);

	elapsed_time = progress_run(COMMAND_PREWARM_BLOCKS, PG_GETARG_OID(0),
								buffer_blocks, &job);
	relations_close_read(&job.open);
	return make_result(tupdesc, &job.result, job.seek_distance, elapsed_time);
}
