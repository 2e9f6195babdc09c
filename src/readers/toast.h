/*-------------------------------------------------------------------------
 *
 * toast.h
 *	  TOAST values of relations that are scanned go through rings of their own.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_TOAST_H
#define RINGCTL_TOAST_H

#include "lib/ilist.h"
#include "utils/rel.h"

extern dlist_head toast_readers;

/*
 * toast_any
 *		Does the session have readers of TOAST tables?  This is called at the
 *		end of every query.
 */
static inline bool
toast_any(void)
{
	return !dlist_is_empty(&toast_readers);
}

/*
 * When a query starts, toast_looks_left is set to TOAST_NEW_LOOKS.  Each look
 * at the real size of a TOAST table subtracts one.  While the rest is
 * positive, toast_may_matter() looks at TOAST tables that are new to the
 * session.
 */
#define TOAST_NEW_LOOKS		16

extern int	toast_looks_left;

extern bool toast_look_up(Relation rel);

/*
 * toast_may_matter
 *		Is the relation's TOAST table large enough for a ring, by the default
 *		threshold, as far as this session knows?  scan_threshold and policies
 *		are not looked at.  The answer is also no if the mode is not control, if
 *		scans of the relation are excluded, if rel->rd_smgr is not set, if the
 *		relation is known to be smaller than TOAST_MIN_BLOCKS, or if the
 *		session knows no size of the TOAST table and may not look.
 *
 * If plan_may_matter() is false for a relation of a query, this is called for
 * that relation, so it must be cheap.
 */
static inline bool
toast_may_matter(Relation rel)
{
	return OidIsValid(rel->rd_rel->reltoastrelid) && toast_look_up(rel);
}

extern void toast_begin(const void *owner, Relation rel, bool is_query);
extern void toast_end(const void *owner);

#endif							/* RINGCTL_TOAST_H */
