/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token is compared with every client's hash, each time whole: how long it takes tells neither whether there is one that begins
 * so, nor whose it is. What is compared is a hash, so that even a comparison that told would tell nothing of the token.
 */
#include "broker/door.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/terminal.h"
#include "base/text.h"
#include "broker/answers.h"
#include "broker/issuers.h"
#include "broker/rate.h"
#include "broker/token.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char scheme[] = "Bearer ";

struct door {
        const struct broker_client *clients;
        size_t count;
        struct issuers *issuers;
        pthread_mutex_t lock; /* of the rates */
        struct rate *rates;   /* of each client; the last is the socket's */
};

struct door *door_new(const struct broker_client *clients, size_t count, struct issuers *issuers) {
        struct door *door = calloc(1, sizeof(*door));

        if (!door || !(door->rates = calloc(count + 1, sizeof(*door->rates))) ||
            pthread_mutex_init(&door->lock, NULL) != 0)
                abort();
        door->clients = clients;
        door->count = count;
        door->issuers = issuers;
        return door;
}

void door_free(struct door *door) {
        if (!door)
                return;
        pthread_mutex_destroy(&door->lock);
        free(door->rates);
        free(door);
}

bool door_lists(const struct value *names, const char *name) {
        for (uint32_t i = 0; names && i < names->count; i++) {
                if (strcmp(value_text_of(&names->items[i]), name) == 0)
                        return true;
        }
        return !names;
}

/* What a terminal would not show, or would act on, two people may take for two names, or for one. */
bool door_is_owner_name(const char *name) {
        struct strbuf shown STRBUF_CLEANUP = STRBUF_INIT;
        size_t length = strlen(name), characters, ignored;

        if (!text_is_utf8(name, length, &ignored))
                return false;
        characters = text_characters(name, length);
        if (characters < 1 || characters > DOOR_OWNER_CHARACTERS || name[strcspn(name, "\t\n\r")] != '\0')
                return false;
        text_append_safe(&shown, name);
        return strcmp(strbuf_text(&shown), name) == 0;
}

static bool refuse(struct server_request *request, struct answers_problem problem) {
        answers_problem(request, &problem);
        return false;
}

/* The token that the request has; NULL where it has none. */
static const char *token_of(const struct server_request *request) {
        const char *authorization = server_header(request, "Authorization");

        if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
                return NULL;
        return authorization + sizeof(scheme) - 1;
}

/* The client whose token that is; NULL where it is nobody's. */
static const struct broker_client *client_of(const struct door *door, const char *token) {
        const struct broker_client *found = NULL;
        uint8_t hash[SHA256_SIZE];

        token_hash(token, hash);
        for (size_t i = 0; i < door->count; i++) {
                if (token_is_same(hash, door->clients[i].token_hash) && door->clients[i].has_token)
                        found = &door->clients[i];
        }
        return found;
}

static bool has_turn(struct door *door, struct server_request *request, size_t number) {
        int64_t now_ms = clock_system.monotonic_ms(&clock_system);
        bool may;

        pthread_mutex_lock(&door->lock);
        may = rate_take(&door->rates[number], now_ms);
        pthread_mutex_unlock(&door->lock);
        if (may)
                return true;
        server_add_header(request, "Retry-After", "1");
        return refuse(request,
                      (struct answers_problem){ 429, "too-many-requests", "the client asks too often",
                                                "more requests a second came than one client may make",
                                                "wait for as long as Retry-After says" });
}

/* Sets the owner of a client that acts for users. */
static bool name_owner(const struct broker_client *client, struct server_request *request, bool owned,
                       struct door_caller *caller) {
        const char *name = server_header(request, "Berth-Owner");

        if (!server_has_header(request, "Berth-Owner")) {
                if (!owned || client->rights & (BROKER_OBSERVE | BROKER_ADMINISTER))
                        return true;
                return refuse(request, (struct answers_problem){
                                               400, "owner-required", "the client must say for whom it asks",
                                               "this client acts for users, and the request names none",
                                               "name the user in the header Berth-Owner" });
        }
        if (!name || !door_is_owner_name(name))
                return refuse(
                        request,
                        (struct answers_problem){
                                400, "owner-invalid", "this is no owner's name",
                                "Berth-Owner must be one name of 1 to 256 characters, all of which can be seen",
                                NULL });
        caller->owner = arena_printf(request->arena, "%s/%s", client->realm, name);
        return true;
}

static bool refuse_stranger(struct server_request *request) {
        server_add_header(request, "WWW-Authenticate", "Bearer");
        answers_refuse(request, "unauthenticated", "the request has no token, or one that is no client's");
        return false;
}

/* Who it is, by a JSON Web Token. Why one is refused is told only where its signature is its issuer's. */
static bool find_by_issuer(struct door *door, struct server_request *request, const char *token,
                           struct issuers_found *ret) {
        switch (issuers_ask(door->issuers, token, request->arena, ret)) {
        case ISSUERS_KNOWN:
                return true;
        case ISSUERS_REFUSED:
                server_add_header(request, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
                answers_refuse(request, "token-invalid", ret->why);
                return false;
        case ISSUERS_NO_KEYS:
                server_add_header(request, "Retry-After", "5");
                answers_refuse(request, "no-keys",
                               "the keys of the token's issuer cannot be had: the server's log says why");
                return false;
        case ISSUERS_STRANGER:
        default:
                return refuse_stranger(request);
        }
}

static bool admit_client(struct door *door, struct server_request *request, const char *token, bool owned,
                         struct door_caller *caller) {
        struct issuers_found found = { .client = token ? client_of(door, token) : NULL };
        const struct broker_client *client;

        if (!token)
                return refuse_stranger(request);
        if (!found.client && !find_by_issuer(door, request, token, &found))
                return false;
        client = found.client;
        if (!has_turn(door, request, (size_t)(client - door->clients)))
                return false;
        *caller = (struct door_caller){ .client = client->name,
                                        .rights = client->rights,
                                        .agents = client->agents,
                                        .environments = client->environments };
        if (found.owner) {
                caller->owner = arena_printf(request->arena, "%s/%s", client->realm, found.owner);
                caller->is_named = true;
                return true;
        }
        if (client->for_users)
                return name_owner(client, request, owned, caller);
        caller->itself = true;
        caller->owner = arena_printf(request->arena, "client:%s", client->name);
        return true;
}

/* Whoever acts for himself, or for whom his token names, is nobody else, whatever he says. */
static bool may_name(struct server_request *request, const struct door_caller *caller) {
        if ((!caller->itself && !caller->is_named) || !server_has_header(request, "Berth-Owner"))
                return true;
        return refuse(request,
                      (struct answers_problem){
                              403, "owner-not-allowed", "the client may not name an owner",
                              "Berth-Owner was sent by who acts for itself, or whose token names the owner",
                              "leave it out" });
}

bool door_admit_token(struct door *door, struct server_request *request, const char *token,
                      struct door_caller *ret) {
        struct door_caller caller = { 0 };

        if (!admit_client(door, request, token, true, &caller) || !may_name(request, &caller))
                return false;
        *ret = caller;
        return true;
}

const struct broker_client *door_client(const struct door *door, const char *name) {
        for (size_t i = 0; i < door->count; i++) {
                if (strcmp(door->clients[i].name, name) == 0)
                        return &door->clients[i];
        }
        return NULL;
}

bool door_admit_again(struct door *door, struct server_request *request, const struct broker_client *client,
                      const char *owner, struct door_caller *ret) {
        if (!has_turn(door, request, (size_t)(client - door->clients)))
                return false;
        *ret = (struct door_caller){ .client = client->name,
                                     .owner = owner,
                                     .is_named = true,
                                     .rights = client->rights,
                                     .agents = client->agents,
                                     .environments = client->environments };
        return true;
}

bool door_knows(const struct door *door, const struct server_request *request) {
        const char *token = token_of(request);
        struct issuers_found found;
        uid_t user;

        if (server_peer_user(request, &user))
                return true;
        return token && (client_of(door, token) ||
                         issuers_ask(door->issuers, token, request->arena, &found) == ISSUERS_KNOWN);
}

bool door_admit(struct door *door, struct server_request *request, bool owned, struct door_caller *ret) {
        struct door_caller caller = { 0 };
        uid_t user;

        if (server_peer_user(request, &user)) {
                if (!has_turn(door, request, door->count))
                        return false;
                caller.client = caller.owner = arena_printf(request->arena, "uid:%lu", (unsigned long)user);
                caller.itself = true;
                caller.rights = BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_OBSERVE;
        } else if (!admit_client(door, request, token_of(request), owned, &caller)) {
                return false;
        }
        if (!may_name(request, &caller))
                return false;
        *ret = caller;
        return true;
}
