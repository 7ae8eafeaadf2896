/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One container, from its record to its end. When its sandbox is opened, and what time brings, is container_go_on.c.
 *
 * Its record says what must become of it: `queued` is started when it may be, `running` has been.
 * Its sandbox follows that, and is asked for nothing that is not written down before. The other way
 * round, the end of its command is written down before the place hears that it was heard: a server
 * that dies in between hears it again, and writes the same.
 *
 *      queued -> (opening) -> running -> its command ends -> exited, stopped, or queued again -> the sandbox is ended, heard to its end, left
 *
 * A sandbox runs one command and no second one. A start after an end is a new sandbox, so that nothing is left of the one before.
 *
 * Floods. BUDGET bytes of a container's output are read in each TURN_MS: beyond that its worker
 * keeps 20 MiB, and then the command waits in its next print. So neither the disk nor the thread
 * that hears all of them is one container's.
 */
#include "containers/containers_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "sessions/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUDGET ((size_t)1 << 20)
#define EVENT_COST 64 /* bytes that each counts for, beside its own */
#define TURN_MS 100
/* A service that fails is started again after this, and after twice as long each time; one that ran for STEADY_MS has not failed. */
#define BACKOFF_MS 1000
#define BACKOFF_MS_MAX 60000
#define STEADY_MS 60000

static const struct place_class *class_of(const struct container *container) {
        return container->containers->config.place->class;
}

/* --- its record --- */

int container_store(struct container *container, struct error *err) {
        struct container_record *record = &container->record;
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *text TEXT_CLEANUP = container_record_to_text(record);
        const struct session_change change = {
                SESSION_TABLE_SESSIONS, container_record_key(record->owner, record->id, arena), text,
                record->version ? SESSION_EXPECT_VERSION : SESSION_EXPECT_ABSENT, record->version
        };
        int written = session_store_write(container->containers->config.store, &change, 1, err);

        if (written == 0)
                return error_set(err, "another server has changed it");
        if (written < 0)
                return -1;
        record->version++;
        record->bytes = strlen(text);
        container->unwritten = false;
        return 0;
}

void container_keep(struct container *container) {
        struct error err;
        bool told = container->unwritten;

        container->unwritten = true;
        if (container_store(container, &err) < 0 && !told)
                log_warning("container %s: its record cannot be written: %s", container->record.id,
                            err.message);
}

void container_changed(struct container *container) {
        const uint64_t one = 1;

        for (struct container_watch *watch = container->watches; watch; watch = watch->next)
                (void)!write(watch->descriptor, &one, sizeof(one));
        container_tell(container);
}

static void set_detail(struct container *container, const char *detail) {
        free(container->record.detail);
        container->record.detail = record_copy_text(detail);
}

/* --- as clients see it --- */

bool container_waits_before(const struct container *other, const struct container *container) {
        return other != container && other->record.status == CONTAINER_QUEUED && other->full &&
               !other->record.gone && strcmp(other->record.agent, container->record.agent) == 0;
}

size_t container_queue_position(const struct container *container) {
        size_t position = 1;

        if (container->record.status != CONTAINER_QUEUED || !container->full)
                return 0;
        for (const struct container *other = container->containers->first; other != container;
             other = other->next)
                position += container_waits_before(other, container);
        return position;
}

const char *container_status_name(const struct container *container) {
        switch (container->record.status) {
        case CONTAINER_QUEUED:
                return container->full ? "queued" : "starting";
        case CONTAINER_RUNNING:
                return "running";
        case CONTAINER_STOPPED:
                return "stopped";
        case CONTAINER_EXITED:
        default:
                return "exited";
        }
}

json_t *container_json(const struct container *container) {
        const struct container_record *record = &container->record;
        const char *reason = container_reason_name(record->reason);
        size_t position = container_queue_position(container);
        json_t *json = json_checked(json_pack(
                "{s:s, s:s?, s:s, s:s, s:s, s:s, s:s}", "id", record->id, "name", record->name, "agent",
                record->agent, "owner", record->owner, "environment", record->environment, "type",
                record->service ? "service" : "temporary", "status", container_status_name(container)));

        json_put(json, "exitCode", record->exit_code < 0 ? json_null() : json_integer(record->exit_code));
        json_put(json, "reason", reason ? json_string(reason) : json_null());
        json_put(json, "detail", json_from_text(record->detail));
        json_put(json, "restart", json_string(container_restart_name(record->restart)));
        json_put(json, "starts", json_integer(record->starts));
        json_put(json, "timeoutSeconds",
                 record->timeout_seconds ? json_integer(record->timeout_seconds) : json_null());
        json_put(json, "queuePosition", position ? json_integer((json_int_t)position) : json_null());
        json_put(json, "usage", container_usage_json(container));
        json_put(json, "ports", json_deep_copy(record->ports));
        json_put(json, "createdAt", json_from_time(record->created_ms));
        json_put(json, "startedAt", json_from_time(record->started_ms));
        json_put(json, "endedAt", json_from_time(record->ended_ms));
        return json;
}

/* --- its end --- */

static bool is_to_start_again(const struct container *container) {
        const struct container_record *record = &container->record;

        if (!record->service || record->gone)
                return false;
        return record->restart == CONTAINER_ALWAYS ||
               (record->restart == CONTAINER_ON_FAILURE &&
                (record->reason != CONTAINER_ENDED || record->exit_code != 0));
}

void container_finish_command(struct container *container, enum container_reason reason, int64_t exit_code,
                              const char *detail) {
        struct container_record *record = &container->record;
        int64_t now_ms = containers_now(container->containers), pause_ms = BACKOFF_MS;

        record->reason = container->overdue ? CONTAINER_DEADLINE : reason;
        if (container->containers->config.ended)
                container->containers->config.ended(container->containers->config.context,
                                                    container_reason_name(record->reason));
        record->exit_code = exit_code;
        record->ended_ms = now_ms;
        set_detail(container, detail);
        if (record->again) {
                record->status = CONTAINER_QUEUED;
                record->failures = 0;
                container->not_before_ms = 0;
        } else if (reason == CONTAINER_BY_REQUEST) {
                record->status = CONTAINER_STOPPED;
        } else if (is_to_start_again(container)) {
                record->failures = record->started_ms > 0 && now_ms - record->started_ms >= STEADY_MS &&
                                                   reason != CONTAINER_NOT_STARTED
                                           ? 1
                                           : record->failures + 1;
                for (int64_t i = 1; i < record->failures && pause_ms < BACKOFF_MS_MAX; i++)
                        pause_ms *= 2;
                record->status = CONTAINER_QUEUED;
                container->not_before_ms =
                        clock_now_ms() + (pause_ms < BACKOFF_MS_MAX ? pause_ms : BACKOFF_MS_MAX);
        } else {
                record->status = CONTAINER_EXITED;
        }
        record->again = record->stops = false;
        container->overdue = container->full = false;
        container->stops_ms = 0;
        container_keep(container);
        container_changed(container);
}

void container_kill(struct container *container) {
        if (container->phase != CONTAINER_OPEN || container->ends)
                return;
        container->ends = true;
        class_of(container)->end(container->place);
}

void container_stop(struct container *container) {
        /*
         * A container that is found again is told when its place has said what runs there:
         * opened().
         */
        if (container->phase != CONTAINER_OPEN || container->ends || container->stops_ms ||
            container->rejoins)
                return;
        container->stops_ms = clock_now_ms() + CONTAINERS_STOP_MS;
        if (container->command > 0)
                class_of(container)->interrupt(container->place, container->command);
        else
                container_kill(container);
}

static void command_ended(struct container *container, const struct place_event *event) {
        static const enum container_reason reasons[] = {
                [REPORT_OK] = CONTAINER_ENDED,           [REPORT_ERROR] = CONTAINER_ENDED,
                [REPORT_TIMEOUT] = CONTAINER_KILLED,     [REPORT_MEMORY] = CONTAINER_MEMORY,
                [REPORT_INTERRUPTED] = CONTAINER_KILLED, [REPORT_KILLED] = CONTAINER_KILLED,
                [REPORT_FAILED] = CONTAINER_NOT_STARTED
        };
        const struct container_record *record = &container->record;
        enum container_reason reason = reasons[event->status];

        /* Its worker has seen to it that it went in time, while no server was there. */
        if (reason == CONTAINER_KILLED && record->timeout_seconds &&
            containers_now(container->containers) >= record->started_ms + record->timeout_seconds * 1000)
                reason = CONTAINER_DEADLINE;
        if (container->stops_ms || record->stops)
                reason = CONTAINER_BY_REQUEST;
        container->command = 0;
        container_sample(container, 0);
        container_finish_command(container, reason, event->exit_code, event->detail);
        class_of(container)->heard(container->place, event->id);
        container_kill(container);
}

/* --- what runs beside it --- */

static struct execution_owner execution_owner_of(const struct container *container) {
        return (struct execution_owner){ container->record.id, container->record.environment, NULL };
}

void container_cut_off(struct container *container, struct execution *execution, enum report_status status,
                       const char *detail) {
        const struct execution_owner owner = execution_owner_of(container);

        execution_cut_off(execution, &owner, status, detail, containers_now(container->containers));
        container_changed(container);
}

void container_cut_off_all(struct container *container, const char *detail) {
        if (container->exec)
                container_cut_off(container, container->exec, REPORT_KILLED, detail);
        execution_drop(container->exec);
        container->exec = NULL;
        for (struct container_watch *watch = container->first_waiting; watch; watch = watch->next_waiting) {
                watch->waits = false;
                container_cut_off(container, watch->execution, REPORT_FAILED,
                                  "nothing of it ran: its container has ended");
        }
        container->first_waiting = container->last_waiting = NULL;
}

void container_run_next(struct container *container) {
        struct container_watch *watch = container->first_waiting;
        struct execution *execution = watch ? watch->execution : NULL;
        json_t *variables JSON_CLEANUP = NULL;
        struct place_execution given;
        struct error err;

        if (!execution || container->exec || container->phase != CONTAINER_OPEN || !container->opened ||
            container->ends)
                return;
        container->first_waiting = watch->next_waiting;
        if (!container->first_waiting)
                container->last_waiting = NULL;
        watch->waits = false;
        variables = container->record.variables ? json_deep_copy(container->record.variables) : json_object();
        if (execution->variables)
                (void)json_object_update(json_checked(variables), execution->variables);
        execution->n = ++container->last_n;
        execution->begun_ms = containers_now(container->containers);
        execution->status = EXECUTION_RUNNING;
        given = (struct place_execution){ .n = execution->n,
                                          .language = execution->language,
                                          .context = execution->context,
                                          .code = execution->code,
                                          .code_length = execution->code_length,
                                          .input = execution->input,
                                          .input_length = execution->input_length,
                                          .variables = variables,
                                          .timeout_ms = execution->timeout_seconds * 1000 };
        if (class_of(container)->execute(container->place, &given, &err) < 0) {
                container_cut_off(container, execution, REPORT_FAILED, err.message);
                return;
        }
        execution_hold(execution);
        container->exec = execution;
}

/* --- what its place says --- */

static void close_sandbox(struct containers *containers, struct container *container) {
        const struct place_class *class = containers->config.place->class;
        struct place_session *place = container->place;
        struct error err;
        int cleared;

        container->place = NULL;
        pthread_mutex_unlock(&containers->lock);
        class->leave(place);
        cleared = class->clear(containers->config.place, container->record.id, &err);
        pthread_mutex_lock(&containers->lock);
        container->phase = CONTAINER_NO_PLACE;
        container->ends = container->opened = false;
        container_forget_samples(container);
        pthread_cond_broadcast(&containers->settled);
        containers_rest_log(container);
        if (cleared < 0) {
                log_warning("container %s: %s", container->record.id, err.message);
                return;
        }
        container->record.sandbox = false;
        container_keep(container);
        /* A container that waits for room of that agent may have it now. */
        for (struct container *other = containers->first; other; other = other->next) {
                if (container_waits_before(other, container))
                        other->not_before_ms = 0;
        }
        containers_wake(containers);
}

static void sandbox_ended(struct container *container, const char *why) {
        bool asked = container->stops_ms || container->record.stops, lost = container->rejoins;

        container_cut_off_all(container, "its container has ended");
        container->rejoins = false;
        /* Without the end of its command it never began; or the place has lost it. */
        if (container->command > 0 || container->record.status == CONTAINER_QUEUED ||
            container->record.status == CONTAINER_RUNNING) {
                bool ran = container->command > 0;

                container->command = 0;
                /* An end of its command may have made it `queued` again: that sandbox is not this one's business. */
                if (lost && !asked)
                        container->record.again = container->record.service;
                if (ran || !container->ends || asked)
                        container_finish_command(container,
                                                 asked  ? CONTAINER_BY_REQUEST
                                                 : ran  ? CONTAINER_KILLED
                                                 : lost ? CONTAINER_LOST
                                                        : CONTAINER_NOT_STARTED,
                                                 -1, why);
        }
        container->phase = CONTAINER_LEAVING;
        containers_job_add(container->containers, container, close_sandbox);
}

static void begin_command(struct container *container) {
        struct container_record *record = &container->record;
        struct place_execution given = { .n = 1,
                                         .arguments = record->arguments,
                                         .variables = record->variables };
        struct error err;

        record->status = CONTAINER_RUNNING;
        record->reason = CONTAINER_NO_REASON;
        set_detail(container, NULL);
        record->exit_code = -1;
        record->starts++;
        record->started_ms = containers_now(container->containers);
        record->ended_ms = 0;
        record->sandbox = true;
        container->full = false;
        if (container_store(container, &err) == 0 &&
            class_of(container)->execute(container->place, &given, &err) == 0) {
                container->command = container->last_n = 1;
                container_changed(container);
                return;
        }
        container_finish_command(container, CONTAINER_NOT_STARTED, -1, err.message);
        container_kill(container);
}

static void opened(struct container *container, const struct place_event *event) {
        container->opened = true;
        container_sample(container, 0);
        container->rejoins = false;
        pthread_cond_broadcast(&container->containers->settled);
        /* What a container that was found again was told is unknown. */
        free(container->names);
        container->names = NULL;
        container->names_version = 0;
        container_tell_names(container);
        container->last_n = event->kept ? event->last : 0;
        if (event->kept && event->last > 0 && container->record.status == CONTAINER_RUNNING) {
                container->command = 1;
                if (container->record.stops)
                        container_stop(container);
                return;
        }
        /*
         * A container that was told to end before it began is not begun: a failure to start it
         * would be tried again.
         */
        if (!container->ends && !container->record.stops &&
            (container->record.status == CONTAINER_QUEUED || container->record.status == CONTAINER_RUNNING))
                begin_command(container);
        else
                container_kill(container);
}

int container_log_ready(struct container *container, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        return container->log
                       ? 0
                       : container_log_open(containers_log_path(container, arena), &container->log, err);
}

static void printed(struct container *container, const struct place_event *event) {
        const struct container_log_entry entry = { .start = (uint32_t)container->record.starts,
                                                   .event = event->id,
                                                   .stream = event->is_stderr ? CONTAINER_STDERR
                                                                              : CONTAINER_STDOUT,
                                                   .at_ms = containers_now(container->containers),
                                                   .bytes = event->bytes,
                                                   .length = event->length };
        struct error err;

        if (container_log_ready(container, &err) < 0 ||
            container_log_append(container->log, &entry, &err) < 0) {
                if (!container->full_log)
                        log_warning("container %s: %s", container->record.id, err.message);
                container->full_log = true;
                return;
        }
        container->full_log = false;
        container_changed(container);
}

static void hear_exec(struct container *container, const struct place_event *event) {
        struct execution *execution = container->exec;
        const struct execution_owner owner = execution_owner_of(container);
        int64_t now_ms = containers_now(container->containers);

        if (!execution || execution->n != event->n)
                return;
        if (event->type == PLACE_STARTED)
                execution_started(execution, event, now_ms);
        else if (event->type == PLACE_OUTPUT)
                execution_output(execution, event->is_stderr, event->bytes, event->length);
        else if (event->type == PLACE_DISPLAY)
                execution_display(execution, event);
        if (event->type != PLACE_DONE)
                return;
        execution_done(execution, &owner, event, now_ms);
        container->exec = NULL;
        execution_drop(execution);
        container_changed(container);
}

/* False: nothing more is heard of it now. */
static bool hear_one(struct container *container) {
        const struct place_class *class = class_of(container);
        struct place_event event;
        struct error err;
        size_t cost;
        bool of_command;

        if (class->next(container->place, &event, &err) < 0) {
                sandbox_ended(container, err.message);
                return false;
        }
        of_command = container->command > 0 && event.n == container->command;
        cost = event.length + EVENT_COST;
        container->budget -= cost < container->budget ? cost : container->budget;
        switch (event.type) {
        case PLACE_NOTHING:
                return false;
        case PLACE_OPENED:
                opened(container, &event);
                return true;
        case PLACE_ENDED:
                sandbox_ended(container, event.reason);
                return false;
        case PLACE_LEAVING:
                /* The machine goes down, as a rule: a service comes back with it. */
                if (!container->record.stops)
                        container->record.again = container->record.service;
                container_stop(container);
                break;
        case PLACE_DONE:
                if (of_command) {
                        command_ended(container, &event);
                        return true;
                }
                hear_exec(container, &event);
                break;
        case PLACE_OUTPUT:
                if (of_command)
                        printed(container, &event);
                else
                        hear_exec(container, &event);
                break;
        default:
                hear_exec(container, &event);
                break;
        }
        class->heard(container->place, event.id);
        return true;
}

void container_hear(struct container *container) {
        int64_t now_ms = clock_now_ms();

        if (now_ms >= container->counted_ms + TURN_MS) {
                container->counted_ms = now_ms;
                container->budget = BUDGET;
        }
        container->rests_ms = 0;
        while (container->phase == CONTAINER_OPEN && container->budget > 0 && hear_one(container))
                ;
        if (container->budget == 0)
                container->rests_ms = container->counted_ms + TURN_MS;
}
