/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, tasks and processes print on when their execution has ended. Its pipes linger: they are
 * read on, so that a server which was left behind does not die of writing its log. Output until the
 * next execution of the context is reported by that one, on its standard error and marked, since no
 * other can; later output is thrown away. Each stream is bounded.
 */
#include "runtime/serve/runtime_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char *const stream_names[] = { "standard output", "standard error" };

static struct late *find_late(struct runtime *runtime, int pipe, int *ret_stream) {
        for (size_t i = 0; i < runtime->context_count; i++) {
                for (*ret_stream = 0; *ret_stream < 2; ++*ret_stream) {
                        if (runtime->contexts[i].late.pipes[*ret_stream] == pipe)
                                return &runtime->contexts[i].late;
                }
        }
        return NULL;
}

bool late_read(struct runtime *runtime, int pipe) {
        static char bytes[65536];
        ssize_t count = read(pipe, bytes, sizeof(bytes));
        bool lives = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
        int stream;
        struct late *late = find_late(runtime, pipe, &stream);

        if (late && count > 0) {
                size_t room = RUNTIME_LATE_MAX - late->text[stream].length;

                strbuf_append_bytes(&late->text[stream], bytes, (size_t)count < room ? (size_t)count : room);
                late->bytes[stream] += (uint64_t)count;
        }
        if (late && !lives)
                late->pipes[stream] = -1;
        return lives;
}

void late_forget(struct runtime *runtime, int pipe) {
        int stream;
        struct late *late = find_late(runtime, pipe, &stream);

        if (late)
                late->pipes[stream] = -1;
}

/* Where it began, and its end where that is missing. */
static void report_late(struct runtime *runtime, const struct late *late, int stream) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const struct strbuf *from = &late->text[stream];
        struct report report = { .type = REPORT_OUTPUT, .n = runtime->execution.n, .is_stderr = true };

        if (late->bytes[stream] == 0)
                return;
        strbuf_printf(&text, "berth: %s after the end of execution %" PRId64 ":\n", stream_names[stream],
                      late->n);
        strbuf_append_bytes(&text, strbuf_text(from), from->length);
        if (from->data[from->length - 1] != '\n')
                strbuf_append_char(&text, '\n');
        if (late->bytes[stream] > from->length)
                strbuf_printf(&text, "berth: and %" PRIu64 " bytes more\n",
                              late->bytes[stream] - from->length);
        report.bytes = strbuf_text(&text);
        report.length = text.length;
        runtime->execution.bytes[1] += (int64_t)text.length;
        runtime_report(runtime, &report);
}

void late_tell(struct runtime *runtime, struct context *context) {
        struct late *late = &context->late;

        for (int i = 0; i < 2; i++) {
                if (late->pipes[i] >= 0)
                        (void)late_read(runtime, late->pipes[i]);
                report_late(runtime, late, i);
        }
        late_release(late);
}

void late_release(struct late *late) {
        for (int i = 0; i < 2; i++)
                strbuf_release(&late->text[i]);
        *late = (struct late){ .pipes = { -1, -1 } };
}
