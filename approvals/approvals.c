/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock over all: an entry of the log takes a few milliseconds, and people decide seldom. A
 * running command holds no lock, and a caller writes one entry at most: approvals_look() writes
 * down requests that expired together, one by one.
 *
 * approvals_known.c holds what is known of approvals, and turns an entry of the log into that.
 */
#include "approvals/approvals_parts.h"

#include "approvals/words.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "sessions/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define KEY_MS ((int64_t)86400 * 1000)
#define LOOK_MS 500 /* of one approvals_look() */

struct job {
        struct approvals *approvals;
        char id[APPROVALS_ID_SIZE];
};

bool approvals_is_id(const char *text) {
        char as_session[APPROVALS_ID_SIZE];

        _Static_assert(APPROVALS_ID_SIZE == ENGINE_ID_SIZE, "ids are as sessions'");
        if (strlen(text) != APPROVALS_ID_SIZE - 1 || text[0] != 'a')
                return false;
        memcpy(as_session, text, sizeof(as_session));
        as_session[0] = 's';
        return record_is_id(as_session);
}

static int write_for(struct approvals *approvals, json_t *entry, struct problem *problem) {
        struct error err;

        if (approvals_write(approvals, entry, &err) == 0)
                return 0;
        return problem_set(
                problem, PROBLEM_STORE_FAILED,
                "the audit log cannot be written, and without it nothing is done: the server's log says why");
}

/* --- run --- */

static struct subject subject_of(const json_t *asked) {
        struct subject subject = { .program = json_text(asked, "program"),
                                   .folder = json_text(asked, "cwd"),
                                   .folder_device = (uint64_t)json_integer_or(asked, "folderDevice", 0),
                                   .folder_inode = (uint64_t)json_integer_or(asked, "folderInode", 0) };
        const char *sha256 = json_text(asked, "programSha256");

        if (sha256 && strlen(sha256) == SHA256_HEX_SIZE - 1)
                memcpy(subject.sha256, sha256, SHA256_HEX_SIZE);
        return subject;
}

/* False where it may not run: it is not as it was shown, or that it begins cannot be written down. */
static bool begin_run(struct approvals *approvals, const char *id, const struct host_run *run,
                      struct host_opened *opened, json_t **ret_result) {
        struct error err;
        int written;

        if (host_open(run, opened, &err) < 0) {
                struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;

                strbuf_printf(&detail, "it did not run: %s", err.message);
                *ret_result = host_failed(strbuf_text(&detail));
                return false;
        }
        pthread_mutex_lock(&approvals->lock);
        written = approvals_write(approvals, json_pack("{s:s, s:s}", "event", "began", "id", id), &err);
        pthread_mutex_unlock(&approvals->lock);
        if (written == 0)
                return true;
        close_descriptor(&opened->program);
        close_descriptor(&opened->folder);
        *ret_result = host_failed("it did not run: the audit log cannot be written");
        return false;
}

/* The lock is held. Where it cannot be written clients are told nevertheless; the next server finds no end, and perhaps that it began. */
static void write_result(struct approvals *approvals, const char *id, json_t *result) {
        struct approval *approval = approvals_find(approvals, id);
        struct error ignored;

        if (approvals_write(approvals,
                            json_pack("{s:s, s:s, s:O}", "event", "ended", "id", id, "result", result),
                            &ignored) == 0)
                return;
        approval->result = json_incref(result);
        approvals_end_unwritten(approvals, approval, DONE);
}

static void run_job(void *context) {
        struct job *job = context;
        struct approvals *approvals = job->approvals;
        struct host_opened opened = { -1, -1, false };
        json_t *asked, *result = NULL;
        struct subject subject;
        struct host_run run;

        pthread_mutex_lock(&approvals->lock);
        asked = json_incref(approvals_find(approvals, job->id)->asked);
        pthread_mutex_unlock(&approvals->lock);
        subject = subject_of(asked);
        run = (struct host_run){ .subject = &subject,
                                 .user = &approvals->user,
                                 .command = json_object_get(asked, "command"),
                                 .variables = json_object_get(asked, "variables"),
                                 .timeout_ms = json_integer_or(asked, "timeoutSeconds", 1) * 1000,
                                 .stop = approvals->stop };
        if (begin_run(approvals, job->id, &run, &opened, &result))
                result = host_run(&run, &opened);
        pthread_mutex_lock(&approvals->lock);
        write_result(approvals, job->id, result);
        json_decref(result);
        json_decref(asked);
        approvals->running--;
        pthread_mutex_unlock(&approvals->lock);
        free(job);
}

/* The lock is held. */
static void start_job(struct approvals *approvals, const char *id) {
        struct job *job = malloc(sizeof(*job));

        if (!job)
                abort();
        job->approvals = approvals;
        memcpy(job->id, id, sizeof(job->id));
        approvals->running++;
        jobs_add(approvals->jobs, "", run_job, job);
}

/* --- seen --- */

static bool may_see(const struct approvals_caller *caller, const struct approval *approval) {
        return text_is_permitted(approval->agent, caller->agents) &&
               (caller->sees_all || (caller->owner && strcmp(approval->owner, caller->owner) == 0));
}

static json_t *without_output(json_t *result) {
        json_t *copy = json_checked(json_object()), *value;
        const char *name;

        json_object_foreach (result, name, value) {
                if (strcmp(name, "stdout") != 0 && strcmp(name, "stderr") != 0)
                        json_put(copy, name, json_deep_copy(value));
        }
        return copy;
}

/* For who has no lock: nothing of it is shared, since jansson reads its counts of references without any. */
static json_t *approval_json(const struct approval *approval, bool with_output) {
        static const char *const members[] = {
                "id",     "command", "cwd",    "program", "programSha256",  "user",      "variables", "agent",
                "client", "owner",   "reason", "trusted", "timeoutSeconds", "expiresAt", NULL
        };
        json_t *json = json_checked(json_object());

        for (const char *const *name = members; *name; name++) {
                json_t *value = json_object_get(approval->asked, *name);

                json_put(json, *name, value ? json_deep_copy(value) : json_null());
        }
        json_put(json, "status", json_string(approvals_status_names[approval->status]));
        json_put(json, "askedAt", json_from_text(json_text(approval->asked, "at")));
        json_put(json, "decidedBy", json_from_text(json_text(approval->decided, "client")));
        json_put(json, "decidedAt", json_from_text(json_text(approval->decided, "at")));
        json_put(json, "note", json_from_text(json_text(approval->decided, "note")));
        json_put(json, "result",
                 !approval->result ? json_null()
                 : with_output     ? json_deep_copy(approval->result)
                                   : without_output(approval->result));
        return json;
}

static struct approval *find_for(struct approvals *approvals, const struct approvals_caller *caller,
                                 const char *id, struct problem *problem) {
        struct approval *approval = approvals_is_id(id) ? approvals_find(approvals, id) : NULL;

        if (approval && may_see(caller, approval))
                return approval;
        (void)problem_set(problem, PROBLEM_NOT_FOUND, "there is no such approval");
        return NULL;
}

/* By the wall clock, and also where that clock was set back. */
static bool has_expired(const struct approval *approval) {
        return approval->status == PENDING &&
               (approval->expires_ms <= clock_wall_ms() || approval->until_ms <= clock_now_ms());
}

/* Also where the log cannot be written: the next server finds the time over, too. */
static void expire(struct approvals *approvals, struct approval *approval) {
        struct error ignored;

        if (approvals_write(approvals, json_pack("{s:s, s:s}", "event", "expired", "id", approval->id),
                            &ignored) < 0)
                approvals_end_unwritten(approvals, approval, EXPIRED);
}

int approvals_show(struct approvals *approvals, const struct approvals_caller *caller, const char *id,
                   json_t **ret, struct problem *problem) {
        struct approval *approval;

        pthread_mutex_lock(&approvals->lock);
        approval = find_for(approvals, caller, id, problem);
        if (approval && has_expired(approval))
                expire(approvals, approval);
        if (approval)
                *ret = approval_json(approval, true);
        pthread_mutex_unlock(&approvals->lock);
        return approval ? 0 : -1;
}

int approvals_list(struct approvals *approvals, const struct approvals_caller *caller,
                   const struct approvals_filter *filter, json_t **ret, struct problem *problem) {
        json_t *items = json_checked(json_array());
        bool begun = !filter->cursor, more = false;
        const char *last = NULL;

        pthread_mutex_lock(&approvals->lock);
        for (const struct approval *approval = approvals->newest; approval && !more;
             approval = approval->next) {
                if (!begun) {
                        begun = strcmp(approval->id, filter->cursor) == 0;
                        continue;
                }
                if (!may_see(caller, approval) ||
                    !text_is_permitted(approvals_status_names[approval->status], filter->statuses) ||
                    !text_is_permitted(approval->agent, filter->agents))
                        continue;
                more = json_array_size(items) == filter->limit;
                if (!more)
                        json_add(items, approval_json(approval, false));
        }
        pthread_mutex_unlock(&approvals->lock);
        if (!begun) {
                /* That nothing comes behind it is not known: what waits may be older than what was forgotten meanwhile. */
                json_decref(items);
                return problem_set(problem, PROBLEM_INVALID,
                                   "invalid cursor, or one whose entry was removed meanwhile: begin again");
        }
        if (more)
                last = json_text(json_array_get(items, json_array_size(items) - 1), "id");
        *ret = json_checked(json_pack("{s:s?}", "cursor", last));
        json_put(*ret, "items", items);
        return 0;
}

/*
 * A thousand may expire at once, and each is a write: other callers come in between, and the next
 * look handles the rest.
 */
void approvals_look(struct approvals *approvals) {
        int64_t until_ms = clock_now_ms() + LOOK_MS;
        struct approval *over;

        do {
                pthread_mutex_lock(&approvals->lock);
                for (over = approvals->newest; over && !has_expired(over); over = over->next)
                        ;
                if (over)
                        expire(approvals, over);
                else
                        approvals_forget_old(approvals);
                pthread_mutex_unlock(&approvals->lock);
        } while (over && clock_now_ms() < until_ms);
}

/* --- asked --- */

static int check_length(const char *what, const char *text, size_t max, struct problem *problem) {
        if (text && text_characters(text, strlen(text)) > max)
                return problem_set(problem, PROBLEM_INVALID, "%s may have %zu characters at most", what, max);
        return 0;
}

static int check_command(const json_t *command, struct problem *problem) {
        size_t index, count = json_array_size(command);
        const json_t *word;

        if (count == 0 || count > APPROVALS_WORDS_MAX || json_string_length(json_array_get(command, 0)) == 0)
                return problem_set(problem, PROBLEM_INVALID,
                                   "command must be a program and its arguments, %d words at most",
                                   APPROVALS_WORDS_MAX);
        json_array_foreach (command, index, word) {
                if (!json_is_string(word) || strlen(json_string_value(word)) != json_string_length(word))
                        return problem_set(problem, PROBLEM_INVALID, "command must be texts without NUL");
        }
        return approvals_words_bytes(command) <= APPROVALS_COMMAND_MAX
                       ? 0
                       : problem_set(
                                 problem, PROBLEM_TOO_LARGE,
                                 "command may have %zu bytes at most, so that a person can read all of it",
                                 APPROVALS_COMMAND_MAX);
}

/*
 * The whole command, word by word: what a program makes of a word that an agent may choose, only the program knows. Programs read their folder's configuration: what an agent may have written there is no trusted command's.
 */
static bool is_trusted(const struct approvals *approvals, const struct approvals_wish *wish,
                       const struct subject *subject) {
        const json_t *entry;
        size_t index;

        if (subject_is_beneath(subject->folder, approvals->state))
                return false;
        json_array_foreach (approvals->trusted, index, entry) {
                if (strcmp(json_text(entry, "agent"), wish->agent) == 0 &&
                    strcmp(json_text(entry, "cwd"), subject->folder) == 0 &&
                    json_equal(json_object_get(entry, "command"), wish->command))
                        return true;
        }
        return false;
}

static int count_limits(const struct approvals *approvals, const char *owner, bool trusted,
                        struct problem *problem) {
        size_t pending = 0, of_owner = 0, trusted_now = 0, trusted_of_owner = 0;

        for (const struct approval *approval = approvals->newest; approval; approval = approval->next) {
                bool runs = approval->status == APPROVED &&
                            json_is_true(json_object_get(approval->asked, "trusted"));

                trusted_now += runs;
                trusted_of_owner += runs && strcmp(approval->owner, owner) == 0;
                pending += approval->status == PENDING;
                of_owner += approval->status == PENDING && strcmp(approval->owner, owner) == 0;
        }
        if (trusted && trusted_of_owner >= APPROVALS_TRUSTED_OWNER_MAX)
                return problem_set(problem, PROBLEM_OWNER_LIMIT,
                                   "%d trusted commands of this owner run on the host already",
                                   APPROVALS_TRUSTED_OWNER_MAX);
        if (trusted && trusted_now >= APPROVALS_TRUSTED_MAX)
                return problem_set(problem, PROBLEM_SERVER_LIMIT,
                                   "%d trusted commands run on the host already", APPROVALS_TRUSTED_MAX);
        if (trusted && approvals->running >= APPROVALS_RUNNING_MAX)
                return problem_set(problem, PROBLEM_SERVER_LIMIT, "%d commands run on the host already",
                                   APPROVALS_RUNNING_MAX);
        if (!trusted && of_owner >= APPROVALS_PENDING_MAX)
                return problem_set(problem, PROBLEM_OWNER_LIMIT,
                                   "%d commands of this owner wait for an approval already",
                                   APPROVALS_PENDING_MAX);
        if (pending >= APPROVALS_ALL_PENDING_MAX || approvals->count >= (size_t)2 * APPROVALS_KEPT_MAX)
                return problem_set(problem, PROBLEM_SERVER_LIMIT, "as many approvals are kept as may be");
        return 0;
}

static json_t *asked_entry(const struct approvals *approvals, const struct approvals_caller *caller,
                           const struct approvals_wish *wish, const struct subject *subject, bool trusted,
                           const char *key, char id[APPROVALS_ID_SIZE]) {
        char expires[32];
        json_t *entry;

        record_new_id(id);
        id[0] = 'a';
        clock_format(clock_wall_ms() + approvals->expiry_seconds * 1000, expires, sizeof(expires));
        entry = json_checked(json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:O}", "event", "asked",
                                       "id", id, "agent", wish->agent, "client", caller->client, "owner",
                                       caller->owner, "command", json_deep_copy(wish->command), "cwd",
                                       subject->folder, "user", approvals->user.name, "expiresAt", expires,
                                       "variables", approvals->variables));
        json_put(entry, "reason", json_from_text(wish->reason));
        json_put(entry, "program", json_from_text(subject->program));
        json_put(entry, "programSha256", json_string(subject->sha256));
        json_put(entry, "folderDevice", json_integer((json_int_t)subject->folder_device));
        json_put(entry, "folderInode", json_integer((json_int_t)subject->folder_inode));
        json_put(entry, "trusted", json_boolean(trusted));
        json_put(entry, "onSocket", json_boolean(caller->on_socket));
        json_put(entry, "timeoutSeconds", json_integer(wish->timeout_seconds));
        if (wish->key)
                json_put(entry, "key", json_string(key));
        return entry;
}

static void digest_key(const struct approvals_caller *caller, const char *key, char ret[SHA256_HEX_SIZE]) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&text, "%s\n%s\n%s", caller->client, caller->owner, key ? key : "");
        digest_sha256_hex(strbuf_text(&text), text.length, ret);
}

/* The lock is held. What a server began that died before it had written that this key was used. */
static const struct approval *find_asked(const struct approvals *approvals, const char *key) {
        int64_t since_ms = clock_wall_ms() - KEY_MS;

        for (const struct approval *approval = approvals->newest; approval; approval = approval->next) {
                const char *other = json_text(approval->asked, "key");

                if (other && strcmp(other, key) == 0 &&
                    clock_parse(json_text(approval->asked, "at")) >= since_ms)
                        return approval;
        }
        return NULL;
}

int approvals_ask(struct approvals *approvals, const struct approvals_caller *caller,
                  const struct approvals_wish *wish, json_t **ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char id[APPROVALS_ID_SIZE], key[SHA256_HEX_SIZE];
        const struct approval *before;
        struct host_search search;
        struct subject subject;
        struct error why;
        bool trusted;
        int result;

        if (check_command(wish->command, problem) < 0 ||
            check_length("reason", wish->reason, APPROVALS_REASON_MAX, problem) < 0)
                return -1;
        search = (struct host_search){ .user = &approvals->user,
                                       .variables = approvals->variables,
                                       .name = json_string_value(json_array_get(wish->command, 0)),
                                       .folder = wish->cwd,
                                       .state = approvals->state };
        if (host_find(&search, arena, &subject, &why) < 0)
                return problem_from_error(
                        problem, why.kind == ERROR_REFUSED ? PROBLEM_INVALID : PROBLEM_SERVER_LIMIT, &why);
        trusted = is_trusted(approvals, wish, &subject);
        digest_key(caller, wish->key, key);
        pthread_mutex_lock(&approvals->lock);
        before = wish->key ? find_asked(approvals, key) : NULL;
        if (before) {
                *ret = approval_json(before, true);
                pthread_mutex_unlock(&approvals->lock);
                return 0;
        }
        result = count_limits(approvals, caller->owner, trusted, problem);
        if (result == 0)
                result = write_for(approvals,
                                   asked_entry(approvals, caller, wish, &subject, trusted, key, id), problem);
        if (result == 0 && trusted)
                start_job(approvals, id);
        if (result == 0)
                *ret = approval_json(approvals_find(approvals, id), true);
        pthread_mutex_unlock(&approvals->lock);
        return result;
}

/* --- decided --- */

/*
 * On the socket the kernel names a user, not one of the user's programs: the user may decide on a
 * request of such a program.
 */
static bool has_asked(const struct approvals_caller *caller, const struct approval *approval) {
        bool both_on_socket = caller->on_socket && json_is_true(json_object_get(approval->asked, "onSocket"));

        return !both_on_socket && strcmp(json_text(approval->asked, "client"), caller->client) == 0;
}

static int check_decision(const struct approvals *approvals, const struct approvals_caller *caller,
                          const struct approval *approval, bool approve, struct problem *problem) {
        if (has_asked(caller, approval))
                return problem_set(problem, PROBLEM_NOT_ALLOWED,
                                   "you requested this command; another client must decide");
        if (approval->status != PENDING)
                return problem_set(problem, PROBLEM_CONFLICT, "it is %s: nothing is left to decide",
                                   approvals_status_names[approval->status]);
        if (approve && approvals->running >= APPROVALS_RUNNING_MAX)
                return problem_set(problem, PROBLEM_SERVER_LIMIT, "%d commands run on the host already",
                                   APPROVALS_RUNNING_MAX);
        return 0;
}

int approvals_decide(struct approvals *approvals, const struct approvals_caller *caller,
                     const struct approvals_decision *decision, json_t **ret, struct problem *problem) {
        struct approval *approval;
        int result = -1;

        if (check_length("note", decision->note, APPROVALS_REASON_MAX, problem) < 0)
                return -1;
        pthread_mutex_lock(&approvals->lock);
        approval = find_for(approvals, caller, decision->id, problem);
        if (approval && has_expired(approval))
                expire(approvals, approval);
        if (approval && check_decision(approvals, caller, approval, decision->approve, problem) == 0) {
                result = write_for(approvals,
                                   json_pack("{s:s, s:s, s:s, s:s?, s:s?}", "event",
                                             decision->approve ? "approved" : "denied", "id", decision->id,
                                             "client", caller->client, "owner", caller->owner, "note",
                                             decision->note),
                                   problem);
                if (result == 0 && decision->approve)
                        start_job(approvals, decision->id);
                if (result == 0)
                        *ret = approval_json(approval, true);
        }
        pthread_mutex_unlock(&approvals->lock);
        return result;
}

/* --- its life --- */

/* What a server that died had under way is not run again. */
static int settle(struct approvals *approvals, struct error *err) {
        for (const struct approval *approval = approvals->newest; approval; approval = approval->next) {
                const char *detail =
                        approval->began
                                ? "cut off: the server ended while it ran. How far it came is not known; it is not run again"
                                : "it did not run: the server ended before it began. It is not run again";

                if (approval->status == APPROVED &&
                    approvals_write(approvals,
                                    json_pack("{s:s, s:s, s:o}", "event", "ended", "id", approval->id,
                                              "result", host_failed(detail)),
                                    err) < 0)
                        return -1;
        }
        return 0;
}

static int check_trusted(const struct approvals *approvals, struct error *err) {
        const json_t *entry;
        size_t index;

        json_array_foreach (approvals->trusted, index, entry) {
                const char *cwd = json_text(entry, "cwd");
                char *real TEXT_CLEANUP = realpath(cwd, NULL);

                if (real && subject_is_beneath(real, approvals->state))
                        return error_set(
                                err,
                                "shell.trusted: %s lies in the server's state, where agents write: a program that reads "
                                "its folder's configuration would run what they wrote there",
                                cwd);
                if (!real || strcmp(real, cwd) != 0)
                        log_warning(
                                "shell.trusted: %s is no folder without links in its path: nothing is trusted there",
                                cwd);
        }
        return 0;
}

static int find_user(struct approvals *approvals, const char *name, struct error *err) {
        if (!name && geteuid() == 0)
                return error_set(
                        err,
                        "shell.user is missing: a server that runs as root needs the user as whom commands run");
        if (host_user_find(name, &approvals->user, err) < 0)
                return -1;
        if (geteuid() != 0 && !approvals->user.is_ours)
                return error_set(err, "shell.user: this server is not root, and cannot run commands as %s",
                                 name);
        approvals->variables = host_variables(&approvals->user);
        return 0;
}

int approvals_open(const struct approvals_config *config, struct approvals **ret, struct error *err) {
        char *folder TEXT_CLEANUP = path_join(config->state, APPROVALS_FOLDER);
        const struct jobs_config pool = { .threads = APPROVALS_RUNNING_MAX };
        struct approvals *approvals = calloc(1, sizeof(*approvals));

        if (!approvals || pthread_mutex_init(&approvals->lock, NULL) != 0)
                abort();
        approvals->expiry_seconds = config->expiry_seconds;
        approvals->tell = config->tell;
        approvals->context = config->context;
        approvals->trusted =
                config->trusted ? json_checked(json_deep_copy(config->trusted)) : json_checked(json_array());
        approvals->stop = eventfd(0, EFD_CLOEXEC);
        approvals->state = realpath(config->state, NULL);
        if (approvals->stop < 0 || !approvals->state) {
                (void)error_set(err, "cannot use %s: %s", config->state, strerror(errno));
                goto failed;
        }
        if (find_user(approvals, config->user, err) < 0 || check_trusted(approvals, err) < 0 ||
            audit_open(folder, clock_wall_ms() - APPROVALS_KEPT_MS - config->expiry_seconds * 1000,
                       approvals_take_entry, approvals, &approvals->audit, err) < 0 ||
            settle(approvals, err) < 0 || jobs_open(&pool, &approvals->jobs, err) < 0)
                goto failed;
        approvals_look(approvals);
        *ret = approvals;
        return 0;
failed:
        approvals_close(approvals);
        return -1;
}

void approvals_close(struct approvals *approvals) {
        const uint64_t one = 1;

        if (!approvals)
                return;
        if (approvals->stop >= 0)
                (void)!descriptor_write(approvals->stop, &one, sizeof(one));
        jobs_close(approvals->jobs);
        approvals_forget_all(approvals);
        audit_close(approvals->audit);
        host_user_release(&approvals->user);
        json_decref(approvals->variables);
        json_decref(approvals->trusted);
        close_descriptor(&approvals->stop);
        free(approvals->state);
        pthread_mutex_destroy(&approvals->lock);
        free(approvals);
}
