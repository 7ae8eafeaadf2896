/* SPDX-License-Identifier: Apache-2.0 */
/* A lost state made again: what is taken, in which form, from whom, and what is not. */
#include "world.h"

#include "controller/lineage.h"
#include "controller/state_adopt.h"
#include "providers/lineage.h"

#define OTHER "00000000-0000-4000-8000-000000000001"

#define STACK                                                                \
        "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: s}\nspec: {}\n" \
        "---\n"

/* The notes of lineages, as they lie in the place. */
static struct {
        struct lineage_note notes[4];
        size_t count;
        char taken[256];     /* by take(): lineages, each with a space behind it */
        size_t records_then; /* in the state, when take() was called */
        bool fails;
        struct state *state;
} place;

static void set_lineage(struct provider *provider, const struct lineage *lineage) {
        (void)provider;
        (void)lineage;
}

static int renew(struct provider *provider, bool renews, struct error *err) {
        (void)provider;
        (void)renews;
        (void)err;
        return 0;
}

static int read_note(struct provider *provider, const char *lineage, struct arena *arena,
                     struct lineage_note *ret, struct error *err) {
        (void)provider;
        (void)arena;
        (void)err;
        *ret = (struct lineage_note){ 0 };
        for (size_t i = 0; i < place.count; i++) {
                if (strcmp(place.notes[i].lineage, lineage) == 0)
                        *ret = place.notes[i];
        }
        return 0;
}

static size_t count_records(struct state *state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record *records;
        struct error err;
        size_t count;

        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        return count;
}

static int take_lineages(struct provider *provider, const char *const *lineages, size_t count,
                         struct error *err) {
        (void)provider;
        if (place.fails)
                return error_set(err, "the notes cannot be written");
        place.records_then = count_records(place.state);
        for (size_t i = 0; i < count; i++) {
                strcat(place.taken, lineages[i]);
                strcat(place.taken, " ");
        }
        return 0;
}

static void no_orphans(const struct provider *provider, const struct orphan **ret, size_t *ret_count) {
        (void)provider;
        *ret = NULL;
        *ret_count = 0;
}

static const struct lineage_ops lineages = {
        .set = set_lineage, .renew = renew, .read = read_note, .take = take_lineages, .orphans = no_orphans
};

static const struct provider_ops with_lineages = {
        .name = "world", .identify = world_identify, .ops = world_ops, .lineage = &lineages
};

/* Loads the manifests, by a plan that is thrown away, and looks what would be taken. */
static int look(struct bench *bench, const char *yaml, const char *name, struct state_adoption *ret,
                struct error *err) {
        bench_must_plan(bench, yaml);
        bench->args.provider_ops = &with_lineages;
        place.state = bench->state;
        return state_adopt_look(&bench->args, &name, name ? 1 : 0, bench->arena, ret, err);
}

static void must_look(struct bench *bench, const char *yaml, const char *name, struct state_adoption *ret) {
        struct error err;

        if (look(bench, yaml, name, ret, &err) < 0)
                fail_msg("%s", err.message);
}

static void must_take(struct bench *bench, const struct state_adoption *adoption) {
        struct error err;

        if (state_adopt_take(&bench->args, adoption, bench->arena, &err) < 0)
                fail_msg("%s", err.message);
}

/* The addresses that would be taken. */
static const char *line(const struct bench *bench, const struct state_adoption *adoption) {
        const char *text = "";

        for (size_t i = 0; i < adoption->count; i++)
                text = arena_printf(bench->arena, "%s%s%s", text, *text ? " " : "",
                                    adoption->items[i].subject->address);
        return text;
}

static int set_up(void **state) {
        memset(&place, 0, sizeof(place));
        return bench_set_up(state);
}

/* The things stay in the world, and a state that knows nothing of them takes the old one's place. */
static void lose_state(struct bench *bench) {
        struct error err;

        state_close(bench->state);
        folder_remove(bench->folder);
        folder_make_temporary(bench->folder);
        if (state_open(bench->folder, STATE_CREATE, &bench->state, &err) < 0)
                fail_msg("%s", err.message);
}

static struct thing *find(const char *address) {
        struct thing *thing = world_find(address);

        assert_non_null(thing);
        return thing;
}

static void what_is_there_is_recorded(void **state) {
        static const char yaml[] = STACK ENVIRONMENT("a", "") ENVIRONMENT("b", "") AGENT("x", "a");
        struct bench *bench = *state;
        struct state_adoption adoption;

        bench_apply(bench, yaml);
        lose_state(bench);
        must_look(bench, yaml, NULL, &adoption);
        assert_string_equal(line(bench, &adoption), "Stack/s Environment/a Environment/b Agent/x");
        assert_int_equal(count_records(bench->state), 0);
        must_take(bench, &adoption);
        assert_int_equal(place.records_then, 0); /* the notes come first */
        assert_int_equal(count_records(bench->state), 4);
        bench_must_plan(bench, yaml);
        assert_string_equal(bench_line(bench), "");
        /* Its dependents are known again: an environment in use is not deleted. */
        bench_must_plan(bench, STACK ENVIRONMENT("b", "") AGENT("x", "a"));
        assert_non_null(strstr(bench_line(bench), "delete Environment/a !has-dependents"));
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.count, 0);
}

/* Members that can be seen are as they are there; what only a state knows is as the manifest has it. */
static void a_record_is_what_is_seen(void **state) {
        static const char yaml[] = STACK ENVIRONMENT("a", ", protect: true, memoryMB: 4000, description: d");
        struct bench *bench = *state;
        struct state_adoption adoption;
        json_t *spec;

        bench_apply(bench, yaml);
        lose_state(bench);
        spec = json_deep_copy(find("Environment/a")->spec);
        json_object_set_new(spec, "memoryMB", json_integer(3000));
        json_object_set_new(spec, "theirs", json_string("x"));
        json_object_del(spec, "protect");
        json_object_del(spec, "description");
        world_put("Environment/a", spec);
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.count, 2);
        assert_int_equal(value_get_integer(adoption.items[1].spec, "memoryMB", 0), 3000);
        assert_true(value_get_boolean(adoption.items[1].spec, "protect", false));
        assert_null(value_get(adoption.items[1].spec, "theirs"));
        assert_null(value_get(adoption.items[1].spec, "description"));
        must_take(bench, &adoption);
        bench_must_plan(bench, yaml);
        assert_string_equal(bench_line(bench), "update Environment/a(description,memoryMB)");
        /* The guard holds again, without its manifest. */
        bench_must_plan(bench, STACK);
        assert_string_equal(bench_line(bench), "delete Environment/a !protected");
}

static void what_is_not_ours_is_left(void **state) {
        static const char yaml[] = STACK ENVIRONMENT("a", "") ENVIRONMENT("b", "") ENVIRONMENT("c", "");
        struct bench *bench = *state;
        struct state_adoption adoption;

        bench_apply(bench, yaml);
        lose_state(bench);
        find("Environment/a")->ownership = OWNER_NONE;
        find("Environment/b")->ownership = OWNER_OTHER; /* another stack's: no lineage makes it ours */
        find("Environment/c")->unmarked = true;
        must_look(bench, yaml, NULL, &adoption);
        assert_string_equal(line(bench, &adoption), "Stack/s");
        assert_int_equal(adoption.refusal_count, 0);
}

static void what_no_manifest_declares_is_taken_by_name(void **state) {
        struct bench *bench = *state;
        struct state_adoption adoption;
        struct error err;

        bench_apply(bench, STACK ENVIRONMENT("a", "") ENVIRONMENT("b", ""));
        lose_state(bench);
        must_look(bench, STACK ENVIRONMENT("a", ""), NULL, &adoption);
        assert_string_equal(line(bench, &adoption), "Stack/s Environment/a");
        must_look(bench, STACK ENVIRONMENT("a", ""), "Environment/b", &adoption);
        assert_string_equal(line(bench, &adoption), "Stack/s Environment/a Environment/b");
        must_take(bench, &adoption);
        bench_must_plan(bench, STACK ENVIRONMENT("a", ""));
        assert_string_equal(bench_line(bench), "delete Environment/b");

        assert_int_equal(look(bench, STACK ENVIRONMENT("a", ""), "Environment/none", &adoption, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        /* In a record already. */
        assert_int_equal(look(bench, STACK ENVIRONMENT("a", ""), "Environment/a", &adoption, &err), -1);
}

static void another_lineage_is_taken_where_it_does_not_live(void **state) {
        static const char yaml[] = STACK ENVIRONMENT("a", "");
        const char *elsewhere[] = { "another/0123456789abcdef", NULL };
        struct bench *bench = *state;
        struct state_adoption adoption;
        const char *own, *taken;
        struct error err;

        bench_apply(bench, yaml);
        own = arena_strdup(bench->arena, state_lineage(bench->state));
        lose_state(bench);
        find("Environment/a")->ownership = OWNER_OTHER;
        find("Environment/a")->lineage = OTHER;
        place.count = 1;

        /* On this machine, and there: whatever is allowed, nothing is taken. */
        place.notes[0] = (struct lineage_note){ .lineage = OTHER,
                                                .stack = "s",
                                                .folder = bench->folder,
                                                .machine = lineage_machine(bench->arena) };
        place.notes[0].lineage = state_lineage(bench->state);
        find("Environment/a")->lineage = place.notes[0].lineage;
        bench->args.allowances = (const struct allowance[]){ { LINEAGE_LIVES, NULL } };
        bench->args.allowance_count = 1;
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.refusal_count, 1);
        assert_string_equal(adoption.refusals[0].id, LINEAGE_LIVES);

        /* On this machine, and gone. */
        place.notes[0].lineage = find("Environment/a")->lineage = own;
        bench->args.allowance_count = 0;
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.refusal_count, 0);
        assert_int_equal(adoption.lineage_count, 1);

        /* On a machine that cannot be checked: only where the user says so. */
        place.notes[0].machine = elsewhere[0];
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.refusal_count, 1);
        bench->args.allowance_count = 1;
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.refusal_count, 0);
        bench->args.allowance_count = 0;

        /* Given up already, and without a note. */
        place.notes[0].taken_by = OTHER;
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.refusal_count, 0);
        place.count = 0;
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.refusal_count, 0);
        assert_string_equal(line(bench, &adoption), "Stack/s Environment/a");

        /* The notes cannot be written: then the state is as it was. */
        place.fails = true;
        assert_int_equal(state_adopt_take(&bench->args, &adoption, bench->arena, &err), -1);
        assert_int_equal(count_records(bench->state), 0);
        place.fails = false;
        must_take(bench, &adoption);
        assert_string_equal(place.taken, arena_printf(bench->arena, "%s ", own));
        assert_int_equal(state_load_meta(bench->state, "taken", bench->arena, &taken, &err), 0);
        assert_string_equal(taken, own);
}

/* The stack that took this lineage over gives it back, though nothing carries its lineage yet. */
static void a_lineage_that_was_taken_is_taken_back(void **state) {
        static const char yaml[] = STACK ENVIRONMENT("a", "");
        struct bench *bench = *state;
        struct state_adoption adoption;

        bench_apply(bench, yaml);
        place.notes[0] = (struct lineage_note){ .lineage = state_lineage(bench->state),
                                                .stack = "s",
                                                .taken_by = OTHER };
        place.notes[1] = (struct lineage_note){
                .lineage = OTHER, .stack = "s", .machine = "another/1", .folder = "/s"
        };
        place.count = 2;
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.lineage_count, 1);
        assert_string_equal(adoption.lineages[0], OTHER);
        assert_int_equal(adoption.refusal_count, 1);
        place.count = 1;
        must_look(bench, yaml, NULL, &adoption);
        assert_int_equal(adoption.refusal_count, 0);
}

static void in_the_wrong_account_nothing_is_taken(void **state) {
        static const char yaml[] = STACK ENVIRONMENT("a", "");
        struct bench *bench = *state;
        struct state_adoption adoption;

        bench_apply(bench, yaml);
        world.account = "222222222222";
        must_look(bench, yaml, "Environment/none", &adoption);
        assert_int_equal(adoption.count, 0);
        assert_int_equal(adoption.refusal_count, 1);
        assert_string_equal(adoption.refusals[0].id, "wrong-account");
}

static void beside_the_state_there_is_nothing_to_adopt(void **state) {
        struct bench *bench = *state;
        struct state_adoption adoption;
        struct error err;

        bench_must_plan(bench, STACK);
        assert_int_equal(state_adopt_look(&bench->args, NULL, 0, bench->arena, &adoption, &err), -1);
        assert_non_null(strstr(err.message, "nothing to adopt"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_is_there_is_recorded, set_up, bench_tear_down),
                cmocka_unit_test_setup_teardown(a_record_is_what_is_seen, set_up, bench_tear_down),
                cmocka_unit_test_setup_teardown(what_is_not_ours_is_left, set_up, bench_tear_down),
                cmocka_unit_test_setup_teardown(what_no_manifest_declares_is_taken_by_name, set_up,
                                                bench_tear_down),
                cmocka_unit_test_setup_teardown(another_lineage_is_taken_where_it_does_not_live, set_up,
                                                bench_tear_down),
                cmocka_unit_test_setup_teardown(a_lineage_that_was_taken_is_taken_back, set_up,
                                                bench_tear_down),
                cmocka_unit_test_setup_teardown(in_the_wrong_account_nothing_is_taken, set_up,
                                                bench_tear_down),
                cmocka_unit_test_setup_teardown(beside_the_state_there_is_nothing_to_adopt, set_up,
                                                bench_tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
