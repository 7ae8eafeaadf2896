/* SPDX-License-Identifier: Apache-2.0 */
/* What the Stack's bucket and role shall be: the kind's table, and what is desired. */
#include "providers/aws/stack/stack.h"

#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/stack/isolated_network.h"
#include "providers/aws/stack/session_table.h"

#include <stdio.h>

bool stack_has_bucket(const struct value *spec) {
        return value_path(spec, "bucket.tlsOnly") != NULL;
}

bool stack_has_role(const struct value *spec) {
        return execution_role_is_made(value_get(spec, "role"));
}

const char *stack_own_bucket(const struct value *spec) {
        return stack_has_bucket(spec) ? value_text_of(value_path(spec, "bucket.name"))
                                      : value_get_text(spec, STACK_FORMER_BUCKET);
}

const char *stack_own_role(const struct value *spec) {
        return stack_has_role(spec) ? value_text_of(value_path(spec, "role.name"))
                                    : value_get_text(spec, STACK_FORMER_ROLE);
}

void stack_note_role(struct provider *provider, const char *id) {
        snprintf(provider->role_id, sizeof(provider->role_id), "%s", id ? id : "");
}

struct value *stack_tags(const struct provider *provider, struct arena *arena) {
        return aws_tags_for(provider, "Stack", provider->stack_name, arena);
}

/* Without an identity the names are as they were when last applied. */
static void set_name(struct value *map, const char *name, const char *known, const struct value *recorded,
                     struct arena *arena) {
        value_set_text(arena, map, name, known ? known : value_get_text(recorded, name));
}

static struct value *desire_bucket(const struct provider *provider, const struct value *recorded,
                                   struct arena *arena) {
        const char *key = aws_desired_key(provider, value_get_text(recorded, "kmsKey"));
        struct value *bucket = value_new_map(arena);

        set_name(bucket, "name", provider->bucket, recorded, arena);
        if (!provider->manages_bucket)
                return bucket;
        value_set_text(arena, bucket, "encryption", STACK_ENCRYPTION);
        value_set_text(arena, bucket, "kmsKey", key);
        if (key)
                value_set_boolean(arena, bucket, "bucketKey", true);
        value_set_boolean(arena, bucket, "publicAccessBlock", true);
        value_set_boolean(arena, bucket, "tlsOnly", true);
        value_set(arena, bucket, "tags", *stack_tags(provider, arena));
        return bucket;
}

struct value *stack_desired_role(const struct provider *provider, const struct value *recorded,
                                 struct arena *arena) {
        struct value *role;

        if (provider->manages_role)
                return execution_role_desire(provider, STACK_ROLE, value_get(recorded, "role"), arena);
        role = value_new_map(arena);
        value_set_text(arena, role, "arn", provider->execution_role);
        return role;
}

/*
 * What the stack made and manages no longer is kept in mind as long as it is there. Without a
 * refresh it was not looked at, and it is there as far as we know.
 */
static void desire_former(const struct provider *provider, const struct observation *observed,
                          const struct value *recorded, struct arena *arena, struct value *spec) {
        const struct value *seen = observed->spec;
        bool bucket = !provider->manages_bucket && (!seen || stack_own_bucket(seen));
        bool role = !provider->manages_role && (!seen || stack_own_role(seen)) &&
                    !value_get_boolean(observed->extra, STACK_ROLE_UNUSED, false);

        value_set_text(arena, spec, STACK_FORMER_BUCKET, bucket ? stack_own_bucket(recorded) : NULL);
        value_set_text(arena, spec, STACK_FORMER_ROLE, role ? stack_own_role(recorded) : NULL);
}

/*
 * As with role and bucket: a VPC that is not wanted any more is kept in mind while functions may
 * still be in it. Where no manifest says a word of networks, it stays what it was. A VPC that a run
 * began and did not record goes as well: the wish says so with an empty text, since a member that
 * is neither in wish nor record is not compared.
 */
static void desire_network(const struct provider *provider, const struct observation *observed,
                           const struct value *recorded, struct arena *arena, struct value *spec) {
        const struct value *before = value_get(recorded, ISOLATED_NETWORK);
        bool seen = isolated_network_is_former(observed->spec),
             former = before || seen || isolated_network_is_former(recorded);

        if (isolated_network_is_wanted(provider)) {
                struct value *wish = isolated_network_wish(provider, arena);

                if (!value_get(wish, "endpoint") && value_get(before, "endpoint"))
                        value_set(arena, wish, "endpoint", *value_get(before, "endpoint"));
                value_set(arena, spec, ISOLATED_NETWORK, *wish);
        } else if (before && !isolated_network_is_said(provider)) {
                value_set(arena, spec, ISOLATED_NETWORK, *before);
        } else if (former && !value_get_boolean(observed->extra, ISOLATED_UNUSED, false)) {
                value_set_text(arena, spec, ISOLATED_FORMER, ISOLATED_KEPT);
        } else if (seen && !isolated_network_is_former(recorded)) {
                value_set_text(arena, spec, ISOLATED_FORMER, "");
        }
}

static int stack_desire(const struct provider *provider, const struct resource *resource,
                        const struct observation *observed, const struct value *recorded, struct arena *arena,
                        struct value **ret, struct error *err) {
        struct value *spec = value_new_map(arena);

        (void)resource;
        (void)err;
        value_set(arena, spec, "bucket", *desire_bucket(provider, value_get(recorded, "bucket"), arena));
        value_set(arena, spec, "role", *stack_desired_role(provider, recorded, arena));
        desire_former(provider, observed, recorded, arena, spec);
        desire_network(provider, observed, recorded, arena, spec);
        session_table_desire(provider, observed, recorded, arena, spec);
        *ret = spec;
        return 0;
}

static void stack_cost(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        if (change->action == ACTION_DELETE)
                stack_delete_cost(change, ret);
        else
                stack_make_cost(change, ret);
}

static int stack_step(struct provider *provider, const struct change *change, struct progress *progress,
                      struct observation *ret_observed, struct error *err) {
        return change->action == ACTION_DELETE
                       ? stack_delete_step(provider, change, progress, ret_observed, err)
                       : stack_make_step(provider, change, progress, ret_observed, err);
}

static const char *const free_maps[] = { "bucket.tags", "role.tags", ISOLATED_NETWORK ".tags", SESSIONS_TAGS,
                                         NULL };

const struct kind_ops aws_stack_ops = {
        .kind = KIND_STACK,
        .free_maps = free_maps,
        .desire = stack_desire,
        .cost = stack_cost,
        .read_ahead = stack_read_ahead,
        .observe = stack_observe,
        .ask = stack_ask,
        .step = stack_step,
};
