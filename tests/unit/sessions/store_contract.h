/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every body of sessions/store.h must do, as tests: conditions, races, lists, bounds. Included by a test of a body, which makes
 * an empty one for each of them.
 */
#ifndef BERTH_TESTS_UNIT_SESSIONS_STORE_CONTRACT_H
#define BERTH_TESTS_UNIT_SESSIONS_STORE_CONTRACT_H

#include "base/strbuf.h"
#include "sessions/store.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
        char folder[64]; /* of a body that has one */
        struct session_store *store;
        struct arena *arena;
};

static int put(struct fixture *fixture, const char *key, const char *value, enum session_expect expect,
               uint64_t version) {
        struct session_change change = { SESSION_TABLE_SESSIONS, key, value, expect, version };
        struct error err;

        return session_store_write(fixture->store, &change, 1, &err);
}

static const char *value_of(struct fixture *fixture, const char *key, uint64_t *ret_version) {
        struct session_item item = { 0 };
        struct error err;

        if (session_store_get(fixture->store, SESSION_TABLE_SESSIONS, key, fixture->arena, &item, &err) != 1)
                return NULL;
        if (ret_version)
                *ret_version = item.version;
        return item.value;
}

static void conditions(void **state) {
        struct fixture *fixture = *state;
        uint64_t version = 0;

        assert_null(value_of(fixture, "a", NULL));
        assert_int_equal(put(fixture, "a", "one", SESSION_EXPECT_VERSION, 1), 0);
        assert_int_equal(put(fixture, "a", "one", SESSION_EXPECT_ABSENT, 0), 1);
        assert_int_equal(put(fixture, "a", "two", SESSION_EXPECT_ABSENT, 0), 0);
        assert_string_equal(value_of(fixture, "a", &version), "one");
        assert_int_equal(version, 1);
        assert_int_equal(put(fixture, "a", "two", SESSION_EXPECT_VERSION, 2), 0);
        assert_int_equal(put(fixture, "a", "two", SESSION_EXPECT_VERSION, 1), 1);
        assert_int_equal(put(fixture, "a", "three", SESSION_EXPECT_VERSION, 1), 0);
        assert_int_equal(put(fixture, "a", "three", SESSION_EXPECT_NOTHING, 0), 1);
        assert_string_equal(value_of(fixture, "a", &version), "three");
        assert_int_equal(version, 3);
        assert_int_equal(put(fixture, "a", NULL, SESSION_EXPECT_VERSION, 2), 0);
        assert_int_equal(put(fixture, "a", NULL, SESSION_EXPECT_VERSION, 3), 1);
        assert_null(value_of(fixture, "a", NULL));
}

static void all_or_nothing(void **state) {
        struct fixture *fixture = *state;
        struct session_change changes[] = {
                { SESSION_TABLE_SESSIONS, "x", "1", SESSION_EXPECT_ABSENT, 0 },
                { SESSION_TABLE_CONVERSATIONS, "x", "2", SESSION_EXPECT_ABSENT, 0 },
        };
        struct session_item item = { 0 };
        struct error err;

        assert_int_equal(session_store_write(fixture->store, changes, 2, &err), 1);
        changes[0].key = "y";
        assert_int_equal(session_store_write(fixture->store, changes, 2, &err), 0);
        assert_null(value_of(fixture, "y", NULL));
        assert_int_equal(session_store_get(fixture->store, SESSION_TABLE_CONVERSATIONS, "x", fixture->arena,
                                           &item, &err),
                         1);
        assert_string_equal(item.value, "2");
}

static void check_list(struct fixture *fixture, const char *prefix, const char *after, bool backwards,
                       size_t limit, const char *expected) {
        struct session_item *items;
        struct strbuf found STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;
        size_t count;

        assert_int_equal(session_store_list(fixture->store, SESSION_TABLE_SESSIONS, prefix, after, backwards,
                                            limit, fixture->arena, &items, &count, &err),
                         0);
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&found, "%s ", items[i].key);
        assert_string_equal(strbuf_text(&found), expected);
}

static void lists(void **state) {
        static const char *const keys[] = { "a/1", "a/2", "a/3", "b/1", "b/2" };
        struct fixture *fixture = *state;

        check_list(fixture, "", NULL, false, 9, "");
        check_list(fixture, "a/", NULL, true, 9, "");
        for (size_t i = 0; i < 5; i++)
                assert_int_equal(put(fixture, keys[i], "v", SESSION_EXPECT_ABSENT, 0), 1);
        check_list(fixture, "", NULL, false, 9, "a/1 a/2 a/3 b/1 b/2 ");
        check_list(fixture, "a/", NULL, false, 9, "a/1 a/2 a/3 ");
        check_list(fixture, "a/", NULL, false, 2, "a/1 a/2 ");
        check_list(fixture, "a/", "a/2", false, 9, "a/3 ");
        check_list(fixture, "a/", "a/3", false, 9, "");
        check_list(fixture, "b/", NULL, true, 9, "b/2 b/1 ");
        check_list(fixture, "a/", NULL, true, 2, "a/3 a/2 ");
        check_list(fixture, "a/", "a/2", true, 9, "a/1 ");
        check_list(fixture, "b/", "b/1", true, 9, "");
        check_list(fixture, "c/", NULL, false, 9, "");
        check_list(fixture, "c/", NULL, true, 9, "");
        check_list(fixture, "a/", "0", false, 9, "a/1 a/2 a/3 ");
        check_list(fixture, "a/", "c", true, 2, "a/3 a/2 ");
        check_list(fixture, "a/", "b", false, 9, "");
}

/* Keys that begin with a digest's digits and such as do not, in one order. */
static void lists_of_everybody(void **state) {
        static const char *const keys[] = {
                "~ending/1", "Z", "f0/1", "00/2", "a1/1", "-", "readiness", "00/1"
        };
        struct fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                assert_int_equal(put(fixture, keys[i], "v", SESSION_EXPECT_ABSENT, 0), 1);
        check_list(fixture, "", NULL, false, 99, "- 00/1 00/2 Z a1/1 f0/1 readiness ~ending/1 ");
        check_list(fixture, "", NULL, true, 99, "~ending/1 readiness f0/1 a1/1 Z 00/2 00/1 - ");
        check_list(fixture, "", NULL, false, 3, "- 00/1 00/2 ");
        check_list(fixture, "", "00/2", false, 3, "Z a1/1 f0/1 ");
        check_list(fixture, "", "a1/1", true, 2, "Z 00/2 ");
        check_list(fixture, "", "readiness", false, 2, "~ending/1 ");
        check_list(fixture, "~ending/", NULL, false, 2, "~ending/1 ");
        check_list(fixture, "0", NULL, true, 1, "00/2 ");
}

/* More than one answer of DynamoDB's holds. */
static void lists_of_large_records(void **state) {
        struct fixture *fixture = *state;
        char *value = arena_alloc(fixture->arena, 300000);
        struct session_item *items;
        struct error err;
        size_t count;

        memset(value, 'x', 299999);
        for (int i = 0; i < 6; i++) {
                value[0] = (char)('0' + i);
                assert_int_equal(put(fixture, arena_printf(fixture->arena, "a/%d", i), value,
                                     SESSION_EXPECT_ABSENT, 0),
                                 1);
        }
        check_list(fixture, "a/", NULL, false, 9, "a/0 a/1 a/2 a/3 a/4 a/5 ");
        check_list(fixture, "a/", "a/5", true, 9, "a/4 a/3 a/2 a/1 a/0 ");
        check_list(fixture, "", NULL, true, 5, "a/5 a/4 a/3 a/2 a/1 ");
        assert_int_equal(session_store_list(fixture->store, SESSION_TABLE_SESSIONS, "a/", NULL, false, 9,
                                            fixture->arena, &items, &count, &err),
                         0);
        for (size_t i = 0; i < count; i++) {
                assert_int_equal(strlen(items[i].value), 299999);
                assert_int_equal(items[i].value[0], '0' + (int)i);
                assert_int_equal(items[i].version, 1);
        }
}

/* Texts of any script stay what they are. */
static void values(void **state) {
        static const char *const texts[] = { "", "{\"a\":\"\xc3\xa9 \xf0\x9f\x90\x9f\"}",
                                             "\n\t\"\\/\x01\x7f" };
        struct fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                assert_int_equal(put(fixture, "k", texts[i], SESSION_EXPECT_NOTHING, 0), 1);
                assert_string_equal(value_of(fixture, "k", NULL), texts[i]);
        }
}

struct racer {
        struct fixture *fixture;
        pthread_t thread;
        int won;
};

/* Each counts up what it has read, by the version it has read: all of the steps that were won are there at the end. */
static void *race(void *context) {
        struct racer *racer = context;

        for (int i = 0; i < 25; i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct session_item item = { 0 };
                struct error err;
                char text[32];
                struct session_change change = { SESSION_TABLE_SESSIONS, "count", text,
                                                 SESSION_EXPECT_VERSION, 0 };

                if (session_store_get(racer->fixture->store, SESSION_TABLE_SESSIONS, "count", arena, &item,
                                      &err) != 1)
                        abort();
                snprintf(text, sizeof(text), "%d", (int)strtol(item.value, NULL, 10) + 1);
                change.version = item.version;
                racer->won += session_store_write(racer->fixture->store, &change, 1, &err);
        }
        return NULL;
}

static void a_race_has_one_winner(void **state) {
        struct fixture *fixture = *state;
        struct racer racers[4] = { 0 };
        int won = 0;

        assert_int_equal(put(fixture, "count", "0", SESSION_EXPECT_ABSENT, 0), 1);
        for (size_t i = 0; i < 4; i++) {
                racers[i].fixture = fixture;
                assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        }
        for (size_t i = 0; i < 4; i++) {
                pthread_join(racers[i].thread, NULL);
                won += racers[i].won;
        }
        assert_true(won >= 25);
        assert_int_equal(strtol(value_of(fixture, "count", NULL), NULL, 10), won);
}

static void bounds(void **state) {
        struct fixture *fixture = *state;
        struct session_change change = { SESSION_TABLE_SESSIONS, "big", NULL, SESSION_EXPECT_NOTHING, 0 };
        char *value = arena_alloc(fixture->arena, SESSION_VALUE_MAX + 2);
        struct session_change many[SESSION_CHANGES_MAX + 1] = { 0 };
        struct error err;

        memset(value, 'x', SESSION_VALUE_MAX);
        change.value = value;
        assert_int_equal(session_store_write(fixture->store, &change, 1, &err), 1);
        value[SESSION_VALUE_MAX] = 'x';
        assert_int_equal(session_store_write(fixture->store, &change, 1, &err), -1);
        value[SESSION_VALUE_MAX] = '\0';
        for (size_t i = 0; i < SESSION_CHANGES_MAX; i++)
                many[i] = (struct session_change){ SESSION_TABLE_EXECUTIONS,
                                                   arena_printf(fixture->arena, "0/%zu", i), value,
                                                   SESSION_EXPECT_ABSENT, 0 };
        assert_int_equal(session_store_write(fixture->store, many, 10, &err), -1);
        assert_int_equal(session_store_write(fixture->store, many, 9, &err), 1);
        for (size_t i = 0; i < SESSION_CHANGES_MAX; i++)
                many[i].value = "small";
        assert_int_equal(session_store_write(fixture->store, many, SESSION_CHANGES_MAX, &err), 0);
        for (size_t i = 0; i < SESSION_CHANGES_MAX; i++)
                many[i].expect = SESSION_EXPECT_NOTHING;
        assert_int_equal(session_store_write(fixture->store, many, SESSION_CHANGES_MAX, &err), 1);
        many[SESSION_CHANGES_MAX] = many[0];
        assert_int_equal(session_store_write(fixture->store, many, SESSION_CHANGES_MAX + 1, &err), -1);
}

/* All of them, with what makes and closes an empty store. */
#define STORE_CONTRACT(setup, teardown)                                                   \
        cmocka_unit_test_setup_teardown(conditions, setup, teardown),                     \
                cmocka_unit_test_setup_teardown(all_or_nothing, setup, teardown),         \
                cmocka_unit_test_setup_teardown(lists, setup, teardown),                  \
                cmocka_unit_test_setup_teardown(lists_of_everybody, setup, teardown),     \
                cmocka_unit_test_setup_teardown(lists_of_large_records, setup, teardown), \
                cmocka_unit_test_setup_teardown(values, setup, teardown),                 \
                cmocka_unit_test_setup_teardown(a_race_has_one_winner, setup, teardown),  \
                cmocka_unit_test_setup_teardown(bounds, setup, teardown)

#endif
