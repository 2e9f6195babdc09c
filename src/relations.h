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
#include "storage/lockdefs.h"
#include "utils/rel.h"

/* A relation that is open to be read. */
typedef struct OpenRelation
{
	Relation	rel;
	Oid			lockedTable;	/* an index's table, locked too; or invalid */
} OpenRelation;

extern Relation relations_open(Oid relid, LOCKMODE lockmode);
extern void relations_open_to_read(OpenRelation *open, Oid relid);
extern bool relations_try_open(OpenRelation *open, Oid relid, Oid table);
extern bool relations_absent(Relation rel);
extern void relations_check_present(Relation rel);
extern void relations_check_buffers(Relation rel, bool ring);
extern void relations_check_storage(Relation rel, ForkNumber forknum, bool ring);
extern void relations_close(OpenRelation *open);

#endif							/* RINGCTL_RELATIONS_H */
