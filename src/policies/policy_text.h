/*-------------------------------------------------------------------------
 *
 * policy_text.h
 *	  A policy as text.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_POLICY_TEXT_H
#define RINGCTL_POLICY_TEXT_H

#include "policies/policies.h"

/* The settings of a policy, in the order in which users see them. */
#define POLICY_SETTINGS(SETTING) \
	SETTING(SETS_SCAN_RING, "scan_ring") \
	SETTING(SETS_SCAN_THRESHOLD, "scan_threshold") \
	SETTING(SETS_DIRTY_PAGES, "dirty_pages") \
	SETTING(SETS_INDEX_READ_AHEAD, "index_read_ahead")

#define POLICY_SETTING_MEMBER(setting, name)	setting,

typedef enum PolicySetting
{
	POLICY_SETTINGS(POLICY_SETTING_MEMBER)
	NUM_POLICY_SETTINGS,
} PolicySetting;

/* The settings of a policy as text; NULL where it has none. */
typedef struct PolicyTexts
{
	char	   *values[NUM_POLICY_SETTINGS];
} PolicyTexts;

extern const char *policy_setting_name(PolicySetting setting);
extern void policy_split(const char *label, PolicyTexts *settings, bool strict);
extern void policy_check_label(const char *label);
extern void policy_check_settings(const PolicyTexts *settings);
extern void policy_read(const PolicyTexts *settings, RelationPolicy *policy);
extern void policy_spell(const RelationPolicy *policy, PolicyTexts *settings);
extern char *policy_write(const PolicyTexts *settings);

#endif							/* RINGCTL_POLICY_TEXT_H */
