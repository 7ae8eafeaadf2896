/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a checkpoint: there and back, and refused where it is anything else. */
#include "runtime/protocol/checkpoint.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* How many parts were read; -1: one was refused. */
static int read_all(const char *bytes, size_t length, size_t piece, struct strbuf *again, bool *ret_over) {
        struct checkpoint_reader reader CHECKPOINT_READER_CLEANUP = { 0 };
        int count = 0;
        size_t at = 0;

        if (again)
                strbuf_append(again, CHECKPOINT_LINE);
        while (at < length) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct checkpoint_part part;
                struct error err = { 0 };
                size_t used = 0;
                int answer = checkpoint_read(&reader, bytes + at, length - at < piece ? length - at : piece,
                                             &used, &message, &part, &err);

                assert_int_equal(answer < 0, err.message[0] != '\0');
                if (answer < 0)
                        return -1;
                at += used;
                if (answer == MESSAGE_WHOLE) {
                        count++;
                        if (again)
                                checkpoint_part_write(&part, again);
                }
        }
        *ret_over = checkpoint_reader_is_over(&reader);
        return count;
}

static void write_whole(struct strbuf *to, json_t *lost) {
        const struct checkpoint_part parts[] = {
                { .type = CHECKPOINT_CONTEXT,
                  .context = "main",
                  .generation = 3,
                  .python = "3.11.2",
                  .flags = 0x1000000,
                  .kept = 2,
                  .lost = lost,
                  .lost_count = 5 },
                { .type = CHECKPOINT_DATA, .bytes = "ab\0c", .length = 4 },
                { .type = CHECKPOINT_DATA, .bytes = "d", .length = 1 },
                { .type = CHECKPOINT_END, .total = 5, .checksum = 0xffffffff },
                { .type = CHECKPOINT_CONTEXT, .context = "died", .generation = 1, .reason = "signal 9" },
                { .type = CHECKPOINT_CONTEXT, .context = "half", .generation = 1, .python = "3.8.0" },
                { .type = CHECKPOINT_END, .reason = "it is not whole" },
                { .type = CHECKPOINT_OVER },
        };

        strbuf_append(to, CHECKPOINT_LINE);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                checkpoint_part_write(&parts[i], to);
}

static void test_there_and_back(void **state) {
        static const size_t pieces[] = { 1, 3, 19, 20, 1000, SIZE_MAX };
        json_t *lost = json_pack("[{s:s, s:s, s:s}]", "name", "l", "type", "lock", "why", "w");
        struct strbuf file STRBUF_CLEANUP = STRBUF_INIT;
        bool over;

        (void)state;
        write_whole(&file, lost);
        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
                struct strbuf again STRBUF_CLEANUP = STRBUF_INIT;

                assert_int_equal(read_all(file.data, file.length, pieces[i], &again, &over), 8);
                assert_true(over);
                assert_int_equal(again.length, file.length);
                assert_memory_equal(again.data, file.data, file.length);
        }
        /* Cut anywhere it is not over; with a byte more neither. */
        for (size_t length = 0; length < file.length; length++) {
                assert_true(read_all(file.data, length, SIZE_MAX, NULL, &over) >= 0);
                assert_false(over);
        }
        strbuf_append(&file, "x");
        assert_int_equal(read_all(file.data, file.length, SIZE_MAX, NULL, &over), 8);
        assert_false(over);
        json_decref(lost);
}

#define CONTEXT                                                                                                                 \
        "{\"type\":\"context\",\"context\":\"main\",\"generation\":1,\"python\":\"3.11.2\",\"flags\":0,\"kept\":1,\"lost\":[]," \
        "\"lostCount\":0,\"reason\":null}"
#define DEAD                                                                                                  \
        "{\"type\":\"context\",\"context\":\"main\",\"generation\":1,\"python\":null,\"flags\":0,\"kept\":0," \
        "\"lost\":[],\"lostCount\":0,\"reason\":\"r\"}"
#define END(bytes) "{\"type\":\"end\",\"bytes\":" bytes ",\"crc32\":0,\"reason\":null}"
#define OVER "{\"type\":\"over\"}"
#define DATA "{\"type\":\"data\"}"

static void test_what_is_none_is_refused(void **state) {
        /* Heads, and whether each has a byte behind it. */
        static const struct {
                const char *heads[4];
                bool body[4];
                bool taken;
        } cases[] = {
                { { CONTEXT, DATA, END("1"), OVER }, { false, true, false, false }, true },
                { { DEAD, OVER }, { false }, true },
                { { OVER }, { false }, true },
                { { OVER, OVER }, { false }, false },
                { { DATA }, { true }, false },
                { { END("0") }, { false }, false },
                { { CONTEXT, CONTEXT }, { false }, false },
                { { CONTEXT, OVER }, { false }, false },
                { { CONTEXT, DATA }, { false, false }, false },
                { { CONTEXT, DATA, END("2") }, { false, true, false }, false },
                { { CONTEXT, END("1") }, { false }, false },
                { { CONTEXT, END("-1") }, { false }, false },
                { { CONTEXT, END("0"), CONTEXT }, { false }, false },
                { { DEAD, DATA }, { false, true }, false },
                { { DEAD, DEAD }, { false }, false },
                { { OVER }, { true }, false },
                { { CONTEXT }, { true }, false },
                { { "{}" }, { false }, false },
                { { "{\"type\":\"none\"}" }, { false }, false },
                { { "{\"type\":\"over\",\"x\":1}" }, { false }, false },
                { { "{\"type\":\"context\"}" }, { false }, false },
                { { "{\"type\":\"context\",\"context\":\"../x\",\"generation\":1,\"python\":null,\"flags\":0,\"kept\":0,\"lost\":[],\"lostCount\":0,\"reason\":\"r\"}" },
                  { false },
                  false },
                { { "{\"type\":\"context\",\"context\":\"x\",\"generation\":0,\"python\":null,\"flags\":0,\"kept\":0,\"lost\":[],\"lostCount\":0,\"reason\":\"r\"}" },
                  { false },
                  false },
                { { "{\"type\":\"context\",\"context\":\"x\",\"generation\":1,\"python\":null,\"flags\":0,\"kept\":1,\"lost\":[],\"lostCount\":0,\"reason\":\"r\"}" },
                  { false },
                  false },
                { { "{\"type\":\"context\",\"context\":\"x\",\"generation\":1,\"python\":\"3\",\"flags\":0,\"kept\":1,\"lost\":[],\"lostCount\":0,\"reason\":\"r\"}" },
                  { false },
                  false },
                { { "{\"type\":\"context\",\"context\":\"x\",\"generation\":1,\"python\":null,\"flags\":0,\"kept\":0,\"lost\":[],\"lostCount\":0,\"reason\":null}" },
                  { false },
                  false },
                { { "{\"type\":\"context\",\"context\":\"x\",\"generation\":1,\"python\":null,\"flags\":-1,\"kept\":0,\"lost\":[],\"lostCount\":0,\"reason\":\"r\"}" },
                  { false },
                  false },
                { { "{\"type\":\"context\",\"context\":\"x\",\"generation\":1,\"python\":null,\"flags\":0,\"kept\":0,\"lost\":[{\"name\":\"x\"}],\"lostCount\":1,\"reason\":\"r\"}" },
                  { false },
                  false },
                { { "{\"type\":\"context\",\"context\":\"x\",\"generation\":1,\"python\":null,\"flags\":0,\"kept\":0,\"lost\":[{\"name\":\"x\",\"type\":\"y\",\"why\":\"z\"}],\"lostCount\":0,\"reason\":\"r\"}" },
                  { false },
                  false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf file STRBUF_CLEANUP = STRBUF_INIT;
                bool over = false;
                int count;

                strbuf_append(&file, CHECKPOINT_LINE);
                for (size_t k = 0; k < 4 && cases[i].heads[k]; k++) {
                        json_t *head = json_loads(cases[i].heads[k], 0, NULL);

                        assert_non_null(head);
                        message_write(&file, head, "x", cases[i].body[k]);
                        json_decref(head);
                }
                count = read_all(file.data, file.length, SIZE_MAX, NULL, &over);
                if ((count > 0 && over) != cases[i].taken)
                        fail_msg("%zu", i);
        }
}

static void test_another_line_is_refused(void **state) {
        static const char *const files[] = { "berth checkpoint 2\n", "x", "\x80\x05.",
                                             "berth checkpoint 1\r" };
        bool over;

        (void)state;
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                assert_int_equal(read_all(files[i], strlen(files[i]), 1, NULL, &over), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),
                cmocka_unit_test(test_what_is_none_is_refused),
                cmocka_unit_test(test_another_line_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
