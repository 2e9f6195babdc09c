/*-------------------------------------------------------------------------
 *
 * sql_explain.h
 *	  Tell users what a scan did with its ring, or would do.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_SQL_EXPLAIN_H
#define RINGCTL_SQL_EXPLAIN_H

extern void explain_install_hooks(void);

#endif							/* RINGCTL_SQL_EXPLAIN_H */
