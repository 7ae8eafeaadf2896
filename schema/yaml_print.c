/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/yaml_print.h"

#include "base/files.h"
#include "base/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

static void emit(yaml_emitter_t *emitter, yaml_event_t *event, int made) {
        /* Nothing but memory can be missing: what is written goes to a stream, whose own errors its owner looks at. */
        if (!made || !yaml_emitter_emit(emitter, event))
                abort();
}

/*
 * A text that no reader takes for a number, a date, a truth or nothing: it begins with a letter,
 * and is not one of the words for those.
 */
static bool is_plain(const char *text) {
        static const char *const words[] = { "y",    "n",     "yes",  "no",  "on",  "off",
                                             "true", "false", "null", "inf", "nan", NULL };

        for (size_t i = 0; words[i]; i++) {
                if (strcasecmp(text, words[i]) == 0)
                        return false;
        }
        return isalpha((unsigned char)text[0]);
}

static void print_scalar(yaml_emitter_t *emitter, const char *text, size_t length, bool plain) {
        yaml_event_t event;

        emit(emitter, &event,
             yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, (int)length, plain,
                                          1,
                                          plain                ? YAML_ANY_SCALAR_STYLE
                                          : strchr(text, '\n') ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                                                               : YAML_SINGLE_QUOTED_SCALAR_STYLE));
}

static void print_value(yaml_emitter_t *emitter, const json_t *json) {
        char number[40];
        yaml_event_t event;
        const char *name;
        json_t *member;
        size_t index;

        switch (json_typeof(json)) {
        case JSON_OBJECT:
                emit(emitter, &event,
                     yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
                json_object_foreach ((json_t *)(uintptr_t)json, name, member) {
                        print_scalar(emitter, name, strlen(name), is_plain(name));
                        print_value(emitter, member);
                }
                emit(emitter, &event, yaml_mapping_end_event_initialize(&event));
                break;
        case JSON_ARRAY:
                emit(emitter, &event,
                     yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE));
                json_array_foreach ((json_t *)(uintptr_t)json, index, member)
                        print_value(emitter, member);
                emit(emitter, &event, yaml_sequence_end_event_initialize(&event));
                break;
        case JSON_STRING:
                print_scalar(emitter, json_string_value(json), json_string_length(json),
                             is_plain(json_string_value(json)));
                break;
        case JSON_INTEGER:
                snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(json));
                print_scalar(emitter, number, strlen(number), true);
                break;
        case JSON_REAL:
                snprintf(number, sizeof(number), "%.17g", json_real_value(json));
                print_scalar(emitter, number, strlen(number), true);
                break;
        case JSON_TRUE:
                print_scalar(emitter, "true", 4, true);
                break;
        case JSON_FALSE:
                print_scalar(emitter, "false", 5, true);
                break;
        case JSON_NULL:
        default:
                print_scalar(emitter, "null", 4, true);
                break;
        }
}

/* libyaml escapes all that is not ASCII, or what has no shape at all; what is harmful lies between. */
static bool may_show_unicode(const json_t *json) {
        char *text TEXT_CLEANUP = json_for_eyes(json, JSON_ENCODE_ANY);

        return !strstr(text, "\\u");
}

static int write_out(void *stream, unsigned char *bytes, size_t length) {
        (void)!fwrite(bytes, 1, length, stream);
        return 1;
}

void yaml_print(const json_t *json, FILE *stream) {
        yaml_emitter_t emitter;
        yaml_event_t event;

        if (!yaml_emitter_initialize(&emitter))
                abort();
        yaml_emitter_set_output(&emitter, write_out, stream);
        yaml_emitter_set_unicode(&emitter, may_show_unicode(json));
        yaml_emitter_set_width(&emitter, -1);
        emit(&emitter, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
        emit(&emitter, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
        print_value(&emitter, json);
        emit(&emitter, &event, yaml_document_end_event_initialize(&event, 1));
        emit(&emitter, &event, yaml_stream_end_event_initialize(&event));
        yaml_emitter_delete(&emitter);
}
