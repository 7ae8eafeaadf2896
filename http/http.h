/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP by libcurl. This is the only module that includes libcurl, which is loaded on first use.
 *
 * Any thread may use a pool of connections: a request takes the connection that last went to its host, and gives it back. TLS
 * certificates are always verified. Redirects are never followed: the signature would leak to another host, and would not be
 * valid there. An answer shorter than its announced length is a failure.
 */
#ifndef BERTH_HTTP_HTTP_H
#define BERTH_HTTP_HTTP_H

#include "base/error.h"
#include "base/interrupt.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http_pool;

struct http_header {
        const char *name;
        const char *value;
};

enum http_failure {
        HTTP_ANSWERED = 0, /* whatever the status */
        HTTP_UNREACHABLE,  /* name not found, connection refused, no route */
        HTTP_TIMED_OUT,    /* no connection, or no answer in time: the request may have been carried out */
        HTTP_BROKEN,       /* the connection ended early: the request may have been carried out */
        HTTP_TLS,          /* the certificate, or the handshake */
        HTTP_TOO_LARGE,    /* the answer exceeds its limit */
        HTTP_REFUSED,      /* not sent: the URL or a header is not allowed, or libcurl is missing */
        HTTP_INTERRUPTED   /* the request's interrupt, INTERRUPT_NOW; its source or its sink */
};

struct http_request {
        const char *method;
        const char *url;
        const struct http_header
                *headers; /* Host, Content-Type ...; a body without Content-Type is sent without one */
        size_t header_count;
        const void *body; /* NULL for none; PUT and POST then say Content-Length: 0 */
        size_t body_length;
        size_t answer_limit; /* bytes, > 0 */
        int64_t timeout_ms;  /* for the whole request; 0 for 60 s */
        bool allow_plain;    /* http:// to any host, because it is configured; otherwise to loopback only */
        /*
         * Sent on a connection of its own: on a kept one that ends before an answer libcurl sends it again by itself, and for
         * what makes something with each call that is once too often.
         */
        bool once;
        bool direct; /* without a proxy, even where the environment names one */
        const struct interrupt
                *interrupt; /* at INTERRUPT_NOW nobody waits for the answer any more; NULL: never */
        const struct interrupt *ended_by; /* another one that ends it; or NULL */
        const char *socket; /* a Unix socket to connect to, at most 107 bytes; NULL: what the URL says */
        /*
         * How long nothing may come or go, in place of a limit on the whole: for streams, which last as long as they last. 0: the
         * limits of any request.
         */
        int64_t quiet_ms;
        /* A body that is handed over piece by piece instead of `body`: its length, and who gives it. NULL: none. */
        int64_t source_length;
        ssize_t (*source)(void *context, char *buffer, size_t size); /* 0 at its end, -1 ends the request */
        /* Takes the body of an answer of 200 to 299 piece by piece; others are collected. False ends the request. Or NULL. */
        bool (*sink)(void *context, const char *bytes, size_t length);
        void *context; /* of both */
};

struct http_response {
        int status;
        struct strbuf body;    /* its `limit` is set by http_send() */
        struct strbuf headers; /* "name: value\n" each, names in lower case */
};
#define HTTP_RESPONSE_INIT \
        { 0 }
void http_response_release(struct http_response *response);
#define HTTP_RESPONSE_CLEANUP __attribute__((cleanup(http_response_release)))

/* `ca_bundle`: a PEM file to trust instead of the system's, or NULL. */
struct http_pool *http_pool_new(const char *ca_bundle);
void http_pool_free(struct http_pool *pool); /* NULL is fine; no request may be under way */

/* 0 with *ret filled, or -1 with *ret_failure and err (without the caller's context, with host and port). */
int http_send(struct http_pool *pool, const struct http_request *request, struct http_response *ret,
              enum http_failure *ret_failure, struct error *err) MUST_USE;

/* Copies the value of the first header of that name (lower case), cut to `size`; false and "" where there is none. */
bool http_header(const struct http_response *response, const char *name, char *value, size_t size);

/* Milliseconds since 1970 from an HTTP date ("Sat, 31 Jan 2026 12:00:00 GMT"); -1 where the text is no date. */
int64_t http_date_ms(const char *text);

struct http_url {
        char *scheme; /* "http" or "https" */
        char *host;   /* lower case; [::1] keeps its brackets */
        char *port;   /* "" where it is the scheme's default */
        char *path;   /* "" or "/prefix", without a slash at the end */
};
void http_url_release(struct http_url *url);
#define HTTP_URL_CLEANUP __attribute__((cleanup(http_url_release)))

/* For endpoints: http or https, a host, no user, query or fragment. `what` names the setting in errors. */
int http_url_parse(const char *text, const char *what, struct http_url *ret, struct error *err) MUST_USE;

/* The same for any URL of http or https without a user; it may have a query, which `path` leaves out. */
int http_url_split(const char *text, const char *what, struct http_url *ret, struct error *err) MUST_USE;

/* localhost, *.localhost, 127.0.0.0/8, ::1 (with or without brackets). */
bool http_is_loopback(const char *host);

#endif
