/*-------------------------------------------------------------------------
 *
 * utility.h
 *	  Utility commands: scans of COPY TO and of index builds, and bulk loads.
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
