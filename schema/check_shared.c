/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that several kinds share, of what one resource must satisfy beyond its fields. A field that could not be read
 * is absent here, or null: its error was reported when it was read, and no second one follows from it.
 */
#include "base/terminal.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct value *typed_member(const struct value *map, const char *name, enum value_type type) {
        const struct value *value = value_get(map, name);

        return value && value->type == type ? value : NULL;
}

/* The pattern of repositories, which is ECR's own, lets the host of a registry through. */
void check_repository(struct loading *loading, const struct value *image) {
        const struct value *repository = typed_member(image, "repository", VALUE_TEXT);

        if (repository && (strstr(repository->text, ".amazonaws.") || strstr(repository->text, ".dkr.ecr.")))
                problem_error(
                        loading, place_of(repository),
                        "name the repository alone; another account's registry goes into the field registry",
                        "repository must not name a registry, found \"%s\"", repository->text);
}

/* The region in "ACCOUNT.dkr.ecr.REGION.DOMAIN": "Lambda and the repository must be in the same AWS Region", its guide says. */
void check_registry(struct loading *loading, const struct value *image) {
        const struct value *registry = typed_member(image, "registry", VALUE_TEXT);
        const struct value *region = typed_member(
                typed_member(loading->manifests->stack->spec, "aws", VALUE_MAP), "region", VALUE_TEXT);
        const char *found = registry ? strstr(registry->text, ".dkr.ecr.") : NULL;
        size_t length;

        if (!found || !region)
                return;
        found += strlen(".dkr.ecr.");
        length = strcspn(found, ".");
        if (length != strlen(region->text) || strncmp(found, region->text, length) != 0)
                problem_error(loading, place_of(registry),
                              "name a registry of the stack's region; ECR can replicate repositories there",
                              "the registry is in %.*s, the stack in %s: Lambda takes images of its own "
                              "region alone",
                              (int)length, found, region->text);
}

/* The account in "arn:aws:iam::ACCOUNT:role/NAME": Lambda takes roles of the function's own account alone. */
void check_role_account(struct loading *loading, const struct value *role, const struct value *account) {
        const char *in_role = strstr(role->text, ":iam::");

        if (in_role && strncmp(in_role + strlen(":iam::"), account->text, 12) != 0)
                problem_error(
                        loading, place_of(role), NULL,
                        "the role is in account %.12s, the stack in %s: functions run with roles of their own "
                        "account alone",
                        in_role + strlen(":iam::"), account->text);
}

static int compare_items(const void *a, const void *b) {
        const struct value *const *left = a, *const *right = b;
        int order = strcmp((*left)->text, (*right)->text);

        if (order != 0)
                return order;
        return *left < *right ? -1 : *left > *right;
}

/* Sorted by text and then by place, so that the later of two is reported, and a list of 10,000 names costs no more than a sort. */
void check_names_once(struct loading *loading, const struct value *list) {
        const struct value **sorted;
        size_t count = 0;

        if (!list || list->count < 2)
                return;
        sorted = calloc(list->count, sizeof(const struct value *));
        if (!sorted)
                abort();
        for (uint32_t i = 0; i < list->count; i++) {
                if (value_text_of(&list->items[i]))
                        sorted[count++] = &list->items[i];
        }
        qsort(sorted, count, sizeof(const struct value *), compare_items);
        for (size_t i = 1; i < count; i++) {
                if (strcmp(sorted[i - 1]->text, sorted[i]->text) == 0)
                        problem_error(loading, place_of(sorted[i]), NULL,
                                      "%.100s is named twice, first on line %u", sorted[i]->text,
                                      sorted[i - 1]->line);
        }
        free(sorted);
}

void check_listen(struct loading *loading, const struct value *listen) {
        const char *colon = strrchr(listen->text, ':');

        if (colon && strtol(colon + 1, NULL, 10) > 65535)
                problem_error(loading, place_of(listen), NULL,
                              "listen must have a port of 0 to 65535, found %s", colon + 1);
}

void check_draft(struct loading *loading, const struct draft *draft) {
        const struct kind *kind = draft->resource.kind;

        if (kind->check)
                kind->check(loading, draft);
}
