/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/store.h"

#include <string.h>

int session_store_get(struct session_store *store, enum session_table table, const char *key,
                      struct arena *arena, struct session_item *ret, struct error *err) {
        return store->class->get(store, table, key, arena, ret, err);
}

int session_store_write(struct session_store *store, const struct session_change *changes, size_t count,
                        struct error *err) {
        size_t bytes = 0;

        if (count > SESSION_CHANGES_MAX)
                return error_set_kind(err, ERROR_REFUSED, "%zu records cannot be changed at once", count);
        for (size_t i = 0; i < count; i++) {
                size_t length = changes[i].value ? strlen(changes[i].value) : 0;

                if (strlen(changes[i].key) > SESSION_KEY_MAX || length > SESSION_VALUE_MAX)
                        return error_set_kind(err, ERROR_REFUSED,
                                              "a record of a session is too large to be kept");
                bytes += length;
        }
        if (bytes > SESSION_WRITE_MAX)
                return error_set_kind(err, ERROR_REFUSED,
                                      "%zu bytes of sessions' records cannot be written at once", bytes);
        return store->class->write(store, changes, count, err);
}

int session_store_list(struct session_store *store, enum session_table table, const char *prefix,
                       const char *after, bool backwards, size_t limit, struct arena *arena,
                       struct session_item **ret, size_t *ret_count, struct error *err) {
        return store->class->list(store, table, prefix, after, backwards, limit, arena, ret, ret_count, err);
}

void session_store_close(struct session_store *store) {
        if (store)
                store->class->close(store);
}
