/*-------------------------------------------------------------------------
 *
 * policies.c
 *	  Policies of relations, kept as security labels.
 *
 * A policy is a text such as
 *
 *		scan_ring=4MB, scan_threshold=0, dirty_pages=leave
 *
 * which sets the parameters with these names for scans of one relation.  The
 * policy is the relation's security label of our provider.  So it is
 * transactional, only the relation's owner can set it, it is dropped with the
 * relation, it reaches standbys, and pg_dump dumps it.  If a partition, or a
 * child by inheritance, has no policy, the policy of its nearest ancestor
 * holds.  If a child has several parents, the first parent with a policy, its
 * own or an ancestor's, decides.  The search ends at MAX_GENERATIONS
 * generations, so that the owner of a table can't make scans of it slow by
 * giving it a long chain of ancestors.
 *
 *	   measure (scan_ring=0)          measure, measure_2025: scan_ring=0
 *	    |-- measure_2025
 *	    `-- measure_2026 ('')         measure_2026: its own, which sets nothing
 *
 * The session remembers what it has found for each relation, so that a scan
 * does not cost a search of catalogs:
 *
 *	   relation       policy of    is_parent: was it found as a parent?
 *	   measure        measure      yes
 *	   measure_2025   measure      no
 *	   measure_2026   itself       no
 *
 * Most databases have no policy at all.  The session remembers that, too, and
 * in that case searches nothing.
 *
 * SECURITY LABEL sends no message of its own that invalidates a relation.  So
 * our hook sends messages to all sessions, at commit: one for the relation,
 * and, unless the label is dropped, one for pg_seclabel before it.  A session
 * that receives the one for pg_seclabel forgets that there is no policy.  (If
 * it forgot that with any message, each CREATE TEMP TABLE would make all
 * sessions of the database search pg_seclabel again.)  A session that receives
 * the one for the relation forgets the relation's line.  If the relation is a
 * parent, the lines of its descendants may be wrong, too, so the session
 * forgets all lines.  When a relation gets or loses a parent, the server sends
 * such a message, because the relation's columns change.  There is one
 * exception: if a parent by inheritance has no columns, no message is sent for
 * the relation, and the session may not notice.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_seclabel.h"
#include "commands/seclabel.h"
#include "common/hashfn.h"
#include "common/heap_am.h"
#include "common/relations.h"
#include "miscadmin.h"
#include "policies/policies.h"
#include "policies/policy_text.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* What was found for a relation: a line of the table above. */
typedef struct Found
{
	Oid			relid;			/* hash key */
	char		status;			/* hash status */
	bool		is_parent;		/* was it found as the parent of another
								 * relation? */
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

/*
 * labels_some: does this session know that there is a label of ours in this
 * database, or assume so because pg_seclabel is large?  labels_none: does it
 * know that there is none?  labels_some is never reset: when the last label
 * has gone, the session searches in vain, which does no harm.
 */
static bool labels_some = false;
bool		labels_none = false;

/*
 * Was labels_none set in a transaction that has an XID?  That transaction may
 * itself have dropped a relation with a label.  If it is rolled back, the
 * label is there again.  Our hook is not called for that, but the relation is
 * invalidated, and relation_changed() resets labels_none.
 */
static bool none_while_writing = false;

/*
 * If pg_seclabel has more blocks than this, assume that one of its labels is
 * ours.
 */
#define MOST_LABEL_BLOCKS	8

/* Generations of ancestors that are searched for a policy. */
#define MAX_GENERATIONS		100

static uint64 invalidations = 0;	/* invalidations received so far */
static bool gave_up;			/* has the present search met a chain of
								 * ancestors that is too long? */

/* Can relations of this kind have a policy? */
static bool
takes_policy(char relkind)
{
	return relkind == RELKIND_RELATION ||
		relkind == RELKIND_PARTITIONED_TABLE ||
		relkind == RELKIND_MATVIEW;
}

/*
 * The provider's hook: the owner of an object sets the object's label, or
 * drops it if label is NULL.  Raises an error if the label is not a policy, or
 * if the object can't have one.  Otherwise invalidates what sessions remember.
 */
static void
check_label(const ObjectAddress *object, const char *label)
{
	if (object->classId != RelationRelationId || object->objectSubId != 0 ||
		!takes_policy(get_rel_relkind(object->objectId)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s cannot have a policy", getObjectDescription(object, false)),
				 errdetail("Only tables, partitioned tables, and materialized views can have one.")));
	if (IsCatalogRelationOid(object->objectId) ||
		get_rel_persistence(object->objectId) == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" cannot have a policy",
						get_rel_name(object->objectId)),
				 errdetail("Scans of system catalogs and of temporary tables are never touched.")));
	if (label != NULL)
	{
		policy_check_label(label);
		/* labels_none does not hold any more in any session */
		CacheInvalidateRelcacheByRelid(SecLabelRelationId);
	}
	CacheInvalidateRelcacheByRelid(object->objectId);
}

/* A relation has changed; or all may have changed, if relid is invalid. */
static void
relation_changed(Datum arg pg_attribute_unused(), Oid relid)
{
	Found	   *line;

	heap_am_relation_changed(relid);
	if (!OidIsValid(relid) || relid == SecLabelRelationId || none_while_writing)
		labels_none = false;
	invalidations++;
	line = OidIsValid(relid) ? found_lookup(found, relid) : NULL;
	if (!OidIsValid(relid) || (line != NULL && line->is_parent))
		found_reset(found);
	else if (line != NULL)
		found_delete_item(found, line);
}

/*
 * labels_init
 *		Begin to watch for changes of relations.
 */
void
labels_init(void)
{
	found = found_create(TopMemoryContext, 128, NULL);
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}

/*
 * labels_accept
 *		Register our label provider, if it is not registered yet.
 *
 * Called when a SECURITY LABEL names our provider, and not earlier.  Without
 * FOR, SECURITY LABEL takes the only provider that is registered, and fails if
 * there are several.  So it must not find ours in a session that never names
 * ours.  On a server that we do not support, our hooks are not installed, so
 * this is called when the library is loaded.
 */
void
labels_accept(void)
{
	static bool registered = false;

	if (registered)
		return;
	register_label_provider(LABEL_PROVIDER, check_label);
	registered = true;
}

/* The relations that have a label of ours, but no more than "most" of them. */
static List *
labelled(Relation labels, int most)
{
	List	   *relids = NIL;
	SysScanDesc scan = systable_beginscan(labels, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (list_length(relids) < most && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		struct FormData_pg_seclabel *form = (void *) GETSTRUCT(tuple);
		bool		isnull;
		Datum		provider = heap_getattr(tuple, Anum_pg_seclabel_provider,
											RelationGetDescr(labels), &isnull);

		if (form->classoid == RelationRelationId && form->objsubid == 0 &&
			strcmp(TextDatumGetCString(provider), LABEL_PROVIDER) == 0)
			relids = lappend_oid(relids, form->objoid);
	}
	systable_endscan(scan);
	return relids;
}

static bool
search_any_label(void)
{
	Relation	labels = table_open(SecLabelRelationId, AccessShareLock);
	bool		any = RelationGetNumberOfBlocks(labels) > MOST_LABEL_BLOCKS ||
		labelled(labels, 1) != NIL;

	table_close(labels, AccessShareLock);
	return any;
}

/* May any relation of this database have a policy? */
static bool
any_label(void)
{
	uint64		invalidations_before = invalidations;

	if (!labels_some)
		labels_some = search_any_label();
	labels_none = !labels_some && invalidations == invalidations_before;
	none_while_writing = TransactionIdIsValid(GetTopTransactionIdIfAny());
	return labels_some;
}

/*
 * The parents of a relation, in order.  A partitioned table from which the
 * relation is being detached is not among them.
 */
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

static bool find_policy(Oid relid, int generation, RelationPolicy *policy);

/* Search the catalogs for a relation's policy: see find_policy(). */
static bool
search_policy(Oid relid, int generation, RelationPolicy *policy)
{
	ObjectAddress object;
	char	   *label;
	ListCell   *lc;

	ObjectAddressSet(object, RelationRelationId, relid);
	label = GetSecurityLabel(&object, LABEL_PROVIDER);
	if (label != NULL)
	{
		PolicyTexts settings;

		policy_split(label, &settings, false);
		memset(policy, 0, sizeof(RelationPolicy));
		policy->relid = relid;
		policy_read(&settings, policy);
		return true;
	}
	foreach(lc, parents_of(relid))
	{
		if (find_policy(lfirst_oid(lc), generation + 1, policy))
			return true;
		if (gave_up)
			break;
	}
	return false;
}

/*
 * Find a relation's policy, in what is remembered or else in the catalogs, and
 * remember it.  If an invalidation message comes meanwhile, do not remember
 * the policy, so that the next call searches again.  generation: the distance
 * to the relation whose policy is wanted.
 *
 * If a chain of ancestors is too long, or too long for the stack, the search
 * ends: the other chains are not searched.  (Nothing on the long chain can be
 * remembered.  Without this rule, each chain that leads to it would be
 * searched, and there may be 2^100 of these chains.)
 */
static bool
find_policy(Oid relid, int generation, RelationPolicy *policy)
{
	Found	   *line = found_lookup(found, relid);
	uint64		invalidations_before = invalidations;
	bool		has_policy;
	bool		exists;

	if (line != NULL)
	{
		line->is_parent |= generation > 0;
		*policy = line->policy;
		return line->has_policy;
	}

	CHECK_FOR_INTERRUPTS();
	if (generation > MAX_GENERATIONS || stack_is_too_deep())
	{
		gave_up = true;
		return false;
	}
	has_policy = search_policy(relid, generation, policy);

	if (invalidations == invalidations_before && !gave_up)
	{
		line = found_insert(found, relid, &exists);
		line->is_parent = generation > 0;
		line->has_policy = has_policy;
		if (has_policy)
			line->policy = *policy;
	}
	return has_policy;
}

/*
 * labels_policy
 *		The policy of a relation, its own or else its nearest ancestor's; NULL
 *		if there is none.  The result is valid until the next call, or until
 *		the next invalidation message is processed.
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
	 * If the transaction locked the relation long ago, newer invalidation
	 * messages may be waiting to be processed.
	 */
	AcceptInvalidationMessages();
	if (labels_none)
		return NULL;
	line = found_lookup(found, relid);
	if (likely(line != NULL))
		return line->has_policy ? &line->policy : NULL;

	context = AllocSetContextCreate(CurrentMemoryContext, "pg_ringctl policy",
									ALLOCSET_SMALL_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	gave_up = false;
	has_policy = any_label() && find_policy(relid, 0, &policy);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
	return has_policy ? &policy : NULL;
}

/*
 * labels_look_up
 *		Does the relation have a policy, its own or an ancestor's?  This is the
 *		slow path of policy_may_be_set(), for sessions in which labels_none is
 *		false.
 */
bool
labels_look_up(Oid relid)
{
	Found	   *line = found_lookup(found, relid);

	return line ? line->has_policy : labels_policy(relid) != NULL;
}

/* Raise an error if the relation exists and the user does not own it. */
static void
check_owner(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name != NULL && !object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
}

/*
 * labels_check_writable
 *		Raise an error (25006) if labels cannot be set now.  function: name of
 *		the function that the user has called.
 */
void
labels_check_writable(const char *function)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", function),
				 errhint("Set policies on the primary; they hold here, too.")));
	PreventCommandIfReadOnly(function);
}

/*
 * labels_set
 *		Set a relation's label, or drop it if label is NULL, as SECURITY LABEL
 *		does.  Returns whether the relation had a label.  If the relation does
 *		not exist, raises an error, or returns false if missing_ok.  Raises an
 *		error if the user does not own the relation (42501), if the relation
 *		can't have a policy (42809), or if the label is not a policy (22023).
 *
 * The relation stays locked until the transaction ends.
 */
bool
labels_set(Oid relid, const char *label, bool missing_ok)
{
	ObjectAddress object;
	Relation	rel;
	bool		had_label;

	/*
	 * Also check the owner before locking: others must not be able to block
	 * vacuum, for example.
	 */
	check_owner(relid);
	rel = missing_ok ? try_relation_open(relid, ShareUpdateExclusiveLock) :
		relations_open_existing(relid, ShareUpdateExclusiveLock);
	if (rel == NULL)
		return false;
	check_owner(relid);
	if (!takes_policy(rel->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" cannot have a policy",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind)));

	ObjectAddressSet(object, RelationRelationId, relid);
	check_label(&object, label);
	had_label = GetSecurityLabel(&object, LABEL_PROVIDER) != NULL;
	SetSecurityLabel(&object, LABEL_PROVIDER, label);
	CommandCounterIncrement();	/* the same statement may set it again */
	relation_close(rel, NoLock);
	return had_label;
}

/*
 * labels_relations
 *		A list of the OIDs of all relations of this database that have a label
 *		of ours.
 */
List *
labels_relations(void)
{
	Relation	labels = table_open(SecLabelRelationId, AccessShareLock);
	List	   *relids = labelled(labels, PG_INT32_MAX);

	table_close(labels, AccessShareLock);
	return relids;
}
