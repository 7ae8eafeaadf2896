/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token is compared with every client's hash, each time whole: the time it takes tells neither
 * whether a token that begins so exists, nor which client's it is. Hashes are compared, so that
 * even a leak of the comparison would reveal nothing of the token.
 */
#include "broker/auth/door.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/text_utf8.h"
#include "broker/auth/issuers.h"
#include "broker/auth/token.h"
#include "broker/auth/turns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char scheme[] = "Bearer ";
static const struct broker_limits socket_limits = BROKER_LIMITS_INIT;

struct door {
        const struct broker_client *clients;
        size_t count;
        struct issuers *issuers;
        unsigned socket_rights;
        struct turns *turns; /* of each client; the last is the socket's */
};

struct door *door_new(const struct broker_client *clients, size_t count, struct issuers *issuers) {
        struct door *door = calloc(1, sizeof(*door));

        if (!door)
                abort();
        door->turns = turns_new(count + 1);
        door->clients = clients;
        door->count = count;
        door->socket_rights = BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_OBSERVE;
        door->issuers = issuers;
        return door;
}

void door_serve_shell(struct door *door) {
        door->socket_rights |= BROKER_SHELL | BROKER_APPROVE;
}

void door_free(struct door *door) {
        if (!door)
                return;
        turns_free(door->turns);
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

/* The token that the request has; NULL where it has none. */
static const char *token_of(const struct server_request *request) {
        const char *authorization = server_header(request, "Authorization");

        if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
                return NULL;
        return authorization + sizeof(scheme) - 1;
}

/* The client of that token; NULL for an unknown token. */
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

static bool refuse(struct door_refusal *refusal, const char *code, const char *detail) {
        *refusal = (struct door_refusal){ code, detail };
        return false;
}

/* Counts each admitted request, and each request of a known client that names an invalid owner. */
static bool has_turn(struct door *door, struct server_request *request, size_t number,
                     const struct broker_limits *limits, const char *owner, struct door_refusal *refusal) {
        enum turn turn = turns_take(door->turns, number, limits, owner, clock_now_ms());

        if (turn == TURN_TAKEN)
                return true;
        server_add_header(request, "Retry-After", "1");
        return refuse(
                refusal, "too-many-requests",
                turn == TURN_NOT_OF_OWNER
                        ? "more requests a second came for this owner than one owner of the client may make"
                        : "more requests a second came than the client may make");
}

/* The owner of a request of a client that acts for users. A code of NULL: nothing is wrong. */
static struct door_refusal name_owner(const struct broker_client *client,
                                      const struct server_request *request, bool owned, const char **ret) {
        const char *name = server_header(request, "Berth-Owner");

        if (!server_has_header(request, "Berth-Owner")) {
                if (!owned || client->rights & (BROKER_OBSERVE | BROKER_ADMINISTER))
                        return (struct door_refusal){ 0 };
                return (struct door_refusal){ "owner-required",
                                              "this client acts for users, and the request names none" };
        }
        if (!name || !door_is_owner_name(name))
                return (struct door_refusal){
                        "owner-invalid",
                        "Berth-Owner must be one name of 1 to 256 characters, all of which can be seen"
                };
        *ret = arena_printf(request->arena, "%s/%s", client->realm, name);
        return (struct door_refusal){ 0 };
}

static bool refuse_stranger(struct server_request *request, struct door_refusal *refusal) {
        server_add_header(request, "WWW-Authenticate", "Bearer");
        return refuse(refusal, "unauthenticated", "the request has no token, or one that is no client's");
}

/*
 * Finds the client by a JSON Web Token. The reason of a refusal is returned only if the signature
 * is the issuer's.
 */
static bool find_by_issuer(struct door *door, struct server_request *request, const char *token,
                           struct issuers_found *ret, struct door_refusal *refusal) {
        switch (issuers_ask(door->issuers, token, request->arena, ret)) {
        case ISSUERS_KNOWN:
                return true;
        case ISSUERS_REFUSED:
                server_add_header(request, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
                return refuse(refusal, "token-invalid", ret->why);
        case ISSUERS_NO_KEYS:
                server_add_header(request, "Retry-After", "5");
                return refuse(refusal, "no-keys",
                              "the keys of the token's issuer cannot be had: the server's log says why");
        case ISSUERS_STRANGER:
        default:
                return refuse_stranger(request, refusal);
        }
}

static void know_client(const struct broker_client *client, struct door_caller *caller) {
        caller->client = client->name;
        caller->rights = client->rights;
        caller->agents = client->agents;
        caller->environments = client->environments;
        caller->limits = &client->limits;
}

static bool admit_client(struct door *door, struct server_request *request, const char *token, bool owned,
                         struct door_caller *caller, struct door_refusal *refusal) {
        struct issuers_found found = { .client = token ? client_of(door, token) : NULL };
        const struct broker_client *client;
        struct door_refusal of_owner = { 0 };

        if (!token)
                return refuse_stranger(request, refusal);
        if (!found.client && !find_by_issuer(door, request, token, &found, refusal))
                return false;
        client = found.client;
        caller->until_s = found.until_s;
        caller->is_named = found.owner != NULL;
        caller->itself = !found.owner && !client->for_users;
        if (found.owner)
                caller->owner = arena_printf(request->arena, "%s/%s", client->realm, found.owner);
        else if (caller->itself)
                caller->owner = arena_printf(request->arena, "client:%s", client->name);
        else
                of_owner = name_owner(client, request, owned, &caller->owner);
        know_client(client, caller);
        if (!has_turn(door, request, (size_t)(client - door->clients), caller->limits, caller->owner,
                      refusal))
                return false;
        return !of_owner.code || refuse(refusal, of_owner.code, of_owner.detail);
}

/* A client that acts for itself, or whose token names the owner, cannot name another owner. */
static bool may_name(const struct server_request *request, const struct door_caller *caller,
                     struct door_refusal *refusal) {
        if ((!caller->itself && !caller->is_named) || !server_has_header(request, "Berth-Owner"))
                return true;
        return refuse(
                refusal, "owner-not-allowed",
                "Berth-Owner is not allowed: this client acts for itself, or its token already names the owner");
}

bool door_admit_token(struct door *door, struct server_request *request, const char *token,
                      struct door_caller *ret, struct door_refusal *refusal) {
        struct door_caller caller = { 0 };

        if (!admit_client(door, request, token, true, &caller, refusal) ||
            !may_name(request, &caller, refusal))
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
                      const char *owner, struct door_caller *ret, struct door_refusal *refusal) {
        struct door_caller caller = { .owner = owner, .is_named = true };

        know_client(client, &caller);
        if (!has_turn(door, request, (size_t)(client - door->clients), caller.limits, owner, refusal))
                return false;
        *ret = caller;
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

bool door_admit(struct door *door, struct server_request *request, bool owned, struct door_caller *ret,
                struct door_refusal *refusal) {
        struct door_caller caller = { 0 };
        uid_t user;

        if (server_peer_user(request, &user)) {
                if (!has_turn(door, request, door->count, &socket_limits, NULL, refusal))
                        return false;
                caller.limits = &socket_limits;
                caller.client = caller.owner = arena_printf(request->arena, "uid:%lu", (unsigned long)user);
                caller.itself = true;
                caller.rights = door->socket_rights;
        } else if (!admit_client(door, request, token_of(request), owned, &caller, refusal)) {
                return false;
        }
        if (!may_name(request, &caller, refusal))
                return false;
        *ret = caller;
        return true;
}
