/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls, and for whom. By TCP a client proves who it is by its token; on the Unix socket the kernel says which user it is.
 *
 * Owners are of three kinds, and no name that a request gives can be of another kind than it is: "REALM/NAME" where the client
 * names the user (a realm has neither colon nor slash), "client:NAME" where it acts for itself, "uid:N" on the socket.
 */
#ifndef BERTH_BROKER_DOOR_H
#define BERTH_BROKER_DOOR_H

#include "broker/config.h"
#include "server/server.h"

#include <stdbool.h>

#define DOOR_OWNER_CHARACTERS 256 /* of NAME, at most */

struct door;

/* Lives as long as the request. */
struct door_caller {
        const char *client;                        /* its name; "uid:N" on the socket */
        const char *owner;                         /* NULL: none was named, and none is needed */
        bool itself;                               /* it acts for nobody else */
        unsigned rights;                           /* of enum broker_right */
        const struct value *agents, *environments; /* that it may name; NULL: all */
};

/* The clients are borrowed. */
struct door *door_new(const struct broker_client *clients, size_t count);
void door_free(struct door *door); /* NULL is fine */

/*
 * False where the request was answered with the reason: 401 for who is not known, 429 for who asks too often, 400 and 403 for
 * owners. `owned`: the answer is some owner's, so that a client that acts for users must name one, unless it may look at all.
 */
bool door_admit(struct door *door, struct server_request *request, bool owned,
                struct door_caller *ret) MUST_USE;

/* Whether the name is in the list; NULL is a list of all. */
bool door_lists(const struct value *names, const char *name);

/* Whether a user may be called so: UTF-8 of 1 to DOOR_OWNER_CHARACTERS characters, all of which can be seen. */
bool door_is_owner_name(const char *name);

#endif
