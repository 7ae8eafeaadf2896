/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever object of a shared state is damaged, cut off, exchanged or gone: reading all of them finds it. */
#include "support.h"

#include "base/clock.h"
#include "memory_objects.h"
#include "state/shared_index.h"
#include "state/shared_verify.h"

static void stay_open(struct object_store *store) {
        (void)store;
}

static struct object_store_ops kept_ops;

struct found {
        size_t count;
        char first[512];
};

static void note(void *context, const char *text) {
        struct found *found = context;

        if (found->count++ == 0)
                snprintf(found->first, sizeof(found->first), "%.*s", (int)sizeof(found->first) - 1, text);
}

/* The first message; "" where it finds nothing. */
static struct found verify(struct memory_objects *memory) {
        const struct shared_cache none = SHARED_CACHE_INIT;
        struct found found = { 0 };
        struct error err = { 0 };

        if (shared_verify(&memory->store, &none, note, &found, &err) < 0)
                note(&found, err.message);
        return found;
}

/* Two runs of many commits each, and one of few: two snapshots, and a log that goes on. */
static void fill(struct memory_objects *memory) {
        static const int commits[] = { 40, 40, 3 };
        struct error err = { 0 };
        struct state *state = NULL;

        for (size_t run = 0; run < sizeof(commits) / sizeof(commits[0]); run++) {
                if (state_open_shared(&memory->store, &clock_system, "anna", STATE_CREATE, &state, &err) <
                            0 ||
                    state_lease_acquire(state, "apply", &err) < 0)
                        fail_msg("%s", err.message);
                for (int i = 0; i < commits[run]; i++)
                        put_record(state, i % 2 ? "Agent/a" : "Agent/b", i % 3 ? "one" : "two");
                state_close(state);
        }
}

static int begin(void **place) {
        if (make_place(place) < 0)
                return -1;
        setenv("XDG_CACHE_HOME", *place, 1);
        kept_ops = memory_ops;
        kept_ops.close = stay_open;
        return 0;
}

static bool is_of_the_state(const char *key) {
        return strcmp(key, "lease") != 0 && strcmp(key, "probe") != 0;
}

static void what_is_damaged_is_found(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        size_t tried = 0;

        (void)place;
        memory.store.ops = &kept_ops;
        fill(&memory);
        assert_string_equal(verify(&memory).first, "");
        for (struct memory_object *object = memory.objects; object; object = object->next) {
                size_t length = object->length;

                if (!is_of_the_state(object->key))
                        continue;
                tried++;
                object->bytes[length / 2] ^= 1;
                if (verify(&memory).count == 0 && strcmp(object->key, SHARED_INDEX_KEY) != 0)
                        fail_msg("a changed byte in %s was not found", object->key);
                object->bytes[length / 2] ^= 1;
                object->length = length - 1;
                if (verify(&memory).count == 0)
                        fail_msg("%s was cut off, and that was not found", object->key);
                object->length = length;
        }
        assert_true(tried > 80);
        assert_string_equal(verify(&memory).first, "");
        memory_close(&memory.store);
}

static struct memory_object taken_out(struct memory_objects *memory, const char *key) {
        struct memory_object copy = *memory_at(memory, key);

        copy.bytes = malloc(copy.length + 1);
        if (!copy.bytes)
                abort();
        memcpy(copy.bytes, memory_at(memory, key)->bytes, copy.length + 1);
        memory_remove(memory, key);
        return copy;
}

static void what_is_gone_or_another_is_found(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        char key[SHARED_KEY_SIZE];
        uint64_t last = 0;

        (void)place;
        memory.store.ops = &kept_ops;
        fill(&memory);
        for (const struct memory_object *object = memory.objects; object; object = object->next) {
                if (strncmp(object->key, SHARED_LOG_PREFIX, strlen(SHARED_LOG_PREFIX)) == 0)
                        last = strtoull(object->key + strlen(SHARED_LOG_PREFIX), NULL, 10);
        }
        assert_true(last > 80);
        /* It cannot be known that there was one more at the end. */
        for (uint64_t number = 1; number < last; number++) {
                struct memory_object object;
                struct found found;

                shared_log_key(SHARED_LOG_PREFIX, number, key);
                object = taken_out(&memory, key);
                found = verify(&memory);
                if (found.count == 0)
                        fail_msg("%s is gone, and that was not found", key);
                expect_text(found.first, "/log/");
                assert_int_equal(memory_write(&memory, key, "", object.bytes, object.length, NULL),
                                 OBJECT_DONE);
                free(object.bytes);
        }
        assert_string_equal(verify(&memory).first, "");
        memory_close(&memory.store);
}

/* Sound by itself, and of the right entry: yet not what the log makes. */
static void a_snapshot_that_says_something_else_is_found(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct shared_entry root, snapshot;
        struct shared_index index;
        struct shared_log log;
        struct error err = { 0 };
        char key[SHARED_KEY_SIZE];
        struct found found;

        (void)place;
        memory.store.ops = &kept_ops;
        fill(&memory);
        assert_int_equal(shared_log_begin(&memory.store, arena, &log, &root, &err), 1);
        assert_int_equal(shared_index_read(&memory.store, log.lineage, arena, &index, &err), 1);
        assert_true(index.count >= 2);
        assert_int_equal(shared_log_snapshot_at(&log, index.snapshots[0].number, arena, &snapshot, &err), 1);
        snapshot.count--;
        shared_log_key(SHARED_SNAPSHOT_PREFIX, snapshot.number, key);
        memory_remove(&memory, key);
        shared_new_id(snapshot.id);
        assert_int_equal(shared_log_put_snapshot(&log, &snapshot, &err), 0);
        found = verify(&memory);
        assert_int_equal(found.count, 1);
        expect_text(found.first, "is not what the log makes of it");
        memory_close(&memory.store);
}

/* In the middle of the reading a run ends that thins out the snapshots: the first one goes. */
static enum memory_fault thin_out_meanwhile(void *context, const char *operation, const char *key) {
        static const char index[] =
                "{\"cleared\":0,\"floor\":0,\"formatVersion\":\"1\",\"going\":[],\"lineage\":\"%s\",\"snapshots\":[]}";
        struct memory_objects *memory = context;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry root;
        struct shared_log log;
        struct error err = { 0 };
        const char *text;

        /* Behind the index, and before other threads read. */
        if (strcmp(operation, "list") != 0 || strcmp(key, SHARED_LOG_PREFIX) != 0)
                return FAULT_NONE;
        memory->fault = NULL;
        assert_int_equal(shared_log_begin(&memory->store, arena, &log, &root, &err), 1);
        text = arena_printf(arena, index, log.lineage);
        for (struct memory_object *object = memory->objects; object; object = object->next) {
                if (strncmp(object->key, SHARED_SNAPSHOT_PREFIX, strlen(SHARED_SNAPSHOT_PREFIX)) == 0) {
                        memory_remove(memory, object->key);
                        break;
                }
        }
        assert_int_equal(memory_write(memory, SHARED_INDEX_KEY, memory_at(memory, SHARED_INDEX_KEY)->etag,
                                      text, strlen(text), NULL),
                         OBJECT_DONE);
        return FAULT_NONE;
}

static void what_goes_meanwhile_is_no_damage(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        const struct shared_cache none = SHARED_CACHE_INIT;
        struct found found = { 0 };
        struct error err = { 0 };

        (void)place;
        memory.store.ops = &kept_ops;
        fill(&memory);
        memory.fault = thin_out_meanwhile;
        memory.context = &memory;
        assert_int_equal(shared_verify(&memory.store, &none, note, &found, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        expect_text(err.message, "shortened while it was read");
        memory_close(&memory.store);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_is_damaged_is_found, begin, remove_place),
                cmocka_unit_test_setup_teardown(what_is_gone_or_another_is_found, begin, remove_place),
                cmocka_unit_test_setup_teardown(a_snapshot_that_says_something_else_is_found, begin,
                                                remove_place),
                cmocka_unit_test_setup_teardown(what_goes_meanwhile_is_no_damage, begin, remove_place),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
