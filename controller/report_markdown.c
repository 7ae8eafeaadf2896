/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for a pull request's comment. What comes from outside is escaped: it must not become markup, links or mentions. */
#include "controller/report.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* In a table's cell, as code: no character of it means anything to Markdown but the backtick and the bar. */
static void print_code(const char *text, FILE *stream) {
        fputs("<code>", stream);
        for (; *text; text++) {
                switch (*text) {
                case '&':
                        fputs("&amp;", stream);
                        break;
                case '<':
                        fputs("&lt;", stream);
                        break;
                case '>':
                        fputs("&gt;", stream);
                        break;
                case '\n':
                case '\r':
                        fputc(' ', stream);
                        break;
                default:
                        /* By number, all that Markdown or a forge could take for markup, a mention or a reference. */
                        if (strchr("|`*_[]()#@~!\\$:", *text))
                                fprintf(stream, "&#%d;", *text);
                        else
                                fputc(*text, stream);
                }
        }
        fputs("</code>", stream);
}

static void print_value(const struct value *value, bool sensitive, FILE *stream) {
        const char *text = value_text_of(value);
        json_t *json JSON_CLEANUP = NULL;
        char *compact;

        if (!value || value->type == VALUE_NULL) {
                fputs("none", stream);
        } else if (sensitive) {
                fputs("sensitive", stream);
        } else if (text && text[0]) {
                print_code(text, stream);
        } else {
                json = value_to_json(value, NULL);
                compact = json_compact(json);
                print_code(compact, stream);
                free(compact);
        }
}

static void print_changes(const struct plan *plan, FILE *stream) {
        fputs("| change | resource | why |\n|---|---|---|\n", stream);
        for (size_t i = 0; i < plan->change_count; i++) {
                const struct change *change = plan->changes[i];

                fprintf(stream, "| %s%s | ", action_name(change->action),
                        change_is_refused(change) ? " **(refused)**" : "");
                print_code(change->address, stream);
                fputs(" | ", stream);
                if (change->reason)
                        print_code(change->reason, stream);
                fputs(" |\n", stream);
        }
}

static void print_fields(const struct plan *plan, FILE *stream) {
        bool any = false;

        for (size_t i = 0; i < plan->change_count; i++) {
                const struct change *change = plan->changes[i];

                for (size_t k = 0; change->action != ACTION_CREATE && k < change->field_count; k++) {
                        const struct field_change *field = &change->fields[k];

                        if (!any)
                                fputs("\n| resource | field | before | after |\n|---|---|---|---|\n", stream);
                        any = true;
                        fputs("| ", stream);
                        print_code(change->address, stream);
                        fputs(" | ", stream);
                        print_code(field->path, stream);
                        fputs(" | ", stream);
                        print_value(field->before, field->sensitive, stream);
                        fputs(" | ", stream);
                        print_value(field->after, field->sensitive, stream);
                        fputs(" |\n", stream);
                }
        }
}

static void print_refusals(const struct refusal *refusals, size_t count, const char *address, FILE *stream) {
        for (size_t i = 0; i < count; i++) {
                const struct refusal *refusal = &refusals[i];

                fputs("- ", stream);
                print_code(address, stream);
                fprintf(stream, " **%s**: ", refusal->id);
                print_code(refusal->message, stream);
                for (size_t k = 0; k < refusal->dependent_count; k++) {
                        fputs(k ? ", " : "; dependents: ", stream);
                        print_code(refusal->dependents[k], stream);
                }
                if (refusal->remedy) {
                        fputs(". Remedy: ", stream);
                        print_code(refusal->remedy, stream);
                }
                fputc('\n', stream);
        }
}

static void print_counts(const struct plan_summary *summary, FILE *stream) {
        const struct {
                size_t count;
                const char *what;
        } counts[] = {
                { summary->create, "to create" },    { summary->update, "to update" },
                { summary->replace, "to replace" },  { summary->adopt, "to adopt" },
                { summary->delete, "to delete" },    { summary->refused, "refused" },
                { summary->unchanged, "unchanged" },
        };
        const char *separator = "";

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                if (counts[i].count == 0)
                        continue;
                fprintf(stream, "%s%zu %s", separator, counts[i].count, counts[i].what);
                separator = ", ";
        }
}

void report_plan_markdown(const struct plan *plan, FILE *stream) {
        fputs("### Berth plan: ", stream);
        print_code(plan->stack_name, stream);
        fprintf(stream, " on %s%s%s %s\n\n", plan->provider_name, plan->identity.account ? " " : "",
                plan->identity.account ? plan->identity.account : "",
                plan->identity.region ? plan->identity.region : "");
        if (!plan_has_changes(plan) && plan->refusal_count == 0) {
                fprintf(stream, "Nothing to do: %zu resources are as declared.\n", plan->summary.unchanged);
        } else {
                fputs("**", stream);
                print_counts(&plan->summary, stream);
                fputs("**\n\n", stream);
        }
        if (plan_has_refusals(plan)) {
                print_refusals(plan->refusals, plan->refusal_count, "the whole plan", stream);
                for (size_t i = 0; i < plan->change_count; i++)
                        print_refusals(plan->changes[i]->refusals, plan->changes[i]->refusal_count,
                                       plan->changes[i]->address, stream);
                fputc('\n', stream);
        }
        if (plan_has_changes(plan)) {
                print_changes(plan, stream);
                print_fields(plan, stream);
        }
        for (size_t i = 0; i < plan->warning_count; i++) {
                fputs(i ? "- " : "\nWarnings:\n\n- ", stream);
                print_code(plan->warnings[i], stream);
                fputc('\n', stream);
        }
}
