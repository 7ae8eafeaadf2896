/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person decides must be about exactly what the person saw. A plan's id is a hash over what
 * the plan does: the commit, the changes with their fields, the refusals, the state's serial. Its
 * costs, its time and additional findings may differ, and the id is the same. Lists that are kept
 * and sent are cut at APPROVAL_LIST_MAX; the id is over all of it.
 */
#include "gitops/approval.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "controller/report.h"
#include "controller/state_adopt.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_REFUSALS_MAX 4
#define KNOWN_MAX 32
#define COMMIT_LEAST 7 /* digits of a commit that git itself shows */
#define COMMIT_MOST 40

void approval_plan_id(const struct plan *plan, const char *commit, char ret[PLAN_ID_SIZE]) {
        json_t *document JSON_CLEANUP = report_plan_json(plan);
        char hex[SHA256_HEX_SIZE];
        char *text;

        /* When it was made, what it costs and what was found besides is not what it does. */
        json_object_del(document, "createdAt");
        json_object_del(document, "calls");
        json_object_del(document, "warnings");
        json_object_del(document, "drift");
        json_put(document, "commit", json_string(commit));
        text = json_compact(document);
        digest_sha256_hex(text, strlen(text), hex);
        free(text);
        memcpy(ret, hex, PLAN_ID_SIZE - 1);
        ret[PLAN_ID_SIZE - 1] = '\0';
}

static json_t *cut_list(json_t *list) {
        json_t *cut;

        if (json_array_size(list) <= APPROVAL_LIST_MAX)
                return json_incref(list);
        cut = json_array();
        for (size_t i = 0; i < APPROVAL_LIST_MAX; i++) {
                if (json_array_append(cut, json_array_get(list, i)) < 0)
                        abort();
        }
        return cut;
}

json_t *approval_plan_json(const struct plan *plan, const char *commit, const char *id) {
        json_t *document JSON_CLEANUP = report_plan_json(plan), *object = json_object();
        json_t *changes = json_object_get(document, "changes");

        json_put(object, "id", json_string(id));
        json_put(object, "commit", json_string(commit));
        json_put(object, "createdAt", json_incref(json_object_get(document, "createdAt")));
        json_put(object, "summary", json_incref(json_object_get(document, "summary")));
        json_put(object, "changeCount", json_integer((json_int_t)json_array_size(changes)));
        json_put(object, "changes", cut_list(changes));
        return object;
}

static void add_refusals(json_t *list, const char *address, const json_t *refusals) {
        json_t *refusal;
        size_t i;

        json_array_foreach (refusals, i, refusal) {
                json_t *entry = json_copy(refusal);

                if (json_array_size(list) == APPROVAL_LIST_MAX) {
                        json_decref(entry);
                        return;
                }
                json_put(entry, "address", address ? json_string(address) : json_null());
                if (json_array_append_new(list, entry) < 0)
                        abort();
        }
}

json_t *approval_refusals_json(const struct plan *plan) {
        json_t *document JSON_CLEANUP = report_plan_json(plan), *list = json_array(), *change;
        size_t i;

        add_refusals(list, NULL, json_object_get(document, "refusals"));
        json_array_foreach (json_object_get(document, "changes"), i, change)
                add_refusals(list, json_text(change, "address"), json_object_get(change, "refusals"));
        return list;
}

const char *approval_refusals_text(const json_t *refusals, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t count = json_array_size(refusals);

        for (size_t i = 0; i < count && i < TEXT_REFUSALS_MAX; i++) {
                const json_t *refusal = json_array_get(refusals, i),
                             *dependents = json_object_get(refusal, "dependents");
                const char *address = json_text(refusal, "address");

                strbuf_printf(&text, "%s%s%s%s: %s", i ? "; " : "", address ? address : "",
                              address ? ": " : "", json_text(refusal, "id"), json_text(refusal, "message"));
                for (size_t k = 0; k < json_array_size(dependents) && k < TEXT_REFUSALS_MAX; k++)
                        strbuf_printf(&text, "%s%s", k ? ", " : " (",
                                      json_string_value(json_array_get(dependents, k)));
                if (json_array_size(dependents))
                        strbuf_append(&text,
                                      json_array_size(dependents) > TEXT_REFUSALS_MAX ? ", ...)" : ")");
        }
        if (count > TEXT_REFUSALS_MAX)
                strbuf_printf(&text, "; and %zu more", count - TEXT_REFUSALS_MAX);
        return arena_strdup(arena, strbuf_text(&text));
}

static int check_commit(const char *commit, struct error *err) {
        size_t length = strlen(commit);

        if (strspn(commit, "0123456789abcdef") == length && length >= COMMIT_LEAST && length <= COMMIT_MOST)
                return 0;
        return error_set(err, "\"%s\" is no commit: %d to %d hexadecimal digits", commit, COMMIT_LEAST,
                         COMMIT_MOST);
}

int approval_parse(const char *text, struct arena *arena, struct allowance *ret, struct error *err) {
        const char *const *known = kind_field(kinds[KIND_CONTROLLER], "sources.allow")->item->choices_text;
        const char *colon = strchr(text, ':'), *near, *name,
                   *names[KNOWN_MAX] = { HISTORY_REWRITTEN, LINEAGE_LIVES };
        const struct kind *kind;
        size_t count = 2;

        *ret = (struct allowance){
                .id = colon ? arena_strndup(arena, text, (size_t)(colon - text)) : arena_strdup(arena, text),
                .address = colon ? arena_strdup(arena, colon + 1) : NULL,
        };
        if (strcmp(ret->id, HISTORY_REWRITTEN) == 0)
                return ret->address && check_commit(ret->address, err) < 0
                               ? error_context(err, "--allow %s", text)
                               : 0;
        if (strcmp(ret->id, LINEAGE_LIVES) == 0 && !ret->address)
                return 0;
        for (; *known && count < KNOWN_MAX; known++) {
                names[count++] = *known;
                if (strcmp(*known, ret->id) != 0)
                        continue;
                if (ret->address && address_parse(ret->address, &kind, &name, err) < 0)
                        return error_context(err, "--allow %s", text);
                return 0;
        }
        near = suggest_nearest(ret->id, names, count);
        return error_set(err, "--allow %s: there is no such refusal to let through%s%s%s", text,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

bool approval_matches(const struct allowance *allowance, const json_t *refusals) {
        json_t *refusal;
        size_t i;

        json_array_foreach (refusals, i, refusal) {
                const char *address = json_text(refusal, "address"), *id = json_text(refusal, "id");

                if (id && strcmp(id, allowance->id) == 0 &&
                    (!allowance->address || (address && strcmp(address, allowance->address) == 0)))
                        return true;
        }
        return false;
}

struct allowance *approval_join(const struct allowance *first, size_t first_count, const json_t *texts,
                                struct arena *arena, size_t *ret_count) {
        struct allowance *joined =
                arena_array(arena, first_count + json_array_size(texts) + 1, sizeof(*joined));
        struct error ignored;
        json_t *text;
        size_t i, count = first_count;

        if (first_count)
                memcpy(joined, first, first_count * sizeof(*joined));
        json_array_foreach (texts, i, text) {
                if (json_is_string(text) &&
                    approval_parse(json_string_value(text), arena, &joined[count], &ignored) == 0)
                        count++;
        }
        *ret_count = count;
        return joined;
}
