/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of one source: when it looks, and what others see of it.
 *
 * The thread sleeps until something is due (a poll, a look for drift, another try) or it is woken,
 * and then does one round. The status is its result. Others read it under the lock, so that JSON is
 * copied whole: Jansson counts references without a lock. The status is saved in the source's own
 * state, and is there again after a restart.
 */
#include "gitops/source.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/libc.h"
#include "base/log.h"
#include "gitops/git/git.h"
#include "gitops/pins.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STATE_FILE "data.mdb" /* docs/state.md */
#define HEARTBEAT_MS (30 * 1000)
#define STATE_RETRY_MS (10 * 1000)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREAD_STACK ((size_t)8 * 1024 * 1024)
#else
#define THREAD_STACK ((size_t)512 * 1024)
#endif

static int64_t monotonic_now(const struct source *source) {
        const struct clock *clock = source->following->clock;

        return clock->monotonic_ms(clock);
}

static int64_t wall_now(const struct source *source) {
        const struct clock *clock = source->following->clock;

        return clock->wall_ms(clock);
}

static void prepare_source(struct source *source) {
        pthread_condattr_t attributes;

        source->plan_path = arena_printf(source->names, "%s/pending.plan", source->folder);
        source->url = git_display_name(source->config->url, source->names);
        status_init(&source->status);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (pthread_mutex_init(&source->lock, NULL) != 0 || pthread_mutex_init(&source->saving, NULL) != 0 ||
            pthread_mutex_init(&source->repository, NULL) != 0 ||
            pthread_cond_init(&source->wake, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
        source->heard_ms = monotonic_now(source);
        /* A child does not ask, and its parent plans nothing. */
        source->next_poll_ms = source->parent ? 0 : source->heard_ms;
        source->next_drift_ms = source->config->pattern ? 0 : source->heard_ms;
}

void source_init(struct source *source, struct following *following, const struct source_config *config) {
        *source = (struct source){ .following = following, .config = config, .names = arena_new() };
        source->folder = arena_printf(source->names, "%s/sources/%s", following->args->folder, config->name);
        source->git_folder = arena_printf(source->names, "%s/git", source->folder);
        prepare_source(source);
}

void source_init_child(struct source *source, struct source *parent, const char *path) {
        *source = (struct source){ .following = parent->following,
                                   .parent = parent,
                                   .own_config = *parent->config,
                                   .names = arena_new() };
        source->config = &source->own_config;
        source->own_config.path = arena_strdup(source->names, path);
        source->own_config.name = arena_printf(source->names, "%s/%s", parent->config->name, path);
        source->own_config.parent = parent->config->name;
        source->own_config.pattern = source->own_config.suspended = false;
        source->folder = arena_printf(source->names, "%s/" CHILDREN_FOLDER "/%s", parent->folder, path);
        source->git_folder = parent->git_folder;
        prepare_source(source);
}

int source_start(struct source *source, struct error *err) {
        pthread_attr_t attributes;
        int code;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, THREAD_STACK);
        code = pthread_create(&source->thread, &attributes, source_run, source);
        pthread_attr_destroy(&attributes);
        source->started = code == 0;
        return code == 0 ? 0 : error_set(err, "cannot start a thread: %s", strerror(code));
}

void source_dispose(struct source *source) {
        state_close(source->state);
        status_release(&source->status);
        json_decref(source->handed);
        pthread_mutex_destroy(&source->repository);
        pthread_mutex_destroy(&source->lock);
        pthread_mutex_destroy(&source->saving);
        pthread_cond_destroy(&source->wake);
        arena_free(source->names);
}

static bool member_is(const json_t *object, const char *name, const json_t *as) {
        return json_equal(json_object_get(object, name), json_object_get(as, name));
}

/*
 * A source that was pointed at another repository, ref or path begins again: a history of its own
 * is not a rewritten one.
 */
static void forget_if_moved(struct source *source, const json_t *stored) {
        json_t *now JSON_CLEANUP = status_json(&source->status, source->config, source->url);

        if (member_is(stored, "url", now) && member_is(stored, "ref", now) && member_is(stored, "path", now))
                return;
        json_decref(source->status.seen);
        source->status.seen = NULL;
        source->status.bad = false;
        source->status.problem = (struct verdict){ 0 };
        source->status.approved[0] = source->status.accepted_rewrite[0] = '\0';
        json_decref(source->status.allowed);
        source->status.allowed = NULL;
}

static int restore_status(struct source *source, struct state *state, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *stored JSON_CLEANUP = NULL;
        const char *text;

        if (state_load_meta(state, STATUS_META, arena, &text, err) < 0)
                return -1;
        stored = text ? json_loads(text, 0, NULL) : NULL;
        source->new_here = true;
        if (!stored)
                return 0;
        pthread_mutex_lock(&source->lock);
        status_restore(&source->status, stored);
        source->new_here = !source->status.good;
        /* The pins may have been changed before this start: a commit that they refused is tried again. */
        if (strcmp(source->status.verdict.reason, PINS_REASON) == 0)
                source->status.bad = false;
        forget_if_moved(source, stored);
        pthread_mutex_unlock(&source->lock);
        return 0;
}

/* The inode is 0 where there is no such file; -1 where that cannot be known now. */
static int identify_state(const struct source *source, struct file_identity *ret) {
        char *path TEXT_CLEANUP = path_join(source->folder, STATE_FILE);
        struct stat status;

        *ret = (struct file_identity){ 0 };
        if (stat(path, &status) < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
        *ret = (struct file_identity){ status.st_dev, status.st_ino };
        return 0;
}

bool source_has_its_state(struct source *source) {
        struct file_identity opened, now;

        pthread_mutex_lock(&source->lock);
        opened = source->state_file;
        pthread_mutex_unlock(&source->lock);
        return opened.inode == 0 || identify_state(source, &now) < 0 ||
               (now.inode == opened.inode && now.device == opened.device);
}

static void note_opened(struct source *source, struct state *state) {
        struct file_identity opened;

        source->state = state;
        if (identify_state(source, &opened) < 0)
                return;
        pthread_mutex_lock(&source->lock);
        source->state_file = opened;
        pthread_mutex_unlock(&source->lock);
}

int source_open_state(struct source *source, struct error *err) {
        struct state *state = NULL;
        int result = 0;

        pthread_mutex_lock(&source->saving);
        if (!source->state) {
                result = folder_make(source->folder, err);
                if (result == 0)
                        result = state_open(source->folder, STATE_CREATE, &state, err);
                if (result == 0 && restore_status(source, state, err) < 0) {
                        state_close(state);
                        result = -1;
                }
                if (result == 0)
                        note_opened(source, state);
        }
        pthread_mutex_unlock(&source->saving);
        return result;
}

/* Under `saving`, with the decision if there is one: other threads do not see it yet. */
static int write_status(struct source *source, struct decision *decision, struct error *err) {
        struct state_op op = { .type = STATE_PUT_META };
        json_t *document;
        char *text;
        int result;

        if (!source->state)
                return error_set(err, "the state in %s cannot be opened", source->folder);
        pthread_mutex_lock(&source->lock);
        if (decision)
                status_exchange_decision(&source->status, decision);
        document = status_store(&source->status, source->config, source->url);
        text = json_compact(document);
        json_decref(document);
        if (decision)
                status_exchange_decision(&source->status, decision);
        pthread_mutex_unlock(&source->lock);
        op.meta.name = STATUS_META;
        op.meta.text = text;
        result = state_commit(source->state, &op, 1, err);
        free(text);
        return result;
}

int source_save(struct source *source, struct error *err) {
        int result;

        pthread_mutex_lock(&source->saving);
        result = write_status(source, NULL, err);
        pthread_mutex_unlock(&source->saving);
        return result;
}

/*
 * The source's thread goes on meanwhile, and a new commit takes with it whatever was decided about the one before. So what is
 * written may be late: then it is not put into the status, and the next save writes over it. Where that one comes to
 * nothing too, a restart finds a decision about a plan and a commit that are not the newest, and acts on neither.
 */
int source_decide(struct source *source, struct decision *decision, struct error *err) {
        int result;

        pthread_mutex_lock(&source->saving);
        result = write_status(source, decision, err);
        pthread_mutex_lock(&source->lock);
        if (result == 0 && strcmp(decision->seen, status_commit(source->status.seen)) != 0)
                result = error_set_kind(err, ERROR_REFUSED,
                                        "plan-stale: another commit of %s came: look at it again",
                                        source->config->name);
        if (result == 0)
                status_exchange_decision(&source->status, decision);
        json_decref(decision->allowed);
        pthread_mutex_unlock(&source->lock);
        pthread_mutex_unlock(&source->saving);
        return result;
}

void source_wake(struct source *source, unsigned why) {
        pthread_mutex_lock(&source->lock);
        source->woken |= why;
        pthread_cond_signal(&source->wake);
        pthread_mutex_unlock(&source->lock);
}

void source_hear(struct source *source) {
        pthread_mutex_lock(&source->lock);
        source->heard_ms = monotonic_now(source);
        pthread_mutex_unlock(&source->lock);
}

/* Adds what only a running controller knows. Under the lock. */
static void add_running(const struct source *source, json_t *object) {
        const struct {
                const char *name;
                int64_t due_ms;
        } dues[] = {
                { "nextPoll", source->next_poll_ms },
                { "nextDriftCheck", source->next_drift_ms },
                { "nextRetry", source->next_retry_ms },
        };
        int64_t now_ms = monotonic_now(source), wall_ms = wall_now(source);
        bool suspended = status_suspended(&source->status, source->config);
        char text[32];

        for (size_t i = 0; i < sizeof(dues) / sizeof(dues[0]); i++) {
                int64_t left_ms = dues[i].due_ms > now_ms ? dues[i].due_ms - now_ms : 0;

                clock_format(wall_ms + left_ms, text, sizeof(text));
                json_object_set_new(object, dues[i].name,
                                    dues[i].due_ms && !suspended ? json_string(text) : json_null());
        }
        json_object_set_new(object, "rounds", json_integer((json_int_t)source->rounds_ended));
        /*
         * A wake-up that has not begun yet counts: a client that waits for it would otherwise see
         * an idle source in between.
         */
        json_object_set_new(object, "busy", json_boolean(source->busy || (source->woken && !suspended)));
}

/* All of it copied: no value is shared by two threads, not even its count of references. */
json_t *source_json(struct source *source) {
        json_t *object, *copy;

        pthread_mutex_lock(&source->lock);
        object = status_json(&source->status, source->config, source->url);
        add_running(source, object);
        copy = json_deep_copy(object);
        json_decref(object);
        pthread_mutex_unlock(&source->lock);
        if (!copy)
                abort();
        return copy;
}

void source_tell(struct source *source, enum notify_event event, const char *commit, const char *reason,
                 const char *message, json_t *detail) {
        struct following *following = source->following;
        json_t *document, *copy;
        char time[32];

        if (event == NOTIFY_FAILED || event == NOTIFY_REFUSED || event == NOTIFY_DRIFT)
                log_warning("%s: %s", reason, message);
        else if (event == NOTIFY_RECOVERED)
                log_info("well again");
        else
                log_info("%s: %s", reason, message);
        if (!following->notifier) {
                json_decref(detail);
                return;
        }
        clock_format(wall_now(source), time, sizeof(time));
        document = json_object();
        json_set_text(document, "event", config_event_name(event));
        json_set_text(document, "controller", following->config->name);
        json_set_text(document, "source", source->config->name);
        json_set_text(document, "url", source->url);
        json_set_text(document, "time", time);
        json_set_text(document, "reason", reason);
        json_set_text(document, "message", message);
        json_object_set_new(document, "commit", commit && *commit ? json_string(commit) : json_null());
        if (detail)
                json_object_update_missing(document, detail);
        json_decref(detail);
        /* Another thread's from here on, while the status goes on to hold what `detail` held. */
        copy = json_deep_copy(document);
        json_decref(document);
        notifier_post(following->notifier, event, copy);
}

void source_conclude(struct source *source) {
        struct condition before, now;
        bool changed;

        pthread_mutex_lock(&source->lock);
        before = source->status.conditions[CONDITION_READY];
        changed = status_conclude(&source->status, wall_now(source));
        now = source->status.conditions[CONDITION_READY];
        pthread_mutex_unlock(&source->lock);
        changed = changed || strcmp(before.commit, now.commit) != 0;
        if (!changed)
                return;
        if (now.status && before.since_ms > 0 && !before.status)
                source_tell(source, NOTIFY_RECOVERED, now.commit, now.reason, now.message, NULL);
        /* Refusals and approvals are told with what a person has to decide, where they are found. */
        else if (!now.status && strcmp(now.reason, "Refused") != 0 &&
                 strcmp(now.reason, "WaitingForApproval") != 0)
                source_tell(source, NOTIFY_FAILED, now.commit, now.reason, now.message, NULL);
}

/* One round */

struct dues {
        bool poll, reconcile, full, again;
};

/* Takes the tasks that are due now; false where nothing is. Under the lock. */
static bool take_dues(struct source *source, struct dues *ret) {
        int64_t now_ms = monotonic_now(source);
        unsigned woken = source->woken;
        bool drift = !source->config->pattern && now_ms >= source->next_drift_ms;

        *ret = (struct dues){
                .poll = !source->parent &&
                        (now_ms >= source->next_poll_ms || (woken & (WAKE_POLL | WAKE_SYNC))),
                .reconcile = drift || woken & (WAKE_SYNC | WAKE_DECISION | WAKE_HANDED) ||
                             (source->next_retry_ms && now_ms >= source->next_retry_ms),
                .full = drift || woken & WAKE_SYNC,
                .again = woken & (WAKE_SYNC | WAKE_DECISION),
        };
        if (!ret->poll && !ret->reconcile) {
                source->woken = 0; /* of a child: there is nothing to poll */
                return false;
        }
        source->woken = 0;
        /*
         * A little early, by chance, so that sources that began together do not look together
         * forever.
         */
        if (ret->full && !source->config->pattern)
                source->next_drift_ms = now_ms + (int64_t)((double)source->config->drift_interval_ms *
                                                           (1.0 - 0.1 * random_unit()));
        if (ret->reconcile)
                source->next_retry_ms = 0;
        if (ret->again || woken & WAKE_POLL)
                source->poll_failures = source->failures = 0;
        return true;
}

static void begin_round(struct source *source) {
        pthread_mutex_lock(&source->lock);
        source->rounds_begun++;
        source->busy = true;
        source->heard_ms = monotonic_now(source);
        pthread_mutex_unlock(&source->lock);
        log_context_set("source", source->config->name);
        log_context_set("commit", source->status.seen ? status_commit(source->status.seen) : NULL);
}

static void end_round(struct source *source) {
        pthread_mutex_lock(&source->lock);
        source->rounds_ended++;
        source->busy = false;
        source->heard_ms = monotonic_now(source);
        pthread_mutex_unlock(&source->lock);
        heap_give_back();
}

/*
 * Opening the state is tried again forever: a full disk, damage, or another run keeps a source from
 * it.
 */
static bool has_state(struct source *source) {
        struct error err;

        if (source_open_state(source, &err) == 0)
                return true;
        pthread_mutex_lock(&source->lock);
        source->status.verdict = (struct verdict){ .reason = "StateFailed" };
        snprintf(source->status.verdict.message, sizeof(source->status.verdict.message), "%.1023s",
                 err.message);
        source->next_retry_ms = monotonic_now(source) + STATE_RETRY_MS;
        if (!source->config->pattern)
                source->next_drift_ms = source->next_retry_ms;
        if (!source->parent)
                source->next_poll_ms = source->next_retry_ms;
        source->exit_code = err.kind == ERROR_LOCKED ? 4 : 1;
        pthread_mutex_unlock(&source->lock);
        source_conclude(source);
        return false;
}

/* Its path is a pattern: its children do the rest, each for itself. */
static void poll_for_children(struct source *source, const struct dues *dues, struct arena *arena) {
        struct git_answer answer = { 0 };
        enum poll_outcome outcome = source_poll(source, arena, &answer);
        struct error err;

        if (outcome == POLL_INTERRUPTED)
                return;
        if (outcome == POLL_FAILED && source->exit_code == 0)
                source->exit_code = status_is_rewritten(&source->status) ? 3 : 1;
        /* A commit that was found invalid is read again when a person asks for it. */
        if (outcome == POLL_UNCHANGED && source->status.bad && dues->again &&
            source_read_commit(source, status_commit(source->status.seen), arena, &answer, &err) == 0)
                outcome = POLL_MOVED;
        if (outcome == POLL_MOVED)
                children_follow_commit(source, &answer, arena);
        pthread_mutex_lock(&source->lock);
        source->reached_end = source->reached_end || source->status.good;
        pthread_mutex_unlock(&source->lock);
        if (outcome != POLL_FAILED && !source->status.bad) {
                int64_t wall_ms = wall_now(source);

                pthread_mutex_lock(&source->lock);
                source->status.success_ms = wall_ms;
                pthread_mutex_unlock(&source->lock);
                metrics_set(source->following->metrics, METRIC_LAST_SUCCESS, (double)wall_ms / 1000.0,
                            (const char *const[]){ source->config->name });
        }
        /* Before the first of them makes anything: a child without a record would be forgotten. */
        if ((outcome != POLL_UNCHANGED || dues->again) && source_save(source, &err) < 0)
                log_error("%s", err.message);
        children_go_on(source, dues->again);
}

/* A child's: the commit is the one that its parent handed it. */
static void reconcile_handed(struct source *source, const struct dues *dues, struct arena *arena) {
        json_t *handed;
        bool gone;
        struct error err;

        pthread_mutex_lock(&source->lock);
        handed = source->handed;
        source->handed = NULL;
        gone = source->gone;
        pthread_mutex_unlock(&source->lock);
        if (handed)
                source_follow(source, handed);
        if (gone)
                children_report_gone(source);
        else if (source->status.seen)
                source_reconcile(source,
                                 &(struct reconcile_args){ .full = dues->full || !source->looked,
                                                           .again = dues->again },
                                 arena);
        if (source_save(source, &err) < 0)
                log_error("%s", err.message);
}

/* What the poll came to, put in force where it is due; whether it was. */
static bool reconcile_polled(struct source *source, const struct dues *dues, enum poll_outcome outcome,
                             const struct git_answer *answer, struct arena *arena) {
        if (outcome == POLL_FAILED && source->exit_code == 0)
                source->exit_code = status_is_rewritten(&source->status) ? 3 : 1;
        if ((outcome != POLL_MOVED && !dues->reconcile) || !source->status.seen)
                return false;
        source_reconcile(source,
                         &(struct reconcile_args){ .answer = outcome == POLL_MOVED ? answer : NULL,
                                                   .full = dues->full || !source->looked,
                                                   .again = dues->again },
                         arena);
        return true;
}

static void poll_and_reconcile(struct source *source, const struct dues *dues) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct git_answer answer = { 0 };
        enum poll_outcome outcome = POLL_UNCHANGED;
        bool was_failing = source->status.problem.reason[0] != '\0', reconciled;
        struct error err;

        /* Nothing is begun that could not be remembered: the program ends of this, see follow.c. */
        if (!has_state(source) || !source_has_its_state(source))
                return;
        if (source->config->pattern) {
                poll_for_children(source, dues, arena);
                return;
        }
        if (source->parent) {
                reconcile_handed(source, dues, arena);
                return;
        }
        if (dues->poll)
                outcome = source_poll(source, arena, &answer);
        if (outcome == POLL_INTERRUPTED)
                return;
        reconciled = reconcile_polled(source, dues, outcome, &answer, arena);
        if (source->ask_again) {
                source->ask_again = false;
                outcome = source_poll(source, arena, &answer);
                if (outcome == POLL_INTERRUPTED)
                        return;
                (void)reconcile_polled(source, dues, outcome, &answer, arena);
        }
        if (!reconciled && outcome == POLL_UNCHANGED && !was_failing)
                return; /* what a poll that finds nothing costs is the poll */
        if (source_save(source, &err) < 0)
                log_error("%s", err.message);
}

/* Waits until something is due. False where the loop stops. */
static bool wait_for_dues(struct source *source, struct dues *ret) {
        struct following *following = source->following;
        bool due = false;

        pthread_mutex_lock(&source->lock);
        while (!atomic_load(&following->stopping)) {
                int64_t now_ms = monotonic_now(source), until_ms = now_ms + HEARTBEAT_MS;
                bool suspended = status_suspended(&source->status, source->config);
                struct timespec until;

                source->heard_ms = now_ms;
                due = !suspended && take_dues(source, ret);
                if (due)
                        break;
                if (!suspended && source->next_poll_ms && source->next_poll_ms < until_ms)
                        until_ms = source->next_poll_ms;
                if (!suspended && source->next_drift_ms && source->next_drift_ms < until_ms)
                        until_ms = source->next_drift_ms;
                if (!suspended && source->next_retry_ms && source->next_retry_ms < until_ms)
                        until_ms = source->next_retry_ms;
                until = clock_timespec(until_ms);
                pthread_cond_timedwait(&source->wake, &source->lock, &until);
        }
        pthread_mutex_unlock(&source->lock);
        return due;
}

static void one_round(struct source *source, const struct dues *dues) {
        begin_round(source);
        poll_and_reconcile(source, dues);
        end_round(source);
}

void *source_run(void *argument) {
        struct source *source = argument;
        struct dues dues;

        log_context_set("source", source->config->name);
        if (!source->following->args->once) {
                while (wait_for_dues(source, &dues))
                        one_round(source, &dues);
        } else if (!status_suspended(&source->status, source->config)) {
                pthread_mutex_lock(&source->lock);
                source->woken |= WAKE_SYNC;
                take_dues(source, &dues);
                pthread_mutex_unlock(&source->lock);
                one_round(source, &dues);
        }
        pthread_mutex_lock(&source->lock);
        source->ended = true;
        pthread_mutex_unlock(&source->lock);
        return NULL;
}
