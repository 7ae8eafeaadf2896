/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session that is tried has a folder of sockets of its own, so that a server that runs here notices nothing, and no files: it is
 * asked for two sums, of which the second needs the first one's variable.
 */
#include "providers/local/session/session_examine.h"

#include "base/clock.h"
#include "base/digest.h"
#include "providers/local/sandbox/sandbox_disk.h"
#include "providers/local/sandbox/sandbox_users.h"
#include "providers/local/session/session.h"
#include "providers/local/session/session_parts.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define SHARED_USER 65534 /* what all get where the range of users is not to be had */
#define TRIED_MS 60000

struct examination {
        struct arena *arena;
        struct finding *list;
        size_t count, max;
};

static void append_finding(struct examination *examination, const char *name, bool works, bool optional,
                           const char *detail) {
        if (examination->count < examination->max)
                examination->list[examination->count++] = (struct finding){
                        .name = name, .works = works, .optional = optional, .detail = detail
                };
}

static void examine_users(struct examination *examination, const char *launcher) {
        const struct sandbox_users users = SANDBOX_USERS_DEFAULT;
        struct sandbox_user user = SANDBOX_USER_NONE;
        struct error err;

        if (launcher) {
                append_finding(
                        examination, "owners", true, true,
                        arena_printf(examination->arena,
                                     "each session has a user of the host of its own, by the launcher at %s",
                                     launcher));
                return;
        }
        if (geteuid() != 0) {
                append_finding(
                        examination, "owners", false, true,
                        "who is not root gives sessions no users of the host: a Server with several owners is refused, "
                        "unless a berth launcher gives them, or sessions.sharedUser says that all owners trust each other");
                return;
        }
        if (sandbox_user_take(&users, &user, &err) < 0) {
                append_finding(examination, "owners", false, true,
                               arena_strdup(examination->arena, err.message));
                return;
        }
        if (user.lock >= 0)
                close(user.lock);
        append_finding(
                examination, "owners", user.uid != SHARED_USER, true,
                user.uid != SHARED_USER
                        ? "each session has a user of the host of its own"
                        : "all sessions share one user of the host: this container's users have none of the range");
}

static void examine_workspaces(struct examination *examination, const char *root) {
        struct error why;
        bool works = sandbox_disk_try(root, &why) == 0;

        append_finding(
                examination, "workspaces", works, true,
                works ? "in a session, one that may be larger than half of the memory is on the disk, within the kernel's bounds"
                      : arena_printf(
                                examination->arena,
                                "in sessions they are in memory and count as such, however large they may be: %s",
                                why.message));
}

static void examine_runtime(struct examination *examination, const struct place *place) {
        const char *runtime = ((const struct session_place *)place)->runtime;
        bool there = access(runtime, R_OK) == 0;

        append_finding(examination, "runtime", there, false,
                       arena_printf(examination->arena,
                                    there ? "%s" : "%s is not there: no session can begin", runtime));
}

/* The next event; false where none came in time, or the session can be heard no more. */
static bool await(const struct place *place, struct place_session *session, int64_t until_ms,
                  struct place_event *ret, struct error *err) {
        for (;;) {
                int64_t left = until_ms - clock_now_ms(), patience;
                struct pollfd polled = { .events = POLLIN };

                if (place->class->next(session, ret, err) < 0)
                        return false;
                if (ret->type != PLACE_NOTHING)
                        return true;
                if (left <= 0) {
                        (void)error_set(err, "nothing came of it in %d s", TRIED_MS / 1000);
                        return false;
                }
                patience = place->class->patience_ms(session);
                polled.fd = place->class->descriptor(session);
                (void)poll(&polled, 1, (int)(patience >= 0 && patience < left ? patience : left));
        }
}

static bool await_type(const struct place *place, struct place_session *session, enum place_event_type type,
                       int64_t until_ms, struct place_event *ret, struct error *err) {
        do {
                if (!await(place, session, until_ms, ret, err))
                        return false;
                if (ret->type == PLACE_ENDED) {
                        (void)error_set(err, "its sandbox ended: %s",
                                        ret->reason ? ret->reason : "nobody knows why");
                        return false;
                }
        } while (ret->type != type);
        return true;
}

/* Runs it in a session that is open; *ret_right: its value is `value`. */
static bool run_sum(const struct place *place, struct place_session *session, int64_t n, const char *code,
                    const char *value, bool *ret_right, struct error *err) {
        const struct place_execution execution = { .n = n,
                                                   .language = REQUEST_PYTHON,
                                                   .context = "main",
                                                   .code = code,
                                                   .code_length = strlen(code),
                                                   .timeout_ms = TRIED_MS };
        int64_t until_ms = clock_now_ms() + TRIED_MS;
        struct place_event event;

        if (place->class->execute(session, &execution, err) < 0)
                return false;
        if (!await_type(place, session, PLACE_DONE, until_ms, &event, err))
                return false;
        *ret_right = event.status == REPORT_OK && event.value.text && strcmp(event.value.text, value) == 0;
        if (event.id)
                place->class->heard(session, event.id);
        return true;
}

static bool run_sums(const struct place *place, struct place_session *session, bool *ret_right,
                     struct error *err) {
        int64_t until_ms = clock_now_ms() + TRIED_MS;
        struct place_event event;

        if (!await_type(place, session, PLACE_OPENED, until_ms, &event, err))
                return false;
        return run_sum(place, session, 1, "x = 1 + 1\nx", "2", ret_right, err) &&
               (!*ret_right || run_sum(place, session, 2, "x + 40", "42", ret_right, err));
}

static void try_session(struct examination *examination, const struct place *place, const char *environment) {
        struct place_opening opening = { .environment = environment, .ttl_ms = INT64_C(2) * TRIED_MS };
        int64_t begun_ms = clock_now_ms(), took_ms;
        struct place_session *session = NULL;
        bool right = false, ran;
        struct place_event event;
        struct error err, ignored;
        uint8_t name[8];
        char hex[2 * sizeof(name) + 1];

        random_bytes(name, sizeof(name));
        digest_hex(name, sizeof(name), hex);
        opening.id = arena_printf(examination->arena, "s-doctor%s", hex);
        if (place->class->open((struct place *)place, &opening, &session, &err) < 0) {
                append_finding(examination, "session", false, false,
                               arena_strdup(examination->arena, err.message));
                return;
        }
        ran = run_sums(place, session, &right, &err);
        took_ms = clock_now_ms() - begun_ms;
        place->class->end(session);
        while (await(place, session, clock_now_ms() + TRIED_MS, &event, &ignored) &&
               event.type != PLACE_ENDED)
                continue;
        place->class->leave(session);
        (void)!place->class->clear((struct place *)place, opening.id, &ignored);
        append_finding(
                examination, "session", ran && right, false,
                !ran     ? arena_strdup(examination->arena, err.message)
                : !right ? "a session began, and did not keep what it was told"
                         : arena_printf(examination->arena,
                                        "one of the environment %s kept its variable, and ended: %lld ms",
                                        environment, (long long)took_ms));
}

void session_examine(const struct session_examining *examining, struct arena *arena, struct finding *ret,
                     size_t max, size_t *ret_count) {
        struct examination examination = { .arena = arena, .list = ret, .max = max };
        /* As the other checks: what cannot be held here is a finding of its own, and no reason not to try. */
        const struct session_place_config config = { .root = examining->root,
                                                     .folder = examining->sockets,
                                                     .launcher = examining->launcher,
                                                     .accept_degraded = true };
        struct place *place;
        struct error err;

        examine_users(&examination, examining->launcher);
        if (!examining->launcher)
                examine_workspaces(&examination, examining->root);
        if (session_place_open(&config, &place, &err) < 0) {
                append_finding(&examination, "sockets", false, false, arena_strdup(arena, err.message));
        } else {
                examine_runtime(&examination, place);
                if (examining->environment)
                        try_session(&examination, place, examining->environment);
                place->class->close(place);
        }
        *ret_count = examination.count;
}
