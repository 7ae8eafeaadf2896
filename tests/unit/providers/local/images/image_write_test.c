/* SPDX-License-Identifier: Apache-2.0 */
/* A system's tar, written byte by byte here, becomes an image; what is in that is read back. */
#include "providers/local/images/image_write.h"

#include "base/json.h"
#include "providers/local/images/tarball.h"
#include "providers/local/support.h"

#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#define DATED 1000000
#define BYTES_MAX (1u << 20)

/* --- a tar, as POSIX describes it --- */

/* Octal digits, and a NUL behind them. */
static void field(char *at, size_t size, unsigned long number) {
        for (size_t i = size - 1; i-- > 0; number /= 8)
                at[i] = (char)('0' + number % 8);
        at[size - 1] = '\0';
}

/* The fields of a header end with a NUL only where there is room for it. */
static void lay(char *at, const char *text, size_t length) {
        for (size_t i = 0; i < length; i++)
                at[i] = text[i];
}

static void put(FILE *file, const char *name, char type, unsigned mode, unsigned user, long date,
                const char *target, const char *content) {
        size_t length = content ? strlen(content) : 0;
        char block[512] = { 0 }, zeros[512] = { 0 };
        unsigned sum = 0;

        lay(block, name, strlen(name));
        field(block + 100, 8, mode);
        field(block + 108, 8, user);
        field(block + 116, 8, user);
        field(block + 124, 12, length);
        field(block + 136, 12, (unsigned long)date);
        memset(block + 148, ' ', 8);
        block[156] = type;
        lay(block + 157, target, strlen(target));
        lay(block + 257, "ustar\00000", 8);
        lay(block + 265, "somebody", 8);
        field(block + 329, 8, 5);
        field(block + 337, 8, 1);
        for (size_t i = 0; i < sizeof(block); i++)
                sum += (unsigned char)block[i];
        field(block + 148, 7, sum);
        assert_int_equal(fwrite(block, sizeof(block), 1, file), 1);
        if (length == 0)
                return;
        assert_int_equal(fwrite(content, length, 1, file), 1);
        if (length % 512)
                assert_int_equal(fwrite(zeros, 512 - length % 512, 1, file), 1);
}

static const char *make_system(struct place *place, const char *name, long offset) {
        const char *path = place_path(place, name);
        FILE *file = fopen(path, "w");
        char zeros[1024] = { 0 };

        assert_non_null(file);
        put(file, "./", '5', 0755, 0, DATED + offset, "", NULL);
        put(file, "./dev/", '5', 0755, 0, DATED + offset, "", NULL);
        put(file, "./dev/null", '3', 0666, 0, 1, "", NULL);
        put(file, "./bin", '2', 0777, 0, 1, "usr/bin", NULL);
        put(file, "./etc/", '5', 0755, 0, 1, "", NULL);
        put(file, "./etc/hostname", '0', 0644, 0, 1, "", "builder-7");
        put(file, "./etc/resolv.conf", '0', 0644, 0, 1, "", "nameserver 10.0.0.1");
        put(file, "./etc/shadow", '0', 0640, 42, DATED + offset, "", "root:*:");
        put(file, "./etc/apt/", '5', 0755, 0, 1, "", NULL);
        put(file, "./etc/apt/sources.list", '0', 0644, 0, 1, "", "deb http://user:password@mirror");
        put(file, "./pipe", '6', 0644, 0, 1, "", NULL);
        put(file, "./usr/", '5', 0755, 0, 1, "", NULL);
        put(file, "./usr/bin/", '5', 0755, 0, 1, "", NULL);
        put(file, "./usr/bin/su", '0', 06755, 0, DATED + offset, "", "#!su");
        put(file, "./usr/bin/sg", '1', 06755, 0, DATED + offset, "./usr/bin/su", NULL);
        put(file, "./usr/n\xC3\xA4me \xFF", '0', 0644, 1000, 7, "", "bytes");
        put(file, "./var/log/", '5', 0755, 0, 1, "", NULL);
        put(file, "./var/log/dpkg.log", '0', 0644, 0, DATED + offset, "", offset ? "later" : "sooner");
        put(file, "./tmp/", '5', 01777, 0, DATED + offset, "", NULL);
        put(file, "./tmp/left", '0', 0600, 0, 1, "", "left");
        assert_int_equal(fwrite(zeros, sizeof(zeros), 1, file), 1);
        assert_int_equal(fclose(file), 0);
        return path;
}

static struct image_writing writing_of(const char *system, const char *layout) {
        static const char *const variables[] = { "PATH=/usr/bin", "LANG=C.UTF-8", NULL };
        static const char *const command[] = { "python3", NULL };

        return (struct image_writing){ .system = system,
                                       .layout = layout,
                                       .reference = "latest",
                                       .title = "prebuilt/test",
                                       .description = "a test",
                                       .dated_s = DATED,
                                       .variables = variables,
                                       .command = command };
}

static const char *write_layout(struct place *place, const char *name, long offset) {
        const char *layout = place_path(place, name);
        const char *system = make_system(place, arena_printf(place->arena, "%s.tar", name), offset);
        struct image_writing writing = writing_of(system, layout);
        struct error err = { 0 };

        if (image_write_layout(&writing, place->arena, &err) < 0)
                fail_msg("%s", err.message);
        return layout;
}

/* --- reading back --- */

static const char *read_all(struct place *place, const char *path, size_t *ret_length) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        assert_int_equal(file_read(path, BYTES_MAX, &text, &err), 0);
        *ret_length = text.length;
        return arena_strndup(place->arena, text.data, text.length);
}

/* The blob that a descriptor names, after a look at its digest and size. */
static const char *blob_of(struct place *place, const char *layout, const json_t *descriptor) {
        const char *digest = json_text(descriptor, "digest"), *bytes, *path;
        char hex[SHA256_HEX_SIZE];
        size_t length;

        assert_non_null(digest);
        path = arena_printf(place->arena, "%s/blobs/sha256/%s", layout, digest + 7);
        bytes = read_all(place, path, &length);
        digest_sha256_hex(bytes, length, hex);
        assert_string_equal(hex, digest + 7);
        assert_int_equal(json_integer_or(descriptor, "size", -1), length);
        return path;
}

static json_t *json_of(struct place *place, const char *path) {
        size_t length;
        const char *text = read_all(place, path, &length);
        json_t *json = json_loadb(text, length, 0, NULL);

        assert_non_null(json);
        return json;
}

static json_t *manifest_of(struct place *place, const char *layout) {
        json_t *index JSON_CLEANUP = json_of(place, arena_printf(place->arena, "%s/index.json", layout));
        const json_t *list = json_object_get(index, "manifests"), *entry = json_array_get(list, 0);

        assert_int_equal(json_array_size(list), 1);
        assert_string_equal(json_text(entry, "mediaType"), "application/vnd.oci.image.manifest.v1+json");
        return json_of(place, blob_of(place, layout, entry));
}

static const char *describe(struct place *place, const char *path, char hex[SHA256_HEX_SIZE]) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int file DESCRIPTOR_CLEANUP = open(path, O_RDONLY | O_CLOEXEC);
        struct tarball *tarball = NULL;
        struct tarball_entry entry;
        struct error err;

        assert_int_equal(tarball_open(file, BYTES_MAX, &tarball, &err), 0);
        while (tarball_next(tarball, &entry, &err) > 0) {
                const void *bytes;
                size_t length;
                uint64_t offset;

                strbuf_printf(&text, "%s %o %lld", entry.name, (unsigned)entry.mode,
                              (long long)entry.written.tv_sec);
                if (entry.target)
                        strbuf_printf(&text, " -> %s", entry.target);
                while (tarball_block(tarball, &bytes, &length, &offset, &err) > 0)
                        strbuf_printf(&text, " %.*s", (int)length, (const char *)bytes);
                strbuf_append(&text, "\n");
        }
        assert_int_equal(tarball_finish(tarball, hex, &err), 0);
        tarball_close(tarball);
        return arena_strdup(place->arena, strbuf_text(&text));
}

static void test_what_is_in_the_image(void **state) {
        struct place *place = *state;
        const char *layout = write_layout(place, "layout", 5000);
        json_t *manifest JSON_CLEANUP = manifest_of(place, layout), *config JSON_CLEANUP = NULL;
        const json_t *layers = json_object_get(manifest, "layers"), *inner, *ids;
        char hex[SHA256_HEX_SIZE], *line;
        size_t length;

        assert_int_equal(json_array_size(layers), 1);
        assert_string_equal(json_text(json_array_get(layers, 0), "mediaType"),
                            "application/vnd.oci.image.layer.v1.tar+gzip");
        assert_string_equal(describe(place, blob_of(place, layout, json_array_get(layers, 0)), hex),
                            "dev/ 755 1000000\n"
                            "bin 777 1 -> usr/bin\n"
                            "etc/ 755 1\n"
                            "etc/shadow 640 1000000 root:*:\n"
                            "etc/apt/ 755 1\n"
                            "usr/ 755 1\n"
                            "usr/bin/ 755 1\n"
                            "usr/bin/su 755 1000000 #!su\n"
                            "usr/bin/sg 755 1000000 -> usr/bin/su\n"
                            "usr/n\xC3\xA4me \xFF 644 7 bytes\n"
                            "var/log/ 755 1\n"
                            "tmp/ 1777 1000000\n");
        config = json_of(place, blob_of(place, layout, json_object_get(manifest, "config")));
        assert_string_equal(json_text(config, "architecture"), "amd64");
        assert_string_equal(json_text(config, "os"), "linux");
        assert_string_equal(json_text(config, "created"), "1970-01-12T13:46:40Z");
        inner = json_object_get(config, "config");
        assert_string_equal(json_string_value(json_array_get(json_object_get(inner, "Env"), 1)),
                            "LANG=C.UTF-8");
        assert_string_equal(json_string_value(json_array_get(json_object_get(inner, "Cmd"), 0)), "python3");
        ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
        assert_int_equal(json_array_size(ids), 1);
        assert_string_equal(json_string_value(json_array_get(ids, 0)),
                            arena_printf(place->arena, "sha256:%s", hex));
        line = (char *)(uintptr_t)read_all(place, arena_printf(place->arena, "%s/oci-layout", layout),
                                           &length);
        assert_string_equal(line, "{\"imageLayoutVersion\":\"1.0.0\"}");
}

/* Built an hour later, with other logs: the same bytes. With another file: others. */
static void test_the_same_is_the_same(void **state) {
        struct place *place = *state;
        json_t *first JSON_CLEANUP = manifest_of(place, write_layout(place, "one", 5000));
        json_t *second JSON_CLEANUP = manifest_of(place, write_layout(place, "two", 8600));
        json_t *third JSON_CLEANUP = manifest_of(place, write_layout(place, "three", -10));

        assert_true(json_equal(first, second));
        assert_false(json_equal(first, third));
}

static void test_the_archive(void **state) {
        struct place *place = *state;
        const char *layout = write_layout(place, "layout", 0), *path = place_path(place, "image.tar"), *at;
        glob_t left;
        char hex[SHA256_HEX_SIZE];
        struct error err = { 0 };

        assert_int_equal(image_write_archive(layout, path, DATED, place->arena, &err), 0);
        at = describe(place, path, hex);
        assert_non_null(strstr(at, "oci-layout 644 1000000 {\"imageLayoutVersion\":\"1.0.0\"}\n"));
        assert_non_null(strstr(at, "index.json 644 1000000 {"));
        for (int blobs = 0; blobs < 3; blobs++) {
                at = strstr(at, "blobs/sha256/");
                assert_non_null(at);
                at++;
        }
        /* Replaced whole; nothing is left beside it. */
        assert_int_equal(image_write_archive(layout, path, DATED, place->arena, &err), 0);
        assert_int_equal(glob(arena_printf(place->arena, "%s.*", path), 0, NULL, &left), GLOB_NOMATCH);
}

static void test_failures(void **state) {
        struct place *place = *state;
        const char *layout = place_path(place, "layout"), *broken = place_path(place, "broken.tar");
        struct image_writing writing = writing_of(place_path(place, "nowhere.tar"), layout);
        struct error err = { 0 };
        struct rlimit limit;

        assert_int_equal(image_write_layout(&writing, place->arena, &err), -1);
        assert_non_null(strstr(err.message, "nowhere.tar: No such file"));
        writing.layout = place_path(place, "second");
        writing.system = make_system(place, "broken.tar", 0);
        assert_int_equal(truncate(broken, 512 * 8 + 100), 0);
        assert_int_equal(image_write_layout(&writing, place->arena, &err), -1);
        assert_non_null(strstr(err.message, "the image's layer: "));
        assert_int_not_equal(access(arena_printf(place->arena, "%s/index.json", writing.layout), F_OK), 0);

        layout = write_layout(place, "good", 0);
        assert_int_equal(image_write_archive(layout, "/nowhere/x.tar", DATED, place->arena, &err), -1);
        assert_non_null(strstr(err.message, "cannot create /nowhere/x.tar"));
        /* A disk that takes no more is told, and nothing is left. */
        assert_int_equal(mkdir(place_path(place, "full"), 0700), 0);
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1000, limit.rlim_max }), 0);
        assert_int_equal(image_write_archive(layout, place_path(place, "full/x"), DATED, place->arena, &err),
                         -1);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(rmdir(place_path(place, "full")), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_what_is_in_the_image),
                TEST(test_the_same_is_the_same),
                TEST(test_the_archive),
                TEST(test_failures),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
