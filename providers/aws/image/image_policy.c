/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `retain` and ECR's lifecycle policies, which are compared by what they mean: rules in any order,
 * with any priority and description. A policy with any other rule, or with the same one twice, is
 * foreign: it is kept whole as {policy: TEXT}, which is equal to no `retain`, so that it is never
 * replaced without a word. Pure.
 */
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/image/image.h"

#include <string.h>

static json_t *expiry_rule(int priority, const char *description, json_t *selection) {
        return json_pack("{s:i, s:s, s:o, s:{s:s}}", "rulePriority", priority, "description", description,
                         "selection", selection, "action", "type", "expire");
}

const char *image_policy_text(const struct value *retain, struct arena *arena) {
        int64_t days = value_get_integer(retain, "untaggedDays", 0),
                last = value_get_integer(retain, "lastTagged", 0);
        json_t *rules = json_array();

        if (days > 0)
                json_array_append_new(rules,
                                      expiry_rule(1, "Berth: untagged images go after some days",
                                                  json_pack("{s:s, s:s, s:s, s:I}", "tagStatus", "untagged",
                                                            "countType", "sinceImagePushed", "countUnit",
                                                            "days", "countNumber", (json_int_t)days)));
        if (last > 0)
                json_array_append_new(
                        rules, expiry_rule(2, "Berth: only the last tagged images stay",
                                           json_pack("{s:s, s:[s], s:s, s:I}", "tagStatus", "tagged",
                                                     "tagPatternList", "*", "countType", "imageCountMoreThan",
                                                     "countNumber", (json_int_t)last)));
        return aws_json_text(json_pack("{s:o}", "rules", rules), arena);
}

static bool takes_every_tag(const json_t *selection) {
        const json_t *patterns = json_object_get(selection, "tagPatternList");
        const char *pattern = json_string_value(json_array_get(patterns, 0));

        return json_array_size(json_object_get(selection, "tagPrefixList")) == 0 &&
               json_array_size(patterns) == 1 && pattern && strcmp(pattern, "*") == 0;
}

static bool takes_no_tag(const json_t *selection) {
        return json_array_size(json_object_get(selection, "tagPrefixList")) == 0 &&
               json_array_size(json_object_get(selection, "tagPatternList")) == 0;
}

/* The field of `retain` that makes such a rule; NULL where none does. */
static const char *retain_field(const json_t *item) {
        const json_t *selection = json_object_get(item, "selection"),
                     *action = json_object_get(item, "action");

        if (!aws_json_says(action, "type", "expire") || json_integer_or(selection, "countNumber", 0) < 1)
                return NULL;
        if (aws_json_says(selection, "tagStatus", "untagged") &&
            aws_json_says(selection, "countType", "sinceImagePushed") &&
            aws_json_says(selection, "countUnit", "days") && takes_no_tag(selection))
                return "untaggedDays";
        if (aws_json_says(selection, "tagStatus", "tagged") &&
            aws_json_says(selection, "countType", "imageCountMoreThan") && takes_every_tag(selection))
                return "lastTagged";
        return NULL;
}

struct value *image_policy_read(const char *text, struct arena *arena) {
        json_t *policy JSON_CLEANUP = json_loads(text, 0, NULL);
        struct value *retain = value_new_map(arena);
        const json_t *item, *rules = json_object_get(policy, "rules");
        bool ours = json_is_array(rules) && json_array_size(rules) > 0;
        size_t i;

        json_array_foreach (rules, i, item) {
                const char *field = retain_field(item);

                if (!field || value_get(retain, field)) {
                        ours = false;
                        break;
                }
                value_set_integer(arena, retain, field,
                                  json_integer_or(json_object_get(item, "selection"), "countNumber", 0));
        }
        if (ours)
                return retain;
        retain = value_new_map(arena);
        value_set_text(arena, retain, "policy", text);
        return retain;
}
