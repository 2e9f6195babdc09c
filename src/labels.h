/*-------------------------------------------------------------------------
 *
 * labels.h
 *	  Policies of relations, kept as security labels.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_LABELS_H
#define RINGCTL_LABELS_H

#include "params.h"

/* What a relation's policy sets; what it does not is as the parameter says. */
typedef struct RelationPolicy
{
	Oid			relid;			/* whose: the relation's own, or an ancestor's */
	bool		sets_scan_ring;
	int			scan_ring;		/* kB, as pg_ringctl.scan_ring */
	bool		sets_scan_threshold;
	int			scan_threshold; /* blocks, as pg_ringctl.scan_threshold */
	bool		sets_dirty_pages;
	DirtyPages	dirty_pages;
} RelationPolicy;

extern void labels_register(void);
extern const RelationPolicy *labels_policy(Oid relid);

#endif							/* RINGCTL_LABELS_H */
