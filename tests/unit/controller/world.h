/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider whose cloud is a table in memory, for tests of the controller: every kind, two stages a change, failures on
 * demand, and everything that happens written down in order.
 */
#ifndef BERTH_TESTS_WORLD_H
#define BERTH_TESTS_WORLD_H

#include "base/interrupt.h"
#include "folder.h"

#include "controller/apply.h"
#include "controller/plan.h"

#include <pthread.h>

#define WORLD_SIZE 64

/* Manifests to be joined. */
#define ENVIRONMENT(name, more)                                           \
        "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: " name \
        "}\nspec: {image: {prebuilt: python}" more "}\n---\n"
#define AGENT(name, environment)                                    \
        "apiVersion: berth/v1\nkind: Agent\nmetadata: {name: " name \
        "}\nspec: {type: general, environment: " environment "}\n---\n"
#define SWARM(name, agents, environment)                                                         \
        "apiVersion: berth/v1\nkind: Swarm\nmetadata: {name: " name "}\nspec: {agents: [" agents \
        "], environment: " environment "}\n---\n"

struct thing {
        char address[128];
        json_t *spec;
        unsigned revision;
        enum ownership ownership;
        const char *lineage; /* of another state, where that is whose it is */
        bool unmarked;
        enum health health;
};

struct provider {
        pthread_mutex_t lock;
        struct thing things[WORLD_SIZE];
        size_t count;
        const char *account;
        char fail_at[128]; /* address whose second stage fails */
        char log[8192];    /* "create Environment/a; ..." */
        char abandoned[8192];
        /*
         * this number of changes stand in line for a quota before an interrupt comes; 0: none does
         */
        unsigned queue;
        unsigned queued;
        struct interrupt *interrupt; /* of bench_apply() */
        struct state *robbed;        /* loses its lease at the next step: nothing can be recorded any more */
        unsigned reads, desires;
};

static struct provider world = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct thing *world_find(const char *address) {
        for (size_t i = 0; i < world.count; i++) {
                if (strcmp(world.things[i].address, address) == 0)
                        return &world.things[i];
        }
        return NULL;
}

static struct thing *world_put(const char *address, json_t *spec) {
        struct thing *thing = world_find(address);

        if (!thing) {
                assert_true(world.count < WORLD_SIZE);
                thing = &world.things[world.count++];
                *thing = (struct thing){ .ownership = OWNER_SELF };
                snprintf(thing->address, sizeof(thing->address), "%s", address);
        }
        json_decref(thing->spec);
        thing->spec = spec;
        thing->revision++;
        return thing;
}

static void world_remove(const char *address) {
        struct thing *thing = world_find(address);

        if (!thing)
                return;
        json_decref(thing->spec);
        *thing = world.things[--world.count];
}

static void world_reset(void) {
        for (size_t i = 0; i < world.count; i++)
                json_decref(world.things[i].spec);
        world.count = 0;
        world.account = "111111111111";
        world.fail_at[0] = world.log[0] = world.abandoned[0] = '\0';
        world.reads = world.desires = world.queue = world.queued = 0;
        world.interrupt = NULL;
}

static void world_see(const char *kind, const char *name, struct arena *arena, struct observation *ret) {
        struct thing *thing = world_find(arena_printf(arena, "%s/%s", kind, name));
        struct value *spec;

        *ret = (struct observation){ .name = name };
        if (!thing)
                return;
        spec = arena_alloc(arena, sizeof(*spec));
        *spec = value_from_json(arena, thing->spec);
        ret->exists = true;
        ret->id = arena_printf(arena, "id:%s/%s", kind, name);
        ret->fingerprint = arena_printf(arena, "%u", thing->revision);
        ret->ownership = thing->ownership;
        ret->owner = thing->ownership == OWNER_OTHER ? "stack other" : NULL;
        ret->lineage = thing->lineage;
        ret->unmarked = thing->unmarked;
        ret->health = thing->health;
        ret->health_reason = thing->health == HEALTH_FAILED ? "it broke" : NULL;
        ret->spec = spec;
}

static int world_desire(const struct provider *provider, const struct resource *resource,
                        const struct observation *observed, const struct value *recorded, struct arena *arena,
                        struct value **ret, struct error *err) {
        (void)provider;
        (void)observed;
        (void)recorded;
        (void)err;
        world.desires++;
        *ret = arena_alloc(arena, sizeof(**ret));
        **ret = value_copy(arena, resource->spec);
        return 0;
}

static int world_observe(const struct kind *kind, const struct observe_args *args, struct observation *ret) {
        for (size_t i = 0; i < args->count; i++) {
                struct observation seen;

                world_see(kind->name, args->wanted[i].name, args->arena, &seen);
                if (!args->wanted[i].must_read && args->wanted[i].last && seen.exists &&
                    args->wanted[i].last->fingerprint &&
                    strcmp(args->wanted[i].last->fingerprint, seen.fingerprint) == 0) {
                        ret[i] = *args->wanted[i].last;
                        ret[i].lineage = seen.lineage;
                        ret[i].unmarked = seen.unmarked;
                } else {
                        world.reads++;
                        ret[i] = seen;
                }
        }
        return 0;
}

static int world_step(struct provider *provider, const struct change *change, struct progress *progress,
                      struct observation *ret_observed, struct error *err) {
        size_t length;
        int result = STEP_AGAIN;

        pthread_mutex_lock(&provider->lock);
        if (provider->queue > 0 && !progress->reserved && !progress->sent) {
                /* As a stage does that has its turn later, and keeps its place: later than the interrupt, however slow the machine. */
                progress->stage = 1;
                progress->reserved = true;
                progress->not_before_ms = clock_system.monotonic_ms(&clock_system) + 60000;
                if (++provider->queued == provider->queue)
                        interrupt_raise(provider->interrupt);
                pthread_mutex_unlock(&provider->lock);
                return STEP_AGAIN;
        }
        if (!progress->sent) {
                progress->sent = true;
                progress->reserved = false;
                length = strlen(provider->log);
                snprintf(provider->log + length, sizeof(provider->log) - length, "%s%s %s",
                         length ? "; " : "", action_name(change->action), change->address);
                if (change->action == ACTION_DELETE)
                        world_remove(change->address);
                else
                        world_put(change->address,
                                  value_to_json(change->desired, (const uint8_t[SHA256_SIZE]){ 0 }))
                                ->health = HEALTH_READY;
                progress->stage = 1;
                if (provider->robbed && state_lease_break(provider->robbed, true, err) < 0)
                        result = -1;
                provider->robbed = NULL;
        } else if (strcmp(provider->fail_at, change->address) == 0) {
                result = error_set(err, "it would not");
        } else {
                world_see(change->kind->name, change->name, progress->arena, ret_observed);
                result = STEP_DONE;
        }
        pthread_mutex_unlock(&provider->lock);
        return result;
}

static void world_abandon(struct provider *provider, const struct change *change) {
        size_t length;

        pthread_mutex_lock(&provider->lock);
        length = strlen(provider->abandoned);
        snprintf(provider->abandoned + length, sizeof(provider->abandoned) - length, "%s%s",
                 length ? "; " : "", change->address);
        pthread_mutex_unlock(&provider->lock);
}

#define WORLD_KIND(label, id)                                                                  \
        static int observe_##label(struct provider *provider, const struct observe_args *args, \
                                   struct observation *ret, struct error *err) {               \
                (void)provider;                                                                \
                (void)err;                                                                     \
                return world_observe(kinds[(id)], args, ret);                                  \
        }                                                                                      \
        static const char *const recorded_only_##label[] = { "protect", NULL };                \
        static const char *const immutable_##label[] = { "tenantIsolation", NULL };            \
        static const char *const free_maps_##label[] = { "variables", "tags", NULL };          \
        static const struct kind_ops ops_##label = {                                           \
                .kind = (id),                                                                  \
                .recorded_only = recorded_only_##label,                                        \
                .immutable = immutable_##label,                                                \
                .free_maps = free_maps_##label,                                                \
                .desire = world_desire,                                                        \
                .desire_repeats = (id) != KIND_STACK,                                          \
                .observe = observe_##label,                                                    \
                .step = world_step,                                                            \
                .abandon = world_abandon,                                                      \
        }

WORLD_KIND(stack, KIND_STACK);
WORLD_KIND(environment, KIND_ENVIRONMENT);
WORLD_KIND(agent, KIND_AGENT);
WORLD_KIND(swarm, KIND_SWARM);

/* Of a kind that a test adds. */
static const struct kind_ops *world_added;

static const struct kind_ops *world_ops(const struct provider *provider, enum kind_id kind) {
        static const struct kind_ops *const tables[] = { &ops_stack, &ops_environment, &ops_agent,
                                                         &ops_swarm };

        (void)provider;
        if (world_added && world_added->kind == kind)
                return world_added;
        return kind_ops_find(tables, sizeof(tables) / sizeof(tables[0]), kind);
}

static int world_identify(struct provider *provider, struct arena *arena, struct caller_identity *ret,
                          struct error *err) {
        (void)err;
        *ret = (struct caller_identity){ .account = arena_strdup(arena, provider->account),
                                         .region = "mars-1" };
        return 0;
}

static const struct provider_ops world_provider = { .name = "world",
                                                    .identify = world_identify,
                                                    .ops = world_ops };

/* One stack under test: its state's folder and the last plan. */
struct bench {
        char folder[64];
        struct arena *arena;
        struct manifests manifests;
        struct diagnostics diagnostics;
        struct state *state;
        struct plan plan;
        struct plan_args args;
        struct apply_result result;
};

static void bench_open(struct bench *bench) {
        struct error err;

        *bench = (struct bench){ .arena = arena_new() };
        folder_make_temporary(bench->folder);
        if (state_open(bench->folder, STATE_CREATE, &bench->state, &err) < 0)
                fail_msg("%s", err.message);
        world_reset();
}

static void bench_close(struct bench *bench) {
        state_close(bench->state);
        arena_free(bench->arena);
        folder_remove(bench->folder);
}

/* For tests of which a bench is the whole state. */
static inline int bench_set_up(void **state) {
        struct bench *bench = calloc(1, sizeof(*bench));

        assert_non_null(bench);
        bench_open(bench);
        *state = bench;
        return 0;
}

static inline int bench_tear_down(void **state) {
        bench_close(*state);
        free(*state);
        return 0;
}

/* Plans `yaml`; returns plan_make()'s result. Allowances and targets may be set in bench->args before. */
static int bench_plan(struct bench *bench, const char *yaml, struct error *err) {
        char path[96];
        struct load_options load = { .provider = NULL, .missing_environments = true };

        snprintf(path, sizeof(path), "%s/stack.yaml", bench->folder);
        folder_write(bench->folder, "stack.yaml", yaml);
        diagnostics_init(&bench->diagnostics, bench->arena);
        if (manifests_load(path, &load, bench->arena, &bench->manifests, &bench->diagnostics, err) < 0) {
                diagnostics_print(&bench->diagnostics, stderr);
                fail_msg("%s", err->message);
        }
        bench->args.manifests = &bench->manifests;
        bench->args.state = bench->state;
        bench->args.provider_ops = &world_provider;
        bench->args.provider = &world;
        bench->args.clock = &clock_system;
        return plan_make(&bench->args, bench->arena, &bench->plan, err);
}

static void bench_must_plan(struct bench *bench, const char *yaml) {
        struct error err;

        if (bench_plan(bench, yaml, &err) < 0)
                fail_msg("%s", err.message);
}

static void bench_apply(struct bench *bench, const char *yaml) {
        struct apply_args args = { .planning = &bench->args,
                                   .plan = &bench->plan,
                                   .command = "apply",
                                   .parallel = 4,
                                   .interrupt = world.interrupt };
        struct error err;

        bench_must_plan(bench, yaml);
        world.log[0] = '\0';
        if (apply_plan(&args, bench->arena, &bench->result, &err) < 0)
                fail_msg("%s", err.message);
}

/* "create Stack/x; update Environment/a(memoryMB,...)!refusal": the plan in one line. */
static const char *bench_line(const struct bench *bench) {
        static char line[8192];
        size_t length = 0;

        line[0] = '\0';
        for (size_t i = 0; i < bench->plan.refusal_count; i++)
                length += (size_t)snprintf(line + length, sizeof(line) - length, "!%s ",
                                           bench->plan.refusals[i].id);
        for (size_t i = 0; i < bench->plan.change_count; i++) {
                const struct change *change = bench->plan.changes[i];

                length += (size_t)snprintf(line + length, sizeof(line) - length, "%s%s %s", i ? "; " : "",
                                           action_name(change->action), change->address);
                for (size_t k = 0; change->action == ACTION_UPDATE && k < change->field_count; k++)
                        length += (size_t)snprintf(line + length, sizeof(line) - length, "%s%s%s",
                                                   k ? "," : "(", change->fields[k].path,
                                                   k + 1 == change->field_count ? ")" : "");
                for (size_t k = 0; k < change->refusal_count; k++)
                        length += (size_t)snprintf(line + length, sizeof(line) - length, " !%s",
                                                   change->refusals[k].id);
        }
        return line;
}

#endif
