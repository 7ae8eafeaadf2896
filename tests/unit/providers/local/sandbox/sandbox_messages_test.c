/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message that was written is read as it was; what is out of bounds, missing or more than there
 * should be is refused.
 */
#include "providers/local/sandbox/sandbox_messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sandbox_placing placing = {
        .limits = { 1, 2, 3, 4, 5, 6 },
        .uid = 7,
        .gid = 8,
        .image = true,
        .scope = true,
        .entries = 4,
        .held = 2,
        .dies_with_parent = true,
        .for_another = true,
        .patience_ms = 9,
        .lasts = true,
        .owner = 10,
        .gauges = true,
        .network = { (const char *const[]){ "pypi.org", "*.a.b:8443" }, 2, 77 },
};

static void test_there_and_back(void **state) {
        struct sandbox_ending ending = { .started = true,
                                         .exit_code = 255,
                                         .cancelled = true,
                                         .sockets = true,
                                         .locks = true,
                                         .killed_by = 9,
                                         .wall_ms = 1,
                                         .cpu_ms = 2,
                                         .peak_memory_bytes = 3,
                                         .usage = { true, 4, 5, 6, 0 } };
        struct sandbox_running running = {
                .deadline_ms = 9, .waits = true, .files = { "main.py" }, .file_count = 1
        };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct arena *arena = arena_new();
        struct sandbox_placing placed;
        struct sandbox_running ran;
        struct sandbox_ending ended;
        struct error err = { 0 };

        (void)state;
        sandbox_placing_write(&placing, &text);
        assert_int_equal(sandbox_placing_read(text.data, text.length, arena, &placed, &err), 0);
        assert_int_equal(placed.limits.memory_bytes, 1);
        assert_int_equal(placed.limits.cpu_millis, 2);
        assert_int_equal(placed.limits.processes, 3);
        assert_int_equal(placed.limits.workspace_bytes, 4);
        assert_int_equal(placed.limits.workspace_files, 5);
        assert_int_equal(placed.limits.deadline_ms, 6);
        assert_int_equal(placed.uid, 7);
        assert_int_equal(placed.gid, 8);
        assert_int_equal(placed.entries, 4);
        assert_int_equal(placed.held, 2);
        assert_true(placed.image && placed.scope && placed.dies_with_parent && placed.for_another);
        assert_int_equal(placed.patience_ms, 9);
        assert_true(placed.lasts);
        assert_int_equal(placed.owner, 10);
        assert_true(placed.gauges);
        assert_false(placed.born || placed.limit_address_space);
        assert_int_equal(placed.network.count, 2);
        assert_string_equal(placed.network.entries[1], "*.a.b:8443");
        assert_int_equal(placed.network.bytes_max, 77);
        strbuf_clear(&text);
        sandbox_running_write(&running, &text);
        assert_int_equal(sandbox_running_read(text.data, text.length, arena, &ran, &err), 0);
        assert_int_equal(ran.deadline_ms, 9);
        assert_true(ran.waits);
        assert_int_equal(ran.file_count, 1);
        assert_string_equal(ran.files[0], "main.py");
        strbuf_clear(&text);
        sandbox_ending_write(&ending, &text);
        assert_int_equal(sandbox_ending_read(text.data, text.length, &ended, &err), 0);
        assert_int_equal(ended.exit_code, 255);
        assert_int_equal(ended.killed_by, 9);
        assert_true(ended.started && ended.cancelled && ended.sockets && ended.locks && ended.usage.known);
        assert_false(ended.deadline);
        assert_int_equal(ended.usage.memory_kills, 6);
        arena_free(arena);
}

/* Each truth of PLACE stands under its own name, and is read into its own member, whatever the order of the table. */
static void test_each_truth_has_its_name(void **state) {
        static const struct {
                const char *name;
                size_t offset;
        } truths[] = {
                { "image", offsetof(struct sandbox_placing, image) },
                { "born", offsetof(struct sandbox_placing, born) },
                { "scope", offsetof(struct sandbox_placing, scope) },
                { "limitAddressSpace", offsetof(struct sandbox_placing, limit_address_space) },
                { "lasts", offsetof(struct sandbox_placing, lasts) },
                { "disk", offsetof(struct sandbox_placing, disk) },
                { "diesWithParent", offsetof(struct sandbox_placing, dies_with_parent) },
                { "forAnother", offsetof(struct sandbox_placing, for_another) },
                { "gauges", offsetof(struct sandbox_placing, gauges) },
                { "joins", offsetof(struct sandbox_placing, joins) },
                { "kept", offsetof(struct sandbox_placing, kept) },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++) {
                struct sandbox_placing alone = { .limits = { 1, 1, 1, 1, 1, 1 } }, placed;
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct error err = { 0 };
                char member[64];
                size_t count = 0;

                *((bool *)((char *)&alone + truths[i].offset)) = true;
                sandbox_placing_write(&alone, &text);
                snprintf(member, sizeof(member), "\"%s\":true", truths[i].name);
                assert_non_null(strstr(text.data, member));
                for (const char *at = text.data; (at = strstr(at, ":true")); at++)
                        count++;
                assert_int_equal(count, 1);
                assert_int_equal(sandbox_placing_read(text.data, text.length, arena, &placed, &err), 0);
                for (size_t j = 0; j < sizeof(truths) / sizeof(truths[0]); j++)
                        assert_int_equal(*((bool *)((char *)&placed + truths[j].offset)), i == j);
        }
}

/* The text with `from` replaced by `to`, read as PLACE. */
static void refuse_placing(const char *from, const char *to, const char *says) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, changed STRBUF_CLEANUP = STRBUF_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sandbox_placing placed;
        struct error err = { 0 };
        const char *at;

        sandbox_placing_write(&placing, &text);
        at = strstr(text.data, from);
        assert_non_null(at);
        strbuf_append_bytes(&changed, text.data, (size_t)(at - text.data));
        strbuf_append(&changed, to);
        strbuf_append(&changed, at + strlen(from));
        assert_int_equal(sandbox_placing_read(changed.data, changed.length, arena, &placed, &err), -1);
        if (!strstr(err.message, says))
                fail_msg("%s -> %s: %s", from, to, err.message);
}

static void test_what_is_out_of_bounds(void **state) {
        (void)state;
        refuse_placing("\"memoryBytes\":1", "\"memoryBytes\":0", "memoryBytes out of range");
        refuse_placing("\"bytes\":77", "\"bytes\":0", "an invalid network");
        refuse_placing("[\"pypi.org\",\"*.a.b:8443\"]", "[]", "an invalid network");
        refuse_placing("\"pypi.org\"", "\"127.0.0.1\"", "an invalid host");
        refuse_placing("\"pypi.org\"", "7", "an invalid host");
        refuse_placing("\"memoryBytes\":1", "\"memoryBytes\":-1", "memoryBytes out of range");
        refuse_placing("\"memoryBytes\":1", "\"memoryBytes\":\"1\"", "no memoryBytes");
        refuse_placing("\"memoryBytes\":1", "\"memoryBytes\":1.5", "no memoryBytes");
        refuse_placing("\"image\":true", "\"image\":1", "no image");
        refuse_placing("\"image\":true", "\"Image\":true", "no image");
        refuse_placing("\"image\":true", "\"image\":true,\"path\":\"/\"", "members");
        refuse_placing("\"held\":2", "\"held\":9", "held out of range");
        refuse_placing("\"uid\":7", "\"uid\":4294967295", "uid out of range");
        refuse_placing("\"uid\":7", "\"uid\":7,\"uid\":0", "JSON");
        refuse_placing("{", "[", "JSON");
        refuse_placing("}", "", "JSON");
}

static void test_files_have_plain_names(void **state) {
        static const char *const names[] = { "", ".", "..", ".hidden", "a/b", "/etc/passwd", "a b", "\\n" };
        struct arena *arena = arena_new();
        struct sandbox_running ran;
        char text[256];

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                struct error err = { 0 };

                snprintf(text, sizeof(text),
                         "{\"deadlineMs\":1,\"waits\":false,\"session\":false,\"files\":[\"%s\"]}", names[i]);
                assert_int_equal(sandbox_running_read(text, strlen(text), arena, &ran, &err), -1);
                assert_non_null(strstr(err.message, "plain name"));
        }
        arena_free(arena);
}

static void test_files_have_names_of_their_own(void **state) {
        static const char text[] =
                "{\"deadlineMs\":1,\"waits\":false,\"session\":false,\"files\":[\"a\",\"b\",\"a\"]}";
        struct arena *arena = arena_new();
        struct sandbox_running ran;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(sandbox_running_read(text, strlen(text), arena, &ran, &err), -1);
        assert_string_equal(err.message, "a message has two files named a");
        arena_free(arena);
}

static void test_words(void **state) {
        static const char bytes[] = "one\0\0three";
        struct arena *arena = arena_new();
        struct error err = { 0 };
        const char *const *words;
        size_t count;

        (void)state;
        assert_int_equal(sandbox_words_read(bytes, sizeof(bytes), arena, &words, &count, &err), 0);
        assert_int_equal(count, 3);
        assert_string_equal(words[0], "one");
        assert_string_equal(words[1], "");
        assert_string_equal(words[2], "three");
        assert_null(words[3]);
        assert_int_equal(sandbox_words_read(NULL, 0, arena, &words, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_null(words[0]);
        assert_int_equal(sandbox_words_read(bytes, sizeof(bytes) - 1, arena, &words, &count, &err), -1);
        arena_free(arena);
}

static void test_names_come_after_one(void **state) {
        static const char *const bad[] = { "",
                                           "{}",
                                           "{\"after\":null}",
                                           "{\"after\":\"..\"}",
                                           "{\"after\":\"ab/\"}",
                                           "{\"after\":\"ab\",\"more\":1}" };
        static const char *const good[] = { "", "00ff" };
        struct arena *arena = arena_new();
        struct error err = { 0 };
        const char *after;

        (void)state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

                sandbox_after_write(good[i], &text);
                assert_int_equal(sandbox_after_read(text.data, text.length, arena, &after, &err), 0);
                assert_string_equal(after, good[i]);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(sandbox_after_read(bad[i], strlen(bad[i]), arena, &after, &err), -1);
        arena_free(arena);
}

static void test_what_a_launcher_answers(void **state) {
        static const char *const bad[] = { "",
                                           "{}",
                                           "[1]",
                                           "{\"run\":0}",
                                           "{\"run\":-1}",
                                           "{\"run\":\"1\"}",
                                           "{\"run\":1,\"pid\":1}",
                                           "{\"run\":1,\"run\":1}",
                                           "{\"run\":1,\"missing\":8,\"problem\":\"\"}",
                                           "{\"run\":1,\"missing\":0,\"problem\":null}" };
        struct sandbox_started started = { 7, CGROUP_CPU, "why" }, began;
        struct sandbox_measured measured = { 8, { true, 1, 2, 3, 4 } },
                                used; /* the last is of now, and is not told of an end */
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct arena *arena = arena_new();
        struct error err = { 0 };
        uint64_t number;

        (void)state;
        sandbox_started_write(&started, &text);
        assert_int_equal(sandbox_started_read(text.data, text.length, arena, &began, &err), 0);
        assert_int_equal(began.run, 7);
        assert_int_equal(began.missing, CGROUP_CPU);
        assert_string_equal(began.problem, "why");
        strbuf_clear(&text);
        sandbox_measured_write(&measured, &text);
        assert_int_equal(sandbox_measured_read(text.data, text.length, &used, &err), 0);
        assert_int_equal(used.run, 8);
        assert_true(used.usage.known);
        assert_int_equal(used.usage.peak_memory_bytes, 1);
        assert_int_equal(used.usage.cpu_us, 2);
        assert_int_equal(used.usage.memory_kills, 3);
        assert_int_equal(used.usage.memory_bytes, 0);
        strbuf_clear(&text);
        sandbox_number_write(9, &text);
        assert_int_equal(sandbox_number_read(text.data, text.length, &number, &err), 0);
        assert_int_equal(number, 9);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(sandbox_number_read(bad[i], strlen(bad[i]), &number, &err), -1);
                assert_int_equal(sandbox_started_read(bad[i], strlen(bad[i]), arena, &began, &err), -1);
                assert_int_equal(sandbox_measured_read(bad[i], strlen(bad[i]), &used, &err), -1);
        }
        assert_int_equal(number, 9);
        arena_free(arena);
}

/* An image and a name become parts of paths. */
static void test_what_a_launcher_is_asked(void **state) {
        static const char *const bad[] = { "",    ".",   "..",
                                           "a/b", "A",   "a.b",
                                           "\\n", "a b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
        struct sandbox_starting starting = { .limits = { 1, 2, 3, 4, 5, 6 }, .name = "s-1" }, asked;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *name, *to;
        struct arena *arena = arena_new();
        struct error err = { 0 };

        (void)state;
        sandbox_name_write("s-1", &text);
        assert_string_equal(strbuf_text(&text), "{\"name\":\"s-1\"}");
        assert_int_equal(sandbox_name_read(text.data, text.length, arena, &name, &err), 0);
        assert_string_equal(name, "s-1");
        for (size_t j = 0; j < sizeof(bad) / sizeof(bad[0]); j++) {
                strbuf_clear(&text);
                strbuf_printf(&text, "{\"name\":\"%s\"}", bad[j]);
                assert_int_equal(sandbox_name_read(text.data, text.length, arena, &name, &err), -1);
        }
        strbuf_clear(&text);
        sandbox_renaming_write("warm-1", "s-1", &text);
        assert_int_equal(sandbox_renaming_read(text.data, text.length, arena, &name, &to, &err), 0);
        assert_string_equal(name, "warm-1");
        assert_string_equal(to, "s-1");
        assert_int_equal(
                sandbox_renaming_read("{\"name\":\"a\",\"to\":\"../b\"}", 24, arena, &name, &to, &err), -1);
        assert_int_equal(sandbox_renaming_read("{\"name\":\"a\"}", 12, arena, &name, &to, &err), -1);
        assert_int_equal(sandbox_name_read("{}", 2, arena, &name, &err), -1);
        assert_int_equal(sandbox_name_read("{\"name\":1}", 10, arena, &name, &err), -1);
        assert_int_equal(sandbox_name_read("{\"name\":\"a\",\"uid\":0}", 20, arena, &name, &err), -1);
        strbuf_clear(&text);
        sandbox_starting_write(&starting, &text);
        assert_int_equal(sandbox_starting_read(text.data, text.length, arena, &asked, &err), 0);
        assert_null(asked.image);
        assert_string_equal(asked.name, "s-1");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                starting.name = bad[i];
                strbuf_clear(&text);
                sandbox_starting_write(&starting, &text);
                assert_int_equal(sandbox_starting_read(text.data, text.length, arena, &asked, &err), -1);
        }
        starting.name = "s-1";
        starting.family = (struct sandbox_family){ .name = "0a9f", .cpu_millis = 2000 };
        strbuf_clear(&text);
        sandbox_starting_write(&starting, &text);
        assert_int_equal(sandbox_starting_read(text.data, text.length, arena, &asked, &err), 0);
        assert_string_equal(asked.family.name, "0a9f");
        assert_int_equal(asked.family.cpu_millis, 2000);
        strbuf_clear(&text);
        sandbox_family_write(&starting.family, &text);
        assert_int_equal(sandbox_family_read(text.data, text.length, arena, &asked.family, &err), 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                starting.family.name = bad[i];
                strbuf_clear(&text);
                sandbox_starting_write(&starting, &text);
                assert_int_equal(sandbox_starting_read(text.data, text.length, arena, &asked, &err), -1);
                strbuf_clear(&text);
                sandbox_family_write(&starting.family, &text);
                assert_int_equal(sandbox_family_read(text.data, text.length, arena, &asked.family, &err), -1);
        }
        arena_free(arena);
}

/* One number, of which a worker of version 0.1.0 takes the whole for the milliseconds of its age. */
static void lives(void **state) {
        static const struct {
                struct sandbox_life life, read;
        } cases[] = {
                { { 5000, INT64_MAX }, { 5000, 5000 } },
                { { 5000, 5000 }, { 5000, 5000 } },
                { { 5000, 7000 }, { 5000, 5000 } },
                { { 0, 0 }, { 0, 0 } },
                { { -5, -5 }, { 0, 0 } },
                { { 3600000, 2000 }, { 3600000, 2000 } },
                { { 3600000, 1 }, { 3600000, 1000 } },
                { { 3600000, 0 }, { 3600000, 1000 } },
                { { 3600000, 60001 }, { 3600000, 61000 } },
                { { INT64_MAX, 60000 }, { ((int64_t)1 << 40) - 1, 60000 } },
                { { INT64_MAX, INT64_MAX }, { ((int64_t)1 << 40) - 1, ((int64_t)1 << 40) - 1 } },
        };
        struct sandbox_life old = sandbox_life_unpack(86400000);

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                uint64_t number = sandbox_life_pack(&cases[i].life);
                struct sandbox_life read = sandbox_life_unpack(number);

                assert_int_equal(read.age_ms, cases[i].read.age_ms);
                assert_int_equal(read.idle_ms, cases[i].read.idle_ms);
                /* Taken for one time, it is no sooner than either. */
                assert_true(number <= INT64_MAX && (int64_t)number >= read.age_ms);
        }
        assert_true(old.age_ms == 86400000 && old.idle_ms == 86400000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lives),
                cmocka_unit_test(test_there_and_back),
                cmocka_unit_test(test_each_truth_has_its_name),
                cmocka_unit_test(test_what_a_launcher_answers),
                cmocka_unit_test(test_what_a_launcher_is_asked),
                cmocka_unit_test(test_what_is_out_of_bounds),
                cmocka_unit_test(test_files_have_plain_names),
                cmocka_unit_test(test_files_have_names_of_their_own),
                cmocka_unit_test(test_words),
                cmocka_unit_test(test_names_come_after_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
