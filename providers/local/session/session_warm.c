/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox here is one of the place's, opened under a name of its own, "warm-" and a random
 * number, for no owner. It is the thread's alone while it starts and while it ends; in between,
 * while it is ready, any thread with the lock may take it. Taking it is a rename of its socket,
 * after which it is found by the session's id like any other.
 *
 * One at a time is started, and not right after one was taken: its session has work to do then. If
 * one cannot be started, or ends before it is taken, the next attempt waits, each time twice as
 * long, and each reason is logged once.
 */
#include "providers/local/session/session_warm.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PREFIX "warm-"
/* How often it is seen whether what was applied is still the same. */
#define LOOK_MS 2000
/* It ends by itself this long after the server's last word; which comes more often. */
#define LIFE_MS 10000
#define RENEW_MS 2500
/* As long as a session may live, and a day: as long as one is kept ready. */
#define READY_MS (INT64_C(86400) * 1000)
#define DEADLINE_MS (INT64_C(15) * 86400 * 1000)
/* Python and all modules. */
#define STARTING_MS 120000
#define REST_MS 200
#define REST_MS_MAX 2000
#define PAUSE_MS 1000
#define PAUSE_MS_MAX 300000
/* A sandbox that was ready for this time started well. */
#define STEADY_MS 60000
#define STOPPING_MS 5000
/* Of the machine's memory, this part stays for what is asked for. */
#define MEMORY_SHARE 10

enum warm_state { WARM_STARTING, WARM_READY, WARM_ENDING };

struct warm_sandbox {
        struct warm_sandbox *next;
        struct warm_environment *environment;
        struct place_session *session;
        char program[SHA256_HEX_SIZE];
        int64_t since_ms; /* in its state */
        bool asked;       /* to prepare */
        enum warm_state state;
};

/* The thread's alone, but for `wanted` and the name. */
struct warm_environment {
        const char *name;
        size_t wanted;
        char program
                [SHA256_HEX_SIZE]; /* of what a session in it would begin with now; "": it cannot be known */
        unsigned failures;
        int64_t not_before_ms;
        char told[512], told_missing[512]; /* last of what is in its way */
        bool told_ready;
};

struct session_warm {
        struct session_place *place;
        struct arena *arena;
        void (*tell)(bool trouble, const char *line);
        json_t *modules; /* or NULL */
        struct warm_environment *environments;
        size_t count;
        pthread_mutex_t lock; /* of all below */
        pthread_t thread;
        bool started, stopping;
        int wake; /* an eventfd */
        struct warm_sandbox *first;
        int64_t rest_until_ms, short_since_ms; /* the latter 0: all are there */
};

static void wake(struct session_warm *warm) {
        const uint64_t one = 1;

        (void)!write(warm->wake, &one, sizeof(one));
}

/* --- which program --- */

static void append_terminated(struct strbuf *all, const char *text) {
        strbuf_append_bytes(all, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* All of which a sandbox is made, and where its files go. Among it may be secrets, so the digest is kept and nothing else. */
static void digest_program(const struct local_program *program, char ret[SHA256_HEX_SIZE]) {
        const struct local_environment *environment = &program->environment;
        struct strbuf all STRBUF_CLEANUP = STRBUF_SECRET;

        strbuf_printf(&all, "%lld %lld %lld %zu %zu ", (long long)program->memory_mb,
                      (long long)program->cpu_millis, (long long)environment->storage_mb,
                      environment->image_variable_count, environment->variable_count);
        append_terminated(&all, environment->stack);
        append_terminated(&all, environment->name);
        append_terminated(&all, environment->workspaces);
        append_terminated(&all, environment->image_digest);
        append_terminated(&all, environment->image_root);
        for (size_t i = 0; i < environment->image_variable_count; i++)
                append_terminated(&all, environment->image_variables[i]);
        strbuf_printf(&all, "%zu %llu ", environment->network.count,
                      (unsigned long long)environment->network.bytes_max);
        for (size_t i = 0; i < environment->network.count; i++)
                append_terminated(&all, environment->network.entries[i]);
        for (size_t i = 0; i < environment->variable_count; i++) {
                append_terminated(&all, environment->variables[i].name);
                append_terminated(&all, environment->variables[i].text);
        }
        digest_sha256_hex(all.data, all.length, ret);
}

static void log_about(const struct session_warm *warm, bool trouble,
                      const struct warm_environment *environment, const char *what) {
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&line, "environment %s: %s", environment->name, what);
        if (warm->tell)
                warm->tell(trouble, strbuf_text(&line));
}

/* Once, until it is another thing. */
static void tell_trouble(const struct session_warm *warm, const struct warm_environment *environment,
                         char last[512], const char *beginning, const char *why) {
        struct strbuf what STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&what, "%s: %s", beginning, why);
        if (strncmp(last, strbuf_text(&what), 511) == 0)
                return;
        snprintf(last, 512, "%s", strbuf_text(&what));
        log_about(warm, true, environment, strbuf_text(&what));
}

static void back_off(const struct session_warm *warm, struct warm_environment *environment, const char *why) {
        int64_t pause_ms =
                environment->failures < 9 ? (int64_t)PAUSE_MS << environment->failures : PAUSE_MS_MAX;

        environment->failures++;
        environment->not_before_ms = clock_now_ms() + (pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX);
        tell_trouble(warm, environment, environment->told, "no warm sandbox can be had", why);
}

/* Environments may have changed since, and then the reason of the last failure may be gone. */
static void look_at_environments(struct session_warm *warm) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        for (size_t i = 0; i < warm->count; i++) {
                struct warm_environment *environment = &warm->environments[i];
                char now[SHA256_HEX_SIZE] = "";
                struct local_program program;
                struct error err;

                if (local_program_load(warm->place->root, environment->name, NULL, arena, &program, &err) < 0)
                        tell_trouble(warm, environment, environment->told, "no warm sandbox can be had",
                                     err.message);
                else
                        digest_program(&program, now);
                if (strcmp(now, environment->program) == 0)
                        continue;
                memcpy(environment->program, now, sizeof(now));
                environment->failures = 0;
                environment->not_before_ms = 0;
                environment->told_ready = false;
                environment->told_missing[0] = '\0';
                if (now[0])
                        environment->told[0] = '\0';
        }
}

/* --- one sandbox --- */

static void be(struct warm_sandbox *sandbox, enum warm_state state) {
        sandbox->state = state;
        sandbox->since_ms = clock_now_ms();
}

static void begin_to_end(struct session_warm *warm, struct warm_sandbox *sandbox) {
        be(sandbox, WARM_ENDING);
        warm->place->place.class->end(sandbox->session);
}

static void forget_sandbox(struct session_warm *warm, struct warm_sandbox *sandbox) {
        struct warm_sandbox **link = &warm->first;

        pthread_mutex_lock(&warm->lock);
        while (*link != sandbox)
                link = &(*link)->next;
        *link = sandbox->next;
        pthread_mutex_unlock(&warm->lock);
        warm->place->place.class->leave(sandbox->session);
        free(sandbox);
}

static bool is_stale(const struct warm_sandbox *sandbox) {
        return strcmp(sandbox->program, sandbox->environment->program) != 0;
}

/* It was never taken, so it has nothing to say but that it has ended. */
static bool is_well(struct session_warm *warm, struct warm_sandbox *sandbox) {
        struct place_event event;
        struct error err;

        return warm->place->place.class->next(sandbox->session, &event, &err) == 0 &&
               event.type == PLACE_NOTHING && !sandbox->session->over && !sandbox->session->dies_ms;
}

static void end_failed(struct session_warm *warm, struct warm_sandbox *sandbox, const char *why) {
        if (!is_stale(sandbox) && !warm->stopping)
                back_off(warm, sandbox->environment, why ? why : "it ended");
        begin_to_end(warm, sandbox);
}

/* True: it is not starting any more. */
static bool hear_starting(struct session_warm *warm, struct warm_sandbox *sandbox) {
        const struct place_class *class = warm->place->place.class;
        struct place_session *session = sandbox->session;
        struct place_event event;
        struct error err;

        do {
                if (class->next(session, &event, &err) < 0 || event.type == PLACE_ENDED) {
                        end_failed(warm, sandbox, event.type == PLACE_ENDED ? event.reason : err.message);
                        return true;
                }
                if (event.type == PLACE_OPENED && !sandbox->asked) {
                        session_prepare(session, warm->modules);
                        sandbox->asked = true;
                }
        } while (event.type != PLACE_NOTHING);
        if (session->prepared.problem) {
                end_failed(warm, sandbox, session->prepared.problem);
        } else if (session->prepared.over) {
                if (session->prepared.missing)
                        tell_trouble(warm, sandbox->environment, sandbox->environment->told_missing,
                                     "these modules cannot be preloaded", session->prepared.missing);
                session_hear_all(session);
                pthread_mutex_lock(&warm->lock);
                be(sandbox, WARM_READY);
                pthread_mutex_unlock(&warm->lock);
        } else if (clock_now_ms() - sandbox->since_ms > STARTING_MS) {
                end_failed(warm, sandbox, "Python and its modules were not ready in time");
        } else if (is_stale(sandbox)) {
                begin_to_end(warm, sandbox);
        }
        return sandbox->state != WARM_STARTING;
}

/* True: it is no more. */
static bool hear_ending(struct session_warm *warm, struct warm_sandbox *sandbox) {
        const struct place_class *class = warm->place->place.class;
        struct place_event event;
        struct error err;

        for (;;) {
                if (class->next(sandbox->session, &event, &err) < 0)
                        break;
                if (event.type == PLACE_ENDED || sandbox->session->said_ended)
                        break;
                if (event.type == PLACE_NOTHING)
                        return false;
        }
        forget_sandbox(warm, sandbox);
        return true;
}

/* With the lock: those that any thread may take. Their renewal is not waited for. */
static void look_at_ready(struct session_warm *warm, bool renew) {
        for (struct warm_sandbox *sandbox = warm->first; sandbox; sandbox = sandbox->next) {
                if (renew && sandbox->state != WARM_ENDING)
                        session_set_age(sandbox->session, LIFE_MS);
                if (sandbox->state != WARM_READY)
                        continue;
                if (!is_well(warm, sandbox))
                        end_failed(warm, sandbox, "it ended while it was ready");
                else if (is_stale(sandbox) || warm->stopping || clock_now_ms() - sandbox->since_ms > READY_MS)
                        begin_to_end(warm, sandbox);
                else if (clock_now_ms() - sandbox->since_ms > STEADY_MS)
                        sandbox->environment->failures = 0;
        }
}

/* --- starting --- */

static bool memory_is_short(void) {
        unsigned long long all = 0, left = 0;
        FILE *file = fopen("/proc/meminfo", "re");
        char line[128];

        while (file && fgets(line, sizeof(line), file)) {
                (void)sscanf(line, "MemTotal: %llu", &all);
                (void)sscanf(line, "MemAvailable: %llu", &left);
        }
        if (file)
                fclose(file);
        return all > 0 && left < all / MEMORY_SHARE;
}

/* With the lock. The environment whose sandbox to start next; NULL: nothing, or not now. */
static struct warm_environment *choose_environment(struct session_warm *warm, int64_t now) {
        struct warm_environment *wanted = NULL;
        bool starts = false, is_short = false;

        for (size_t i = 0; i < warm->count; i++) {
                struct warm_environment *environment = &warm->environments[i];
                size_t there = 0, ready = 0;

                for (const struct warm_sandbox *sandbox = warm->first; sandbox; sandbox = sandbox->next) {
                        starts = starts || sandbox->state == WARM_STARTING;
                        if (sandbox->environment != environment || is_stale(sandbox))
                                continue;
                        there += sandbox->state != WARM_ENDING;
                        ready += sandbox->state == WARM_READY;
                }
                if (ready == environment->wanted && !environment->told_ready) {
                        environment->told_ready = true;
                        log_about(warm, false, environment,
                                  ready == 1 ? "a warm sandbox is ready" : "all warm sandboxes are ready");
                }
                is_short = is_short || there < environment->wanted;
                if (!wanted && environment->program[0] && there < environment->wanted &&
                    now >= environment->not_before_ms)
                        wanted = environment;
        }
        if (!is_short)
                warm->short_since_ms = 0;
        else if (warm->short_since_ms == 0)
                warm->short_since_ms = now;
        if (starts || (now < warm->rest_until_ms && now < warm->short_since_ms + REST_MS_MAX))
                return NULL;
        return wanted;
}

static void start_sandbox(struct session_warm *warm, struct warm_environment *environment) {
        char id[sizeof(PREFIX) + 16];
        struct place_opening opening = { .id = id, .environment = environment->name, .ttl_ms = DEADLINE_MS };
        struct warm_sandbox *sandbox;
        struct place_session *session;
        uint8_t number[8];
        struct error err;

        if (memory_is_short()) {
                back_off(warm, environment, "the machine has too little memory left");
                return;
        }
        random_bytes(number, sizeof(number));
        memcpy(id, PREFIX, sizeof(PREFIX));
        digest_hex(number, sizeof(number), id + strlen(PREFIX));
        if (session_open_cold(warm->place, &opening, &session, &err) < 0) {
                back_off(warm, environment, err.message);
                return;
        }
        session_set_age(session, LIFE_MS);
        sandbox = calloc(1, sizeof(*sandbox));
        if (!sandbox)
                abort();
        *sandbox = (struct warm_sandbox){ .environment = environment, .session = session };
        be(sandbox, WARM_STARTING);
        digest_program(&session->program, sandbox->program);
        pthread_mutex_lock(&warm->lock);
        sandbox->next = warm->first;
        warm->first = sandbox;
        pthread_mutex_unlock(&warm->lock);
}

/* --- the thread --- */

struct warm_round {
        struct pollfd *polled;     /* one more than sandboxes: the last is the eventfd */
        struct warm_sandbox **own; /* those that only the thread touches */
        size_t count, own_count;
        int64_t until_ms;
        struct warm_environment *next;
};

/* With the lock. */
static void survey(struct session_warm *warm, int64_t now, struct arena *arena, struct warm_round *round) {
        const struct place_class *class = warm->place->place.class;
        size_t count = 0;

        for (const struct warm_sandbox *sandbox = warm->first; sandbox; sandbox = sandbox->next)
                count++;
        round->polled = arena_array(arena, count + 1, sizeof(*round->polled));
        round->own = arena_array(arena, count + 1, sizeof(struct warm_sandbox *));
        round->next = warm->stopping ? NULL : choose_environment(warm, now);
        if (!warm->stopping && now < warm->rest_until_ms && warm->rest_until_ms < round->until_ms)
                round->until_ms = warm->rest_until_ms;
        for (struct warm_sandbox *sandbox = warm->first; sandbox; sandbox = sandbox->next) {
                int64_t patience = class->patience_ms(sandbox->session);

                round->polled[round->count++] =
                        (struct pollfd){ .fd = class->descriptor(sandbox->session), .events = POLLIN };
                if (patience >= 0 && now + patience < round->until_ms)
                        round->until_ms = now + patience;
                if (sandbox->state != WARM_READY)
                        round->own[round->own_count++] = sandbox;
        }
        round->polled[round->count++] = (struct pollfd){ .fd = warm->wake, .events = POLLIN };
}

static void *keep_warm(void *context) {
        struct session_warm *warm = context;
        struct arena *arena = arena_new();
        int64_t looked_ms = 0, renewed_ms = 0, stopped_ms = 0;

        for (;;) {
                int64_t now = clock_now_ms();
                struct warm_round round = { 0 };
                bool renew, stopping, moved = false;
                uint64_t ignored;

                arena_clear(arena);
                if (looked_ms == 0 || now - looked_ms >= LOOK_MS) {
                        look_at_environments(warm);
                        looked_ms = now;
                }
                renew = now - renewed_ms >= RENEW_MS;
                renewed_ms = renew ? now : renewed_ms;
                round.until_ms = looked_ms + LOOK_MS;
                pthread_mutex_lock(&warm->lock);
                look_at_ready(warm, renew);
                survey(warm, now, arena, &round);
                stopping = warm->stopping;
                pthread_mutex_unlock(&warm->lock);
                for (size_t i = 0; i < round.own_count; i++) {
                        if (round.own[i]->state == WARM_STARTING && stopping)
                                begin_to_end(warm, round.own[i]);
                        moved = (round.own[i]->state == WARM_STARTING ? hear_starting(warm, round.own[i])
                                                                      : hear_ending(warm, round.own[i])) ||
                                moved;
                }
                stopped_ms = stopping && stopped_ms == 0 ? now : stopped_ms;
                if (stopping && (!warm->first || now - stopped_ms > STOPPING_MS))
                        break;
                if (round.next)
                        start_sandbox(warm, round.next);
                if (round.next || moved)
                        continue;
                now = clock_now_ms();
                (void)poll(round.polled, round.count, round.until_ms > now ? (int)(round.until_ms - now) : 0);
                if (round.polled[round.count - 1].revents)
                        (void)!read(warm->wake, &ignored, sizeof(ignored));
        }
        arena_free(arena);
        return NULL;
}

/* --- who takes one --- */

static bool has_ready(struct session_warm *warm) {
        bool found = false;

        pthread_mutex_lock(&warm->lock);
        for (const struct warm_sandbox *sandbox = warm->first; sandbox && !found; sandbox = sandbox->next)
                found = sandbox->state == WARM_READY;
        pthread_mutex_unlock(&warm->lock);
        return found;
}

/*
 * The one that has waited longest of those that fit. No other thread can take it from then on, so
 * it is handed over without the lock: a launcher may take its time. One that cannot be had any more
 * is left to the thread.
 */
static struct warm_sandbox *take_sandbox(struct session_warm *warm, const char *program,
                                         const struct place_opening *opening, int slot) {
        for (;;) {
                struct warm_sandbox **oldest = NULL, *sandbox = NULL;
                struct error err;
                bool well = false;

                pthread_mutex_lock(&warm->lock);
                warm->rest_until_ms = clock_now_ms() + REST_MS;
                for (struct warm_sandbox **link = &warm->first; *link; link = &(*link)->next) {
                        if ((*link)->state == WARM_READY && strcmp((*link)->program, program) == 0)
                                oldest = link;
                }
                if (oldest) {
                        sandbox = *oldest;
                        *oldest = sandbox->next;
                        well = is_well(warm, sandbox) && sandbox->session->outgoing.length == 0;
                }
                pthread_mutex_unlock(&warm->lock);
                if (!sandbox ||
                    (well &&
                     (slot < 0 || sandbox_lasting_hold(&sandbox->session->lasting, slot, &err) == 0) &&
                     session_hand_over(sandbox->session, opening, &err) == 0))
                        return sandbox;
                pthread_mutex_lock(&warm->lock);
                sandbox->next = warm->first;
                warm->first = sandbox;
                begin_to_end(warm, sandbox);
                pthread_mutex_unlock(&warm->lock);
        }
}

struct place_session *session_warm_take(struct session_warm *warm, const struct place_opening *opening) {
        struct place_session *session = NULL;
        struct warm_sandbox *sandbox = NULL;
        struct local_program program;
        char digest[SHA256_HEX_SIZE];
        int slot DESCRIPTOR_CLEANUP = -1;
        struct arena *arena;
        struct error err;

        if (!warm || opening->only_living || opening->for_command || opening->checkpoint || !has_ready(warm))
                return NULL;
        arena = arena_new();
        /* Where a sandbox of that name may live, it is that one. */
        if (access(session_worker_path(warm->place, opening->id, arena), F_OK) < 0 &&
            local_program_load(warm->place->root, opening->environment, opening->agent, arena, &program,
                               &err) == 0 &&
            program.agent.cpus < 0 && session_slot_take(warm->place, opening, &program, &slot, &err) == 0) {
                digest_program(&program, digest);
                sandbox = take_sandbox(warm, digest, opening, slot);
                wake(warm);
        }
        if (sandbox) {
                session = sandbox->session;
                free(sandbox);
        }
        arena_free(arena);
        return session;
}

/* --- life --- */

/* What a server left that was killed, a record that it was about to write, too: in its place we are the only one. */
static void clear_folder(struct session_place *place) {
        DIR *folder = opendir(place->folder);
        const struct dirent *entry;
        struct error ignored;

        while (folder && (entry = readdir(folder))) {
                if (file_is_leftover(entry->d_name))
                        (void)unlinkat(dirfd(folder), entry->d_name, 0);
                else if (text_begins_with(entry->d_name, PREFIX) && !text_ends_with(entry->d_name, ".worker"))
                        (void)!place->place.class->clear(&place->place, entry->d_name, &ignored);
        }
        if (folder)
                closedir(folder);
}

int session_warm_new(struct session_place *place, const struct session_place_config *config,
                     struct session_warm **ret, struct error *err) {
        struct session_warm *warm;
        int code;

        clear_folder(place);
        if (config->warm_count == 0)
                return 0;
        warm = calloc(1, sizeof(*warm));
        if (!warm)
                abort();
        warm->place = place;
        warm->arena = arena_new();
        warm->tell = config->tell;
        warm->count = config->warm_count;
        warm->environments = arena_array(warm->arena, warm->count, sizeof(*warm->environments));
        for (size_t i = 0; i < warm->count; i++)
                warm->environments[i] = (struct warm_environment){
                        .name = arena_strdup(warm->arena, config->warm[i].environment),
                        .wanted = config->warm[i].count,
                };
        if (config->preload && config->preload[0])
                warm->modules = json_checked(json_array());
        for (const char *const *module = config->preload; module && *module; module++)
                json_add(warm->modules, json_string(*module));
        pthread_mutex_init(&warm->lock, NULL);
        warm->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        code = warm->wake < 0 ? errno : pthread_create(&warm->thread, NULL, keep_warm, warm);
        warm->started = code == 0;
        if (code != 0) {
                session_warm_free(warm);
                return error_set(err, "cannot keep sandboxes warm: %s", strerror(code));
        }
        *ret = warm;
        return 0;
}

/* A sandbox that has not ended yet does when it is not renewed. */
void session_warm_free(struct session_warm *warm) {
        if (!warm)
                return;
        if (warm->started) {
                pthread_mutex_lock(&warm->lock);
                warm->stopping = true;
                pthread_mutex_unlock(&warm->lock);
                wake(warm);
                pthread_join(warm->thread, NULL);
        }
        while (warm->first)
                forget_sandbox(warm, warm->first);
        close_descriptor(&warm->wake);
        pthread_mutex_destroy(&warm->lock);
        json_decref(warm->modules);
        arena_free(warm->arena);
        free(warm);
}
