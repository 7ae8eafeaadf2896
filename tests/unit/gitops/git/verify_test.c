/* SPDX-License-Identifier: Apache-2.0 */
/* What gpgv says, armor taken off keys, known_hosts brought into libssh2's form. The judges themselves: tests/e2e/test_git_source.py. */
#include "support.h"

#include "gitops/git/known_hosts.h"
#include "gitops/git/remote_failure.h"
#include "gitops/git/verify.h"

#define G "[GNUPG:] "
#define GOOD G "NEWSIG\n" G "GOODSIG 0123456789ABCDEF Ada <ada@example.com>\n"
#define SIGNED_BY(hash) G "VALIDSIG AAAABBBB 2026-01-01 1767225600 0 4 0 22 " hash " 00 AAAABBBB\n"
#define VALID SIGNED_BY("10")

static const struct {
        const char *said, *signer, *why;
} statuses[] = {
        { GOOD VALID, "Ada <ada@example.com> (OpenPGP AAAABBBB)", NULL },
        /* SHA-1, MD5, RIPEMD-160; none said. */
        { GOOD SIGNED_BY("2"), NULL, "can be forged" },
        { GOOD SIGNED_BY("1"), NULL, "can be forged" },
        { GOOD SIGNED_BY("3"), NULL, "can be forged" },
        { GOOD SIGNED_BY(""), NULL, "can be forged" },
        { GOOD SIGNED_BY("108"), NULL, "can be forged" },
        { GOOD SIGNED_BY("8"), "Ada <ada@example.com> (OpenPGP AAAABBBB)", NULL },
        { "", NULL, "does not vouch" },
        { GOOD, NULL, "does not vouch" },
        { VALID, NULL, "does not vouch" },
        { GOOD VALID GOOD VALID, NULL, "more than one" },
        { GOOD VALID G "ERRSIG 01 22 8 00 1 9\n", NULL, "not among" },
        { GOOD VALID G "BADSIG 01 Ada\n", NULL, "does not fit" },
        { G "EXPKEYSIG 01 Ada\n" VALID, NULL, "expired" },
        { G "EXPSIG 01 Ada\n" VALID, NULL, "signature has expired" },
        { G "REVKEYSIG 01 Ada\n" VALID, NULL, "revoked" },
        { GOOD VALID G "KEYEXPIRED 1\n", NULL, "expired" },
        { G "ERRSIG 01 22 8 00 1 9\n" G "NO_PUBKEY 01\n", NULL, "not among" },
        { G "NODATA 4\n", NULL, "cannot be read" },
        { "GOODSIG 01 Ada\nVALIDSIG 01\n", NULL, "does not vouch" },
        { "x" GOOD VALID, "Ada <ada@example.com> (OpenPGP AAAABBBB)", NULL },
        { G "GOODSIGX 01 Ada\n" VALID, NULL, "does not vouch" },
        { G "GOODSIG 01 Eve [GNUPG:] VALIDSIG 01\n", NULL, "does not vouch" },
        { G "GOODSIG 01 A\x1b[31m\xFF\n" VALID, "A [31m\\xFF (OpenPGP AAAABBBB)", NULL },
        { G "GOODSIG\n" G "VALIDSIG\n", NULL, "can be forged" },
};

static void what_gpgv_says(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(statuses); i++) {
                struct arena *arena = arena_new();
                const char *signer = NULL, *why = NULL;
                int verdict = verify_read_status(statuses[i].said, arena, &signer, &why);

                assert_int_equal(verdict, statuses[i].signer != NULL);
                if (verdict)
                        assert_string_equal(signer, statuses[i].signer);
                else if (!strstr(why, statuses[i].why))
                        fail_msg("%s: %s", statuses[i].said, why);
                arena_free(arena);
        }
}

#define BEGIN "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
#define END "-----END PGP PUBLIC KEY BLOCK-----\n"

static const struct {
        const char *text, *bytes; /* NULL: refused */
} armors[] = {
        { BEGIN "\nYWJj\n=abcd\n" END, "abc" },
        { BEGIN "Comment: a key\nVersion: 1\n\nYWJjZA==\n=abcd\n" END, "abcd" },
        { BEGIN "\nYWJjZGU=\n" END, "abcde" },
        { "ada\n" BEGIN "\r\nYWJj\r\nZGVm\r\n" END "rest\n", "abcdef" },
        { BEGIN "\nYWJj\n" END BEGIN "\nZGVm\n" END, "abcdef" },
        { BEGIN "\nYWJj\n", NULL },
        { BEGIN "\nYWJ\n" END, NULL },
        { BEGIN "\nYW!j\n" END, NULL },
        { BEGIN "\nYWJjZA==YWJj\n" END, NULL },
        { BEGIN "\n=\n" END, NULL },
        { "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nYWJj\n-----END PGP PRIVATE KEY BLOCK-----\n", NULL },
        { "no key at all\n", NULL },
        { "", NULL },
        { "\x99\x01binary", "\x99\x01binary" },
};

static void armor(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(armors); i++) {
                struct strbuf keyring = STRBUF_INIT;
                struct error err = { 0 };
                int result = keyring_add(armors[i].text, strlen(armors[i].text), &keyring, &err);

                if ((result == 0) != (armors[i].bytes != NULL))
                        fail_msg("%s: %s", armors[i].text, err.message);
                if (result == 0)
                        assert_string_equal(strbuf_text(&keyring), armors[i].bytes);
                strbuf_release(&keyring);
        }
}

static const struct {
        const char *text, *host, *port, *chosen, *type;
} hosts[] = {
        { "h ssh-ed25519 KEY\n", "h", NULL, "h ssh-ed25519 KEY\n", NULL },
        { "h ssh-ed25519 KEY", "h", "22", "h ssh-ed25519 KEY\n", NULL },
        { "  h\tssh-ed25519  KEY  a comment\r\n", "h", NULL, "h ssh-ed25519 KEY\n", NULL },
        { "H.Example.COM t K\n", "h.example.com", NULL, "h.example.com t K\n", NULL },
        { "a,h,b t K\n", "h", NULL, "h t K\n", NULL },
        { "*.x t K\n", "a.b.x", NULL, "a.b.x t K\n", NULL },
        { "?.x t K\n", "ab.x", NULL, "", NULL },
        { "*.x,!a.x t K\n", "a.x", NULL, "", NULL },
        { "!a.x,*.x t K\n", "a.x", NULL, "", NULL },
        { "h t K\n", "h", "2222", "", NULL },
        { "[h]:2222 t K\n", "h", "2222", "[h]:2222 t K\n", NULL },
        { "[h]:2222 t K\n", "h", NULL, "", NULL },
        { "[h]:* t K\n", "h", "2222", "[h]:2222 t K\n", NULL },
        { "# h t K\n\n \nh t\nh\n", "h", NULL, "", NULL },
        { "|1|salt|hash t K\n", "h", NULL, "|1|salt|hash t K\n", NULL },
        { "@cert-authority h t K\n", "h", NULL, "", NULL },
        { "@revoked h t K\nh t K\n", "h", NULL, "", NULL },
        { "h t K\nh t L\n@revoked * t K\n", "h", NULL, "h t L\n", NULL },
        { "@other h t K\n", "h", NULL, "", NULL },
        { "hh t K\nx t K\n", "h", NULL, "", NULL },
        { "", "h", NULL, "", NULL },
        { "h t K\nh u L\n", "h", NULL, "h t K\nh u L\n", NULL },
        { "h t K\nh u L\n", "h", NULL, "h u L\n", "u" },
        { "h t K\n", "h", NULL, "", "u" },
};

static void known_hosts(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(hosts); i++) {
                struct strbuf chosen = STRBUF_INIT;
                size_t count = known_hosts_select(hosts[i].text, hosts[i].host, hosts[i].port, hosts[i].type,
                                                  &chosen);

                assert_string_equal(strbuf_text(&chosen), hosts[i].chosen);
                assert_int_equal(count > 0, hosts[i].chosen[0] != '\0');
                strbuf_release(&chosen);
        }
}

#define PGP "-----BEGIN PGP SIGNATURE-----"
#define SSH "-----BEGIN SSH SIGNATURE-----"

static void where_a_tags_armor_begins(void **state) {
        static const struct {
                const char *text;
                size_t at; /* from the start */
        } tags[] = {
                { "", 0 },
                { "words\n", 6 },
                { PGP, 0 },
                { "words\n" PGP "\nx\n", 6 },
                { "words\n" SSH "\nx\n", 6 },
                { "words\n" PGP "\n" PGP "\n", 36 },
                { "words " PGP "\n", 36 },
                { "words\n " PGP "\n", 37 },
                { "words\n-----BEGIN PGP SIGNATUR", 29 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(tags); i++)
                assert_int_equal(verify_find_armor(tags[i].text, strlen(tags[i].text)), tags[i].at);
}

/* libgit2's words as they were seen, and what they mean to a user. */
static void troubles(void **state) {
        static const struct {
                const char *words;
                enum git_failure failure;
        } cases[] = {
                { "unexpected http status code: 404", GIT_NOT_FOUND },
                { "unexpected http status code: 403", GIT_AUTHENTICATION },
                { "unexpected http status code: 503", GIT_UNREACHABLE },
                { "remote error: access denied or repository not exported: /a", GIT_NOT_FOUND },
                { "fatal: '/a' does not appear to be a git repository", GIT_NOT_FOUND },
                { "ERROR: Repository not found.", GIT_NOT_FOUND },
                { "cannot redirect from 'a' to 'b'", GIT_HOST_UNTRUSTED },
                { "failed to connect to a: Connection refused", GIT_UNREACHABLE },
                { "failed to write: No space left on device", GIT_LOCAL },
                { "", GIT_UNREACHABLE },
        };
        const struct url https = { .scheme = URL_HTTPS, .host = "h" },
                         ssh = { .scheme = URL_SSH, .host = "h" };
        struct remote_failure trouble = { 0 };
        enum git_failure failure;
        struct error err = { 0 };

        (void)state;
        assert_false(remote_failure_is_known(&trouble));
        for (size_t i = 0; i < COUNT(cases); i++) {
                assert_int_equal(
                        remote_failure_report(&trouble, &https, NULL, 1, cases[i].words, &failure, &err), -1);
                assert_int_equal(failure, cases[i].failure);
                assert_string_equal(err.message, cases[i].words);
        }
        trouble.unauthorised = true;
        assert_int_equal(remote_failure_report(&trouble, &https, NULL, 1, "no", &failure, &err), -1);
        assert_int_equal(failure, GIT_AUTHENTICATION);
        trouble.unasked = true;
        assert_int_equal(remote_failure_report(&trouble, &ssh, NULL, 1, "no", &failure, &err), -1);
        assert_non_null(strstr(err.message, "credentials.sshKeyFile"));
        trouble.untrusted = true;
        assert_int_equal(remote_failure_report(&trouble, &ssh, NULL, 1, "status code: 404", &failure, &err),
                         -1);
        assert_int_equal(failure, GIT_HOST_UNTRUSTED);
        trouble.over_limit = true;
        assert_int_equal(remote_failure_report(&trouble, &ssh, NULL, 12345, "no", &failure, &err), -1);
        assert_int_equal(failure, GIT_OVER_LIMIT);
        assert_non_null(strstr(err.message, "12345"));
        assert_true(remote_failure_is_known(&trouble));
}

static void names_of_tags(void **state) {
        static const struct {
                const char *data, *name;
                bool same;
        } cases[] = {
                { "object a\ntype commit\ntag v1\ntagger A\n\nm\n", "v1", true },
                { "object a\ntype commit\ntag v1\ntagger A\n\nm\n", "v1.0", false },
                { "object a\ntype commit\ntag v1.0\ntagger A\n\nm\n", "v1", false },
                { "object a\ntype commit\ntag v1\ntag v2\n\nm\n", "v2", false },
                { "object a\ntype commit\n\ntag v1\n", "v1", false },
                { "object a\ntype commit\ntag v1", "v1", false },
                { "object a\ntype commit\ntag \n\n", "", false },
                { "", "v1", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                if (verify_tag_is_called(cases[i].data, strlen(cases[i].data), cases[i].name) !=
                    cases[i].same)
                        fail_msg("%s: %s", cases[i].name, cases[i].data);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_gpgv_says), cmocka_unit_test(armor),
                cmocka_unit_test(known_hosts),    cmocka_unit_test(where_a_tags_armor_begins),
                cmocka_unit_test(troubles),       cmocka_unit_test(names_of_tags),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
