/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sources have in common: keys in JSON or in STS's XML, and times of several forms. Nothing of an answer is
 * quoted in messages. JSON and XML are wiped before they are freed, since the keys stand in them.
 */
#include "providers/aws/client/credentials_answer.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "providers/aws/client/xml.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_LIMIT ((size_t)256 * 1024)

/* Two digits, or -1; moves on behind them. */
static int two_digits(const char **at) {
        const char *text = *at;

        if (!isdigit((unsigned char)text[0]) || !isdigit((unsigned char)text[1]))
                return -1;
        *at += 2;
        return (text[0] - '0') * 10 + (text[1] - '0');
}

/* "+01:00", "-0130", "+01" in minutes; false if it is invalid. */
static bool read_offset(const char *text, int *ret_minutes) {
        int sign = *text == '-' ? -1 : 1, hours, minutes = 0;

        if (*text != '+' && *text != '-')
                return false;
        text++;
        hours = two_digits(&text);
        if (*text == ':' && hours >= 0)
                text++;
        if (*text)
                minutes = two_digits(&text);
        if (*text || hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
                return false;
        *ret_minutes = sign * (hours * 60 + minutes);
        return true;
}

int64_t credentials_answer_time_ms(const char *text) {
        struct tm parts = { 0 };
        const char *end = text ? strptime(text, "%Y-%m-%d", &parts) : NULL;
        int offset = 0;

        if (!end || (*end != 'T' && *end != ' ') || !(end = strptime(end + 1, "%H:%M:%S", &parts)))
                return -1;
        if (*end == '.') {
                size_t digits = strspn(end + 1, "0123456789");

                if (digits == 0)
                        return -1;
                end += 1 + digits;
        }
        if (strcmp(end, "Z") != 0 && strcmp(end, "UTC") != 0 && !read_offset(end, &offset))
                return -1; /* without a time zone it is no point in time */
        return ((int64_t)timegm(&parts) - offset * 60) * 1000;
}

static void wipe(const char *text) {
        if (text)
                explicit_bzero((char *)(uintptr_t)text,
                               strlen(text)); /* our arena's or jansson's, so writable */
}

int credentials_answer_read_sts(const struct strbuf *answer, const char *operation, const char *arn,
                                struct credentials **ret, struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf origin STRBUF_CLEANUP = STRBUF_INIT;
        const char *what = arena_printf(arena, "the answer to sts %s", operation);
        const struct xml_node *keys;
        const char *access_key, *secret_key, *token;
        int64_t expires_ms;
        int result = 0;

        if (xml_parse(strbuf_text(answer), answer->length, what, &document, err) < 0)
                return -1;
        keys = xml_child(xml_child(xml_root(document), arena_printf(arena, "%sResult", operation)),
                         "Credentials");
        access_key = xml_text(keys, "AccessKeyId", arena);
        secret_key = xml_text(keys, "SecretAccessKey", arena);
        token = xml_text(keys, "SessionToken", arena);
        expires_ms = credentials_answer_time_ms(xml_text(keys, "Expiration", arena));
        strbuf_printf(&origin, "the role %s", arn);
        if (access_key && secret_key && token && expires_ms > 0)
                result = credentials_new(
                        &(struct credentials_parts){
                                .access_key = access_key,
                                .secret_key = secret_key,
                                .token = token,
                                .expires_ms = expires_ms,
                                .origin = strbuf_text(&origin),
                                .names = { "AccessKeyId", "SecretAccessKey", "SessionToken" } },
                        ret, err);
        else
                result = error_set(err, "%s for %s holds no complete credentials", what, arn);
        wipe(access_key);
        wipe(secret_key);
        wipe(token);
        return result;
}

int credentials_answer_parse(const struct strbuf *text, const char *what, json_t **ret, struct error *err) {
        json_error_t problem;
        json_t *parsed;

        json_secret_begin();
        parsed = json_loadb(strbuf_text(text), text->length, 0, &problem);
        json_secret_end();
        /* The parser's own words quote the text near the mistake: they are left out. */
        if (!parsed)
                return error_set(err, "%s is not JSON (line %d, column %d)", what, problem.line,
                                 problem.column);
        if (!json_is_object(parsed)) {
                credentials_answer_forget(&parsed);
                return error_set(err, "%s is no JSON object", what);
        }
        *ret = parsed;
        return 0;
}

void credentials_answer_forget(json_t **json) {
        json_forget(*json);
}

void credentials_answer_set(json_t *object, const char *name, const char *text) {
        if (text)
                wipe(json_text(object, name));
        json_set_text(object, name, text);
}

static bool is_in_file(const char *path, const char *refresh_token, struct error *err) {
        struct strbuf text = STRBUF_SECRET;
        json_t *now CREDENTIALS_ANSWER_CLEANUP = NULL;
        const char *there;
        int result = file_read(path, FILE_LIMIT, &text, err);

        if (result == 0)
                result = credentials_answer_parse(&text, path, &now, err);
        strbuf_release(&text);
        if (result < 0)
                return false;
        there = json_text(now, "refreshToken");
        if (there && strcmp(there, refresh_token) == 0)
                return true;
        (void)!error_set(err, "%s has another refresh token", path);
        return false;
}

void credentials_answer_keep(const char *path, const char *spent, const json_t *renewed) {
        struct error err = { 0 };
        char *text;

        if (!is_in_file(path, spent, &err)) {
                log_debug("aws: the renewed sign-in is not kept: %s", err.message);
                return;
        }
        text = json_compact(renewed);
        if (file_write_atomic(path, text, strlen(text), 0600, &err) < 0)
                log_debug("aws: the renewed sign-in is not kept: %s", err.message);
        explicit_bzero(text, strlen(text));
        free(text);
}

int credentials_answer_check_expiry(const struct credentials *credentials, const struct clock *clock,
                                    struct error *err) {
        int64_t expires_ms = credentials_expire_ms(credentials);
        char when[32];

        if (expires_ms == 0 || expires_ms > clock->wall_ms(clock))
                return 0;
        clock_format(expires_ms, when, sizeof(when));
        return error_set(err, "the credentials of %s have expired (%s): get new ones",
                         credentials_origin(credentials), when);
}

/* The member's text, NULL where it is absent, null, or not a text; `missing` then names it. */
static const char *member_or_missing(const json_t *object, const char *name, const char **missing) {
        const char *text = json_text(object, name);

        if ((!text || !*text) && !*missing)
                *missing = name;
        return text && *text ? text : NULL;
}

int credentials_answer_read_keys(const json_t *object, const struct credentials_answer_form *form,
                                 const struct clock *clock, struct credentials **ret, struct error *err) {
        const char *missing = NULL, *optional = NULL;
        const char *access_key = member_or_missing(object, "AccessKeyId", &missing);
        const char *secret_key = member_or_missing(object, "SecretAccessKey", &missing);
        const char *token =
                member_or_missing(object, form->token, form->must_be_session ? &missing : &optional);
        const char *expiration =
                member_or_missing(object, "Expiration", form->must_be_session ? &missing : &optional);
        const json_t *given = json_object_get(object, "Expiration");
        int64_t expires_ms = expiration ? credentials_answer_time_ms(expiration) : 0;
        struct credentials *credentials;

        if (missing)
                return error_set(err, "%s has no %s", form->what, missing);
        if (expires_ms < 0 || (given && !expiration && !json_is_null(given)))
                return error_set(err, "%s has an Expiration that is no time like 2026-01-31T12:00:00Z",
                                 form->what);
        if (credentials_new(
                    &(struct credentials_parts){ .access_key = access_key,
                                                 .secret_key = secret_key,
                                                 .token = token,
                                                 .expires_ms = expires_ms,
                                                 .origin = form->origin,
                                                 .names = { "AccessKeyId", "SecretAccessKey", form->token } },
                    &credentials, err) < 0)
                return -1;
        if (credentials_answer_check_expiry(credentials, clock, err) < 0) {
                credentials_unref(credentials);
                return -1;
        }
        *ret = credentials;
        return 0;
}
