/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents that come from AWS, each by the function that reads it: the first byte says which. Image manifests and
 * configurations, policy documents, lifecycle policies and rules, binding records, lock objects, answers and their headers,
 * times, names of images, URLs, EC2's answers about a network.
 */
#include "cloud.h"

#include "base/json.h"
#include "http/http.h"
#include "providers/aws/binding/binding_record.h"
#include "providers/aws/client/answer.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/endpoint.h"
#include "providers/aws/client/retry.h"
#include "providers/aws/image/image.h"
#include "providers/aws/image/image_catalog.h"
#include "providers/aws/registry/admission.h"
#include "providers/aws/registry/ecr_lifecycle.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/iam.h"
#include "providers/aws/services/s3.h"
#include "providers/aws/shared/lock.h"
#include "providers/aws/shared/lock_holder.h"
#include "providers/aws/shared/policy_document.h"
#include "providers/aws/stack/isolated_network.h"
#include "providers/aws/workspace_policy/workspace_rules.h"

#include <stdlib.h>
#include <string.h>

static const struct provider provider = { .stack_name = "lab",
                                          .prefix = "p",
                                          .region = "us-east-1",
                                          .partition = "aws",
                                          .account = "111111111111" };

static void require(bool condition) {
        if (!condition)
                abort();
}

struct input {
        const char *bytes; /* exactly `length` of them */
        size_t length;
        const char *text; /* the same with a NUL behind them */
        struct arena *arena;
};

static void verdict(const struct ecr_reference *reference, const struct input *input) {
        const struct value *kept = admission_verdict(reference, input->arena);
        struct admission_memory memory = { .arena = input->arena };

        if (reference->problem)
                require(reference->message != NULL);
        admission_remember(&memory, kept);
        if (reference->problem)
                require(admission_remedy(&provider, "team/app", "one", reference->problem, input->arena) !=
                        NULL);
}

static void manifest(const struct input *input) {
        static const char *const types[] = { NULL, "application/vnd.oci.image.manifest.v1+json",
                                             "application/vnd.oci.image.index.v1+json" };

        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
                struct ecr_reference reference = { .repository = "team/app", .tag = "one" };
                json_t *image JSON_CLEANUP =
                        json_pack("{s:{s:s}, s:s, s:s*}", "imageId", "imageDigest", "sha256:ab",
                                  "imageManifest", input->text, "imageManifestMediaType", types[i]);

                if (image) /* not UTF-8, then */
                        admission_judge_manifest(image, &reference, input->arena);
                verdict(&reference, input);
        }
}

static void batch_image(const struct input *input) {
        struct ecr_reference reference = { .repository = "team/app", .tag = "one" };
        json_t *image JSON_CLEANUP = json_loadb(input->bytes, input->length, JSON_DECODE_ANY, NULL);

        admission_judge_manifest(image, &reference, input->arena);
        verdict(&reference, input);
        require(reference.problem || reference.resolved);
}

static void config(const struct input *input) {
        struct ecr_reference reference = { .repository = "team/app", .tag = "one", .resolved = "sha256:ab" };

        admission_judge_config(input->bytes, input->length, &reference, input->arena);
        verdict(&reference, input);
        require(reference.problem || reference.platform);
}

static void policy(const struct input *input) {
        const char *decoded = iam_decode_document(input->text, input->arena);
        json_t *document JSON_CLEANUP = policy_document_parse(decoded);
        json_t *statement JSON_CLEANUP = policy_document_tls_statement("aws", "bucket");
        char *with = policy_document_with(decoded, statement);

        if (document) {
                json_t *normal JSON_CLEANUP = policy_document_normalise(document);
                json_t *again JSON_CLEANUP = policy_document_normalise(normal);

                require(json_equal(normal, again));
        }
        if (with)
                require(policy_document_has(with, statement));
        free(with);
}

static void retain_policy(const struct input *input) {
        struct value *retain = image_policy_read(input->text, input->arena);
        struct ecr_image images[] = { { .digest = "sha256:a", .pushed_ms = 1 },
                                      { .digest = "sha256:b", .pushed_ms = INT64_MAX },
                                      { .digest = "sha256:c", .tag_count = 1, .pushed_ms = 5 },
                                      { .digest = "sha256:d", .tag_count = 1, .pushed_ms = 5 } };

        ecr_lifecycle_evaluate(retain, images, sizeof(images) / sizeof(images[0]), input->arena);
        if (!value_get(retain, "policy")) {
                const char *text = image_policy_text(retain, input->arena);
                struct value *again = image_policy_read(text, input->arena);

                require(value_equal(retain, again, NULL));
        }
}

static void rules(const struct input *input) {
        static const char *const policies[] = { "keep", "some", "" };
        struct xml_document *document XML_CLEANUP = NULL, *written XML_CLEANUP = NULL;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_rules found;
        struct error err;

        if (xml_parse(input->bytes, input->length, "the rules", &document, &err) < 0)
                return;
        found = workspace_rules_index(xml_root(document), input->arena);
        written = xml_new("LifecycleConfiguration", S3_NAMESPACE);
        for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
                struct value *spec = workspace_rules_read(&found, "lab", policies[i], NULL, input->arena);

                require((workspace_rules_present(&found, "lab", policies[i]) > 0) || !spec);
                (void)workspace_rules_read(&found, "lab", policies[i], spec, input->arena);
        }
        for (size_t i = 0; i < found.count; i++)
                xml_add_copy(xml_root(written), found.items[i].node);
        xml_write(written, &text);
        xml_free(document);
        document = NULL;
        if (xml_parse(strbuf_text(&text), text.length, "what was written", &document, &err) < 0)
                abort();
}

static void record(const struct input *input) {
        const struct binding_place places[] = { { KIND_AGENT, "lab", "p", "x" },
                                                { KIND_SWARM, "lab", "p", "s" } };

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                struct value *spec = binding_parse(&places[i], input->bytes, input->length, input->arena);

                require(spec->type == VALUE_MAP);
                (void)binding_text(&places[i], spec, input->arena);
        }
}

static bool never_gone(const char *process) {
        (void)lock_holder_is_gone(process);
        return false;
}

static void lock(const struct input *input) {
        struct lock_viewer viewer = { "lab", "boot/namespace/1", never_gone };

        (void)lock_is_stale(input->bytes, input->length, 1000, &viewer);
}

/* Headers up to an empty line, and the body. */
static void answer(const struct input *input) {
        static const int statuses[] = { 200, 204, 301, 400, 404, 503 };
        const char *empty = memmem(input->bytes, input->length, "\n\n", 2);
        size_t header_length = empty ? (size_t)(empty - input->bytes) + 1 : 0;

        for (size_t i = 0; i < 4 * sizeof(statuses) / sizeof(statuses[0]); i++) {
                struct http_response http HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error err;

                http.status = statuses[i / 4];
                strbuf_append_bytes(&http.headers, input->bytes, header_length);
                strbuf_append_bytes(&http.body, input->bytes + (empty ? header_length + 1 : 0),
                                    input->length - (empty ? header_length + 1 : 0));
                if (answer_read((enum service_protocol)(i % 4), "Operation", &http, &response, &err) < 0)
                        require(err.message[0] != '\0');
                else if (http.status >= 300)
                        require(response.error_code[0] != '\0');
                (void)retry_asked_ms(&http, INT64_C(1769860800000));
                (void)retry_reason_of(HTTP_ANSWERED, http.status, response.error_code);
        }
}

static void words(const struct input *input) {
        struct http_url url = { 0 }, other = { 0 };
        struct ecr_reference reference = { 0 };
        struct ecr_uri uri;
        struct error err;

        (void)credentials_answer_time_ms(input->text);
        (void)http_date_ms(input->text);
        if (ecr_uri_parse(&provider, input->text, input->arena, &uri))
                require(uri.repository != NULL);
        if (image_reference_parse(&provider, input->text, input->arena, &reference, &err) == 0)
                require(ecr_reference_name(&reference, input->arena) != NULL);
        if (http_url_parse(input->text, "it", &url, &err) == 0)
                (void)http_is_loopback(url.host);
        if (http_url_split(input->text, "it", &other, &err) == 0)
                require(other.host[0] != '\0');
        http_url_release(&url);
        http_url_release(&other);
}

/* EC2's answers about a network, each part's reader over the same text, and what a plan would make of them. */
static void network(const struct input *input) {
        struct value *seen = value_new_map(input->arena);

        for (int part = 0; part <= ISOLATED_ZONES; part++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error err;

                strbuf_append_bytes(&response.body, input->bytes, input->length);
                if (isolated_network_take(&provider, (enum isolated_part)part, &response, input->arena, seen,
                                          &err) < 0)
                        require(err.message[0] != '\0');
        }
        require(isolated_network_spec(&provider, seen, NULL, input->arena) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static void (*const readers[])(const struct input *) = { manifest,      batch_image, config, policy,
                                                                 retain_policy, rules,       record, lock,
                                                                 answer,        words,       network };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct parts parts;
        struct input input = { .arena = arena };
        char *bytes;

        if (size < 1)
                return 0;
        /* '0' to '9' and ':' in seeds that people write. */
        parts = parts_of(data + 1, size - 1);
        bytes = parts_next(&parts, &input.length);
        input.bytes = bytes;
        input.text = arena_strndup(arena, input.length ? bytes : "", input.length);
        readers[(size_t)(data[0] + 7) % (sizeof(readers) / sizeof(readers[0]))](&input);
        free(bytes);
        return 0;
}
