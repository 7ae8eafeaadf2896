/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people tell the running controller, over its control socket. A process that may open the
 * socket may send anything, so each member of a request is checked before it is used.
 *
 * A decision (approve, allow) is about what the person looked at: the plan's id and the commit must still be the ones that
 * wait. It is saved before it is published and before the answer is sent; source_decide() refuses it if another commit came
 * meanwhile. The source's own thread acts on it when it wakes.
 */
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "gitops/approval.h"
#include "gitops/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *refuse_with(const char *message) {
        return json_pack("{s:b, s:s}", "ok", 0, "error", message);
}

/* A refusal because things have changed since the person looked is exit code 3; a mistake in the request is 1. */
static json_t *refuse_by(const struct error *err) {
        json_t *answer = refuse_with(err->message);

        json_object_set_new(answer, "refused", json_boolean(err->kind == ERROR_REFUSED));
        return answer;
}

static json_t *agree_with(const char *message) {
        return json_pack("{s:b, s:s}", "ok", 1, "message", message);
}

static int find_source(struct following *following, const char *name, struct source **ret,
                       struct error *err) {
        const char *names[512], *near;
        size_t count = 0;

        for (size_t i = 0; i < following_count(following); i++) {
                if (strcmp(following->sources[i]->config->name, name) == 0) {
                        *ret = following->sources[i];
                        return 0;
                }
                if (count < sizeof(names) / sizeof(names[0]))
                        names[count++] = following->sources[i]->config->name;
        }
        near = suggest_nearest(name, names, count);
        return error_set(err, "there is no source \"%.100s\"%s%s%s", name, near ? "; did you mean " : "",
                         near ? near : "", near ? "?" : "");
}

/* The name of a source is also that of all its children. */
static bool is_meant(const struct source *named, const struct source *source) {
        return !named || source == named || source->parent == named;
}

static bool is_retired(struct source *source) {
        bool retired;

        pthread_mutex_lock(&source->lock);
        retired = source->retired;
        pthread_mutex_unlock(&source->lock);
        return retired;
}

struct request {
        struct following *following;
        const json_t *json;
        struct source *source; /* NULL: all of them */
};

/* For log and history. */
static const char *asker_of(const struct request *request) {
        const char *by = json_text(request->json, "by");

        return by ? by : "somebody";
}

static json_t *answer_status(const struct request *request) {
        struct following *following = request->following;
        json_t *list = json_array();
        char started[32];

        /* Each before its children, which come and stand as their folders were found. */
        for (size_t i = 0; i < following_count(following); i++) {
                struct source *source = following->sources[i];

                if (source->parent && source != request->source)
                        continue;
                if (is_meant(request->source, source))
                        json_add(list, source_json(source));
                for (size_t k = i + 1; source->config->pattern && k < following_count(following); k++) {
                        struct source *child = following->sources[k];

                        if (child->parent == source && is_meant(request->source, child) &&
                            child != request->source && !is_retired(child))
                                json_add(list, source_json(child));
                }
        }
        clock_format(following->started_ms, started, sizeof(started));
        return json_pack("{s:b, s:{s:s, s:b, s:i, s:s, s:s}, s:o}", "ok", 1, "controller", "name",
                         following->config->name, "running", 1, "pid", (int)getpid(), "startedAt", started,
                         "version", BERTH_VERSION, "sources", list);
}

static bool is_suspended(struct source *source) {
        bool suspended;

        pthread_mutex_lock(&source->lock);
        suspended = status_suspended(&source->status, source->config);
        pthread_mutex_unlock(&source->lock);
        return suspended;
}

/* Wakes the source. Returns the number of the round after which it has done what it was woken for. */
static json_t *wake_for_round(struct source *source, unsigned why) {
        uint64_t round;

        pthread_mutex_lock(&source->lock);
        source->woken |= why;
        round = source->rounds_begun + 1;
        pthread_cond_signal(&source->wake);
        pthread_mutex_unlock(&source->lock);
        return json_integer((json_int_t)round);
}

static json_t *answer_sync(const struct request *request) {
        struct following *following = request->following;
        json_t *rounds, *answer;
        size_t woken = 0;

        if (request->source && is_suspended(request->source)) {
                struct error err;

                (void)error_set(&err, "%s is suspended: berth controller resume %s",
                                request->source->config->name, request->source->config->name);
                return refuse_by(&err);
        }
        rounds = json_object();
        for (size_t i = 0; i < following_count(following); i++) {
                struct source *source = following->sources[i];

                /* A child looks when its parent has looked, which wakes it. */
                if (!is_meant(request->source, source) || is_suspended(source) ||
                    (source->parent && source != request->source))
                        continue;
                json_object_set_new(rounds, source->config->name, wake_for_round(source, WAKE_SYNC));
                woken++;
        }
        if (woken == 0) {
                json_decref(rounds);
                return refuse_with("every source is suspended: berth controller resume");
        }
        answer = woken == 1 ? agree_with("one source looks anew") : agree_with("sources look anew");
        json_object_set_new(answer, "rounds", rounds);
        return answer;
}

static int suspend_one(struct source *source, bool suspend, const char *by, struct error *err) {
        int before;

        if (source_open_state(source, err) < 0)
                return -1;
        pthread_mutex_lock(&source->lock);
        before = source->status.suspended;
        source->status.suspended = suspend ? 1 : 0;
        pthread_mutex_unlock(&source->lock);
        if (source_save(source, err) == 0) {
                log_info("%s by %s", suspend ? "suspended" : "resumed", by);
                source_wake(source, suspend ? 0 : WAKE_POLL);
                return 0;
        }
        pthread_mutex_lock(&source->lock);
        source->status.suspended = before;
        pthread_mutex_unlock(&source->lock);
        return -1;
}

static json_t *answer_suspension(const struct request *request, bool suspend) {
        struct following *following = request->following;
        struct error err;

        for (size_t i = 0; i < following_count(following); i++) {
                struct source *source = following->sources[i];
                int result;

                if (!is_meant(request->source, source))
                        continue;
                log_context_set("source", source->config->name);
                result = suspend_one(source, suspend, asker_of(request), &err);
                log_context_clear();
                if (result < 0)
                        return refuse_by(&err);
        }
        return agree_with(suspend ? "suspended: what is under way is finished" : "resumed");
}

static json_t *answer_suspend(const struct request *request) {
        return answer_suspension(request, true);
}

static json_t *answer_resume(const struct request *request) {
        return answer_suspension(request, false);
}

/* Every text of `allow` must let something through that is refused now: one that does not is likely mistyped. */
static int check_allowances(const json_t *allow, const json_t *refusals, struct arena *arena,
                            struct error *err) {
        json_t *text;
        size_t i;

        json_array_foreach (allow, i, text) {
                struct allowance allowance;

                if (!json_is_string(text))
                        return error_set(err, "\"allow\" must be a list of texts");
                if (approval_parse(json_string_value(text), arena, &allowance, err) < 0)
                        return -1;
                if (!approval_matches(&allowance, refusals))
                        return error_set(err, "--allow %s: nothing is refused for that: %s",
                                         json_string_value(text),
                                         json_array_size(refusals) ? approval_refusals_text(refusals, arena)
                                                                   : "nothing is refused at all");
        }
        return 0;
}

static bool all_are_allowed(const json_t *allow, const json_t *refusals, struct arena *arena) {
        size_t count;
        struct allowance *allowances = approval_join(NULL, 0, allow, arena, &count);
        json_t *refusal;
        size_t i;

        json_array_foreach (refusals, i, refusal) {
                json_t *one JSON_CLEANUP = json_pack("[O]", refusal);
                bool allowed = false;

                for (size_t k = 0; k < count && !allowed; k++)
                        allowed = approval_matches(&allowances[k], one);
                if (!allowed)
                        return false;
        }
        return true;
}

/* A commit whose history was rewritten is held as a whole, and let in by an id of its own. */
static int check_rewritten(const struct source_status *status, const char *name, struct error *err) {
        if (!status_is_rewritten(status) || !status->problem.commit[0])
                return 0;
        return error_set(
                err,
                "the history of %s was rewritten: look at what it is now, then let it in by --allow " HISTORY_REWRITTEN
                ":%.12s",
                name, status->problem.commit);
}

/* In mode approve. Under the lock. */
static int check_plan(const struct source *source, const char *wanted, const json_t *allow,
                      struct arena *arena, struct error *err) {
        const struct source_status *status = &source->status;
        const char *name = source->config->name, *id = json_text(status->plan, "id");

        if (!id && check_rewritten(status, name, err) < 0)
                return -1;
        if (!id)
                return error_set(err, "no plan of %s waits for approval", name);
        if (wanted && strcmp(wanted, id) != 0)
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "plan-stale: the plan of %s that waits is %s, not %.40s: look at it again", name, id,
                        wanted);
        if (!all_are_allowed(allow, status->refusals, arena))
                return error_set(
                        err,
                        "%s: this is refused besides, and has to be let through by --allow ID[:ADDR]: %s",
                        name, approval_refusals_text(status->refusals, arena));
        return 0;
}

static int check_refusals(const struct source *source, const char *wanted, const json_t *allow,
                          struct arena *arena, struct error *err) {
        const struct source_status *status = &source->status;
        const char *name = source->config->name;

        if (wanted)
                return error_set(err, "%s applies by itself: no plan of it waits for approval", name);
        if (json_array_size(status->refusals) == 0)
                return error_set(err, "nothing is refused in %s", name);
        if (json_array_size(allow) == 0)
                return error_set(err, "%s: name what shall be let through, by --allow ID[:ADDR]: %s", name,
                                 approval_refusals_text(status->refusals, arena));
        return 0;
}

static int check_approval(const struct source *source, const char *wanted, const json_t *allow,
                          struct arena *arena, struct error *err) {
        if (source->config->pattern && !status_is_rewritten(&source->status))
                return error_set(err, "%s has a stack in each of its folders: name one, %s/FOLDER",
                                 source->config->name, source->config->name);
        if (source->config->mode == SOURCE_PLAN)
                return error_set(err, "%s only reports (mode: plan): there is nothing to approve",
                                 source->config->name);
        if (status_suspended(&source->status, source->config))
                return error_set(err, "%s is suspended: berth controller resume %s", source->config->name,
                                 source->config->name);
        /* While a rewritten history is held, no plan is made, so nothing else is refused. */
        if (json_array_size(source->status.refusals) == 0 &&
            check_rewritten(&source->status, source->config->name, err) < 0)
                return -1;
        if (check_allowances(allow, source->status.refusals, arena, err) < 0)
                return -1;
        return source->config->mode == SOURCE_APPROVE ? check_plan(source, wanted, allow, arena, err)
                                                      : check_refusals(source, wanted, allow, arena, err);
}

/* The log says who let what through: where the apply comes to nothing there is no other trace of it. */
static void log_decision(const struct source *source, const char *plan, const json_t *allow, const char *by) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *allowed;
        size_t i;

        json_array_foreach (allow, i, allowed)
                strbuf_printf(&text, "%s%s", i ? ", " : *plan ? ", and " : "", json_string_value(allowed));
        log_context_set("source", source->config->name);
        log_info("%s%s%s, by %s", *plan ? "approved: plan " : "let through once: ", plan, strbuf_text(&text),
                 by);
        log_context_clear();
}

/* Counts the entries of the list that let a rewritten commit in, rather than a change through; *ret is the last. */
static size_t find_rewrites(const json_t *allow, struct arena *arena, struct allowance *ret) {
        size_t count, found = 0;
        const struct allowance *allowances = approval_join(NULL, 0, allow, arena, &count);

        for (size_t i = 0; i < count; i++) {
                if (strcmp(allowances[i].id, HISTORY_REWRITTEN) != 0)
                        continue;
                *ret = allowances[i];
                found++;
        }
        return found;
}

/* Under the lock. */
static int check_rewrite(const struct source *source, const struct allowance *allowance, struct error *err) {
        const struct source_status *status = &source->status;
        const char *name = source->config->name, *wanted = allowance->address;

        if (status_suspended(status, source->config))
                return error_set(err, "%s is suspended: berth controller resume %s", name, name);
        if (!status_is_rewritten(status) || !status->problem.commit[0])
                return error_set(err, "--allow " HISTORY_REWRITTEN ": the history of %s was not rewritten",
                                 name);
        if (wanted && strncmp(status->problem.commit, wanted, strlen(wanted)) != 0)
                return error_set_kind(err, ERROR_REFUSED,
                                      HISTORY_REWRITTEN
                                      ": the commit of %s that is held is %.12s, not %s: look at it again",
                                      name, status->problem.commit, wanted);
        return 0;
}

/* That very commit, and no other that may have come since. */
static int let_commit_in(struct source *source, const struct allowance *allowance, const char *by,
                         struct error *err) {
        const struct source_status *status = &source->status;
        struct decision decision = { 0 };
        char commit[COMMIT_SIZE];
        int result;

        pthread_mutex_lock(&source->lock);
        result = check_rewrite(source, allowance, err);
        if (result == 0) {
                /* What else stands decided of this source goes on to stand. */
                decision.allowed = json_deep_copy(status->allowed);
                memcpy(decision.approved, status->approved, sizeof(decision.approved));
                memcpy(commit, status->problem.commit, sizeof(commit));
                memcpy(decision.accepted_rewrite, commit, sizeof(commit));
                snprintf(decision.approver, sizeof(decision.approver), "%.63s", by);
                snprintf(decision.seen, sizeof(decision.seen), "%s", status_commit(status->seen));
        }
        pthread_mutex_unlock(&source->lock);
        if (result < 0 || source_decide(source, &decision, err) < 0)
                return -1;
        log_context_set("source", source->config->name);
        log_info("let through once: " HISTORY_REWRITTEN ":%s, by %s", commit, by);
        log_context_clear();
        return 0;
}

static int save_decision(struct source *source, const struct request *request, json_t *allow,
                         struct arena *arena, struct error *err) {
        const struct source_status *status = &source->status;
        const char *wanted = json_text(request->json, "plan"), *by = asker_of(request);
        struct decision decision = { 0 };
        char plan[sizeof(decision.approved)] = "";
        int result;

        pthread_mutex_lock(&source->lock);
        result = check_approval(source, wanted, allow, arena, err);
        if (result == 0) {
                decision.allowed = json_deep_copy(allow);
                memcpy(decision.accepted_rewrite, status->accepted_rewrite,
                       sizeof(decision.accepted_rewrite));
                snprintf(decision.approver, sizeof(decision.approver), "%.63s", by);
                snprintf(decision.seen, sizeof(decision.seen), "%s", status_commit(status->seen));
                if (source->config->mode == SOURCE_APPROVE)
                        snprintf(plan, sizeof(plan), "%s", json_text(status->plan, "id"));
                memcpy(decision.approved, plan, sizeof(plan));
        }
        pthread_mutex_unlock(&source->lock);
        if (result < 0 || source_decide(source, &decision, err) < 0)
                return -1;
        log_decision(source, plan, allow, by);
        return 0;
}

static json_t *agree_and_wake(struct source *source, unsigned why, const char *message) {
        json_t *answer = agree_with(message), *rounds = json_object();

        json_object_set_new(rounds, source->config->name, wake_for_round(source, why));
        json_object_set_new(answer, "rounds", rounds);
        return answer;
}

static json_t *answer_approve(const struct request *request) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *allow = json_object_get(request->json, "allow"), *empty JSON_CLEANUP = json_array();
        struct source *source = request->source;
        struct allowance rewrite = { 0 };
        struct error err = { 0 };

        if (!request->source)
                return refuse_with("approve needs the name of a source");
        if (allow && !json_is_array(allow))
                return refuse_with("\"allow\" must be a list of texts");
        if (json_object_get(request->json, "plan") && !json_text(request->json, "plan"))
                return refuse_with("\"plan\" must be a text");
        allow = allow ? allow : empty;
        if (find_rewrites(allow, arena, &rewrite) > 0) {
                if (json_array_size(allow) > 1 || json_text(request->json, "plan"))
                        return refuse_with("--allow " HISTORY_REWRITTEN
                                           " goes alone: what else its commit needs is seen once it is in");
                if (let_commit_in(source, &rewrite, asker_of(request), &err) < 0)
                        return refuse_by(&err);
                return agree_and_wake(source, WAKE_POLL, "let in: the commit is followed from here on");
        }
        if (save_decision(source, request, allow, arena, &err) < 0)
                return refuse_by(&err);
        return agree_and_wake(source, WAKE_DECISION,
                              source->config->mode == SOURCE_APPROVE
                                      ? "approved: the plan is being applied"
                                      : "let through once: it is being applied");
}

json_t *commands_answer(void *context, json_t *json) {
        static const struct {
                const char *name;
                json_t *(*answer)(const struct request *request);
        } commands[] = {
                { "status", answer_status }, { "sync", answer_sync },       { "suspend", answer_suspend },
                { "resume", answer_resume }, { "approve", answer_approve },
        };
        struct request request = { .following = context, .json = json };
        const char *command = json_text(json, "command"), *name = json_text(json, "source");
        struct error err = { 0 };

        if (!command)
                return refuse_with("the request names no command");
        if (!name && json_object_get(json, "source"))
                return refuse_with("\"source\" must be a text");
        if (name && find_source(context, name, &request.source, &err) < 0)
                return refuse_by(&err);
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
                if (strcmp(commands[i].name, command) == 0)
                        return commands[i].answer(&request);
        }
        return refuse_with("there is no such command");
}
