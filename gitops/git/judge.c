/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two halves. In the judge's process: the keys are read, then the cage is entered, then each text that is asked for
 * is judged by gpgv or ssh-keygen, with files in the judge's own folder. On the worker's side: the judge is started,
 * asked, and believed in its verdict alone.
 *
 * It is a process of its own because the worker's cage lets it start no programs, and because a worker that was taken
 * over must not be able to write the keys that it is judged by.
 */
#include "gitops/git/judge.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "gitops/git/verify.h"
#include "process/cage.h"
#include "process/frame.h"
#include "process/run.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_FILE_MAX ((size_t)4 * 1024 * 1024)
#define JUDGE_OUTPUT_MAX ((size_t)256 * 1024)
#define JUDGE_MS 20000
#define PRINCIPALS_MAX 64U
#define TEXT_MAX 512U
#define MESSAGE_MAX ((size_t)64 * 1024)
/* Of a commit or tag, and of its signature: what a person writes is a few kilobytes. */
#define SIGNED_MAX ((size_t)16 * 1024 * 1024)
#define PATH_FOLDERS_MAX 64
#define MEMORY ((uint64_t)256 * 1024 * 1024)

struct judging {
        struct arena *arena;
        const char *folder;
        int64_t deadline_ms;
        struct strbuf keyring;                          /* of all keys, as gpgv takes it */
        const char *keyring_file, *signature, *allowed; /* files in the folder; `allowed` NULL for none */
        enum git_failure *ret_failure;
};

/* Messages: JSON in frames of process/frame.h. A signed text follows its frame as it is, since it may be larger than one. */

#define JUDGE_MESSAGE 1

static int read_exactly(int socket, char *to, size_t length) {
        while (length > 0) {
                ssize_t got = read(socket, to, length);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return -1;
                to += got;
                length -= (size_t)got;
        }
        return 0;
}

/* NULL where the other side has ended, or does not speak as it should; descriptors that it sends are closed. */
static json_t *receive_message(int socket) {
        struct frame_reader reader FRAME_READER_CLEANUP = FRAME_READER(socket);
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error ignored;

        if (frame_receive(&reader, &frame, &ignored) != FRAME_WHOLE || frame.type != JUDGE_MESSAGE ||
            frame.count > 0 || frame.payload.length > MESSAGE_MAX)
                return NULL;
        return json_loadb(strbuf_text(&frame.payload), frame.payload.length, 0, NULL);
}

static int send_message(int socket, const json_t *json) {
        char *text TEXT_CLEANUP = json_compact(json);
        struct error ignored;

        return frame_send(socket, JUDGE_MESSAGE, text, strlen(text), NULL, 0, &ignored);
}

/* The judge's process */

static const char *const *judge_environment(const struct judging *judging) {
        const char **environment = arena_array(judging->arena, 4, sizeof(*environment));
        const char *path = getenv("PATH");

        environment[0] =
                arena_printf(judging->arena, "PATH=%s", path ? path : "/usr/local/bin:/usr/bin:/bin");
        environment[1] = arena_printf(judging->arena, "HOME=%s", judging->folder);
        environment[2] = "LC_ALL=C.UTF-8";
        return environment;
}

/* 1 with exit code 0 and its output, 0 with another one; -1 where there was no verdict. */
static int run_judge(const struct judging *judging, const char *const *arguments, const char *package,
                     const struct signed_text *signed_text, const char **ret_output, struct error *err) {
        enum git_failure *ret_failure = judging->ret_failure;
        int64_t latest = clock_now_ms() + JUDGE_MS;
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct run_args args = {
                .process = { .arguments = arguments, .environment = judge_environment(judging) },
                .input = signed_text ? signed_text->payload : NULL,
                .input_length = signed_text ? signed_text->payload_length : 0,
                .output_max = JUDGE_OUTPUT_MAX,
                .errors = RUN_ERRORS_DROPPED,
                .deadline_ms = judging->deadline_ms < latest ? judging->deadline_ms : latest,
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

static int judge_openpgp(const struct judging *judging, const struct signed_text *signed_text,
                         const char **ret_signer, const char **ret_why, struct error *err) {
        struct arena *arena = judging->arena;
        const char *payload = arena_printf(arena, "%s/payload", judging->folder), *status;
        const char *const arguments[] = { "gpgv",
                                          "--homedir",
                                          judging->folder,
                                          "--keyring",
                                          judging->keyring_file,
                                          "--status-fd",
                                          "1",
                                          "--",
                                          judging->signature,
                                          payload,
                                          NULL };
        int verdict;

        if (judging->keyring.length == 0) {
                *ret_why = "it is signed with OpenPGP, and verify.gpgKeys names no keys";
                return 0;
        }
        if (file_write_atomic(judging->keyring_file, strbuf_text(&judging->keyring), judging->keyring.length,
                              0600, err) < 0 ||
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

        principal = git_clean_text(arena, principal, TEXT_MAX);
        if (!key)
                return principal;
        key += strlen(" key ");
        key = arena_strndup(arena, key, strcspn(key, "\r\n"));
        return arena_printf(arena, "%s (ssh %s)", principal, git_clean_text(arena, key, TEXT_MAX));
}

static int judge_ssh(const struct judging *judging, const struct signed_text *signed_text,
                     const char **ret_signer, const char **ret_why, struct error *err) {
        const char *allowed = judging->allowed, *found, *said;
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

static int judge_text(const struct judging *judging, const struct signed_text *signed_text,
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

/* Read before the cage is entered: they may lie anywhere. The judges would report an unreadable file as a bad signature. */
static int load_keys(struct judging *judging, const json_t *asked, struct error *err) {
        const json_t *files = json_object_get(asked, "gpgKeys");
        const char *allowed = json_text(asked, "sshAllowedSigners");
        struct strbuf signers STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < json_array_size(files); i++) {
                const char *file = json_string_value(json_array_get(files, i));
                struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

                if (file_read(file, KEY_FILE_MAX, &bytes, err) < 0 ||
                    keyring_add(strbuf_text(&bytes), bytes.length, &judging->keyring, err) < 0)
                        return error_context(err, "OpenPGP key %s", file);
        }
        if (!allowed)
                return 0;
        if (file_read(allowed, KEY_FILE_MAX, &signers, err) < 0)
                return error_context(err, "allowed signers");
        judging->allowed = arena_printf(judging->arena, "%s/allowed_signers", judging->folder);
        return file_write_atomic(judging->allowed, strbuf_text(&signers), signers.length, 0600, err);
}

/*
 * A user of systemd's (DynamicUser=) has no line there: its name must be asked of a service, over a
 * Unix socket.
 */
static bool is_in_passwd(uid_t user) {
        FILE *file = fopen("/etc/passwd", "re");
        struct passwd *entry;
        bool found = false;

        while (file && !found && (entry = fgetpwent(file)))
                found = entry->pw_uid == user;
        if (file)
                fclose(file);
        return found;
}

/* The judges are wherever PATH finds them. */
static int enter_judge_cage(const struct judging *judging, struct error *err) {
        const char *programs[PATH_FOLDERS_MAX + 1] = { NULL }, *folders[] = { judging->folder, NULL };
        const char *path = getenv("PATH"), *weak;
        char *rest = arena_strdup(judging->arena, path ? path : "/usr/local/bin:/usr/bin:/bin"), *folder;
        const struct cage cage = {
                .calls = judging->allowed && !is_in_passwd(getuid()) ? CAGE_JUDGES_NAMES : CAGE_JUDGES,
                .run = programs,
                .write = folders,
                .data_bytes = MEMORY,
                .file_bytes = MEMORY,
                .files_open = 64,
                .cpu_seconds = 60,
        };

        for (size_t i = 0; i < PATH_FOLDERS_MAX && (folder = strsep(&rest, ":"));)
                if (*folder)
                        programs[i++] = folder;
        /* A weakness here is the worker's too, which reports it. */
        return cage_enter(&cage, &weak, err);
}

/* False once the worker has gone. */
static bool answer_one(struct judging *judging) {
        json_t *asked JSON_CLEANUP = receive_message(STDIN_FILENO), *answer JSON_CLEANUP = json_object();
        json_int_t payload = json_integer_or(asked, "payload", -1),
                   signature = json_integer_or(asked, "signature", -1);
        struct arena *arena ARENA_CLEANUP = arena_new();
        enum git_failure failure = GIT_LOCAL;
        struct judging one = *judging;
        const char *signer = NULL, *why = NULL;
        struct error err = { 0 };
        char *bytes;
        int verdict;

        if (payload < 0 || signature < 0 || (size_t)payload > SIGNED_MAX || (size_t)signature > SIGNED_MAX)
                return false;
        bytes = arena_alloc(arena, (size_t)(payload + signature) + 1);
        if (read_exactly(STDIN_FILENO, bytes, (size_t)(payload + signature)) < 0)
                return false;
        one.arena = arena;
        one.ret_failure = &failure;
        verdict = judge_text(&one,
                             &(struct signed_text){ .payload = bytes,
                                                    .payload_length = (size_t)payload,
                                                    .signature = bytes + payload,
                                                    .signature_length = (size_t)signature },
                             &signer, &why, &err);
        json_put(answer, "verdict", json_integer(verdict));
        json_put(answer, "failure", json_integer(failure));
        json_set_text(answer, "signer", signer);
        json_set_text(answer, "why", why);
        json_set_text(answer, "message", verdict < 0 ? err.message : NULL);
        return send_message(STDOUT_FILENO, answer) == 0;
}

static int prepare_judging(struct judging *judging, const json_t *asked, struct error *err) {
        const char *folder = json_text(asked, "folder");

        if (!folder)
                return error_set(err, "git-judge was asked for nothing");
        judging->folder = folder;
        judging->deadline_ms = json_integer_or(asked, "deadline", 0);
        judging->keyring_file = arena_printf(judging->arena, "%s/keyring.gpg", folder);
        judging->signature = arena_printf(judging->arena, "%s/signature", folder);
        if (git_remove_folder(folder, err) < 0 || folder_make(folder, err) < 0 ||
            load_keys(judging, asked, err) < 0)
                return -1;
        return enter_judge_cage(judging, err);
}

int git_judge_main(void) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *asked JSON_CLEANUP = NULL, *ready JSON_CLEANUP = json_object();
        struct judging judging = { .arena = arena };
        struct error err = { 0 };

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        umask(0077);
        asked = receive_message(STDIN_FILENO);
        if (prepare_judging(&judging, asked, &err) < 0)
                json_set_text(ready, "message", err.message);
        if (send_message(STDOUT_FILENO, ready) == 0 && !json_object_get(ready, "message")) {
                while (answer_one(&judging))
                        ;
        }
        strbuf_release(&judging.keyring);
        return 0;
}

/* The worker's side */

static int wait_until_ready(struct judge *judge, struct error *err) {
        json_t *ready JSON_CLEANUP = receive_message(judge->socket);

        if (!ready)
                return error_set(err, "git-judge ended at once");
        return json_text(ready, "message") ? error_set(err, "%s", json_text(ready, "message")) : 0;
}

int judge_start(const struct judge_args *args, struct judge *ret, struct error *err) {
        static const char *const arguments[] = { "/proc/self/exe", "git-judge", NULL };
        json_t *asked JSON_CLEANUP = json_object(), *keys = json_array();
        int ends[2], theirs DESCRIPTOR_CLEANUP = -1;
        struct process_args process = { .arguments = arguments, .environment = (const char *const *)environ };

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return error_set(err, "no socket for git-judge: %s", strerror(errno));
        ret->socket = ends[0];
        theirs = ends[1];
        process.descriptors[0] = (struct process_descriptor){ .ours = theirs, .as = STDIN_FILENO };
        process.descriptors[1] = (struct process_descriptor){ .ours = theirs, .as = STDOUT_FILENO };
        process.descriptors[2] = (struct process_descriptor){ .ours = STDERR_FILENO, .as = STDERR_FILENO };
        process.descriptor_count = 3;
        for (size_t i = 0; i < args->gpg_key_count; i++)
                json_add(keys, json_from_text(args->gpg_keys[i]));
        json_put(asked, "gpgKeys", keys);
        json_set_text(asked, "sshAllowedSigners", args->ssh_allowed_signers);
        json_set_text(asked, "folder", args->folder);
        json_put(asked, "deadline", json_integer(args->deadline_ms));
        if (process_start(&process, &ret->process, err) < 0)
                return -1;
        close_descriptor(&theirs);
        if (send_message(ret->socket, asked) < 0)
                return error_set(err, "git-judge does not listen");
        return wait_until_ready(ret, err);
}

void judge_end(struct judge *judge) {
        close_descriptor(&judge->socket);
        process_end(&judge->process);
}

int judge_ask(struct judge *judge, const struct signed_text *text, struct arena *arena,
              const char **ret_signer, const char **ret_why, enum git_failure *ret_failure,
              struct error *err) {
        json_t *asked JSON_CLEANUP = json_object(), *answer JSON_CLEANUP = NULL;
        json_int_t failure;

        if (text->payload_length > SIGNED_MAX || text->signature_length > SIGNED_MAX)
                return FAIL(GIT_OVER_LIMIT, "a commit or tag of more than %zu bytes is not verified",
                            SIGNED_MAX);
        json_put(asked, "payload", json_integer((json_int_t)text->payload_length));
        json_put(asked, "signature", json_integer((json_int_t)text->signature_length));
        if (send_message(judge->socket, asked) == 0 &&
            descriptor_write(judge->socket, text->payload, text->payload_length) == 0 &&
            descriptor_write(judge->socket, text->signature, text->signature_length) == 0)
                answer = receive_message(judge->socket);
        failure = json_integer_or(answer, "failure", GIT_LOCAL);
        switch (json_integer_or(answer, "verdict", -1)) {
        case 1:
                *ret_signer =
                        arena_strdup(arena, json_text(answer, "signer") ? json_text(answer, "signer") : "");
                return 1;
        case 0:
                if (json_text(answer, "why"))
                        *ret_why = arena_strdup(arena, json_text(answer, "why"));
                return 0;
        default:
                return FAIL(failure == GIT_UNVERIFIED ? GIT_UNVERIFIED : GIT_LOCAL, "%s",
                            json_text(answer, "message")
                                    ? json_text(answer, "message")
                                    : "git-judge, which has signatures judged, gave no answer");
        }
}
