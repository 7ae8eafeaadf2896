/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server that ECS, EKS (Pod Identity) and others put beside a container:
 *
 *     GET http://169.254.170.2$AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, or else $AWS_CONTAINER_CREDENTIALS_FULL_URI
 *     Authorization: the text of the file $AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, or else $AWS_CONTAINER_AUTHORIZATION_TOKEN
 *     <- {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}
 */
#include "providers/aws/client/credentials.h"

#include "base/files.h"
#include "base/log.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/credentials_container.h"
#include "providers/aws/client/setting.h"

#include <stdlib.h>
#include <string.h>

#define CONTAINER_HOST "169.254.170.2"
#define TIMEOUT_MS 2000
#define ANSWER_LIMIT (64U * 1024U)
#define TOKEN_LIMIT (64U * 1024U)

struct container_source {
        struct credentials_source source;
        const struct clock *clock;
        struct http_pool *http;
        char *url;
};

int credentials_container_check_url(const char *url, const char *what, struct error *err) {
        static const char *const hosts[] = { CONTAINER_HOST, "169.254.170.23", "[fd00:ec2::23]",
                                             "localhost" };
        struct http_url parts HTTP_URL_CLEANUP = { 0 };
        size_t length;

        if (http_url_split(url, what, &parts, err) < 0)
                return -1;
        if (strcmp(parts.scheme, "https") == 0)
                return 0;
        for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
                if (strcmp(parts.host, hosts[i]) == 0)
                        return 0;
        }
        /*
         * Loopback addresses, but no names under .localhost: a DNS server would decide where they
         * lead.
         */
        length = strlen(parts.host);
        if (http_is_loopback(parts.host) &&
            !(length > 10 && strcmp(parts.host + length - 10, ".localhost") == 0))
                return 0;
        return error_set(err,
                         "%s leads to %s: without TLS only a loopback address, " CONTAINER_HOST
                         ", 169.254.170.23 and fd00:ec2::23 may be asked for credentials",
                         what, parts.host);
}

/* The header's value, read again each time: the file is renewed. Empty where none is set. */
static int read_token(struct strbuf *ret, struct error *err) {
        const char *path = setting_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        const char *value = setting_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
        const char *from = path ? path : "AWS_CONTAINER_AUTHORIZATION_TOKEN";

        if (path && file_read(path, TOKEN_LIMIT, ret, err) < 0)
                return error_context(err, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        if (!path && value)
                strbuf_append(ret, value);
        if (strpbrk(strbuf_text(ret), "\r\n") || strlen(strbuf_text(ret)) != ret->length)
                return error_set(
                        err, "the token in %s has a line break or a NUL byte: it cannot be sent as a header",
                        from);
        return 0;
}

static int ask_container(const struct container_source *self, const struct strbuf *token,
                         struct http_response *answer, enum retry_reason *ret_reason, struct error *err) {
        const struct http_header headers[] = {
                { "accept", "application/json" },
                { "authorization", strbuf_text(token) },
        };
        struct http_request request = {
                .method = "GET",
                .url = self->url,
                .headers = headers,
                .header_count = token->length ? 2 : 1,
                .answer_limit = ANSWER_LIMIT,
                .timeout_ms = TIMEOUT_MS,
                .allow_plain = true, /* credentials_container_check_url() has looked */
                .direct = true,
                .interrupt = self->clock->interrupt,
        };
        enum http_failure failure;

        if (http_send(self->http, &request, answer, &failure, err) < 0) {
                *ret_reason = retry_reason_of(failure, 0, "");
                return -1;
        }
        log_debug("aws: credentials of the container: %d", answer->status);
        if (answer->status == 200)
                return 0;
        *ret_reason = retry_reason_of(failure, answer->status, "");
        return error_set(err, "%.*s answered %d", (int)strcspn(self->url, "?"), self->url, answer->status);
}

static int fetch_container(struct credentials_source *source, struct credentials **ret,
                           enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        static const struct credentials_answer_form form = {
                .what = "the answer",
                .origin = "the container",
                .token = "Token",
                .must_be_session = true,
        };
        const struct container_source *self = (const struct container_source *)source;
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct strbuf token = STRBUF_SECRET;
        json_t *object CREDENTIALS_ANSWER_CLEANUP = NULL;
        int result = read_token(&token, err);

        (void)ret_asked_ms;
        if (result == 0)
                result = ask_container(self, &token, &answer, ret_reason, err);
        strbuf_release(&token);
        if (result == 0)
                result = credentials_answer_parse(&answer.body, form.what, &object, err);
        if (result == 0)
                result = credentials_answer_read_keys(object, &form, self->clock, ret, err);
        strbuf_release(&answer.body);
        return result < 0 ? error_context(err, "credentials of the container") : 0;
}

static void release_container(struct credentials_source *source) {
        struct container_source *self = (struct container_source *)source;

        free(self->url);
        free(self);
}

static const struct credentials_source_ops ops = { fetch_container, release_container };

int credentials_container(const struct credentials_settings *settings, struct credentials_source **ret,
                          struct strbuf *tried, struct error *err) {
        const char *relative = setting_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        const char *full = setting_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        struct container_source *self;
        struct strbuf url = STRBUF_INIT;

        if (!relative && !full) {
                strbuf_append(tried, "the container (no AWS_CONTAINER_CREDENTIALS_*)");
                return 0;
        }
        /* "/" must come first: "@host" or ".host" behind the address would lead elsewhere. */
        if (relative && *relative != '/')
                return error_set(err, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with a slash");
        if (!relative && credentials_container_check_url(full, "AWS_CONTAINER_CREDENTIALS_FULL_URI", err) < 0)
                return -1;
        if (!(self = calloc(1, sizeof(*self))))
                abort();
        strbuf_printf(&url, "%s%s", relative ? "http://" CONTAINER_HOST : "", relative ? relative : full);
        self->source.ops = &ops;
        self->clock = settings->clock;
        self->http = settings->http;
        self->url = strbuf_take(&url);
        *ret = &self->source;
        return 1;
}
