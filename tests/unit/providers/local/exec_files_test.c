/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/exec_files.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "providers/local/support.h"
#include <cmocka.h>

static const char *write_file(struct place *place, const char *name, const char *text) {
        const char *path = place_path(place, name);
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
        return path;
}

static const char *read_text(struct place *place, const char *name) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        if (file_read(place_path(place, name), 1 << 20, &text, &err) < 0)
                return NULL;
        return arena_strdup(place->arena, strbuf_text(&text));
}

static int open_folder(struct place *place, const char *name) {
        const char *path = place_path(place, name);
        int folder;

        mkdir(path, 0700);
        folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(folder >= 0);
        return folder;
}

/* --- in --- */

static int put(struct place *place, int folder, const char *name, const char *path, struct error *err) {
        struct sandbox_workspace workspace = { .folder = folder, .uid = geteuid(), .gid = getegid() };
        struct exec_file file = { name, path };

        (void)place;
        return exec_files_put(&workspace, &file, 1, err);
}

static void test_names_going_in(void **state) {
        static const struct {
                const char *name;
                bool fits;
        } cases[] = {
                { "data.csv", true }, { "a/b/c.txt", true },    { "..data", true },
                { ".hidden", true },  { "with space", true },   { "n\xC3\xA4me", true },
                { "", false },        { "/etc/passwd", false }, { "..", false },
                { "../x", false },    { "a/../x", false },      { "a/./x", false },
                { ".", false },       { "a//b", false },        { "a/", false },
                { "a/..", false },
        };
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const char *from = write_file(place, "from", "bytes");

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct error err = { 0 };
                int result = put(place, folder, cases[i].name, from, &err);

                assert_int_equal(result, cases[i].fits ? 0 : -1);
                if (cases[i].fits)
                        assert_string_equal(
                                read_text(place, arena_printf(place->arena, "workspace/%s", cases[i].name)),
                                "bytes");
                else
                        assert_non_null(strstr(err.message, "no name within the workspace"));
        }
        assert_null(read_text(place, "x"));
}

static void test_a_name_of_256_bytes(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const char *from = write_file(place, "from", "bytes");
        struct error err = { 0 };
        char name[257];

        memset(name, 'x', 256);
        name[256] = '\0';
        assert_int_equal(put(place, folder, name, from, &err), -1);
        assert_int_equal(put(place, folder, name + 1, from, &err), 0);
}

static void test_what_cannot_go_in(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const char *from = write_file(place, "from", "bytes"), *pipe_path = place_path(place, "pipe");
        struct error err = { 0 };

        assert_int_equal(put(place, folder, "a", place_path(place, "nowhere"), &err), -1);
        assert_non_null(strstr(err.message, "No such file"));
        assert_int_equal(mkfifo(pipe_path, 0600), 0);
        assert_int_equal(put(place, folder, "a", pipe_path, &err), -1);
        assert_non_null(strstr(err.message, "no regular file"));
        assert_int_equal(put(place, folder, "a", place->folder, &err), -1);
        assert_int_equal(put(place, folder, "a", from, &err), 0);
        /* Twice the same name, and a file where a folder must be. */
        assert_int_equal(put(place, folder, "a", from, &err), -1);
        assert_non_null(strstr(err.message, "File exists"));
        assert_int_equal(put(place, folder, "a/b", from, &err), -1);
        /* A link that a program put there leads nowhere. */
        assert_int_equal(symlinkat(place->folder, folder, "out"), 0);
        assert_int_equal(put(place, folder, "out/file", from, &err), -1);
        assert_null(read_text(place, "file"));
}

static void test_modes_going_in(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const char *from = write_file(place, "from", "bytes");
        struct error err = { 0 };
        struct stat status;

        umask(022);
        assert_int_equal(chmod(from, 04711), 0);
        assert_int_equal(put(place, folder, "program", from, &err), 0);
        assert_int_equal(fstatat(folder, "program", &status, 0), 0);
        assert_int_equal(status.st_mode & 07777, 0755);
        assert_int_equal(chmod(from, 0600), 0);
        assert_int_equal(put(place, folder, "data", from, &err), 0);
        assert_int_equal(fstatat(folder, "data", &status, 0), 0);
        assert_int_equal(status.st_mode & 07777, 0644);
}

/* --- out --- */

static const struct exec_left *row_of(const struct exec_left *list, size_t count, const char *name) {
        for (size_t i = 0; i < count; i++) {
                if (strcmp(list[i].name, name) == 0)
                        return &list[i];
        }
        return NULL;
}

static void get(struct place *place, int folder, uint64_t bytes_max, const struct exec_left **ret,
                size_t *ret_count) {
        struct error err = { 0 };

        struct exec_request request = { .out = place_path(place, "out"), .out_over = true };

        if (exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, bytes_max, place->arena,
                           ret, ret_count, &err) < 0)
                fail_msg("%s", err.message);
}

static void make_socket(int folder, const char *name) {
        int end DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder, name);
        assert_int_equal(bind(end, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void test_what_comes_out(void **state) {
        static const struct {
                const char *name, *reason; /* NULL: it was brought back */
        } rows[] = {
                { "a/deep/file.txt", NULL },   { "fifo", "a FIFO" },
                { "file.txt", NULL },          { "hard", NULL },
                { "link", "a symbolic link" }, { "n\\xff\\x0ame\\x5c", NULL },
                { "socket", "a socket" },
        };
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const struct exec_left *list;
        struct stat status;
        size_t count;

        write_file(place, "workspace/file.txt", "hello");
        assert_int_equal(fchmodat(folder, "file.txt", 06755, 0), 0);
        write_file(place, "workspace/a/deep/file.txt", "deep");
        write_file(place, "workspace/n\xff\nme\\", "odd");
        assert_int_equal(linkat(folder, "file.txt", folder, "hard", 0), 0);
        assert_int_equal(symlinkat("/etc/passwd", folder, "link"), 0);
        assert_int_equal(mkfifoat(folder, "fifo", 0600), 0);
        make_socket(folder, "socket");
        assert_int_equal(mkdirat(folder, "empty", 0700), 0);
        get(place, folder, 1 << 20, &list, &count);
        assert_int_equal(count, sizeof(rows) / sizeof(rows[0]));
        for (size_t i = 0; i < count; i++) {
                assert_string_equal(list[i].name, rows[i].name);
                if (rows[i].reason)
                        assert_string_equal(list[i].reason, rows[i].reason);
                else
                        assert_null(list[i].reason);
        }
        assert_string_equal(read_text(place, "out/a/deep/file.txt"), "deep");
        assert_string_equal(read_text(place, "out/n\xff\nme\\"), "odd");
        assert_int_equal(stat(place_path(place, "out/file.txt"), &status), 0);
        assert_int_equal(status.st_mode & 06000, 0);
        assert_int_equal(stat(place_path(place, "out/empty"), &status), 0);
        assert_int_equal(lstat(place_path(place, "out/link"), &status), -1);
}

/* A file in the target folder is replaced, never written through; a link for a folder stops it. */
static void test_links_in_the_way(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const char *victim = write_file(place, "victim", "precious");
        const struct exec_request request = { .out = place_path(place, "out"), .out_over = true };
        const struct exec_left *list;
        struct error err = { 0 };
        size_t count;

        write_file(place, "workspace/file", "new");
        assert_int_equal(mkdir(place_path(place, "out"), 0700), 0);
        assert_int_equal(symlink(victim, place_path(place, "out/file")), 0);
        get(place, folder, 1 << 20, &list, &count);
        assert_string_equal(read_text(place, "out/file"), "new");
        assert_string_equal(read_text(place, "victim"), "precious");

        write_file(place, "workspace/sub/file", "new");
        assert_int_equal(mkdir(place_path(place, "elsewhere"), 0700), 0);
        assert_int_equal(symlink(place_path(place, "elsewhere"), place_path(place, "out/sub")), 0);
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         -1);
        assert_non_null(strstr(err.message, "cannot write into sub"));
        assert_null(read_text(place, "elsewhere/file"));
}

static void test_bytes_are_bounded(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const struct exec_left *list, *row;
        size_t count;

        write_file(place, "workspace/small", "1234");
        write_file(place, "workspace/hole", "");
        assert_int_equal(truncate(place_path(place, "workspace/hole"), INT64_C(1) << 40), 0);
        get(place, folder, 4, &list, &count);
        assert_int_equal(count, 2);
        row = row_of(list, count, "hole");
        assert_int_equal(row->bytes, INT64_C(1) << 40);
        assert_non_null(strstr(row->reason, "more bytes than a workspace holds"));
        assert_null(row_of(list, count, "small")->reason);
        assert_null(read_text(place, "out/hole"));
        get(place, folder, 3, &list, &count);
        assert_non_null(row_of(list, count, "small")->reason);
}

/* The deepest folders of the longest names, and files in them: more text than the list takes, many times. */
static void test_names_are_bounded(void **state) {
        enum { FILES = 1000, LONG = 250 };
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        int deep = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const struct exec_left *list, *row;
        size_t count, bytes = 0;
        char name[LONG + 1];

        memset(name, 1, LONG);
        name[LONG] = '\0';
        for (int i = 0; i < EXEC_FILES_DEPTH_MAX - 1; i++) {
                int next;

                assert_int_equal(mkdirat(deep, name, 0700), 0);
                next = openat(deep, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                close(deep);
                deep = next;
        }
        for (int i = 0; i < FILES; i++) {
                snprintf(name, sizeof(name), "%d", i);
                close(openat(deep, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        }
        close(deep);
        get(place, folder, 1 << 20, &list, &count);
        assert_in_range(count, 100, FILES - 1);
        for (size_t i = 0; i < count; i++)
                bytes += strlen(list[i].name);
        assert_true(bytes <= EXEC_FILES_NAMES_MAX + 1);
        row = row_of(list, count, ".");
        assert_non_null(row);
        assert_non_null(strstr(row->reason, "what is not listed stays out"));
}

static void test_depth_is_bounded(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        char path[4 * EXEC_FILES_DEPTH_MAX + 16] = "workspace";
        const struct exec_left *list;
        size_t count;

        for (int i = 0; i < EXEC_FILES_DEPTH_MAX + 1; i++)
                strcat(path, "/d");
        write_file(place, arena_printf(place->arena, "%s/file", path), "x");
        get(place, folder, 1 << 20, &list, &count);
        assert_int_equal(count, 1);
        assert_string_equal(list[0].reason, "too many folders within each other");
}

static void test_where_it_cannot_go(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        const char *file = write_file(place, "file", "x");
        struct exec_request request = { .out = file, .out_over = true };
        const struct exec_left *list = NULL;
        struct error err = { 0 };
        size_t count = 7;

        assert_int_equal(exec_files_check(&request, &err), -1);
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         -1);
        assert_int_equal(count, 7);
        assert_null(list);
        /* A folder stands where a file must go. */
        write_file(place, "workspace/name", "x");
        write_file(place, "out/name/inner", "x");
        request.out = place_path(place, "out");
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         -1);
        assert_non_null(strstr(err.message, "cannot replace name"));
}

/*
 * A file that is in the folder already is never replaced unless that was said: a Git tree's own
 * hooks, for instance.
 */
static void test_a_folder_that_is_not_empty(void **state) {
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        struct exec_request request = { .out = place_path(place, "out") };
        const struct exec_left *list;
        struct error err = { 0 };
        size_t count;

        write_file(place, "workspace/file", "new");
        assert_int_equal(exec_files_check(&request, &err), 0); /* it is not there */
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         0);
        assert_int_equal(unlink(place_path(place, "out/file")), 0);
        assert_int_equal(exec_files_check(&request, &err), 0);
        write_file(place, "out/.git/config", "theirs");
        assert_int_equal(exec_files_check(&request, &err), -1);
        assert_non_null(strstr(err.message, "is not empty"));
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         -1);
        assert_null(read_text(place, "out/file"));
        request.out_over = true;
        assert_int_equal(exec_files_check(&request, &err), 0);
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         0);
        assert_string_equal(read_text(place, "out/file"), "new");
}

static void test_names_that_programs_obey(void **state) {
        static const char *const names[] = { ".envrc", ".git", "bare/HEAD", "bare/head", "sub/.git" };
        struct place *place = *state;
        int folder DESCRIPTOR_CLEANUP = open_folder(place, "workspace");
        struct exec_request request = { .out = place_path(place, "out") };
        const struct exec_left *list, *row;
        struct error err = { 0 };
        struct stat status;
        size_t count;

        write_file(place, "workspace/.envrc", "x");
        write_file(place, "workspace/.git/hooks/post-checkout", "x");
        write_file(place, "workspace/sub/.git", "x");
        write_file(place, "workspace/bare/HEAD", "x");
        write_file(place, "workspace/bare/head", "x");
        write_file(place, "workspace/program", "x");
        assert_int_equal(fchmodat(folder, "program", 0755, 0), 0);
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         0);
        assert_int_equal(count, sizeof(names) / sizeof(names[0]) + 1);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                row = row_of(list, count, names[i]);
                assert_non_null(row);
                assert_non_null(strstr(row->reason, "--out-dot"));
                assert_int_equal(
                        access(place_path(place, arena_printf(place->arena, "out/%s", names[i])), F_OK), -1);
        }
        assert_int_equal(stat(place_path(place, "out/program"), &status), 0);
        assert_int_equal(status.st_mode & 0111, 0);

        request = (struct exec_request){
                .out = request.out, .out_over = true, .out_dot = true, .out_exec = true
        };
        assert_int_equal(exec_files_get(&(struct sandbox_workspace){ .folder = folder }, &request, 1 << 20,
                                        place->arena, &list, &count, &err),
                         0);
        assert_int_equal(count, 6);
        for (size_t i = 0; i < count; i++)
                assert_null(list[i].reason);
        assert_string_equal(read_text(place, "out/.git/hooks/post-checkout"), "x");
        assert_int_equal(stat(place_path(place, "out/program"), &status), 0);
        assert_int_equal(status.st_mode & 0111, 0111);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_names_going_in),
                TEST(test_a_name_of_256_bytes),
                TEST(test_what_cannot_go_in),
                TEST(test_modes_going_in),
                TEST(test_what_comes_out),
                TEST(test_links_in_the_way),
                TEST(test_bytes_are_bounded),
                TEST(test_depth_is_bounded),
                TEST(test_where_it_cannot_go),
                TEST(test_names_are_bounded),
                TEST(test_a_folder_that_is_not_empty),
                TEST(test_names_that_programs_obey),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
