/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpgv's status lines decide (doc/DETAILS of GnuPG), not its exit code: exactly one GOODSIG and one VALIDSIG, none of the
 * objections below, and a hash that is not broken.
 */
#include "gitops/git/verify.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 512U

/* What a key's owner may have put into a name. */
static const char *clean_name(struct arena *arena, const char *text, size_t length) {
        return git_clean_text(arena, text, length < TEXT_MAX ? length : TEXT_MAX);
}

static const struct {
        const char *word, *meaning;
} objections[] = {
        { "BADSIG", "the signature does not fit what it signs" },
        { "EXPSIG", "the signature has expired" },
        { "EXPKEYSIG", "the key that signed it has expired" },
        { "KEYEXPIRED", "the key that signed it has expired" },
        { "REVKEYSIG", "the key that signed it was revoked" },
        { "KEYREVOKED", "the key that signed it was revoked" },
        { "ERRSIG", "it is signed by a key that is not among those given" },
        { "NO_PUBKEY", "it is signed by a key that is not among those given" },
        { "NODATA", "its signature cannot be read" },
        { "UNEXPECTED", "its signature cannot be read" },
};

/* "[GNUPG:] WORD REST" */
static bool is_word(const char *line, size_t length, const char *word, const char **ret_rest) {
        static const char prefix[] = "[GNUPG:] ";
        size_t start = sizeof(prefix) - 1, size = strlen(word);

        if (length < start + size || memcmp(line, prefix, start) != 0 ||
            memcmp(line + start, word, size) != 0)
                return false;
        if (length > start + size && line[start + size] != ' ')
                return false;
        *ret_rest = line + start + size + (length > start + size);
        return true;
}

/*
 * By the number of RFC 4880 (9.4) and its successor: SHA-256, 384, 512, 224, and of SHA-3 256 and 512. MD5, SHA-1 and
 * RIPEMD-160 are not among them: two commits can be made of which one signature by these fits both.
 * "VALIDSIG FINGERPRINT DATE TIME EXPIRES VERSION RESERVED KEY-ALGORITHM HASH-ALGORITHM CLASS ..."
 */
static bool is_strong(const char *valid, const char *end) {
        static const char *const strong[] = { "8", "9", "10", "11", "12", "14" };
        size_t length;

        for (int field = 0; field < 7; field++) {
                const char *space = memchr(valid, ' ', (size_t)(end - valid));

                if (!space)
                        return false;
                valid = space + 1;
        }
        length = strcspn(valid, " \n");
        for (size_t i = 0; i < sizeof(strong) / sizeof(strong[0]); i++) {
                if (strlen(strong[i]) == length && memcmp(valid, strong[i], length) == 0)
                        return true;
        }
        return false;
}

int verify_read_status(const char *text, struct arena *arena, const char **ret_signer, const char **ret_why) {
        const char *name = "", *fingerprint = "", *why = NULL, *weak = NULL, *rest;
        unsigned good = 0, valid = 0;

        while (*text) {
                size_t length = strcspn(text, "\n");
                const char *end = text + length;

                if (is_word(text, length, "GOODSIG", &rest)) {
                        const char *space = memchr(rest, ' ', (size_t)(end - rest));

                        good++;
                        name = space ? clean_name(arena, space + 1, (size_t)(end - space - 1)) : "";
                } else if (is_word(text, length, "VALIDSIG", &rest)) {
                        valid++;
                        if (!is_strong(rest, end))
                                weak = "it is signed with a hash that can be forged (SHA-1, MD5): "
                                       "sign it again with SHA-256 or better (gpg --digest-algo "
                                       "SHA256)";
                        fingerprint = clean_name(arena, rest, strcspn(rest, " \n"));
                }
                for (size_t i = 0; i < sizeof(objections) / sizeof(objections[0]) && !why; i++) {
                        if (is_word(text, length, objections[i].word, &rest))
                                why = objections[i].meaning;
                }
                text = *end ? end + 1 : end;
        }
        if (!why && (good != 1 || valid != 1))
                why = good > 1 ? "it has more than one signature" : "gpgv does not vouch for its signature";
        if (!why)
                why = weak;
        if (why) {
                *ret_why = why;
                return 0;
        }
        *ret_signer = arena_printf(arena, "%s (OpenPGP %s)", name, fingerprint);
        return 1;
}

size_t verify_find_armor(const char *data, size_t size) {
        static const char *const begins[] = { "-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP MESSAGE-----",
                                              "-----BEGIN SSH SIGNATURE-----" };
        size_t found = size;

        for (size_t at = 0; at < size;) {
                const char *end = memchr(data + at, '\n', size - at);

                for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
                        size_t length = strlen(begins[i]);

                        if (size - at >= length && memcmp(data + at, begins[i], length) == 0)
                                found = at;
                }
                at = end ? (size_t)(end - data) + 1 : size;
        }
        return found;
}

bool verify_tag_is_called(const char *data, size_t size, const char *name) {
        static const char header[] = "tag ";
        const size_t start = sizeof(header) - 1;
        const char *end;

        for (; size > 0 && *data != '\n'; size -= (size_t)(end - data) + 1, data = end + 1) {
                end = memchr(data, '\n', size);
                if (!end)
                        return false;
                if ((size_t)(end - data) > start && memcmp(data, header, start) == 0)
                        return (size_t)(end - data) - start == strlen(name) &&
                               memcmp(data + start, name, strlen(name)) == 0;
        }
        return false;
}

/* Of "refs/tags/NAME", or where it was fetched to. */
static const char *tag_name(const struct remote_ref *ref) {
        const char *found = strstr(ref->name, "/tags/");

        return found ? found + strlen("/tags/") : "";
}

/*
 * 1 with the signature of the tag itself. A tag signed as v1.0 does not vouch for v9.0: an attacker
 * who may write refs, and has no key, could go back to it by that.
 */
static int tag_signature(struct repository *repository, const struct remote_ref *ref, struct arena *arena,
                         struct signed_text *ret, const char **ret_why, enum git_failure *ret_failure,
                         struct error *err) {
        const char *data;
        size_t size, at;
        int found = repository_tag(repository, ref->id, ref->commit, arena, &data, &size, ret_failure, err);

        if (found <= 0)
                return found;
        at = verify_find_armor(data, size);
        if (at < size && !verify_tag_is_called(data, at, tag_name(ref))) {
                *ret_why = "it is signed under another name";
                return 0;
        }
        *ret = (struct signed_text){
                .payload = data,
                .payload_length = at,
                .signature = data + at,
                .signature_length = size - at,
        };
        return at < size;
}

int verify_commit(struct judge *judge, struct repository *repository, const struct remote_ref *ref,
                  struct arena *arena, const char **ret_signer, enum git_failure *ret_failure,
                  struct error *err) {
        const char *why = NULL, *tag_why = NULL;
        struct signed_text signed_text;
        int found;

        found = repository_commit_signature(repository, ref->commit, arena, &signed_text, ret_failure, err);
        if (found > 0)
                found = judge_ask(judge, &signed_text, arena, ret_signer, &why, ret_failure, err);
        if (found != 0)
                return found < 0 ? -1 : 0;
        found = tag_signature(repository, ref, arena, &signed_text, &tag_why, ret_failure, err);
        if (found > 0)
                found = judge_ask(judge, &signed_text, arena, ret_signer, &tag_why, ret_failure, err);
        if (found != 0)
                return found < 0 ? -1 : 0;
        if (tag_why)
                return FAIL(GIT_UNVERIFIED, "commit %s is refused: of its tag, %s; the commit %s",
                            ref->commit, tag_why, why ? why : "itself is not signed");
        return FAIL(GIT_UNVERIFIED, "commit %s is refused: %s", ref->commit, why ? why : "it is not signed");
}
