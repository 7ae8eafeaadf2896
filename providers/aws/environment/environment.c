/* SPDX-License-Identifier: Apache-2.0 */
/* The Environment kind on AWS: its table, and what is desired. */
#include "providers/aws/environment/environment.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/variable_source.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/bound_records.h"
#include "providers/aws/shared/names.h"
#include "providers/image_layer.h"
#include "providers/tenancy.h"

const char *environment_function(const struct provider *provider, const char *name, struct arena *arena) {
        return names_function(provider->prefix, name, arena);
}

const char *environment_log_group(const struct provider *provider, const char *name, struct arena *arena) {
        return arena_printf(arena, "/aws/lambda/%s-env-%s", provider->prefix, name);
}

static const struct value *list_of(const char *text, struct arena *arena) {
        struct value *list = value_new_list(arena);

        if (text)
                value_append(arena, list, value_text(arena, text));
        return list;
}

/*
 * The runtime where the image says that it has it. Elsewhere all is empty: the image's own entry
 * point and command. Either way the function runs by that, whatever another tool set on it; so is
 * the image's own folder.
 */
static struct value *image_config(const struct value *image, struct arena *arena) {
        struct value *config = value_new_map(arena);
        bool runtime = value_get_text(image, "runtime") != NULL;

        value_set(arena, config, "command", *list_of(runtime ? "lambda" : NULL, arena));
        value_set(arena, config, "entryPoint", *list_of(runtime ? IMAGE_RUNTIME_PATH : NULL, arena));
        value_set_text(arena, config, "workingDirectory", "");
        return config;
}

static int environment_desire(const struct provider *provider, const struct resource *resource,
                              const struct observation *observed, const struct value *recorded,
                              struct arena *arena, struct value **ret, struct error *err) {
        static const char *const as_written[] = { "description",      "memoryMB",  "workspaceStorageMB",
                                                  "timeoutSeconds",   "variables", "reservedConcurrency",
                                                  "logRetentionDays", "protect",   NULL };
        struct value *spec = value_new_map(arena), *image;
        const struct value *variables;

        (void)err;
        aws_copy_members(spec, resource->spec, as_written, arena);
        value_set_boolean(arena, spec, TENANCY_MEMBER, tenancy_desired(resource->spec, observed, recorded));
        variables = variable_source_desired(value_get(spec, "variables"),
                                            value_get(observed ? observed->resolved : NULL, "variables"),
                                            value_get(recorded, "variables"), arena);
        if (variables)
                value_set(arena, spec, "variables", *variables);
        image = environment_desired_image(provider, value_get(resource->spec, "image"),
                                          observed ? observed->resolved : NULL, value_get(recorded, "image"),
                                          arena);
        value_set(arena, spec, "image", *image);
        value_set_text(arena, spec, "architecture", "x86_64");
        environment_desire_network(provider, resource->spec, recorded, arena, spec);
        value_set_text(arena, spec, "kmsKey", aws_desired_key(provider, value_get_text(recorded, "kmsKey")));
        value_set_text(arena, spec, "logKmsKey",
                       aws_desired_key(provider, value_get_text(recorded, "logKmsKey")));
        value_set(arena, spec, "imageConfig", *image_config(image, arena));
        environment_desire_role(provider, resource, recorded, arena, spec);
        value_set(arena, spec, "tags",
                  *aws_tags_of(provider, resource->kind->name, resource->name, resource->labels, arena));
        *ret = spec;
        return 0;
}

/*
 * A failed function is replaced without leave, since it cannot be used; but a Zip function may well
 * be in use.
 */
static void refuse_zip(struct change *change, struct arena *arena) {
        if (change->action != ACTION_REPLACE || !texts_same(change->observed->health_reason, ENVIRONMENT_ZIP))
                return;
        aws_refuse(change,
                   (struct refusal){
                           .id = "needs-replacement",
                           .message = ENVIRONMENT_ZIP ": the function would be deleted, and made again",
                           .remedy = arena_printf(arena,
                                                  "give the environment another name, or replace the "
                                                  "function: --allow needs-replacement:%s",
                                                  change->address) },
                   arena);
}

/* Of a deletion also has-dependents, by what the bucket holds. */
static int environment_ask(struct provider *provider, struct change *change, struct arena *arena,
                           struct error *err) {
        const char *function = environment_function(provider, change->name, arena);

        if (change->action == ACTION_DELETE && change->observed->exists &&
            bound_records_ask(provider, change, function, arena, err) < 0)
                return -1;
        refuse_zip(change, arena);
        environment_ask_sources(change, arena);
        environment_ask_role(provider, change, arena);
        if (environment_ask_sessions(provider, change, arena, err) < 0 ||
            environment_ask_ties(provider, change, arena, err) < 0 ||
            environment_ask_logs(provider, change, arena, err) < 0)
                return -1;
        return environment_ask_image(provider, change, arena, err);
}

static const char *const recorded_only[] = {
        "protect", "image.tag", "image.follow", "image.runtime", "image.prebuilt", "image.image", NULL
};
static const char *const immutable[] = { TENANCY_MEMBER, NULL };
static const char *const free_maps[] = { "variables", "tags", ENVIRONMENT_OWN_ROLE ".tags", NULL };

const struct kind_ops aws_environment_ops = {
        .kind = KIND_ENVIRONMENT,
        .recorded_only = recorded_only,
        .immutable = immutable,
        .free_maps = free_maps,
        .desire = environment_desire,
        .desire_repeats = true,
        .cost = environment_cost,
        .list_ahead = environment_list_ahead,
        .read_ahead = environment_read_ahead,
        .page_size = 50,
        .observe = environment_observe,
        .ask = environment_ask,
        .step = environment_step,
};
