/*-------------------------------------------------------------------------
 *
 * prewarm_parts.c
 *	  The relations that a table consists of.
 *
 *	  partitioned table
 *	   |
 *	   +-- partitioned table
 *	   |    |
 *	   |    +-- leaf ----> indexes    table    TOAST table, its index
 *	   +-- leaf ----> ...
 *
 * Only leaves have storage.  Each leaf is locked only while its parts are
 * listed, so a part may be dropped before it is read.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "common/arguments.h"
#include "miscadmin.h"
#include "readers/prewarm_parts.h"
#include "common/relations.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

/* What "parts" may contain. */
static const struct config_enum_entry part_kinds[] = {
	{"indexes", PARTS_INDEXES, false},
	{"table", PARTS_TABLE, false},
	{"toast", PARTS_TOAST, false},
	{NULL, 0, false}
};

/*
 * parts_parse
 *		The kinds of parts with these names, as a list of PartKind in the order
 *		of the names.  Raises an error if there is no kind with one of these
 *		names (22023), or if one of them is null (22004).
 */
List *
parts_parse(ArrayType *names)
{
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	List	   *kinds = NIL;

	deconstruct_array_builtin(names, TEXTOID, &elems, &nulls, &nelems);
	for (int i = 0; i < nelems; i++)
	{
		char	   *name;

		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("\"%s\" cannot contain nulls", "parts")));
		name = TextDatumGetCString(elems[i]);
		kinds = list_append_unique_int(kinds, args_parse_choice("parts", name, part_kinds));
		pfree(name);
	}
	return kinds;
}

/* Add a part to the list, unless it was dropped just now. */
static List *
add_part(List *parts, Oid relid, Oid table)
{
	char	   *name = get_rel_name(relid);
	Part	   *part;

	if (name == NULL)
		return parts;
	part = palloc(sizeof(Part));
	part->relid = relid;
	part->table = table;
	part->name = name;
	return lappend(parts, part);
}

static List *
add_indexes(List *parts, Relation table)
{
	List	   *indexes = RelationGetIndexList(table);

	foreach_oid(index, indexes)
		parts = add_part(parts, index, RelationGetRelid(table));
	list_free(indexes);
	return parts;
}

static List *
add_toast(List *parts, Oid toastid)
{
	Relation	toast = try_relation_open(toastid, AccessShareLock);

	if (toast == NULL)
		return parts;
	parts = add_part(parts, toastid, InvalidOid);
	parts = add_indexes(parts, toast);
	relation_close(toast, AccessShareLock);
	return parts;
}

/* Add a table's parts of this kind.  The table has storage. */
static List *
add_table(List *parts, Relation table, PartKind kind)
{
	switch (kind)
	{
		case PARTS_TABLE:
			return add_part(parts, RelationGetRelid(table), InvalidOid);
		case PARTS_TOAST:
			return OidIsValid(table->rd_rel->reltoastrelid) ?
				add_toast(parts, table->rd_rel->reltoastrelid) : parts;
		case PARTS_INDEXES:
			return add_indexes(parts, table);
	}
	return parts;
}

/*
 * parts_list
 *		The parts of an open table that are of these kinds, as a list of Part
 *		in the order in which they are to be read.
 *
 * The parts of the first kind, of all partitions, come first, then those of
 * the second kind, and so on.
 */
List *
parts_list(Relation rel, const List *kinds)
{
	List	   *parts = NIL;
	List	   *leaves = relations_leaves(RelationGetRelid(rel),
										  "pg_ringctl_prewarm_all", false);

	foreach_int(kind, kinds)
	{
		foreach_oid(relid, leaves)
		{
			Relation	leaf = try_relation_open(relid, AccessShareLock);

			CHECK_FOR_INTERRUPTS();
			if (leaf == NULL)
				continue;		/* dropped meanwhile */
			parts = add_table(parts, leaf, kind);
			relation_close(leaf, AccessShareLock);
		}
	}
	return parts;
}
