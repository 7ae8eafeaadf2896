/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object store in memory, with its own clock, that fails as it is told to: each call asks `fault` first.
 *
 * For one thread, or for many where the test has a lock of its own around them.
 */
#ifndef BERTH_TESTS_MEMORY_OBJECTS_H
#define BERTH_TESTS_MEMORY_OBJECTS_H

#include "base/object_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum memory_fault {
        FAULT_NONE,
        FAULT_LOST_ANSWER,  /* carried out; OBJECT_UNKNOWN */
        FAULT_LOST_REQUEST, /* not carried out; OBJECT_UNKNOWN */
        FAULT_LATE,         /* a put: OBJECT_UNKNOWN, carried out by memory_deliver() */
        FAULT_CONFLICT,     /* a put: not carried out; OBJECT_MOVED, as by 409 */
        FAULT_AGAIN,        /* a put: carried out, and tried again below: OBJECT_MOVED by its own bytes */
        FAULT_CUT,          /* a get: half of the bytes */
        FAULT_REFUSED,      /* -1 */
        FAULT_LAGGING       /* a list: as it was before the last put */
};

struct memory_object {
        char key[64], etag[32];
        char *bytes;
        size_t length;
        int64_t modified_ms;
        struct memory_object *next; /* in the order of keys */
};

struct memory_late {
        char key[64], etag[128]; /* "" where it must be absent */
        char *bytes;
        size_t length;
        struct memory_late *next;
};

struct memory_objects {
        struct object_store store;
        struct memory_object *objects;
        struct memory_late *late;
        char last_put[64]; /* key */
        unsigned long writes, calls;
        int64_t now_ms; /* its clock: answers tell whole seconds of it */
        bool no_dates;
        /* What happens to this call, "get", "put", ...; NULL: nothing. */
        enum memory_fault (*fault)(void *context, const char *operation, const char *key);
        void *context;
};

static inline struct memory_object **memory_find(struct memory_objects *memory, const char *key) {
        struct memory_object **at = &memory->objects;

        while (*at && strcmp((*at)->key, key) < 0)
                at = &(*at)->next;
        return at;
}

static inline struct memory_object *memory_at(struct memory_objects *memory, const char *key) {
        struct memory_object *object = *memory_find(memory, key);

        return object && strcmp(object->key, key) == 0 ? object : NULL;
}

static inline int64_t memory_seconds(const struct memory_objects *memory, int64_t ms) {
        return memory->no_dates ? 0 : ms / 1000 * 1000;
}

static inline enum memory_fault memory_fault(struct memory_objects *memory, const char *operation,
                                             const char *key) {
        memory->calls++;
        return memory->fault ? memory->fault(memory->context, operation, key) : FAULT_NONE;
}

static inline int memory_unknown(struct error *err) {
        (void)error_set_kind(err, ERROR_UNREACHABLE, "the answer was lost");
        return OBJECT_UNKNOWN;
}

/* One conditional write; `etag` "": it must be absent. */
static inline int memory_write(struct memory_objects *memory, const char *key, const char *etag,
                               const void *bytes, size_t length, struct object_answer *ret) {
        struct memory_object **place = memory_find(memory, key), *object = memory_at(memory, key);

        if (*etag && !object)
                return OBJECT_ABSENT;
        if (*etag ? strcmp(object->etag, etag) != 0 : object != NULL)
                return OBJECT_MOVED;
        if (!object) {
                object = calloc(1, sizeof(*object));
                if (!object)
                        abort();
                snprintf(object->key, sizeof(object->key), "%s", key);
                object->next = *place;
                *place = object;
                snprintf(memory->last_put, sizeof(memory->last_put), "%s", key);
        }
        free(object->bytes);
        object->bytes = malloc(length + 1);
        if (!object->bytes)
                abort();
        memcpy(object->bytes, bytes, length);
        object->bytes[length] = '\0'; /* for tests that look for words in it */
        object->length = length;
        object->modified_ms = memory->now_ms;
        snprintf(object->etag, sizeof(object->etag), "\"%lu\"", ++memory->writes);
        if (ret) {
                snprintf(ret->etag, sizeof(ret->etag), "%s", object->etag);
                ret->date_ms = memory_seconds(memory, memory->now_ms);
        }
        return OBJECT_DONE;
}

static inline int memory_put(struct memory_objects *memory, const char *key, const char *etag,
                             const void *bytes, size_t length, struct object_answer *ret, struct error *err) {
        struct memory_late *late;

        switch (memory_fault(memory, "put", key)) {
        case FAULT_LOST_ANSWER:
                (void)memory_write(memory, key, etag, bytes, length, NULL);
                return memory_unknown(err);
        case FAULT_LOST_REQUEST:
                return memory_unknown(err);
        case FAULT_LATE:
                late = calloc(1, sizeof(*late));
                if (!late || !(late->bytes = malloc(length + 1)))
                        abort();
                snprintf(late->key, sizeof(late->key), "%s", key);
                snprintf(late->etag, sizeof(late->etag), "%s", etag);
                memcpy(late->bytes, bytes, length);
                late->length = length;
                late->next = memory->late;
                memory->late = late;
                return memory_unknown(err);
        case FAULT_CONFLICT:
                return OBJECT_MOVED;
        case FAULT_AGAIN:
                (void)memory_write(memory, key, etag, bytes, length, NULL);
                return OBJECT_MOVED;
        case FAULT_REFUSED:
                return error_set(err, "403 AccessDenied");
        default:
                return memory_write(memory, key, etag, bytes, length, ret);
        }
}

/* A late write arrives now. */
static inline void memory_deliver(struct memory_objects *memory) {
        struct memory_late *late = memory->late;

        memory->late = NULL;
        while (late) {
                struct memory_late *next = late->next;

                (void)memory_write(memory, late->key, late->etag, late->bytes, late->length, NULL);
                free(late->bytes);
                free(late);
                late = next;
        }
}

static inline int memory_get(struct object_store *store, const char *key, struct object_answer *ret,
                             struct error *err) {
        struct memory_objects *memory = (struct memory_objects *)(void *)store;
        enum memory_fault fault = memory_fault(memory, "get", key);
        struct memory_object *object = memory_at(memory, key);

        if (fault == FAULT_LOST_ANSWER || fault == FAULT_LOST_REQUEST)
                return memory_unknown(err);
        if (fault == FAULT_REFUSED)
                return error_set(err, "403 AccessDenied");
        object_answer_release(ret);
        ret->date_ms = memory_seconds(memory, memory->now_ms);
        if (!object)
                return OBJECT_ABSENT;
        ret->modified_ms = memory_seconds(memory, object->modified_ms);
        snprintf(ret->etag, sizeof(ret->etag), "%s", object->etag);
        strbuf_append_bytes(&ret->body, object->bytes,
                            fault == FAULT_CUT ? object->length / 2 : object->length);
        return OBJECT_DONE;
}

static inline int memory_put_if_absent(struct object_store *store, const char *key, const void *bytes,
                                       size_t length, struct object_answer *ret, struct error *err) {
        return memory_put((struct memory_objects *)(void *)store, key, "", bytes, length, ret, err);
}

static inline int memory_put_if_match(struct object_store *store, const char *key, const char *etag,
                                      const void *bytes, size_t length, struct object_answer *ret,
                                      struct error *err) {
        return memory_put((struct memory_objects *)(void *)store, key, etag, bytes, length, ret, err);
}

static inline void memory_remove(struct memory_objects *memory, const char *key) {
        struct memory_object **place = memory_find(memory, key), *object = memory_at(memory, key);

        if (!object)
                return;
        *place = object->next;
        free(object->bytes);
        free(object);
}

static inline int memory_list(struct object_store *store, const char *prefix, struct arena *arena,
                              const char ***ret, size_t *ret_count, struct error *err) {
        struct memory_objects *memory = (struct memory_objects *)(void *)store;
        enum memory_fault fault = memory_fault(memory, "list", prefix);
        size_t count = 0;

        if (fault == FAULT_REFUSED)
                return error_set(err, "403 AccessDenied");
        for (const struct memory_object *object = memory->objects; object; object = object->next)
                count++;
        *ret = arena_array(arena, count + 1, sizeof(**ret));
        *ret_count = 0;
        for (const struct memory_object *object = memory->objects; object; object = object->next) {
                if (strncmp(object->key, prefix, strlen(prefix)) == 0 &&
                    !(fault == FAULT_LAGGING && strcmp(object->key, memory->last_put) == 0))
                        (*ret)[(*ret_count)++] = arena_strdup(arena, object->key);
        }
        return OBJECT_DONE;
}

static inline int memory_remove_all(struct object_store *store, const char *const *keys, size_t count,
                                    struct error *err) {
        struct memory_objects *memory = (struct memory_objects *)(void *)store;

        for (size_t i = 0; i < count; i++) {
                /* One after the other, so that a test may stop in between. */
                enum memory_fault fault = memory_fault(memory, "delete", keys[i]);

                if (fault == FAULT_REFUSED)
                        return error_set(err, "403 AccessDenied");
                if (fault == FAULT_LOST_REQUEST)
                        return memory_unknown(err);
                memory_remove(memory, keys[i]);
                if (fault == FAULT_LOST_ANSWER)
                        return memory_unknown(err);
        }
        return OBJECT_DONE;
}

static inline int memory_keeps_versions(struct object_store *store, bool *ret, struct error *err) {
        (void)store;
        (void)err;
        *ret = true;
        return OBJECT_DONE;
}

/* Its content goes; its memory is the test's. */
static inline void memory_close(struct object_store *store) {
        struct memory_objects *memory = (struct memory_objects *)(void *)store;

        if (!memory)
                return;
        memory_deliver(memory);
        while (memory->objects)
                memory_remove(memory, memory->objects->key);
}

static const struct object_store_ops memory_ops __attribute__((unused)) = {
        .get = memory_get,
        .put_if_absent = memory_put_if_absent,
        .put_if_match = memory_put_if_match,
        .list = memory_list,
        .remove = memory_remove_all,
        .keeps_versions = memory_keeps_versions,
        .close = memory_close,
};

#define MEMORY_OBJECTS_INIT \
        { .store = { &memory_ops, "memory:test" }, .now_ms = 1700000000000 }

#endif
