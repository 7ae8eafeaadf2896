/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime in the sandbox says, as events. It is believed as far as it fits what is known: that an execution runs, which one,
 * and that it has not ended yet. A runtime that says what cannot be was taken over; that is its session's trouble, and its end.
 */
#include "base/clock.h"
#include "base/json.h"
#include "providers/local/session/session_parts.h"

#include <string.h>

/* What the code used since it was asked to run; and whether the sandbox's own limit killed something meanwhile. */
static bool measure_execution(struct place_session *session, const struct session_execution *execution,
                              struct place_event *ret) {
        const struct cgroup_usage *before = &execution->before;
        struct cgroup_usage now;

        sandbox_lasting_measure(&session->lasting, &now);
        if (!now.known && session->over)
                now = session->ending.usage;
        if (!now.known)
                return false;
        ret->cpu_ms = now.cpu_us > before->cpu_us ? (int64_t)((now.cpu_us - before->cpu_us) / 1000) : 0;
        ret->peak_memory_bytes = now.peak_memory_bytes;
        return now.memory_kills > before->memory_kills;
}

/* What of that number runs, or NULL. */
static struct session_execution *running(struct place_session *session, int64_t n) {
        return n <= 0                      ? NULL
               : n == session->execution.n ? &session->execution
               : n == session->command.n   ? &session->command
                                           : NULL;
}

/*
 * A repeated event may be of an execution that the engine knows to have ended: its record was
 * written, and the server died before the worker got the acknowledgement. Such an event is old, and
 * the next execution may have been requested meanwhile.
 */
static bool is_past(struct place_session *session, int64_t n) {
        if (n <= 0 || running(session, n))
                return false;
        /*
         * An execution beside a command is not part of what is kept of the command: its request
         * ended with its server.
         */
        if (session->for_command && n <= session->mark_found)
                return true;
        return session->position <= session->replayed && n <= session->mark;
}

static void take_done(struct place_session *session, struct session_execution *execution,
                      const struct report *report, struct place_event *ret) {
        bool killed_for_memory = measure_execution(session, execution, ret);

        ret->type = PLACE_DONE;
        ret->status = report->status;
        ret->exit_code = report->exit_code;
        ret->value = report->value;
        ret->error = report->error;
        ret->ended = report->ended;
        ret->detail = report->detail;
        ret->wall_ms = report->wall_ms;
        ret->stdout_bytes = report->stdout_bytes;
        ret->stderr_bytes = report->stderr_bytes;
        ret->displays_dropped = report->displays_dropped;
        ret->left = report->left;
        if (killed_for_memory && (report->status == REPORT_KILLED || report->exit_code == 137)) {
                ret->status = REPORT_MEMORY;
                ret->exit_code = -1;
                ret->detail = "the sandbox's memory limit was exceeded";
        }
        *execution = (struct session_execution){ 0 };
}

static int read_started(struct place_session *session, const struct report *report, struct place_event *ret,
                        struct error *err) {
        struct session_execution *execution = running(session, report->n);
        static const enum place_was was[] = { [REPORT_NEW] = PLACE_NEW,
                                              [REPORT_KEPT] = PLACE_KEPT,
                                              [REPORT_WAS_RESTORED] = PLACE_RESTORED,
                                              [REPORT_LOST] = PLACE_LOST };

        if (!execution || execution->started)
                return error_set(err, "it began what was not asked of it");
        execution->started = true;
        ret->type = PLACE_STARTED;
        ret->context = report->context;
        ret->generation = report->generation;
        ret->was = was[report->was];
        ret->reason = report->reason;
        ret->restored = report->restored;
        ret->lost = report->lost;
        return 1;
}

static int read_hello(struct place_session *session, const struct report *report, struct error *err) {
        if (session->greeted)
                return error_set(err, "it began anew");
        if (report->protocol != REPORT_PROTOCOL)
                return error_set(err, "it speaks protocol %lld, and this program speaks %d",
                                 (long long)report->protocol, REPORT_PROTOCOL);
        session->greeted = true;
        return 0;
}

static int read_refused(struct place_session *session, const struct report *report, struct place_event *ret) {
        struct session_execution *execution = running(session, report->n);

        if (!execution)
                return 0;
        ret->type = PLACE_DONE;
        ret->status = REPORT_FAILED;
        ret->exit_code = -1;
        ret->detail = report->reason;
        *execution = (struct session_execution){ 0 };
        return 1;
}

/*
 * No code of a user has run in it yet, but it is not trusted: its words are only shown to people.
 */
static void read_prepared(struct place_session *session, const struct report *report) {
        struct strbuf missing STRBUF_CLEANUP = STRBUF_INIT;
        const json_t *row;
        size_t index;

        if (session->prepared.over)
                return;
        json_array_foreach (report->missing, index, row)
                strbuf_printf(&missing, "%s%s (%s)", index > 0 ? ", " : "", json_text(row, "module"),
                              json_text(row, "reason"));
        session->prepared = (struct session_prepared){
                .over = true,
                .problem = report->reason ? arena_strdup(session->arena, report->reason) : NULL,
                .missing = missing.length > 0 ? arena_strdup(session->arena, strbuf_text(&missing)) : NULL,
        };
}

int session_event_read(struct place_session *session, struct place_event *ret, struct error *err) {
        struct report report;

        if (report_read(&session->message, &report, err) < 0)
                return -1;
        ret->n = report.n;
        if (is_past(session, report.n)) {
                session->heard_later = session->position;
                session->heard_until_ms = 0;
                return 0;
        }
        switch (report.type) {
        case REPORT_HELLO:
                return read_hello(session, &report, err);
        case REPORT_STARTED:
                return read_started(session, &report, ret, err);
        case REPORT_OUTPUT:
        case REPORT_DISPLAY:
                if (!running(session, report.n))
                        return error_set(err, "it showed something of what does not run");
                ret->type = report.type == REPORT_OUTPUT ? PLACE_OUTPUT : PLACE_DISPLAY;
                ret->is_stderr = report.is_stderr;
                ret->bytes = report.bytes;
                ret->length = report.length;
                ret->is_main = report.is_main;
                ret->file = report.file;
                session->display = report.display;
                ret->display = &session->display;
                return 1;
        case REPORT_DONE:
                if (!running(session, report.n))
                        return error_set(err, "it ended what does not run");
                take_done(session, running(session, report.n), &report, ret);
                return 1;
        case REPORT_PREPARED:
                read_prepared(session, &report);
                return 0;
        case REPORT_RESTARTED:
                ret->type = PLACE_RESTARTED;
                ret->context = report.context;
                return 1;
        case REPORT_RESTORED:
                return session_restore_end(session, &report, ret);
        case REPORT_REFUSED:
                return read_refused(session, &report, ret);
        default:
                return 0;
        }
}

void session_event_cut(struct place_session *session, struct session_execution *execution,
                       struct place_event *ret) {
        const struct sandbox_ending *ending = &session->ending;
        bool memory = measure_execution(session, execution, ret) || ending->sockets || ending->locks;

        ret->type = PLACE_DONE;
        ret->id = session->position;
        ret->n = execution->n;
        ret->exit_code = -1;
        ret->status = execution->by != REPORT_OK ? execution->by : memory ? REPORT_MEMORY : REPORT_KILLED;
        ret->ended = session->why;
        ret->detail = session->why;
        *execution = (struct session_execution){ 0 };
}
