/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask of containers. */
#include "containers/containers_parts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/text_utf8.h"
#include "runtime/protocol/request.h"
#include "sessions/checks.h"
#include "sessions/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool containers_have_files(struct containers *containers, const char *owner, const char *agent) {
        bool have = false;

        pthread_mutex_lock(&containers->lock);
        for (const struct container *container = containers->first; container && !have;
             container = container->next) {
                const struct container_record *record = &container->record;

                have = strcmp(record->owner, owner) == 0 && strcmp(record->agent, agent) == 0 &&
                       (record->sandbox || container->phase != CONTAINER_NO_PLACE ||
                        record->status == CONTAINER_QUEUED || record->status == CONTAINER_RUNNING);
        }
        pthread_mutex_unlock(&containers->lock);
        return have;
}

/* --- made --- */

/* So long one that is made waits for others to be opened. */
#define NEIGHBOURS_S 20

static int check_container_name(const char *name, struct problem *problem) {
        if (!name || text_is_label(name, CONTAINER_NAME_MAX))
                return 0;
        return problem_set(problem, PROBLEM_INVALID,
                           "name must have 1 to %d of a-z, 0-9 and -, and neither begin nor end with -",
                           CONTAINER_NAME_MAX);
}

/* The command as arguments: a new reference; NULL: a problem. */
static json_t *arguments_of(const struct container_wish *wish, struct problem *problem) {
        int language = wish->language ? request_language(wish->language) : REQUEST_PYTHON;
        size_t ignored;

        if (!wish->command == !wish->code) {
                (void)problem_set(problem, PROBLEM_INVALID, "give a command or code, one of them");
                return NULL;
        }
        if (wish->command && request_is_arguments(wish->command))
                return json_deep_copy(wish->command);
        if (wish->command) {
                (void)problem_set(
                        problem, PROBLEM_INVALID,
                        "command must be a list of at most %d texts without NUL, the program first, each of at most "
                        "%zu bytes and of %zu together",
                        REQUEST_ARGUMENTS_MAX, REQUEST_ARGUMENT_MAX, REQUEST_ARGUMENTS_BYTES_MAX);
                return NULL;
        }
        if (language < 0) {
                (void)problem_set(problem, PROBLEM_INVALID, "language must be python, sh or bash");
                return NULL;
        }
        if (wish->code_length > REQUEST_ARGUMENT_MAX ||
            !text_is_utf8(wish->code, wish->code_length, &ignored) ||
            memchr(wish->code, '\0', wish->code_length)) {
                (void)problem_set(problem, PROBLEM_INVALID,
                                  "code must be UTF-8 without NUL, of at most %zu bytes",
                                  REQUEST_ARGUMENT_MAX);
                return NULL;
        }
        if (language == REQUEST_PYTHON)
                return json_checked(json_pack("[s, s, s, s]", "python3", "-u", "-c", wish->code));
        return json_checked(
                json_pack("[s, s, s]", language == REQUEST_BASH ? "bash" : "/bin/sh", "-c", wish->code));
}

static int check_rest(const struct container_wish *wish, enum container_restart *ret,
                      struct problem *problem) {
        int restart = wish->restart   ? container_restart_find(wish->restart)
                      : wish->service ? CONTAINER_ALWAYS
                                      : CONTAINER_NEVER;

        if (!wish->agent || check_text("agent", wish->agent, CHECKS_TEXT_MAX, problem) < 0)
                return wish->agent ? -1 : problem_set(problem, PROBLEM_INVALID, "name an agent");
        if (restart < 0 || (!wish->service && restart != CONTAINER_NEVER))
                return problem_set(
                        problem, PROBLEM_INVALID,
                        "restart must be never, on-failure or always; of a temporary container, never");
        if (wish->service && wish->timeout_seconds)
                return problem_set(
                        problem, PROBLEM_INVALID,
                        "timeoutSeconds is a temporary container's: a service runs until it is stopped");
        if (check_age("timeoutSeconds", wish->timeout_seconds, problem) < 0 ||
            check_container_name(wish->name, problem) < 0 || check_variables(wish->variables, problem) < 0)
                return -1;
        *ret = (enum container_restart)restart;
        return 0;
}

/* As engine_create(): what the client may not use is not there. */
static int find_usable_agent(struct containers *containers, const struct engine_caller *caller,
                             const struct container_wish *wish, struct arena *arena,
                             struct catalog_agent *ret, struct problem *problem) {
        struct catalog *catalog = containers->config.catalog;
        struct error err;
        int found = catalog->agent(catalog, wish->agent, arena, ret, &err);

        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0 || !engine_may_use(caller, NULL, wish->agent))
                return problem_set(problem, PROBLEM_UNKNOWN_AGENT, "there is no agent %s", wish->agent);
        if (!ret->in_service || !ret->environment)
                return problem_set(problem, PROBLEM_AGENT_OUT_OF_SERVICE,
                                   "the agent %s is not active, or was taken from its environment",
                                   wish->agent);
        if (!engine_may_use(caller, ret->environment, NULL))
                return problem_set(problem, PROBLEM_UNKNOWN_ENVIRONMENT, "there is no environment %s",
                                   ret->environment);
        return 0;
}

/* The owner of the container that has a port of the machine stays secret. */
static int check_ports(const struct container *container, const struct container *other,
                       struct problem *problem) {
        const json_t *ports = container->record.ports, *others = other->record.ports;
        bool lives = other->record.service || other->record.status == CONTAINER_QUEUED ||
                     other->record.status == CONTAINER_RUNNING;
        int64_t port = container_ports_share(ports, others, true);

        if (other->record.gone || !lives)
                return 0;
        if (port > 0)
                return problem_set(problem, PROBLEM_CONFLICT,
                                   "port %lld of 127.0.0.1 is taken on this machine", (long long)port);
        port = container_is_neighbour(container, other) ? container_ports_share(ports, others, false) : 0;
        if (port > 0)
                return problem_set(problem, PROBLEM_CONFLICT,
                                   "the container %s has port %lld already, in the network that they share",
                                   other->record.name ? other->record.name : other->record.id,
                                   (long long)port);
        return 0;
}

static int check_others(const struct containers *containers, const struct container *container,
                        const char *owner, const struct container_wish *wish, struct problem *problem) {
        size_t of_owner = 0, bytes = 0, live = 0;

        for (const struct container *other = containers->first; other; other = other->next) {
                const struct container_record *record = &other->record;
                bool his = strcmp(record->owner, owner) == 0;

                of_owner += his;
                bytes += his ? record->bytes : 0;
                live += record->status == CONTAINER_QUEUED || record->status == CONTAINER_RUNNING;
                if (his && !record->gone && wish->name && record->name &&
                    strcmp(record->name, wish->name) == 0 && strcmp(record->agent, wish->agent) == 0)
                        return problem_set(problem, PROBLEM_CONFLICT,
                                           "the agent %s has a container %s already: %s", wish->agent,
                                           wish->name, record->id);
                if (check_ports(container, other, problem) < 0)
                        return -1;
        }
        if (of_owner >= CONTAINERS_OWNER_MAX)
                return problem_set(
                        problem, PROBLEM_OWNER_LIMIT,
                        "%s has %zu containers, with those that have ended, as many as an owner may", owner,
                        of_owner);
        if (bytes >= CONTAINERS_OWNER_BYTES)
                return problem_set(
                        problem, PROBLEM_OWNER_LIMIT,
                        "the commands and variables of %s's containers have %zu bytes, as many as an "
                        "owner's may: remove some",
                        owner, bytes);
        if (containers->config.total && live >= containers->config.total)
                return problem_set(problem, PROBLEM_SERVER_LIMIT,
                                   "there are %zu containers, as many as may be", live);
        return 0;
}

/* Without arguments, ports and restart, which its caller has checked. */
static struct container *new_container(const struct containers *containers, const char *owner,
                                       const struct container_wish *wish, const char *environment) {
        struct container *container = calloc(1, sizeof(*container));

        if (!container)
                abort();
        container->record = (struct container_record){
                .owner = record_copy_text(owner),
                .agent = record_copy_text(wish->agent),
                .environment = record_copy_text(environment),
                .name = record_copy_text(wish->name),
                .service = wish->service,
                .variables = json_object_size(wish->variables) > 0 ? json_deep_copy(wish->variables) : NULL,
                .timeout_seconds = wish->service           ? 0
                                   : wish->timeout_seconds ? wish->timeout_seconds
                                                           : CONTAINERS_TIMEOUT,
                .exit_code = -1,
                .created_ms = containers_now(containers),
        };
        container_new_id(container->record.id);
        return container;
}

/* Not made after all: its caller hears why, and nothing of it stays. */
static void unmake(struct container *container) {
        container->record.gone = container->record.sandbox = true;
        container_keep(container);
        containers_wake(container->containers);
}

/* Until it is known which network is its own; the thread opens it where that takes too long. */
static void await_neighbours(struct container *container) {
        struct containers *containers = container->containers;
        const struct timespec until = clock_after_ms(NEIGHBOURS_S * 1000);

        while (container_waits_for_neighbours(container) && container->phase == CONTAINER_NO_PLACE &&
               pthread_cond_timedwait(&containers->settled, &containers->lock, &until) == 0)
                ;
}

/*
 * The caller's thread opens it, so that what stands in its way is the caller's answer. Where others
 * of its agent wait, or there is no room, it waits behind them, unless the agent's limits turn work
 * away.
 */
static int open_at_once(struct container *container, bool rejects, struct problem *problem) {
        struct containers *containers = container->containers;
        struct error err = { .kind = ERROR_LOCKED };
        bool room = false;

        await_neighbours(container);
        if (container->phase != CONTAINER_NO_PLACE || container->record.status != CONTAINER_QUEUED ||
            container->record.gone)
                return 0;
        for (const struct container *other = containers->first; other != container; other = other->next) {
                if (other->full && !other->record.gone && other->record.status == CONTAINER_QUEUED &&
                    strcmp(other->record.agent, container->record.agent) == 0)
                        container->full = true;
        }
        if (container->full)
                (void)error_set_kind(&err, ERROR_LOCKED, "others wait already for Agent/%s's limits",
                                     container->record.agent);
        else if (container_open(container, &err) == 0)
                return 0;
        if (container->record.gone)
                return problem_set(problem, PROBLEM_NOT_FOUND, "the container was removed while it was made");
        if (container->record.status != CONTAINER_QUEUED)
                return 0;
        if (err.kind != ERROR_LOCKED) {
                unmake(container);
                return problem_from_error(problem, PROBLEM_PLACE_FAILED, &err);
        }
        container->full = true;
        if (containers->config.make_room)
                room = containers->config.make_room(containers->config.context, container->record.agent);
        if (rejects && !room) {
                unmake(container);
                return problem_from_error(problem, PROBLEM_AGENT_LIMIT, &err);
        }
        return 0;
}

int containers_create(struct containers *containers, const struct engine_caller *caller,
                      const struct container_wish *wish, json_t **ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct catalog_agent agent = { 0 };
        enum container_restart restart = CONTAINER_NEVER;
        struct container *container;
        json_t *arguments = NULL, *ports;
        struct error err;
        int result;

        if (check_text("the owner", caller->owner, ENGINE_OWNER_MAX, problem) < 0 ||
            check_rest(wish, &restart, problem) < 0 ||
            find_usable_agent(containers, caller, wish, arena, &agent, problem) < 0 ||
            (containers->config.may_have_files &&
             containers->config.may_have_files(containers->config.context, caller->owner, wish->agent,
                                               agent.environment, problem) < 0) ||
            !(ports = container_ports_read(wish->ports, problem)))
                return -1;
        if (!(arguments = arguments_of(wish, problem))) {
                json_decref(ports);
                return -1;
        }
        container = new_container(containers, caller->owner, wish, agent.environment);
        container->record.arguments = arguments;
        container->record.ports = ports;
        container->record.restart = restart;
        pthread_mutex_lock(&containers->lock);
        result = check_others(containers, container, caller->owner, wish, problem);
        container->containers = containers;
        if (result == 0 && container_listen(container, &err) < 0)
                result = problem_from_error(
                        problem, err.kind == ERROR_REFUSED ? PROBLEM_CONFLICT : PROBLEM_PLACE_FAILED, &err);
        if (result == 0 && container_store(container, &err) < 0)
                result = problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (result < 0) {
                container_listeners_close(&container->listeners);
                container_record_dispose(&container->record);
                free(container);
        } else {
                containers_add(containers, container);
                container_changed(container);
                result = open_at_once(container, agent.reject, problem);
                if (result == 0)
                        *ret = container_json(container);
                containers_wake(containers);
        }
        pthread_mutex_unlock(&containers->lock);
        return result;
}

/* --- seen --- */

int containers_show(struct containers *containers, const struct engine_caller *caller, const char *id,
                    json_t **ret, struct problem *problem) {
        struct container *container;

        pthread_mutex_lock(&containers->lock);
        container = containers_find(containers, caller, id, caller->observes, problem);
        if (container) {
                container_sample(container, CONTAINER_OFTEN_MS);
                *ret = container_json(container);
        }
        pthread_mutex_unlock(&containers->lock);
        return container ? 0 : -1;
}

static bool passes_filter(const struct container *container, const struct engine_caller *caller,
                          const struct container_filter *filter) {
        const struct container_record *record = &container->record;

        return !record->gone &&
               ((filter->all_owners && caller->observes) ||
                (caller->owner && strcmp(record->owner, caller->owner) == 0)) &&
               engine_may_use(caller, record->environment, record->agent) &&
               text_is_permitted(container_status_name(container), filter->statuses) &&
               text_is_permitted(record->service ? "service" : "temporary", filter->types) &&
               text_is_permitted(record->environment, filter->environments) &&
               text_is_permitted(record->agent, filter->agents) &&
               text_is_permitted(record->name, filter->names);
}

/* "MILLISECONDS.ID" of the last item that was given. */
static int read_cursor(const char *cursor, int64_t *ret_ms, const char **ret_id, struct problem *problem) {
        char *end = NULL;

        *ret_ms = cursor ? strtoll(cursor, &end, 10) : -1;
        *ret_id = cursor ? end + 1 : "";
        if (cursor && (end == cursor || *end != '.' || !container_is_id(end + 1)))
                return problem_set(problem, PROBLEM_INVALID,
                                   "invalid cursor: use the one from the previous page");
        return 0;
}

static bool is_after(const struct container_record *record, int64_t ms, const char *id) {
        return record->created_ms > ms || (record->created_ms == ms && strcmp(record->id, id) > 0);
}

int containers_list(struct containers *containers, const struct engine_caller *caller,
                    const struct container_filter *filter, json_t **ret, struct problem *problem) {
        size_t limit = filter->limit ? filter->limit : 100;
        const struct container *last = NULL;
        json_t *items, *cursor = json_null();
        const char *after_id;
        int64_t after_ms;

        if (limit > ENGINE_LIST_MAX)
                return problem_set(problem, PROBLEM_INVALID, "limit must be 1 to %d, found %zu",
                                   ENGINE_LIST_MAX, limit);
        if (read_cursor(filter->cursor, &after_ms, &after_id, problem) < 0)
                return -1;
        items = json_checked(json_array());
        pthread_mutex_lock(&containers->lock);
        for (struct container *one = containers->first; one; one = one->next) {
                if (!is_after(&one->record, after_ms, after_id) || !passes_filter(one, caller, filter))
                        continue;
                if (last && json_array_size(items) == limit) {
                        char text[64];

                        snprintf(text, sizeof(text), "%lld.%s", (long long)last->record.created_ms,
                                 last->record.id);
                        cursor = json_checked(json_string(text));
                        break;
                }
                container_sample(one, CONTAINER_OFTEN_MS);
                json_add(items, container_json(one));
                last = one;
        }
        pthread_mutex_unlock(&containers->lock);
        *ret = json_checked(json_pack("{s:o, s:o}", "items", items, "cursor", cursor));
        return 0;
}

/* --- stopped, started, removed --- */

/*
 * What runs is to end: that stands in its record before its sandbox hears of it, so that neither a server that dies nor one that has
 * not found it again yet forgets it. That it has ended is written down where it has.
 */
static void order_stop(struct container *container, bool again) {
        struct container_record *record = &container->record;

        if (record->status == CONTAINER_RUNNING && !container->ends) {
                record->stops = true;
                record->again = again;
                container_keep(container);
                container_stop(container);
                return;
        }
        record->again = again;
        if (container->phase == CONTAINER_OPEN && !container->ends) {
                container_stop(container);
                return;
        }
        /* Nothing of it runs: it waits for room, or for its next start, or its sandbox is on its way out. */
        record->again = false;
        if (record->status == CONTAINER_QUEUED) {
                record->status = CONTAINER_STOPPED;
                record->reason = CONTAINER_BY_REQUEST;
                record->ended_ms =
                        record->ended_ms ? record->ended_ms : containers_now(container->containers);
                record->sandbox = true;
                container->full = false;
                container_keep(container);
                container_changed(container);
        }
}

static void order_start(struct container *container) {
        struct container_record *record = &container->record;

        container->not_before_ms = 0;
        if (record->status == CONTAINER_STOPPED || record->status == CONTAINER_EXITED) {
                record->status = CONTAINER_QUEUED;
                record->failures = 0;
                container_keep(container);
                container_changed(container);
        } else if ((container->stops_ms || record->stops) && !record->again) {
                record->again = true;
                container_keep(container);
        }
}

int containers_order(struct containers *containers, const struct engine_caller *caller, const char *id,
                     enum container_order order, json_t **ret, struct problem *problem) {
        struct container *container;
        int result = -1;

        pthread_mutex_lock(&containers->lock);
        container =
                containers_find(containers, caller, id, order == CONTAINER_STOP && caller->ends_any, problem);
        if (container && !container->record.service && order != CONTAINER_STOP) {
                (void)problem_set(problem, PROBLEM_CONFLICT,
                                  "a temporary container runs once: make another, or a service");
        } else if (container) {
                if (order != CONTAINER_START)
                        order_stop(container, order == CONTAINER_RESTART);
                if (order != CONTAINER_STOP)
                        order_start(container);
                *ret = container_json(container);
                containers_wake(containers);
                result = 0;
        }
        pthread_mutex_unlock(&containers->lock);
        return result;
}

int containers_remove(struct containers *containers, const struct engine_caller *caller, const char *id,
                      struct problem *problem) {
        struct container *container;
        struct error err;
        int result = -1;

        pthread_mutex_lock(&containers->lock);
        container = containers_find(containers, caller, id, caller->ends_any, problem);
        if (container) {
                container->record.gone = container->record.sandbox = true;
                result = container_store(container, &err) < 0
                                 ? problem_from_error(problem, PROBLEM_STORE_FAILED, &err)
                                 : 0;
        }
        if (container && result < 0)
                container->record.gone = false;
        if (result == 0) {
                container->not_before_ms = 0;
                container_kill(container);
                container_changed(container);
                containers_wake(containers);
        }
        pthread_mutex_unlock(&containers->lock);
        return result;
}
