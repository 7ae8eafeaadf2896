/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"
#include "schema/loading.h"

#include <inttypes.h>

/* One of the three numbers of a range; the limits are those of the Environment's own field. */
#define BOUND(bound_name, lowest, highest, text)                                                \
        {                                                                                       \
                .name = (bound_name), .type = FIELD_INTEGER, .unit = "MB", .minimum = (lowest), \
                .maximum = (highest), .doc = (text)                                             \
        }

static const char min_doc[] = "The least that is allowed. Absent: what the Environment's field allows.";
static const char max_doc[] = "The most that is allowed. Absent: what the Environment's field allows.";
static const char default_doc[] =
        "What an environment gets that says nothing. Absent: the Environment's own default if "
        "it is within the range, else min.";

static const struct field memory_fields[] = {
        BOUND("min", MEMORY_MB_MIN, MEMORY_MB_MAX, min_doc),
        BOUND("max", MEMORY_MB_MIN, MEMORY_MB_MAX, max_doc),
        BOUND("default", MEMORY_MB_MIN, MEMORY_MB_MAX, default_doc),
        { 0 },
};
static const struct field storage_fields[] = {
        BOUND("min", STORAGE_MB_MIN, STORAGE_MB_MAX, min_doc),
        BOUND("max", STORAGE_MB_MIN, STORAGE_MB_MAX, max_doc),
        BOUND("default", STORAGE_MB_MIN, STORAGE_MB_MAX, default_doc),
        { 0 },
};

static const char *const bound_names[] = { "min", "max", "default", NULL };
static const struct field_group bound_groups[] = { { bound_names, false }, { 0 } };

static const struct field selector_fields[] = {
        {
                .name = "matchLabels",
                .type = FIELD_MAP,
                .required = true,
                .keys = &label_key_field,
                .item = &label_value_field,
                .doc = "Environments that have all of these labels. An empty map matches every environment.",
        },
        { 0 },
};

static const char *const limit_names[] = { "memoryMB", "workspaceStorageMB", NULL };
static const struct field_group resource_range_groups[] = { { limit_names, false }, { 0 } };

static const struct field resource_range_fields[] = {
        {
                .name = "selector",
                .type = FIELD_OBJECT,
                .required = true,
                .fields = selector_fields,
                .doc = "Which environments the range is for.",
        },
        {
                .name = "memoryMB",
                .type = FIELD_OBJECT,
                .fields = memory_fields,
                .groups = bound_groups,
                .doc = "The range of the environments' memoryMB.",
        },
        {
                .name = "workspaceStorageMB",
                .type = FIELD_OBJECT,
                .fields = storage_fields,
                .groups = bound_groups,
                .doc = "The range of the environments' workspaceStorageMB.",
        },
        { 0 },
};

/* min <= default <= max, of those that are given. */
static void check_bounds(struct loading *loading, const struct value *spec, const char *name) {
        const struct value *bounds = value_get(spec, name);
        const struct value *least = typed_member(bounds, "min", VALUE_INTEGER);
        const struct value *most = typed_member(bounds, "max", VALUE_INTEGER);
        const struct value *otherwise = typed_member(bounds, "default", VALUE_INTEGER);

        if (least && most && least->integer > most->integer) {
                problem_error(loading, place_of(most), NULL, "%s.max is %" PRId64 ", less than min, %" PRId64,
                              name, most->integer, least->integer);
                return;
        }
        if (otherwise && least && otherwise->integer < least->integer)
                problem_error(loading, place_of(otherwise), NULL,
                              "%s.default is %" PRId64 ", less than min, %" PRId64, name, otherwise->integer,
                              least->integer);
        if (otherwise && most && otherwise->integer > most->integer)
                problem_error(loading, place_of(otherwise), NULL,
                              "%s.default is %" PRId64 ", more than max, %" PRId64, name, otherwise->integer,
                              most->integer);
}

static void check_resource_range(struct loading *loading, const struct draft *draft) {
        check_bounds(loading, draft->resource.spec, "memoryMB");
        check_bounds(loading, draft->resource.spec, "workspaceStorageMB");
}

static const char *const short_names[] = { "range", NULL };

const struct kind resource_range_kind = {
        .id = KIND_RESOURCE_RANGE,
        .name = "ResourceRange",
        .short_names = short_names,
        .doc = "What the platform team allows environments to ask for. It can only narrow the limits of the "
               "Environment's own fields. Several that match intersect.",
        .fields = resource_range_fields,
        .groups = resource_range_groups,
        .check = check_resource_range,
        .resolve = ranges_apply,
};
