/* SPDX-License-Identifier: Apache-2.0 */
/* Tags to digests, by as few calls as can be, with a verdict on what stands behind each. */
#include "base/json.h"
#include "providers/aws/ecr.h"

#include <stdlib.h>
#include <string.h>

#define IDS_PER_CALL 100

static const char oci_manifest[] = "application/vnd.oci.image.manifest.v1+json";
static const char docker_manifest[] = "application/vnd.docker.distribution.manifest.v2+json";
static const char oci_index[] = "application/vnd.oci.image.index.v1+json";
static const char docker_list[] = "application/vnd.docker.distribution.manifest.list.v2+json";
static const char docker_v1[] = "application/vnd.docker.distribution.manifest.v1+prettyjws";

static const char *reference_name(const struct ecr_reference *reference, struct arena *arena) {
        if (reference->digest)
                return arena_printf(arena, "%s@%s", reference->repository, reference->digest);
        return arena_printf(arena, "%s:%s", reference->repository, reference->tag);
}

static void set_problem(struct ecr_reference *reference, const char *problem, const char *message) {
        reference->problem = problem;
        reference->message = message;
}

/* "linux/amd64, linux/arm64" of an index; buildx's attestations call themselves unknown/unknown. */
static const char *index_platforms(const json_t *manifest, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(manifest, "manifests"), i, item) {
                const json_t *platform = json_object_get(item, "platform");
                const char *system = json_text(platform, "os"),
                           *architecture = json_text(platform, "architecture");

                if (i == 8) {
                        strbuf_append(&text, " and more");
                        break;
                }
                if (system && strcmp(system, "unknown") == 0)
                        strbuf_printf(&text, "%san attestation", i ? ", " : "");
                else
                        strbuf_printf(&text, "%s%s/%s", i ? ", " : "", system ? system : "?",
                                      architecture ? architecture : "?");
        }
        return text.length ? arena_strdup(arena, strbuf_text(&text)) : "nothing";
}

void ecr_judge_manifest(const json_t *image, struct ecr_reference *reference, struct arena *arena) {
        const char *text = json_text(image, "imageManifest"),
                   *type = json_text(image, "imageManifestMediaType");
        const char *digest = json_text(json_object_get(image, "imageId"), "imageDigest");
        const char *name = reference_name(reference, arena);
        json_t *manifest JSON_CLEANUP = text ? json_loads(text, 0, NULL) : NULL;

        /* Older answers leave the type to the manifest; an OCI one may leave it out altogether. */
        if (!type || !*type)
                type = json_text(manifest, "mediaType");
        if (!type && json_object_get(manifest, "manifests"))
                type = oci_index;
        if (!type)
                type = json_object_get(manifest, "config") ? oci_manifest : "unknown";
        if (!digest) {
                set_problem(reference, "missing", arena_printf(arena, "ECR gives no digest for %s", name));
        } else if (strcmp(type, oci_index) == 0 || strcmp(type, docker_list) == 0) {
                set_problem(reference, "index",
                            arena_printf(arena,
                                         "%s is an index of several images (%s; %s), and Lambda takes only "
                                         "a single one",
                                         name, index_platforms(manifest, arena), type));
        } else if (strcmp(type, oci_manifest) == 0 || strcmp(type, docker_manifest) == 0) {
                reference->resolved = arena_strdup(arena, digest);
        } else {
                set_problem(reference, "media-type",
                            arena_printf(arena, "%s has the media type %s, and Lambda takes only %s and %s",
                                         name, type, docker_manifest, oci_manifest));
        }
}

static void judge_failure(const json_t *failure, struct ecr_reference *reference, struct arena *arena) {
        const char *code = json_text(failure, "failureCode"), *reason = json_text(failure, "failureReason");
        const char *name = reference_name(reference, arena);

        if (code && strcmp(code, "ImageNotFound") == 0)
                set_problem(reference, "missing", arena_printf(arena, "%s does not exist", name));
        else
                set_problem(reference, "missing",
                            arena_printf(arena, "%s cannot be read: %s%s%s", name,
                                         code ? code : "unknown failure", reason ? ": " : "",
                                         reason ? reason : ""));
}

static bool is_same_name(const struct ecr_reference *a, const struct ecr_reference *b) {
        if (a->digest || b->digest)
                return a->digest && b->digest && strcmp(a->digest, b->digest) == 0;
        return strcmp(a->tag, b->tag) == 0;
}

static bool id_matches(const json_t *id, const struct ecr_reference *reference) {
        const char *name = json_text(id, reference->digest ? "imageDigest" : "imageTag");

        return name && strcmp(name, reference->digest ? reference->digest : reference->tag) == 0;
}

static void take_answer(const json_t *answer, struct ecr_reference *reference, struct arena *arena) {
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(answer, "images"), i, item) {
                if (id_matches(json_object_get(item, "imageId"), reference)) {
                        ecr_judge_manifest(item, reference, arena);
                        return;
                }
        }
        json_array_foreach (json_object_get(answer, "failures"), i, item) {
                if (id_matches(json_object_get(item, "imageId"), reference)) {
                        judge_failure(item, reference, arena);
                        return;
                }
        }
        judge_failure(NULL, reference, arena);
}

/* One call for the `count` names, all of one repository, each once. */
static int resolve_some(struct provider *provider, struct ecr_reference **names, size_t count,
                        struct arena *arena, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const char *repository = names[0]->repository;
        struct aws_request request;
        struct error failure;
        json_t *ids = json_array();

        for (size_t i = 0; i < count; i++) {
                const struct ecr_reference *name = names[i];

                json_array_append_new(ids, name->digest ? json_pack("{s:s}", "imageDigest", name->digest)
                                                        : json_pack("{s:s}", "imageTag", name->tag));
        }
        request = aws_json_request(AWS_ECR, "BatchGetImage",
                                   json_pack("{s:s, s:o, s:[s,s,s,s,s]}", "repositoryName", repository,
                                             "imageIds", ids, "acceptedMediaTypes", oci_manifest,
                                             docker_manifest, oci_index, docker_list, docker_v1),
                                   arena);
        if (aws_call(provider->client, &request, &response, &failure) == 0) {
                for (size_t i = 0; i < count; i++)
                        take_answer(response.json, names[i], arena);
                return 0;
        }
        for (size_t i = 0; i < count; i++) {
                if (aws_failed_with(&response, "RepositoryNotFoundException")) {
                        set_problem(names[i], "repository",
                                    arena_printf(arena, "the repository %s does not exist in %s", repository,
                                                 ecr_registry(provider, arena)));
                } else if (aws_code_is_denied(response.error_code)) {
                        set_problem(names[i], "denied", arena_strdup(arena, failure.message));
                } else {
                        *err = failure;
                        return -1;
                }
        }
        return 0;
}

static int by_name(const void *a, const void *b) {
        const struct ecr_reference *left = *(struct ecr_reference *const *)a;
        const struct ecr_reference *right = *(struct ecr_reference *const *)b;
        int order = strcmp(left->repository, right->repository);

        if (order != 0)
                return order;
        if (!left->digest != !right->digest)
                return left->digest ? 1 : -1;
        return left->digest ? strcmp(left->digest, right->digest) : strcmp(left->tag, right->tag);
}

/* The end of what one call takes from `start` on: each name once, one repository, at most a hundred. */
static size_t gather(struct ecr_reference **sorted, size_t start, size_t count, struct ecr_reference **names,
                     size_t *ret_count) {
        size_t end = start;

        *ret_count = 0;
        for (; end < count && strcmp(sorted[end]->repository, sorted[start]->repository) == 0; end++) {
                if (*ret_count > 0 && is_same_name(names[*ret_count - 1], sorted[end]))
                        continue;
                if (*ret_count == IDS_PER_CALL)
                        break;
                names[(*ret_count)++] = sorted[end];
        }
        return end;
}

static void share_results(struct ecr_reference **sorted, size_t start, size_t end) {
        for (size_t i = start + 1; i < end; i++) {
                if (!is_same_name(sorted[i - 1], sorted[i]))
                        continue;
                sorted[i]->resolved = sorted[i - 1]->resolved;
                sorted[i]->problem = sorted[i - 1]->problem;
                sorted[i]->message = sorted[i - 1]->message;
        }
}

int ecr_resolve(struct provider *provider, struct ecr_reference *references, size_t count,
                struct arena *arena, struct error *err) {
        struct ecr_reference **sorted = arena_array(arena, count + 1, sizeof(*sorted)), *names[IDS_PER_CALL];

        for (size_t i = 0; i < count; i++)
                sorted[i] = &references[i];
        qsort(sorted, count, sizeof(struct ecr_reference *), by_name);
        for (size_t start = 0, end; start < count; start = end) {
                size_t name_count;

                end = gather(sorted, start, count, names, &name_count);
                if (resolve_some(provider, names, name_count, arena, err) < 0)
                        return -1;
                share_results(sorted, start, end);
        }
        return 0;
}
