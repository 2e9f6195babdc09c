/*-------------------------------------------------------------------------
 *
 * escapes.c
 *	  The log of buffers that escaped from a ring.
 *
 * A circle of entries in shared memory, the newest over the oldest:
 *
 *	      written: how many there were, ever
 *	         |
 *	  +---+--v+---+---+---+---+---+
 *	  | 8 | 9 | 3 | 4 | 5 | 6 | 7 |    number: 1, 2, 3 ...; 0 while it changes
 *	  +---+---+---+---+---+---+---+
 *
 * A scan that lets a buffer escape must not wait for who reads the log, nor
 * for another scan.  So there is no lock: a writer takes a number, and with it
 * the entry.  It may write if it can change the entry's number from an older
 * one to 0; when it is done, the entry gets its number.  Who reads copies the
 * entry and looks whether the number is still the same.
 *
 * The log knows what was, not what is: whether a buffer still has the page
 * that it had then is for the reader to look up.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "escapes.h"
#include "shared.h"

/* As many entries as there are buffers, but not more than this: 2 MB. */
#define MAX_ENTRIES		32768

typedef struct LogEntry
{
	pg_atomic_uint64 number;	/* 0: being written, or empty */
	Escape		escape;
} LogEntry;

typedef struct EscapesPart
{
	pg_atomic_uint64 written;	/* the last number that was taken */
	pg_atomic_uint64 dropped;	/* entries that had to go, or were not written */
	uint64		nentries;
	LogEntry	entries[FLEXIBLE_ARRAY_MEMBER];
} EscapesPart;

static EscapesPart *escapes = NULL;

static int
entries_wanted(void)
{
	return Min(NBuffers, MAX_ENTRIES);
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

/*
 * escapes_attach
 *		Attach this process to the log; raises an error if that can't be done.
 */
void
escapes_attach(void)
{
	if (escapes == NULL)
		escapes = shared_part(PART_ESCAPES,
							  offsetof(EscapesPart, entries) +
							  entries_wanted() * sizeof(LogEntry),
							  init_escapes);
}

static LogEntry *
entry_of(uint64 number)
{
	return &escapes->entries[number % escapes->nentries];
}

/*
 * escapes_log
 *		A buffer escaped.  Does not wait, does not throw; does nothing in a
 *		process that is not attached.
 */
void
escapes_log(const Escape *escape)
{
	uint64		number;
	uint64		old;
	LogEntry   *entry;

	if (escapes == NULL)
		return;

	number = pg_atomic_add_fetch_u64(&escapes->written, 1);
	entry = entry_of(number);
	old = pg_atomic_read_u64(&entry->number);

	/* Another writer is a whole circle behind, or ahead: then give up. */
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
 *		Copies of the entries, the newest first, palloc'd in *result; returns
 *		their number.  Makes nobody wait.
 */
int
escapes_read(Escape **result)
{
	uint64		number = pg_atomic_read_u64(&escapes->written);
	uint64		oldest = number < escapes->nentries ? 1 :
		number - escapes->nentries + 1;
	int			n = 0;

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

/* How many entries had to go because the log was full. */
int64
escapes_dropped(void)
{
	return pg_atomic_read_u64(&escapes->dropped);
}

/* Count them from nothing again. */
void
escapes_reset_dropped(void)
{
	pg_atomic_write_u64(&escapes->dropped, 0);
}
