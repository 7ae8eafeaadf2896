/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/policy_compare.h"

#include "base/json.h"
#include "providers/aws/shared/policy_document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Documents are written with ' for ", and as the statements alone. */
static json_t *document(const char *statements) {
        char *text = NULL;
        json_t *result;

        if (!statements)
                return NULL;
        assert_true(asprintf(&text, "{'Version':'2012-10-17','Statement':[%s]}", statements) > 0);
        for (char *at = text; *at; at++)
                *at = *at == '\'' ? '"' : *at;
        result = policy_document_parse(text);
        free(text);
        assert_non_null(result);
        return result;
}

#define LOGS "{'Sid':'L','Effect':'Allow','Action':['l:Create','l:Put'],'Resource':'arn:logs:*'}"
#define OBJECTS "{'Sid':'O','Effect':'Allow','Action':['s3:Get','s3:Put'],'Resource':'arn:b/ws/*'}"
#define LISTING                                                                                        \
        "{'Sid':'P','Effect':'Allow','Action':'s3:List','Resource':'arn:b','Condition':{'StringLike':" \
        "{'p':'ws/*'}}}"
#define OURS LOGS "," OBJECTS "," LISTING
#define DENY "{'Sid':'D','Effect':'Deny','Action':'s3:*','Resource':'*'}"
#define JOIN "{'Sid':'J','Effect':'Allow','Action':'ec2:Join','Resource':'*'}"
#define NOT_CODE                                                                                            \
        "{'Sid':'N','Effect':'Deny','Action':'ec2:Join','Resource':'*','Condition':{'ArnLike':{'f':'env-*'" \
        "}}}"
#define OTHER_LISTING                                                                                            \
        "{'Sid':'P','Effect':'Allow','Action':'s3:List','Resource':'arn:b','Condition':{'StringLike':{'p':'x/*'" \
        "}}}"
#define ANYTHING_IF \
        "{'Sid':'A','Effect':'Allow','Action':'*','Resource':'*','Condition':{'StringLike':{'a':'*'}}}"
#define LAMBDA "{'Effect':'Allow','Principal':{'Service':'lambda'},'Action':'sts:AssumeRole'}"

enum { SAME = 0, TIGHT = 1, WIDE = 2, LACKS = 4, UNCLEAR = 8, OUTLIVED = 16 };

static const struct {
        const char *what, *found, *applied, *wanted;
        int verdict;
        const char *target; /* NULL: as wanted */
} cases[] = {
        { "as it was", OURS, OURS, OURS, SAME, NULL },
        { "in another order and form",
          LISTING "," LOGS ",{'Effect':'Allow','Action':['s3:Put','s3:Get'],'Resource':['arn:b/ws/*']}", OURS,
          OURS, SAME, NULL },
        { "cut into other statements",
          LOGS "," LISTING ",{'Effect':'Allow','Action':'s3:Put','Resource':'arn:b/ws/*'},{'Effect':'Allow',"
               "'Action':'S3:GET','Resource':'arn:b/ws/*'}",
          OURS, OURS, SAME, NULL },
        { "an action is taken away",
          LOGS "," LISTING ",{'Sid':'O','Effect':'Allow','Action':'s3:Get','Resource':'arn:b/ws/*'}", OURS,
          OURS, TIGHT,
          LOGS "," LISTING ",{'Sid':'O','Effect':'Allow','Action':'s3:Get','Resource':'arn:b/ws/*'}" },
        { "a statement is taken away", LOGS "," OBJECTS, OURS, OURS, TIGHT, LOGS "," OBJECTS },
        { "something is denied", OURS "," DENY, OURS, OURS, TIGHT, OURS "," DENY },
        { "a narrower resource",
          LOGS "," LISTING
               ",{'Sid':'O','Effect':'Allow','Action':['s3:Get','s3:Put'],'Resource':'arn:b/ws/a/*'}",
          OURS, OURS, TIGHT,
          LOGS "," LISTING
               ",{'Sid':'O','Effect':'Allow','Action':['s3:Get','s3:Put'],'Resource':'arn:b/ws/a/*'}" },
        { "a condition more",
          LOGS
          "," OBJECTS
          ",{'Sid':'P','Effect':'Allow','Action':'s3:List','Resource':'arn:b','Condition':{'StringLike':{'p':"
          "'ws/*'},'Bool':{'vpc':true}}}",
          OURS, OURS, TIGHT,
          LOGS
          "," OBJECTS
          ",{'Sid':'P','Effect':'Allow','Action':'s3:List','Resource':'arn:b','Condition':{'StringLike':{'p':"
          "'ws/*'},'Bool':{'vpc':'true'}}}" },
        { "a statement more", OURS ",{'Effect':'Allow','Action':'iam:*','Resource':'*'}", OURS, OURS, WIDE,
          NULL },
        { "a wider action",
          LOGS "," LISTING ",{'Sid':'O','Effect':'Allow','Action':'s3:*','Resource':'arn:b/ws/*'}", OURS,
          OURS, WIDE, NULL },
        { "everything to all", "{'Effect':'Allow','Action':'*','Resource':'*'}", OURS, OURS, WIDE, NULL },
        { "a condition less",
          LOGS "," OBJECTS ",{'Sid':'P','Effect':'Allow','Action':'s3:List','Resource':'arn:b'}", OURS, OURS,
          WIDE, NULL },
        { "more here and less there", LOGS "," LISTING ",{'Effect':'Allow','Action':'iam:*','Resource':'*'}",
          OURS, OURS, TIGHT | WIDE, LOGS "," LISTING },
        { "more, and something denied", OURS "," DENY ",{'Effect':'Allow','Action':'iam:*','Resource':'*'}",
          OURS, OURS, TIGHT | WIDE, OURS "," DENY },
        { "another bucket in place of ours: of that nothing stays",
          LOGS "," LISTING
               ",{'Sid':'O','Effect':'Allow','Action':['s3:Get','s3:Put'],'Resource':'arn:other/*'}",
          OURS, OURS, TIGHT | WIDE, LOGS "," LISTING },
        { "Berth wants more than it did", LOGS "," OBJECTS, LOGS "," OBJECTS, OURS, LACKS, NULL },
        { "it wants more, and somebody took something", OBJECTS, LOGS "," OBJECTS, OURS, TIGHT | LACKS,
          OBJECTS "," LISTING },
        { "Berth wants less than it did", OURS, OURS, LOGS "," OBJECTS, WIDE, NULL },
        { "taken away and not wanted any more", LOGS, OURS, LOGS, SAME, NULL },
        { "nothing is known of what was applied", LOGS, NULL, OURS, LACKS, NULL },
        { "nor then is a Deny undone", LOGS "," DENY, NULL, OURS, TIGHT | LACKS, OURS "," DENY },
        { "Berth's own Deny, as it was", LOGS "," JOIN "," NOT_CODE, LOGS "," JOIN "," NOT_CODE,
          LOGS "," JOIN "," NOT_CODE, SAME, NULL },
        { "Berth wants a grant and a Deny more", LOGS, LOGS, LOGS "," JOIN "," NOT_CODE, WIDE | LACKS, NULL },
        { "Berth wants a Deny more, and somebody took something",
          "{'Effect':'Allow','Action':'l:Put','Resource'"
          ":'arn:logs:*'}",
          LOGS, LOGS "," JOIN "," NOT_CODE, TIGHT | WIDE | LACKS,
          "{'Sid':'L','Effect':'Allow','Action':'l:Put','Resource':'arn:logs:*'}," JOIN "," NOT_CODE },
        { "Berth's own Deny is taken away", LOGS "," JOIN, LOGS "," JOIN "," NOT_CODE,
          LOGS "," JOIN "," NOT_CODE, WIDE, NULL },
        { "Berth's own Deny is taken away, and another put there", LOGS "," JOIN "," DENY,
          LOGS "," JOIN "," NOT_CODE, LOGS "," JOIN "," NOT_CODE, TIGHT | WIDE,
          LOGS "," JOIN "," NOT_CODE "," DENY },
        { "another Deny under the Sid of Berth's own",
          LOGS "," JOIN ",{'Sid':'N','Effect':'Deny','Action':'ec2:Join','Resource':'arn:none'}",
          LOGS "," JOIN "," NOT_CODE, LOGS "," JOIN "," NOT_CODE, TIGHT | WIDE,
          LOGS "," JOIN "," NOT_CODE ",{'Effect':'Deny','Action':'ec2:Join','Resource':'arn:none'}" },
        { "a narrower grant under the Sid of Berth's Deny",
          JOIN ",{'Sid':'N','Effect':'Allow','Action':'l:Put','Resource':'arn:logs:a'}",
          LOGS "," JOIN "," NOT_CODE, LOGS "," JOIN "," NOT_CODE, TIGHT | WIDE,
          JOIN "," NOT_CODE ",{'Effect':'Allow','Action':'l:Put','Resource':'arn:logs:a'}" },
        { "another document in its place, Berth's Deny gone with it",
          "{'Effect':'Allow','Action':'iam:*','Resource':'*'}", JOIN "," NOT_CODE, JOIN "," NOT_CODE, WIDE,
          NULL },
        { "of Berth's own the Deny alone is left", NOT_CODE, JOIN "," NOT_CODE, JOIN "," NOT_CODE, TIGHT,
          NOT_CODE },
        { "Berth's own grant and Deny, of which no record tells", OURS "," JOIN "," NOT_CODE, OURS, OURS,
          WIDE | OUTLIVED, NULL },
        { "Berth's own Deny alone, wanted no more", OURS "," NOT_CODE, OURS, OURS, OUTLIVED, NULL },
        { "it, and a Deny of somebody's", OURS "," NOT_CODE "," DENY, OURS, OURS, TIGHT | OUTLIVED,
          OURS "," DENY },
        { "one like it is somebody's", OURS ",{'Sid':'N','Effect':'Deny','Action':'ec2:Join','Resource':'*'}",
          OURS, OURS, TIGHT, OURS ",{'Sid':'N','Effect':'Deny','Action':'ec2:Join','Resource':'*'}" },
        { "all but some", OURS ",{'Effect':'Allow','NotAction':'iam:*','Resource':'*'}", OURS, OURS, WIDE,
          NULL },
        { "all but some in place of ours",
          LOGS "," LISTING ",{'Effect':'Allow','NotAction':'iam:*','Resource':'*'}", OURS, OURS, TIGHT | WIDE,
          LOGS "," LISTING },
        { "everything to all under a condition, in place of all", ANYTHING_IF, OURS, OURS, WIDE, NULL },
        { "everything to all under a condition, in place of ours", LOGS "," OBJECTS "," ANYTHING_IF, OURS,
          OURS, TIGHT | WIDE, LOGS "," OBJECTS },
        { "and beside a condition in place of ours", LOGS "," OBJECTS "," OTHER_LISTING "," ANYTHING_IF, OURS,
          OURS, TIGHT | WIDE, LOGS "," OBJECTS },
        { "all but some beside it",
          LOGS "," OBJECTS "," OTHER_LISTING ",{'Effect':'Allow','NotAction':'iam:*','Resource':'*'}", OURS,
          OURS, TIGHT | WIDE, LOGS "," OBJECTS },
        { "Berth's own Deny gone beside it", OTHER_LISTING "," JOIN, LISTING "," JOIN "," NOT_CODE,
          LISTING "," JOIN "," NOT_CODE, TIGHT | WIDE, JOIN "," NOT_CODE },
        { "a Deny beside it", LOGS "," OBJECTS "," OTHER_LISTING "," DENY, OURS, OURS, TIGHT | WIDE | UNCLEAR,
          "" },
        { "on all but some", OURS "," DENY ",{'Effect':'Allow','Action':'s3:*','NotResource':'arn:x'}", OURS,
          OURS, TIGHT | WIDE, OURS "," DENY },
        { "another condition in place of ours", LOGS "," OBJECTS "," OTHER_LISTING, OURS, OURS,
          TIGHT | WIDE | UNCLEAR, "" },
        { "another one in its place", "{'Effect':'Allow','Action':'iam:*','Resource':'*'}", LOGS, LOGS, WIDE,
          NULL },
        { "an effect that nobody knows", OURS ",{'Effect':'allow','Action':'iam:*','Resource':'*'}", OURS,
          OURS, UNCLEAR | SAME, "" },
        { "trust: one more service",
          "{'Effect':'Allow','Principal':{'Service':['ec2','lambda']},'Action':'sts:AssumeRole'}", LAMBDA,
          LAMBDA, WIDE, NULL },
        { "trust: anybody under a condition",
          "{'Effect':'Allow','Principal':'*','Action':'sts:AssumeRole','Condition':{'StringLike':{'a':'*'}}}",
          LAMBDA, LAMBDA, WIDE, NULL },
        { "trust: anybody", "{'Effect':'Allow','Principal':'*','Action':'sts:AssumeRole'}", LAMBDA, LAMBDA,
          WIDE, NULL },
        { "trust: an account",
          LAMBDA ",{'Effect':'Allow','Principal':{'AWS':'arn:aws:iam::1:root'},'Action':'sts:AssumeRole'}",
          LAMBDA, LAMBDA, WIDE, NULL },
        { "trust: only for one account's functions",
          "{'Effect':'Allow','Principal':{'Service':'lambda'},'Action':'sts:AssumeRole','Condition':{'StringEquals'"
          ":{'a':'1'}}}",
          LAMBDA, LAMBDA, TIGHT,
          "{'Effect':'Allow','Principal':{'Service':'lambda'},'Action':'sts:AssumeRole','Condition':{'StringEquals'"
          ":{'a':'1'}}}" },
        { "trust: under a condition, and one service more",
          "{'Effect':'Allow','Principal':{'Service':['ec2','lambda']},'Action':'sts:AssumeRole','Condition':{"
          "'StringEquals':{'a':'1'}}}",
          LAMBDA, LAMBDA, TIGHT | WIDE,
          "{'Effect':'Allow','Principal':{'Service':'lambda'},'Action':'sts:AssumeRole','Condition':{'StringEquals'"
          ":{'a':'1'}}}" },
};

static json_t *own_deny(void) {
        json_t *whole JSON_CLEANUP = document(NOT_CODE);

        return json_incref(json_array_get(json_object_get(whole, "Statement"), 0));
}

static void nothing_taken_is_given_back(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                json_t *found JSON_CLEANUP = document(cases[i].found);
                json_t *applied JSON_CLEANUP = document(cases[i].applied);
                json_t *wanted JSON_CLEANUP = document(cases[i].wanted);
                json_t *expected JSON_CLEANUP = document(cases[i].target ? cases[i].target : cases[i].wanted);
                json_t *normal JSON_CLEANUP = policy_document_normalise(expected);
                json_t *target JSON_CLEANUP = NULL;
                json_t *own JSON_CLEANUP = own_deny();
                struct policy_comparison comparison;
                int verdict;

                policy_compare(found, applied, wanted, own, arena, &comparison);
                verdict = (comparison.tightened ? TIGHT : 0) | (comparison.widened ? WIDE : 0) |
                          (comparison.lacks ? LACKS : 0) | (comparison.unclear ? UNCLEAR : 0) |
                          (comparison.outlived ? OUTLIVED : 0);
                if (verdict != cases[i].verdict)
                        fail_msg("%s: %d, not %d", cases[i].what, verdict, cases[i].verdict);
                assert_int_equal(comparison.target == NULL, comparison.unclear);
                if (!comparison.target)
                        continue;
                target = policy_document_normalise(comparison.target);
                if (!json_equal(target, normal)) {
                        char *text = json_compact(target);

                        fail_msg("%s: the target is %s", cases[i].what, text);
                        free(text);
                }
                json_decref(comparison.target);
        }
}

/* Whatever is done to a document, its target allows nothing that is not wanted, and is its own target. */
static void a_target_is_settled(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                json_t *found JSON_CLEANUP = document(cases[i].found);
                json_t *applied JSON_CLEANUP = document(cases[i].applied);
                json_t *wanted JSON_CLEANUP = document(cases[i].wanted);
                json_t *own JSON_CLEANUP = own_deny();
                struct policy_comparison first, second;

                policy_compare(found, applied, wanted, own, arena, &first);
                if (!first.target)
                        continue;
                policy_compare(first.target, wanted, wanted, own, arena, &second);
                if (second.widened || second.lacks || second.unclear || second.outlived)
                        fail_msg("%s: its target is not settled", cases[i].what);
                json_decref(first.target);
                json_decref(second.target);
        }
}

/* A statement of `count` actions on as many objects. */
static json_t *crossed(size_t count) {
        json_t *actions = json_array(), *objects = json_array();

        for (size_t i = 0; i < count; i++) {
                char action[32], object[32];

                (void)snprintf(action, sizeof(action), "s3:Get%zu", i);
                (void)snprintf(object, sizeof(object), "arn:b/ws/%zu", i);
                json_array_append_new(actions, json_string(action));
                json_array_append_new(objects, json_string(object));
        }
        return json_pack("{s:s, s:o, s:o}", "Effect", "Allow", "Action", actions, "Resource", objects);
}

/*
 * Lists multiply. A list too large to compare is left as it is, unless there is more than ours
 * beside it.
 */
static void too_much_to_compare_is_unclear(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *ours JSON_CLEANUP = document("{'Effect':'Allow','Action':'s3:Get*','Resource':'arn:b/ws/*'}");
        json_t *found JSON_CLEANUP = document(ANYTHING_IF);
        json_t *statements = json_object_get(found, "Statement");
        struct policy_comparison comparison;

        (void)state;
        json_array_append_new(statements, crossed(3000));
        policy_compare(found, ours, ours, NULL, arena, &comparison);
        assert_true(comparison.widened && !comparison.unclear);
        assert_true(json_equal(comparison.target, ours));
        json_decref(comparison.target);
        json_array_remove(statements, 0);
        policy_compare(found, ours, ours, NULL, arena, &comparison);
        assert_true(comparison.unclear);
        json_array_clear(statements);
        json_array_append_new(statements, crossed(60));
        policy_compare(found, ours, ours, NULL, arena, &comparison);
        assert_true(comparison.tightened && !comparison.widened && !comparison.unclear);
        json_decref(comparison.target);
}

static void what_was_taken_is_named(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *found JSON_CLEANUP = document(LISTING "," OBJECTS "," DENY);
        json_t *ours JSON_CLEANUP = document(OURS);
        struct policy_comparison comparison;

        (void)state;
        policy_compare(found, ours, ours, NULL, arena, &comparison);
        assert_int_equal(comparison.taken_count, 2);
        assert_string_equal(comparison.taken[0], "l:Create on arn:logs:*");
        assert_int_equal(comparison.deny_count, 1);
        json_decref(comparison.target);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_taken_is_given_back),
                cmocka_unit_test(a_target_is_settled),
                cmocka_unit_test(too_much_to_compare_is_unclear),
                cmocka_unit_test(what_was_taken_is_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
