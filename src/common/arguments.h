/*-------------------------------------------------------------------------
 *
 * arguments.h
 *	  Checks of arguments that users give.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_ARGUMENTS_H
#define RINGCTL_ARGUMENTS_H

#include "fmgr.h"
#include "utils/guc.h"

extern void args_check_not_null(FunctionCallInfo fcinfo, int argno,
								const char *name);
extern void args_check_between(const char *name, int64 value, int64 least,
							   int64 most);
extern int	args_parse_size(const char *name, const char *value, int unit);
extern int	args_parse_choice(const char *name, const char *value,
							  const struct config_enum_entry *choices);
extern int	args_check_ring(const char *name, int64 kb, const char *hint);
extern char *args_spell_size(int64 kb);

#endif							/* RINGCTL_ARGUMENTS_H */
