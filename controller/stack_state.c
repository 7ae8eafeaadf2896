/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/stack_state.h"

#include "controller/history.h"

#include <string.h>

/* RFC 3986, 3.1: a letter, then letters, digits, + - and a dot. */
static size_t scheme_length(const char *place) {
        static const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        size_t length = strspn(place, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

        return strspn(place, letters) > 0 && strncmp(place + length, "://", 3) == 0 ? length : 0;
}

bool stack_state_has_scheme(const char *place) {
        return scheme_length(place) > 0;
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

int stack_state_open(const struct stack_state_args *args, enum state_mode mode, struct state **ret,
                     struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct manifests *manifests = args->manifests;
        size_t scheme = scheme_length(args->place);
        struct object_store *store;

        if (scheme == 0)
                return state_open(args->place, mode, ret, err);
        if (scheme != 2 || strncmp(args->place, "s3", 2) != 0)
                return error_set(
                        err,
                        "there is no state of the kind %.*s (%s): a state is a folder, or s3://BUCKET/PREFIX; "
                        "a folder of that name is ./%s",
                        (int)scheme, args->place, args->place, args->place);
        if (args->registry->open_objects(
                    args->place,
                    manifests && manifests->stack ? value_get(manifests->stack->spec, "aws") : NULL,
                    args->clock, &store, err) < 0)
                return -1;
        return state_open_shared(store, args->clock, history_who(arena), mode, ret, err);
}
