/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"
#include "schema/loading.h"

#include <stdlib.h>
#include <string.h>

static const struct field retain_fields[] = {
        {
                .name = "untaggedDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = 36500,
                .doc = "Images that no tag points to are deleted this many days after they were pushed.",
        },
        {
                .name = "lastTagged",
                .type = FIELD_INTEGER,
                .unit = "images",
                .minimum = 1,
                .maximum = 100000,
                .doc = "Only this many tagged images are kept, the newest.",
        },
        { 0 },
};

static const char *const retain_names[] = { "untaggedDays", "lastTagged", NULL };
static const struct field_group retain_groups[] = { { retain_names, false }, { 0 } };

static const char *const version_names[] = { "tag", "digest", NULL };
static const struct field_group image_groups[] = { { version_names, true }, { 0 } };

static const struct field mutable_tag_field = {
        .name = "tags",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 128,
        .pattern = "[A-Za-z0-9._*-]+",
        .pattern_message = "an image tag, in which * stands for any characters",
        .doc = "A tag, or with * a pattern of tags.",
};

static const struct field image_fields[] = {
        {
                .name = "registry",
                .type = FIELD_TEXT,
                .pattern = REGISTRY_PATTERN,
                .pattern_message = REGISTRY_PATTERN_MESSAGE,
                .doc = "In AWS, another account's registry of ECR, in the stack's own region. Its repository is that account's: "
                       "createRepository and settings cannot stand beside it. Absent: the stack's own account and region.",
        },
        {
                .name = "repository",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 2,
                .maximum = 256,
                .pattern = REPOSITORY_PATTERN,
                .pattern_message = REPOSITORY_PATTERN_MESSAGE,
                .doc = "The repository's name, without registry and tag.",
        },
        {
                .name = "tag",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 128,
                .pattern = TAG_PATTERN,
                .pattern_message = TAG_PATTERN_MESSAGE,
                .doc = "The tag of the image that environments get. It is resolved to a digest; an environment stays "
                       "with the digest of its first apply.",
        },
        {
                .name = "digest",
                .type = FIELD_TEXT,
                .pattern = DIGEST_PATTERN,
                .pattern_message = DIGEST_PATTERN_MESSAGE,
                .doc = "The image that environments get, by digest: exactly these bytes.",
        },
        {
                .name = "createRepository",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether Berth makes the repository where it does not exist, and deletes it with this resource "
                       "if it is empty. With false only the settings given here are Berth's.",
        },
        {
                .name = "scanOnPush",
                .type = FIELD_BOOLEAN,
                .doc = "Whether the registry scans each pushed image. Absent: left as it is.",
        },
        {
                .name = "immutableTags",
                .type = FIELD_BOOLEAN,
                .doc = "Whether a tag, once pushed, cannot be moved. Absent: left as it is.",
        },
        {
                .name = "mutableTags",
                .type = FIELD_LIST,
                .item = &mutable_tag_field,
                .minimum = 1,
                .maximum = 5,
                .needs = "immutableTags",
                .doc = "The tags that can be moved nevertheless, such as latest or dev-*. With immutableTags: true only. Absent: "
                       "exceptions that this manifest did not set are left as they are.",
        },
        {
                .name = "retain",
                .type = FIELD_OBJECT,
                .fields = retain_fields,
                .groups = retain_groups,
                .doc = "The repository's lifecycle policy. A policy that would delete an image which an environment "
                       "runs is refused (image-in-use).",
        },
        { 0 },
};

static void check_image(struct loading *loading, const struct draft *draft) {
        static const char *const settings[] = { "createRepository", "scanOnPush", "immutableTags",
                                                "mutableTags", "retain" };
        const struct value *spec = draft->resource.spec;
        const struct value *mutable_tags = typed_member(spec, "mutableTags", VALUE_LIST);

        check_repository(loading, spec);
        check_names_once(loading, mutable_tags);
        if (mutable_tags && typed_member(spec, "immutableTags", VALUE_BOOLEAN) &&
            !value_get_boolean(spec, "immutableTags", false))
                problem_error(loading, place_of(mutable_tags),
                              "set immutableTags: true, or leave mutableTags out",
                              "mutableTags are exceptions to immutableTags, which is false");
        for (size_t i = 0; value_get(spec, "registry") && i < sizeof(settings) / sizeof(settings[0]); i++) {
                const struct value *setting = value_get(spec, settings[i]);

                /* createRepository: false is the default, and stands there unwritten. */
                if (setting && !(setting->type == VALUE_BOOLEAN && !setting->boolean && i == 0))
                        problem_error(loading, place_of(setting), "set it where the repository is made",
                                      "%s cannot be set in another registry: Berth only reads there",
                                      settings[i]);
        }
}

static int compare_repositories(const void *a, const void *b) {
        const struct draft *const *left = a, *const *right = b;
        int order = strcmp(value_get_text((*left)->resource.spec, "repository"),
                           value_get_text((*right)->resource.spec, "repository"));

        if (order != 0)
                return order;
        return *left < *right ? -1 : *left > *right;
}

/* `first` is the first Image of this repository that says anything about the setting. */
static void check_setting(struct loading *loading, const struct draft *first, const struct draft *other,
                          const char *name) {
        const struct value *a = value_get(first->resource.spec, name),
                           *b = value_get(other->resource.spec, name);

        if (!a || !b || a->type == VALUE_NULL || b->type == VALUE_NULL || value_equal(a, b, NULL))
                return;
        loading->address = other->resource.address;
        problem_error(loading, place_of(b), "set it in one of them",
                      "%s of this repository differs from what %s says (%s)", name, first->resource.address,
                      problem_place_text(loading, place_of(a)));
}

/* Images may share a repository, but then must agree about its settings. They are sorted by repository to find those that do. */
static void resolve_images(struct loading *loading) {
        static const char *const settings[] = { "scanOnPush", "immutableTags", "mutableTags", "retain" };
        struct drafts images = drafts_of(loading, KIND_IMAGE);
        const struct draft **sorted = calloc(images.count + 1, sizeof(const struct draft *));
        size_t count = 0;

        if (!sorted)
                abort();
        for (size_t i = 0; i < images.count; i++) {
                if (value_get_text(images.items[i].resource.spec, "repository"))
                        sorted[count++] = &images.items[i];
        }
        for (size_t i = 0; i < images.count; i++) {
                loading->address = images.items[i].resource.address;
                check_registry(loading, images.items[i].resource.spec);
        }
        qsort(sorted, count, sizeof(const struct draft *), compare_repositories);
        for (size_t i = 1, first = 0; i < count; i++) {
                if (strcmp(value_get_text(sorted[first]->resource.spec, "repository"),
                           value_get_text(sorted[i]->resource.spec, "repository")) != 0) {
                        first = i;
                        continue;
                }
                for (size_t s = 0; s < sizeof(settings) / sizeof(settings[0]); s++) {
                        for (size_t j = first; j < i; j++) {
                                if (value_get(sorted[j]->resource.spec, settings[s])) {
                                        check_setting(loading, sorted[j], sorted[i], settings[s]);
                                        break;
                                }
                        }
                }
        }
        free(sorted);
}

static void summarise_image(const struct value *spec, const struct value *wish, struct strbuf *out) {
        const char *repository = value_get_text(spec, "repository");

        (void)wish;
        strbuf_append(out, repository ? repository : "");
}

const struct kind image_kind = {
        .id = KIND_IMAGE,
        .name = "Image",
        .doc = "A container image that environments name, and the settings of its repository.",
        .fields = image_fields,
        .groups = image_groups,
        .schema_rules =
                "{\"properties\": {\"repository\": {\"not\": {\"pattern\": \"\\\\.(amazonaws|dkr\\\\.ecr)\\\\.\"}}, "
                "\"mutableTags\": {\"uniqueItems\": true}}, "
                "\"if\": {\"required\": [\"mutableTags\"]}, "
                "\"then\": {\"properties\": {\"immutableTags\": {\"const\": true}}}}",
        .managed = true,
        .named_by_spec = true,
        .lane = 1,
        .check = check_image,
        .resolve = resolve_images,
        .summarise = summarise_image,
};
