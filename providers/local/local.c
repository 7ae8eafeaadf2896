/* SPDX-License-Identifier: Apache-2.0 */
/* The local provider's table. */
#include "providers/local/local.h"

#include "base/digest.h"
#include "base/files.h"
#include "providers/examine.h"
#include "providers/local/local_exec.h"
#include "providers/local/provider_local.h"
#include "providers/local/sandbox/sandbox_examine.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

static int open_provider(const struct provider_config *config, struct provider **ret, struct error *err) {
        struct arena *arena = arena_new();
        struct provider *provider = arena_alloc(arena, sizeof(*provider));

        if (!config->folder || !*config->folder) {
                arena_free(arena);
                return error_set(err, "the provider local needs a state folder");
        }
        *provider = (struct provider){
                .arena = arena,
                .clock = config->clock,
                .stack = config->stack,
                .stack_name = config->stack_name,
                .root = local_root(config->folder, config->stack_name, arena),
        };
        pthread_mutex_init(&provider->lock, NULL);
        *ret = provider;
        return 0;
}

static void close_provider(struct provider *provider) {
        if (!provider)
                return;
        pthread_mutex_destroy(&provider->lock);
        arena_free(provider->arena);
}

/*
 * The machine's id, hashed as machine-id(5) asks. Not its host name, which may change: a container's does at each start.
 * Machines without an id (most containers) all share one.
 */
static const char *identify_machine(struct arena *arena) {
        static const char *const files[] = { "/etc/machine-id", "/var/lib/dbus/machine-id" };
        uint8_t mac[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE];

        for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                struct strbuf id STRBUF_CLEANUP = STRBUF_INIT;
                struct error ignored;

                if (file_read(files[i], 256, &id, &ignored) < 0 || id.length < 32)
                        continue;
                digest_hmac_sha256(id.data, 32, "berth", 5, mac);
                digest_hex(mac, sizeof(mac), hex);
                return arena_printf(arena, "machine-%.12s", hex);
        }
        return "this-machine";
}

static int identify(struct provider *provider, struct arena *arena, struct caller_identity *ret,
                    struct error *err) {
        struct passwd entry, *user = NULL;
        char buffer[4096];

        if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &user) != 0)
                user = NULL;
        (void)provider;
        (void)err;
        *ret = (struct caller_identity){
                .account = identify_machine(arena),
                .region = "local",
                .principal = user ? arena_strdup(arena, user->pw_name)
                                  : arena_printf(arena, "uid %lu", (unsigned long)geteuid()),
        };
        return 0;
}

static const struct kind_ops *ops(const struct provider *provider, enum kind_id kind) {
        static const struct kind_ops *const tables[] = {
                &local_stack_ops, &local_image_ops, &local_environment_ops, &local_workspace_policy_ops,
                &local_agent_ops, &local_swarm_ops,
        };

        (void)provider;
        return kind_ops_find(tables, sizeof(tables) / sizeof(tables[0]), kind);
}

static int exec_code(struct provider *provider, const struct exec_request *request, struct arena *arena,
                     struct exec_result *ret, struct error *err) {
        return local_exec(provider->root, request, arena, ret, err);
}

static void examine_machine(struct provider *provider, bool test, struct arena *arena, struct finding *ret,
                            size_t max, size_t *ret_count) {
        (void)provider;
        sandbox_examine(test, arena, ret, max, ret_count);
}

const struct provider_ops local_provider_ops = {
        .name = "local",
        .open = open_provider,
        .close = close_provider,
        .identify = identify,
        .ops = ops,
        .images = &local_image_registry,
        .exec = exec_code,
        .exec_ahead = local_exec_ahead,
        .exec_ahead_end = local_exec_ahead_end,
        .examine = examine_machine,
};
