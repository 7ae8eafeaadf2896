/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest of a Server must satisfy beyond its fields. */
#include "schema/loading.h"

#include <string.h>

/* The addresses that only this machine reaches, as the schema's rule in kind_server.c says it too. */
#define LOOPBACK_PATTERN "off|(localhost|127\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}|\\[::1\\]):[0-9]{1,5}"

static void check_reach(struct loading *loading, const struct value *spec, const struct value *listen) {
        if (patterns_match(loading->patterns, LOOPBACK_PATTERN, listen->text) || value_get(spec, "tls") ||
            value_get_boolean(spec, "behindProxy", false))
                return;
        problem_error(loading, place_of(listen),
                      "set tls, or behindProxy: true where a proxy in front has the certificate",
                      "listen is reached from beyond this machine, and tokens would go there as plain text");
}

static bool list_has(const struct value *list, const char *text) {
        for (uint32_t i = 0; list && i < list->count; i++) {
                const char *item = value_text_of(&list->items[i]);

                if (item && strcmp(item, text) == 0)
                        return true;
        }
        return false;
}

static void check_client(struct loading *loading, const struct value *client) {
        const struct value *may = typed_member(client, "may", VALUE_LIST),
                           *acts = typed_member(client, "actsFor", VALUE_TEXT),
                           *claim = typed_member(typed_member(client, "jwt", VALUE_MAP), "ownerClaim",
                                                 VALUE_TEXT);

        check_names_once(loading, may);
        check_names_once(loading, typed_member(client, "agents", VALUE_LIST));
        check_names_once(loading, typed_member(client, "environments", VALUE_LIST));
        if (list_has(may, "shell") && list_has(may, "approve"))
                problem_error(loading, place_of(may), "give approve to a client that agents have no token of",
                              "who asks for commands on the host must not approve them");
        if (claim && acts && acts->line > 0 && strcmp(acts->text, "itself") == 0)
                problem_error(loading, place_of(acts), NULL,
                              "ownerClaim, on line %u, names an owner: such a client acts for users",
                              claim->line);
}

/* Compared pair by pair: there are 1,000 clients at the most. */
static void check_unlike(struct loading *loading, const struct value *clients, uint32_t at,
                         const char *field) {
        const struct value *own = typed_member(&clients->items[at], field, VALUE_TEXT);

        for (uint32_t i = 0; own && i < at; i++) {
                const struct value *other = typed_member(&clients->items[i], field, VALUE_TEXT);

                if (!other || strcmp(other->text, own->text) != 0)
                        continue;
                problem_error(loading, place_of(own), NULL,
                              "two clients have the same %s, the first on line %u", field, other->line);
                return;
        }
}

void check_server(struct loading *loading, const struct draft *draft) {
        const struct value *spec = draft->resource.spec, *clients = typed_member(spec, "clients", VALUE_LIST),
                           *listen = typed_member(spec, "listen", VALUE_TEXT);

        if (listen) {
                check_listen(loading, listen);
                check_reach(loading, spec, listen);
        }
        for (uint32_t i = 0; clients && i < clients->count; i++) {
                check_client(loading, &clients->items[i]);
                check_unlike(loading, clients, i, "name");
                check_unlike(loading, clients, i, "tokenFile");
                check_unlike(loading, clients, i, "tokenSha256");
        }
}
