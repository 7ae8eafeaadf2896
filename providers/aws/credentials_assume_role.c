/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role's keys, by STS:
 *
 *     POST / on the regional STS host, signed with the keys of the source below
 *     Action=AssumeRole&Version=2011-06-15&RoleArn=...&RoleSessionName=...[&ExternalId=...][&DurationSeconds=...]
 *     <- AssumeRoleResponse/AssumeRoleResult/Credentials/{AccessKeyId, SecretAccessKey, SessionToken, Expiration}
 */
#include "providers/aws/credentials.h"

#include "base/arena.h"
#include "providers/aws/client.h"
#include "providers/aws/xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct role_source {
        struct credentials_source source;
        const struct clock *clock;
        struct credentials_caller *caller;
        struct credentials_source *base;
        struct credentials
                *base_keys; /* kept while they last: roles behind one another need not all be renewed */
        char *arn;
        char *session_name;
        char *external_id;
        int64_t duration_s;
};

/* "2026-01-31T12:00:00Z" (or with fractions) to ms; -1 where it is none. */
static int64_t time_of(const char *text) {
        struct tm parts = { 0 };
        const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;

        if (!end || (*end != 'Z' && *end != '.'))
                return -1;
        return (int64_t)timegm(&parts) * 1000;
}

static void wipe(const char *text) {
        if (text)
                explicit_bzero((char *)(uintptr_t)text, strlen(text)); /* our arena's, so writable */
}

static int read_answer(const struct role_source *self, const struct strbuf *answer, struct credentials **ret,
                       struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf origin STRBUF_CLEANUP = STRBUF_INIT;
        const struct xml_node *keys;
        const char *access_key, *secret_key, *token;
        int64_t expires_ms;
        int result = 0;

        if (xml_parse(strbuf_text(answer), answer->length, "the answer to sts AssumeRole", &document, err) <
            0)
                return -1;
        keys = xml_child(xml_child(xml_root(document), "AssumeRoleResult"), "Credentials");
        access_key = xml_text(keys, "AccessKeyId", arena);
        secret_key = xml_text(keys, "SecretAccessKey", arena);
        token = xml_text(keys, "SessionToken", arena);
        expires_ms = time_of(xml_text(keys, "Expiration", arena));
        strbuf_printf(&origin, "the role %s", self->arn);
        if (access_key && secret_key && token && expires_ms > 0)
                *ret = credentials_new(access_key, secret_key, token, expires_ms, strbuf_text(&origin));
        else
                result = error_set(err, "the answer to sts AssumeRole for %s holds no complete credentials",
                                   self->arn);
        wipe(access_key);
        wipe(secret_key);
        wipe(token);
        return result;
}

static void make_form(const struct role_source *self, struct strbuf *form) {
        aws_form_add(form, "RoleArn", self->arn);
        aws_form_add(form, "RoleSessionName", self->session_name);
        if (self->external_id)
                aws_form_add(form, "ExternalId", self->external_id);
        if (self->duration_s > 0) {
                char number[32];

                snprintf(number, sizeof(number), "%lld", (long long)self->duration_s);
                aws_form_add(form, "DurationSeconds", number);
        }
}

/* The keys below, fetched again only when they run out within the minute. */
static int need_base(struct role_source *self, enum retry_reason *ret_reason, int64_t *ret_asked_ms,
                     struct error *err) {
        int64_t expires_ms = self->base_keys ? credentials_expire_ms(self->base_keys) : 0;

        if (self->base_keys &&
            (expires_ms == 0 || expires_ms - self->clock->wall_ms(self->clock) > 60 * 1000))
                return 0;
        credentials_unref(self->base_keys);
        self->base_keys = NULL;
        return self->base->ops->fetch(self->base, &self->base_keys, ret_reason, ret_asked_ms, err);
}

static int fetch(struct credentials_source *source, struct credentials **ret, enum retry_reason *ret_reason,
                 int64_t *ret_asked_ms, struct error *err) {
        struct role_source *self = (struct role_source *)source;
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf answer = STRBUF_INIT;
        int result;

        if (need_base(self, ret_reason, ret_asked_ms, err) < 0)
                return -1;
        make_form(self, &form);
        result = self->caller->assume_role(self->caller, self->base_keys, strbuf_text(&form), &answer,
                                           ret_reason, ret_asked_ms, err);
        if (result == 0)
                result = read_answer(self, &answer, ret, err);
        else
                error_context(err, "cannot assume the role %s", self->arn);
        strbuf_wipe(&answer);
        return result;
}

static void release(struct credentials_source *source) {
        struct role_source *self = (struct role_source *)source;

        credentials_source_free(self->base);
        credentials_unref(self->base_keys);
        free(self->arn);
        free(self->session_name);
        free(self->external_id);
        free(self);
}

static const struct credentials_source_ops ops = { fetch, release };

static char *copy(const char *text) {
        char *result = strdup(text);

        if (!result)
                abort();
        return result;
}

struct credentials_source *credentials_assume_role(const struct credentials_settings *settings,
                                                   const struct role *role, struct credentials_source *base) {
        struct role_source *self = calloc(1, sizeof(*self));
        char session_name[64];

        if (!self)
                abort();
        snprintf(session_name, sizeof(session_name), "berth-%ld", (long)getpid());
        self->source.ops = &ops;
        self->clock = settings->clock;
        self->caller = settings->caller;
        self->base = base;
        self->arn = copy(role->arn);
        self->session_name = copy(role->session_name ? role->session_name : session_name);
        self->external_id = role->external_id ? copy(role->external_id) : NULL;
        self->duration_s = role->duration_s;
        return &self->source;
}
