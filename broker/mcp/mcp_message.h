/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message of MCP: JSON-RPC 2.0, and what a revision of the protocol asks of its form. Pure.
 *
 * Two eras are spoken. From 2026-07-28 on each request says in its `_meta` which revision it is of,
 * and stands for itself; before, a client begins with `initialize`. Over HTTP the newer one repeats
 * in headers what stands in the body, and the two must agree: a proxy on the way may have decided
 * by the headers.
 */
#ifndef BERTH_BROKER_MCP_MCP_MESSAGE_H
#define BERTH_BROKER_MCP_MCP_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define MCP_VERSION "2026-07-28"        /* the newest, which has no `initialize` */
#define MCP_VERSION_BEFORE "2025-11-25" /* the newest that has */
#define MCP_VERSION_META "io.modelcontextprotocol/protocolVersion"
#define MCP_ID_MAX 256 /* bytes of an id that is a text */

enum mcp_code {
        MCP_PARSE_ERROR = -32700,
        MCP_INVALID_REQUEST = -32600,
        MCP_METHOD_NOT_FOUND = -32601,
        MCP_INVALID_PARAMS = -32602,
        MCP_INTERNAL_ERROR = -32603,
        MCP_RESOURCE_NOT_FOUND = -32002, /* before 2026-07-28 alone */
        MCP_HEADER_MISMATCH = -32020,
        MCP_UNSUPPORTED_VERSION = -32022
};

enum mcp_kind {
        MCP_REQUEST,
        MCP_NOTIFICATION,
        MCP_RESPONSE /* of the client's: to nothing that was asked */
};

/* All borrowed from the JSON that it was read from. */
struct mcp_message {
        enum mcp_kind kind;
        const json_t *id; /* a text or an integer; NULL where it is no request */
        const char *method;
        const json_t *params; /* an object, or NULL */
        const json_t *meta;   /* `_meta` of those, or NULL */
        bool newest;          /* of 2026-07-28 */
};

/* Headers of HTTP, NULL if absent. */
struct mcp_headers {
        const char *version, *method, *name;
};

/* Why a message is not served. */
struct mcp_fault {
        enum mcp_code code;
        unsigned status; /* of HTTP, for requests of 2026-07-28 and for what is no request */
        char text[256];
        const char *requested; /* MCP_UNSUPPORTED_VERSION: borrowed from the message */
        const char *uri;       /* of a resource that is not there; borrowed */
};

/* -1 if it is not a message. ret->id is set as far as it could be read, NULL else, also then. */
int mcp_message_read(const json_t *json, const struct mcp_headers *headers, struct mcp_message *ret,
                     struct mcp_fault *fault);

/* A request's `_meta` and headers, by the letter of its revision. */
int mcp_message_check(const struct mcp_message *message, const struct mcp_headers *headers,
                      struct mcp_fault *fault);

/* Whether its client can show its user a question with a form, and call again (`input_required`). */
bool mcp_message_may_ask(const struct mcp_message *message);

/* Returns -1. */
int mcp_fault_set(struct mcp_fault *fault, enum mcp_code code, unsigned status, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Whether `initialize` may agree on it: a revision before 2026-07-28 that is served. */
bool mcp_version_is_before(const char *version);

/* This server: {name, title, version}. A new reference. */
json_t *mcp_message_server(void);
/* New references: a message that answers the request, or the one of that id (NULL: none could be read). `result` is given away. */
json_t *mcp_message_result(const struct mcp_message *message, json_t *result);
json_t *mcp_message_fault(const json_t *id, const struct mcp_fault *fault);
/* A message without an answer; `params` is given away. */
json_t *mcp_message_notification(const char *method, json_t *params);

#endif
