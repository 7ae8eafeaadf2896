/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Followers: each has an eventfd that is raised when there may be something for it, and is lowered when it has been told that there
 * is nothing, both under the lock: so none is missed.
 */
#include "sessions/engine_parts.h"
#include "sessions/session_far.h"

#include "base/files.h"
#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void raise_descriptor(int descriptor) {
        const uint64_t one = 1;

        if (write(descriptor, &one, sizeof(one)) < 0 && errno != EAGAIN)
                abort();
}

void engine_follower_raise(const struct engine_follower *follower) {
        raise_descriptor(follower->descriptor);
}

static void clear_notice(struct engine_notice *notice) {
        free(notice->owner);
        free(notice->environment);
        free(notice->agent);
        *notice = (struct engine_notice){ 0 };
}

static void tell(struct engine *engine, const struct engine_news *news, int64_t n) {
        struct engine_notice *notice;

        if (!engine->followers)
                return;
        notice = &engine->notices[engine->notice_count++ % ENGINE_NOTICES];
        clear_notice(notice);
        *notice = (struct engine_notice){ .owner = record_copy_text(news->owner),
                                          .environment = record_copy_text(news->environment),
                                          .agent = record_copy_text(news->agent),
                                          .name = news->name,
                                          .of = news->of,
                                          .n = n };
        snprintf(notice->id, sizeof(notice->id), "%s", news->id);
        snprintf(notice->status, sizeof(notice->status), "%s", news->status);
        for (struct engine_follower *follower = engine->followers; follower; follower = follower->next)
                raise_descriptor(follower->descriptor);
}

void engine_tell(struct session *session, const char *name, int64_t n, const char *status) {
        const struct record_session *record = &session->record;
        const struct engine_news news = { name,          ENGINE_OF_SESSIONS,  record->id,
                                          record->owner, record->environment, record->agent,
                                          status };

        if (session->engine)
                tell(session->engine, &news, n);
}

void engine_tell_beside(struct engine *engine, const struct engine_news *news) {
        pthread_mutex_lock(&engine->lock);
        tell(engine, news, 0);
        pthread_mutex_unlock(&engine->lock);
}

void engine_notices_free(struct engine *engine) {
        for (size_t i = 0; i < ENGINE_NOTICES; i++)
                clear_notice(&engine->notices[i]);
}

static bool has_result(const struct execution *execution) {
        return execution && execution->status == EXECUTION_ENDED && !execution->unwritten;
}

void engine_followers_wake(struct session *session, const struct execution *execution) {
        for (struct engine_follower *follower = session->followers; follower; follower = follower->next) {
                if (follower->of_session ? execution != NULL : follower->execution != execution)
                        continue;
                if (follower->only_end && !has_result(follower->execution))
                        continue;
                if (session->hears)
                        follower->due = session->wakes_due = session->engine->wakes_due = true;
                else
                        raise_descriptor(follower->descriptor);
        }
}

void engine_followers_wake_due(struct session *session) {
        session->wakes_due = false;
        for (struct engine_follower *follower = session->followers; follower; follower = follower->next) {
                if (follower->due)
                        raise_descriptor(follower->descriptor);
                follower->due = false;
        }
}

struct engine_follower *engine_follower_new(struct engine *engine, struct problem *problem) {
        struct engine_follower *follower;
        int descriptor = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

        if (descriptor < 0) {
                (void)problem_set(problem, PROBLEM_EXHAUSTED, "what happens cannot be followed: %s",
                                  strerror(errno));
                return NULL;
        }
        follower = calloc(1, sizeof(*follower));
        if (!follower)
                abort();
        *follower = (struct engine_follower){ .engine = engine, .from = 1, .descriptor = descriptor };
        return follower;
}

void engine_follower_begin(struct engine_follower *follower, struct session *session,
                           struct execution *execution, int64_t from) {
        follower->session = session;
        follower->execution = execution;
        follower->from = from > 1 ? from : 1;
        follower->disconnects = execution && execution->interrupt_on_disconnect;
        if (execution)
                execution_hold(execution);
        if (session) {
                follower->next = session->followers;
                session->followers = follower;
        }
}

int engine_follower_descriptor(const struct engine_follower *follower) {
        return follower->descriptor;
}

void engine_follower_await_end(struct engine_follower *follower) {
        pthread_mutex_lock(&follower->engine->lock);
        follower->only_end = true;
        pthread_mutex_unlock(&follower->engine->lock);
}

static bool may_hear(const struct engine_follower *follower, const struct engine_notice *notice) {
        const struct engine_caller *caller = &follower->caller;
        bool all = notice->of == ENGINE_OF_APPROVALS ? follower->what & ENGINE_OF_ALL_APPROVALS
                                                     : follower->all_owners && caller->observes;

        return follower->what & notice->of &&
               (all || (caller->owner && strcmp(caller->owner, notice->owner) == 0)) &&
               engine_may_use(caller, notice->environment, notice->agent);
}

/*
 * The session as it is by now, with the status that it had then. NULL where it has ended since: that is told, too. Kept whole for whoever is
 * behind, sessions with many labels would take up more memory than all else.
 */
static json_t *notice_json(struct engine *engine, const struct engine_notice *notice) {
        const struct session *session;
        json_t *json;

        if (notice->of != ENGINE_OF_SESSIONS)
                return json_checked(json_pack("{s:s, s:s, s:s*, s:s?, s:s}", "id", notice->id, "owner",
                                              notice->owner, "environment", notice->environment, "agent",
                                              notice->agent, "status", notice->status));
        if (notice->n > 0)
                return json_checked(json_pack("{s:s, s:I, s:s}", "session", notice->id, "n",
                                              (json_int_t)notice->n, "status", notice->status));
        if (strcmp(notice->status, ENGINE_ENDED_STATUS) == 0)
                return json_checked(json_pack("{s:s, s:s, s:s}", "id", notice->id, "owner", notice->owner,
                                              "status", notice->status));
        session = engine_find_id(engine, notice->id);
        if (!session || !session_lives(session))
                return NULL;
        json = session_json(session);
        json_put(json, "status", json_string(notice->status));
        return json;
}

static enum engine_next next_of_all(struct engine_follower *follower, struct engine_event *ret) {
        struct engine *engine = follower->engine;

        if (follower->missed || engine->notice_count - follower->from > ENGINE_NOTICES) {
                if (!follower->missed)
                        follower->from = engine->notice_count - ENGINE_NOTICES;
                follower->missed = false;
                *ret = (struct engine_event){ ++follower->told, "missed", json_checked(json_object()) };
                return ENGINE_EVENT;
        }
        while (follower->from < engine->notice_count) {
                const struct engine_notice *notice = &engine->notices[follower->from++ % ENGINE_NOTICES];

                json_t *data = may_hear(follower, notice) ? notice_json(engine, notice) : NULL;

                if (!data)
                        continue;
                *ret = (struct engine_event){ ++follower->told, notice->name, data };
                return ENGINE_EVENT;
        }
        return ENGINE_NOTHING;
}

static enum engine_next next_of_session(struct engine_follower *follower, struct engine_event *ret) {
        if (!follower->session || !session_lives(follower->session))
                return ENGINE_ENDED;
        if (!follower->changed)
                return ENGINE_NOTHING;
        follower->changed = false;
        *ret = (struct engine_event){ follower->from++, "status", session_json(follower->session) };
        return ENGINE_EVENT;
}

static enum engine_next next_of_files(const struct engine_follower *follower) {
        const struct session *session = follower->session;

        return !session || !session_lives(session) || session->brought >= follower->from ? ENGINE_ENDED
                                                                                         : ENGINE_NOTHING;
}

static enum engine_next next_of_execution(struct engine_follower *follower, struct engine_event *ret) {
        if (follower->kept) {
                if (!execution_kept_event(follower->kept, follower->from, ret))
                        return ENGINE_ENDED;
        } else if (follower->only_end || !execution_event(follower->execution, follower->from, ret)) {
                return has_result(follower->execution) ? ENGINE_ENDED : ENGINE_NOTHING;
        }
        follower->from = ret->id + 1;
        return ENGINE_EVENT;
}

enum engine_next engine_follower_next(struct engine_follower *follower, struct engine_event *ret) {
        enum engine_next next;
        uint64_t ignored;

        pthread_mutex_lock(&follower->engine->lock);
        next = follower->far          ? far_follower_next(follower, ret)
               : follower->of_all     ? next_of_all(follower, ret)
               : follower->of_files   ? next_of_files(follower)
               : follower->of_session ? next_of_session(follower, ret)
                                      : next_of_execution(follower, ret);
        if (next == ENGINE_NOTHING && read(follower->descriptor, &ignored, sizeof(ignored)) < 0 &&
            errno != EAGAIN)
                abort();
        pthread_mutex_unlock(&follower->engine->lock);
        return next;
}

static bool is_followed(const struct session *session, const struct execution *execution) {
        for (const struct engine_follower *other = session->followers; other; other = other->next) {
                if (other->execution == execution)
                        return true;
        }
        return false;
}

void engine_follower_close(struct engine_follower *follower) {
        struct engine *engine;

        if (!follower)
                return;
        engine = follower->engine;
        pthread_mutex_lock(&engine->lock);
        if (follower->far && far_follower_close(follower)) {
                pthread_mutex_unlock(&engine->lock);
                return;
        }
        if (follower->session) {
                struct session *session = follower->session;
                struct engine_follower **link = &session->followers;

                while (*link != follower)
                        link = &(*link)->next;
                *link = follower->next;
                if (follower->disconnects && follower->execution->status != EXECUTION_ENDED &&
                    !is_followed(session, follower->execution)) {
                        session_turn_take(session);
                        if (follower->execution->status != EXECUTION_ENDED)
                                session_interrupt(engine, session, follower->execution);
                        session_turn_give(session);
                }
        }
        if (follower->of_all) {
                struct engine_follower **link = &engine->followers;

                while (*link != follower)
                        link = &(*link)->next;
                *link = follower->next;
        }
        execution_drop(follower->execution);
        json_decref(follower->kept);
        pthread_mutex_unlock(&engine->lock);
        close_descriptor(&follower->descriptor);
        free(follower);
}

int engine_follow_all(struct engine *engine, const struct engine_caller *caller, unsigned what, bool again,
                      struct engine_follower **ret, struct problem *problem) {
        struct engine_follower *follower = engine_follower_new(engine, problem);

        if (!follower)
                return -1;
        pthread_mutex_lock(&engine->lock);
        follower->of_all = true;
        follower->what = what;
        follower->all_owners = caller->observes;
        follower->caller = *caller;
        follower->missed = again;
        follower->from = engine->notice_count;
        follower->next = engine->followers;
        engine->followers = follower;
        pthread_mutex_unlock(&engine->lock);
        *ret = follower;
        return 0;
}

int engine_follow_session(struct engine *engine, const struct engine_caller *caller, const char *id,
                          struct engine_follower **ret, struct problem *problem) {
        struct engine_follower *follower = engine_follower_new(engine, problem);
        struct session *session;

        if (!follower)
                return -1;
        pthread_mutex_lock(&engine->lock);
        session = session_turn_find(engine, caller, id, false, SESSION_AS_STORED, problem);
        if (session) {
                engine_follower_begin(follower, session, NULL, 1);
                follower->of_session = follower->changed = true;
                session_turn_give(session);
        }
        pthread_mutex_unlock(&engine->lock);
        if (!session) {
                engine_follower_close(follower);
                return -1;
        }
        *ret = follower;
        return 0;
}

/* One that is under way may have passed what was written just now: then it is done once more. */
int engine_bring_files(struct engine *engine, const struct engine_caller *caller, const char *id,
                       struct engine_follower **ret, struct problem *problem) {
        struct engine_follower *follower;
        struct session *session;
        struct problem ignored;

        *ret = NULL;
        if (!engine->config.place->class->bring)
                return 0;
        follower = engine_follower_new(engine, problem);
        if (!follower)
                return -1;
        pthread_mutex_lock(&engine->lock);
        session = session_turn_find(engine, caller, id, false, SESSION_AS_KNOWN, &ignored);
        if (session) {
                int64_t wanted = session->brought + (session->bringing ? 2 : 1);

                session->bring_wanted = session->bring_wanted > wanted ? session->bring_wanted : wanted;
                session_go_on(engine, session);
                if (session->brought < wanted) {
                        *ret = follower;
                        engine_follower_begin(follower, session, NULL, wanted);
                        follower->of_files = true;
                        follower->from = wanted;
                }
                session_turn_give(session);
        }
        pthread_mutex_unlock(&engine->lock);
        engine_wake(engine);
        if (!*ret)
                engine_follower_close(follower);
        return 0;
}
