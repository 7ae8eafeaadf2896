/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input from the other side of a sandbox's sockets: the bytes are a peer's, as they are, to a
 * reader of frames. Whatever is a frame is read as each message that it could be: of a worker's
 * client and keeper, of a worker, of a launcher's client, of a launcher; a file that is put in, and
 * a list of files that come out. And all of them are a client's questions about the files of a
 * session.
 */
#include "parts.h"
#include "process/frame.h"
#include "process/identity.h"
#include "providers/local/sandbox/sandbox_files.h"
#include "providers/local/sandbox/sandbox_messages.h"
#include "providers/local/sandbox/sandbox_porter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A message that was read is written and read again, and must be as it was. */
static void again(const struct strbuf *first, const struct strbuf *second) {
        if (first->length != second->length || memcmp(first->data, second->data, first->length) != 0)
                abort();
}

static void read_all(const struct frame *frame, struct arena *arena) {
        struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
        const char *bytes = frame->payload.data, *end;
        size_t length = frame->payload.length, count;
        struct sandbox_placing placing;
        struct sandbox_starting starting;
        struct sandbox_running running;
        struct sandbox_ending ending;
        struct sandbox_started started;
        struct sandbox_measured measured;
        struct sandbox_keeping keeping;
        struct sandbox_family family;
        struct sandbox_entry entry;
        uint64_t number, again_number;
        struct process_identity identity;
        const char *const *words, *name, *to, *after, **names;
        size_t name_count;
        struct error err;

        if (sandbox_placing_read(bytes, length, arena, &placing, &err) == 0) {
                sandbox_placing_write(&placing, &first);
                if (sandbox_placing_read(first.data, first.length, arena, &placing, &err) < 0)
                        abort();
                sandbox_placing_write(&placing, &second);
                again(&first, &second);
        }
        strbuf_clear(&first);
        strbuf_clear(&second);
        if (sandbox_starting_read(bytes, length, arena, &starting, &err) == 0) {
                if ((starting.image && strpbrk(starting.image, "./")) ||
                    (starting.name && strpbrk(starting.name, "./")) ||
                    (starting.family.name && strpbrk(starting.family.name, "./-")))
                        abort();
                sandbox_starting_write(&starting, &first);
                if (sandbox_starting_read(first.data, first.length, arena, &starting, &err) < 0)
                        abort();
                sandbox_starting_write(&starting, &second);
                again(&first, &second);
        }
        strbuf_clear(&first);
        if (sandbox_running_read(bytes, length, arena, &running, &err) == 0) {
                for (size_t i = 0; i < running.file_count; i++) {
                        if (strchr(running.files[i], '/'))
                                abort();
                }
                sandbox_running_write(&running, &first);
                if (sandbox_running_read(first.data, first.length, arena, &running, &err) < 0)
                        abort();
        }
        strbuf_clear(&first);
        if (sandbox_ending_read(bytes, length, &ending, &err) == 0) {
                sandbox_ending_write(&ending, &first);
                if (sandbox_ending_read(first.data, first.length, &ending, &err) < 0)
                        abort();
        }
        strbuf_clear(&first);
        if (sandbox_started_read(bytes, length, arena, &started, &err) == 0) {
                sandbox_started_write(&started, &first);
                if (sandbox_started_read(first.data, first.length, arena, &started, &err) < 0)
                        abort();
        }
        strbuf_clear(&first);
        if (sandbox_measured_read(bytes, length, &measured, &err) == 0) {
                sandbox_measured_write(&measured, &first);
                if (sandbox_measured_read(first.data, first.length, &measured, &err) < 0)
                        abort();
        }
        strbuf_clear(&first);
        if (sandbox_number_read(bytes, length, &number, &err) == 0) {
                sandbox_number_write(number, &first);
                if (sandbox_number_read(first.data, first.length, &again_number, &err) < 0 ||
                    number != again_number)
                        abort();
        }
        strbuf_clear(&first);
        if (sandbox_name_read(bytes, length, arena, &name, &err) == 0) {
                sandbox_name_write(name, &first);
                if (strpbrk(name, "./") ||
                    sandbox_name_read(first.data, first.length, arena, &name, &err) < 0)
                        abort();
        }
        strbuf_clear(&first);
        if (sandbox_renaming_read(bytes, length, arena, &name, &to, &err) == 0) {
                sandbox_renaming_write(name, to, &first);
                if (strpbrk(name, "./") || strpbrk(to, "./") ||
                    sandbox_renaming_read(first.data, first.length, arena, &name, &to, &err) < 0)
                        abort();
        }
        strbuf_clear(&first);
        strbuf_clear(&second);
        if (sandbox_keeping_read(bytes, length, arena, &keeping, &err) == 0) {
                if (strpbrk(keeping.name, "./"))
                        abort();
                sandbox_keeping_write(&keeping, &first);
                if (sandbox_keeping_read(first.data, first.length, arena, &keeping, &err) < 0)
                        abort();
                sandbox_keeping_write(&keeping, &second);
                again(&first, &second);
        }
        strbuf_clear(&first);
        strbuf_clear(&second);
        if (sandbox_after_read(bytes, length, arena, &after, &err) == 0) {
                if (strpbrk(after, "./"))
                        abort();
                sandbox_after_write(after, &first);
                if (sandbox_after_read(first.data, first.length, arena, &after, &err) < 0)
                        abort();
                sandbox_after_write(after, &second);
                again(&first, &second);
        }
        strbuf_clear(&first);
        strbuf_clear(&second);
        if (sandbox_names_read(bytes, length, arena, &names, &name_count, &err) == 0) {
                for (size_t i = 0; i < name_count; i++) {
                        if (strpbrk(names[i], "./"))
                                abort();
                }
                sandbox_names_write(names, name_count, &first);
                if (sandbox_names_read(first.data, first.length, arena, &names, &name_count, &err) < 0)
                        abort();
                sandbox_names_write(names, name_count, &second);
                again(&first, &second);
        }
        strbuf_clear(&first);
        strbuf_clear(&second);
        if (sandbox_family_read(bytes, length, arena, &family, &err) == 0) {
                sandbox_family_write(&family, &first);
                if (sandbox_family_read(first.data, first.length, arena, &family, &err) < 0)
                        abort();
                sandbox_family_write(&family, &second);
                again(&first, &second);
        }
        if (sandbox_words_read(bytes, length, arena, &words, &count, &err) == 0) {
                if (words[count])
                        abort();
                for (size_t i = 0; i < count; i++) {
                        if (sandbox_entry_read(words[i], &entry) == 0 &&
                            (!*entry.name || strchr(entry.name, '/') || strcmp(entry.name, "..") == 0))
                                abort();
                }
        }
        (void)identity_read(strbuf_text(&frame->payload), &identity, &end);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at) {
        (void)status;
        (void)type;
        return at->level > 0 ? remove(path) : 0;
}

static unsigned count_names(const char *path) {
        DIR *folder = opendir(path);
        unsigned count = 0;

        while (folder && readdir(folder))
                count++;
        if (folder)
                closedir(folder);
        return count;
}

/*
 * Must hold after each input: nothing was made or removed beside the folder. ".", ".." and the two
 * folders.
 */
static void check_outside(void) {
        if (count_names(scratch_folder()) != 4)
                abort();
}

/*
 * The folders are made once: their content is made again only after an input that may have changed
 * it.
 */
static int open_folder(const char *name) {
        static const char *const names[] = { "put", "asked" };
        char path[256];
        int folder;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", scratch_folder(), names[i]);
                if (mkdir(path, 0700) < 0 && errno != EEXIST)
                        abort();
        }
        snprintf(path, sizeof(path), "%s/%s", scratch_folder(), name);
        folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0)
                abort();
        return folder;
}

static void empty_folder(const char *name) {
        char path[256];

        snprintf(path, sizeof(path), "%s/%s", scratch_folder(), name);
        if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
                abort();
}

/* Whatever file is put in, what is made stays in the folder. */
static void put(struct frame *frame) {
        static int folder = -1;
        struct error err = { 0 };
        int pair[2];

        if (frame->type != MESSAGE_PUT || frame->count > 0)
                return;
        if (folder < 0)
                folder = open_folder("put");
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                abort();
        frame->descriptors[frame->count++] = memfd_create("put", MFD_CLOEXEC);
        if (sandbox_files_receive(folder, pair[0], frame, &err) < 0) {
                if (!err.message[0])
                        abort();
        }
        close(pair[0]);
        close(pair[1]);
        check_outside();
        empty_folder("put");
}

static void fill_folder(int folder) {
        if (mkdirat(folder, "deep", 0700) < 0 || symlinkat("../..", folder, "link") < 0 ||
            mkfifoat(folder, "deep/fifo", 0600) < 0)
                abort();
}

/* Whatever is asked: what was not asked whole leaves nothing behind, and it ends. `changes`: something of it may make or remove. */
static void ask_porter(const uint8_t *data, size_t size, bool changes) {
        static int folder = -1;
        struct sandbox_porter porter = SANDBOX_PORTER_NONE;
        static char answers[65536];
        struct error err;
        int socket;

        if (folder < 0) {
                folder = open_folder("asked");
                fill_folder(folder);
        }
        if (sandbox_porter_begin(&porter, folder, &socket, &err) < 0)
                abort();
        if (size > 0 && write(socket, data, size) < 0 && size < 100000)
                abort();
        shutdown(socket, SHUT_WR);
        while (porter.client.socket >= 0) {
                struct pollfd polled = sandbox_porter_poll(&porter);

                if (poll(&polled, 1, -1) == 1)
                        sandbox_porter_move(&porter, &polled);
                while (read(socket, answers, sizeof(answers)) > 0)
                        ;
        }
        sandbox_porter_end(&porter);
        close(socket);
        if (!changes)
                return;
        check_outside();
        empty_folder("asked");
        fill_folder(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct arena *arena = arena_new();
        struct error err = { 0 };
        struct frame frame;
        struct frame_reader reader = FRAME_READER(-1);
        bool changes = false;
        int pair[2], answer;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                abort();
        reader.socket = pair[1];
        if (size > 0 && write(pair[0], data, size) < 0 && size < 100000)
                abort();
        close(pair[0]);
        while ((answer = frame_receive(&reader, &frame, &err)) == FRAME_WHOLE) {
                read_all(&frame, arena);
                changes |= frame.type == MESSAGE_REPLACE || frame.type == MESSAGE_FOLDER ||
                           frame.type == MESSAGE_REMOVE;
                put(&frame);
                frame_release(&frame);
        }
        /* A peer that has closed is noticed, and a peer that spoke badly is told apart. */
        if (answer == FRAME_WAIT || (answer < 0 && !err.message[0]))
                abort();
        frame_reader_release(&reader);
        close(pair[1]);
        arena_free(arena);
        ask_porter(data, size, changes);
        return 0;
}
