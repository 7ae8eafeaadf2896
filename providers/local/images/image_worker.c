/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/image_worker.h"

#include "base/files.h"
#include "base/json.h"
#include "process/cage.h"
#include "process/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)1024 * 1024) /* of the request, and of the answer */
#define MEMORY ((uint64_t)256 * 1024 * 1024)
#define FILE_MAX ((uint64_t)IMAGE_RULES_SIZE_MAX + (UINT64_C(1) << 30)) /* an archive's largest */
#define CPU_SECONDS (2 * 60 * 60)

/* The worker's descriptors. */
enum { GIVEN = 3, TOP, WORK, ARCHIVE, ROOT, BLOBS };

/* What an image may be refused for: image_rules.h. */
static const char *const problems[] = { "index", "media-type", "size", "platform" };

/* The worker's process */

static json_t *prepared_json(const struct image_prepared *prepared) {
        const struct image_verdict *verdict = &prepared->verdict;
        const struct unpack_tally *tally = &prepared->tally;
        json_t *answer = json_object();

        json_set_text(answer, "digest", prepared->digest);
        json_put(answer, "present", json_boolean(prepared->present));
        json_set_text(answer, "problem", verdict->problem);
        json_set_text(answer, "seen", verdict->seen);
        json_set_text(answer, "mediaType", verdict->media_type);
        json_set_text(answer, "platform", verdict->platform);
        json_put(answer, "size", json_integer(verdict->size));
        json_put(answer, "privileged", json_integer((json_int_t)tally->privileged));
        json_put(answer, "capabilities", json_integer((json_int_t)tally->capabilities));
        json_put(answer, "devices", json_integer((json_int_t)tally->devices));
        json_put(answer, "specials", json_integer((json_int_t)tally->specials));
        return answer;
}

static int enter_image_cage(const char **ret_weak, struct error *err) {
        static const char *const read[] = { "/proc/self/fd/3", "/proc/self/fd/4", NULL };
        static const char *const write[] = { "/proc/self/fd/5", NULL };
        static const struct cage cage = {
                .calls = CAGE_OFFLINE,
                .read = read,
                .write = write,
                .data_bytes = MEMORY,
                .file_bytes = FILE_MAX,
                .files_open = 512,
                .cpu_seconds = CPU_SECONDS,
        };

        return cage_enter(&cage, ret_weak, err);
}

static int prepare_image(struct arena *arena, struct image_prepared *ret, const char **ret_weak,
                         struct error *err) {
        struct image_store store = {
                .folder = "", .top = TOP, .work = WORK, .archive = ARCHIVE, .root = ROOT, .blobs = BLOBS
        };
        struct strbuf input STRBUF_CLEANUP = STRBUF_INIT;
        json_t *request JSON_CLEANUP = NULL;
        struct local_reference name = { 0 };
        const char *path;

        if (file_read("/dev/stdin", TEXT_MAX, &input, err) < 0)
                return -1;
        request = json_loadb(strbuf_text(&input), input.length, 0, NULL);
        path = json_text(request, "path");
        name.repository = json_text(request, "repository");
        name.tag = json_text(request, "tag");
        store.folder = json_text(request, "store");
        if (!path || !name.repository || !name.tag || !store.folder)
                return error_set(err, "image-worker was asked for nothing");
        path = arena_strdup(arena, path);
        name.repository = arena_strdup(arena, name.repository);
        name.tag = arena_strdup(arena, name.tag);
        store.folder = arena_strdup(arena, store.folder);
        if (enter_image_cage(ret_weak, err) < 0)
                return -1;
        return image_prepare(&store, GIVEN, path, &name, arena, ret, err);
}

int image_worker_main(void) {
        struct arena *arena = arena_new();
        json_t *answer;
        struct image_prepared prepared = { 0 };
        const char *weak = NULL;
        struct error err = { 0 };
        char *text;
        int result;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        umask(0077);
        result = prepare_image(arena, &prepared, &weak, &err);
        answer = result == 0 ? prepared_json(&prepared) : json_object();
        if (result < 0) {
                json_set_text(answer, "message", err.message);
                json_put(answer, "kind", json_integer(err.kind));
        }
        json_set_text(answer, "weak", weak);
        text = json_compact(answer);
        result = descriptor_write(STDOUT_FILENO, text, strlen(text));
        free(text);
        json_decref(answer);
        arena_free(arena);
        /* At once: a sanitizer that looks for leaks at the end cannot trace a process that is caged, and would say so. */
        _exit(result < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Who asks it */

static int read_answer(const struct run_result *result, struct arena *arena, struct image_prepared *ret,
                       const char **ret_weak, struct error *err) {
        json_t *answer JSON_CLEANUP =
                json_loadb(strbuf_text(&result->output), result->output.length, 0, NULL);
        const char *digest = json_text(answer, "digest"), *problem = json_text(answer, "problem");
        const char *message = json_text(answer, "message");
        const struct {
                const char *name, **to;
        } texts[] = {
                { "seen", &ret->verdict.seen },
                { "mediaType", &ret->verdict.media_type },
                { "platform", &ret->verdict.platform },
                { "weak", ret_weak },
        };

        if (message)
                return error_set_kind(err, (enum error_kind)json_integer_or(answer, "kind", ERROR_FAILED),
                                      "%s", message);
        if (!digest || !image_rules_is_digest(digest))
                return error_set(err, "image-worker gave no answer");
        *ret = (struct image_prepared){ .digest = arena_strdup(arena, digest),
                                        .present = json_is_true(json_object_get(answer, "present")) };
        for (size_t i = 0; problem && i < sizeof(problems) / sizeof(problems[0]); i++) {
                if (strcmp(problem, problems[i]) == 0)
                        ret->verdict.problem = problems[i];
        }
        if (problem && !ret->verdict.problem)
                return error_set(err, "image-worker gave no answer that can be read");
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                const char *text = json_text(answer, texts[i].name);

                *texts[i].to = text ? arena_strdup(arena, text) : NULL;
        }
        ret->verdict.size = json_integer_or(answer, "size", 0);
        ret->tally.privileged = (uint64_t)json_integer_or(answer, "privileged", 0);
        ret->tally.capabilities = (uint64_t)json_integer_or(answer, "capabilities", 0);
        ret->tally.devices = (uint64_t)json_integer_or(answer, "devices", 0);
        ret->tally.specials = (uint64_t)json_integer_or(answer, "specials", 0);
        return 0;
}

static int judge_end(const struct run_result *result, const char *path, struct error *err) {
        switch (result->end) {
        case RUN_EXITED:
                return 0;
        case RUN_INTERRUPTED:
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
        case RUN_SIGNALLED:
                return error_set(
                        err,
                        "%s: image-worker, which reads it, was ended by signal %d (%s): it may need more than "
                        "256 MiB of memory, or was made to do harm; nothing of it is kept",
                        path, result->code, strsignal(result->code));
        case RUN_LATE:
        case RUN_TALKATIVE:
        default:
                return error_set(err, "%s: image-worker, which reads it, said too much", path);
        }
}

int image_worker_prepare(struct image_store *store, int given, const char *path,
                         const struct local_reference *name, struct arena *arena, struct image_prepared *ret,
                         const char **ret_weak, struct error *err) {
        static const char *const arguments[] = { "/proc/self/exe", "image-worker", NULL };
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        json_t *request JSON_CLEANUP = json_object();
        char *text TEXT_CLEANUP = NULL;
        struct run_args args = {
                .process = { .arguments = arguments,
                             .environment = cage_environment(arena),
                             .group = PROCESS_OWN_GROUP,
                             .descriptors = { { given, GIVEN },
                                              { store->top, TOP },
                                              { store->work, WORK },
                                              { store->archive, ARCHIVE },
                                              { store->root, ROOT },
                                              { store->blobs, BLOBS } },
                             .descriptor_count = 6 },
                .output_max = TEXT_MAX,
                .errors = RUN_ERRORS_INHERITED,
                .deadline_ms = RUN_NO_DEADLINE,
                .interrupt = interrupt_of_user(),
        };

        json_set_text(request, "path", path);
        json_set_text(request, "store", store->folder);
        json_set_text(request, "repository", name->repository);
        json_set_text(request, "tag", name->tag);
        text = json_compact(request);
        args.input = text;
        args.input_length = strlen(text);
        if (run_to_end(&args, &result, err) < 0 || judge_end(&result, path, err) < 0)
                return -1;
        return read_answer(&result, arena, ret, ret_weak, err);
}
