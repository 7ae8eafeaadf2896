/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller's HTTP without a controller: server_cli LISTEN SECRET PATIENCE_MS [HOST ...] ("-" for no secret). Says its port, then
 * "wake NAME" for each hook that came through. Input lines: "healthy REASON" and "ready REASON" with "-" for none, and
 * the end of the input ends it. The one source is "research".
 */
#include "gitops/controller_http.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char sick[256], unready[256];

static bool whether(const char *reason, char *ret, size_t size) {
        bool yes;

        pthread_mutex_lock(&lock);
        snprintf(ret, size, "%s", reason);
        yes = *reason == '\0';
        pthread_mutex_unlock(&lock);
        return yes;
}

static bool healthy(void *context, char *reason, size_t size) {
        (void)context;
        return whether(sick, reason, size);
}

static bool ready(void *context, char *reason, size_t size) {
        (void)context;
        return whether(unready, reason, size);
}

static bool wake(void *context, const char *source) {
        (void)context;
        if (strcmp(source, "research") != 0)
                return false;
        printf("wake %s\n", source);
        fflush(stdout);
        return true;
}

static void refresh(void *context) {
        metrics_set(context, METRIC_RESOURCES, 12, (const char *const[]){ "research", "Environment" });
}

/* Something of each kind, so that a judge of the exposition sees all of it. */
static void fill(struct metrics *metrics) {
        static const struct {
                enum metric metric;
                const char *labels[3];
        } samples[] = {
                { METRIC_RECONCILES, { "research", "applied" } },
                { METRIC_POLLS, { "research", "unchanged" } },
                { METRIC_DRIFT, { "research", "Environment" } },
                { METRIC_REFUSALS, { "research", "has-dependents" } },
                { METRIC_CALLS, { "lambda", "GetFunction", "200" } },
                { METRIC_THROTTLES, { "lambda" } },
                { METRIC_QUOTA_WAIT_SECONDS, { "lambda" } },
                { METRIC_LAST_SUCCESS, { "research" } },
                { METRIC_CONDITION, { "research", "Ready" } },
                { METRIC_SUSPENDED, { "a \"quoted\"\nsource\\" } },
                { METRIC_NOTIFICATIONS, { "sent" } },
        };

        for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
                metrics_add(metrics, samples[i].metric, 1, samples[i].labels);
        metrics_observe(metrics, METRIC_RECONCILE_SECONDS, 1.5, (const char *const[]){ "research" });
        metrics_observe(metrics, METRIC_POLL_SECONDS, 0.05, (const char *const[]){ "research" });
}

static void set(char *state, size_t size, const char *reason) {
        pthread_mutex_lock(&lock);
        snprintf(state, size, "%.*s", (int)size - 1, strcmp(reason, "-") == 0 ? "" : reason);
        pthread_mutex_unlock(&lock);
        printf("set\n");
        fflush(stdout);
}

int main(int argc, char **argv) {
        struct metrics *metrics = controller_metrics_new();
        struct controller_http_config config = { .metrics = metrics,
                                                 .ops = { metrics, healthy, ready, wake, refresh } };
        struct controller_http *server = NULL;
        struct error err = { 0 };
        const char *hosts[16];
        char line[512];

        if (argc < 4 || argc > 19)
                return 2;
        config.listen = argv[1];
        config.webhook_secret = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
        config.patience_ms = strtol(argv[3], NULL, 10);
        for (int i = 4; i < argc; i++)
                hosts[config.host_count++] = argv[i];
        config.hosts = hosts;
        fill(metrics);
        if (controller_http_start(&config, &server, &err) < 0) {
                fprintf(stderr, "%s\n", err.message);
                metrics_free(metrics);
                return 1;
        }
        printf("port %u\n", controller_http_port(server));
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = '\0';
                if (strncmp(line, "healthy ", 8) == 0)
                        set(sick, sizeof(sick), line + 8);
                else if (strncmp(line, "ready ", 6) == 0)
                        set(unready, sizeof(unready), line + 6);
        }
        controller_http_stop(server);
        metrics_free(metrics);
        printf("stopped\n");
        return 0;
}
