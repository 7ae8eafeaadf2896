/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "gitops/git/git.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

const struct verb verbs[] = {
        { "init", "[DIR]", 0, 1, "write a starter stack", verb_init },
        { "validate", "", 0, 0, "check the manifests, offline", verb_validate },
        { "plan", "", 0, 0, "show what would change", verb_plan },
        { "apply", "[PLANFILE]", 0, 1, "make it so", verb_apply },
        { "destroy", "", 0, 0, "delete everything this stack owns", verb_destroy },
        { "refresh", "", 0, 0, "read everything anew", verb_refresh },
        { "drift", "", 0, 0, "what somebody else changed of what was applied", verb_drift },
        { "get", "[KIND[/NAME]]", 0, 1, "show what was applied", verb_get },
        { "map", "[ENV]", 0, 1, "environments and who uses them", verb_map },
        { "disassociate", "ENV", 1, 1, "take all its dependents out of service at once", verb_disassociate },
        { "reassociate", "ENV", 1, 1, "put them all back", verb_reassociate },
        { "images", "[REPOSITORY]", 0, 1, "what the registry holds, each image with its verdict",
          verb_images },
        { "image", "check|instructions|import|build|remove|prune [REF] [PATH]", 1, 3,
          "one image: check, take in, build, remove", verb_image },
        { "exec", "[FILE|-] [ARG]...", 0, 1024, "run code in a fresh sandbox of an environment", verb_exec },
        { "import", "ADDR ID", 2, 2, "take an existing resource into the state", verb_import },
        { "schema", "[KIND]", 0, 1, "JSON Schema of the manifests", verb_schema },
        { "explain", "KIND[.FIELD]", 1, 1, "what a kind or a field means", verb_explain },
        { "state", "list|show|mv|rm|verify|backup", 1, 3, "look into the state, mend it, check it, copy it",
          verb_state },
        { "lock", "show|release", 1, 1, "who holds the state's lock", verb_lock },
        { "sweep", "", 0, 0, "delete what workspace policies let go, on this machine", verb_sweep },
        { "controller", "[status|sync|suspend|resume|approve [NAME] [PLAN]]", 0, 3,
          "follow Git repositories and keep their stacks true", verb_controller },
        { "doctor", "", 0, 0, "what works here, what is missing, how to get it", verb_doctor },
        { "completion", "bash|zsh|fish", 1, 1, "a completion script", verb_completion },
        { "manual", "[berth|manifests]", 0, 1, "the manual pages, as roff", verb_manual },
        { "version", "", 0, 0, "the version", verb_version },
        { NULL, NULL, 0, 0, NULL, NULL },
};

/*
 * Credentials and sensitive variables are in this process's memory: none of it goes to a core file, nor to a debugger of the
 * same user. Who debugs Berth itself sets BERTH_ALLOW_CORE.
 */
static void forbid_core_files(void) {
        struct rlimit none = { 0, 0 };

        if (getenv("BERTH_ALLOW_CORE"))
                return;
        setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__
        prctl(PR_SET_DUMPABLE, 0);
#endif
}

/*
 * Those that the caller closed: or the next file opened, the store for one, would be what is printed into. Input is at its
 * end then; writing fails as before.
 */
static void hold_standard_descriptors(void) {
        for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
                if (fcntl(i, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != i)
                        abort();
        }
}

static int exit_code_of(const struct error *err) {
        switch (err->kind) {
        case ERROR_REFUSED:
                return EXIT_REFUSED;
        case ERROR_LOCKED:
                return EXIT_LOCKED;
        case ERROR_NONE:
        case ERROR_FAILED:
        case ERROR_NOT_FOUND:
        case ERROR_INTERRUPTED:
        case ERROR_DIAGNOSED:
        default:
                return EXIT_ERROR;
        }
}

/* Where a program's own exit code is passed on, 1 would be taken for the program's. */
static int failure_code(int argc, char **argv) {
        const char *verb = options_verb_name(argc, argv);

        return verb && strcmp(verb, "exec") == 0 ? EXIT_EXEC_FAILED : EXIT_ERROR;
}

static int run_verb(int argc, char **argv, struct arena *arena) {
        struct options options;
        const struct verb *verb;
        struct error err = { 0 };
        int code;

        if (options_parse(argc, argv, arena, &options, &verb, &err) < 0) {
                log_error("%s", err.message);
                return failure_code(argc, argv);
        }
        if (options.verbose)
                log_set_level(LOG_LEVEL_DEBUG);
        else if (options.quiet)
                log_set_level(LOG_LEVEL_ERROR);
        if (!verb) {
                options_help(options.help ? stdout : stderr);
                return options.help ? EXIT_DONE : EXIT_ERROR;
        }
        if (options.help) {
                options_help_verb(verb, stdout);
                return EXIT_DONE;
        }
        code = verb->run(&options, &err);
        if (code >= 0)
                return code;
        log_error("%s", err.message);
        return exit_code_of(&err);
}

int main(int argc, char **argv) {
        struct arena *arena;
        int code;

        hold_standard_descriptors();
        setlocale(LC_CTYPE, "");
        forbid_core_files();
        signal(SIGPIPE, SIG_IGN);
        /* A limit of the shell's is an error like a full disk. */
        signal(SIGXFSZ, SIG_IGN);
        /* What git_check() starts; no verb, since nobody else is to. */
        if (argc == 2 && strcmp(argv[1], "git-worker") == 0)
                return git_worker_main();
        arena = arena_new();
        code = run_verb(argc, argv, arena);
        arena_free(arena);
        /* What could not be written was not said: a full disk behind a pipe must not look like success. */
        if (fflush(stdout) != 0 && errno != EPIPE) {
                log_error("cannot write the result: %s", strerror(errno));
                return EXIT_ERROR;
        }
        return code;
}
