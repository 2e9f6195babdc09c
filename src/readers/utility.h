/*-------------------------------------------------------------------------
 *
 * utility.h
 *	  Scans of utility commands: COPY TO, and building an index.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_UTILITY_H
#define RINGCTL_UTILITY_H

#include "executor/execdesc.h"

extern void utility_install_hooks(void);
extern void utility_before_run(QueryDesc *queryDesc);

#endif							/* RINGCTL_UTILITY_H */
