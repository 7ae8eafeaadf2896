/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's worker while it takes a checkpoint: the bytes are a runtime's, and the first of them a checkpoint's envelope. However they
 * are cut, the same goes to the client and into the file, and a file that is not whole has no envelope.
 */
#include "parts.h"
#include "providers/local/sandbox/sandbox_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 4096

static void must(bool holds) {
        if (!holds)
                abort();
}

static void look_at_envelope(const uint8_t *data, size_t size) {
        char bytes[SANDBOX_ENVELOPE_SIZE] = "", again[SANDBOX_ENVELOPE_SIZE];
        struct sandbox_envelope envelope;
        struct error err = { 0 };

        memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
        if (sandbox_envelope_read(bytes, &envelope, &err) < 0) {
                must(err.message[0]);
                return;
        }
        must(!strpbrk(envelope.id, "./"));
        sandbox_envelope_write(&envelope, again);
        must(memcmp(bytes, again, sizeof(bytes)) == 0);
}

struct outcome {
        struct strbuf kept, file;
        bool ended, whole;
};

static void take(const char *data, size_t size, size_t step, struct outcome *ret) {
        struct sandbox_checkpoint checkpoint = SANDBOX_CHECKPOINT_NONE;
        const struct sandbox_wish wish = { .bytes_max = MOST, .time_max_ms = 1, .id = "s-one" };
        struct strbuf asked STRBUF_CLEANUP = STRBUF_INIT;
        int file = memfd_create("checkpoint", MFD_CLOEXEC);
        struct sandbox_envelope envelope;
        struct error ignored;
        off_t length;

        must(file >= 0);
        sandbox_checkpoint_take(&checkpoint, &wish, dup(file), 0, &asked);
        for (size_t at = 0; at < size; at += step)
                sandbox_checkpoint_hear(&checkpoint, data + at, size - at < step ? size - at : step, 7,
                                        &ret->kept);
        length = lseek(file, 0, SEEK_END);
        must(length >= 0 && (uint64_t)length <= MOST + SANDBOX_CHECKPOINT_EXTRA_MAX + SANDBOX_ENVELOPE_SIZE);
        must(strbuf_reserve(&ret->file, (size_t)length + SANDBOX_ENVELOPE_SIZE));
        memset(ret->file.data, 0, (size_t)length + SANDBOX_ENVELOPE_SIZE);
        must(pread(file, ret->file.data, (size_t)length, 0) == length);
        ret->file.length = (size_t)length;
        ret->ended = checkpoint.ended;
        ret->whole = checkpoint.whole;
        must(!ret->whole || ret->ended);
        must(ret->whole == (sandbox_envelope_read(ret->file.data, &envelope, &ignored) == 0));
        must(!ret->whole || envelope.bytes + SANDBOX_ENVELOPE_SIZE == (uint64_t)length);
        must(!ret->ended || ret->whole || checkpoint.why[0]);
        sandbox_checkpoint_release(&checkpoint);
        close(file);
}

static bool are_same(const struct strbuf *one, const struct strbuf *other) {
        return one->length == other->length &&
               (one->length == 0 || memcmp(one->data, other->data, one->length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct outcome whole = { .kept = STRBUF_INIT, .file = STRBUF_INIT },
                       cut = { .kept = STRBUF_INIT, .file = STRBUF_INIT };
        size_t step;

        look_at_envelope(data, size);
        if (size < 2)
                return 0;
        step = (size_t)data[0] + 1;
        take((const char *)data + 1, size - 1, size, &whole);
        take((const char *)data + 1, size - 1, step, &cut);
        must(are_same(&whole.kept, &cut.kept) && are_same(&whole.file, &cut.file));
        must(whole.ended == cut.ended && whole.whole == cut.whole);
        must(sandbox_checkpoint_whole((const char *)data, size) <= size);
        strbuf_release(&whole.kept);
        strbuf_release(&whole.file);
        strbuf_release(&cut.kept);
        strbuf_release(&cut.file);
        return 0;
}
