/*-------------------------------------------------------------------------
 *
 * args.c
 *	  Checks of arguments that users give.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"

/*
 * args_check_not_null
 *		Raise an error (22004) if the argument with this number and name is null.
 */
void
args_check_not_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"%s\" cannot be null", name)));
}

/*
 * args_check_between
 *		Raise an error (22023) if the value of the argument with this name is less
 *		than least or more than most.
 */
void
args_check_between(const char *name, int value, int least, int most)
{
	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be between %d and %d", name, least, most)));
}
