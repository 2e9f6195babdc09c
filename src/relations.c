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
#include "compat.h"
#include "relations.h"

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
