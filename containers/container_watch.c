/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that waits for a container: for its end, for what it prints, or for more that runs in it beside its command.
 *
 * Each watch has a descriptor that container_changed() raises, with the lock of the containers, as all here is done: the client's
 * thread lowers it before it looks, so that no change is missed. Code to run stands in the container's line; container.c begins one
 * after the other, and the watch holds the execution until it is closed.
 */
#include "containers/containers_parts.h"

#include "base/files.h"
#include "base/json.h"
#include "runtime/protocol/request.h"
#include "sessions/checks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int container_watch_open(struct containers *containers, const struct engine_caller *caller, const char *id,
                         struct container_watch **ret, struct problem *problem) {
        struct container_watch *watch = calloc(1, sizeof(*watch));
        struct container *container;

        if (!watch)
                abort();
        *watch = (struct container_watch){ .containers = containers,
                                           .descriptor = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK) };
        if (watch->descriptor < 0) {
                free(watch);
                return problem_set(problem, PROBLEM_EXHAUSTED, "what happens cannot be followed: %s",
                                   strerror(errno));
        }
        pthread_mutex_lock(&containers->lock);
        container = containers_find(containers, caller, id, false, problem);
        if (container) {
                watch->container = container;
                watch->next = container->watches;
                container->watches = watch;
        }
        pthread_mutex_unlock(&containers->lock);
        if (!container) {
                container_watch_close(watch);
                return -1;
        }
        *ret = watch;
        return 0;
}

int container_watch_descriptor(const struct container_watch *watch) {
        return watch->descriptor;
}

void container_watch_calm(struct container_watch *watch) {
        uint64_t ignored;

        (void)!read(watch->descriptor, &ignored, sizeof(ignored));
}

/* Code that its client waits for no longer is interrupted, or never begins. */
static void leave_container(struct container_watch *watch) {
        struct container *container = watch->container;
        struct container_watch **link = &container->watches, *before = NULL;

        while (*link != watch)
                link = &(*link)->next;
        *link = watch->next;
        containers_rest_log(container);
        if (watch->execution && container->exec == watch->execution && container->phase == CONTAINER_OPEN)
                container->containers->config.place->class->interrupt(container->place, watch->execution->n);
        if (!watch->waits)
                return;
        link = &container->first_waiting;
        while (*link != watch) {
                before = *link;
                link = &(*link)->next_waiting;
        }
        *link = watch->next_waiting;
        if (container->last_waiting == watch)
                container->last_waiting = before;
}

void container_watch_close(struct container_watch *watch) {
        struct containers *containers = watch ? watch->containers : NULL;

        if (!watch)
                return;
        pthread_mutex_lock(&containers->lock);
        if (watch->container)
                leave_container(watch);
        execution_drop(watch->execution);
        pthread_mutex_unlock(&containers->lock);
        close_descriptor(&watch->descriptor);
        free(watch);
}

bool container_watch_is_over(struct container_watch *watch) {
        struct containers *containers = watch->containers;
        bool over;

        pthread_mutex_lock(&containers->lock);
        over = !watch->container || watch->container->record.gone ||
               watch->container->record.status == CONTAINER_STOPPED ||
               watch->container->record.status == CONTAINER_EXITED;
        pthread_mutex_unlock(&containers->lock);
        return over;
}

int container_watch_read(struct container_watch *watch, uint64_t position, struct container_line *ret,
                         struct strbuf *bytes, struct error *err) {
        static const char *const names[] = { "stdout", "stderr", "berth" };
        struct containers *containers = watch->containers;
        struct container_log_record record = { 0 };
        int result = 0;

        pthread_mutex_lock(&containers->lock);
        if (watch->container && !watch->container->record.gone) {
                result = container_log_ready(watch->container, err);
                if (result == 0)
                        result = container_log_read(watch->container->log, position, &record, bytes, err);
        }
        pthread_mutex_unlock(&containers->lock);
        if (result == 1)
                *ret = (struct container_line){ .at_ms = record.at_ms,
                                                .stream = names[record.stream],
                                                .next = record.next,
                                                .gap = record.gap };
        return result;
}

/* --- more that runs in it --- */

/* A command as a line of sh: each text in quotes, those in it by themselves. */
static void quote_command(const json_t *command, struct strbuf *to) {
        const json_t *item;
        size_t index;

        strbuf_append(to, "exec");
        json_array_foreach (command, index, item) {
                strbuf_append(to, " '");
                for (const char *at = json_string_value(item); *at; at++) {
                        if (*at == '\'')
                                strbuf_append(to, "'\\''");
                        else
                                strbuf_append_char(to, *at);
                }
                strbuf_append_char(to, '\'');
        }
}

static int wait_in_line(struct container_watch *watch, const struct engine_code *code,
                        struct problem *problem) {
        struct container *container = watch->container;
        size_t waiting = 0;

        if (!container || container->record.gone)
                return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such container");
        /* If this server has yet to find its container again, it waits for that. */
        if (container->rejoins ? container->record.status != CONTAINER_RUNNING || container->record.stops
                               : container->phase != CONTAINER_OPEN || container->command == 0 ||
                                         container->ends || container->stops_ms)
                return problem_set(problem, PROBLEM_NOT_RUNNING,
                                   "the container is %s: code runs in one that runs",
                                   container->record.status == CONTAINER_RUNNING
                                           ? "not in reach now, since it ends, or its server has just started"
                                           : container_status_name(container));
        for (const struct container_watch *other = container->first_waiting; other;
             other = other->next_waiting)
                waiting++;
        if (waiting >= ENGINE_QUEUE_MAX)
                return problem_set(problem, PROBLEM_QUEUE_FULL,
                                   "%zu wait already for what runs in the container, as many as may",
                                   waiting);
        watch->execution = execution_new(1, code, containers_now(container->containers));
        watch->waits = true;
        *(container->last_waiting ? &container->last_waiting->next_waiting : &container->first_waiting) =
                watch;
        container->last_waiting = watch;
        containers_wake(container->containers);
        return 0;
}

int container_watch_exec(struct container_watch *watch, const struct engine_code *code, const json_t *command,
                         struct problem *problem) {
        struct containers *containers = watch->containers;
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;
        struct engine_code asked = *code;
        int result;

        if (command && !request_is_arguments(command))
                return problem_set(problem, PROBLEM_INVALID,
                                   "command must be a list of texts, the program first");
        if (!command == !code->code)
                return problem_set(problem, PROBLEM_INVALID, "give a command or code, one of them");
        if (command) {
                quote_command(command, &line);
                asked.code = strbuf_text(&line);
                asked.code_length = line.length;
                asked.language = "sh";
        }
        if (asked.timeout_seconds == 0)
                asked.timeout_seconds = 300;
        if (check_code(&asked, problem) < 0)
                return -1;
        pthread_mutex_lock(&containers->lock);
        result = wait_in_line(watch, &asked, problem);
        pthread_mutex_unlock(&containers->lock);
        return result;
}

json_t *container_watch_result(struct container_watch *watch) {
        struct containers *containers = watch->containers;
        json_t *result = NULL;

        pthread_mutex_lock(&containers->lock);
        if (watch->execution && watch->execution->status == EXECUTION_ENDED)
                result = json_incref(watch->execution->result);
        pthread_mutex_unlock(&containers->lock);
        return result;
}
