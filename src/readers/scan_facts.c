/*-------------------------------------------------------------------------
 *
 * scan_facts.c
 *	  What the scans of a query did, those in parallel workers included.
 *
 * A session remembers what the scans of its last statement did.  A parallel
 * worker, before it exits, tells the leader what its scans of the leader's
 * query did, but not those of functions that the worker called.  It does so by
 * entries in the leader's list in shared memory:
 *
 *	    lists, by the leader's ProcNumber
 *	    +-----+-----+-----+-----+
 *	    |     |  |  |     |     |
 *	    +-----+--|--+-----+-----+
 *	             v
 *	       PublishedFacts { gather, facts, next } -> PublishedFacts -> ...
 *
 * A leader may run several parallel queries at a time, and a query may have
 * several Gathers.  "gather" says to which Gather an entry belongs: it is the
 * handle of the segment of the Gather's parallel context, which the workers
 * and the leader know.  The leader waits for all workers of a query, and then
 * removes the entries of the query's Gathers from the list.  If a query fails,
 * its entries are removed when its memory is freed.  But if another parallel
 * query of the leader runs at that time, the entries stay until a parallel
 * query begins while no other one runs.  If a worker is started again, because
 * its Gather is rescanned, it adds to its old entry.
 *
 * A leader writes its pid into its list when it attaches.  A worker publishes
 * only if its leader's pid is there, because otherwise its entry would never
 * be removed.  If the leader fails to remove entries, it clears the pid.
 *
 * A statement is what the client sends in one message.  So the scans of
 * functions are usually remembered together with those of the query that
 * called the functions.  But if the query's portal stays open until the next
 * Bind message drops it, as in the extended protocol in a transaction block,
 * the query's own scans are remembered for the next statement, and those of
 * the functions are forgotten.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "compat.h"
#include "readers/scan_facts.h"
#include "shmem/area.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/memutils.h"

/*
 * A list with this number of entries, which take 190 kB, is full.  (Workers
 * that publish at the same time may each add one more.)
 */
#define MAX_PUBLISHED			1000

/*
 * All lists together take at most about an eighth of shared_room().  Entries
 * stay as long as their queries, so without this limit there might be no room
 * for statistics.
 */
#define MAX_PUBLISHED_IN_ALL	(shared_room() / 8 / sizeof(PublishedFacts))

/*
 * To find the entry of a worker and node, at most this number of entries are
 * searched, so that publishing stays cheap.  If the entry is not among them, a
 * second one is made for the same worker and node, and EXPLAIN adds the two.
 */
#define MAX_PUBLISHED_SEARCHED	256

/* What a worker has published about one node of a plan: an entry of a list. */
typedef struct PublishedFacts
{
	dsa_pointer next;
	dsm_handle	gather;
	ScanFacts	facts;
} PublishedFacts;

/* What the workers of one leader have published. */
typedef struct PublishedList
{
	LWLock		lock;
	int			leader_pid;		/* 0 if the leader does not remove entries */
	int			npublished;
	dsa_pointer published;		/* first entry */
} PublishedList;

typedef struct FactsPart
{
	pg_atomic_uint32 npublished;	/* in all lists */
	int			nlists;
	PublishedList lists[FLEXIBLE_ARRAY_MEMBER];
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

	pg_atomic_init_u32(&new->npublished, 0);
	new->nlists = MaxBackends;
	for (int i = 0; i < new->nlists; i++)
	{
		LWLockInitialize(&new->lists[i].lock, shared_tranche());
		new->lists[i].leader_pid = 0;
		new->lists[i].npublished = 0;
		new->lists[i].published = InvalidDsaPointer;
	}
}

static void discard_at_exit(void);

static void
attach_facts(void *arg pg_attribute_unused())
{
	shared_attach();
	part = shared_part(PART_FACTS,
					   offsetof(FactsPart, lists) + MaxBackends * sizeof(PublishedList),
					   init_facts);
	if (!IsParallelWorker() && MyProcNumber >= 0 && MyProcNumber < part->nlists)
	{
		shared_on_exit(discard_at_exit);
		part->lists[MyProcNumber].leader_pid = MyProcPid;
	}
}

/*
 * The list of this process's leader, or of the process itself if it is no
 * worker.  NULL if there is no shared memory, or no list for it.
 */
static PublishedList *
leader_list(void)
{
	ProcNumber	leader = ParallelLeaderProcNumber != INVALID_PROC_NUMBER ?
		ParallelLeaderProcNumber : MyProcNumber;

	if (part == NULL && !shared_try(attach_facts, NULL))
		return NULL;
	return leader >= 0 && leader < part->nlists ? &part->lists[leader] : NULL;
}

/* The entry of this Gather, node and worker; NULL if none is found. */
static PublishedFacts *
find_published(const PublishedList *list, dsm_handle gather, const ScanFacts *facts)
{
	dsa_pointer p = list->published;
	PublishedFacts *entry;

	for (int i = 0; i < MAX_PUBLISHED_SEARCHED && DsaPointerIsValid(p); i++, p = entry->next)
	{
		entry = dsa_get_address(shared_area(), p);
		if (entry->gather == gather && entry->facts.worker == facts->worker &&
			entry->facts.plan_node_id == facts->plan_node_id)
			return entry;
	}
	return NULL;
}

/*
 * Make an entry.  Returns an invalid pointer if there is no room.  In that
 * case the leader will not know what this worker did.
 */
static dsa_pointer
make_entry(void)
{
	dsa_pointer p;

	if (pg_atomic_read_u32(&part->npublished) >= MAX_PUBLISHED_IN_ALL)
		return InvalidDsaPointer;
	p = dsa_allocate_extended(shared_area(), sizeof(PublishedFacts), DSA_ALLOC_NO_OOM);
	if (DsaPointerIsValid(p))
		pg_atomic_fetch_add_u32(&part->npublished, 1);
	return p;
}

typedef struct PublishArgs
{
	PublishedList *list;
	dsm_handle	gather;
	const ScanFacts *facts;
} PublishArgs;

/*
 * Add to the entry of this worker and node, or make the entry.  No other
 * process makes this entry, so the lock can be released between search and
 * insertion.
 */
static void
publish(void *arg)
{
	const PublishArgs *args = arg;
	PublishedList *list = args->list;
	dsa_pointer p;
	PublishedFacts *entry;
	bool		full;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	full = list->npublished >= MAX_PUBLISHED;
	entry = find_published(list, args->gather, args->facts);
	if (entry != NULL)
		facts_add(&entry->facts, args->facts);
	LWLockRelease(&list->lock);
	if (entry != NULL || full)
		return;

	p = make_entry();
	if (!DsaPointerIsValid(p))
		return;
	entry = dsa_get_address(shared_area(), p);
	entry->gather = args->gather;
	entry->facts = *args->facts;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	entry->next = list->published;
	list->published = p;
	list->npublished++;
	LWLockRelease(&list->lock);
}

/*
 * facts_publish
 *		In a parallel worker: publish what a scan of the query did, for the
 *		leader to see.
 */
void
facts_publish(dsm_handle gather, const ScanFacts *facts)
{
	PublishArgs args = {leader_list(), gather, facts};

	if (args.list != NULL &&
		args.list->leader_pid == MyProc->lockGroupLeader->pid)
		shared_try(publish, &args);
}

/*
 * facts_add
 *		Add what was done for a scan to the sum of what was done for the scan
 *		earlier, or by other processes.
 */
void
facts_add(ScanFacts *sum, const ScanFacts *facts)
{
	/* Each process has its own ring.  Show the size of the largest one. */
	if (facts->nbuffers >= sum->nbuffers)
	{
		sum->nbuffers = facts->nbuffers;
		sum->source = facts->source;
	}

	sum->scans += facts->scans;
	sum->elapsed_ms += facts->elapsed_ms;
	ring_add_counts(&sum->counts, &facts->counts);
}

typedef struct CollectArgs
{
	PublishedList *list;
	dsm_handle	gather;
	int			plan_node_id;
	List	   *facts;
} CollectArgs;

static void
collect(void *arg)
{
	CollectArgs *args = arg;
	PublishedList *list = args->list;
	PublishedFacts *entry;

	LWLockAcquire(&list->lock, LW_SHARED);
	for (dsa_pointer p = list->published; DsaPointerIsValid(p); p = entry->next)
	{
		entry = dsa_get_address(shared_area(), p);
		if (entry->gather == args->gather &&
			(args->plan_node_id < 0 ||
			 entry->facts.plan_node_id == args->plan_node_id))
		{
			ScanFacts  *facts = palloc(sizeof(ScanFacts));

			*facts = entry->facts;
			args->facts = lappend(args->facts, facts);
		}
	}
	LWLockRelease(&list->lock);
}

/*
 * facts_of_workers
 *		In the leader: what the workers of the Gather have published so far
 *		about a node of the plan, or about all nodes if plan_node_id is -1.
 *		Returns a palloc'd list of palloc'd ScanFacts.
 */
List *
facts_of_workers(dsm_handle gather, int plan_node_id)
{
	CollectArgs args = {leader_list(), gather, plan_node_id, NIL};

	if (args.list != NULL)
		shared_try(collect, &args);
	return args.facts;
}

static void
discard(void *arg)
{
	const CollectArgs *args = arg;
	PublishedList *list = args->list;
	dsa_pointer *link = &list->published;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	while (DsaPointerIsValid(*link))
	{
		dsa_pointer p = *link;
		PublishedFacts *entry = dsa_get_address(shared_area(), p);

		if (args->gather == DSM_HANDLE_INVALID ||
			entry->gather == args->gather)
		{
			*link = entry->next;
			list->npublished--;
			dsa_free(shared_area(), p);
			pg_atomic_fetch_sub_u32(&part->npublished, 1);
		}
		else
			link = &entry->next;
	}
	LWLockRelease(&list->lock);
}

/*
 * facts_discard
 *		In the leader: remove what the workers of the Gather have published;
 *		DSM_HANDLE_INVALID stands for all Gathers.
 */
void
facts_discard(dsm_handle gather)
{
	CollectArgs args = {leader_list(), gather, -1, NIL};

	if (args.list != NULL)
		args.list->leader_pid = shared_try(discard, &args) &&
			!proc_exit_inprogress ? MyProcPid : 0;
}

/* The leader exits: remove what its workers have published. */
static void
discard_at_exit(void)
{
	facts_discard(DSM_HANDLE_INVALID);
}

/*
 * facts_remember
 *		Remember these facts of the session's current statement, and forget
 *		those of the previous statement.
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
		/* a procedure that runs for hours is only one statement */
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
 *		The ScanFacts of the last statement that had any.  The caller must not
 *		change them.  They are valid until the next facts_remember().
 */
List *
facts_remembered(void)
{
	return remembered;
}
