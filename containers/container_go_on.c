/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container needs next: its sandbox opened or found again, what is left of one cleared, its record removed.
 *
 * container_go_on() looks with the lock and decides; opening, clearing and leaving take long, so a thread of the pool does them, without
 * the lock while it waits for the place. `phase` is CONTAINER_OPENING or CONTAINER_LEAVING until it is done, and nothing else begins.
 *
 *      queued -> no neighbour is making their network, none stands before it in its agent's line -> its ports are taken -> opened
 *      running, of a server that died -> found again, or lost
 */
#include "containers/containers_parts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

/* Where there was no room, and where a sandbox could be neither found nor told to be gone. */
#define FULL_MS 250
#define TROUBLE_MS 5000
/* Its own time is held here; its worker's time is for the case that no server is here. */
#define GRACE_MS 60000
#define SERVICE_LIFE_MS (INT64_C(36500) * 86400 * 1000)

/* When it was asked for there may have been room, which others have taken since. */
static int check_files(const struct containers *containers, const struct place_opening *opening,
                       struct error *err) {
        struct problem problem;

        if (opening->only_living || !containers->config.may_have_files ||
            containers->config.may_have_files(containers->config.context, opening->shares_files_of,
                                              opening->agent, opening->environment, &problem) == 0)
                return 0;
        return error_set_kind(err, ERROR_REFUSED, "%s", problem.detail);
}

int container_open(struct container *container, struct error *err) {
        struct containers *containers = container->containers;
        struct place *place = containers->config.place;
        const struct container_record *record = &container->record;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct container_listeners listeners = container->listeners;
        const struct place_opening opening = {
                .id = arena_strdup(arena, record->id),
                .agent = arena_strdup(arena, record->agent),
                /*
                 * The environment it was made in, even if its agent is bound to another since: that
                 * environment decides which callers may use it.
                 */
                .environment = arena_strdup(arena, record->environment),
                .ttl_ms = record->service ? SERVICE_LIFE_MS : record->timeout_seconds * 1000 + GRACE_MS,
                .only_living = container->rejoins,
                .for_command = true,
                .command = record->status == CONTAINER_RUNNING ? 1 : 0,
                .shares_files_of = arena_strdup(arena, record->owner),
                .network = container_network_name(container, arena),
                .listeners = listeners.sockets,
                .ports = listeners.ports,
                .port_count = listeners.count,
        };
        struct place_session *opened_place = NULL;
        int result;

        container->listeners.count = 0;
        container->phase = CONTAINER_OPENING;
        pthread_mutex_unlock(&containers->lock);
        result = check_files(containers, &opening, err);
        if (result == 0)
                result = place->class->open(place, &opening, &opened_place, err);
        container_listeners_close(&listeners);
        pthread_mutex_lock(&containers->lock);
        container->phase = result == 0 ? CONTAINER_OPEN : CONTAINER_NO_PLACE;
        container->place = opened_place;
        container->command = 0;
        container->last_n = 0;
        container->ends = container->opened = false;
        pthread_cond_broadcast(&containers->settled);
        containers_wake(containers);
        return result;
}

static bool is_of_others(const void *context, int64_t port) {
        const struct container *container = context;
        json_t *ports JSON_CLEANUP = json_checked(json_pack("[{s:I}]", "hostPort", (json_int_t)port));

        for (const struct container *other = container->containers->first; other; other = other->next) {
                bool lives = other->record.service || other->record.status == CONTAINER_QUEUED ||
                             other->record.status == CONTAINER_RUNNING;

                if (other != container && !other->record.gone && lives &&
                    container_ports_share(ports, other->record.ports, true) > 0)
                        return true;
        }
        return false;
}

int container_listen(struct container *container, struct error *err) {
        return container->listeners.count > 0 ? 0
                                              : container_ports_listen(container->record.ports, is_of_others,
                                                                       container, &container->listeners, err);
}

static void rejoin_failed(struct container *container, const struct error *why) {
        const struct container_record *record = &container->record;
        bool late = record->timeout_seconds &&
                    containers_now(container->containers) >
                            record->started_ms + record->timeout_seconds * 1000 + GRACE_MS;

        /* A container that must stop need not be found for that: its remains are cleared. */
        if (why->kind != ERROR_NOT_FOUND && !late && !record->stops) {
                container->not_before_ms = clock_now_ms() + TROUBLE_MS;
                return;
        }
        container->rejoins = false;
        container_cut_off_all(container, "its sandbox is gone");
        if (!record->stops)
                container->record.again = record->service;
        container_finish_command(
                container, record->stops ? CONTAINER_BY_REQUEST : CONTAINER_LOST, -1,
                "its sandbox ended while no server was there: the end of its command was not observed");
}

static void open_sandbox(struct containers *containers, struct container *container) {
        bool rejoins = container->rejoins;
        struct error err = { 0 };

        if ((rejoins || container_listen(container, &err) == 0) && container_open(container, &err) == 0)
                return;
        container->phase = CONTAINER_NO_PLACE;
        pthread_cond_broadcast(&containers->settled);
        if (rejoins) {
                rejoin_failed(container, &err);
        } else if (container->record.gone || container->record.status != CONTAINER_QUEUED) {
                return;
        } else if (err.kind == ERROR_LOCKED) {
                container->not_before_ms = clock_now_ms() + FULL_MS;
                container->full = true;
                if (containers->config.make_room)
                        (void)containers->config.make_room(containers->config.context,
                                                           container->record.agent);
                container_changed(container);
        } else {
                container_finish_command(container, CONTAINER_NOT_STARTED, -1, err.message);
        }
}

/* Clears the remains of a sandbox that no server has open. */
static void clear_sandbox(struct containers *containers, struct container *container) {
        struct place *place = containers->config.place;
        struct error err;
        int cleared;

        container->phase = CONTAINER_LEAVING;
        pthread_mutex_unlock(&containers->lock);
        cleared = place->class->clear(place, container->record.id, &err);
        pthread_mutex_lock(&containers->lock);
        container->phase = CONTAINER_NO_PLACE;
        if (cleared < 0) {
                log_warning("container %s: %s", container->record.id, err.message);
                container->not_before_ms = clock_now_ms() + TROUBLE_MS;
                return;
        }
        container->record.sandbox = false;
        if (!container->record.gone)
                container_keep(container);
        containers_wake(containers);
}

static void begin_job(struct container *container, container_work *work) {
        container->phase = CONTAINER_OPENING;
        containers_job_add(container->containers, container, work);
}

/* True: nothing is left of it, and its record went. */
static bool go_for_good(struct container *container) {
        struct containers *containers = container->containers;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct session_change change = { SESSION_TABLE_SESSIONS,
                                               container_record_key(container->record.owner,
                                                                    container->record.id, arena),
                                               NULL, SESSION_EXPECT_NOTHING, 0 };
        struct error err;

        if (session_store_write(containers->config.store, &change, 1, &err) < 0) {
                container->not_before_ms = clock_now_ms() + TROUBLE_MS;
                return false;
        }
        containers_forget(containers, container);
        return true;
}

/* A container that has failed does not stand in line: it waits for its own retry. */
static bool waits_behind(const struct container *container) {
        for (const struct container *other = container->containers->first; other != container;
             other = other->next) {
                if (container_waits_before(other, container))
                        return true;
        }
        return false;
}

static bool go_on_without(struct container *container) {
        struct container_record *record = &container->record;
        bool ended = record->status == CONTAINER_EXITED || record->status == CONTAINER_STOPPED;
        bool starts = record->status == CONTAINER_QUEUED && !container->rejoins;

        if (clock_now_ms() < container->not_before_ms)
                return false;
        if (!record->service && ended && !record->gone &&
            containers_now(container->containers) >= record->ended_ms + CONTAINERS_KEPT_MS) {
                record->gone = true;
                container_changed(container);
        }
        /*
         * A container that must be started may have a sandbox too, left by a server that died right
         * behind the end of its command: a sandbox has one command and no second one.
         */
        if ((record->gone || ended || starts) && record->sandbox)
                begin_job(container, clear_sandbox);
        else if (record->gone)
                return go_for_good(container);
        else if (starts && container_waits_for_neighbours(container))
                return false;
        else if (container->rejoins || (starts && !waits_behind(container)))
                begin_job(container, open_sandbox);
        else if (starts && !container->full) {
                container->full = true;
                container_changed(container);
        }
        return false;
}

bool container_go_on(struct container *container) {
        const struct container_record *record = &container->record;

        if (container->unwritten)
                container_keep(container);
        if (container->phase == CONTAINER_NO_PLACE && !container->containers->stopping)
                return go_on_without(container);
        if (container->phase != CONTAINER_OPEN)
                return false;
        container_tell_names(container);
        if (record->timeout_seconds && container->command > 0 && !container->ends &&
            containers_now(container->containers) >= record->started_ms + record->timeout_seconds * 1000) {
                container->overdue = true;
                container_kill(container);
        }
        if (record->gone || (container->stops_ms && clock_now_ms() >= container->stops_ms))
                container_kill(container);
        container_run_next(container);
        return false;
}

int64_t container_patience_ms(const struct container *container) {
        int64_t now_ms = clock_now_ms(), until = INT64_MAX, patience;

        if (container->phase == CONTAINER_OPEN && container->rests_ms == 0) {
                patience = container->containers->config.place->class->patience_ms(container->place);
                if (patience >= 0)
                        until = now_ms + patience;
        }
        if (container->rests_ms > 0 && container->rests_ms < until)
                until = container->rests_ms;
        if (container->stops_ms > 0 && container->stops_ms < until)
                until = container->stops_ms;
        if (container->phase == CONTAINER_NO_PLACE && container->not_before_ms > now_ms &&
            container->not_before_ms < until)
                until = container->not_before_ms;
        return until == INT64_MAX ? -1 : until > now_ms ? until - now_ms : 0;
}
