/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program around the sources: what is started, in which order it is ended, and what is seen from outside.
 *
 * Started in this order: the control socket, which also keeps a second controller out of the folder; the states; the notifier;
 * HTTP; a thread for each source. Ended in the order in which each can do without the others: sources first, since they tell the
 * notifier what they came to.
 *
 * The main thread waits for signals, feeds systemd's watchdog while all sources are heard of, and looks whether the state's
 * folder is still the one that was opened.
 */
#include "gitops/follow.h"

#include "base/files.h"
#include "base/interrupt.h"
#include "base/libc.h"
#include "base/log.h"
#include "gitops/controller_http.h"
#include "gitops/source.h"
#include "server/control.h"
#include "server/secret.h"
#include "server/systemd.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TICK_MS 200
#define FOLDERS_MS 1000 /* between looks at whether the state still is there */
#define REASON_SIZE 512
/* Each state takes three descriptors, and a pattern may match hundreds of folders: 1024, as many systems give, are soon used up. */
#define OPEN_FILES 16384
#define GRACE_MS (5 * 1000)
#define GRACE_ONCE_MS (20 * 1000)
#define IDLE_SILENCE_MS (3 * 60 * 1000)
#define BUSY_SILENCE_MS (30 * 60 * 1000)

const struct control_daemon follow_daemon = { "controller", "start it with berth controller -f FILE" };

struct running {
        struct following following;
        struct control *control;
        struct controller_http *http;
        struct strbuf secret; /* of webhooks */
};

/* What the server asks. On its threads. */

static bool has_its_folders(struct running *running, char *reason, size_t size) {
        struct following *following = &running->following;

        if (!control_is_in_place(running->control)) {
                snprintf(reason, size, "the folder %s was removed or replaced", following->args->folder);
                return false;
        }
        for (size_t i = 0; i < following_count(following); i++) {
                if (!source_has_its_state(following->sources[i])) {
                        snprintf(reason, size, "the state in %s was removed or replaced",
                                 following->sources[i]->folder);
                        return false;
                }
        }
        return true;
}

static bool is_healthy(void *context, char *reason, size_t size) {
        struct running *running = context;
        struct following *following = &running->following;
        int64_t now_ms = following->clock->monotonic_ms(following->clock);
        bool healthy = has_its_folders(running, reason, size);

        for (size_t i = 0; i < following_count(following) && healthy; i++) {
                struct source *source = following->sources[i];

                pthread_mutex_lock(&source->lock);
                healthy = source->ended ||
                          now_ms - source->heard_ms <= (source->busy ? BUSY_SILENCE_MS : IDLE_SILENCE_MS);
                pthread_mutex_unlock(&source->lock);
                if (!healthy)
                        snprintf(reason, size, "source %s has not been heard of for too long",
                                 source->config->name);
        }
        return healthy;
}

static bool is_ready(void *context, char *reason, size_t size) {
        struct following *following = &((struct running *)context)->following;
        bool ready = true;

        for (size_t i = 0; i < following_count(following) && ready; i++) {
                struct source *source = following->sources[i];

                pthread_mutex_lock(&source->lock);
                ready = source->reached_end || source->status.conditions[CONDITION_READY].status ||
                        status_suspended(&source->status, source->config);
                pthread_mutex_unlock(&source->lock);
                if (!ready)
                        snprintf(reason, size, "source %s has not been reconciled yet", source->config->name);
        }
        return ready;
}

static bool wake_by_name(void *context, const char *name) {
        struct following *following = &((struct running *)context)->following;

        for (size_t i = 0; i < following_count(following); i++) {
                if (strcmp(following->sources[i]->config->name, name) == 0) {
                        source_wake(following->sources[i], WAKE_POLL);
                        return true;
                }
        }
        return false;
}

static void refresh_gauges(void *context) {
        struct following *following = &((struct running *)context)->following;

        for (size_t i = 0; i < following_count(following); i++) {
                struct source *source = following->sources[i];
                const char *name = source->config->name;
                bool suspended, conditions[CONDITION_COUNT];

                pthread_mutex_lock(&source->lock);
                suspended = status_suspended(&source->status, source->config);
                for (size_t type = 0; type < CONDITION_COUNT; type++)
                        conditions[type] = source->status.conditions[type].status;
                pthread_mutex_unlock(&source->lock);
                metrics_set(following->metrics, METRIC_SUSPENDED, suspended, (const char *const[]){ name });
                for (int type = 0; type < CONDITION_COUNT; type++)
                        metrics_set(following->metrics, METRIC_CONDITION, conditions[type],
                                    (const char *const[]){
                                            name, status_condition_name((enum condition_type)type) });
        }
}

/* Starting */

static int start_server(struct running *running, struct error *err) {
        struct following *following = &running->following;
        struct controller_http_config config = {
                .listen = following->config->listen,
                .hosts = following->config->hosts,
                .host_count = following->config->host_count,
                .webhook_secret = following->config->webhook_secret_file ? strbuf_text(&running->secret) : NULL,
                .metrics = following->metrics,
                .ops = {
                        .context = running,
                        .healthy = is_healthy,
                        .ready = is_ready,
                        .wake = wake_by_name,
                        .refresh = refresh_gauges,
                },
        };

        if (following->args->once || !*config.listen)
                return 0;
        if (controller_http_start(&config, &running->http, err) < 0)
                return -1;
        log_info("listening on port %u (%s)", controller_http_port(running->http), config.listen);
        return 0;
}

/*
 * The stack of a source that was taken out of the manifest stays as it is. People are told that it
 * is not looked after any more.
 */
static void mention_orphans(const struct following *following) {
        char *folder TEXT_CLEANUP = path_join(following->args->folder, "sources");
        DIR *directory = opendir(folder);
        struct dirent *entry;

        while (directory && (entry = readdir(directory))) {
                bool known = entry->d_name[0] == '.';

                for (size_t i = 0; i < following_count(following) && !known; i++)
                        known = strcmp(following->sources[i]->config->name, entry->d_name) == 0;
                if (!known)
                        log_warning(
                                "%s/%s is the state of a source that the Controller names no more: its stack stays as it "
                                "is",
                                folder, entry->d_name);
        }
        if (directory)
                closedir(directory);
}

static void make_sources(struct following *following) {
        const struct controller_config *config = following->config;
        size_t capacity = config->source_count;

        for (size_t i = 0; i < config->source_count; i++)
                capacity += config->sources[i].pattern ? CHILDREN_MAX : 0;
        following->sources = calloc(capacity, sizeof(struct source *));
        if (!following->sources)
                abort();
        for (size_t i = 0; i < config->source_count; i++) {
                following->sources[i] = calloc(1, sizeof(struct source));
                if (!following->sources[i])
                        abort();
                source_init(following->sources[i], following, &config->sources[i]);
        }
        atomic_store(&following->count, config->source_count);
}

/* So that conditions are there from the start. A state that cannot be opened keeps only its own source from working. */
static void open_states(struct following *following) {
        struct error err;

        for (size_t i = 0; i < following_count(following); i++) {
                struct source *source = following->sources[i];

                if (source_open_state(source, &err) < 0)
                        log_error("%s: %s", source->config->name, err.message);
                children_mention_former(source);
                /* They stand behind it in the list, and are opened in their turn. */
                if (source->config->pattern)
                        children_restore(source);
                /* A restart is no success, and makes none forgotten. */
                if (source->status.success_ms > 0)
                        metrics_set(following->metrics, METRIC_LAST_SUCCESS,
                                    (double)source->status.success_ms / 1000.0,
                                    (const char *const[]){ source->config->name });
        }
        mention_orphans(following);
}

/* Children first: their parent, once it runs, starts those that it finds not started. With --once it starts all of them. */
static int start_threads(struct following *following, struct error *err) {
        for (size_t i = following_count(following); i-- > 0;) {
                struct source *source = following->sources[i];

                if (!(source->parent && following->args->once) && source_start(source, err) < 0)
                        return -1;
        }
        return 0;
}

/* A user who may write to the folder could put another socket or another state there. */
static void mention_open_folder(const char *folder) {
        struct stat status;

        if (stat(folder, &status) == 0 && status.st_mode & (S_IWGRP | S_IWOTH))
                log_warning(
                        "%s can be written by other users, who could put a state of their own there: chmod go-w",
                        folder);
}

static int start_all(struct running *running, struct error *err) {
        struct following *following = &running->following;
        const struct controller_config *config = following->config;

        make_sources(following);
        if (config->webhook_secret_file &&
            secret_read(config->webhook_secret_file, &running->secret, err) < 0)
                return error_context(err, "webhookSecretFile");
        if (folder_make(following->args->folder, err) < 0 ||
            control_listen(following->args->folder, &follow_daemon, commands_answer, following,
                           &running->control, err) < 0)
                return -1;
        mention_open_folder(following->args->folder);
        open_states(following);
        if (config->target_count &&
            notifier_start(config->targets, config->target_count, following->metrics,
                           following->clock->interrupt, &following->notifier, err) < 0)
                return -1;
        if (start_server(running, err) < 0)
                return -1;
        return start_threads(following, err);
}

/* Running */

static bool is_interrupted(const struct following *following) {
        return interrupt_level(following->clock->interrupt) > INTERRUPT_NONE;
}

static bool all_ended(struct following *following) {
        bool ended = true;

        for (size_t i = 0; i < following_count(following) && ended; i++) {
                pthread_mutex_lock(&following->sources[i]->lock);
                ended = following->sources[i]->ended;
                pthread_mutex_unlock(&following->sources[i]->lock);
        }
        return ended;
}

static void tell_systemd_state(struct following *following) {
        size_t ready = 0, suspended = 0;
        char text[128];

        for (size_t i = 0; i < following_count(following); i++) {
                struct source *source = following->sources[i];

                pthread_mutex_lock(&source->lock);
                suspended += status_suspended(&source->status, source->config);
                ready += source->status.conditions[CONDITION_READY].status;
                pthread_mutex_unlock(&source->lock);
        }
        snprintf(text, sizeof(text), "STATUS=%zu sources, %zu ready, %zu suspended",
                 following_count(following), ready, suspended);
        systemd_tell(text);
}

/*
 * The only thread that waits for signals; it wakes the others. -1 where the state's file is not there any more: whatever is done
 * from then on would be recorded nowhere.
 */
static int wait_for_end(struct running *running, struct error *err) {
        struct following *following = &running->following;
        int64_t watchdog_ms = systemd_watchdog_ms(), last_ms = 0, told_ms = 0, looked_ms = 0;
        char reason[REASON_SIZE];

        while (!is_interrupted(following) && !(following->args->once && all_ended(following))) {
                int64_t now_ms = following->clock->monotonic_ms(following->clock);

                if (watchdog_ms && now_ms - last_ms >= watchdog_ms &&
                    is_healthy(running, reason, sizeof(reason))) {
                        systemd_tell("WATCHDOG=1");
                        last_ms = now_ms;
                }
                if (now_ms - told_ms >= 10 * 1000) {
                        tell_systemd_state(following);
                        told_ms = now_ms;
                }
                if (now_ms - looked_ms >= FOLDERS_MS) {
                        looked_ms = now_ms;
                        if (!has_its_folders(running, reason, sizeof(reason))) {
                                interrupt_raise(interrupt_of_user()); /* nothing more is begun */
                                return error_set(
                                        err,
                                        "%s while the controller ran, which ends: what it writes would be lost. The "
                                        "next start uses what is there by then: put back what belongs there",
                                        reason);
                        }
                }
                (void)following->clock->sleep_until(following->clock, now_ms + TICK_MS);
        }
        return 0;
}

static void end_running(struct running *running) {
        struct following *following = &running->following;

        atomic_store(&following->stopping, true);
        pthread_mutex_lock(&following->slot_lock);
        pthread_cond_broadcast(&following->slot_free);
        pthread_mutex_unlock(&following->slot_lock);
        for (size_t i = 0; i < following_count(following); i++)
                source_wake(following->sources[i], 0);
        for (size_t i = 0; i < following_count(following); i++) {
                /* Parents stand before their children: once they are gone there will be no more of these. */
                if (following->sources[i]->started)
                        pthread_join(following->sources[i]->thread, NULL);
        }
        controller_http_stop(running->http);
        control_close(running->control);
        notifier_stop(following->notifier, following->args->once ? GRACE_ONCE_MS : GRACE_MS);
        for (size_t i = 0; i < following_count(following); i++) {
                source_dispose(following->sources[i]);
                free(following->sources[i]);
        }
        free(following->sources);
        metrics_free(following->metrics);
        pthread_mutex_destroy(&following->adding);
        pthread_mutex_destroy(&following->slot_lock);
        pthread_cond_destroy(&following->slot_free);
        strbuf_release(&running->secret);
}

/* With --once, of several sources: a failure before a lock, and a lock before a change that waits. */
static int worst_exit(const struct following *following) {
        static const int order[] = { 1, 4, 3 };

        for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
                for (size_t i = 0; i < following_count(following); i++) {
                        if (following->sources[i]->exit_code == order[k])
                                return order[k];
                }
        }
        return 0;
}

static void prepare_running(struct running *running, const struct follow_args *args) {
        struct following *following = &running->following;
        pthread_condattr_t attributes;

        descriptors_allow(OPEN_FILES);
        /* Many threads that are hardly ever awake: an arena each would keep what a reconciliation took. */
        heap_keep_little(2);
        *running =
                (struct running){ .following = { .args = args, .config = args->config, .clock = args->clock },
                                  .secret = STRBUF_SECRET };
        following->started_ms = args->clock->wall_ms(args->clock);
        following->metrics = controller_metrics_new();
        following->watch = controller_metrics_watch(following->metrics);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (pthread_mutex_init(&following->slot_lock, NULL) != 0 ||
            pthread_mutex_init(&following->adding, NULL) != 0 ||
            pthread_cond_init(&following->slot_free, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
}

int follow_run(const struct follow_args *args, int *ret_exit, struct error *err) {
        struct running running;
        int result;

        prepare_running(&running, args);
        result = start_all(&running, err);
        if (result == 0) {
                log_info("controller %s follows %zu %s", args->config->name, args->config->source_count,
                         args->config->source_count == 1 ? "source" : "sources");
                systemd_tell("READY=1");
                result = wait_for_end(&running, err);
                systemd_tell("STOPPING=1");
                if (is_interrupted(&running.following))
                        log_info("ending: what is in flight is finished first");
                *ret_exit = 0;
        }
        if (result == 0 && args->once)
                *ret_exit = is_interrupted(&running.following) ? 1 : worst_exit(&running.following);
        end_running(&running);
        return result;
}
