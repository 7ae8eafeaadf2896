/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/stack_provider.h"

#include "base/strbuf.h"

#include <string.h>

const struct provider_ops *stack_provider_find(const struct provider_registry *registry, const char *name) {
        for (size_t i = 0; i < registry->count; i++) {
                if (strcmp(registry->providers[i]->name, name) == 0)
                        return registry->providers[i];
        }
        return NULL;
}

/* "there is no provider "azure"; this version has aws and local". */
static int refuse_unknown(const struct provider_registry *registry, const char *name, struct error *err) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < registry->count; i++)
                strbuf_printf(&names, "%s%s",
                              i == 0                    ? ""
                              : i + 1 < registry->count ? ", "
                                                        : " and ",
                              registry->providers[i]->name);
        return error_set(err, "there is no provider \"%s\"; this version has %s", name, strbuf_text(&names));
}

int stack_provider_open(const struct stack_provider_args *args, const struct provider_ops **ret_ops,
                        struct provider **ret, struct error *err) {
        const struct resource *stack = args->manifests->stack;
        const char *declared = value_get_text(stack->spec, "provider");
        const char *name = args->provider ? args->provider : declared ? declared : "local";
        const struct provider_ops *ops = stack_provider_find(args->registry, name);
        struct provider_config config = {
                .stack_name = stack->name,
                .stack = stack->spec,
                .stack_labels = stack->labels,
                .clock = args->clock,
                .folder = args->folder,
                .watch = args->watch,
        };

        if (!ops)
                return refuse_unknown(args->registry, name, err);
        if (ops->open(&config, ret, err) < 0)
                return -1;
        *ret_ops = ops;
        return 0;
}
