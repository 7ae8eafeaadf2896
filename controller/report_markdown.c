/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan for a pull request's comment: what needs a person first, then what changes, then all else, folded where it is
 * long. GitHub takes 65,536 characters a comment and refuses more, so what has no room is counted instead.
 */
#include "controller/markup.h"
#include "controller/report.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define COMMENT_MAX 65536
#define RESERVE 2048 /* for headings, ends of tables, and what was left out */
#define VALUE_MAX 200
#define DEPENDENTS_MAX 20
#define OPEN_ROWS 25 /* a table is folded if it is longer */

struct sheet {
        struct strbuf text;
        size_t limit;
        size_t left_out; /* rows of this section */
};

/* Rows are whole or absent; from the first that has no room on, the section's are counted only. */
static void add_row(struct sheet *sheet, struct strbuf *row) {
        if (sheet->left_out || sheet->text.length + row->length > sheet->limit)
                sheet->left_out++;
        else
                strbuf_append_bytes(&sheet->text, strbuf_text(row), row->length);
        strbuf_clear(row);
}

static void open_section(struct sheet *sheet, const char *title, size_t rows, const char *head) {
        if (rows > OPEN_ROWS)
                strbuf_printf(&sheet->text, "\n<details><summary>%s (%zu)</summary>\n\n%s", title, rows,
                              head);
        else
                strbuf_printf(&sheet->text, "\n#### %s\n\n%s", title, head);
        sheet->left_out = 0;
}

static void close_section(struct sheet *sheet, size_t rows) {
        if (sheet->left_out)
                strbuf_printf(&sheet->text,
                              "\n**%zu more %s not shown: a comment has no room for %s.** "
                              "<code>berth plan</code> shows all.\n",
                              sheet->left_out, sheet->left_out == 1 ? "is" : "are",
                              sheet->left_out == 1 ? "it" : "them");
        if (rows > OPEN_ROWS)
                strbuf_append(&sheet->text, "\n</details>\n");
        sheet->left_out = 0;
}

static void append_value(struct strbuf *to, const struct value *value, bool sensitive) {
        const char *text = value_text_of(value);
        json_t *json JSON_CLEANUP = NULL;
        char *compact;

        if (!value || value->type == VALUE_NULL) {
                strbuf_append(to, "none");
        } else if (sensitive) {
                strbuf_append(to, "sensitive");
        } else if (text && text[0]) {
                markup_code(to, text, VALUE_MAX);
        } else {
                json = value_to_json(value, NULL);
                compact = json_compact(json);
                markup_code(to, compact, VALUE_MAX);
                free(compact);
        }
}

/* --- what needs a person --- */

static void append_dependents(struct strbuf *to, const struct refusal *refusal) {
        size_t count = refusal->dependent_count;

        for (size_t i = 0; i < count && i < DEPENDENTS_MAX; i++) {
                strbuf_append(to, i ? ", " : "<br>Used by: ");
                markup_code(to, refusal->dependents[i], 0);
        }
        if (count > DEPENDENTS_MAX)
                strbuf_printf(to, " and %zu more", count - DEPENDENTS_MAX);
}

static void add_refusals(struct sheet *sheet, const struct refusal *refusals, size_t count,
                         const struct change *change) {
        struct strbuf row STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < count; i++) {
                strbuf_append(&row, "- ");
                if (change) {
                        strbuf_printf(&row, "%s ", action_name(change->action));
                        markup_code(&row, change->address, 0);
                } else {
                        strbuf_append(&row, "the whole plan");
                }
                strbuf_printf(&row, ": **%s**: ", refusals[i].id);
                markup_text(&row, refusals[i].message);
                append_dependents(&row, &refusals[i]);
                if (refusals[i].remedy) {
                        strbuf_append(&row, "<br>What helps: ");
                        markup_text(&row, refusals[i].remedy);
                }
                strbuf_append_char(&row, '\n');
                add_row(sheet, &row);
        }
}

static void print_refusals(const struct plan *plan, struct sheet *sheet) {
        if (!plan_has_refusals(plan))
                return;
        /* Never folded: it is what the comment is for. */
        open_section(sheet, "Refused: a person has to decide", 0, "");
        add_refusals(sheet, plan->refusals, plan->refusal_count, NULL);
        for (size_t i = 0; i < plan->change_count; i++)
                add_refusals(sheet, plan->changes[i]->refusals, plan->changes[i]->refusal_count,
                             plan->changes[i]);
        close_section(sheet, 0);
}

/* --- what changes --- */

static void append_paths(struct strbuf *to, const struct field_change *fields, size_t count) {
        for (size_t i = 0; i < count && i < 4; i++) {
                strbuf_append(to, i ? ", " : "");
                markup_code(to, fields[i].path, VALUE_MAX);
        }
        if (count > 4)
                strbuf_printf(to, " and %zu more", count - 4);
}

static void print_changes(const struct plan *plan, struct sheet *sheet) {
        struct strbuf row STRBUF_CLEANUP = STRBUF_INIT;

        if (plan->change_count == 0)
                return;
        open_section(sheet, "Changes", plan->change_count, "| change | resource | what |\n|---|---|---|\n");
        for (size_t i = 0; i < plan->change_count; i++) {
                const struct change *change = plan->changes[i];

                strbuf_printf(&row, "| %s%s | ", action_name(change->action),
                              change_is_refused(change) ? " (refused)" : "");
                markup_code(&row, change->address, 0);
                strbuf_append(&row, " | ");
                if (change->reason)
                        markup_text(&row, change->reason);
                else if (change->action != ACTION_CREATE && change->action != ACTION_DELETE)
                        append_paths(&row, change->fields, change->field_count);
                strbuf_append(&row, " |\n");
                add_row(sheet, &row);
        }
        close_section(sheet, plan->change_count);
}

/* A new resource's fields stand in the pull request itself, a deleted one's nowhere any more. */
static size_t shown_fields(const struct change *change) {
        return change->action == ACTION_CREATE || change->action == ACTION_DELETE ? 0 : change->field_count;
}

static void print_field_table(const struct plan *plan, struct sheet *sheet) {
        struct strbuf row STRBUF_CLEANUP = STRBUF_INIT;
        size_t total = 0;

        for (size_t i = 0; i < plan->change_count; i++)
                total += shown_fields(plan->changes[i]);
        if (total == 0)
                return;
        open_section(sheet, "Fields", total, "| resource | field | before | after |\n|---|---|---|---|\n");
        for (size_t i = 0; i < plan->change_count; i++) {
                const struct change *change = plan->changes[i];

                for (size_t k = 0; k < shown_fields(change); k++) {
                        const struct field_change *field = &change->fields[k];

                        strbuf_append(&row, "| ");
                        markup_code(&row, change->address, 0);
                        strbuf_append(&row, " | ");
                        markup_code(&row, field->path, VALUE_MAX);
                        strbuf_append(&row, " | ");
                        append_value(&row, field->before, field->sensitive);
                        strbuf_append(&row, " | ");
                        append_value(&row, field->after, field->sensitive);
                        strbuf_append(&row, " |\n");
                        add_row(sheet, &row);
                }
        }
        close_section(sheet, total);
}

/* --- the rest --- */

static void print_drift(const struct plan *plan, struct sheet *sheet) {
        struct strbuf row STRBUF_CLEANUP = STRBUF_INIT;

        if (plan->drift_count == 0)
                return;
        open_section(sheet, "Drift: changed outside of Berth", plan->drift_count, "");
        for (size_t i = 0; i < plan->drift_count; i++) {
                const struct drift *drift = &plan->drifts[i];

                strbuf_append(&row, "- ");
                markup_code(&row, drift->address, 0);
                strbuf_append(&row, drift->gone ? " is gone" : ": ");
                if (!drift->gone)
                        append_paths(&row, drift->fields, drift->field_count);
                strbuf_append_char(&row, '\n');
                add_row(sheet, &row);
        }
        close_section(sheet, plan->drift_count);
}

static void print_warnings(const struct plan *plan, struct sheet *sheet) {
        struct strbuf row STRBUF_CLEANUP = STRBUF_INIT;

        if (plan->warning_count == 0)
                return;
        open_section(sheet, "Warnings", plan->warning_count, "");
        for (size_t i = 0; i < plan->warning_count; i++) {
                strbuf_append(&row, "- ");
                markup_text(&row, plan->warnings[i]);
                strbuf_append_char(&row, '\n');
                add_row(sheet, &row);
        }
        close_section(sheet, plan->warning_count);
}

static void append_counts(struct strbuf *to, const struct plan_summary *summary) {
        const struct {
                size_t count;
                const char *what;
        } counts[] = {
                { summary->create, "to create" },
                { summary->update, "to update" },
                { summary->replace, "to replace" },
                { summary->adopt, "to adopt" },
                { summary->delete, "to delete" },
                { summary->refused, "of them refused" },
                { summary->unchanged, "unchanged" },
                { summary->left_out, "left out by --target or --exclude" },
        };
        const char *separator = "";

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                if (counts[i].count == 0)
                        continue;
                strbuf_printf(to, "%s%zu %s", separator, counts[i].count, counts[i].what);
                separator = ", ";
        }
}

static void print_head(const struct plan *plan, struct strbuf *to) {
        const struct caller_identity *identity = &plan->identity;

        strbuf_append(to, "### Berth plan: ");
        markup_code(to, plan->stack_name, 0);
        strbuf_printf(to, " on %s", plan->provider_name);
        if (identity->account) {
                strbuf_append(to, " ");
                markup_code(to, identity->account, VALUE_MAX);
        }
        if (identity->region && strcmp(identity->region, plan->provider_name) != 0) {
                strbuf_append(to, " ");
                markup_code(to, identity->region, VALUE_MAX);
        }
        strbuf_append(to, "\n\n");
        if (!plan_has_changes(plan) && !plan_has_refusals(plan)) {
                strbuf_printf(to, "Nothing to do: %zu %s as declared.\n", plan->summary.unchanged,
                              plan->summary.unchanged == 1 ? "resource is" : "resources are");
                return;
        }
        strbuf_append(to, "**");
        append_counts(to, &plan->summary);
        strbuf_append(to, "**\n");
}

void report_plan_markdown(const struct plan *plan, FILE *stream) {
        struct sheet sheet = { .limit = COMMENT_MAX - RESERVE };

        print_head(plan, &sheet.text);
        print_refusals(plan, &sheet);
        print_changes(plan, &sheet);
        print_field_table(plan, &sheet);
        print_drift(plan, &sheet);
        print_warnings(plan, &sheet);
        /* Invisible: by it a pipeline finds its own comment again. A stack's name is a DNS label. */
        strbuf_printf(&sheet.text, "\n<!-- berth plan %s -->\n", plan->stack_name);
        fputs(strbuf_text(&sheet.text), stream);
        strbuf_release(&sheet.text);
}
