/*-------------------------------------------------------------------------
 *
 * arguments.c
 *	  Checks of arguments that users give.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/arguments.h"
#include "lib/stringinfo.h"
#include "params.h"

/*
 * args_check_not_null
 *		Raise an error (22004) if the argument with this number and name is
 *		null.
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
 *		Raise an error (22023) if the value of the argument with this name is
 *		less than "least" or more than "most".
 */
void
args_check_between(const char *name, int64 value, int64 least, int64 most)
{
	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be between %lld and %lld",
						name, (long long) least, (long long) most)));
}

/*
 * args_parse_size
 *		Parse "value", which has the syntax of a configuration parameter.
 *		name: name of the argument, for error messages.  unit: GUC_UNIT_KB or
 *		GUC_UNIT_BLOCKS; it is the unit of the result, and of a value that
 *		names no unit.
 *
 * Raises an error (22023) if the value can't be parsed, or would be rounded to
 * 0.  The caller must check whether the size is in range: it may be negative.
 */
int
args_parse_size(const char *name, const char *value, int unit)
{
	const char *hint = NULL;
	int			result;

	if (!parse_int(value, &result, unit, &hint))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"%s\": \"%s\"", name, value),
				 hint ? errhint("%s", _(hint)) :
				 unit == GUC_UNIT_KB ?
				 errhint("Give a size with its unit, such as \"4MB\", or a number of kB.") :
				 errhint("Give a size with its unit, such as \"4MB\", or a number of blocks.")));

	/* 0 is a special value, and does not mean a very small size. */
	if (result == 0 && strtod(value, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("value for \"%s\" is too small: \"%s\"", name, value),
				 errdetail("It would be rounded to 0.")));
	return result;
}

/*
 * args_parse_choice
 *		Returns the number of the choice that "value" names.  Raises an error
 *		(22023) if it names none.  name: name of the argument.  The last
 *		element of choices has no name.
 */
int
args_parse_choice(const char *name, const char *value,
				  const struct config_enum_entry *choices)
{
	StringInfoData valid;

	for (int i = 0; choices[i].name != NULL; i++)
		if (strcmp(value, choices[i].name) == 0)
			return choices[i].val;

	initStringInfo(&valid);
	for (int i = 0; choices[i].name != NULL; i++)
		appendStringInfo(&valid, i == 0 ? "\"%s\"" :
						 choices[i + 1].name != NULL ? ", \"%s\"" : ", and \"%s\"",
						 choices[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\": \"%s\"", name, value),
			 errhint("Valid values are %s.", valid.data)));
	return 0;					/* keep compiler quiet */
}

/*
 * args_check_ring
 *		Return this size in kB, or raise an error (22023) if a ring cannot have
 *		it.  hint: what the special values mean.
 */
int
args_check_ring(const char *name, int64 kb, const char *hint)
{
	if (kb < -1 || kb > RING_MAX_KB || (kb > 0 && kb < RING_MIN_KB))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be -1, 0 or between %d kB and %d kB",
						name, RING_MIN_KB, RING_MAX_KB),
				 errhint("%s", hint)));
	return (int) kb;
}

/*
 * args_spell_size
 *		A size in kB, spelled as SHOW spells it, in the largest unit that
 *		divides it; palloc'd.  The special values, which are below 1, have no
 *		unit.
 */
char *
args_spell_size(int64 kb)
{
	static const char *const units[] = {"kB", "MB", "GB", "TB"};
	int			unit = 0;

	if (kb < 1)
		return psprintf("%lld", (long long) kb);
	while (kb % 1024 == 0 && unit < (int) lengthof(units) - 1)
	{
		kb /= 1024;
		unit++;
	}
	return psprintf("%lld%s", (long long) kb, units[unit]);
}
