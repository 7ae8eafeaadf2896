/* SPDX-License-Identifier: Apache-2.0 */
/* The exposition, byte by byte; bounds; many threads. */
#include "gitops/controller_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include <cmocka.h>

#define LABELS(...) ((const char *const[]){ __VA_ARGS__ })

static char *exposition(struct metrics *metrics) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        metrics_write(metrics, &text);
        return strbuf_take(&text);
}

static void assert_line(const char *text, const char *line) {
        size_t length = strlen(line);

        for (const char *at = text; (at = strstr(at, line)); at++) {
                if ((at == text || at[-1] == '\n') && at[length] == '\n')
                        return;
        }
        fail_msg("no line \"%s\" in:\n%s", line, text);
}

/* The value of the one sample whose line begins so. */
static double sample(const char *text, const char *name) {
        size_t length = strlen(name);

        for (const char *at = text; (at = strstr(at, name)); at++) {
                if ((at == text || at[-1] == '\n') && at[length] == ' ')
                        return strtod(at + length, NULL);
        }
        fail_msg("no sample %s in:\n%s", name, text);
        return 0;
}

static void counters_and_gauges(void **state) {
        struct metrics *metrics = controller_metrics_new();
        char *text;

        (void)state;
        metrics_add(metrics, METRIC_RECONCILES, 1, LABELS("research", "applied"));
        metrics_add(metrics, METRIC_RECONCILES, 1, LABELS("research", "failed"));
        metrics_add(metrics, METRIC_RECONCILES, 2, LABELS("research", "applied"));
        metrics_add(metrics, METRIC_RECONCILES, 1, LABELS("agents", "applied"));
        metrics_set(metrics, METRIC_RESOURCES, 1000, LABELS("agents", "Environment"));
        metrics_set(metrics, METRIC_RESOURCES, 12, LABELS("agents", "Environment"));
        metrics_set(metrics, METRIC_LAST_SUCCESS, 1769860800.123, LABELS("agents"));
        metrics_add(metrics, METRIC_QUOTA_WAIT_SECONDS, 0.1, LABELS("lambda"));
        metrics_add(metrics, METRIC_QUOTA_WAIT_SECONDS, 0.2, LABELS("lambda"));
        metrics_add(metrics, METRIC_CALLS, 1e15, LABELS("lambda", "GetFunction", "200"));
        text = exposition(metrics);
        assert_non_null(
                strstr(text, "# HELP berth_reconciles_total Reconciliations that came to their end, by how.\n"
                             "# TYPE berth_reconciles_total counter\n"
                             "berth_reconciles_total{source=\"agents\",result=\"applied\"} 1\n"
                             "berth_reconciles_total{source=\"research\",result=\"applied\"} 3\n"
                             "berth_reconciles_total{source=\"research\",result=\"failed\"} 1\n"
                             "# HELP "));
        assert_line(text, "# TYPE berth_resources gauge");
        assert_line(text, "berth_resources{source=\"agents\",kind=\"Environment\"} 12");
        assert_line(text, "berth_last_success_timestamp_seconds{source=\"agents\"} 1769860800.123");
        assert_line(text, "berth_provider_quota_wait_seconds_total{service=\"lambda\"} 0.30000000000000004");
        assert_line(text,
                    "berth_provider_calls_total{service=\"lambda\",operation=\"GetFunction\",code=\"200\"} "
                    "1e+15");
        assert_line(text, "berth_build_info{version=\"" BERTH_VERSION "\"} 1");
        /* A metric that was never counted is absent. */
        assert_null(strstr(text, "berth_refusals_total"));
        free(text);
        metrics_free(metrics);
        metrics_free(NULL);
}

static void histograms(void **state) {
        static const double seconds[] = { 0.02, 0.05, 0.06, 61, 1e9 };
        struct metrics *metrics = controller_metrics_new();
        char *text;

        (void)state;
        for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
                metrics_observe(metrics, METRIC_POLL_SECONDS, seconds[i], LABELS("a"));
        text = exposition(metrics);
        assert_non_null(strstr(text, "# TYPE berth_git_poll_duration_seconds histogram\n"
                                     "berth_git_poll_duration_seconds_bucket{source=\"a\",le=\"0.01\"} 0\n"
                                     "berth_git_poll_duration_seconds_bucket{source=\"a\",le=\"0.05\"} 2\n"
                                     "berth_git_poll_duration_seconds_bucket{source=\"a\",le=\"0.1\"} 3\n"));
        assert_line(text, "berth_git_poll_duration_seconds_bucket{source=\"a\",le=\"60\"} 3");
        assert_line(text, "berth_git_poll_duration_seconds_bucket{source=\"a\",le=\"+Inf\"} 5");
        assert_line(text, "berth_git_poll_duration_seconds_sum{source=\"a\"} 1000000061.13");
        assert_line(text, "berth_git_poll_duration_seconds_count{source=\"a\"} 5");
        free(text);
        metrics_free(metrics);
}

static void labels_are_escaped(void **state) {
        static const struct {
                const char *value, *shown;
        } cases[] = {
                { "", "" },
                { "a\"b\\c\nd", "a\\\"b\\\\c\\nd" },
                { "\xC3\xA4 {},=\t", "\xC3\xA4 {},=\t" },
                { "\xFF", "\\\\xFF" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct metrics *metrics = controller_metrics_new();
                char line[256];
                char *text;

                metrics_set(metrics, METRIC_SUSPENDED, 1, LABELS(cases[i].value));
                text = exposition(metrics);
                snprintf(line, sizeof(line), "berth_source_suspended{source=\"%s\"} 1", cases[i].shown);
                assert_line(text, line);
                free(text);
                metrics_free(metrics);
        }
}

static size_t lines_with(const char *text, const char *part) {
        size_t count = 0;

        for (const char *at = text; (at = strstr(at, part)); at++)
                count++;
        return count;
}

static void series_are_bounded(void **state) {
        struct metrics *metrics = controller_metrics_new();
        char name[512], *text;

        (void)state;
        for (int i = 0; i < METRICS_OWNERS + 100; i++) {
                snprintf(name, sizeof(name), "source-%d", i);
                metrics_add(metrics, METRIC_HOOKS, 1, LABELS(name, "202"));
        }
        for (int i = 0; i < METRICS_SERIES + 100; i++) {
                snprintf(name, sizeof(name), "Operation%d", i);
                metrics_add(metrics, METRIC_CALLS, 1, LABELS("lambda", name, "200"));
        }
        memset(name, 'x', sizeof(name));
        name[sizeof(name) - 1] = '\0';
        metrics_add(metrics, METRIC_NOTIFICATIONS, 1, LABELS(name));
        name[sizeof(name) - 2] = 'y';
        metrics_add(metrics, METRIC_NOTIFICATIONS, 1, LABELS(name));
        text = exposition(metrics);
        assert_int_equal(lines_with(text, "\nberth_webhooks_total{"), METRICS_OWNERS + 1);
        assert_line(text, "berth_webhooks_total{source=\"other\",code=\"202\"} 100");
        assert_line(text, "berth_webhooks_total{source=\"source-0\",code=\"202\"} 1");
        assert_int_equal(lines_with(text, "\nberth_provider_calls_total{"), METRICS_SERIES + 1);
        assert_line(text,
                    "berth_provider_calls_total{service=\"other\",operation=\"other\",code=\"other\"} 100");
        /* Too long is cut, and what is the same then is one. */
        assert_int_equal(lines_with(text, "\nberth_notifications_total{"), 1);
        assert_non_null(strstr(text, "xxx\"} 2\n"));
        free(text);
        metrics_free(metrics);
}

static void the_process_itself(void **state) {
        struct metrics *metrics = controller_metrics_new();
        char *text = exposition(metrics);
        double before = sample(text, "process_open_fds"), start = sample(text, "process_start_time_seconds");
        int opened = dup(0);
        struct timespec now;

        (void)state;
        assert_true(opened >= 0);
        assert_true(sample(text, "process_resident_memory_bytes") > 1e5);
        clock_gettime(CLOCK_REALTIME, &now);
        assert_true(sample(text, "process_start_time_seconds") <= (double)now.tv_sec + 1);
        assert_true(sample(text, "process_start_time_seconds") > (double)now.tv_sec - 600);
        assert_true(sample(text, "process_cpu_seconds_total") >= 0);
        free(text);
        text = exposition(metrics);
        assert_true(sample(text, "process_open_fds") > before);
        assert_true(sample(text, "process_start_time_seconds") >= start &&
                    sample(text, "process_start_time_seconds") <= start);
        close(opened);
        free(text);
        metrics_free(metrics);
}

static void a_provider_is_watched(void **state) {
        struct metrics *metrics = controller_metrics_new();
        const struct provider_watch watch = controller_metrics_watch(metrics);
        char *text;

        (void)state;
        watch.called(watch.context, "lambda", "GetFunction", 200, false);
        watch.called(watch.context, "lambda", "GetFunction", 429, true);
        watch.called(watch.context, "iam", "GetRole", 0, false);
        watch.waited(watch.context, "lambda", 1500);
        text = exposition(metrics);
        assert_line(
                text,
                "berth_provider_calls_total{service=\"lambda\",operation=\"GetFunction\",code=\"429\"} 1");
        assert_line(text, "berth_provider_calls_total{service=\"iam\",operation=\"GetRole\",code=\"0\"} 1");
        assert_line(text, "berth_provider_throttles_total{service=\"lambda\"} 1");
        assert_line(text, "berth_provider_quota_wait_seconds_total{service=\"lambda\"} 1.5");
        assert_null(strstr(text, "throttles_total{service=\"iam\"}"));
        free(text);
        metrics_free(metrics);
}

static void *count_a_thousand(void *context) {
        for (int i = 0; i < 1000; i++) {
                char name[16];

                snprintf(name, sizeof(name), "s%d", i % 7);
                metrics_add(context, METRIC_POLLS, 1, LABELS(name, "unchanged"));
                metrics_observe(context, METRIC_POLL_SECONDS, 0.01, LABELS(name));
                if (i % 100 == 0)
                        free(exposition(context));
        }
        return NULL;
}

static void many_threads_count(void **state) {
        struct metrics *metrics = controller_metrics_new();
        pthread_t threads[4];
        double total = 0;
        char *text;

        (void)state;
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, count_a_thousand, metrics), 0);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        text = exposition(metrics);
        for (int i = 0; i < 7; i++) {
                char name[96];

                snprintf(name, sizeof(name), "berth_git_polls_total{source=\"s%d\",result=\"unchanged\"}", i);
                total += sample(text, name);
        }
        assert_int_equal((int)total, 4000);
        free(text);
        metrics_free(metrics);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(counters_and_gauges), cmocka_unit_test(histograms),
                cmocka_unit_test(labels_are_escaped),  cmocka_unit_test(series_are_bounded),
                cmocka_unit_test(the_process_itself),  cmocka_unit_test(a_provider_is_watched),
                cmocka_unit_test(many_threads_count),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
