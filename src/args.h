/*-------------------------------------------------------------------------
 *
 * args.h
 *	  Checks of arguments that users give.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_ARGS_H
#define RINGCTL_ARGS_H

#include "fmgr.h"

extern void args_check_not_null(FunctionCallInfo fcinfo, int argno,
								const char *name);
extern void args_check_between(const char *name, int value, int least, int most);

#endif							/* RINGCTL_ARGS_H */
