/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job of the executor for each change of the plan; a turn of a job is one stage of its change:
 *
 *     intent of the stage into the journal -> the provider's step() -> outcome into the journal, or into the record
 *
 * The order is the whole point. What the journal does not say was not sent, so that after a crash at any place the
 * next plan knows which resources to read again. A stage whose intent cannot be written is not carried out; one whose
 * outcome cannot be written has failed, though its call went well: the journal's entry stays, and says so.
 *
 * Several threads run turns, one at a time for each change. They share only the state (which commits for those that
 * wait together) and the provider; each change has an arena and a result of its own.
 */
#include "controller/apply.h"

#include "controller/history.h"
#include "controller/lineage.h"
#include "controller/record.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct work {
        struct subject *subject;
        struct change *change;
        struct progress progress;
        int journaled_stage; /* the last one whose intent is in the journal; -1: none. A poll writes none again */
        int64_t started_ms;
        bool started;
};

struct applying {
        const struct apply_args *args;
        struct plan *plan;
        struct state *state;
        struct provider *provider;
        const struct clock *clock;
        uint64_t run;
        int64_t started_ms;
        struct work *works;
        struct apply_result *result;
};

static int64_t wall_now(const struct applying *applying) {
        return applying->clock->wall_ms(applying->clock);
}

static int64_t monotonic_now(const struct applying *applying) {
        return applying->clock->monotonic_ms(applying->clock);
}

static int write_journal(struct applying *applying, const struct work *work, bool answered, int stage,
                         struct error *err) {
        struct journal_entry entry = {
                .run = applying->run,
                .address = work->change->address,
                .action = action_name(work->change->action),
                .stage = stage,
                .answered = answered,
                .data = work->progress.data,
                .at_ms = wall_now(applying),
        };
        struct state_op op = {
                .type = answered ? STATE_JOURNAL_ANSWER : STATE_JOURNAL_BEGIN,
                .journal = &entry,
        };
        struct record_writer writer;

        record_writer_init(&writer, applying->plan->provider_name, entry.at_ms);
        /* With the first intent of a creation, what it is to become: should this run die, the next one can find its parts. */
        if (!answered && work->journaled_stage < 0)
                record_begun(&writer, work->subject);
        writer.ops[writer.count++] = op;
        return state_commit(applying->state, writer.ops, writer.count, err);
}

static int record_outcome(struct applying *applying, struct work *work, const struct observation *observed,
                          struct error *err) {
        struct record_writer writer;

        record_writer_init(&writer, applying->plan->provider_name, wall_now(applying));
        if (work->change->action == ACTION_DELETE)
                record_forget(&writer, work->subject);
        else
                record_applied(&writer, work->subject, observed, state_secret_key(applying->state));
        return state_commit(applying->state, writer.ops, writer.count, err);
}

/* After a failure nothing that was known of the resource can be trusted; the next run reads it. */
static void record_failure(struct applying *applying, struct work *work, struct error *err) {
        struct record_writer writer;
        struct error second;

        record_writer_init(&writer, applying->plan->provider_name, wall_now(applying));
        record_failed(&writer, work->subject);
        if (state_commit(applying->state, writer.ops, writer.count, &second) < 0)
                error_context(err, "%s; besides", second.message);
}

/* A change that cannot be written down is not made: it ends here, and must not be waited for. */
static int abandon_change(struct applying *applying, struct work *work) {
        if (work->subject->ops->abandon)
                work->subject->ops->abandon(applying->provider, work->change);
        return -1;
}

/* The change only waited for its quota when an interrupt came: withdraw_intents() takes back what the journal has of it. */
static void give_up_job(void *context, size_t job) {
        struct applying *applying = context;

        (void)abandon_change(applying, &applying->works[job]);
}

static void begin_work(struct applying *applying, struct work *work) {
        if (work->started)
                return;
        work->started = true;
        work->started_ms = monotonic_now(applying);
        work->journaled_stage = -1;
        work->progress.arena = arena_new();
}

static int take_journalled_step(struct applying *applying, struct work *work, struct turn *turn,
                                struct error *err) {
        struct observation observed = { 0 };
        int stage = work->progress.stage, result;

        if (work->journaled_stage != stage) {
                if (write_journal(applying, work, false, stage, err) < 0)
                        return abandon_change(applying, work);
                work->journaled_stage = stage;
                /*
                 * Writing may take long, above all if the machine slept meanwhile: others may hold
                 * the lock already.
                 */
                if (state_lease_check(applying->state, err) < 0)
                        return abandon_change(applying, work);
        }
        /*
         * The provider sets it again each turn; what an earlier turn said must not hold up this
         * one.
         */
        work->progress.not_before_ms = 0;
        result = work->subject->ops->step(applying->provider, work->change, &work->progress, &observed, err);
        turn->begun = work->progress.sent;
        if (result < 0) {
                record_failure(applying, work, err);
                return -1;
        }
        if (result == STEP_DONE) {
                turn->done = true;
                return record_outcome(applying, work, &observed, err);
        }
        /*
         * A token of the quota that is reserved for a first try: the change waits for its turn and has sent nothing.
         */
        turn->queued = work->progress.reserved && work->progress.attempts == 0;
        turn->not_before_ms = work->progress.not_before_ms;
        if (work->progress.stage != stage && write_journal(applying, work, true, stage, err) < 0)
                return abandon_change(applying, work);
        return 0;
}

/* A turn, on one of the executor's threads. */
static int run_job(void *context, size_t job, struct turn *turn) {
        struct applying *applying = context;
        struct work *work = &applying->works[job];
        struct change_result *ret = &applying->result->changes[job];
        int result;

        begin_work(applying, work);
        /*
         * A stage that only waits must not make a further call either while another process may be
         * at work.
         */
        result = state_lease_check(applying->state, &ret->error) < 0
                         ? abandon_change(applying, work)
                         : take_journalled_step(applying, work, turn, &ret->error);
        ret->duration_ms = monotonic_now(applying) - work->started_ms;
        return result;
}

/* Once for each change, on the thread that called apply_plan(). */
static void job_ended(void *context, size_t job, enum job_outcome outcome) {
        struct applying *applying = context;
        struct work *work = &applying->works[job];
        struct change_result *result = &applying->result->changes[job];
        const struct apply_watcher *watcher = applying->args->watcher;

        result->outcome = outcome;
        result->refused = change_is_refused(work->change);
        applying->result->done += outcome == JOB_DONE;
        applying->result->failed += outcome == JOB_FAILED;
        applying->result->refused += result->refused;
        applying->result->interrupted |= outcome == JOB_NOT_STARTED || outcome == JOB_LEFT;
        applying->result->skipped += outcome != JOB_DONE && outcome != JOB_FAILED && !result->refused;
        if (watcher && watcher->ended)
                watcher->ended(watcher->context, work->change, result);
        if (outcome != JOB_NOT_STARTED) {
                arena_free(work->progress.arena);
                work->progress.arena = NULL;
        }
}

static void report_progress(void *context, const struct executor_stats *stats) {
        struct applying *applying = context;
        const struct apply_watcher *watcher = applying->args->watcher;

        if (watcher && watcher->progress)
                watcher->progress(watcher->context, stats, monotonic_now(applying) - applying->started_ms);
}

/* Position of each change among the plan's changes, by subject. */
static size_t *index_changes(const struct plan *plan, struct arena *arena) {
        size_t *positions = arena_array(arena, plan->subject_count + 1, sizeof(*positions));

        for (size_t i = 0; i < plan->change_count; i++) {
                const struct change *change = plan->changes[i];

                positions[plan_subject_of(plan, change->kind->id, change->name) - plan->subjects] = i;
        }
        return positions;
}

/* The changes as jobs, in the plan's order. depends_on names subjects; the executor wants numbers of jobs. */
static struct job *make_jobs(struct applying *applying, struct arena *arena) {
        struct plan *plan = applying->plan;
        size_t *positions = index_changes(plan, arena);
        struct job *jobs = arena_array(arena, plan->change_count + 1, sizeof(*jobs));

        for (size_t i = 0; i < plan->change_count; i++) {
                struct change *change = plan->changes[i];
                size_t *after = arena_array(arena, change->depends_on_count + 1, sizeof(*after));

                for (size_t k = 0; k < change->depends_on_count; k++)
                        after[k] = positions[plan_subject(plan, change->depends_on[k]) - plan->subjects];
                jobs[i] = (struct job){
                        .after = after,
                        .after_count = change->depends_on_count,
                        .lane = change->kind->lane,
                        .excluded = change_is_refused(change),
                };
                applying->works[i] = (struct work){
                        .subject = plan_subject_of(plan, change->kind->id, change->name),
                        .change = change,
                };
        }
        return jobs;
}

/*
 * Jobs that an interrupt kept from starting left at most an intent in the journal: nothing was sent. The operations hold
 * addresses alone, nothing of the writer, so that they may be copied out of it.
 */
static int withdraw_intents(struct applying *applying, struct arena *arena, struct error *err) {
        size_t total = applying->plan->change_count, count = 0;
        struct state_op *ops = arena_array(arena, total * RECORD_WRITER_MAX + 1, sizeof(*ops));

        for (size_t i = 0; i < total; i++) {
                struct work *work = &applying->works[i];
                struct record_writer writer;

                if (applying->result->changes[i].outcome != JOB_NOT_STARTED || !work->progress.arena)
                        continue;
                arena_free(work->progress.arena);
                work->progress.arena = NULL;
                record_writer_init(&writer, applying->plan->provider_name, wall_now(applying));
                record_withdrawn(&writer, work->subject);
                memcpy(ops + count, writer.ops, writer.count * sizeof(*ops));
                count += writer.count;
        }
        return count ? state_commit(applying->state, ops, count, err) : 0;
}

/*
 * Resources that need no change, but whose record says something else: an earlier run changed them and died before it
 * could record that, or the manifest now asks for what was there already. Each writer stays in the arena, since its
 * operations point into it until they are committed.
 */
static int record_what_is_settled(struct applying *applying, struct arena *arena, struct error *err) {
        struct plan *plan = applying->plan;
        struct state_op *ops = arena_array(arena, plan->subject_count * RECORD_WRITER_MAX + 1, sizeof(*ops));
        size_t count = 0;

        for (size_t i = 0; i < plan->subject_count; i++) {
                struct record_writer *writer;

                if (!record_is_stale(&plan->subjects[i]))
                        continue;
                writer = arena_alloc(arena, sizeof(*writer));
                record_writer_init(writer, plan->provider_name, wall_now(applying));
                if (plan->subjects[i].desired)
                        record_applied(writer, &plan->subjects[i], plan->subjects[i].observed,
                                       state_secret_key(applying->state));
                else
                        record_forget(writer, &plan->subjects[i]);
                memcpy(ops + count, writer->ops, writer->count * sizeof(*ops));
                count += writer->count;
        }
        return count ? state_commit(applying->state, ops, count, err) : 0;
}

/* Whose state this is, from the first apply on: later plans compare themselves to it (wrong-account, the stack's name). */
static int write_identity(struct applying *applying, struct error *err) {
        const struct plan *plan = applying->plan;
        struct state_op ops[3] = {
                { .type = STATE_PUT_META, .meta = { "stack", plan->stack_name } },
                { .type = STATE_PUT_META, .meta = { "account", plan->identity.account } },
                { .type = STATE_PUT_META, .meta = { "region", plan->identity.region } },
        };
        size_t count = plan->identity.account && plan->identity.region ? 3 : 1;

        return state_commit(applying->state, ops, count, err);
}

static int run_changes(struct applying *applying, struct arena *arena, struct error *err) {
        static const struct executor_ops ops = {
                .run = run_job, .ended = job_ended, .give_up = give_up_job, .watch = report_progress
        };
        struct plan *plan = applying->plan;
        struct job *jobs = make_jobs(applying, arena);

        if (write_identity(applying, err) < 0 || record_what_is_settled(applying, arena, err) < 0)
                return -1;
        executor_run(&ops, applying, jobs, plan->change_count, applying->args->parallel, applying->clock,
                     applying->args->interrupt);
        return withdraw_intents(applying, arena, err);
}

int apply_plan(const struct apply_args *args, struct arena *arena, struct apply_result *ret,
               struct error *err) {
        struct plan *plan = args->plan;
        struct apply_result result = { 0 };
        struct applying applying = {
                .args = args,
                .plan = plan,
                .state = args->planning->state,
                .provider = args->planning->provider,
                .clock = args->planning->clock,
                .result = &result,
        };

        result.changes = arena_array(arena, plan->change_count + 1, sizeof(*result.changes));
        applying.works = arena_array(arena, plan->change_count + 1, sizeof(*applying.works));
        applying.started_ms = monotonic_now(&applying);
        /* Planning takes its time, too. */
        if (state_lease_check(applying.state, err) < 0 || lineage_renew(args->planning, err) < 0 ||
            state_new_run(applying.state, &applying.run, err) < 0)
                return -1;
        result.run = applying.run;
        if (history_begin(args, &result, wall_now(&applying), err) < 0)
                return -1;
        if (run_changes(&applying, arena, err) < 0)
                return -1;
        result.duration_ms = monotonic_now(&applying) - applying.started_ms;
        if (history_end(args, &result, wall_now(&applying), err) < 0)
                return -1;
        *ret = result;
        return 0;
}
