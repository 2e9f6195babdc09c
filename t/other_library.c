/*
 * A library that looks at rd_tableam, scans with heap_getnext(), puts a routine
 * of its own where it finds another one, and functions of its own into the
 * nodes of scans, and runs queries that it cleans up after: for
 * t/031_readers_in_use.pl.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(has_heaps_routine);
PG_FUNCTION_INFO_V1(scan_and_run);
PG_FUNCTION_INFO_V1(swap);
PG_FUNCTION_INFO_V1(scans_caught);
PG_FUNCTION_INFO_V1(use_function);
PG_FUNCTION_INFO_V1(run_with_cleanup);

void		_PG_init(void);

static const TableAmRoutine *found;
static TableAmRoutine ours;
static int	ncaught;

Datum
has_heaps_routine(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	bool		result = rel->rd_tableam == GetHeapamTableAmRoutine();

	table_close(rel, AccessShareLock);
	PG_RETURN_BOOL(result);
}

/*
 * The number of rows; run a command after the tenth of them.  The scan begins
 * as in table_beginscan(), whose arguments differ between the servers.
 */
Datum
scan_and_run(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	TableScanDesc scan = rel->rd_tableam->scan_begin(rel, GetActiveSnapshot(), 0, NULL, NULL,
													 SO_TYPE_SEQSCAN | SO_ALLOW_STRAT |
													 SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE);
	int			nrows = 0;

	SPI_connect();
	while (heap_getnext(scan, ForwardScanDirection) != NULL)
		if (++nrows == 10)
			SPI_execute(command, false, 0);
	SPI_finish();
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PG_RETURN_INT32(nrows);
}

static TableScanDesc
scan_begin(Relation rel, Snapshot snapshot, int nkeys, ScanKeyData *key,
		   ParallelTableScanDesc pscan, uint32 flags)
{
	ncaught++;
	rel->rd_tableam = found;
	return found->scan_begin(rel, snapshot, nkeys, key, pscan, flags);
}

/* The next scan of the table begins through us. */
Datum
swap(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);

	found = rel->rd_tableam;
	ours = *found;
	ours.scan_begin = scan_begin;
	rel->rd_tableam = &ours;
	table_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

Datum
scans_caught(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(ncaught);
}

static void
clean_up(int code, Datum arg)
{
}

/* Run a command in a block whose cleanup is also done if the process exits. */
Datum
run_with_cleanup(PG_FUNCTION_ARGS)
{
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(0));

	PG_ENSURE_ERROR_CLEANUP(clean_up, (Datum) 0);
	{
		SPI_connect();
		SPI_execute(command, true, 0);
		SPI_finish();
	}
	PG_END_ENSURE_ERROR_CLEANUP(clean_up, (Datum) 0);
	PG_RETURN_VOID();
}

#define FUNCTIONS	31

static ExecProcNodeMtd replaced[FUNCTIONS];
static int	used = -1;			/* number of the function that is put into
								 * nodes */
static ExecutorStart_hook_type prev_ExecutorStart;

#define WRAPPER(n) \
static TupleTableSlot * \
wrapper_##n(PlanState *ps) \
{ \
	return replaced[n](ps); \
}

WRAPPER(0)
WRAPPER(1)
WRAPPER(2)
WRAPPER(3)
WRAPPER(4)
WRAPPER(5)
WRAPPER(6)
WRAPPER(7)
WRAPPER(8)
WRAPPER(9)
WRAPPER(10)
WRAPPER(11)
WRAPPER(12)
WRAPPER(13)
WRAPPER(14)
WRAPPER(15)
WRAPPER(16)
WRAPPER(17)
WRAPPER(18)
WRAPPER(19)
WRAPPER(20)
WRAPPER(21)
WRAPPER(22)
WRAPPER(23)
WRAPPER(24)
WRAPPER(25)
WRAPPER(26)
WRAPPER(27)
WRAPPER(28)
WRAPPER(29)
WRAPPER(30)

static const ExecProcNodeMtd wrappers[FUNCTIONS] = {
	wrapper_0, wrapper_1, wrapper_2, wrapper_3, wrapper_4, wrapper_5,
	wrapper_6, wrapper_7, wrapper_8, wrapper_9, wrapper_10, wrapper_11,
	wrapper_12, wrapper_13, wrapper_14, wrapper_15, wrapper_16, wrapper_17,
	wrapper_18, wrapper_19, wrapper_20, wrapper_21, wrapper_22, wrapper_23,
	wrapper_24, wrapper_25, wrapper_26, wrapper_27, wrapper_28, wrapper_29,
	wrapper_30,
};

/* From now on scans at the top of a plan have this function; -1: their own. */
Datum
use_function(PG_FUNCTION_ARGS)
{
	used = PG_GETARG_INT32(0);
	PG_RETURN_VOID();
}

static void
executor_start(QueryDesc *queryDesc, int eflags)
{
	PlanState  *ps;

	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
	ps = queryDesc->planstate;
	if (used >= 0 && ps != NULL &&
		(IsA(ps, SeqScanState) || IsA(ps, TidRangeScanState) || IsA(ps, IndexScanState)))
	{
		replaced[used] = ps->ExecProcNodeReal;
		ps->ExecProcNodeReal = wrappers[used];
	}
}

void
_PG_init(void)
{
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}
