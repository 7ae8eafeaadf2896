/* SPDX-License-Identifier: Apache-2.0 */
#include "containers/container_log.h"

#include "base/files.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
        char folder[64], path[80];
        struct container_log *log;
};

static int set_up(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        struct error err;

        if (!fixture)
                return -1;
        snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/berth-log-XXXXXX");
        if (!mkdtemp(fixture->folder))
                return -1;
        snprintf(fixture->path, sizeof(fixture->path), "%s/c-one", fixture->folder);
        *state = fixture;
        return container_log_open(fixture->path, &fixture->log, &err);
}

static int tear_down(void **state) {
        struct fixture *fixture = *state;
        int result;

        container_log_close(fixture->log);
        container_log_remove(fixture->path);
        result = rmdir(fixture->folder); /* nothing is left */
        free(fixture);
        return result;
}

static void again(struct fixture *fixture) {
        struct error err;

        container_log_close(fixture->log);
        fixture->log = NULL;
        assert_int_equal(container_log_open(fixture->path, &fixture->log, &err), 0);
}

static void append(struct fixture *fixture, uint32_t start, uint64_t event, const char *text) {
        const struct container_log_entry entry = { start, event, CONTAINER_STDOUT, 7, text, strlen(text) };
        struct error err;

        assert_int_equal(container_log_append(fixture->log, &entry, &err), 0);
}

/* All from the position on; *ret_gap where some have gone before the first. */
static uint64_t read_from(struct fixture *fixture, uint64_t position, struct strbuf *ret, bool *ret_gap) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct container_log_record record;
        struct error err;
        int found;

        strbuf_clear(ret);
        *ret_gap = false;
        while ((found = container_log_read(fixture->log, position, &record, &bytes, &err)) == 1) {
                assert_int_equal(record.at_ms, 7);
                *ret_gap = *ret_gap || record.gap;
                strbuf_append_bytes(ret, strbuf_text(&bytes), bytes.length);
                position = record.next;
        }
        assert_int_equal(found, 0);
        return position;
}

static void test_what_was_appended_is_read(void **state) {
        struct fixture *fixture = *state;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        uint64_t position;
        bool gap;

        assert_true(container_log_first(fixture->log) == container_log_end(fixture->log));
        append(fixture, 1, 10, "one ");
        append(fixture, 1, 20, "two ");
        position = read_from(fixture, 0, &text, &gap);
        assert_string_equal(strbuf_text(&text), "one two ");
        assert_false(gap);
        again(fixture);
        append(fixture, 1, 30, "three ");
        (void)read_from(fixture, position, &text, &gap);
        assert_string_equal(strbuf_text(&text), "three ");
}

/* A place repeats events that were not heard: after a death each is there once nevertheless. */
static void test_what_is_told_again_is_there_once(void **state) {
        struct fixture *fixture = *state;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        bool gap;

        append(fixture, 1, 10, "a");
        append(fixture, 1, 20, "b");
        again(fixture);
        append(fixture, 1, 10, "a");
        append(fixture, 1, 20, "b");
        append(fixture, 1, 30, "c");
        append(fixture, 2, 10, "d"); /* another start counts from its own beginning */
        append(fixture, 1, 40, "late");
        append(fixture, 65537, 5, "e");
        again(fixture);
        append(fixture, 65537, 5, "e");
        append(fixture, 65536, 6, "older");
        (void)read_from(fixture, 0, &text, &gap);
        assert_string_equal(strbuf_text(&text), "abcde");
}

/* One follows, one comes late: of what the ring still has neither misses anything or has it twice. */
static void test_the_ring_turns(void **state) {
        struct fixture *fixture = *state;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, all STRBUF_CLEANUP = STRBUF_INIT;
        char line[1024];
        uint64_t position = 0, first;
        struct error err;
        unsigned seen = 0, number;
        bool gap;

        memset(line, 'x', sizeof(line));
        for (unsigned n = 0; n < 30000; n++) {
                snprintf(line, 10, "%08u,", n);
                line[9] = 'x';
                line[sizeof(line) - 1] = '\n';
                assert_int_equal(
                        container_log_append(fixture->log,
                                             &(const struct container_log_entry){ 1, n + 1, CONTAINER_STDERR,
                                                                                  7, line, sizeof(line) },
                                             &err),
                        0);
                if (n % 1000 != 999)
                        continue;
                if (n % 7000 == 6999)
                        again(fixture);
                position = read_from(fixture, position, &text, &gap);
                assert_false(gap);
                for (size_t at = 0; at < text.length; at += sizeof(line)) {
                        assert_int_equal(sscanf(text.data + at, "%8u", &number), 1);
                        assert_int_equal(number, seen++);
                }
        }
        assert_int_equal(seen, 30000);
        first = container_log_first(fixture->log);
        (void)read_from(fixture, 0, &all, &gap);
        assert_false(gap);
        assert_true(all.length >= CONTAINER_LOG_MAX / 2 - 65536 && all.length <= CONTAINER_LOG_MAX);
        assert_int_equal(sscanf(all.data, "%8u", &number), 1);
        for (size_t at = 0; at < all.length; at += sizeof(line)) {
                unsigned found;

                assert_int_equal(sscanf(all.data + at, "%8u", &found), 1);
                assert_int_equal(found, number++);
        }
        assert_int_equal(number, 30000);
        /* A reader left further behind than the ring goes hears that some have gone. */
        (void)read_from(fixture, first - 1, &text, &gap);
        assert_true(gap);
        assert_int_equal(text.length, all.length);
}

/* A death in the middle of a write, and whatever else may stand there. */
static void test_half_a_record_is_cut_off(void **state) {
        static const char *const ends[] = { "", "log1", "log1log1log1log1log1log1log1log1log1log1log1",
                                            "\0\0\0" };
        struct fixture *fixture = *state;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char name[96];
        bool gap;

        snprintf(name, sizeof(name), "%s.1", fixture->path);
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
                struct stat status;
                int file;

                append(fixture, 1, 10 * i + 10, "whole ");
                assert_int_equal(stat(name, &status), 0);
                append(fixture, 1, 10 * i + 15, "half");
                container_log_close(fixture->log);
                fixture->log = NULL;
                assert_int_equal(truncate(name, status.st_size + 20 + (off_t)i), 0);
                file = open(name, O_WRONLY | O_APPEND);
                assert_int_equal(write(file, ends[i], strlen(ends[i])), strlen(ends[i]));
                close(file);
                again(fixture);
                append(fixture, 1, 10 * i + 15, "told again ");
        }
        (void)read_from(fixture, 0, &text, &gap);
        assert_string_equal(strbuf_text(&text),
                            "whole told again whole told again whole told again whole told again ");
}

static void test_places_that_are_none(void **state) {
        struct fixture *fixture = *state;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct container_log_record record;
        struct error err;

        append(fixture, 1, 10, "text");
        assert_int_equal(
                container_log_read(fixture->log, container_log_end(fixture->log), &record, &bytes, &err), 0);
        assert_int_equal(container_log_read(fixture->log, container_log_first(fixture->log) + 1, &record,
                                            &bytes, &err),
                         -1);
        assert_int_equal(container_log_read(fixture->log, UINT64_MAX, &record, &bytes, &err), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_what_was_appended_is_read, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_told_again_is_there_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_ring_turns, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_half_a_record_is_cut_off, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_places_that_are_none, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
