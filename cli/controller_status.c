/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller's status as JSON, turned into a table or a page. Everything is taken from the document, so that a status that
 * was stored prints like one of a controller that runs. A source's name and addresses are checked by their schema; what
 * comes from a repository or a cloud goes through terminal_print_wrapped(), which makes it safe.
 */
#include "cli/controller_status.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/terminal.h"
#include "base/text_utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMIT_DIGITS 8
#define NAMED_DIGITS 12 /* of a commit that a command names */
#define NAME_WIDTH_MIN 4
#define LIST_MAX 20

const json_t *controller_status_condition(const json_t *source, const char *type) {
        json_t *condition;
        size_t i;

        json_array_foreach (json_object_get(source, "conditions"), i, condition) {
                const char *name = json_text(condition, "type");

                if (name && strcmp(name, type) == 0)
                        return condition;
        }
        return NULL;
}

/* How long ago; "-" where there is no time. */
static const char *format_age(const char *time, int64_t now_ms, char *buffer, size_t size) {
        int64_t time_ms = clock_parse(time);

        if (time_ms < 0)
                return "-";
        clock_format_span(now_ms - time_ms, buffer, size);
        return buffer;
}

struct row {
        const char *name, *ready, *result, *reason, *message;
        enum style style;
        char age[32], commit[COMMIT_DIGITS + 1];
};

static void make_row(const json_t *source, int64_t now_ms, struct row *ret) {
        const json_t *ready = controller_status_condition(source, "Ready");
        const json_t *busy = controller_status_condition(source, "Reconciling");
        const char *commit = json_text(json_object_get(source, "commit"), "id"),
                   *result = json_text(source, "result");
        bool is_ready = json_is_true(json_object_get(ready, "status"));
        char age[32];
        struct row row = {
                .name = json_text(source, "name"),
                .ready = is_ready ? "yes"
                         : ready  ? "no"
                                  : "-",
                .style = is_ready ? STYLE_GREEN
                         : ready  ? STYLE_RED
                                  : STYLE_DIM,
                .result = result ? result : "-",
                .reason = json_text(ready, "reason"),
                .message = json_text(ready, "message"),
        };

        if (row.reason && strcmp(row.reason, "WaitingForApproval") == 0) {
                row.ready = "waits";
                row.style = STYLE_YELLOW;
        }
        if (json_is_true(json_object_get(source, "suspended"))) {
                row.ready = "rests";
                row.style = STYLE_DIM;
        }
        if (json_is_true(json_object_get(busy, "status")) && row.reason && is_ready) {
                row.reason = json_text(busy, "reason");
                row.message = json_text(busy, "message");
        }
        /* A source that is ready needs no reason. */
        if (row.style == STYLE_GREEN && row.message && *row.message)
                row.reason = NULL;
        snprintf(row.commit, sizeof(row.commit), "%.*s", COMMIT_DIGITS, commit ? commit : "-");
        snprintf(row.age, sizeof(row.age), "%s",
                 format_age(json_text(ready, "since"), now_ms, age, sizeof(age)));
        *ret = row;
}

/* The message stands beside the columns where it fits, and below them where a terminal is too narrow. */
static void print_line(const struct row *row, int name_width, FILE *stream) {
        int used = name_width + 2 + 5 + 2 + COMMIT_DIGITS + 2 + 7 + 2 + 9 + 2;
        struct strbuf message STRBUF_CLEANUP = STRBUF_INIT;
        int columns;

        fprintf(stream, "%-*s  %s%-5s%s  %-*s  %-7s  %-9s", name_width, row->name,
                terminal_style(stream, row->style), row->ready, terminal_style(stream, STYLE_PLAIN),
                COMMIT_DIGITS, row->commit, row->age, row->result);
        strbuf_printf(&message, "%s%s%s", row->reason ? row->reason : "",
                      row->reason && row->message && *row->message ? ": " : "",
                      row->message ? row->message : "not polled yet");
        columns = text_columns(strbuf_text(&message), message.length);
        if (isatty(fileno(stream)) && used + columns > terminal_width(stream)) {
                fputs("\n    ", stream);
                terminal_print_wrapped(stream, strbuf_text(&message), 4, 4);
                return;
        }
        fputs("  ", stream);
        terminal_print_wrapped(stream, strbuf_text(&message), used, used);
}

static int widest_name(const json_t *sources) {
        int width = NAME_WIDTH_MIN;
        json_t *source;
        size_t i;

        json_array_foreach (sources, i, source) {
                int length = (int)strlen(json_text(source, "name"));

                if (length > width)
                        width = length;
        }
        return width;
}

/* The commit is named in the command: a rewrite that comes after it is not let through by it. */
static void print_rewrite(const json_t *ready, const char *name, const char *where, FILE *stream) {
        const char *commit = json_text(ready, "commit");

        fprintf(stream,
                "\n%s: history was rewritten: restore it, or, to follow it from this commit on,\n"
                "  berth controller approve %s --allow history-rewritten%s%.*s%s\n",
                name, name, commit ? ":" : "", NAMED_DIGITS, commit ? commit : "", where);
}

/* The command that lets something through or goes on, to be copied. */
static void print_decision(const json_t *source, const char *where, FILE *stream) {
        const json_t *ready = controller_status_condition(source, "Ready"),
                     *refusals = json_object_get(source, "refusals");
        const char *reason = json_text(ready, "reason"), *name = json_text(source, "name");
        bool waits = reason && strcmp(reason, "WaitingForApproval") == 0;
        json_t *refusal;
        size_t i;

        /* While it is suspended, nothing is let through. */
        if (json_is_true(json_object_get(source, "suspended"))) {
                fprintf(stream, "\n%s: suspended; to go on\n  berth controller resume %s%s\n", name, name,
                        where);
                return;
        }
        if (reason && strcmp(reason, "HistoryRewritten") == 0)
                print_rewrite(ready, name, where, stream);
        if (!reason || (!waits && strcmp(reason, "Refused") != 0))
                return;
        fprintf(stream, "\n%s: ", name);
        fputs(waits ? "a person has to approve the plan" : "a guard refused; a new commit, or, once,",
              stream);
        fprintf(stream, "\n  berth controller approve %s%s%s", name, waits ? " " : "",
                waits ? json_text(json_object_get(source, "plan"), "id") : "");
        json_array_foreach (refusals, i, refusal) {
                const char *address = json_text(refusal, "address");

                fprintf(stream, " --allow %s%s%s", json_text(refusal, "id"), address ? ":" : "",
                        address ? address : "");
        }
        fprintf(stream, "%s\n", where);
}

void controller_status_table(const json_t *document, const char *where, int64_t now_ms, FILE *stream) {
        const json_t *sources = json_object_get(document, "sources");
        int width = widest_name(sources);
        json_t *source;
        size_t i;

        fprintf(stream, "%s%-*s  READY  %-*s  AGE      RESULT     MESSAGE%s\n",
                terminal_style(stream, STYLE_BOLD), width, "NAME", COMMIT_DIGITS, "COMMIT",
                terminal_style(stream, STYLE_PLAIN));
        json_array_foreach (sources, i, source) {
                struct row row;

                make_row(source, now_ms, &row);
                print_line(&row, width, stream);
        }
        json_array_foreach (sources, i, source)
                print_decision(source, where, stream);
}

static void print_member(const char *label, const char *text, FILE *stream) {
        fprintf(stream, "  %-14s ", label);
        terminal_print_wrapped(stream, text && *text ? text : "-", 17, 17);
}

static void print_time(const char *label, const json_t *source, const char *member, int64_t now_ms,
                       FILE *stream) {
        const char *time = json_text(source, member);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char age[32];

        if (!time)
                return;
        strbuf_printf(&text, "%s (%s ago)", time, format_age(time, now_ms, age, sizeof(age)));
        print_member(label, strbuf_text(&text), stream);
}

/* The time of the next try: only where a controller runs and trying again may help. */
static void print_retry(const json_t *source, int64_t now_ms, FILE *stream) {
        const json_t *condition = controller_status_condition(source, "Ready");
        const char *reason = json_text(condition, "reason");
        bool ready = json_is_true(json_object_get(condition, "status")) ||
                     (reason && strcmp(reason, "WaitingForApproval") == 0);
        bool stalled =
                json_is_true(json_object_get(controller_status_condition(source, "Stalled"), "status"));
        const char *retry = json_text(source, "nextRetry"), *poll = json_text(source, "nextPoll"),
                   *time = retry && (!poll || strcmp(retry, poll) < 0) ? retry : poll;
        int64_t time_ms = clock_parse(time), left;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (ready || stalled || time_ms < 0)
                return;
        left = time_ms / 1000 - now_ms / 1000;
        if (json_is_true(json_object_get(source, "busy")))
                strbuf_append(&text, "now");
        else
                strbuf_printf(&text, "%s (in %" PRId64 " s)", time, left > 0 ? left : 0);
        print_member("tried again", strbuf_text(&text), stream);
}

/* Text of a commit is a stranger's: print_member() makes it safe for the terminal. */
static void print_commit(const char *label, const json_t *commit, FILE *stream) {
        const char *signer = json_text(commit, "signer");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (!json_is_object(commit))
                return;
        strbuf_printf(&text, "%.12s %s", json_text(commit, "id"), json_text(commit, "subject"));
        strbuf_printf(&text, ", by %s%s%s", json_text(commit, "author"), signer ? ", signed by " : "",
                      signer ? signer : "");
        print_member(label, strbuf_text(&text), stream);
}

/* The condition's message; "" where Ready has the same one, which is printed once. */
static const char *find_message(const json_t *condition, const json_t *source) {
        const char *message = json_text(condition, "message"),
                   *said = json_text(controller_status_condition(source, "Ready"), "message");
        bool is_ready = strcmp(json_text(condition, "type"), "Ready") == 0;

        return message && (is_ready || !said || strcmp(message, said) != 0) ? message : "";
}

/* "Ready" is always printed, the others only while they hold: "Stalled: false" is no news. */
static void print_conditions(const json_t *source, int64_t now_ms, FILE *stream) {
        json_t *condition;
        size_t i;

        json_array_foreach (json_object_get(source, "conditions"), i, condition) {
                bool status = json_is_true(json_object_get(condition, "status"));
                bool good = status == (strcmp(json_text(condition, "type"), "Ready") == 0);
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                const char *message = find_message(condition, source);
                char age[32];

                if (!status && strcmp(json_text(condition, "type"), "Ready") != 0)
                        continue;
                fprintf(stream, "  %-14s %s%-5s%s ", json_text(condition, "type"),
                        terminal_style(stream, good     ? STYLE_GREEN
                                               : status ? STYLE_YELLOW
                                                        : STYLE_RED),
                        status ? "true" : "false", terminal_style(stream, STYLE_PLAIN));
                strbuf_printf(&text, "for %s: %s%s%s",
                              format_age(json_text(condition, "since"), now_ms, age, sizeof(age)),
                              json_text(condition, "reason"), *message ? ": " : "", message);
                terminal_print_wrapped(stream, strbuf_text(&text), 23, 23);
        }
}

static void print_resources(const json_t *resources, FILE *stream) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *kind;
        json_t *count;

        json_object_foreach ((json_t *)resources, kind, count)
                strbuf_printf(&text, "%s%" JSON_INTEGER_FORMAT " %s", text.length ? ", " : "",
                              json_integer_value(count), kind);
        print_member("resources", strbuf_text(&text), stream);
}

/* Lists are cut: a page shows where to look, and --json has the rest. */
static void print_changes(const json_t *plan, FILE *stream) {
        const json_t *changes = json_object_get(plan, "changes");
        json_t *change;
        size_t i;

        if (!json_is_object(plan))
                return;
        print_member("plan", json_text(plan, "id"), stream);
        json_array_foreach (changes, i, change) {
                if (i == LIST_MAX) {
                        fprintf(stream, "%17s... %" JSON_INTEGER_FORMAT " in all: --json shows more\n", "",
                                json_integer_or(plan, "changeCount", 0));
                        break;
                }
                fprintf(stream, "%17s%-8s %s%s\n", "", json_text(change, "action"),
                        json_text(change, "address"),
                        json_array_size(json_object_get(change, "refusals")) ? "  (refused)" : "");
        }
}

static void print_dependents(const json_t *dependents, FILE *stream) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *dependent;
        size_t i;

        json_array_foreach (dependents, i, dependent) {
                if (i == LIST_MAX) {
                        strbuf_printf(&text, " and %zu more", json_array_size(dependents) - i);
                        break;
                }
                strbuf_printf(&text, "%s%s", i ? ", " : "used by ", json_string_value(dependent));
        }
        if (text.length)
                print_member("", strbuf_text(&text), stream);
}

static void print_refusals(const json_t *refusals, FILE *stream) {
        json_t *refusal;
        size_t i;

        json_array_foreach (refusals, i, refusal) {
                const char *address = json_text(refusal, "address"), *remedy = json_text(refusal, "remedy");
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

                if (i == LIST_MAX)
                        break;
                strbuf_printf(&text, "%s%s%s: %s", address ? address : "", address ? ": " : "",
                              json_text(refusal, "id"), json_text(refusal, "message"));
                print_member(i ? "" : "refused", strbuf_text(&text), stream);
                print_dependents(json_object_get(refusal, "dependents"), stream);
                if (remedy)
                        print_member("", remedy, stream);
        }
}

static void print_drift(const json_t *drift, FILE *stream) {
        json_t *entry;
        size_t i;

        json_array_foreach (drift, i, entry) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                json_t *field;
                size_t k;

                if (i == LIST_MAX)
                        break;
                strbuf_append(&text, json_text(entry, "address"));
                strbuf_append(&text, json_is_true(json_object_get(entry, "gone")) ? " was deleted" : ":");
                json_array_foreach (json_object_get(entry, "fields"), k, field)
                        strbuf_printf(&text, "%s %s", k ? "," : "", json_text(field, "path"));
                print_member(i ? "" : "drift", strbuf_text(&text), stream);
        }
}

static void print_source(const json_t *source, const char *where, int64_t now_ms, FILE *stream) {
        struct strbuf from STRBUF_CLEANUP = STRBUF_INIT;
        const char *path = json_text(source, "path");

        fprintf(stream, "%s%s%s%s\n", terminal_style(stream, STYLE_BOLD), json_text(source, "name"),
                terminal_style(stream, STYLE_PLAIN),
                json_is_true(json_object_get(source, "suspended")) ? " (suspended)" : "");
        strbuf_printf(&from, "%s %s%s%s, mode %s", json_text(source, "url"), json_text(source, "ref"),
                      path && *path ? ", " : "", path ? path : "", json_text(source, "mode"));
        print_member("repository", strbuf_text(&from), stream);
        print_commit("commit", json_object_get(source, "commit"), stream);
        if (!json_equal(json_object_get(source, "commit"), json_object_get(source, "appliedCommit")))
                print_commit("in force", json_object_get(source, "appliedCommit"), stream);
        print_conditions(source, now_ms, stream);
        print_retry(source, now_ms, stream);
        print_time("polled", source, "lastPoll", now_ms, stream);
        print_time("reconciled", source, "lastReconciled", now_ms, stream);
        print_time("applied", source, "lastApplied", now_ms, stream);
        print_time("succeeded", source, "lastSuccess", now_ms, stream);
        print_resources(json_object_get(source, "resources"), stream);
        print_changes(json_object_get(source, "plan"), stream);
        print_refusals(json_object_get(source, "refusals"), stream);
        print_drift(json_object_get(source, "drift"), stream);
        print_decision(source, where, stream);
}

void controller_status_details(const json_t *document, const char *where, int64_t now_ms, FILE *stream) {
        json_t *source;
        size_t i;

        json_array_foreach (json_object_get(document, "sources"), i, source)
                print_source(source, where, now_ms, stream);
}
