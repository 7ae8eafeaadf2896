/* SPDX-License-Identifier: Apache-2.0 */
/* All sessions that somebody may see: as they are in memory, or in a store that servers share as that has them. */
#include "sessions/engine_parts.h"
#include "sessions/session_far.h"

#include "base/array.h"
#include "base/json.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_labels(const json_t *labels, const char *const *wanted) {
        for (; wanted && *wanted; wanted++) {
                const char *equals = strchr(*wanted, '=');
                size_t length = equals ? (size_t)(equals - *wanted) : strlen(*wanted);
                json_t *value = json_object_getn(labels, *wanted, length);

                if (!value || (equals && strcmp(json_string_value(value), equals + 1) != 0))
                        return false;
        }
        return true;
}

/* "MILLISECONDS.ID" of the last item that was given. */
static int read_cursor(const char *cursor, int64_t *ret_ms, const char **ret_id, struct problem *problem) {
        char *end = NULL;

        *ret_ms = cursor ? strtoll(cursor, &end, 10) : -1;
        *ret_id = cursor ? end + 1 : "";
        if (cursor && (end == cursor || *end != '.' || !record_is_id(end + 1)))
                return problem_set(problem, PROBLEM_INVALID,
                                   "invalid cursor: use the one from the previous page");
        return 0;
}

static bool fits(const struct engine *engine, const struct engine_caller *caller,
                 const struct engine_filter *filter, const struct session *session) {
        const struct record_session *record = &session->record;

        return session_lives(session) && session_expires_ms(session) > engine_now(engine) &&
               ((filter->all_owners && caller->observes) ||
                (caller->owner && strcmp(record->owner, caller->owner) == 0)) &&
               engine_may_use(caller, record->environment, record->agent) &&
               text_is_permitted(session_status(session), filter->statuses) &&
               text_is_permitted(record->environment, filter->environments) &&
               text_is_permitted(record->agent, filter->agents) &&
               has_labels(record->labels, filter->labels) &&
               (!filter->conversation ||
                (record->conversation && strcmp(record->conversation, filter->conversation) == 0));
}

static int compare_listed(const void *a, const void *b) {
        const struct record_session *one = &((const struct engine_listed *)a)->session.record;
        const struct record_session *other = &((const struct engine_listed *)b)->session.record;

        if (one->created_ms != other->created_ms)
                return one->created_ms < other->created_ms ? -1 : 1;
        return strcmp(one->id, other->id);
}

void engine_list_release(struct engine_listed *listed, size_t count) {
        for (size_t i = 0; i < count; i++)
                record_dispose(&listed[i].session.record);
        array_free_alone(listed);
}

/* All of an owner's, or of everybody's, as the store has them. */
int engine_list_stored(struct engine *engine, const char *owner, struct engine_listed **ret,
                       size_t *ret_count, struct problem *problem) {
        struct arena *kept ARENA_CLEANUP = arena_new();
        const char *prefix = owner ? record_session_prefix(owner, kept) : "", *after = NULL;
        struct engine_listed *listed = NULL;
        size_t total = 0, count;

        do {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct session_item *items = NULL;
                struct record_session record;
                struct error err;
                int found;

                pthread_mutex_unlock(&engine->lock);
                found = session_store_list(engine->config.store, SESSION_TABLE_SESSIONS, prefix, after, false,
                                           ENGINE_LIST_MAX, arena, &items, &count, &err);
                for (size_t i = 0; found == 0 && i < count; i++) {
                        after = arena_strdup(kept, items[i].key);
                        if (*after == RECORD_OTHERS)
                                continue;
                        found = record_from_text(&items[i], &record, &err);
                        if (found < 0)
                                break;
                        listed = array_grow_alone(listed, total, sizeof(*listed));
                        listed[total++] =
                                (struct engine_listed){ { .engine = engine, .record = record, .far = true } };
                }
                pthread_mutex_lock(&engine->lock);
                if (found < 0) {
                        engine_list_release(listed, total);
                        return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
                }
        } while (count == ENGINE_LIST_MAX);
        if (total > 0)
                qsort(listed, total, sizeof(*listed), compare_listed);
        *ret = listed;
        *ret_count = total;
        return 0;
}

/* One page of what a list gives, as it grows. */
struct page {
        size_t limit, count;
        int64_t after_ms;
        const char *after_id;
        json_t *items, *cursor;
        int64_t last_ms;
        char last_id[ENGINE_ID_SIZE];
};

/* False: there is no more room, and the cursor is the one of what came last. */
static bool add_to_page(const struct engine *engine, const struct engine_caller *caller,
                        const struct engine_filter *filter, const struct session *session,
                        struct page *page) {
        const struct record_session *record = &session->record;
        char text[64];

        if (record->created_ms < page->after_ms ||
            (record->created_ms == page->after_ms && strcmp(record->id, page->after_id) <= 0) ||
            !fits(engine, caller, filter, session))
                return true;
        if (page->count == page->limit) {
                snprintf(text, sizeof(text), "%lld.%s", (long long)page->last_ms, page->last_id);
                page->cursor = json_checked(json_string(text));
                return false;
        }
        json_add(page->items, session_json(session));
        page->last_ms = record->created_ms;
        memcpy(page->last_id, record->id, sizeof(page->last_id));
        page->count++;
        return true;
}

/* What this server holds it knows better than the record. */
static int list_stored(struct engine *engine, const struct engine_caller *caller,
                       const struct engine_filter *filter, struct page *page, struct problem *problem) {
        const char *owner = filter->all_owners && caller->observes ? NULL : caller->owner;
        struct engine_listed *listed = NULL;
        size_t count = 0;

        if (engine_list_stored(engine, owner, &listed, &count, problem) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                const struct session *session = &listed[i].session;
                const struct session *known = engine_find_id(engine, session->record.id);

                if (known && session_far_holds(engine, known))
                        session = known;
                if (!add_to_page(engine, caller, filter, session, page))
                        break;
        }
        engine_list_release(listed, count);
        return 0;
}

int engine_list(struct engine *engine, const struct engine_caller *caller, const struct engine_filter *filter,
                json_t **ret, struct problem *problem) {
        struct page page = { .limit = filter->limit ? filter->limit : 100 };
        int result = 0;

        if (page.limit > ENGINE_LIST_MAX)
                return problem_set(problem, PROBLEM_INVALID, "limit must be 1 to %d, found %zu",
                                   ENGINE_LIST_MAX, page.limit);
        if (read_cursor(filter->cursor, &page.after_ms, &page.after_id, problem) < 0)
                return -1;
        page.items = json_checked(json_array());
        pthread_mutex_lock(&engine->lock);
        if (engine->servers) {
                result = list_stored(engine, caller, filter, &page, problem);
        } else {
                for (const struct session *session = engine->first; session; session = session->next) {
                        if (!add_to_page(engine, caller, filter, session, &page))
                                break;
                }
        }
        pthread_mutex_unlock(&engine->lock);
        if (result < 0) {
                json_decref(page.items);
                return -1;
        }
        *ret = json_checked(json_pack("{s:o, s:o}", "items", page.items, "cursor",
                                      page.cursor ? page.cursor : json_null()));
        return 0;
}

/* For guards */

static void count_user(const struct record_session *record, const char *environment, size_t *count,
                       json_t *owners) {
        json_t *row, *found = NULL;
        size_t index;

        if (strcmp(record->environment, environment) != 0)
                return;
        (*count)++;
        json_array_foreach (owners, index, row) {
                if (strcmp(json_text(row, "owner"), record->owner) == 0)
                        found = row;
        }
        if (found)
                json_put(found, "sessions", json_integer(json_integer_or(found, "sessions", 0) + 1));
        else if (json_array_size(owners) < 20)
                json_add(owners, json_pack("{s:s, s:i}", "owner", record->owner, "sessions", 1));
}

int engine_users_of(struct engine *engine, const char *environment, size_t *ret_count, json_t **ret_owners) {
        struct engine_listed *listed = NULL;
        struct problem problem;
        size_t count = 0;
        int result = 0;

        *ret_count = 0;
        *ret_owners = json_checked(json_array());
        pthread_mutex_lock(&engine->lock);
        if (engine->servers) {
                result = engine_list_stored(engine, NULL, &listed, &count, &problem);
                for (size_t i = 0; i < count; i++) {
                        if (session_lives(&listed[i].session))
                                count_user(&listed[i].session.record, environment, ret_count, *ret_owners);
                }
                engine_list_release(listed, count);
        } else {
                for (const struct session *session = engine->first; session; session = session->next) {
                        if (session_lives(session))
                                count_user(&session->record, environment, ret_count, *ret_owners);
                }
        }
        pthread_mutex_unlock(&engine->lock);
        if (result < 0)
                json_decref(*ret_owners);
        return result;
}
