/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Followers: each has an eventfd that is raised when there may be something for it, and is lowered when it has been told that there
 * is nothing, both under the lock: so none is missed.
 */
#include "sessions/engine_parts.h"

#include "base/files.h"
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void raise_descriptor(int descriptor) {
        const uint64_t one = 1;

        if (write(descriptor, &one, sizeof(one)) < 0 && errno != EAGAIN)
                abort();
}

static void clear_notice(struct engine_notice *notice) {
        free(notice->owner);
        free(notice->environment);
        free(notice->agent);
        json_decref(notice->data);
        *notice = (struct engine_notice){ 0 };
}

void engine_tell(struct session *session, const char *name, json_t *data) {
        const struct record_session *record = &session->record;
        struct engine *engine = session->engine;
        struct engine_notice *notice;

        if (!engine || !engine->followers) {
                json_decref(data);
                return;
        }
        notice = &engine->notices[engine->notice_count++ % ENGINE_NOTICES];
        clear_notice(notice);
        *notice = (struct engine_notice){ record_copy_text(record->owner),
                                          record_copy_text(record->environment),
                                          record_copy_text(record->agent), name, json_checked(data) };
        for (struct engine_follower *follower = engine->followers; follower; follower = follower->next)
                raise_descriptor(follower->descriptor);
}

void engine_notices_free(struct engine *engine) {
        for (size_t i = 0; i < ENGINE_NOTICES; i++)
                clear_notice(&engine->notices[i]);
}

void engine_followers_wake(struct session *session, const struct execution *execution) {
        for (struct engine_follower *follower = session->followers; follower; follower = follower->next) {
                if (follower->of_session ? !execution : follower->execution == execution)
                        raise_descriptor(follower->descriptor);
        }
}

struct engine_follower *engine_follower_new(struct engine *engine, struct session *session,
                                            struct execution *execution, int64_t from) {
        struct engine_follower *follower = calloc(1, sizeof(*follower));

        if (!follower)
                abort();
        *follower = (struct engine_follower){
                .engine = engine,
                .session = session,
                .execution = execution,
                .from = from > 1 ? from : 1,
                .descriptor = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK),
                .disconnects = execution && execution->interrupt_on_disconnect,
        };
        if (execution)
                execution_hold(execution);
        if (session) {
                follower->next = session->followers;
                session->followers = follower;
        }
        return follower;
}

int engine_follower_descriptor(const struct engine_follower *follower) {
        return follower->descriptor;
}

static bool may_hear(const struct engine_follower *follower, const struct engine_notice *notice) {
        const struct engine_caller *caller = &follower->caller;

        return ((follower->all_owners && caller->observes) ||
                (caller->owner && strcmp(caller->owner, notice->owner) == 0)) &&
               engine_may_use(caller, notice->environment, notice->agent);
}

static enum engine_next next_of_all(struct engine_follower *follower, struct engine_event *ret) {
        struct engine *engine = follower->engine;

        if (engine->notice_count - follower->from > ENGINE_NOTICES) {
                follower->from = engine->notice_count - ENGINE_NOTICES;
                *ret = (struct engine_event){ ++follower->told, "missed", json_checked(json_object()) };
                return ENGINE_EVENT;
        }
        while (follower->from < engine->notice_count) {
                const struct engine_notice *notice = &engine->notices[follower->from++ % ENGINE_NOTICES];

                if (!may_hear(follower, notice))
                        continue;
                *ret = (struct engine_event){ ++follower->told, notice->name, json_incref(notice->data) };
                return ENGINE_EVENT;
        }
        return ENGINE_NOTHING;
}

static enum engine_next next_of_session(struct engine_follower *follower, struct engine_event *ret) {
        if (!follower->session || follower->session->gone)
                return ENGINE_ENDED;
        if (!follower->changed)
                return ENGINE_NOTHING;
        follower->changed = false;
        *ret = (struct engine_event){ follower->from++, "status", session_json(follower->session) };
        return ENGINE_EVENT;
}

static enum engine_next next_of_execution(struct engine_follower *follower, struct engine_event *ret) {
        if (follower->kept) {
                if (!execution_kept_event(follower->kept, follower->from, ret))
                        return ENGINE_ENDED;
        } else if (!execution_event(follower->execution, follower->from, ret)) {
                return follower->execution->status == EXECUTION_ENDED && !follower->execution->unwritten
                               ? ENGINE_ENDED
                               : ENGINE_NOTHING;
        }
        follower->from = ret->id + 1;
        return ENGINE_EVENT;
}

enum engine_next engine_follower_next(struct engine_follower *follower, struct engine_event *ret) {
        enum engine_next next;
        uint64_t ignored;

        pthread_mutex_lock(&follower->engine->lock);
        next = follower->of_all       ? next_of_all(follower, ret)
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
        if (follower->session) {
                struct engine_follower **link = &follower->session->followers;

                while (*link != follower)
                        link = &(*link)->next;
                *link = follower->next;
                if (follower->disconnects && follower->execution->status != EXECUTION_ENDED &&
                    !is_followed(follower->session, follower->execution))
                        session_interrupt(engine, follower->session, follower->execution);
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

void engine_follow_all(struct engine *engine, const struct engine_caller *caller,
                       struct engine_follower **ret) {
        struct engine_follower *follower;

        pthread_mutex_lock(&engine->lock);
        follower = engine_follower_new(engine, NULL, NULL, 0);
        follower->of_all = true;
        follower->all_owners = caller->observes;
        follower->caller = *caller;
        follower->from = engine->notice_count;
        follower->next = engine->followers;
        engine->followers = follower;
        pthread_mutex_unlock(&engine->lock);
        *ret = follower;
}

int engine_follow_session(struct engine *engine, const struct engine_caller *caller, const char *id,
                          struct engine_follower **ret, struct problem *problem) {
        struct session *session;

        pthread_mutex_lock(&engine->lock);
        session = engine_find(engine, caller, id, problem);
        if (session) {
                *ret = engine_follower_new(engine, session, NULL, 1);
                (*ret)->of_session = (*ret)->changed = true;
        }
        pthread_mutex_unlock(&engine->lock);
        return session ? 0 : -1;
}
