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

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "miscadmin.h"
#include "relations.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

/*
 * relations_open
 *		Open a relation, with that lock.  Raises an error that a user
 *		understands (42P01) if there is none.
 */
Relation
relations_open(Oid relid, LOCKMODE lockmode)
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
 *		Open a relation, with AccessShareLock, and check that the user may read
 *		it.  For an index that is decided by its table, which is locked first,
 *		as everybody does.
 */
void
relations_open_to_read(OpenRelation *open, Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	Oid			table = relid;
	AclResult	aclresult;

	open->lockedTable = InvalidOid;
	if (relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX)
	{
		table = open->lockedTable = IndexGetRelation(relid, true);
		if (OidIsValid(table))
			LockRelationOid(table, AccessShareLock);
	}

	open->rel = relations_open(relid, AccessShareLock);

	/* It may be another one than we looked up before it was locked. */
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
 *		Open a relation, with AccessShareLock; for an index, give its table,
 *		which is locked first.  Returns false, and nothing is locked, if the
 *		relation is not there (any more).
 */
bool
relations_try_open(OpenRelation *open, Oid relid, Oid table)
{
	open->lockedTable = table;
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
 *		Raise an error if the relation's pages are in buffers that are not
 *		ours, or, if "ring" says so, that can't be in a ring.
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
				 errdetail("Temporary relations are not in shared buffers.")));
}

/*
 * relations_absent
 *		Is this a standby, where the relation has nothing that can be read?
 */
bool
relations_absent(Relation rel)
{
	return !RelationIsPermanent(rel) && RecoveryInProgress();
}

/*
 * relations_check_present
 *		Raise an error if the relation has nothing that can be read here.
 */
void
relations_check_present(Relation rel)
{
	if (relations_absent(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary or unlogged relations during recovery")));
}

/*
 * relations_check_storage
 *		Raise an error if this fork of the relation has nothing on disk that we
 *		can read, or, if "ring" says so, that can be read through a ring.
 */
void
relations_check_storage(Relation rel, ForkNumber forknum, bool ring)
{
	char		relkind = rel->rd_rel->relkind;
	bool		partitioned = relkind == RELKIND_PARTITIONED_TABLE ||
		relkind == RELKIND_PARTITIONED_INDEX;

	if (!RELKIND_HAS_STORAGE(relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" does not have storage",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind),
				 partitioned ? errhint("Name its partitions instead.") : 0));

	relations_check_buffers(rel, ring);

	if (!smgrexists(RelationGetSmgr(rel), forknum))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fork \"%s\" does not exist for relation \"%s\"",
						forkNames[forknum], RelationGetRelationName(rel))));
}

/*
 * relations_close
 *		Close the relation, and let go what was locked for it.
 */
void
relations_close(OpenRelation *open)
{
	relation_close(open->rel, AccessShareLock);
	if (OidIsValid(open->lockedTable))
		UnlockRelationOid(open->lockedTable, AccessShareLock);
}
