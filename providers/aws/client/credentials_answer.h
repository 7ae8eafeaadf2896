/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as the different sources hand them out: XML of STS, JSON of processes, containers, instances and SSO. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_CREDENTIALS_ANSWER_H
#define BERTH_PROVIDERS_AWS_CLIENT_CREDENTIALS_ANSWER_H

#include "base/error.h"
#include "base/strbuf.h"
#include "providers/aws/client/credentials.h"

#include <jansson.h>
#include <stdint.h>

/*
 * Milliseconds since 1970 of "2026-01-31T12:00:00Z", with fractions or an offset ("+01:00") too; -1
 * if it is invalid.
 */
int64_t credentials_answer_time_ms(const char *text);

/* The answer of `operation` (AssumeRole, AssumeRoleWithWebIdentity) for the role `arn`. */
int credentials_answer_read_sts(const struct strbuf *answer, const char *operation, const char *arn,
                                struct credentials **ret, struct error *err) MUST_USE;

/*
 * An object, parsed from bytes that may hold keys: messages show none of them. `what` names it in errors. To be given
 * to credentials_answer_forget(), which overwrites its texts.
 */
int credentials_answer_parse(const struct strbuf *text, const char *what, json_t **ret,
                             struct error *err) MUST_USE;
void credentials_answer_forget(json_t **json); /* *json may be NULL */
#define CREDENTIALS_ANSWER_CLEANUP __attribute__((cleanup(credentials_answer_forget)))
/* Sets a text member, and overwrites the text that it had. NULL: nothing changes. */
void credentials_answer_set(json_t *object, const char *name, const char *text);
/*
 * Writes a renewed sign-in over its file, mode 0600, unless the file's refreshToken is not `spent` any more: the person has signed out
 * meanwhile, signed in again, or another process has renewed it. Nothing of it is an error: this run has the new keys.
 */
void credentials_answer_keep(const char *path, const char *spent, const json_t *renewed);

struct credentials_answer_form {
        const char *what;     /* "the output of credential_process" */
        const char *origin;   /* for credentials_new() */
        const char *token;    /* the member that holds the session's token */
        bool must_be_session; /* token and Expiration have to be there */
};
/*
 * AccessKeyId, SecretAccessKey, the token, Expiration; refused where a member is missing, of another type, or where the
 * keys have expired already.
 */
int credentials_answer_read_keys(const json_t *object, const struct credentials_answer_form *form,
                                 const struct clock *clock, struct credentials **ret,
                                 struct error *err) MUST_USE;

/* -1 where the keys have expired. */
int credentials_answer_check_expiry(const struct credentials *credentials, const struct clock *clock,
                                    struct error *err) MUST_USE;

#endif
