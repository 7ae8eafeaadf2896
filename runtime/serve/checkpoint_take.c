/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint is taken of one context after the other. Its kernel gets the writing end of a pipe,
 * forks, and the child writes what it keeps: parts of checkpoint.h. They are checked, written again
 * and sent on as they come, so that nothing of it is held here; what the caller does not take fills
 * the pipe, and the child waits.
 *
 * A kernel that is late, with its child, is killed: it hangs in user code. One that sends an
 * impossible part is killed as well. Both cost that context its variables, which the next execution
 * says; the file says it of that context, and goes on with the next.
 */
#include "runtime/serve/runtime_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define READ_MAX 65536
#define END_BYTES 12 /* ENTRY of checkpoint.py */

static void send_bytes(struct runtime *runtime, const char *bytes, size_t length) {
        const struct report report = { .type = REPORT_PIECE, .bytes = bytes, .length = length };

        runtime->taking.total += (int64_t)length;
        runtime_report(runtime, &report);
}

static void send_part(struct runtime *runtime, const struct checkpoint_part *part) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

        checkpoint_part_write(part, &bytes);
        send_bytes(runtime, bytes.data, bytes.length);
}

static void send_nothing_kept(struct runtime *runtime, const struct context *context, int64_t generation,
                              const char *reason) {
        const struct checkpoint_part part = { .type = CHECKPOINT_CONTEXT,
                                              .context = context->name,
                                              .generation = generation,
                                              .reason = reason };

        send_part(runtime, &part);
        context_add_outcome(runtime->taking.contexts, context, 0, 0, reason);
}

static void finish_taking(struct runtime *runtime) {
        struct taking *taking = &runtime->taking;
        const struct checkpoint_part over = { .type = CHECKPOINT_OVER };
        struct report report = { .type = REPORT_CHECKPOINTED, .contexts = taking->contexts };

        send_part(runtime, &over);
        report.total = taking->total;
        report.is_late = taking->late;
        runtime_report(runtime, &report);
        json_decref(taking->contexts);
        *taking = (struct taking){ .pipe = -1, .kill_ms = INT64_MAX };
}

static int ask_kernel(struct runtime *runtime, struct context *context, int64_t now, struct error *err) {
        struct taking *taking = &runtime->taking;
        struct strbuf sources STRBUF_CLEANUP = STRBUF_INIT;
        json_t *head;
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_set(err, "no pipe for it: %s", strerror(errno));
        taking->pipe = ends[0];
        ends[0] = ends[1];
        ends[1] = -1;
        (void)fcntl(taking->pipe, F_SETFL, O_NONBLOCK);
        head = json_checked(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "type", "checkpoint", "context",
                                      context->name, "generation", (json_int_t)context->generation,
                                      "maxBytes", (json_int_t)taking->data_max, "maxMs",
                                      (json_int_t)(taking->until_ms - now), "libraryBytes",
                                      (json_int_t)cloudpickle_source_size));
        strbuf_append_bytes(&sources, cloudpickle_source, cloudpickle_source_size);
        strbuf_append_bytes(&sources, checkpoint_source, checkpoint_source_size);
        kernel_send(&context->kernel, head, sources.data, sources.length, ends);
        json_decref(head);
        taking->context = context;
        taking->kill_ms = now + (taking->until_ms - now) / 2;
        taking->told = false;
        return 0;
}

/* Goes on to the next context that has something to keep, or to the end. */
static void go_on(struct runtime *runtime) {
        struct taking *taking = &runtime->taking;

        while (!taking->context && taking->next < runtime->context_count) {
                struct context *context = &runtime->contexts[taking->next++];
                int64_t now = clock_now_ms();
                struct error err;
                bool is_dead = KERNEL_IS_DEAD(&context->kernel);

                if (is_dead && context->generation > 0)
                        send_nothing_kept(runtime, context, context->generation, context->lost);
                else if (!is_dead && context->fresh && !context->restored) {
                        /* Nothing has run in it. Where there was another before, that one's end is still to be told. */
                        if (context->generation > 1)
                                send_nothing_kept(runtime, context, context->generation - 1, context->lost);
                } else if (!is_dead && now >= taking->until_ms) {
                        taking->late = true;
                        send_nothing_kept(runtime, context, context->generation,
                                          "there was no time left for its checkpoint");
                } else if (!is_dead && ask_kernel(runtime, context, now, &err) < 0)
                        send_nothing_kept(runtime, context, context->generation, err.message);
        }
        if (!taking->context)
                finish_taking(runtime);
}

void checkpoint_take_start(struct runtime *runtime, const struct request *request) {
        struct taking *taking = &runtime->taking;

        if (runtime->execution.n > 0 || taking->active || runtime->restoring.active) {
                const struct report report = { .type = REPORT_CHECKPOINTED,
                                               .reason = runtime->execution.n > 0 ? "an execution runs"
                                                         : taking->active
                                                                 ? "a checkpoint is being taken already"
                                                                 : "a checkpoint is being restored" };

                runtime_report(runtime, &report);
                return;
        }
        *taking = (struct taking){ .active = true,
                                   .pipe = -1,
                                   .data_max = request->bytes,
                                   .total_max = request->bytes + CHECKPOINT_EXTRA_MAX,
                                   .max_ms = request->max_ms,
                                   .until_ms = clock_now_ms() + request->max_ms,
                                   .kill_ms = INT64_MAX,
                                   .contexts = json_checked(json_array()) };
        send_bytes(runtime, CHECKPOINT_LINE, sizeof(CHECKPOINT_LINE) - 1);
        go_on(runtime);
}

/* With this context. A reason says that it was not kept, or not whole. */
static void finish_context(struct runtime *runtime, const char *reason) {
        struct taking *taking = &runtime->taking;
        struct context *context = taking->context;

        close_descriptor(&taking->pipe);
        message_reader_release(&taking->reader);
        if (!taking->headed)
                send_nothing_kept(runtime, context, context->generation, reason);
        else if (!taking->whole) {
                const struct checkpoint_part end = { .type = CHECKPOINT_END,
                                                     .total = taking->data,
                                                     .reason = reason };

                send_part(runtime, &end);
        }
        if (taking->headed)
                context_add_outcome(taking->contexts, context, taking->kept, taking->lost_count,
                                    taking->whole ? NULL : reason);
        taking->data_max -= taking->data < taking->data_max ? taking->data : taking->data_max;
        taking->data = 0;
        taking->headed = taking->whole = false;
        taking->context = NULL;
        taking->kill_ms = INT64_MAX;
        go_on(runtime);
}

static int take_part(struct taking *taking, const struct message *message, struct checkpoint_part *part,
                     struct error *err) {
        if (checkpoint_part_read(message, part, err) < 0)
                return -1;
        if (part->type == CHECKPOINT_OVER || taking->whole ||
            taking->headed != (part->type != CHECKPOINT_CONTEXT) || part->reason)
                return error_set(err, "parts of its checkpoint came in no order");
        if (part->type == CHECKPOINT_CONTEXT && (strcmp(part->context, taking->context->name) != 0 ||
                                                 part->generation != taking->context->generation))
                return error_set(err, "it took a checkpoint of another");
        /* The mark at the end of its names is not counted: it comes even where nothing fits. */
        if (part->type == CHECKPOINT_DATA &&
            (int64_t)part->length > taking->data_max + END_BYTES - taking->data)
                return error_set(err, "its checkpoint has more bytes than it may");
        if (part->type == CHECKPOINT_END && part->total != taking->data)
                return error_set(err, "its checkpoint has other bytes than it says");
        return 0;
}

/* Reads what has come: 1 where there may be more. */
static int read_some(struct runtime *runtime, struct error *err) {
        struct taking *taking = &runtime->taking;
        char bytes[READ_MAX];
        ssize_t count = taking->pipe < 0 ? 0 : read(taking->pipe, bytes, sizeof(bytes));
        size_t at = 0, used;

        if (count < 0)
                return errno == EINTR;
        if (count == 0)
                close_descriptor(&taking->pipe);
        while (at < (size_t)count) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct checkpoint_part part;
                int whole =
                        message_read(&taking->reader, bytes + at, (size_t)count - at, &used, &message, err);

                if (whole < 0)
                        return -1;
                at += used;
                if (whole == MESSAGE_MORE)
                        continue;
                if (take_part(taking, &message, &part, err) < 0)
                        return -1;
                send_part(runtime, &part);
                if (part.type == CHECKPOINT_CONTEXT) {
                        taking->headed = true;
                        taking->kept = part.kept;
                        taking->lost_count = part.lost_count;
                } else if (part.type == CHECKPOINT_DATA)
                        taking->data += (int64_t)part.length;
                else
                        taking->whole = true;
                if (taking->total > taking->total_max)
                        return error_set(err, "its checkpoint has more bytes than it may");
        }
        return count > 0;
}

void checkpoint_take_read(struct runtime *runtime) {
        struct context *context = runtime->taking.context;
        struct error err;

        /* Once a turn: others must be read, too. */
        if (read_some(runtime, &err) < 0) {
                close_descriptor(&runtime->taking.pipe);
                runtime->taking.whole = false;
                context_kill(runtime, context, err.message);
        }
}

void checkpoint_take_done(struct runtime *runtime, const struct kernel_word *word) {
        struct error err = { 0 };
        int more = 1, left = 0;

        /* Its child has ended, so it says: what is in the pipe now is all. */
        if (runtime->taking.pipe >= 0)
                (void)ioctl(runtime->taking.pipe, FIONREAD, &left);
        for (; left > 0 && more > 0; left -= READ_MAX)
                more = read_some(runtime, &err);
        if (more < 0) {
                runtime->taking.whole = false;
                context_kill(runtime, runtime->taking.context, err.message);
                return;
        }
        if (word->reason && word->is_late)
                runtime->taking.late = true;
        finish_context(runtime, word->reason            ? word->reason
                                : runtime->taking.whole ? NULL
                                                        : "its checkpoint was cut off");
}

void checkpoint_take_kernel_ended(struct runtime *runtime, const struct context *context) {
        if (runtime->taking.context != context)
                return;
        runtime->taking.whole = false;
        finish_context(runtime, context->lost);
}

void checkpoint_take_tick(struct runtime *runtime) {
        struct taking *taking = &runtime->taking;
        char why[128];

        if (clock_now_ms() < taking->kill_ms)
                return;
        if (!taking->told) {
                taking->told = true;
                taking->kill_ms = taking->until_ms + RUNTIME_GRACE_MS;
                kernel_interrupt(&taking->context->kernel);
                return;
        }
        snprintf(why, sizeof(why), "it was killed: it did not take its checkpoint in %lld ms",
                 (long long)taking->max_ms);
        taking->kill_ms = INT64_MAX;
        context_kill(runtime, taking->context, why);
}
