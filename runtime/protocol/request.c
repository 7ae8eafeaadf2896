/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/protocol/request.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {
        [REQUEST_EXECUTE] = "execute", [REQUEST_PREPARE] = "prepare", [REQUEST_INTERRUPT] = "interrupt",
        [REQUEST_RESTART] = "restart", [REQUEST_STATUS] = "status",   [REQUEST_CHECKPOINT] = "checkpoint",
        [REQUEST_RESTORE] = "restore", [REQUEST_PIECE] = "piece",     [REQUEST_RUN] = "run",
        [REQUEST_END] = "end"
};
static const char *const language_names[] = {
        [REQUEST_PYTHON] = "python", [REQUEST_SHELL] = "sh", [REQUEST_BASH] = "bash"
};

int request_language(const char *name) {
        return content_index(language_names, CONTENT_COUNT(language_names), name);
}

const char *request_language_name(enum request_language language) {
        return language_names[language];
}

static int check_variables(const json_t *variables, struct error *err) {
        size_t total = 0;
        const char *name;
        json_t *value;

        if (!variables)
                return 0;
        if (!json_is_object(variables) || json_object_size(variables) > REQUEST_VARIABLES_MAX)
                return error_set(err, "variables that are no object, or more than %d", REQUEST_VARIABLES_MAX);
        json_object_foreach ((json_t *)variables, name, value) {
                if (!*name || strchr(name, '=') || !json_is_string(value))
                        return error_set(err,
                                         "a variable without a name, with '=' in it, or that is no text");
                total += strlen(name) + json_string_length(value);
        }
        if (total > REQUEST_VARIABLES_BYTES_MAX)
                return error_set(err, "variables of %zu bytes, and %zu are the most", total,
                                 REQUEST_VARIABLES_BYTES_MAX);
        return 0;
}

static int read_execute(const struct message *message, struct request *request, struct error *err) {
        const char *type, *language = "python";
        json_int_t n, timeout_ms = 0, input = -1;
        json_t *variables = NULL;
        json_error_t said;
        int index;

        request->context = "main";
        if (json_unpack_ex(message->head, &said, 0, "{s:s, s:I, s?:s, s?:s, s?:I, s?:o, s?:I !}", "type",
                           &type, "n", &n, "language", &language, "context", &request->context, "timeoutMs",
                           &timeout_ms, "variables", &variables, "stdinBytes", &input) != 0)
                return error_set(err, "invalid request to execute: %s", said.text);
        index = request_language(language);
        if (index < 0)
                return error_set(err, "a language that is not python, sh or bash");
        if (n < 1 || timeout_ms < 0 || timeout_ms > REQUEST_TIMEOUT_MS_MAX)
                return error_set(err, "an execution's number or deadline that is out of range");
        if (input < -1 || (input > 0 && (size_t)input > message->body.length))
                return error_set(err, "a standard input that is not in the message");
        request->n = n;
        request->language = (enum request_language)index;
        request->timeout_ms = timeout_ms;
        request->variables = variables;
        request->code = strbuf_text(&message->body);
        request->code_length = message->body.length - (input > 0 ? (size_t)input : 0);
        if (input >= 0) {
                request->input = request->code + request->code_length;
                request->input_length = (size_t)input;
        }
        if (memchr(request->code, '\0', request->code_length))
                return error_set(err, "code with a NUL in it");
        return check_variables(variables, err);
}

bool request_is_arguments(const json_t *list) {
        const json_t *item;
        size_t index, total = 0;

        if (!json_is_array(list) || json_array_size(list) == 0 ||
            json_array_size(list) > REQUEST_ARGUMENTS_MAX || json_string_length(json_array_get(list, 0)) == 0)
                return false;
        json_array_foreach (list, index, item) {
                if (!json_is_string(item) || json_string_length(item) > REQUEST_ARGUMENT_MAX ||
                    strlen(json_string_value(item)) != json_string_length(item))
                        return false;
                total += json_string_length(item) + 1;
        }
        return total <= REQUEST_ARGUMENTS_BYTES_MAX;
}

static int read_run(const struct message *message, struct request *request, struct error *err) {
        const char *type;
        json_t *variables = NULL, *arguments = NULL;
        json_error_t said;
        json_int_t n;

        if (json_unpack_ex(message->head, &said, 0, "{s:s, s:I, s:o, s?:o !}", "type", &type, "n", &n,
                           "arguments", &arguments, "variables", &variables) != 0)
                return error_set(err, "invalid request to run: %s", said.text);
        if (n < 1 || !request_is_arguments(arguments))
                return error_set(err, "invalid number or arguments of a command");
        request->n = n;
        request->arguments = arguments;
        request->variables = variables;
        return check_variables(variables, err);
}

static int read_prepare(const struct message *message, struct request *request, struct error *err) {
        const char *type;
        json_t *modules = NULL, *module;
        json_error_t said;
        size_t index;

        request->context = "main";
        if (json_unpack_ex(message->head, &said, 0, "{s:s, s?:s, s?:o !}", "type", &type, "context",
                           &request->context, "modules", &modules) != 0)
                return error_set(err, "invalid request to prepare: %s", said.text);
        if (modules && (!json_is_array(modules) || json_array_size(modules) > REQUEST_MODULES_MAX))
                return error_set(err, "modules that are no list, or more than %d", REQUEST_MODULES_MAX);
        json_array_foreach (modules, index, module) {
                if (!json_is_string(module) || json_string_length(module) > CONTENT_NAME_MAX)
                        return error_set(err, "a module whose name is no text, or too long");
        }
        request->modules = modules;
        return 0;
}

bool request_is_contexts(const json_t *list) {
        const json_t *item;
        size_t index;

        if (!content_is_pairs(list, REQUEST_CONTEXTS_MAX, "context", "generation", JSON_INTEGER))
                return false;
        json_array_foreach (list, index, item) {
                if (!content_is_context(json_text(item, "context")) ||
                    json_integer_or(item, "generation", 0) < 1 ||
                    json_integer_or(item, "generation", 0) > CONTENT_GENERATION_MAX)
                        return false;
                for (size_t i = 0; i < index; i++) {
                        if (strcmp(json_text(json_array_get(list, i), "context"),
                                   json_text(item, "context")) == 0)
                                return false;
                }
        }
        return true;
}

static int read_checkpoint(const struct message *message, struct request *request, struct error *err) {
        json_int_t bytes, max_ms;
        const char *type;
        json_t *contexts = NULL;
        json_error_t said;
        int result;

        if (request->type == REQUEST_CHECKPOINT)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:I, s:I !}", "type", &type,
                                        "maxBytes", &bytes, "maxMs", &max_ms);
        else
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:I, s:I, s?:o, s?:s !}", "type",
                                        &type, "bytes", &bytes, "maxMs", &max_ms, "contexts", &contexts,
                                        "reason", &request->reason);
        if (result < 0)
                return error_set(err, "invalid request about a checkpoint: %s", said.text);
        if (bytes < 0 || bytes > REQUEST_CHECKPOINT_BYTES_MAX || max_ms < 1 ||
            max_ms > REQUEST_TIMEOUT_MS_MAX)
                return error_set(err, "a checkpoint's bytes or time that are out of range");
        if (contexts && !request_is_contexts(contexts))
                return error_set(err, "invalid contexts of a checkpoint");
        if (request->reason && (bytes > 0 || strlen(request->reason) > CONTENT_REASON_MAX))
                return error_set(err, "a reason for a checkpoint that is there, or one that is too long");
        request->bytes = bytes;
        request->max_ms = max_ms;
        request->contexts = contexts;
        return 0;
}

int request_read(const struct message *message, struct request *ret, struct error *err) {
        const char *type = json_text(message->head, "type");
        struct request request = { 0 };
        json_error_t said;
        json_int_t n = 0;
        int index = content_index(type_names, CONTENT_COUNT(type_names), type), result = 0;

        if (index < 0)
                return error_set(err, "a request of no known type");
        request.type = (enum request_type)index;
        if (request.type == REQUEST_EXECUTE)
                result = read_execute(message, &request, err);
        else if (request.type == REQUEST_PREPARE)
                result = read_prepare(message, &request, err);
        else if (request.type == REQUEST_RUN) {
                if (read_run(message, &request, err) < 0)
                        return -1;
        } else if (request.type == REQUEST_INTERRUPT)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:I !}", "type", &type, "n", &n);
        else if (request.type == REQUEST_RESTART)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:s !}", "type", &type, "context",
                                        &request.context);
        else if (request.type == REQUEST_CHECKPOINT || request.type == REQUEST_RESTORE) {
                if (read_checkpoint(message, &request, err) < 0)
                        return -1;
        } else
                result = json_unpack_ex(message->head, &said, 0, "{s:s !}", "type", &type);
        if (result < 0 && request.type > REQUEST_PREPARE)
                return error_set(err, "invalid request: %s", said.text);
        if (result < 0)
                return -1;
        if (request.type == REQUEST_INTERRUPT)
                request.n = n;
        if (request.context && !content_is_context(request.context))
                return error_set(err, "a context whose name is not 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-'");
        if (request.type == REQUEST_PIECE && message->body.length == 0)
                return error_set(err, "a piece of nothing");
        if (request.type == REQUEST_PIECE) {
                request.piece = message->body.data;
                request.piece_length = message->body.length;
        } else if (request.type != REQUEST_EXECUTE && message->body.length > 0)
                return error_set(err, "a request with bytes behind it");
        *ret = request;
        return 0;
}

void request_write(const struct request *request, struct strbuf *to) {
        json_t *head = json_checked(json_pack("{s:s}", "type", type_names[request->type]));
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT;

        if (request->context)
                json_put(head, "context", json_string(request->context));
        if (request->type == REQUEST_EXECUTE || request->type == REQUEST_INTERRUPT ||
            request->type == REQUEST_RUN)
                json_put(head, "n", json_integer(request->n));
        if (request->type == REQUEST_EXECUTE) {
                json_put(head, "language", json_string(language_names[request->language]));
                if (request->timeout_ms > 0)
                        json_put(head, "timeoutMs", json_integer(request->timeout_ms));
                if (request->variables)
                        json_put(head, "variables", json_deep_copy(request->variables));
                strbuf_append_bytes(&body, request->code, request->code_length);
                if (request->input) {
                        json_put(head, "stdinBytes", json_integer((json_int_t)request->input_length));
                        strbuf_append_bytes(&body, request->input, request->input_length);
                }
        }
        if (request->type == REQUEST_RUN) {
                json_put(head, "arguments", json_deep_copy(request->arguments));
                if (request->variables)
                        json_put(head, "variables", json_deep_copy(request->variables));
        }
        if (request->type == REQUEST_CHECKPOINT || request->type == REQUEST_RESTORE) {
                json_put(head, request->type == REQUEST_RESTORE ? "bytes" : "maxBytes",
                         json_integer(request->bytes));
                json_put(head, "maxMs", json_integer(request->max_ms));
        }
        if (request->contexts)
                json_put(head, "contexts", json_deep_copy(request->contexts));
        if (request->reason)
                json_put(head, "reason", json_string(request->reason));
        if (request->type == REQUEST_PIECE)
                strbuf_append_bytes(&body, request->piece, request->piece_length);
        if (request->modules)
                json_put(head, "modules", json_deep_copy(request->modules));
        message_write(to, head, strbuf_text(&body), body.length);
        json_decref(head);
}
