/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     {"cleared":7,"floor":64,"formatVersion":"1","going":[],"lineage":"...","snapshots":[{"at":...,"number":64,"serial":12},...]}
 *
 * A run that dies between the write that says what goes and its going leaves that to the next: deleting again what is not there
 * does no harm.
 */
#include "state/shared_index.h"

#include "base/json.h"
#include "state/shared_form.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_FORMAT "1"
#define REMOVED_AT_ONCE 1000 /* keys of one request */

/* By rising number; the floor is one of them. */
static bool read_snapshots(const json_t *list, struct arena *arena, struct shared_index *ret) {
        size_t count = json_array_size(list);
        struct shared_snapshot *snapshots = arena_array(arena, count + 1, sizeof(*snapshots));
        bool has_floor = ret->floor == 0;

        for (size_t i = 0; i < count; i++) {
                const json_t *item = json_array_get(list, i);

                if (!shared_number_read(item, "number", &snapshots[i].number) ||
                    !shared_number_read(item, "serial", &snapshots[i].serial) ||
                    (i > 0 && snapshots[i].number <= snapshots[i - 1].number))
                        return false;
                snapshots[i].at_ms = json_integer_or(item, "at", 0);
                has_floor |= snapshots[i].number == ret->floor;
        }
        ret->snapshots = snapshots;
        ret->count = count;
        return json_is_array(list) && has_floor;
}

static bool read_going(const json_t *list, struct arena *arena, struct shared_index *ret) {
        size_t count = json_array_size(list);
        uint64_t *going = arena_array(arena, count + 1, sizeof(*going));

        for (size_t i = 0; i < count; i++) {
                const json_t *number = json_array_get(list, i);

                if (!json_is_integer(number) || json_integer_value(number) < 0)
                        return false;
                going[i] = (uint64_t)json_integer_value(number);
        }
        ret->going = going;
        ret->going_count = count;
        return json_is_array(list);
}

static int parse_index(const struct object_store *store, const struct object_answer *answer,
                       const char *lineage, struct arena *arena, struct shared_index *ret,
                       struct error *err) {
        json_t *body JSON_CLEANUP =
                json_loadb(strbuf_text(&answer->body), answer->body.length, JSON_REJECT_DUPLICATES, NULL);
        const char *format = json_text(body, "formatVersion"), *whose = json_text(body, "lineage");
        struct shared_index index = { .now_ms = answer->date_ms };

        if (format && strcmp(format, INDEX_FORMAT) != 0)
                return error_set(err, "%s/" SHARED_INDEX_KEY " is of a newer Berth: use that one",
                                 store->place);
        if (!format || !whose || !shared_number_read(body, "floor", &index.floor) ||
            !shared_number_read(body, "cleared", &index.cleared) ||
            !read_snapshots(json_object_get(body, "snapshots"), arena, &index) ||
            !read_going(json_object_get(body, "going"), arena, &index))
                return error_set(err,
                                 "%s/" SHARED_INDEX_KEY
                                 " is corrupt, or was cut off: try again; else put back an older version "
                                 "of it",
                                 store->place);
        if (strcmp(whose, lineage) != 0)
                return error_set(err,
                                 "%s/" SHARED_INDEX_KEY
                                 " belongs to another state (lineage): objects of this place were replaced "
                                 "from elsewhere. Put back the versions that belong together",
                                 store->place);
        snprintf(index.etag, sizeof(index.etag), "%s", answer->etag);
        *ret = index;
        return 0;
}

/* Bytes that make no sense may be an answer's that was cut off: they are asked for once more. */
int shared_index_read(struct object_store *store, const char *lineage, struct arena *arena,
                      struct shared_index *ret, struct error *err) {
        struct error failure = { 0 };

        for (int times = 0; times < 2; times++) {
                struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
                int outcome = store->ops->get(store, SHARED_INDEX_KEY, &answer, err);

                if (outcome == OBJECT_ABSENT) {
                        *ret = (struct shared_index){ .now_ms = answer.date_ms };
                        return 0;
                }
                if (outcome != OBJECT_DONE)
                        return -1;
                if (parse_index(store, &answer, lineage, arena, ret, &failure) == 0)
                        return 1;
        }
        *err = failure;
        return -1;
}

int shared_index_keeps(struct object_store *store, const char *lineage, uint64_t number, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_index index;

        if (shared_index_read(store, lineage, arena, &index, err) < 0)
                return -1;
        return index.floor <= number;
}

/* Writing */

static char *index_text(const struct shared_index *index, const char *lineage) {
        json_t *body JSON_CLEANUP = json_object(), *snapshots = json_checked(json_array()),
                     *going = json_checked(json_array());

        for (size_t i = 0; i < index->count; i++) {
                json_t *item = json_checked(json_object());

                json_put(item, "number", json_integer((json_int_t)index->snapshots[i].number));
                json_put(item, "serial", json_integer((json_int_t)index->snapshots[i].serial));
                json_put(item, "at", json_integer(index->snapshots[i].at_ms));
                json_add(snapshots, item);
        }
        for (size_t i = 0; i < index->going_count; i++)
                json_add(going, json_integer((json_int_t)index->going[i]));
        json_set_text(body, "formatVersion", INDEX_FORMAT);
        json_set_text(body, "lineage", lineage);
        json_put(body, "floor", json_integer((json_int_t)index->floor));
        json_put(body, "cleared", json_integer((json_int_t)index->cleared));
        json_put(body, "snapshots", snapshots);
        json_put(body, "going", going);
        return json_compact(body);
}

/* In the place of the one that was read. A lost answer counts as a failure: the next one sees which it was. */
static int write_index(struct object_store *store, const char *lineage, struct shared_index *index,
                       struct error *err) {
        struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
        char *text = index_text(index, lineage);
        size_t length = strlen(text);
        int outcome =
                *index->etag ? store->ops->put_if_match(store, SHARED_INDEX_KEY, index->etag, text, length,
                                                        &answer, err)
                             : store->ops->put_if_absent(store, SHARED_INDEX_KEY, text, length, &answer, err);

        free(text);
        if (outcome == OBJECT_MOVED || outcome == OBJECT_ABSENT)
                return error_set(err, "%s/" SHARED_INDEX_KEY " was changed meanwhile", store->place);
        if (outcome != OBJECT_DONE)
                return -1;
        snprintf(index->etag, sizeof(index->etag), "%s", answer.etag);
        return 0;
}

/* The part that is kept */

static uint64_t floor_of(const struct shared_index *index) {
        uint64_t floor = index->floor;

        for (size_t i = 0; i < index->count; i++) {
                const struct shared_snapshot *snapshot = &index->snapshots[i];

                if (index->now_ms > 0 && snapshot->at_ms > 0 &&
                    index->now_ms - snapshot->at_ms >= SHARED_KEEP_MS && snapshot->number > floor)
                        floor = snapshot->number;
        }
        return floor;
}

/* The newest, the floor, and the last of each day; the others go. Both lists are in order. */
static void thin_out(struct shared_index *index, struct arena *arena) {
        size_t count = index->count, kept = 0;
        struct shared_snapshot *stay = arena_array(arena, count + 1, sizeof(*stay));
        uint64_t *going = arena_array(arena, count + index->going_count + 1, sizeof(*going));

        if (index->going_count > 0)
                memcpy(going, index->going, index->going_count * sizeof(*going));
        for (size_t i = 0; i < count; i++) {
                const struct shared_snapshot *snapshot = &index->snapshots[i];
                bool last_of_day = i + 1 == count || snapshot->at_ms / SHARED_DAY_MS !=
                                                             index->snapshots[i + 1].at_ms / SHARED_DAY_MS;

                if (snapshot->number >= index->floor &&
                    (last_of_day || snapshot->number == index->floor || i + SHARED_SNAPSHOTS_NEWEST >= count))
                        stay[kept++] = *snapshot;
                else
                        going[index->going_count++] = snapshot->number;
        }
        index->snapshots = stay;
        index->count = kept;
        index->going = going;
}

int shared_index_note(const struct shared_log *log, uint64_t serial, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_index index;
        struct shared_snapshot *snapshots;

        if (shared_index_read(log->store, log->lineage, arena, &index, err) < 0)
                return -1;
        if (index.count > 0 && index.snapshots[index.count - 1].number >= log->number)
                return 0;
        snapshots = arena_array(arena, index.count + 1, sizeof(*snapshots));
        if (index.count > 0)
                memcpy(snapshots, index.snapshots, index.count * sizeof(*snapshots));
        snapshots[index.count++] = (struct shared_snapshot){ log->number, serial, index.now_ms };
        index.snapshots = snapshots;
        index.floor = floor_of(&index);
        thin_out(&index, arena);
        return write_index(log->store, log->lineage, &index, err);
}

/* Deleting */

struct removal {
        struct object_store *store;
        char keys[REMOVED_AT_ONCE][SHARED_KEY_SIZE];
        const char *names[REMOVED_AT_ONCE];
        size_t count;
};

static int remove_gathered(struct removal *removal, struct error *err) {
        size_t count = removal->count;

        removal->count = 0;
        if (count == 0)
                return 0;
        return removal->store->ops->remove(removal->store, removal->names, count, err) == OBJECT_DONE ? 0
                                                                                                      : -1;
}

static int remove_later(struct removal *removal, const char *prefix, uint64_t number, struct error *err) {
        shared_log_key(prefix, number, removal->keys[removal->count]);
        removal->names[removal->count] = removal->keys[removal->count];
        removal->count++;
        return removal->count == REMOVED_AT_ONCE ? remove_gathered(removal, err) : 0;
}

/* The floor's own entry stays: a snapshot is believed beside its entry alone. */
static int remove_all(struct removal *removal, const struct shared_index *index, struct error *err) {
        for (uint64_t number = index->cleared > 0 ? index->cleared : 1; number < index->floor; number++) {
                if (remove_later(removal, SHARED_LOG_PREFIX, number, err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < index->going_count; i++) {
                if (remove_later(removal, SHARED_SNAPSHOT_PREFIX, index->going[i], err) < 0)
                        return -1;
        }
        return remove_gathered(removal, err);
}

int shared_index_clear(const struct shared_log *log, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_index index;
        struct removal *removal;
        int found = shared_index_read(log->store, log->lineage, arena, &index, err);

        if (found <= 0)
                return found;
        if (index.floor > log->number)
                return error_set(err, "%s/" SHARED_INDEX_KEY " is ahead of the log", log->store->place);
        if (index.going_count == 0 && index.cleared >= index.floor)
                return 0;
        removal = arena_alloc(arena, sizeof(*removal));
        removal->store = log->store;
        if (remove_all(removal, &index, err) < 0)
                return -1;
        index.cleared = index.floor;
        index.going_count = 0;
        return write_index(log->store, log->lineage, &index, err);
}
