/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of a state that machines share in S3, as small as it can be told: a log of numbered commits, each written under
 * the condition that its number is free; a lease, written under the condition that it is as it was read; and the fence, the
 * entry that a new holder puts into the log before anything else.
 *
 *     zeroes -> model_steps -> model_step -> model_steps ... until .broken
 *
 * A world is plain bytes, so that two of them are the same where their bytes are. Nothing in it is a time: the lease has an
 * age at S3, and each holder a count of ticks since it sent what made it holder, both counted by the one step that is a tick,
 * and both as high as LEASE_TICKS at most, above which nothing differs any more. A machine that sleeps or waits is one
 * of which no step is taken for a while. A request is sent, takes effect at S3, and its answer is received, in three steps;
 * its answer may be lost, and it may stay under way, after the machine has given it up, and take effect whenever S3 likes.
 *
 * Snapshots are their number alone, and are written at once; each is the floor at once, and what lies below the
 * floor is deleted at any time after that. There is no least age: what the protocol promises must hold without.
 *
 * Not in it: what a commit says. A machine may be slow at any step, but the check of its clock and the call
 * that follows are one step here: a call that was begun in time may end too late, which no lease can help.
 */
#ifndef BERTH_TESTS_UNIT_STATE_PROTOCOL_MODEL_H
#define BERTH_TESTS_UNIT_STATE_PROTOCOL_MODEL_H

#include "state/protocol_world.h"

#define STEPS_MAX 64

enum step_type {
        STEP_TICK,
        STEP_START,
        STEP_EFFECT,  /* a request takes effect */
        STEP_LOSE,    /* and its answer is lost */
        STEP_DELAY,   /* the machine gives it up before it does */
        STEP_STRAY,   /* what was given up takes effect */
        STEP_RECEIVE, /* an answer is received */
        STEP_CALL,    /* the holder calls the cloud */
        STEP_COMMIT,
        STEP_RENEW,
        STEP_RELEASE,
        STEP_SNAPSHOT, /* writes one, and raises the floor to the one before */
        STEP_CLEAR,    /* what lies below the floor is deleted */
        STEP_STOP,     /* a holder whose time is up */
        STEP_CRASH
};

struct step {
        enum step_type type;
        uint8_t machine; /* or stray */
        bool keeper;     /* the keeper's request */
};

/* A machine */

static void ask(struct request *request, enum request_type type) {
        *request = (struct request){ .type = (uint8_t)type, .phase = SENT };
}

static void ask_entry(struct machine *machine, enum at at) {
        ask(&machine->worker, GET_ENTRY);
        machine->at = (uint8_t)at;
        machine->worker.number = machine->known + 1;
}

static void put_entry(struct machine *machine, enum at at) {
        ask(&machine->worker, PUT_ENTRY);
        machine->at = (uint8_t)at;
        machine->worker.number = machine->known + 1;
        machine->worker.entry = (struct log_entry){
                .token = machine->token,
                .epoch = machine->epoch,
                .id = (uint8_t)(machine->token * 8 + (at == AT_COMMIT ? 1 + machine->commits : 0)),
        };
}

static void put_lease(struct request *request, const struct machine *machine, bool release) {
        ask(request, PUT_LEASE);
        request->lease = (struct lease_object){
                .token = machine->token, .epoch = machine->epoch, .free = release, .tag = machine->tag
        };
}

static void add_stray(struct world *world, const struct request *request) {
        if (request->phase != SENT || (request->type != PUT_ENTRY && request->type != PUT_LEASE))
                return;
        for (size_t i = 0; i < STRAYS_MAX; i++) {
                if (!world->strays[i].type) {
                        world->strays[i] = *request;
                        world->strays[i].ticks = 0;
                        return;
                }
        }
}

/* A request under way may still arrive. */
static void end_run(struct world *world, struct machine *machine) {
        add_stray(world, &machine->worker);
        add_stray(world, &machine->keeper);
        *machine = (struct machine){ .runs = machine->runs, .copy = machine->copy };
}

static void begin_run(const struct world *world, struct machine *machine) {
        machine->runs++;
        machine->at = AT_LOOK;
        machine->must_know = world->acknowledged;
        ask(&machine->worker, GET_LEASE);
}

static bool in_time(const struct machine *machine, const struct limits *limits) {
        return limits->mistake == HOLDER_WITHOUT_CLOCK ||
               machine->ticks < (limits->mistake == NO_MARGIN ? LEASE_TICKS : HOLDER_TICKS);
}

static void take_lease(struct world *world, const struct limits *limits, struct machine *machine,
                       const struct request *read) {
        bool may = read->result == ABSENT || read->lease.free || read->lease.age >= LEASE_TICKS ||
                   limits->mistake == CLOCK_OF_ITS_OWN;

        if (!may) {
                end_run(world, machine);
                return;
        }
        machine->token = ++world->tokens;
        machine->epoch = read->lease.epoch + 1;
        machine->tag = read->lease.tag;
        machine->ticks = 0;
        machine->at = AT_TAKE;
        put_lease(&machine->worker, machine, false);
}

static void read_on(struct machine *machine, const struct limits *limits, uint8_t tag) {
        machine->tag = tag;
        machine->known = machine->from = machine->copy;
        if (limits->mistake == STAMP_FROM_ANSWER)
                machine->ticks = 0;
        ask_entry(machine, AT_READ);
}

static void make_sure_of_lease(struct world *world, const struct limits *limits, struct machine *machine,
                               const struct request *read) {
        if (read->result == DONE && read->lease.token == machine->token)
                read_on(machine, limits, read->lease.tag);
        else if (read->lease.tag == machine->tag) {
                machine->at = AT_TAKE;
                put_lease(&machine->worker, machine, false);
        } else
                end_run(world, machine);
}

/* An entry that is there, before our fence is. */
static void learn(struct world *world, const struct limits *limits, struct machine *machine,
                  const struct log_entry *entry) {
        machine->known++;
        if (limits->snapshots)
                machine->copy = machine->known;
        if (entry->epoch > machine->epoch)
                end_run(world, machine);
}

static void ask_floor(struct machine *machine, enum at at) {
        ask(&machine->worker, GET_FLOOR);
        machine->at = (uint8_t)at;
}

static void end_of_log(struct world *world, const struct limits *limits, struct machine *machine) {
        if (machine->known < machine->must_know)
                broke(world, READERS_SEE_ALL);
        if (limits->mistake == NO_FENCE)
                machine->at = AT_HOLD;
        else
                put_entry(machine, AT_FENCE);
}

/* The end that was read is one, where nothing behind the place it was read from was deleted; else it begins at the floor. */
static void judge_end(struct world *world, const struct limits *limits, struct machine *machine,
                      uint8_t floor) {
        if (floor <= machine->from) {
                end_of_log(world, limits, machine);
                return;
        }
        machine->known = machine->from = machine->copy = floor;
        if (world->log[floor - 1].epoch > machine->epoch)
                end_run(world, machine);
        else
                ask_entry(machine, AT_READ);
}

static void written(struct world *world, const struct limits *limits, struct machine *machine, bool fence) {
        uint8_t id = (uint8_t)(machine->token * 8 + (fence ? 0 : 1 + machine->commits));

        machine->known++;
        machine->at = AT_HOLD;
        if (world->log[machine->known - 1].id != id)
                broke(world, ACKNOWLEDGED_IS_KEPT);
        if (world->acknowledged < machine->known)
                world->acknowledged = machine->known;
        machine->commits += !fence;
        if (limits->snapshots)
                machine->copy = machine->known;
}

/* Written, says S3: but under which number? */
static void believe(struct world *world, const struct limits *limits, struct machine *machine, bool fence) {
        if (fence && limits->snapshots && limits->mistake != FENCE_UNASKED)
                ask_floor(machine, AT_FENCE_FLOOR);
        else if (!fence && limits->snapshots && limits->mistake != BELIEF_WITHOUT_CLOCK &&
                 !in_time(machine, limits))
                end_run(world, machine);
        else
                written(world, limits, machine, fence);
}

static void answer_to_entry(struct world *world, const struct limits *limits, struct machine *machine,
                            const struct request *answer) {
        bool fence = machine->at == AT_FENCE;

        if (answer->result == DONE || (answer->result == REFUSED && limits->mistake == REFUSAL_IS_OURS))
                believe(world, limits, machine, fence);
        else if (answer->result == UNKNOWN && limits->mistake == NEXT_NUMBER_WHEN_UNSURE) {
                machine->known++;
                put_entry(machine, fence ? AT_FENCE : AT_COMMIT);
        } else
                ask_entry(machine, fence ? AT_FENCE_SURE : AT_COMMIT_SURE);
}

static void make_sure_of_entry(struct world *world, const struct limits *limits, struct machine *machine,
                               const struct request *read) {
        bool fence = machine->at == AT_FENCE_SURE;

        if (read->result == DONE && read->entry.token == machine->token)
                believe(world, limits, machine, fence);
        else if (read->result == DONE && fence) {
                learn(world, limits, machine, &read->entry);
                if (machine->at != AT_REST)
                        put_entry(machine, AT_FENCE);
        } else if (read->result == ABSENT && (fence || in_time(machine, limits)))
                put_entry(machine, fence ? AT_FENCE : AT_COMMIT);
        else
                end_run(world, machine);
}

static void receive(struct world *world, const struct limits *limits, struct machine *machine) {
        struct request answer = machine->worker;

        machine->worker = (struct request){ 0 };
        switch ((enum at)machine->at) {
        case AT_LOOK:
                take_lease(world, limits, machine, &answer);
                break;
        case AT_TAKE:
                if (answer.result == DONE) {
                        read_on(machine, limits, answer.lease.tag);
                } else {
                        machine->at = AT_TAKE_SURE;
                        ask(&machine->worker, GET_LEASE);
                }
                break;
        case AT_TAKE_SURE:
                make_sure_of_lease(world, limits, machine, &answer);
                break;
        case AT_READ:
                if (answer.result == ABSENT && limits->snapshots && limits->mistake != FLOOR_UNREAD) {
                        ask_floor(machine, AT_READ_FLOOR);
                } else if (answer.result == ABSENT) {
                        end_of_log(world, limits, machine);
                } else {
                        learn(world, limits, machine, &answer.entry);
                        if (machine->at != AT_REST)
                                ask_entry(machine, AT_READ);
                }
                break;
        case AT_READ_FLOOR:
                judge_end(world, limits, machine, answer.number);
                break;
        case AT_FENCE_FLOOR:
                if (answer.number <= machine->known)
                        written(world, limits, machine, true);
                else
                        end_run(world, machine);
                break;
        case AT_FENCE:
        case AT_COMMIT:
                answer_to_entry(world, limits, machine, &answer);
                break;
        case AT_FENCE_SURE:
        case AT_COMMIT_SURE:
                make_sure_of_entry(world, limits, machine, &answer);
                break;
        case AT_RELEASE:
        case AT_REST:
        case AT_HOLD:
                end_run(world, machine);
                break;
        }
}

/*
 * The keeper's thread. A renewal whose answer is lost may still be under way while the lease names us: it counts as made only
 * by an answer that says so. What another tag tells is that an earlier one has arrived, which must be known to renew again.
 */
static void receive_kept(struct world *world, const struct limits *limits, struct machine *machine) {
        struct request answer = machine->keeper;

        machine->keeper = (struct request){ 0 };
        if (machine->keeping == 1 && answer.result != DONE) {
                machine->keeping = 2;
                ask(&machine->keeper, GET_LEASE);
                if (limits->mistake == NAME_IS_RENEWAL)
                        machine->keeper.ticks = answer.ticks;
                return;
        }
        if (answer.lease.token != machine->token) {
                end_run(world, machine);
                return;
        }
        if (machine->keeping == 1 || limits->mistake == NAME_IS_RENEWAL)
                machine->ticks = limits->mistake == STAMP_FROM_ANSWER ? 0 : answer.ticks;
        machine->tag = answer.lease.tag;
        machine->keeping = 0;
}

static void call_cloud(struct world *world, const struct machine *machine) {
        if (machine->epoch < world->calls_epoch || machine->known < world->acknowledged)
                broke(world, ONE_CALLER);
        if (machine->epoch > world->calls_epoch)
                world->calls_epoch = machine->epoch;
}

/* By a machine that believes to hold the lease, however long ago that was. */
static void put_snapshot(struct world *world, const struct limits *limits, const struct machine *machine) {
        if (limits->mistake == FLOOR_AFTER)
                world->cleared = machine->known;
        else
                world->floor = machine->known;
        world->snapshots++;
}

/* Steps */

static bool tick_one(uint8_t *ticks, bool counts) {
        if (!counts || *ticks >= LEASE_TICKS)
                return false;
        ++*ticks;
        return true;
}

/* Whether anything was changed by it. */
static bool tick(struct world *world) {
        bool changed = tick_one(&world->lease.age, world->lease.present);

        for (size_t i = 0; i < MACHINES_MAX; i++) {
                struct machine *machine = &world->machines[i];

                changed |= tick_one(&machine->ticks, machine->token != 0);
                changed |= tick_one(&machine->keeper.ticks, machine->keeping != 0);
        }
        return changed;
}

static size_t request_steps(const struct world *world, const struct limits *limits, uint8_t index,
                            bool keeper, struct step *ret) {
        const struct machine *machine = &world->machines[index];
        const struct request *request = keeper ? &machine->keeper : &machine->worker;
        bool puts = request->type == PUT_LEASE || request->type == PUT_ENTRY;
        size_t count = 0;

        if (request->phase == ANSWERED)
                ret[count++] = (struct step){ STEP_RECEIVE, index, keeper };
        if (request->phase != SENT)
                return count;
        ret[count++] = (struct step){ STEP_EFFECT, index, keeper };
        if (puts && world->faults < limits->faults) {
                ret[count++] = (struct step){ STEP_LOSE, index, keeper };
                ret[count++] = (struct step){ STEP_DELAY, index, keeper };
        }
        return count;
}

static size_t machine_steps(const struct world *world, const struct limits *limits, uint8_t index,
                            struct step *ret) {
        const struct machine *machine = &world->machines[index];
        bool timely = in_time(machine, limits);
        size_t count = 0;

        if (machine->at == AT_REST && machine->runs < limits->runs)
                ret[count++] = (struct step){ .type = STEP_START, .machine = index };
        if (machine->at != AT_REST && world->crashes < limits->crashes)
                ret[count++] = (struct step){ .type = STEP_CRASH, .machine = index };
        if (machine->at >= AT_READ && machine->at <= AT_COMMIT_SURE && !machine->keeping &&
            world->renewals < limits->renewals)
                ret[count++] = (struct step){ .type = STEP_RENEW, .machine = index };
        count += request_steps(world, limits, index, false, ret + count);
        count += request_steps(world, limits, index, true, ret + count);
        if (machine->at != AT_HOLD)
                return count;
        if (timely && (machine->epoch != world->calls_epoch || machine->known < world->acknowledged))
                ret[count++] = (struct step){ .type = STEP_CALL, .machine = index };
        if (world->snapshots < limits->snapshots && machine->known > world->floor)
                ret[count++] = (struct step){ .type = STEP_SNAPSHOT, .machine = index };
        if (timely && machine->commits < limits->commits)
                ret[count++] = (struct step){ .type = STEP_COMMIT, .machine = index };
        if (machine->commits == limits->commits && !machine->keeping)
                ret[count++] = (struct step){ .type = STEP_RELEASE, .machine = index };
        if (!timely)
                ret[count++] = (struct step){ .type = STEP_STOP, .machine = index };
        return count;
}

/* What may happen next, into `ret` of STEPS_MAX; their number. */
static size_t model_steps(const struct world *world, const struct limits *limits, struct step *ret) {
        struct world later = *world;
        size_t count = 0;

        if (tick(&later))
                ret[count++] = (struct step){ .type = STEP_TICK };
        if (limits->mistake == FLOOR_AFTER ? world->floor < world->cleared : world->cleared < world->floor)
                ret[count++] = (struct step){ .type = STEP_CLEAR };
        for (uint8_t i = 0; i < STRAYS_MAX; i++) {
                if (world->strays[i].type)
                        ret[count++] = (struct step){ .type = STEP_STRAY, .machine = i };
        }
        for (uint8_t i = 0; i < limits->machines; i++)
                count += machine_steps(world, limits, i, ret + count);
        return count;
}

static void answer_step(struct world *world, const struct limits *limits, struct step step) {
        struct machine *machine = &world->machines[step.machine];
        struct request *request = step.keeper ? &machine->keeper : &machine->worker;

        if (step.type == STEP_DELAY)
                add_stray(world, request);
        else
                take_effect(world, limits, request, machine->at == AT_READ && !step.keeper);
        if (step.type != STEP_EFFECT) {
                world->faults++;
                request->result = UNKNOWN;
        }
        request->phase = ANSWERED;
        /*
         * A machine that is slow to receive an answer is one that is slow with its next step, but
         * where time counts from the answer or from what it makes the machine send. A write that
         * rests on a reading is valid only while that reading holds.
         */
        if (request->type != PUT_LEASE && step.keeper)
                receive_kept(world, limits, machine);
        else if (request->type != PUT_LEASE)
                receive(world, limits, machine);
}

static void model_step(struct world *world, const struct limits *limits, struct step step) {
        struct machine *machine = &world->machines[step.machine];
        struct request stray;

        switch (step.type) {
        case STEP_TICK:
                tick(world);
                break;
        case STEP_START:
                begin_run(world, machine);
                break;
        case STEP_EFFECT:
        case STEP_LOSE:
        case STEP_DELAY:
                answer_step(world, limits, step);
                break;
        case STEP_STRAY:
                stray = world->strays[step.machine];
                world->strays[step.machine] = (struct request){ 0 };
                take_effect(world, limits, &stray, false);
                break;
        case STEP_RECEIVE:
                if (step.keeper)
                        receive_kept(world, limits, machine);
                else
                        receive(world, limits, machine);
                break;
        case STEP_CALL:
                call_cloud(world, machine);
                break;
        case STEP_COMMIT:
                put_entry(machine, AT_COMMIT);
                break;
        case STEP_RENEW:
                world->renewals++;
                machine->keeping = 1;
                put_lease(&machine->keeper, machine, false);
                break;
        case STEP_RELEASE:
                machine->at = AT_RELEASE;
                put_lease(&machine->worker, machine, true);
                break;
        case STEP_SNAPSHOT:
                put_snapshot(world, limits, machine);
                break;
        case STEP_CLEAR:
                if (limits->mistake == FLOOR_AFTER)
                        world->floor = world->cleared;
                else
                        world->cleared = world->floor;
                break;
        case STEP_STOP:
                end_run(world, machine);
                break;
        case STEP_CRASH:
                world->crashes++;
                end_run(world, machine);
                break;
        }
}

#endif
