/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a session as a value. A state is what the server that holds a session knows of it;
 * life_next() says what an event makes of a state, and what must be done then. Nothing here reads a
 * clock, waits, locks or does I/O.
 *
 *      state = life_recorded(record) -> life_next(LIFE_TAKEN_OVER): a server begins to hold a session
 *      -> carry out the effects, one after the other, in the order of enum life_effect
 *      -> life_next(what came of them, or what a client asked) -> effects ...
 *      -> LIFE_GONE, or LIFE_AWAY: the server holds the session no longer
 *
 * What the caller must keep to. The walk in tests/unit/sessions/model/ holds for callers that do:
 *
 * - All effects of an event are carried out, or begun where they have an answer that is an event, before
 *   the next event is given, LIFE_LEASE_LOST excepted. A sandbox that is told to end before it is open
 *   ends as soon as it is.
 * - After LIFE_DO_STORE only LIFE_STORED, LIFE_STORE_FAILED, LIFE_SLOT_LOST and LIFE_LEASE_LOST are
 *   given, until one of them that is not LIFE_SLOT_LOST has come.
 * - A write is conditional. Where another server has taken the session over since, it writes nothing
 *   and is answered by LIFE_LEASE_LOST. So is a write of which it is not known whether it was made.
 * - Sandboxes are opened, joined, parked, ended, given executions and asked for files, and slots are
 *   acquired, only while no other server may take this one for dead. Otherwise LIFE_LEASE_LOST is given
 *   instead.
 * - LIFE_SLOT_LOST comes before any other news. From the write on that says that an execution has
 *   begun, no slot is taken away.
 * - The sandbox is told that the end of an execution was heard once that end is recorded. Until then
 *   it tells it again to the next server.
 * - An execution is accepted by a write of its own: its request, its number, and the session's highest
 *   number. LIFE_ASKED follows. Where that makes another write fail, LIFE_ASKED comes before the next
 *   LIFE_TICK.
 *
 * The record is the projection of a state that life_recorded() makes, with the numbers of executions.
 * Its value is again a state: so the table also says what the next server does after a death.
 */
#ifndef BERTH_SESSIONS_MODEL_LIFE_H
#define BERTH_SESSIONS_MODEL_LIFE_H

#include <stdbool.h>
#include <stdint.h>

enum life {
        /* This server does not hold the session: nothing is known but the record. */
        LIFE_AWAY,
        /* Waits for a slot of its agent, in order to get a sandbox. */
        LIFE_QUEUED,
        /* A sandbox was asked for: a new one, or the one that lives. */
        LIFE_OPENING,
        /* Has a sandbox that takes executions. */
        LIFE_OPEN,
        /* Its processes are being stopped; their memory stays. */
        LIFE_FREEZING,
        LIFE_FROZEN,
        /* Its processes are being let go on. */
        LIFE_WAKING,
        /* Its files and memory are being copied. */
        LIFE_SNAPSHOTTING,
        /* Its sandbox takes a checkpoint, which is then recorded. */
        LIFE_PARKING,
        /* Needs no sandbox. One may still be on its way out, or live unknown to this server. */
        LIFE_PARKED,
        /* Ended by its owner or its age: sandbox, ends of executions and record are still to go. */
        LIFE_ENDING,
        /* Has no record. */
        LIFE_GONE,
        LIFE_COUNT
};

/* Whether an execution was recorded as begun and not as ended. */
enum life_execution { LIFE_IDLE, LIFE_RUNNING };

/* What the write that is under way will record. */
enum life_writing {
        LIFE_NO_WRITE,
        /* The first in line is given to the sandbox. */
        LIFE_WRITES_BEGIN,
        /* An execution has ended, with its result. */
        LIFE_WRITES_END,
        /* The session is parked, and with which checkpoint. */
        LIFE_WRITES_CHECKPOINT,
        /* The session is in LIFE_ENDING. */
        LIFE_WRITES_ENDING,
        /* The record goes. */
        LIFE_WRITES_REMOVAL
};

enum life_sandbox {
        LIFE_NO_SANDBOX,
        /*
         * Whether one lives is asked. LIFE_OPENED, LIFE_OPENED_RUNNING, LIFE_OPEN_FAILED or LIFE_ENDED
         * follows.
         */
        LIFE_SANDBOX_SOUGHT,
        /* The same, and one is started where none lives. */
        LIFE_SANDBOX_ASKED,
        LIFE_SANDBOX_LIVES,
        /* It was told to end: LIFE_ENDED follows. */
        LIFE_SANDBOX_ENDING
};

/* Of the slots that the agent's limits allow. Where no limit is set, each is granted at once. */
enum life_slot {
        LIFE_NO_SLOT,
        LIFE_SLOT_ASKED,
        LIFE_SLOT_HELD,
        /* Lost: nothing may begin in the sandbox that is open. */
        LIFE_SLOT_GONE
};

/* Files that executions left behind in the sandbox, and that a client wants to read now. */
enum life_files { LIFE_NO_FILES, LIFE_FILES_WANTED, LIFE_FILES_COMING, LIFE_FILES_WANTED_AGAIN };

enum life_parking {
        LIFE_STAYS,
        /* As soon as its files are out; called off by new work. */
        LIFE_PARKS_IDLE,
        /* Before anything else begins: its sandbox was told to end, or its slot is lost. */
        LIFE_PARKS_FIRST
};

/* Two states are equal where all their members are. All zero: LIFE_AWAY. */
struct life_state {
        uint8_t life;       /* enum life */
        uint8_t execution;  /* enum life_execution */
        uint8_t writing;    /* enum life_writing */
        uint8_t sandbox;    /* enum life_sandbox */
        uint8_t slot;       /* enum life_slot */
        uint8_t files;      /* enum life_files */
        uint8_t parking;    /* enum life_parking */
        bool command;       /* the command that a container is there for runs */
        uint16_t waiting;   /* executions that were accepted and not begun */
        uint16_t ends;      /* executions whose end is known and not recorded */
        uint16_t processes; /* that run beside executions */
        uint16_t restarts;  /* kernels that must be replaced by fresh ones */
};

/* Grouped by what gives them. */
enum life_event {
        /* A client has made the session: its record is there. */
        LIFE_MADE,
        /* This server begins to hold what life_recorded() says. */
        LIFE_TAKEN_OVER,

        /* Clients. An execution, once it is accepted. */
        LIFE_ASKED,
        /* Of the execution that runs. */
        LIFE_ASKED_INTERRUPT,
        /* Of an execution that waits. */
        LIFE_ASKED_WITHDRAWAL,
        LIFE_ASKED_FILES,
        /* A kernel must be replaced by a fresh one, whatever runs in it. */
        LIFE_ASKED_RESTART,
        /* Also given where another session of the agent needs the slot. */
        LIFE_ASKED_PARK,
        LIFE_ASKED_FREEZE,
        LIFE_ASKED_SNAPSHOT,
        /* Also given when the session has expired. */
        LIFE_ASKED_END,

        /* The place. A sandbox lives, and has not had the execution that is recorded as begun. */
        LIFE_OPENED,
        /* A sandbox lives, has had that execution, and has not reported its end. */
        LIFE_OPENED_RUNNING,
        /* There is no sandbox, nor anything left of one. */
        LIFE_OPEN_FAILED,
        /* The sandbox is dying, and has not taken the execution. LIFE_ENDED follows. */
        LIFE_NOT_TAKEN,

        /* The sandbox. Of an execution: */
        LIFE_STARTED,
        LIFE_DONE,
        LIFE_COMMAND_STARTED,
        LIFE_COMMAND_DONE,
        LIFE_PROCESS_STARTED,
        LIFE_PROCESS_DONE,
        /* The files that were wanted are out, or cannot be brought. */
        LIFE_BROUGHT,
        LIFE_FROZE,
        LIFE_WOKE,
        LIFE_SNAPSHOT_TAKEN,
        /* The checkpoint is safe, and the sandbox lives on. */
        LIFE_CHECKPOINTED,
        /* It cannot be parked, and lives on. */
        LIFE_STAYED,
        /* Its worker was told to end, by others than this server. */
        LIFE_LEAVING,
        /* It takes nothing more, whatever the reason. LIFE_ENDED follows, or LIFE_OPEN_FAILED where it never opened. */
        LIFE_DYING,
        /* No process of it is left. */
        LIFE_ENDED,

        /* The store. */
        LIFE_STORED,
        /* Nothing was written. */
        LIFE_STORE_FAILED,

        /* The agent's limits. */
        LIFE_SLOT_ACQUIRED,
        /* Taken, or refused to a session that came with a sandbox. */
        LIFE_SLOT_LOST,

        /* Other servers may take this one for dead, or have taken the session over. */
        LIFE_LEASE_LOST,
        /* The clock: a time that this state waits for has come. Idle long enough, a write due again. */
        LIFE_TICK,
        LIFE_EVENT_COUNT
};

/* In the order in which those of one event are carried out. */
enum life_effect {
        /* Gives the slot back, or leaves the line for it. No answer. */
        LIFE_DO_RELEASE_SLOT = 1 << 0,
        /* The write that the state names: LIFE_STORED, LIFE_STORE_FAILED or LIFE_LEASE_LOST. */
        LIFE_DO_STORE = 1 << 1,
        /* Joins the agent's line: LIFE_SLOT_ACQUIRED. A slot that the session has elsewhere moves. */
        LIFE_DO_ACQUIRE_SLOT = 1 << 2,
        /* Finds the sandbox that lives, or starts one. */
        LIFE_DO_OPEN = 1 << 3,
        /* Finds the sandbox that lives, and hears what it has to say. Starts none. */
        LIFE_DO_JOIN = 1 << 4,
        /* Gives the sandbox the execution that was just recorded as begun. */
        LIFE_DO_EXECUTE = 1 << 5,
        /* LIFE_DONE follows, or nothing. */
        LIFE_DO_INTERRUPT = 1 << 6,
        /* Asks for a checkpoint: LIFE_CHECKPOINTED or LIFE_STAYED. */
        LIFE_DO_PARK = 1 << 7,
        /* LIFE_BROUGHT follows. */
        LIFE_DO_BRING = 1 << 8,
        /* The sandbox's kernels leave what they have to leave, then it is killed: LIFE_ENDED. */
        LIFE_DO_END = 1 << 9,
        /* Tells clients that follow the session. */
        LIFE_DO_NOTIFY = 1 << 10,
        /* Replaces the kernels that must be fresh ones. No answer. */
        LIFE_DO_RESTART = 1 << 11
};

/*
 * The state after `event`. False where the table has no row for it: the state is unchanged, and the
 * caller has not kept to the above.
 */
bool life_next(const struct life_state *state, enum life_event event, struct life_state *ret_state,
               unsigned *ret_effects);

/*
 * The two halves of life_next(), for a caller that may not begin anything yet: what the event alone makes of the state; and what
 * comes next where nothing is under way, as often as it has effects. As life_next() otherwise.
 */
bool life_take(const struct life_state *state, enum life_event event, struct life_state *ret_state,
               unsigned *ret_effects);
bool life_go_on(const struct life_state *state, struct life_state *ret_state, unsigned *ret_effects);

/*
 * What the record says in that state: LIFE_PARKED, LIFE_QUEUED, LIFE_OPEN with what runs, LIFE_ENDING,
 * or LIFE_GONE. An execution whose end is not recorded yet is recorded as before: as begun or waiting.
 */
struct life_state life_recorded(const struct life_state *state);

/* For tables and logs; static. */
const char *life_name(enum life life);
const char *life_event_name(enum life_event event);
const char *life_effect_name(enum life_effect effect); /* of one bit */

#endif
