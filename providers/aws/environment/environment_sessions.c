/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the guard has-sessions what the table of sessions' records knows, the wished one and that
 * which the Stack was applied with. It is read once in a plan, and only if an environment will be
 * deleted or replaced: whole, by the lists by which a server starts. A record that cannot be read
 * may be of any environment, and lives.
 */
#include "base/array.h"
#include "base/log.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/session_store/session_records.h"
#include "providers/living_sessions.h"
#include "sessions/record.h"

#include <string.h>

#define PAGE 1000
#define UNREADABLE "an unknown owner (its record cannot be read)"

struct living_session {
        const char *environment, *owner; /* NULL: any */
};

/* All in the provider's arena: what one plan has read. */
struct living_sessions {
        struct living_session *items;
        size_t count;
};

void environment_sessions_forget(struct provider *provider) {
        provider->living_sessions = NULL;
}

static void add_living_session(struct provider *provider, struct living_sessions *living,
                               const char *environment, const char *owner) {
        living->items = array_grow(provider->arena, living->items, living->count, sizeof(*living->items));
        living->items[living->count++] = (struct living_session){ environment, owner };
}

static void note_record(struct provider *provider, const struct session_item *item,
                        struct living_sessions *living) {
        const struct clock *clock = aws_client_clock(provider->client);
        struct record_session record;
        struct error err;

        if (item->key[0] == RECORD_OTHERS)
                return;
        if (record_from_text(item, &record, &err) < 0) {
                log_warning("%s", err.message);
                add_living_session(provider, living, NULL, UNREADABLE);
                return;
        }
        if (!record.ending && record_ends_ms(&record, record_is_open(&record)) > clock->wall_ms(clock))
                add_living_session(provider, living, arena_strdup(provider->arena, record.environment),
                                   arena_strdup(provider->arena, record.owner));
        record_dispose(&record);
}

static int read_table(struct provider *provider, struct session_store *store, struct living_sessions *living,
                      struct error *err) {
        const char *after = NULL;
        size_t count;

        do {
                struct arena *page ARENA_CLEANUP = arena_new();
                struct session_item *items;

                if (session_store_list(store, SESSION_TABLE_SESSIONS, "", after, false, PAGE, page, &items,
                                       &count, err) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++)
                        note_record(provider, &items[i], living);
                if (count > 0)
                        after = arena_strdup(provider->arena, items[count - 1].key);
        } while (count == PAGE);
        return 0;
}

/* A table that is not there has no sessions. */
static int read_sessions_of(struct provider *provider, const char *table, struct living_sessions *living,
                            struct error *err) {
        const struct session_records_config config = {
                .client = provider->client,
                .table = table,
                .stack = provider->stack_name,
        };
        struct session_store *store;
        struct error failure;
        int result;

        if (session_records_open(&config, &store, &failure) < 0) {
                if (failure.kind == ERROR_NOT_FOUND)
                        return 0;
                *err = failure;
                return -1;
        }
        result = read_table(provider, store, living, err);
        session_store_close(store);
        return result;
}

static int read_sessions(struct provider *provider, struct error *err) {
        const char *wished = value_text_of(value_path(provider->stack, "sessions.table")),
                   *recorded = provider->recorded_table;
        struct living_sessions *living = arena_alloc(provider->arena, sizeof(*living));

        *living = (struct living_sessions){ 0 };
        if (wished && read_sessions_of(provider, wished, living, err) < 0)
                return -1;
        if (recorded && (!wished || strcmp(recorded, wished) != 0) &&
            read_sessions_of(provider, recorded, living, err) < 0)
                return -1;
        provider->living_sessions = living;
        return 0;
}

int environment_ask_sessions(struct provider *provider, struct change *change, struct arena *arena,
                             struct error *err) {
        const struct living_sessions *living;
        const char **owners = NULL;
        size_t count = 0;

        if (!living_sessions_matter(change))
                return 0;
        if (!provider->living_sessions && read_sessions(provider, err) < 0)
                return error_context(err, "the sessions that live in it");
        living = provider->living_sessions;
        for (size_t i = 0; i < living->count; i++) {
                const char *environment = living->items[i].environment;

                if (environment && strcmp(environment, change->name) != 0)
                        continue;
                owners = array_grow(arena, owners, count, sizeof(*owners));
                owners[count++] = arena_strdup(arena, living->items[i].owner);
        }
        if (count > 0)
                aws_refuse(change, living_sessions_refusal(change, owners, count, arena), arena);
        return 0;
}
