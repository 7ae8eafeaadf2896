/* SPDX-License-Identifier: Apache-2.0 */
/* What the state may be told by hand, and what not. */
#include "folder.h"

#include "controller/state_edit.h"

static char folder[sizeof(FOLDER_TEMPLATE)];
static struct arena *arena;
static struct state *state;

static void put(const char *address, const char *id) {
        const struct record record = {
                .address = address, .provider = "aws", .id = id, .spec = value_new_map(arena)
        };
        const struct sighting sighting = { .address = address, .exists = true, .id = id };
        const struct state_op ops[] = { { .type = STATE_PUT_RECORD, .record = &record },
                                        { .type = STATE_PUT_SIGHTING, .sighting = &sighting } };
        struct error err;

        assert_int_equal(state_commit(state, ops, 2, &err), 0);
}

static int setup(void **context) {
        const struct binding binding = { .environment = "used", .dependent = "Agent/a", .active = true };
        const struct state_op bind = { .type = STATE_PUT_BINDING, .binding = &binding };
        struct error err;

        (void)context;
        folder_make_temporary(folder);
        arena = arena_new();
        if (state_open(folder, STATE_CREATE, &state, &err) < 0)
                return -1;
        put("Agent/a", "registry/team/agents/a.json");
        put("Environment/used", "arn:aws:lambda:r:1:function:p-env-used");
        put("Environment/free", "arn:aws:lambda:r:1:function:p-env-free");
        put("Image/one", "team/one");
        put("Image/two", "team/two");
        return state_commit(state, &bind, 1, &err);
}

static int teardown(void **context) {
        (void)context;
        state_close(state);
        arena_free(arena);
        folder_remove(folder);
        return 0;
}

static const char *addresses(void) {
        struct record *records;
        struct error err;
        const char *text = "";
        size_t count;

        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        for (size_t i = 0; i < count; i++)
                text = arena_printf(arena, "%s%s%s", text, *text ? " " : "", records[i].address);
        return text;
}

#define EVERYTHING "Agent/a Environment/free Environment/used Image/one Image/two"

static void what_is_refused(void **context) {
        static const struct {
                const char *from, *to; /* to NULL: forgotten */
                enum error_kind kind;
                const char *words;
        } cases[] = {
                { "Agent/b", NULL, ERROR_NOT_FOUND, "did you mean Agent/a?" },
                { "Swarm/zebra", NULL, ERROR_NOT_FOUND, "state list" },
                { "Agent", NULL, ERROR_FAILED, "Agent" },
                { "Environment/used", NULL, ERROR_REFUSED, "Agent/a" },
                { "Environment/free", "Environment/other", ERROR_FAILED, "p-env-free" },
                { "Agent/a", "Agent/b", ERROR_FAILED, "follows from its name" },
                { "Image/one", "Image/two", ERROR_FAILED, "already" },
                { "Image/one", "Image/one", ERROR_FAILED, "already" },
                { "Image/one", "Agent/one", ERROR_FAILED, "kind" },
                { "Image/three", "Image/four", ERROR_NOT_FOUND, "Image/three" },
        };

        (void)context;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct error err = { 0 };
                struct state_edit edit;
                int result = cases[i].to
                                     ? state_edit_move(state, cases[i].from, cases[i].to, arena, &edit, &err)
                                     : state_edit_forget(state, cases[i].from, arena, &edit, &err);

                if (result != -1 || err.kind != cases[i].kind || !strstr(err.message, cases[i].words))
                        fail_msg("%s: %d, %s", cases[i].from, result, err.message);
        }
        assert_string_equal(addresses(), EVERYTHING);
}

static void what_was_left_half_way_does_not_move(void **context) {
        const struct journal_entry entry = { .run = 1, .address = "Image/one", .action = "update" };
        const struct state_op begin = { .type = STATE_JOURNAL_BEGIN, .journal = &entry };
        struct error err = { 0 };
        struct state_edit edit;

        (void)context;
        assert_int_equal(state_commit(state, &begin, 1, &err), 0);
        assert_int_equal(state_edit_move(state, "Image/one", "Image/three", arena, &edit, &err), -1);
        assert_non_null(strstr(err.message, "did not finish"));
        /* Forgetting ends it. */
        assert_int_equal(state_edit_forget(state, "Image/one", arena, &edit, &err), 0);
        assert_int_equal(state_edit_commit(state, &edit, "state rm", "Image/one", 0, arena, &err), 0);
        assert_string_equal(addresses(), "Agent/a Environment/free Environment/used Image/two");
}

static void commit(struct state_edit *edit, const char *command, const char *address) {
        struct history_entry *history;
        struct error err = { 0 };
        uint64_t before, after;
        size_t count;

        assert_int_equal(state_serial(state, &before, &err), 0);
        assert_int_equal(state_edit_commit(state, edit, command, address, 1700000000000, arena, &err), 0);
        assert_int_equal(state_serial(state, &after, &err), 0);
        assert_int_equal(after, before + 1);
        assert_int_equal(state_load_history(state, 1, arena, &history, &count, &err), 0);
        assert_int_equal(count, 1);
        assert_string_equal(history->command, command);
        assert_string_equal(history->outcome, "done");
}

static void a_dependent_takes_its_binding_along(void **context) {
        struct binding *bindings;
        struct error err = { 0 };
        struct state_edit edit;
        size_t count;

        (void)context;
        assert_int_equal(state_edit_forget(state, "Agent/a", arena, &edit, &err), 0);
        commit(&edit, "state rm", "Agent/a");
        assert_int_equal(state_load_bindings(state, arena, &bindings, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(state_edit_forget(state, "Environment/used", arena, &edit, &err), 0);
        commit(&edit, "state rm", "Environment/used");
        assert_string_equal(addresses(), "Environment/free Image/one Image/two");
}

static void an_image_moves_with_what_was_recorded(void **context) {
        struct sighting *sightings;
        struct error err = { 0 };
        struct state_edit edit;
        size_t count;

        (void)context;
        assert_int_equal(state_edit_move(state, "Image/one", "Image/three", arena, &edit, &err), 0);
        assert_string_equal(edit.id, "team/one");
        commit(&edit, "state mv", "Image/one");
        assert_string_equal(addresses(), "Agent/a Environment/free Environment/used Image/three Image/two");
        assert_int_equal(state_load_sightings(state, arena, &sightings, &count, &err), 0);
        assert_int_equal(count, 4); /* the moved one is checked again */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_is_refused, setup, teardown),
                cmocka_unit_test_setup_teardown(what_was_left_half_way_does_not_move, setup, teardown),
                cmocka_unit_test_setup_teardown(a_dependent_takes_its_binding_along, setup, teardown),
                cmocka_unit_test_setup_teardown(an_image_moves_with_what_was_recorded, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
