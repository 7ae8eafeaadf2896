/* SPDX-License-Identifier: Apache-2.0 */
/* What tests share that make calls: a scripted server, a client for it, and a clock that only sleeping moves. */
#ifndef BERTH_TESTS_PROVIDERS_AWS_CLIENT_CLIENT_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_AWS_CLIENT_CLIENT_SUPPORT_H

#include "providers/aws/client/support.h"

#include "base/clock.h"
#include "http/scripted_server.h"
#include "providers/aws/client/aws_client.h"

#include <stdatomic.h>
#include <stdbool.h>

#define WALL_MS INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */

static atomic_llong elapsed_ms;
static atomic_int sleeps;
static bool interrupted, may_sleep;
static int tick_ms; /* passes at each look at the clock */

static inline int64_t wall_ms(const struct clock *clock) {
        (void)clock;
        return WALL_MS + (int64_t)atomic_load(&elapsed_ms);
}

static inline int64_t monotonic_ms(const struct clock *clock) {
        (void)clock;
        return 1000000 + (int64_t)atomic_fetch_add(&elapsed_ms, tick_ms);
}

static inline int sleep_until(const struct clock *clock, int64_t until_ms) {
        if (!may_sleep)
                fail_msg("it slept where it must not");
        atomic_fetch_add(&sleeps, 1);
        if (interrupted)
                return -1;
        atomic_fetch_add(&elapsed_ms, until_ms - monotonic_ms(clock));
        return 0;
}

static const struct clock test_clock = { wall_ms, monotonic_ms, sleep_until, NULL };

static inline double half(void) {
        return 0.5;
}

struct fixture {
        struct scripted_server server;
        struct aws_client *client;
        struct arena *arena;
        struct progress progress;
};

/* Nothing from the environment of the user that runs the tests gets into a client. */
static inline int begin(void **state) {
        static const char *const unwanted[] = { "AWS_PROFILE",
                                                "AWS_DEFAULT_PROFILE",
                                                "AWS_SESSION_TOKEN",
                                                "AWS_ENDPOINT_URL",
                                                "AWS_MAX_ATTEMPTS",
                                                "AWS_CA_BUNDLE",
                                                "AWS_ENDPOINT_URL_LAMBDA",
                                                "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS" };

        (void)state;
        for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); i++)
                unsetenv(unwanted[i]);
        setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
        setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
        setenv("AWS_REGION", "eu-west-1", 1);
        setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
        setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
        atomic_store(&elapsed_ms, 0);
        atomic_store(&sleeps, 0);
        interrupted = false;
        tick_ms = 0;
        may_sleep = true;
        return 0;
}

/* `options` but for the Stack, which says where the server is and names `assume_role` (or NULL). */
static inline void open_with(struct fixture *fixture, const struct scripted_answer *answers, size_t count,
                             struct aws_client_options options, const char *assume_role) {
        struct value *stack;
        struct error err = { 0 };

        *fixture = (struct fixture){ .arena = arena_new() };
        scripted_start(&fixture->server, answers, count);
        stack = value_new_map(fixture->arena);
        value_set_text(fixture->arena, stack, "endpointUrl", fixture->server.url);
        value_set_text(fixture->arena, stack, "assumeRole", assume_role);
        options.stack_aws = stack;
        options.clock = &test_clock;
        options.random = half;
        if (aws_client_open_with(&options, &fixture->client, &err) < 0)
                fail_msg("%s", err.message);
}

static inline void open_client(struct fixture *fixture, const struct scripted_answer *answers, size_t count,
                               double rate_scale, const char *assume_role) {
        open_with(fixture, answers, count, (struct aws_client_options){ .rate_scale = rate_scale },
                  assume_role);
}

/* The server's record may be read afterwards. */
static inline void stop(struct fixture *fixture) {
        aws_client_close(fixture->client);
        scripted_stop(&fixture->server);
}

static inline void release(struct fixture *fixture) {
        scripted_release(&fixture->server);
        arena_free(fixture->arena);
}

#endif
