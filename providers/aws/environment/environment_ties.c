/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that hang on a function that will be deleted or replaced, and that no manifest has:
 * DeleteFunction takes its URL, aliases and permissions without a word, and leaves event sources
 * that lead nowhere. It is said, not refused.
 *
 * These are four calls a function, of the 15 a second that Lambda takes: beyond the first few
 * functions of a plan they are made only if every function is read singly (--refresh full). A right
 * that is missing only makes the answer shorter, and says so.
 */
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/shared/stage_call.h"

/* So many of a kind are named. */
#define NAMED_MAX 3

/* An answer of the four: how many things there are, and their names. */
struct tie {
        const char *one, *many;
        const char *list; /* the member that has them; NULL: the answer is the thing itself */
        const char *name; /* each one's name, or the thing's */
};

/* Only the first page is read: where there is another, people are told that there are more. */
static void append_names(const json_t *items, bool more, const struct tie *tie, struct strbuf *out) {
        const json_t *item;
        size_t i;

        strbuf_printf(out, "%s%zu %s", more ? "at least " : "", json_array_size(items),
                      json_array_size(items) == 1 ? tie->one : tie->many);
        json_array_foreach (items, i, item) {
                const char *name = json_text(item, tie->name);

                if (i < NAMED_MAX)
                        strbuf_printf(out, "%s%s", i == 0 ? " (" : ", ", name ? name : "?");
        }
        strbuf_append(out, json_array_size(items) > NAMED_MAX ? " ...)" : ")");
}

static void append_tie(const json_t *answer, const struct tie *tie, struct strbuf *out) {
        const json_t *items = tie->list ? json_object_get(answer, tie->list) : NULL;
        const char *text = tie->list ? NULL : json_text(answer, tie->name),
                   *next = json_text(answer, "NextMarker");

        if (!text && json_array_size(items) == 0)
                return;
        if (out->length > 0)
                strbuf_append(out, ", ");
        if (text)
                strbuf_printf(out, "%s %s", tie->one, text);
        else
                append_names(items, next && *next, tie, out);
}

static int ask_tie(struct provider *provider, const struct aws_request *request, const struct tie *tie,
                   struct strbuf *out, struct arena *arena, struct error *err) {
        static const char *const codes[] = { "ResourceNotFoundException", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        json_t *policy JSON_CLEANUP = NULL;
        const char *document, *unknown;

        if (aws_ask_fact(provider, request, codes, &response, &unknown, arena, err) < 0)
                return -1;
        if (unknown) {
                if (aws_code_is_denied(response.error_code))
                        unknown = arena_printf(arena, "allow lambda:%s", request->operation);
                strbuf_printf(out, "%s%s not known (%s)", out->length > 0 ? ", " : "", tie->many, unknown);
                return 0;
        }
        if (*response.error_code)
                return 0;
        document = json_text(response.json, "Policy");
        if (document)
                policy = json_loads(document, JSON_REJECT_DUPLICATES, NULL);
        append_tie(policy ? policy : response.json, tie, out);
        return 0;
}

int environment_ask_ties(struct provider *provider, struct change *change, struct arena *arena,
                         struct error *err) {
        static const struct tie url = { "its URL", "its URL", NULL, "FunctionUrl" };
        static const struct tie aliases = { "alias", "aliases", "Aliases", "Name" };
        static const struct tie sources = { "event source", "event sources", "EventSourceMappings",
                                            "EventSourceArn" };
        static const struct tie permissions = { "permission", "permissions", "Statement", "Sid" };
        const char *function = environment_function(provider, change->name, arena);
        const struct aws_request requests[] = {
                lambda_get_url(function, arena),
                lambda_list_aliases(function, arena),
                lambda_get_policy(function, arena),
                lambda_list_event_sources(function, arena),
        };
        const struct tie *const ties[] = { &url, &aliases, &permissions, &sources };
        struct strbuf found STRBUF_CLEANUP = STRBUF_INIT;

        if ((change->action != ACTION_DELETE && change->action != ACTION_REPLACE) ||
            !change->observed->exists || provider->ties_to_ask == 0)
                return 0;
        provider->ties_to_ask--;
        for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
                if (ask_tie(provider, &requests[i], ties[i], &found, arena, err) < 0)
                        return -1;
        }
        if (found.length > 0)
                change->reason =
                        arena_printf(arena, "%s%swhat hangs on the function goes or leads nowhere: %s",
                                     change->reason ? change->reason : "", change->reason ? "; " : "",
                                     strbuf_text(&found));
        return 0;
}
