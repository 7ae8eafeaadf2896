/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"

#define DAYS_MAX 2147483647 /* S3's */

/* In the order in which S3 lets an object descend: checks.c relies on it. */
static const char *const storage_classes[] = {
        "STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE", NULL
};
static const char *const only_true[] = { "true", NULL };

static const struct field selector_fields[] = {
        {
                .name = "environments",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 1000,
                .item = &environment_name_field,
                .doc = "The environments of these names.",
        },
        {
                .name = "matchLabels",
                .type = FIELD_MAP,
                .keys = &label_key_field,
                .item = &label_value_field,
                .minimum = 1,
                .maximum = 100,
                .doc = "The environments that have all of these labels.",
        },
        {
                .name = "all",
                .type = FIELD_BOOLEAN,
                .choices_text = only_true,
                .doc = "Every workspace, also those whose environment is gone.",
        },
        { 0 },
};

static const char *const selector_names[] = { "environments", "matchLabels", "all", NULL };
static const struct field_group selector_groups[] = { { selector_names, true }, { 0 } };

static const struct field transition_fields[] = {
        {
                .name = "afterDays",
                .type = FIELD_INTEGER,
                .required = true,
                .unit = "days",
                .minimum = 0,
                .maximum = DAYS_MAX,
                .doc = "Days after the file was written. STANDARD_IA and ONEZONE_IA take files of 30 days and more.",
        },
        {
                .name = "storageClass",
                .type = FIELD_TEXT,
                .required = true,
                .choices_text = storage_classes,
                .doc = "The S3 storage class to move to.",
        },
        { 0 },
};

static const struct field transition_field = {
        .name = "transition",
        .type = FIELD_OBJECT,
        .fields = transition_fields,
        .doc = "One move.",
};

static const char *const action_names[] = { "transitions", "expireAfterDays", "noncurrentExpireAfterDays",
                                            "abortIncompleteUploadDays", NULL };
const struct field_group workspace_policy_groups[] = { { action_names, false }, { 0 } };

const struct field workspace_policy_fields[] = {
        {
                .name = "selector",
                .type = FIELD_OBJECT,
                .required = true,
                .fields = selector_fields,
                .groups = selector_groups,
                .doc = "Whose workspaces the policy is for. Where several policies fit a file, the shorter expiry wins.",
        },
        {
                .name = "transitions",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 6,
                .item = &transition_field,
                .doc = "Moves to cheaper storage, in the order of their days and of S3's classes.",
        },
        {
                .name = "expireAfterDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = DAYS_MAX,
                .doc = "Files are deleted this many days after they were written; later than the last transition. A "
                       "change that would delete what is there already is refused (expires-existing).",
        },
        {
                .name = "noncurrentExpireAfterDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = DAYS_MAX,
                .doc = "In a bucket with versions: older versions are deleted this many days after they were replaced.",
        },
        {
                .name = "abortIncompleteUploadDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = DAYS_MAX,
                .doc = "Uploads that were begun and not finished are cleared away after so many days. Only with "
                       "selector {all: true}: unfinished uploads have no tags to select by.",
        },
        {
                .name = "maxDownloadFileMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = 1,
                .maximum = 10240,
                .default_text = "25",
                .doc = "The largest file of a workspace that is handed out for download.",
        },
        { 0 },
};
