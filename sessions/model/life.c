/* SPDX-License-Identifier: Apache-2.0 */
/* The function over the table (life_rows.c): find the row, change the members that it names, collect the effects. */
#include "sessions/model/life.h"

#include "sessions/model/life_rows.h"

/* An empty set fits all. */
static bool has(unsigned set, unsigned value) {
        return set == 0 || (set & LIFE_BIT(value));
}

static bool is_number(unsigned wanted, unsigned number) {
        return wanted == LIFE_ANY || (wanted == LIFE_SOME) == (number > 0);
}

static bool fits(const struct life_row *row, const struct life_state *state, unsigned event) {
        return row->on == event && has(row->in, state->life) && has(row->when.execution, state->execution) &&
               has(row->when.writing, state->writing) && has(row->when.sandbox, state->sandbox) &&
               has(row->when.slot, state->slot) && has(row->when.files, state->files) &&
               has(row->when.parking, state->parking) && is_number(row->when.waiting, state->waiting) &&
               is_number(row->when.ends, state->ends) && is_number(row->when.restarts, state->restarts) &&
               (!row->when.quiet || (!state->command && state->processes == 0));
}

const struct life_row *life_find_row(const struct life_row *rows, size_t count,
                                     const struct life_state *state, unsigned event) {
        for (size_t i = 0; i < count; i++) {
                if (fits(&rows[i], state, event))
                        return &rows[i];
        }
        return NULL;
}

static void change_member(uint8_t *member, uint8_t to) {
        if (to > 0)
                *member = (uint8_t)(to - 1);
}

static void add(uint16_t *number, int more) {
        *number = (uint16_t)(*number + more);
}

static void change(struct life_state *state, const struct life_row *row) {
        if (row->make.life == LIFE_TO(LIFE_AWAY) || row->make.life == LIFE_TO(LIFE_GONE)) {
                *state = (struct life_state){ .life = (uint8_t)(row->make.life - 1) };
                return;
        }
        change_member(&state->life, row->make.life);
        change_member(&state->execution, row->make.execution);
        change_member(&state->writing, row->make.writing);
        change_member(&state->sandbox, row->make.sandbox);
        change_member(&state->slot, row->make.slot);
        change_member(&state->files, row->make.files);
        change_member(&state->parking, row->make.parking);
        if (row->make.command > 0)
                state->command = row->make.command == LIFE_TO(true);
        if (row->make.no_restarts)
                state->restarts = 0;
        if (row->make.all_end) {
                add(&state->ends, state->waiting);
                state->waiting = 0;
        }
        add(&state->waiting, row->make.waiting);
        add(&state->ends, row->make.ends);
        add(&state->processes, row->make.processes);
        add(&state->restarts, row->make.restarts);
}

static const struct life_row *take(const struct life_row *rows, size_t count, const struct life_state *state,
                                   unsigned event, struct life_state *ret_state, unsigned *ret_effects) {
        const struct life_row *row = life_find_row(rows, count, state, event);

        *ret_state = *state;
        *ret_effects = row ? row->effects : 0;
        if (row)
                change(ret_state, row);
        return row;
}

bool life_next_by(const struct life_row *rows, size_t count, const struct life_state *state,
                  enum life_event event, struct life_state *ret_state, unsigned *ret_effects) {
        const struct life_row *row = take(rows, count, state, event, ret_state, ret_effects);
        struct life_state taken = *ret_state;
        unsigned more;

        if (!row || !row->then_go_on)
                return row != NULL;
        if (!take(rows, count, &taken, LIFE_GO_ON, ret_state, &more))
                return false;
        *ret_effects |= more;
        return true;
}

bool life_take(const struct life_state *state, enum life_event event, struct life_state *ret_state,
               unsigned *ret_effects) {
        return take(life_rows, life_row_count, state, event, ret_state, ret_effects) != NULL;
}

bool life_go_on(const struct life_state *state, struct life_state *ret_state, unsigned *ret_effects) {
        return take(life_rows, life_row_count, state, LIFE_GO_ON, ret_state, ret_effects) != NULL;
}

bool life_next(const struct life_state *state, enum life_event event, struct life_state *ret_state,
               unsigned *ret_effects) {
        return life_next_by(life_rows, life_row_count, state, event, ret_state, ret_effects);
}

struct life_state life_recorded(const struct life_state *state) {
        struct life_state record = { .execution = state->execution, .waiting = state->waiting };

        if (state->life == LIFE_ENDING)
                record.life = LIFE_ENDING;
        else if (state->life == LIFE_GONE || state->life == LIFE_AWAY)
                return (struct life_state){ .life = state->life };
        else if (state->execution == LIFE_RUNNING)
                record.life = LIFE_OPEN;
        else
                record.life = state->waiting > 0 ? LIFE_QUEUED : LIFE_PARKED;
        return record;
}

const char *life_name(enum life life) {
        static const char *const names[] = {
                "AWAY",   "QUEUED",       "OPENING", "OPEN",   "FREEZING", "FROZEN",
                "WAKING", "SNAPSHOTTING", "PARKING", "PARKED", "ENDING",   "GONE",
        };

        return names[life];
}

const char *life_event_name(enum life_event event) {
        static const char *const names[] = {
                "made",
                "taken over",
                "asked: an execution",
                "asked: interrupt",
                "asked: withdraw one that waits",
                "asked: files",
                "asked: restart a kernel",
                "asked: park",
                "asked: freeze",
                "asked: snapshot",
                "asked: end",
                "opened",
                "opened, running",
                "open failed",
                "not taken",
                "started",
                "done",
                "command started",
                "command done",
                "process started",
                "process done",
                "brought",
                "froze",
                "woke",
                "snapshot taken",
                "checkpointed",
                "stayed",
                "leaving",
                "dying",
                "ended",
                "stored",
                "store failed",
                "slot acquired",
                "slot lost",
                "lease lost",
                "tick",
        };

        return names[event];
}

const char *life_effect_name(enum life_effect effect) {
        static const char *const names[] = {
                "release slot", "store", "acquire slot", "open", "join",   "execute",
                "interrupt",    "park",  "bring",        "end",  "notify", "restart kernels",
        };
        unsigned i = 0;

        while (!((unsigned)effect & (1U << i)))
                i++;
        return names[i];
}
