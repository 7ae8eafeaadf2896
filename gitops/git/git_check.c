/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_check(): the worker started, listened to, and ended.
 *
 * The worker reads what strangers wrote, and may be taken over. So it gets all that it needs in one request, and answers once:
 * its answer is bounded and checked before anything of it is used (wire.c). The phases that it names while it works are only for
 * the message where no answer comes.
 */
#include "base/clock.h"
#include "base/files.h"
#include "gitops/git/proxy.h"
#include "gitops/git/wire.h"
#include "process/cage.h"
#include "process/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* What a poll may still take once the user has asked to stop: nothing is lost with it. */
#define GRACE_MS 3000
/* Beside the files: the header, and what the phases take. */
#define HEADER_MAX ((size_t)64 * 1024 * 1024)

/*
 * The worker was killed by a fault. The content of its folder may be the cause: it is removed, so
 * that the next one fetches again.
 */
static int fail_dead(const struct git_request *request, const struct run_result *result,
                     enum git_failure *ret_failure, struct error *err) {
        char *repository TEXT_CLEANUP = path_join(request->folder, "repository.git");
        struct error ignored = { 0 };

        if (result->code == SIGXCPU)
                return FAIL(GIT_OVER_LIMIT, "the repository takes too much processor time");
        if ((result->code == SIGSEGV || result->code == SIGBUS || result->code == SIGABRT) &&
            git_remove_folder(repository, &ignored) < 0)
                return FAIL(GIT_LOCAL, "git-worker was ended by signal %d (%s); %s", result->code,
                            strsignal(result->code), ignored.message);
        return FAIL(GIT_LOCAL, "git-worker was ended by signal %d (%s)", result->code,
                    strsignal(result->code));
}

/* Says why there is no answer. */
static int fail_without(const struct git_request *request, const struct run_result *result,
                        enum git_phase phase, enum git_failure *ret_failure, struct error *err) {
        struct git_limits limits = wire_limits(&request->limits);

        switch (result->end) {
        case RUN_LATE:
                return FAIL(phase <= PHASE_FETCHING ? GIT_UNREACHABLE : GIT_OVER_LIMIT,
                            "no answer within %lld s, while %s",
                            (long long)((limits.timeout_ms + 999) / 1000), git_phase_names[phase]);
        case RUN_TALKATIVE:
                return FAIL(GIT_OVER_LIMIT, "git-worker said more than the manifests may have");
        case RUN_INTERRUPTED:
                *ret_failure = GIT_UNREACHABLE;
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted while %s", git_phase_names[phase]);
        case RUN_SIGNALLED:
                return fail_dead(request, result, ret_failure, err);
        case RUN_EXITED:
        default:
                return FAIL(GIT_LOCAL, "git-worker gave no answer (exit code %d)", result->code);
        }
}

static int read_result(const struct git_request *request, const struct run_result *result,
                       struct arena *arena, struct git_answer *ret, enum git_failure *ret_failure,
                       struct error *err) {
        enum git_phase phase = PHASE_STARTING;
        struct error unread = { 0 };
        struct wire_answer answer;

        if (wire_read_answer(strbuf_text(&result->output), result->output.length, request, arena, &answer,
                             &phase, &unread) < 0 ||
            result->end != RUN_EXITED)
                return fail_without(request, result, phase, ret_failure, err);
        *ret = answer.answer;
        if (answer.failed)
                return FAIL(answer.failure, "%s", answer.message);
        return 0;
}

/* The worker does not see this process's environment. */
static const char *proxy_of(const char *text, struct arena *arena) {
        struct error ignored = { 0 };
        struct url url;

        return url_parse(text, arena, &url, &ignored) == 0 ? proxy_for(&url) : NULL;
}

int git_check(const struct git_request *request, struct arena *arena, struct git_answer *ret,
              enum git_failure *ret_failure, struct error *err) {
        static const char *const arguments[] = { "/proc/self/exe", "git-worker", NULL };
        struct git_limits limits = wire_limits(&request->limits);
        struct git_request with_proxy = *request;
        struct strbuf input STRBUF_CLEANUP = STRBUF_INIT;
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct run_args args = {
                .process = { .arguments = arguments,
                             .environment = cage_environment(arena),
                             .group = PROCESS_OWN_GROUP },
                .output_max = limits.total_bytes + HEADER_MAX,
                .errors = RUN_ERRORS_INHERITED,
                .deadline_ms = clock_now_ms() + limits.timeout_ms,
                .interrupt = request->interrupt,
                .grace_ms = GRACE_MS,
        };
        int outcome;

        *ret = (struct git_answer){ 0 };
        *ret_failure = GIT_LOCAL;
        with_proxy.proxy = proxy_of(request->url, arena);
        wire_write_request(&with_proxy, &input);
        args.input = strbuf_text(&input);
        args.input_length = input.length;
        outcome = run_to_end(&args, &result, err);
        if (outcome == 0)
                outcome = read_result(request, &result, arena, ret, ret_failure, err);
        if (outcome == 0)
                return 0;
        return error_context(err, "%s", git_display_name(request->url, arena));
}
