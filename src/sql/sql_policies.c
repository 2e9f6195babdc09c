/*-------------------------------------------------------------------------
 *
 * sql_policies.c
 *	  What users call to set policies of relations, and to see them.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/arguments.h"
#include "common/results.h"
#include "funcapi.h"
#include "policies/policy_text.h"
#include "ring/plan.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(pg_ringctl_set_policy);
PG_FUNCTION_INFO_V1(pg_ringctl_drop_policy);
PG_FUNCTION_INFO_V1(pg_ringctl_drop_all_policies);
PG_FUNCTION_INFO_V1(pg_ringctl_parse_policy);

/*
 * The value, as text, of an argument that may be text, an integer or a
 * boolean; NULL if the argument is null.  Raises an error (42804) if the
 * argument has another type.  name: what the error calls the argument.
 */
static char *
get_setting(FunctionCallInfo fcinfo, int argno, const char *name)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, argno);

	if (PG_ARGISNULL(argno))
		return NULL;
	switch (OidIsValid(type) ? getBaseType(type) : InvalidOid)
	{
		case UNKNOWNOID:		/* a literal, in quotes */
			return PG_GETARG_CSTRING(argno);
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
			return text_to_cstring(PG_GETARG_TEXT_PP(argno));
		case BOOLOID:
			return pstrdup(PG_GETARG_BOOL(argno) ? "on" : "off");
		case INT2OID:
			return psprintf("%d", PG_GETARG_INT16(argno));
		case INT4OID:
			return psprintf("%d", PG_GETARG_INT32(argno));
		case INT8OID:
			return psprintf("%lld", (long long) PG_GETARG_INT64(argno));
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("\"%s\" must be text or an integer", name)));
	return NULL;				/* keep compiler quiet */
}

/*
 * pg_ringctl_set_policy(relation regclass, scan_ring "any",
 *						 scan_threshold "any", dirty_pages text,
 *						 index_read_ahead boolean)
 * pg_ringctl_set_policy(relation regclass, scan_ring text,
 *						 scan_threshold text, dirty_pages text,
 *						 index_read_ahead boolean)
 *
 * Sets the relation's policy, and replaces the old one.  If an argument is
 * null, the policy does not set that parameter.
 */
Datum
pg_ringctl_set_policy(PG_FUNCTION_ARGS)
{
	PolicyTexts settings;
	RelationPolicy policy = {0};

	args_check_not_null(fcinfo, 0, "relation");
	for (int i = 0; i < NUM_POLICY_SETTINGS; i++)
		settings.values[i] = get_setting(fcinfo, i + 1, policy_setting_name(i));
	policy_check_settings(&settings);
	policy_read(&settings, &policy);
	policy_spell(&policy, &settings);

	labels_check_writable("pg_ringctl_set_policy()");
	(void) labels_set(PG_GETARG_OID(0), policy_write(&settings), false);
	if (policy.sets_scan_ring)
		plan_notice_cap(policy.scan_ring, PG_INT64_MAX);
	PG_RETURN_VOID();
}

/*
 * pg_ringctl_drop_policy(relation regclass)
 *
 * Drops the relation's own policy; returns whether it had one.
 */
Datum
pg_ringctl_drop_policy(PG_FUNCTION_ARGS)
{
	labels_check_writable("pg_ringctl_drop_policy()");
	PG_RETURN_BOOL(labels_set(PG_GETARG_OID(0), NULL, false));
}

/*
 * pg_ringctl_drop_all_policies()
 *
 * Drops the policies of all relations of this database; returns how many there
 * were.
 */
Datum
pg_ringctl_drop_all_policies(PG_FUNCTION_ARGS)
{
	int64		dropped = 0;

	labels_check_writable("pg_ringctl_drop_all_policies()");
	foreach_oid(relid, labels_relations())
	{
		/* another session may drop the relation meanwhile */
		if (labels_set(relid, NULL, true))
			dropped++;
	}
	PG_RETURN_INT64(dropped);
}

/*
 * pg_ringctl_parse_policy(label text)
 *
 * Returns the settings in a label, as SHOW spells the parameters.
 */
Datum
pg_ringctl_parse_policy(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc = results_row_type(fcinfo, NUM_POLICY_SETTINGS);
	PolicyTexts settings;
	RelationPolicy policy = {0};
	Datum		values[NUM_POLICY_SETTINGS] = {0};
	bool		nulls[NUM_POLICY_SETTINGS];

	policy_split(text_to_cstring(PG_GETARG_TEXT_PP(0)), &settings, false);
	policy_read(&settings, &policy);
	policy_spell(&policy, &settings);
	for (int i = 0; i < NUM_POLICY_SETTINGS; i++)
	{
		nulls[i] = (settings.values[i] == NULL);
		if (!nulls[i])
			values[i] = CStringGetTextDatum(settings.values[i]);
	}
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}
