/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presigned requests, from here: S3 has to take what they are for, and refuse all else: another key, another tag, more bytes, another
 * signature, and, on AWS, a connection without TLS.
 */
#include "base/json.h"
#include "providers/aws/checklist/checklist_parts.h"
#include "providers/aws/client/aws_presign.h"
#include "providers/aws/workspace/layout.h"

#include <stdio.h>
#include <string.h>

#define SIGNED_SECONDS 300
#define POSTED_MAX 64
#define ANSWER_MAX ((size_t)64 << 10)

const char *checklist_key(const struct checklist *list, size_t who, const char *name) {
        return arena_printf(list->arena, "%s%s",
                            layout_transfer(list->sessions[who], list->n[who] + 1, list->arena), name);
}

int checklist_sign(const struct checklist *list, const char *key, const char **ret, struct error *err) {
        return aws_presign_get(list->client, list->bucket.name, key, SIGNED_SECONDS, list->arena, ret, err);
}

int checklist_put(const struct checklist *list, const char *key, const char *text, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const struct s3_write write = { .key = key,
                                        .body = text,
                                        .length = strlen(text),
                                        .content_type = "text/plain",
                                        .tagging = layout_tag_header("doctor", list->arena) };
        struct aws_request request = s3_write_object(&list->bucket, &write, list->arena);

        return aws_call(list->client, &request, &response, err);
}

static int form_of(const struct checklist *list, const char *prefix, uint64_t bytes_max,
                   struct aws_post_form *ret, struct error *err) {
        const struct aws_post_policy policy = { .bucket = list->bucket.name,
                                                .key = prefix,
                                                .is_prefix = true,
                                                .bytes_max = bytes_max,
                                                .tagging = layout_tag_xml("doctor", list->arena),
                                                .seconds = SIGNED_SECONDS };

        return aws_presign_post(list->client, &policy, list->arena, ret, err);
}

json_t *checklist_policy(const struct checklist *list, size_t who, uint64_t bytes_max, struct error *err) {
        const char *prefix = checklist_key(list, who, "");
        struct aws_post_form form;
        json_t *fields;

        if (form_of(list, prefix, bytes_max, &form, err) < 0)
                return NULL;
        fields = json_checked(json_object());
        for (size_t i = 0; i < form.count; i++)
                json_put(fields, form.fields[i].name, json_string(form.fields[i].value));
        return json_checked(
                json_pack("{s:s, s:s, s:o}", "url", form.url, "prefix", prefix, "fields", fields));
}

/* --- forms --- */

static void append_form_field(struct strbuf *body, const char *boundary, const char *name,
                              const char *value) {
        strbuf_printf(body, "--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n", boundary,
                      name, value);
}

/* A form, with one of its fields otherwise; the status that it got. */
static int post(const struct checklist *list, const struct aws_post_form *form, const char *key,
                const char *changed, const char *value, size_t bytes, int *ret, struct error *err) {
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT, answer STRBUF_CLEANUP = STRBUF_INIT;
        static const char boundary[] = "berth-doctor-6c1f2a0d9be84573";

        for (size_t i = 0; i < form->count; i++) {
                bool other = changed && strcmp(form->fields[i].name, changed) == 0;

                append_form_field(&body, boundary, form->fields[i].name,
                                  other ? value : form->fields[i].value);
        }
        append_form_field(&body, boundary, "key", key);
        strbuf_printf(&body,
                      "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n"
                      "Content-Type: application/octet-stream\r\n\r\n",
                      boundary);
        for (size_t i = 0; i < bytes; i++)
                strbuf_append_char(&body, 'x');
        strbuf_printf(&body, "\r\n--%s--\r\n", boundary);
        return aws_send_presigned(list->client, "POST", form->url,
                                  arena_printf(list->arena, "multipart/form-data; boundary=%s", boundary),
                                  strbuf_text(&body), body.length, ANSWER_MAX, ret, &answer, err);
}

static int try_forms(const struct checklist *list, struct error *err) {
        const char *prefix = checklist_key(list, 0, ""), *key = checklist_key(list, 0, "posted");
        const char *other_tag = layout_tag_xml("another", list->arena);
        const struct {
                const char *what, *key, *field, *value;
                size_t bytes;
                bool good;
        } forms[] = {
                { "what it is for", key, NULL, NULL, POSTED_MAX, true },
                { "another key", checklist_key(list, 1, "posted"), NULL, NULL, 1, false },
                { "another tag", key, "tagging", other_tag, 1, false },
                { "more bytes", key, NULL, NULL, POSTED_MAX + 1, false },
                { "another signature", key, "x-amz-signature",
                  "0000000000000000000000000000000000000000000000000000000000000000", 1, false },
        };
        struct aws_post_form form;

        if (form_of(list, prefix, POSTED_MAX, &form, err) < 0)
                return -1;
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                int status;

                if (post(list, &form, forms[i].key, forms[i].field, forms[i].value, forms[i].bytes, &status,
                         err) < 0)
                        return -1;
                if ((status >= 200 && status < 300) != forms[i].good)
                        return error_set(err,
                                         "S3 answered %d to a presigned POST with %s, which it was to %s",
                                         status, forms[i].what, forms[i].good ? "take" : "refuse");
        }
        return 0;
}

/* A posted object has the tag that lifecycle rules go by. */
static int try_tag(const struct checklist *list, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request =
                s3_get_object_tagging(&list->bucket, checklist_key(list, 0, "posted"), NULL, list->arena);
        const char *value;
        struct value *tags;

        if (aws_call(list->client, &request, &response, err) < 0 ||
            s3_read_tagging(&response, list->arena, &tags, err) < 0)
                return -1;
        value = value_get_text(tags, "berth:environment");
        return value && strcmp(value, "doctor") == 0
                       ? 0
                       : error_set(err, "what a presigned POST has put lacks the tag that it came with");
}

/* A GET of another object with this one's signature. */
static int try_gets(const struct checklist *list, struct error *err) {
        const char *key = checklist_key(list, 0, "posted"), *url, *found;
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT, other STRBUF_CLEANUP = STRBUF_INIT;
        int status;

        if (checklist_sign(list, key, &url, err) < 0 ||
            aws_send_presigned(list->client, "GET", url, NULL, NULL, 0, ANSWER_MAX, &status, &body, err) < 0)
                return -1;
        if (status != 200 || body.length != POSTED_MAX)
                return error_set(err, "S3 answered %d to a presigned GET of what had been put", status);
        found = strstr(url, "/posted?");
        if (!found)
                return error_set(err, "a presigned GET names another object");
        url = arena_printf(list->arena, "%.*s/poster%s", (int)(found - url), url, found + strlen("/posted"));
        if (aws_send_presigned(list->client, "GET", url, NULL, NULL, 0, ANSWER_MAX, &status, &other, err) < 0)
                return -1;
        return status == 403
                       ? 0
                       : error_set(
                                 err,
                                 "S3 answered %d, and not 403, to a GET whose signature is of another object",
                                 status);
}

static void try_plain(struct checklist *list) {
        static const char tls[] = "https://";
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT;
        const char *url;
        struct error err;
        int status;

        if (checklist_sign(list, checklist_key(list, 0, "posted"), &url, &err) < 0) {
                checklist_found(list, "tls", &err, " ");
                return;
        }
        if (strncmp(url, tls, strlen(tls)) != 0 || !strstr(url, ".amazonaws.") ||
            strstr(url, ".amazonaws.") > strchr(url + strlen(tls), '/')) {
                checklist_skipped(list, "tls", "the endpoint of S3 is one of your own");
                return;
        }
        url = arena_printf(list->arena, "http://%s", url + strlen(tls));
        if (aws_send_presigned(list->client, "GET", url, NULL, NULL, 0, ANSWER_MAX, &status, &body, &err) <
            0) {
                checklist_found(list, "tls", &err, " ");
        } else if (status != 403) {
                (void)error_set(
                        &err,
                        "S3 answered %d, and not 403, to a GET without TLS: the bucket's policy lacks BerthTlsOnly",
                        status);
                checklist_found(list, "tls", &err, " ");
        } else {
                checklist_found(list, "tls", NULL, "the bucket refuses what does not come over TLS");
        }
}

void checklist_presigned(struct checklist *list) {
        struct error err;

        if (try_forms(list, &err) < 0 || try_tag(list, &err) < 0 || try_gets(list, &err) < 0) {
                checklist_found(list, "presigned", &err, " ");
                checklist_skipped(list, "tls", "presigned requests do not work");
                return;
        }
        checklist_found(
                list, "presigned", NULL,
                "GET and POST work, and are refused for another key, tag, signature and for more bytes");
        try_plain(list);
}

int checklist_remove_objects(struct checklist *list, struct error *err) {
        const char *prefix = arena_printf(list->arena, "workspaces/sessions/%s", list->objects);
        struct s3_page page = { 0 };

        do {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_response deleted AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request = s3_list_objects(&list->bucket, prefix, page.next);

                if (aws_call(list->cleaner, &request, &response, err) < 0 ||
                    s3_read_objects(&response, list->arena, &page, err) < 0)
                        return -1;
                if (page.count == 0)
                        return 0;
                request = s3_delete_objects(&list->bucket, page.objects, page.count, list->arena);
                if (aws_call(list->cleaner, &request, &deleted, err) < 0 ||
                    s3_read_deleted(&deleted, list->arena, err) < 0)
                        return -1;
        } while (page.next);
        return 0;
}
