/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the state after an apply of the manifests, without a cloud: the start for benchmarks of a plan without changes.
 * usage: settle MANIFESTS STATE
 */
#include "controller/plan.h"
#include "controller/record.h"
#include "providers/aws/aws.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH 500

static void die(const struct error *err) {
        fprintf(stderr, "settle: %s\n", err->message);
        exit(1);
}

static void commit_batch(const struct plan *plan, struct state *state, size_t start, size_t count) {
        struct arena *arena = arena_new();
        struct state_op *ops = arena_array(arena, count * RECORD_WRITER_MAX, sizeof(*ops));
        struct error err;
        size_t op_count = 0;

        for (size_t i = start; i < start + count; i++) {
                const struct subject *subject = &plan->subjects[i];
                struct record_writer *writer = arena_alloc(arena, sizeof(*writer));
                struct observation observed = {
                        .name = subject->name,
                        .exists = true,
                        .id = subject->address,
                        .fingerprint = "1",
                        .spec = subject->wish,
                };

                record_writer_init(writer, plan->provider_name, 0);
                record_applied(writer, subject, &observed, state_secret_key(state));
                for (size_t k = 0; k < writer->count; k++)
                        ops[op_count++] = writer->ops[k];
        }
        if (state_commit(state, ops, op_count, &err) < 0)
                die(&err);
        arena_free(arena);
}

int main(int argc, char **argv) {
        struct arena *arena = arena_new();
        struct diagnostics diagnostics;
        struct manifests manifests;
        struct plan_args args = { .manifests = &manifests,
                                  .provider_ops = &aws_provider_ops,
                                  .clock = &clock_system,
                                  .refresh = PLAN_REFRESH_NONE };
        struct provider_config config = { .clock = &clock_system };
        struct load_options load = { .provider = NULL };
        struct plan plan;
        struct error err;

        if (argc != 3) {
                fputs("usage: settle MANIFESTS STATE\n", stderr);
                return 2;
        }
        diagnostics_init(&diagnostics, arena);
        if (manifests_load(argv[1], &load, arena, &manifests, &diagnostics, &err) < 0)
                die(&err);
        config.stack_name = manifests.stack->name;
        config.stack = manifests.stack->spec;
        if (aws_provider_ops.open(&config, &args.provider, &err) < 0 ||
            state_open(argv[2], STATE_CREATE, &args.state, &err) < 0 ||
            plan_make(&args, arena, &plan, &err) < 0)
                die(&err);
        for (size_t start = 0; start < plan.subject_count; start += BATCH) {
                size_t left = plan.subject_count - start;

                commit_batch(&plan, args.state, start, left < BATCH ? left : BATCH);
        }
        state_close(args.state);
        aws_provider_ops.close(args.provider);
        arena_free(arena);
        return 0;
}
