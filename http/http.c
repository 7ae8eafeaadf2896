/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request runs on a handle from the pool, and its thread waits for it. The pool is a list under a lock, the handle used
 * last in front: a request takes the one that last spoke to its host, because libcurl keeps the connection with the handle,
 * and puts it back reset, so that no header or token of the request stays in it. Each handle has a multi handle of its own,
 * which holds its connections, for the sake of curl_multi_poll(): that wakes up at once for an interrupt's descriptor, on
 * whatever thread, where curl_easy_perform() looks around once a second.
 *
 * Which requests are allowed is decided before libcurl sees them, from the URL as libcurl itself takes it apart: two parsers
 * that read a URL differently are how a check is got around. libcurl is loaded with the first call that needs it.
 */
#include "http/http.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/library.h"
#include "base/memory.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_TIMEOUT_MS 5000L
#define WHOLE_TIMEOUT_MS 60000L
#define LOW_SPEED_SECONDS 30L
#define HEADERS_LIMIT (64U * 1024U)
#define HOST_SIZE 320

/* A handle that no request uses, with the connections it keeps. */
struct idle_handle {
        struct idle_handle *next;
        CURL *easy;
        CURLM *multi;         /* drives `easy`, and nothing else */
        char host[HOST_SIZE]; /* "host:port" it last spoke to */
};

struct http_pool {
        pthread_mutex_t lock;
        struct idle_handle *idle; /* the one used last is first */
        char *ca_bundle;
};

#define CURL_SYMBOLS(X)             \
        X(curl_easy_cleanup)        \
        X(curl_easy_getinfo)        \
        X(curl_easy_init)           \
        X(curl_easy_reset)          \
        X(curl_easy_setopt)         \
        X(curl_easy_strerror)       \
        X(curl_free)                \
        X(curl_getdate)             \
        X(curl_global_init_mem)     \
        X(curl_multi_add_handle)    \
        X(curl_multi_cleanup)       \
        X(curl_multi_info_read)     \
        X(curl_multi_init)          \
        X(curl_multi_perform)       \
        X(curl_multi_poll)          \
        X(curl_multi_remove_handle) \
        X(curl_slist_append)        \
        X(curl_slist_free_all)      \
        X(curl_url)                 \
        X(curl_url_cleanup)         \
        X(curl_url_get)             \
        X(curl_url_set)             \
        X(curl_url_strerror)

CURL_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol curl_symbols[] = { CURL_SYMBOLS(LIBRARY_SYMBOL) };
static struct library curl = LIBRARY(CURL_SONAME, "libcurl4", "HTTP", curl_symbols);

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* libcurl's buffers hold what requests and answers hold, and it overwrites none of them. */
static void start_curl(void) {
        if (sym_curl_global_init_mem(CURL_GLOBAL_DEFAULT, memory_new, memory_free_wiped, memory_resize,
                                     memory_copy_text, memory_new_zeroed) != CURLE_OK)
                abort();
}

/* Must be called before any function of libcurl's. */
static int load_curl(struct error *err) {
        if (library_load(&curl, err) < 0)
                return -1;
        pthread_once(&once, start_curl);
        return 0;
}

struct http_pool *http_pool_new(const char *ca_bundle) {
        struct http_pool *pool = calloc(1, sizeof(*pool));

        if (!pool || pthread_mutex_init(&pool->lock, NULL) != 0)
                abort();
        if (ca_bundle && *ca_bundle && !(pool->ca_bundle = strdup(ca_bundle)))
                abort();
        return pool;
}

static void free_handle(struct idle_handle *handle) {
        sym_curl_easy_cleanup(handle->easy);
        sym_curl_multi_cleanup(handle->multi);
        free(handle);
}

void http_pool_free(struct http_pool *pool) {
        if (!pool)
                return;
        while (pool->idle) {
                struct idle_handle *next = pool->idle->next;

                free_handle(pool->idle);
                pool->idle = next;
        }
        pthread_mutex_destroy(&pool->lock);
        free(pool->ca_bundle);
        free(pool);
}

/* The idle handle that last spoke to `host`, else any, else a new one. */
static struct idle_handle *take_handle(struct http_pool *pool, const char *host) {
        struct idle_handle **chosen = NULL, *handle = NULL;

        pthread_mutex_lock(&pool->lock);
        for (struct idle_handle **at = &pool->idle; *at; at = &(*at)->next) {
                if (strcmp((*at)->host, host) == 0) {
                        chosen = at;
                        break;
                }
                if (!chosen)
                        chosen = at;
        }
        if (chosen) {
                handle = *chosen;
                *chosen = handle->next;
        }
        pthread_mutex_unlock(&pool->lock);
        if (!handle) {
                handle = calloc(1, sizeof(*handle));
                if (!handle || !(handle->easy = sym_curl_easy_init()) ||
                    !(handle->multi = sym_curl_multi_init()))
                        abort();
        }
        snprintf(handle->host, sizeof(handle->host), "%s", host);
        return handle;
}

static void put_handle_back(struct http_pool *pool, struct idle_handle *handle) {
        /* Forgets the request (its headers have the session token), keeps the connections. */
        sym_curl_easy_reset(handle->easy);
        pthread_mutex_lock(&pool->lock);
        handle->next = pool->idle;
        pool->idle = handle;
        pthread_mutex_unlock(&pool->lock);
}

void http_response_release(struct http_response *response) {
        strbuf_release(&response->body);
        strbuf_release(&response->headers);
}

/* One request while libcurl has it. */
struct transfer {
        const struct http_request *request;
        struct http_response *response;
        CURL *easy;
        int64_t moved_ms; /* when something came or went last; monotonic */
        bool ended;       /* by its source or its sink */
};

static size_t append_body(char *data, size_t size, size_t count, void *opaque) {
        struct transfer *transfer = opaque;
        struct strbuf *body = &transfer->response->body;
        long status = 0;

        transfer->moved_ms = clock_now_ms();
        if (transfer->request->sink)
                sym_curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200 && status < 300) {
                transfer->ended = !transfer->request->sink(transfer->request->context, data, size * count);
                return transfer->ended ? 0 : size * count;
        }
        strbuf_append_bytes(body, data, size * count);
        return body->overflow ? 0 : size * count;
}

static size_t give_body(char *buffer, size_t size, size_t count, void *opaque) {
        struct transfer *transfer = opaque;
        ssize_t given = transfer->request->source(transfer->request->context, buffer, size * count);

        transfer->moved_ms = clock_now_ms();
        transfer->ended = given < 0;
        return given < 0 ? CURL_READFUNC_ABORT : (size_t)given;
}

static size_t append_header(char *data, size_t size, size_t count, void *opaque) {
        struct http_response *response = ((struct transfer *)opaque)->response;
        size_t length = size * count, name_length = 0;
        const char *colon = memchr(data, ':', length);

        if (length >= 5 && memcmp(data, "HTTP/", 5) == 0)
                strbuf_clear(&response->headers); /* another answer follows "100 Continue", or a proxy's */
        if (!colon)
                return length;
        name_length = (size_t)(colon - data);
        for (size_t i = 0; i < name_length; i++)
                strbuf_append_char(&response->headers, (char)tolower((unsigned char)data[i]));
        for (size_t i = name_length; i < length; i++) {
                if (data[i] != '\r' && data[i] != '\n')
                        strbuf_append_char(&response->headers, data[i]);
        }
        strbuf_append_char(&response->headers, '\n');
        return response->headers.overflow ? 0 : length;
}

/* This libcurl knows all of these options: a failure means a broken build. */
#define SET(easy, option, value)                                                 \
        do {                                                                     \
                if (sym_curl_easy_setopt((easy), (option), (value)) != CURLE_OK) \
                        abort();                                                 \
        } while (0)

static void set_method(CURL *easy, const struct http_request *request) {
        bool sends_body = strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0;

        if (strcmp(request->method, "HEAD") == 0) {
                SET(easy, CURLOPT_NOBODY, 1L);
        } else if (request->source) {
                SET(easy, CURLOPT_UPLOAD, 1L);
                SET(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->source_length);
                SET(easy, CURLOPT_CUSTOMREQUEST, request->method);
        } else if (request->body || sends_body) {
                SET(easy, CURLOPT_POSTFIELDS, request->body ? request->body : "");
                SET(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                    (curl_off_t)(request->body ? request->body_length : 0));
                SET(easy, CURLOPT_CUSTOMREQUEST, request->method);
        } else {
                SET(easy, CURLOPT_HTTPGET, 1L);
                SET(easy, CURLOPT_CUSTOMREQUEST, request->method);
        }
}

static struct curl_slist *append_line(struct curl_slist *list, const char *line) {
        struct curl_slist *longer = sym_curl_slist_append(list, line);

        if (!longer)
                abort();
        return longer;
}

/* RFC 9110's token; and a value that cannot end its line, which would begin another header or request. */
static bool is_header(const struct http_header *header) {
        static const char token[] =
                "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

        if (!*header->name || header->name[strspn(header->name, token)])
                return false;
        for (const char *at = header->value; *at; at++) {
                if (iscntrl((unsigned char)*at) && *at != '\t')
                        return false;
        }
        return true;
}

/* The value is not told: it may be a secret. The name is, as far as it is one. */
static int check_headers(const struct http_request *request, struct error *err) {
        for (size_t i = 0; i < request->header_count; i++) {
                const char *name = request->headers[i].name;

                if (!is_header(&request->headers[i]))
                        return error_set(err,
                                         "the header %.*s would hold a line break or another control "
                                         "character: nothing was sent",
                                         (int)strcspn(name, "\r\n"), name);
        }
        return 0;
}

static struct curl_slist *header_list(const struct http_request *request) {
        struct curl_slist *list = NULL;
        struct strbuf line = STRBUF_SECRET;
        bool typed = false;

        for (size_t i = 0; i < request->header_count; i++) {
                const struct http_header *header = &request->headers[i];

                strbuf_clear(&line);
                /* libcurl takes "name:" as "leave it out", and "name;" as "send it empty". */
                strbuf_printf(&line, *header->value ? "%s: %s" : "%s;", header->name, header->value);
                list = append_line(list, strbuf_text(&line));
                typed |= strcasecmp(header->name, "content-type") == 0;
        }
        strbuf_release(&line);
        if (!typed)
                list = append_line(list, "Content-Type:"); /* else libcurl adds that of a form */
        return append_line(list, "Expect:");
}

static void wipe_list(struct curl_slist *list) {
        for (struct curl_slist *at = list; at; at = at->next)
                explicit_bzero(at->data, strlen(at->data));
        sym_curl_slist_free_all(list);
}

static void set_options(const struct http_pool *pool, struct transfer *transfer, bool loopback,
                        char *detail) {
        const struct http_request *request = transfer->request;
        CURL *easy = transfer->easy;
        long whole = request->timeout_ms > 0 ? (long)request->timeout_ms : WHOLE_TIMEOUT_MS;

        SET(easy, CURLOPT_URL, request->url);
        SET(easy, CURLOPT_FRESH_CONNECT, request->once ? 1L : 0L);
        SET(easy, CURLOPT_PATH_AS_IS, 1L); /* an S3 key may have "..", and the path was signed as it is */
        SET(easy, CURLOPT_PROTOCOLS_STR, loopback || request->allow_plain ? "http,https" : "https");
        SET(easy, CURLOPT_FOLLOWLOCATION, 0L);
        SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        SET(easy, CURLOPT_NOSIGNAL, 1L);
        SET(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
        if (request->quiet_ms == 0) {
                SET(easy, CURLOPT_TIMEOUT_MS, whole);
                SET(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
                SET(easy, CURLOPT_LOW_SPEED_TIME, LOW_SPEED_SECONDS);
        }
        SET(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        SET(easy, CURLOPT_SSL_VERIFYPEER, 1L);
        SET(easy, CURLOPT_SSL_VERIFYHOST, 2L);
        SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        if (pool->ca_bundle)
                SET(easy, CURLOPT_CAINFO, pool->ca_bundle);
        if (request->socket)
                SET(easy, CURLOPT_UNIX_SOCKET_PATH, request->socket);
        if (loopback || request->direct || request->socket)
                SET(easy, CURLOPT_PROXY, ""); /* whatever the environment says */
        SET(easy, CURLOPT_USERAGENT, "berth/" BERTH_VERSION);
        SET(easy, CURLOPT_WRITEFUNCTION, append_body);
        SET(easy, CURLOPT_WRITEDATA, transfer);
        SET(easy, CURLOPT_READFUNCTION, give_body);
        SET(easy, CURLOPT_READDATA, transfer);
        SET(easy, CURLOPT_HEADERFUNCTION, append_header);
        SET(easy, CURLOPT_HEADERDATA, transfer);
        SET(easy, CURLOPT_ERRORBUFFER, detail);
        set_method(easy, request);
}

static enum http_failure classify(CURLcode code, const struct http_response *response) {
        if (response->body.overflow || response->headers.overflow)
                return HTTP_TOO_LARGE;
        switch (code) {
        case CURLE_OK:
                return HTTP_ANSWERED;
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_CONNECT:
        case CURLE_PROXY:
                return HTTP_UNREACHABLE;
        case CURLE_OPERATION_TIMEDOUT:
                return HTTP_TIMED_OUT;
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CIPHER:
        case CURLE_SSL_ISSUER_ERROR:
                return HTTP_TLS;
        case CURLE_URL_MALFORMAT:
        case CURLE_UNSUPPORTED_PROTOCOL:
                return HTTP_REFUSED;
        case CURLE_ABORTED_BY_CALLBACK:
                return HTTP_INTERRUPTED;
        default:
                return HTTP_BROKEN;
        }
}

static int fail_request(enum http_failure failure, const char *host, const char *detail, size_t limit,
                        struct error *err) {
        switch (failure) {
        case HTTP_UNREACHABLE:
                return error_set_kind(err, ERROR_UNREACHABLE, "cannot reach %s: %s", host, detail);
        case HTTP_TIMED_OUT:
                return error_set_kind(err, ERROR_UNREACHABLE, "no answer in time from %s: %s", host, detail);
        case HTTP_TLS:
                return error_set(err, "no trusted TLS connection to %s: %s", host, detail);
        case HTTP_TOO_LARGE:
                return error_set(err, "the answer of %s exceeds %zu bytes", host, limit);
        case HTTP_REFUSED:
                return error_set(err, "the URL of %s cannot be used: %s", host, detail);
        case HTTP_INTERRUPTED:
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted while waiting for %s", host);
        case HTTP_ANSWERED:
        case HTTP_BROKEN:
                break;
        }
        return error_set(err, "the connection to %s broke: %s", host, detail);
}

/* A part of a URL as libcurl sees it, "" where it has none; to be released with free(). */
static char *url_part(CURLU *url, CURLUPart part, unsigned flags) {
        char *value = NULL, *copy;

        if (sym_curl_url_get(url, part, &value, flags) != CURLUE_OK)
                value = NULL;
        copy = strdup(value ? value : "");
        if (!copy)
                abort();
        sym_curl_free(value);
        return copy;
}

/* The parts of the URL that decide whether the request may be sent, and to whom. -1 where it is no URL of http or https. */
static int split_request_url(const char *text, char host_port[HOST_SIZE], bool *ret_loopback,
                             bool *ret_plain) {
        CURLU *url = sym_curl_url();
        char *scheme, *host, *port;
        int result = -1;

        if (!url)
                abort();
        if (sym_curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS) == CURLUE_OK) {
                scheme = url_part(url, CURLUPART_SCHEME, 0);
                host = url_part(url, CURLUPART_HOST, 0);
                port = url_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
                *ret_plain = strcmp(scheme, "http") == 0;
                *ret_loopback = http_is_loopback(host);
                snprintf(host_port, HOST_SIZE, "%s:%s", host, port);
                result = *ret_plain || strcmp(scheme, "https") == 0 ? 0 : -1;
                free(scheme);
                free(host);
                free(port);
        }
        sym_curl_url_cleanup(url);
        return result;
}

/* More often than this the wait looks around by itself, should no descriptor say anything. */
#define LONGEST_POLL_MS 1000

/* curl_easy_perform(), ended at once where one of the request's interrupts says so. */
static CURLcode perform(struct idle_handle *handle, const struct transfer *transfer) {
        const struct http_request *request = transfer->request;
        const struct interrupt *const interrupts[] = { request->interrupt, request->ended_by };
        struct curl_waitfd stops[2];
        CURLcode code = CURLE_OK;
        unsigned count = 0;
        int running = 1;

        for (size_t i = 0; i < 2; i++) {
                int descriptor = interrupt_descriptor(interrupts[i], INTERRUPT_NOW);

                if (descriptor >= 0)
                        stops[count++] = (struct curl_waitfd){ .fd = descriptor, .events = CURL_WAIT_POLLIN };
        }
        if (sym_curl_multi_add_handle(handle->multi, handle->easy) != CURLM_OK)
                abort();
        while (running && code == CURLE_OK) {
                if (interrupt_level(request->interrupt) >= INTERRUPT_NOW ||
                    interrupt_level(request->ended_by) >= INTERRUPT_NOW)
                        code = CURLE_ABORTED_BY_CALLBACK;
                else if (sym_curl_multi_perform(handle->multi, &running) != CURLM_OK ||
                         (running && sym_curl_multi_poll(handle->multi, stops, count, LONGEST_POLL_MS,
                                                         NULL) != CURLM_OK))
                        code = CURLE_OUT_OF_MEMORY;
                else if (running && request->quiet_ms > 0 &&
                         clock_now_ms() - transfer->moved_ms > request->quiet_ms)
                        code = CURLE_OPERATION_TIMEDOUT;
        }
        if (!running) {
                int left;
                const CURLMsg *message = sym_curl_multi_info_read(handle->multi, &left);

                code = message ? message->data.result : CURLE_OUT_OF_MEMORY;
        }
        sym_curl_multi_remove_handle(handle->multi, handle->easy);
        return code;
}

int http_send(struct http_pool *pool, const struct http_request *request, struct http_response *ret,
              enum http_failure *ret_failure, struct error *err) {
        char detail[CURL_ERROR_SIZE] = "", host[HOST_SIZE];
        bool loopback = false, plain = false;
        struct transfer transfer = { .request = request, .response = ret };
        struct idle_handle *handle;
        struct curl_slist *headers;
        CURLcode code;
        long status = 0;

        *ret_failure = HTTP_REFUSED;
        if (load_curl(err) < 0)
                return -1;
        if (split_request_url(request->url, host, &loopback, &plain) < 0)
                return error_set(err, "not a URL of http or https: %.*s", (int)strcspn(request->url, "?"),
                                 request->url);
        if (plain && !loopback && !request->allow_plain)
                return error_set(err, "http to %s is refused: only https, or a loopback address", host);
        if (check_headers(request, err) < 0)
                return -1;
        strbuf_clear(&ret->body);
        strbuf_clear(&ret->headers);
        /* Answers hold keys, tokens and the texts of secrets. */
        ret->body.secret = true;
        ret->headers.secret = true;
        ret->body.limit = request->answer_limit;
        ret->headers.limit = HEADERS_LIMIT;

        handle = take_handle(pool, host);
        headers = header_list(request);
        transfer.easy = handle->easy;
        transfer.moved_ms = clock_now_ms();
        set_options(pool, &transfer, loopback, detail);
        SET(handle->easy, CURLOPT_HTTPHEADER, headers);
        code = perform(handle, &transfer);
        if (code == CURLE_OK)
                sym_curl_easy_getinfo(handle->easy, CURLINFO_RESPONSE_CODE, &status);
        put_handle_back(pool, handle);
        wipe_list(headers);

        *ret_failure = transfer.ended ? HTTP_INTERRUPTED : classify(code, ret);
        if (*ret_failure != HTTP_ANSWERED)
                return fail_request(*ret_failure, host, *detail ? detail : sym_curl_easy_strerror(code),
                                    request->answer_limit, err);
        ret->status = (int)status;
        return 0;
}

bool http_header(const struct http_response *response, const char *name, char *value, size_t size) {
        size_t name_length = strlen(name);

        value[0] = '\0';
        for (const char *line = strbuf_text(&response->headers); *line;) {
                size_t length = strcspn(line, "\n");

                if (length > name_length && line[name_length] == ':' &&
                    memcmp(line, name, name_length) == 0) {
                        const char *start = line + name_length + 1;

                        start += strspn(start, " \t");
                        snprintf(value, size, "%.*s", (int)(line + length - start), start);
                        for (size_t end = strlen(value); end > 0 && strchr(" \t", value[end - 1]); end--)
                                value[end - 1] = '\0';
                        return true;
                }
                line += length + (line[length] == '\n');
        }
        return false;
}

#define YEAR_9999_S INT64_C(253402300799) /* its last second */

int64_t http_date_ms(const char *text) {
        struct error err;
        time_t seconds;

        if (load_curl(&err) < 0)
                return -1;
        seconds = sym_curl_getdate(text, NULL);
        /* HTTP's years have four digits (RFC 9110); libcurl takes any number. */
        return seconds < 0 || seconds > YEAR_9999_S ? -1 : (int64_t)seconds * 1000;
}

void http_url_release(struct http_url *url) {
        free(url->scheme);
        free(url->host);
        free(url->port);
        free(url->path);
        *url = (struct http_url){ 0 };
}

static const char *find_url_problem(CURLU *url, const struct http_url *parsed, bool whole) {
        static const struct {
                CURLUPart part;
                const char *problem;
        } unwanted[] = {
                { CURLUPART_USER, "it must not hold a user name" },
                { CURLUPART_PASSWORD, "it must not hold a password" },
                { CURLUPART_QUERY, "it must not hold a query" },
                { CURLUPART_FRAGMENT, "it must not hold a fragment" },
        };

        if (strcmp(parsed->scheme, "http") != 0 && strcmp(parsed->scheme, "https") != 0)
                return "it must begin with http:// or https://";
        for (size_t i = 0; i < (whole ? 2 : sizeof(unwanted) / sizeof(unwanted[0])); i++) {
                char *value = url_part(url, unwanted[i].part, 0);
                bool there = *value != '\0';

                free(value);
                if (there)
                        return unwanted[i].problem;
        }
        return NULL;
}

/* `whole`: a query and a fragment may follow the path. */
static int parse_url(const char *text, const char *what, bool whole, struct http_url *ret,
                     struct error *err) {
        struct http_url parsed = { 0 };
        const char *problem = NULL;
        CURLUcode code;
        CURLU *url;

        if (load_curl(err) < 0)
                return -1;
        url = sym_curl_url();
        if (!url)
                abort();
        code = sym_curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS);
        if (code == CURLUE_OK) {
                parsed.scheme = url_part(url, CURLUPART_SCHEME, 0);
                parsed.host = url_part(url, CURLUPART_HOST, 0);
                parsed.port = url_part(url, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
                parsed.path = url_part(url, CURLUPART_PATH, 0);
                for (char *at = parsed.host; *at; at++)
                        *at = (char)tolower((unsigned char)*at);
                for (size_t end = strlen(parsed.path); end > 0 && parsed.path[end - 1] == '/'; end--)
                        parsed.path[end - 1] = '\0';
                problem = find_url_problem(url, &parsed, whole);
        } else {
                problem =
                        code == CURLUE_BAD_SCHEME || code == CURLUE_UNSUPPORTED_SCHEME || !strstr(text, "://")
                                ? "it must begin with http:// or https://"
                                : sym_curl_url_strerror(code);
        }
        sym_curl_url_cleanup(url);
        if (problem) {
                http_url_release(&parsed);
                return error_set(err, "%s \"%.200s\" is not a usable URL: %s", what, text, problem);
        }
        *ret = parsed;
        return 0;
}

int http_url_parse(const char *text, const char *what, struct http_url *ret, struct error *err) {
        return parse_url(text, what, false, ret, err);
}

int http_url_split(const char *text, const char *what, struct http_url *ret, struct error *err) {
        return parse_url(text, what, true, ret, err);
}

bool http_is_loopback(const char *host) {
        size_t length = strlen(host);
        struct in_addr address;
        char plain[INET6_ADDRSTRLEN];
        struct in6_addr address6;

        if (strcasecmp(host, "localhost") == 0)
                return true;
        if (length > 10 && strcasecmp(host + length - 10, ".localhost") == 0)
                return true;
        if (inet_pton(AF_INET, host, &address) == 1)
                return (ntohl(address.s_addr) >> 24) == 127;
        if (host[0] == '[' && length > 2 && length - 2 < sizeof(plain))
                snprintf(plain, sizeof(plain), "%.*s", (int)(length - 2), host + 1);
        else
                snprintf(plain, sizeof(plain), "%s", host);
        return inet_pton(AF_INET6, plain, &address6) == 1 && IN6_IS_ADDR_LOOPBACK(&address6);
}
