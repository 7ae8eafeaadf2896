/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role's keys, by STS:
 *
 *     POST / on the regional STS host, signed with the keys of the source below
 *     Action=AssumeRole&Version=2011-06-15&RoleArn=...&RoleSessionName=...[&ExternalId=...][&DurationSeconds=...]
 *     <- AssumeRoleResponse/AssumeRoleResult/Credentials/{AccessKeyId, SecretAccessKey, SessionToken, Expiration}
 */
#include "providers/aws/client/credentials.h"

#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void make_form(const struct role_source *self, struct strbuf *form) {
        encode_form_add(form, "RoleArn", self->arn);
        encode_form_add(form, "RoleSessionName", self->session_name);
        if (self->external_id)
                encode_form_add(form, "ExternalId", self->external_id);
        if (self->duration_s > 0) {
                char number[32];

                snprintf(number, sizeof(number), "%lld", (long long)self->duration_s);
                encode_form_add(form, "DurationSeconds", number);
        }
}

/* The keys that sign: fetched again only when less than a minute of them is left. */
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

/* AWS called them expired before their time: the next try fetches others. */
static void drop_base(struct role_source *self, enum retry_reason reason) {
        if (reason != RETRY_KEYS)
                return;
        credentials_unref(self->base_keys);
        self->base_keys = NULL;
}

static int fetch_assume_role(struct credentials_source *source, struct credentials **ret,
                             enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        struct role_source *self = (struct role_source *)source;
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf answer = STRBUF_SECRET;
        int result;

        if (need_base(self, ret_reason, ret_asked_ms, err) < 0)
                return -1;
        make_form(self, &form);
        result = self->caller->sts(self->caller, "AssumeRole", self->base_keys, NULL, strbuf_text(&form),
                                   &answer, ret_reason, ret_asked_ms, err);
        if (result == 0) {
                result = credentials_answer_read_sts(&answer, "AssumeRole", self->arn, ret, err);
        } else {
                error_context(err, "cannot assume the role %s", self->arn);
                drop_base(self, *ret_reason);
        }
        strbuf_release(&answer);
        return result;
}

static void release_assume_role(struct credentials_source *source) {
        struct role_source *self = (struct role_source *)source;

        credentials_source_free(self->base);
        credentials_unref(self->base_keys);
        free(self->arn);
        free(self->session_name);
        free(self->external_id);
        free(self);
}

static const struct credentials_source_ops ops = { fetch_assume_role, release_assume_role };

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
        self->arn = setting_copy(role->arn);
        self->session_name = setting_copy(role->session_name ? role->session_name : session_name);
        self->external_id = setting_copy(role->external_id);
        self->duration_s = role->duration_s;
        return &self->source;
}
