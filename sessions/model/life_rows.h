/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind life.h. The first row that fits decides. A row with `then_go_on` is followed by the
 * first fitting row of LIFE_GO_ON, which says what a session does next that has nothing under way.
 */
#ifndef BERTH_SESSIONS_MODEL_LIFE_ROWS_H
#define BERTH_SESSIONS_MODEL_LIFE_ROWS_H

#include "sessions/model/life.h"

#include <stddef.h>

/* No event of a caller: what a row with `then_go_on` asks. */
#define LIFE_GO_ON LIFE_EVENT_COUNT

/* A set of values of one member, for `when`; 0 fits all. */
#define LIFE_BIT(value) (1U << (value))

enum life_number { LIFE_ANY, LIFE_NONE, LIFE_SOME };

struct life_row {
        uint8_t on;  /* enum life_event, or LIFE_GO_ON */
        bool later;  /* no effect leads to it yet */
        uint16_t in; /* set of enum life */
        struct {     /* sets, and enum life_number */
                uint8_t execution, writing, sandbox, slot, files, parking;
                uint8_t waiting, ends, restarts;
                bool quiet; /* no command and no process runs */
        } when;
        /* Members that change, as their new value with LIFE_TO(); 0: unchanged. */
        struct {
                uint8_t life, execution, writing, sandbox, slot, files, parking, command;
                int8_t waiting, ends, processes, restarts; /* added */
                bool all_end;                              /* all that wait have ended */
                bool no_restarts;                          /* no kernel has to be replaced any more */
        } make;
        bool then_go_on;
        uint16_t effects; /* set of enum life_effect */
        const char *why;  /* for readers of the table */
};

#define LIFE_TO(value) ((value) + 1U)

extern const struct life_row life_rows[];
extern const size_t life_row_count;

/* life_next() by another table. */
bool life_next_by(const struct life_row *rows, size_t count, const struct life_state *state,
                  enum life_event event, struct life_state *ret_state, unsigned *ret_effects);
/* The row that fits, or NULL. `event` may be LIFE_GO_ON. */
const struct life_row *life_find_row(const struct life_row *rows, size_t count,
                                     const struct life_state *state, unsigned event);

#endif
