/* SPDX-License-Identifier: Apache-2.0 */
/* docs/session-states.md is what the table says, and the table is one that can be read: each row can be reached, and has its place. */
#include "page.h"
#include "sessions/model/life_rows.h"

struct member {
        const char *name;
        size_t set; /* of struct life_row.when */
        size_t to;  /* of struct life_row.make */
        const char *const *values;
        size_t count;
};

static const char *const executions[] = { "IDLE", "RUNNING" };
static const char *const writings[] = { "nothing", "begin", "end", "checkpoint", "ending", "removal" };
static const char *const sandboxes[] = { "none", "sought", "asked", "lives", "ending" };
static const char *const slots[] = { "none", "asked", "held", "gone" };
static const char *const files[] = { "none", "wanted", "coming", "wanted again" };
static const char *const parkings[] = { "stays", "parks when idle", "parks first" };

#define MEMBER(member, values)                                                                           \
        {                                                                                                \
#member, offsetof(struct life_row, when.member), offsetof(struct life_row, make.member), \
                        values, sizeof(values) / sizeof((values)[0])                                     \
        }

static const struct member members[] = {
        MEMBER(execution, executions), MEMBER(writing, writings), MEMBER(sandbox, sandboxes),
        MEMBER(slot, slots),           MEMBER(files, files),      MEMBER(parking, parkings),
};
#define MEMBER_COUNT (sizeof(members) / sizeof(members[0]))

/* Between items of one cell. */
struct cell {
        FILE *stream;
        bool any;
};

static FILE *item(struct cell *cell) {
        if (cell->any)
                fprintf(cell->stream, ", ");
        cell->any = true;
        return cell->stream;
}

static unsigned byte_at(const struct life_row *row, size_t offset) {
        return ((const uint8_t *)row)[offset];
}

static void print_lives(FILE *stream, unsigned set) {
        static const unsigned living = LIFE_BIT(LIFE_QUEUED) | LIFE_BIT(LIFE_OPENING) | LIFE_BIT(LIFE_OPEN) |
                                       LIFE_BIT(LIFE_FREEZING) | LIFE_BIT(LIFE_FROZEN) |
                                       LIFE_BIT(LIFE_WAKING) | LIFE_BIT(LIFE_SNAPSHOTTING) |
                                       LIFE_BIT(LIFE_PARKING) | LIFE_BIT(LIFE_PARKED);
        struct cell cell = { .stream = stream };

        if (set == 0)
                fprintf(stream, "any other");
        if ((set & living) == living) {
                fprintf(item(&cell), "QUEUED to PARKED");
                set &= ~living;
        }
        for (unsigned life = 0; life < LIFE_COUNT; life++) {
                if (set & LIFE_BIT(life))
                        fprintf(item(&cell), "%s", life_name((enum life)life));
        }
}

static void print_set(FILE *stream, const struct member *member, unsigned set) {
        bool any = false;

        fprintf(stream, "%s ", member->name);
        for (size_t i = 0; i < member->count; i++) {
                if (set & LIFE_BIT(i)) {
                        fprintf(stream, "%s%s", any ? " or " : "", member->values[i]);
                        any = true;
                }
        }
}

static void print_when(FILE *stream, const struct life_row *row) {
        static const char *const numbers[] = { "", "no", "some" };
        struct cell cell = { .stream = stream };

        for (size_t i = 0; i < MEMBER_COUNT; i++) {
                unsigned set = byte_at(row, members[i].set);

                if (set == 0)
                        continue;
                (void)item(&cell);
                print_set(stream, &members[i], set);
        }
        if (row->when.waiting)
                fprintf(item(&cell), "%s waiting", numbers[row->when.waiting]);
        if (row->when.ends)
                fprintf(item(&cell), "%s ends", numbers[row->when.ends]);
        if (row->when.restarts)
                fprintf(item(&cell), "%s restarts", numbers[row->when.restarts]);
        if (row->when.quiet)
                fprintf(item(&cell), "no command, no process");
}

static void print_number(struct cell *cell, const char *name, int more) {
        if (more != 0)
                fprintf(item(cell), "%s %+d", name, more);
}

static void print_then(FILE *stream, const struct life_row *row) {
        struct cell cell = { .stream = stream };

        if (row->make.life)
                fprintf(item(&cell), "**%s**", life_name((enum life)(row->make.life - 1)));
        for (size_t i = 0; i < MEMBER_COUNT; i++) {
                unsigned to = byte_at(row, members[i].to);

                if (to > 0)
                        fprintf(item(&cell), "%s %s", members[i].name, members[i].values[to - 1]);
        }
        if (row->make.command)
                fprintf(item(&cell), "command %s", row->make.command == LIFE_TO(true) ? "running" : "none");
        if (row->make.no_restarts)
                fprintf(item(&cell), "no restarts");
        if (row->make.all_end)
                fprintf(item(&cell), "all that wait have ended");
        print_number(&cell, "waiting", row->make.waiting);
        print_number(&cell, "ends", row->make.ends);
        print_number(&cell, "processes", row->make.processes);
        print_number(&cell, "restarts", row->make.restarts);
        if (row->then_go_on)
                fprintf(item(&cell), "[what comes next](#what-comes-next)");
}

static void print_effects(FILE *stream, unsigned effects) {
        struct cell cell = { .stream = stream };

        for (unsigned i = 0; (1U << i) <= effects; i++) {
                if (effects & (1U << i))
                        fprintf(item(&cell), "%s", life_effect_name((enum life_effect)(1U << i)));
        }
}

static void print_event(FILE *stream, unsigned event) {
        if (event == LIFE_GO_ON)
                fprintf(stream,
                        "## What comes next\n\nWhere nothing is under way. An event's row says when it is asked.\n");
        else
                fprintf(stream, "### %s\n", life_event_name((enum life_event)event));
        fprintf(stream, "\n| in | when | then | effects | why |\n|---|---|---|---|---|\n");
        for (size_t i = 0; i < life_row_count; i++) {
                const struct life_row *row = &life_rows[i];

                if (row->on != event)
                        continue;
                fprintf(stream, "| ");
                print_lives(stream, row->in);
                fprintf(stream, " | ");
                print_when(stream, row);
                fprintf(stream, " | ");
                print_then(stream, row);
                fprintf(stream, " | ");
                print_effects(stream, row->effects);
                fprintf(stream, " | %s%s%s |\n", row->later ? "*later*" : "",
                        row->later && row->why ? ": " : "", row->why ? row->why : "");
        }
        fprintf(stream, "\n");
}

/* What the next server does after a death in that state. */
static void print_next_server(FILE *stream, const struct life_state *state) {
        struct life_state record = life_recorded(state), next;
        unsigned effects;

        assert_true(life_next(&record, LIFE_TAKEN_OVER, &next, &effects));
        fprintf(stream, " | %s → %s: ", life_name((enum life)record.life), life_name((enum life)next.life));
        print_effects(stream, effects);
}

static bool can_run(unsigned life) {
        return life != LIFE_QUEUED && life != LIFE_PARKING && life != LIFE_FREEZING && life != LIFE_FROZEN &&
               life != LIFE_WAKING && life != LIFE_SNAPSHOTTING;
}

static void print_deaths(FILE *stream) {
        fprintf(stream,
                "## After a death\n\n"
                "What the record says in each state, and what the next server begins with: the state that it "
                "is in then, and the effects of *taken over*. An execution whose end is known and not recorded "
                "counts as one that runs. A session of which the record says PARKED, in a store that servers "
                "share, is taken over when something is asked of it, and not before.\n\n"
                "| died in | nothing runs or waits | executions wait | an execution runs |\n|---|---|---|---|\n");
        for (unsigned life = LIFE_QUEUED; life < LIFE_GONE; life++) {
                struct life_state state = { .life = (uint8_t)life };

                fprintf(stream, "| %s", life_name((enum life)life));
                print_next_server(stream, &state);
                state.waiting = 1;
                print_next_server(stream, &state);
                state.execution = LIFE_RUNNING;
                if (can_run(life))
                        print_next_server(stream, &state);
                else
                        fprintf(stream, " | ");
                fprintf(stream, " |\n");
        }
        fprintf(stream, "\n");
}

static void print_page(FILE *stream) {
        fprintf(stream,
                "# States of a session\n\n"
                "Written by `tests/unit/sessions/model/life_table_test.c` out of the table in "
                "[sessions/model/](../sessions/model/README.md), which says what the words mean. Of the rows of one "
                "event the first that fits decides. Nothing leads to rows that are marked *later* yet. The table "
                "stands beside the engine, which does not use it yet.\n\n");
        print_deaths(stream);
        print_event(stream, LIFE_GO_ON);
        fprintf(stream, "## Events\n\n");
        for (unsigned event = 0; event < LIFE_EVENT_COUNT; event++)
                print_event(stream, event);
}

static void page_is_current(void **unused) {
        (void)unused;
        page_check(TEST_DATA "/..", "session-states.md", print_page);
}

/* Rows of one event stand together, and nothing stands behind a row of the event that fits all. */
static void rows_are_in_order(void **unused) {
        bool seen[LIFE_EVENT_COUNT + 1] = { false }, closed = false;

        (void)unused;
        for (size_t i = 0; i < life_row_count; i++) {
                const struct life_row *row = &life_rows[i], all = { .on = row->on };
                bool is_new = i == 0 || life_rows[i - 1].on != row->on;

                assert_true(row->on <= LIFE_EVENT_COUNT);
                assert_true(!is_new || !seen[row->on]);
                assert_true(is_new || !closed);
                seen[row->on] = true;
                closed = row->in == 0 && memcmp(&row->when, &all.when, sizeof(row->when)) == 0;
        }
        for (size_t event = 0; event <= LIFE_EVENT_COUNT; event++)
                assert_true(seen[event]);
}

/* The record's value is a state of its own, and says of itself what it says. */
static void record_of_a_record_is_the_same(void **unused) {
        (void)unused;
        for (unsigned life = 0; life < LIFE_COUNT; life++) {
                for (uint8_t i = 0; i < 4; i++) {
                        const struct life_state state = { .life = (uint8_t)life,
                                                          .execution = i & 1,
                                                          .waiting = i >> 1,
                                                          .sandbox = LIFE_SANDBOX_LIVES };
                        struct life_state once = life_recorded(&state), twice = life_recorded(&once);

                        assert_memory_equal(&once, &twice, sizeof(once));
                }
        }
}

/* An event without a row changes nothing. */
static void what_has_no_row_changes_nothing(void **unused) {
        const struct life_state state = { .life = LIFE_GONE };
        struct life_state next;
        unsigned effects = 1;

        (void)unused;
        assert_false(life_next(&state, LIFE_OPENED, &next, &effects));
        assert_memory_equal(&state, &next, sizeof(state));
        assert_int_equal(effects, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(page_is_current),
                cmocka_unit_test(rows_are_in_order),
                cmocka_unit_test(record_of_a_record_is_the_same),
                cmocka_unit_test(what_has_no_row_changes_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
