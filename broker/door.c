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
        pthread_mutex_t lock; /* of the rates */
        struct rate *rates;   /* of each client; the last is the socket's */
};

struct door *door_new(const struct broker_client *clients, size_t count) {
        struct door *door = calloc(1, sizeof(*door));

        if (!door || !(door->rates = calloc(count + 1, sizeof(*door->rates))) ||
            pthread_mutex_init(&door->lock, NULL) != 0)
                abort();
        door->clients = clients;
        door->count = count;
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

static bool has_same_hash(const uint8_t *one, const uint8_t *two) {
        unsigned differs = 0;

        for (size_t i = 0; i < SHA256_SIZE; i++)
                differs |= one[i] ^ two[i];
        return differs == 0;
}

/* The client whose token the request has; NULL where it has none, or nobody's. */
static const struct broker_client *client_of(const struct door *door, const struct server_request *request) {
        const char *authorization = server_header(request, "Authorization");
        const struct broker_client *found = NULL;
        uint8_t hash[SHA256_SIZE];

        if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
                return NULL;
        token_hash(authorization + sizeof(scheme) - 1, hash);
        for (size_t i = 0; i < door->count; i++) {
                if (has_same_hash(hash, door->clients[i].token_hash) && door->clients[i].has_token)
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

static bool admit_client(struct door *door, struct server_request *request, bool owned,
                         struct door_caller *caller) {
        const struct broker_client *client = client_of(door, request);

        if (!client) {
                server_add_header(request, "WWW-Authenticate", "Bearer");
                return refuse(request, (struct answers_problem){
                                               401, "unauthenticated", "the server does not know who asks",
                                               "the request has no token, or one that is no client's",
                                               "send the client's token: Authorization: Bearer TOKEN" });
        }
        if (!has_turn(door, request, (size_t)(client - door->clients)))
                return false;
        *caller = (struct door_caller){ .client = client->name,
                                        .rights = client->rights,
                                        .agents = client->agents,
                                        .environments = client->environments };
        if (client->for_users)
                return name_owner(client, request, owned, caller);
        caller->itself = true;
        caller->owner = arena_printf(request->arena, "client:%s", client->name);
        return true;
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
        } else if (!admit_client(door, request, owned, &caller)) {
                return false;
        }
        /* Whoever acts for himself is nobody else, whatever he says. */
        if (caller.itself && server_has_header(request, "Berth-Owner"))
                return refuse(request,
                              (struct answers_problem){
                                      403, "owner-not-allowed", "the client acts for itself",
                                      "Berth-Owner was sent by who may not name an owner", "leave it out" });
        *ret = caller;
        return true;
}
