/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of this place is a line of events and a memory. The engine's thread asks and hears, and never waits here; a thread of the
 * session's own (place_run.c) does what was asked, one thing after the other, and puts what comes of it at the end of the line.
 */
#include "base/json.h"
#include "base/log.h"
#include "providers/aws/session/place_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RUNNING_MAX 256
#define THROTTLED_MS 60000
/*
 * Whatever an invocation's result may still need after its code's own time: see
 * invocation_deadline_ms().
 */
#define CONTEXTS_MAX PLACE_CONTEXTS_MAX

/* --- what is remembered --- */

void place_memory_begin(struct place_memory *memory, const json_t *note) {
        const json_t *checkpoint = json_object_get(note, "checkpoint"), *generation;
        const char *boot = json_text(note, "boot"), *digest = json_text(checkpoint, "sha256");
        const char *lacks = json_text(note, "lacks"), *name;
        json_t *contexts = json_object_get(note, "contexts");

        *memory = (struct place_memory){ .n = json_integer_or(note, "n", 0),
                                         .contexts = json_checked(json_object()) };
        if (boot && strlen(boot) == INVOCATION_BOOT_SIZE - 1)
                memcpy(memory->boot, boot, INVOCATION_BOOT_SIZE);
        json_object_foreach (contexts, name, generation) {
                if (content_is_context(name) && json_integer_value(generation) > 0 &&
                    json_object_size(memory->contexts) < CONTEXTS_MAX)
                        json_put(memory->contexts, name, json_integer(json_integer_value(generation)));
        }
        if (digest && strlen(digest) == sizeof(memory->checkpoint.digest) - 1) {
                memcpy(memory->checkpoint.digest, digest, sizeof(memory->checkpoint.digest));
                memory->checkpoint.bytes = (uint64_t)json_integer_or(checkpoint, "bytes", 0);
                memory->checkpoint_n = json_integer_or(checkpoint, "n", 0);
        }
        snprintf(memory->lacks, sizeof(memory->lacks), "%s", lacks ? lacks : "");
}

json_t *place_memory_note(const struct place_memory *memory) {
        json_t *note = json_checked(
                json_pack("{s:I, s:O}", "n", (json_int_t)memory->n, "contexts", memory->contexts));

        if (memory->boot[0])
                json_put(note, "boot", json_string(memory->boot));
        if (memory->checkpoint.digest[0])
                json_put(note, "checkpoint",
                         json_pack("{s:I, s:s, s:I}", "n", (json_int_t)memory->checkpoint_n, "sha256",
                                   memory->checkpoint.digest, "bytes", (json_int_t)memory->checkpoint.bytes));
        if (memory->lacks[0])
                json_put(note, "lacks", json_from_text(memory->lacks));
        return note;
}

void place_memory_release(struct place_memory *memory) {
        json_decref(memory->contexts);
        memory->contexts = NULL;
}

/* --- the line of events --- */

struct place_item *place_item_new(enum place_event_type type, int64_t n) {
        struct place_item *item = calloc(1, sizeof(*item));

        if (!item)
                abort();
        item->event = (struct place_event){ .type = type, .n = n, .exit_code = -1 };
        item->bytes = sizeof(*item);
        return item;
}

void place_item_free(struct place_item *item) {
        if (!item)
                return;
        message_release(&item->message);
        json_decref(item->note);
        arena_free(item->arena);
        free(item);
}

/* With the lock. */
void place_wake(struct place_session *session) {
        const uint64_t one = 1;

        if (write(session->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
                abort();
}

int place_say(struct place_session *session, struct place_item *item) {
        pthread_mutex_lock(&session->lock);
        /* The answer waits in its connection then, and the code in its next print. */
        while (session->item_bytes > PLACE_UNHEARD_MAX && interrupt_level(&session->left) == INTERRUPT_NONE)
                pthread_cond_wait(&session->changed, &session->lock);
        if (interrupt_level(&session->left) != INTERRUPT_NONE) {
                pthread_mutex_unlock(&session->lock);
                place_item_free(item);
                return -1;
        }
        item->event.id = ++session->last_id;
        if (item->event.type == PLACE_DONE || item->event.type == PLACE_RESTARTED)
                session->drops_id = item->event.id;
        *(session->last_item ? &session->last_item->next : &session->first_item) = item;
        session->last_item = item;
        session->item_bytes += item->bytes;
        place_wake(session);
        pthread_mutex_unlock(&session->lock);
        return 0;
}

/* With the lock. */
static struct place_item *take_item(struct place_session *session) {
        struct place_item *item = session->first_item;

        if (!item)
                return NULL;
        session->first_item = item->next;
        if (!session->first_item)
                session->last_item = NULL;
        session->item_bytes -= item->bytes;
        pthread_cond_broadcast(&session->changed);
        return item;
}

static int next(struct place_session *session, struct place_event *ret, struct error *err) {
        struct place_item *item;
        uint64_t ignored;

        (void)err;
        *ret = (struct place_event){ .type = PLACE_NOTHING };
        place_item_free(session->given);
        session->given = NULL;
        pthread_mutex_lock(&session->lock);
        if (!session->said_opened) {
                session->said_opened = true;
                *ret = (struct place_event){ .type = PLACE_OPENED,
                                             .kept = session->kept,
                                             .last = session->last };
        } else if ((item = take_item(session))) {
                session->given = item;
                *ret = item->event;
        } else if (session->ending && session->jobs == 0 && !session->said_ended) {
                session->said_ended = true;
                *ret = (struct place_event){ .type = PLACE_ENDED };
        } else if (read(session->wake, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN) {
                abort();
        }
        pthread_mutex_unlock(&session->lock);
        return 0;
}

/* --- what is asked --- */

void place_task_free(struct place_task *task) {
        if (!task)
                return;
        json_decref(task->variables);
        interrupt_dispose(&task->stop);
        arena_free(task->arena);
        free(task);
}

static struct place_task *task_new(const struct place_execution *execution, struct error *err) {
        struct place_task *task = calloc(1, sizeof(*task));
        struct place_execution *copy;

        if (!task)
                abort();
        if (interrupt_init(&task->stop, err) < 0) {
                free(task);
                return NULL;
        }
        task->arena = arena_new();
        copy = &task->execution;
        *copy = *execution;
        copy->context = arena_strdup(task->arena, execution->context);
        copy->code =
                arena_strndup(task->arena, execution->code ? execution->code : "", execution->code_length);
        copy->input = execution->input ? arena_strndup(task->arena, execution->input, execution->input_length)
                                       : NULL;
        copy->staged = arena_strdup(task->arena, execution->staged);
        task->variables = execution->variables ? json_checked(json_deep_copy(execution->variables)) : NULL;
        copy->variables = task->variables;
        return task;
}

/* Without the lock: makes sure that a thread works on the requests. */
static void have_it_done(struct place_session *session) {
        bool begins;

        pthread_mutex_lock(&session->lock);
        begins = !session->works;
        session->works = true;
        pthread_mutex_unlock(&session->lock);
        if (begins)
                place_jobs_add(session->place, session, place_run, false);
}

static int queue_execution(struct place_session *session, const struct place_execution *execution,
                           struct error *err) {
        int result = 0;

        pthread_mutex_lock(&session->lock);
        if (session->ending) {
                result = error_set_kind(err, ERROR_UNREACHABLE, "the session is being ended");
        } else if (session->task) {
                result = error_set(err, "something runs in the session already");
        } else if (!(session->task = task_new(execution, err))) {
                result = -1;
        } else {
                session->running = execution->n;
                session->interrupted = session->sent = false;
        }
        pthread_mutex_unlock(&session->lock);
        if (result == 0)
                have_it_done(session);
        return result;
}

/* What Lambda does not have yet is not sent any more; what it has looks for an object. */
static void interrupt_running(struct place_session *session, int64_t n) {
        bool puts;

        pthread_mutex_lock(&session->lock);
        puts = session->running > 0 && (n == 0 || session->running == n) && !session->interrupted;
        if (puts) {
                session->interrupted = true;
                interrupt_raise_to(&session->task->stop, INTERRUPT_NOW);
        }
        puts = puts && session->sent;
        pthread_mutex_unlock(&session->lock);
        if (puts)
                place_jobs_add(session->place, session, place_run_interrupt, true);
}

static void interrupt_execution(struct place_session *session, int64_t n) {
        interrupt_running(session, n);
}

static int queue_restart(struct place_session *session, const char *context, struct error *err) {
        (void)err;
        pthread_mutex_lock(&session->lock);
        if (!session->restarts)
                session->restarts = json_checked(json_array());
        if (json_array_size(session->restarts) < CONTEXTS_MAX)
                json_add(session->restarts, json_string(context));
        pthread_mutex_unlock(&session->lock);
        interrupt_running(session, 0);
        have_it_done(session);
        return 0;
}

/*
 * There is nothing to be kept that is not in the bucket already, and Lambda ends its environments by itself. So who parks a session forgets it,
 * and an environment that lives when it is wanted again has its memory still.
 */
static int park(struct place_session *session, struct error *err) {
        struct place_item *item;
        bool busy;

        pthread_mutex_lock(&session->lock);
        busy = session->works || session->ending;
        pthread_mutex_unlock(&session->lock);
        if (busy)
                return error_set_kind(err, ERROR_REFUSED, "something runs in the session");
        item = place_item_new(PLACE_PARKED, 0);
        item->event.checkpoint = session->memory.checkpoint;
        return place_say(session, item);
}

/* Lambda keeps environments as long as it likes, a session's or not. */
static void expire(struct place_session *session, const struct place_life *life) {
        (void)session;
        (void)life;
}

/* What an end had needed of the bucket until it was written down, and the checkpoint before it, go. */
static void heard(struct place_session *session, uint64_t id) {
        bool drops;

        pthread_mutex_lock(&session->lock);
        drops = id >= session->drops_id && json_array_size(session->drops) > 0;
        pthread_mutex_unlock(&session->lock);
        if (drops)
                place_jobs_add(session->place, session, place_run_drop, true);
}

static void end_session(struct place_session *session) {
        interrupt_running(session, 0);
        pthread_mutex_lock(&session->lock);
        session->ending = true;
        place_wake(session);
        pthread_mutex_unlock(&session->lock);
}

static int descriptor(const struct place_session *session) {
        return session->wake;
}

static int64_t patience_ms(const struct place_session *session) {
        (void)session;
        return -1;
}

/* --- life --- */

static void session_free(struct place_session *session) {
        struct place_item *item;

        while ((item = take_item(session)))
                place_item_free(item);
        place_item_free(session->given);
        place_task_free(session->task);
        json_decref(session->restarts);
        json_decref(session->drops);
        place_memory_release(&session->memory);
        if (session->wake >= 0)
                close(session->wake);
        interrupt_dispose(&session->left);
        pthread_cond_destroy(&session->changed);
        pthread_mutex_destroy(&session->lock);
        arena_free(session->arena);
        free(session);
}

/*
 * An execution goes on at Lambda, and leaves its result in the bucket, for the next server that
 * opens the session.
 */
static void leave(struct place_session *session) {
        if (!session)
                return;
        interrupt_raise_to(&session->left, INTERRUPT_NOW);
        pthread_mutex_lock(&session->lock);
        if (session->task)
                interrupt_raise_to(&session->task->stop, INTERRUPT_NOW);
        pthread_cond_broadcast(&session->changed);
        while (session->jobs > 0)
                pthread_cond_wait(&session->changed, &session->lock);
        pthread_mutex_unlock(&session->lock);
        session_free(session);
}

/*
 * Another server has begun it, and may have died before Lambda had it, or long after: its result
 * decides.
 */
static struct place_task *awaited(const struct place_opening *opening, struct error *err) {
        const struct place_execution execution = { .n = opening->running, .context = "main" };
        struct place_task *task = task_new(&execution, err);

        if (!task)
                return NULL;
        task->only_await = true;
        task->await_ms = opening->running_ms;
        return task;
}

static int check_environment(struct aws_place *place, const char *name, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_place_environment environment;

        if (place->config.find(place->config.context, name, arena, &environment, err) < 0)
                return -1;
        if (environment.tenants || place->config.allow_shared)
                return 0;
        return error_set_kind(
                err, ERROR_REFUSED,
                "the function %s of the environment %s has no tenant isolation, so sessions would share "
                "environments: set tenantIsolation: true for a new one, or, where all owners trust one "
                "another, sessions.allowShared: true in the server's file",
                environment.function, name);
}

static int open_lambda_session(struct place *base, const struct place_opening *opening,
                               struct place_session **ret, struct error *err) {
        struct aws_place *place = (struct aws_place *)base;
        struct place_session *session;

        if (opening->only_living && opening->running == 0 && (opening->parked || !opening->note))
                return error_set_kind(err, ERROR_NOT_FOUND, "nothing of it has to be found");
        if (!opening->only_living && check_environment(place, opening->environment, err) < 0)
                return -1;
        session = calloc(1, sizeof(*session));
        if (!session)
                abort();
        *session = (struct place_session){
                .place = place, .arena = arena_new(), .left.reached = { -1, -1 }, .wake = -1
        };
        pthread_mutex_init(&session->lock, NULL);
        pthread_cond_init(&session->changed, NULL);
        if (interrupt_init(&session->left, err) < 0 ||
            ((session->wake = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 &&
             error_set(err, "cannot make a descriptor to be woken by: %s", strerror(errno)) < 0)) {
                session_free(session);
                return -1;
        }
        session->id = arena_strdup(session->arena, opening->id);
        session->owner = arena_strdup(session->arena, opening->owner);
        session->environment = arena_strdup(session->arena, opening->environment);
        session->checkpoint_bytes_max = (int64_t)opening->checkpoint_bytes_max;
        session->checkpoint_ms = opening->checkpoint_ms;
        session->may_begin = opening->may_begin;
        session->may_begin_context = opening->may_begin_context;
        place_memory_begin(&session->memory, opening->note);
        session->kept = opening->note || opening->running > 0;
        session->last = opening->running > 0 ? opening->running : session->memory.n;
        if (opening->running > 0) {
                session->task = awaited(opening, err);
                if (!session->task) {
                        session_free(session);
                        return -1;
                }
                session->running = opening->running;
                session->sent = true;
                have_it_done(session);
        }
        *ret = session;
        return 0;
}

/*
 * Objects that a session has pushed and that were not reported count for its owner from then on:
 * nothing else looks at them before a list does.
 */
static int clear(struct place *base, const char *id, struct error *err) {
        struct aws_place *place = (struct aws_place *)base;
        const struct workspace_bucket where = { place->config.client, place->config.bucket,
                                                place->config.stack };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_index ignored;
        struct error uncounted;

        if (place_run_clear(place, id, err) < 0)
                return -1;
        if (workspace_index_check(&where, id, 0, NULL, arena, &ignored, &uncounted) < 0)
                log_warning("session %s: its files could not be counted at its end: %s", id,
                            uncounted.message);
        return 0;
}

static void close_place(struct place *base) {
        struct aws_place *place = (struct aws_place *)base;

        place_jobs_stop(place);
        aws_client_close(place->config.client);
        arena_free(place->arena);
        free(place);
}

static const struct place_class class = {
        .counts_generations = true,
        .open = open_lambda_session,
        .descriptor = descriptor,
        .patience_ms = patience_ms,
        .next = next,
        .execute = queue_execution,
        .interrupt = interrupt_execution,
        .restart = queue_restart,
        .park = park,
        .expire = expire,
        .heard = heard,
        .end = end_session,
        .leave = leave,
        .clear = clear,
        .close = close_place,
};

int aws_place_open(const struct aws_place_config *config, struct place **ret, struct error *err) {
        struct aws_place *place = calloc(1, sizeof(*place));

        if (!place)
                abort();
        place->place.class = &class;
        place->config = *config;
        place->arena = arena_new();
        place->config.bucket.name = arena_strdup(place->arena, config->bucket.name);
        place->config.bucket.account = arena_strdup(place->arena, config->bucket.account);
        place->config.stack = arena_strdup(place->arena, config->stack);
        if (place->config.running_max == 0)
                place->config.running_max = RUNNING_MAX;
        if (place->config.throttled_ms == 0)
                place->config.throttled_ms = THROTTLED_MS;
        if (place_jobs_start(place, err) < 0) {
                close_place(&place->place);
                return -1;
        }
        *ret = &place->place;
        return 0;
}
