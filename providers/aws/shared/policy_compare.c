/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document's Allow statements are taken apart into grants: one action on one object (a resource, or in a trust policy a
 * principal) under the statement's condition. One grant covers another where whatever the other allows it allows as well.
 * Order, spacing, one text for a list of one, and statements cut otherwise make no difference then, and patterns are
 * understood: s3:* covers s3:GetObject.
 *
 *     added     a grant of the found document that no wanted one covers
 *     taken     a grant that was applied and is still wanted, and that no found one covers
 *
 * A Deny is compared as a whole. A wanted Deny that is missing, whoever took it away, is as good as
 * a grant more: added. A Deny that is Berth's own to the letter and not wanted was left by a run
 * without a record: it goes, and does not count as others'.
 *
 * Of the target, every wanted Deny comes first, then the wanted grants that were not taken. Then
 * those of the found statements that lie within the wanted, if one was narrowed (a longer prefix, a
 * condition more). Then every Deny that is there.
 *
 * Where a grant was added and one taken that speak of the same action and object, and a wanted one
 * has that place, another condition stands where Berth's stood, and which allows more is not
 * understood here: the document is unclear. It goes no further than that place. A document that
 * allows anything outside of the wanted places (also by NotAction: all but something), or lacks a
 * wanted Deny, was widened, whatever else is in it: adding text that is not understood here cannot
 * preserve it.
 *
 * Where nothing stays, the whole document was replaced by another one: that is as if it had been deleted, and not tightened.
 */
#include "providers/aws/shared/policy_compare.h"

#include "base/array.h"
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/shared/policy_document.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct grant {
        const char *action, *object;
        const json_t *condition; /* NULL: none */
        size_t statement;
};

/*
 * The grants of one document. Lists of actions and of objects multiply, and Berth's own has some
 * twenty.
 */
#define GRANTS_MAX 4096

struct grants {
        const json_t *statements; /* normal form */
        struct grant *items;
        size_t count;
        bool opaque;   /* some statement allows all but something: more than can be told */
        bool unclear;  /* it is no document that is known here */
        bool too_many; /* a statement is left out of them */
        struct arena *arena;
};

/* `*` stands for any text and `?` for any character; one of those in `text` is covered by a `*` alone. */
static bool pattern_covers(const char *pattern, const char *text, bool fold) {
        const char *star = NULL, *resume = NULL;

        while (*text) {
                bool same = fold ? tolower((unsigned char)*pattern) == tolower((unsigned char)*text)
                                 : *pattern == *text;

                if (*pattern == '*') {
                        star = pattern++;
                        resume = text;
                } else if (*pattern && (same || (*pattern == '?' && *text != '*'))) {
                        pattern++;
                        text++;
                } else if (star) {
                        pattern = star + 1;
                        text = ++resume;
                } else {
                        return false;
                }
        }
        while (*pattern == '*')
                pattern++;
        return !*pattern;
}

/* Normal form: one text, or a list of several. */
static size_t text_count(const json_t *texts) {
        return json_is_array(texts) ? json_array_size(texts) : json_is_string(texts) ? 1 : 0;
}

static const char *text_at(const json_t *texts, size_t i) {
        return json_string_value(json_is_array(texts) ? json_array_get(texts, i) : texts);
}

/* The texts of one key of a condition: any of them fits, so that fewer and narrower ones are a stricter condition. */
static bool values_cover(const char *relation, const json_t *wide, const json_t *narrow) {
        bool like = strstr(relation, "Like") != NULL;

        if (strstr(relation, "Not"))
                return json_equal(wide, narrow);
        for (size_t i = 0; i < text_count(narrow); i++) {
                bool covered = false;

                for (size_t k = 0; k < text_count(wide) && !covered; k++)
                        covered = like ? pattern_covers(text_at(wide, k), text_at(narrow, i), false)
                                       : strcmp(text_at(wide, k), text_at(narrow, i)) == 0;
                if (!covered)
                        return false;
        }
        return text_count(narrow) > 0;
}

/* All keys of all operators must hold: an added one makes it stricter. */
static bool condition_covers(const json_t *wide, const json_t *narrow) {
        const char *relation, *key;
        json_t *keys, *values;

        json_object_foreach ((json_t *)wide, relation, keys) {
                json_object_foreach (keys, key, values) {
                        const json_t *other = json_object_get(json_object_get(narrow, relation), key);

                        if (!other || !values_cover(relation, values, other))
                                return false;
                }
        }
        return true;
}

static bool covers_place(const struct grant *wide, const struct grant *narrow) {
        return pattern_covers(wide->action, narrow->action, true) &&
               pattern_covers(wide->object, narrow->object, false);
}

static bool covers(const struct grant *wide, const struct grant *narrow) {
        return covers_place(wide, narrow) && condition_covers(wide->condition, narrow->condition);
}

static bool is_covered(const struct grants *wide, const struct grant *narrow) {
        for (size_t i = 0; i < wide->count; i++) {
                if (covers(&wide->items[i], narrow))
                        return true;
        }
        return false;
}

/* Whether some grant has the place, on whatever condition. */
static bool has_place(const struct grants *wide, const struct grant *narrow) {
        for (size_t i = 0; i < wide->count; i++) {
                if (covers_place(&wide->items[i], narrow))
                        return true;
        }
        return false;
}

static bool speak_of_the_same(const struct grant *a, const struct grant *b) {
        bool action =
                pattern_covers(a->action, b->action, true) || pattern_covers(b->action, a->action, true);
        bool object =
                pattern_covers(a->object, b->object, false) || pattern_covers(b->object, a->object, false);

        return action && object;
}

static void add_grants(struct grants *grants, const json_t *statement, size_t index, const char *object) {
        const json_t *actions = json_object_get(statement, "Action");

        for (size_t i = 0; i < text_count(actions) && grants->count <= GRANTS_MAX; i++) {
                grants->items = array_grow(grants->arena, grants->items, grants->count, sizeof(struct grant));
                grants->items[grants->count++] = (struct grant){
                        .action = text_at(actions, i),
                        .object = object,
                        .condition = json_object_get(statement, "Condition"),
                        .statement = index,
                };
        }
}

/*
 * A resource is its own name; a principal is "Service:lambda.amazonaws.com", and every principal
 * "*".
 */
static void add_statement(struct grants *grants, const json_t *statement, size_t index) {
        const json_t *resources = json_object_get(statement, "Resource"),
                     *principal = json_object_get(statement, "Principal");
        size_t before = grants->count;
        const char *type;
        json_t *names;

        if (json_object_get(statement, "NotAction") || json_object_get(statement, "NotResource") ||
            json_object_get(statement, "NotPrincipal") ||
            text_count(json_object_get(statement, "Action")) == 0) {
                grants->opaque = true;
                return;
        }
        for (size_t i = 0; i < text_count(resources); i++)
                add_grants(grants, statement, index, text_at(resources, i));
        if (json_is_string(principal))
                add_grants(grants, statement, index, json_string_value(principal));
        json_object_foreach ((json_t *)principal, type, names) {
                for (size_t i = 0; i < text_count(names); i++)
                        add_grants(grants, statement, index,
                                   arena_printf(grants->arena, "%s:%s", type, text_at(names, i)));
        }
        if (grants->count > GRANTS_MAX) {
                grants->count = before;
                grants->too_many = true;
        }
}

static bool allows(const json_t *statement) {
        return aws_json_says(statement, "Effect", "Allow");
}

static struct grants grants_of(const json_t *document, struct arena *arena) {
        struct grants grants = { .statements = json_object_get(document, "Statement"), .arena = arena };
        const json_t *statement;
        size_t i;

        if (!json_is_array(grants.statements) || json_array_size(grants.statements) > GRANTS_MAX) {
                grants.unclear = true;
                return grants;
        }
        json_array_foreach (grants.statements, i, statement) {
                if (allows(statement))
                        add_statement(&grants, statement, i);
                else
                        grants.unclear |= !aws_json_says(statement, "Effect", "Deny");
        }
        return grants;
}

static bool holds_statement(const json_t *statements, const json_t *wanted) {
        const json_t *statement;
        size_t i;

        json_array_foreach (statements, i, statement) {
                if (json_equal(statement, wanted))
                        return true;
        }
        return false;
}

/* Adds a statement; a Sid may stand in a document but once. */
static void append_statement(json_t *statements, json_t *statement) {
        const char *sid = json_text(statement, "Sid");
        const json_t *other;
        size_t i;

        json_array_foreach (statements, i, other) {
                if (sid && json_text(other, "Sid") && strcmp(sid, json_text(other, "Sid")) == 0) {
                        json_object_del(statement, "Sid");
                        break;
                }
        }
        json_array_append_new(statements, statement);
}

/* The object of a grant, put back into the statement that is made for it. */
static void set_object(json_t *statement, const char *object) {
        const char *colon = strchr(object, ':');

        if (json_object_get(statement, "Resource"))
                json_object_set_new(statement, "Resource", json_checked(json_string(object)));
        else if (colon && strcmp(object, "*") != 0)
                json_object_set_new(
                        statement, "Principal",
                        json_checked(json_pack("{s%:s}", object, (size_t)(colon - object), colon + 1)));
        else
                json_object_set_new(statement, "Principal", json_checked(json_string(object)));
}

/* A statement of which only some grants stay: one statement for each of its objects, with the actions that stay on it. */
static void append_part(json_t *statements, const json_t *statement, const struct grants *grants,
                        const bool *stays, size_t index) {
        for (size_t i = 0; i < grants->count; i++) {
                const char *object = grants->items[i].object;
                json_t *actions, *part;
                bool first = grants->items[i].statement == index && stays[i];

                for (size_t k = 0; k < i && first; k++)
                        first = !(grants->items[k].statement == index && stays[k] &&
                                  strcmp(grants->items[k].object, object) == 0);
                if (!first)
                        continue;
                actions = json_checked(json_array());
                for (size_t k = i; k < grants->count; k++) {
                        if (grants->items[k].statement == index && stays[k] &&
                            strcmp(grants->items[k].object, object) == 0)
                                json_array_append_new(actions, json_string(grants->items[k].action));
                }
                part = json_checked(json_deep_copy(statement));
                json_object_set_new(part, "Action", actions);
                set_object(part, object);
                append_statement(statements, part);
        }
}

static void append_grants(json_t *statements, const struct grants *grants, const bool *stays) {
        const json_t *statement;
        size_t index;

        json_array_foreach (grants->statements, index, statement) {
                bool all = true, any = false;

                for (size_t i = 0; i < grants->count; i++) {
                        all &= grants->items[i].statement != index || stays[i];
                        any |= grants->items[i].statement == index && stays[i];
                }
                if (any && all)
                        append_statement(statements, json_checked(json_deep_copy(statement)));
                else if (any)
                        append_part(statements, statement, grants, stays, index);
        }
}

/*
 * An existing one is not added again. Returns how many Denies `from` has, but for the one left out
 * (normal form; may be NULL).
 */
static size_t append_denies(json_t *statements, const json_t *from, const json_t *left_out) {
        const json_t *statement;
        size_t i, count = 0;

        json_array_foreach (from, i, statement) {
                if (allows(statement) || (left_out && json_equal(statement, left_out)))
                        continue;
                count++;
                if (!holds_statement(statements, statement))
                        append_statement(statements, json_checked(json_deep_copy(statement)));
        }
        return count;
}

static void note_taken(struct policy_comparison *comparison, const struct grant *grant, struct arena *arena) {
        comparison->tightened = true;
        comparison->taken =
                array_grow(arena, comparison->taken, comparison->taken_count, sizeof(*comparison->taken));
        comparison->taken[comparison->taken_count++] =
                arena_printf(arena, "%s on %s", grant->action, grant->object);
}

static void compare_denies(const struct grants *found, const struct grants *wanted, const json_t *outlived,
                           struct policy_comparison *ret) {
        const json_t *statement;
        size_t i;

        json_array_foreach (found->statements, i, statement) {
                if (!aws_json_says(statement, "Effect", "Deny") ||
                    holds_statement(wanted->statements, statement))
                        continue;
                if (outlived && json_equal(statement, outlived))
                        ret->outlived = true;
                else
                        ret->deny_count++;
        }
        ret->tightened |= ret->deny_count > 0;
        /* Without a Deny of ours, the document allows what that one takes away. */
        json_array_foreach (wanted->statements, i, statement)
                ret->widened |= !allows(statement) && !holds_statement(found->statements, statement);
}

static json_t *make_target_policy(const struct grants *found, const struct grants *applied,
                                  const struct grants *wanted, const json_t *outlived, struct arena *arena) {
        bool *stays = arena_array(arena, wanted->count + 1, sizeof(*stays)),
             *narrowed = arena_array(arena, found->count + 1, sizeof(*narrowed));
        json_t *statements = json_checked(json_array());
        /* Ours are the first, so that no other statement has their Sid and they are found again. */
        size_t ours = append_denies(statements, wanted->statements, NULL);
        bool any;

        for (size_t i = 0; i < wanted->count; i++)
                stays[i] = is_covered(found, &wanted->items[i]) || !is_covered(applied, &wanted->items[i]);
        for (size_t i = 0; i < found->count; i++) {
                narrowed[i] = is_covered(wanted, &found->items[i]);
                for (size_t k = 0; k < wanted->count && narrowed[i]; k++)
                        narrowed[i] = !(stays[k] && covers(&wanted->items[k], &found->items[i]));
        }
        append_grants(statements, wanted, stays);
        append_grants(statements, found, narrowed);
        any = json_array_size(statements) > ours;
        if (append_denies(statements, found->statements, outlived) > 0 || any)
                return statements;
        json_decref(statements);
        return NULL;
}

void policy_compare(const json_t *found_document, const json_t *applied_document,
                    const json_t *wanted_document, const json_t *own_deny, struct arena *arena,
                    struct policy_comparison *ret) {
        json_t *found_normal JSON_CLEANUP = policy_document_normalise(found_document);
        json_t *wanted_normal JSON_CLEANUP = policy_document_normalise(wanted_document);
        json_t *applied_normal JSON_CLEANUP =
                applied_document ? policy_document_normalise(applied_document) : NULL;
        json_t *own JSON_CLEANUP = own_deny ? policy_document_normalise(own_deny) : NULL;
        struct grants found = grants_of(found_normal, arena), wanted = grants_of(wanted_normal, arena),
                      applied = { .arena = arena };
        struct policy_comparison result = { .widened = found.opaque };
        const json_t *outlived = own && !holds_statement(wanted.statements, own) ? own : NULL;
        bool outside, replaced = false;
        json_t *statements;

        if (applied_normal)
                applied = grants_of(applied_normal, arena);
        compare_denies(&found, &wanted, outlived, &result);
        outside = result.widened;
        for (size_t i = 0; i < found.count; i++) {
                result.widened |= !is_covered(&wanted, &found.items[i]);
                outside |= !has_place(&wanted, &found.items[i]);
        }
        for (size_t i = 0; i < wanted.count; i++) {
                const struct grant *grant = &wanted.items[i];

                if (is_covered(&found, grant))
                        continue;
                if (!is_covered(&applied, grant)) {
                        result.lacks = true;
                        continue;
                }
                note_taken(&result, grant, arena);
                for (size_t k = 0; k < found.count; k++)
                        replaced |= !is_covered(&wanted, &found.items[k]) &&
                                    speak_of_the_same(grant, &found.items[k]);
        }
        result.unclear = found.unclear || (!outside && (replaced || found.too_many));
        if (!result.unclear) {
                statements = make_target_policy(&found, &applied, &wanted, outlived, arena);
                result.target = json_checked(json_deep_copy(wanted_document));
                if (statements)
                        json_object_set_new(result.target, "Statement", statements);
                else
                        result.tightened = false;
        }
        *ret = result;
}
