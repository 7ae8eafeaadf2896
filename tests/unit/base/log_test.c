/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text and of JSON, each thread's context in them. */
#include "base/json.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <pthread.h>

#include <cmocka.h>

/* What `write` sends to standard error. */
static void caught(void (*write)(void), char *read, size_t size) {
        FILE *file = tmpfile();
        int before = dup(STDERR_FILENO);
        size_t length;

        assert_non_null(file);
        assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
        write();
        assert_true(dup2(before, STDERR_FILENO) >= 0);
        close(before);
        rewind(file);
        length = fread(read, 1, size - 1, file);
        read[length] = '\0';
        assert_int_equal(fclose(file), 0);
}

static int reset(void **state) {
        (void)state;
        log_set_json(false);
        log_set_level(LOG_LEVEL_INFO);
        log_context_clear();
        return 0;
}

static void write_text_lines(void) {
        log_context_set("commit", "3f2a");
        log_info("one");
        log_context_set("source", "re\x1Bsearch");
        log_error("two");
        log_debug("unseen");
        log_context_set("source", NULL);
        log_context_set("source", NULL);
        log_warning("three");
}

static void text_shows_the_source(void **state) {
        char read[256];

        (void)state;
        caught(write_text_lines, read, sizeof(read));
        assert_string_equal(read, "one\nerror: re\\x1Bsearch: two\nwarning: three\n");
}

/* NOLINTBEGIN(misc-misleading-bidirectional) */
static void write_json_lines(void) {
        log_set_json(true);
        log_set_level(LOG_LEVEL_DEBUG);
        log_debug("a \"quote\"\nand \x1B[2J\xC3\xA4 \xE2\x80\xAE \xFF");
        log_context_set("source", "research");
        log_context_set("commit", "3f2a");
        log_context_set("change", "Environment/a\xFF");
        log_warning("%d%%", 100);
        log_context_set("commit", "77");
        log_context_set("source", NULL);
        log_error("three");
        log_context_clear();
        log_info("four");
}

/* The next line as an object; moves *text behind it. */
static json_t *next_line(char **text) {
        char *end = strchr(*text, '\n');
        json_t *line;

        assert_non_null(end);
        *end = '\0';
        for (const char *at = *text; *at; at++)
                assert_true(*at >= ' ' && *at < 127);
        line = json_loads(*text, JSON_REJECT_DUPLICATES, NULL);
        assert_true(json_is_object(line));
        assert_int_equal(strlen(json_text(line, "time")), strlen("2026-01-31T12:00:00.123Z"));
        assert_int_equal(json_text(line, "time")[19], '.');
        assert_int_equal(json_text(line, "time")[23], 'Z');
        *text = end + 1;
        return line;
}

static void one_object_a_line(void **state) {
        static const struct {
                const char *level, *message, *source, *commit, *change;
                size_t members;
        } lines[] = {
                { "debug", "a \"quote\"\nand \x1B[2J\xC3\xA4 \xE2\x80\xAE \\xFF", NULL, NULL, NULL, 3 },
                { "warning", "100%", "research", "3f2a", "Environment/a\\xFF", 6 },
                { "error", "three", NULL, "77", "Environment/a\\xFF", 5 },
                { "info", "four", NULL, NULL, NULL, 3 },
        };
        char read[2048], *at = read;

        (void)state;
        caught(write_json_lines, read, sizeof(read));
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                json_t *line JSON_CLEANUP = next_line(&at);
                const char *const wanted[] = { lines[i].source, lines[i].commit, lines[i].change };
                static const char *const names[] = { "source", "commit", "change" };

                assert_string_equal(json_text(line, "level"), lines[i].level);
                assert_string_equal(json_text(line, "message"), lines[i].message);
                assert_int_equal(json_object_size(line), lines[i].members);
                for (size_t j = 0; j < 3; j++)
                        assert_string_equal(json_text(line, names[j]) ? json_text(line, names[j]) : "none",
                                            wanted[j] ? wanted[j] : "none");
        }
        assert_string_equal(at, "");
}

/* NOLINTEND(misc-misleading-bidirectional) */

static void write_too_much(void) {
        static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g" };
        char value[1024];

        memset(value, 'x', sizeof(value));
        value[sizeof(value) - 1] = '\0';
        for (size_t i = 0; i < 7; i++)
                log_context_set(names[i], value);
        log_set_json(true);
        log_info("%s%s%s%s%s", value, value, value, value, value);
}

static void bounded(void **state) {
        char read[16384], *at = read;

        (void)state;
        caught(write_too_much, read, sizeof(read));
        {
                json_t *line JSON_CLEANUP = next_line(&at);

                assert_int_equal(json_object_size(line), 3 + 6);
                assert_int_equal(strlen(json_text(line, "f")), 255);
                assert_null(json_text(line, "g"));
                assert_int_equal(strlen(json_text(line, "message")), 4095);
        }
}

static void *write_elsewhere(void *unused) {
        log_context_set("commit", "of the other thread");
        log_info("other");
        return unused;
}

static void write_from_two_threads(void) {
        pthread_t thread;

        log_set_json(true);
        log_context_set("source", "of the first");
        assert_int_equal(pthread_create(&thread, NULL, write_elsewhere, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        log_info("first");
}

static void each_thread_has_its_own(void **state) {
        char read[1024], *at = read;

        (void)state;
        caught(write_from_two_threads, read, sizeof(read));
        {
                json_t *other JSON_CLEANUP = next_line(&at), *first JSON_CLEANUP = next_line(&at);

                assert_null(json_text(other, "source"));
                assert_string_equal(json_text(other, "commit"), "of the other thread");
                assert_string_equal(json_text(first, "source"), "of the first");
                assert_null(json_text(first, "commit"));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(text_shows_the_source, reset, reset),
                cmocka_unit_test_setup_teardown(one_object_a_line, reset, reset),
                cmocka_unit_test_setup_teardown(bounded, reset, reset),
                cmocka_unit_test_setup_teardown(each_thread_has_its_own, reset, reset),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
