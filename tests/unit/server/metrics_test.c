/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters and their text form. That Prometheus takes it is
 * tests/e2e/test_controller_http.py's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { RUNS, LEVEL, SECONDS, PLAIN, FAMILIES };

static const double buckets[] = { 0.1, 1, 10, 0 };
static const struct metrics_family families[FAMILIES] = {
        [RUNS] = { "runs_total", "Runs.", { "owner", "result" }, NULL, METRICS_COUNTER },
        [LEVEL] = { "level", "A level.", { "name" }, NULL, METRICS_GAUGE },
        [SECONDS] = { "run_seconds", "How long.", { "owner" }, buckets, METRICS_HISTOGRAM },
        [PLAIN] = { "plain_seconds", "Without labels.", { NULL }, buckets, METRICS_HISTOGRAM },
};
static const struct metrics_table table = { families, FAMILIES, "owner" };

#define LABELS(...) ((const char *const[]){ __VA_ARGS__ })

/* The lines between the version and the process's own. */
static const char *written(struct metrics *metrics, struct strbuf *text) {
        char *begin, *end;

        strbuf_clear(text);
        metrics_write(metrics, text);
        assert_int_equal(strncmp(text->data, "# HELP berth_build_info", 23), 0);
        begin = strstr(text->data, "} 1\n");
        end = strstr(text->data, "# HELP process_cpu_seconds_total");
        assert_true(begin && end);
        *end = '\0';
        return begin + 4;
}

static void what_is_written(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct metrics *metrics = metrics_new(&table);

        (void)state;
        assert_string_equal(written(metrics, &text), ""); /* a family without a series has no head either */
        metrics_add(metrics, RUNS, 1, LABELS("b", "ok"));
        metrics_add(metrics, RUNS, 2, LABELS("a", "ok"));
        metrics_add(metrics, RUNS, 0.5, LABELS("a", "failed"));
        metrics_add(metrics, RUNS, 1, LABELS("b", "ok"));
        metrics_set(metrics, LEVEL, 7, LABELS("x"));
        metrics_set(metrics, LEVEL, -3, LABELS("x"));
        metrics_observe(metrics, SECONDS, 0.1, LABELS("a"));
        metrics_observe(metrics, SECONDS, 5, LABELS("a"));
        metrics_observe(metrics, SECONDS, 11, LABELS("a"));
        metrics_observe(metrics, PLAIN, 0.5, NULL);
        assert_string_equal(written(metrics, &text), "# HELP runs_total Runs.\n"
                                                     "# TYPE runs_total counter\n"
                                                     "runs_total{owner=\"a\",result=\"failed\"} 0.5\n"
                                                     "runs_total{owner=\"a\",result=\"ok\"} 2\n"
                                                     "runs_total{owner=\"b\",result=\"ok\"} 2\n"
                                                     "# HELP level A level.\n"
                                                     "# TYPE level gauge\n"
                                                     "level{name=\"x\"} -3\n"
                                                     "# HELP run_seconds How long.\n"
                                                     "# TYPE run_seconds histogram\n"
                                                     "run_seconds_bucket{owner=\"a\",le=\"0.1\"} 1\n"
                                                     "run_seconds_bucket{owner=\"a\",le=\"1\"} 1\n"
                                                     "run_seconds_bucket{owner=\"a\",le=\"10\"} 2\n"
                                                     "run_seconds_bucket{owner=\"a\",le=\"+Inf\"} 3\n"
                                                     "run_seconds_sum{owner=\"a\"} 16.1\n"
                                                     "run_seconds_count{owner=\"a\"} 3\n"
                                                     "# HELP plain_seconds Without labels.\n"
                                                     "# TYPE plain_seconds histogram\n"
                                                     "plain_seconds_bucket{le=\"0.1\"} 0\n"
                                                     "plain_seconds_bucket{le=\"1\"} 1\n"
                                                     "plain_seconds_bucket{le=\"10\"} 1\n"
                                                     "plain_seconds_bucket{le=\"+Inf\"} 1\n"
                                                     "plain_seconds_sum{} 0.5\n"
                                                     "plain_seconds_count{} 1\n");
        metrics_free(metrics);
        metrics_free(NULL);
}

static void numbers(void **state) {
        static const struct {
                double number;
                const char *text;
        } cases[] = {
                { 0, "0" },
                { 1e15, "1e+15" },
                { 0.1, "0.1" },
                { 1.0 / 3, "0.33333333333333331" },
                { 1700000000.125, "1700000000.125" },
                { -0.25, "-0.25" },
                { INFINITY, "+Inf" },
                { -INFINITY, "-Inf" },
                { NAN, "NaN" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, line STRBUF_CLEANUP = STRBUF_INIT;
                struct metrics *metrics = metrics_new(&table);

                metrics_set(metrics, LEVEL, cases[i].number, LABELS("x"));
                strbuf_printf(&line, "level{name=\"x\"} %s\n", cases[i].text);
                if (!strstr(written(metrics, &text), strbuf_text(&line)))
                        fail_msg("%s: %s", cases[i].text, text.data);
                metrics_free(metrics);
        }
}

/* Whatever a value holds, it stays one value on one line, in UTF-8. */
static void values_of_labels(void **state) {
        static const struct {
                const char *value, *text;
        } cases[] = {
                { "", "" },
                { "a\"b\\c\nd", "a\\\"b\\\\c\\nd" },
                { "x\"} 1\nforged 2", "x\\\"} 1\\nforged 2" },
                { "\xc3\xa4", "\xc3\xa4" },
                { "\xff", "\\\\xFF" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, line STRBUF_CLEANUP = STRBUF_INIT;
                struct metrics *metrics = metrics_new(&table);

                metrics_set(metrics, LEVEL, 1, LABELS(cases[i].value));
                strbuf_printf(&line, "level{name=\"%s\"} 1\n", cases[i].text);
                if (!strstr(written(metrics, &text), strbuf_text(&line)))
                        fail_msg("case %zu: %s", i, text.data);
                metrics_free(metrics);
        }
}

/* 128 bytes are all of a value that counts, also where that cuts a character in two. */
static void long_values(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct metrics *metrics = metrics_new(&table);
        char first[300], second[300];

        (void)state;
        memset(first, 'a', sizeof(first));
        memcpy(first + 127, "\xc3\xa4", 2);
        first[299] = '\0';
        memcpy(second, first, sizeof(second));
        second[200] = 'b';
        metrics_add(metrics, LEVEL, 1, LABELS(first));
        metrics_add(metrics, LEVEL, 1, LABELS(second));
        metrics_add(metrics, RUNS, 1, LABELS(first, "ok"));
        metrics_add(metrics, RUNS, 1, LABELS(second, "ok"));
        written(metrics, &text);
        assert_non_null(strstr(text.data, "aaa\\\\xC3\"} 2\n"));
        assert_non_null(strstr(text.data, "aaa\\\\xC3\",result=\"ok\"} 2\n"));
        assert_null(strstr(text.data, "b\"}"));
        metrics_free(metrics);
}

static size_t count_of(const char *text, const char *sought) {
        size_t count = 0;

        for (; (text = strstr(text, sought)); text++)
                count++;
        return count;
}

/* A client that makes names up makes no memory of them. */
static void what_is_beyond_the_bounds(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct metrics *metrics = metrics_new(&table);
        char name[32];

        (void)state;
        for (int i = 0; i < METRICS_OWNERS + 100; i++) {
                snprintf(name, sizeof(name), "o%d", i);
                metrics_add(metrics, RUNS, 1, LABELS(name, "ok"));
        }
        /*
         * An owner that has a place keeps it, in every family; an owner that has none has none in
         * any.
         */
        metrics_observe(metrics, SECONDS, 1, LABELS("o0"));
        metrics_observe(metrics, SECONDS, 1, LABELS(name));
        metrics_add(metrics, RUNS, 1, LABELS("o511", "ok"));
        written(metrics, &text);
        assert_int_equal(count_of(text.data, "\nruns_total{"), METRICS_OWNERS + 1);
        assert_non_null(strstr(text.data, "runs_total{owner=\"other\",result=\"ok\"} 100\n"));
        assert_non_null(strstr(text.data, "runs_total{owner=\"o511\",result=\"ok\"} 2\n"));
        assert_non_null(strstr(text.data, "run_seconds_count{owner=\"o0\"} 1\n"));
        assert_non_null(strstr(text.data, "run_seconds_count{owner=\"other\"} 1\n"));
        for (int i = 0; i < METRICS_SERIES + 100; i++) {
                snprintf(name, sizeof(name), "n%d", i);
                metrics_add(metrics, LEVEL, 1, LABELS(name));
        }
        metrics_add(metrics, LEVEL, 1, LABELS("n0"));
        written(metrics, &text);
        assert_int_equal(count_of(text.data, "\nlevel{"), METRICS_SERIES + 1);
        assert_non_null(strstr(text.data, "level{name=\"other\"} 100\n"));
        assert_non_null(strstr(text.data, "level{name=\"n0\"} 2\n"));
        metrics_free(metrics);
}

static void *count_many(void *context) {
        for (int i = 0; i < 1000; i++) {
                char name[8];

                snprintf(name, sizeof(name), "%d", i % 10);
                metrics_add(context, RUNS, 1, LABELS(name, "ok"));
                metrics_observe(context, SECONDS, 1, LABELS(name));
        }
        return NULL;
}

static void threads(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct metrics *metrics = metrics_new(&table);
        pthread_t list[4];

        (void)state;
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&list[i], NULL, count_many, metrics), 0);
        for (size_t i = 0; i < 4; i++) {
                written(metrics, &text);
                pthread_join(list[i], NULL);
        }
        written(metrics, &text);
        assert_int_equal(count_of(text.data, "\",result=\"ok\"} 400\n"), 10);
        /* Of each of ten owners: the runs, and a sum, a count and three buckets. */
        assert_int_equal(count_of(text.data, "\"} 400\n"), 60);
        metrics_free(metrics);
}

/* Each of the process's own stands there once, with a head. */
static void the_process_itself(void **state) {
        static const char *const names[] = { "process_cpu_seconds_total", "process_resident_memory_bytes",
                                             "process_start_time_seconds", "process_open_fds",
                                             "process_max_fds" };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct metrics *metrics = metrics_new(&table);

        (void)state;
        metrics_write(metrics, &text);
        assert_non_null(strstr(text.data, "berth_build_info{version=\"" BERTH_VERSION "\"} 1\n"));
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                char type[80], line[80];

                snprintf(type, sizeof(type), "\n# TYPE %s ", names[i]);
                snprintf(line, sizeof(line), "\n%s ", names[i]);
                assert_int_equal(count_of(text.data, type), 1);
                assert_int_equal(count_of(text.data, line), 1);
        }
        metrics_free(metrics);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_written),           cmocka_unit_test(numbers),
                cmocka_unit_test(values_of_labels),          cmocka_unit_test(long_values),
                cmocka_unit_test(what_is_beyond_the_bounds), cmocka_unit_test(threads),
                cmocka_unit_test(the_process_itself),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
