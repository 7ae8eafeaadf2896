/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which image an environment runs, by digest, and the warning about images that the store does not have.
 *
 * A missing image is no reason to refuse: the environment is made, and nothing runs in it until its image was imported.
 */
#include "providers/local/images/local_images.h"
#include "providers/local/images/prebuilt.h"
#include "providers/local/provider_local.h"

#include "base/array.h"
#include "base/strbuf.h"
#include "base/text.h"

#include <string.h>

#define SHORT_DIGITS 12 /* of a digest, as docker shows it */
#define DIGEST_DIGITS 64
#define NAMES_MAX 4

/* The digest that this very name was pinned to when it was applied. */
static const char *pinned_digest(const struct value *image, const struct value *recorded) {
        if (text_equal(value_get_text(image, "prebuilt"), value_get_text(recorded, "prebuilt")) &&
            text_equal(value_get_text(image, "repository"), value_get_text(recorded, "repository")) &&
            text_equal(value_get_text(image, "tag"), value_get_text(recorded, "tag")))
                return value_get_text(recorded, "digest");
        return NULL;
}

static bool follows_tag(const struct value *image) {
        const char *follow = value_get_text(image, "follow");

        return follow && strcmp(follow, "tag") == 0;
}

struct value local_desired_image(const struct value *image, const struct value *resolved,
                                 const struct value *recorded, struct arena *arena) {
        struct value full = value_copy(arena, image);
        const char *pinned = pinned_digest(image, recorded), *now = value_get_text(resolved, "digest");

        if (value_get_text(image, "digest"))
                return full;
        value_set_text(arena, &full, "digest", pinned && (!follows_tag(image) || !now) ? pinned : now);
        return full;
}

/* An image that is missing, and the environments that need it. */
struct missing {
        struct local_image_name name;
        const char *pinned; /* the digest that is not there; NULL: nothing of that name ever was */
        const char *environments[NAMES_MAX];
        size_t count;
        struct observation *first; /* of those environments */
};

struct missing_list {
        struct arena *arena;
        struct missing *items;
        size_t count;
};

static void add_missing_image(struct missing_list *list, const struct local_image_name *name,
                              const char *pinned, struct observation *observation) {
        struct missing *item = list->items;

        while (item < list->items + list->count &&
               !(strcmp(item->name.text, name->text) == 0 && text_equal(item->pinned, pinned)))
                item++;
        if (item == list->items + list->count) {
                *item = (struct missing){ .name = *name, .pinned = pinned, .first = observation };
                list->count++;
        }
        if (item->count < NAMES_MAX)
                item->environments[item->count] = observation->name;
        item->count++;
}

/* Where it is a prebuilt image that Berth has no recipe for: the one that may have been meant. */
static const char *missing_nearest(const struct local_image_name *name) {
        const struct prebuilt *known;
        struct error ignored;

        if (!name->prebuilt || prebuilt_find(name->prebuilt, &known, &ignored) == 0)
                return NULL;
        return prebuilt_nearest(name->prebuilt);
}

/* "NAME, pinned to DIGEST," and the environments that need it; of a digest in the name the first `digits` digits. */
static void append_missing(struct strbuf *text, const struct missing *item, int digits, const char *between) {
        const char *digest = strstr(item->name.text, "@sha256:");
        int length = digest ? (int)(digest - item->name.text) + 8 + digits : -1;

        const char *near = missing_nearest(&item->name);

        strbuf_printf(text, "%.*s", length, item->name.text);
        if (near)
                strbuf_printf(text, " (did you mean {prebuilt: %s}?)", near);
        if (item->pinned)
                strbuf_printf(text, ", pinned to %s,", item->pinned);
        strbuf_append(text, between);
        for (size_t i = 0; i < item->count && i < NAMES_MAX; i++)
                strbuf_printf(text, "%s%s", i ? ", " : "", item->environments[i]);
        if (item->count > NAMES_MAX)
                strbuf_printf(text, " and %zu more", item->count - NAMES_MAX);
}

/*
 * One warning for all of them, at the first environment that lacks its image. A stack made for AWS begins with none of its
 * images here: several are a count, and below it the list.
 */
static void warn_of_missing(const struct missing_list *list) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct observation *observation = list->count ? list->items[0].first : NULL;

        if (list->count == 0)
                return;
        if (list->count == 1) {
                append_missing(&text, &list->items[0], DIGEST_DIGITS,
                               " is not in the local image store, so nothing can run in ");
                strbuf_printf(&text, ": %s", local_image_remedy(&list->items[0].name, list->arena));
        } else {
                strbuf_printf(&text, "%zu images are not in the local image store", list->count);
                for (size_t i = 0; i < list->count; i++) {
                        strbuf_append(&text, "\n  ");
                        append_missing(&text, &list->items[i], SHORT_DIGITS, " for ");
                }
                strbuf_append(&text, "\n  (berth image import NAME:TAG PATH, then berth apply)");
        }
        observation->warnings = array_grow(list->arena, observation->warnings, observation->warning_count,
                                           sizeof(*observation->warnings));
        observation->warnings[observation->warning_count++] = arena_strdup(list->arena, strbuf_text(&text));
}

/* What the manifest's name leads to today. Where the digest that shall run is not in the store, the image is missing. */
static void resolve_image(const struct local_images *images, const struct wanted *wanted,
                          struct observation *observation, struct missing_list *list) {
        struct arena *arena = list->arena;
        const struct value *image = value_get(wanted->desired->spec, "image");
        struct local_image_name name = local_image_name(image, arena);
        struct local_image found;
        struct value *resolved = value_new_map(arena), desired;
        const char *digest;

        if (local_image_find(images, name.repository, name.tag, name.digest, arena, &found))
                value_set_text(arena, resolved, "digest", found.digest);
        observation->resolved = resolved;
        desired = local_desired_image(image, resolved, value_get(wanted->recorded, "image"), arena);
        digest = value_get_text(&desired, "digest");
        if (!digest && name.host_without)
                return;
        if (!digest || !local_image_find(images, NULL, NULL, digest, arena, &found))
                add_missing_image(list, &name, name.digest ? NULL : digest, observation);
}

int local_resolve_images(struct provider *provider, const struct observe_args *args,
                         struct observation *observations, struct error *err) {
        const struct value *local = value_get(provider->stack, "local");
        struct missing_list list = { .arena = args->arena,
                                     .items =
                                             arena_array(args->arena, args->count + 1, sizeof(*list.items)) };
        struct local_images images;

        if (local_images_open(local_images_folder(provider->root, local, args->arena), args->arena, &images,
                              err) < 0)
                return -1;
        for (size_t i = 0; i < args->count; i++) {
                if (args->wanted[i].desired)
                        resolve_image(&images, &args->wanted[i], &observations[i], &list);
        }
        warn_of_missing(&list);
        return 0;
}
