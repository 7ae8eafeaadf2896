/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/association.h"
#include "world.h"

#define STACK \
        "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\nspec: {guards: {maxDeletes: 4}}\n---\n"
#define LAB \
        STACK ENVIRONMENT("a", "") ENVIRONMENT("b", "") AGENT("x", "a") AGENT("y", "b") SWARM("s", "x", "a")

static void expect_line(const struct bench *bench, const char *line) {
        assert_string_equal(bench_line(bench), line);
}

static void test_create_then_nothing(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, LAB);
        expect_line(
                bench,
                "create Stack/lab; create Environment/a; create Environment/b; create Agent/x; create Agent/y; "
                "create Swarm/s");
        assert_int_equal(bench->result.done, 6);
        assert_int_equal(world.count, 6);
        bench_must_plan(bench, LAB);
        expect_line(bench, "");
        assert_int_equal(bench->plan.summary.unchanged, 6);
        /* What did not move is not read again. */
        world.reads = 0;
        bench_must_plan(bench, LAB);
        assert_int_equal(world.reads, 0);
}

/* How many wishes an offline plan works out; the others are known by what they were made from. */
static unsigned offline_desires(struct bench *bench, const char *yaml) {
        world.desires = 0;
        bench->args.refresh = PLAN_REFRESH_NONE;
        bench_must_plan(bench, yaml);
        bench->args.refresh = PLAN_REFRESH_SWEEP;
        return world.desires;
}

static void test_offline_what_is_the_same_is_not_worked_out(void **state) {
        struct bench *bench = *state;
        const char *bigger = STACK ENVIRONMENT("a", ", memoryMB: 4096") ENVIRONMENT("b", "") AGENT("x", "a")
                AGENT("y", "b") SWARM("s", "x", "a");

        bench_apply(bench, LAB);
        assert_int_equal(offline_desires(bench, LAB), 1);
        expect_line(bench, "");
        /* Once for the fingerprint, once for the plan. */
        assert_int_equal(offline_desires(bench, bigger), 3);
        expect_line(bench, "update Environment/a(memoryMB)");
        /* What a wish depends on beside its manifest. */
        assert_int_equal(offline_desires(bench, "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\n"
                                                "spec: {tags: {cost: lab}}\n---\n" ENVIRONMENT("a", "")
                                                        ENVIRONMENT("b", "") AGENT("x", "a") AGENT("y", "b")
                                                                SWARM("s", "x", "a")),
                         7);
}

/*
 * A variable or a tag of no text exists: fingerprints leave it out, plans must not, whichever
 * record they compare with.
 */
static void test_an_empty_variable_comes_and_goes(void **state) {
#define VARIABLES(text) STACK ENVIRONMENT("a", ", variables: {" text "}") ENVIRONMENT("b", "")
        static const struct {
                const char *before, *after, *line;
        } rows[] = {
                { VARIABLES(""), VARIABLES("EE: {value: ''}"), "update Environment/a(variables.EE)" },
                { VARIABLES("EE: {value: ''}"), VARIABLES(""), "update Environment/a(variables.EE)" },
                { VARIABLES("EE: {value: ''}"), VARIABLES("EE: {value: ''}"), "" },
                { VARIABLES("EE: {value: ''}, FF: {value: x}"), VARIABLES("FF: {value: x}, EE: {value: ''}"),
                  "" },
                { VARIABLES(""),
                  "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\nspec: {guards: {maxDeletes: 4}, tags: {cost: ''}}\n---\n" ENVIRONMENT(
                          "a", ", variables: {}") ENVIRONMENT("b", ""),
                  "update Stack/lab(tags.cost)" },
        };
        struct bench *bench = *state;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                bench_apply(bench, rows[i].before);
                offline_desires(bench, rows[i].after);
                expect_line(bench, rows[i].line);
                bench_apply(bench, rows[i].after);
                offline_desires(bench, rows[i].after);
                expect_line(bench, "");
        }
#undef VARIABLES
}

/*
 * As an earlier version wrote it, or another one: worked out once, and written again by the next
 * apply.
 */
static void test_a_record_without_its_source(void **state) {
        struct bench *bench = *state;
        struct record *records;
        struct error err;
        size_t count;

        bench_apply(bench, LAB);
        assert_int_equal(state_load_records(bench->state, bench->arena, &records, &count, &err), 0);
        for (size_t i = 0; i < count; i++) {
                struct state_op op = { .type = STATE_PUT_RECORD, .record = &records[i] };

                memset(records[i].source, 0, sizeof(records[i].source));
                assert_int_equal(state_commit(bench->state, &op, 1, &err), 0);
        }
        assert_int_equal(offline_desires(bench, LAB), 6);
        expect_line(bench, "");
        bench_apply(bench, LAB);
        assert_int_equal(bench->result.done, 0);
        assert_int_equal(offline_desires(bench, LAB), 1);
}

static void test_order_of_an_apply(void **state) {
        struct bench *bench = *state;
        const char *environment, *agent;

        bench_apply(bench, LAB);
        environment = strstr(world.log, "create Environment/a");
        agent = strstr(world.log, "create Agent/x");
        assert_true(strncmp(world.log, "create Stack/lab", 16) == 0);
        assert_non_null(environment);
        assert_non_null(agent);
        assert_true(environment < agent);
}

static void test_one_field(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, LAB);
        bench_apply(bench, STACK ENVIRONMENT("a", ", memoryMB: 4096") ENVIRONMENT("b", "") AGENT("x", "a")
                                   AGENT("y", "b") SWARM("s", "x", "a"));
        expect_line(bench, "update Environment/a(memoryMB)");
        assert_string_equal(world.log, "update Environment/a");
}

static void test_drift(void **state) {
        struct bench *bench = *state;
        json_t *spec;

        bench_apply(bench, LAB);
        spec = json_deep_copy(world_find("Environment/a")->spec);
        json_object_set_new(spec, "memoryMB", json_integer(3000));
        json_object_set_new(spec, "somebodyElses", json_integer(1));
        world_put("Environment/a", spec);
        bench_must_plan(bench, LAB);
        expect_line(bench, "update Environment/a(memoryMB)");
        assert_int_equal(bench->plan.drift_count, 1);
        assert_string_equal(bench->plan.drifts[0].fields[0].path, "memoryMB");
        assert_int_equal(bench->plan.drifts[0].fields[0].before->integer, 2048);
        assert_int_equal(bench->plan.drifts[0].fields[0].after->integer, 3000);
        bench_apply(bench, LAB);
        bench_must_plan(bench, LAB);
        expect_line(bench, "");
        assert_int_equal(json_integer_value(json_object_get(world_find("Environment/a")->spec, "memoryMB")),
                         2048);
}

/*
 * Where drift is only reported, a commit's own changes are made nevertheless, to the drifted
 * resource too.
 */
static void test_drift_that_is_left(void **state) {
        struct bench *bench = *state;
        json_t *spec;

        bench_apply(bench, LAB);
        bench->args.leave_drift = true;
        spec = json_deep_copy(world_find("Environment/a")->spec);
        json_object_set_new(spec, "memoryMB", json_integer(3000));
        world_put("Environment/a", spec);
        world_remove("Environment/b");
        bench_must_plan(bench, LAB);
        expect_line(bench, "");
        assert_int_equal(bench->plan.drift_count, 2);
        assert_int_equal(bench->plan.summary.left_out, 2);
        bench_apply(bench, STACK ENVIRONMENT("a", ", workspaceStorageMB: 1024") ENVIRONMENT("b", "")
                                   AGENT("x", "a") AGENT("y", "a") SWARM("s", "x", "a"));
        assert_string_equal(world.log, "update Environment/a; update Agent/y");
        assert_int_equal(json_integer_value(json_object_get(world_find("Environment/a")->spec, "memoryMB")),
                         2048);
        assert_null(world_find("Environment/b"));
        assert_int_equal(bench->plan.drift_count, 2);
}

static void test_deleted_by_somebody_else(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, LAB);
        world_remove("Environment/a");
        bench_must_plan(bench, LAB);
        expect_line(bench, "create Environment/a");
        assert_non_null(bench->plan.changes[0]->reason);
}

static void test_dependents_guard(void **state) {
        struct bench *bench = *state;
        const struct change *change;

        bench_apply(bench, LAB);
        /* Manifests still refer to it. */
        bench_must_plan(bench,
                        STACK ENVIRONMENT("b", "") AGENT("x", "a") AGENT("y", "b") SWARM("s", "x", "a"));
        expect_line(bench, "delete Environment/a !has-dependents");
        change = bench->plan.changes[0];
        assert_int_equal(change->refusals[0].dependent_count, 2);
        assert_string_equal(change->refusals[0].dependents[0], "Agent/x");
        assert_string_equal(change->refusals[0].dependents[1], "Swarm/s");
        /* Re-pointed in the same plan: agents first, the environment last. */
        bench_apply(bench, STACK ENVIRONMENT("b", "") AGENT("x", "b") AGENT("y", "b") SWARM("s", "x", "b"));
        expect_line(bench, "update Agent/x(environment); update Swarm/s(environment); delete Environment/a");
        assert_string_equal(strrchr(world.log, ';'), "; delete Environment/a");
        /* Left out of the plan, a dependent still guards. */
        bench->args.targets = (const char *const[]){ "Environment/b" };
        bench->args.target_count = 1;
        bench_must_plan(bench, STACK);
        expect_line(bench, "delete Environment/b !has-dependents");
}

static void test_a_reference_to_nothing_is_an_error(void **state) {
        struct bench *bench = *state;
        struct error err;

        assert_int_equal(bench_plan(bench, STACK AGENT("x", "nowhere"), &err), -1);
        assert_int_equal(err.kind, ERROR_DIAGNOSED);
}

static void test_protection_outlives_the_manifest(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, STACK ENVIRONMENT("a", ", protect: true"));
        bench_must_plan(bench, STACK);
        expect_line(bench, "delete Environment/a !protected");
        bench->args.allowances = &(struct allowance){ "protected", "Environment/b" };
        bench->args.allowance_count = 1;
        bench_must_plan(bench, STACK);
        expect_line(bench, "delete Environment/a !protected");
        bench->args.allowances = &(struct allowance){ "protected", "Environment/a" };
        bench_must_plan(bench, STACK);
        expect_line(bench, "delete Environment/a");
        bench->args.allowance_count = 0;
        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "update Environment/a(protect)");
        bench_must_plan(bench, STACK);
        expect_line(bench, "delete Environment/a");
}

static void test_mass_deletion(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, LAB);
        bench_must_plan(bench, STACK);
        assert_int_equal(bench->plan.refusal_count, 1);
        assert_string_equal(bench->plan.refusals[0].id, "mass-delete");
        bench->args.destroy = true;
        bench_must_plan(bench, LAB);
        assert_int_equal(bench->plan.refusal_count, 0);
        expect_line(
                bench,
                "delete Swarm/s; delete Agent/y; delete Agent/x; delete Environment/b; delete Environment/a; "
                "delete Stack/lab");
}

static void test_destroy(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, LAB);
        bench->args.destroy = true;
        bench_apply(bench, LAB);
        assert_int_equal(world.count, 0);
        assert_string_equal(strrchr(world.log, ';'), "; delete Stack/lab");
        bench_must_plan(bench, LAB);
        expect_line(bench, "");
}

static void test_foreign_resources(void **state) {
        struct bench *bench = *state;

        world_put("Environment/a", json_pack("{s:i}", "memoryMB", 1))->ownership = OWNER_OTHER;
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "create Stack/lab; adopt Environment/a !not-owned");
        world_find("Environment/a")->ownership = OWNER_NONE;
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "create Stack/lab; adopt Environment/a !not-owned");
        world_find("Environment/a")->ownership = OWNER_SELF;
        world_find("Environment/a")->revision++;
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "create Stack/lab; adopt Environment/a");
}

static void test_replacement(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        bench_must_plan(bench, STACK ENVIRONMENT("a", ", tenantIsolation: true"));
        expect_line(bench, "replace Environment/a !needs-replacement");
        world_find("Environment/a")->health = HEALTH_FAILED;
        world_find("Environment/a")->revision++;
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "replace Environment/a");
        assert_non_null(strstr(bench->plan.changes[0]->reason, "it broke"));
}

static void test_wrong_account(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        world.account = "222222222222";
        world.reads = 0;
        bench_must_plan(bench, STACK ENVIRONMENT("a", ", memoryMB: 4096"));
        expect_line(bench, "!wrong-account ");
        assert_int_equal(world.reads, 0);
}

static void test_another_stacks_state(void **state) {
        struct bench *bench = *state;
        struct error err;

        bench_apply(bench, STACK);
        assert_int_equal(bench_plan(bench,
                                    "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: other}\nspec: {}\n",
                                    &err),
                         -1);
        assert_non_null(strstr(err.message, "belongs to the stack \"lab\""));
}

static void test_failures_are_taken_up_again(void **state) {
        struct bench *bench = *state;

        strcpy(world.fail_at, "Environment/a");
        bench_apply(bench, LAB);
        assert_int_equal(bench->result.failed, 1);
        assert_int_equal(bench->result.skipped, 2); /* the agent and the swarm on it */
        world.fail_at[0] = '\0';
        bench_must_plan(bench, LAB);
        expect_line(bench, "create Agent/x; create Swarm/s");
        bench_apply(bench, LAB);
        bench_must_plan(bench, LAB);
        expect_line(bench, "");

        /* A failed update: what the manifest no longer sets must still be undone later. */
        bench_apply(bench, STACK ENVIRONMENT("a", ", variables: {OLD: '1'}") ENVIRONMENT("b", "")
                                   AGENT("x", "a") AGENT("y", "b") SWARM("s", "x", "a"));
        strcpy(world.fail_at, "Environment/a");
        bench_apply(bench, LAB);
        assert_int_equal(bench->result.failed, 1);
        json_object_set_new(
                world_put("Environment/a", json_deep_copy(world_find("Environment/a")->spec))->spec,
                "variables", json_pack("{s:s}", "OLD", "1"));
        world.fail_at[0] = '\0';
        bench_must_plan(bench, LAB);
        expect_line(bench, "update Environment/a(variables.OLD)");
}

/*
 * A change that cannot be written down is not done: the provider is told, so that work which waits
 * for that change need not wait forever.
 */
static void test_a_change_that_is_abandoned(void **state) {
        struct bench *bench = *state;
        struct apply_args args = {
                .planning = &bench->args, .plan = &bench->plan, .command = "apply", .parallel = 4
        };
        struct error err;

        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        assert_int_equal(state_lease_acquire(bench->state, "apply", &err), 0);
        world.log[0] = '\0';
        world.robbed = bench->state;
        assert_int_equal(apply_plan(&args, bench->arena, &bench->result, &err), -1);
        assert_string_equal(world.log, "create Stack/lab");
        assert_string_equal(world.abandoned, "Stack/lab");
        state_lease_release(bench->state);
}

/*
 * The run that re-pointed the dependents died before it recorded that: the environment that they
 * left is unused.
 */
static void test_a_run_that_died_re_pointing(void **state) {
        const char *moved = STACK ENVIRONMENT("b", "") AGENT("x", "b") AGENT("y", "b") SWARM("s", "x", "b");
        static const char *const dependents[] = { "Agent/x", "Swarm/s" };
        struct bench *bench = *state;

        bench_apply(bench, LAB);
        bench_must_plan(bench, moved);
        expect_line(bench, "update Agent/x(environment); update Swarm/s(environment); delete Environment/a");
        for (size_t i = 0; i < 2; i++) {
                struct journal_entry entry = {
                        .run = 1, .address = dependents[i], .action = "update", .stage = 0
                };
                struct state_op op = { .type = STATE_JOURNAL_BEGIN, .journal = &entry };
                struct error err;

                assert_int_equal(state_commit(bench->state, &op, 1, &err), 0);
                world_put(dependents[i],
                          value_to_json(plan_subject(&bench->plan, dependents[i])->wish, NULL));
        }
        bench_must_plan(bench, moved);
        expect_line(bench, "delete Environment/a");
        /* A dependent that still shall use it is in the way as before. */
        bench_must_plan(bench,
                        STACK ENVIRONMENT("b", "") AGENT("x", "a") AGENT("y", "b") SWARM("s", "x", "b"));
        expect_line(bench, "update Agent/x(environment); delete Environment/a !has-dependents");
        bench_apply(bench, moved);
        assert_string_equal(world.log, "delete Environment/a");
        bench_must_plan(bench, moved);
        expect_line(bench, "");
}

static void test_a_run_that_died(void **state) {
        struct bench *bench = *state;
        struct journal_entry entry = { .run = 1, .address = "Environment/a", .action = "create", .stage = 0 };
        struct state_op op = { .type = STATE_JOURNAL_BEGIN, .journal = &entry };
        struct error err;

        /* It died after its call and before its record: the thing exists, the state has only the intent. */
        bench_apply(bench, STACK);
        assert_int_equal(state_commit(bench->state, &op, 1, &err), 0);
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        world_put("Environment/a", value_to_json(plan_subject(&bench->plan, "Environment/a")->wish, NULL));
        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        assert_string_equal(world.log, "");
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "");

        /* The same, with the manifest gone in the meantime. */
        entry.address = "Environment/z";
        assert_int_equal(state_commit(bench->state, &op, 1, &err), 0);
        world_put("Environment/z", json_pack("{s:i}", "memoryMB", 1));
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "delete Environment/z");
        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        assert_null(world_find("Environment/z"));
}

static void test_target_and_exclude(void **state) {
        struct bench *bench = *state;
        struct error err;

        bench->args.targets = (const char *const[]){ "Agent/x" };
        bench->args.target_count = 1;
        bench_must_plan(bench, LAB);
        expect_line(bench, "create Stack/lab; create Environment/a; create Agent/x");
        bench->args.targets = (const char *const[]){ "Environment/*" };
        bench_must_plan(bench, LAB);
        expect_line(bench, "create Stack/lab; create Environment/a; create Environment/b");
        bench->args.targets = (const char *const[]){ "Agent/xx" };
        assert_int_equal(bench_plan(bench, LAB, &err), -1);
        assert_non_null(strstr(err.message, "did you mean Agent/x"));
        bench->args.target_count = 0;
        bench->args.excludes = (const char *const[]){ "Environment/a" };
        bench->args.exclude_count = 1;
        bench_must_plan(bench, LAB);
        expect_line(bench, "create Stack/lab; create Environment/b; create Agent/y");
}

static void disassociate(struct bench *bench, const char *environment, bool out) {
        struct association association;
        struct error err;

        if (association_find(bench->state, environment, out, bench->arena, &association, &err) < 0 ||
            state_commit(bench->state, association.ops, association.count, &err) < 0)
                fail_msg("%s", err.message);
}

static void test_disassociation(void **state) {
        struct bench *bench = *state;
        struct association association;
        struct error err;

        bench_apply(bench, LAB);
        assert_int_equal(association_find(bench->state, "aa", true, bench->arena, &association, &err), -1);
        assert_non_null(strstr(err.message, "did you mean a?"));
        assert_int_equal(association_find(bench->state, "a", false, bench->arena, &association, &err), -1);
        disassociate(bench, "a", true);
        assert_int_equal(association_find(bench->state, "a", true, bench->arena, &association, &err), -1);

        /* Both dependents go out of service, and every plan says so. */
        bench_must_plan(bench, LAB);
        expect_line(bench, "update Agent/x(active,environment); update Swarm/s(environment)");
        assert_int_equal(bench->plan.warning_count, 2);
        bench_apply(bench, LAB);
        assert_null(json_object_get(world_find("Agent/x")->spec, "environment"));
        /* The next apply does not fight it. */
        bench_must_plan(bench, LAB);
        expect_line(bench, "");
        assert_int_equal(bench->plan.warning_count, 2);
        /* Their references still guard the environment. */
        bench_must_plan(bench,
                        STACK ENVIRONMENT("b", "") AGENT("x", "a") AGENT("y", "b") SWARM("s", "x", "a"));
        expect_line(bench, "delete Environment/a !has-dependents");

        disassociate(bench, "a", false);
        bench_must_plan(bench, LAB);
        expect_line(bench, "update Agent/x(active,environment); update Swarm/s(environment)");
        assert_int_equal(bench->plan.warning_count, 0);
        bench_apply(bench, LAB);
        assert_string_equal(json_string_value(json_object_get(world_find("Agent/x")->spec, "environment")),
                            "a");
        bench_must_plan(bench, LAB);
        expect_line(bench, "");
}

static void test_specialists_are_not_left_behind(void **state) {
        struct bench *bench = *state;

        bench_apply(bench,
                    STACK ENVIRONMENT("a", "") "apiVersion: berth/v1\nkind: Agent\nmetadata: {name: x}\n"
                                               "spec: {type: specialist, environment: a, active: true}\n");
        bench->args.allowances = &(struct allowance){ "has-dependents", NULL };
        bench->args.allowance_count = 1;
        bench->args.targets = (const char *const[]){ "Environment/a" };
        bench->args.target_count = 1;
        bench_must_plan(bench, STACK);
        expect_line(bench, "delete Environment/a !inactive-specialist");
}

/* Killed after a part of it was made, and before the thing itself was there: destroy must still ask for its deletion. */
static void test_parts_of_a_creation_are_not_forgotten(void **state) {
        struct bench *bench = *state;

        strcpy(world.fail_at, "Environment/a");
        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        world_remove("Environment/a");
        world.fail_at[0] = '\0';
        bench_must_plan(bench, STACK);
        expect_line(bench, "delete Environment/a");
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "create Environment/a");
        bench->args.destroy = true;
        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        assert_non_null(strstr(world.log, "delete Environment/a"));
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "");
}

/*
 * The creation failed since the name is taken: the resource there is not ours, and removing the
 * manifest forgets it.
 */
static void test_a_failed_creation_claims_nothing(void **state) {
        struct bench *bench = *state;

        strcpy(world.fail_at, "Environment/a");
        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        world_find("Environment/a")->ownership = OWNER_NONE;
        world.fail_at[0] = '\0';
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        expect_line(bench, "adopt Environment/a !not-owned");
        bench_apply(bench, STACK);
        expect_line(bench, "");
        assert_non_null(world_find("Environment/a"));
        assert_null(plan_subject(&bench->plan, "Environment/a")->change);
        bench_must_plan(bench, STACK);
        assert_null(plan_subject(&bench->plan, "Environment/a"));
}

static void test_a_secret_made_plain_did_not_drift(void **state) {
        struct bench *bench = *state;

        bench_apply(bench,
                    STACK ENVIRONMENT("a", ", variables: {TOKEN: {value: same-text, sensitive: true}}"));
        json_object_set_new(
                world_put("Environment/a", json_deep_copy(world_find("Environment/a")->spec))->spec,
                "variables", json_pack("{s:s}", "TOKEN", "same-text"));
        bench_must_plan(bench, STACK ENVIRONMENT("a", ", variables: {TOKEN: same-text}"));
        assert_int_equal(bench->plan.drift_count, 0);
}

static void test_what_is_left_out_is_not_unchanged(void **state) {
        struct bench *bench = *state;

        bench_apply(bench, LAB);
        bench->args.excludes = (const char *const[]){ "*" };
        bench->args.exclude_count = 1;
        bench_must_plan(bench, STACK ENVIRONMENT("a", ", memoryMB: 4096") ENVIRONMENT("b", "") AGENT("x", "a")
                                       AGENT("y", "b") SWARM("s", "x", "a"));
        expect_line(bench, "");
        assert_int_equal(bench->plan.summary.unchanged, 5);
        assert_int_equal(bench->plan.summary.left_out, 1);
}

static void test_history(void **state) {
        struct bench *bench = *state;
        struct history_entry *history;
        struct error err;
        size_t count;

        strcpy(world.fail_at, "Environment/a");
        bench_apply(bench, LAB);
        assert_int_equal(state_load_history(bench->state, 0, bench->arena, &history, &count, &err), 0);
        assert_int_equal(count, 1);
        assert_string_equal(history[0].command, "apply");
        assert_string_equal(history[0].outcome, "failed");
        assert_int_equal(value_get(history[0].detail, "changes")->count, 6);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, bench_set_up, bench_tear_down)
        const struct CMUnitTest tests[] = {
                TEST(test_create_then_nothing),
                TEST(test_offline_what_is_the_same_is_not_worked_out),
                TEST(test_a_record_without_its_source),
                TEST(test_an_empty_variable_comes_and_goes),
                TEST(test_order_of_an_apply),
                TEST(test_one_field),
                TEST(test_drift),
                TEST(test_drift_that_is_left),
                TEST(test_deleted_by_somebody_else),
                TEST(test_dependents_guard),
                TEST(test_a_reference_to_nothing_is_an_error),
                TEST(test_protection_outlives_the_manifest),
                TEST(test_mass_deletion),
                TEST(test_destroy),
                TEST(test_foreign_resources),
                TEST(test_replacement),
                TEST(test_wrong_account),
                TEST(test_another_stacks_state),
                TEST(test_failures_are_taken_up_again),
                TEST(test_a_run_that_died),
                TEST(test_a_run_that_died_re_pointing),
                TEST(test_a_change_that_is_abandoned),
                TEST(test_target_and_exclude),
                TEST(test_disassociation),
                TEST(test_specialists_are_not_left_behind),
                TEST(test_parts_of_a_creation_are_not_forgotten),
                TEST(test_a_failed_creation_claims_nothing),
                TEST(test_a_secret_made_plain_did_not_drift),
                TEST(test_what_is_left_out_is_not_unchanged),
                TEST(test_history),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
