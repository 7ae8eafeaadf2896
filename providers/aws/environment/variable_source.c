/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/environment/variable_source.h"

#include "base/json.h"
#include "base/text.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"

#include <string.h>

/* The fields of an ARN, and of what ECS lets follow a secret's. */
enum {
        FIELD_PARTITION = 1,
        FIELD_REGION = 3,
        FIELD_ACCOUNT = 4,
        FIELD_KEY = 7,
        FIELD_STAGE = 8,
        FIELD_ID = 9
};

static const char *arn_field(const char *arn, unsigned number, struct arena *arena) {
        size_t length = 0;
        const char *field = text_field(arn, ':', number, &length);

        return length > 0 ? arena_strndup(arena, field, length) : NULL;
}

bool variable_source_parse(const struct value *variable, struct arena *arena, struct variable_source *ret) {
        const char *secret = value_get_text(variable, "secret"),
                   *parameter = value_get_text(variable, "parameter");
        const char *named = secret ? secret : parameter, *key;
        size_t length;

        if (!named)
                return false;
        *ret = (struct variable_source){
                .is_secret = secret != NULL,
                .named = named,
                .arn = named,
                .partition = arn_field(named, FIELD_PARTITION, arena),
                .region = arn_field(named, FIELD_REGION, arena),
                .account = arn_field(named, FIELD_ACCOUNT, arena),
        };
        if (!secret) {
                const char *slash = strchr(named, '/');

                ret->name = slash ? slash + 1 : named;
                return true;
        }
        key = text_field(named, ':', FIELD_KEY, &length);
        if (key)
                ret->arn = arena_strndup(arena, named, (size_t)(key - named) - 1);
        ret->key = arn_field(named, FIELD_KEY, arena);
        ret->stage = arn_field(named, FIELD_STAGE, arena);
        ret->id = arn_field(named, FIELD_ID, arena);
        return true;
}

const char *variable_source_title(const struct variable_source *source, struct arena *arena) {
        return arena_printf(arena, "the %s %s", source->is_secret ? "secret" : "parameter", source->arn);
}

bool variable_source_any(const struct value *variables) {
        for (uint32_t i = 0; variables && variables->type == VALUE_MAP && i < variables->count; i++) {
                if (variables->members[i].value.type == VALUE_MAP)
                        return true;
        }
        return false;
}

static bool names_the_same(const struct value *a, const struct value *b) {
        return texts_same(value_get_text(a, "secret"), value_get_text(b, "secret")) ||
               texts_same(value_get_text(a, "parameter"), value_get_text(b, "parameter"));
}

/*
 * Until it is applied the text is not known: the one that was applied stands in for it, so that
 * only the version differs.
 */
static struct value desired_form(const struct value *variable, const struct variable_source *source,
                                 const struct value *resolved, const struct value *recorded,
                                 struct arena *arena) {
        struct value form = value_copy(arena, variable);
        const char *version = value_get_text(resolved, "version");
        const struct value *text = value_get(recorded, "value");

        if (!version)
                version = source->id;
        if (!version && names_the_same(variable, recorded))
                version = value_get_text(recorded, "version");
        value_set_text(arena, &form, "version", version);
        if (text)
                value_set(arena, &form, "value", *text);
        return form;
}

const struct value *variable_source_desired(const struct value *variables, const struct value *resolved,
                                            const struct value *recorded, struct arena *arena) {
        struct value *all;

        if (!variable_source_any(variables))
                return variables;
        all = value_new_map(arena);
        for (uint32_t i = 0; i < variables->count; i++) {
                const struct member *variable = &variables->members[i];
                struct variable_source source;

                if (variable_source_parse(&variable->value, arena, &source))
                        value_set(arena, all, variable->name,
                                  desired_form(&variable->value, &source, value_get(resolved, variable->name),
                                               value_get(recorded, variable->name), arena));
                else
                        value_set(arena, all, variable->name, variable->value);
        }
        return all;
}

static int copy_variable(const json_t *text, struct arena *arena, const char **ret, struct error *err) {
        if (strlen(json_string_value(text)) != json_string_length(text))
                return error_set(err, "it holds a NUL, which no variable can");
        *ret = arena_strdup(arena, json_string_value(text));
        return 0;
}

/* Jansson's own words quote what they stumble over: they are not passed on. */
static int text_at_key(const struct variable_source *source, const char *given, struct arena *arena,
                       const char **ret, struct error *err) {
        json_t *object = json_loads(given, JSON_ALLOW_NUL, NULL),
               *member = json_object_get(object, source->key);
        int result = 0;

        if (!json_is_object(object))
                result = error_set(err, "it is no JSON object, so that it has no key \"%s\"", source->key);
        else if (json_is_string(member))
                result = copy_variable(member, arena, ret, err);
        else if (!json_is_number(member) && !json_is_boolean(member))
                result = error_set(
                        err, member ? "what stands at its key \"%s\" is no text" : "it has no key \"%s\"",
                        source->key);
        else
                *ret = aws_json_text(json_incref(member), arena);
        json_decref(object);
        return result;
}

int variable_source_text(const struct variable_source *source, const json_t *given, struct arena *arena,
                         const char **ret, struct error *err) {
        int result;

        if (!json_is_string(given))
                return error_set(err, "it is binary, and a variable is a text");
        if (!source->key)
                return copy_variable(given, arena, ret, err);
        json_secret_begin();
        result = text_at_key(source, json_string_value(given), arena, ret, err);
        json_secret_end();
        return result;
}
