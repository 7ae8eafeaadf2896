/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceRanges applied to environments: what several allow together, and what an environment gets by default.
 *
 * For each environment and field the schema's limits are narrowed by each range whose labels match,
 * and who narrowed them last is remembered, so that a message can name that range and its line. A
 * value that people wrote must lie within what is left. A default (line 0) is chosen: the ranges'
 * own default, or the schema's if that lies within, or the least.
 */
#include "base/array.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <string.h>

/* The limits that remain of one field for one environment, and the ranges that set them. */
struct limit {
        const char *field;
        int64_t least, most;
        const struct draft *least_by, *most_by; /* NULL: the schema */
        const struct draft *default_by;
        const struct value *otherwise; /* the default, or NULL */
};

/* Two ranges that contradict each other are reported once, not for each environment that both match. */
struct contradiction {
        const struct draft *a, *b;
        const char *field, *what;
};

struct ranging {
        struct loading *loading;
        const struct draft *ranges;
        size_t range_count;
        struct contradiction *known;
        size_t known_count;
};

bool labels_match(const struct value *labels, const struct value *wanted) {
        for (uint32_t i = 0; wanted && wanted->type == VALUE_MAP && i < wanted->count; i++) {
                const char *have = value_get_text(labels, wanted->members[i].name);
                const char *want = value_text_of(&wanted->members[i].value);

                if (!have || !want || strcmp(have, want) != 0)
                        return false;
        }
        return true;
}

static bool is_new_contradiction(struct ranging *ranging, const struct draft *a, const struct draft *b,
                                 const char *field, const char *what) {
        for (size_t i = 0; i < ranging->known_count; i++) {
                const struct contradiction *known = &ranging->known[i];

                if (known->a == a && known->b == b && strcmp(known->field, field) == 0 &&
                    strcmp(known->what, what) == 0)
                        return false;
        }
        ranging->known = array_grow(ranging->loading->work, ranging->known, ranging->known_count,
                                    sizeof(*ranging->known));
        ranging->known[ranging->known_count++] = (struct contradiction){ a, b, field, what };
        return true;
}

static const struct value *range_bound(const struct draft *range, const char *field, const char *name) {
        return typed_member(value_get(range->resource.spec, field), name, VALUE_INTEGER);
}

static void contradict_default(struct ranging *ranging, struct limit *limit, const struct draft *range,
                               const struct value *otherwise) {
        struct loading *loading = ranging->loading;

        if (!is_new_contradiction(ranging, limit->default_by, range, limit->field, "default"))
                return;
        loading->address = range->resource.address;
        problem_error(loading, place_of(otherwise),
                      "ranges that match the same environment must agree on the default",
                      "%s.default is %" PRId64 " here and %" PRId64 " in %s (%s)", limit->field,
                      otherwise->integer, limit->otherwise->integer, limit->default_by->resource.address,
                      problem_place_text(loading, place_of(limit->otherwise)));
}

static void narrow_limit(struct ranging *ranging, struct limit *limit, const struct draft *range) {
        const struct value *least = range_bound(range, limit->field, "min"),
                           *most = range_bound(range, limit->field, "max");
        const struct value *otherwise = range_bound(range, limit->field, "default");

        if (least && least->integer > limit->least) {
                limit->least = least->integer;
                limit->least_by = range;
        }
        if (most && most->integer < limit->most) {
                limit->most = most->integer;
                limit->most_by = range;
        }
        if (!otherwise)
                return;
        if (limit->otherwise && limit->otherwise->integer != otherwise->integer) {
                contradict_default(ranging, limit, range, otherwise);
                return;
        }
        limit->otherwise = otherwise;
        limit->default_by = range;
}

static void report_empty(struct ranging *ranging, const struct limit *limit,
                         const struct draft *environment) {
        struct loading *loading = ranging->loading;
        const struct draft *low = limit->least_by, *high = limit->most_by;
        const struct value *most;

        /* One range that contradicts itself was reported with its own checks. */
        if (!low || !high || low == high || !is_new_contradiction(ranging, low, high, limit->field, "empty"))
                return;
        most = range_bound(high, limit->field, "max");
        loading->address = high->resource.address;
        problem_error(loading, place_of(most), NULL,
                      "no %s is left for %s: %" PRId64 " at most here, %" PRId64 " at least in %s (%s)",
                      limit->field, environment->resource.address, limit->most, limit->least,
                      low->resource.address,
                      problem_place_text(loading, place_of(range_bound(low, limit->field, "min"))));
}

static void report_outside(struct ranging *ranging, const struct limit *limit, const struct value *value) {
        const struct draft *by = value->integer < limit->least ? limit->least_by : limit->most_by;
        const struct value *its;

        /* The schema's own limit, which no range narrowed: reported when the field was read. */
        if (!by)
                return;
        its = range_bound(by, limit->field,
                          by == limit->least_by && value->integer < limit->least ? "min" : "max");
        problem_error(ranging->loading, place_of(value), NULL,
                      "%s must be %" PRId64 " to %" PRId64 ", found %" PRId64 ": so says %s (%s)",
                      limit->field, limit->least, limit->most, value->integer, by->resource.address,
                      problem_place_text(ranging->loading, place_of(its)));
}

/* What the environment gets that says nothing. */
static int64_t choose_default(struct ranging *ranging, const struct limit *limit, int64_t schema_default) {
        struct loading *loading = ranging->loading;

        if (!limit->otherwise) {
                bool within = schema_default >= limit->least && schema_default <= limit->most;

                return within ? schema_default : limit->least;
        }
        if (limit->otherwise->integer < limit->least || limit->otherwise->integer > limit->most) {
                const struct draft *by =
                        limit->otherwise->integer < limit->least ? limit->least_by : limit->most_by;

                if (by && by != limit->default_by &&
                    is_new_contradiction(ranging, limit->default_by, by, limit->field, "outside")) {
                        loading->address = limit->default_by->resource.address;
                        problem_error(loading, place_of(limit->otherwise), NULL,
                                      "%s.default is %" PRId64 ", %s leaves %" PRId64 " to %" PRId64,
                                      limit->field, limit->otherwise->integer, by->resource.address,
                                      limit->least, limit->most);
                }
        }
        return limit->otherwise->integer;
}

static void apply_to_field(struct ranging *ranging, const struct draft *environment, const char *name) {
        const struct field *field = kind_field(kinds[KIND_ENVIRONMENT], name);
        struct value *value = (struct value *)value_get(environment->resource.spec, name);
        struct limit limit = { .field = name, .least = field->minimum, .most = field->maximum };

        for (size_t i = 0; i < ranging->range_count; i++) {
                const struct draft *range = &ranging->ranges[i];
                const struct value *wanted = value_path(range->resource.spec, "selector.matchLabels");

                if (wanted && wanted->type == VALUE_MAP && labels_match(environment->resource.labels, wanted))
                        narrow_limit(ranging, &limit, range);
        }
        if (limit.least > limit.most) {
                report_empty(ranging, &limit, environment);
                return;
        }
        if (!value || value->type != VALUE_INTEGER)
                return;
        ranging->loading->address = environment->resource.address;
        if (value->line == 0)
                value->integer = choose_default(ranging, &limit, value->integer);
        else if (value->integer < limit.least || value->integer > limit.most)
                report_outside(ranging, &limit, value);
}

void ranges_apply(struct loading *loading) {
        struct ranging ranging = { .loading = loading };
        const struct resource *all = loading->manifests->resources, *ranges, *environments;
        size_t environment_count;

        ranges = manifests_of_kind(loading->manifests, KIND_RESOURCE_RANGE, &ranging.range_count);
        environments = manifests_of_kind(loading->manifests, KIND_ENVIRONMENT, &environment_count);
        if (ranging.range_count == 0)
                return;
        ranging.ranges = &loading->drafts[ranges - all];
        for (size_t i = 0; i < environment_count; i++) {
                const struct draft *environment = &loading->drafts[environments - all + (ptrdiff_t)i];

                apply_to_field(&ranging, environment, "memoryMB");
                apply_to_field(&ranging, environment, "workspaceStorageMB");
        }
        loading->address = NULL;
}
