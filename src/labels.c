/*-------------------------------------------------------------------------
 *
 * labels.c
 *	  Policies of relations, kept as security labels.
 *
 * A policy is a text such as
 *
 *		scan_ring=4MB, scan_threshold=0, dirty_pages=leave
 *
 * that says what the parameters of these names are for scans of one relation.
 * It is that relation's security label of our provider: so it is
 * transactional, needs the relation's owner, goes when the relation goes,
 * reaches standbys, and travels in pg_dump.  A partition, or a child by
 * inheritance, that has none takes its nearest ancestor's; of several parents,
 * that of the first one which has or finds one.
 *
 *	   measure (scan_ring=0)          measure, measure_2025: scan_ring=0
 *	    |-- measure_2025
 *	    `-- measure_2026 ('')         measure_2026: nothing, by itself
 *
 * What was found once is remembered in this session, by relation, so that a
 * scan costs no search of catalogs:
 *
 *	   relation       policy of    a parent of one that was found
 *	   measure        measure      yes
 *	   measure_2025   measure      no
 *	   measure_2026   itself       no
 *
 * SECURITY LABEL tells nobody that something has changed, so our hook sends
 * an invalidation of the relation, at commit, to everybody.  It takes
 * one line away; if that is a parent, whatever was found through it may be
 * wrong, and all lines go.  A change of the family sends such messages by
 * itself, because columns are inherited or not any more; only to give a table
 * a parent without columns, or to take it away, is no change of the table's.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "args.h"
#include "catalog/catalog.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/seclabel.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "labels.h"
#include "miscadmin.h"
#include "relations.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(pg_ringctl_set_policy);
PG_FUNCTION_INFO_V1(pg_ringctl_drop_policy);
PG_FUNCTION_INFO_V1(pg_ringctl_parse_policy);

#define PROVIDER	"pg_ringctl"

/* The settings of a policy, in the order in which users see them. */
typedef enum PolicySetting
{
	SETS_SCAN_RING,
	SETS_SCAN_THRESHOLD,
	SETS_DIRTY_PAGES,
} PolicySetting;

#define NUM_SETTINGS	(SETS_DIRTY_PAGES + 1)

static const char *const setting_names[NUM_SETTINGS] = {
	"scan_ring", "scan_threshold", "dirty_pages"
};

/* A policy's settings as they are written; NULL where it has none. */
typedef struct PolicySettings
{
	char	   *values[NUM_SETTINGS];
} PolicySettings;

/* What was found for a relation. */
typedef struct Found
{
	Oid			relid;			/* hash key */
	char		status;			/* hash status */
	bool		is_parent;		/* others were found through it */
	bool		has_policy;
	RelationPolicy policy;
} Found;

#define SH_PREFIX		found
#define SH_ELEMENT_TYPE	Found
#define SH_KEY_TYPE		Oid
#define SH_KEY			relid
#define SH_HASH_KEY(tb, key)	murmurhash32(key)
#define SH_EQUAL(tb, a, b)		((a) == (b))
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static found_hash *found = NULL;
static uint64 messages = 0;		/* how often something changed anywhere */

/* Without white space at its ends; changes the string. */
static char *
trim(char *string)
{
	char	   *end = string + strlen(string);

	while (isspace((unsigned char) *string))
		string++;
	while (end > string && isspace((unsigned char) end[-1]))
		end--;
	*end = '\0';
	return string;
}

/* Which setting is this?  -1 if there is none of that name. */
static int
setting_number(const char *name)
{
	for (int i = 0; i < NUM_SETTINGS; i++)
		if (pg_strcasecmp(name, setting_names[i]) == 0)
			return i;
	return -1;
}

static void
malformed(const char *label, const char *item)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid policy: \"%s\"", label),
			 errdetail("\"%s\" is not a setting, or there are two of that name.", item),
			 errhint("A policy is a list of settings, separated by commas, such as "
					 "\"scan_ring=4MB, scan_threshold=0, dirty_pages=leave\"; "
					 "each is optional, and takes what the parameter of that name takes.")));
}

/*
 * Take a policy apart.  What is no setting raises an error if strict; else it
 * is left out.
 */
static void
split_policy(const char *label, PolicySettings *settings, bool strict)
{
	char	   *rest = pstrdup(label);
	char	   *item;

	memset(settings, 0, sizeof(PolicySettings));
	if (*trim(pstrdup(label)) == '\0')
		return;					/* sets nothing */
	while ((item = strsep(&rest, ",")) != NULL)
	{
		char	   *whole = trim(pstrdup(item));
		char	   *value = strchr(item, '=');
		int			setting = -1;

		if (value != NULL)
		{
			*value++ = '\0';
			setting = setting_number(trim(item));
		}
		if (setting >= 0 && settings->values[setting] == NULL)
			settings->values[setting] = trim(value);
		else if (strict)
			malformed(label, whole);
	}
}

/*
 * Raise an error if a setting's value is not one that the parameter of that
 * name takes.
 */
static void
check_values(const PolicySettings *settings)
{
	for (int i = 0; i < NUM_SETTINGS; i++)
	{
		if (settings->values[i] != NULL)
			(void) set_config_option(psprintf("pg_ringctl.%s", setting_names[i]),
									 settings->values[i], PGC_USERSET, PGC_S_TEST,
									 GUC_ACTION_SET, false, ERROR, false);
	}
}

/* What a policy's text means; all of it was checked when it was set. */
static void
read_policy(const char *label, RelationPolicy *policy)
{
	PolicySettings settings;

	split_policy(label, &settings, false);
	if (settings.values[SETS_SCAN_RING] != NULL)
		policy->sets_scan_ring = parse_int(settings.values[SETS_SCAN_RING],
										   &policy->scan_ring, GUC_UNIT_KB, NULL);
	if (settings.values[SETS_SCAN_THRESHOLD] != NULL)
		policy->sets_scan_threshold = parse_int(settings.values[SETS_SCAN_THRESHOLD],
												&policy->scan_threshold,
												GUC_UNIT_BLOCKS, NULL);
	if (settings.values[SETS_DIRTY_PAGES] != NULL)
	{
		policy->sets_dirty_pages = true;
		policy->dirty_pages =
			pg_strcasecmp(settings.values[SETS_DIRTY_PAGES], "leave") == 0 ?
			DIRTY_LEAVE : DIRTY_WRITE;
	}
}

/* A policy, as text, from its settings. */
static char *
write_policy(const PolicySettings *settings)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < NUM_SETTINGS; i++)
	{
		if (settings->values[i] != NULL)
			appendStringInfo(&buf, "%s%s=%s", buf.len > 0 ? ", " : "",
							 setting_names[i], settings->values[i]);
	}
	return buf.data;
}

/* Can relations of this kind have a policy? */
static bool
takes_policy(char relkind)
{
	return relkind == RELKIND_RELATION ||
		relkind == RELKIND_PARTITIONED_TABLE ||
		relkind == RELKIND_MATVIEW;
}

/*
 * The provider's hook: somebody, who owns the object, sets its label, or drops
 * it.  Raises an error if it is not a policy; else tells everybody.
 */
static void
check_label(const ObjectAddress *object, const char *label)
{
	PolicySettings settings;

	if (object->classId != RelationRelationId || object->objectSubId != 0 ||
		!takes_policy(get_rel_relkind(object->objectId)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("this object cannot have a policy"),
				 errdetail("Tables, partitioned tables and materialized views can.")));
	if (IsCatalogRelationOid(object->objectId) ||
		get_rel_persistence(object->objectId) == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" cannot have a policy",
						get_rel_name(object->objectId)),
				 errdetail("Scans of system catalogs and of temporary tables are never touched.")));
	if (label != NULL)
	{
		split_policy(label, &settings, true);
		check_values(&settings);
	}
	CacheInvalidateRelcacheByRelid(object->objectId);
}

/* A relation has changed, or if invalid, all may have. */
static void
relation_changed(Datum arg pg_attribute_unused(), Oid relid)
{
	Found	   *line;

	messages++;
	line = OidIsValid(relid) ? found_lookup(found, relid) : NULL;
	if (!OidIsValid(relid) || (line != NULL && line->is_parent))
		found_reset(found);
	else if (line != NULL)
		found_delete_item(found, line);
}

/*
 * labels_register
 *		Take part in SECURITY LABEL, and hear of changes from now on.
 */
void
labels_register(void)
{
	found = found_create(TopMemoryContext, 128, NULL);
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	register_label_provider(PROVIDER, check_label);
}

/* The parents of a relation, the first one first; not those it is leaving. */
static List *
parents_of(Oid relid)
{
	List	   *parents = NIL;
	Relation	inherits = table_open(InheritsRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, NULL,
							  1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits form = (Form_pg_inherits) GETSTRUCT(tuple);

		if (!form->inhdetachpending)
			parents = lappend_oid(parents, form->inhparent);
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
	return parents;
}

static bool find_policy(Oid relid, bool as_parent, RelationPolicy *policy);

/* Search the catalogs for a relation's policy. */
static bool
search_policy(Oid relid, RelationPolicy *policy)
{
	ObjectAddress object;
	char	   *label;
	ListCell   *lc;

	ObjectAddressSet(object, RelationRelationId, relid);
	label = GetSecurityLabel(&object, PROVIDER);
	if (label != NULL)
	{
		memset(policy, 0, sizeof(RelationPolicy));
		policy->relid = relid;
		read_policy(label, policy);
		return true;
	}
	foreach(lc, parents_of(relid))
		if (find_policy(lfirst_oid(lc), true, policy))
			return true;
	return false;
}

/*
 * What is remembered of a relation, or else found now and remembered; unless
 * something changed meanwhile, then it is looked for again the next time.
 */
static bool
find_policy(Oid relid, bool as_parent, RelationPolicy *policy)
{
	Found	   *line = found_lookup(found, relid);
	uint64		messages_before = messages;
	bool		has_policy;
	bool		exists;

	if (line != NULL)
	{
		line->is_parent |= as_parent;
		*policy = line->policy;
		return line->has_policy;
	}

	check_stack_depth();
	has_policy = search_policy(relid, policy);

	if (messages == messages_before)
	{
		line = found_insert(found, relid, &exists);
		line->is_parent = as_parent;
		line->has_policy = has_policy;
		if (has_policy)
			line->policy = *policy;
	}
	return has_policy;
}

/*
 * labels_policy
 *		The policy of a relation, its own or else its nearest ancestor's; NULL
 *		if there is none.  Good until the next call.
 */
const RelationPolicy *
labels_policy(Oid relid)
{
	static RelationPolicy policy;
	Found	   *line;
	MemoryContext context;
	MemoryContext oldcontext;
	bool		has_policy;

	/*
	 * In a transaction that has the relation's lock already, nothing else may
	 * have listened to others for long.
	 */
	AcceptInvalidationMessages();
	line = found_lookup(found, relid);
	if (likely(line != NULL))
		return line->has_policy ? &line->policy : NULL;

	context = AllocSetContextCreate(CurrentMemoryContext, "pg_ringctl policy",
									ALLOCSET_SMALL_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	has_policy = find_policy(relid, false, &policy);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
	return has_policy ? &policy : NULL;
}

/* Raise an error if the relation is there, but not the user's. */
static void
check_owner(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name != NULL && !object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
}

/*
 * Set a relation's label, or with NULL drop it, as SECURITY LABEL does.  The
 * lock is kept until the transaction ends.  Returns whether it had one.
 */
static bool
set_label(Oid relid, const char *label)
{
	ObjectAddress object;
	Relation	rel;
	bool		had_label;

	PreventCommandIfReadOnly("SECURITY LABEL");
	/* Nobody shall be in the way of what is not his own, vacuum for one. */
	check_owner(relid);
	rel = relations_open(relid, ShareUpdateExclusiveLock);
	check_owner(relid);
	if (!takes_policy(rel->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" cannot have a policy",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind)));

	ObjectAddressSet(object, RelationRelationId, relid);
	check_label(&object, label);
	had_label = GetSecurityLabel(&object, PROVIDER) != NULL;
	SetSecurityLabel(&object, PROVIDER, label);
	relation_close(rel, NoLock);
	return had_label;
}

/*
 * pg_ringctl_set_policy(relation regclass, scan_ring text,
 *						 scan_threshold text, dirty_pages text)
 *
 * Gives the relation this policy, in place of the one that it had.  NULL: as
 * the parameter says.
 */
Datum
pg_ringctl_set_policy(PG_FUNCTION_ARGS)
{
	PolicySettings settings;

	args_check_not_null(fcinfo, 0, "relation");

	for (int i = 0; i < NUM_SETTINGS; i++)
		settings.values[i] = PG_ARGISNULL(i + 1) ? NULL :
			text_to_cstring(PG_GETARG_TEXT_PP(i + 1));
	check_values(&settings);
	(void) set_label(PG_GETARG_OID(0), write_policy(&settings));
	PG_RETURN_VOID();
}

/*
 * pg_ringctl_drop_policy(relation regclass)
 *
 * Takes the relation's own policy away; returns whether it had one.
 */
Datum
pg_ringctl_drop_policy(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(set_label(PG_GETARG_OID(0), NULL));
}

/*
 * pg_ringctl_parse_policy(label text)
 *
 * The settings in a policy's text.
 */
Datum
pg_ringctl_parse_policy(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	PolicySettings settings;
	Datum		values[NUM_SETTINGS] = {0};
	bool		nulls[NUM_SETTINGS];

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	split_policy(text_to_cstring(PG_GETARG_TEXT_PP(0)), &settings, false);
	for (int i = 0; i < NUM_SETTINGS; i++)
	{
		nulls[i] = (settings.values[i] == NULL);
		if (!nulls[i])
			values[i] = CStringGetTextDatum(settings.values[i]);
	}
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}
