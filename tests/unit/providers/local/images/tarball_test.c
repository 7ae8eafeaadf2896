/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/images/tarball.h"
#include "providers/local/images/tarball_write.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void add(struct tarball_writer *writer, struct tarball_entry entry, const char *text) {
        struct error err = { 0 };

        entry.bytes = strlen(text);
        if (tarball_writer_add(writer, &entry, &err) < 0 ||
            tarball_writer_bytes(writer, text, strlen(text), &err) < 0)
                fail_msg("%s", err.message);
}

static int make(bool compress, struct tarball_written *ret) {
        int file = memfd_create("tar", MFD_CLOEXEC);
        struct tarball_writer *writer = NULL;
        struct error err = { 0 };

        if (tarball_writer_open(file, compress, &writer, &err) < 0)
                fail_msg("%s", err.message);
        add(writer, (struct tarball_entry){ .type = TARBALL_FOLDER, .name = "d", .mode = 0700 }, "");
        add(writer,
            (struct tarball_entry){ .type = TARBALL_FILE,
                                    .name = "d/f\xc3\xa4\xff",
                                    .mode = 0640,
                                    .written = { .tv_sec = 1234567 } },
            "hello");
        add(writer,
            (struct tarball_entry){ .type = TARBALL_LINK, .name = "l", .target = "../x", .mode = 0777 }, "");
        add(writer,
            (struct tarball_entry){ .type = TARBALL_HARD_LINK, .name = "h", .target = "d/f\xc3\xa4\xff" },
            "");
        if (tarball_writer_finish(writer, ret, &err) < 0)
                fail_msg("%s", err.message);
        tarball_writer_close(writer);
        assert_int_equal(lseek(file, 0, SEEK_SET), 0);
        return file;
}

static void assert_next(struct tarball *tarball, enum tarball_type type, const char *name,
                        const char *target) {
        struct tarball_entry entry;
        struct error err = { 0 };

        if (tarball_next(tarball, &entry, &err) != 1)
                fail_msg("%s: %s", name, err.message);
        assert_int_equal(entry.type, type);
        assert_int_equal(strncmp(entry.name, name, strlen(name)), 0);
        if (target)
                assert_string_equal(entry.target, target);
        if (type == TARBALL_FILE) {
                assert_int_equal(entry.bytes, 5);
                assert_int_equal(entry.mode, 0640);
                assert_int_equal(entry.written.tv_sec, 1234567);
        }
}

static void test_what_is_in_it(void **state) {
        (void)state;
        for (int compress = 0; compress < 2; compress++) {
                struct tarball_written written;
                int file = make(compress, &written);
                struct tarball_entry entry;
                struct tarball *tarball;
                struct error err = { 0 };
                char hex[SHA256_HEX_SIZE];
                const void *bytes;
                size_t length;
                uint64_t offset;

                assert_int_equal(tarball_open(file, 1 << 20, &tarball, &err), 0);
                assert_next(tarball, TARBALL_FOLDER, "d", NULL);
                assert_next(tarball, TARBALL_FILE, "d/f\xc3\xa4\xff", NULL);
                assert_int_equal(tarball_block(tarball, &bytes, &length, &offset, &err), 1);
                assert_int_equal(length, 5);
                assert_int_equal(offset, 0);
                assert_memory_equal(bytes, "hello", 5);
                assert_int_equal(tarball_block(tarball, &bytes, &length, &offset, &err), 0);
                assert_next(tarball, TARBALL_LINK, "l", "../x");
                assert_next(tarball, TARBALL_HARD_LINK, "h", "d/f\xc3\xa4\xff");
                assert_int_equal(tarball_next(tarball, &entry, &err), 0);
                assert_int_equal(tarball_finish(tarball, hex, &err), 0);
                assert_string_equal(hex, written.plain);
                tarball_close(tarball);
                close(file);
        }
}

/* Cut anywhere, or more than is allowed: an error or the archive's end, never a crash, never more bytes. */
static void test_cut_and_limited(void **state) {
        struct tarball_written written;
        int whole = make(false, &written);

        (void)state;
        for (uint64_t limit = 0; limit < written.plain_bytes; limit += 97) {
                struct tarball *tarball = NULL;
                struct tarball_entry entry;
                struct error err = { 0 };
                char hex[SHA256_HEX_SIZE];
                int more = 1;

                assert_int_equal(lseek(whole, 0, SEEK_SET), 0);
                if (tarball_open(whole, limit, &tarball, &err) < 0)
                        continue;
                while (more > 0)
                        more = tarball_next(tarball, &entry, &err);
                if (more == 0)
                        more = tarball_finish(tarball, hex, &err);
                assert_int_equal(more, -1);
                assert_non_null(strstr(err.message, "uncompressed"));
                tarball_close(tarball);
        }
        close(whole);
}

static void test_what_is_no_tar(void **state) {
        static const struct {
                const char *bytes;
                size_t length;
                bool taken; /* empty is an archive of nothing */
        } rows[] = {
                { "", 0, true },
                { "x", 1, false },
                { "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00", 10, false },
                { "\x28\xb5\x2f\xfd\xff\xff\xff\xff", 8, false },
                { "BZh91AY&SY", 10, false },
                { "PK\x03\x04xxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 33, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int file = memfd_create("tar", MFD_CLOEXEC);
                struct tarball *tarball = NULL;
                struct tarball_entry entry;
                struct error err = { 0 };
                int result;

                assert_int_equal(write(file, rows[i].bytes, rows[i].length), rows[i].length);
                assert_int_equal(lseek(file, 0, SEEK_SET), 0);
                result = tarball_open(file, 1 << 20, &tarball, &err);
                if (result == 0)
                        result = tarball_next(tarball, &entry, &err);
                if (result != (rows[i].taken ? 0 : -1))
                        fail_msg("row %zu: %d %s", i, result, err.message);
                tarball_close(tarball);
                close(file);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_in_it),
                cmocka_unit_test(test_cut_and_limited),
                cmocka_unit_test(test_what_is_no_tar),
        };

        return cmocka_run_group_tests_name("tarball", tests, NULL, NULL);
}
