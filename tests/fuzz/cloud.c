/* SPDX-License-Identifier: Apache-2.0 */
#include "cloud.h"

#include "http/http.h"
#include "providers/aws/client/command.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_MAX 128
#define REQUESTS_MAX 160 /* then nothing answers any more: a caller that asks forever comes to an end */
#define WALL_MS INT64_C(1769860800000)

struct answer {
        char *text; /* of the part; what follows points into it */
        const char *needle, *headers, *body;
        size_t body_length;
        int status;
        bool taken;
};

static struct answer answers[ANSWERS_MAX];
static size_t answer_count;
static unsigned requests;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all of these */
static atomic_llong elapsed_ms;
static bool show_requests; /* FUZZ_SHOW_REQUESTS: for who writes seeds */

/* Ends the line that begins at `at`; the next line, or NULL. */
static char *cut_line(char *at) {
        char *end = at + strcspn(at, "\n");

        if (!*end)
                return NULL;
        *end = '\0';
        return end + 1;
}

static void read_answer(struct parts *parts, struct answer *answer) {
        size_t length;
        char *bytes = parts_next(parts, &length), *at, *space;

        answer->text = malloc(length + 1);
        if (!answer->text)
                abort();
        if (length > 0)
                memcpy(answer->text, bytes, length);
        answer->text[length] = '\0';
        free(bytes);
        answer->needle = answer->text;
        answer->headers = answer->body = "";
        at = cut_line(answer->text);
        space = strrchr(answer->text, ' ');
        if (space) {
                *space = '\0';
                answer->status = atoi(space + 1) % 1000;
        }
        if (!at)
                return;
        answer->headers = at;
        while (at && *at && *at != '\n')
                at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
        if (!at || !*at)
                return;
        *at = '\0';
        answer->body = at + 1;
        answer->body_length = length - (size_t)(at + 1 - answer->text);
}

void cloud_forget(void) {
        for (size_t i = 0; i < answer_count; i++)
                free(answers[i].text);
        memset(answers, 0, sizeof(answers));
        answer_count = 0;
        requests = 0;
        atomic_store(&elapsed_ms, 0);
}

void cloud_load(struct parts *parts) {
        cloud_forget();
        while (parts->left > 0 && answer_count < ANSWERS_MAX)
                read_answer(parts, &answers[answer_count++]);
}

static struct answer *choose(const char *label) {
        struct answer *last = NULL;

        if (++requests > REQUESTS_MAX)
                return NULL;
        for (size_t i = 0; i < answer_count; i++) {
                if (!strstr(label, answers[i].needle))
                        continue;
                last = &answers[i];
                if (!last->taken)
                        break;
        }
        if (last)
                last->taken = true;
        return last;
}

static void make_label(const struct http_request *request, struct strbuf *label) {
        const char *body = request->body;
        size_t length = body ? strnlen(body, request->body_length) : 0;
        const char *end = length ? memchr(body, '&', length) : NULL;

        strbuf_printf(label, "%s %s ", request->method, request->url);
        for (size_t i = 0; i < request->header_count; i++) {
                if (strcmp(request->headers[i].name, "x-amz-target") == 0)
                        strbuf_append(label, request->headers[i].value);
        }
        strbuf_append_char(label, ' ');
        if (end)
                strbuf_append_bytes(label, body, (size_t)(end - body));
}

/* As http.c keeps them: names in lower case, no carriage returns. */
static void give_headers(const char *headers, struct strbuf *ret) {
        bool name = true;

        for (; *headers; headers++) {
                if (*headers == '\r')
                        continue;
                if (*headers == ':' || *headers == '\n')
                        name = *headers == '\n';
                strbuf_append_char(ret, name ? (char)tolower((unsigned char)*headers) : *headers);
        }
}

int __wrap_http_send(struct http_pool *pool, const struct http_request *request, struct http_response *ret,
                     enum http_failure *ret_failure, struct error *err);
int __wrap_http_send(struct http_pool *pool, const struct http_request *request, struct http_response *ret,
                     enum http_failure *ret_failure, struct error *err) {
        struct strbuf label STRBUF_CLEANUP = STRBUF_INIT;
        struct answer *answer;
        int status;

        (void)pool;
        make_label(request, &label);
        pthread_mutex_lock(&lock);
        answer = choose(strbuf_text(&label));
        status = requests > REQUESTS_MAX ? 0 : answer ? answer->status : 404;
        pthread_mutex_unlock(&lock);
        if (show_requests)
                fprintf(stderr, "%d %s\n", status, strbuf_text(&label));
        if (status == 0 || (answer && answer->body_length > request->answer_limit)) {
                *ret_failure = status ? HTTP_TOO_LARGE : HTTP_BROKEN;
                return error_set(err, "the connection broke");
        }
        *ret_failure = HTTP_ANSWERED;
        ret->status = status;
        ret->body.limit = request->answer_limit;
        if (answer) {
                strbuf_append_bytes(&ret->body, answer->body, answer->body_length);
                give_headers(answer->headers, &ret->headers);
        }
        return 0;
}

int __wrap_command_run(char *const *argv, const struct command_limits *limits, struct strbuf *ret,
                       struct error *err);
int __wrap_command_run(char *const *argv, const struct command_limits *limits, struct strbuf *ret,
                       struct error *err) {
        struct answer *answer;

        (void)limits;
        pthread_mutex_lock(&lock);
        answer = choose("credential_process");
        pthread_mutex_unlock(&lock);
        if (!answer || answer->status != 200)
                return error_set(err, "%s failed", argv[0]);
        strbuf_append_bytes(ret, answer->body, answer->body_length);
        return 0;
}

static int64_t wall_ms(const struct clock *clock) {
        (void)clock;
        return WALL_MS + (int64_t)atomic_load(&elapsed_ms);
}

static int64_t monotonic_ms(const struct clock *clock) {
        (void)clock;
        return 1000000 + (int64_t)atomic_load(&elapsed_ms);
}

void cloud_advance(int64_t until_ms) {
        int64_t now_ms = monotonic_ms(NULL);

        if (until_ms > now_ms)
                atomic_fetch_add(&elapsed_ms, until_ms - now_ms);
}

static int sleep_until(const struct clock *clock, int64_t until_ms) {
        (void)clock;
        cloud_advance(until_ms);
        return 0;
}

const struct clock cloud_clock = { wall_ms, monotonic_ms, sleep_until, NULL };

void cloud_environment(void) {
        static const char *const settings[][2] = {
                { "AWS_CONFIG_FILE", "/nonexistent" }, { "AWS_SHARED_CREDENTIALS_FILE", "/nonexistent" },
                { "AWS_REGION", "us-east-1" },         { "AWS_ACCESS_KEY_ID", "AKIDEXAMPLE" },
                { "AWS_SECRET_ACCESS_KEY", "secret" }, { "HOME", "/nonexistent" },
        };

        show_requests = getenv("FUZZ_SHOW_REQUESTS") != NULL;
        if (clearenv() != 0)
                abort();
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
                if (setenv(settings[i][0], settings[i][1], 1) != 0)
                        abort();
        }
}
