/*-------------------------------------------------------------------------
 *
 * parts.h
 *	  The relations that a table consists of.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PARTS_H
#define RINGCTL_PARTS_H

#include "nodes/pg_list.h"
#include "utils/array.h"
#include "utils/rel.h"

/* Kinds of parts, as bits. */
#define PARTS_TABLE		0x01
#define PARTS_TOAST		0x02	/* the TOAST table and its index */
#define PARTS_INDEXES	0x04

/* One part; it may be dropped at any time. */
typedef struct Part
{
	Oid			relid;
	Oid			table;			/* of an index; else invalid */
	char	   *name;			/* when it was found */
} Part;

extern int	parts_parse(ArrayType *names);
extern List *parts_list(Relation rel, int kinds);

#endif							/* RINGCTL_PARTS_H */
