/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest of kind Server, from typed values to what the server asks at each request. The
 * schema has checked each field; here the rest is checked, which takes this machine: files exist,
 * and a token's file holds a valid token and is not open to all users. Tokens are hashed here, and
 * not kept.
 */
#include "broker/auth/config.h"

#include "broker/auth/jwks.h"
#include "broker/auth/token.h"
#include "schema/manifests.h"
#include "schema/named_files.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct {
        const char *name;
        enum broker_right right;
} rights[] = {
        { "execute", BROKER_EXECUTE }, { "containers", BROKER_CONTAINERS },
        { "shell", BROKER_SHELL },     { "approve", BROKER_APPROVE },
        { "observe", BROKER_OBSERVE }, { "administer", BROKER_ADMINISTER },
};

const char *broker_right_name(size_t number, enum broker_right *ret) {
        if (number >= sizeof(rights) / sizeof(rights[0]))
                return NULL;
        *ret = rights[number].right;
        return rights[number].name;
}

static unsigned read_rights(const struct value *may) {
        unsigned found = 0;

        for (uint32_t i = 0; i < may->count; i++) {
                for (size_t k = 0; k < sizeof(rights) / sizeof(rights[0]); k++) {
                        if (strcmp(value_text_of(&may->items[i]), rights[k].name) == 0)
                                found |= rights[k].right;
                }
        }
        return found;
}

static void read_hash(const char *hex, uint8_t ret[SHA256_SIZE]) {
        for (size_t i = 0; i < SHA256_SIZE; i++)
                ret[i] = (uint8_t)(digest_from_hex(hex[2 * i]) << 4 | digest_from_hex(hex[2 * i + 1]));
}

/*
 * Keys that are fetched may come later; a file must hold its keys now, or no client of that issuer
 * could ever call.
 */
static void read_jwt(struct named_files *files, const struct value *spec, struct broker_jwt *ret) {
        struct jwks *jwks;
        struct error err;

        *ret = (struct broker_jwt){
                .issuer = value_get_text(spec, "issuer"),
                .audience = value_get_text(spec, "audience"),
                .keys_file = named_files_member(files, spec, "jwksFile"),
                .keys_url = value_get_text(spec, "jwksUrl"),
                .authorities_file = named_files_member(files, spec, "caFile"),
                .owner_claim = value_get_text(spec, "ownerClaim"),
        };
        if (!ret->keys_file)
                return;
        if (jwks_file(ret->keys_file, &jwks, &err) < 0)
                named_files_add(files, value_get(spec, "jwksFile"), SEVERITY_ERROR,
                                arena_printf(files->arena, "jwksFile: %s", err.message), true);
        else
                jwks_free(jwks);
}

static struct broker_limits read_limits(const struct value *spec) {
        const struct broker_limits usual = BROKER_LIMITS_INIT;

        return (struct broker_limits){
                .per_second = value_get_integer(spec, "requestsPerSecond", usual.per_second),
                .owner_per_second = value_get_integer(spec, "ownerRequestsPerSecond", usual.owner_per_second),
                .under_way = (size_t)value_get_integer(spec, "underWay", (int64_t)usual.under_way),
                .owner_under_way =
                        (size_t)value_get_integer(spec, "ownerUnderWay", (int64_t)usual.owner_under_way),
        };
}

static void read_client(struct named_files *files, const struct value *spec, struct broker_client *ret) {
        const struct value *jwt = value_get(spec, "jwt"), *file = value_get(spec, "tokenFile");
        const char *name = value_get_text(spec, "name"), *realm = value_get_text(spec, "realm"),
                   *hash = value_get_text(spec, "tokenSha256"), *path;
        struct error err;

        *ret = (struct broker_client){
                .name = name,
                .realm = realm ? realm : name,
                .for_users =
                        strcmp(value_get_text(spec, "actsFor"), "users") == 0 || value_get(jwt, "ownerClaim"),
                .rights = read_rights(value_get(spec, "may")),
                .agents = value_get(spec, "agents"),
                .environments = value_get(spec, "environments"),
                .has_token = !jwt,
                .limits = read_limits(value_get(spec, "limits")),
        };
        if (hash)
                read_hash(hash, ret->token_hash);
        path = named_files_check(files, "tokenFile", file);
        if (path && token_hash_file(path, ret->token_hash, &err) < 0)
                named_files_add(files, file, SEVERITY_ERROR,
                                arena_printf(files->arena, "tokenFile: %s", err.message), true);
        if (jwt)
                read_jwt(files, jwt, &ret->jwt);
}

static bool are_one_issuers(const struct broker_client *one, const struct broker_client *two) {
        return !one->has_token && !two->has_token && strcmp(one->jwt.issuer, two->jwt.issuer) == 0 &&
               strcmp(one->jwt.audience, two->jwt.audience) == 0;
}

/* A client with such a token would be two clients. */
static void check_tokens(struct named_files *files, const struct broker_config *config,
                         const struct value *clients) {
        for (size_t i = 0; i < config->client_count; i++) {
                for (size_t k = 0; files->diagnostics->errors == 0 && k < i; k++) {
                        const struct broker_client *one = &config->clients[k], *two = &config->clients[i];
                        const char *same =
                                one->has_token && two->has_token &&
                                                memcmp(one->token_hash, two->token_hash, SHA256_SIZE) == 0
                                        ? "token"
                                : are_one_issuers(one, two) ? "issuer and audience"
                                                            : NULL;

                        if (same)
                                named_files_add(files, value_get(&clients->items[i], "name"), SEVERITY_ERROR,
                                                arena_printf(files->arena, "%s has the same %s as %s",
                                                             two->name, same, one->name),
                                                true);
                }
        }
}

/* A state would be made beside what is not there. */
static void check_stack(struct named_files *files, const char *stack, const struct value *given) {
        if (given && !files->elsewhere && access(stack, R_OK) < 0)
                named_files_add(files, given, SEVERITY_ERROR,
                                arena_printf(files->arena, "stack: %s: %s", stack, strerror(errno)), true);
}

static void read_config(struct named_files *files, const struct resource *resource,
                        struct broker_config *ret) {
        const struct value *spec = resource->spec, *hosts = value_get(spec, "hosts"),
                           *clients = value_get(spec, "clients"), *tls = value_get(spec, "tls");
        const char *listen = value_get_text(spec, "listen"), *stack = value_get_text(spec, "stack"), **names;
        size_t count = hosts ? hosts->count : 0;

        names = arena_array(files->arena, count + 1, sizeof(*names));
        for (size_t i = 0; i < count; i++)
                names[i] = value_text_of(&hosts->items[i]);
        *ret = (struct broker_config){
                .name = resource->name,
                .stack = named_files_path(files, stack ? stack : "."),
                .listen = strcmp(listen, "off") == 0 ? "" : listen,
                .hosts = names,
                .host_count = count,
                .client_count = clients ? clients->count : 0,
                .spec = spec,
        };
        ret->clients = arena_array(files->arena, ret->client_count + 1, sizeof(*ret->clients));
        for (size_t i = 0; clients && i < ret->client_count; i++)
                read_client(files, &clients->items[i], &ret->clients[i]);
        check_stack(files, ret->stack, value_get(spec, "stack"));
        ret->certificate_file = named_files_member(files, tls, "certFile");
        ret->key_file = named_files_member(files, tls, "keyFile");
        if (clients && !files->elsewhere)
                check_tokens(files, ret, clients);
}

int broker_config_load(const char *path, bool elsewhere, struct arena *arena, struct broker_config *ret,
                       struct diagnostics *diagnostics, struct error *err) {
        const struct load_options options = { .alone = kinds[KIND_SERVER] };
        struct manifests manifests;
        struct named_files files;
        size_t count;

        if (manifests_load(path, &options, arena, &manifests, diagnostics, err) < 0)
                return -1;
        named_files_begin(&files, path, elsewhere, arena, diagnostics);
        read_config(&files, manifests_of_kind(&manifests, KIND_SERVER, &count), ret);
        return named_files_end(&files, "Server", err);
}

void broker_config_without_file(const char *stack, struct arena *arena, struct broker_config *ret) {
        const struct field *listen = kind_field(kinds[KIND_SERVER], "listen");

        *ret = (struct broker_config){
                .name = "local",
                .stack = stack,
                .listen = listen->default_text,
                .clients = arena_array(arena, 1, sizeof(*ret->clients)),
                .client_count = 1,
                .own_token = true,
        };
        ret->clients[0] = (struct broker_client){
                .name = "local",
                .realm = "local",
                .rights = BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_OBSERVE,
                .has_token = true,
                .limits = BROKER_LIMITS_INIT,
        };
}
