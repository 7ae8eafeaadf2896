/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint is restored before anything has run: its file comes in pieces, and each context's data go to a kernel of its own as they
 * come. Several can be at work at once; the next piece is read when none of them has too much to read.
 *
 * Whatever goes wrong with one context is that one's loss: its next execution begins with nothing, and says so. A kernel that dies or
 * hangs over its data, which may do anything, is replaced by a new one.
 */
#include "runtime/serve/runtime_parts.h"

#include "base/clock.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void finish_restoring(struct runtime *runtime) {
        struct restoring *restoring = &runtime->restoring;
        struct report report = { .type = REPORT_RESTORED,
                                 .contexts = restoring->contexts,
                                 .reason = restoring->reason[0] ? restoring->reason : NULL };

        if (restoring->left > 0)
                return;
        for (size_t i = 0; i < runtime->context_count; i++) {
                if (runtime->contexts[i].restoring)
                        return;
        }
        restoring->active = false;
        runtime_report(runtime, &report);
        json_decref(restoring->contexts);
        checkpoint_reader_release(&restoring->reader);
        *restoring = (struct restoring){ .until_ms = INT64_MAX };
}

/* Nothing of it is there: its next execution says that it is lost, and why. */
static void lose(struct runtime *runtime, struct context *context, const char *why) {
        snprintf(context->lost, sizeof(context->lost), "%.*s", (int)sizeof(context->lost) - 1, why);
        context_add_outcome(runtime->restoring.contexts, context, 0, 0, context->lost);
}

/* A kernel that began before its generation was known has the next one. */
static void set_generation(struct context *context, int64_t generation) {
        context->generation = generation + !KERNEL_IS_DEAD(&context->kernel);
}

static bool has_outcome(const json_t *outcomes, const char *name) {
        const json_t *item;
        size_t index;

        json_array_foreach (outcomes, index, item) {
                if (strcmp(json_text(item, "context"), name) == 0)
                        return true;
        }
        return false;
}

/* The file has ended, as it should or not. A context that should have come and did not is lost. */
static void end_file(struct runtime *runtime) {
        struct restoring *restoring = &runtime->restoring;

        if (!restoring->deaf && !checkpoint_reader_is_over(&restoring->reader))
                snprintf(restoring->reason, sizeof(restoring->reason), "%s",
                         restoring->reader.over ? "a checkpoint that goes on behind its end"
                                                : "the checkpoint is cut off");
        restoring->deaf = true;
        if (restoring->context)
                context_kill(runtime, restoring->context, restoring->reason);
        restoring->context = NULL;
        for (size_t i = 0; i < runtime->context_count; i++) {
                struct context *context = &runtime->contexts[i];

                if (context->expected && !context->restoring &&
                    !has_outcome(restoring->contexts, context->name))
                        lose(runtime, context,
                             restoring->reason[0] ? restoring->reason : "it was not in the checkpoint");
                context->expected = false;
        }
}

static void expect(struct runtime *runtime, const json_t *contexts) {
        const json_t *item;
        size_t index;

        json_array_foreach (contexts, index, item) {
                struct context *context = context_get(runtime, json_text(item, "context"));

                if (!context)
                        continue;
                set_generation(context, json_integer_or(item, "generation", 1));
                context->expected = true;
        }
}

/* Why it cannot be restored now, or NULL. */
static const char *is_too_late(const struct runtime *runtime) {
        if (runtime->execution.n > 0)
                return "an execution runs";
        if (runtime->taking.active)
                return "a checkpoint is being taken";
        for (size_t i = 0; i < runtime->context_count; i++) {
                const struct context *context = &runtime->contexts[i];

                if (context->generation > 1 || (context->generation == 1 && !context->fresh))
                        return "something has run here already";
        }
        return NULL;
}

void checkpoint_restore_start(struct runtime *runtime, const struct request *request) {
        struct restoring *restoring = &runtime->restoring;
        const char *why;

        if (restoring->active) {
                runtime_refuse(runtime, 0, "a checkpoint is being restored already");
                return;
        }
        why = is_too_late(runtime);
        *restoring = (struct restoring){ .active = true,
                                         .left = request->bytes,
                                         .deaf = why || request->reason,
                                         .max_ms = request->max_ms,
                                         .until_ms = clock_now_ms() + request->max_ms,
                                         .contexts = json_checked(json_array()) };
        if (why || request->reason)
                snprintf(restoring->reason, sizeof(restoring->reason), "%s", why ? why : request->reason);
        if (!why)
                expect(runtime, request->contexts);
        if (restoring->left == 0)
                end_file(runtime);
        finish_restoring(runtime);
}

static void begin_context(struct runtime *runtime, const struct checkpoint_part *part) {
        struct context *context = context_get(runtime, part->context);
        struct strbuf sources STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;
        json_t *head;

        runtime->restoring.context = NULL;
        if (!context)
                return;
        if (!context->expected)
                set_generation(context, part->generation);
        if (!part->python) {
                lose(runtime, context, part->reason);
                return;
        }
        if (context_start(runtime, context, STDERR_FILENO, STDERR_FILENO, &err) < 0) {
                lose(runtime, context, err.message);
                return;
        }
        head = json_checked(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "type", "restore", "python",
                                      part->python, "flags", (json_int_t)part->flags, "kept",
                                      (json_int_t)part->kept, "lostCount", (json_int_t)part->lost_count,
                                      "libraryBytes", (json_int_t)cloudpickle_source_size));
        json_put(head, "lost", json_deep_copy(part->lost));
        strbuf_append_bytes(&sources, cloudpickle_source, cloudpickle_source_size);
        strbuf_append_bytes(&sources, checkpoint_source, checkpoint_source_size);
        kernel_send(&context->kernel, head, sources.data, sources.length, NULL);
        json_decref(head);
        context->restoring = true;
        runtime->restoring.context = context;
}

static void end_context(struct runtime *runtime, const struct checkpoint_part *part) {
        struct context *context = runtime->restoring.context;
        json_t *head;

        runtime->restoring.context = NULL;
        if (!context)
                return;
        if (part->reason) {
                context_kill(runtime, context, part->reason);
                return;
        }
        head = json_checked(json_pack("{s:s, s:I}", "type", "end", "crc32", (json_int_t)part->checksum));
        kernel_send(&context->kernel, head, NULL, 0, NULL);
        json_decref(head);
}

static void restore_part(struct runtime *runtime, const struct checkpoint_part *part) {
        struct context *context = runtime->restoring.context;
        json_t *head;

        if (part->type == CHECKPOINT_CONTEXT)
                begin_context(runtime, part);
        else if (part->type == CHECKPOINT_END)
                end_context(runtime, part);
        else if (part->type == CHECKPOINT_DATA && context) {
                head = json_checked(json_pack("{s:s}", "type", "data"));
                kernel_send(&context->kernel, head, part->bytes, part->length, NULL);
                json_decref(head);
        }
}

void checkpoint_restore_piece(struct runtime *runtime, const struct request *request) {
        struct restoring *restoring = &runtime->restoring;
        size_t at = 0, length = request->piece_length, used;

        if (!restoring->active || (int64_t)length > restoring->left) {
                runtime_refuse(runtime, 0,
                               restoring->active ? "a piece of more bytes than were announced"
                                                 : "no checkpoint is being restored");
                return;
        }
        restoring->left -= (int64_t)length;
        while (at < length && !restoring->deaf) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct checkpoint_part part;
                struct error err;
                int answer = checkpoint_read(&restoring->reader, request->piece + at, length - at, &used,
                                             &message, &part, &err);

                if (answer < 0) {
                        restoring->deaf = true;
                        snprintf(restoring->reason, sizeof(restoring->reason), "%.200s", err.message);
                        break;
                }
                at += used;
                if (answer == MESSAGE_WHOLE)
                        restore_part(runtime, &part);
        }
        if (restoring->left == 0)
                end_file(runtime);
        finish_restoring(runtime);
}

void checkpoint_restore_done(struct runtime *runtime, struct context *context,
                             const struct kernel_word *word) {
        struct restoring *restoring = &runtime->restoring;

        context->restoring = false;
        /* It may not have waited for the end of its data. */
        if (restoring->context == context)
                restoring->context = NULL;
        if (word->reason)
                lose(runtime, context, word->reason);
        else {
                context->restored = json_checked(json_deep_copy(word->restored));
                context->restored_lost = json_checked(json_deep_copy(word->lost));
                context->lost[0] = '\0';
                if (word->restored_count > (int64_t)json_array_size(word->restored) ||
                    word->lost_count > (int64_t)json_array_size(word->lost))
                        snprintf(context->lost, sizeof(context->lost),
                                 "of %lld names that are restored %zu are listed, of %lld that are lost %zu",
                                 (long long)word->restored_count, json_array_size(word->restored),
                                 (long long)word->lost_count, json_array_size(word->lost));
                context_add_outcome(restoring->contexts, context, word->restored_count, word->lost_count,
                                    NULL);
        }
        finish_restoring(runtime);
}

void checkpoint_restore_kernel_ended(struct runtime *runtime, struct context *context) {
        char why[256];

        if (!context->restoring)
                return;
        context->restoring = false;
        if (runtime->restoring.context == context)
                runtime->restoring.context = NULL;
        snprintf(why, sizeof(why), "its checkpoint could not be restored: %.200s", context->lost);
        lose(runtime, context, why);
        finish_restoring(runtime);
}

void checkpoint_restore_tick(struct runtime *runtime) {
        struct restoring *restoring = &runtime->restoring;
        char why[128];

        if (!restoring->active || clock_now_ms() < restoring->until_ms)
                return;
        restoring->until_ms = INT64_MAX;
        snprintf(why, sizeof(why), "it was not restored in %lld ms", (long long)restoring->max_ms);
        if (restoring->left > 0 && !restoring->deaf) {
                restoring->deaf = true;
                snprintf(restoring->reason, sizeof(restoring->reason), "%s", why);
        }
        for (size_t i = 0; i < runtime->context_count; i++) {
                if (runtime->contexts[i].restoring)
                        context_kill(runtime, &runtime->contexts[i], why);
        }
}

bool checkpoint_restore_is_behind(const struct runtime *runtime) {
        for (size_t i = 0; i < runtime->context_count; i++) {
                if (runtime->contexts[i].restoring &&
                    kernel_backlog(&runtime->contexts[i].kernel) > RUNTIME_KERNEL_BACKLOG)
                        return true;
        }
        return false;
}
