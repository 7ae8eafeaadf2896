/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parking, and what comes after it. The worker takes the checkpoint into a file that it gets from
 * here (sandbox_checkpoint.h); long work (hashing it, checking that it is unchanged) is a thread's,
 * as files are. Its content is never read.
 *
 *     park: files out -> PARK -> PARKED -> digest, its name -> PLACE_PARKED
 *     open: greeted -> files in -> digest -> RESTORE -> the runtime's "restored" -> PLACE_OPENED
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "providers/local/sandbox/sandbox_checkpoint.h"
#include "providers/local/session/session_parts.h"
#include "sessions/checkpoint.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The worker gives the runtime this time beside the checkpoint's own, and more for the disk. */
#define PARKING_LATE_MS 60000
#define RESTORING_LATE_MS 7000
/*
 * A checkpoint that was taken in time gets more time to be restored: otherwise a busy machine would
 * lose it.
 */
#define RESTORING_MS(taken_ms) (30000 + 2 * (taken_ms))

static int open_workspace(const struct place_session *session, struct workspace *ret,
                          struct problem *problem) {
        const struct local_environment *environment = &session->program.environment;
        const struct workspaces workspaces = { .folder = environment->workspaces,
                                               .stack = environment->stack };

        return workspace_open(&workspaces, session->owner, session->id, ret, problem);
}

/* Checks its envelope and its length. ERROR_NOT_FOUND if it was not finished. */
static int look_at_envelope(int file, const char *id, int64_t mark, struct error *err) {
        struct sandbox_envelope envelope;
        char bytes[SANDBOX_ENVELOPE_SIZE];
        struct stat status;

        if (fstat(file, &status) < 0 || pread(file, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
                return error_set_kind(err, ERROR_NOT_FOUND, "it is not whole");
        if (sandbox_envelope_read(bytes, &envelope, err) < 0)
                return -1;
        if (strcmp(envelope.id, id) != 0 || (mark >= 0 && envelope.mark != mark) ||
            envelope.bytes + SANDBOX_ENVELOPE_SIZE != (uint64_t)status.st_size)
                return error_set(err, "its checkpoint is another's, an older one, or cut off");
        return 0;
}

/* --- parking --- */

static int send_wish(struct place_session *session, unsigned type, int file, struct error *err) {
        struct sandbox_wish wish = { .bytes_max = session->checkpoint_bytes_max,
                                     .time_max_ms = session->checkpoint_ms };

        memcpy(wish.id, session->id, strlen(session->id) + 1);
        if (session->outgoing.length > 0)
                return error_set(err, "its worker does not listen");
        return frame_send_now(session->lasting.socket, type, &wish, sizeof(wish), &file, 1, err);
}

void session_park_arm(struct place_session *session) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        int file DESCRIPTOR_CLEANUP = -1;
        struct problem problem = { 0 };
        struct error err = { 0 };

        if (!session->owner || open_workspace(session, &workspace, &problem) < 0)
                return;
        /* A checkpoint that was taken without a server is for adopt(). */
        file = session->kept ? checkpoint_open_name(&workspace, CHECKPOINT_PARKED) : -1;
        if (file >= 0 && look_at_envelope(file, session->id, session->mark, &err) == 0)
                return;
        close_descriptor(&file);
        if (checkpoint_make(&workspace, CHECKPOINT_PARKED, &file, &problem) < 0 ||
            send_wish(session, MESSAGE_ARM, file, &err) < 0)
                log_debug("session %s: its worker cannot park by itself: %s%s", session->id, problem.detail,
                          err.message);
}

static void stay(struct place_session *session, const char *why, struct place_event *ret) {
        session->parking = PARKING_NOT;
        session->memory_until_ms = 0;
        /* What of it is there takes room that others may need. */
        if (session->memory >= 0)
                (void)!ftruncate(session->memory, 0);
        close_descriptor(&session->memory);
        *ret = (struct place_event){ .type = PLACE_STAYED, .reason = arena_strdup(session->arena, why) };
}

bool session_park_ask(struct place_session *session, struct place_event *ret) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct problem problem;
        struct error err;

        if (session->job.failed) {
                stay(session, session->job.problem.detail, ret);
                return true;
        }
        if (open_workspace(session, &workspace, &problem) < 0 ||
            checkpoint_make(&workspace, CHECKPOINT_PARKING, &session->memory, &problem) < 0) {
                stay(session, problem.detail, ret);
                return true;
        }
        if (send_wish(session, MESSAGE_PARK, session->memory, &err) < 0) {
                stay(session, err.message, ret);
                return true;
        }
        session->parking = PARKING_TAKEN;
        session->memory_until_ms = clock_now_ms() + session->checkpoint_ms + PARKING_LATE_MS;
        return false;
}

/* By the thread. */
static int store(struct place_session *session, const struct interrupt *interrupt, struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        const struct workspace_limits limits = { .free_min = session->place->bounds.free_min };
        struct error err;

        if (look_at_envelope(session->memory, session->id, session->mark, &err) < 0)
                return problem_from_error(problem, PROBLEM_PLACE_FAILED, &err);
        if (open_workspace(session, &workspace, problem) < 0 ||
            workspace_check_free(&workspace, &limits, 0, problem) < 0)
                return -1;
        return checkpoint_keep(&workspace, CHECKPOINT_PARKING, session->memory,
                               session->checkpoint.digest[0] ? &session->checkpoint : NULL, interrupt,
                               &session->taken, problem);
}

bool session_park_told(struct place_session *session, const char *why, struct place_event *ret) {
        struct error err;

        if (session->parking != PARKING_TAKEN)
                return false;
        session->memory_until_ms = 0;
        if (why[0]) {
                stay(session, why, ret);
                return true;
        }
        session->parking = PARKING_STORED;
        if (session_files_begin_job(session, store, &err) == 0)
                return false;
        stay(session, err.message, ret);
        return true;
}

void session_park_end(struct place_session *session, struct place_event *ret) {
        if (session->job.failed) {
                stay(session, session->job.problem.detail, ret);
                return;
        }
        session->parking = PARKING_NOT;
        session->checkpoint = session->taken;
        close_descriptor(&session->memory);
        *ret = (struct place_event){ .type = PLACE_PARKED, .checkpoint = session->taken };
}

/* --- restoring --- */

static void open_without(struct place_session *session, const char *why, struct place_event *ret) {
        session->restoring = RESTORING_NOT;
        session->opened = true;
        session->memory_until_ms = 0;
        close_descriptor(&session->memory);
        *ret = (struct place_event){ .type = PLACE_OPENED, .reason = arena_strdup(session->arena, why) };
}

/*
 * By the thread. A checkpoint that was taken when more was allowed is not given to a sandbox that
 * may have less.
 */
static int load_checkpoint(struct place_session *session, const struct interrupt *interrupt,
                           struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct error err;

        if (open_workspace(session, &workspace, problem) < 0 ||
            checkpoint_open(&workspace, &session->checkpoint, interrupt, &session->memory, problem) < 0)
                return -1;
        if (look_at_envelope(session->memory, session->id, -1, &err) < 0)
                return problem_from_error(problem, PROBLEM_PLACE_FAILED, &err);
        if (session->checkpoint.bytes > session->checkpoint_bytes_max + SANDBOX_CHECKPOINT_EXTRA_MAX)
                return problem_set(problem, PROBLEM_PLACE_FAILED,
                                   "its checkpoint has %llu bytes, and may have %llu now",
                                   (unsigned long long)session->checkpoint.bytes,
                                   (unsigned long long)session->checkpoint_bytes_max);
        return 0;
}

/* Files that could not be put in are tried again, and named, with the first execution; what needs them is lost, and named as well. */
bool session_restore_begin(struct place_session *session, struct place_event *ret) {
        struct error err;

        session->restoring = RESTORING_FILES;
        if (session_files_kept(session) && session_files_begin(session, false, &err) == 0)
                return false;
        return session_restore_look(session, ret);
}

bool session_restore_look(struct place_session *session, struct place_event *ret) {
        struct error err;

        session->restoring = RESTORING_LOOKED_AT;
        if (session_files_begin_job(session, load_checkpoint, &err) == 0)
                return false;
        open_without(session, err.message, ret);
        return true;
}

static json_t *expected(const struct place_session *session) {
        json_t *list = json_checked(json_array()), *name;
        size_t index;

        json_array_foreach (session->contexts, index, name)
                json_add(list, json_pack("{s:O, s:i}", "context", name, "generation", 1));
        return list;
}

bool session_restore_ask(struct place_session *session, struct place_event *ret) {
        uint64_t bytes = session->checkpoint.bytes - SANDBOX_ENVELOPE_SIZE;
        json_t *contexts JSON_CLEANUP = expected(session);
        const struct request request = { .type = REQUEST_RESTORE,
                                         .bytes = (int64_t)bytes,
                                         .max_ms = RESTORING_MS(session->checkpoint_ms),
                                         .contexts = contexts };
        struct strbuf payload STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        if (session->job.failed) {
                open_without(session, session->job.problem.detail, ret);
                return true;
        }
        strbuf_append_bytes(&payload, &bytes, sizeof(bytes));
        request_write(&request, &payload);
        if (lseek(session->memory, SANDBOX_ENVELOPE_SIZE, SEEK_SET) < 0 || session->outgoing.length > 0 ||
            frame_send_now(session->lasting.socket, MESSAGE_RESTORE, payload.data, payload.length,
                           &session->memory, 1, &err) < 0) {
                open_without(session, err.message[0] ? err.message : "its worker does not listen", ret);
                return true;
        }
        close_descriptor(&session->memory);
        session->restoring = RESTORING_LOADED;
        session->memory_until_ms = clock_now_ms() + RESTORING_MS(session->checkpoint_ms) + RESTORING_LATE_MS;
        return false;
}

bool session_restore_end(struct place_session *session, const struct report *report,
                         struct place_event *ret) {
        if (session->restoring != RESTORING_LOADED)
                return false;
        open_without(session, report->reason ? report->reason : "", ret);
        ret->loaded = !report->reason;
        return true;
}

/* --- a worker that has parked by itself --- */

int session_park_adopt(struct place *place, const struct place_opening *opening, int64_t last,
                       struct place_checkpoint *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct place_session session = { .id = opening->id, .owner = opening->owner };
        int file DESCRIPTOR_CLEANUP = -1;
        struct problem problem;

        if (!opening->owner ||
            local_program_load(((const struct session_place *)place)->root, opening->environment,
                               opening->agent, arena, &session.program, err) < 0 ||
            open_workspace(&session, &workspace, &problem) < 0)
                return 0;
        file = checkpoint_open_name(&workspace, CHECKPOINT_PARKED);
        if (file < 0)
                return 0;
        if (look_at_envelope(file, opening->id, last, err) < 0)
                return err->kind == ERROR_NOT_FOUND ? 0 : -1;
        if (checkpoint_keep(&workspace, CHECKPOINT_PARKED, file, opening->checkpoint, NULL, ret, &problem) <
            0)
                return error_set(err, "%s", problem.detail);
        return 1;
}
