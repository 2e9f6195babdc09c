/*-------------------------------------------------------------------------
 *
 * facts.c
 *	  What the scans of a query did, also in its parallel workers.
 *
 * A session remembers what the scans of its last statement did.  What its
 * parallel workers did, they put into the leader's box in shared memory before
 * they exit:
 *
 *	    boxes, by the leader's ProcNumber
 *	    +-----+-----+-----+-----+
 *	    |     |  |  |     |     |
 *	    +-----+--|--+-----+-----+
 *	             v
 *	       Sheet { query, facts, next } -> Sheet -> ...
 *
 * The query is the handle of the parallel context's segment, which is all that
 * a worker and its leader both know: a leader may run several parallel queries
 * at a time.  The leader takes the sheets out when all workers of the query are
 * done, which it waits for.  Sheets of a query that failed are thrown away with
 * the next ones.  A worker that is started again, because its Gather is rescanned,
 * adds to the sheet that it finds.
 *
 * A leader that has found its box says so there: nobody else's sheets would ever
 * be taken out.  Nor would its own if it can't reach one: then it says so, too.
 *
 * A statement is what the client sent at a time, so what functions scanned is
 * remembered with the query that called them; of very many scans the last ones.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "compat.h"
#include "facts.h"
#include "shared.h"
#include "storage/proc.h"
#include "utils/memutils.h"

/* So many sheets are in a box at most: 20 MB. */
#define MAX_SHEETS			100000

/* So many of the newest are looked at for one of the same worker and node. */
#define MAX_SHEETS_SEARCHED	256

typedef struct Sheet
{
	dsa_pointer next;
	dsm_handle	query;
	ScanFacts	facts;
} Sheet;

typedef struct Box
{
	LWLock		lock;
	int			leader;			/* pid of the one that takes the sheets out */
	int			nsheets;
	dsa_pointer sheets;
} Box;

typedef struct FactsPart
{
	int			nboxes;
	Box			boxes[FLEXIBLE_ARRAY_MEMBER];
} FactsPart;

static FactsPart *part = NULL;

/* What the last statement's scans did. */
static MemoryContext remembered_context = NULL;
static List *remembered = NIL;
static TimestampTz remembered_statement = 0;

static void
init_facts(void *memory)
{
	FactsPart  *new = memory;

	new->nboxes = MaxBackends;
	for (int i = 0; i < new->nboxes; i++)
	{
		LWLockInitialize(&new->boxes[i].lock, shared_tranche());
		new->boxes[i].leader = 0;
		new->boxes[i].nsheets = 0;
		new->boxes[i].sheets = InvalidDsaPointer;
	}
}

static void
attach_facts(void *arg pg_attribute_unused())
{
	shared_attach();
	part = shared_part(PART_FACTS,
					   offsetof(FactsPart, boxes) + MaxBackends * sizeof(Box),
					   init_facts);
	if (!IsParallelWorker() && MyProcNumber >= 0 && MyProcNumber < part->nboxes)
		part->boxes[MyProcNumber].leader = MyProcPid;
}

/* The box of this process's leader; NULL if there is none. */
static Box *
leader_box(void)
{
	ProcNumber	leader = ParallelLeaderProcNumber != INVALID_PROC_NUMBER ?
		ParallelLeaderProcNumber : MyProcNumber;

	if (part == NULL && !shared_try(attach_facts, NULL))
		return NULL;
	return leader >= 0 && leader < part->nboxes ? &part->boxes[leader] : NULL;
}

/* The sheet of this query, node and worker; NULL if none is found. */
static Sheet *
find_sheet(const Box *box, dsm_handle query, const ScanFacts *facts)
{
	dsa_pointer p = box->sheets;
	Sheet	   *sheet;

	for (int i = 0; i < MAX_SHEETS_SEARCHED && DsaPointerIsValid(p); i++, p = sheet->next)
	{
		sheet = dsa_get_address(shared_area(), p);
		if (sheet->query == query && sheet->facts.worker == facts->worker &&
			sheet->facts.plan_node_id == facts->plan_node_id)
			return sheet;
	}
	return NULL;
}

typedef struct Delivery
{
	Box		   *box;
	dsm_handle	query;
	const ScanFacts *facts;
} Delivery;

/* Nobody else adds a sheet of this worker's meanwhile. */
static void
publish(void *arg)
{
	const Delivery *delivery = arg;
	Box		   *box = delivery->box;
	dsa_pointer p;
	Sheet	   *sheet;
	bool		full;

	LWLockAcquire(&box->lock, LW_EXCLUSIVE);
	full = box->nsheets >= MAX_SHEETS;
	sheet = find_sheet(box, delivery->query, delivery->facts);
	if (sheet != NULL)
		facts_add(&sheet->facts, delivery->facts);
	LWLockRelease(&box->lock);
	if (sheet != NULL || full)
		return;

	p = dsa_allocate(shared_area(), sizeof(Sheet));
	sheet = dsa_get_address(shared_area(), p);
	sheet->query = delivery->query;
	sheet->facts = *delivery->facts;

	LWLockAcquire(&box->lock, LW_EXCLUSIVE);
	sheet->next = box->sheets;
	box->sheets = p;
	box->nsheets++;
	LWLockRelease(&box->lock);
}

/*
 * facts_publish
 *		In a parallel worker: tell the leader what was done for its query.
 */
void
facts_publish(dsm_handle query, const ScanFacts *facts)
{
	Delivery	delivery = {leader_box(), query, facts};

	if (delivery.box != NULL &&
		delivery.box->leader == MyProc->lockGroupLeader->pid)
		shared_try(publish, &delivery);
}

/*
 * facts_add
 *		Add what was done for a scan to what was done before, or by others.
 */
void
facts_add(ScanFacts *sum, const ScanFacts *facts)
{
	/* Each process has a ring of its own: the largest is shown. */
	if (facts->nbuffers >= sum->nbuffers)
	{
		sum->nbuffers = facts->nbuffers;
		sum->source = facts->source;
	}

	sum->scans += facts->scans;
	sum->elapsed_ms += facts->elapsed_ms;
	ring_add_counts(&sum->counts, &facts->counts);
}

typedef struct Collection
{
	Box		   *box;
	dsm_handle	query;
	int			plan_node_id;
	List	   *facts;
} Collection;

static void
collect(void *arg)
{
	Collection *collection = arg;
	Box		   *box = collection->box;
	Sheet	   *sheet;

	LWLockAcquire(&box->lock, LW_SHARED);
	for (dsa_pointer p = box->sheets; DsaPointerIsValid(p); p = sheet->next)
	{
		sheet = dsa_get_address(shared_area(), p);
		if (sheet->query == collection->query &&
			(collection->plan_node_id < 0 ||
			 sheet->facts.plan_node_id == collection->plan_node_id))
		{
			ScanFacts  *facts = palloc(sizeof(ScanFacts));

			*facts = sheet->facts;
			collection->facts = lappend(collection->facts, facts);
		}
	}
	LWLockRelease(&box->lock);
}

/*
 * facts_of_workers
 *		In the leader: what the workers of the query have published so far
 *		about a node of its plan (-1: about all), as a palloc'd list of palloc'd
 *		ScanFacts.
 */
List *
facts_of_workers(dsm_handle query, int plan_node_id)
{
	Collection	collection = {leader_box(), query, plan_node_id, NIL};

	if (collection.box != NULL)
		shared_try(collect, &collection);
	return collection.facts;
}

static void
discard(void *arg)
{
	const Collection *collection = arg;
	Box		   *box = collection->box;
	dsa_pointer *link = &box->sheets;

	LWLockAcquire(&box->lock, LW_EXCLUSIVE);
	while (DsaPointerIsValid(*link))
	{
		dsa_pointer p = *link;
		Sheet	   *sheet = dsa_get_address(shared_area(), p);

		if (collection->query == DSM_HANDLE_INVALID ||
			sheet->query == collection->query)
		{
			*link = sheet->next;
			box->nsheets--;
			dsa_free(shared_area(), p);
		}
		else
			link = &sheet->next;
	}
	LWLockRelease(&box->lock);
}

/*
 * facts_discard
 *		In the leader: throw away what the workers of the query have published;
 *		DSM_HANDLE_INVALID stands for all queries.
 */
void
facts_discard(dsm_handle query)
{
	Collection	collection = {leader_box(), query, -1, NIL};

	if (collection.box != NULL)
		collection.box->leader = shared_try(discard, &collection) ? MyProcPid : 0;
}

/*
 * facts_remember
 *		Remember this with the session's current statement, and forget the
 *		last one's.
 */
void
facts_remember(const ScanFacts *facts)
{
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	MemoryContext oldcontext;
	ScanFacts  *copy;

	if (remembered_context == NULL)
		remembered_context = AllocSetContextCreate(TopMemoryContext,
												   "pg_ringctl last scans",
												   ALLOCSET_DEFAULT_SIZES);
	if (statement != remembered_statement)
	{
		remembered = NIL;
		MemoryContextReset(remembered_context);
		remembered_statement = statement;
	}
	if (list_length(remembered) >= MAX_REMEMBERED_SCANS)
	{
		/* a procedure that runs for hours is one statement */
		copy = linitial(remembered);
		remembered = list_delete_first(remembered);
		pfree(copy);
	}

	oldcontext = MemoryContextSwitchTo(remembered_context);
	copy = palloc(sizeof(ScanFacts));
	*copy = *facts;
	remembered = lappend(remembered, copy);
	MemoryContextSwitchTo(oldcontext);
}

/*
 * facts_remembered
 *		The ScanFacts of the last statement that had any; not to be changed.
 */
List *
facts_remembered(void)
{
	return remembered;
}
