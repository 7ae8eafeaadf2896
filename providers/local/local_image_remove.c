/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/local_image_remove.h"

#include "base/array.h"
#include "base/strbuf.h"
#include "providers/image_rules.h"
#include "providers/local/images/image_index.h"
#include "providers/local/images/image_store.h"
#include "providers/local/images/local_catalog.h"
#include "providers/local/images/local_images.h"
#include "providers/local/images/local_reference.h"
#include "providers/local/record.h"

#include <string.h>

/* "sha256:" and as many digits as `berth images` shows. */
#define DIGEST_BEGINNING_MIN 19
#define USERS_SHOWN 4

/* --- which environments run it --- */

/* "Environment/a, Environment/b"; NULL where none runs it. A record that cannot be read is an error: it might name it. */
static int find_users(const char *root, const char *digest, struct arena *arena, const char **ret,
                      struct error *err) {
        struct strbuf users STRBUF_CLEANUP = STRBUF_INIT;
        size_t count, found = 0;
        const char **names;

        if (record_list(root, KIND_ENVIRONMENT, arena, &names, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                struct record_place place = { root, local_stack_of(root), KIND_ENVIRONMENT, names[i] };
                struct local_record record;
                const char *pinned;

                if (record_read(&place, arena, &record, err) < 0)
                        return error_context(err, "cannot tell which images are in use");
                pinned = value_get_text(value_get(record.spec, "image"), "digest");
                if (!pinned || strcmp(pinned, digest) != 0)
                        continue;
                if (found++ < USERS_SHOWN)
                        strbuf_printf(&users, "%sEnvironment/%s", users.length ? ", " : "", names[i]);
        }
        if (found > USERS_SHOWN)
                strbuf_printf(&users, " and %zu more", found - USERS_SHOWN);
        *ret = found ? arena_strdup(arena, strbuf_text(&users)) : NULL;
        return 0;
}

/* --- which image is meant --- */

static int find_by_digest(const struct local_images *images, const char *beginning, struct arena *arena,
                          struct image_removal *ret, struct error *err) {
        const char **digests, *name;
        size_t count, found = 0;

        if (image_index_digests(images->folder, arena, &digests, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strncmp(digests[i], beginning, strlen(beginning)) != 0)
                        continue;
                ret->digest = digests[i];
                found++;
        }
        if (found != 1)
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "the image store %s has %s image with a digest that begins with %s",
                                      images->folder, found ? "more than one" : "no", beginning);
        name = image_index_name_of(images, ret->digest, NULL);
        if (name)
                return error_set(err, "%s is called %s: remove it by its names", beginning, name);
        return 0;
}

static bool is_digest_beginning(const char *text) {
        return strncmp(text, "sha256:", 7) == 0 && strlen(text) >= DIGEST_BEGINNING_MIN &&
               !text[7 + strspn(text + 7, "0123456789abcdef")];
}

/* A name in the index wins, even where it looks like the beginning of a digest. */
static int find_removal(const struct local_images *images, const char *text, struct arena *arena,
                        struct image_removal *ret, struct error *err) {
        struct local_reference reference;
        const char *name;

        if (local_reference_parse(text, arena, &reference, err) < 0)
                return -1;
        if (reference.digest)
                return find_by_digest(images, reference.digest, arena, ret, err);
        name = arena_printf(arena, "%s:%s", reference.repository, reference.tag);
        ret->digest = value_get_text(images->tags, name);
        ret->name = name;
        if (ret->digest && image_rules_is_digest(ret->digest))
                return 0;
        ret->name = NULL;
        if (is_digest_beginning(text))
                return find_by_digest(images, text, arena, ret, err);
        return error_set_kind(err, ERROR_NOT_FOUND,
                              "the image store %s has no image %s: berth images lists those it has",
                              images->folder, name);
}

/* --- removing --- */

static int remove_from_store(const char *store, const struct image_removal *removal, struct arena *arena,
                             const char **ret_other_name, struct error *err) {
        struct image_store opened IMAGE_STORE_CLEANUP = IMAGE_STORE_INIT;

        if (image_store_open(store, &opened, err) < 0)
                return -1;
        return image_store_remove(&opened, removal, arena, ret_other_name, err);
}

int local_image_remove(const char *root, const char *store, const char *reference, struct arena *arena,
                       struct image_row *ret, struct error *err) {
        struct image_removal removal = { 0 };
        struct local_images images;
        struct image_row row;
        const char *other_name;

        if (local_images_open(store, arena, &images, err) < 0 ||
            find_removal(&images, reference, arena, &removal, err) < 0 ||
            find_users(root, removal.digest, arena, &removal.users, err) < 0)
                return -1;
        local_catalog_describe(&images, removal.name, removal.digest, arena, &row);
        if (remove_from_store(store, &removal, arena, &other_name, err) < 0)
                return -1;
        if (other_name)
                row.note = arena_printf(arena, "the image stays: it is also called %s", other_name);
        *ret = row;
        return 0;
}

/* An image that a run uses stays, with a note; any other failure is an error. */
static int prune_one(const char *store, const char *digest, struct arena *arena, struct image_row *row,
                     struct error *err) {
        struct image_removal removal = { .digest = digest };
        struct error failure = { 0 };
        const char *other_name;

        if (remove_from_store(store, &removal, arena, &other_name, &failure) == 0) {
                if (other_name)
                        row->note =
                                arena_printf(arena, "it stays: it has been called %s meanwhile", other_name);
                return 0;
        }
        if (failure.kind == ERROR_REFUSED) {
                row->note = arena_strdup(arena, failure.message);
                return 0;
        }
        *err = failure;
        return -1;
}

int local_image_prune(const char *root, const char *store, bool remove, struct arena *arena,
                      struct image_row **ret, size_t *ret_count, struct error *err) {
        struct local_images images;
        const char **digests, *users;
        struct image_row *rows = NULL;
        size_t count, kept = 0;

        if (local_images_open(store, arena, &images, err) < 0 ||
            image_index_digests(store, arena, &digests, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (image_index_name_of(&images, digests[i], NULL))
                        continue;
                if (find_users(root, digests[i], arena, &users, err) < 0)
                        return -1;
                if (users)
                        continue;
                rows = array_grow(arena, rows, kept, sizeof(*rows));
                local_catalog_describe(&images, NULL, digests[i], arena, &rows[kept]);
                if (remove && prune_one(store, digests[i], arena, &rows[kept], err) < 0)
                        return -1;
                kept++;
        }
        *ret = rows;
        *ret_count = kept;
        return 0;
}
