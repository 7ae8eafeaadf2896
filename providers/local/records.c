/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of all kinds. Each resource is a record on disk: observed by reading it, changed by one stage that writes it. */
#include "base/array.h"
#include "providers/local/desire.h"
#include "providers/local/provider_local.h"
#include "providers/tenancy.h"

#include <string.h>

static struct record_place record_place_of(const struct provider *provider, enum kind_id kind,
                                           const char *name) {
        return (struct record_place){ provider->root, provider->stack_name, kind, name };
}

void records_refuse(struct change *change, struct refusal refusal, struct arena *arena) {
        change->refusals =
                array_grow(arena, change->refusals, change->refusal_count, sizeof(*change->refusals));
        change->refusals[change->refusal_count++] = refusal;
}

/* ---- desired ---- */

/*
 * A field that was added to the image in the file would run another image: it is set to null, a
 * difference.
 */
static void null_additions(struct value *image, const struct value *observed, const struct value *recorded,
                           struct arena *arena) {
        for (uint32_t i = 0; observed && observed->type == VALUE_MAP && i < observed->count; i++) {
                const char *name = observed->members[i].name;

                if (!value_get(image, name) && !value_get(recorded, name))
                        value_set(arena, image, name, value_null());
        }
}

static struct value desired_image(const struct resource *resource, const struct observation *observed,
                                  const struct value *recorded, struct arena *arena) {
        struct value image = local_desired_image(value_get(resource->spec, "image"),
                                                 observed ? observed->resolved : NULL, recorded, arena);

        if (observed && observed->exists)
                null_additions(&image, value_get(observed->spec, "image"), recorded, arena);
        return image;
}

static int desire_record(const struct provider *provider, const struct resource *resource,
                         const struct observation *observed, const struct value *recorded,
                         struct arena *arena, struct value **ret, struct error *err) {
        struct value *spec = desire_spec(resource, arena);

        (void)provider;
        (void)err;
        if (resource->kind->id == KIND_ENVIRONMENT) {
                value_set(arena, spec, "image",
                          desired_image(resource, observed, value_get(recorded, "image"), arena));
                value_set_boolean(arena, spec, TENANCY_MEMBER,
                                  tenancy_desired(resource->spec, observed, recorded));
        }
        *ret = spec;
        return 0;
}

static void count_files(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        (void)change;
        cost_add(ret, "files", 1);
}

/* ---- observed ---- */

static struct observation observation_of(const struct provider *provider, const char *name, enum kind_id kind,
                                         const char *revision, enum ownership ownership, const char *owner,
                                         const struct value *spec, struct arena *arena) {
        return (struct observation){
                .name = name,
                .exists = true,
                .id = arena_printf(arena, "local/%s/%s", provider->stack_name,
                                   local_record_name(kind, name, arena)),
                .fingerprint = arena_strdup(arena, revision),
                .ownership = ownership,
                .owner = owner,
                .spec = spec,
        };
}

static int observe_one(const struct provider *provider, enum kind_id kind, const struct wanted *wanted,
                       struct arena *arena, struct observation *ret, struct error *err) {
        const struct record_place place = record_place_of(provider, kind, wanted->name);
        const struct observation *last = wanted->must_read ? NULL : wanted->last;
        struct local_record record;
        const struct value *spec;
        const char *revision;

        *ret = (struct observation){ .name = wanted->name };
        if (record_read(&place, arena, &record, err) < 0)
                return -1;
        if (!record.exists)
                return 0;
        spec = record.spec;
        revision = record_revision(&record, arena);
        /* A file that did not change keeps the value that came from the state. */
        if (last && last->exists && last->spec && last->fingerprint &&
            strcmp(last->fingerprint, revision) == 0)
                spec = last->spec;
        else if (kind == KIND_ENVIRONMENT)
                desire_mark_secrets(record.spec, wanted->desired ? wanted->desired->spec : NULL,
                                    wanted->recorded, arena);
        *ret = observation_of(provider, wanted->name, kind, revision, record.ownership, record.owner, spec,
                              arena);
        return 0;
}

static int observe_kind(struct provider *provider, enum kind_id kind, const struct observe_args *args,
                        struct observation *ret, struct error *err) {
        for (size_t i = 0; i < args->count; i++) {
                if (observe_one(provider, kind, &args->wanted[i], args->arena, &ret[i], err) < 0)
                        return -1;
        }
        return kind == KIND_ENVIRONMENT ? local_resolve_images(provider, args, ret, err) : 0;
}

#define OBSERVE(name, kind)                                                                                  \
        static int name(struct provider *provider, const struct observe_args *args, struct observation *ret, \
                        struct error *err) {                                                                 \
                return observe_kind(provider, kind, args, ret, err);                                         \
        }
OBSERVE(observe_stack, KIND_STACK)
OBSERVE(observe_images, KIND_IMAGE)
OBSERVE(observe_environments, KIND_ENVIRONMENT)
OBSERVE(observe_policies, KIND_WORKSPACE_POLICY)
OBSERVE(observe_agents, KIND_AGENT)
OBSERVE(observe_swarms, KIND_SWARM)

/* ---- applied ---- */

/* Once for each kind. We hold the state's lease, so half-written files are those of dead processes. */
static void tidy_once(struct provider *provider, enum kind_id kind) {
        pthread_mutex_lock(&provider->lock);
        if (!provider->tidied[kind])
                record_tidy(provider->root, kind);
        provider->tidied[kind] = true;
        pthread_mutex_unlock(&provider->lock);
}

/* Whether the record is no longer the one that the plan was made from. */
static bool has_moved(const struct change *change, const struct local_record *present, struct arena *arena) {
        if (!change->observed->exists || !present->exists)
                return present->exists;
        return change->observed->fingerprint &&
               strcmp(change->observed->fingerprint, record_revision(present, arena)) != 0;
}

static int fail_moved(const struct local_record *present, struct error *err) {
        return error_set(err, "%s was changed outside of Berth since the plan was made: plan again",
                         present->path);
}

static int write_local_record(struct provider *provider, const struct change *change, struct arena *arena,
                              struct observation *ret, struct error *err) {
        enum kind_id kind = change->kind->id;
        const struct record_place place = record_place_of(provider, kind, change->name);
        struct local_record present;
        struct value *spec;
        const char *text;
        char revision[SHA256_HEX_SIZE];

        if (record_read(&place, arena, &present, err) < 0)
                return -1;
        spec = desire_merge(present.ownership == OWNER_SELF && change->action != ACTION_ADOPT ? present.spec
                                                                                              : NULL,
                            change->desired, change->recorded, arena);
        text = record_text(&place, spec, arena);
        digest_sha256_hex(text, strlen(text), revision);
        if (!present.exists || strcmp(record_revision(&present, arena), revision) != 0) {
                if (has_moved(change, &present, arena))
                        return fail_moved(&present, err);
                if (record_write(&place, text, err) < 0)
                        return -1;
        }
        desire_mark_secrets(spec, change->desired, NULL, arena);
        *ret = observation_of(provider, change->name, kind, revision, OWNER_SELF, NULL, spec, arena);
        return 0;
}

static int delete_record(struct provider *provider, const struct change *change, struct arena *arena,
                         struct error *err) {
        const struct record_place place = record_place_of(provider, change->kind->id, change->name);
        struct local_record present;

        bool stack = change->kind->id == KIND_STACK;

        if (stack && local_stack_clear(provider, change, arena, err) < 0)
                return -1;
        if (record_read(&place, arena, &present, err) < 0)
                return -1;
        if (has_moved(change, &present, arena))
                return fail_moved(&present, err);
        if (present.exists && record_remove(&place, err) < 0)
                return -1;
        if (stack)
                local_stack_fold(provider, arena);
        return 0;
}

static int step_record(struct provider *provider, const struct change *change, struct progress *progress,
                       struct observation *ret_observed, struct error *err) {
        struct observation observed = { .name = change->name };

        tidy_once(provider, change->kind->id);
        progress->sent = true;
        if (change->action == ACTION_DELETE) {
                if (delete_record(provider, change, progress->arena, err) < 0)
                        return -1;
        } else if (write_local_record(provider, change, progress->arena, &observed, err) < 0) {
                return -1;
        }
        *ret_observed = observed;
        return STEP_DONE;
}

/* ---- the tables ---- */

static const char *const environment_immutable[] = { TENANCY_MEMBER, NULL };
static const char *const environment_free_maps[] = { "variables", NULL };
static const char *const stack_free_maps[] = { "tags", NULL };
static const char *const policy_free_maps[] = { "selector.matchLabels", NULL };
static const char *const binding_free_maps[] = { "labels", NULL };

const struct kind_ops local_stack_ops = {
        .kind = KIND_STACK,
        .free_maps = stack_free_maps,
        .desire = desire_record,
        .desire_repeats = true,
        .cost = count_files,
        .observe = observe_stack,
        .ask = local_stack_ask,
        .step = step_record,
};

const struct kind_ops local_image_ops = {
        .kind = KIND_IMAGE,
        .desire = desire_record,
        .desire_repeats = true,
        .cost = count_files,
        .observe = observe_images,
        .step = step_record,
};

const struct kind_ops local_environment_ops = {
        .kind = KIND_ENVIRONMENT,
        .immutable = environment_immutable,
        .free_maps = environment_free_maps,
        .desire = desire_record,
        .desire_repeats = true,
        .cost = count_files,
        .observe = observe_environments,
        .ask = local_environment_ask,
        .step = step_record,
};

const struct kind_ops local_workspace_policy_ops = {
        .kind = KIND_WORKSPACE_POLICY,
        .free_maps = policy_free_maps,
        .desire = desire_record,
        .desire_repeats = true,
        .cost = count_files,
        .observe = observe_policies,
        .ask = local_policy_ask,
        .step = step_record,
};

const struct kind_ops local_agent_ops = {
        .kind = KIND_AGENT,
        .free_maps = binding_free_maps,
        .desire = desire_record,
        .desire_repeats = true,
        .cost = count_files,
        .observe = observe_agents,
        .step = step_record,
};

const struct kind_ops local_swarm_ops = {
        .kind = KIND_SWARM,
        .free_maps = binding_free_maps,
        .desire = desire_record,
        .desire_repeats = true,
        .cost = count_files,
        .observe = observe_swarms,
        .step = step_record,
};
