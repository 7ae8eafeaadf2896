/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before the first option is read: descriptors 0 to 2 are there, no core file and no debugger gets
 * what is in memory, and a pipe or a limit that ends is an error like others. The words below that
 * are no verbs start this program again for a job of its own, with another environment and fewer
 * rights.
 */
#include "approvals/shell_worker.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/launcher.h"
#include "cli/options.h"
#include "cli/stacks.h"
#include "cli/verbs.h"
#include "gitops/git/git.h"
#include "providers/local/images/image_worker.h"
#include "providers/local/sandbox/sandbox_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

const struct verb verbs[] = {
        { "init", "[DIR]", 0, 1, "write a starter stack", verb_init, VERB_STATELESS, NULL },
        { "validate", "", 0, 0, "check the manifests, offline", verb_validate, VERB_STATELESS, NULL },
        { "fmt", "[PATH]...", 0, 1000000, "lay the manifests out, comments and all", verb_fmt, VERB_STATELESS,
          NULL },
        { "plan", "", 0, 0, "show what would change", verb_plan, 0, NULL },
        { "apply", "[PLANFILE]", 0, 1, "make it so", verb_apply, 0, NULL },
        { "destroy", "", 0, 0, "delete everything this stack owns", verb_destroy, 0, NULL },
        { "refresh", "", 0, 0, "read again what exists", verb_refresh, 0, NULL },
        { "drift", "", 0, 0, "show changes made outside of Berth since the apply", verb_drift, 0, NULL },
        { "get", "[KIND[/NAME]]", 0, 1, "show what was applied", verb_get, 0, NULL },
        { "map", "[ENV]", 0, 1, "show environments and who uses them", verb_map, 0, NULL },
        { "disassociate", "ENV", 1, 1, "take all users of an environment out of service", verb_disassociate,
          0, NULL },
        { "reassociate", "ENV", 1, 1, "put them all back into service", verb_reassociate, 0, NULL },
        { "images", "[REPOSITORY]", 0, 1, "list the registry's images, and which can run", verb_images, 0,
          NULL },
        { "image", "[REF] [PATH]", 1, 3, "check, import, build or remove an image", verb_image, 0,
          commands_of_image },
        { "exec", "[FILE|-] [ARG]...", 0, 1000000, "run code in a fresh sandbox of an environment", verb_exec,
          VERB_RUNS_PROGRAM, NULL },
        { "import", "ADDR ID", 2, 2, "take an existing resource into the state", verb_import, 0, NULL },
        { "schema", "[KIND]", 0, 1, "print the JSON Schema of the manifests", verb_schema, VERB_STATELESS,
          NULL },
        { "explain", "[KIND[.FIELD]]", 0, 1, "say what a kind or a field means", verb_explain, VERB_STATELESS,
          NULL },
        { "state", "[ARG]...", 1, 1000, "show, repair, check, copy, move or remake the state", verb_state, 0,
          commands_of_state },
        { "lock", "", 1, 1, "show or release the state's lock", verb_lock, 0, commands_of_lock },
        { "sweep", "", 0, 0, "delete expired workspace files on this machine", verb_sweep, 0, NULL },
        { "controller", "[NAME] [PLAN]", 0, 3, "follow Git repositories and apply their stacks",
          verb_controller, VERB_ONE_PATH, commands_of_controller },
        { "serve", "", 0, 0, "run code over HTTP, in sessions that keep variables", verb_serve, VERB_ONE_PATH,
          NULL },
        { "session", "[ARG]...", 1, 1000, "run code in the sessions of a running server", verb_session,
          VERB_ONE_PATH, commands_of_session },
        { "containers", "[ARG]...", 1, 1000, "run commands and services of agents, by a server",
          verb_containers, VERB_ONE_PATH, commands_of_containers },
        { "approvals", "[ID]", 1, 2, "decide on commands agents ask the host for", verb_approvals,
          VERB_ONE_PATH, commands_of_approvals },
        { "audit", "", 1, 1, "show or check the log of commands on the host", verb_audit, VERB_ONE_PATH,
          commands_of_audit },
        { "mcp", "", 0, 0, "give an agent sessions by MCP, on stdin and stdout", verb_mcp, VERB_ONE_PATH,
          NULL },
        { "doctor", "", 0, 0, "check what works here, and say how to get the rest", verb_doctor, 0, NULL },
        { "completion", "bash|zsh|fish", 1, 1000000, "print a completion script", verb_completion,
          VERB_STATELESS, NULL },
        { "manual", "[berth|manifests]", 0, 1, "print the manual pages, as roff", verb_manual, VERB_STATELESS,
          NULL },
        { "help", "[VERB [COMMAND]]", 0, 2, "show what a verb does, and its options", verb_help,
          VERB_STATELESS, NULL },
        { "version", "", 0, 0, "print the version", verb_version, VERB_STATELESS, NULL },
        { NULL, NULL, 0, 0, NULL, NULL, 0, NULL },
};

/*
 * Credentials and sensitive variables are in this process's memory: no core file gets them, and no debugger of the same
 * user can attach. To debug Berth itself, set BERTH_ALLOW_CORE. The limit is one byte, which core(5) has for "nor may the
 * program get them that core_pattern names"; sandboxes inherit it, and could not raise it again from 0.
 */
static void forbid_core_files(void) {
        struct rlimit none = { 0, 0 }, one = { 1, 1 };

        if (getenv("BERTH_ALLOW_CORE"))
                return;
        if (setrlimit(RLIMIT_CORE, &one) < 0)
                setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__
        prctl(PR_SET_DUMPABLE, 0);
#endif
}

/*
 * Opens those of the descriptors 0 to 2 that the caller closed. Otherwise the next opened file, the store for one, would get
 * what is printed. Reading such an input gives its end; writing fails as before.
 */
static void hold_standard_descriptors(void) {
        for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
                if (fcntl(i, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != i)
                        abort();
        }
}

static int exit_code_of_error(const struct error *err) {
        switch (err->kind) {
        case ERROR_REFUSED:
                return EXIT_REFUSED;
        case ERROR_LOCKED:
                return EXIT_LOCKED;
        case ERROR_NONE:
        case ERROR_FAILED:
        case ERROR_NOT_FOUND:
        case ERROR_INTERRUPTED:
        case ERROR_UNREACHABLE:
        case ERROR_DIAGNOSED:
        default:
                return EXIT_ERROR;
        }
}

static int run_verb(int argc, char **argv, struct arena *arena) {
        struct options options;
        const struct verb *verb;
        struct error err = { 0 };
        int code;

        if (options_parse(argc, argv, arena, &options, &verb, &err) < 0) {
                log_error("%s", err.message);
                return options_pass_code_on(argc, argv) ? EXIT_EXEC_FAILED : EXIT_ERROR;
        }
        if (options.verbose)
                log_set_level(LOG_LEVEL_DEBUG);
        else if (options.quiet)
                log_set_level(LOG_LEVEL_ERROR);
        if (!verb) {
                help_print(options.help ? stdout : stderr);
                return options.help ? EXIT_DONE : EXIT_ERROR;
        }
        if (options.help) {
                help_print_verb(verb, options.operand_count > 0 ? options.command : NULL, stdout);
                return EXIT_DONE;
        }
        code = options.stacks ? stacks_run(verb->name, &options, &err) : verb->run(&options, &err);
        if (code >= 0)
                return code;
        log_error("%s", err.message);
        return exit_code_of_error(&err);
}

/* A reader that ended, such as head(1), is no error. */
static bool is_reader_gone(void) {
        struct pollfd output = { .fd = STDOUT_FILENO };

        return poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

/*
 * Output that could not be written (a full disk) must not look like success. A write that failed before the last one leaves
 * its mark in the stream, and no errno: the buffer was dropped, so that the last flush may have nothing to do, and succeed.
 */
static int finish_output(void) {
        bool lost = ferror(stdout);
        int reason = 0;

        if (fflush(stdout) != 0)
                reason = errno;
        if ((!lost && reason == 0) || reason == EPIPE || is_reader_gone())
                return 0;
        log_error("cannot write the result: %s",
                  reason ? strerror(reason) : "standard output did not take all of it (a full disk?)");
        return -1;
}

int main(int argc, char **argv) {
        struct arena *arena;
        int code;

        hold_standard_descriptors();
        forbid_core_files();
        signal(SIGPIPE, SIG_IGN);
        /* A limit of the shell's is an error like a full disk. */
        signal(SIGXFSZ, SIG_IGN);
        /* What a sandbox runs in: no verb. */
        if (argc == 2 && strcmp(argv[1], SANDBOX_WORKER_VERB) == 0)
                return sandbox_worker_main();
        /* It takes a tenth of a millisecond, which exec has once the worker of its sandbox starts. */
        if (argc < 2 || strcmp(argv[1], "exec") != 0)
                setlocale(LC_CTYPE, "");
        /* Started by git_check() alone, so it is no verb either. */
        if (argc == 2 && strcmp(argv[1], "git-worker") == 0)
                return git_worker_main();
        if (argc >= 2 && strcmp(argv[1], "launcher") == 0)
                return launcher_main(argc - 1, argv + 1);
        if (argc == 2 && strcmp(argv[1], SHELL_WORKER_VERB) == 0)
                return shell_worker_main();
        if (argc == 2 && strcmp(argv[1], "git-judge") == 0)
                return git_judge_main();
        if (argc == 2 && strcmp(argv[1], "image-worker") == 0)
                return image_worker_main();
        arena = arena_new();
        code = run_verb(argc, argv, arena);
        arena_free(arena);
        if (finish_output() == 0)
                return code;
        return options_pass_code_on(argc, argv) ? EXIT_EXEC_FAILED : EXIT_ERROR;
}
