/* SPDX-License-Identifier: Apache-2.0 */
#include "drive.h"

#include "cloud.h"
#include "controller/diff.h"
#include "providers/aws/aws.h"
#include "providers/images.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS_MAX 120
#define SUBJECTS_MAX 16

static const char manifests_text[] =
        "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\n"
        "spec: {provider: aws, aws: {region: us-east-1, namePrefix: p}, tags: {team: research}}\n"
        "---\napiVersion: berth/v1\nkind: Image\nmetadata: {name: app}\n"
        "spec: {repository: team/app, tag: one, createRepository: true, scanOnPush: true, retain: {untaggedDays: 14}}\n"
        "---\napiVersion: berth/v1\nkind: Environment\nmetadata: {name: a}\n"
        "spec: {image: {repository: team/app, tag: one}, logRetentionDays: 14, reservedConcurrency: 2,\n"
        "  variables: {OPEN: plain, TOKEN: {value: hunter2-hunter2, sensitive: true}}}\n"
        "---\napiVersion: berth/v1\nkind: Environment\nmetadata: {name: b}\n"
        "spec: {image: {repository: team/app, tag: two, follow: tag}, memoryMB: 4096}\n"
        "---\napiVersion: berth/v1\nkind: WorkspacePolicy\nmetadata: {name: keep}\n"
        "spec: {selector: {all: true}, expireAfterDays: 365, abortIncompleteUploadDays: 3, transitions: [{afterDays: 30, storageClass: GLACIER_IR}]}\n"
        "---\napiVersion: berth/v1\nkind: WorkspacePolicy\nmetadata: {name: some}\n"
        "spec: {selector: {environments: [a]}, expireAfterDays: 90}\n"
        "---\napiVersion: berth/v1\nkind: Agent\nmetadata: {name: x}\n"
        "spec: {type: specialist, environment: a, active: true}\n"
        "---\napiVersion: berth/v1\nkind: Swarm\nmetadata: {name: s}\n"
        "spec: {agents: [x], environment: b}\n";

static const uint8_t secret_key[SHA256_SIZE] = { 7 };
static struct manifests manifests;

static void load_manifests(void) {
        static const struct load_options options = { .provider = "aws" };
        struct arena *arena = arena_new(); /* for the process's life */
        struct diagnostics diagnostics;
        char path[MEMORY_PATH_SIZE];
        int descriptor = memory_file(manifests_text, sizeof(manifests_text) - 1, path);
        struct error err;

        diagnostics_init(&diagnostics, arena);
        if (manifests_load(path, &options, arena, &manifests, &diagnostics, &err) < 0) {
                diagnostics_print(&diagnostics, stderr);
                abort();
        }
        close(descriptor);
}

struct subject_here {
        const struct kind_ops *ops;
        const struct resource *resource;
        struct observation observed;
        struct value *wish;
        const struct value *recorded;
        bool settled;
};

struct pass {
        struct provider *provider;
        const char *options;
        struct arena *arena;
        struct subject_here subjects[SUBJECTS_MAX];
        size_t count;
};

static bool asked(const struct pass *pass, char letter) {
        return strchr(pass->options, letter) != NULL;
}

static int observe_kind(struct pass *pass, const struct kind_ops *ops, bool again, struct error *err) {
        struct wanted wanted[SUBJECTS_MAX];
        struct observation seen[SUBJECTS_MAX], last[SUBJECTS_MAX];
        struct observe_args args = { .refresh = asked(pass, 'f') ? REFRESH_FULL : REFRESH_SWEEP,
                                     .wanted = wanted,
                                     .arena = pass->arena };
        size_t first = pass->count;

        for (size_t i = 0; i < pass->count; i++) {
                struct subject_here *subject = &pass->subjects[i];

                if (subject->ops != ops)
                        continue;
                if (first > i)
                        first = i;
                last[args.count] = subject->observed;
                last[args.count].resolved = NULL;
                wanted[args.count++] = (struct wanted){
                        .name = subject->resource->name,
                        .desired = asked(pass, 'd') ? NULL : subject->resource,
                        .recorded = again ? subject->recorded : NULL,
                        .last = again ? &last[i - first] : NULL,
                        .must_read = asked(pass, 'm'),
                };
        }
        if (args.count == 0)
                return 0;
        if (ops->observe(pass->provider, &args, seen, err) < 0)
                return -1;
        for (size_t i = 0; i < args.count; i++) {
                pass->subjects[first + i].observed = seen[i];
                if (!seen[i].name || strcmp(seen[i].name, wanted[i].name) != 0)
                        abort();
        }
        return 0;
}

static void diff_subject(const struct pass *pass, const struct subject_here *subject, struct change *change) {
        diff_fields(&(struct diff_args){ .desired = change->desired,
                                         .recorded = change->recorded,
                                         .observed = subject->observed.spec,
                                         .recorded_only = subject->ops->recorded_only,
                                         .free_maps = subject->ops->free_maps,
                                         .key = secret_key },
                    pass->arena, &change->fields, &change->field_count);
}

static enum action action_for(const struct pass *pass, const struct subject_here *subject) {
        if (asked(pass, 'd'))
                return ACTION_DELETE;
        if (!subject->observed.exists)
                return ACTION_CREATE;
        if (subject->observed.health == HEALTH_FAILED || asked(pass, 'r'))
                return ACTION_REPLACE;
        return ACTION_UPDATE;
}

static int make_change(struct pass *pass, struct subject_here *subject, struct change *change,
                       struct error *err) {
        struct cost cost = { .arena = pass->arena };

        *change = (struct change){
                .address = subject->resource->address,
                .kind = subject->resource->kind,
                .name = subject->resource->name,
                .action = action_for(pass, subject),
                .resource = asked(pass, 'd') ? NULL : subject->resource,
                .recorded = subject->recorded,
                .observed = &subject->observed,
        };
        if (!asked(pass, 'd')) {
                if (subject->ops->desire(pass->provider, subject->resource, &subject->observed,
                                         subject->recorded, pass->arena, &subject->wish, err) < 0)
                        return -1;
                change->desired = subject->wish;
        }
        diff_subject(pass, subject, change);
        if (subject->ops->cost)
                subject->ops->cost(pass->provider, change, &cost);
        return subject->ops->ask ? subject->ops->ask(pass->provider, change, pass->arena, err) : 0;
}

static void carry_out(struct pass *pass, struct subject_here *subject, const struct change *change) {
        struct progress progress = { .arena = arena_new() };
        struct observation seen = { 0 };
        struct error err;
        int result = STEP_AGAIN;

        for (unsigned steps = 0; steps < STEPS_MAX && result == STEP_AGAIN; steps++) {
                progress.not_before_ms = 0;
                result = subject->ops->step(pass->provider, change, &progress, &seen, &err);
                cloud_advance(progress.not_before_ms);
        }
        if (result < 0 && err.message[0] == '\0')
                abort();
        if (result == STEP_DONE) {
                struct value *spec = arena_alloc(pass->arena, sizeof(*spec));

                /* A recorded value passes through the state, as JSON. */
                if (change->desired) {
                        json_t *json = value_to_json(change->desired, secret_key);

                        *spec = value_from_json(pass->arena, json);
                        json_decref(json);
                        subject->recorded = spec;
                }
                if (seen.spec)
                        json_decref(value_to_json(seen.spec, secret_key));
                if (seen.extra)
                        json_decref(value_to_json(seen.extra, secret_key));
        }
        arena_free(progress.arena);
}

static int run_pass(struct pass *pass, bool again, struct error *err) {
        struct caller_identity identity;
        struct change changes[SUBJECTS_MAX];

        if (aws_provider_ops.identify(pass->provider, pass->arena, &identity, err) < 0)
                return -1;
        for (size_t i = 0; i < pass->count; i++) {
                if ((i == 0 || pass->subjects[i].ops != pass->subjects[i - 1].ops) &&
                    observe_kind(pass, pass->subjects[i].ops, again, err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < pass->count; i++) {
                if (make_change(pass, &pass->subjects[i], &changes[i], err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < pass->count; i++)
                carry_out(pass, &pass->subjects[i], &changes[i]);
        return 0;
}

static void ask_registry(struct pass *pass) {
        const struct image_ops *images = aws_provider_ops.images;
        struct image_instructions instructions;
        struct image_row *rows, row;
        struct caller_identity identity;
        struct error err;
        size_t count;

        if (aws_provider_ops.identify(pass->provider, pass->arena, &identity, &err) < 0)
                return;
        if (images->list(pass->provider, NULL, pass->arena, &rows, &count, &err) < 0 ||
            images->check(pass->provider, "team/app:one", pass->arena, &row, &err) < 0 ||
            images->instructions(pass->provider, &manifests, NULL, pass->arena, &instructions, &err) < 0) {
                if (err.message[0] == '\0')
                        abort();
        }
}

void drive(const enum kind_id *kinds_here, size_t count, const char *options) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct pass pass = { .options = options, .arena = arena };
        struct provider_config config;
        struct error err = { 0 };

        if (!manifests.stack) {
                cloud_environment();
                load_manifests();
        }
        config = (struct provider_config){ .stack_name = "lab",
                                           .stack = manifests.stack->spec,
                                           .clock = &cloud_clock };
        if (aws_provider_ops.open(&config, &pass.provider, &err) < 0)
                abort();
        for (size_t i = 0; i < count; i++) {
                size_t found;
                const struct resource *resources = manifests_of_kind(&manifests, kinds_here[i], &found);

                for (size_t k = 0; k < found && pass.count < SUBJECTS_MAX; k++)
                        pass.subjects[pass.count++] = (struct subject_here){
                                .ops = aws_provider_ops.ops(pass.provider, kinds_here[i]),
                                .resource = &resources[k],
                        };
        }
        if (asked(&pass, 'i'))
                ask_registry(&pass);
        if (run_pass(&pass, false, &err) == 0)
                (void)run_pass(&pass, true, &err);
        aws_provider_ops.close(pass.provider);
}
