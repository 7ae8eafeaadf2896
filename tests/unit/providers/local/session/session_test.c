/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in real sandboxes. The worker is this very program, started again: main() takes its
 * verb. Skipped where the machine cannot.
 */
#include "providers/local/session/session.h"

#include "base/libc.h"
#include "base/strbuf.h"
#include "providers/local/sandbox/sandbox_worker.h"
#include "providers/local/session/session_parts.h"
#include "sessions/workspace.h"
#include "sessions/workspace_stage.h"

#include "folder.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define LONG_MS 120000
#define DAY_MS (INT64_C(24) * 3600 * 1000)

struct lab {
        char folder[sizeof(FOLDER_TEMPLATE)];
        char root[64], sockets[64], files[128]; /* the last is the durable workspace */
        const char *owner, *staged;             /* the latter: what comes with executions */
        struct place *place;
        struct place_session *session;
        struct place_checkpoint checkpoint; /* that it is opened with; without a digest: none */
        struct strbuf output;               /* of the execution that ran last */
        struct strbuf listed;               /* "changed a, deleted b, ": its files */
        struct place_event done;            /* only numbers of it are there */
        char text[4096];                    /* of it: value, error and detail */
};

static void make_folder(const char *path) {
        assert_int_equal(mkdir(path, 0700), 0);
}

/* The runtime lies in the build folder, and this program in a folder below it. */
static struct place *open_place(const struct lab *lab) {
        char program[4096];
        ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
        struct session_place_config config = {
                .root = lab->root, .folder = lab->sockets, .runtime = program, .accept_degraded = true
        };
        struct place *place;
        struct error err = { 0 };

        assert_true(length > 0);
        program[length] = '\0';
        for (int i = 0; i < 3; i++)
                *strrchr(program, '/') = '\0';
        strcat(program, "/berth-runtime");
        if (session_place_open(&config, &place, &err) < 0)
                fail_msg("%s", err.message);
        return place;
}

static int setup(void **state) {
        struct lab *lab = calloc(1, sizeof(*lab));
        char path[128];

        folder_make_temporary(lab->folder);
        snprintf(lab->root, sizeof(lab->root), "%s/lab", lab->folder);
        snprintf(lab->sockets, sizeof(lab->sockets), "%s/run", lab->folder);
        make_folder(lab->root);
        snprintf(path, sizeof(path), "%s/environments", lab->root);
        make_folder(path);
        folder_write(
                path, "box.json",
                "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"kind\": \"Environment\", \"name\": \"box\", "
                "\"spec\": {\"memoryMB\": 512, \"workspaceStorageMB\": 64, \"timeoutSeconds\": 60, "
                "\"image\": {\"prebuilt\": \"python\"}, \"variables\": {\"PLAIN\": \"a\"}}}");
        lab->place = open_place(lab);
        *state = lab;
        return 0;
}

static int teardown(void **state) {
        struct lab *lab = *state;
        struct error err;

        lab->place->class->leave(lab->session);
        (void)!lab->place->class->clear(lab->place, "s-one", &err);
        lab->place->class->close(lab->place);
        assert_int_equal(access(lab->sockets, F_OK), -1);
        strbuf_release(&lab->output);
        strbuf_release(&lab->listed);
        folder_remove(lab->folder);
        free(lab);
        return 0;
}

/* The next thing that happens; waits for it. */
static struct place_event await(struct lab *lab) {
        const struct place_class *class = lab->place->class;
        struct place_event event;
        struct error err = { 0 };

        for (;;) {
                struct pollfd polled = { .fd = class->descriptor(lab->session), .events = POLLIN };
                int64_t patience = class->patience_ms(lab->session);

                if (class->next(lab->session, &event, &err) < 0)
                        fail_msg("%s", err.message);
                if (event.type != PLACE_NOTHING)
                        return event;
                if (patience < 0 || patience > LONG_MS)
                        patience = LONG_MS;
                if (poll(&polled, 1, (int)patience) == 0 && patience == LONG_MS)
                        fail_msg("nothing happened");
        }
}

static int open_session(struct lab *lab, bool only_living, int64_t running, struct error *err) {
        struct place_opening opening = { .id = "s-one",
                                         .environment = "box",
                                         .owner = lab->owner,
                                         .checkpoint = lab->checkpoint.digest[0] ? &lab->checkpoint : NULL,
                                         .ttl_ms = DAY_MS,
                                         .only_living = only_living,
                                         .running = running,
                                         .running_ms = running ? LONG_MS : 0 };

        return lab->place->class->open(lab->place, &opening, &lab->session, err);
}

static void must_open(struct lab *lab, bool only_living, int64_t running) {
        struct error err = { 0 };

        if (open_session(lab, only_living, running, &err) < 0)
                fail_msg("%s", err.message);
}

/* Skips where no sandbox can be had. */
static void begin(struct lab *lab) {
        struct place_event event = { .type = PLACE_ENDED };
        struct error err = { 0 };

        if (open_session(lab, false, 0, &err) == 0)
                event = await(lab);
        if (event.type == PLACE_ENDED) {
                print_message("no sandbox can be made here: %s\n", event.reason ? event.reason : err.message);
                skip();
        }
        assert_int_equal(event.type, PLACE_OPENED);
        assert_false(event.kept);
}

static void ask(struct lab *lab, int64_t n, const char *code, enum request_language language,
                int64_t timeout_ms) {
        struct place_execution execution = { .n = n,
                                             .staged = lab->staged,
                                             .language = language,
                                             .context = "main",
                                             .code = code,
                                             .code_length = strlen(code),
                                             .timeout_ms = timeout_ms };
        struct error err = { 0 };

        if (lab->place->class->execute(lab->session, &execution, &err) < 0)
                fail_msg("%s", err.message);
}

static void list(struct lab *lab, const char *what, struct place_file_list files) {
        for (size_t i = 0; i < files.count; i++)
                strbuf_printf(&lab->listed, "%s %s, ", what, files.items[i].path);
}

/* To the end of an execution. */
static const struct place_event *hear(struct lab *lab, int64_t n) {
        for (;;) {
                struct place_event event = await(lab);

                if (event.type == PLACE_OUTPUT)
                        strbuf_append_bytes(&lab->output, event.bytes, event.length);
                if (event.type == PLACE_ENDED)
                        fail_msg("the sandbox ended: %s", event.reason);
                if (event.type != PLACE_DONE)
                        continue;
                assert_int_equal(event.n, n);
                lab->done = event;
                strbuf_clear(&lab->listed);
                list(lab, "changed", event.changed);
                list(lab, "deleted", event.deleted);
                list(lab, "conflict", event.conflict);
                list(lab, "skipped", event.skipped);
                snprintf(lab->text, sizeof(lab->text), "%s|%s|%s", event.value.type ? event.value.text : "",
                         event.error.name ? event.error.name : "", event.detail ? event.detail : "");
                lab->place->class->heard(lab->session, event.id);
                return &lab->done;
        }
}

static const struct place_event *run(struct lab *lab, int64_t n, const char *code) {
        strbuf_clear(&lab->output);
        ask(lab, n, code, REQUEST_PYTHON, LONG_MS);
        return hear(lab, n);
}

static bool text_has(const struct lab *lab, const char *part) {
        return strstr(lab->text, part) != NULL;
}

static void must_end(struct lab *lab) {
        struct place_event event;

        lab->place->class->end(lab->session);
        do
                event = await(lab);
        while (event.type != PLACE_ENDED);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
}

static size_t names_in(const char *path) {
        DIR *folder = opendir(path);
        size_t count = 0;

        assert_non_null(folder);
        for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
                count += entry->d_name[0] != '.';
        closedir(folder);
        return count;
}

static void test_variables_stay(void **state) {
        struct lab *lab = *state;

        begin(lab);
        assert_int_equal(
                run(lab, 1, "import os\nx = 20\nprint(os.getcwd(), os.environ['PLAIN'])\nx + 1")->status,
                REPORT_OK);
        assert_string_equal(strbuf_text(&lab->output), "/workspace a\n");
        assert_true(text_has(lab, "21|"));
        assert_int_equal(run(lab, 2, "x * 2")->status, REPORT_OK);
        assert_true(text_has(lab, "40|"));
        assert_int_equal(run(lab, 3, "1 / 0")->status, REPORT_ERROR);
        assert_true(text_has(lab, "ZeroDivisionError"));
        strbuf_clear(&lab->output);
        ask(lab, 4, "echo $PLAIN; exit 3", REQUEST_SHELL, LONG_MS);
        assert_int_equal(hear(lab, 4)->status, REPORT_ERROR);
        assert_int_equal(lab->done.exit_code, 3);
        assert_string_equal(strbuf_text(&lab->output), "a\n");
        must_end(lab);
        assert_int_equal(names_in(lab->sockets), 0);
}

static void test_what_takes_long_is_stopped(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        begin(lab);
        ask(lab, 1, "import time\nx = 1\nprint('on')\ntime.sleep(600)", REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_OUTPUT);
        lab->place->class->interrupt(lab->session, 1);
        assert_int_equal(hear(lab, 1)->status, REPORT_INTERRUPTED);
        ask(lab, 2, "time.sleep(600)", REQUEST_PYTHON, 200);
        assert_int_equal(hear(lab, 2)->status, REPORT_TIMEOUT);
        assert_int_equal(run(lab, 3, "x")->status, REPORT_OK);
        assert_true(text_has(lab, "1|"));
        must_end(lab);
}

/* A server, killed in the middle of an execution; the one after it hears all of it, and the variables are there. */
static void test_found_again(void **state) {
        struct lab *lab = *state;
        struct place_event event;
        struct error err = { 0 };
        int status, pipes[2];
        pid_t server;
        char byte;

        begin(lab);
        assert_int_equal(run(lab, 1, "x = 'kept'")->status, REPORT_OK);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        assert_int_equal(pipe(pipes), 0);
        server = fork();
        assert_true(server >= 0);
        if (server == 0) {
                must_open(lab, true, 0);
                do
                        event = await(lab);
                while (event.type != PLACE_OPENED);
                ask(lab, 2,
                    "import os, time\nos.write(1, b'first\\n')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)\nprint('last')\nx",
                    REQUEST_PYTHON, LONG_MS);
                do
                        event = await(lab);
                while (event.type != PLACE_OUTPUT);
                (void)!write(pipes[1], "+", 1);
                pause();
                _exit(1);
        }
        close(pipes[1]);
        assert_int_equal(read(pipes[0], &byte, 1), 1);
        close(pipes[0]);
        kill(server, SIGKILL);
        assert_int_equal(waitpid(server, &status, 0), server);

        must_open(lab, true, 2);
        event = await(lab);
        assert_int_equal(event.type, PLACE_OPENED);
        assert_true(event.kept);
        assert_int_equal(event.last, 2);
        strbuf_clear(&lab->output);
        event = await(lab);
        assert_int_equal(event.type, PLACE_STARTED);
        assert_int_equal(event.was, PLACE_KEPT);
        lab->place->class->interrupt(lab->session, 1); /* has ended: nothing */
        lab->place->class->interrupt(lab->session, 2);
        assert_int_equal(hear(lab, 2)->status, REPORT_INTERRUPTED);
        assert_string_equal(strbuf_text(&lab->output), "first\n");
        assert_int_equal(run(lab, 3, "x")->status, REPORT_OK);
        assert_true(text_has(lab, "'kept'|"));
        /*
         * Output that was not heard is told again to the next client, and output that was heard is
         * not.
         */
        strbuf_clear(&lab->output);
        ask(lab, 4, "print('unheard')", REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        lab->place->class->leave(lab->session);
        must_open(lab, true, 4);
        assert_int_equal(await(lab).last, 4);
        assert_int_equal(hear(lab, 4)->status, REPORT_OK);
        assert_string_equal(strbuf_text(&lab->output), "unheard\n");
        must_end(lab);
        assert_int_equal(names_in(lab->sockets), 0);
        {
                struct place_opening gone = {
                        .id = "s-one", .environment = "box", .ttl_ms = DAY_MS, .only_living = true
                };

                assert_int_equal(lab->place->class->open(lab->place, &gone, &lab->session, &err), -1);
                assert_int_equal(err.kind, ERROR_NOT_FOUND);
        }
}

/* A server that died between an end that it wrote and the word that it heard it: the next execution may be asked for at once. */
static void test_what_had_ended_is_not_in_the_way(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        begin(lab);
        assert_int_equal(run(lab, 1, "x = 41")->status, REPORT_OK);
        ask(lab, 2, "print('unheard')", REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        for (int64_t n = 3; n <= 4; n++) {
                lab->place->class->leave(lab->session);
                must_open(lab, true, 0);
                event = await(lab);
                assert_int_equal(event.type, PLACE_OPENED);
                assert_int_equal(event.last, n - 1);
                assert_int_equal(run(lab, n, "x + 1")->status, REPORT_OK);
                assert_true(text_has(lab, "42|"));
                assert_string_equal(strbuf_text(&lab->output), "");
        }
        must_end(lab);
}

/* The runtime below that process, which is the only child of an only child, as its worker's host sees it. */
static pid_t runtime_below(pid_t pid) {
        static const char runtime[] = "/run/berth/berth-runtime";

        for (int depth = 0; depth < 8; depth++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                char path[64];
                struct error err;

                snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
                assert_int_equal(file_read(path, 4096, &text, &err), 0);
                if (strncmp(strbuf_text(&text), runtime, strlen(runtime)) == 0)
                        return pid;
                strbuf_clear(&text);
                snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
                assert_int_equal(file_read(path, 4096, &text, &err), 0);
                pid = (pid_t)strtol(strbuf_text(&text), NULL, 10);
        }
        fail_msg("no runtime");
        return -1;
}

/* The runtime is process 1 of its sandbox: the kernel gives it no deadly signal of the code's. */
static void test_code_cannot_kill_its_runtime(void **state) {
        struct lab *lab = *state;

        begin(lab);
        assert_int_equal(
                run(lab, 1,
                    "import os, signal\n"
                    "for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM): os.kill(os.getppid(), number)\n"
                    "os.getppid(), 41")
                        ->status,
                REPORT_OK);
        assert_true(text_has(lab, "(1, 41)"));
        assert_int_equal(run(lab, 2, "42")->status, REPORT_OK);
        assert_true(text_has(lab, "42"));
}

/* What ran is said to be cut off. */
static void test_a_runtime_that_is_killed(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        begin(lab);
        ask(lab, 1, "import time\nprint('on')\ntime.sleep(600)", REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_OUTPUT);
        assert_int_equal(kill(runtime_below(lab->session->lasting.worker.pid), SIGKILL), 0);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        assert_int_equal(event.status, REPORT_KILLED);
        assert_int_equal(event.exit_code, -1);
        assert_int_equal(await(lab).type, PLACE_ENDED);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        assert_int_equal(names_in(lab->sockets), 0);
}

/* A runtime that is stopped says nothing any more: the sandbox is killed, and the deadline named as the reason. */
static void test_a_runtime_that_stands_still(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        begin(lab);
        ask(lab, 1, "import time\nprint('on')\ntime.sleep(600)", REQUEST_PYTHON, 8000);
        do
                event = await(lab);
        while (event.type != PLACE_OUTPUT);
        assert_int_equal(kill(runtime_below(lab->session->lasting.worker.pid), SIGSTOP), 0);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        assert_int_equal(event.status, REPORT_TIMEOUT);
        assert_int_equal(await(lab).type, PLACE_ENDED);
}

/* Code that writes where the runtime does is its voice. */
static void test_a_runtime_that_lies(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        begin(lab);
        ask(lab, 1,
            "import os, struct, json\n"
            "head = json.dumps({'type': 'done', 'n': 7, 'status': 'ok', 'exitCode': 0, 'value': None, 'error': None, "
            "'ended': None, 'detail': None, 'wallMs': 1, 'stdoutBytes': 0, 'stderrBytes': 0, 'displaysDropped': 0, 'left': 0}).encode()\n"
            "for number in os.listdir(f'/proc/{os.getppid()}/fd'):\n"
            "    try:\n"
            "        os.write(os.open(f'/proc/{os.getppid()}/fd/{number}', os.O_WRONLY | os.O_NONBLOCK), struct.pack('>II', len(head), 0) + head)\n"
            "    except OSError: pass\n"
            "import time\ntime.sleep(600)",
            REQUEST_PYTHON, 1000);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        assert_int_equal(event.n, 1);
        assert_int_not_equal(event.status, REPORT_OK);
}

/* The cgroup's limit where there is one, else that of each process. */
static void test_more_memory_than_there_is(void **state) {
        struct lab *lab = *state;

        begin(lab);
        assert_int_equal(run(lab, 1, "x = 1\ny = bytearray(1 << 30)")->status, REPORT_MEMORY);
        assert_int_equal(run(lab, 2, "x")->status, REPORT_OK);
        ask(lab, 3,
            "import mmap\nshared = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): shared[at] = 1",
            REQUEST_PYTHON, LONG_MS);
        /* Without a cgroup it is the address space that ends, which is no MemoryError of Python's. */
        if (hear(lab, 3)->status != REPORT_MEMORY)
                assert_true(lab->done.status == REPORT_ERROR && text_has(lab, "OSError"));
}

/* More than a worker keeps: what was heard makes room for what comes. */
static void test_a_flood(void **state) {
        struct lab *lab = *state;
        struct place_event event;
        size_t bytes = 0;

        begin(lab);
        ask(lab, 1, "for i in range(40): print('x' * ((1 << 20) - 1))", REQUEST_PYTHON, LONG_MS);
        do {
                event = await(lab);
                if (event.type == PLACE_OUTPUT)
                        bytes += event.length;
                lab->place->class->heard(lab->session, event.id);
        } while (event.type != PLACE_DONE);
        assert_int_equal(event.status, REPORT_OK);
        assert_int_equal(bytes, 40 << 20);
        assert_int_equal(event.stdout_bytes, 40 << 20);
}

/* Its worker killed from outside: the sandbox dies with it, and the session says so. */
static void test_a_worker_that_is_killed(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        begin(lab);
        ask(lab, 1, "import time\nprint('on')\ntime.sleep(600)", REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_OUTPUT);
        assert_int_equal(kill(lab->session->lasting.worker.pid, SIGKILL), 0);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        assert_int_equal(event.status, REPORT_KILLED);
        assert_int_equal(await(lab).type, PLACE_ENDED);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        assert_int_equal(names_in(lab->sockets), 0);
        begin(lab);
}

static void make_workspace(struct lab *lab) {
        char folder[80];
        struct workspaces workspaces = { .folder = folder, .stack = "lab" };
        struct workspace_row row = { .id = "s-one",
                                     .owner = "realm/somebody",
                                     .environment = "box",
                                     .created_ms = 1000,
                                     .lives_until_ms = INT64_C(4102444800000) };
        struct problem problem;

        snprintf(folder, sizeof(folder), "%s/workspaces", lab->root);
        snprintf(lab->files, sizeof(lab->files), "%s/sessions/s-one/workspace", folder);
        if (workspace_create(&workspaces, &row, &problem) < 0)
                fail_msg("%s", problem.detail);
        lab->owner = row.owner;
}

static void file_is(const struct lab *lab, const char *name, const char *text) {
        char *path TEXT_CLEANUP = path_join(lab->files, name);
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        if (file_read(path, 4096, &bytes, &err) < 0)
                fail_msg("%s", err.message);
        assert_string_equal(strbuf_text(&bytes), text);
}

static void test_files_stay(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        make_workspace(lab);
        folder_write(lab->files, "in", "from outside");
        begin(lab);
        run(lab, 1,
            "import os\nopen('out', 'w').write(open('in').read() + '!')\nos.makedirs('a/b')\nopen('a/b/deep', 'w').write('deep')\n"
            "os.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')\nos.symlink('/etc', 'a/etc')");
        assert_int_equal(lab->done.status, REPORT_OK);
        assert_string_equal(strbuf_text(&lab->listed),
                            "changed a/b/deep, changed out, skipped a/etc, skipped link, skipped pipe, ");
        file_is(lab, "out", "from outside!");
        file_is(lab, "a/b/deep", "deep");
        /* Put from outside: there before the next execution, and none of its changes. Below a folder that is a link there: not. */
        folder_write(lab->files, "in", "again");
        run(lab, 2, "open('in').read()");
        assert_true(text_has(lab, "'again'"));
        assert_string_equal(strbuf_text(&lab->listed), "skipped a/etc, skipped link, skipped pipe, ");
        /* What both changed is the execution's. */
        ask(lab, 3, "import time\nopen('both', 'w').write('inside')\nprint('on')\ntime.sleep(600)",
            REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_OUTPUT);
        folder_write(lab->files, "both", "outside, longer");
        lab->place->class->interrupt(lab->session, 3);
        assert_int_equal(hear(lab, 3)->status, REPORT_INTERRUPTED);
        assert_non_null(strstr(strbuf_text(&lab->listed), "changed both, conflict both, "));
        file_is(lab, "both", "inside");
        run(lab, 4, "os.remove('out')");
        assert_non_null(strstr(strbuf_text(&lab->listed), "deleted out, "));
        /* A sandbox that dies in the middle of one leaves what it had written by then. */
        ask(lab, 5,
            "with open('late', 'w') as file: file.write('late')\nprint('on', flush=True)\ntime.sleep(600)",
            REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_OUTPUT);
        assert_int_equal(kill(runtime_below(lab->session->lasting.worker.pid), SIGKILL), 0);
        assert_int_equal(hear(lab, 5)->status, REPORT_KILLED);
        assert_non_null(strstr(strbuf_text(&lab->listed), "changed late, "));
        assert_int_equal(await(lab).type, PLACE_ENDED);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        /* The next sandbox of the session is empty, and gets all of it: nothing of what it lacks was deleted by it. */
        begin(lab);
        run(lab, 6, "import os\nsorted(os.listdir('.')), open('a/b/deep').read()");
        assert_true(text_has(lab, "(['a', 'both', 'in', 'late'], 'deep')"));
        assert_string_equal(strbuf_text(&lab->listed), "");
        must_end(lab);
        file_is(lab, "in", "again");
}

/* The name of one file, "name", with that text, which waits for an execution. */
static const char *stage(struct lab *lab, const char *text, char name[WORKSPACE_STAGE_NAME]) {
        const struct workspace_limits limits = { .bytes_max = 1 << 20, .files_max = 100 };
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_stage stage WORKSPACE_STAGE_CLEANUP = WORKSPACE_STAGE_INIT;
        char folder[80], sha256[SHA256_HEX_SIZE];
        struct problem problem;

        snprintf(folder, sizeof(folder), "%s/workspaces", lab->root);
        if (workspace_open(&(struct workspaces){ .folder = folder, .stack = "lab" }, lab->owner, "s-one",
                           &workspace, &problem) < 0 ||
            workspace_stage_begin(&workspace, &limits, &stage, &problem) < 0 ||
            workspace_stage_file(&stage, "name", &problem) < 0 ||
            workspace_stage_write(&stage, text, strlen(text), &problem) < 0 ||
            workspace_stage_finish(&stage, sha256, &problem) < 0)
                fail_msg("%s", problem.detail);
        stage.kept = true;
        memcpy(name, stage.name, WORKSPACE_STAGE_NAME);
        return name;
}

/* Code whose files cannot be had does not run without them; what the kernel knows stays, and nothing of it was done in the workspace. */
static void test_files_that_cannot_be_put(void **state) {
        struct lab *lab = *state;
        char name[WORKSPACE_STAGE_NAME], paths[128];

        make_workspace(lab);
        begin(lab);
        run(lab, 1, "x = 7");
        lab->staged = stage(lab, "one", name);
        run(lab, 2, "open('name').read()");
        assert_true(text_has(lab, "'one'"));
        for (int64_t n = 3; n <= 4; n++) {
                lab->staged = stage(lab, "two", name);
                snprintf(paths, sizeof(paths), "%.*s/staged/%s", (int)(strrchr(lab->files, '/') - lab->files),
                         lab->files, name);
                folder_write(paths, "paths", "[\"name\"");
                run(lab, n, "x = 8\nopen('ran', 'w').write(open('name').read())");
                assert_int_equal(lab->done.status, REPORT_FAILED);
                assert_true(text_has(lab, "nothing of it ran: the files that came with it"));
                assert_true(text_has(lab, "the list of their paths cannot be read"));
        }
        lab->staged = NULL;
        run(lab, 5, "import os\nx, os.path.exists('ran'), open('name').read()");
        assert_int_equal(lab->done.status, REPORT_OK);
        assert_true(text_has(lab, "(7, False, 'one')"));
        must_end(lab);
        file_is(lab, "name", "one");
}

/* Where a folder was, a link to somewhere else when a file is put into it. */
static void test_a_link_where_a_folder_was(void **state) {
        struct lab *lab = *state;
        char *path TEXT_CLEANUP = NULL, *victim TEXT_CLEANUP = path_join(lab->folder, "victim");

        make_workspace(lab);
        make_folder(victim);
        path = path_join(lab->files, "a");
        make_folder(path);
        folder_write(path, "x", "1");
        begin(lab);
        strbuf_clear(&lab->output);
        strbuf_printf(&lab->output, "import os, shutil\nshutil.rmtree('a')\nos.symlink('%s', 'a')", victim);
        {
                char *code TEXT_CLEANUP = strbuf_take(&lab->output);

                ask(lab, 1, code, REQUEST_PYTHON, LONG_MS);
                hear(lab, 1);
        }
        assert_non_null(strstr(strbuf_text(&lab->listed), "deleted a/x, "));
        (void)mkdir(path, 0700);
        folder_write(path, "y", "2");
        run(lab, 2, "1");
        assert_int_equal(names_in(victim), 0);
        file_is(lab, "a/y", "2");
        must_end(lab);
}

/* The next one of that type; what comes before it does not matter. */
static struct place_event await_type(struct lab *lab, enum place_event_type type) {
        struct place_event event;

        do {
                event = await(lab);
                if (event.type == PLACE_ENDED && type != PLACE_ENDED)
                        fail_msg("the sandbox ended: %s", event.reason);
        } while (event.type != type);
        return event;
}

static struct place_checkpoint must_park(struct lab *lab) {
        struct error err = { 0 };

        if (lab->place->class->park(lab->session, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(lab->place->class->park(lab->session, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        return await_type(lab, PLACE_PARKED).checkpoint;
}

/* Its worker has not heard of what was refused: its checkpoint is that of the execution before, and is taken as such. */
static void test_parked_after_a_refusal(void **state) {
        struct lab *lab = *state;
        char name[WORKSPACE_STAGE_NAME], paths[128];
        struct place_event event;

        make_workspace(lab);
        begin(lab);
        run(lab, 1, "x = 7");
        lab->staged = stage(lab, "two", name);
        snprintf(paths, sizeof(paths), "%.*s/staged/%s", (int)(strrchr(lab->files, '/') - lab->files),
                 lab->files, name);
        folder_write(paths, "paths", "[\"name\"");
        run(lab, 2, "x = 8");
        assert_int_equal(lab->done.status, REPORT_FAILED);
        lab->staged = NULL;
        lab->checkpoint = must_park(lab);
        must_end(lab);
        must_open(lab, false, 0);
        event = await(lab);
        assert_true(event.type == PLACE_OPENED && event.loaded && !event.kept);
        run(lab, 3, "x");
        assert_true(text_has(lab, "7|"));
        must_end(lab);
}

static void test_parked(void **state) {
        struct lab *lab = *state;
        struct place_event event;
        struct place_checkpoint first;
        struct error err;

        make_workspace(lab);
        begin(lab);
        ask(lab, 1, "import time\nprint('on')\ntime.sleep(600)", REQUEST_PYTHON, LONG_MS);
        await_type(lab, PLACE_OUTPUT);
        assert_int_equal(lab->place->class->park(lab->session, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        lab->place->class->interrupt(lab->session, 1);
        hear(lab, 1);
        run(lab, 2, "x = ['kept']\ny = x");
        /* A session that goes on instead of ending it has lost nothing. */
        first = must_park(lab);
        run(lab, 3, "x.append(1)\nlen(y)");
        assert_true(text_has(lab, "2|"));
        lab->checkpoint = must_park(lab);
        assert_string_not_equal(first.digest, lab->checkpoint.digest);
        must_end(lab);
        assert_int_equal(names_in(lab->sockets), 0);
        must_open(lab, false, 0);
        event = await(lab);
        assert_true(event.type == PLACE_OPENED && event.loaded && !event.kept);
        ask(lab, 4, "x.append(2)\ny", REQUEST_PYTHON, LONG_MS);
        event = await_type(lab, PLACE_STARTED);
        assert_int_equal(event.was, PLACE_RESTORED);
        assert_int_equal(json_array_size(event.restored), 3); /* time, x, y */
        hear(lab, 4);
        assert_true(text_has(lab, "['kept', 1, 2]|"));
        must_end(lab);
        /*
         * A checkpoint whose server died before anything was given to it may lack its memory: the
         * next server begins again.
         */
        must_open(lab, false, 0);
        await_type(lab, PLACE_OPENED);
        lab->place->class->leave(lab->session);
        must_open(lab, true, 0);
        await_type(lab, PLACE_ENDED);
        lab->place->class->leave(lab->session);
        /* The checkpoint before is not kept forever. */
        lab->checkpoint = first;
        must_open(lab, false, 0);
        event = await(lab);
        assert_true(event.type == PLACE_OPENED && !event.loaded && strstr(event.reason, "no longer exists"));
        run(lab, 5, "'x' in globals()");
        assert_true(text_has(lab, "False|"));
        must_end(lab);
}

static void test_expires_with_nobody_there(void **state) {
        struct lab *lab = *state;
        struct place_event event;

        begin(lab);
        assert_int_equal(run(lab, 1, "1")->status, REPORT_OK);
        lab->place->class->expire(lab->session, &(struct place_life){ .age_ms = 100, .idle_ms = INT64_MAX });
        do
                event = await(lab);
        while (event.type != PLACE_ENDED);
        assert_non_null(strstr(event.reason, "time was over"));
}

static void wait_until_gone(pid_t pid) {
        struct pollfd polled = { .fd = pidfd_open(pid, 0), .events = POLLIN };

        assert_true(polled.fd >= 0);
        assert_int_equal(poll(&polled, 1, LONG_MS), 1);
        close(polled.fd);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Idleness ends a sandbox only while no server is connected, and some seconds later where its last result was not heard. */
static void test_is_idle_with_nobody_there(void **state) {
        static const struct place_life idle = { .age_ms = LONG_MS, .idle_ms = 100 };
        struct lab *lab = *state;
        struct place_event event;
        pid_t worker;

        begin(lab);
        worker = lab->session->lasting.worker.pid;
        assert_true(worker > 0);
        assert_int_equal(run(lab, 1, "x = 'kept'")->status, REPORT_OK);
        lab->place->class->expire(lab->session, &idle);
        poll(NULL, 0, 500);
        assert_int_equal(run(lab, 2, "x")->status, REPORT_OK);
        ask(lab, 3, "x", REQUEST_PYTHON, LONG_MS);
        lab->place->class->expire(lab->session, &idle);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        poll(NULL, 0, 500);
        must_open(lab, true, 3);
        event = await(lab);
        assert_true(event.type == PLACE_OPENED && event.kept);
        assert_int_equal(hear(lab, 3)->status, REPORT_OK);
        assert_true(text_has(lab, "'kept'|"));
        lab->place->class->expire(lab->session, &idle);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        wait_until_gone(worker);
}

/* Its server is gone, and so is the folder in which the next one would look for it: it does not wait for its deadline. */
static void test_a_worker_that_nobody_can_find(void **state) {
        struct lab *lab = *state;
        struct place_event event;
        pid_t worker;

        begin(lab);
        assert_int_equal(run(lab, 1, "1")->status, REPORT_OK);
        worker = lab->session->lasting.worker.pid;
        assert_true(worker > 0);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        folder_remove(lab->sockets);
        wait_until_gone(worker);
        make_folder(lab->sockets);

        /* One whose sandbox is dead already waits for who asks what became of it. */
        begin(lab);
        worker = lab->session->lasting.worker.pid;
        ask(lab, 1, "import time\nprint('on')\ntime.sleep(600)", REQUEST_PYTHON, LONG_MS);
        do
                event = await(lab);
        while (event.type != PLACE_OUTPUT);
        assert_int_equal(kill(runtime_below(worker), SIGKILL), 0);
        do
                event = await(lab);
        while (event.type != PLACE_DONE);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        folder_remove(lab->sockets);
        wait_until_gone(worker);
}

/* --- warm ones --- */

static atomic_int told_ready, told_trouble;

static void hear_tell(bool trouble, const char *line) {
        (void)line;
        atomic_fetch_add(trouble ? &told_trouble : &told_ready, 1);
}

static void open_warm_place(struct lab *lab) {
        static const struct session_place_warm warm[] = { { "box", 1 } };
        static const char *const modules[] = { "fractions", NULL };
        struct error err = { 0 };
        char runtime[4096];
        struct session_place_config config = { .root = lab->root,
                                               .folder = lab->sockets,
                                               .runtime = runtime,
                                               .accept_degraded = true,
                                               .warm = warm,
                                               .warm_count = 1,
                                               .preload = modules,
                                               .tell = hear_tell };

        snprintf(runtime, sizeof(runtime), "%s", ((struct session_place *)lab->place)->runtime);
        lab->place->class->close(lab->place);
        told_ready = told_trouble = 0;
        if (session_place_open(&config, &lab->place, &err) < 0)
                fail_msg("%s", err.message);
        for (int i = 0; i < LONG_MS / 10 && told_ready + told_trouble == 0; i++)
                poll(NULL, 0, 10);
        assert_int_equal(told_trouble, 0);
        assert_int_equal(told_ready, 1);
        assert_int_equal(names_in(lab->sockets), 2);
}

/* It is open at once, has what was imported, and is this session's like any other from then on: found again, with its life. */
static void test_warm_one_is_taken(void **state) {
        struct lab *lab = *state;
        struct place_event event;
        char path[128];

        begin(lab);
        must_end(lab);
        open_warm_place(lab);
        must_open(lab, false, 0);
        event = await(lab);
        assert_int_equal(event.type, PLACE_OPENED);
        assert_false(event.kept);
        snprintf(path, sizeof(path), "%s/s-one.worker", lab->sockets);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(run(lab, 1, "import sys\n'fractions' in sys.modules")->status, REPORT_OK);
        assert_true(text_has(lab, "True|"));
        assert_int_equal(run(lab, 2, "x = 'kept'")->status, REPORT_OK);
        lab->place->class->leave(lab->session);
        lab->session = NULL;
        must_open(lab, true, 0);
        event = await(lab);
        assert_true(event.kept);
        assert_int_equal(event.last, 2);
        assert_int_equal(run(lab, 3, "x")->status, REPORT_OK);
        assert_true(text_has(lab, "'kept'|"));
        must_end(lab);
        assert_int_equal(access(path, F_OK), -1);
        /*
         * The place closes with a warm sandbox that no session has taken: teardown checks that
         * nothing is left.
         */
}

/* A session that has other limits, and a session that is only looked for, do not take it. */
static void test_warm_one_is_left_to_whom_it_fits(void **state) {
        struct lab *lab = *state;
        struct place_opening opening = { .id = "s-one", .agent = "small", .ttl_ms = DAY_MS };
        struct error err = { 0 };
        char path[128];

        begin(lab);
        must_end(lab);
        snprintf(path, sizeof(path), "%s/registry", lab->root);
        make_folder(path);
        snprintf(path, sizeof(path), "%s/registry/agents", lab->root);
        make_folder(path);
        folder_write(
                path, "small.json",
                "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"kind\": \"Agent\", \"name\": \"small\", "
                "\"spec\": {\"environment\": \"box\", \"active\": true, \"limits\": {\"memoryMB\": 256}}}");
        open_warm_place(lab);
        assert_int_equal(open_session(lab, true, 0, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        if (lab->place->class->open(lab->place, &opening, &lab->session, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(await(lab).type, PLACE_OPENED);
        assert_int_equal(run(lab, 1, "import sys\n'fractions' in sys.modules")->status, REPORT_OK);
        assert_true(text_has(lab, "False|"));
        must_end(lab);
        assert_int_equal(names_in(lab->sockets), 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                TEST(test_variables_stay),
                TEST(test_what_takes_long_is_stopped),
                TEST(test_found_again),
                TEST(test_what_had_ended_is_not_in_the_way),
                TEST(test_code_cannot_kill_its_runtime),
                TEST(test_a_runtime_that_is_killed),
                TEST(test_a_runtime_that_stands_still),
                TEST(test_a_runtime_that_lies),
                TEST(test_more_memory_than_there_is),
                TEST(test_a_flood),
                TEST(test_a_worker_that_is_killed),
                TEST(test_files_stay),
                TEST(test_files_that_cannot_be_put),
                TEST(test_a_link_where_a_folder_was),
                TEST(test_parked_after_a_refusal),
                TEST(test_parked),
                TEST(test_expires_with_nobody_there),
                TEST(test_is_idle_with_nobody_there),
                TEST(test_a_worker_that_nobody_can_find),
                TEST(test_warm_one_is_taken),
                TEST(test_warm_one_is_left_to_whom_it_fits),
        };

        if (argc == 2 && strcmp(argv[1], SANDBOX_WORKER_VERB) == 0)
                return sandbox_worker_main();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
