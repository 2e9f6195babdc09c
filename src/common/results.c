/*-------------------------------------------------------------------------
 *
 * results.c
 *	  The rows that our functions return.
 *
 * The number of columns that a function returns is declared in SQL, and the
 * number of columns that are filled is decided in C.  These numbers may differ
 * between the installation of a new library and ALTER EXTENSION UPDATE, and
 * after the update in a session that still has the old library.  If they
 * differ, the function must raise an error, because otherwise the server would
 * read past the end of the function's values, or drop some of them.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/results.h"
#include "funcapi.h"
#include "utils/regproc.h"

/*
 * Raise an error (55000) if the function is not declared with this number of
 * columns.  New versions only add columns, so the side that has fewer of them
 * is the older one.
 */
static void
check_columns(FunctionCallInfo fcinfo, TupleDesc declared, int ncolumns)
{
	if (declared->natts == ncolumns)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("SQL objects of extension \"%s\" are of another version than its library",
					"pg_ringctl"),
			 errdetail("Function %s is declared with %d columns, but the library returns %d.",
					   format_procedure(fcinfo->flinfo->fn_oid), declared->natts,
					   ncolumns),
			 declared->natts < ncolumns ?
			 errhint("Run ALTER EXTENSION %s UPDATE.", "pg_ringctl") :
			 errhint("Start a new session, or restart the server if \"%s\" is in \"%s\".",
					 "pg_ringctl", "shared_preload_libraries")));
}

/*
 * results_begin_set
 *		Begin to return a set of rows with this number of columns.  The caller
 *		must put the rows into the result's tuplestore.  Raises an error
 *		(55000) if the function is declared with another number of columns.
 */
ReturnSetInfo *
results_begin_set(FunctionCallInfo fcinfo, int ncolumns)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	check_columns(fcinfo, rsinfo->setDesc, ncolumns);
	return rsinfo;
}

/*
 * results_row_type
 *		The type of the row that the function returns, with this number of
 *		columns.  Raises an error (55000) if the function is declared with
 *		another number.
 */
TupleDesc
results_row_type(FunctionCallInfo fcinfo, int ncolumns)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check_columns(fcinfo, tupdesc, ncolumns);
	return tupdesc;
}
