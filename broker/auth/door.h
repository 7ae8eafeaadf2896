/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which client calls, and for which owner. By TCP a client proves its identity by its token, or by
 * a JSON Web Token of its issuer; on the Unix socket the kernel says which user it is.
 *
 * Owners are of three kinds, and no name that a request gives can be of another kind than it is: "REALM/NAME" where the client
 * names the user, or the token does (a realm has neither colon nor slash), "client:NAME" where it acts for itself, "uid:N" on the socket.
 */
#ifndef BERTH_BROKER_AUTH_DOOR_H
#define BERTH_BROKER_AUTH_DOOR_H

#include "broker/auth/config.h"
#include "server/server.h"

#include <stdbool.h>

#define DOOR_OWNER_CHARACTERS 256 /* of NAME, at most */

struct door;
struct issuers;

/* Lives as long as the request. */
struct door_caller {
        const char *client;                        /* its name; "uid:N" on the socket */
        const char *owner;                         /* NULL: none was named, and none is needed */
        bool itself;                               /* it acts for itself alone */
        bool is_named;                             /* by its token: it acts for this owner alone */
        int64_t until_s;                           /* since 1970: the end of its token; 0: none is known */
        unsigned rights;                           /* of enum broker_right */
        const struct value *agents, *environments; /* that it may name; NULL: all */
        const struct broker_limits *limits;        /* as long as the door */
};

/* Why a caller is not admitted: a code of answers_code(), and words for this request. The headers of the answer are set already. */
struct door_refusal {
        const char *code, *detail;
};

/* All borrowed; `issuers` are those of the clients. */
struct door *door_new(const struct broker_client *clients, size_t count, struct issuers *issuers);
/* From now on users at the socket may ask for commands on the host, and decide on them. Before the first request. */
void door_serve_shell(struct door *door);
void door_free(struct door *door); /* NULL is fine */

/*
 * False with a refusal: 401 for an unknown client, 503 while its issuer's keys cannot be had, 429 for too many requests, 400 and 403 for
 * owners. `owned`: the answer is some owner's, so that a client that acts for users must name one, unless it may look at all.
 */
bool door_admit(struct door *door, struct server_request *request, bool owned, struct door_caller *ret,
                struct door_refusal *refusal) MUST_USE;

/*
 * The same for a client that sends its token in another place than `Authorization` (NULL: no
 * token), and for an owner.
 */
bool door_admit_token(struct door *door, struct server_request *request, const char *token,
                      struct door_caller *ret, struct door_refusal *refusal) MUST_USE;

/* The client of that name; NULL if there is no such client. */
const struct broker_client *door_client(const struct door *door, const char *name);
/* For a caller that was admitted before as this client, for this owner: false, with the refusal, where it asks too often. */
bool door_admit_again(struct door *door, struct server_request *request, const struct broker_client *client,
                      const char *owner, struct door_caller *ret, struct door_refusal *refusal) MUST_USE;

/* Whether the request proves to be some client's, which answers nothing: for a page that asks before it shows anything. */
bool door_knows(const struct door *door, const struct server_request *request);

/* Whether the name is in the list; NULL is a list of all. */
bool door_lists(const struct value *names, const char *name);

/* Whether a user may be called so: UTF-8 of 1 to DOOR_OWNER_CHARACTERS characters, all of which can be seen. */
bool door_is_owner_name(const char *name);

#endif
