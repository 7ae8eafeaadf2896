/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spec, turned into what Lambda is asked for. Pure.
 *
 * An update names the members that differ and no others: of a member that is left out Lambda keeps
 * what is there, so that what other people set stays theirs. Variables are the exception. Lambda
 * replaces the map as a whole, so it carries all of them: first others' (`foreign`), then ours over
 * them.
 */
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/shared/stage.h"

const char *environment_image_uri(const struct provider *provider, const struct value *image,
                                  struct arena *arena) {
        const char *repository = value_get_text(image, "repository"),
                   *digest = value_get_text(image, "digest");

        if (!repository || !digest || !provider->account)
                return NULL;
        return arena_printf(arena, "%s/%s@%s", ecr_registry_of(provider, repository, arena),
                            ecr_name_in_registry(repository), digest);
}

json_t *environment_variables_json(const struct value *desired, const struct value *foreign) {
        json_t *variables = aws_json_map(foreign), *ours = aws_json_map(desired);

        json_object_update(variables, ours);
        json_decref(ours);
        return json_pack("{s:o}", "Variables", variables);
}

/* Sets a member where the list has texts. */
static void put_texts(json_t *object, const char *name, const struct value *list) {
        json_t *texts;

        if (!list || list->type != VALUE_LIST || list->count == 0)
                return;
        texts = json_array();
        for (uint32_t i = 0; i < list->count; i++)
                json_add(texts, json_from_text(value_text_of(&list->items[i])));
        json_put(object, name, texts);
}

/* An empty one is how an entry point of the function's own is taken away. */
static json_t *image_config_json(const struct value *spec) {
        const struct value *config = value_get(spec, "imageConfig");
        json_t *json = json_object();

        put_texts(json, "EntryPoint", value_get(config, "entryPoint"));
        put_texts(json, "Command", value_get(config, "command"));
        return json;
}

static void put_unless_empty(json_t *object, const char *name, json_t *member) {
        if (json_object_size(member) > 0)
                json_put(object, name, member);
        else
                json_decref(member);
}

json_t *environment_create_body(const struct provider *provider, const char *name, const struct value *spec,
                                const struct value *variables, struct arena *arena) {
        json_t *body = json_object();

        json_set_text(body, "FunctionName", environment_function(provider, name, arena));
        json_set_text(body, "PackageType", "Image");
        json_object_set_new(body, "Code",
                            json_pack("{s:s}", "ImageUri",
                                      environment_image_uri(provider, value_get(spec, "image"), arena)));
        json_object_set_new(body, "Architectures", json_pack("[s]", value_get_text(spec, "architecture")));
        json_set_text(body, "Role", value_get_text(spec, "role"));
        json_set_text(body, "Description", value_get_text(spec, "description"));
        json_object_set_new(body, "Timeout", json_integer(value_get_integer(spec, "timeoutSeconds", 900)));
        json_object_set_new(body, "MemorySize", json_integer(value_get_integer(spec, "memoryMB", 2048)));
        json_object_set_new(
                body, "EphemeralStorage",
                json_pack("{s:I}", "Size", (json_int_t)value_get_integer(spec, "workspaceStorageMB", 512)));
        if (variables && variables->count > 0)
                json_object_set_new(body, "Environment", environment_variables_json(variables, NULL));
        if (value_get_boolean(spec, "tenantIsolation", false))
                json_object_set_new(body, "TenancyConfig",
                                    json_pack("{s:s}", "TenantIsolationMode", "PER_TENANT"));
        put_unless_empty(body, "ImageConfig", image_config_json(spec));
        if (value_get(spec, "network"))
                json_object_set_new(body, "VpcConfig",
                                    environment_network_json(provider, value_get(spec, "network")));
        json_set_text(body, "KMSKeyArn", value_get_text(spec, "kmsKey"));
        json_object_set_new(body, "Tags", aws_json_map(value_get(spec, "tags")));
        return body;
}

json_t *environment_configuration_body(const struct provider *provider, const struct change *change,
                                       const struct value *variables, const struct value *foreign,
                                       const char *revision) {
        const struct value *spec = change->desired;
        const char *description = value_get_text(spec, "description");
        json_t *body = json_object();

        json_set_text(body, "RevisionId", revision);
        /* An empty text is how a description is taken away. */
        if (change_touches(change, "description"))
                json_set_text(body, "Description", description ? description : "");
        if (change_touches(change, "memoryMB"))
                json_object_set_new(body, "MemorySize",
                                    json_integer(value_get_integer(spec, "memoryMB", 2048)));
        if (change_touches(change, "timeoutSeconds"))
                json_object_set_new(body, "Timeout",
                                    json_integer(value_get_integer(spec, "timeoutSeconds", 900)));
        if (change_touches(change, "workspaceStorageMB"))
                json_object_set_new(
                        body, "EphemeralStorage",
                        json_pack("{s:I}", "Size",
                                  (json_int_t)value_get_integer(spec, "workspaceStorageMB", 512)));
        if (change_touches(change, "imageConfig"))
                json_object_set_new(body, "ImageConfig", image_config_json(spec));
        if (change_touches(change, "role"))
                json_set_text(body, "Role", value_get_text(spec, "role"));
        if (change_touches(change, "network") && value_get(spec, "network"))
                json_object_set_new(body, "VpcConfig",
                                    environment_network_json(provider, value_get(spec, "network")));
        /* A key is never taken away: without one in the spec there is nothing to say. */
        if (change_touches(change, "kmsKey"))
                json_set_text(body, "KMSKeyArn", value_get_text(spec, "kmsKey"));
        if (change_touches(change, "variables"))
                json_object_set_new(body, "Environment", environment_variables_json(variables, foreign));
        return body;
}

json_t *environment_code_body(const struct provider *provider, const struct value *spec, const char *revision,
                              struct arena *arena) {
        json_t *body = json_pack("{s:s, s:[s]}", "ImageUri",
                                 environment_image_uri(provider, value_get(spec, "image"), arena),
                                 "Architectures", value_get_text(spec, "architecture"));

        json_set_text(body, "RevisionId", revision);
        return body;
}
