/* SPDX-License-Identifier: Apache-2.0 */
/* Looking things up in the tables. There are eight kinds with some ten fields each: a loop is enough. */
#include "schema/kind.h"

#include "base/suggest.h"
#include "schema/value.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct kind *kind_find(const char *name) {
        for (size_t i = 0; i < kind_count; i++) {
                if (strcmp(kinds[i]->name, name) == 0)
                        return kinds[i];
        }
        return NULL;
}

/* Whether `name` is `known` in any case, with or without a plural's s. */
static bool is_loosely(const char *name, const char *known) {
        size_t length = strlen(known);

        if (strncasecmp(name, known, length) != 0)
                return false;
        return name[length] == '\0' || strcasecmp(name + length, "s") == 0;
}

const struct kind *kind_find_loosely(const char *name) {
        for (size_t i = 0; i < kind_count; i++) {
                if (is_loosely(name, kinds[i]->name))
                        return kinds[i];
        }
        for (size_t i = 0; i < kind_count; i++) {
                for (const char *const *known = kinds[i]->short_names; known && *known; known++) {
                        if (is_loosely(name, *known))
                                return kinds[i];
                }
        }
        return NULL;
}

const char *kind_nearest(const char *typed) {
        const char **names = calloc(kind_count, sizeof(*names)), *nearest;
        char capital[64];

        if (!names)
                abort();
        /* In another case it is no other letter. */
        snprintf(capital, sizeof(capital), "%s", typed);
        capital[0] = (char)toupper((unsigned char)capital[0]);
        for (size_t i = 0; i < kind_count; i++)
                names[i] = kinds[i]->name;
        nearest = suggest_nearest(capital, names, kind_count);
        free(names);
        return nearest;
}

void kind_append_names(struct strbuf *to) {
        const char *last = NULL;
        bool any = false;

        /* "a, b and c": each name is written when the next one is known, since those that stand alone are left out. */
        for (size_t i = 0; i < kind_count; i++) {
                if (kinds[i]->started_by)
                        continue;
                if (last) {
                        strbuf_printf(to, "%s%s", any ? ", " : "", last);
                        any = true;
                }
                last = kinds[i]->name;
        }
        if (last)
                strbuf_printf(to, "%s%s", any ? " and " : "", last);
}

const struct kind_reference *kind_binding(const struct kind *kind) {
        for (const struct kind_reference *reference = kind->references; reference && reference->path;
             reference++) {
                if (reference->binds)
                        return reference;
        }
        return NULL;
}

bool kind_is_bound_to(const struct kind *kind) {
        for (size_t i = 0; i < kind_count; i++) {
                const struct kind_reference *binding = kind_binding(kinds[i]);

                if (binding && binding->kind == kind->id)
                        return true;
        }
        return false;
}

const char *kind_reference_name(const struct kind_reference *reference, const struct value *spec) {
        return value_text_of(
                value_path(spec, reference->loaded_path ? reference->loaded_path : reference->path));
}

const struct field *field_find(const struct field *fields, const char *name) {
        for (const struct field *field = fields; field && field->name; field++) {
                if (strcmp(field->name, name) == 0)
                        return field;
        }
        return NULL;
}

/* One step of a path below a field; `length` bytes of `step`. */
static const struct field *step_down(const struct field *fields, const struct field *parent, const char *step,
                                     size_t length) {
        for (const struct field *field = fields; field && field->name; field++) {
                if (strncmp(field->name, step, length) == 0 && field->name[length] == '\0')
                        return field;
        }
        return parent && parent->type == FIELD_MAP ? parent->item : NULL;
}

const struct field *kind_field(const struct kind *kind, const char *path) {
        const struct field *fields = kind->fields, *field = NULL;

        for (;;) {
                size_t length = strcspn(path, ".[");

                if (length > 0) {
                        field = step_down(fields, field, path, length);
                        if (!field)
                                return NULL;
                        path += length;
                }
                while (*path == '[') {
                        /* "transitions[0].afterDays", as plans write it. */
                        path += strcspn(path, "]");
                        path += *path == ']';
                }
                if (*path == '\0')
                        return field;
                while (field && field->type == FIELD_LIST)
                        field = field->item;
                fields = field ? field->fields : NULL;
                path++;
        }
}
