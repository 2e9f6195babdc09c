/*-------------------------------------------------------------------------
 *
 * relations.h
 *	  Relations that users name by OID.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_RELATIONS_H
#define RINGCTL_RELATIONS_H

#include "common/relpath.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

/* A relation that is open to be read. */
typedef struct OpenRelation
{
	Relation	rel;
	Oid			locked_table;	/* the table of an index, which is locked,
								 * too; invalid if rel is not an index */
} OpenRelation;

extern Oid	relations_database(Oid relid);
extern Relation relations_open_existing(Oid relid, LOCKMODE lockmode);
extern void relations_open_to_read(OpenRelation *open, Oid relid);
extern bool relations_try_open(OpenRelation *open, Oid relid, Oid table);
extern bool relations_absent(Relation rel);
extern void relations_check_present(Relation rel);
extern void relations_check_buffers(Relation rel, bool ring);
extern void relations_check_storage(Relation rel, ForkNumber forknum, bool ring);
extern List *relations_leaves(Oid relid, const char *function, bool shared);
extern void relations_notice_children(Relation rel, const char *function);
extern void relations_close_read(OpenRelation *open);

#endif							/* RINGCTL_RELATIONS_H */
