/*
 * A library that looks at rd_tableam, scans with heap_getnext(), and puts a
 * routine of its own where it finds another one: for t/031_readers_in_use.pl.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(has_heaps_routine);
PG_FUNCTION_INFO_V1(scan_and_run);
PG_FUNCTION_INFO_V1(swap);
PG_FUNCTION_INFO_V1(scans_caught);

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
