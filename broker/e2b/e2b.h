/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's interface, as its SDK asks for it, where the Server says compat.e2b: a sandbox is a session, its id the session's. docs/e2b.md is
 * for its users. Two doors: the API, by a client's token in X-API-Key; and sandboxes, by tokens that the API gives out for one
 * of them (e2b_token.h). Neither credential opens the other door.
 *
 * Errors have E2B's form, {code, message}, also those that no route of it gives: its clients read no other.
 */
#ifndef BERTH_BROKER_E2B_E2B_H
#define BERTH_BROKER_E2B_E2B_H

#include "base/digest.h"
#include "broker/auth/config.h"
#include "broker/request/answers.h"
#include "server/server.h"

#include <pthread.h>

struct e2b {
        uint8_t key[SHA256_SIZE];  /* of sandboxes' tokens: of this state folder, over restarts */
        const char *template_name; /* the environment of who names none; NULL: the first by name */
        pthread_mutex_t labels;    /* held while a sandbox's labels are read, and written as something else */
};

/* NULL where the Server does not say compat.e2b. */
int e2b_new(const struct broker_config *config, const char *folder, struct e2b **ret,
            struct error *err) MUST_USE;
void e2b_free(struct e2b *e2b); /* NULL is fine */

extern const struct server_route e2b_routes[];
extern const size_t e2b_route_count;

/* Of requests that speak E2B's language: by their path, or by a header that only its clients send. None do where compat.e2b is off. */
extern const struct answers_form e2b_form;
void e2b_answer_error(struct server_request *request, unsigned status, const char *message);

#endif
