/* SPDX-License-Identifier: Apache-2.0 */
/* Limits, made small; what images do otherwise is in tests/e2e/test_local_images.py and tests/e2e/escape/test_image_attacks.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/images/image_unpack.h"
#include "providers/local/images/tarball_write.h"
#include "providers/local/images/tree.h"
#include "providers/local/support.h"

#include <fcntl.h>
#include <sys/mman.h>

struct layer {
        int file;
        char diff_id[80];
};

static void add(struct tarball_writer *writer, enum tarball_type type, const char *name, const char *target,
                const char *text) {
        struct tarball_entry entry = { .type = type,
                                       .name = name,
                                       .target = target,
                                       .bytes = strlen(text),
                                       .mode = type == TARBALL_FOLDER ? 0755 : 0644 };
        struct error err = { 0 };

        if (tarball_writer_add(writer, &entry, &err) < 0 ||
            tarball_writer_bytes(writer, text, strlen(text), &err) < 0)
                fail_msg("%s", err.message);
}

static struct tarball_writer *begin(struct layer *layer) {
        struct tarball_writer *writer = NULL;
        struct error err = { 0 };

        layer->file = memfd_create("layer", MFD_CLOEXEC);
        if (tarball_writer_open(layer->file, true, &writer, &err) < 0)
                fail_msg("%s", err.message);
        return writer;
}

static void end(struct layer *layer, struct tarball_writer *writer) {
        struct tarball_written written;
        struct error err = { 0 };

        if (tarball_writer_finish(writer, &written, &err) < 0)
                fail_msg("%s", err.message);
        tarball_writer_close(writer);
        snprintf(layer->diff_id, sizeof(layer->diff_id), "sha256:%s", written.plain);
}

/* Files "0", "1", ... of `bytes` bytes each. */
static struct layer layer_of(size_t files, size_t bytes) {
        struct layer layer;
        struct tarball_writer *writer = begin(&layer);
        char *text = calloc(1, bytes + 1), name[24];

        if (!text)
                abort();
        memset(text, 'x', bytes);
        for (size_t i = 0; i < files; i++) {
                snprintf(name, sizeof(name), "%zu", i);
                add(writer, TARBALL_FILE, name, NULL, text);
        }
        free(text);
        end(&layer, writer);
        return layer;
}

static int open_root(struct place *place, const char *name) {
        const char *path = place_path(place, name);

        if (mkdir(path, 0755) < 0)
                abort();
        return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void test_limits(void **state) {
        static const struct {
                struct unpack_limits limits;
                size_t files, bytes;
                const char *problem; /* NULL: it is taken */
        } rows[] = {
                { { 10, 1000, 100, 10 }, 10, 100, NULL },
                { { 9, 1000, 100, 10 }, 10, 100, "more than 9 entries" },
                { { 10, 999, 100, 10 }, 10, 100, "more than 999 bytes unpacked" },
                { { 10, 1000, 99, 10 }, 1, 100, "more than 99 bytes" },
        };
        struct place *place = *state;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct unpack unpack = { .root = open_root(place, arena_printf(place->arena, "limits%zu", i)),
                                         .limits = rows[i].limits };
                struct layer layer = layer_of(rows[i].files, rows[i].bytes);
                struct error err = { 0 };
                int result = image_unpack_layer(&unpack, layer.file, true, layer.diff_id, &err);

                if (result == 0 && rows[i].problem)
                        fail_msg("row %zu was taken", i);
                if (result < 0 && (!rows[i].problem || !strstr(err.message, rows[i].problem)))
                        fail_msg("row %zu: %s", i, err.message);
                close(layer.file);
                close(unpack.root);
        }
}

/* Zeros behind the end of the archive are no entry of any size. */
static void test_a_bomb_behind_the_end(void **state) {
        struct place *place = *state;
        struct unpack unpack = { .root = open_root(place, "bomb"), .limits = { 10, 1000, 1000, 10 } };
        char *zeros = calloc(1, 1 << 20);
        int plain = memfd_create("plain", MFD_CLOEXEC);
        struct error err = { 0 };

        for (int i = 0; i < 3; i++)
                assert_int_equal(write(plain, zeros, 1 << 20), 1 << 20);
        assert_int_equal(image_unpack_layer(&unpack, plain, true, "sha256:x", &err), -1);
        assert_non_null(strstr(err.message, "bytes, uncompressed"));
        free(zeros);
        close(plain);
        close(unpack.root);
}

/* An entry that makes no file costs time to read, and may not be repeated in layer after layer. */
static void test_what_is_no_file_counts_over_all_layers(void **state) {
        struct place *place = *state;
        struct unpack unpack = { .root = open_root(place, "idle"), .limits = { 10, 1000, 1000, 10 } };
        struct layer layer;
        struct tarball_writer *writer = begin(&layer);
        char *text = calloc(1, (256 << 10) + 1);
        struct error err = { 0 };

        if (!text)
                abort();
        memset(text, 'x', 256 << 10);
        add(writer, TARBALL_FILE, ".wh..wh.idle", NULL, text);
        free(text);
        end(&layer, writer);
        for (int i = 0; i < 5; i++) {
                int result = image_unpack_layer(&unpack, layer.file, i == 0, layer.diff_id, &err);

                assert_int_equal(result, i < 4 ? 0 : -1);
        }
        assert_non_null(strstr(err.message, "bytes, uncompressed"));
        close(layer.file);
        close(unpack.root);
}

/* Folders that a name merely passes through are made, and count. */
static void test_folders_on_the_way_count(void **state) {
        struct place *place = *state;
        struct unpack unpack = { .root = open_root(place, "way"), .limits = { 20, 1000, 1000, 10 } };
        struct layer layer;
        struct tarball_writer *writer = begin(&layer);
        struct error err = { 0 };

        for (int first = 'a'; first <= 'e'; first++)
                add(writer, TARBALL_FILE, arena_printf(place->arena, "%c/1/2/3/4/5", first), NULL, "x");
        end(&layer, writer);
        assert_int_equal(image_unpack_layer(&unpack, layer.file, true, layer.diff_id, &err), -1);
        assert_non_null(strstr(err.message, "more than 20 entries"));
        close(layer.file);
        close(unpack.root);
}

static void test_the_wrong_diff_id(void **state) {
        struct place *place = *state;
        struct layer layer = layer_of(2, 5);

        for (int lowest = 0; lowest < 2; lowest++) {
                struct unpack unpack = { .root = open_root(place, lowest ? "diff1" : "diff0"),
                                         .limits = unpack_limits_default };
                struct error err = { 0 };
                struct stat status;

                assert_int_equal(image_unpack_layer(&unpack, layer.file, lowest, "sha256:00", &err), -1);
                assert_non_null(strstr(err.message, "diff_id"));
                /* Of a layer above others nothing is written before it is known to be what it says. */
                assert_int_equal(fstatat(unpack.root, "0", &status, 0), lowest ? 0 : -1);
                close(unpack.root);
        }
        close(layer.file);
}

static void test_what_a_sandbox_mounts_over(void **state) {
        static const char *const made[] = { "etc/passwd", "etc/group", "etc/hosts", "var/tmp" };
        struct place *place = *state;
        struct unpack unpack = { .root = open_root(place, "finish"), .limits = unpack_limits_default };
        struct error err = { 0 };
        struct stat status;
        mode_t before = umask(077);

        place_write(place, "finish/etc/passwd", "its own");
        assert_int_equal(symlinkat("/nowhere", unpack.root, "etc/hosts"), 0);
        assert_int_equal(image_unpack_finish(&unpack, &err), 0);
        umask(before);
        for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
                assert_int_equal(fstatat(unpack.root, made[i], &status, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(fstatat(unpack.root, "etc/hosts", &status, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISLNK(status.st_mode));
        assert_int_equal(fstatat(unpack.root, "etc/passwd", &status, 0), 0);
        assert_int_equal(status.st_size, 7);
        assert_int_equal(fstatat(unpack.root, "etc/group", &status, 0), 0);
        assert_int_equal(status.st_mode & 0777, 0644);
        assert_int_equal(fstatat(unpack.root, "var", &status, 0), 0);
        assert_int_equal(status.st_mode & 0777, 0755);
        close(unpack.root);
}

static void test_links_in_the_way_of_mounts(void **state) {
        struct place *place = *state;
        struct unpack unpack = { .root = open_root(place, "links"), .limits = unpack_limits_default };
        const char *outside = place_path(place, "outside");
        struct error err = { 0 };
        struct stat status;

        assert_int_equal(mkdir(outside, 0755), 0);
        assert_int_equal(symlinkat(outside, unpack.root, "etc"), 0);
        assert_int_equal(symlinkat(outside, unpack.root, "var"), 0);
        assert_int_equal(image_unpack_finish(&unpack, &err), 0);
        assert_int_equal(stat(place_path(place, "outside/passwd"), &status), -1);
        assert_int_equal(stat(place_path(place, "outside/tmp"), &status), -1);
        close(unpack.root);
}

static void test_trees_are_removed_without_following(void **state) {
        struct place *place = *state;
        int top = open_root(place, "tree");
        struct stat status;

        place_write(place, "kept/file", "x");
        place_write(place, "tree/a/b/c/file", "x");
        assert_int_equal(symlinkat("../../kept", top, "a/link"), 0);
        assert_int_equal(symlinkat("../kept", top, "link"), 0);
        assert_int_equal(tree_remove(top, "a"), 0);
        assert_int_equal(tree_remove(top, "nothing"), 0);
        assert_int_equal(fstatat(top, "a", &status, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(tree_empty(top), 0);
        assert_int_equal(fstatat(top, "link", &status, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(stat(place_path(place, "kept/file"), &status), 0);
        close(top);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_limits),
                TEST(test_a_bomb_behind_the_end),
                TEST(test_what_is_no_file_counts_over_all_layers),
                TEST(test_folders_on_the_way_count),
                TEST(test_the_wrong_diff_id),
                TEST(test_what_a_sandbox_mounts_over),
                TEST(test_links_in_the_way_of_mounts),
                TEST(test_trees_are_removed_without_following),
        };

        return cmocka_run_group_tests_name("image_unpack", tests, NULL, NULL);
}
