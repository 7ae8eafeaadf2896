/* SPDX-License-Identifier: Apache-2.0 */
/* A function as Lambda describes it, read into the shape that desire() gives. */
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/shared/aws_tags.h"

#include <string.h>

static const char update_failed[] = "its last update failed: ";

bool environment_update_failed(const struct observation *observation) {
        return observation->health_reason &&
               strncmp(observation->health_reason, update_failed, sizeof(update_failed) - 1) == 0;
}

void environment_keep_role(struct observation *observation, const char *role_id, struct arena *arena) {
        struct value *extra = value_new_map(arena);

        if (observation->extra)
                *extra = value_copy(arena, observation->extra);
        value_unset(extra, ENVIRONMENT_ROLE_ID);
        value_set_text(arena, extra, ENVIRONMENT_ROLE_ID, role_id);
        observation->extra = extra;
}

enum health environment_health(const json_t *configuration, struct arena *arena, const char **ret_reason) {
        const char *reason = json_text(configuration, "StateReason");

        *ret_reason = NULL;
        if (aws_json_says(configuration, "State", "Failed")) {
                *ret_reason = arena_strdup(arena, reason ? reason : "Lambda gives no reason");
                return HEALTH_FAILED;
        }
        if (aws_json_says(configuration, "State", "Pending") ||
            aws_json_says(configuration, "State", "Deleting") ||
            aws_json_says(configuration, "LastUpdateStatus", "InProgress")) {
                *ret_reason = arena_strdup(
                        arena, reason ? reason : json_text(configuration, "LastUpdateStatusReason"));
                return HEALTH_PENDING;
        }
        /* The function still runs what it ran before: it is updated again, not replaced. */
        if (aws_json_says(configuration, "LastUpdateStatus", "Failed")) {
                reason = json_text(configuration, "LastUpdateStatusReason");
                *ret_reason = arena_printf(arena, "%s%s", update_failed,
                                           reason ? reason : "Lambda gives no reason");
        }
        return HEALTH_READY;
}

/*
 * ImageUri names a digest wherever Berth set it, and is believed before ResolvedImageUri. That one
 * has the digest if another tool set the image by a tag.
 */
static struct value *read_image(const struct provider *provider, const json_t *code, struct arena *arena) {
        const char *uri = json_text(code, "ImageUri"), *resolved = json_text(code, "ResolvedImageUri");
        struct value *image = value_new_map(arena);
        struct ecr_uri parts, now;

        if (!uri || !ecr_uri_parse(provider, uri, arena, &parts))
                return image;
        if (!parts.digest && resolved && ecr_uri_parse(provider, resolved, arena, &now))
                parts.digest = now.digest;
        value_set_text(arena, image, "repository", parts.repository);
        value_set_text(arena, image, "digest", parts.digest);
        return image;
}

/*
 * Whether the value may be kept and shown as it is: ours, and never said to be sensitive. A value
 * that was sensitive when it was applied is open only if it is the very text that the manifest now
 * shows.
 */
static bool is_open(const struct environment_known *known, const char *name, const struct value *text) {
        const struct value *desired = value_get(known->variables, name);
        const struct value *recorded = value_get(known->recorded_variables, name);
        bool was_open = recorded && !recorded->sensitive && recorded->type == VALUE_TEXT;

        if (desired && (desired->sensitive || desired->type != VALUE_TEXT))
                return false;
        return was_open || (desired && (!recorded || texts_same(desired->text, text->text)));
}

/*
 * A text in the form of the variable that it was set for (variable_source.h): what this run fetched, if it is that, or else what
 * was last applied. Where a run died before it knew what it applied, nothing says where the text is from.
 */
static struct value as_applied(const struct environment_known *known, const char *name, struct value text,
                               struct arena *arena) {
        const struct value *fetched = value_get(known->fetched_variables, name);
        const struct value *recorded = value_get(known->recorded_variables, name);
        struct value form;

        /* An empty text is equal to none: what was not fetched must not be taken for it. */
        if (fetched && value_equal(value_get(fetched, "value"), &text, NULL))
                return value_copy(arena, fetched);
        if (!value_get(recorded, "value") || value_equal(value_get(known->variables, name), &text, NULL))
                return text;
        form = value_copy(arena, recorded);
        value_set(arena, &form, "value", text);
        return form;
}

static const struct value *read_variables(const json_t *configuration, const struct environment_known *known,
                                          struct arena *arena) {
        const json_t *variables = json_object_get(json_object_get(configuration, "Environment"), "Variables");
        struct value *map = value_new_map(arena);
        const char *name;
        json_t *item;

        json_object_foreach ((json_t *)variables, name, item) {
                struct value text = value_text(arena, json_string_value(item) ? json_string_value(item) : "");

                text.sensitive = !is_open(known, name, &text);
                value_set(arena, map, name, as_applied(known, name, text, arena));
        }
        return map;
}

/* Where the key that encrypts them refuses us, Lambda gives an error in place of the variables. */
static const struct value *variables_or_recorded(const json_t *configuration,
                                                 const struct environment_known *known, struct arena *arena,
                                                 const char **reason) {
        const json_t *failure = json_object_get(json_object_get(configuration, "Environment"), "Error");

        if (!failure)
                return read_variables(configuration, known, arena);
        *reason = arena_printf(arena, "its variables cannot be read (%s: %s)",
                               json_text(failure, "ErrorCode") ? json_text(failure, "ErrorCode") : "error",
                               json_text(failure, "Message") ? json_text(failure, "Message")
                                                             : "no reason given");
        return known->recorded_variables;
}

static const char *first_architecture(const json_t *configuration) {
        const char *name =
                json_string_value(json_array_get(json_object_get(configuration, "Architectures"), 0));

        return name ? name : "x86_64";
}

static void set_texts(struct value *map, const char *name, const json_t *texts, struct arena *arena) {
        if (json_array_size(texts) > 0)
                value_set(arena, map, name, value_from_json(arena, texts));
}

/* The image's own settings hold, unless the function was given an entry point of its own. */
static struct value *read_image_config(const json_t *configuration, struct arena *arena) {
        const json_t *config =
                json_object_get(json_object_get(configuration, "ImageConfigResponse"), "ImageConfig");
        const char *folder = json_text(config, "WorkingDirectory");
        struct value *map = value_new_map(arena);

        set_texts(map, "entryPoint", json_object_get(config, "EntryPoint"), arena);
        set_texts(map, "command", json_object_get(config, "Command"), arena);
        value_set_text(arena, map, "workingDirectory", folder && *folder ? folder : NULL);
        return map;
}

/* Lambda shows a function that left its VPC with an empty one. */
static void read_vpc(const json_t *configuration, struct value *spec, struct arena *arena) {
        const json_t *vpc = json_object_get(configuration, "VpcConfig");
        struct value *map = value_new_map(arena);
        const char *id = json_text(vpc, "VpcId");

        if (json_array_size(json_object_get(vpc, "SubnetIds")) == 0)
                return;
        value_set_text(arena, map, "vpcId", id && *id ? id : NULL);
        set_texts(map, "subnets", json_object_get(vpc, "SubnetIds"), arena);
        set_texts(map, "securityGroups", json_object_get(vpc, "SecurityGroupIds"), arena);
        value_set(arena, spec, ENVIRONMENT_VPC, *map);
}

/* What Lambda leaves out has Lambda's defaults (API reference, CreateFunction), not those of a manifest. */
static struct value *read_spec(const struct provider *provider, const json_t *function,
                               const struct environment_known *known, struct arena *arena,
                               const char **reason) {
        const json_t *configuration = json_object_get(function, "Configuration");
        const json_t *concurrency = json_object_get(function, "Concurrency");
        const json_t *storage = json_object_get(configuration, "EphemeralStorage");
        const json_t *tenancy = json_object_get(configuration, "TenancyConfig");
        const char *description = json_text(configuration, "Description");
        struct value *spec = value_new_map(arena), *image, *image_config, *tags;
        const struct value *variables;

        if (description && *description)
                value_set_text(arena, spec, "description", description);
        value_set_integer(arena, spec, "memoryMB", json_integer_or(configuration, "MemorySize", 128));
        value_set_integer(arena, spec, "workspaceStorageMB", json_integer_or(storage, "Size", 512));
        value_set_integer(arena, spec, "timeoutSeconds", json_integer_or(configuration, "Timeout", 3));
        value_set_boolean(arena, spec, "tenantIsolation",
                          aws_json_says(tenancy, "TenantIsolationMode", "PER_TENANT"));
        value_set_text(arena, spec, "architecture", first_architecture(configuration));
        value_set_text(arena, spec, "role", json_text(configuration, "Role"));
        if (json_is_integer(json_object_get(concurrency, "ReservedConcurrentExecutions")))
                value_set_integer(arena, spec, "reservedConcurrency",
                                  json_integer_or(concurrency, "ReservedConcurrentExecutions", 0));
        image = read_image(provider, json_object_get(function, "Code"), arena);
        /*
         * After a failed update it is unknown which image runs. Without a digest the next plan sets
         * it again.
         */
        if (aws_json_says(configuration, "LastUpdateStatus", "Failed"))
                value_unset(image, "digest");
        value_set(arena, spec, "image", *image);
        image_config = read_image_config(configuration, arena);
        if (image_config->count > 0)
                value_set(arena, spec, "imageConfig", *image_config);
        read_vpc(configuration, spec, arena);
        variables = variables_or_recorded(configuration, known, arena, reason);
        if (variables && variables->count > 0)
                value_set(arena, spec, "variables", *variables);
        value_set_text(
                arena, spec, "kmsKey",
                aws_observed_key(provider, json_text(configuration, "KMSKeyArn"), known->recorded_key));
        if (known->says_network)
                value_set(arena, spec, "network",
                          environment_network_of_vpc(provider, value_get(spec, ENVIRONMENT_VPC), arena));
        else if (known->recorded_network)
                value_set(arena, spec, "network", *known->recorded_network);
        value_set_text(arena, spec, "logKmsKey",
                       aws_observed_key(provider, known->log_key, known->recorded_log_key));
        tags = aws_tags_from_json(json_object_get(function, "Tags"), arena);
        value_set(arena, spec, "tags", *aws_tags_of_ours(tags, known->tags, known->recorded_tags, arena));
        return spec;
}

int environment_check_answer(const json_t *function, const char *name, struct error *err) {
        if (json_text(json_object_get(function, "Configuration"), "FunctionArn"))
                return 0;
        return error_set(err, "the answer to lambda GetFunction for %s describes no function", name);
}

void environment_observation(const struct provider *provider, const char *name, const json_t *function,
                             const struct environment_known *known, int64_t log_retention_days,
                             struct arena *arena, struct observation *ret) {
        const json_t *configuration = json_object_get(function, "Configuration");
        struct value *tags = aws_tags_from_json(json_object_get(function, "Tags"), arena), *spec;
        const char *reason = NULL, *unreadable = NULL;
        struct observation observation = { .name = name, .exists = true };

        observation.id = arena_strdup(arena, json_text(configuration, "FunctionArn"));
        observation.fingerprint = arena_strdup(arena, json_text(configuration, "RevisionId"));
        aws_set_ownership(provider, arena_printf(arena, "Environment/%s", name), tags, arena, &observation);
        observation.health = environment_health(configuration, arena, &reason);
        if (aws_json_says(configuration, "PackageType", "Zip")) {
                observation.health = HEALTH_FAILED;
                reason = ENVIRONMENT_ZIP;
        }
        spec = read_spec(provider, function, known, arena, &unreadable);
        if (log_retention_days > 0)
                value_set_integer(arena, spec, "logRetentionDays", log_retention_days);
        observation.health_reason = reason ? reason : unreadable;
        observation.spec = spec;
        *ret = observation;
}
