/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process can open a state in a folder only once at a time: a reader waits for the one before it,
 * and closes the state again. Whether it can be read is asked each second: one whose files are as
 * they were is not opened for that. A shared one stays open, until a thread has opened it again:
 * then the newer one takes its place.
 */
#include "broker/service/applied.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DOWNLOAD_MB 25
#define READ_MS 5000     /* the interval at which a shared state is read */
#define RECHECK_MS 60000 /* a disk may fail under a state that is not written */

struct applied {
        pthread_mutex_t lock; /* of the state's being open */
        char *folder;         /* NULL: it is shared, and all below is in use */
        applied_open_state *open;
        void *context;
        struct state_mark
                checked;    /* of a folder's state: as it was when it could be read; all zeroes: never */
        int64_t checked_ms; /* when that was, monotonic */
        struct state *kept; /* NULL: it could not be read yet */
        struct error why;   /* the last try's; no message: it was read */
        pthread_t thread;
        pthread_cond_t changed;
        bool ends;
};

/* Read in one go, while the state is open. */
struct reading {
        struct record *records;
        struct binding *bindings;
        size_t record_count, binding_count;
};

struct applied *applied_new(const char *folder) {
        struct applied *applied = calloc(1, sizeof(*applied));

        if (!applied || !(applied->folder = strdup(folder)) || pthread_mutex_init(&applied->lock, NULL) != 0)
                abort();
        return applied;
}

/* The last reader of the older one closes it: that reader has the lock. */
static void read_anew(struct applied *applied) {
        struct state *state = NULL, *old = NULL;
        struct error why = { 0 };
        bool told;

        if (applied->open(applied->context, &state, &why) == 0)
                why.message[0] = '\0';
        pthread_mutex_lock(&applied->lock);
        told = strcmp(why.message, applied->why.message) == 0;
        applied->why = why;
        if (state) {
                old = applied->kept;
                applied->kept = state;
        }
        pthread_mutex_unlock(&applied->lock);
        state_close(old);
        if (!told && why.message[0])
                log_warning("what was applied cannot be read again: %s", why.message);
        else if (!told)
                log_info("what was applied can be read again");
}

static void *follow(void *context) {
        struct applied *applied = context;

        pthread_mutex_lock(&applied->lock);
        while (!applied->ends) {
                const struct timespec next = clock_after_ms(READ_MS);

                if (pthread_cond_timedwait(&applied->changed, &applied->lock, &next) == 0 || applied->ends)
                        continue;
                pthread_mutex_unlock(&applied->lock);
                read_anew(applied);
                pthread_mutex_lock(&applied->lock);
        }
        pthread_mutex_unlock(&applied->lock);
        return NULL;
}

struct applied *applied_new_shared(applied_open_state *open, void *context) {
        struct applied *applied = calloc(1, sizeof(*applied));
        pthread_condattr_t attributes;

        if (!applied || pthread_mutex_init(&applied->lock, NULL) != 0 ||
            pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&applied->changed, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
        applied->open = open;
        applied->context = context;
        read_anew(applied);
        if (pthread_create(&applied->thread, NULL, follow, applied) != 0)
                abort();
        return applied;
}

bool applied_is_shared(const struct applied *applied) {
        return !applied->folder;
}

static void end_following(struct applied *applied) {
        pthread_mutex_lock(&applied->lock);
        applied->ends = true;
        pthread_cond_signal(&applied->changed);
        pthread_mutex_unlock(&applied->lock);
        pthread_join(applied->thread, NULL);
        pthread_cond_destroy(&applied->changed);
        state_close(applied->kept);
}

void applied_free(struct applied *applied) {
        if (!applied)
                return;
        if (applied_is_shared(applied))
                end_following(applied);
        pthread_mutex_destroy(&applied->lock);
        free(applied->folder);
        free(applied);
}

static int open_state(struct applied *applied, struct state **ret, struct error *err) {
        pthread_mutex_lock(&applied->lock);
        if (applied_is_shared(applied)) {
                *ret = applied->kept;
                if (*ret)
                        return 0;
                *err = applied->why;
        } else if (state_open(applied->folder, STATE_READ, ret, err) == 0) {
                if (state_check_lives(*ret, err) == 0)
                        return 0;
                state_close(*ret);
        }
        pthread_mutex_unlock(&applied->lock);
        return -1;
}

static void close_state(struct applied *applied, struct state *state) {
        if (!applied_is_shared(applied))
                state_close(state);
        pthread_mutex_unlock(&applied->lock);
}

static int read_records(struct applied *applied, struct arena *arena, struct reading *ret,
                        struct error *err) {
        struct state *state;
        int result;

        if (open_state(applied, &state, err) < 0)
                return -1;
        result = state_load_records(state, arena, &ret->records, &ret->record_count, err);
        if (result == 0)
                result = state_load_bindings(state, arena, &ret->bindings, &ret->binding_count, err);
        close_state(applied, state);
        return result;
}

static int compare_bindings(const void *a, const void *b) {
        return strcmp(((const struct binding *)a)->dependent, ((const struct binding *)b)->dependent);
}

/* The binding stays when the agent is taken out of service; its spec has no environment then. */
static const struct binding *binding_of(const struct reading *reading, const char *address) {
        const struct binding wanted = { .dependent = address };

        return reading->binding_count ? bsearch(&wanted, reading->bindings, reading->binding_count,
                                                sizeof(wanted), compare_bindings)
                                      : NULL;
}

int applied_agents(struct applied *applied, struct arena *arena, struct applied_agent **ret,
                   size_t *ret_count, struct error *err) {
        struct reading reading = { 0 };
        struct applied_agent *agents;
        size_t count = 0;

        if (read_records(applied, arena, &reading, err) < 0)
                return -1;
        if (reading.binding_count > 1)
                qsort(reading.bindings, reading.binding_count, sizeof(*reading.bindings), compare_bindings);
        agents = arena_array(arena, reading.record_count + 1, sizeof(*agents));
        for (size_t i = 0; i < reading.record_count; i++) {
                struct record *record = &reading.records[i];
                const struct binding *binding;
                const char *type;

                if (!text_begins_with(record->address, "Agent/"))
                        continue;
                if (record_decode(record, arena, err) < 0)
                        return -1;
                binding = binding_of(&reading, record->address);
                type = value_get_text(record->spec, "type");
                agents[count++] = (struct applied_agent){
                        .name = strchr(record->address, '/') + 1,
                        .type = type ? type : "general",
                        .environment =
                                binding ? binding->environment : value_get_text(record->spec, "environment"),
                        .in_service = value_get_boolean(record->spec, "active", true) &&
                                      (!binding || binding->active),
                        .limits = value_get(record->spec, "limits"),
                        .labels = value_get(record->spec, "labels"),
                        .applied_ms = record->applied_ms,
                };
        }
        *ret = agents;
        *ret_count = count;
        return 0;
}

int applied_environments(struct applied *applied, struct arena *arena, struct applied_environment **ret,
                         size_t *ret_count, struct error *err) {
        struct reading reading = { 0 };
        struct applied_environment *environments;
        size_t count = 0;

        if (read_records(applied, arena, &reading, err) < 0)
                return -1;
        environments = arena_array(arena, reading.record_count + 1, sizeof(*environments));
        for (size_t i = 0; i < reading.record_count; i++) {
                struct record *record = &reading.records[i];

                if (!text_begins_with(record->address, "Environment/"))
                        continue;
                if (record_decode(record, arena, err) < 0)
                        return -1;
                environments[count++] =
                        (struct applied_environment){ strchr(record->address, '/') + 1, record->spec,
                                                      record->applied_ms, record->incomplete };
        }
        *ret = environments;
        *ret_count = count;
        return 0;
}

int applied_map(struct applied *applied, struct arena *arena, struct map *ret, struct error *err) {
        struct state *state;
        int result;

        if (open_state(applied, &state, err) < 0)
                return -1;
        result = map_load(state, NULL, arena, ret, err);
        close_state(applied, state);
        return result;
}

int applied_stack(struct applied *applied, struct arena *arena, struct applied_stack *ret,
                  struct error *err) {
        struct record *records;
        struct state *state;
        size_t count;
        int result;

        if (open_state(applied, &state, err) < 0)
                return -1;
        result = state_load_records(state, arena, &records, &count, err);
        ret->lineage = arena_strdup(arena, state_lineage(state));
        close_state(applied, state);
        for (size_t i = 0; result == 0 && i < count; i++) {
                if (!text_begins_with(records[i].address, "Stack/"))
                        continue;
                if (record_decode(&records[i], arena, err) < 0)
                        return -1;
                ret->name = strchr(records[i].address, '/') + 1;
                ret->provider = records[i].provider;
                ret->spec = records[i].spec;
                return 0;
        }
        return result < 0 ? -1 : error_set_kind(err, ERROR_NOT_FOUND, "no stack was applied yet");
}

static bool policy_reaches(const struct value *spec, const char *environment) {
        const struct value *names = value_get(spec, "environments");

        for (uint32_t i = 0; names && i < names->count; i++) {
                if (strcmp(value_text_of(&names->items[i]), environment) == 0)
                        return true;
        }
        return value_get_boolean(value_get(spec, "selector"), "all", false);
}

int applied_download_max(struct applied *applied, const char *environment, uint64_t *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct reading reading = { 0 };
        int64_t least = 0;

        if (read_records(applied, arena, &reading, err) < 0)
                return -1;
        for (size_t i = 0; i < reading.record_count; i++) {
                struct record *record = &reading.records[i];
                int64_t most;

                if (!text_begins_with(record->address, "WorkspacePolicy/"))
                        continue;
                if (record_decode(record, arena, err) < 0)
                        return -1;
                if (!policy_reaches(record->spec, environment))
                        continue;
                most = value_get_integer(record->spec, "maxDownloadFileMB", DOWNLOAD_MB);
                least = least == 0 || most < least ? most : least;
        }
        *ret = (uint64_t)(least ? least : DOWNLOAD_MB) * 1024 * 1024;
        return 0;
}

int applied_check(struct applied *applied, struct error *err) {
        int64_t now_ms = clock_now_ms();
        struct state_mark now = { 0 };
        struct state *state;
        bool same, told = !applied_is_shared(applied) && state_mark_take(applied->folder, &now);
        int result = 0;

        /* To open it reads all of it. */
        pthread_mutex_lock(&applied->lock);
        same = told && state_mark_is(&applied->checked, &now) && now_ms - applied->checked_ms < RECHECK_MS;
        pthread_mutex_unlock(&applied->lock);
        if (same)
                return 0;
        if (open_state(applied, &state, err) < 0)
                return -1;
        applied->checked = now;
        applied->checked_ms = now_ms;
        if (applied_is_shared(applied) && applied->why.message[0]) {
                *err = applied->why;
                result = -1;
        }
        close_state(applied, state);
        return result;
}
