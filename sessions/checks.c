/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/checks.h"

#include "base/text.h"
#include "base/text_utf8.h"
#include "runtime/protocol/request.h"
#include "sessions/place.h"

#include <string.h>

int check_text(const char *what, const char *text, size_t most, struct problem *problem) {
        size_t length = strlen(text), characters = text_characters(text, length), ignored;

        if (characters < 1 || characters > most)
                return problem_set(problem, PROBLEM_INVALID, "%s must have 1 to %zu characters, found %zu",
                                   what, most, characters);
        if (!text_is_utf8(text, length, &ignored))
                return problem_set(problem, PROBLEM_INVALID, "%s is no UTF-8", what);
        for (size_t i = 0; i < length; i++) {
                if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
                        return problem_set(problem, PROBLEM_INVALID, "%s has a control character", what);
        }
        return 0;
}

static bool is_variable_name(const char *name) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

        return *name && strspn(name, letters) == strlen(name) && !(*name >= '0' && *name <= '9');
}

int check_variables(const json_t *variables, struct problem *problem) {
        size_t bytes = 0;
        const char *name;
        json_t *value;

        if (!variables)
                return 0;
        if (!json_is_object(variables))
                return problem_set(problem, PROBLEM_INVALID, "variables must be an object of texts");
        json_object_foreach ((json_t *)variables, name, value) {
                if (!is_variable_name(name))
                        return problem_set(
                                problem, PROBLEM_INVALID,
                                "a variable's name must be letters, digits and _, and begin with no digit");
                if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
                        return problem_set(problem, PROBLEM_INVALID,
                                           "variables.%.100s must be a text without NUL", name);
                bytes += strlen(name) + json_string_length(value);
        }
        if (json_object_size(variables) > REQUEST_VARIABLES_MAX || bytes > REQUEST_VARIABLES_BYTES_MAX)
                return problem_set(problem, PROBLEM_TOO_LARGE,
                                   "there may be %d variables of %zu bytes together", REQUEST_VARIABLES_MAX,
                                   REQUEST_VARIABLES_BYTES_MAX);
        return 0;
}

int check_labels(const json_t *labels, struct problem *problem) {
        const char *name;
        json_t *value;

        if (!labels)
                return 0;
        if (!json_is_object(labels) || json_object_size(labels) > CHECKS_LABELS_MAX)
                return problem_set(problem, PROBLEM_INVALID, "labels must be an object of at most %d texts",
                                   CHECKS_LABELS_MAX);
        json_object_foreach ((json_t *)labels, name, value) {
                if (check_text("a label's name", name, CHECKS_TEXT_MAX, problem) < 0)
                        return -1;
                if (strchr(name, '='))
                        return problem_set(problem, PROBLEM_INVALID, "a label's name may hold no =");
                if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
                        return problem_set(problem, PROBLEM_INVALID, "labels.%.100s must be a text", name);
                if (json_string_length(value) > 0 &&
                    check_text("a label's value", json_string_value(value), CHECKS_TEXT_MAX, problem) < 0)
                        return -1;
        }
        return 0;
}

int check_age(const char *what, int64_t seconds, struct problem *problem) {
        if (seconds >= 0 && seconds <= ENGINE_AGE_MAX)
                return 0;
        return problem_set(problem, PROBLEM_INVALID, "%s must be 1 to %d (14 days), found %lld", what,
                           ENGINE_AGE_MAX, (long long)seconds);
}

int check_once(const struct engine_once *once, struct problem *problem) {
        if (!once->key)
                return 0;
        return check_text("Idempotency-Key", once->key, CHECKS_TEXT_MAX, problem);
}

int check_wish(const struct engine_wish *wish, struct problem *problem) {
        if (!wish->environment == !wish->agent)
                return problem_set(problem, PROBLEM_INVALID, "name an environment or an agent, one of them");
        if (check_text(wish->agent ? "agent" : "environment", wish->agent ? wish->agent : wish->environment,
                       CHECKS_TEXT_MAX, problem) < 0)
                return -1;
        if (wish->conversation &&
            check_text("conversation", wish->conversation, CHECKS_TEXT_MAX, problem) < 0)
                return -1;
        if (check_labels(wish->labels, problem) < 0 || check_variables(wish->variables, problem) < 0 ||
            check_age("idleSeconds", wish->idle_seconds, problem) < 0 ||
            check_age("ttlSeconds", wish->ttl_seconds, problem) < 0)
                return -1;
        return check_once(&wish->once, problem);
}

int check_code(const struct engine_code *code, struct problem *problem) {
        size_t ignored;

        if (code->language && request_language(code->language) < 0)
                return problem_set(problem, PROBLEM_INVALID, "language must be python, sh or bash");
        if (code->context && !content_is_context(code->context))
                return problem_set(problem, PROBLEM_INVALID,
                                   "context must be 1 to 64 letters, digits, '.', '_' and '-'");
        if (code->timeout_seconds < 0 || code->timeout_seconds > ENGINE_TIMEOUT_MAX)
                return problem_set(problem, PROBLEM_INVALID, "timeoutSeconds must be 1 to %d, found %lld",
                                   ENGINE_TIMEOUT_MAX, (long long)code->timeout_seconds);
        if (!text_is_utf8(code->code, code->code_length, &ignored) ||
            memchr(code->code, '\0', code->code_length))
                return problem_set(problem, PROBLEM_INVALID, "code must be UTF-8 without NUL");
        if (code->code_length + code->input_length > PLACE_INPUT_MAX)
                return problem_set(problem, PROBLEM_TOO_LARGE,
                                   "code and standard input may have %zu bytes together", PLACE_INPUT_MAX);
        if (check_variables(code->variables, problem) < 0)
                return -1;
        return check_once(&code->once, problem);
}
