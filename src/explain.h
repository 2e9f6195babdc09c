/*-------------------------------------------------------------------------
 *
 * explain.h
 *	  What a scan did with its ring, or would do, told to users.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_EXPLAIN_H
#define RINGCTL_EXPLAIN_H

extern void explain_install_hooks(void);

#endif							/* RINGCTL_EXPLAIN_H */
