/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/stack_state.h"

#include "base/files.h"
#include "controller/history.h"
#include "schema/state_place.h"

#include <stdlib.h>

bool stack_state_has_scheme(const char *place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state_place parsed;
        struct error ignored;

        return state_place_parse(place, arena, &parsed, &ignored) < 0 || parsed.type != STATE_PLACE_FOLDER;
}

const char *stack_state_declared(const struct manifests *manifests) {
        const struct value *declared =
                manifests && manifests->stack ? value_get(manifests->stack->spec, "state") : NULL;

        return declared ? value_get_text(declared, "s3") : NULL;
}

int stack_state_check_provider(const char *place, const struct provider_ops *ops, struct error *err) {
        if (!stack_state_has_scheme(place) || ops->lineage)
                return 0;
        return error_set(
                err,
                "what provider %s makes is on this machine alone, and so is its state: a state in S3 (%s) is for "
                "provider aws",
                ops->name, place);
}

int stack_state_objects(const struct provider_registry *registry, const struct manifests *manifests,
                        const char *place, const struct clock *clock, struct object_store **ret,
                        struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state_place parsed;

        if (state_place_parse(place, arena, &parsed, err) < 0)
                return -1;
        if (parsed.type == STATE_PLACE_FOLDER)
                return error_set(err, "%s is no place in S3", place);
        return registry->open_objects(
                &parsed, manifests && manifests->stack ? value_get(manifests->stack->spec, "aws") : NULL,
                clock, ret, err);
}

const char *stack_state_whole_place(const char *place, struct arena *arena) {
        struct state_place parsed;
        struct error ignored;
        char *resolved TEXT_CLEANUP = NULL;

        if (state_place_parse(place, arena, &parsed, &ignored) == 0 && parsed.type != STATE_PLACE_FOLDER)
                return parsed.text;
        resolved = realpath(place, NULL);
        return arena_strdup(arena, resolved ? resolved : place);
}

static int open_anywhere(const struct stack_state_args *args, enum state_mode mode, struct state **ret,
                         struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct object_store *store;

        if (!stack_state_has_scheme(args->place))
                return state_open(args->place, mode, ret, err);
        if (stack_state_objects(args->registry, args->manifests, args->place, args->clock, &store, err) < 0)
                return -1;
        return (args->aside ? state_open_shared_aside
                            : state_open_shared)(store, args->clock, history_who(arena), mode, ret, err);
}

int stack_state_open(const struct stack_state_args *args, enum state_mode mode, struct state **ret,
                     struct error *err) {
        struct state *state;

        if (open_anywhere(args, mode, &state, err) < 0)
                return -1;
        if (!args->gone_too && state_check_lives(state, err) < 0) {
                state_close(state);
                return -1;
        }
        *ret = state;
        return 0;
}
