/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one execution costs in the store, wherever that lies: each call is a request on AWS, and docs/aws.md says how many there are. A
 * store that passes everything on and counts.
 */
#include "sessions/engine_fixture.h"

struct counting {
        struct session_store store; /* first */
        struct session_store *below;
        atomic_int gets, lists, writes, changes;
        atomic_int sweeps; /* looks for old keys: one when an engine starts, and one an hour */
        atomic_llong
                units; /* of DynamoDB's for writing, in transactions: two for each KB of a record that is begun */
};

static struct counting counting;

static int count_get(struct session_store *store, enum session_table table, const char *key,
                     struct arena *arena, struct session_item *ret, struct error *err) {
        (void)store;
        atomic_fetch_add(&counting.gets, 1);
        return session_store_get(counting.below, table, key, arena, ret, err);
}

static int count_write(struct session_store *store, const struct session_change *changes, size_t count,
                       struct error *err) {
        (void)store;
        atomic_fetch_add(&counting.writes, 1);
        atomic_fetch_add(&counting.changes, (int)count);
        for (size_t i = 0; i < count; i++) {
                size_t bytes = strlen(changes[i].key) + (changes[i].value ? strlen(changes[i].value) : 0);

                /* The names and the other attributes of an item are some 100 bytes. */
                atomic_fetch_add(&counting.units, 2 * (long long)((bytes + 100 + 1023) / 1024));
        }
        return session_store_write(counting.below, changes, count, err);
}

static int count_list(struct session_store *store, enum session_table table, const char *prefix,
                      const char *after, bool backwards, size_t limit, struct arena *arena,
                      struct session_item **ret, size_t *ret_count, struct error *err) {
        (void)store;
        atomic_fetch_add(table == SESSION_TABLE_KEYS ? &counting.sweeps : &counting.lists, 1);
        return session_store_list(counting.below, table, prefix, after, backwards, limit, arena, ret,
                                  ret_count, err);
}

static void count_close(struct session_store *store) {
        (void)store;
}

static const struct session_store_class counting_class = {
        .get = count_get, .write = count_write, .list = count_list, .close = count_close
};

static void forget(void) {
        atomic_store(&counting.gets, 0);
        atomic_store(&counting.lists, 0);
        atomic_store(&counting.writes, 0);
        atomic_store(&counting.changes, 0);
        atomic_store(&counting.units, 0);
}

static void check(int gets, int writes, int changes, long long units) {
        assert_int_equal(atomic_load(&counting.gets), gets);
        assert_int_equal(atomic_load(&counting.writes), writes);
        assert_int_equal(atomic_load(&counting.changes), changes);
        assert_in_range(atomic_load(&counting.units), 1, units);
        assert_int_equal(atomic_load(&counting.lists), 0);
        forget();
}

/* Written when its number is given, and when it has ended; read not at all. */
static void one_execution(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *follower = NULL;
        const char *id;

        engine_close(fixture->engine);
        counting = (struct counting){ .store.class = &counting_class, .below = fixture->store };
        fixture->store = &counting.store;
        start(fixture);
        id = session_of(fixture, &alice);
        wait_for(fixture, &alice, id, "idle");
        forget();
        for (int i = 0; i < 3; i++) {
                assert_true(run_code(fixture, &alice, id, "say hi", &follower) > 0);
                assert_string_equal(hear_all(fixture, follower), "started stdout(hi) done(ok)");
                wait_for(fixture, &alice, id, "idle");
                check(0, 2, 4, 12);
        }
        engine_close(fixture->engine);
        fixture->store = counting.below;
        start(fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = { TEST(one_execution) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
