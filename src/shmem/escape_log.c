/*-------------------------------------------------------------------------
 *
 * escape_log.c
 *	  The log of buffers that escaped from a ring.
 *
 * The log is a circle of entries in shared memory: a new entry takes the place
 * of the oldest one.  The log is made when the first buffer escapes.
 *
 *	          written: the last number that was taken
 *	             |
 *	  +---+---+--v+---+---+---+---+
 *	  | 7 | 8 | 9 | 3 | 4 | 5 | 6 |    number: 1, 2, 3 ...; 0: being written
 *	  +---+---+---+---+---+---+---+
 *
 * When a buffer escapes from a scan's ring, the scan must not wait for readers
 * of the log or for other scans, so there is no lock.  A writer takes the next
 * number, which determines its entry.  The writer may write to the entry if it
 * can change the entry's number from an older one to 0.  When it has written
 * the entry, it sets the entry's number to the one that it took.  A reader
 * copies an entry, and checks that the entry's number has not changed
 * meanwhile.
 *
 * The log does not say whether a buffer still holds the page that it held when
 * it escaped.  Readers of the log have to look at the buffer.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "shmem/escape_log.h"
#include "shmem/area.h"
#include "storage/ipc.h"

/*
 * The log has an entry for each buffer, but at most this number (1.8 MB), and
 * it takes at most a quarter of the area's room.
 */
#define MAX_ENTRIES		32768

typedef struct LogEntry
{
	pg_atomic_uint64 number;	/* 0: being written, or empty */
	Escape		escape;
} LogEntry;

typedef struct EscapesPart
{
	pg_atomic_uint64 written;	/* the last number that was taken */
	pg_atomic_uint64 dropped;	/* entries overwritten, or not written */
	uint64		nentries;
	LogEntry	entries[FLEXIBLE_ARRAY_MEMBER];
} EscapesPart;

static EscapesPart *escapes = NULL;

static int
entries_wanted(void)
{
	return (int) Min(Min(NBuffers, MAX_ENTRIES), shared_room() / 4 / sizeof(LogEntry));
}

static void
init_escapes(void *part)
{
	EscapesPart *new = part;

	new->nentries = entries_wanted();
	pg_atomic_init_u64(&new->written, 0);
	pg_atomic_init_u64(&new->dropped, 0);
	for (uint64 i = 0; i < new->nentries; i++)
		pg_atomic_init_u64(&new->entries[i].number, 0);
}

/* Attach this process to the log, and make it if it is not there. */
static void
make_log(void *arg pg_attribute_unused())
{
	escapes = shared_part(PART_ESCAPES,
						  offsetof(EscapesPart, entries) +
						  entries_wanted() * sizeof(LogEntry),
						  init_escapes);
}

/* Is there a log?  If so, attach this process to it. */
static bool
has_log(void)
{
	if (escapes == NULL)
		escapes = shared_find_part(PART_ESCAPES);
	return escapes != NULL;
}

static LogEntry *
entry_of(uint64 number)
{
	return &escapes->entries[number % escapes->nentries];
}

/*
 * escapes_add
 *		Log that a buffer has escaped.  Takes a lock only to make the log or to
 *		attach to it.  Raises an error only if the query is cancelled at that
 *		time.
 *
 * Does nothing if this process has no shared memory.  If this process is not
 * attached to the log yet, also does nothing while it exits, because an error
 * could not be caught then, or while it aborts a transaction, because catching
 * an error might lose the error that is being reported.
 */
void
escapes_add(const Escape *escape)
{
	uint64		number;
	uint64		old;
	LogEntry   *entry;

	if (escapes == NULL &&
		(proc_exit_inprogress || !IsTransactionState() || shared_off_count() == NULL ||
		 !shared_try(make_log, NULL)))
		return;

	number = pg_atomic_add_fetch_u64(&escapes->written, 1);
	entry = entry_of(number);
	old = pg_atomic_read_u64(&entry->number);

	/*
	 * Give up if another writer has this entry: one that is a whole circle
	 * behind us, or ahead of us.
	 */
	if (old > number || (old == 0 && number > escapes->nentries) ||
		!pg_atomic_compare_exchange_u64(&entry->number, &old, 0))
	{
		pg_atomic_fetch_add_u64(&escapes->dropped, 1);
		return;
	}
	if (old > 0)
		pg_atomic_fetch_add_u64(&escapes->dropped, 1);

	entry->escape = *escape;
	pg_write_barrier();
	pg_atomic_write_u64(&entry->number, number);
}

/*
 * escapes_read
 *		Copy the entries, the newest first, to palloc'd *result, and return
 *		their number.  No session waits for this.
 */
int
escapes_read(Escape **result)
{
	uint64		number;
	uint64		oldest;
	int			n = 0;

	if (!has_log())
	{
		*result = palloc(sizeof(Escape));
		return 0;
	}
	number = pg_atomic_read_u64(&escapes->written);
	oldest = number < escapes->nentries ? 1 : number - escapes->nentries + 1;
	*result = palloc(escapes->nentries * sizeof(Escape));

	for (; number >= oldest; number--)
	{
		LogEntry   *entry = entry_of(number);

		if (pg_atomic_read_u64(&entry->number) != number)
			continue;
		pg_read_barrier();
		(*result)[n] = entry->escape;
		pg_read_barrier();
		if (pg_atomic_read_u64(&entry->number) == number)
			n++;
	}
	return n;
}

/* Number of entries that were overwritten, or not written. */
int64
escapes_dropped(void)
{
	return has_log() ? pg_atomic_read_u64(&escapes->dropped) : 0;
}

/* Reset the number of dropped entries to zero. */
void
escapes_reset_dropped(void)
{
	if (has_log())
		pg_atomic_write_u64(&escapes->dropped, 0);
}
