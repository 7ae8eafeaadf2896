/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running `berth serve`, asked over the Unix socket in its state's folder. Any thread may ask.
 *
 * A refusal becomes an error with its detail and its remedy.
 */
#ifndef BERTH_CLIENT_CLIENT_H
#define BERTH_CLIENT_CLIENT_H

#include "base/error.h"
#include "base/interrupt.h"
#include "http/http.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CLIENT_ID_LENGTH 28 /* of a session's id: "s-" and 26 characters of base32 */

struct client;

/* ERROR_NOT_FOUND where no server runs there; `command` starts one, and stands in the message. */
int client_open(const char *folder, const char *command, struct client **ret, struct error *err) MUST_USE;
void client_closep(struct client **client);
#define CLIENT_CLEANUP __attribute__((cleanup(client_closep)))

struct client_call {
        const char *method, *path;         /* the path is sent as it stands: client_append_escaped() */
        const json_t *body;                /* borrowed; NULL: none */
        bool does_not_wait;                /* Prefer: respond-async */
        const char *if_none_match;         /* or NULL */
        const char *accept;                /* or NULL */
        int *ret_status;                   /* the HTTP status of what succeeded; or NULL */
        const struct interrupt *interrupt; /* at INTERRUPT_NOW the call stops waiting; NULL: never */
        /* A body of bytes, and where the bytes of an answer go: as in http/http.h. */
        int64_t source_length;
        ssize_t (*source)(void *context, char *buffer, size_t size);
        bool (*sink)(void *context, const char *bytes, size_t length);
        void *context;
};

/*
 * 0 for a status of 200 to 299, with the answer in *ret if ret is not NULL: a new reference, NULL
 * for an empty answer or one that went to the sink. ERROR_NOT_FOUND for 404, ERROR_UNREACHABLE
 * where the server is gone, or ends before its answer does, ERROR_INTERRUPTED.
 */
int client_ask(struct client *client, const struct client_call *call, json_t **ret,
               struct error *err) MUST_USE;

/*
 * For a caller with a form of its own: as http_send(), with `url`, `socket`, `answer_limit` and
 * `quiet_ms` filled in. 0 whatever the status; failures as above.
 */
int client_send(struct client *client, const char *path, struct http_request *request,
                struct http_response *ret, struct error *err) MUST_USE;

/* Whether the text has the form of a session's id. */
bool client_is_id(const char *text);

struct strbuf;
/* As one segment of a path or one value of a query; `slashes` stay as they are where they part names. */
void client_append_escaped(struct strbuf *to, const char *text, bool slashes);

#endif
