/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/e2b/e2b_contexts.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text_utf8.h"
#include "broker/e2b/e2b_call.h"
#include "broker/request/answers.h"
#include "broker/work/execute.h"
#include "runtime/protocol/request.h"

#include <string.h>

#define RANDOM_BYTES 8
#define FOLDER_MAX ((size_t)200) /* bytes: it stands in a label */

static const char *const kernels[] = { "c1", "c2", "c3", "c4", "c5", "c6", "c7" };
#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

bool e2b_contexts_is_label(const char *name) {
        return strncmp(name, E2B_CONTEXTS_LABEL, strlen(E2B_CONTEXTS_LABEL)) == 0;
}

const char *e2b_contexts_language(const char *language) {
        int known = request_language(language);

        return known >= 0 ? request_language_name((enum request_language)known) : NULL;
}

/* --- as labels --- */

static const char *label_of(const char *kernel, struct arena *arena) {
        return arena_printf(arena, E2B_CONTEXTS_LABEL "%s", kernel);
}

/* False if the kernel has no context; an owner that changed the labels by hand has caused that. */
static bool read_label(const json_t *session, const char *kernel, struct arena *arena,
                       struct e2b_context *ret) {
        const char *text = json_text(json_object_get(session, "labels"), label_of(kernel, arena)),
                   *language = text ? strchr(text, ' ') : NULL,
                   *folder = language ? strchr(language + 1, ' ') : NULL;

        if (!folder)
                return false;
        *ret = (struct e2b_context){
                .id = arena_printf(arena, "%s-%.*s", kernel, (int)(language - text), text),
                .kernel = kernel,
                .language = arena_strndup(arena, language + 1, (size_t)(folder - language - 1)),
                .folder = arena_strdup(arena, folder + 1),
        };
        return e2b_contexts_language(ret->language) != NULL;
}

bool e2b_contexts_find(const json_t *session, const char *id, struct arena *arena, struct e2b_context *ret) {
        if (!id || strcmp(id, "main") == 0) {
                *ret = (struct e2b_context)E2B_CONTEXT_MAIN;
                return true;
        }
        for (size_t i = 0; i < KERNELS; i++) {
                if (read_label(session, kernels[i], arena, ret) && strcmp(ret->id, id) == 0)
                        return true;
        }
        return false;
}

static int show(const struct server_request *request, json_t **ret, struct problem *problem) {
        const struct call *call = request->data;

        return engine_show(call->engine, &call->caller, e2b_call_sandbox(request), ret, problem);
}

static int write_labels(const struct server_request *request, const json_t *labels, struct problem *problem) {
        const struct call *call = request->data;
        const struct engine_patch patch = { .labels = labels };
        json_t *ignored;

        if (engine_patch(call->engine, &call->caller, e2b_call_sandbox(request), &patch, &ignored, problem) <
            0)
                return -1;
        json_decref(ignored);
        return 0;
}

/* Gives *context an unused kernel. */
static int add(const struct server_request *request, struct e2b_context *context, struct problem *problem) {
        json_t *session JSON_CLEANUP = NULL, *labels;
        struct e2b_context other;
        uint8_t random[RANDOM_BYTES];
        char hex[2 * RANDOM_BYTES + 1];

        if (show(request, &session, problem) < 0)
                return -1;
        for (size_t i = 0; i < KERNELS && !context->kernel; i++) {
                if (!read_label(session, kernels[i], request->arena, &other))
                        context->kernel = kernels[i];
        }
        if (!context->kernel)
                return problem_set(problem, PROBLEM_INVALID,
                                   "a sandbox may have 8 contexts, the default one among them");
        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), hex);
        context->id = arena_printf(request->arena, "%s-%s", context->kernel, hex);
        labels = json_object_get(session, "labels");
        json_set_text(labels, label_of(context->kernel, request->arena),
                      arena_printf(request->arena, "%s %s %s", hex, context->language, context->folder));
        return write_labels(request, labels, problem);
}

static int drop(const struct server_request *request, struct e2b_context *context, struct problem *problem) {
        json_t *session JSON_CLEANUP = NULL, *labels;
        struct e2b_context found;

        if (show(request, &session, problem) < 0)
                return -1;
        if (!e2b_contexts_find(session, context->id, request->arena, &found))
                return problem_set(problem, PROBLEM_NOT_FOUND, "the context was removed already");
        labels = json_object_get(session, "labels");
        json_object_del(labels, label_of(context->kernel, request->arena));
        return write_labels(request, labels, problem);
}

/* Labels are read and written as a whole: one at a time. */
static int change(const struct server_request *request,
                  int (*how)(const struct server_request *request, struct e2b_context *context,
                             struct problem *problem),
                  struct e2b_context *context, struct problem *problem) {
        pthread_mutex_t *lock = &((const struct call *)request->data)->broker->e2b->labels;
        int result;

        pthread_mutex_lock(lock);
        result = how(request, context, problem);
        pthread_mutex_unlock(lock);
        return result;
}

/* --- what clients ask for --- */

static json_t *context_json(const struct e2b_context *context) {
        return json_checked(json_pack("{s:s, s:s, s:s}", "id", context->id, "language", context->language,
                                      "cwd", context->folder));
}

void e2b_contexts_list(struct server_request *request) {
        json_t *session JSON_CLEANUP = NULL, *list;
        struct e2b_context context;
        struct problem problem;

        if (show(request, &session, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        list = json_checked(json_array());
        if (e2b_contexts_find(session, NULL, request->arena, &context))
                json_add(list, context_json(&context));
        for (size_t i = 0; i < KERNELS; i++) {
                if (read_label(session, kernels[i], request->arena, &context))
                        json_add(list, context_json(&context));
        }
        answers_json(request, 200, list);
}

/* A new kernel of Python's is brought into its folder by its own code; the shell's code each time by itself. */
static bool enter_folder(struct server_request *request, const struct e2b_context *context) {
        struct call *call = call_of(request);
        json_t *folder JSON_CLEANUP = json_from_text(context->folder), *result = NULL;
        char *literal TEXT_CLEANUP = json_dumps(folder, JSON_ENCODE_ANY);
        const char *code = arena_printf(request->arena, "__import__('os').chdir(%s)", literal);
        const struct engine_code wish = { .code = code,
                                          .code_length = strlen(code),
                                          .context = context->kernel,
                                          .interrupt_on_disconnect = true };
        struct engine_follower *follower;
        struct problem problem;
        enum server_wait waited;
        const char *status;
        int64_t n;
        bool entered = false;

        if (strcmp(context->language, "python") != 0 || strcmp(context->folder, E2B_FOLDER) == 0)
                return true;
        if (engine_execute(call->engine, &call->caller, e2b_call_sandbox(request), &wish, &n, &follower,
                           &problem) < 0)
                return call_refuse(request, &problem);
        waited = execute_await(request, follower);
        if (waited == SERVER_READY &&
            engine_result(call->engine, &call->caller, e2b_call_sandbox(request), n, &result, &problem) < 0) {
                (void)call_refuse(request, &problem);
        } else if (waited == SERVER_READY) {
                status = json_text(result, "status");
                entered = status && strcmp(status, "ok") == 0;
                if (!entered)
                        (void)call_refuse_value(request,
                                                "cwd is no folder that the sandbox's code can be in");
        } else if (waited == SERVER_STOPS) {
                e2b_answer_error(request, 503, "the server stops");
        }
        json_decref(result);
        engine_follower_close(follower);
        return entered;
}

static const char *folder_problem(const char *folder) {
        size_t length = strlen(folder), ignored;

        if (*folder != '/' || length > FOLDER_MAX || !text_is_utf8(folder, length, &ignored))
                return "cwd must be an absolute path of at most 200 bytes";
        for (; *folder; folder++) {
                if ((unsigned char)*folder < 0x20 || *folder == 0x7f)
                        return "cwd has a control character";
        }
        return NULL;
}

void e2b_contexts_create(struct server_request *request) {
        static const struct e2b_member members[] = { { "language", JSON_STRING, false },
                                                     { "cwd", JSON_STRING, false },
                                                     { NULL, JSON_NULL, false } };
        const json_t *body = e2b_call_body(request, members);
        struct e2b_context context = { .language = "python", .folder = E2B_FOLDER };
        const char *wrong = NULL, *inner;
        struct problem problem;

        if (!body)
                return;
        if (json_text(body, "language"))
                context.language = json_text(body, "language");
        if (json_text(body, "cwd"))
                context.folder = json_text(body, "cwd");
        if (!e2b_contexts_language(context.language))
                wrong = "language must be python or bash";
        else if (strncmp(context.folder, "/home/user", 10) == 0 &&
                 e2b_call_path(context.folder, request->arena, &inner, &problem) == 0)
                context.folder = *inner ? arena_printf(request->arena, E2B_FOLDER "/%s", inner) : E2B_FOLDER;
        if (!wrong)
                wrong = folder_problem(context.folder);
        if (wrong) {
                (void)call_refuse_value(request, wrong);
                return;
        }
        if (change(request, add, &context, &problem) < 0)
                answers_refusal(request, &problem);
        else if (enter_folder(request, &context))
                answers_json(request, 200, context_json(&context));
        else
                (void)change(request, drop, &context, &problem);
}

/* False where the request was answered: there is no such context. */
static bool find(struct server_request *request, struct e2b_context *ret) {
        json_t *session JSON_CLEANUP = NULL;
        struct problem problem;

        if (show(request, &session, &problem) < 0)
                return call_refuse(request, &problem);
        if (e2b_contexts_find(session, request->parameters[0], request->arena, ret))
                return true;
        e2b_answer_error(request, 404, "the sandbox has no such context");
        return false;
}

static bool start_anew(struct server_request *request, const struct e2b_context *context) {
        struct call *call = call_of(request);
        struct problem problem;

        return engine_restart(call->engine, &call->caller, e2b_call_sandbox(request), context->kernel,
                              &problem) == 0 ||
               call_refuse(request, &problem);
}

void e2b_contexts_restart(struct server_request *request) {
        struct e2b_context context = E2B_CONTEXT_MAIN;

        if (find(request, &context) && start_anew(request, &context) && enter_folder(request, &context))
                answers_json(request, 200, json_null());
}

/* Its memory goes at once, and the next context of the kernel finds it empty. */
void e2b_contexts_remove(struct server_request *request) {
        struct e2b_context context = E2B_CONTEXT_MAIN;
        struct problem problem;

        if (!find(request, &context))
                return;
        if (strcmp(context.kernel, "main") == 0)
                (void)call_refuse_value(request, "the default context stays: restart it");
        else if (!start_anew(request, &context))
                return;
        else if (change(request, drop, &context, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, json_null());
}
