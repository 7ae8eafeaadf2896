/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signature Version 4 (IAM User Guide, "Create a signed AWS API request"), in its four steps: the canonical request,
 * its hash within the string to sign, a key derived from the secret for one day, region and service, and the
 * signature. Each step's text is kept in the result, for tests that compare them with botocore's.
 *
 * S3 differs in two points: its paths are signed as they are sent, neither cleaned up nor encoded a second time, and
 * the payload's hash goes along as a header.
 */
#include "providers/aws/client/sigv4.h"

#include "providers/aws/client/encode.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* A piece of a borrowed text. */
struct span {
        const char *text;
        size_t length;
};

struct pair {
        struct span key;
        struct span value;
};

void sigv4_result_release(struct sigv4_result *result) {
        strbuf_release(&result->authorization);
        strbuf_release(&result->canonical_request);
        strbuf_release(&result->string_to_sign);
}

void sigv4_date(int64_t wall_ms, char date[SIGV4_DATE_SIZE]) {
        time_t seconds = (time_t)(wall_ms / 1000);
        struct tm parts;

        gmtime_r(&seconds, &parts);
        if (strftime(date, SIGV4_DATE_SIZE, "%Y%m%dT%H%M%SZ", &parts) == 0)
                abort(); /* a year of five digits */
}

static bool is_s3(const struct sigv4_request *request) {
        return strcmp(request->service, "s3") == 0;
}

static void *array_of(size_t count, size_t size) {
        void *memory = calloc(count ? count : 1, size);

        if (!memory)
                abort();
        return memory;
}

static void append_span(struct strbuf *ret, struct span span) {
        strbuf_append_bytes(ret, span.text, span.length);
}

/*
 * RFC 3986's dot segments removed and empty ones too ("a//b" is "a/b"), then the already encoded text encoded again:
 * what all services but S3 do with a path.
 */
static void append_normal_path(struct strbuf *ret, const char *path) {
        size_t length = strlen(path);
        struct span *kept = array_of(length + 1, sizeof(*kept));
        size_t count = 0;

        for (const char *at = path; *at;) {
                struct span part = { at, strcspn(at, "/") };

                if (part.length == 2 && memcmp(at, "..", 2) == 0)
                        count -= count > 0;
                else if (part.length > 0 && !(part.length == 1 && *at == '.'))
                        kept[count++] = part;
                at += part.length;
                at += *at == '/';
        }
        strbuf_append_char(ret, '/');
        for (size_t i = 0; i < count; i++) {
                if (i > 0)
                        strbuf_append_char(ret, '/');
                encode_percent(ret, kept[i].text, kept[i].length, false);
        }
        if (count > 0 && path[length - 1] == '/')
                strbuf_append_char(ret, '/');
        free(kept);
}

static void append_path(struct strbuf *ret, const struct sigv4_request *request) {
        if (!request->path[0])
                strbuf_append_char(ret, '/');
        else if (is_s3(request))
                strbuf_append(ret, request->path);
        else
                append_normal_path(ret, request->path);
}

static int compare_spans(struct span a, struct span b) {
        size_t shorter = a.length < b.length ? a.length : b.length;
        int order = shorter ? memcmp(a.text, b.text, shorter) : 0;

        if (order != 0)
                return order;
        return (a.length > b.length) - (a.length < b.length);
}

static int compare_pairs(const void *left, const void *right) {
        const struct pair *a = left, *b = right;
        int order = compare_spans(a->key, b->key);

        return order ? order : compare_spans(a->value, b->value);
}

/* Sorted by encoded key, then by encoded value; a key alone is "key=". */
static void append_query(struct strbuf *ret, const char *query) {
        struct pair *pairs;
        size_t count = 1, i = 0;

        if (!query[0])
                return;
        for (const char *at = query; *at; at++)
                count += *at == '&';
        pairs = array_of(count, sizeof(*pairs));
        for (const char *at = query; i < count; i++) {
                size_t length = strcspn(at, "&");
                const char *equals = memchr(at, '=', length);
                size_t key_length = equals ? (size_t)(equals - at) : length;

                pairs[i].key = (struct span){ at, key_length };
                pairs[i].value = equals ? (struct span){ equals + 1, length - key_length - 1 }
                                        : (struct span){ "", 0 };
                at += length + 1; /* past the end after the last, where it is not looked at */
        }
        qsort(pairs, count, sizeof(*pairs), compare_pairs);
        for (i = 0; i < count; i++) {
                if (i > 0)
                        strbuf_append_char(ret, '&');
                append_span(ret, pairs[i].key);
                strbuf_append_char(ret, '=');
                append_span(ret, pairs[i].value);
        }
        free(pairs);
}

static void append_lower(struct strbuf *ret, const char *text) {
        for (; *text; text++)
                strbuf_append_char(ret, (char)tolower((unsigned char)*text));
}

/* Surrounding space dropped, inner runs of it made one. */
static void append_trimmed(struct strbuf *ret, const char *value) {
        bool first = true;

        for (;;) {
                size_t length;

                value += strspn(value, " \t\r\n\v\f");
                length = strcspn(value, " \t\r\n\v\f");
                if (length == 0)
                        return;
                if (!first)
                        strbuf_append_char(ret, ' ');
                strbuf_append_bytes(ret, value, length);
                value += length;
                first = false;
        }
}

/* What intermediaries rewrite is left out of the signature, as the SDKs do. */
static bool is_signed(const char *name) {
        static const char *const left_out[] = { "expect",          "transfer-encoding", "user-agent",
                                                "x-amzn-trace-id", "authorization",     "connection" };

        for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
                if (strcasecmp(name, left_out[i]) == 0)
                        return false;
        }
        return true;
}

static int compare_headers(const void *left, const void *right) {
        const struct sigv4_header *const *a = left, *const *b = right;
        int order = strcasecmp((*a)->name, (*b)->name);

        if (order != 0)
                return order;
        return (*a > *b) -
               (*a < *b); /* values of one name stay in the order given: all point into one array */
}

/* The headers block, and their names into `names`: "content-type;host;x-amz-date". */
static void append_headers(struct strbuf *ret, struct strbuf *names, const struct sigv4_header *headers,
                           size_t count) {
        const struct sigv4_header **sorted = array_of(count, sizeof(*sorted));
        size_t kept = 0;

        for (size_t i = 0; i < count; i++) {
                if (is_signed(headers[i].name))
                        sorted[kept++] = &headers[i];
        }
        qsort(sorted, kept, sizeof(*sorted), compare_headers);
        for (size_t i = 0; i < kept; i++) {
                bool repeated = i > 0 && strcasecmp(sorted[i]->name, sorted[i - 1]->name) == 0;

                if (repeated) {
                        strbuf_append_char(ret, ',');
                } else {
                        if (i > 0) {
                                strbuf_append_char(ret, '\n');
                                strbuf_append_char(names, ';');
                        }
                        append_lower(ret, sorted[i]->name);
                        append_lower(names, sorted[i]->name);
                        strbuf_append_char(ret, ':');
                }
                append_trimmed(ret, sorted[i]->value);
        }
        strbuf_append_char(ret, '\n');
        free(sorted);
}

/* The caller's headers and ours. */
static struct sigv4_header *all_headers(const struct sigv4_request *request, const struct sigv4_keys *keys,
                                        const struct sigv4_result *result, size_t *ret_count) {
        struct sigv4_header *all = array_of(request->header_count + 3, sizeof(*all));
        size_t count = request->header_count;

        if (count)
                memcpy(all, request->headers, count * sizeof(*all));
        all[count++] = (struct sigv4_header){ "x-amz-date", result->date };
        if (keys->token)
                all[count++] = (struct sigv4_header){ "x-amz-security-token", keys->token };
        if (is_s3(request))
                all[count++] = (struct sigv4_header){ "x-amz-content-sha256", result->payload_hash };
        *ret_count = count;
        return all;
}

static void make_canonical_request(const struct sigv4_request *request, const struct sigv4_keys *keys,
                                   struct strbuf *names, struct sigv4_result *result) {
        struct strbuf *text = &result->canonical_request;
        size_t count;
        struct sigv4_header *headers = all_headers(request, keys, result, &count);

        strbuf_append(text, request->method);
        strbuf_append_char(text, '\n');
        append_path(text, request);
        strbuf_append_char(text, '\n');
        append_query(text, request->query);
        strbuf_append_char(text, '\n');
        append_headers(text, names, headers, count);
        strbuf_append_char(text, '\n');
        strbuf_append(text, strbuf_text(names));
        strbuf_append_char(text, '\n');
        strbuf_append(text, result->payload_hash);
        free(headers);
}

/* The key that is good for one day, region and service only. */
static void derive_key(const struct sigv4_request *request, const char *secret, const char *date,
                       uint8_t key[SHA256_SIZE]) {
        struct strbuf first = STRBUF_SECRET;

        strbuf_append(&first, "AWS4");
        strbuf_append(&first, secret);
        digest_hmac_sha256(first.data, first.length, date, 8, key);
        strbuf_release(&first);
        digest_hmac_sha256(key, SHA256_SIZE, request->region, strlen(request->region), key);
        digest_hmac_sha256(key, SHA256_SIZE, request->service, strlen(request->service), key);
        digest_hmac_sha256(key, SHA256_SIZE, "aws4_request", strlen("aws4_request"), key);
}

/* HMAC by the key of the day, in hex. */
static void sign_text(const struct sigv4_request *request, const char *secret, const char *date,
                      const void *text, size_t length, char hex[SHA256_HEX_SIZE]) {
        uint8_t key[SHA256_SIZE], signature[SHA256_SIZE];

        derive_key(request, secret, date, key);
        digest_hmac_sha256(key, sizeof(key), text, length, signature);
        explicit_bzero(key, sizeof(key));
        digest_hex(signature, sizeof(signature), hex);
}

static void append_parameter(struct strbuf *query, const char *name, const char *value) {
        if (query->length)
                strbuf_append_char(query, '&');
        strbuf_append(query, name);
        strbuf_append_char(query, '=');
        encode_percent(query, value, strlen(value), false);
}

void sigv4_presign(const struct sigv4_request *request, const struct sigv4_keys *keys, const char *date,
                   int64_t seconds, struct strbuf *ret_query) {
        struct strbuf block STRBUF_CLEANUP = STRBUF_INIT, names STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf scope STRBUF_CLEANUP = STRBUF_INIT, text STRBUF_CLEANUP = STRBUF_SECRET;
        struct strbuf to_sign STRBUF_CLEANUP = STRBUF_INIT, credential STRBUF_CLEANUP = STRBUF_INIT;
        char number[24], hash[SHA256_HEX_SIZE];

        append_headers(&block, &names, request->headers, request->header_count);
        strbuf_printf(&scope, "%.8s/%s/%s/aws4_request", date, request->region, request->service);
        strbuf_printf(&credential, "%s/%s", keys->access_key, strbuf_text(&scope));
        snprintf(number, sizeof(number), "%lld", (long long)seconds);
        strbuf_append(ret_query, request->query);
        append_parameter(ret_query, "X-Amz-Algorithm", "AWS4-HMAC-SHA256");
        append_parameter(ret_query, "X-Amz-Credential", strbuf_text(&credential));
        append_parameter(ret_query, "X-Amz-Date", date);
        append_parameter(ret_query, "X-Amz-Expires", number);
        append_parameter(ret_query, "X-Amz-SignedHeaders", strbuf_text(&names));
        if (keys->token)
                append_parameter(ret_query, "X-Amz-Security-Token", keys->token);

        strbuf_printf(&text, "%s\n", request->method);
        append_path(&text, request);
        strbuf_append_char(&text, '\n');
        append_query(&text, strbuf_text(ret_query));
        strbuf_printf(&text, "\n%s\n%s\nUNSIGNED-PAYLOAD", strbuf_text(&block), strbuf_text(&names));
        digest_sha256_hex(text.data, text.length, hash);
        strbuf_printf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, strbuf_text(&scope), hash);
        sign_text(request, keys->secret_key, date, to_sign.data, to_sign.length, hash);
        append_parameter(ret_query, "X-Amz-Signature", hash);
}

void sigv4_sign_text(const struct sigv4_keys *keys, const char *date, const char *region, const char *service,
                     const char *text, char hex[SHA256_HEX_SIZE]) {
        const struct sigv4_request scope = { .region = region, .service = service };

        sign_text(&scope, keys->secret_key, date, text, strlen(text), hex);
}

void sigv4_sign(const struct sigv4_request *request, const struct sigv4_keys *keys, const char *date,
                struct sigv4_result *ret) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT, scope STRBUF_CLEANUP = STRBUF_INIT;
        char hash[SHA256_HEX_SIZE];

        snprintf(ret->date, sizeof(ret->date), "%s", date);
        if (request->payload_hash)
                snprintf(ret->payload_hash, sizeof(ret->payload_hash), "%s", request->payload_hash);
        else
                digest_sha256_hex(request->body_length ? request->body : "", request->body_length,
                                  ret->payload_hash);
        make_canonical_request(request, keys, &names, ret);

        strbuf_printf(&scope, "%.8s/%s/%s/aws4_request", date, request->region, request->service);
        digest_sha256_hex(ret->canonical_request.data, ret->canonical_request.length, hash);
        strbuf_printf(&ret->string_to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, strbuf_text(&scope), hash);

        sign_text(request, keys->secret_key, date, ret->string_to_sign.data, ret->string_to_sign.length,
                  hash);
        strbuf_printf(&ret->authorization,
                      "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", keys->access_key,
                      strbuf_text(&scope), strbuf_text(&names), hash);
}
