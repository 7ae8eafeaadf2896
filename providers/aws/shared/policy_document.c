/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The normal form of a document: what may be one text or a list of texts is the text where there is
 * one of them, and else a sorted list without doubles; statements are sorted as well, by their
 * text. A value that is neither an object nor a list becomes a text, because a condition may say
 * false for "false". Two documents that are equal in this form mean the same; two that mean the
 * same may still differ in it (a star that covers a name beside it), and are then written once
 * more.
 */
#include "providers/aws/shared/policy_document.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "2012-10-17"

json_t *policy_document_trust(void) {
        return json_checked(json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}]}", "Version", VERSION, "Statement",
                                      "Effect", "Allow", "Principal", "Service", "lambda.amazonaws.com",
                                      "Action", "sts:AssumeRole"));
}

/* Of the log groups that environments have, and of no other function's. */
static json_t *logs_statement(const struct policy_place *place, struct arena *arena) {
        /* The star at the end also covers ":log-stream:...", which is what streams and events are named by. */
        const char *groups = arena_printf(arena, "arn:%s:logs:%s:%s:log-group:/aws/lambda/%s-env-*",
                                          place->partition, place->region, place->account, place->prefix);

        return json_checked(json_pack("{s:s, s:s, s:[s,s,s], s:s}", "Sid", "WriteLogs", "Effect", "Allow",
                                      "Action", "logs:CreateLogGroup", "logs:CreateLogStream",
                                      "logs:PutLogEvents", "Resource", groups));
}

/*
 * For one environment: the group itself, which CreateLogGroup names, and all that is in it. No star
 * meets "x-2" for "x".
 */
static json_t *own_logs_statement(const struct policy_place *place, struct arena *arena) {
        const char *group =
                arena_printf(arena, "arn:%s:logs:%s:%s:log-group:/aws/lambda/%s-env-%s", place->partition,
                             place->region, place->account, place->prefix, place->environment);

        return json_checked(json_pack("{s:s, s:s, s:[s,s,s], s:[s,s]}", "Sid", "WriteLogs", "Effect", "Allow",
                                      "Action", "logs:CreateLogGroup", "logs:CreateLogStream",
                                      "logs:PutLogEvents", "Resource", group,
                                      arena_printf(arena, "%s:*", group)));
}

/* What Lambda asks of the role of a function in a VPC (Lambda Developer Guide, "Giving Lambda functions access to a VPC"). */
static json_t *network_actions(void) {
        return json_checked(json_pack("[s,s,s,s,s,s]", "ec2:AssignPrivateIpAddresses",
                                      "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
                                      "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
                                      "ec2:UnassignPrivateIpAddresses"));
}

json_t *policy_document_network_deny(const struct policy_place *place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *functions = arena_printf(arena, "arn:%s:lambda:%s:%s:function:%s-env-*", place->partition,
                                             place->region, place->account, place->prefix);

        return json_checked(json_pack("{s:s, s:s, s:o, s:s, s:{s:{s:s}}}", "Sid", "NotFromFunctions",
                                      "Effect", "Deny", "Action", network_actions(), "Resource", "*",
                                      "Condition", "ArnLike", "lambda:SourceFunctionArn", functions));
}

/* Lambda uses them in the role's name, and so could the code in the functions: to those the same is denied. */
static void add_network_statements(json_t *statements, const struct policy_place *place) {
        json_array_append_new(statements, json_checked(json_pack(
                                                  "{s:s, s:s, s:o, s:s}", "Sid", POLICY_NETWORK_SID, "Effect",
                                                  "Allow", "Action", network_actions(), "Resource", "*")));
        json_array_append_new(statements, policy_document_network_deny(place));
}

json_t *policy_document_execution(const struct policy_place *place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *logs = place->environment ? own_logs_statement(place, arena) : logs_statement(place, arena);
        json_t *document = json_checked(json_pack("{s:s, s:[o]}", "Version", VERSION, "Statement", logs));

        if (place->attaches)
                add_network_statements(json_object_get(document, "Statement"), place);
        return document;
}

json_t *policy_document_tls_statement(const char *partition, const char *bucket) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *whole = arena_printf(arena, "arn:%s:s3:::%s", partition, bucket);
        const char *objects = arena_printf(arena, "%s/*", whole);

        return json_checked(json_pack("{s:s, s:s, s:s, s:s, s:[s,s], s:{s:{s:s}}}", "Sid", POLICY_TLS_SID,
                                      "Effect", "Deny", "Principal", "*", "Action", "s3:*", "Resource", whole,
                                      objects, "Condition", "Bool", "aws:SecureTransport", "false"));
}

json_t *policy_document_endpoint(const char *partition, const char *bucket) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *whole = arena_printf(arena, "arn:%s:s3:::%s", partition, bucket);
        const char *objects = arena_printf(arena, "%s/*", whole);

        return json_checked(json_pack("{s:s, s:[{s:s, s:s, s:s, s:s, s:[s,s]}]}", "Version", VERSION,
                                      "Statement", "Sid", "ThisBucketAlone", "Effect", "Allow", "Principal",
                                      "*", "Action", "s3:*", "Resource", whole, objects));
}

static int compare_json(const void *a, const void *b) {
        char *left = json_compact(*(json_t *const *)a), *right = json_compact(*(json_t *const *)b);
        int order = strcmp(left, right);

        free(left);
        free(right);
        return order;
}

/* Takes the array's reference; gives it back sorted, without doubles. */
static json_t *sort_without_doubles(json_t *array) {
        size_t count = json_array_size(array);
        json_t **items = calloc(count + 1, sizeof(*items));
        json_t *result = json_checked(json_array());

        if (!items)
                abort();
        for (size_t i = 0; i < count; i++)
                items[i] = json_array_get(array, i);
        qsort(items, count, sizeof(*items), compare_json);
        for (size_t i = 0; i < count; i++) {
                if (i == 0 || !json_equal(items[i - 1], items[i]))
                        json_array_append(result, items[i]);
        }
        free(items);
        json_decref(array);
        return result;
}

/* A leaf as IAM reads it: a text, whatever JSON made of it. */
static json_t *leaf_as_text(const json_t *scalar) {
        char *text;
        json_t *result;

        if (json_is_string(scalar))
                return json_checked(json_string(json_string_value(scalar)));
        /* Conditions may say false for "false", and 5 for "5". */
        text = json_compact(scalar);
        result = json_checked(json_string(text));
        free(text);
        return result;
}

/* A text or a list of texts: as the text where there is one, else as a sorted list. */
static json_t *normal_texts(const json_t *value) {
        json_t *list = json_checked(json_array());

        if (json_is_array(value)) {
                size_t i;
                json_t *item;

                json_array_foreach (value, i, item)
                        json_array_append_new(list, leaf_as_text(item));
        } else {
                json_array_append_new(list, leaf_as_text(value));
        }
        list = sort_without_doubles(list);
        if (json_array_size(list) == 1) {
                json_t *only = json_incref(json_array_get(list, 0));

                json_decref(list);
                return only;
        }
        return list;
}

/* An object whose leaves are texts or lists of them: Principal, Condition. Other values are leaves themselves. */
static json_t *normal_tree(const json_t *value) {
        json_t *result, *member;
        const char *name;

        if (!json_is_object(value))
                return normal_texts(value);
        result = json_checked(json_object());
        json_object_foreach ((json_t *)value, name, member)
                json_object_set_new(result, name, normal_tree(member));
        return result;
}

/* Statement is the one member that is a list of objects. */
static json_t *normal_document(const json_t *document) {
        json_t *result = json_checked(json_object()), *member;
        const char *name;

        json_object_foreach ((json_t *)document, name, member) {
                json_t *statements;
                json_t *statement;
                size_t i;

                if (strcmp(name, "Statement") != 0) {
                        json_object_set_new(result, name, normal_tree(member));
                        continue;
                }
                statements = json_checked(json_array());
                if (json_is_array(member)) {
                        json_array_foreach (member, i, statement)
                                json_array_append_new(statements, normal_tree(statement));
                } else {
                        json_array_append_new(statements, normal_tree(member));
                }
                json_object_set_new(result, name, sort_without_doubles(statements));
        }
        return result;
}

json_t *policy_document_normalise(const json_t *document) {
        return json_object_get(document, "Statement") ? normal_document(document) : normal_tree(document);
}

json_t *policy_document_parse(const char *text) {
        json_t *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

        if (json_is_object(json))
                return json;
        json_decref(json);
        return NULL;
}

static bool same_statement(const json_t *a, const json_t *b) {
        json_t *left JSON_CLEANUP = policy_document_normalise(a);
        json_t *right JSON_CLEANUP = policy_document_normalise(b);

        return json_equal(left, right);
}

static bool has_sid(const json_t *statement, const json_t *other) {
        const char *sid = json_text(statement, "Sid"), *wanted = json_text(other, "Sid");

        return sid && wanted && strcmp(sid, wanted) == 0;
}

/* A single statement may stand without a list; its Sid is then compared with all the rest of it. */
bool policy_document_has(const char *text, const json_t *statement) {
        json_t *document JSON_CLEANUP = policy_document_parse(text);
        const json_t *statements = json_object_get(document, "Statement");
        json_t *item;
        size_t i;

        if (json_is_object(statements))
                return same_statement(statements, statement);
        json_array_foreach (statements, i, item) {
                if (has_sid(item, statement) && same_statement(item, statement))
                        return true;
        }
        return false;
}

/*
 * Replaces what stands under the Sid, or adds at the end. A Deny that stands there was changed by
 * others, to deny more perhaps: it stays, without the Sid, which a policy may hold but once.
 */
static void put_statement(json_t *statements, const json_t *statement) {
        json_t *item;
        size_t i;

        for (i = 0; i < json_array_size(statements); i++) {
                item = json_array_get(statements, i);
                if (!has_sid(item, statement))
                        continue;
                if (aws_json_says(item, "Effect", "Deny") && !same_statement(item, statement))
                        json_object_del(item, "Sid");
                else
                        json_array_remove(statements, i--);
        }
        json_array_append_new(statements, json_checked(json_deep_copy(statement)));
}

char *policy_document_with(const char *text, const json_t *statement) {
        json_t *document JSON_CLEANUP =
                text ? policy_document_parse(text)
                     : json_checked(json_pack("{s:s, s:[]}", "Version", VERSION, "Statement"));
        json_t *statements = json_object_get(document, "Statement");

        if (!document || (!json_is_array(statements) && !json_is_object(statements)))
                return NULL;
        if (json_is_object(statements)) {
                json_t *list = json_checked(json_pack("[O]", statements));

                json_object_set_new(document, "Statement", list);
                statements = list;
        }
        put_statement(statements, statement);
        return json_compact(document);
}
