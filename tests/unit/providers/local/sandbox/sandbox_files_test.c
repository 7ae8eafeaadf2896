/* SPDX-License-Identifier: Apache-2.0 */
/* By folder and by asking, a workspace is the same; what the other side of the socket says may be anything. */
#include "providers/local/sandbox/sandbox_workspace.h"

#include "base/arena.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_messages.h"
#include "providers/local/sandbox/sandbox_porter.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct served {
        int folder, pair[2];
        pthread_t thread;
};

static void *serve(void *context) {
        struct served *served = context;
        struct frame_reader client FRAME_READER_CLEANUP = FRAME_READER(served->pair[1]);

        sandbox_files_serve(served->folder, &client);
        return NULL;
}

/* nftw() fails where paths are longer than the kernel takes at once. */
static void remove_below(int folder) {
        DIR *names = fdopendir(folder);
        const struct dirent *entry;

        while ((entry = readdir(names))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (entry->d_type == DT_DIR)
                        remove_below(openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
                assert_int_equal(unlinkat(folder, entry->d_name, entry->d_type == DT_DIR ? AT_REMOVEDIR : 0),
                                 0);
        }
        closedir(names);
}

static int make_folder(char path[]) {
        int folder;

        assert_non_null(mkdtemp(path));
        folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(folder >= 0);
        return folder;
}

static void write_file(int folder, const char *name, const char *text) {
        int file DESCRIPTOR_CLEANUP = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

        assert_int_equal(descriptor_write(file, text, strlen(text)), 0);
}

/* The file's content, as a test can compare it; NULL where it cannot be read. */
static char *content_of(const struct sandbox_workspace *workspace, const char *path, uint64_t most) {
        struct sandbox_content content SANDBOX_CONTENT_CLEANUP = SANDBOX_CONTENT_NONE;
        struct strbuf text = STRBUF_INIT;
        int to DESCRIPTOR_CLEANUP = memfd_create("content", MFD_CLOEXEC);
        struct error err;

        if (sandbox_workspace_open(workspace, path, &content, &err) != 0)
                return NULL;
        assert_int_equal(sandbox_workspace_copy(workspace, &content, to, most, &err), 0);
        assert_int_equal(lseek(to, 0, SEEK_SET), 0);
        assert_int_equal(descriptor_read(to, 1 << 20, &text), 0);
        strbuf_reserve(&text, 1);
        return text.data;
}

static void assert_content(const struct sandbox_workspace *workspace, const char *path,
                           const char *expected) {
        char *text TEXT_CLEANUP = content_of(workspace, path, UINT64_MAX);

        if (!expected)
                assert_null(text);
        else
                assert_string_equal(text, expected);
}

static void assert_same(const struct sandbox_workspace *workspace) {
        struct strbuf entries STRBUF_CLEANUP = STRBUF_INIT;
        char deep[6000] = "";
        struct sandbox_entry entry;
        struct error err;
        size_t count = 0;
        bool cut;

        assert_int_equal(sandbox_workspace_list(workspace, "", &entries, &cut, &err), 0);
        assert_false(cut);
        for (size_t at = 0; at < entries.length; at += strlen(entries.data + at) + 1, count++) {
                assert_int_equal(sandbox_entry_read(entries.data + at, &entry), 0);
                if (strcmp(entry.name, "file") == 0)
                        assert_true(S_ISREG(entry.mode) && entry.mode & 0100 && entry.bytes == 5);
        }
        assert_int_equal(count, 4);
        assert_content(workspace, "file", "hello");
        assert_content(workspace, "empty", "");
        assert_content(workspace, "link", NULL);
        assert_content(workspace, "nothing", NULL);
        assert_content(workspace, "../file", NULL);
        assert_content(workspace, "", NULL);
        strbuf_clear(&entries);
        assert_int_equal(sandbox_workspace_list(workspace, "..", &entries, &cut, &err), 1);
        assert_int_equal(sandbox_workspace_list(workspace, "file", &entries, &cut, &err), 1);
        /* Longer than the kernel takes at once. */
        for (int i = 0; i < 24; i++)
                snprintf(deep + strlen(deep), sizeof(deep) - strlen(deep), "%0200d/", i);
        strcat(deep, "leaf");
        assert_content(workspace, deep, "deep");
        strcpy(deep + strlen(deep) - 4, "link");
        assert_content(workspace, deep, NULL);
}

static void test_by_folder_and_by_asking(void **state) {
        char path[] = "/tmp/berth-files-XXXXXX";
        struct served served = { .folder = make_folder(path) };
        struct frame_reader worker = FRAME_READER(-1);
        struct sandbox_workspace near = { .folder = served.folder },
                                 far = { .folder = -1, .worker = &worker };
        int at = dup(served.folder);
        char *text;

        (void)state;
        write_file(served.folder, "file", "hello");
        write_file(served.folder, "empty", "");
        assert_int_equal(symlinkat("/etc/passwd", served.folder, "link"), 0);
        for (int i = 0, next; i < 24; i++, at = next) {
                char name[256];

                snprintf(name, sizeof(name), "%0200d", i);
                assert_int_equal(mkdirat(at, name, 0755), 0);
                next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                close(at);
        }
        write_file(at, "leaf", "deep");
        assert_int_equal(symlinkat("leaf", at, "link"), 0);
        assert_same(&near);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, served.pair), 0);
        assert_int_equal(pthread_create(&served.thread, NULL, serve, &served), 0);
        worker.socket = served.pair[0];
        fcntl(worker.socket, F_SETFL, O_NONBLOCK);
        assert_same(&far);
        /*
         * Bytes beyond the number asked for are left out, and the next question is answered as
         * before.
         */
        text = content_of(&far, "file", 2);
        assert_string_equal(text, "he");
        free(text);
        assert_same(&far);
        close(worker.socket);
        pthread_join(served.thread, NULL);
        close(served.pair[1]);
        close(at);
        remove_below(served.folder);
        assert_int_equal(rmdir(path), 0);
}

static void test_entries(void **state) {
        static const char *const bad[] = { "",
                                           "x",
                                           "100644",
                                           "100644 ",
                                           "100644 5",
                                           "100644 5 7 8 9",
                                           "100644 5 7 8 9 ",
                                           "100644 5 7 8 9 .",
                                           "40755 1 7 8 9 ..",
                                           "100644 5 7 8 9 a/b",
                                           "100644 5 7 8 a",
                                           "100644 5 x 8 9 a",
                                           "8 5 7 8 9 a",
                                           " 5 7 8 9 a" };
        struct sandbox_entry entry = { 0 };

        (void)state;
        assert_int_equal(sandbox_entry_read("100644 5 7 -8 9  two  spaces", &entry), 0);
        assert_true(entry.inode == 7 && entry.written_ns == -8 && entry.changed_ns == 9);
        assert_string_equal(entry.name, " two  spaces");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(sandbox_entry_read(bad[i], &entry), -1);
}

/* Answers that no worker gives are errors, and an end in the middle is one. */
static void test_answers_that_are_none(void **state) {
        static const struct {
                unsigned type;
                const char *bytes;
                size_t length;
        } cases[] = { { MESSAGE_DONE, "", 0 },
                      { MESSAGE_READY, "", 0 },
                      { MESSAGE_ENTRIES, "x", 1 },
                      { MESSAGE_FAILED, "why", 3 },
                      { MESSAGE_CONTENT, "x", 1 } };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int pair[2];
                struct strbuf entries STRBUF_CLEANUP = STRBUF_INIT;
                struct frame_reader worker FRAME_READER_CLEANUP = FRAME_READER(-1);
                struct sandbox_workspace far = { .folder = -1, .worker = &worker };
                struct error err = { 0 };
                bool cut;

                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                worker.socket = pair[0];
                assert_int_equal(
                        frame_send(pair[1], cases[i].type, cases[i].bytes, cases[i].length, NULL, 0, &err),
                        0);
                shutdown(pair[1], SHUT_WR);
                assert_int_equal(sandbox_workspace_list(&far, "", &entries, &cut, &err), -1);
                assert_true(err.message[0]);
                close(pair[0]);
                close(pair[1]);
        }
}

/* --- of a session: the worker's loop, by a thread --- */

static void *carry(void *context) {
        struct sandbox_porter *porter = context;

        while (porter->client.socket >= 0) {
                struct pollfd polled = sandbox_porter_poll(porter);

                assert_int_equal(poll(&polled, 1, -1), 1);
                sandbox_porter_move(porter, &polled);
        }
        return NULL;
}

struct carried {
        char path[32];
        int folder;
        struct sandbox_porter porter;
        pthread_t thread;
        struct frame_reader worker;
        struct sandbox_workspace far;
};

static void begin_carrying(struct carried *carried) {
        struct error err;

        *carried = (struct carried){ .path = "/tmp/berth-files-XXXXXX",
                                     .porter = SANDBOX_PORTER_NONE,
                                     .worker = FRAME_READER(-1),
                                     .far = { .folder = -1, .worker = &carried->worker } };
        carried->folder = make_folder(carried->path);
        assert_int_equal(
                sandbox_porter_begin(&carried->porter, carried->folder, &carried->worker.socket, &err), 0);
        fcntl(carried->worker.socket, F_SETFL, 0);
        assert_int_equal(pthread_create(&carried->thread, NULL, carry, &carried->porter), 0);
}

static void end_carrying(struct carried *carried) {
        close(carried->worker.socket);
        pthread_join(carried->thread, NULL);
        remove_below(carried->folder);
        assert_int_equal(rmdir(carried->path), 0);
}

static void test_files_of_a_session(void **state) {
        struct carried carried;
        struct strbuf entries STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf large STRBUF_CLEANUP = STRBUF_INIT;
        int from DESCRIPTOR_CLEANUP = memfd_create("from", MFD_CLOEXEC);
        struct stat status, listed;
        struct sandbox_entry entry;
        struct error err = { 0 };
        char *text;
        bool cut;

        (void)state;
        begin_carrying(&carried);
        for (int i = 0; i < 120000; i++)
                strbuf_printf(&large, "%07d ", i);
        assert_int_equal(descriptor_write(from, large.data, large.length), 0);
        assert_int_equal(sandbox_workspace_replace(&carried.far, "deep/large", true, from, &err), 0);
        text = content_of(&carried.far, "deep/large", UINT64_MAX);
        assert_string_equal(text, large.data);
        free(text);
        assert_int_equal(ftruncate(from, 3), 0);
        assert_int_equal(sandbox_workspace_replace(&carried.far, "deep/large", false, from, &err), 0);
        assert_content(&carried.far, "deep/large", "000");
        assert_int_equal(sandbox_workspace_make_folder(&carried.far, "one/two", &err), 0);
        assert_int_equal(sandbox_workspace_remove(&carried.far, "one/two", &err), 0);
        assert_int_equal(sandbox_workspace_remove(&carried.far, "nothing", &err), 0);
        assert_int_equal(sandbox_workspace_list(&carried.far, "deep", &entries, &cut, &err), 0);
        assert_int_equal(sandbox_entry_read(entries.data, &entry), 0);
        assert_int_equal(fstatat(carried.folder, "deep/large", &listed, 0), 0);
        assert_true(entry.inode == listed.st_ino && entry.bytes == 3 && !(entry.mode & 0100) &&
                    entry.changed_ns == (int64_t)listed.st_ctim.tv_sec * 1000000000 + listed.st_ctim.tv_nsec);
        /* What fails is said, and the next question is answered. */
        assert_int_equal(mkdirat(carried.folder, "full", 0755), 0);
        write_file(carried.folder, "full/x", "x");
        assert_int_equal(symlinkat("/tmp", carried.folder, "out"), 0);
        assert_int_equal(sandbox_workspace_replace(&carried.far, "full", false, from, &err), -1);
        assert_int_equal(sandbox_workspace_replace(&carried.far, "../x", false, from, &err), -1);
        assert_int_equal(sandbox_workspace_replace(&carried.far, "out/berth-x", false, from, &err), -1);
        assert_int_equal(fstatat(AT_FDCWD, "/tmp/berth-x", &status, 0), -1);
        assert_int_equal(sandbox_workspace_remove(&carried.far, "full", &err), -1);
        assert_int_equal(sandbox_workspace_remove(&carried.far, "out/berth-x", &err), -1);
        assert_int_equal(sandbox_workspace_make_folder(&carried.far, "/tmp/berth-x", &err), -1);
        assert_int_equal(sandbox_workspace_make_folder(&carried.far, "out/berth-x", &err), -1);
        assert_content(&carried.far, "full/x", "x");
        assert_content(&carried.far, "out", NULL);
        /* Links go as what they are. */
        assert_int_equal(sandbox_workspace_replace(&carried.far, "out", false, from, &err), 0);
        assert_content(&carried.far, "out", "000");
        end_carrying(&carried);
}

/* A client that asks wrongly is heard no more; of a file that came in part nothing is left. */
static void test_questions_that_are_none(void **state) {
        static const struct {
                unsigned types[3];
                const char *bytes;
                size_t length;
        } cases[] = { { { MESSAGE_GO }, "", 0 },
                      { { MESSAGE_CONTENT }, "x", 1 },
                      { { MESSAGE_LIST }, "a\0b", 3 },
                      { { MESSAGE_REPLACE }, "-", 2 },
                      { { MESSAGE_REPLACE }, "y\0half", 7 },
                      { { MESSAGE_REPLACE, MESSAGE_CONTENT, MESSAGE_READ }, "-\0half", 7 },
                      { { MESSAGE_REPLACE, MESSAGE_REPLACE }, "-\0half", 7 } };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct carried carried;
                struct frame frame FRAME_CLEANUP = { 0 };
                struct error err = { 0 };
                struct stat status;

                begin_carrying(&carried);
                for (size_t j = 0; j < 3 && cases[i].types[j]; j++)
                        (void)!frame_send(carried.worker.socket, cases[i].types[j], cases[i].bytes,
                                          cases[i].length, NULL, 0, &err);
                assert_int_not_equal(frame_receive(&carried.worker, &frame, &err), FRAME_WHOLE);
                pthread_join(carried.thread, NULL);
                assert_int_equal(fstatat(carried.folder, "half", &status, 0), -1);
                close(carried.worker.socket);
                assert_int_equal(rmdir(carried.path), 0);
                close(carried.folder);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_by_folder_and_by_asking), cmocka_unit_test(test_entries),
                cmocka_unit_test(test_answers_that_are_none),   cmocka_unit_test(test_files_of_a_session),
                cmocka_unit_test(test_questions_that_are_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
