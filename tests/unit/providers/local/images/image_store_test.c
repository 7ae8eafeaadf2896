/* SPDX-License-Identifier: Apache-2.0 */
/* The store and its index. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/json.h"
#include "providers/local/images/image_index.h"
#include "providers/local/images/image_store.h"
#include "providers/local/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>

static const char *digest_of(struct place *place, const char *text) {
        char hex[SHA256_HEX_SIZE];

        digest_sha256_hex(text, strlen(text), hex);
        return arena_printf(place->arena, "sha256:%s", hex);
}

static int memory_with(const char *text) {
        int file = memfd_create("blob", MFD_CLOEXEC);

        assert_int_equal(write(file, text, strlen(text)), strlen(text));
        assert_int_equal(lseek(file, 0, SEEK_SET), 0);
        return file;
}

static size_t count(struct place *place, const char *name) {
        DIR *folder = opendir(place_path(place, name));
        size_t found = 0;

        while (folder && readdir(folder))
                found++;
        if (folder)
                closedir(folder);
        return found ? found - 2 : 0;
}

static struct image_store open_store(struct place *place) {
        struct image_store store = IMAGE_STORE_INIT;
        struct error err = { 0 };

        if (image_store_open(place_path(place, "store"), &store, &err) < 0)
                fail_msg("%s", err.message);
        return store;
}

static void stage(struct image_store *store, struct place *place, const char *text) {
        int from = memory_with(text);
        struct error err = { 0 };

        if (image_store_stage(store, from, digest_of(place, text), strlen(text), &err) < 0)
                fail_msg("%s", err.message);
        close(from);
}

/* An image of one layer, as import brings it; its digest. */
static const char *bring(struct place *place, const char *name, const char *layer, const char *config) {
        const char *manifest = arena_printf(
                place->arena, "{\"config\": {\"digest\": \"%s\"}, \"layers\": [{\"digest\": \"%s\"}]}",
                digest_of(place, config), digest_of(place, layer));
        struct image_store store IMAGE_STORE_CLEANUP = open_store(place);
        struct error err = { 0 };

        stage(&store, place, layer);
        stage(&store, place, config);
        assert_int_equal(
                image_store_stage_bytes(&store, manifest, strlen(manifest), digest_of(place, manifest), &err),
                0);
        if (image_store_commit(&store, name, digest_of(place, manifest), true, place->arena, &err) < 0)
                fail_msg("%s", err.message);
        return digest_of(place, manifest);
}

static void test_blobs_are_what_they_say(void **state) {
        struct place *place = *state;
        struct image_store store IMAGE_STORE_CLEANUP = open_store(place);
        static const struct {
                const char *text, *claimed;
                uint64_t size;
                const char *problem;
        } rows[] = {
                { "abc", "abc", 3, NULL },
                { "abc", "abc", 3, NULL }, /* twice is once */
                { "xyz", "other", 3, "do not match its digest" },
                { "xyz1", "xyz1", 3, "declared size of 3 bytes" },
                { "xyz1", "xyz1", 5, "cut short" },
                { "", "", 0, NULL },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *digest = digest_of(place, rows[i].claimed);
                int from = memory_with(rows[i].text), blob;
                struct error err = { 0 };
                int result = image_store_stage(&store, from, digest, rows[i].size, &err);

                assert_int_equal(result, rows[i].problem ? -1 : 0);
                if (rows[i].problem)
                        assert_non_null(strstr(err.message, rows[i].problem));
                blob = image_store_blob(&store, digest);
                assert_int_equal(blob >= 0, !rows[i].problem);
                if (blob >= 0)
                        close(blob);
                close(from);
        }
        assert_int_equal(count(place, "store/blobs/sha256"), 0);
}

static void test_images_come_and_go(void **state) {
        struct place *place = *state;
        const char *one = bring(place, "a/b:1", "layer", "{}"),
                   *two = bring(place, "a/b:2", "layer", "{\"x\": 1}");
        struct local_images images;
        struct local_image found;
        struct error err = { 0 };

        assert_int_equal(count(place, "store/blobs/sha256"), 5);
        assert_int_equal(count(place, "store/work"), 0);
        assert_int_equal(local_images_open(place_path(place, "store"), place->arena, &images, &err), 0);
        assert_true(local_image_find(&images, "a/b", "1", NULL, place->arena, &found));
        assert_string_equal(found.digest, one);
        folder_remove(found.root);
        bring(place, "a/b:3", "layer", "{\"x\": 1}");
        assert_int_equal(local_images_open(place_path(place, "store"), place->arena, &images, &err), 0);
        assert_false(local_image_find(&images, "a/b", "1", NULL, place->arena, &found));
        assert_null(value_get_text(images.tags, "a/b:1"));
        assert_string_equal(value_get_text(images.tags, "a/b:2"), two);
        assert_string_equal(value_get_text(images.tags, "a/b:3"), two);
        assert_int_equal(count(place, "store/blobs/sha256"), 3);
}

/* What an image needs cannot be told where its manifest is missing: then nothing is let go of. */
static void test_nothing_is_let_go_of_in_doubt(void **state) {
        struct place *place = *state;
        const char *one = bring(place, "a/b:1", "layer", "{}");

        assert_int_equal(
                unlink(place_path(place, arena_printf(place->arena, "store/blobs/sha256/%s", one + 7))), 0);
        place_write(place,
                    "store/blobs/sha256/"
                    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                    "nobody's");
        bring(place, "a/b:2", "other layer", "{}");
        assert_int_equal(count(place, "store/blobs/sha256"), 2 + 1 + 2);
}

/* A death leaves a work folder that no process holds; a living one is held. */
static void test_work_of_the_dead(void **state) {
        struct place *place = *state;
        struct image_store living IMAGE_STORE_CLEANUP = open_store(place);

        place_write(place, "store/work/import-dead/root/usr/file", "x");
        place_write(place, "store/work/strange", "x");
        {
                struct image_store other IMAGE_STORE_CLEANUP = open_store(place);

                assert_int_equal(count(place, "store/work"), 2);
                assert_string_not_equal(living.work_name, other.work_name);
        }
        assert_int_equal(count(place, "store/work"), 1);
}

static void test_an_image_brought_twice_at_once(void **state) {
        struct place *place = *state;
        struct image_store slow IMAGE_STORE_CLEANUP = open_store(place);
        const char *digest, *kept;
        struct stat status;
        struct error err = { 0 };

        stage(&slow, place, "layer");
        digest = bring(place, "a/b:1", "layer", "{}");
        kept = place_write(place, arena_printf(place->arena, "store/roots/sha256/%s/kept", digest + 7), "x");
        assert_true(image_store_has(&slow, digest));
        assert_int_equal(image_store_commit(&slow, "a/b:2", digest, true, place->arena, &err), 0);
        assert_int_equal(stat(kept, &status), 0);
}

static void test_variables(void **state) {
        static const struct {
                const char *config;
                size_t count;
        } rows[] = {
                { "{\"config\": {\"Env\": [\"A=1\", \"B=\", \"nothing\", 5, \"C=x=y\"]}}", 3 },
                { "{\"config\": {\"Env\": null}}", 0 },
                { "{}", 0 },
                { "not JSON", 0 },
        };
        struct place *place = *state;
        const char *folder = place_path(place, "store");

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *digest = bring(place, "a/b:1", "layer", rows[i].config);
                const char *const *texts;
                struct error err = { 0 };
                size_t found;

                assert_int_equal(image_index_variables(folder, digest, place->arena, &texts, &found, &err),
                                 0);
                assert_int_equal(found, rows[i].count);
                if (found)
                        assert_string_equal(texts[2], "C=x=y");
        }
}

static int let_go(struct place *place, const char *name, const char *digest, const char *users,
                  const char **ret_other_name, struct error *err) {
        struct image_store store IMAGE_STORE_CLEANUP = open_store(place);
        struct image_removal removal = { name, digest, users };

        return image_store_remove(&store, &removal, place->arena, ret_other_name, err);
}

static void test_removing(void **state) {
        struct place *place = *state;
        const char *digest = bring(place, "a/b:1", "layer", "{}"), *other;
        struct error err = { 0 };

        assert_string_equal(bring(place, "a/b:2", "layer", "{}"), digest);
        bring(place, "a/b:3", "layer", "{\"x\": 1}");
        assert_int_equal(let_go(place, "a/b:3", digest, NULL, &other, &err), -1);
        assert_non_null(strstr(err.message, "leads to another image now"));
        assert_int_equal(let_go(place, "a/b:1", digest, "Environment/x", &other, &err), 0);
        assert_string_equal(other, "a/b:2");
        assert_int_equal(count(place, "store/roots/sha256"), 2);
        assert_int_equal(let_go(place, "a/b:2", digest, "Environment/x", &other, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_non_null(strstr(err.message, "Environment/x"));
        assert_int_equal(let_go(place, "a/b:2", digest, NULL, &other, &err), 0);
        assert_null(other);
        assert_int_equal(count(place, "store/roots/sha256"), 1);
        assert_int_equal(count(place, "store/blobs/sha256"), 3); /* the layer is of the other one as well */
        assert_int_equal(count(place, "store/work"), 0);
}

static void test_what_a_run_holds_stays(void **state) {
        struct place *place = *state;
        const char *digest = bring(place, "a/b:1", "layer", "{}"), *other;
        const char *root = place_path(place, arena_printf(place->arena, "store/roots/sha256/%s", digest + 7));
        struct error err = { 0 };
        int held = local_image_hold(root, &err), too = local_image_hold(root, &err);

        assert_true(held >= 0 && too >= 0);
        close(too);
        assert_int_equal(let_go(place, "a/b:1", digest, NULL, &other, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        close(held);
        assert_int_equal(let_go(place, "a/b:1", digest, NULL, &other, &err), 0);
        assert_int_equal(local_image_hold(root, &err), -1);
}

/* The import saw that the image is there, and unpacked nothing. */
static void test_removed_while_it_is_imported(void **state) {
        struct place *place = *state;
        const char *digest = bring(place, "a/b:1", "layer", "{}"), *other;
        struct image_store store IMAGE_STORE_CLEANUP = open_store(place);
        struct error err = { 0 };

        stage(&store, place, "layer");
        assert_int_equal(let_go(place, "a/b:1", digest, NULL, &other, &err), 0);
        assert_int_equal(image_store_commit(&store, "a/b:2", digest, false, place->arena, &err), -1);
        assert_non_null(strstr(err.message, "import it again"));
        assert_int_equal(count(place, "store/roots/sha256"), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_blobs_are_what_they_say),
                TEST(test_images_come_and_go),
                TEST(test_nothing_is_let_go_of_in_doubt),
                TEST(test_work_of_the_dead),
                TEST(test_an_image_brought_twice_at_once),
                TEST(test_variables),
                TEST(test_removing),
                TEST(test_what_a_run_holds_stays),
                TEST(test_removed_while_it_is_imported),
        };

        return cmocka_run_group_tests_name("image_store", tests, NULL, NULL);
}
