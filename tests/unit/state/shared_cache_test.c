/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that runs make for themselves alone go with them, or with the next run where they were killed; those of others stay. */
#include "support.h"

#include "state/shared_cache.h"

#include <dirent.h>

#define LINEAGE "11111111-2222-4333-8444-555555555555"

static size_t count_entries(const char *folder) {
        DIR *stream = opendir(folder);
        struct dirent *entry;
        size_t count = 0;

        while (stream && (entry = readdir(stream)))
                count += entry->d_name[0] != '.';
        if (stream)
                closedir(stream);
        return count;
}

static int begin(void **place) {
        if (make_place(place) < 0)
                return -1;
        setenv("TMPDIR", *place, 1);
        setenv("XDG_CACHE_HOME", *place, 1);
        return 0;
}

/* The changes of a root: none. */
static int make(bool temporary, struct shared_cache *ret) {
        const struct shared_log log = { .lineage = LINEAGE };
        const struct shared_entry root = { .lineage = LINEAGE };
        struct error err = { 0 };

        return temporary ? shared_cache_temporary(ret, &err)
                         : shared_cache_make_aside(&log, &root, ret, &err);
}

static int make_and_die(const void *temporary) {
        struct shared_cache cache;

        return make(*(const bool *)temporary, &cache) < 0;
}

static void what_the_dead_left_goes(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        for (int i = 0; i < 2; i++) {
                const bool temporary = i == 0;
                const char *folder = temporary ? *place : below(*place, "berth", arena);
                const char *others =
                        below(folder, temporary ? "berth-state-others" : LINEAGE ".others", arena);
                struct shared_cache living, next;
                size_t before;

                assert_int_equal(mkdir(folder, 0700) < 0 && errno != EEXIST, 0);
                /* Of the same form, and of an unknown owner. */
                assert_int_equal(mkdir(others, 0700), 0);
                folder_write(others, STORE_DATA_FILE, "somebody's");
                before = count_entries(folder);
                assert_int_equal(make(temporary, &living), 0);
                assert_int_equal(in_child(make_and_die, &temporary), 0);
                assert_int_equal(count_entries(folder), before + 2);
                assert_int_equal(make(temporary, &next), 0);
                assert_int_equal(count_entries(folder), before + 2);
                assert_int_equal(access(living.folder, F_OK), 0);
                assert_int_equal(access(below(others, STORE_DATA_FILE, arena), F_OK), 0);
                shared_cache_close(&next);
                shared_cache_close(&living);
                assert_int_equal(count_entries(folder), before);
        }
}

/* What others of this machine have read into the copy meanwhile must not become a snapshot of an older number. */
static void a_copy_that_went_on_is_not_dumped(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct shared_log log = { .store = &(struct object_store){ .place = "memory" },
                                        .lineage = LINEAGE,
                                        .number = 7 };
        const struct shared_entry root = { .lineage = LINEAGE }, next = { .number = 8 };
        struct shared_change *changes;
        struct shared_cache cache;
        struct error err = { 0 };
        size_t count;
        bool gap;

        (void)place;
        assert_int_equal(shared_cache_make_aside(&log, &root, &cache, &err), 0);
        assert_int_equal(shared_cache_dump_at(cache.store, &log, arena, &changes, &count, &err), 0);
        assert_int_equal(shared_cache_apply(&cache, &next, 1, &gap, &err), 0);
        assert_false(gap);
        assert_int_equal(shared_cache_dump_at(cache.store, &log, arena, &changes, &count, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        assert_int_equal(shared_cache_dump(cache.store, arena, &changes, &count, &err), 0);
        shared_cache_close(&cache);
}

/* Also where the next one has a copy already, and makes none. */
static void what_the_dead_left_goes_as_a_copy_is_opened(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct shared_log log = { .lineage = LINEAGE };
        const struct shared_entry root = { .lineage = LINEAGE };
        const char *folder = below(*place, "berth", arena);
        const bool temporary = false;
        struct shared_cache cache;
        struct error err = { 0 };

        assert_int_equal(shared_cache_make(&log, &root, &cache, &err), 0);
        shared_cache_close(&cache);
        assert_int_equal(in_child(make_and_die, &temporary), 0);
        assert_int_equal(count_entries(folder), 2);
        assert_int_equal(shared_cache_open(LINEAGE, &cache, &err), 0);
        assert_int_equal(count_entries(folder), 1);
        shared_cache_close(&cache);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_the_dead_left_goes, begin, remove_place),
                cmocka_unit_test_setup_teardown(a_copy_that_went_on_is_not_dumped, begin, remove_place),
                cmocka_unit_test_setup_teardown(what_the_dead_left_goes_as_a_copy_is_opened, begin,
                                                remove_place),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
