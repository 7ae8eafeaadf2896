/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/image/image.h"

#include "providers/aws/shared/support.h"

#include <stdlib.h>

#define UNTAGGED(n)                                                                                                \
        "{\"rulePriority\": 5, \"selection\": {\"tagStatus\": \"untagged\", \"countType\": \"sinceImagePushed\", " \
        "\"countUnit\": \"days\", \"countNumber\": " n "}, \"action\": {\"type\": \"expire\"}}"
#define TAGGED(more, n)                                                                                  \
        "{\"rulePriority\": 1, \"description\": \"x\", \"selection\": {\"tagStatus\": \"tagged\", " more \
        "\"countType\": \"imageCountMoreThan\", \"countNumber\": " n                                     \
        "}, \"action\": {\"type\": \"expire\"}}"
#define EVERY "\"tagPatternList\": [\"*\"], "

static const struct {
        const char *name, *policy, *retain; /* retain NULL: a policy that we could not have made */
} policies[] = {
        { "untagged", "{\"rules\": [" UNTAGGED("14") "]}", "{\"untaggedDays\": 14}" },
        { "last", "{\"rules\": [" TAGGED(EVERY, "3") "]}", "{\"lastTagged\": 3}" },
        { "both, in another order", "{\"rules\": [" TAGGED(EVERY, "3") ", " UNTAGGED("14") "]}",
          "{\"untaggedDays\": 14, \"lastTagged\": 3}" },
        { "one twice", "{\"rules\": [" UNTAGGED("14") ", " UNTAGGED("15") "]}", NULL },
        { "only some tags", "{\"rules\": [" TAGGED("\"tagPatternList\": [\"v*\"], ", "3") "]}", NULL },
        { "prefixes", "{\"rules\": [" TAGGED("\"tagPrefixList\": [\"v\"], ", "3") "]}", NULL },
        { "ours and another",
          "{\"rules\": [" UNTAGGED("14") ", " TAGGED("\"tagPrefixList\": [\"v\"], ", "3") "]}", NULL },
        { "untagged by count",
          "{\"rules\": [{\"rulePriority\": 1, \"selection\": {\"tagStatus\": \"untagged\", \"countType\": "
          "\"imageCountMoreThan\", \"countNumber\": 3}, \"action\": {\"type\": \"expire\"}}]}",
          NULL },
        { "any",
          "{\"rules\": [{\"rulePriority\": 1, \"selection\": {\"tagStatus\": \"any\", \"countType\": "
          "\"imageCountMoreThan\", \"countNumber\": 3}, \"action\": {\"type\": \"expire\"}}]}",
          NULL },
        { "another action",
          "{\"rules\": [{\"rulePriority\": 1, \"selection\": {\"tagStatus\": \"untagged\", \"countType\": "
          "\"sinceImagePushed\", \"countUnit\": \"days\", \"countNumber\": 3}, \"action\": {\"type\": \"archive\"}}]}",
          NULL },
        { "no rules", "{\"rules\": []}", NULL },
        { "rules are no list", "{\"rules\": 1}", NULL },
        { "rules of another shape", "{\"rules\": [1, \"x\", null]}", NULL },
        { "no JSON", "{", NULL },
        { "empty", "", NULL },
};

static void policies_are_read_by_their_meaning(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
                const struct value *retain = image_policy_read(policies[i].policy, arena);

                print_message("  %s\n", policies[i].name);
                if (policies[i].retain) {
                        assert_true(value_equal(retain, value_of(policies[i].retain), NULL));
                } else {
                        assert_int_equal(retain->count, 1);
                        assert_string_equal(value_get_text(retain, "policy"), policies[i].policy);
                }
        }
}

static void policies_read_back_as_they_were_meant(void **state) {
        static const char *const retains[] = { "{\"untaggedDays\": 1}", "{\"lastTagged\": 1}",
                                               "{\"untaggedDays\": 30, \"lastTagged\": 999}" };

        (void)state;
        for (size_t i = 0; i < sizeof(retains) / sizeof(*retains); i++) {
                const struct value *retain = value_of(retains[i]);
                const char *text = image_policy_text(retain, arena);

                assert_true(value_equal(image_policy_read(text, arena), retain, NULL));
                assert_true(strlen(text) >= 100); /* what PutLifecyclePolicy demands */
        }
}

struct case_of_change {
        const char *name;
        enum action action;
        const char *desired, *recorded, *observed;
        const char *paths[4];
        const char *released; /* the repository let go of, or NULL */
        bool deletes;         /* it was Berth's */
        unsigned calls;
};

#define OWNED "{\"repository\": \"a\", \"createRepository\": true, \"tags\": {\"t\": \"1\"}}"

static const struct case_of_change changes[] = {
        { "nothing but a record",
          ACTION_UPDATE,
          "{\"repository\": \"a\", \"tag\": \"2\"}",
          "{\"repository\": \"a\", \"tag\": \"1\"}",
          "{\"repository\": \"a\"}",
          { "tag" },
          NULL,
          false,
          0 },
        { "one setting",
          ACTION_UPDATE,
          "{\"repository\": \"a\", \"scanOnPush\": true}",
          "{\"repository\": \"a\"}",
          "{\"repository\": \"a\", \"scanOnPush\": false}",
          { "scanOnPush" },
          NULL,
          false,
          1 },
        { "retain taken away",
          ACTION_UPDATE,
          "{\"repository\": \"a\"}",
          "{\"repository\": \"a\", \"retain\": {\"lastTagged\": 1}}",
          "{\"repository\": \"a\", \"retain\": {\"lastTagged\": 1}}",
          { "retain.lastTagged" },
          NULL,
          false,
          1 },
        { "create",
          ACTION_CREATE,
          "{\"repository\": \"a\", \"createRepository\": true, \"scanOnPush\": true, \"retain\": {\"lastTagged\": 1}}",
          NULL,
          NULL,
          { "repository", "scanOnPush", "retain.lastTagged" },
          NULL,
          false,
          2 },
        { "delete of settings",
          ACTION_DELETE,
          NULL,
          "{\"repository\": \"a\", \"scanOnPush\": true}",
          "{\"repository\": \"a\"}",
          { NULL },
          "a",
          false,
          0 },
        { "delete of a policy",
          ACTION_DELETE,
          NULL,
          "{\"repository\": \"a\", \"retain\": {\"lastTagged\": 1}}",
          "{\"repository\": \"a\"}",
          { NULL },
          "a",
          false,
          2 },
        { "delete of a repository",
          ACTION_DELETE,
          NULL,
          OWNED,
          "{\"repository\": \"a\"}",
          { NULL },
          "a",
          true,
          2 },
        { "another repository",
          ACTION_UPDATE,
          "{\"repository\": \"b\", \"scanOnPush\": true}",
          OWNED,
          "{\"repository\": \"b\", \"scanOnPush\": false}",
          { "repository", "scanOnPush" },
          "a",
          true,
          3 },
        { "left half-way", ACTION_DELETE, NULL, NULL, OWNED, { NULL }, "a", true, 2 },
};

static void changes_cost_what_they_touch(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
                const struct case_of_change *item = &changes[i];
                struct observation observed = { .exists = item->observed != NULL,
                                                .ownership = OWNER_SELF,
                                                .spec = value_of(item->observed) };
                struct field_change fields[4] = { 0 };
                struct change change = { .action = item->action,
                                         .desired = value_of(item->desired),
                                         .recorded = value_of(item->recorded),
                                         .observed = &observed,
                                         .fields = fields };
                struct cost cost = { .arena = arena };

                print_message("  %s\n", item->name);
                while (change.field_count < 4 && item->paths[change.field_count]) {
                        fields[change.field_count].path = item->paths[change.field_count];
                        change.field_count++;
                }
                if (item->released)
                        assert_string_equal(image_released(&change), item->released);
                else
                        assert_null(image_released(&change));
                assert_int_equal(image_releases_repository(&change), item->deletes);
                image_cost(NULL, &change, &cost);
                assert_int_equal(cost.count ? cost.calls[0].count : 0, item->calls);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(policies_are_read_by_their_meaning),
                cmocka_unit_test(policies_read_back_as_they_were_meant),
                cmocka_unit_test(changes_cost_what_they_touch),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
