/* SPDX-License-Identifier: Apache-2.0 */
/* Keys in a file that change while many ask; whose a token is: tests/e2e/test_serve_jwt.py. */
#include "broker/auth/issuers.h"

#include "../../folder.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define ASKING 8

/* Two keys, and a token of each: {"iss": "i", "aud": "b", "sub": its name}, valid until 2100. */
static const char old_keys[] =
        "{\"keys\":[{\"crv\":\"Ed25519\",\"x\":\"gCpCnFReUqhRLARxp6eMAguwPN1H7-huV4WM2dHmPYw\",\""
        "kid\":\"old\",\"kty\":\"OKP\"}]}";
static const char old_token[] =
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJFZERTQSIsImtpZCI6Im9sZCJ9.eyJpc3MiOiJpIiwiYXVkIjoiYiIsImV4cCI"
        "6NDEwMjQ0NDgwMCwic3ViIjoib2xkIn0.phD8kOev3o_0KrA4TO8Dao8ApF4QZybke8nKndzISTLKP83fzxXLRqE"
        "VsJcmG9fOIJk1SxS2fDZAYIsoVdA6Bw";
static const char new_keys[] =
        "{\"keys\":[{\"crv\":\"Ed25519\",\"x\":\"yFavQab787JW9gGtN8vTWsUPq7kzqRjMrUu1SfJJZkQ\",\""
        "kid\":\"new\",\"kty\":\"OKP\"}]}";
static const char new_token[] =
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJFZERTQSIsImtpZCI6Im5ldyJ9.eyJpc3MiOiJpIiwiYXVkIjoiYiIsImV4cCI"
        "6NDEwMjQ0NDgwMCwic3ViIjoibmV3In0.0Gzej4JoAp15nOBxPD3khpgMSgjww3_lmkfDZ6rhM4UjfE4B3dI5oHH"
        "f19TuI6gj46hOVLSKhorUWAEPOdnBBw";

struct crowd {
        struct issuers *issuers;
        atomic_bool over;
        atomic_size_t known, others; /* answers to the old token */
};

static enum issuers_verdict ask(struct issuers *issuers, const char *token) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct issuers_found found;

        return issuers_ask(issuers, token, arena, &found);
}

static void *ask_on(void *context) {
        struct crowd *crowd = context;

        while (!atomic_load(&crowd->over)) {
                if (ask(crowd->issuers, old_token) == ISSUERS_KNOWN)
                        atomic_fetch_add(&crowd->known, 1);
                else
                        atomic_fetch_add(&crowd->others, 1);
        }
        return NULL;
}

/* However many check signatures without a pause, new keys are there at once, and the old ones are believed no more. */
static void keys_change_under_a_crowd(void **state) {
        char folder[sizeof(FOLDER_TEMPLATE)], path[64], next[64];
        const struct broker_client client = { .name = "c",
                                              .realm = "r",
                                              .jwt = { .issuer = "i", .audience = "b", .keys_file = path } };
        struct crowd crowd = { 0 };
        pthread_t threads[ASKING];
        struct error err;

        (void)state;
        folder_make_temporary(folder);
        snprintf(path, sizeof(path), "%s/keys", folder);
        snprintf(next, sizeof(next), "%s/next", folder);
        folder_write(folder, "keys", old_keys);
        assert_int_equal(issuers_new(&client, 1, NULL, 0, &crowd.issuers, &err), 0);
        assert_int_equal(ask(crowd.issuers, new_token), ISSUERS_STRANGER);
        for (size_t i = 0; i < ASKING; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &crowd), 0);
        while (atomic_load(&crowd.known) < 100)
                sched_yield();
        for (size_t i = 0; i < 20; i++) {
                bool is_new = i % 2 == 0;
                size_t before;

                /* Another file each time: one that is written twice within a tick of the clock may look the same. */
                folder_write(folder, "next", is_new ? new_keys : old_keys);
                assert_int_equal(rename(next, path), 0);
                issuers_look(crowd.issuers);
                assert_int_equal(ask(crowd.issuers, new_token), is_new ? ISSUERS_KNOWN : ISSUERS_STRANGER);
                assert_int_equal(ask(crowd.issuers, old_token), is_new ? ISSUERS_STRANGER : ISSUERS_KNOWN);
                before = is_new ? atomic_load(&crowd.others) : atomic_load(&crowd.known);
                while ((is_new ? atomic_load(&crowd.others) : atomic_load(&crowd.known)) < before + ASKING)
                        sched_yield();
        }
        atomic_store(&crowd.over, true);
        for (size_t i = 0; i < ASKING; i++)
                pthread_join(threads[i], NULL);
        issuers_stop(crowd.issuers);
        issuers_free(crowd.issuers);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys_change_under_a_crowd),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
