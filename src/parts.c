/*-------------------------------------------------------------------------
 *
 * parts.c
 *	  The relations that a table consists of.
 *
 *	  partitioned table
 *	   |
 *	   +-- partitioned table
 *	   |    |
 *	   |    +-- leaf ----> 1 table    2 TOAST table    4 indexes
 *	   |                                   |
 *	   |                              3 its index
 *	   +-- leaf ----> ...
 *
 * Only leaves have storage.  Each is locked only while its parts are listed, so
 * whatever is listed may be gone when somebody comes to read it.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "parts.h"
#include "relations.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

static int
parse_part(const char *name)
{
	if (strcmp(name, "table") == 0)
		return PARTS_TABLE;
	if (strcmp(name, "toast") == 0)
		return PARTS_TOAST;
	if (strcmp(name, "indexes") == 0)
		return PARTS_INDEXES;

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid part of a table: \"%s\"", name),
			 errhint("Valid parts are \"table\", \"toast\", and \"indexes\".")));
	return 0;					/* keep compiler quiet */
}

/*
 * parts_parse
 *		The kinds of parts with these names.  Raises an error if one is none.
 */
int
parts_parse(ArrayType *names)
{
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	int			kinds = 0;

	deconstruct_array_builtin(names, TEXTOID, &elems, &nulls, &nelems);
	for (int i = 0; i < nelems; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("\"%s\" cannot contain nulls", "parts")));
		kinds |= parse_part(TextDatumGetCString(elems[i]));
	}
	return kinds;
}

/* The part is listed, unless it was dropped just now. */
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

/* Add the parts of a table that has storage. */
static List *
add_table(List *parts, Relation table, int kinds)
{
	if (kinds & PARTS_TABLE)
		parts = add_part(parts, RelationGetRelid(table), InvalidOid);
	if ((kinds & PARTS_TOAST) && OidIsValid(table->rd_rel->reltoastrelid))
		parts = add_toast(parts, table->rd_rel->reltoastrelid);
	if (kinds & PARTS_INDEXES)
		parts = add_indexes(parts, table);
	return parts;
}

/* Add the parts of a member of a partition tree, if it has any. */
static List *
add_member(List *parts, Oid relid, int kinds)
{
	Relation	member = try_relation_open(relid, AccessShareLock);

	if (member == NULL)
		return parts;			/* dropped before it was known by a name */
	if (member->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
		ereport(NOTICE,
				(errmsg("skipping \"%s\" --- cannot prewarm foreign tables",
						RelationGetRelationName(member))));
	else if (relations_absent(member))
		ereport(NOTICE,
				(errmsg("skipping \"%s\" --- cannot access temporary or unlogged relations during recovery",
						RelationGetRelationName(member))));
	else if (RELKIND_HAS_STORAGE(member->rd_rel->relkind))
		parts = add_table(parts, member, kinds);
	relation_close(member, AccessShareLock);
	return parts;
}

/*
 * parts_list
 *		The parts, of these kinds, of a table that is open: Parts, in the order
 *		in which they are to be read.
 */
List *
parts_list(Relation rel, int kinds)
{
	List	   *parts = NIL;

	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return add_table(NIL, rel, kinds);

	foreach_oid(member, find_all_inheritors(RelationGetRelid(rel), NoLock, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		parts = add_member(parts, member, kinds);
	}
	return parts;
}
