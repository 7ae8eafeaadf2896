/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one-line texts of a source: for conditions, logs and notifications. Long lists are cut: the status has all of
 * them.
 */
#include "gitops/attempt_text.h"

#include "base/log.h"
#include "base/strbuf.h"

#include <string.h>

#define LOGGED_MAX 20
#define DRIFTS_MAX 4

static void append_place(struct strbuf *text, const struct diagnostic *diagnostic) {
        if (diagnostic->file)
                strbuf_append(text, diagnostic->file);
        if (diagnostic->line)
                strbuf_printf(text, ":%u:%u", diagnostic->line, diagnostic->column);
        strbuf_printf(text, "%s%s", diagnostic->file ? ": " : "", diagnostic->message);
        if (diagnostic->hint)
                strbuf_printf(text, " (%s)", diagnostic->hint);
}

const char *attempt_text_diagnostics(const struct diagnostics *diagnostics, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t errors = 0;

        for (size_t i = 0; i < diagnostics->count; i++) {
                if (diagnostics->items[i].severity == SEVERITY_ERROR && errors++ == 0)
                        append_place(&text, &diagnostics->items[i]);
        }
        if (errors > 1)
                strbuf_printf(&text, "; %zu more %s", errors - 1, errors == 2 ? "error" : "errors");
        return arena_strdup(arena, strbuf_text(&text));
}

void attempt_text_log(const struct diagnostics *diagnostics) {
        size_t logged = 0;

        for (size_t i = 0; i < diagnostics->count && logged < LOGGED_MAX; i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

                if (diagnostics->items[i].severity != SEVERITY_ERROR)
                        continue;
                append_place(&text, &diagnostics->items[i]);
                log_error("%s", strbuf_text(&text));
                logged++;
        }
}

static void append_count(struct strbuf *text, size_t count, const char *what) {
        if (count)
                strbuf_printf(text, "%s%zu %s", text->length ? ", " : "", count, what);
}

const char *attempt_text_planned(const struct plan *plan, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const struct plan_summary *summary = &plan->summary;

        append_count(&text, summary->create, "to create");
        append_count(&text, summary->update, "to update");
        append_count(&text, summary->replace, "to replace");
        append_count(&text, summary->delete, "to delete");
        append_count(&text, summary->adopt, "to adopt");
        append_count(&text, summary->refused + plan->refusal_count, "refused");
        return text.length ? arena_strdup(arena, strbuf_text(&text)) : "nothing to change";
}

const char *attempt_text_applied(const struct plan *plan, const struct apply_result *result,
                                 struct arena *arena) {
        static const char *const names[] = {
                [ACTION_NONE] = "left",        [ACTION_CREATE] = "created", [ACTION_UPDATE] = "updated",
                [ACTION_REPLACE] = "replaced", [ACTION_DELETE] = "deleted", [ACTION_ADOPT] = "adopted",
        };
        size_t counts[sizeof(names) / sizeof(names[0])] = { 0 };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; result->changes && i < plan->change_count; i++) {
                if (result->changes[i].outcome == JOB_DONE)
                        counts[plan->changes[i]->action]++;
        }
        for (size_t action = 1; action < sizeof(names) / sizeof(names[0]); action++)
                append_count(&text, counts[action], names[action]);
        append_count(&text, result->failed, "failed");
        append_count(&text, result->skipped, "not done");
        return text.length ? arena_strdup(arena, strbuf_text(&text)) : "nothing was changed";
}

const char *attempt_text_failed(const struct plan *plan, const struct apply_result *result,
                                struct arena *arena) {
        const char *first = NULL;

        for (size_t i = 0; i < plan->change_count && !first; i++) {
                if (result->changes[i].outcome == JOB_FAILED)
                        first = arena_printf(arena, "%s: %s", plan->changes[i]->address,
                                             result->changes[i].error.message);
        }
        if (result->failed < 2)
                return first ? first : "";
        return arena_printf(arena, "%s; %zu more failed", first, result->failed - 1);
}

const char *attempt_text_unchanged(const struct plan *plan, struct arena *arena) {
        size_t count = plan->summary.unchanged;

        return arena_printf(arena, "%zu %s as %s shall be", count,
                            count == 1 ? "resource is" : "resources are", count == 1 ? "it" : "they");
}

static void append_drift(struct strbuf *text, const struct drift *drift) {
        strbuf_append(text, drift->address);
        if (drift->gone)
                strbuf_append(text, " (deleted)");
        for (size_t i = 0; i < drift->field_count && i < DRIFTS_MAX; i++)
                strbuf_printf(text, "%s%s%s", i ? ", " : " (", drift->fields[i].path,
                              drift->fields[i].left ? ", which stays" : "");
        if (drift->field_count)
                strbuf_append(text, drift->field_count > DRIFTS_MAX ? ", ...)" : ")");
}

const char *attempt_text_drift(const struct plan *plan, bool corrected, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_append(&text, "changed outside of Berth: ");
        for (size_t i = 0; i < plan->drift_count && i < DRIFTS_MAX; i++) {
                strbuf_append(&text, i ? "; " : "");
                append_drift(&text, &plan->drifts[i]);
        }
        if (plan->drift_count > DRIFTS_MAX)
                strbuf_printf(&text, "; and %zu more", plan->drift_count - DRIFTS_MAX);
        if (!corrected)
                strbuf_append(&text, "; left as found");
        return arena_strdup(arena, strbuf_text(&text));
}
