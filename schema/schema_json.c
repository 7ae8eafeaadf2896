/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schema (2020-12) from the field tables. What one document alone can violate, its schema refuses; what takes several
 * documents (references, duplicates) it cannot know. What the tables cannot say stands in the kind's schema_rules.
 *
 * A schema must never refuse what Berth takes: an editor would mark it as wrong. Where the two cannot agree to the letter,
 * it lets more through.
 */
#include "base/json.h"
#include "schema/decode.h"
#include "schema/reference.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define DIALECT "https://json-schema.org/draft/2020-12/schema"

struct writer {
        enum schema_style style;
        json_t *components; /* or NULL */
};

static json_t *field_schema(const struct writer *writer, const struct field *field);

static bool pattern_matches(const char *pattern, const char *text) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT;
        regex_t regex;
        bool match;

        strbuf_printf(&whole, "^(%s)$", pattern);
        if (regcomp(&regex, strbuf_text(&whole), REG_EXTENDED | REG_NOSUB) != 0)
                abort();
        match = regexec(&regex, text, 0, NULL, 0) == 0;
        regfree(&regex);
        return match;
}

/*
 * A text field takes a plain scalar as it is written, but a validator sees what its YAML reader made of it: `tag: 1.10`
 * is a number there. Such types are let through where the pattern could match their text.
 */
static void put_text_types(const struct writer *writer, json_t *schema, const struct field *field) {
        json_t *types;

        if (writer->style != SCHEMA_MANIFEST) {
                json_put(schema, "type", json_string("string"));
                return;
        }
        types = json_array();
        json_add(types, json_string("string"));
        if (!field->pattern || pattern_matches(field->pattern, "123456789012") ||
            pattern_matches(field->pattern, "1.5"))
                json_add(types, json_string("number"));
        if (!field->pattern || pattern_matches(field->pattern, "true"))
                json_add(types, json_string("boolean"));
        json_put(schema, "type", types);
}

static void put_limits(json_t *schema, const struct field *field, const char *least, const char *most) {
        if (field->minimum == 0 && field->maximum == 0)
                return;
        if (field->minimum != 0 || field->type == FIELD_INTEGER)
                json_put(schema, least, json_integer(field->minimum));
        json_put(schema, most, json_integer(field->maximum));
}

/*
 * Control characters stand as escapes, since a pattern is read by people, too. No text holds a NUL,
 * so a set never needs one.
 */
static void append_pattern(const struct writer *writer, struct strbuf *to, const char *pattern) {
        const char *from = pattern;

        for (; *pattern; pattern++) {
                if (*pattern == '\x01' && pattern[1] == '-')
                        strbuf_append(to, "\\x00");
                else if ((unsigned char)*pattern < 0x20 || *pattern == 0x7f)
                        strbuf_printf(to, "\\x%02x", (unsigned char)*pattern);
                else
                        strbuf_append_char(to, *pattern);
                if (writer->style == SCHEMA_ASKED && *pattern == '^' && pattern > from &&
                    pattern[-1] == '[' && !strchr(from, '\x01'))
                        strbuf_append(to, "\\x00");
        }
}

static void put_pattern(const struct writer *writer, json_t *schema, const struct field *field) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT;

        if (field->base64 && writer->style == SCHEMA_ASKED)
                strbuf_append(&whole, "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$");
        else if (field->pattern)
                strbuf_append(&whole, "^(");
        else if (writer->style == SCHEMA_ASKED)
                strbuf_append(&whole, "^[^\\x00]*$");
        else
                return;
        if (field->pattern) {
                append_pattern(writer, &whole, field->pattern);
                strbuf_append(&whole, ")$");
        }
        json_put(schema, "pattern", json_string(strbuf_text(&whole)));
}

static json_t *list_of(const char *const *texts) {
        json_t *list = json_checked(json_array());

        for (size_t i = 0; texts[i]; i++)
                json_add(list, json_string(texts[i]));
        return list;
}

/* Services of models refuse an `enum` without a type beside it; of a manifest's texts no type is said (put_text_types()). */
static void put_text_schema(const struct writer *writer, json_t *schema, const struct field *field) {
        if (field->choices_text) {
                if (writer->style != SCHEMA_MANIFEST)
                        json_put(schema, "type", json_string("string"));
                json_put(schema, "enum", list_of(field->choices_text));
                return;
        }
        put_text_types(writer, schema, field);
        if (writer->style == SCHEMA_SHORT)
                return;
        put_limits(schema, field, "minLength", "maxLength");
        put_pattern(writer, schema, field);
        if (field->format)
                json_put(schema, "format", json_string(field->format));
        if (field->base64)
                json_put(schema, "contentEncoding", json_string("base64"));
        if (field->refused)
                json_put(schema, "not", json_pack("{s:o}", "enum", list_of(field->refused)));
}

static void put_integer(const struct writer *writer, json_t *schema, const struct field *field) {
        json_t *choices;

        if (!field->choices_integer || writer->style != SCHEMA_MANIFEST)
                json_put(schema, "type", json_string("integer"));
        if (!field->choices_integer) {
                put_limits(schema, field, "minimum", "maximum");
                return;
        }
        choices = json_checked(json_array());
        for (const int64_t *choice = field->choices_integer; *choice >= 0; choice++)
                json_add(choices, json_integer(*choice));
        json_put(schema, "enum", choices);
}

/* null is as if it were not there, so what must be given must be something else; a manifest's text may be of any type. */
static json_t *group_schema(const struct writer *writer, const struct field_group *group) {
        json_t *alternatives = json_checked(json_array());

        for (const char *const *name = group->names; *name; name++)
                json_add(alternatives, writer->style == SCHEMA_MANIFEST
                                               ? json_pack("{s:[s]}", "required", *name)
                                               : json_pack("{s:[s], s:{s:{s:{s:s}}}}", "required", *name,
                                                           "properties", *name, "not", "type", "null"));
        return json_pack("{s:o}", group->exactly_one ? "oneOf" : "anyOf", alternatives);
}

/* What may be absent may be null as well: `variables:` with nothing after it. */
static json_t *make_optional(const struct writer *writer, json_t *schema) {
        json_t *type = json_object_get(schema, "type"), *choices = json_object_get(schema, "enum"), *types;

        /* Generators make a type of each of the types that an `enum` has beside it. */
        if (choices && writer->style != SCHEMA_MANIFEST)
                return json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
        if (choices)
                json_add(choices, json_null());
        if (json_is_array(type)) {
                json_add(type, json_string("null"));
        } else if (json_is_string(type)) {
                types = json_checked(json_array());
                json_add(types, json_incref(type));
                json_add(types, json_string("null"));
                json_put(schema, "type", types);
        } else if (json_is_array(json_object_get(schema, "anyOf"))) {
                json_add(json_object_get(schema, "anyOf"), json_pack("{s:s}", "type", "null"));
        } else if (json_object_get(schema, "$ref")) {
                schema = json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
        }
        return schema;
}

static bool may_be_null(const struct writer *writer, const struct field *field) {
        if (writer->style == SCHEMA_SHORT)
                return false;
        return writer->style == SCHEMA_ANSWERED ? field->nullable : !field->required;
}

static void put_object(const struct writer *writer, json_t *schema, const struct field *fields,
                       const struct field_group *groups) {
        json_t *properties = json_checked(json_object()), *required = json_checked(json_array());
        json_t *needs = json_checked(json_object()), *all = json_checked(json_array());

        for (const struct field *field = fields; field->name; field++) {
                json_t *property = field_schema(writer, field);

                json_put(properties, field->name,
                         may_be_null(writer, field) ? make_optional(writer, property) : property);
                if (field->required)
                        json_add(required, json_string(field->name));
                if (field->needs)
                        json_put(needs, field->name, json_pack("[s]", field->needs));
        }
        for (const struct field_group *group = groups; group && group->names; group++)
                json_add(all, group_schema(writer, group));
        json_put(schema, "type", json_string("object"));
        json_put(schema, "properties", properties);
        if (json_array_size(required) > 0)
                json_put(schema, "required", json_incref(required));
        if (writer->style != SCHEMA_SHORT) {
                if (json_object_size(needs) > 0)
                        json_put(schema, "dependentRequired", json_incref(needs));
                if (json_array_size(all) > 0)
                        json_put(schema, "allOf", json_incref(all));
                if (writer->style != SCHEMA_ANSWERED)
                        json_put(schema, "additionalProperties", json_false());
        }
        json_decref(required);
        json_decref(needs);
        json_decref(all);
}

/* Keys are texts for every reader. */
static json_t *key_schema(const struct writer *writer, const struct field *keys) {
        json_t *schema = json_checked(json_object());

        put_limits(schema, keys, "minLength", "maxLength");
        put_pattern(writer, schema, keys);
        if (keys->refused)
                json_put(schema, "not", json_pack("{s:o}", "enum", list_of(keys->refused)));
        return schema;
}

/*
 * Models are asked for a list of "NAME=VALUE": no service of models can express an object of any members. A key of which nothing is said
 * needs no schema.
 */
static void put_map(const struct writer *writer, json_t *schema, const struct field *field) {
        json_t *keys;

        if (writer->style == SCHEMA_SHORT) {
                json_put(schema, "type", json_string("array"));
                json_put(schema, "items",
                         json_pack("{s:s, s:s}", "type", "string", "description", "NAME=VALUE"));
                return;
        }
        json_put(schema, "type", json_string("object"));
        keys = key_schema(writer, field->keys);
        if (json_object_size(keys) > 0)
                json_put(schema, "propertyNames", json_incref(keys));
        json_decref(keys);
        json_put(schema, "additionalProperties", field_schema(writer, field->item));
        put_limits(schema, field, "minProperties", "maxProperties");
}

static void put_one_of(const struct writer *writer, json_t *schema, const struct field *field) {
        json_t *object = json_checked(json_object());

        put_object(writer, object, field->fields, field->groups);
        json_put(schema, "anyOf", json_pack("[o, o]", field_schema(writer, field->item), object));
}

static void put_default(const struct writer *writer, json_t *schema, const struct field *field) {
        struct strbuf words STRBUF_CLEANUP = STRBUF_INIT;
        struct value value;

        if (!field->default_text)
                return;
        if (writer->style == SCHEMA_SHORT) {
                strbuf_printf(&words, "%s Default: %s.", field->doc, field->default_text);
                json_put(schema, "description", json_string(strbuf_text(&words)));
                return;
        }
        value = decode_default(field);
        json_put(schema, "default", value_to_json(&value, NULL));
}

/* An object with a name: written where it is met first. What a member's words say is of that member, and stands beside the reference. */
static json_t *reference_to(const struct writer *writer, const struct field *field) {
        struct strbuf pointer STRBUF_CLEANUP = STRBUF_INIT;
        struct field plain = *field;
        json_t *reference;

        if (!json_object_get(writer->components, field->component)) {
                plain.component = NULL;
                json_put(writer->components, field->component, json_object());
                json_put(writer->components, field->component, field_schema(writer, &plain));
                if (field->name)
                        json_object_del(json_object_get(writer->components, field->component), "description");
        }
        strbuf_printf(&pointer, "#/components/schemas/%s", field->component);
        reference = json_checked(json_pack("{s:s}", "$ref", strbuf_text(&pointer)));
        if (field->name)
                json_set_text(reference, "description", field->doc);
        return reference;
}

static json_t *field_schema(const struct writer *writer, const struct field *field) {
        json_t *schema;

        if (field->component && writer->components)
                return reference_to(writer, field);
        schema = json_checked(json_object());

        json_put(schema, "description", json_string(field->doc));
        switch (field->type) {
        case FIELD_BOOLEAN:
                if (field->choices_text)
                        json_put(schema, "enum",
                                 json_pack("[b]", strcmp(field->choices_text[0], "true") == 0));
                if (!field->choices_text || writer->style != SCHEMA_MANIFEST)
                        json_put(schema, "type", json_string("boolean"));
                break;
        case FIELD_INTEGER:
                put_integer(writer, schema, field);
                break;
        case FIELD_TEXT:
                put_text_schema(writer, schema, field);
                break;
        case FIELD_LIST:
                json_put(schema, "type", json_string("array"));
                json_put(schema, "items", field_schema(writer, field->item));
                if (writer->style != SCHEMA_SHORT)
                        put_limits(schema, field, "minItems", "maxItems");
                break;
        case FIELD_MAP:
                put_map(writer, schema, field);
                break;
        case FIELD_OBJECT:
                if (field->fields)
                        put_object(writer, schema, field->fields, field->groups);
                else
                        json_put(schema, "type", json_string("object"));
                break;
        case FIELD_ONE_OF:
                put_one_of(writer, schema, field);
                break;
        }
        put_default(writer, schema, field);
        return schema;
}

json_t *schema_json_field(const struct field *field, enum schema_style style, json_t *components) {
        const struct writer writer = { style, components };

        return field_schema(&writer, field);
}

static const struct writer of_manifests = { SCHEMA_MANIFEST, NULL };

static json_t *spec_schema(const struct kind *kind) {
        json_t *schema = json_checked(json_object());

        put_object(&of_manifests, schema, kind->fields, kind->groups);
        if (kind->schema_rules) {
                json_t *all = json_object_get(schema, "allOf");

                if (!all) {
                        all = json_checked(json_array());
                        json_put(schema, "allOf", all);
                }
                json_add(all, json_loads(kind->schema_rules, 0, NULL));
        }
        return schema;
}

static bool needs_spec(const struct kind *kind) {
        for (const struct field *field = kind->fields; field->name; field++) {
                if (field->required)
                        return true;
        }
        return false;
}

static json_t *document_schema(const struct kind *kind) {
        json_t *schema = json_checked(json_object()), *metadata = json_checked(json_object()),
               *spec = spec_schema(kind);

        put_object(&of_manifests, metadata, metadata_fields, NULL);
        json_put(schema, "title", json_string(kind->name));
        json_put(schema, "description", json_string(kind->doc));
        json_put(schema, "type", json_string("object"));
        json_put(schema, "properties",
                 json_pack("{s:{s:s}, s:{s:s}, s:o, s:o}", "apiVersion", "const", API_VERSION, "kind",
                           "const", kind->name, "metadata", metadata, "spec",
                           needs_spec(kind) ? spec : make_optional(&of_manifests, spec)));
        json_put(schema, "required", json_pack("[s, s, s]", "apiVersion", "kind", "metadata"));
        if (needs_spec(kind))
                json_add(json_object_get(schema, "required"), json_string("spec"));
        json_put(schema, "additionalProperties", json_false());
        return schema;
}

static json_t *all_kinds_schema(void) {
        json_t *definitions = json_checked(json_object()), *names = json_checked(json_array()),
               *cases = json_checked(json_array());
        struct strbuf pointer STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < kind_count; i++) {
                strbuf_clear(&pointer);
                strbuf_printf(&pointer, "#/$defs/%s", kinds[i]->name);
                json_put(definitions, kinds[i]->name, document_schema(kinds[i]));
                json_add(names, json_string(kinds[i]->name));
                json_add(cases, json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:s}}", "if", "properties", "kind",
                                          "const", kinds[i]->name, "required", "kind", "then", "$ref",
                                          strbuf_text(&pointer)));
        }
        return json_checked(json_pack("{s:s, s:s, s:s, s:[s, s, s], s:{s:{s:s}, s:{s:o}}, s:o, s:o}",
                                      "$schema", DIALECT, "title", "Berth manifest", "type", "object",
                                      "required", "apiVersion", "kind", "metadata", "properties",
                                      "apiVersion", "const", API_VERSION, "kind", "enum", names, "allOf",
                                      cases, "$defs", definitions));
}

json_t *schema_json(const struct kind *kind) {
        json_t *schema;

        if (!kind)
                return all_kinds_schema();
        schema = document_schema(kind);
        json_put(schema, "$schema", json_string(DIALECT));
        return schema;
}
