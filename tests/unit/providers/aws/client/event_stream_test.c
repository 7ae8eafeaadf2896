/* SPDX-License-Identifier: Apache-2.0 */
/* The first vectors are those of AWS's own SDKs (botocore's and aws-c-event-stream's tests have them, too). */
#include "providers/aws/client/event_stream.h"

#include "base/digest.h"
#include "base/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EMPTY "000000100000000005c248eb7d98c8ff"
#define PAYLOAD "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936"
#define NUMBER "0000002d0000001041c424b80a6576656e742d747970650400 00a00c7b27666f6f273a27626172277d36f480a0"

static size_t from_hex(const char *text, uint8_t *bytes) {
        size_t count = 0;

        for (; *text; text++) {
                if (*text == ' ')
                        continue;
                bytes[count++] = (uint8_t)(digest_from_hex(text[0]) << 4 | digest_from_hex(text[1]));
                text++;
        }
        return count;
}

struct seen {
        struct strbuf text;
        int result;
};

static int take(void *context, const struct event_stream_message *message, struct error *err) {
        struct seen *seen = context;

        strbuf_printf(&seen->text, "[%s %s %s %s %s %.*s]", message->type ? message->type : "-",
                      message->event ? message->event : "-", message->exception ? message->exception : "-",
                      message->code ? message->code : "-", message->text ? message->text : "-",
                      (int)message->length, (const char *)message->payload);
        return seen->result < 0 ? error_set(err, "not taken") : 0;
}

/*
 * The events read from the bytes, handed over by pieces of `step`; "..." where they end too early,
 * the error where there is one.
 */
static char *read_by(const uint8_t *bytes, size_t length, size_t step) {
        struct seen seen = { 0 };
        struct event_stream *stream EVENT_STREAM_CLEANUP = event_stream_new(take, &seen);
        struct error err = { 0 };

        for (size_t at = 0; at < length; at += step) {
                if (event_stream_add(stream, bytes + at, length - at < step ? length - at : step, &err) < 0) {
                        strbuf_printf(&seen.text, "!%s", err.message);
                        assert_int_equal(event_stream_add(stream, "x", 1, &err), -1);
                        assert_int_equal(event_stream_end(stream, &err), -1);
                        return strbuf_take(&seen.text);
                }
        }
        if (event_stream_end(stream, &err) < 0)
                strbuf_append(&seen.text, "...");
        return strbuf_take(&seen.text);
}

static void put_number(uint8_t *at, uint32_t number) {
        for (int i = 3; i >= 0; i--, number >>= 8)
                at[i] = (uint8_t)number;
}

/* A message with checksums that fit, whatever is in it. */
static size_t build(uint8_t *to, const void *headers, size_t header_length, const void *payload,
                    size_t length) {
        size_t total = 16 + header_length + length;

        put_number(to, (uint32_t)total);
        put_number(to + 4, (uint32_t)header_length);
        put_number(to + 8, event_stream_crc(0, to, 8));
        if (header_length)
                memcpy(to + 12, headers, header_length);
        if (length)
                memcpy(to + 12 + header_length, payload, length);
        put_number(to + total - 4, event_stream_crc(0, to, total - 4));
        return total;
}

#define EVENT                           \
        "\x0d:message-type\x07\x00\x05" \
        "event"                         \
        "\x0b:event-type\x07\x00\x0cPayloadChunk"

static void vectors(void **state) {
        static const struct {
                const char *hex, *seen;
        } cases[] = {
                { EMPTY, "[- - - - - ]" },
                { PAYLOAD, "[- - - - - {'foo':'bar'}]" },
                { NUMBER, "[- - - - - {'foo':'bar'}]" },
                { EMPTY PAYLOAD EMPTY, "[- - - - - ][- - - - - {'foo':'bar'}][- - - - - ]" },
                { "", "" },
                { "0000001d00000000fd528c5a7b27666f6f273a2762617227", "..." },
                { "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653937",
                  "!a message's checksum does not fit" },
                { "0000001d00000000fd528c5b",
                  "!what comes is no stream of events: the checksum of a beginning does not fit" },
                { "3c68746d6c3e3c626f64793e",
                  "!what comes is no stream of events: the checksum of a beginning does not fit" },
        };
        static const size_t steps[] = { 1, 3, 7, 1000 };
        uint8_t bytes[512];

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t length = from_hex(cases[i].hex, bytes);

                for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
                        char *seen = read_by(bytes, length, steps[k]);

                        assert_string_equal(seen, cases[i].seen);
                        free(seen);
                }
        }
        assert_int_equal(event_stream_crc(0, "123456789", 9), 0xCBF43926);
        assert_int_equal(event_stream_crc(event_stream_crc(0, "1234", 4), "56789", 5), 0xCBF43926);
}

static void headers_of_every_type(void **state) {
        static const char headers[] = EVENT
                "\x01t\x00\x01"
                "f\x01\x01"
                "b\x02\x05\x01s\x03\x00\x01\x01i\x04\x00\x00\x00\x01\x01l\x05\x00\x00\x00\x00\x00\x00\x00\x01"
                "\x01y\x06\x00\x03\x00\x01\x02\x01m\x08\x00\x00\x00\x00\x00\x00\x00\x01"
                "\x01u\x09"
                "0123456789abcdef";
        static const char error[] = "\x0d:message-type\x07\x00\x05"
                                    "error"
                                    "\x0b:error-code\x07\x00\x04"
                                    "Code"
                                    "\x0e:error-message\x07\x00\x03why";
        uint8_t bytes[1024];
        char *seen;

        (void)state;
        seen = read_by(bytes, build(bytes, headers, sizeof(headers) - 1, "chunk", 5), 5);
        assert_string_equal(seen, "[event PayloadChunk - - - chunk]");
        free(seen);
        seen = read_by(bytes, build(bytes, error, sizeof(error) - 1, NULL, 0), 5);
        assert_string_equal(seen, "[error - - Code why ]");
        free(seen);
}

static void headers_that_are_none(void **state) {
        static const struct {
                const char *bytes;
                size_t length;
        } bad[] = {
                { "\x00\x07\x00\x00", 4 },     /* no name */
                { "\x05name", 5 },             /* a name that is longer than what there is */
                { "\x04name", 5 },             /* no type */
                { "\x04name\x0a", 6 },         /* no such type */
                { "\x04name\x04\x00\x00", 8 }, /* half a number */
                { "\x04name\x07\x00", 7 },     /* half a length */
                { "\x04name\x07\xff\xff"
                  "abc",
                  11 }, /* a text that is longer than what there is */
                { "\x0d:message-type\x07\x00\x01"
                  "a\x0d:message-type\x07\x00\x01"
                  "b",
                  36 }, /* twice */
                { "\x0d:message-type\x07\x00\x03"
                  "a\0b",
                  20 }, /* a NUL */
        };
        uint8_t bytes[256];

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                char *seen = read_by(bytes, build(bytes, bad[i].bytes, bad[i].length, NULL, 0), 1000);

                print_message("  %zu: %s\n", i, seen);
                assert_true(strncmp(seen, "!a message", 10) == 0);
                free(seen);
        }
}

/* No room is made for what a length promises, and none of an impossible one is waited for. */
static void lengths_that_cannot_be(void **state) {
        static const uint32_t lengths[][2] = { { 15, 0 },
                                               { 16, 1 },
                                               { 0, 0 },
                                               { UINT32_MAX, 0 },
                                               { 100, UINT32_MAX },
                                               { (16u << 20) + 1, 0 },
                                               { 1u << 20, (128u << 10) + 1 } };
        uint8_t bytes[12];

        (void)state;
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                char *seen;

                put_number(bytes, lengths[i][0]);
                put_number(bytes + 4, lengths[i][1]);
                put_number(bytes + 8, event_stream_crc(0, bytes, 8));
                seen = read_by(bytes, sizeof(bytes), 5);
                assert_non_null(strstr(seen, "cannot be"));
                free(seen);
        }
}

static void who_takes_may_end_it(void **state) {
        struct seen seen = { .result = -1 };
        struct event_stream *stream EVENT_STREAM_CLEANUP = event_stream_new(take, &seen);
        struct error err = { 0 };
        uint8_t bytes[64];

        (void)state;
        assert_int_equal(event_stream_add(stream, bytes, from_hex(EMPTY EMPTY, bytes), &err), -1);
        assert_string_equal(err.message, "not taken");
        assert_string_equal(strbuf_text(&seen.text), "[- - - - - ]");
        strbuf_release(&seen.text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(vectors),
                cmocka_unit_test(headers_of_every_type),
                cmocka_unit_test(headers_that_are_none),
                cmocka_unit_test(lengths_that_cannot_be),
                cmocka_unit_test(who_takes_may_end_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
