/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role of an EC2 instance, from its metadata service, by IMDSv2 only:
 *
 *     PUT /latest/api/token, x-aws-ec2-metadata-token-ttl-seconds: 21600                      <- a token
 *     GET /latest/meta-data/iam/security-credentials/, x-aws-ec2-metadata-token: the token    <- the role's name
 *     GET /latest/meta-data/iam/security-credentials/ROLE, the same                           <- {"AccessKeyId", ...}
 *
 * Whether there is such a service can only be found out by asking. A laptop must not wait long for it: there is one attempt
 * of a second unless a setting says otherwise.
 */
#include "providers/aws/client/credentials.h"

#include "base/arena.h"
#include "base/log.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/setting.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROLES "/latest/meta-data/iam/security-credentials/"
#define TOKEN_SECONDS "21600"
#define ANSWER_LIMIT (64U * 1024U)
#define STALE_USE_MS (20 * 60 * 1000)

struct instance_source {
        struct credentials_source source;
        const struct clock *clock;
        struct http_pool *http;
        char *url; /* without a slash at the end */
        int64_t timeout_ms;
        long attempts;
        struct credentials *first; /* what was found by looking whether there is anything */
};

static const char *instance_setting(const struct credentials_settings *settings, const char *variable,
                                    const char *key) {
        return setting_get(variable, settings->profiles, settings->session_profile, key);
}

static int read_count(const struct credentials_settings *settings, const char *variable, const char *key,
                      long *ret, struct error *err) {
        const char *text = instance_setting(settings, variable, key);
        char *end;

        *ret = 1;
        if (!text)
                return 0;
        *ret = strtol(text, &end, 10);
        if (*end || *ret < 1 || *ret > 100)
                return error_set(err, "%s (or %s of the profile %s) is \"%.40s\": it must be 1 to 100",
                                 variable, key, settings->session_profile, text);
        return 0;
}

/* The service's address without a slash at its end. */
static int find_url(const struct credentials_settings *settings, char **ret, struct error *err) {
        const char *url = instance_setting(settings, "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                           "ec2_metadata_service_endpoint");
        const char *mode = instance_setting(settings, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
                                            "ec2_metadata_service_endpoint_mode");
        struct http_url parts HTTP_URL_CLEANUP = { 0 };
        struct strbuf text = STRBUF_INIT;
        bool ipv6 = mode && strcasecmp(mode, "ipv6") == 0;

        if (mode && !ipv6 && strcasecmp(mode, "ipv4") != 0)
                return error_set(
                        err, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is \"%.40s\": it must be IPv4 or IPv6",
                        mode);
        if (!mode)
                ipv6 = setting_is_true(instance_setting(settings, "AWS_IMDS_USE_IPV6", "imds_use_ipv6"));
        if (!url)
                url = ipv6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
        if (http_url_parse(url, "AWS_EC2_METADATA_SERVICE_ENDPOINT", &parts, err) < 0)
                return -1;
        strbuf_printf(&text, "%s://%s%s%s%s", parts.scheme, parts.host, *parts.port ? ":" : "", parts.port,
                      parts.path);
        *ret = strbuf_take(&text);
        return 0;
}

static int ask_once(const struct instance_source *self, const char *method, const char *path,
                    const struct http_header *header, struct http_response *answer,
                    enum retry_reason *ret_reason, struct error *err) {
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT;
        struct http_request request = {
                .method = method,
                .headers = header,
                .header_count = 1,
                .answer_limit = ANSWER_LIMIT,
                .timeout_ms = self->timeout_ms,
                .allow_plain = true,
                .direct = true,
                .interrupt = self->clock->interrupt,
        };
        enum http_failure failure;

        strbuf_printf(&url, "%s%s", self->url, path);
        request.url = strbuf_text(&url);
        if (http_send(self->http, &request, answer, &failure, err) < 0) {
                *ret_reason = retry_reason_of(failure, 0, "");
                return -1;
        }
        log_debug("aws: instance metadata: %s %s: %d", method, path, answer->status);
        if (answer->status == 200 && answer->body.length > 0)
                return 0;
        *ret_reason = retry_reason_of(failure, answer->status, "");
        if (answer->status == 404 && strcmp(path, ROLES) == 0)
                return error_set(err, "the instance has no role");
        return error_set(err, "%s %s%s answered %d%s", method, self->url, path, answer->status,
                         answer->status == 200 ? " and nothing" : "");
}

static int ask_instance(const struct instance_source *self, const char *method, const char *path,
                        const struct http_header *header, struct strbuf *ret, enum retry_reason *ret_reason,
                        struct error *err) {
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        int result = -1;

        for (long attempt = 0; result < 0 && attempt < self->attempts; attempt++) {
                *ret_reason = RETRY_NOT;
                result = ask_once(self, method, path, header, &answer, ret_reason, err);
                if (result < 0 && answer.status == 400)
                        break;
        }
        if (result == 0) {
                *ret = answer.body; /* moved */
                answer.body = (struct strbuf)STRBUF_INIT;
        }
        return result;
}

/* A role's name is the first line; it becomes part of a path. */
static int check_role_name(struct strbuf *role, struct error *err) {
        size_t length = strcspn(strbuf_text(role), "\r\n");

        role->data[length] = '\0';
        role->length = length;
        if (length == 0 ||
            strspn(role->data, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+=,.@_-") !=
                    length)
                return error_set(err, "the instance's metadata service gives no name of a role");
        return 0;
}

/*
 * Expired keys are taken nevertheless, and asked for again in a while: the service gives them out
 * when it cannot renew them, and AWS then accepts them for longer ("static stability" in the SDKs).
 */
static int read_instance_keys(const struct instance_source *self, const struct strbuf *answer,
                              struct credentials **ret, struct error *err) {
        static const struct credentials_answer_form form = {
                .what = "the answer of the instance's metadata service",
                .origin = "the instance's role",
                .token = "Token",
                .must_be_session = true,
        };
        json_t *object CREDENTIALS_ANSWER_CLEANUP = NULL;
        int64_t expires_ms, use_until_ms = self->clock->wall_ms(self->clock) + STALE_USE_MS;
        char text[32];

        if (credentials_answer_parse(answer, form.what, &object, err) < 0)
                return -1;
        expires_ms = credentials_answer_time_ms(json_string_value(json_object_get(object, "Expiration")));
        if (expires_ms >= 0 && expires_ms < use_until_ms) {
                clock_format(use_until_ms, text, sizeof(text));
                json_object_set_new(object, "Expiration", json_string(text));
        }
        return credentials_answer_read_keys(object, &form, self->clock, ret, err);
}

static int ask_all(const struct instance_source *self, struct credentials **ret,
                   enum retry_reason *ret_reason, struct error *err) {
        static const struct http_header lifetime = { "x-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS };
        struct strbuf token = STRBUF_SECRET, role STRBUF_CLEANUP = STRBUF_INIT,
                      path STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf answer = STRBUF_SECRET;
        struct http_header header = { "x-aws-ec2-metadata-token", NULL };
        int result = ask_instance(self, "PUT", "/latest/api/token", &lifetime, &token, ret_reason, err);

        header.value = strbuf_text(&token);
        if (result == 0 && (strpbrk(header.value, "\r\n") || !*header.value))
                result = error_set(err, "the instance's metadata service gives no token");
        if (result == 0)
                result = ask_instance(self, "GET", ROLES, &header, &role, ret_reason, err);
        if (result == 0)
                result = check_role_name(&role, err);
        if (result == 0) {
                strbuf_printf(&path, ROLES "%s", strbuf_text(&role));
                result = ask_instance(self, "GET", strbuf_text(&path), &header, &answer, ret_reason, err);
        }
        if (result == 0)
                result = read_instance_keys(self, &answer, ret, err);
        strbuf_release(&token);
        strbuf_release(&answer);
        return result;
}

static int fetch_instance(struct credentials_source *source, struct credentials **ret,
                          enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        struct instance_source *self = (struct instance_source *)source;

        (void)ret_asked_ms;
        if (self->first) {
                *ret = self->first; /* moved */
                self->first = NULL;
                return 0;
        }
        if (ask_all(self, ret, ret_reason, err) < 0)
                return error_context(err, "credentials of the instance");
        return 0;
}

static void release_instance(struct credentials_source *source) {
        struct instance_source *self = (struct instance_source *)source;

        credentials_unref(self->first);
        free(self->url);
        free(self);
}

static const struct credentials_source_ops ops = { fetch_instance, release_instance };

int credentials_instance(const struct credentials_settings *settings, struct credentials_source **ret,
                         struct strbuf *tried, struct error *err) {
        struct instance_source *self;
        enum retry_reason reason;
        struct error problem = { 0 };
        char *url;
        long seconds, attempts;

        if (setting_is_true(getenv("AWS_EC2_METADATA_DISABLED"))) {
                strbuf_append(tried, "the instance's metadata (AWS_EC2_METADATA_DISABLED is set)");
                return 0;
        }
        if (read_count(settings, "AWS_METADATA_SERVICE_TIMEOUT", "metadata_service_timeout", &seconds, err) <
                    0 ||
            read_count(settings, "AWS_METADATA_SERVICE_NUM_ATTEMPTS", "metadata_service_num_attempts",
                       &attempts, err) < 0 ||
            find_url(settings, &url, err) < 0)
                return -1;
        if (!(self = calloc(1, sizeof(*self))))
                abort();
        self->source.ops = &ops;
        self->clock = settings->clock;
        self->http = settings->http;
        self->url = url;
        self->timeout_ms = seconds * 1000;
        self->attempts = attempts;
        if (ask_all(self, &self->first, &reason, &problem) < 0) {
                credentials_source_free(&self->source);
                if (problem.kind == ERROR_INTERRUPTED) {
                        *err = problem;
                        return -1;
                }
                strbuf_printf(tried, "the instance's metadata (%s)", problem.message);
                return 0;
        }
        *ret = &self->source;
        return 1;
}
