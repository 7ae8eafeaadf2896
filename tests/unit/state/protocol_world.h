/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of protocol_model.h as bytes, and what S3 does in it: conditional writes, one after the other, and the age of the
 * lease by its own clock. The properties that writes could break are judged here.
 */
#ifndef BERTH_TESTS_UNIT_STATE_PROTOCOL_WORLD_H
#define BERTH_TESTS_UNIT_STATE_PROTOCOL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MACHINES_MAX 3
#define LOG_MAX 16
#define STRAYS_MAX 3
#define LEASE_TICKS 3 /* at this age, by S3's clock, others may take the lease */
/* S3's times are whole seconds, so that an age may seem one tick more than it is: the holder stops that much earlier. */
#define HOLDER_TICKS (LEASE_TICKS - 1)

/* Mistakes that the protocol could have: each must be found. */
enum mistake {
        MISTAKE_NONE,
        NO_FENCE,             /* a new holder begins without its entry in the log */
        CLOCK_OF_ITS_OWN,     /* the lease's age is judged by a clock that may be ahead */
        STAMP_FROM_ANSWER,    /* the holder counts from the answer, not from before it asked */
        NO_MARGIN,            /* the holder stops only when others may take the lease */
        HOLDER_WITHOUT_CLOCK, /* the holder goes on until it is told otherwise */
        CONDITION_LEFT_OUT,   /* entries are written whatever is there */
        REFUSAL_IS_OURS, /* "there is one already" is taken for the answer to an earlier try of one's own */
        NAME_IS_RENEWAL, /* a renewal without an answer counts as made where the lease still names us */
        LIST_IS_THE_END, /* the log ends where a list says, which may lag */
        NEXT_NUMBER_WHEN_UNSURE, /* an entry without an answer is written once more under the next number */
        FLOOR_UNREAD, /* who reads on from a remembered place does not ask whether what follows was deleted */
        FLOOR_AFTER,  /* entries are deleted first, and the floor is raised after that */
        FENCE_UNASKED,       /* nor does who has written its fence */
        BELIEF_WITHOUT_CLOCK /* a write counts however long it took */
};

/* Properties that must hold in every world. */
enum property {
        HOLDS,
        ONE_COMMIT_A_NUMBER,  /* no entry is overwritten */
        NO_COMMIT_TWICE,      /* nor written under two numbers, nor with a gap before it */
        FENCED_IS_FENCED,     /* none of an older holder follows a younger one's fence or call */
        ACKNOWLEDGED_IS_KEPT, /* what a holder was told is written, is in the log */
        READERS_SEE_ALL,      /* a read sees what was acknowledged before it began */
        ONE_CALLER /* who calls the cloud is the youngest holder, and knows all that was acknowledged */
};

struct limits {
        uint8_t machines, runs /* of each */, commits /* of a run */, renewals, faults, crashes;
        uint8_t snapshots; /* 0: nothing is ever deleted, and no machine remembers a place */
        enum mistake mistake;
};

struct log_entry {
        uint8_t token, epoch, id; /* all 0: no entry; the id of a fence is the first of its token */
};

enum request_type { GET_LEASE = 1, PUT_LEASE, GET_ENTRY, PUT_ENTRY, GET_FLOOR };
enum request_phase { SENT = 1, ANSWERED };
enum result { DONE = 1, REFUSED, ABSENT, UNKNOWN };

struct lease_object {
        uint8_t present, free, token, epoch, tag, age;
};

struct request {
        uint8_t type, phase, result;
        uint8_t number; /* of an entry, from 1; the floor as read */
        struct log_entry entry;
        struct lease_object
                lease; /* to be written, or as read; .tag is the condition of a write, 0: absent */
        uint8_t ticks; /* since it was sent */
};

enum at {
        AT_REST,
        AT_LOOK,        /* reads the lease */
        AT_TAKE,        /* writes it */
        AT_TAKE_SURE,   /* reads whether that was so */
        AT_READ,        /* reads the log's next entry */
        AT_READ_FLOOR,  /* asks whether what it has read on from is kept */
        AT_FENCE,       /* writes its fence */
        AT_FENCE_SURE,  /* reads whether that was so */
        AT_FENCE_FLOOR, /* asks whether its number was one that was freed */
        AT_HOLD,
        AT_COMMIT,
        AT_COMMIT_SURE,
        AT_RELEASE
};

struct machine {
        uint8_t at, runs, commits, token, epoch;
        uint8_t tag;       /* of the lease as we know it */
        uint8_t ticks;     /* since what made us holder was sent */
        uint8_t known;     /* entries of the log that we have read or written */
        uint8_t copy;      /* what it remembers from its last run: a place in the log */
        uint8_t from;      /* the place that it has read on from */
        uint8_t must_know; /* entries that were acknowledged to any machine when this run began */
        uint8_t keeping;   /* the keeper's own: 0 nothing, 1 renews, 2 reads whether that was so */
        struct request worker, keeper;
};

struct world {
        struct log_entry log[LOG_MAX]; /* all that was ever written, deleted or not */
        /* entries written where an entry had been deleted: no reader counts them */
        struct log_entry freed[LOG_MAX];
        struct lease_object lease;
        struct machine machines[MACHINES_MAX];
        struct request strays[STRAYS_MAX]; /* given up by who sent them; may still take effect */
        uint8_t length;                    /* of the log */
        uint8_t tokens, tags;              /* given out */
        uint8_t renewals, faults, crashes;
        uint8_t snapshots;
        uint8_t floor;        /* a snapshot that every machine can read on from */
        uint8_t cleared;      /* the entries before this number were deleted */
        uint8_t calls_epoch;  /* the highest under which a machine has called the cloud */
        uint8_t acknowledged; /* the highest number that a machine was told is written */
        uint8_t broken;       /* the first property that does not hold */
};

static void broke(struct world *world, enum property property) {
        if (!world->broken)
                world->broken = (uint8_t)property;
}

/* S3 */

static void write_entry(struct world *world, const struct limits *limits, struct request *request) {
        struct log_entry *at = &world->log[request->number - 1];

        if (request->number < world->cleared) {
                at = &world->freed[request->number - 1];
                request->result = at->token ? REFUSED : DONE;
                if (!at->token)
                        *at = request->entry;
                return;
        }
        if (at->token && limits->mistake != CONDITION_LEFT_OUT) {
                request->result = REFUSED;
                return;
        }
        request->result = DONE;
        if (at->token && at->id == request->entry.id)
                return;
        if (at->token)
                broke(world, ONE_COMMIT_A_NUMBER);
        if (request->number > world->length + 1)
                broke(world, NO_COMMIT_TWICE);
        for (size_t i = 0; i < world->length; i++) {
                if (world->log[i].id == request->entry.id && i != request->number - 1u)
                        broke(world, NO_COMMIT_TWICE);
                if (i < request->number - 1u && world->log[i].epoch > request->entry.epoch)
                        broke(world, FENCED_IS_FENCED);
        }
        if (request->entry.epoch < world->calls_epoch)
                broke(world, FENCED_IS_FENCED);
        *at = request->entry;
        if (request->number > world->length)
                world->length = request->number;
}

static void write_lease(struct world *world, struct request *request) {
        bool as_read = request->lease.tag ? world->lease.present && world->lease.tag == request->lease.tag
                                          : !world->lease.present;

        request->result = REFUSED;
        if (!as_read)
                return;
        world->lease = request->lease;
        world->lease.present = 1;
        world->lease.age = 0;
        request->lease.tag = world->lease.tag = ++world->tags;
        request->result = DONE;
}

/* At S3; `reading` where the log is read for its end. */
static void take_effect(struct world *world, const struct limits *limits, struct request *request,
                        bool reading) {
        bool lags = reading && limits->mistake == LIST_IS_THE_END && request->number == world->length;

        switch ((enum request_type)request->type) {
        case GET_LEASE:
                request->lease = world->lease;
                /* The most that whole seconds can add. */
                if (request->lease.age < LEASE_TICKS)
                        request->lease.age++;
                request->result = world->lease.present ? DONE : ABSENT;
                break;
        case PUT_LEASE:
                write_lease(world, request);
                break;
        case GET_ENTRY:
                request->entry = request->number < world->cleared ? world->freed[request->number - 1]
                                                                  : world->log[request->number - 1];
                request->result = request->entry.token && !lags ? DONE : ABSENT;
                break;
        case PUT_ENTRY:
                write_entry(world, limits, request);
                break;
        case GET_FLOOR:
                request->number = world->floor;
                request->result = DONE;
                break;
        }
}

#endif
