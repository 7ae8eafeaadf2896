/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits that are synced in groups: the death of a process takes nothing, and a power loss takes the store back to the last sync,
 * whole, whatever of what was written since has reached the disk.
 */
#include "support.h"

#include "base/digest.h"
#include "process/identity.h"
#include "state/sealed_value.h"
#include "state/store.h"

#include <fcntl.h>
#include <sys/stat.h>

#define PAGE 4096

struct values {
        int round;
        size_t count;
};

/* Keys are written over, some go, some grow over several pages. */
static int write_round(struct store_txn *txn, void *context, struct error *err) {
        const struct values *values = context;
        static char big[20000];
        char key[32], text[64];

        memset(big, 'b', sizeof(big));
        for (size_t i = 0; i < values->count; i++) {
                bool grown = (i + (size_t)values->round) % 7 == 0;

                snprintf(key, sizeof(key), "key-%zu", i);
                snprintf(text, sizeof(text), "value %zu of round %d", i, values->round);
                memcpy(big, text, strlen(text) + 1);
                if (i % 5 == 4 && values->round % 2 == 1) {
                        if (store_delete(txn, STORE_SESSIONS, key, err) < 0)
                                return -1;
                } else if (store_put(txn, STORE_SESSIONS, key, big, grown ? sizeof(big) : strlen(text) + 1,
                                     err) < 0) {
                        return -1;
                }
        }
        return 0;
}

static int check_round(struct store_txn *txn, void *context, struct error *err) {
        const struct values *values = context;
        char key[32], text[64];

        for (size_t i = 0; i < values->count; i++) {
                struct slice value = { 0 };
                int found;

                snprintf(key, sizeof(key), "key-%zu", i);
                snprintf(text, sizeof(text), "value %zu of round %d", i, values->round);
                found = store_get(txn, STORE_SESSIONS, key, &value, err);
                REQUIRE(found == !(i % 5 == 4 && values->round % 2 == 1));
                REQUIRE(!found || strcmp(value.data, text) == 0);
        }
        return 0;
}

/* In memory where there is room for that: the disk would sync a thousand times. */
static void make_folder(char folder[sizeof(FOLDER_TEMPLATE)]) {
        strcpy(folder, "/dev/shm/berth-XXXXXX");
        if (!mkdtemp(folder))
                folder_make_temporary(folder);
}

static void make_store(const char *folder) {
        struct store *store;
        struct error err;

        REQUIRE(store_open_layout(folder, STORE_OF_SESSIONS, STORE_MODE_NEW, &store, &err) == 0);
        store_close(store);
}

static struct store *open_again(const char *folder) {
        struct store *store;
        struct error err;

        if (store_open_layout(folder, STORE_OF_SESSIONS, STORE_MODE_WRITE, &store, &err) < 0)
                fail_msg("%s", err.message);
        return store;
}

static void write_one(struct store *store, int round) {
        struct values values = { round, 60 };
        struct error err;

        REQUIRE(store_write(store, write_round, &values, &err) == 0);
}

static void check_one(struct store *store, int round) {
        struct values values = { round, 60 };
        struct error err;

        REQUIRE(store_read(store, check_round, &values, &err) == 0);
        REQUIRE(store_check(store, &err) == 0);
}

static char *read_all(const char *folder, const char *name, size_t *ret) {
        char *path TEXT_CLEANUP = path_join(folder, name);
        struct strbuf bytes = STRBUF_INIT;
        struct error err;

        REQUIRE(file_read(path, (size_t)1 << 30, &bytes, &err) == 0);
        *ret = bytes.length;
        return strbuf_take(&bytes);
}

static void write_all(const char *folder, const char *name, const char *bytes, size_t length) {
        char *path TEXT_CLEANUP = path_join(folder, name);
        struct error err;

        REQUIRE(file_write_atomic(path, bytes, length, 0600, &err) == 0);
}

/* As if it had been written in another boot of the machine. */
static void write_synced_of_another_boot(const char *folder, char *bytes, size_t length) {
        sealed_value_set_number((uint8_t *)bytes, 0, ~identity_of_self().boot);
        sealed_value_seal((uint8_t *)bytes, length,
                          (struct sealed_place){ STORE_SYNCED_FILE, STORE_SYNCED_FILE });
        write_all(folder, STORE_SYNCED_FILE, bytes, length);
}

static void a_process_that_dies_takes_nothing(void **state) {
        char folder[sizeof(FOLDER_TEMPLATE)];
        struct store *store;
        pid_t child;
        int status;

        (void)state;
        make_folder(folder);
        make_store(folder);
        child = fork();
        if (child == 0) {
                store = open_again(folder);
                for (int round = 0; round < 4; round++)
                        write_one(store, round);
                _exit(0);
        }
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
        store = open_again(folder);
        check_one(store, 3);
        store_close(store);
        folder_remove(folder);
}

/* Of each page that was written after the sync, the disk has the old or the new bytes: by chance, all of them, or none. */
static void a_power_loss(void **state) {
        (void)state;
        for (unsigned seed = 0; seed < 24; seed++) {
                char folder[sizeof(FOLDER_TEMPLATE)];
                size_t old_length, new_length, synced_length;
                char *old, *new, *synced;
                struct store *store;
                struct error err;
                unsigned dice = seed * 2654435761U + 1;

                make_folder(folder);
                make_store(folder);
                store = open_again(folder);
                for (int round = 0; round < 3 + (int)seed % 4; round++) {
                        write_one(store, round);
                        if (round % 2)
                                REQUIRE(store_sync(store, &err) == 0);
                }
                write_one(store, 100);
                REQUIRE(store_sync(store, &err) == 0);
                old = read_all(folder, STORE_DATA_FILE, &old_length);
                synced = read_all(folder, STORE_SYNCED_FILE, &synced_length);
                for (int round = 101; round < 102 + (int)seed % 9; round++)
                        write_one(store, round);
                new = read_all(folder, STORE_DATA_FILE, &new_length);
                store_close(store);

                REQUIRE(new_length >= old_length);
                for (size_t at = 0; at < old_length; at += PAGE) {
                        dice = dice * 1103515245U + 12345U;
                        if (seed == 0 || (seed > 1 && (dice >> 16) % 2))
                                memcpy(new + at, old + at, PAGE);
                }
                if (seed % 3 == 0)
                        new_length = old_length;
                write_all(folder, STORE_DATA_FILE, new, new_length);
                write_synced_of_another_boot(folder, synced, synced_length);
                store = open_again(folder);
                check_one(store, 100);
                write_one(store, 200);
                check_one(store, 200);
                store_close(store);
                store = open_again(folder);
                check_one(store, 200);
                store_close(store);
                folder_remove(folder);
                free(old);
                free(new);
                free(synced);
        }
}

/* A file that grows beyond its map while the reader of the last sync is open. */
static void growth(void **state) {
        char folder[sizeof(FOLDER_TEMPLATE)];
        struct values values = { 0, 3000 };
        struct store *store;
        struct error err;

        (void)state;
        make_folder(folder);
        make_store(folder);
        store = open_again(folder);
        for (; values.round < 6; values.round++) {
                REQUIRE(store_write(store, write_round, &values, &err) == 0);
                if (values.round % 2)
                        REQUIRE(store_sync(store, &err) == 0);
        }
        values.round--;
        REQUIRE(store_read(store, check_round, &values, &err) == 0);
        REQUIRE(store_check(store, &err) == 0);
        store_close(store);
        folder_remove(folder);
}

static void a_record_of_the_sync_that_is_damaged(void **state) {
        char folder[sizeof(FOLDER_TEMPLATE)];
        struct store *store;
        struct error err;

        (void)state;
        make_folder(folder);
        make_store(folder);
        store = open_again(folder);
        write_one(store, 0);
        store_close(store);
        write_all(folder, STORE_SYNCED_FILE, "nonsense", 8);
        REQUIRE(store_open_layout(folder, STORE_OF_SESSIONS, STORE_MODE_WRITE, &store, &err) == -1);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_process_that_dies_takes_nothing),
                cmocka_unit_test(a_power_loss),
                cmocka_unit_test(growth),
                cmocka_unit_test(a_record_of_the_sync_that_is_damaged),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
