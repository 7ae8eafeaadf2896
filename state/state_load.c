/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: one pass over one database, each entry's key and value copied into the arena as they are. Nothing is parsed
 * but the form's numbers, so that 60,000 records take tens of milliseconds.
 */
#include "state/codec.h"
#include "state/state_parts.h"

#include <stdio.h>
#include <string.h>

struct load {
        enum store_database database;
        struct arena *arena;
        bool newest_first;
        bool heads; /* the value is not kept: items point to nothing in it */
        size_t limit, item_size;
        /* Decodes one entry into item `item`; key and bytes are in the arena. */
        int (*decode)(const struct load *load, const char *key, const char *bytes, size_t length, void *item,
                      struct error *err);
        char *items;
        size_t count;
};

static int load_entries(struct store_txn *txn, void *context, struct error *err) {
        struct store_cursor *cursor STORE_CURSOR_CLEANUP = NULL;
        struct load *load = context;
        struct slice key, value;
        size_t most;
        int more;

        if (store_count(txn, load->database, &most, err) < 0 ||
            store_cursor_open(txn, load->database, load->newest_first, &cursor, err) < 0)
                return -1;
        if (load->limit && load->limit < most)
                most = load->limit;
        load->items = arena_array(load->arena, most, load->item_size);
        while (load->count < most && (more = store_cursor_next(cursor, &key, &value, err)) != 0) {
                const char *name, *bytes;

                if (more < 0)
                        return -1;
                name = arena_strndup(load->arena, key.data, key.length);
                bytes = load->heads ? value.data : arena_strndup(load->arena, value.data, value.length);
                if (load->decode(load, name, bytes, value.length, load->items + load->count * load->item_size,
                                 err) < 0)
                        return -1;
                load->count++;
        }
        return 0;
}

static int load_database(struct state *state, struct load *load, struct error *err) {
        load->count = 0;
        load->items = NULL;
        if (!state->store)
                return 0;
        return state_read(state, load_entries, load, err);
}

static int decode_record(const struct load *load, const char *key, const char *bytes, size_t length,
                         void *item, struct error *err) {
        (void)load;
        return codec_decode_record(bytes, length, key, item, err);
}

static int decode_sighting(const struct load *load, const char *key, const char *bytes, size_t length,
                           void *item, struct error *err) {
        (void)load;
        return codec_decode_sighting(bytes, length, key, item, err);
}

static int decode_head(const struct load *load, const char *key, const char *bytes, size_t length, void *item,
                       struct error *err) {
        struct sighting *head = item, whole;

        (void)load;
        if (codec_decode_sighting(bytes, length, key, &whole, err) < 0)
                return -1;
        *head = (struct sighting){
                .address = key,
                .exists = whole.exists,
                .drifted = whole.drifted,
                .ownership = whole.ownership,
                .health = whole.health,
                .seen_ms = whole.seen_ms,
        };
        return 0;
}

static int decode_binding(const struct load *load, const char *key, const char *bytes, size_t length,
                          void *item, struct error *err) {
        (void)load;
        return codec_decode_binding(bytes, length, key, item, err);
}

static int decode_override(const struct load *load, const char *key, const char *bytes, size_t length,
                           void *item, struct error *err) {
        (void)load;
        return codec_decode_override(bytes, length, key, item, err);
}

static int decode_journal(const struct load *load, const char *key, const char *bytes, size_t length,
                          void *item, struct error *err) {
        return codec_decode_journal(bytes, length, key, load->arena, item, err);
}

static int decode_history(const struct load *load, const char *key, const char *bytes, size_t length,
                          void *item, struct error *err) {
        return codec_decode_history(bytes, length, key, load->arena, item, err);
}

int state_load_records(struct state *state, struct arena *arena, struct record **ret, size_t *ret_count,
                       struct error *err) {
        struct load load = {
                .database = STORE_RECORDED,
                .arena = arena,
                .item_size = sizeof(**ret),
                .decode = decode_record,
        };

        if (load_database(state, &load, err) < 0)
                return -1;
        *ret = (struct record *)(void *)load.items;
        *ret_count = load.count;
        return 0;
}

int state_load_sightings(struct state *state, struct arena *arena, struct sighting **ret, size_t *ret_count,
                         struct error *err) {
        struct load load = {
                .database = STORE_OBSERVED,
                .arena = arena,
                .item_size = sizeof(**ret),
                .decode = decode_sighting,
        };

        if (load_database(state, &load, err) < 0)
                return -1;
        *ret = (struct sighting *)(void *)load.items;
        *ret_count = load.count;
        return 0;
}

int state_load_sighting_heads(struct state *state, struct arena *arena, struct sighting **ret,
                              size_t *ret_count, struct error *err) {
        struct load load = {
                .database = STORE_OBSERVED,
                .arena = arena,
                .heads = true,
                .item_size = sizeof(**ret),
                .decode = decode_head,
        };

        if (load_database(state, &load, err) < 0)
                return -1;
        *ret = (struct sighting *)(void *)load.items;
        *ret_count = load.count;
        return 0;
}

struct single {
        const char *address;
        struct arena *arena;
        struct sighting *found;
};

static int load_single(struct store_txn *txn, void *context, struct error *err) {
        struct single *single = context;
        struct sighting sighting;
        struct slice value;
        int there = store_get(txn, STORE_OBSERVED, single->address, &value, err);

        single->found = NULL;
        if (there <= 0)
                return there;
        if (codec_decode_sighting(arena_strndup(single->arena, value.data, value.length), value.length,
                                  arena_strdup(single->arena, single->address), &sighting, err) < 0)
                return -1;
        single->found = arena_alloc(single->arena, sizeof(sighting));
        *single->found = sighting;
        return 0;
}

int state_load_sighting(struct state *state, const char *address, struct arena *arena, struct sighting **ret,
                        struct error *err) {
        struct single single = { .address = address, .arena = arena };

        if (state->store && state_read(state, load_single, &single, err) < 0)
                return -1;
        *ret = single.found;
        return 0;
}

int state_load_bindings(struct state *state, struct arena *arena, struct binding **ret, size_t *ret_count,
                        struct error *err) {
        struct load load = {
                .database = STORE_BINDINGS,
                .arena = arena,
                .item_size = sizeof(**ret),
                .decode = decode_binding,
        };

        if (load_database(state, &load, err) < 0)
                return -1;
        *ret = (struct binding *)(void *)load.items;
        *ret_count = load.count;
        return 0;
}

int state_load_overrides(struct state *state, struct arena *arena, struct override **ret, size_t *ret_count,
                         struct error *err) {
        struct load load = {
                .database = STORE_OVERRIDES,
                .arena = arena,
                .item_size = sizeof(**ret),
                .decode = decode_override,
        };

        if (load_database(state, &load, err) < 0)
                return -1;
        *ret = (struct override *)(void *)load.items;
        *ret_count = load.count;
        return 0;
}

int state_load_journal(struct state *state, struct arena *arena, struct journal_entry **ret,
                       size_t *ret_count, struct error *err) {
        struct load load = {
                .database = STORE_JOURNAL,
                .arena = arena,
                .item_size = sizeof(**ret),
                .decode = decode_journal,
        };

        if (load_database(state, &load, err) < 0)
                return -1;
        *ret = (struct journal_entry *)(void *)load.items;
        *ret_count = load.count;
        return 0;
}

int state_load_history(struct state *state, size_t limit, struct arena *arena, struct history_entry **ret,
                       size_t *ret_count, struct error *err) {
        struct load load = {
                .database = STORE_HISTORY,
                .arena = arena,
                .newest_first = true,
                .limit = limit,
                .item_size = sizeof(**ret),
                .decode = decode_history,
        };

        if (load_database(state, &load, err) < 0)
                return -1;
        *ret = (struct history_entry *)(void *)load.items;
        *ret_count = load.count;
        return 0;
}

struct load_text {
        const char *name;
        struct arena *arena;
        const char *text;
};

static int load_text(struct store_txn *txn, void *context, struct error *err) {
        struct load_text *load = context;
        const char *key = arena_printf(load->arena, META_TEXT "%s", load->name), *text;
        struct slice value;
        int found = store_get(txn, STORE_META, key, &value, err);

        if (found <= 0)
                return found;
        if (codec_decode_text(value.data, value.length, key, &text, err) < 0)
                return -1;
        load->text = arena_strdup(load->arena, text);
        return 0;
}

int state_load_meta(struct state *state, const char *name, struct arena *arena, const char **ret,
                    struct error *err) {
        struct load_text load = { .name = name, .arena = arena };

        if (state->store && state_read(state, load_text, &load, err) < 0)
                return -1;
        *ret = load.text;
        return 0;
}
