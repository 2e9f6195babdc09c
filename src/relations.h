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

#include "storage/lockdefs.h"
#include "utils/rel.h"

extern Relation relations_open(Oid relid, LOCKMODE lockmode);

#endif							/* RINGCTL_RELATIONS_H */
