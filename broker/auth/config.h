/* SPDX-License-Identifier: Apache-2.0 */
/* The server's own manifest: one document of kind Server, in a file of its own. */
#ifndef BERTH_BROKER_AUTH_CONFIG_H
#define BERTH_BROKER_AUTH_CONFIG_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/error.h"
#include "schema/diagnostics.h"
#include "schema/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum broker_right {
        BROKER_EXECUTE = 1 << 0,
        BROKER_CONTAINERS = 1 << 1,
        BROKER_SHELL = 1 << 2,
        BROKER_APPROVE = 1 << 3,
        BROKER_OBSERVE = 1 << 4,
        BROKER_ADMINISTER = 1 << 5
};

/* What `may` of a client calls the right of that number, from 0; NULL behind the last. */
const char *broker_right_name(size_t number, enum broker_right *ret);

/* How its JSON Web Tokens are judged; paths and texts as the manifest has them. */
struct broker_jwt {
        const char *issuer, *audience;
        const char *keys_file, *keys_url; /* one of them */
        const char *authorities_file;     /* that vouch for the URL's server; NULL: the machine's */
        const char *owner_claim;          /* names the owner; NULL: none does */
};

/* Limits of one client; the manifest's `limits`. */
struct broker_limits {
        int64_t per_second;       /* requests; twice as many at once */
        int64_t owner_per_second; /* of them for one owner; 0: no limit of its own */
        size_t under_way;         /* requests and streams */
        size_t owner_under_way;   /* of one owner, by whichever clients */
};
/* Those of a client whose manifest says nothing of them, and of users at the socket. */
#define BROKER_LIMITS_INIT \
        { 1000, 0, 160, 64 }

struct broker_client {
        const char *name;
        const char *realm; /* of its owners: "REALM/NAME" */
        bool for_users;    /* each request says for whom; else it owns as "client:NAME" */
        unsigned rights;   /* of enum broker_right */
        const struct value *agents, *environments; /* lists of names that it may use; NULL: all */
        bool has_token;                            /* false: its tokens are JSON Web Tokens */
        struct broker_jwt jwt;                     /* where it has none */
        uint8_t token_hash[SHA256_SIZE];
        struct broker_limits limits;
};

struct broker_config {
        const char *name;
        const char *stack;        /* the folder of manifests */
        const char *listen;       /* "127.0.0.1:9471"; "": the Unix socket alone */
        const char *const *hosts; /* names that clients call it by */
        size_t host_count;
        struct broker_client *clients;
        size_t client_count;
        const char *certificate_file, *key_file; /* of TLS; NULL: none */
        bool own_token;           /* no file: its one client has a token that the server makes */
        const struct value *spec; /* all of it, defaults filled in */
};

/*
 * Reads and checks `path`, a file. As manifests_load(): ERROR_DIAGNOSED with everything that is wrong in `diagnostics`. Paths in it
 * are relative to its folder; one that names no file is an error or, with `elsewhere` (the server runs on another machine), a
 * warning. All lives in the arena.
 */
int broker_config_load(const char *path, bool elsewhere, struct arena *arena, struct broker_config *ret,
                       struct diagnostics *diagnostics, struct error *err) MUST_USE;

/* That of a server without a file: the Unix socket, the usual address, and one client, whose token the server makes itself. */
void broker_config_without_file(const char *stack, struct arena *arena, struct broker_config *ret);

#endif
