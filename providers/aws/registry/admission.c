/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest, which ecr_resolve() has read, names a configuration, and that one says the
 * platform. ECR gives a presigned URL for it. Its bytes are believed only if their SHA-256 is what
 * the manifest says, so that a server at that URL can withhold a verdict and never forge one. A
 * fault of the digest itself is a verdict, kept forever; what kept us from reading it is a problem
 * of this run, and the next one asks again. A host that cannot be reached is waited for once: the
 * same bucket of AWS's holds the configurations of all images.
 */
#include "providers/aws/registry/admission.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/ecr.h"
#include "providers/image_rules.h"

#include <inttypes.h>
#include <string.h>

/* Configurations are a few KB; one with a long history has some hundred. */
#define CONFIG_MAX ((size_t)4 * 1024 * 1024)

/* What the rules found wrong with the digest itself, as a problem of the reference. */
static void keep_problem(struct ecr_reference *reference, const struct image_verdict *verdict,
                         struct arena *arena) {
        if (verdict->problem)
                ecr_reference_refuse(reference, verdict->problem, verdict->seen, arena);
}

void admission_judge_manifest(const json_t *image, struct ecr_reference *reference, struct arena *arena) {
        const char *text = json_text(image, "imageManifest"),
                   *type = json_text(image, "imageManifestMediaType");
        const char *digest = json_text(json_object_get(image, "imageId"), "imageDigest");
        json_t *manifest JSON_CLEANUP = text ? json_loads(text, 0, NULL) : NULL;
        struct image_verdict verdict = { 0 };

        /* A function would be pinned to it, and its verdict kept forever. */
        if (!digest || !image_rules_is_digest(digest)) {
                reference->problem = "unread";
                reference->message = arena_printf(arena, "%s cannot be read: ECR gives no digest for it",
                                                  ecr_reference_name(reference, arena));
                return;
        }
        reference->resolved = arena_strdup(arena, digest);
        image_rules_judge_manifest(manifest, type, &verdict, arena);
        reference->media_type = verdict.media_type;
        reference->config = verdict.config;
        reference->size = verdict.size;
        keep_problem(reference, &verdict, arena);
}

void admission_judge_config(const char *bytes, size_t length, struct ecr_reference *reference,
                            struct arena *arena) {
        struct image_verdict verdict = { 0 };

        image_rules_judge_config(bytes, length, &verdict, arena);
        reference->platform = verdict.platform;
        reference->runtime = verdict.runtime;
        keep_problem(reference, &verdict, arena);
}

/* A plan meets a few hundred digests at the most, many of them again and again: a list is enough. */
static const struct value *find_verdict(const struct admission_memory *memory, const char *digest) {
        for (size_t i = 0; i < memory->count; i++) {
                if (strcmp(value_get_text(memory->verdicts[i], "digest"), digest) == 0)
                        return memory->verdicts[i];
        }
        return NULL;
}

void admission_remember(struct admission_memory *memory, const struct value *verdict) {
        const char *digest = value_get_text(verdict, "digest");

        if (!digest || find_verdict(memory, digest))
                return;
        memory->verdicts =
                array_grow(memory->arena, memory->verdicts, memory->count, sizeof(*memory->verdicts));
        memory->verdicts[memory->count++] = verdict;
}

/*
 * Only facts about the digest itself are forever: a platform, or a problem that says what was seen.
 */
const struct value *admission_verdict(const struct ecr_reference *reference, struct arena *arena) {
        struct value *verdict;

        if (!reference->resolved || (reference->problem ? !reference->seen : !reference->platform))
                return NULL;
        verdict = value_new_map(arena);
        value_set_text(arena, verdict, "digest", reference->resolved);
        value_set_text(arena, verdict, "platform", reference->platform);
        value_set_text(arena, verdict, "runtime", reference->runtime);
        value_set_text(arena, verdict, "problem", reference->problem);
        value_set_text(arena, verdict, "seen", reference->problem ? reference->seen : NULL);
        return verdict;
}

static void apply_verdict(struct ecr_reference *reference, const struct value *verdict, struct arena *arena) {
        const char *problem = value_get_text(verdict, "problem"), *seen = value_get_text(verdict, "seen");

        reference->platform = value_get_text(verdict, "platform");
        reference->runtime = value_get_text(verdict, "runtime");
        if (problem && seen)
                ecr_reference_refuse(reference, problem, seen, arena);
}

/* Not of the digest, and so no verdict: the next run asks again. */
static void cannot_read(struct ecr_reference *reference, const char *problem, const char *why,
                        struct arena *arena) {
        reference->problem = problem;
        reference->message = arena_printf(arena, "the platform of %s cannot be read: %s",
                                          ecr_reference_name(reference, arena), why);
}

/* A digest of another algorithm cannot be checked. */
static bool bytes_are(const struct strbuf *bytes, const char *digest) {
        char hex[SHA256_HEX_SIZE];

        digest_sha256_hex(strbuf_text(bytes), bytes->length, hex);
        return strncmp(digest, "sha256:", 7) == 0 && strcmp(digest + 7, hex) == 0;
}

/*
 * Reads the configuration behind the manifest: one call for its address, one GET there. A failure
 * on the way belongs to the reference, so that one unreadable image does not hide what is wrong
 * with the others. Fails only where the user wants to stop.
 */
static int judge_by_config(struct provider *provider, struct ecr_reference *reference,
                           struct admission_memory *memory, struct arena *arena, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct aws_request request;
        struct error failure;
        const char *url;

        if (!reference->config) {
                cannot_read(reference, "unread", "its manifest names no configuration", arena);
                return 0;
        }
        if (memory->unreachable) {
                reference->unverified = memory->unreachable;
                return 0;
        }
        request = ecr_download_url(reference->repository, reference->config, arena);
        if (aws_call(provider->client, &request, &response, &failure) < 0) {
                bool denied = aws_code_is_denied(response.error_code);

                if (failure.kind == ERROR_INTERRUPTED) {
                        *err = failure;
                        return -1;
                }
                cannot_read(reference, denied ? "denied" : "unread", failure.message, arena);
                return 0;
        }
        url = json_text(response.json, "downloadUrl");
        if (!url) {
                cannot_read(reference, "unread", "ECR gives no address for its configuration", arena);
        } else if (aws_fetch_presigned(provider->client, url, CONFIG_MAX, &bytes, &failure) < 0) {
                if (failure.kind == ERROR_INTERRUPTED) {
                        *err = failure;
                        return -1;
                }
                if (failure.kind == ERROR_UNREACHABLE)
                        reference->unverified = memory->unreachable = arena_strdup(arena, failure.message);
                else
                        cannot_read(reference, "unread", failure.message, arena);
        } else if (!bytes_are(&bytes, reference->config)) {
                cannot_read(reference, "unread", "its configuration is not what its digest says", arena);
        } else {
                admission_judge_config(strbuf_text(&bytes), bytes.length, reference, arena);
        }
        return 0;
}

/* Whether judge_by_config() would make its call. */
static bool needs_config(const struct ecr_reference *reference, const struct admission_memory *memory) {
        return !reference->watched && !reference->unverified && reference->resolved && !reference->problem &&
               !find_verdict(memory, reference->resolved);
}

/* For the images after the first whose configuration has come: if that host cannot be reached, no call was wasted on them. */
static void ask_for_urls_ahead(struct provider *provider, const struct ecr_reference *references,
                               size_t count, const struct admission_memory *memory, struct arena *arena) {
        for (size_t i = 0; i < count; i++) {
                struct aws_request request;

                if (!needs_config(&references[i], memory) || !references[i].config)
                        continue;
                request = ecr_download_url(references[i].repository, references[i].config, arena);
                aws_ahead(provider->client, &request);
        }
}

int admission_check(struct provider *provider, struct ecr_reference *references, size_t count,
                    struct admission_memory *memory, struct arena *arena, struct error *err) {
        bool asked = false;

        for (size_t i = 0; i < count; i++) {
                struct ecr_reference *reference = &references[i];
                const struct value *known;

                if (reference->watched || reference->unverified || !reference->resolved)
                        continue;
                known = find_verdict(memory, reference->resolved);
                if (known) {
                        /* What this run's manifest has already shown stays. */
                        if (!reference->problem)
                                apply_verdict(reference, known, arena);
                        continue;
                }
                if (!reference->problem && judge_by_config(provider, reference, memory, arena, err) < 0)
                        return -1;
                admission_remember(memory, admission_verdict(reference, arena));
                if (!asked && reference->platform) {
                        ask_for_urls_ahead(provider, reference + 1, count - i - 1, memory, arena);
                        asked = true;
                }
        }
        return 0;
}

const char *admission_build_command(const struct provider *provider, const char *repository, const char *tag,
                                    struct arena *arena) {
        return arena_printf(arena,
                            "docker buildx build --platform linux/amd64 --provenance=false --sbom=false "
                            "--push -t %s/%s:%s .",
                            ecr_registry_of(provider, repository, arena), ecr_name_in_registry(repository),
                            tag);
}

const char *admission_remedy(const struct provider *provider, const char *repository, const char *tag,
                             const char *problem, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *other = ecr_other_account(repository, arena);

        /* Where reading failed, another build would not help. */
        if (texts_same(problem, "registry"))
                return arena_printf(arena, "name a registry of %s; ECR can replicate the repository there",
                                    provider->region);
        if (texts_same(problem, "denied") && other)
                return arena_printf(
                        arena,
                        "let these credentials call ecr:BatchGetImage and ecr:GetDownloadUrlForLayer on the "
                        "repository, and let account %s give it the policy that this prints: berth image "
                        "instructions %s",
                        other, repository);
        if (texts_same(problem, "denied"))
                return "let these credentials call ecr:BatchGetImage and ecr:GetDownloadUrlForLayer on the "
                       "repository";
        if (texts_same(problem, "unread"))
                return "plan again once that works; if you know that the image runs: --allow image-unusable";
        if (!tag)
                strbuf_append(&text,
                              "name a digest that the repository holds (berth images lists them), or a tag; "
                              "to build and push one:\n");
        else if (texts_same(problem, "size"))
                strbuf_append(&text, "make it smaller, build and push it:\n");
        else
                strbuf_append(&text, "build and push it:\n");
        if (other)
                strbuf_printf(&text, "  # with credentials of account %s\n", other);
        if (texts_same(problem, "repository"))
                strbuf_printf(&text, "  aws ecr create-repository --region %s --repository-name %s\n",
                              provider->region, ecr_name_in_registry(repository));
        strbuf_printf(
                &text,
                "  aws ecr get-login-password --region %s | docker login --username AWS --password-stdin %s\n",
                provider->region, ecr_registry_of(provider, repository, arena));
        strbuf_printf(&text, "  %s", admission_build_command(provider, repository, tag ? tag : "TAG", arena));
        return arena_strdup(arena, strbuf_text(&text));
}
