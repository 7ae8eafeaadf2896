/* SPDX-License-Identifier: Apache-2.0 */
/* schema and explain: the field tables, as JSON Schema and as text. They need no manifests. */
#include "cli/session.h"
#include "cli/verbs.h"
#include "schema/reference.h"

static int unknown_kind(const char *typed, struct error *err) {
        const char *near;

        if (!*typed)
                return error_set(err, "the kind is missing; berth schema without one has them all");
        near = kind_nearest(typed);
        if (near)
                return error_set(err, "there is no kind \"%s\"; did you mean %s?", typed, near);
        return error_set(err, "there is no kind \"%s\"; berth schema without a kind has them all", typed);
}

int verb_schema(const struct options *options, struct error *err) {
        const struct kind *kind = NULL;

        if (options->operand_count > 0) {
                kind = kind_find_loosely(options->operands[0]);
                if (!kind)
                        return unknown_kind(options->operands[0], err);
        }
        print_json(schema_json(kind));
        return EXIT_DONE;
}

int verb_explain(const struct options *options, struct error *err) {
        json_t *json;

        if (options->operand_count == 0) {
                if (options->json)
                        print_json(explain_kinds_json());
                else
                        explain_kinds(stdout);
                return EXIT_DONE;
        }
        if (!options->json)
                return explain(options->operands[0], stdout, err);
        if (explain_json(options->operands[0], &json, err) < 0)
                return -1;
        print_json(json);
        return EXIT_DONE;
}
