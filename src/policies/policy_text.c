/*-------------------------------------------------------------------------
 *
 * policy_text.c
 *	  A policy as text.
 *
 * A policy has three forms.  It is stored as a label, users set and see it as
 * settings, and scans use it as numbers:
 *
 *	  "scan_ring=1024kB, dirty_pages=Leave"			a label, as it is written
 *				|							^
 *				v  policy_split()			|  policy_write()
 *	  {"1024kB", NULL, "Leave", NULL}				settings
 *				|							^
 *				v  policy_read()			|  policy_spell()
 *	  {scan_ring: 1024, dirty_pages: DIRTY_LEAVE}	the policy
 *
 * policy_spell() spells each value as SHOW spells the value of the parameter:
 * "1MB", "leave".
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <limits.h>

#include "common/arguments.h"
#include "lib/stringinfo.h"
#include "policies/policy_text.h"
#include "utils/builtins.h"
#include "utils/guc.h"

/* The longest label, in bytes: several times as long as any policy needs. */
#define MAX_LABEL		1000

static const char *const dirty_pages_names[] = {
	[DIRTY_WRITE] = "write",
	[DIRTY_LEAVE] = "leave",
};

/*
 * policy_setting_name
 *		The name of a setting, which is also the name of a parameter.
 */
const char *
policy_setting_name(PolicySetting setting)
{
#define NAME(setting, name)		[setting] = name,
	static const char *const names[] = {POLICY_SETTINGS(NAME)};
#undef NAME

	return names[setting];
}

/* Remove white space at both ends of a string.  Changes the string. */
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

/* The setting with this name; -1 if there is none. */
static int
setting_number(const char *name)
{
	for (int i = 0; i < NUM_POLICY_SETTINGS; i++)
		if (pg_strcasecmp(name, policy_setting_name(i)) == 0)
			return i;
	return -1;
}

static void
malformed(const char *label, const char *item, bool twice)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid policy: \"%s\"", label),
			 *item == '\0' ? errdetail("A setting is missing before or after a comma.") :
			 twice ? errdetail("\"%s\" is set more than once.", item) :
			 errdetail("\"%s\" is not a setting.", item),
			 errhint("A policy is a list of settings, separated by commas, such as "
					 "\"scan_ring=4MB, scan_threshold=0, dirty_pages=leave\"; "
					 "each setting is optional, and takes the values of the parameter of the same name.")));
}

/*
 * policy_split
 *		Get the settings in a label, as they are written there; palloc'd.  If
 *		the label is longer than any policy, it sets nothing.  If the label has
 *		an item that is not a setting, or sets something twice, raises an error
 *		(22023) if strict is true; otherwise ignores that item.
 */
void
policy_split(const char *label, PolicyTexts *settings, bool strict)
{
	char	   *rest;
	char	   *item;

	memset(settings, 0, sizeof(PolicyTexts));
	if (strlen(label) > MAX_LABEL || *trim(pstrdup(label)) == '\0')
		return;					/* sets nothing */
	rest = pstrdup(label);
	while ((item = strsep(&rest, ",")) != NULL)
	{
		char	   *whole = trim(pstrdup(item));
		char	   *value = strchr(item, '=');
		int			setting = -1;

		if (value != NULL)
		{
			*value++ = '\0';
			item = trim(item);
			setting = setting_number(item);
		}
		if (setting >= 0 && settings->values[setting] == NULL)
			settings->values[setting] = trim(value);
		else if (strict)
			malformed(label, setting < 0 ? whole : item, setting >= 0);
	}
}

static int
parse_ring(const char *value)
{
	return args_check_ring("scan_ring",
						   args_parse_size("scan_ring", value, GUC_UNIT_KB),
						   "-1 means that the size is chosen; 0 means no ring.");
}

static int
parse_threshold(const char *value)
{
	int			blocks = args_parse_size("scan_threshold", value, GUC_UNIT_BLOCKS);

	args_check_between("scan_threshold", blocks, -1, INT_MAX);
	return blocks;
}

/* The value of dirty_pages with this name; -1 if there is none. */
static int
dirty_pages_number(const char *value)
{
	for (int i = 0; i < (int) lengthof(dirty_pages_names); i++)
		if (pg_strcasecmp(value, dirty_pages_names[i]) == 0)
			return i;
	return -1;
}

static bool
parse_switch(const char *value)
{
	bool		on;

	if (!parse_bool(value, &on))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"%s\": \"%s\"", "index_read_ahead", value),
				 errhint("Give a Boolean value, such as \"on\" or \"off\".")));
	return on;
}

/*
 * policy_check_settings
 *		Raise an error (22023) if the value of a setting is not one that the
 *		parameter of the same name takes, or is a size that would be rounded
 *		to 0.
 */
void
policy_check_settings(const PolicyTexts *settings)
{
	const char *dirty_pages = settings->values[SETS_DIRTY_PAGES];

	if (settings->values[SETS_SCAN_RING] != NULL)
		(void) parse_ring(settings->values[SETS_SCAN_RING]);
	if (settings->values[SETS_SCAN_THRESHOLD] != NULL)
		(void) parse_threshold(settings->values[SETS_SCAN_THRESHOLD]);
	if (dirty_pages != NULL && dirty_pages_number(dirty_pages) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"%s\": \"%s\"", "dirty_pages", dirty_pages),
				 errhint("Valid values are \"write\" and \"leave\".")));
	if (settings->values[SETS_INDEX_READ_AHEAD] != NULL)
		(void) parse_switch(settings->values[SETS_INDEX_READ_AHEAD]);
}

/*
 * policy_check_label
 *		Raise an error (22023) if the label is not a policy.
 */
void
policy_check_label(const char *label)
{
	PolicyTexts settings;

	if (strlen(label) > MAX_LABEL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid policy"),
				 errdetail("It has %zu bytes; a policy has at most %d.",
						   strlen(label), MAX_LABEL)));
	policy_split(label, &settings, true);
	policy_check_settings(&settings);
}

/*
 * policy_read
 *		Set the members of the policy from its settings.
 *
 * The values of a stored label were checked when it was set.  If one of them
 * can't be parsed nevertheless, it is ignored.
 */
void
policy_read(const PolicyTexts *settings, RelationPolicy *policy)
{
	const char *ring = settings->values[SETS_SCAN_RING];
	const char *threshold = settings->values[SETS_SCAN_THRESHOLD];
	const char *dirty_pages = settings->values[SETS_DIRTY_PAGES];
	const char *read_ahead = settings->values[SETS_INDEX_READ_AHEAD];

	policy->sets_scan_ring = ring != NULL &&
		parse_int(ring, &policy->scan_ring, GUC_UNIT_KB, NULL);
	policy->sets_scan_threshold = threshold != NULL &&
		parse_int(threshold, &policy->scan_threshold, GUC_UNIT_BLOCKS, NULL);
	policy->sets_dirty_pages = dirty_pages != NULL &&
		dirty_pages_number(dirty_pages) >= 0;
	if (policy->sets_dirty_pages)
		policy->dirty_pages = dirty_pages_number(dirty_pages);
	policy->sets_index_read_ahead = read_ahead != NULL &&
		parse_bool(read_ahead, &policy->index_read_ahead);
}

/*
 * policy_spell
 *		Get the settings of a policy as text, palloc'd, each spelled as SHOW
 *		spells the parameter of the same name.
 */
void
policy_spell(const RelationPolicy *policy, PolicyTexts *settings)
{
	memset(settings, 0, sizeof(PolicyTexts));
	if (policy->sets_scan_ring)
		settings->values[SETS_SCAN_RING] = args_spell_size(policy->scan_ring);
	if (policy->sets_scan_threshold)
	{
		int64		blocks = policy->scan_threshold;

		settings->values[SETS_SCAN_THRESHOLD] =
			args_spell_size(blocks > 0 ? blocks * KB_PER_BUFFER : blocks);
	}
	if (policy->sets_dirty_pages)
		settings->values[SETS_DIRTY_PAGES] =
			pstrdup(dirty_pages_names[policy->dirty_pages]);
	if (policy->sets_index_read_ahead)
		settings->values[SETS_INDEX_READ_AHEAD] =
			pstrdup(policy->index_read_ahead ? "on" : "off");
}

/*
 * policy_write
 *		The label of a policy with these settings; palloc'd.
 */
char *
policy_write(const PolicyTexts *settings)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < NUM_POLICY_SETTINGS; i++)
	{
		if (settings->values[i] != NULL)
			appendStringInfo(&buf, "%s%s=%s", buf.len > 0 ? ", " : "",
							 policy_setting_name(i), settings->values[i]);
	}
	return buf.data;
}
