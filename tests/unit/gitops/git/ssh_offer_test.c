/* SPDX-License-Identifier: Apache-2.0 */
/* What an ssh server's first words offer, and which of it no libssh2 needs to know. */
#include "support.h"

#include "base/strbuf.h"
#include "gitops/git/ssh_offer.h"

#define KEX "curve25519-sha256,sntrup761x25519-sha512@openssh.com"
#define KEY "rsa-sha2-512,ssh-ed25519"
#define CIPHER "aes128-ctr,aes256-gcm@openssh.com"
#define MAC "hmac-sha2-256-etm@openssh.com,hmac-sha2-256"
#define GOOD \
        { KEX, KEY, CIPHER, CIPHER, MAC, MAC }

static void put_number(struct strbuf *to, size_t number) {
        for (int shift = 24; shift >= 0; shift -= 8)
                strbuf_append_char(to, (char)(number >> shift & 0xff));
}

/* As OpenSSH sends it: a line, a packet with lists, and what follows it. */
static void make_hello(const char *lines, const char *const lists[SSH_OFFER_LISTS], struct strbuf *ret) {
        struct strbuf packet STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_append_char(&packet, 4);
        strbuf_append_char(&packet, 20);
        strbuf_append_bytes(&packet, "0123456789abcdef", 16);
        for (size_t i = 0; i < SSH_OFFER_LISTS; i++) {
                put_number(&packet, strlen(lists[i]));
                strbuf_append(&packet, lists[i]);
        }
        strbuf_append_bytes(&packet, "\0\0\0\4none\0\0\0\4none\0\0\0\0\0\0\0\0\0\0\0\0\0pad!", 33);
        strbuf_append(ret, lines);
        put_number(ret, packet.length);
        strbuf_append_bytes(ret, packet.data, packet.length);
}

static int read_exactly(const char *bytes, size_t length, struct arena *arena, struct ssh_offer *ret) {
        uint8_t *exact = malloc(length + 1);
        int result;

        assert_non_null(exact);
        memcpy(exact, bytes, length);
        result = ssh_offer_read(exact, length, arena, ret);
        free(exact);
        return result;
}

static void read_in_pieces(void **state) {
        static const char *const lists[] = GOOD;
        static const char *const greetings[] = { "SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0-x\n",
                                                 "Welcome\r\nSSH?\nSSH-1.99-x\r\n" };

        (void)state;
        for (size_t i = 0; i < COUNT(greetings); i++) {
                struct arena *arena = arena_new();
                struct strbuf hello STRBUF_CLEANUP = STRBUF_INIT;
                struct ssh_offer offer;

                make_hello(greetings[i], lists, &hello);
                for (size_t length = 0; length < hello.length; length++)
                        assert_int_equal(read_exactly(hello.data, length, arena, &offer), 0);
                assert_int_equal(read_exactly(hello.data, hello.length, arena, &offer), 1);
                for (size_t k = 0; k < SSH_OFFER_LISTS; k++)
                        assert_string_equal(offer.lists[k], lists[k]);
                assert_null(ssh_offer_objection(&offer, arena));
                arena_free(arena);
        }
}

static const struct {
        const char *bytes;
        size_t length;
} wrong[] = {
        { "SSH-2.0-x\r\n\0\0\0\1xx", 17 },     /* no room for a cookie */
        { "SSH-2.0-x\r\n\0\0\x88\xb9xx", 17 }, /* larger than any packet */
        { "SSH-2.0-x\r\n\xff\xff\xff\xffxx", 17 },
        { "SSH-2.0-x\r\n\0\0\0\x12\4\25aaaaaaaaaaaaaaaa", 33 },         /* another message */
        { "SSH-2.0-x\r\n\0\0\0\x12\4\24aaaaaaaaaaaaaaaa", 33 },         /* no lists */
        { "SSH-2.0-x\r\n\0\0\0\x16\4\24aaaaaaaaaaaaaaaa\0\0\0\1", 37 }, /* a list beyond the packet */
        { "SSH-2.0-x\r\n\0\0\0\x16\4\24aaaaaaaaaaaaaaaa\xff\xff\xff\xff", 37 },
};

static void nonsense(void **state) {
        struct arena *arena = arena_new();
        struct ssh_offer offer;
        char *lines = malloc(10000);

        (void)state;
        for (size_t i = 0; i < COUNT(wrong); i++) {
                if (read_exactly(wrong[i].bytes, wrong[i].length, arena, &offer) != -1)
                        fail_msg("case %zu", i);
        }
        assert_non_null(lines);
        memset(lines, 'x', 10000);
        assert_int_equal(read_exactly(lines, 10000, arena, &offer), -1);
        memset(lines, '\n', 10000);
        assert_int_equal(read_exactly(lines, 10000, arena, &offer), -1);
        free(lines);
        arena_free(arena);
}

static const struct {
        const char *lists[SSH_OFFER_LISTS];
        const char *said[3]; /* all of them; none: no objection */
} cases[] = {
        { GOOD, { NULL } },
        { { "sntrup761x25519-sha512@openssh.com", KEY, CIPHER, CIPHER, MAC, MAC },
          { "no key exchange in common", "offers sntrup761x25519", "KexAlgorithms" } },
        { { KEX, "rsa-sha2-512,rsa-sha2-256", CIPHER, CIPHER, MAC, MAC },
          { "no host key in common", "rsa-sha2-512", "ed25519" } },
        { { KEX, KEY, "aes256-gcm@openssh.com,chacha20-poly1305@openssh.com", CIPHER, MAC, MAC },
          { "no cipher in common: the server offers aes256-gcm@openssh.com,chacha20", "allow aes256-ctr" } },
        { { KEX, KEY, CIPHER, "chacha20-poly1305@openssh.com", MAC, MAC }, { "no cipher", "chacha20" } },
        { { KEX, KEY, CIPHER, CIPHER, "umac-128-etm@openssh.com", "umac-128-etm@openssh.com" },
          { "no MAC in common: the server offers umac-128-etm@openssh.com; allow hmac-sha2-256" } },
        { { KEX, KEY, "aes", "aes128-ctr2", MAC, MAC }, { "no cipher", "offers aes;" } },
        { { KEX, KEY, CIPHER, CIPHER, "", "" }, { "no MAC", "offers none" } },
};

static void objections(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                struct arena *arena = arena_new();
                struct ssh_offer offer;
                const char *said;

                memcpy(offer.lists, cases[i].lists, sizeof(offer.lists));
                said = ssh_offer_objection(&offer, arena);
                if (!said != !cases[i].said[0])
                        fail_msg("case %zu: %s", i, said ? said : "nothing");
                for (size_t k = 0; k < COUNT(cases[i].said) && cases[i].said[k]; k++) {
                        if (!strstr(said, cases[i].said[k]))
                                fail_msg("case %zu: %s", i, said);
                }
                assert_true(!said || !strstr(said, "; no ")); /* of both directions it is said once */
                arena_free(arena);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(read_in_pieces),
                cmocka_unit_test(nonsense),
                cmocka_unit_test(objections),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
