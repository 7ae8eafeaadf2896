/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a kind's request to the bytes that are sent, in the order of dependence: host and path (the
 * bucket may be in either), query, body, headers; then the signature over all of them. Pure, so
 * that every request can be compared with botocore's, byte by byte.
 */
#include "providers/aws/client/request.h"

#include "providers/aws/client/encode.h"
#include "providers/aws/client/service_facts.h"

#include <stdlib.h>
#include <string.h>

void signed_request_release(struct signed_request *request) {
        strbuf_release(&request->url);
        strbuf_release(&request->host);
        strbuf_release(&request->form);
        strbuf_release(&request->checksum);
        sigv4_result_release(&request->signature);
}

static bool in_host(const struct aws_request *request, const struct endpoint *endpoint) {
        return request->bucket && !endpoint->path_style && endpoint_bucket_fits_host(request->bucket);
}

/* "/prefix", the bucket where it is no part of the host, and the path. */
static void make_path(const struct aws_request *request, const struct endpoint *endpoint,
                      struct strbuf *path) {
        enum service_protocol protocol = service_facts(request->service)->protocol;
        const char *own = request->path ? request->path : "/";

        strbuf_append(path, endpoint->prefix);
        if (protocol == PROTOCOL_REST_XML) {
                if (request->bucket && !in_host(request, endpoint)) {
                        strbuf_append_char(path, '/');
                        encode_percent(path, request->bucket, strlen(request->bucket), false);
                        if (strcmp(own, "/") == 0)
                                return;
                }
                encode_percent(path, own, strlen(own), true);
        } else if (protocol == PROTOCOL_REST_JSON) {
                strbuf_append(path, own);
        } else {
                strbuf_append_char(path, '/');
        }
}

static void make_query(const struct aws_request *request, struct strbuf *query) {
        for (size_t i = 0; i < AWS_QUERY_MAX && request->query[i].name; i++) {
                const struct aws_query *part = &request->query[i];

                if (i > 0)
                        strbuf_append_char(query, '&');
                encode_percent(query, part->name, strlen(part->name), false);
                if (!part->value)
                        continue;
                strbuf_append_char(query, '=');
                encode_percent(query, part->value, strlen(part->value), false);
        }
}

static void make_body(const struct aws_request *request, struct signed_request *ret) {
        const struct service *facts = service_facts(request->service);

        ret->body = request->body;
        ret->body_length = request->body ? request->body_length : 0;
        if (facts->protocol == PROTOCOL_JSON && !request->body) {
                ret->body = "{}";
                ret->body_length = 2;
        } else if (facts->protocol == PROTOCOL_QUERY) {
                strbuf_printf(&ret->form, "Action=%s&Version=%s", request->operation, facts->version);
                if (request->body && request->body_length && request->body[0] != '&')
                        strbuf_append_char(&ret->form, '&');
                if (request->body)
                        strbuf_append_bytes(&ret->form, request->body, request->body_length);
                ret->body = ret->form.data;
                ret->body_length = ret->form.length;
        }
}

static const char *content_type(const struct aws_request *request) {
        if (request->content_type)
                return request->content_type;
        switch (service_facts(request->service)->protocol) {
        case PROTOCOL_REST_JSON:
                return "application/json";
        case PROTOCOL_JSON:
                return service_facts(request->service)->content_type
                               ? service_facts(request->service)->content_type
                               : "application/x-amz-json-1.1";
        case PROTOCOL_QUERY:
                return "application/x-www-form-urlencoded; charset=utf-8";
        case PROTOCOL_REST_XML:
                break;
        }
        /* The bucket's own documents are XML; what an object is, its writer says. */
        return !request->path || strcmp(request->path, "/") == 0 ? "application/xml"
                                                                 : "application/octet-stream";
}

static void add_signed_header(struct signed_request *ret, const char *name, const char *value) {
        if (ret->header_count == REQUEST_HEADERS_MAX)
                abort();
        ret->headers[ret->header_count++] = (struct http_header){ name, value };
}

/* "ECR_V2.Operation" lives in `form`, which the JSON protocol has no other use for. */
static void add_target_header(const struct aws_request *request, struct signed_request *ret) {
        const struct service *facts = service_facts(request->service);

        if (facts->protocol != PROTOCOL_JSON)
                return;
        strbuf_printf(&ret->form, "%s.%s", facts->target, request->operation);
        add_signed_header(ret, "x-amz-target", strbuf_text(&ret->form));
}

/* http_send() refuses those that would hold a line break. */
static void add_callers_headers(const struct aws_request *request, struct signed_request *ret) {
        for (size_t i = 0; i < AWS_HEADERS_MAX && request->headers[i].name; i++) {
                const struct aws_query *header = &request->headers[i];

                add_signed_header(ret, header->name, header->value ? header->value : "");
        }
}

static void from_hex(const char *hex, uint8_t digest[SHA256_SIZE]) {
        for (size_t i = 0; i < SHA256_SIZE; i++)
                digest[i] = (uint8_t)(digest_from_hex(hex[2 * i]) << 4 | digest_from_hex(hex[2 * i + 1]));
}

/* S3 takes this in place of Content-MD5 ("Checking object integrity"), and MD5 is not to be had everywhere. */
static void add_checksum(const struct aws_request *request, struct signed_request *ret) {
        uint8_t digest[SHA256_SIZE];
        char text[4 * ((SHA256_SIZE + 2) / 3) + 1];

        if (!request->checksum)
                return;
        if (request->file)
                from_hex(request->file->sha256, digest);
        else
                digest_sha256(ret->body_length ? ret->body : "", ret->body_length, digest);
        digest_base64(digest, sizeof(digest), text);
        strbuf_append(&ret->checksum, text);
        add_signed_header(ret, "x-amz-checksum-sha256", strbuf_text(&ret->checksum));
}

static void add_signature(struct signed_request *ret, const struct sigv4_keys *keys, bool s3) {
        add_signed_header(ret, "x-amz-date", ret->signature.date);
        if (keys->token)
                add_signed_header(ret, "x-amz-security-token", keys->token);
        if (s3)
                add_signed_header(ret, "x-amz-content-sha256", ret->signature.payload_hash);
        add_signed_header(ret, "authorization", strbuf_text(&ret->signature.authorization));
}

static void make_host(const struct aws_request *request, const struct endpoint *endpoint,
                      struct strbuf *host) {
        if (in_host(request, endpoint))
                strbuf_printf(host, "%s.", request->bucket);
        if (request->account && !endpoint->path_style)
                strbuf_printf(host, "%s.", request->account);
        strbuf_append(host, endpoint->host);
}

static void append_url(struct strbuf *url, const struct endpoint *endpoint, const struct strbuf *host,
                       const struct strbuf *path, const struct strbuf *query) {
        strbuf_printf(url, "%s://%s%s%s%s", endpoint->scheme, strbuf_text(host), strbuf_text(path),
                      query->length ? "?" : "", strbuf_text(query));
}

void request_url(const struct aws_request *request, const struct endpoint *endpoint, struct strbuf *ret) {
        struct strbuf host STRBUF_CLEANUP = STRBUF_INIT, path STRBUF_CLEANUP = STRBUF_INIT,
                           query STRBUF_CLEANUP = STRBUF_INIT;

        make_host(request, endpoint, &host);
        make_path(request, endpoint, &path);
        make_query(request, &query);
        append_url(ret, endpoint, &host, &path, &query);
}

void request_presign(const struct aws_request *request, const struct endpoint *endpoint,
                     const struct sigv4_keys *keys, int64_t wall_ms, int64_t seconds, struct strbuf *ret) {
        struct strbuf host STRBUF_CLEANUP = STRBUF_INIT, path STRBUF_CLEANUP = STRBUF_INIT,
                           query STRBUF_CLEANUP = STRBUF_INIT, whole STRBUF_CLEANUP = STRBUF_INIT;
        struct sigv4_header header = { .name = "host" };
        char date[SIGV4_DATE_SIZE];

        make_host(request, endpoint, &host);
        make_path(request, endpoint, &path);
        make_query(request, &query);
        header.value = strbuf_text(&host);
        sigv4_date(wall_ms, date);
        sigv4_presign(&(struct sigv4_request){ .method = request->method,
                                               .path = strbuf_text(&path),
                                               .query = strbuf_text(&query),
                                               .headers = &header,
                                               .header_count = 1,
                                               .service = service_facts(request->service)->signing_name,
                                               .region = endpoint->signing_region },
                      keys, date, seconds, &whole);
        append_url(ret, endpoint, &host, &path, &whole);
}

void request_sign(const struct aws_request *request, const struct endpoint *endpoint,
                  const struct sigv4_keys *keys, int64_t wall_ms, struct signed_request *ret) {
        const struct service *facts = service_facts(request->service);
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT, query STRBUF_CLEANUP = STRBUF_INIT;
        struct sigv4_header to_sign[REQUEST_HEADERS_MAX];
        char date[SIGV4_DATE_SIZE];

        ret->method = facts->protocol == PROTOCOL_JSON || facts->protocol == PROTOCOL_QUERY ? "POST"
                                                                                            : request->method;
        make_host(request, endpoint, &ret->host);
        make_path(request, endpoint, &path);
        make_query(request, &query);
        append_url(&ret->url, endpoint, &ret->host, &path, &query);
        make_body(request, ret);

        add_signed_header(ret, "host", strbuf_text(&ret->host));
        if (ret->body || request->file)
                add_signed_header(ret, "content-type", content_type(request));
        add_target_header(request, ret);
        add_checksum(request, ret);
        add_callers_headers(request, ret);
        if (!keys)
                return;
        for (size_t i = 0; i < ret->header_count; i++)
                to_sign[i] = (struct sigv4_header){ ret->headers[i].name, ret->headers[i].value };

        sigv4_date(wall_ms, date);
        sigv4_sign(
                &(struct sigv4_request){
                        .method = ret->method,
                        .path = strbuf_text(&path),
                        .query = strbuf_text(&query),
                        .headers = to_sign,
                        .header_count = ret->header_count,
                        .body = ret->body,
                        .body_length = ret->body_length,
                        .payload_hash = request->file ? request->file->sha256 : NULL,
                        .service = facts->signing_name,
                        .region = endpoint->signing_region,
                },
                keys, date, &ret->signature);
        add_signature(ret, keys, facts->protocol == PROTOCOL_REST_XML);
}
