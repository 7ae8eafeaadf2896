/* SPDX-License-Identifier: Apache-2.0 */
/* ClientHellos made by hand, whole and in pieces, right and wrong; what comes behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "egress/tunnel.h"

#include <string.h>
#include <sys/types.h>

#define HOST "a.example.org"
#define ECH "\xfe\x0d\x00\x01\x00"

static void put(struct strbuf *to, size_t number, unsigned bytes) {
        while (bytes-- > 0)
                strbuf_append_char(to, (char)(number >> 8 * bytes));
}

static void put_name(struct strbuf *extensions, const char *name, unsigned type) {
        size_t length = strlen(name);

        put(extensions, 0, 2);
        put(extensions, length + 5, 2);
        put(extensions, length + 3, 2);
        put(extensions, type, 1);
        put(extensions, length, 2);
        strbuf_append(extensions, name);
}

/* The message, without records. `names` of them stand in extensions of their own. */
static void put_hello(struct strbuf *to, const char *const *names, unsigned type, const char *more,
                      size_t more_length) {
        struct strbuf extensions STRBUF_CLEANUP = STRBUF_INIT, body STRBUF_CLEANUP = STRBUF_INIT;

        for (; names && *names; names++)
                put_name(&extensions, *names, type);
        strbuf_append_bytes(&extensions, more, more_length);
        put(&body, 0x0303, 2);
        for (int i = 0; i < 32; i++)
                put(&body, 7, 1);
        put(&body, 0, 1); /* no session */
        put(&body, 2, 2);
        put(&body, 0x1301, 2); /* one cipher */
        put(&body, 1, 1);
        put(&body, 0, 1);
        put(&body, extensions.length, 2);
        strbuf_append_bytes(&body, extensions.data, extensions.length);
        put(to, 1, 1);
        put(to, body.length, 3);
        strbuf_append_bytes(to, body.data, body.length);
}

static void put_record(struct strbuf *to, unsigned type, const char *bytes, size_t length) {
        put(to, type, 1);
        put(to, 0x0301, 2);
        put(to, length, 2);
        strbuf_append_bytes(to, bytes, length);
}

static void put_records(struct strbuf *to, const struct strbuf *message, size_t each) {
        for (size_t at = 0; at < message->length; at += each)
                put_record(to, 22, message->data + at,
                           message->length - at < each ? message->length - at : each);
}

static void put_hello_for(struct strbuf *to, const char *name) {
        const char *const names[] = { name, NULL };
        struct strbuf message STRBUF_CLEANUP = STRBUF_INIT;

        put_hello(&message, names, 0, "", 0);
        put_records(to, &message, 16384);
}

static void load(struct tunnel *tunnel) {
        struct error err;

        assert_int_equal(hello_load(&err), 0);
        tunnel_begin(tunnel, HOST);
}

/* Byte by byte, as a slow client sends; what is let through. -1: refused. */
static ssize_t drip(struct tunnel *tunnel, const char *bytes, size_t length) {
        size_t passed = 0, clear;
        const char *why = NULL;

        for (size_t come = 1; come <= length; come++) {
                if (tunnel_let_through(tunnel, bytes + passed, come - passed, &clear, &why) < 0) {
                        assert_true(why && *why);
                        assert_int_equal(passed, 0);
                        return -1;
                }
                passed += clear;
        }
        return (ssize_t)passed;
}

static void hellos(void **state) {
        static const char *const host[] = { HOST, NULL }, *const capital[] = { "A.Example.ORG", NULL },
                                 *const other[] = { "b.example.org", NULL },
                                 *const longer[] = { HOST ".", NULL },
                                 *const two[] = { HOST, "b.example.org", NULL },
                                 *const twice[] = { HOST, HOST, NULL }, *const none[] = { NULL };
        static const struct {
                const char *const *names;
                unsigned type;
                const char *more;
                size_t more_length, each;
                bool good;
        } cases[] = {
                { host, 0, "", 0, 16384, true },
                { host, 0, "", 0, 1, true },
                { host, 0, "", 0, 50, true },
                { capital, 0, "", 0, 16384, true },
                { other, 0, "", 0, 16384, false },
                { other, 0, "", 0, 3, false },
                { longer, 0, "", 0, 16384, false },
                { two, 0, "", 0, 16384, false },
                { twice, 0, "", 0, 16384, false },
                { none, 0, "", 0, 16384, false },
                { host, 1, "", 0, 16384, false },
                { host, 0, ECH, 5, 16384, false },
                { host, 0, "\xff\xce\0\0", 4, 16384, false },
                { host, 0, "\0", 1, 16384, false }, /* an extension that is cut off */
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf message STRBUF_CLEANUP = STRBUF_INIT, bytes STRBUF_CLEANUP = STRBUF_INIT;
                struct tunnel tunnel;
                ssize_t passed;

                load(&tunnel);
                put_hello(&message, cases[i].names, cases[i].type, cases[i].more, cases[i].more_length);
                put_records(&bytes, &message, cases[i].each);
                passed = drip(&tunnel, bytes.data, bytes.length);
                if (passed != (cases[i].good ? (ssize_t)bytes.length : -1))
                        fail_msg("case %zu: %zd", i, passed);
                assert_int_equal(tunnel.phase, cases[i].good ? TUNNEL_BETWEEN : TUNNEL_FIRST);
                tunnel_end(&tunnel);
        }
}

static void what_is_no_hello(void **state) {
        static const struct {
                const char *bytes;
                size_t length;
        } cases[] = {
                { "GET / HTTP/1.1\r\n", 16 },
                { "SSH-2.0-OpenSSH\r\n", 17 },
                { "\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10", 11 }, /* SSL 2 */
                { "\x17\x03\x03\x00\x02xx", 7 },
                { "\x14\x03\x03\x00\x01\x01", 6 },
                { "\x15\x03\x03\x00\x02\x01\x00", 7 },
                { "\x16\x03\x01\x00\x00", 5 },
                { "\x16\x03\x01\xff\xff", 5 },
                { "\x16\x02\x01", 3 },
                { "\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9 }, /* a ServerHello */
                { "\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9 }, /* one of 16 MB */
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct tunnel tunnel;

                load(&tunnel);
                if (drip(&tunnel, cases[i].bytes, cases[i].length) != -1)
                        fail_msg("case %zu is let through", i);
                tunnel_end(&tunnel);
        }
}

/* Its records never end: what is kept of it has a bound. */
static void a_hello_without_an_end(void **state) {
        static const char head[] = "\x01\x00\x3f\xff";
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct tunnel tunnel;
        const char *why = NULL;
        size_t clear = 0;
        int result = 0;

        (void)state;
        load(&tunnel);
        put_record(&bytes, 22, head, 4);
        while (result == 0 && bytes.length < TUNNEL_ROOM) {
                put_record(&bytes, 22, "x", 1);
                result = tunnel_let_through(&tunnel, bytes.data, bytes.length, &clear, &why);
                assert_true(result < 0 || clear == 0);
        }
        assert_int_equal(result, -1);
        assert_string_equal(why, "the ClientHello is too long");
        tunnel_end(&tunnel);
}

static void hear(struct tunnel *tunnel, bool asks_again) {
        static const unsigned char again[32] = { 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11,
                                                 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
                                                 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e,
                                                 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c };
        char answer[60] = "\x16\x03\x03\x00\x37\x02\x00\x00\x33\x03\x03";

        if (asks_again)
                memcpy(answer + 11, again, sizeof(again));
        for (size_t i = 0; i < sizeof(answer); i++)
                tunnel_hear_server(tunnel, answer + i, 1);
}

static void what_follows(void **state) {
        struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, wrong STRBUF_CLEANUP = STRBUF_INIT;
        struct tunnel tunnel;
        const char *why;
        size_t clear;

        (void)state;
        put_hello_for(&first, HOST);
        put_hello_for(&wrong, "b.example.org");

        /* The server goes on: so does all else, whatever it is. */
        load(&tunnel);
        assert_int_equal(drip(&tunnel, first.data, first.length), first.length);
        assert_int_equal(tunnel_let_through(&tunnel, wrong.data, wrong.length, &clear, &why), 0);
        assert_int_equal(clear, 0); /* waits for the answer */
        assert_int_equal(tunnel_let_through(&tunnel, "\x17\x03\x03\x00\x01x\x14\x03\x03\x00\x01\x01\x17", 13,
                                            &clear, &why),
                         0);
        assert_int_equal(clear, 12); /* early data passes */
        hear(&tunnel, false);
        assert_int_equal(tunnel.phase, TUNNEL_OPEN);
        assert_int_equal(tunnel_let_through(&tunnel, "anything", 8, &clear, &why), 0);
        assert_int_equal(clear, 8);

        /* It asks again: the second one is read as the first. */
        load(&tunnel);
        assert_int_equal(drip(&tunnel, first.data, first.length), first.length);
        hear(&tunnel, true);
        assert_int_equal(tunnel.phase, TUNNEL_SECOND);
        assert_int_equal(tunnel_let_through(&tunnel, wrong.data, wrong.length, &clear, &why), -1);
        tunnel_end(&tunnel);

        load(&tunnel);
        assert_int_equal(drip(&tunnel, first.data, first.length), first.length);
        hear(&tunnel, true);
        assert_int_equal(tunnel_let_through(&tunnel, "\x14\x03\x03\x00\x01\x01", 6, &clear, &why), 0);
        assert_int_equal(clear, 6);
        assert_int_equal(drip(&tunnel, first.data, first.length), first.length);
        assert_int_equal(tunnel.phase, TUNNEL_OPEN);
        tunnel_end(&tunnel);

        /* An alert is an answer as well. */
        load(&tunnel);
        assert_int_equal(drip(&tunnel, first.data, first.length), first.length);
        tunnel_hear_server(&tunnel, "\x15", 1);
        assert_int_equal(tunnel.phase, TUNNEL_OPEN);
        tunnel_end(&tunnel);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(hellos), cmocka_unit_test(what_is_no_hello),
                                            cmocka_unit_test(a_hello_without_an_end),
                                            cmocka_unit_test(what_follows) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
