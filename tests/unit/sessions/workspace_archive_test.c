/* SPDX-License-Identifier: Apache-2.0 */
/* Read with Python's zipfile, which shares no code with what wrote it. */
#include "support.h"

#include "sessions/workspace_archive.h"

#include <errno.h>

struct sink {
        int descriptor;
        size_t bytes, bytes_max; /* 0: any */
        int after_failure;
        bool failed;
};

static int write_sink(void *context, const void *bytes, size_t length) {
        struct sink *sink = context;

        sink->after_failure += sink->failed;
        sink->bytes += length;
        sink->failed = sink->bytes_max && sink->bytes > sink->bytes_max;
        return sink->failed ? -1 : descriptor_write(sink->descriptor, bytes, length);
}

static const char *python(struct world *world, const char *script, const char *zip) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        FILE *pipe = popen(arena_printf(world->place->arena, "python3 -c '%s' %s", script, zip), "r");

        assert_non_null(pipe);
        assert_int_equal(descriptor_read(fileno(pipe), 1 << 20, &text), 0);
        assert_int_equal(pclose(pipe), 0);
        return arena_strdup(world->place->arena, strbuf_text(&text));
}

static const char *zip_of(struct world *world, struct workspace *workspace, const char *prefix,
                          uint64_t file_max) {
        const char *path = place_path(world->place, "out.zip");
        int descriptor DESCRIPTOR_CLEANUP = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        struct sink sink = { .descriptor = descriptor };
        const struct workspace_archive archive = {
                .prefix = prefix, .file_max = file_max, .write = write_sink, .context = &sink
        };

        if (workspace_archive_write(workspace, &archive, &world->problem) < 0)
                fail_msg("%s", world->problem.detail);
        return path;
}

static const char list_script[] =
        "import sys, zipfile\n"
        "z = zipfile.ZipFile(sys.argv[1])\n"
        "assert z.testzip() is None\n"
        "print(*(f\"{n}={z.read(n).decode()}\" for n in z.namelist()), sep=\"|\", end=\"\")";

static void test_zip(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");

        assert_string_equal(python(&world, list_script, zip_of(&world, &workspace, NULL, 0)), "");
        world_put(&world, &workspace, "a/b.txt", "one");
        world_put(&world, &workspace, "a/\xc3\xa9.txt", "two");
        world_put(&world, &workspace, "z", "");
        world_put(&world, &workspace, "large", "more than ten bytes");
        world_put(&world, &workspace, "..\\..\\evil.exe", "x");
        world_put(&world, &workspace, "left-out.TXT", "mine");
        assert_int_equal(symlink("/etc/passwd", world_path(&world, "s-one", "link")), 0);
        assert_int_equal(mkfifo(world_path(&world, "s-one", "fifo"), 0600), 0);
        assert_string_equal(python(&world, list_script, zip_of(&world, &workspace, "a/", 0)),
                            "a/b.txt=one|a/\xc3\xa9.txt=two");
        assert_string_equal(
                python(&world, list_script, zip_of(&world, &workspace, NULL, 10)),
                "a/b.txt=one|a/\xc3\xa9.txt=two|z=|LEFT-OUT.txt="
                "..\\..\\evil.exe: other systems take a part of its name for a folder or a drive\n"
                "large: 19 bytes, and 10 may be downloaded\n"
                "left-out.TXT: this list has its name\n");
}

/* A reader that goes away ends it at once, and hears nothing more. */
static void test_gone(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct sink sink = { .descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC), .bytes_max = 300000 };
        const struct workspace_archive archive = { .write = write_sink, .context = &sink };
        int random DESCRIPTOR_CLEANUP = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

        for (int i = 0; i < 4; i++) {
                int file DESCRIPTOR_CLEANUP =
                        open(world_path(&world, "s-one", arena_printf(world.place->arena, "f%d", i)),
                             O_WRONLY | O_CREAT, 0600);

                assert_int_equal(descriptor_copy(random, file, 1 << 20), 0);
        }
        assert_int_equal(workspace_archive_write(&workspace, &archive, &world.problem), -1);
        assert_int_equal(world.problem.code, PROBLEM_STOPPING);
        assert_int_equal(sink.after_failure, 0);
        assert_in_range(sink.bytes, 0, 1 << 20);
        close(sink.descriptor);
}

int main(void) {
        const struct CMUnitTest tests[] = { TEST(test_zip), TEST(test_gone) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
