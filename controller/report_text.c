/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as lines for people. On a terminal each line is cut to its width, and a change is shown from where its two
 * sides begin to differ; into a file or a pipe everything goes whole. Widths are columns of the terminal, not bytes,
 * and are counted of the text as it is shown: what could move the cursor is written as an escape.
 *
 * Green is what is made, yellow what changes, red what is lost or refused; the sign before each line says the same
 * without colour.
 */
#include "controller/report.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "base/terminal.h"
#include "base/text_utf8.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGEST_SHOWN 12
#define ADDRESS_WIDTH_MAX 40
#define PATH_WIDTH_MAX 32
#define ACTION_WIDTH 9 /* the longest of them, and two spaces */
#define NOTE_WIDTH 24  /* what is left to the note, before the addresses are no column any more */

static const char *action_symbol(enum action action) {
        static const char *const symbols[] = {
                [ACTION_NONE] = " ",    [ACTION_CREATE] = "+", [ACTION_UPDATE] = "~",
                [ACTION_REPLACE] = "x", [ACTION_DELETE] = "-", [ACTION_ADOPT] = "=",
        };

        return symbols[action];
}

static enum style action_style(enum action action) {
        static const enum style styles[] = {
                [ACTION_NONE] = STYLE_PLAIN,  [ACTION_CREATE] = STYLE_GREEN, [ACTION_UPDATE] = STYLE_YELLOW,
                [ACTION_REPLACE] = STYLE_RED, [ACTION_DELETE] = STYLE_RED,   [ACTION_ADOPT] = STYLE_CYAN,
        };

        return styles[action];
}

static bool is_digest(const char *text) {
        return strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71;
}

/* A value on one line, as it is shown: columns are counted of that. */
static void describe_value(const struct value *value, bool sensitive, struct strbuf *out) {
        const char *text = value_text_of(value);
        json_t *json JSON_CLEANUP = NULL;
        char *compact;

        if (!value || value->type == VALUE_NULL) {
                strbuf_append(out, "(none)");
        } else if (sensitive) {
                strbuf_append(out, "(sensitive)");
        } else if (text && is_digest(text)) {
                strbuf_append_bytes(out, text, 7 + DIGEST_SHOWN);
                strbuf_append(out, "..");
        } else if (text && text[0]) {
                text_append_safe(out, text);
        } else {
                json = value_to_json(value, NULL);
                compact = json_compact(json);
                text_append_safe(out, compact);
                free(compact);
        }
}

static void append_vcpu(const struct field_change *field, struct strbuf *out) {
        if (strcmp(field->path, "memoryMB") != 0)
                return;
        strbuf_append(out, "  (");
        if (field->before && field->before->type == VALUE_INTEGER)
                strbuf_printf(out, "%.2f -> ", (double)field->before->integer / MEMORY_MB_PER_VCPU);
        if (field->after && field->after->type == VALUE_INTEGER)
                strbuf_printf(out, "%.2f vCPU", (double)field->after->integer / MEMORY_MB_PER_VCPU);
        strbuf_append(out, ")");
}

/* As much of the text, from byte `from` on, as fits the columns; ".." stands for what is left out on either side. */
static void append_cut(struct strbuf *out, const char *text, size_t from, int columns) {
        size_t length = strlen(text + from), shown;
        int room = columns - (from > 0 ? 2 : 0);

        shown = text_prefix(text + from, length, room);
        if (shown < length)
                shown = text_prefix(text + from, length, room - 2);
        strbuf_append(out, from > 0 ? ".." : "");
        strbuf_append_bytes(out, text + from, shown);
        strbuf_append(out, shown < length ? ".." : "");
}

/* Where the two begin to differ, a little before it, at the start of a character. */
static size_t difference_start(const char *before, const char *after) {
        size_t at = 0, back;

        while (before[at] && before[at] == after[at])
                at++;
        back = at > 8 ? at - 8 : 0;
        while (back > 0 && ((unsigned char)before[back] & 0xC0) == 0x80)
                back--;
        return back;
}

/* A side that takes more than `half` is cut, from byte `from` on, to what the other one leaves of the room for both. */
static void append_side(struct strbuf *line, const char *side, int columns, int other_columns, int room,
                        size_t from) {
        int half = room < 20 ? 10 : room / 2;

        if (columns <= half)
                strbuf_append(line, side);
        else
                append_cut(line, side, from, room - (other_columns < half ? other_columns : half));
}

/* Both sides at full length where they fit, else each in half the room, from where they differ. */
static void append_sides(struct strbuf *line, const char *before, const char *after, int room) {
        int before_columns = text_columns(before, strlen(before)),
            after_columns = text_columns(after, strlen(after));
        size_t from;

        if (before_columns + after_columns + 4 <= room) {
                strbuf_printf(line, "%s -> %s", before, after);
                return;
        }
        from = difference_start(before, after);
        append_side(line, before, before_columns, after_columns, room - 4, from);
        strbuf_append(line, " -> ");
        append_side(line, after, after_columns, before_columns, room - 4, from);
}

/* Only a terminal has an edge: a file or a pipe gets whole values. */
static int room_for(FILE *stream, int used) {
        return isatty(fileno(stream)) ? terminal_width(stream) - used : INT_MAX / 2;
}

static int shown_columns(const char *text) {
        struct strbuf shown STRBUF_CLEANUP = STRBUF_INIT;

        text_append_safe(&shown, text);
        return text_columns(strbuf_text(&shown), shown.length);
}

/* Returns the columns that this took: `width`, or more where the text is wider. */
static int print_padded(const char *text, int width, FILE *stream) {
        struct strbuf shown STRBUF_CLEANUP = STRBUF_INIT;
        int columns;

        text_append_safe(&shown, text);
        columns = text_columns(strbuf_text(&shown), shown.length);
        fprintf(stream, "%s%*s", strbuf_text(&shown), columns < width ? width - columns : 0, "");
        return columns < width ? width : columns;
}

static void print_field_change(const struct field_change *field, int path_width, bool creating,
                               FILE *stream) {
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT, before STRBUF_CLEANUP = STRBUF_INIT,
                           after STRBUF_CLEANUP = STRBUF_INIT;
        int room;

        fprintf(stream, "      %s", terminal_style(stream, STYLE_DIM));
        room = room_for(stream, print_padded(field->path, path_width, stream) + 8);
        fprintf(stream, "%s  ", terminal_style(stream, STYLE_PLAIN));
        describe_value(field->before, field->sensitive, &before);
        describe_value(field->after, field->sensitive, &after);
        if (creating)
                append_cut(&line, strbuf_text(&after), 0, room);
        else
                append_sides(&line, strbuf_text(&before), strbuf_text(&after), room);
        append_vcpu(field, &line);
        fprintf(stream, "%s\n", strbuf_text(&line));
}

static void print_fields(const struct field_change *fields, size_t count, bool creating, FILE *stream) {
        int width = 0;

        for (size_t i = 0; i < count; i++) {
                int columns = shown_columns(fields[i].path);

                width = columns > width ? columns : width;
        }
        for (size_t i = 0; i < count; i++)
                print_field_change(&fields[i], width > PATH_WIDTH_MAX ? PATH_WIDTH_MAX : width, creating,
                                   stream);
}

static void print_refusal(const struct refusal *refusal, FILE *stream) {
        const char *red = terminal_style(stream, STYLE_RED), *plain = terminal_style(stream, STYLE_PLAIN);

        fprintf(stream, "      %s%s%s: ", red, refusal->id, plain);
        terminal_print_wrapped(stream, refusal->message, 8 + (int)strlen(refusal->id), 8);
        for (size_t i = 0; i < refusal->dependent_count; i++)
                fprintf(stream, "        %s\n", refusal->dependents[i]);
        if (refusal->remedy) {
                fprintf(stream, "      %sremedy:%s ", terminal_style(stream, STYLE_BOLD), plain);
                terminal_print_wrapped(stream, refusal->remedy, 14, 8);
        }
}

/* Why, or of a new resource what it is; nothing of others. As it is shown. */
static void describe_change(const struct change *change, struct strbuf *out) {
        struct strbuf note STRBUF_CLEANUP = STRBUF_INIT;

        if (change->reason)
                strbuf_append(&note, change->reason);
        else if (change->action == ACTION_CREATE && change->kind->summarise)
                change->kind->summarise(change->resource ? change->resource->spec : NULL, change->desired,
                                        &note);
        text_append_safe(out, strbuf_text(&note));
}

static void print_change(const struct change *change, int width, const struct report_style *style,
                         FILE *stream) {
        const char *plain = terminal_style(stream, STYLE_PLAIN), *action = action_name(change->action);
        struct strbuf note STRBUF_CLEANUP = STRBUF_INIT, cut STRBUF_CLEANUP = STRBUF_INIT;
        bool creating = change->action == ACTION_CREATE, refused = change_is_refused(change);
        int used;

        fprintf(stream, "  %s%s%s ",
                terminal_style(stream, refused ? STYLE_RED : action_style(change->action)),
                refused ? "!" : action_symbol(change->action), plain);
        used = print_padded(change->address, width, stream) + 4 + 2 + ACTION_WIDTH;
        fprintf(stream, "  %s%s%s", terminal_style(stream, STYLE_DIM), action, plain);
        describe_change(change, &note);
        if (note.length) {
                append_cut(&cut, strbuf_text(&note), 0, room_for(stream, used));
                fprintf(stream, "%*s%s", ACTION_WIDTH - (int)strlen(action), "", strbuf_text(&cut));
        }
        fputc('\n', stream);
        if (change->action != ACTION_DELETE && (!creating || style->verbose))
                print_fields(change->fields, change->field_count, creating, stream);
        for (size_t i = 0; i < change->refusal_count; i++)
                print_refusal(&change->refusals[i], stream);
}

static void print_header(const struct plan *plan, FILE *stream) {
        fprintf(stream, "%s%s%s on %s", terminal_style(stream, STYLE_BOLD), plan->stack_name,
                terminal_style(stream, STYLE_PLAIN), plan->provider_name);
        if (plan->identity.account)
                fprintf(stream, " %s", plan->identity.account);
        if (plan->identity.region && strcmp(plan->identity.region, plan->provider_name) != 0)
                fprintf(stream, " %s", plan->identity.region);
        fputs("\n\n", stream);
}

static void append_count(struct strbuf *line, size_t count, const char *what) {
        if (count)
                strbuf_printf(line, "%s%zu %s", line->length ? ", " : "", count, what);
}

static void print_left_out(const struct plan *plan, FILE *stream) {
        size_t count = plan->summary.left_out;

        if (count)
                fprintf(stream, " Left out by --target or --exclude: %zu %s.", count,
                        count == 1 ? "change" : "changes");
        fputc('\n', stream);
}

static void print_summary(const struct plan *plan, FILE *stream) {
        const struct plan_summary *summary = &plan->summary;
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

        append_count(&line, summary->create, "to create");
        append_count(&line, summary->update, "to update");
        append_count(&line, summary->replace, "to replace");
        append_count(&line, summary->adopt, "to adopt");
        append_count(&line, summary->delete, "to delete");
        append_count(&line, summary->refused, "of them refused");
        append_count(&line, summary->unchanged, "unchanged");
        fprintf(stream, "%sPlan:%s %s.", terminal_style(stream, STYLE_BOLD),
                terminal_style(stream, STYLE_PLAIN), strbuf_text(&line));
        print_left_out(plan, stream);
}

struct cost report_calls(const struct plan *plan, struct arena *arena) {
        struct cost cost = { .arena = arena };

        for (size_t i = 0; i < plan->cost.count; i++) {
                struct call_count service = plan->cost.calls[i];

                service.service[strcspn(service.service, " ")] = '\0';
                cost_add(&cost, service.service, service.count);
        }
        return cost;
}

static void print_cost(const struct plan *plan, FILE *stream) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct cost cost = report_calls(plan, arena);
        char duration[32];
        unsigned total = 0;

        for (size_t i = 0; i < cost.count; i++)
                total += cost.calls[i].count;
        if (total == 0)
                return;
        fprintf(stream, "      %u %s (", total, total == 1 ? "call" : "calls");
        for (size_t i = 0; i < cost.count; i++)
                fprintf(stream, "%s%s %u", i ? ", " : "", cost.calls[i].service, cost.calls[i].count);
        fputc(')', stream);
        if (plan->floor_ms >= 1000)
                fprintf(stream, ", at least %s by quota",
                        report_duration(plan->floor_ms, duration, sizeof(duration)));
        fputs(".\n", stream);
}

static void print_orphans(const char *title, const char *const *names, size_t count, FILE *stream) {
        if (count > 0)
                fprintf(stream, "%s\n", title);
        for (size_t i = 0; i < count; i++) {
                fputs("  ? ", stream);
                terminal_print_line(stream, names[i], 4, 4);
        }
}

void report_drift_text(const struct plan *plan, FILE *stream) {
        size_t put_back = 0;

        print_orphans("Orphans, in no state and no manifest (berth state adopt takes them):", plan->orphans,
                      plan->orphan_count, stream);
        print_orphans("With this stack's name, of another state (berth state adopt refuses them):",
                      plan->others_orphans, plan->others_orphan_count, stream);
        print_orphans("Left of what stands in no state and no manifest:", plan->remnants, plan->remnant_count,
                      stream);
        if (plan->drift_count == 0) {
                fputs("No drift: what was applied is what is there.\n", stream);
                return;
        }
        print_header(plan, stream);
        for (size_t i = 0; i < plan->drift_count; i++) {
                const struct drift *drift = &plan->drifts[i];

                fprintf(stream, "  %s%s%s %s%s\n", terminal_style(stream, STYLE_YELLOW),
                        drift->gone ? "-" : "~", terminal_style(stream, STYLE_PLAIN), drift->address,
                        drift->gone ? "  is gone" : "");
                print_fields(drift->fields, drift->field_count, false, stream);
                for (size_t k = drift->field_count - drift->left_count; k < drift->field_count; k++) {
                        fprintf(stream, "      %s stays so: ", drift->fields[k].path);
                        terminal_print_wrapped(stream, drift->fields[k].left,
                                               17 + (int)strlen(drift->fields[k].path), 8);
                }
                put_back += drift->gone || drift->field_count > drift->left_count;
        }
        fprintf(stream, "\nDrift: %zu %s changed outside of Berth. berth apply puts back %s.\n",
                plan->drift_count, plan->drift_count == 1 ? "resource was" : "resources were",
                put_back == 0                   ? "nothing of it"
                : put_back == plan->drift_count ? "what was applied"
                                                : "what was applied, but for what stays");
}

void report_refusals_text(const struct plan *plan, FILE *stream) {
        for (size_t i = 0; i < plan->refusal_count; i++) {
                fprintf(stream, "  %s!%s the whole plan is refused\n", terminal_style(stream, STYLE_RED),
                        terminal_style(stream, STYLE_PLAIN));
                print_refusal(&plan->refusals[i], stream);
        }
}

/* Below a warning's first line is a list, as in struct observation: as a rule people want its count only. */
static void print_warning(const char *warning, bool verbose, FILE *stream) {
        const char *list = strchr(warning, '\n');
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (list && !verbose)
                strbuf_printf(&text, "%.*s; -v lists them", (int)(list - warning), warning);
        else
                strbuf_append(&text, warning);
        fprintf(stream, "  %swarning:%s ", terminal_style(stream, STYLE_YELLOW),
                terminal_style(stream, STYLE_PLAIN));
        terminal_print_wrapped(stream, strbuf_text(&text), 11, 4);
}

void report_plan_text(const struct plan *plan, const struct report_style *style, FILE *stream) {
        int width = 0, room = room_for(stream, 4 + 2 + ACTION_WIDTH + NOTE_WIDTH);

        for (size_t i = 0; i < plan->change_count; i++) {
                int columns = shown_columns(plan->changes[i]->address);

                width = columns > width ? columns : width;
        }
        width = width > ADDRESS_WIDTH_MAX ? ADDRESS_WIDTH_MAX : width;
        width = width > room ? room : width;
        if (plan_has_changes(plan) || plan->refusal_count)
                print_header(plan, stream);
        for (size_t i = 0; i < plan->change_count; i++) {
                if (!style->quiet || change_is_refused(plan->changes[i]))
                        print_change(plan->changes[i], width, style, stream);
        }
        report_refusals_text(plan, stream);
        for (size_t i = 0; i < plan->warning_count; i++)
                print_warning(plan->warnings[i], style->verbose, stream);
        if (plan->refusal_count && !plan_has_changes(plan))
                return;
        if (!plan_has_changes(plan)) {
                fprintf(stream, "Nothing to do: %zu %s as declared.", plan->summary.unchanged,
                        plan->summary.unchanged == 1 ? "resource is" : "resources are");
                print_left_out(plan, stream);
                return;
        }
        if (!style->quiet || plan->refusal_count)
                fputc('\n', stream);
        print_summary(plan, stream);
        print_cost(plan, stream);
}

const char *report_duration(int64_t ms, char *buffer, size_t size) {
        int64_t seconds = ms / 1000;

        if (ms < 10000)
                snprintf(buffer, size, "%" PRId64 ".%" PRId64 " s", seconds, ms % 1000 / 100);
        else if (seconds < 60)
                snprintf(buffer, size, "%" PRId64 " s", seconds);
        else
                snprintf(buffer, size, "%" PRId64 " min %" PRId64 " s", seconds / 60, seconds % 60);
        return buffer;
}

void report_ended_text(const struct change *change, const struct change_result *result, FILE *stream) {
        static const char *const past[] = {
                [ACTION_NONE] = "settled",     [ACTION_CREATE] = "created", [ACTION_UPDATE] = "updated",
                [ACTION_REPLACE] = "replaced", [ACTION_DELETE] = "deleted", [ACTION_ADOPT] = "adopted",
        };
        const char *plain = terminal_style(stream, STYLE_PLAIN);
        char duration[32];

        report_duration(result->duration_ms, duration, sizeof(duration));
        if (result->outcome == JOB_DONE) {
                fprintf(stream, "  %s%s%s %s %s in %s\n",
                        terminal_style(stream, action_style(change->action)), action_symbol(change->action),
                        plain, change->address, past[change->action], duration);
        } else if (result->outcome == JOB_FAILED) {
                fprintf(stream, "  %s!%s %s failed: ", terminal_style(stream, STYLE_RED), plain,
                        change->address);
                terminal_print_line(stream, result->error.message, 13 + shown_columns(change->address), 6);
        } else {
                const char *why =
                        result->refused                      ? "refused"
                        : result->outcome == JOB_SKIPPED     ? "skipped: something it needs was not done"
                        : result->outcome == JOB_NOT_STARTED ? "not started"
                                                             : "left half-way; the next run will finish it";

                fprintf(stream, "  %s.%s %s %s\n", terminal_style(stream, STYLE_DIM), plain, change->address,
                        why);
        }
}

void report_result_text(const struct plan *plan, const struct apply_result *result, FILE *stream) {
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;
        bool well =
                result->failed == 0 && result->skipped == 0 && result->refused == 0 && !result->interrupted;
        char duration[32];

        append_count(&line, result->done, "done");
        append_count(&line, result->failed, "failed");
        append_count(&line, result->skipped, "skipped");
        append_count(&line, result->refused, "refused");
        append_count(&line, plan->summary.unchanged, "unchanged");
        if (plan->change_count)
                fputc('\n', stream);
        fprintf(stream, "%s%s%s %s in %s.\n", terminal_style(stream, well ? STYLE_GREEN : STYLE_RED),
                result->interrupted ? "Interrupted:"
                : well              ? "Applied:"
                                    : "Applied in part:",
                terminal_style(stream, STYLE_PLAIN), strbuf_text(&line),
                report_duration(result->duration_ms, duration, sizeof(duration)));
        if (result->interrupted || result->failed)
                fputs("Run the same command again to carry on from here.\n", stream);
}
