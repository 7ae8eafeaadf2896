/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results go to standard output, progress and questions to standard error. Both callbacks run on our own thread; other threads
 * may log meanwhile, so a line is written whole under stderr's lock, after the progress line was wiped.
 */
#include "cli/perform.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "controller/report.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct screen {
        const struct options *options;
        bool bar; /* a progress line on a terminal */
        bool bar_drawn;
};

static void wipe_bar(struct screen *screen) {
        if (screen->bar_drawn)
                fputs("\r\033[K", stderr);
        screen->bar_drawn = false;
}

static void on_ended(void *context, const struct change *change, const struct change_result *result) {
        struct screen *screen = context;

        if (screen->options->json || (screen->options->quiet && result->outcome == JOB_DONE))
                return;
        flockfile(stderr);
        wipe_bar(screen);
        fflush(stderr);
        report_ended_text(change, result, stdout);
        fflush(stdout);
        funlockfile(stderr);
}

static void on_progress(void *context, const struct executor_stats *stats, int64_t elapsed_ms) {
        struct screen *screen = context;
        char duration[32];

        if (!screen->bar || elapsed_ms < 500)
                return;
        flockfile(stderr);
        fprintf(stderr, "\r\033[K  %zu of %zu done", stats->done, stats->total);
        if (stats->failed)
                fprintf(stderr, ", %zu failed", stats->failed);
        if (stats->waiting > stats->queued)
                fprintf(stderr, ", %zu waiting", stats->waiting - stats->queued);
        fprintf(stderr, "  %s%s", report_duration(elapsed_ms, duration, sizeof(duration)),
                interrupt_level(interrupt_of_user()) ? "  finishing what was begun (again: stop now)" : "");
        fflush(stderr);
        screen->bar_drawn = true;
        funlockfile(stderr);
}

/* Reads one line from the terminal: Ctrl-C at the prompt is a no. */
static int read_confirmation(char *answer, size_t size) {
        struct pollfd polled[] = {
                { .fd = STDIN_FILENO, .events = POLLIN },
                { .fd = interrupt_descriptor(interrupt_of_user(), INTERRUPT_FINISH), .events = POLLIN },
        };

        while (poll(polled, 2, -1) < 0) {
                if (errno != EINTR)
                        return -1;
        }
        if (!polled[1].revents)
                return fgets(answer, (int)size, stdin) ? 0 : -1;
        fputc('\n', stderr);
        return -1;
}

static int ask(struct error *err) {
        char answer[16] = "";

        fflush(stderr);
        if (read_confirmation(answer, sizeof(answer)) < 0 || strcmp(answer, "yes\n") != 0)
                return error_set(err, "nothing was changed");
        return 0;
}

static bool has_terminal(void) {
        return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

int perform_confirm(const struct options *options, const struct plan *plan, bool destroy, struct error *err) {
        const char *resources = plan->change_count == 1 ? "resource" : "resources";

        if (options->yes)
                return 0;
        if (!has_terminal())
                return error_set(err, "this would change %zu %s: without a terminal to ask, --yes is needed",
                                 plan->change_count, resources);
        fprintf(stderr, "\n%s %zu %s? Only \"yes\" will do: ", destroy ? "Delete" : "Change",
                plan->change_count, resources);
        return ask(err);
}

int perform_ask(const struct options *options, const char *text, struct error *err) {
        if (options->yes)
                return 0;
        if (!has_terminal())
                return error_set(err, "%s Without a terminal to ask, --yes is needed", text);
        terminal_print_line(stderr, text, 0, 0);
        fputs("\nGo on? Only \"yes\" will do: ", stderr);
        return ask(err);
}

static bool is_commit(const char *text) {
        size_t length = strspn(text, "0123456789abcdef");

        return text[length] == '\0' && (length == 40 || length == 64);
}

/*
 * The commit of the manifests, for the history: from BERTH_COMMIT, or from the pipeline's own variables. Git is not asked: the
 * files may differ from any commit.
 */
static int find_commit(const char **ret, struct error *err) {
        static const char *const variables[] = { "BERTH_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA" };

        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
                const char *value = getenv(variables[i]);

                if (!value || !*value)
                        continue;
                if (is_commit(value)) {
                        *ret = value;
                        return 0;
                }
                if (i == 0)
                        return error_set(err,
                                         "BERTH_COMMIT is \"%.80s\": it must be a whole commit id, 40 or 64 "
                                         "hexadecimal digits in lower case",
                                         value);
        }
        return 0;
}

int perform(struct session *session, const struct options *options, const struct plan_args *planning,
            struct plan *plan, const char *command, struct error *err) {
        struct screen screen = { .options = options,
                                 .bar = !options->quiet && !options->json && isatty(STDERR_FILENO) };
        struct apply_watcher watcher = { .context = &screen, .ended = on_ended, .progress = on_progress };
        struct apply_args args = {
                .planning = planning,
                .plan = plan,
                .command = command,
                .parallel = options->parallel,
                .interrupt = interrupt_of_user(),
                .watcher = &watcher,
        };
        struct apply_result result;
        int applied;

        if (find_commit(&args.commit, err) < 0)
                return -1;
        interrupt_install();
        applied = apply_plan(&args, session->arena, &result, err);
        wipe_bar(&screen);
        fflush(stderr);
        if (applied < 0)
                return -1;
        if (options->json)
                print_json(report_result_json(plan, &result));
        else if (plan->change_count)
                report_result_text(plan, &result, stdout);
        if (result.failed || result.interrupted)
                return EXIT_ERROR;
        return plan_has_refusals(plan) ? EXIT_REFUSED : EXIT_DONE;
}
