/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_parts.h"

#include "base/clock.h"
#include "process/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --disable-userns came with 0.8. */
#define MINOR_VERSION_MIN 8
/* What a program that only prints a line may take. */
#define VERSION_MS 10000

static const char *const places[] = { "/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap" };

/* Asks the program itself; false where it says nothing of use. */
static bool ask_version(const char *path, char *buffer, size_t size) {
        static const char *const arguments[] = { "bwrap", "--version", NULL };
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        const struct run_args args = {
                .process = { .program = path, .arguments = arguments },
                .output_max = size - 1,
                .errors = RUN_ERRORS_DROPPED,
                .deadline_ms = clock_now_ms() + VERSION_MS,
        };
        struct error ignored;

        if (run_to_end(&args, &result, &ignored) < 0 || run_check(&result, path, &ignored) < 0)
                return false;
        snprintf(buffer, size, "%.*s", (int)strcspn(strbuf_text(&result.output), "\n"),
                 strbuf_text(&result.output));
        return true;
}

int sandbox_find_bubblewrap(struct arena *arena, const char **ret_path, const char **ret_version,
                            struct error *err) {
        char text[128];
        int major, minor;

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                if (access(places[i], X_OK) < 0)
                        continue;
                if (!ret_version) {
                        *ret_path = places[i];
                        return 0;
                }
                if (!ask_version(places[i], text, sizeof(text)) ||
                    sscanf(text, "bubblewrap %d.%d", &major, &minor) != 2)
                        return error_set(err, "%s does not tell its version", places[i]);
                if (major == 0 && minor < MINOR_VERSION_MIN)
                        return error_set(err, "%s is %s; 0.%d or newer is needed", places[i], text,
                                         MINOR_VERSION_MIN);
                *ret_path = places[i];
                *ret_version = arena_strdup(arena, text);
                return 0;
        }
        return error_set_kind(
                err, ERROR_NOT_FOUND,
                "bubblewrap is not installed: apt-get install bubblewrap, dnf install bubblewrap "
                "or the like");
}

int sandbox_choose_stage(const char *bubblewrap, const char **ret_stage, struct error *err) {
        static const char *const stages[] = { "/mnt", "/media", "/srv", "/opt", "/home" };

        for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
                struct stat status;

                if (lstat(stages[i], &status) < 0 || !S_ISDIR(status.st_mode) ||
                    strncmp(bubblewrap, stages[i], strlen(stages[i])) == 0)
                        continue;
                *ret_stage = stages[i];
                return 0;
        }
        return error_set(err, "there is no folder /mnt, /media, /srv, /opt or /home to mount over");
}
