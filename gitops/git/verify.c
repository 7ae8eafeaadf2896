/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/git/verify.h"

#include "base/clock.h"
#include "base/files.h"
#include "process/run.h"

#include <stdlib.h>
#include <string.h>

#define KEY_FILE_MAX ((size_t)4 * 1024 * 1024)
#define JUDGE_OUTPUT_MAX ((size_t)256 * 1024)
#define JUDGE_MS 20000
#define PRINCIPALS_MAX 64U
#define TEXT_MAX 512U

struct judging {
        const struct verify_args *args;
        struct arena *arena;
        const char *keyring, *signature; /* files */
        enum git_failure *ret_failure;
};

/* What a key's owner may have put into a name. */
static const char *clean(struct arena *arena, const char *text, size_t length) {
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

int verify_read_status(const char *text, struct arena *arena, const char **ret_signer, const char **ret_why) {
        const char *name = "", *fingerprint = "", *why = NULL, *rest;
        unsigned good = 0, valid = 0;

        while (*text) {
                size_t length = strcspn(text, "\n");
                const char *end = text + length;

                if (is_word(text, length, "GOODSIG", &rest)) {
                        const char *space = memchr(rest, ' ', (size_t)(end - rest));

                        good++;
                        name = space ? clean(arena, space + 1, (size_t)(end - space - 1)) : "";
                } else if (is_word(text, length, "VALIDSIG", &rest)) {
                        valid++;
                        fingerprint = clean(arena, rest, strcspn(rest, " \n"));
                }
                for (size_t i = 0; i < sizeof(objections) / sizeof(objections[0]) && !why; i++) {
                        if (is_word(text, length, objections[i].word, &rest))
                                why = objections[i].meaning;
                }
                text = *end ? end + 1 : end;
        }
        if (!why && (good != 1 || valid != 1))
                why = good > 1 ? "it has more than one signature" : "gpgv does not vouch for its signature";
        if (why) {
                *ret_why = why;
                return 0;
        }
        *ret_signer = arena_printf(arena, "%s (OpenPGP %s)", name, fingerprint);
        return 1;
}

static const char *const *judge_environment(const struct judging *judging) {
        const char **environment = arena_array(judging->arena, 4, sizeof(*environment));
        const char *path = getenv("PATH");

        environment[0] =
                arena_printf(judging->arena, "PATH=%s", path ? path : "/usr/local/bin:/usr/bin:/bin");
        environment[1] = arena_printf(judging->arena, "HOME=%s", judging->args->folder);
        environment[2] = "LC_ALL=C.UTF-8";
        return environment;
}

/* 1 with exit code 0 and its output, 0 with another one; -1 where there was no verdict. */
static int run_judge(const struct judging *judging, const char *const *arguments, const char *package,
                     const struct signed_text *signed_text, const char **ret_output, struct error *err) {
        enum git_failure *ret_failure = judging->ret_failure;
        int64_t latest = clock_system.monotonic_ms(&clock_system) + JUDGE_MS;
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct run_args args = {
                .process = { .arguments = arguments, .environment = judge_environment(judging) },
                .input = signed_text ? signed_text->payload : NULL,
                .input_length = signed_text ? signed_text->payload_length : 0,
                .output_max = JUDGE_OUTPUT_MAX,
                .errors = RUN_ERRORS_DROPPED,
                .deadline_ms = judging->args->deadline_ms < latest ? judging->args->deadline_ms : latest,
        };
        int started = run_to_end(&args, &result, err);

        *ret_output = arena_strdup(judging->arena, strbuf_text(&result.output));
        if (started < 0 && err->kind == ERROR_NOT_FOUND)
                return FAIL(GIT_UNVERIFIED,
                            "%s, which judges signatures, is not installed: install the package %s",
                            arguments[0], package);
        if (started < 0) {
                *ret_failure = GIT_LOCAL;
                return -1;
        }
        switch (result.end) {
        case RUN_EXITED:
                return result.code == 0;
        case RUN_LATE:
                return FAIL(GIT_UNVERIFIED, "%s came to no verdict in time", arguments[0]);
        case RUN_SIGNALLED:
        case RUN_TALKATIVE:
        case RUN_INTERRUPTED:
        default:
                return FAIL(GIT_UNVERIFIED, "%s came to no verdict", arguments[0]);
        }
}

static int read_keys(const struct judging *judging, struct strbuf *keyring, struct error *err) {
        const struct verify_args *args = judging->args;

        for (size_t i = 0; i < args->gpg_key_count; i++) {
                struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

                if (file_read(args->gpg_keys[i], KEY_FILE_MAX, &bytes, err) < 0 ||
                    keyring_add(strbuf_text(&bytes), bytes.length, keyring, err) < 0)
                        return error_context(err, "OpenPGP key %s", args->gpg_keys[i]);
        }
        return 0;
}

static int judge_openpgp(const struct judging *judging, const struct signed_text *signed_text,
                         const char **ret_signer, const char **ret_why, struct error *err) {
        struct arena *arena = judging->arena;
        const char *payload = arena_printf(arena, "%s/payload", judging->args->folder), *status;
        const char *const arguments[] = { "gpgv",
                                          "--homedir",
                                          judging->args->folder,
                                          "--keyring",
                                          judging->keyring,
                                          "--status-fd",
                                          "1",
                                          "--",
                                          judging->signature,
                                          payload,
                                          NULL };
        struct strbuf keyring STRBUF_CLEANUP = STRBUF_INIT;
        int verdict;

        if (judging->args->gpg_key_count == 0) {
                *ret_why = "it is signed with OpenPGP, and verify.gpgKeys names no keys";
                return 0;
        }
        if (read_keys(judging, &keyring, err) < 0 ||
            file_write_atomic(judging->keyring, strbuf_text(&keyring), keyring.length, 0600, err) < 0 ||
            file_write_atomic(payload, signed_text->payload, signed_text->payload_length, 0600, err) < 0) {
                *judging->ret_failure = GIT_LOCAL;
                return -1;
        }
        verdict = run_judge(judging, arguments, "gpgv", NULL, &status, err);
        if (verdict < 0)
                return -1;
        if (verify_read_status(status, arena, ret_signer, ret_why) == 0)
                return 0;
        if (verdict == 0)
                *ret_why = "gpgv does not vouch for its signature";
        return verdict;
}

/* 'Good "git" signature for PRINCIPAL with ED25519 key SHA256:...' */
static const char *ssh_signer(struct arena *arena, const char *principal, const char *said) {
        const char *key = strstr(said, " key ");

        principal = clean(arena, principal, strlen(principal));
        if (!key)
                return principal;
        key += strlen(" key ");
        return arena_printf(arena, "%s (ssh %s)", principal, clean(arena, key, strcspn(key, "\r\n")));
}

static int judge_ssh(const struct judging *judging, const struct signed_text *signed_text,
                     const char **ret_signer, const char **ret_why, struct error *err) {
        const char *allowed = judging->args->ssh_allowed_signers, *found, *said;
        const char *const asking[] = { "ssh-keygen",       "-Y", "find-principals", "-s",
                                       judging->signature, "-f", allowed,           NULL };
        char *principals, *principal;
        int verdict;

        if (!allowed) {
                *ret_why = "it is signed with ssh, and verify.sshAllowedSigners names no keys";
                return 0;
        }
        *ret_why = "it is signed by an ssh key that is not among the allowed signers";
        verdict = run_judge(judging, asking, "openssh-client", NULL, &found, err);
        if (verdict <= 0)
                return verdict;
        principals = arena_strdup(judging->arena, found);
        for (unsigned i = 0; i < PRINCIPALS_MAX && (principal = strsep(&principals, "\n")); i++) {
                const char *const arguments[] = {
                        "ssh-keygen", "-Y", "verify",           "-n", "git", "-f", allowed, "-I",
                        principal,    "-s", judging->signature, NULL
                };

                if (!*principal)
                        continue;
                verdict = run_judge(judging, arguments, "openssh-client", signed_text, &said, err);
                if (verdict > 0)
                        *ret_signer = ssh_signer(judging->arena, principal, said);
                if (verdict != 0)
                        return verdict;
                *ret_why =
                        "ssh-keygen does not vouch for its signature: it does not fit, or the key may not sign "
                        "for git now";
        }
        return 0;
}

static int judge(const struct judging *judging, const struct signed_text *signed_text,
                 const char **ret_signer, const char **ret_why, struct error *err) {
        const char *armor = signed_text->signature;

        if (file_write_atomic(judging->signature, armor, signed_text->signature_length, 0600, err) < 0) {
                *judging->ret_failure = GIT_LOCAL;
                return -1;
        }
        if (strncmp(armor, "-----BEGIN SSH SIGNATURE-----", 29) == 0)
                return judge_ssh(judging, signed_text, ret_signer, ret_why, err);
        if (strncmp(armor, "-----BEGIN PGP SIGNATURE-----", 29) == 0)
                return judge_openpgp(judging, signed_text, ret_signer, ret_why, err);
        *ret_why = "it is signed in a way that is neither OpenPGP nor ssh";
        return 0;
}

/* The judges report an unreadable file as a bad signature: looked at first. */
static int check_files(const struct judging *judging, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf keyring STRBUF_CLEANUP = STRBUF_INIT;
        const char *allowed = judging->args->ssh_allowed_signers;

        *judging->ret_failure = GIT_LOCAL;
        if (allowed && file_read(allowed, KEY_FILE_MAX, &bytes, err) < 0)
                return error_context(err, "allowed signers");
        return read_keys(judging, &keyring, err);
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
 * 1 with the signature of the tag itself. One that was signed as v1.0 vouches for no v9.0: whoever may write refs, and
 * has no key, could go back to it by that.
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

int verify_commit(const struct verify_args *args, struct repository *repository, const struct remote_ref *ref,
                  struct arena *arena, const char **ret_signer, enum git_failure *ret_failure,
                  struct error *err) {
        const struct judging judging = {
                .args = args,
                .arena = arena,
                .keyring = arena_printf(arena, "%s/keyring.gpg", args->folder),
                .signature = arena_printf(arena, "%s/signature", args->folder),
                .ret_failure = ret_failure,
        };
        const char *why = NULL, *tag_why = NULL;
        struct signed_text signed_text;
        int found;

        if (check_files(&judging, err) < 0)
                return -1;
        found = repository_commit_signature(repository, ref->commit, arena, &signed_text, ret_failure, err);
        if (found > 0)
                found = judge(&judging, &signed_text, ret_signer, &why, err);
        if (found != 0)
                return found < 0 ? -1 : 0;
        found = tag_signature(repository, ref, arena, &signed_text, &tag_why, ret_failure, err);
        if (found > 0)
                found = judge(&judging, &signed_text, ret_signer, &tag_why, err);
        if (found != 0)
                return found < 0 ? -1 : 0;
        if (tag_why)
                return FAIL(GIT_UNVERIFIED, "commit %s is refused: of its tag, %s; the commit %s",
                            ref->commit, tag_why, why ? why : "itself is not signed");
        return FAIL(GIT_UNVERIFIED, "commit %s is refused: %s", ref->commit, why ? why : "it is not signed");
}
