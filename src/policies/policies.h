/*-------------------------------------------------------------------------
 *
 * policies.h
 *	  Policies of relations, kept as security labels.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_POLICIES_H
#define RINGCTL_POLICIES_H

#include "nodes/pg_list.h"
#include "params.h"

/* A relation's policy.  For what it does not set, the parameters hold. */
typedef struct RelationPolicy
{
	Oid			relid;			/* relation that has the label: this one, or
								 * an ancestor */
	bool		sets_scan_ring;
	int			scan_ring;		/* kB, as pg_ringctl.scan_ring */
	bool		sets_scan_threshold;
	int			scan_threshold; /* blocks, as pg_ringctl.scan_threshold */
	bool		sets_dirty_pages;
	DirtyPages	dirty_pages;
	bool		sets_index_read_ahead;
	bool		index_read_ahead;
} RelationPolicy;

/* The name of our label provider. */
#define LABEL_PROVIDER	"pg_ringctl"

extern void labels_init(void);
extern void labels_accept(void);
extern const RelationPolicy *labels_policy(Oid relid);
extern bool labels_look_up(Oid relid);
extern void labels_check_writable(const char *function);
extern bool labels_set(Oid relid, const char *label, bool missing_ok);
extern List *labels_relations(void);

/* Does this session know that no relation of its database has a policy? */
extern bool labels_none;

#endif							/* RINGCTL_POLICIES_H */
