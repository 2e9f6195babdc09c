/*-------------------------------------------------------------------------
 *
 * relations.c
 *	  Relations that users name by OID.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "compat.h"
#include "miscadmin.h"
#include "common/relations.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/*
 * relations_database
 *		The OID of the database that the relation is in; 0 if the relation is
 *		shared by all databases, as in pg_locks and pg_buffercache.
 */
Oid
relations_database(Oid relid)
{
	return IsSharedRelation(relid) ? InvalidOid : MyDatabaseId;
}

/*
 * relations_open_existing
 *		Open a relation with this lock.  If there is no such relation, raises
 *		an error that a user understands (42P01).
 */
Relation
relations_open_existing(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_relation_open(relid, lockmode);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return rel;
}

/*
 * relations_open_to_read
 *		Open a relation with AccessShareLock, and check that the user may read
 *		it.  If the relation is an index, the privileges on its table decide,
 *		and the table is locked first, as elsewhere in the server.  Raises an
 *		error if there is no such relation (42P01), or if the user may not read
 *		it (42501).  relations_close_read() closes it.
 */
void
relations_open_to_read(OpenRelation *open, Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	Oid			table = relid;
	AclResult	aclresult;

	open->locked_table = InvalidOid;
	if (relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX)
	{
		table = open->locked_table = IndexGetRelation(relid, true);
		if (OidIsValid(table))
			LockRelationOid(table, AccessShareLock);
	}

	open->rel = relations_open_existing(relid, AccessShareLock);

	/* Was the index replaced by another one before we had the lock? */
	if (table != relid &&
		(!OidIsValid(table) || table != IndexGetRelation(relid, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not find parent table of index \"%s\"",
						RelationGetRelationName(open->rel))));

	aclresult = pg_class_aclcheck(table, GetUserId(), ACL_SELECT);
	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, get_relkind_objtype(open->rel->rd_rel->relkind),
					   RelationGetRelationName(open->rel));
}

/*
 * relations_try_open
 *		Open a relation with AccessShareLock.  If the relation is an index,
 *		"table" must be its table, which is locked first; otherwise "table"
 *		must be invalid.  If the relation does not exist, or not any more,
 *		nothing stays locked, and the result is false.  If the result is true,
 *		relations_close_read() closes the relation.
 */
bool
relations_try_open(OpenRelation *open, Oid relid, Oid table)
{
	open->locked_table = table;
	if (OidIsValid(table))
		LockRelationOid(table, AccessShareLock);
	open->rel = try_relation_open(relid, AccessShareLock);
	if (open->rel != NULL)
		return true;
	if (OidIsValid(table))
		UnlockRelationOid(table, AccessShareLock);
	return false;
}

/*
 * relations_check_buffers
 *		Raise an error if the relation is a temporary table of another session.
 *		If "ring" is true, also raise an error if its buffers can't be in a
 *		ring.
 */
void
relations_check_buffers(Relation rel, bool ring)
{
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));

	if (RelationUsesLocalBuffers(rel) && ring)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read a temporary relation through a ring"),
				 errdetail("Temporary relations are not in shared buffers."),
				 errhint("Set \"%s\" to 0.", "ring")));
}

/*
 * relations_absent
 *		Does the relation have no pages here, because it is not permanent and
 *		this is a standby?
 */
bool
relations_absent(Relation rel)
{
	return !RelationIsPermanent(rel) && RecoveryInProgress();
}

/*
 * relations_check_present
 *		Raise an error if relations_absent().
 */
void
relations_check_present(Relation rel)
{
	if (relations_absent(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary or unlogged relations during recovery")));
}

/* The name of a relation with its schema, as a literal that regclass takes. */
static char *
name_literal(Relation rel)
{
	return quote_literal_cstr(quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
														 RelationGetRelationName(rel)));
}

/* Raise an error if the relation is of a kind that has no storage. */
static void
check_kind_has_storage(Relation rel)
{
	char		relkind = rel->rd_rel->relkind;

	if (!RELKIND_HAS_STORAGE(relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" does not have storage",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind),
				 relkind == RELKIND_PARTITIONED_TABLE ?
				 errhint("\"%s\" reads all partitions of this relation. To read one of them, name a leaf partition that pg_partition_tree(%s) lists.",
						 "pg_ringctl_prewarm_all", name_literal(rel)) :
				 relkind == RELKIND_PARTITIONED_INDEX ?
				 errhint("Name one of its leaf partitions, which pg_partition_tree(%s) lists.",
						 name_literal(rel)) : 0));
}

/*
 * relations_check_storage
 *		Raise an error if the relation has no storage that we can read, or does
 *		not have this fork.  If "ring" is true, also raise an error if the
 *		relation can't be read through a ring.
 */
void
relations_check_storage(Relation rel, ForkNumber forknum, bool ring)
{
	check_kind_has_storage(rel);
	relations_check_buffers(rel, ring);
	/* On a standby an unlogged relation has only its init fork. */
	if (forknum != INIT_FORKNUM)
		relations_check_present(rel);

	if (!smgrexists(RelationGetSmgr(rel), forknum))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fork \"%s\" does not exist for relation \"%s\"",
						forkNames[forknum], RelationGetRelationName(rel))));
}

/*
 * Why can't the rows of this member of a partition tree be read here?  NULL if
 * they can, or if the member has no rows.
 */
static const char *
why_skip(Form_pg_class form)
{
	if (form->relkind == RELKIND_FOREIGN_TABLE)
		return "foreign tables are not in shared buffers";
	if (RELKIND_HAS_STORAGE(form->relkind) && RecoveryInProgress() &&
		form->relpersistence != RELPERSISTENCE_PERMANENT)
		return "cannot access temporary or unlogged relations during recovery";
	return NULL;
}

/*
 * Does this member of a partition tree have storage that we can read?  If it
 * has rows that we cannot read, tell the user.
 */
static bool
is_leaf(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	const char *reason;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;			/* dropped meanwhile */
	form = (Form_pg_class) GETSTRUCT(tuple);
	reason = why_skip(form);
	if (reason != NULL)
		ereport(NOTICE,
				(errmsg("skipping \"%s\" --- %s", NameStr(form->relname), reason)));
	result = reason == NULL && RELKIND_HAS_STORAGE(form->relkind);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * relations_leaves
 *		Returns a palloc'd list of OIDs: if the relation is partitioned, those
 *		of its partitions that have storage and can be read here; otherwise
 *		only its own.
 *
 * Raises an error (42809) if the relation is not partitioned and has no
 * storage, like a view.  If "shared" is true, also raises an error if the
 * relation is temporary.  Tells the user what is left out: partitions whose
 * rows can't be read here, and children by inheritance, which are not
 * partitions.  function: name of the function that the user has called.  All
 * locks are released again.
 */
List *
relations_leaves(Oid relid, const char *function, bool shared)
{
	Relation	rel = relations_open_existing(relid, AccessShareLock);
	char		relkind = rel->rd_rel->relkind;
	List	   *leaves = NIL;

	if (shared && RelationUsesLocalBuffers(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary relation \"%s\" is not in shared buffers",
						RelationGetRelationName(rel))));

	if (relkind != RELKIND_PARTITIONED_TABLE && relkind != RELKIND_PARTITIONED_INDEX)
	{
		check_kind_has_storage(rel);
		relations_check_buffers(rel, false);
		relations_check_present(rel);
		relations_notice_children(rel, function);
		leaves = list_make1_oid(relid);
	}
	else
	{
		foreach_oid(member, find_all_inheritors(relid, NoLock, NULL))
		{
			if (is_leaf(member))
				leaves = lappend_oid(leaves, member);
		}
	}
	relation_close(rel, AccessShareLock);
	return leaves;
}

/*
 * relations_notice_children
 *		If a table has children by inheritance, tell the user that they are
 *		left out, and how to reach them with this function.
 */
void
relations_notice_children(Relation rel, const char *function)
{
	if (rel->rd_rel->relkind == RELKIND_RELATION && !rel->rd_rel->relispartition &&
		has_subclass(RelationGetRelid(rel)) &&
		find_inheritance_children(RelationGetRelid(rel), NoLock) != NIL)
		ereport(NOTICE,
				(errmsg("inheritance children of \"%s\" are left out",
						RelationGetRelationName(rel)),
				 errhint("To reach them, use SELECT %s(inhrelid) FROM pg_inherits WHERE inhparent = %s::regclass.",
						 function, name_literal(rel))));
}

/*
 * relations_close_read
 *		Close the relation, and release the locks that were taken for it.
 */
void
relations_close_read(OpenRelation *open)
{
	relation_close(open->rel, AccessShareLock);
	if (OidIsValid(open->locked_table))
		UnlockRelationOid(open->locked_table, AccessShareLock);
}
