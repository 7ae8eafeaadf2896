/* SPDX-License-Identifier: Apache-2.0 */
/* What one resource must satisfy beyond its fields. What was wrong with a field is absent here: said already. */
#include "base/terminal.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VARIABLES_SIZE_MAX 4096U
#define IA_DAYS_MIN 30

/* Lambda measures the variables as the JSON object that they are sent as. */
static size_t json_size(const char *text) {
        size_t size = 2;

        for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++) {
                if (*byte == '"' || *byte == '\\' || *byte == '\n' || *byte == '\r' || *byte == '\t')
                        size += 2;
                else
                        size += *byte < 0x20 ? 6 : 1;
        }
        return size;
}

const struct value *typed_member(const struct value *map, const char *name, enum value_type type) {
        const struct value *value = value_get(map, name);

        return value && value->type == type ? value : NULL;
}

/* ECR's own pattern lets the host of a registry through. */
static void check_repository(struct loading *loading, const struct value *image) {
        const struct value *repository = typed_member(image, "repository", VALUE_TEXT);

        if (repository && strstr(repository->text, ".amazonaws.com"))
                problem_error(loading, place_of(repository),
                              "the registry is the stack's own account and region; name the repository alone",
                              "repository must not name a registry, found \"%s\"", repository->text);
}

static void check_image(struct loading *loading, const struct draft *draft) {
        check_repository(loading, draft->resource.spec);
}

static void check_environment(struct loading *loading, const struct draft *draft) {
        const struct value *variables = typed_member(draft->resource.spec, "variables", VALUE_MAP);
        size_t size = 2;

        check_repository(loading, value_get(draft->resource.spec, "image"));
        for (uint32_t i = 0; variables && i < variables->count; i++) {
                const struct member *member = &variables->members[i];
                const char *text = value_text_of(&member->value);

                size += json_size(member->name) + 1 + json_size(text ? text : "") + (i > 0);
        }
        if (variables && size > VARIABLES_SIZE_MAX)
                problem_error(loading, place_of(variables),
                              "keep large texts in a file of the image or in S3",
                              "the variables take %zu bytes together, AWS Lambda allows %u", size,
                              VARIABLES_SIZE_MAX);
}

/* Beyond ASCII, AWS takes letters, digits and spaces alone; the fields' pattern cannot say that. */
static void check_tag_text(struct loading *loading, struct place place, const char *key, const char *text) {
        int32_t wrong = 0;
        const char *shown;

        /* The ASCII characters that the pattern has refused already are not refused twice. */
        if (text_is_words(text, strlen(text), "!\"#$%&'()*,;<>?[\\]^`{|}~_.:/=+-@", &wrong))
                return;
        shown = arena_printf(loading->arena,
                             wrong < 0x20 || wrong == 0x7F ? "the control character U+%04X" : "U+%04X",
                             (unsigned)wrong);
        problem_error(loading, place, NULL,
                      "tags.%.128s must be letters, digits, spaces and . : / = + - @ _, found %s", key,
                      shown);
}

static void check_stack(struct loading *loading, const struct draft *draft) {
        const struct value *tags = typed_member(draft->resource.spec, "tags", VALUE_MAP);

        for (uint32_t i = 0; tags && i < tags->count; i++) {
                const struct member *member = &tags->members[i];
                const char *text = value_text_of(&member->value);

                check_tag_text(loading, place_of_key(member), member->name, member->name);
                if (text)
                        check_tag_text(loading, place_of(&member->value), member->name, text);
                if (strncasecmp(member->name, "aws:", 4) == 0 || strncasecmp(member->name, "berth:", 6) == 0)
                        problem_error(loading, place_of_key(member), NULL,
                                      "tags that begin with %s are not yours to set",
                                      strncasecmp(member->name, "aws:", 4) == 0 ? "aws:" : "berth:");
        }
}

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

static void check_agent(struct loading *loading, const struct draft *draft) {
        const struct value *spec = draft->resource.spec;
        const char *type = value_get_text(spec, "type");
        const struct value *active = value_get(spec, "active");
        struct place place = draft->name;

        if (!type || strcmp(type, "specialist") != 0 || !value_get_boolean(spec, "active", false) ||
            value_get(spec, "environment"))
                return;
        if (active->line > 0)
                place = place_of(active);
        problem_error(loading, place, "name its environment, or write active: false",
                      "a specialist without an environment cannot be active");
}

static int compare_items(const void *a, const void *b) {
        const struct value *const *left = a, *const *right = b;
        int order = strcmp((*left)->text, (*right)->text);

        if (order != 0)
                return order;
        return *left < *right ? -1 : *left > *right;
}

/* Names in a list, each once. */
static void check_names_once(struct loading *loading, const struct value *list) {
        const struct value **sorted;
        size_t count = 0;

        if (!list || list->count < 2)
                return;
        sorted = calloc(list->count, sizeof(const struct value *));
        if (!sorted)
                abort();
        for (uint32_t i = 0; i < list->count; i++) {
                if (value_text_of(&list->items[i]))
                        sorted[count++] = &list->items[i];
        }
        qsort(sorted, count, sizeof(const struct value *), compare_items);
        for (size_t i = 1; i < count; i++) {
                if (strcmp(sorted[i - 1]->text, sorted[i]->text) == 0)
                        problem_error(loading, place_of(sorted[i]), NULL,
                                      "%.100s is named twice, first on line %u", sorted[i]->text,
                                      sorted[i - 1]->line);
        }
        free(sorted);
}

static void check_swarm(struct loading *loading, const struct draft *draft) {
        check_names_once(loading, typed_member(draft->resource.spec, "agents", VALUE_LIST));
}

static bool is_infrequent_access(const char *storage_class) {
        return strcmp(storage_class, "STANDARD_IA") == 0 || strcmp(storage_class, "ONEZONE_IA") == 0;
}

/* How far down S3's staircase a class is: its place in the field's choices. */
static size_t depth_of_class(const struct kind *kind, const char *storage_class) {
        const struct field *field = kind_field(kind, "transitions.storageClass");
        size_t depth = 0;

        while (field->choices_text[depth] && strcmp(field->choices_text[depth], storage_class) != 0)
                depth++;
        return depth;
}

static void check_transition_pair(struct loading *loading, const struct kind *kind,
                                  const struct value *before, const struct value *after) {
        const char *from = value_get_text(before, "storageClass"),
                   *to = value_get_text(after, "storageClass");
        const struct value *from_days = typed_member(before, "afterDays", VALUE_INTEGER);
        const struct value *to_days = typed_member(after, "afterDays", VALUE_INTEGER);

        if (!from || !to || !from_days || !to_days)
                return;
        if (depth_of_class(kind, to) <= depth_of_class(kind, from))
                problem_error(
                        loading, place_of(value_get(after, "storageClass")),
                        "the order is STANDARD_IA, INTELLIGENT_TIERING, ONEZONE_IA, GLACIER_IR, GLACIER, "
                        "DEEP_ARCHIVE",
                        "S3 moves nothing from %s to %s", from, to);
        if (to_days->integer <= from_days->integer)
                problem_error(loading, place_of(to_days), NULL,
                              "afterDays is %" PRId64 ", not after the transition before it, %" PRId64,
                              to_days->integer, from_days->integer);
        else if (is_infrequent_access(from) && to_days->integer - from_days->integer < IA_DAYS_MIN)
                problem_error(
                        loading, place_of(to_days), NULL,
                        "S3 keeps files in %s for %d days before it moves them on: afterDays must be at least %" PRId64
                        ", found %" PRId64,
                        from, IA_DAYS_MIN, from_days->integer + IA_DAYS_MIN, to_days->integer);
}

static void check_transitions(struct loading *loading, const struct draft *draft,
                              const struct value *transitions) {
        for (uint32_t i = 0; i < transitions->count; i++) {
                const struct value *transition = &transitions->items[i];
                const char *storage_class = value_get_text(transition, "storageClass");
                const struct value *days = typed_member(transition, "afterDays", VALUE_INTEGER);

                if (storage_class && days && is_infrequent_access(storage_class) &&
                    days->integer < IA_DAYS_MIN)
                        problem_error(loading, place_of(days), NULL,
                                      "S3 moves files to %s after %d days at the earliest, found %" PRId64,
                                      storage_class, IA_DAYS_MIN, days->integer);
                if (i > 0)
                        check_transition_pair(loading, draft->resource.kind, &transitions->items[i - 1],
                                              transition);
        }
}

static void check_workspace_policy(struct loading *loading, const struct draft *draft) {
        const struct value *spec = draft->resource.spec;
        const struct value *transitions = typed_member(spec, "transitions", VALUE_LIST);
        const struct value *expire = typed_member(spec, "expireAfterDays", VALUE_INTEGER);
        const struct value *abort_days = typed_member(spec, "abortIncompleteUploadDays", VALUE_INTEGER);
        const struct value *selector = typed_member(spec, "selector", VALUE_MAP);

        check_names_once(loading, typed_member(selector, "environments", VALUE_LIST));
        if (abort_days && selector && !value_get(selector, "all"))
                problem_error(
                        loading, place_of(abort_days), "put it into a policy with selector {all: true}",
                        "abortIncompleteUploadDays needs selector {all: true}: unfinished uploads have no tags "
                        "to select by");
        if (!transitions || transitions->count == 0)
                return;
        check_transitions(loading, draft, transitions);
        if (expire) {
                const struct value *last =
                        typed_member(&transitions->items[transitions->count - 1], "afterDays", VALUE_INTEGER);

                if (last && expire->integer <= last->integer)
                        problem_error(loading, place_of(expire), NULL,
                                      "expireAfterDays is %" PRId64
                                      ", not after the last transition, %" PRId64,
                                      expire->integer, last->integer);
        }
}

void check_draft(struct loading *loading, const struct draft *draft) {
        static void (*const checks[KIND_COUNT])(struct loading * loading, const struct draft *draft) = {
                [KIND_STACK] = check_stack,
                [KIND_RESOURCE_RANGE] = check_resource_range,
                [KIND_IMAGE] = check_image,
                [KIND_ENVIRONMENT] = check_environment,
                [KIND_WORKSPACE_POLICY] = check_workspace_policy,
                [KIND_AGENT] = check_agent,
                [KIND_SWARM] = check_swarm,
                [KIND_CONTROLLER] = check_controller,
        };

        if (checks[draft->resource.kind->id])
                checks[draft->resource.kind->id](loading, draft);
}
