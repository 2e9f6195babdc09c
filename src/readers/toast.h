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

#include "utils/rel.h"

/* Does the session have readers of TOAST tables? */
extern bool toast_any;

extern bool toast_may_matter(Relation rel);
extern void toast_begin(const void *owner, Relation rel);
extern void toast_end(const void *owner);

#endif							/* RINGCTL_TOAST_H */
