/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel is in an anonymous file that Python reads as its first program: nothing of ours lies in the sandbox's file
 * system, where user code could change it for the next kernel. The socket is 3, the file 4; the kernel closes the one and
 * keeps the other from its children.
 *
 * Python 3.13 imports linecache before the program of its -c, from the folder that it was started in, or from PYTHONPATH. So it starts
 * in /, and without that variable: no file of the user's is taken for that module. The program goes to the working folder, which is
 * descriptor 5, and puts the variable and its folders back, which the kernel does not import from for itself.
 *
 * In the file is the kernel twice: as the Python of the machine that built us has compiled it (compile.py), which the same Python need
 * not do again, and as source. Behind it lies notebook.py, which a kernel keeps as these bytes until something of it is needed. All are
 * compressed; eight digits say how long each is but the last.
 *
 * Pipes go to the kernel as descriptors beside a message. Nothing is received but bytes: descriptors that come back are dropped
 * by the kernel (of the machine), since recv(2) has no room for them.
 */
#include "runtime/serve/kernel.h"

#include "base/arena.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define USERS_PATH "PYTHONPATH="
#define HIDDEN_PATH "BERTH_PYTHONPATH=" /* no variable of the user's begins so */

/* Bytes that are gone and still take room. */
#define SENT_MAX ((size_t)1 << 20)

/* Python of another age says so in words that it understands; 78 is EX_CONFIG of sysexits.h. */
static const char program[] =
        "import posix, sys\n"
        "if sys.version_info < (3, 8):\n"
        "    sys.stderr.write('Berth needs Python 3.8 or newer, and this is ' + sys.version + '\\n')\n"
        "    sys.exit(78)\n"
        "posix.fchdir(5)\n"
        "posix.close(5)\n"
        "import os\n" /* which Python has loaded by itself */
        "own = [entry for entry in sys.path if entry]\n"
        "path = os.environ.pop('BERTH_PYTHONPATH', None)\n"
        "if path is not None:\n"
        "    os.environ['PYTHONPATH'] = path\n"
        "    path = list(dict.fromkeys(os.path.abspath(entry) for entry in path.split(':'))) if path else []\n"
        "    at = len(sys.path) - len(own)\n"
        "    sys.path[at:at] = path\n"
        "    from _frozen_importlib_external import PathFinder\n"
        "    if PathFinder.find_spec('sitecustomize', path):\n"
        "        import site\n"
        "        sys.modules.pop('sitecustomize', None)\n"
        "        site.execsitecustomize()\n"
        "from _frozen_importlib_external import MAGIC_NUMBER as magic\n"
        "path = sys.path[:]\n"
        "sys.path[:] = own\n"
        "import zlib\n"
        "kernel = open(4, 'rb').read()\n"
        "end = 40 + int(kernel[:8])\n"
        "notebook = end + 8 + int(kernel[end:end + 8])\n"
        "own_names = {'__name__': '<berth kernel>', '__builtins__': dict(vars(__builtins__)), 'own_path': own,\n"
        "             'own_notebook': kernel[notebook:]}\n"
        "if kernel[8:40].decode().rstrip() == magic.hex() + ' ' + str(sys.implementation.cache_tag):\n"
        "    import marshal\n"
        "    kernel = marshal.loads(zlib.decompress(kernel[40:end]))\n"
        "else:\n"
        "    kernel = compile(zlib.decompress(kernel[end + 8:notebook], 31), '<berth kernel>', 'exec')\n"
        "sys.path[:] = path\n"
        "exec(kernel, own_names)\n";

static int source_file(struct error *err) {
        int file = memfd_create("kernel.py", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (file < 0 || descriptor_write(file, kernel_compiled, kernel_compiled_size) < 0 ||
            dprintf(file, "%08zu", kernel_source_size) < 0 ||
            descriptor_write(file, kernel_source, kernel_source_size) < 0 ||
            descriptor_write(file, notebook_source, notebook_source_size) < 0 ||
            lseek(file, 0, SEEK_SET) < 0 ||
            fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
                (void)error_set(err, "no memory for the kernel's source: %s", strerror(errno));
                close_descriptor(&file);
        }
        return file;
}

int kernel_start_process(const struct process_args *args, size_t memory_max, struct process *ret,
                         struct error *err) {
        struct rlimit before, limited;
        int result;

        if (getrlimit(RLIMIT_DATA, &before) < 0)
                return error_set(err, "cannot read the limit of data: %s", strerror(errno));
        limited = before;
        if (memory_max > 0 && memory_max < before.rlim_max)
                limited.rlim_cur = memory_max;
        /* Ours for a moment, since it is inherited: nothing is allocated meanwhile but by posix_spawn(3), which needs little. */
        (void)setrlimit(RLIMIT_DATA, &limited);
        result = process_start(args, ret, err);
        (void)setrlimit(RLIMIT_DATA, &before);
        /* Else its group would be killed when it is reaped, and with it what was left behind. */
        ret->leads_group = false;
        return result;
}

/* For Python as it begins: the folders of its modules under a name that it does not know. */
static const char *const *hide_path(const char *const *environment, struct arena *arena) {
        const char **words;
        size_t count = 0;

        while (environment[count])
                count++;
        words = arena_array(arena, count + 1, sizeof(*words));
        for (size_t i = 0; i < count; i++) {
                const char *word = environment[i];

                words[i] = strncmp(word, USERS_PATH, strlen(USERS_PATH)) == 0
                                   ? arena_printf(arena, HIDDEN_PATH "%s", word + strlen(USERS_PATH))
                                   : word;
        }
        words[count] = NULL;
        return words;
}

int kernel_start(const struct kernel_args *args, struct kernel *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int source DESCRIPTOR_CLEANUP = source_file(err), folder DESCRIPTOR_CLEANUP = -1,
                   ours DESCRIPTOR_CLEANUP = -1, theirs DESCRIPTOR_CLEANUP = -1, pair[2];
        const char *words[] = { "python3", "-c", program, NULL }, *python = args->python;
        struct kernel kernel = KERNEL_NONE;

        if (source < 0)
                return -1;
        folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0)
                return error_set(err, "a kernel cannot be in the working folder: %s", strerror(errno));
        /* As it is found from here. Python looks for its own modules beside what it is called. */
        if (*python != '/') {
                char here[PATH_MAX];

                if (!getcwd(here, sizeof(here)))
                        return error_set(err, "the working folder has no path: %s", strerror(errno));
                words[0] = python = arena_printf(arena, "%s/%s", here, python);
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, "no socket for a kernel: %s", strerror(errno));
        ours = pair[0];
        theirs = pair[1];
        if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
                return error_set(err, "no socket for a kernel: %s", strerror(errno));
        {
                const struct process_args process = {
                        .arguments = words,
                        .program = python,
                        .environment = hide_path(args->environment, arena),
                        .folder = "/",
                        .group = PROCESS_OWN_SESSION,
                        .descriptors = { { args->output, 1 },
                                         { args->errors, 2 },
                                         { theirs, 3 },
                                         { source, 4 },
                                         { folder, 5 } },
                        .descriptor_count = 5,
                };

                if (kernel_start_process(&process, args->memory_max, &kernel.process, err) < 0)
                        return -1;
        }
        kernel.socket = ours;
        ours = -1;
        *ret = kernel;
        return 0;
}

bool kernel_is_behind(const struct kernel *kernel) {
        return kernel->sent < kernel->unsent.length;
}

size_t kernel_backlog(const struct kernel *kernel) {
        return kernel->unsent.length - kernel->sent;
}

static void close_pipes(struct kernel *kernel) {
        close_descriptor(&kernel->pipes[0]);
        close_descriptor(&kernel->pipes[1]);
}

/* A kernel that is always a little behind would have all that it ever got kept. Bytes are moved once more were sent than are left. */
static void forget_what_was_sent(struct kernel *kernel) {
        size_t left = kernel_backlog(kernel);

        if (kernel->sent < SENT_MAX || kernel->sent < left)
                return;
        memmove(kernel->unsent.data, kernel->unsent.data + kernel->sent, left);
        kernel->unsent.length = left;
        if (kernel->pipes[0] >= 0)
                kernel->pipes_at -= kernel->sent;
        kernel->sent = 0;
}

/* Up to the byte that the pipes go with, and then on from it: each call sends from one side of it only. */
void kernel_send_more(struct kernel *kernel) {
        while (kernel_is_behind(kernel)) {
                union {
                        struct cmsghdr header;
                        char space[CMSG_SPACE(2 * sizeof(int))];
                } control = { .space = { 0 } };
                bool with_pipes = kernel->pipes[0] >= 0 && kernel->sent == kernel->pipes_at;
                size_t end = kernel->pipes[0] >= 0 && !with_pipes ? kernel->pipes_at : kernel->unsent.length;
                struct iovec part = { kernel->unsent.data + kernel->sent, end - kernel->sent };
                struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
                ssize_t sent;

                if (with_pipes) {
                        size_t bytes = kernel->pipes[1] >= 0 ? 2 * sizeof(int) : sizeof(int);

                        message.msg_control = control.space;
                        message.msg_controllen = (socklen_t)CMSG_SPACE(bytes);
                        control.header.cmsg_level = SOL_SOCKET;
                        control.header.cmsg_type = SCM_RIGHTS;
                        control.header.cmsg_len = (socklen_t)CMSG_LEN(bytes);
                        memcpy(CMSG_DATA(&control.header), kernel->pipes, bytes);
                }
                sent = sendmsg(kernel->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                        forget_what_was_sent(kernel);
                        return;
                }
                if (sent < 0) /* it has closed: the rest is dropped, and its end will be seen */
                        kernel->sent = kernel->unsent.length;
                else
                        kernel->sent += (size_t)sent;
                if (with_pipes || sent < 0)
                        close_pipes(kernel);
        }
        strbuf_clear(&kernel->unsent);
        kernel->sent = 0;
}

void kernel_send(struct kernel *kernel, const json_t *head, const void *body, size_t length,
                 const int *pipes) {
        if (pipes) {
                if (kernel->pipes[0] >= 0)
                        abort();
                kernel->pipes[0] = pipes[0];
                kernel->pipes[1] = pipes[1];
                kernel->pipes_at = kernel->unsent.length;
        }
        message_write(&kernel->unsent, head, body, length);
        kernel_send_more(kernel);
}

static size_t still_missing(const struct message_reader *reader) {
        if (reader->lengths_come < sizeof(reader->lengths))
                return sizeof(reader->lengths) - reader->lengths_come;
        return reader->head_length - reader->head.length + reader->body_length - reader->body.length;
}

bool kernel_has_ahead(const struct kernel *kernel) {
        return kernel->ahead_at < kernel->ahead_length;
}

/* A long message is read by itself, so that no more than a little of the next one has to be kept. */
int kernel_receive(struct kernel *kernel, struct message *ret, struct error *err) {
        char bytes[65536];

        for (;;) {
                size_t wanted = still_missing(&kernel->reader), used = 0;
                bool is_long = wanted > sizeof(kernel->ahead);
                ssize_t count;
                int answer;

                if (kernel_has_ahead(kernel)) {
                        answer = message_read(&kernel->reader, kernel->ahead + kernel->ahead_at,
                                              kernel->ahead_length - kernel->ahead_at, &used, ret, err);
                        kernel->ahead_at += used;
                        if (answer != MESSAGE_MORE)
                                return answer;
                        continue;
                }
                count = recv(kernel->socket, is_long ? bytes : kernel->ahead,
                             !is_long                 ? sizeof(kernel->ahead)
                             : wanted < sizeof(bytes) ? wanted
                                                      : sizeof(bytes),
                             0);
                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return KERNEL_WAIT;
                if (count <= 0)
                        return KERNEL_CLOSED;
                if (!is_long) {
                        kernel->ahead_at = 0;
                        kernel->ahead_length = (size_t)count;
                        continue;
                }
                answer = message_read(&kernel->reader, bytes, (size_t)count, &used, ret, err);
                if (answer != MESSAGE_MORE)
                        return answer;
        }
}

void kernel_interrupt(const struct kernel *kernel) {
        if (!KERNEL_IS_DEAD(kernel) && kernel->ready)
                (void)kill(kernel->process.pid, SIGINT);
}

struct process_status kernel_reap(struct kernel *kernel) {
        struct process_status status = process_reap(&kernel->process);

        close_descriptor(&kernel->socket);
        close_pipes(kernel);
        message_reader_release(&kernel->reader);
        strbuf_release(&kernel->unsent);
        *kernel = (struct kernel)KERNEL_NONE;
        return status;
}
