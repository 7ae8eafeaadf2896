/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary bytes as a saved plan: first as they are, where nothing but the form is looked at; then, where they are JSON,
 * with this state's lineage and a valid keyed hash, taken up as `apply PLANFILE` does against an empty cloud. Any
 * content behind a valid hash was written by some Berth, but that one may have had a bug.
 */
#include "base/json.h"
#include "controller/report.h"
#include "controller/saved_plan.h"
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The state's key is the same each time, so that seeds can hold hashes made with it. */
void __wrap_random_bytes(void *bytes, size_t length);
void __wrap_random_bytes(void *bytes, size_t length) {
        memset(bytes, 0x42, length);
}

static struct state *state;
static struct manifests current;
static FILE *null;

static const char current_manifests[] =
        "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: a}\n"
        "spec: {image: {prebuilt: python}, variables: {TOKEN: {value: hunter2-hunter2, sensitive: true}}}\n";

static void set_up(void) {
        static const struct load_options options = { .provider = "local" };
        struct arena *arena = arena_new(); /* for the process's life */
        struct diagnostics diagnostics;
        struct error err;
        char path[MEMORY_PATH_SIZE];
        int descriptor = memory_file(current_manifests, sizeof(current_manifests) - 1, path);

        diagnostics_init(&diagnostics, arena);
        if (state_open(scratch_folder(), STATE_CREATE, &state, &err) < 0 ||
            manifests_load(path, &options, arena, &current, &diagnostics, &err) < 0 ||
            !(null = fopen("/dev/null", "we")))
                abort();
        close(descriptor);
}

static int empty_identify(struct provider *provider, struct arena *arena, struct caller_identity *ret,
                          struct error *err) {
        (void)provider;
        (void)arena;
        (void)err;
        *ret = (struct caller_identity){ .account = "111111111111", .region = "eu-west-1" };
        return 0;
}

static int empty_desire(const struct provider *provider, const struct resource *resource,
                        const struct observation *observed, const struct value *recorded, struct arena *arena,
                        struct value **ret, struct error *err) {
        (void)provider;
        (void)observed;
        (void)recorded;
        (void)err;
        *ret = arena_alloc(arena, sizeof(**ret));
        **ret = value_copy(arena, resource->spec);
        return 0;
}

static int empty_observe(struct provider *provider, const struct observe_args *args, struct observation *ret,
                         struct error *err) {
        (void)provider;
        (void)err;
        for (size_t i = 0; i < args->count; i++)
                ret[i] = (struct observation){ .name = args->wanted[i].name };
        return 0;
}

static void empty_cost(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        (void)change;
        cost_add(ret, "calls", 1);
}

static const struct kind_ops *empty_ops(const struct provider *provider, enum kind_id kind) {
        static const char *const none[] = { NULL };
        static struct kind_ops ops[KIND_COUNT];

        (void)provider;
        if (kind == KIND_RESOURCE_RANGE)
                return NULL;
        ops[kind] = (struct kind_ops){ .kind = kind,
                                       .recorded_only = none,
                                       .immutable = none,
                                       .desire = empty_desire,
                                       .cost = empty_cost,
                                       .observe = empty_observe };
        return &ops[kind];
}

static const struct provider_ops empty_cloud = { .name = "local",
                                                 .identify = empty_identify,
                                                 .ops = empty_ops };

/* saved_plan.c's, over whatever the file says. */
static void sign(json_t *document) {
        uint8_t mac[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE], *text;

        json_object_set_new(document, "lineage", json_string(state_lineage(state)));
        json_object_del(document, "mac");
        text = json_compact(document);
        digest_hmac_sha256(state_secret_key(state), SHA256_SIZE, text, strlen(text), mac);
        free(text);
        digest_hex(mac, sizeof(mac), hex);
        json_object_set_new(document, "mac", json_string(hex));
}

static void take_up(struct saved_plan *saved, struct arena *arena) {
        static const struct report_style style = { .verbose = true };
        struct plan_args args = {
                .manifests = &saved->manifests,
                .state = state,
                .provider_ops = &empty_cloud,
                .clock = &clock_system,
                .destroy = saved->destroy,
                .targets = saved->targets,
                .target_count = saved->target_count,
                .excludes = saved->excludes,
                .exclude_count = saved->exclude_count,
                .allowances = saved->allowances,
                .allowance_count = saved->allowance_count,
        };
        struct plan plan;
        struct error err;

        if (saved->needs_secrets && saved_plan_restore_secrets(saved, &current, state, arena, &err) < 0)
                return;
        if (plan_make(&args, arena, &plan, &err) < 0 || saved_plan_compare(saved, &plan, arena, &err) < 0)
                return;
        report_plan_text(&plan, &style, null);
        report_plan_markdown(&plan, null);
        json_decref(report_plan_json(&plan));
}

static void read_plan(const void *bytes, size_t length) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char path[MEMORY_PATH_SIZE];
        int descriptor = memory_file(bytes, length, path);
        struct saved_plan saved;
        struct error err;

        if (saved_plan_read(path, state, arena, &saved, &err) == 0) {
                take_up(&saved, arena);
                saved_plan_release(&saved);
        }
        close(descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        json_t *document JSON_CLEANUP = NULL;
        char *text;

        if (!state)
                set_up();
        read_plan(data, size);
        document = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(document))
                return 0;
        sign(document);
        text = json_compact(document);
        read_plan(text, strlen(text));
        free(text);
        return 0;
}
