/*-------------------------------------------------------------------------
 *
 * prewarm_parts.h
 *	  The relations that a table consists of.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PREWARM_PARTS_H
#define RINGCTL_PREWARM_PARTS_H

#include "nodes/pg_list.h"
#include "utils/array.h"
#include "utils/rel.h"

typedef enum PartKind
{
	PARTS_TABLE,
	PARTS_TOAST,				/* the TOAST table and its index */
	PARTS_INDEXES,
} PartKind;

/* One part; it may be dropped at any time. */
typedef struct Part
{
	Oid			relid;
	Oid			table;			/* the table of an index; else invalid */
	char	   *name;			/* name of the part when it was listed */
} Part;

extern List *parts_parse(ArrayType *names);
extern List *parts_list(Relation rel, const List *kinds);

#endif							/* RINGCTL_PREWARM_PARTS_H */
