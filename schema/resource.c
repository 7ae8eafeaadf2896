/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document as a resource: apiVersion, kind, metadata, and the spec that the kind's fields describe.
 *
 * The parts are looked for by name first, whatever else is wrong: with kind and name known, every error of the document can
 * say whose it is. A document of another tool (another apiVersion, and no kind of ours) is one error and is read no further.
 * A resource that has a kind and a name is kept even if its spec is wrong, so that references to it are no errors of their own.
 */
#include "base/array.h"
#include "schema/decode.h"

#include <string.h>

enum { PART_API_VERSION, PART_KIND, PART_METADATA, PART_SPEC, PART_COUNT };

static const char *const part_names[PART_COUNT + 1] = { "apiVersion", "kind", "metadata", "spec", NULL };

/* The keys of a document's parts; NULL for what is missing. */
struct parts {
        const struct node *keys[PART_COUNT];
};

static const struct node *part_value(const struct parts *parts, size_t part) {
        return parts->keys[part] ? parts->keys[part]->next : NULL;
}

static const char *scalar_text(const struct node *node) {
        if (!node || node_target(node)->type != NODE_SCALAR || node_is_null(node))
                return NULL;
        return node_target(node)->text;
}

static void report_unknown_part(const struct decoder *decoder, const struct kind *kind,
                                const struct node *key) {
        const char *text = node_target(key)->text;
        const char *hint = problem_suggest(decoder->loading, text, part_names, PART_COUNT);

        if (kind && field_find(kind->fields, text))
                hint = arena_printf(decoder->loading->arena, "%s belongs under spec", text);
        else if (field_find(metadata_fields, text))
                hint = arena_printf(decoder->loading->arena, "%s belongs under metadata", text);
        else if (!hint)
                hint = "a manifest has apiVersion, kind, metadata and spec";
        problem_error(decoder->loading, decode_place(decoder, key), hint, "unknown field \"%.100s\"", text);
}

static const struct node *find_key(const struct node *map, const char *name) {
        for (const struct node *key = map->first; key; key = key->next->next) {
                const struct node *target = node_target(key);

                if (target->type == NODE_SCALAR && target->text[0] == name[0] &&
                    strcmp(target->text, name) == 0)
                        return key;
        }
        return NULL;
}

static void check_keys(const struct decoder *decoder, const struct node *root, const struct kind *kind,
                       const struct parts *parts) {
        for (const struct node *key = root->first; key; key = key->next->next) {
                const struct node *target = node_target(key);
                size_t part = 0;

                while (part < PART_COUNT && parts->keys[part] != key)
                        part++;
                if (part < PART_COUNT || target->type == NODE_BROKEN)
                        continue;
                if (target->type != NODE_SCALAR) {
                        problem_error(decoder->loading, decode_place(decoder, key), NULL,
                                      "a key must be a text, found %s", node_phrase(decoder->loading, key));
                        continue;
                }
                for (part = 0; part < PART_COUNT && strcmp(part_names[part], target->text) != 0;)
                        part++;
                if (part == PART_COUNT)
                        report_unknown_part(decoder, kind, key);
                else
                        problem_error(decoder->loading, decode_place(decoder, key), NULL,
                                      "%s is given twice, first on line %u", part_names[part],
                                      parts->keys[part]->line);
        }
}

static void report_missing_part(const struct decoder *decoder, const struct node *root,
                                const struct parts *parts, size_t part, const char *hint) {
        const struct node *at = parts->keys[part] ? parts->keys[part] : root;

        problem_error(decoder->loading, decode_place(decoder, at), hint, "%s is required", part_names[part]);
}

static void report_wrong_part(const struct decoder *decoder, const struct node *node, size_t part,
                              const char *type) {
        problem_error(decoder->loading, decode_place(decoder, node), NULL, "%s must be %s, found %s",
                      part_names[part], type, node_phrase(decoder->loading, node));
}

/* False where the document is not Berth's at all: then nothing more is said about it. */
static bool check_api_version(const struct decoder *decoder, const struct node *root,
                              const struct parts *parts) {
        const struct node *node = part_value(parts, PART_API_VERSION);
        const char *text = scalar_text(node), *kind;

        if (node && node_target(node)->type == NODE_BROKEN)
                return true;
        if (!text) {
                if (node && node_target(node)->type != NODE_SCALAR)
                        report_wrong_part(decoder, node, PART_API_VERSION, "the text " API_VERSION);
                else
                        report_missing_part(decoder, root, parts, PART_API_VERSION,
                                            "write apiVersion: " API_VERSION);
                return true;
        }
        if (strcmp(text, API_VERSION) == 0)
                return true;
        problem_error(decoder->loading, decode_place(decoder, node), NULL, "apiVersion must be %s, found %s",
                      API_VERSION, node_phrase(decoder->loading, node));
        kind = scalar_text(part_value(parts, PART_KIND));
        return strncmp(text, "berth", 5) == 0 || (kind && kind_find(kind));
}

static const struct kind *read_kind(const struct decoder *decoder, const struct node *root,
                                    const struct parts *parts) {
        const struct node *node = part_value(parts, PART_KIND);
        const char *text = scalar_text(node), *nearest;
        struct strbuf hint STRBUF_CLEANUP = STRBUF_INIT;
        const struct kind *kind;

        if (node && node_target(node)->type == NODE_BROKEN)
                return NULL;
        if (!text) {
                if (node && node_target(node)->type != NODE_SCALAR)
                        report_wrong_part(decoder, node, PART_KIND, "a text");
                else
                        report_missing_part(decoder, root, parts, PART_KIND, NULL);
                return NULL;
        }
        kind = kind_find(text);
        if (kind)
                return kind;
        nearest = *text ? kind_nearest(text) : NULL;
        if (!nearest && kind_find_loosely(text))
                nearest = kind_find_loosely(text)->name;
        if (nearest) {
                strbuf_printf(&hint, "did you mean %s?", nearest);
        } else {
                strbuf_append(&hint, "the kinds are ");
                kind_append_names(&hint);
        }
        if (*text)
                problem_error(decoder->loading, decode_place(decoder, node),
                              arena_strdup(decoder->loading->arena, strbuf_text(&hint)),
                              "unknown kind \"%.100s\"", text);
        else
                problem_error(decoder->loading, decode_place(decoder, node),
                              arena_strdup(decoder->loading->arena, strbuf_text(&hint)), "kind is empty");
        return NULL;
}

static void keep_draft(struct loading *loading, const struct draft *draft) {
        loading->drafts = array_grow_alone(loading->drafts, loading->draft_count, sizeof(*loading->drafts));
        loading->drafts[loading->draft_count++] = *draft;
}

/* Name and address as far as they can be told, so that the errors of this document carry them. */
static const struct node *find_name(const struct parts *parts) {
        const struct node *metadata = part_value(parts, PART_METADATA);
        const struct node *key;

        if (!metadata || node_target(metadata)->type != NODE_MAP)
                return NULL;
        key = find_key(node_target(metadata), "name");
        return key && scalar_text(key->next) ? key->next : NULL;
}

static const struct value *copy_value_shallow(struct arena *arena, const struct value *value) {
        struct value *kept;

        if (!value)
                return NULL;
        kept = arena_alloc(arena, sizeof(*kept));
        *kept = *value;
        return kept;
}

static void read_metadata(const struct decoder *decoder, const struct node *root, const struct parts *parts,
                          struct resource *resource) {
        const struct node *node = part_value(parts, PART_METADATA);
        struct frame frame = { .name = "metadata", .key = parts->keys[PART_METADATA] };
        struct value metadata = { 0 };

        if (!node || node_is_null(node)) {
                report_missing_part(decoder, root, parts, PART_METADATA, "metadata: {name: NAME}");
                return;
        }
        if (node_target(node)->type == NODE_BROKEN)
                return;
        if (node_target(node)->type != NODE_MAP) {
                report_wrong_part(decoder, node, PART_METADATA, "a map");
                return;
        }
        decode_object(decoder, metadata_fields, NULL, node, &frame, &metadata);
        resource->labels = copy_value_shallow(decoder->loading->arena, value_get(&metadata, "labels"));
        resource->annotations =
                copy_value_shallow(decoder->loading->arena, value_get(&metadata, "annotations"));
}

static void read_spec(const struct decoder *decoder, const struct node *root, const struct parts *parts,
                      struct resource *resource) {
        static const struct node empty = { .type = NODE_MAP };
        const struct node *node = part_value(parts, PART_SPEC);
        const struct field *required = resource->kind->fields;
        struct value *spec = value_new_map(decoder->loading->arena);
        struct node nothing = empty;
        struct frame frame = { .key = parts->keys[PART_SPEC] };

        resource->spec = spec;
        while (required->name && !required->required)
                required++;
        if (node && node_target(node)->type == NODE_BROKEN)
                return;
        if (!node || node_is_null(node)) {
                if (required->name) {
                        report_missing_part(decoder, root, parts, PART_SPEC, NULL);
                        return;
                }
                nothing.line = root->line;
                nothing.column = root->column;
                node = &nothing;
        }
        if (node_target(node)->type != NODE_MAP) {
                report_wrong_part(decoder, node, PART_SPEC, "a map");
                return;
        }
        decode_object(decoder, resource->kind->fields, resource->kind->groups, node, &frame, spec);
}

static void set_address(struct arena *arena, struct resource *resource, const char *name) {
        size_t kind_length = strlen(resource->kind->name);
        char *address = arena_alloc(arena, kind_length + strlen(name) + 2);

        stpcpy(stpcpy(stpcpy(address, resource->kind->name), "/"), name);
        resource->address = address;
        resource->name = address + kind_length + 1;
}

void decode_document(struct loading *loading, uint16_t file, const struct node *root) {
        struct decoder decoder = { .loading = loading, .file = file };
        const struct node *name;
        const struct kind *kind;
        struct parts parts = { 0 };
        struct draft draft = { 0 };

        loading->address = NULL;
        decode_hide_secrets(&decoder, root);
        if (root->type != NODE_MAP) {
                problem_error(loading, decode_place(&decoder, root),
                              "a manifest has apiVersion, kind, metadata and spec",
                              "a manifest must be a map, found %s", node_phrase(loading, root));
                return;
        }
        for (size_t i = 0; i < PART_COUNT; i++)
                parts.keys[i] = find_key(root, part_names[i]);
        if (!check_api_version(&decoder, root, &parts))
                return;
        kind = read_kind(&decoder, root, &parts);
        if (kind && !alone_takes(loading, kind, decode_place(&decoder, part_value(&parts, PART_KIND))))
                return;
        name = find_name(&parts);
        draft.resource =
                (struct resource){ .kind = kind, .file = file, .line = root->line, .column = root->column };
        if (name && kind) {
                set_address(loading->arena, &draft.resource, node_target(name)->text);
                draft.name = decode_place(&decoder, name);
                loading->address = draft.resource.address;
        }
        if (!draft.resource.name)
                problem_note_unread(loading, file, root->line, UINT32_MAX);
        check_keys(&decoder, root, kind, &parts);
        read_metadata(&decoder, root, &parts, &draft.resource);
        if (kind)
                read_spec(&decoder, root, &parts, &draft.resource);
        if (draft.resource.name) {
                check_draft(loading, &draft);
                keep_draft(loading, &draft);
        } else if (kind) {
                /* Without a name nothing can refer to it, yet what it says is checked like any other. */
                draft.name = (struct place){ .file = file, .line = root->line, .column = root->column };
                check_draft(loading, &draft);
        }
        loading->address = NULL;
}
