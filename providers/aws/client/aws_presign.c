/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GET is signed by its URL: all that a signature's headers say stands in the query, and no body is signed. A form is signed by its policy,
 * base64 of JSON with a condition for each field that the form has; S3 refuses a form with a field that no condition names.
 */
#include "providers/aws/client/aws_presign.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/aws/client/aws_client_state.h"
#include "providers/aws/client/request.h"
#include "providers/aws/client/sigv4.h"

#include <stdlib.h>
#include <string.h>

/* Keys, checked to live as long as what they sign. */
static int take_keys(struct aws_client *client, int64_t seconds, struct credentials **ret,
                     int64_t *ret_now_ms, struct error *err) {
        int64_t now_ms = client->clock->wall_ms(client->clock), asked_ms = 0, end_ms;
        enum retry_reason reason = RETRY_NOT;

        if (seconds < 1 || seconds > PRESIGN_SECONDS_MAX)
                return error_set(err, "a presigned request lives 1 to %d seconds, not %lld",
                                 PRESIGN_SECONDS_MAX, (long long)seconds);
        if (credentials_chain_get_long(client->chain, seconds * 1000, ret, &reason, &asked_ms, err) < 0)
                return error_context(err, "a presigned request");
        end_ms = credentials_expire_ms(*ret);
        if (end_ms != 0 && end_ms < now_ms + seconds * 1000)
                return error_set(
                        err,
                        "the credentials (%s) end in %lld s, and a request that is to live %lld s cannot be signed "
                        "with them",
                        credentials_origin(*ret), (long long)((end_ms - now_ms) / 1000), (long long)seconds);
        /* AWS's clock, where it is known that ours is wrong. */
        *ret_now_ms = aws_client_wall_ms(client);
        return 0;
}

int aws_presign_get(struct aws_client *client, const char *bucket, const char *key, int64_t seconds,
                    struct arena *arena, const char **ret_url, struct error *err) {
        struct credentials *credentials CREDENTIALS_CLEANUP = NULL;
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT;
        struct aws_request request = { .service = AWS_S3,
                                       .operation = "GetObject",
                                       .method = "GET",
                                       .bucket = bucket,
                                       .path = arena_printf(arena, "/%s", key) };
        struct sigv4_keys keys;
        int64_t now_ms;

        if (take_keys(client, seconds, &credentials, &now_ms, err) < 0)
                return -1;
        keys = credentials_keys(credentials);
        request_presign(&request, &client->endpoints[AWS_S3], &keys, now_ms, seconds, &url);
        *ret_url = arena_strdup(arena, strbuf_text(&url));
        return 0;
}

static void add_field(struct aws_post_form *form, json_t *conditions, const char *name, const char *value) {
        if (form->count == AWS_POST_FIELDS_MAX)
                abort();
        form->fields[form->count++] = (struct aws_query){ name, value };
        if (conditions)
                json_add(conditions, json_pack("{s:s}", name, value));
}

/* As AWS writes it: "2026-01-31T12:00:00.000Z". */
static const char *expiration(int64_t wall_ms, struct arena *arena) {
        char date[SIGV4_DATE_SIZE];

        sigv4_date(wall_ms, date);
        return arena_printf(arena, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s.000Z", date, date + 4, date + 6, date + 9,
                            date + 11, date + 13);
}

static const char *base64_of(const char *text, struct arena *arena) {
        size_t length = strlen(text);
        char *encoded = arena_alloc(arena, 4 * ((length + 2) / 3) + 1);

        digest_base64((const uint8_t *)text, length, encoded);
        return encoded;
}

/* The conditions that are no fields: which bucket, which keys, how much. */
static json_t *begin_conditions(const struct aws_post_policy *policy) {
        json_t *conditions = json_array();

        json_add(conditions, json_pack("{s:s}", "bucket", policy->bucket));
        if (policy->is_prefix)
                json_add(conditions, json_pack("[s, s, s]", "starts-with", "$key", policy->key));
        json_add(conditions,
                 json_pack("[s, i, I]", "content-length-range", 0, (json_int_t)policy->bytes_max));
        return conditions;
}

static void add_fields(const struct aws_post_policy *policy, const struct sigv4_keys *keys,
                       const char *region, const char *date, struct arena *arena, json_t *conditions,
                       struct aws_post_form *form) {
        if (!policy->is_prefix)
                add_field(form, conditions, "key", policy->key);
        if (policy->tagging)
                add_field(form, conditions, "tagging", policy->tagging);
        for (const struct aws_query *field = policy->more; field && field->name; field++)
                add_field(form, conditions, field->name, field->value);
        add_field(form, conditions, "x-amz-algorithm", "AWS4-HMAC-SHA256");
        add_field(form, conditions, "x-amz-credential",
                  arena_printf(arena, "%s/%.8s/%s/s3/aws4_request", keys->access_key, date, region));
        add_field(form, conditions, "x-amz-date", arena_strdup(arena, date));
        if (keys->token)
                add_field(form, conditions, "x-amz-security-token", arena_strdup(arena, keys->token));
}

static int check_policy(const struct aws_post_policy *policy, struct error *err) {
        size_t length = strlen(policy->key), more = 0;

        for (const struct aws_query *field = policy->more; field && field->name; field++)
                more++;
        if (length == 0 || (policy->is_prefix && policy->key[length - 1] != '/'))
                return error_set(
                        err, "a form's keys begin with a folder, which ends with a slash, not with \"%s\"",
                        policy->key);
        if (more > AWS_POST_FIELDS_MAX / 2)
                return error_set(err, "a form takes %d other fields at the most", AWS_POST_FIELDS_MAX / 2);
        if (policy->bytes_max > INT64_MAX)
                return error_set(err, "a form takes no file of more than %lld bytes", (long long)INT64_MAX);
        return 0;
}

int aws_presign_post(struct aws_client *client, const struct aws_post_policy *policy, struct arena *arena,
                     struct aws_post_form *ret, struct error *err) {
        const struct endpoint *endpoint = &client->endpoints[AWS_S3];
        struct aws_request request = {
                .service = AWS_S3, .method = "POST", .bucket = policy->bucket, .path = "/"
        };
        struct credentials *credentials CREDENTIALS_CLEANUP = NULL;
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT;
        struct aws_post_form form = { 0 };
        json_t *conditions, *document JSON_CLEANUP = NULL;
        char *text TEXT_CLEANUP = NULL;
        char date[SIGV4_DATE_SIZE], signature[SHA256_HEX_SIZE];
        struct sigv4_keys keys;
        const char *encoded;
        int64_t now_ms;

        if (check_policy(policy, err) < 0 ||
            take_keys(client, policy->seconds, &credentials, &now_ms, err) < 0)
                return -1;
        keys = credentials_keys(credentials);
        sigv4_date(now_ms, date);
        conditions = begin_conditions(policy);
        add_fields(policy, &keys, endpoint->signing_region, date, arena, conditions, &form);
        document = json_checked(json_pack("{s:s, s:o}", "expiration",
                                          expiration(now_ms + policy->seconds * 1000, arena), "conditions",
                                          conditions));
        text = json_plain(document);
        encoded = base64_of(text, arena);
        sigv4_sign_text(&keys, date, endpoint->signing_region, "s3", encoded, signature);
        add_field(&form, NULL, "policy", encoded);
        add_field(&form, NULL, "x-amz-signature", arena_strdup(arena, signature));
        request_url(&request, endpoint, &url);
        form.url = arena_strdup(arena, strbuf_text(&url));
        *ret = form;
        return 0;
}
