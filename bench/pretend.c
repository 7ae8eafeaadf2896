/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An apply without a cloud: planned offline and carried out by the controller as ever, with its
 * journal, history and sixteen threads, but each change ends at its first step. What remains is the
 * cost of the state, in a folder or in S3. usage: pretend MANIFESTS STATE
 */
#include "controller/apply.h"
#include "controller/plan.h"
#include "providers/aws/aws.h"
#include "providers/aws/state_objects.h"
#include "schema/state_place.h"

#include <stdio.h>
#include <stdlib.h>

static struct kind_ops pretended[KIND_COUNT];

_Noreturn static void die(const struct error *err) {
        fprintf(stderr, "pretend: %s\n", err->message);
        exit(1);
}

static int step_at_once(struct provider *provider, const struct change *change, struct progress *progress,
                        struct observation *ret, struct error *err) {
        (void)provider;
        (void)err;
        progress->sent = true;
        *ret = (struct observation){
                .name = change->name,
                .exists = change->action != ACTION_DELETE,
                .id = change->address,
                .fingerprint = "1",
                .spec = change->desired,
        };
        return STEP_DONE;
}

static const struct kind_ops *ops_at_once(const struct provider *provider, enum kind_id kind) {
        const struct kind_ops *ops = aws_provider_ops.ops(provider, kind);

        if (!ops)
                return NULL;
        pretended[kind] = *ops;
        pretended[kind].step = step_at_once;
        pretended[kind].abandon = NULL;
        return &pretended[kind];
}

static struct state *open_at(const char *text, struct arena *arena) {
        struct object_store *store;
        struct state_place place;
        struct state *state;
        struct error err;

        if (state_place_parse(text, arena, &place, &err) < 0)
                die(&err);
        if (place.type == STATE_PLACE_FOLDER) {
                if (state_open(place.folder, STATE_CREATE, &state, &err) < 0)
                        die(&err);
                return state;
        }
        if (state_objects_open(&place, NULL, &clock_system, &store, &err) < 0 ||
            state_open_shared(store, &clock_system, "bench", STATE_CREATE, &state, &err) < 0)
                die(&err);
        return state;
}

int main(int argc, char **argv) {
        struct arena *arena = arena_new();
        struct provider_ops ops = aws_provider_ops;
        struct diagnostics diagnostics;
        struct manifests manifests;
        struct plan_args planning = { .manifests = &manifests,
                                      .provider_ops = &ops,
                                      .clock = &clock_system,
                                      .refresh = PLAN_REFRESH_NONE };
        struct apply_args applying = { .planning = &planning,
                                       .command = "apply",
                                       .parallel = APPLY_PARALLEL_DEFAULT };
        struct provider_config config = { .clock = &clock_system };
        struct load_options load = { .provider = NULL };
        struct apply_result result;
        struct plan plan;
        struct error err;

        if (argc != 3) {
                fputs("usage: pretend MANIFESTS STATE\n", stderr);
                return 2;
        }
        ops.ops = ops_at_once;
        ops.lineage = NULL;
        diagnostics_init(&diagnostics, arena);
        if (manifests_load(argv[1], &load, arena, &manifests, &diagnostics, &err) < 0)
                die(&err);
        config.stack_name = manifests.stack->name;
        config.stack = manifests.stack->spec;
        planning.state = open_at(argv[2], arena);
        if (ops.open(&config, &planning.provider, &err) < 0 ||
            state_lease_acquire(planning.state, "apply", &err) < 0 ||
            plan_make(&planning, arena, &plan, &err) < 0)
                die(&err);
        applying.plan = &plan;
        if (plan.change_count > 0 && apply_plan(&applying, arena, &result, &err) < 0)
                die(&err);
        if (plan.change_count > 0 && result.done != plan.change_count) {
                fprintf(stderr, "pretend: %zu of %zu changes were made\n", result.done, plan.change_count);
                return 1;
        }
        printf("%zu changes\n", plan.change_count);
        state_close(planning.state);
        ops.close(planning.provider);
        arena_free(arena);
        return 0;
}
