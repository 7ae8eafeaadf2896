/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a role that Berth made is, and what others did to it since.
 *
 * A document that others tightened reads as if it were as wished, so that no change comes of it,
 * and is reported as drift that stays. If others widened it as well, or Berth wants more than it
 * did, it reads as it is, and the change keeps what was taken away (execution_role_step.c).
 */
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/aws/client/aws_paging.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/iam.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/execution_role.h"
#include "providers/aws/shared/policy_compare.h"

#include <string.h>

/* One role being read. */
struct reading {
        struct provider *provider;
        const struct execution_role_look *look;
        struct arena *arena;
        struct execution_role_sight sight;
        struct error *err;
};

/* "/a/b/" of "arn:aws:iam::ACCOUNT:role/a/b/NAME". */
static const char *path_in(const char *arn, struct arena *arena) {
        const char *path = strstr(arn, ":role/");

        if (!path)
                return NULL;
        path += strlen(":role");
        return arena_strndup(arena, path, (size_t)(execution_role_name_in(arn) - path));
}

/*
 * Of a role that is ours and is to stay; what is wrong with another one is not for this stack to say. `word` NULL: nothing
 * accepts it.
 */
static void add_left(struct reading *reading, const char *word, const char *member, struct left_drift left) {
        const struct execution_role_look *look = reading->look;

        if (!look->wished || reading->sight.ownership != OWNER_SELF)
                return;
        left.path = arena_printf(reading->arena, "%s.%s", look->member, member);
        if (word)
                left.remedy = arena_printf(reading->arena, "%s, or accept it: %s: [%s]", left.remedy,
                                           look->accept, word);
        aws_leave(&reading->sight.left, word ? look->accepted : NULL, word ? word : "", left, reading->arena);
}

static const struct value *document_value(const json_t *document, struct arena *arena) {
        json_t *normal JSON_CLEANUP = policy_document_normalise(document);
        struct value *value = arena_alloc(arena, sizeof(*value));

        *value = value_from_json(arena, normal);
        return value;
}

/* For people: what of the role's rights is gone, and how Berth's document is had again. */
static const char *describe_tightened(const struct policy_comparison *comparison, const char *again,
                                      struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (comparison->unclear)
                strbuf_append(&text, "whether it allows more than Berth's or less cannot be told");
        else if (comparison->taken_count > 0)
                strbuf_printf(&text, "%s is not allowed any more", comparison->taken[0]);
        if (!comparison->unclear && comparison->taken_count > 1)
                strbuf_printf(&text, ", nor %zu more", comparison->taken_count - 1);
        if (comparison->deny_count > 0)
                strbuf_printf(&text, "%s%zu %s added", text.length ? ", and " : "", comparison->deny_count,
                              comparison->deny_count == 1 ? "Deny was" : "Denies were");
        strbuf_printf(&text, "; to have Berth's again, %s", again);
        return arena_strdup(arena, strbuf_text(&text));
}

/* One of the role's two documents; `text` NULL: it does not exist. */
static void set_document(struct reading *reading, const char *name, const char *text, const char *again) {
        const struct execution_role_look *look = reading->look;
        const struct value *wished = value_get(look->wished, name);
        const struct value *before = value_get(look->recorded, name);
        json_t *there JSON_CLEANUP = policy_document_parse(text);
        json_t *ours JSON_CLEANUP = wished ? value_to_json(wished, NULL) : NULL;
        json_t *applied JSON_CLEANUP = NULL;
        json_t *own_deny JSON_CLEANUP = execution_role_own_deny(reading->provider, name);
        struct policy_comparison comparison;

        if (!there)
                return;
        /* Of a role that was given up nothing is wanted. */
        if (!ours) {
                execution_role_set_document(reading->sight.spec, name, json_incref(there), reading->arena);
                return;
        }
        /*
         * For one that is ours and has no record (a lost state), Berth's document is assumed to
         * have been there.
         */
        if (before || reading->sight.ownership == OWNER_SELF)
                applied = value_to_json(before ? before : wished, NULL);
        policy_compare(there, applied, ours, own_deny, reading->arena, &comparison);
        json_decref(comparison.target);
        if (!comparison.unclear && (comparison.widened || comparison.lacks || comparison.outlived)) {
                execution_role_set_document(reading->sight.spec, name, json_incref(there), reading->arena);
                return;
        }
        execution_role_set_document(reading->sight.spec, name, json_incref(ours), reading->arena);
        /*
         * Else it is another text of the same meaning. Accepting that rights are gone does not
         * accept a document that may give more of them.
         */
        if (comparison.unclear || comparison.tightened)
                add_left(reading, comparison.unclear ? NULL : ROLE_ACCEPT_RIGHTS, name,
                         (struct left_drift){
                                 .before = document_value(ours, reading->arena),
                                 .after = document_value(there, reading->arena),
                                 .remedy = describe_tightened(&comparison, again, reading->arena),
                         });
}

/*
 * A boundary is compared if the Stack names one, or gave the one that is there; any other one
 * stays.
 */
static void set_boundary(struct reading *reading, const char *boundary) {
        const struct value *wished = value_get(reading->look->wished, "permissionsBoundary");
        struct value *there = arena_alloc(reading->arena, sizeof(*there));
        bool ours = wished ||
                    texts_same(boundary, value_get_text(reading->look->recorded, "permissionsBoundary"));

        value_set_text(reading->arena, reading->sight.spec, "permissionsBoundary", ours ? boundary : NULL);
        if (!boundary || ours)
                return;
        *there = value_text(reading->arena, boundary);
        add_left(reading, ROLE_ACCEPT_RIGHTS, "permissionsBoundary",
                 (struct left_drift){
                         .after = there,
                         .remedy = "it bounds what the role's policies allow; take it away from the role",
                 });
}

static int read_role(struct reading *reading) {
        static const char *const absent[] = { "NoSuchEntity", NULL };
        const struct execution_role_look *look = reading->look;
        struct execution_role_sight *sight = &reading->sight;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = iam_get_role(look->name, reading->arena);
        struct iam_role role;

        if (aws_call_accepting(reading->provider->client, &request, absent, &response, reading->err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        if (iam_read_role(&response, reading->arena, &role, reading->err) < 0)
                return -1;
        sight->exists = true;
        sight->arn = role.arn;
        sight->id = role.id;
        sight->tags = role.tags;
        sight->ownership = aws_ownership(reading->provider, role.tags, reading->arena, &sight->owner);
        if (sight->ownership == OWNER_NONE && look->begun)
                sight->ownership = OWNER_SELF;
        sight->spec = value_new_map(reading->arena);
        value_set_text(reading->arena, sight->spec, "name", look->name);
        value_set_text(reading->arena, sight->spec, "path", path_in(role.arn, reading->arena));
        value_set(reading->arena, sight->spec, "tags",
                  *aws_tags_of_ours(role.tags,
                                    execution_role_tags(reading->provider, look->of, reading->arena),
                                    value_get(look->recorded, "tags"), reading->arena));
        set_document(reading, "trust", role.trust, "let lambda.amazonaws.com assume it");
        set_boundary(reading, role.boundary);
        return 0;
}

static int read_role_policy(struct reading *reading) {
        static const char *const absent[] = { "NoSuchEntity", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request =
                iam_get_role_policy(reading->look->name, EXECUTION_ROLE_POLICY, reading->arena);
        const char *text = NULL;

        if (aws_call_accepting(reading->provider->client, &request, absent, &response, reading->err) < 0)
                return -1;
        if (!*response.error_code && iam_read_role_policy(&response, reading->arena, &text, reading->err) < 0)
                return -1;
        set_document(reading, "policy", text,
                     "delete the role's inline policy " EXECUTION_ROLE_POLICY " and apply");
        return 0;
}

static struct aws_request list_policies(const char *role, bool attached, const char *marker,
                                        struct arena *arena) {
        return attached ? iam_list_attached_policies(role, marker, arena)
                        : iam_list_role_policies(role, marker, arena);
}

/* Policies of others, which give it more rights than Berth did: two lists more, and so only where all is read. */
static int read_others_policies(struct reading *reading, bool attached) {
        struct arena *arena = reading->arena;
        struct value *names = value_new_list(arena), *others = value_new_list(arena);
        struct aws_paging paging = { 0 };

        do {
                struct aws_request request =
                        list_policies(reading->look->name, attached, paging.token, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const char *next, *unknown;

                if (aws_ask_fact(reading->provider, &request, NULL, &response, &unknown, arena,
                                 reading->err) < 0)
                        return -1;
                if (unknown) {
                        reading->sight.unknown =
                                aws_code_is_denied(response.error_code)
                                        ? "allow iam:ListRolePolicies and iam:ListAttachedRolePolicies"
                                        : unknown;
                        return 0;
                }
                if (iam_read_policy_names(&response, attached, arena, names, &next, reading->err) < 0)
                        return -1;
                if (aws_paging_next(&paging, next, arena, reading->err) < 0)
                        return error_context(reading->err, "iam %s", request.operation);
        } while (paging.token);
        for (uint32_t i = 0; i < names->count; i++) {
                if (attached || !texts_same(value_text_of(&names->items[i]), EXECUTION_ROLE_POLICY))
                        value_append(arena, others, names->items[i]);
        }
        if (others->count > 0)
                add_left(reading, ROLE_ACCEPT_POLICIES, attached ? "attachedPolicies" : "inlinePolicies",
                         (struct left_drift){
                                 .after = others,
                                 .remedy = "the role may have more rights than Berth gave it; remove them "
                                           "from it",
                         });
        return 0;
}

int execution_role_read(struct provider *provider, const struct execution_role_look *look,
                        struct arena *arena, struct execution_role_sight *ret, struct error *err) {
        struct reading reading = { .provider = provider, .look = look, .arena = arena, .err = err };

        if (read_role(&reading) < 0 || (reading.sight.exists && read_role_policy(&reading) < 0))
                return error_context(err, "role %s", look->name);
        if (look->full && look->wished && reading.sight.exists && reading.sight.ownership == OWNER_SELF &&
            (read_others_policies(&reading, true) < 0 || read_others_policies(&reading, false) < 0))
                return error_context(err, "role %s", look->name);
        *ret = reading.sight;
        return 0;
}

void execution_role_read_ahead(struct provider *provider, const char *name, bool there, bool full,
                               struct arena *arena) {
        const struct aws_request requests[] = {
                iam_get_role(name, arena),
                iam_get_role_policy(name, EXECUTION_ROLE_POLICY, arena),
                list_policies(name, true, NULL, arena),
                list_policies(name, false, NULL, arena),
        };

        for (size_t i = 0; i < (!there ? 1 : !full ? 2 : 4); i++)
                aws_ahead(provider->client, &requests[i]);
}
