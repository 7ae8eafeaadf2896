/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_check() by itself: a frame as the worker takes it on standard input (wire.h), one JSON object out. As
 * git_check() starts /proc/self/exe, this program is its own worker too.
 *
 *     {"ok", "reason", "message", "kind", "moved", "fetched", "commit", "ref", "subject", "author", "committedMs", "signer",
 *      "received", "warnings", "files": {NAME: TEXT}}
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text_utf8.h"
#include "gitops/git/git.h"
#include "gitops/git/wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set(json_t *object, const char *name, json_t *value) {
        if (!value || json_object_set_new(object, name, value) < 0)
                abort();
}

static json_t *text_of(const char *bytes, size_t length) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;
        char *copy = strndup(bytes, length);

        text_append_utf8(&safe, copy);
        free(copy);
        return json_string(strbuf_text(&safe));
}

static json_t *describe(const struct git_answer *answer) {
        json_t *object = json_object(), *files = json_object(), *warnings = json_array();

        set(object, "moved", json_boolean(answer->moved));
        set(object, "fetched", json_boolean(answer->fetched));
        json_set_text(object, "commit", answer->commit);
        json_set_text(object, "ref", answer->ref);
        json_set_text(object, "subject", answer->subject);
        json_set_text(object, "author", answer->author);
        json_set_text(object, "signer", answer->signer);
        set(object, "committedMs", json_integer((json_int_t)answer->committed_ms));
        set(object, "received", json_integer((json_int_t)answer->bytes_received));
        for (size_t i = 0; i < answer->warning_count; i++)
                json_array_append_new(warnings, json_string(answer->warnings[i]));
        set(object, "warnings", warnings);
        for (size_t i = 0; i < answer->file_count; i++)
                set(files, answer->files[i].name, text_of(answer->files[i].bytes, answer->files[i].length));
        set(object, "files", files);
        return object;
}

static int check(void) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf input STRBUF_CLEANUP = STRBUF_INIT;
        enum git_failure failure = GIT_LOCAL;
        struct git_answer answer = { 0 };
        struct git_request request;
        struct error err = { 0 };
        json_t *object;
        char *text;
        int result;

        if (file_read("/dev/stdin", (size_t)1 << 20, &input, &err) < 0 ||
            wire_read_request(strbuf_text(&input), input.length, arena, &request, &err) < 0) {
                fprintf(stderr, "%s\n", err.message);
                return 1;
        }
        request.interrupt = interrupt_of_user();
        result = git_check(&request, arena, &answer, &failure, &err);
        object = describe(&answer);
        set(object, "ok", json_boolean(result == 0));
        if (result < 0) {
                json_set_text(object, "reason", git_failure_reason(failure));
                json_set_text(object, "message", err.message);
                set(object, "kind", json_integer(err.kind));
        }
        text = json_compact(object);
        puts(text);
        free(text);
        json_decref(object);
        return 0;
}

int main(int argc, char **argv) {
        signal(SIGPIPE, SIG_IGN);
        if (argc == 2 && strcmp(argv[1], "git-worker") == 0)
                return git_worker_main();
        if (argc == 2 && strcmp(argv[1], "git-judge") == 0)
                return git_judge_main();
        interrupt_install();
        return check();
}
