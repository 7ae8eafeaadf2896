/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that loses its parent becomes ours (PR_SET_CHILD_SUBREAPER), so that none escapes:
 * neither by a session of its own nor by a second fork. The command has no rights that it was not
 * started with (no_new_privs: no set-user-ID program gives it another user than the one that was
 * shown).
 */
#include "approvals/shell_worker.h"

#include "approvals/subject.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/libc.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"
#include "process/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASK_MAX ((size_t)1 << 20)
#define GROUPS_MAX 256

struct task {
        char **arguments;
        uid_t user;
        gid_t group;
        gid_t groups[GROUPS_MAX];
        size_t group_count;
        bool keeps_user, is_script;
        int64_t timeout_ms;
};

enum why_ended { ENDED_ITSELF, ENDED_LATE, ENDED_WITH_SERVER, ENDED_UNWATCHED };

/* One line; what comes behind it is the end of who wrote it. */
static json_t *read_task(void) {
        struct strbuf text = { .limit = TASK_MAX };
        json_t *json = NULL;
        char byte;

        while (!json && read(STDIN_FILENO, &byte, 1) == 1 && !text.overflow) {
                if (byte != '\n')
                        strbuf_append_char(&text, byte);
                else if (!(json = json_loadb(strbuf_text(&text), text.length, 0, NULL)))
                        break;
        }
        strbuf_release(&text);
        return json;
}

/* False where the task names no user to become. */
static bool understand_user(const json_t *json, struct task *ret) {
        const json_t *groups = json_object_get(json, "groups"), *item;
        size_t index;

        json_array_foreach (groups, index, item) {
                if (index < GROUPS_MAX)
                        ret->groups[ret->group_count++] = (gid_t)json_integer_value(item);
        }
        ret->keeps_user = json_is_true(json_object_get(json, "keepsUser"));
        ret->user = (uid_t)json_integer_or(json, "uid", -1);
        ret->group = (gid_t)json_integer_or(json, "gid", -1);
        return ret->keeps_user || (ret->user != (uid_t)-1 && ret->group != (gid_t)-1);
}

static bool understand(const json_t *json, struct task *ret) {
        const json_t *arguments = json_object_get(json, "command"), *item;
        size_t count = json_array_size(arguments), index;

        ret->arguments = calloc(count + 1, sizeof(*ret->arguments));
        if (!ret->arguments)
                abort();
        json_array_foreach (arguments, index, item)
                ret->arguments[index] = (char *)json_string_value(item);
        ret->is_script = json_is_true(json_object_get(json, "isScript"));
        ret->timeout_ms = json_integer_or(json, "timeoutMs", 0);
        return count > 0 && ret->timeout_ms > 0 && understand_user(json, ret);
}

static void report(json_t *json) {
        char *text TEXT_CLEANUP = json_compact(json_checked(json));

        json_decref(json);
        (void)!descriptor_write(SHELL_WORKER_REPORT, text, strlen(text));
}

static int become_user(const struct task *task) {
        if (task->keeps_user)
                return 0;
        return setgroups(task->group_count, task->groups) < 0 ||
                               setresgid(task->group, task->group, task->group) < 0 ||
                               setresuid(task->user, task->user, task->user) < 0
                       ? -1
                       : 0;
}

/* The first step that fails ends it, with what failed. */
static const char *become_command(const struct task *task) {
        int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
                return "its input";
        if (setsid() < 0)
                return "its own session";
        for (int number = 1; number < NSIG; number++)
                (void)signal(number, SIG_DFL);
        umask(022);
        if (become_user(task) < 0)
                return "its user";
        /* In this order: another user would lose the first. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return "its rights";
        if (fchdir(SHELL_WORKER_FOLDER) < 0)
                return "its folder";
        /* The interpreter opens a script by its number, /dev/fd/3. */
        if (fcntl(SHELL_WORKER_PROGRAM, F_SETFD, task->is_script ? 0 : FD_CLOEXEC) < 0 ||
            fcntl(SHELL_WORKER_FOLDER, F_SETFD, FD_CLOEXEC) < 0)
                return "its descriptors";
        syscall(SYS_execveat, SHELL_WORKER_PROGRAM, "", task->arguments, environ, AT_EMPTY_PATH);
        return "its program";
}

/*
 * Whether it ended by itself. Also reaps processes that became ours meanwhile: a zombie takes a
 * place in the table of processes.
 */
static enum why_ended wait_for_command(pid_t child, int pidfd, int64_t until_ms) {
        struct pollfd polled[] = { { .fd = pidfd, .events = POLLIN },
                                   { .fd = STDIN_FILENO, .events = POLLIN } };

        for (;;) {
                int64_t left = until_ms - clock_now_ms();
                siginfo_t info = { 0 };

                if (left <= 0)
                        return ENDED_LATE;
                if (poll(polled, 2, left > 1000 ? 1000 : (int)left) < 0 && errno != EINTR)
                        abort();
                if (polled[0].revents)
                        return ENDED_ITSELF;
                if (polled[1].revents)
                        return ENDED_WITH_SERVER;
                while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
                       info.si_pid != child) {
                        (void)waitpid(info.si_pid, NULL, 0);
                        info.si_pid = 0;
                }
        }
}

static void kill_all(size_t *ret_left) {
        const struct descendants none = { 0 };
        struct descendants left DESCENDANTS_CLEANUP = { 0 };

        descendants_find(&left);
        *ret_left = left.count;
        do {
                descendants_kill(&none, 0);
                while (waitpid(-1, NULL, WNOHANG) > 0) {
                }
                descendants_release(&left);
                descendants_find(&left);
        } while (left.count > 0);
}

static void await_command(pid_t child, const struct task *task) {
        static const char *const reasons[] = { "itself", "late", "server", "unwatched" };
        int64_t until_ms = clock_now_ms() + task->timeout_ms;
        int pidfd = pidfd_open(child, 0), status = 0;
        enum why_ended why = pidfd < 0 ? ENDED_UNWATCHED : wait_for_command(child, pidfd, until_ms);
        size_t left = 0;

        if (why != ENDED_ITSELF) {
                size_t all;

                kill(child, SIGKILL);
                kill_all(&all);
        }
        (void)waitpid(child, &status, 0);
        kill_all(&left);
        report(json_pack("{s:s, s:i, s:i, s:I}", "ended", reasons[why], "code",
                         WIFEXITED(status) ? WEXITSTATUS(status) : -1, "signal",
                         WIFSIGNALED(status) ? WTERMSIG(status) : 0, "left", (json_int_t)left));
}

/* 0: it runs; else what could not be done, and why. The pipe closes by itself once the program is another. */
static const char *start_command(const struct task *task, pid_t *ret, int *ret_reason) {
        struct said {
                const char *what; /* of this very program: the child is its copy */
                int reason;
        } said = { 0 };
        int pipe_ends[2];

        if (pipe2(pipe_ends, O_CLOEXEC) < 0 || (*ret = fork()) < 0) {
                *ret_reason = errno;
                return "a process";
        }
        if (*ret == 0) {
                said.what = become_command(task);
                said.reason = errno;
                (void)!descriptor_write(pipe_ends[1], &said, sizeof(said));
                _exit(127);
        }
        close(pipe_ends[1]);
        if (read(pipe_ends[0], &said, sizeof(said)) != (ssize_t)sizeof(said))
                said.what = NULL;
        close(pipe_ends[0]);
        *ret_reason = said.reason;
        return said.what;
}

/*
 * Program and folder are looked for as the user that will run the one in the other: a file which
 * that user may not see counts as absent.
 */
static void look_for_subject(const json_t *json) {
        const json_t *wish = json_object_get(json, "find");
        const char *name = json_text(wish, "name"), *folder = json_text(wish, "folder");
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct subject_rules rules = { .state = json_text(wish, "state") };
        struct task task = { 0 };
        struct subject found;
        struct error err;
        size_t bad;

        if (!name || !folder || !understand_user(json, &task)) {
                report(json_pack("{s:s, s:s}", "failed", "its task", "why", strerror(EINVAL)));
                return;
        }
        /* Nor what of the server's is this process's: where it was started is one. */
        if (chdir("/") < 0 || become_user(&task) < 0) {
                report(json_pack("{s:s, s:s}", "failed", "its user", "why", strerror(errno)));
                return;
        }
        rules.user = task.keeps_user ? geteuid() : task.user;
        if (subject_find(name, folder, &rules, arena, &found, &err) < 0) {
                struct strbuf why STRBUF_CLEANUP = STRBUF_INIT;

                text_append_utf8(&why, err.message);
                report(json_pack("{s:s}", "refused", strbuf_text(&why)));
        } else if (!text_is_utf8(found.folder, strlen(found.folder), &bad) ||
                   !text_is_utf8(found.program, strlen(found.program), &bad)) {
                report(json_pack("{s:s}", "refused", "the program's or the folder's path is no UTF-8"));
        } else {
                report(json_pack("{s:s, s:s, s:s, s:I, s:I}", "program", found.program, "programSha256",
                                 found.sha256, "folder", found.folder, "folderDevice",
                                 (json_int_t)found.folder_device, "folderInode",
                                 (json_int_t)found.folder_inode));
        }
}

int shell_worker_main(void) {
        json_t *json JSON_CLEANUP = read_task();
        struct task task = { 0 };
        const char *failed = "its task";
        int reason = EINVAL;
        pid_t child = 0;

        fcntl(SHELL_WORKER_REPORT, F_SETFD, FD_CLOEXEC);
        if (json_object_get(json, "find")) {
                look_for_subject(json);
                return 0;
        }
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
                reason = errno;
        else if (understand(json, &task))
                failed = start_command(&task, &child, &reason);
        if (failed) {
                if (child > 0)
                        (void)waitpid(child, NULL, 0);
                report(json_pack("{s:s, s:s}", "failed", failed, "why", strerror(reason)));
        } else {
                await_command(child, &task);
        }
        free(task.arguments);
        return 0;
}
