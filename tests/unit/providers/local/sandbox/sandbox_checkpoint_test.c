/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_checkpoint.h"

#include "base/arena.h"
#include "base/files.h"
#include "runtime/protocol/report.h"
#include "runtime/protocol/request.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void test_envelopes(void **state) {
        static const char *const wrong[] = {
                "berth-checkpoint-1 s-one 7 1000",
                "berth-checkpoint-2 s-one 7 1000\n",
                "berth-checkpoint-1  s-one 7 1000\n",
                "berth-checkpoint-1 s-one 07 1000\n",
                "berth-checkpoint-1 s-one 7 -1000\n",
                "berth-checkpoint-1 s-one 7 99999999999999999999\n",
                "berth-checkpoint-1 ../../../etc 7 1\n",
                "berth-checkpoint-1 s-one 7 1000\nmore",
                "berth-checkpoint-1 s-one +7 1000\n",
                "berth-checkpoint-1 s-one 9999999999999999999 1\n",
                "berth-checkpoint-1 S-ONE 7 1000\n",
                "x",
                "berth-checkpoint-1 abcdefghijklmnopqrstuvwxyz0123456789 7 1000\n",
        };
        const struct sandbox_envelope envelope = { .id = "s-one", .mark = 7, .bytes = 1000 };
        char bytes[SANDBOX_ENVELOPE_SIZE];
        struct sandbox_envelope read;
        struct error err;

        (void)state;
        sandbox_envelope_write(&envelope, bytes);
        assert_int_equal(sandbox_envelope_read(bytes, &read, &err), 0);
        assert_string_equal(read.id, "s-one");
        assert_int_equal(read.mark, 7);
        assert_int_equal(read.bytes, 1000);
        bytes[SANDBOX_ENVELOPE_SIZE - 1] = 'x';
        assert_int_equal(sandbox_envelope_read(bytes, &read, &err), -1);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                memset(bytes, 0, sizeof(bytes));
                memcpy(bytes, wrong[i], strlen(wrong[i]));
                err.kind = ERROR_FAILED;
                assert_int_equal(sandbox_envelope_read(bytes, &read, &err), -1);
                assert_int_not_equal(err.kind, ERROR_NOT_FOUND);
        }
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(sandbox_envelope_read(bytes, &read, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void say_piece(struct strbuf *to, const char *bytes) {
        const struct report report = { .type = REPORT_PIECE, .bytes = bytes, .length = strlen(bytes) };

        report_write(&report, to);
}

static void say_end(struct strbuf *to, int64_t total, const char *reason) {
        const struct report report = { .type = REPORT_CHECKPOINTED, .total = total, .reason = reason };

        report_write(&report, to);
}

static void say_restarted(struct strbuf *to) {
        const struct report report = { .type = REPORT_RESTARTED, .context = "main" };

        report_write(&report, to);
}

/*
 * All of it in pieces of `step` bytes, of a checkpoint that may have `most` bytes. *kept gets the
 * bytes that are kept for the client.
 */
static struct sandbox_checkpoint take(int file, const struct strbuf *said, size_t step, uint64_t most,
                                      struct strbuf *kept) {
        struct sandbox_checkpoint checkpoint = SANDBOX_CHECKPOINT_NONE;
        const struct sandbox_wish wish = { .bytes_max = most, .time_max_ms = 1000, .id = "s-one" };
        struct strbuf asked STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_clear(kept);
        sandbox_checkpoint_take(&checkpoint, &wish, dup(file), 0, &asked);
        assert_true(asked.length > 0);
        for (size_t at = 0; at < said->length; at += step)
                sandbox_checkpoint_hear(&checkpoint, said->data + at,
                                        said->length - at < step ? said->length - at : step, 7, kept);
        return checkpoint;
}

static int new_file(void) {
        int file = memfd_create("checkpoint", 0);

        assert_true(file >= 0);
        return file;
}

/* Whatever the pieces in which it comes: the file has the checkpoint, and the client all the rest, byte by byte. */
static void test_taken(void **state) {
        static const size_t steps[] = { 1, 3, 7, 8, 9, 100, 100000 };
        struct strbuf said STRBUF_CLEANUP = STRBUF_INIT, others STRBUF_CLEANUP = STRBUF_INIT,
                           kept STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        say_restarted(&others);
        say_restarted(&said);
        say_piece(&said, "one,");
        say_piece(&said, "two");
        say_end(&said, 7, NULL);
        say_restarted(&said);
        say_piece(&said, "three"); /* no client takes one any more */
        say_restarted(&others);
        say_piece(&others, "three");
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                int file = new_file();
                struct sandbox_checkpoint checkpoint = take(file, &said, steps[i], 1000, &kept);
                struct sandbox_envelope envelope;
                char bytes[SANDBOX_ENVELOPE_SIZE + 7];
                struct error err;

                assert_true(checkpoint.ended && checkpoint.whole);
                assert_int_equal(kept.length, others.length);
                assert_memory_equal(kept.data, others.data, others.length);
                assert_int_equal(pread(file, bytes, sizeof(bytes), 0), sizeof(bytes));
                assert_int_equal(sandbox_envelope_read(bytes, &envelope, &err), 0);
                assert_true(envelope.mark == 7 && envelope.bytes == 7 && strcmp(envelope.id, "s-one") == 0);
                assert_memory_equal(bytes + SANDBOX_ENVELOPE_SIZE, "one,two", 7);
                sandbox_checkpoint_release(&checkpoint);
                close(file);
        }
}

/* None of these has an envelope. */
static void test_not_whole(void **state) {
        static char much[1 << 20];
        struct strbuf kept STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        memset(much, 'x', sizeof(much) - 1);
        for (int what = 0; what < 5; what++) {
                static const char *const why[] = { "more or less than it says", "an execution runs",
                                                   "more than may be kept", "does not speak as it should",
                                                   "" };
                struct strbuf said STRBUF_CLEANUP = STRBUF_INIT;
                struct sandbox_checkpoint checkpoint;
                char bytes[SANDBOX_ENVELOPE_SIZE] = "", nothing[SANDBOX_ENVELOPE_SIZE] = "";
                int file = new_file();

                say_piece(&said, "one");
                for (int i = 0; what == 2 && i < 20; i++)
                        say_piece(&said, much);
                if (what == 3)
                        strbuf_append_bytes(&said, "\377\377\377\377\377\377\377\377 and more", 17);
                else if (what != 4)
                        say_end(&said,
                                what == 0   ? 4
                                : what == 2 ? 20 * ((1 << 20) - 1) + 3
                                            : 3,
                                what == 1 ? "an execution runs" : NULL);
                checkpoint = take(file, &said, 1000, 1000, &kept);
                assert_int_equal(checkpoint.ended, what != 4);
                assert_false(checkpoint.whole);
                assert_non_null(strstr(checkpoint.why, why[what]));
                assert_true(pread(file, bytes, sizeof(bytes), 0) >= 0);
                assert_memory_equal(bytes, nothing, sizeof(bytes));
                assert_true(lseek(file, 0, SEEK_END) <=
                            (off_t)(1000 + SANDBOX_CHECKPOINT_EXTRA_MAX + SANDBOX_ENVELOPE_SIZE));
                if (what == 3) /* as it came */
                        assert_int_equal(kept.length, 17);
                sandbox_checkpoint_release(&checkpoint);
                close(file);
        }
}

/* A run that has time keeps the kernel that lives; a run that has none keeps what there is. */
static void test_late(void **state) {
        (void)state;
        for (size_t i = 0; i < 4; i++) {
                const bool late = i / 2, patient = i % 2;
                struct sandbox_checkpoint checkpoint = SANDBOX_CHECKPOINT_NONE;
                const struct sandbox_wish wish = { .bytes_max = 1000, .time_max_ms = 1000, .id = "s-one" };
                json_t *contexts =
                        json_pack("[{s:s, s:i, s:i, s:i, s:s}]", "context", "main", "generation", 1, "kept",
                                  0, "lost", 0, "reason", "it was not taken in 5000 ms");
                const struct report report = { .type = REPORT_CHECKPOINTED,
                                               .contexts = contexts,
                                               .is_late = late };
                struct strbuf said STRBUF_CLEANUP = STRBUF_INIT, asked STRBUF_CLEANUP = STRBUF_INIT,
                                   kept STRBUF_CLEANUP = STRBUF_INIT;

                report_write(&report, &said);
                sandbox_checkpoint_take(&checkpoint, &wish, new_file(), 0, &asked);
                checkpoint.patient = patient;
                sandbox_checkpoint_hear(&checkpoint, said.data, said.length, 7, &kept);
                assert_true(checkpoint.ended);
                assert_int_equal(checkpoint.whole, !(patient && late));
                sandbox_checkpoint_release(&checkpoint);
                json_decref(contexts);
        }
}

static void test_a_full_disk(void **state) {
        struct strbuf said STRBUF_CLEANUP = STRBUF_INIT, kept STRBUF_CLEANUP = STRBUF_INIT;
        int full = open("/dev/full", O_RDWR);
        struct sandbox_checkpoint checkpoint;

        (void)state;
        say_piece(&said, "one");
        say_end(&said, 3, NULL);
        checkpoint = take(full, &said, 1000, 1000, &kept);
        assert_true(checkpoint.ended && !checkpoint.whole);
        assert_string_equal(checkpoint.why, "No space left on device");
        sandbox_checkpoint_release(&checkpoint);
        close(full);
}

static void test_given_back(void **state) {
        struct sandbox_checkpoint checkpoint = SANDBOX_CHECKPOINT_NONE;
        struct strbuf asked STRBUF_CLEANUP = STRBUF_INIT;
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        size_t total = 0, bytes = (size_t)1 << 20;
        int file = new_file(), kept = dup(file);

        (void)state;
        assert_int_equal(ftruncate(file, (off_t)bytes), 0);
        sandbox_checkpoint_give(&checkpoint, file, bytes);
        assert_true(sandbox_checkpoint_is_under_way(&checkpoint));
        while (sandbox_checkpoint_next(&checkpoint, &asked))
                ;
        assert_false(sandbox_checkpoint_is_under_way(&checkpoint));
        for (size_t at = 0, used; at < asked.length; at += used) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct request request;
                struct error err;

                assert_true(message_read(&reader, asked.data + at, asked.length - at, &used, &message,
                                         &err) >= 0);
                if (!message.head)
                        continue;
                assert_int_equal(request_read(&message, &request, &err), 0);
                assert_int_equal(request.type, REQUEST_PIECE);
                total += request.piece_length;
        }
        assert_int_equal(total, bytes);
        /* A file that has become shorter ends, and says nothing that is not there. */
        assert_int_equal(lseek(kept, 0, SEEK_SET), 0);
        strbuf_clear(&asked);
        sandbox_checkpoint_give(&checkpoint, kept, 2 * bytes);
        while (sandbox_checkpoint_next(&checkpoint, &asked))
                ;
        assert_false(sandbox_checkpoint_is_under_way(&checkpoint));
        sandbox_checkpoint_release(&checkpoint);
}

static void test_where_messages_end(void **state) {
        struct strbuf said STRBUF_CLEANUP = STRBUF_INIT;
        size_t first;

        (void)state;
        say_restarted(&said);
        first = said.length;
        say_piece(&said, "two");
        for (size_t length = 0; length <= said.length; length++)
                assert_int_equal(sandbox_checkpoint_whole(said.data, length), length == said.length ? length
                                                                              : length < first      ? 0
                                                                                                    : first);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_envelopes),          cmocka_unit_test(test_taken),
                cmocka_unit_test(test_not_whole),          cmocka_unit_test(test_late),
                cmocka_unit_test(test_a_full_disk),        cmocka_unit_test(test_given_back),
                cmocka_unit_test(test_where_messages_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
