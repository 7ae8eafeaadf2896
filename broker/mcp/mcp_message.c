/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mcp/mcp_message.h"

#include "base/digest.h"
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPABILITIES_META "io.modelcontextprotocol/clientCapabilities"
#define MODE_OF_FORMS "form"
#define SERVER_META "io.modelcontextprotocol/serverInfo"
#define HEADER_MAX 8192 /* bytes of a header that is compared */

static const char *const versions_before[] = { MCP_VERSION_BEFORE, "2025-06-18", "2025-03-26", "2024-11-05",
                                               NULL };

bool mcp_version_is_before(const char *version) {
        for (const char *const *known = versions_before; *known; known++) {
                if (strcmp(*known, version) == 0)
                        return true;
        }
        return false;
}

int mcp_fault_set(struct mcp_fault *fault, enum mcp_code code, unsigned status, const char *format, ...) {
        struct mcp_fault made = { .code = code, .status = status };
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(made.text, sizeof(made.text), format, arguments);
        va_end(arguments);
        *fault = made;
        return -1;
}

/* A member if it is a text without NUL, otherwise NULL. */
static const char *plain_text(const json_t *object, const char *name) {
        const json_t *value = json_object_get(object, name);

        if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
                return NULL;
        return json_string_value(value);
}

static bool is_id(const json_t *id) {
        return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= MCP_ID_MAX);
}

/*
 * `_meta` that names a revision, `initialize`, the header: the first of them that is there decides.
 * A client that names no revision is older than all of them.
 */
static bool is_newest(const struct mcp_message *message, const struct mcp_headers *headers) {
        if (json_object_get(message->meta, MCP_VERSION_META))
                return true;
        if (message->method && strcmp(message->method, "initialize") == 0)
                return false;
        return headers->version && !mcp_version_is_before(headers->version);
}

int mcp_message_read(const json_t *json, const struct mcp_headers *headers, struct mcp_message *ret,
                     struct mcp_fault *fault) {
        const json_t *id = json_object_get(json, "id"), *params = json_object_get(json, "params");
        const char *version = plain_text(json, "jsonrpc");
        struct mcp_message message = { .method = plain_text(json, "method") };

        *ret = (struct mcp_message){ .id = is_id(id) ? id : NULL };
        if (json_is_array(json))
                return mcp_fault_set(fault, MCP_INVALID_REQUEST, 400,
                                     "a batch is not taken: send each message by itself");
        if (!json_is_object(json))
                return mcp_fault_set(fault, MCP_INVALID_REQUEST, 400, "a message must be a JSON object");
        if (!version || strcmp(version, "2.0") != 0)
                return mcp_fault_set(fault, MCP_INVALID_REQUEST, 400, "jsonrpc must be \"2.0\"");
        if (id && !is_id(id))
                return mcp_fault_set(fault, MCP_INVALID_REQUEST, 400,
                                     "id must be an integer, or a text of at most %d bytes", MCP_ID_MAX);
        if (!json_object_get(json, "method") &&
            (json_object_get(json, "result") || json_object_get(json, "error"))) {
                ret->kind = MCP_RESPONSE;
                return 0;
        }
        if (!message.method)
                return mcp_fault_set(fault, MCP_INVALID_REQUEST, 400, "method must be a text");
        if (params && !json_is_object(params))
                return mcp_fault_set(fault, MCP_INVALID_REQUEST, 400, "params must be an object");
        if (json_object_get(params, "_meta") && !json_is_object(json_object_get(params, "_meta")))
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 400, "_meta must be an object");
        message.kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
        message.id = id;
        message.params = params;
        message.meta = json_object_get(params, "_meta");
        message.newest = is_newest(&message, headers);
        *ret = message;
        return 0;
}

/* --- headers --- */

/* "=?base64?...?=" is how what is no plain text travels in a header. */
static bool header_is(const char *header, const char *value) {
        static const char begin[] = "=?base64?", end[] = "?=";
        size_t length = strlen(header);
        uint8_t bytes[HEADER_MAX / 4 * 3];
        ssize_t count;

        if (length < sizeof(begin) + sizeof(end) - 2 || strncmp(header, begin, sizeof(begin) - 1) != 0 ||
            strcmp(header + length - (sizeof(end) - 1), end) != 0)
                return strcmp(header, value) == 0;
        length -= sizeof(begin) + sizeof(end) - 2;
        if (length > HEADER_MAX)
                return false;
        count = digest_from_base64(header + sizeof(begin) - 1, length, bytes);
        return count >= 0 && (size_t)count == strlen(value) && memcmp(bytes, value, (size_t)count) == 0;
}

/* What Mcp-Name has to repeat; NULL: nothing. */
static const char *name_of(const struct mcp_message *message) {
        if (strcmp(message->method, "tools/call") == 0 || strcmp(message->method, "prompts/get") == 0)
                return plain_text(message->params, "name");
        if (strcmp(message->method, "resources/read") == 0)
                return plain_text(message->params, "uri");
        return NULL;
}

static int check_header(const char *what, const char *header, const char *value, struct mcp_fault *fault) {
        if (!header)
                return mcp_fault_set(fault, MCP_HEADER_MISMATCH, 400,
                                     "Header mismatch: %s must be sent, once", what);
        if (!header_is(header, value))
                return mcp_fault_set(fault, MCP_HEADER_MISMATCH, 400,
                                     "Header mismatch: %s is another than the body has", what);
        return 0;
}

static int check_newest(const struct mcp_message *message, const struct mcp_headers *headers,
                        struct mcp_fault *fault) {
        const char *version = plain_text(message->meta, MCP_VERSION_META), *name = name_of(message);

        if (check_header("Mcp-Method", headers->method, message->method, fault) < 0 ||
            (name && check_header("Mcp-Name", headers->name, name, fault) < 0))
                return -1;
        if (!version)
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 400, "_meta must have " MCP_VERSION_META);
        if (!json_is_object(json_object_get(message->meta, CAPABILITIES_META)))
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 400,
                                     "_meta must have " CAPABILITIES_META ", an object");
        if (check_header("MCP-Protocol-Version", headers->version, version, fault) < 0)
                return -1;
        if (strcmp(version, MCP_VERSION) == 0)
                return 0;
        (void)mcp_fault_set(fault, MCP_UNSUPPORTED_VERSION, 400, "Unsupported protocol version");
        fault->requested = version;
        return -1;
}

int mcp_message_check(const struct mcp_message *message, const struct mcp_headers *headers,
                      struct mcp_fault *fault) {
        return message->newest ? check_newest(message, headers, fault) : 0;
}

bool mcp_message_may_ask(const struct mcp_message *message) {
        const json_t *modes =
                json_object_get(json_object_get(message->meta, CAPABILITIES_META), "elicitation");

        /* A client that names no mode has forms: it is of the time when that was the only one. */
        return message->newest && json_is_object(modes) &&
               (json_object_size(modes) == 0 || json_is_object(json_object_get(modes, MODE_OF_FORMS)));
}

/* --- answers --- */

static json_t *answer_to(const json_t *id) {
        json_t *json = json_checked(json_pack("{s:s}", "jsonrpc", "2.0"));

        if (id)
                json_put(json, "id", json_deep_copy(id));
        return json;
}

json_t *mcp_message_server(void) {
        return json_checked(
                json_pack("{s:s, s:s, s:s}", "name", "berth", "title", "Berth", "version", BERTH_VERSION));
}

json_t *mcp_message_result(const struct mcp_message *message, json_t *result) {
        json_t *json = answer_to(message->id);

        if (message->newest) {
                if (!json_object_get(result, "resultType"))
                        json_set_text(result, "resultType", "complete");
                json_put(result, "_meta", json_pack("{s:o}", SERVER_META, mcp_message_server()));
        }
        json_put(json, "result", result);
        return json;
}

json_t *mcp_message_fault(const json_t *id, const struct mcp_fault *fault) {
        json_t *json = answer_to(id), *error = json_checked(json_object());

        if (!id)
                json_put(json, "id", json_null());
        json_put(error, "code", json_integer(fault->code));
        json_put(error, "message", json_from_text(fault->text));
        if (fault->requested)
                json_put(error, "data",
                         json_pack("{s:[s], s:s}", "supported", MCP_VERSION, "requested", fault->requested));
        if (fault->uri)
                json_put(error, "data", json_pack("{s:s}", "uri", fault->uri));
        json_put(json, "error", error);
        return json;
}

json_t *mcp_message_notification(const char *method, json_t *params) {
        json_t *json = answer_to(NULL);

        json_set_text(json, "method", method);
        json_put(json, "params", params);
        return json;
}
