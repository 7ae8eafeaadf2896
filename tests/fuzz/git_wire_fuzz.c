/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git_check() and its worker tell each other, and the URLs of repositories. The first byte says which: 0 an answer, 1 a
 * request, byte by byte as they come; 2 an answer's JSON and its files, framed as they should be; 3 an answer and 4 a request
 * made of texts, which must read as they were written; 5 a URL; 6 a password in one; 7 what an ssh server says first.
 */
#include "base/text_utf8.h"
#include "gitops/git/git_parts.h"
#include "gitops/git/ssh_offer.h"
#include "gitops/git/url.h"
#include "gitops/git/wire.h"
#include "gitops/source.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define PASSWORD "x-Wq8-pass"
#define TEXTS 8

struct input {
        struct parts parts;
        struct arena *arena;
};

static const struct git_request asked = { .url = "https://bot@host/team/agents.git",
                                          .branch = "main",
                                          .folder = "/state/git" };

static void require(bool condition) {
        if (!condition)
                abort();
}

/* The next part, NULL where it is empty. */
static const char *text_of(struct input *input) {
        char *text = parts_next_text(&input->parts);
        const char *kept = *text ? arena_strdup(input->arena, text) : NULL;

        free(text);
        return kept;
}

/* A text as it comes out at the other end: bytes that are no UTF-8 are written as what stands for them. */
static bool same(const char *written, const char *read) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;

        if (!written || !read)
                return written == read;
        text_append_utf8(&safe, written);
        return strcmp(strbuf_text(&safe), read) == 0;
}

/* What the controller relies on in what it believes. */
static void check_believed(const struct wire_answer *found, const struct git_request *request) {
        struct git_limits limits = wire_limits(&request->limits);
        const struct git_answer *answer = &found->answer;
        size_t total = 0;

        require(answer->commit && wire_is_id(answer->commit));
        require(answer->ref || request->commit);
        require(answer->file_count <= limits.entries);
        for (size_t i = 0; i < answer->file_count; i++) {
                const struct git_file *file = &answer->files[i];
                const char *path = strchr(strchr(file->name, '@') + 1, ':') + 1;

                require(strncmp(file->name, "host/team/agents.git@", 21) == 0 && !git_path_objection(path));
                require(file->length <= limits.blob_bytes && file->bytes[file->length] == '\0');
                require(i == 0 || strcmp(file[-1].name, file->name) < 0);
                total += file->length;
        }
        require(total <= limits.total_bytes);
        json_decref(commit_json(answer, answer->ref));
}

static void read_answer(const char *bytes, size_t length, const struct git_request *request,
                        struct input *input) {
        struct wire_answer found = { 0 };
        enum git_phase phase = PHASE_STARTING;
        struct error err = { 0 };

        if (wire_read_answer(bytes, length, request, input->arena, &found, &phase, &err) < 0) {
                require(err.message[0] != '\0');
        } else if (found.failed) {
                require(found.message && found.failure <= GIT_LOCAL);
                require(!found.answer.commit || wire_is_id(found.answer.commit));
        } else {
                check_believed(&found, request);
        }
        require((int)phase >= 0 && phase < PHASE_COUNT);
}

static void answer(struct input *input) {
        size_t length;
        char *bytes = parts_next(&input->parts, &length);

        read_answer(bytes, length, &asked, input);
        free(bytes);
}

static void framed_answer(struct input *input) {
        struct git_request request = asked;
        struct strbuf frame STRBUF_CLEANUP = STRBUF_INIT;
        size_t length, file_length;
        char *text = parts_next(&input->parts, &length), *files = parts_next(&input->parts, &file_length);
        char *exact;

        request.limits = (struct git_limits){ .entries = 4, .blob_bytes = 64, .total_bytes = 100 };
        request.commit = length % 2 ? COMMIT : NULL;
        strbuf_printf(&frame, "%zu\n", length);
        strbuf_append_bytes(&frame, text, length);
        strbuf_append_bytes(&frame, files, file_length);
        /* Of exactly its size: what is read beyond it is seen. */
        exact = malloc(frame.length);
        if (!exact)
                abort();
        memcpy(exact, frame.data, frame.length);
        read_answer(exact, frame.length, &request, input);
        free(exact);
        free(text);
        free(files);
}

static void read_request(const char *bytes, size_t length, struct input *input) {
        struct strbuf frame STRBUF_CLEANUP = STRBUF_INIT;
        struct git_request found, again;
        struct error err = { 0 };

        if (wire_read_request(bytes, length, input->arena, &found, &err) < 0) {
                require(err.message[0] != '\0');
                return;
        }
        wire_write_request(&found, &frame);
        if (wire_read_request(frame.data, frame.length, input->arena, &again, &err) < 0)
                abort();
        require(same(found.url, again.url) && same(found.folder, again.folder) &&
                same(found.have, again.have) && found.gpg_key_count == again.gpg_key_count);
        require(memcmp(&found.limits, &again.limits, sizeof(found.limits)) == 0);
        require(found.limits.entries > 0 && found.limits.timeout_ms > 0);
}

static void request(struct input *input) {
        size_t length;
        char *bytes = parts_next(&input->parts, &length);

        read_request(bytes, length, input);
        free(bytes);
}

static int compare_paths(const void *a, const void *b) {
        return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

/* Parts in turn: the path of a file, its bytes. Such as the worker reads: no others, and in order. */
static void take_files(struct input *input, struct wire_answer *ret) {
        struct tree_file *files = arena_array(input->arena, TEXTS, sizeof(*files));

        ret->files = files;
        while (!input->parts.over && ret->file_count < TEXTS) {
                const char *path = text_of(input);
                size_t length, offset;
                char *bytes = parts_next(&input->parts, &length);

                if (path && !git_path_objection(path) && text_is_utf8(path, strlen(path), &offset))
                        files[ret->file_count++] =
                                (struct tree_file){ path, arena_strndup(input->arena, bytes, length),
                                                    length };
                free(bytes);
        }
        qsort(files, ret->file_count, sizeof(*files), compare_paths);
        for (size_t i = 1; i < ret->file_count; i++) {
                if (strcmp(files[i - 1].path, files[i].path) == 0)
                        ret->file_count = i;
        }
}

static void written_answer(struct input *input) {
        const char *const warnings[] = { text_of(input) };
        struct wire_answer written = {
                .answer = { .moved = true,
                            .commit = COMMIT,
                            .ref = text_of(input),
                            .subject = text_of(input),
                            .author = text_of(input),
                            .signer = text_of(input),
                            .warnings = warnings,
                            .warning_count = warnings[0] ? 1 : 0 },
                .message = text_of(input),
        }, read = { 0 };
        struct strbuf frame STRBUF_CLEANUP = STRBUF_INIT;
        enum git_phase phase = PHASE_STARTING;
        struct error err = { 0 };

        written.failed = !written.answer.ref;
        if (!written.failed)
                take_files(input, &written);
        wire_write_answer(&written, &frame);
        if (wire_read_answer(frame.data, frame.length, &asked, input->arena, &read, &phase, &err) < 0)
                abort();
        require(read.failed == written.failed && read.answer.moved);
        require(same(written.answer.ref, read.answer.ref) &&
                same(written.answer.subject, read.answer.subject) &&
                same(written.answer.author, read.answer.author) &&
                same(written.answer.signer, read.answer.signer));
        require(read.answer.warning_count == written.answer.warning_count);
        require(!warnings[0] || same(warnings[0], read.answer.warnings[0]));
        if (written.failed) {
                require(!written.message || same(written.message, read.message));
                return;
        }
        require(read.answer.file_count == written.file_count);
        for (size_t i = 0; i < written.file_count; i++)
                require(read.answer.files[i].length == written.files[i].length &&
                        memcmp(read.answer.files[i].bytes, written.files[i].bytes, written.files[i].length) ==
                                0);
}

static void written_request(struct input *input) {
        const char *url = text_of(input), *folder = text_of(input);
        const char *const keys[] = { text_of(input) };
        struct git_request written = {
                .url = url ? url : "u",
                .folder = folder ? folder : "f",
                .gpg_keys = keys,
                .gpg_key_count = keys[0] ? 1 : 0,
                .branch = text_of(input),
                .tag = text_of(input),
                .path = text_of(input),
                .have = text_of(input),
                .have_ref = text_of(input),
                .credentials = { .username_file = text_of(input), .ca_file = text_of(input) },
                .fast_forward_only = input->parts.left % 2,
        }, read;
        struct strbuf frame STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        wire_write_request(&written, &frame);
        if (wire_read_request(frame.data, frame.length, input->arena, &read, &err) < 0)
                abort();
        require(same(written.url, read.url) && same(written.folder, read.folder) &&
                same(written.branch, read.branch) && same(written.tag, read.tag) &&
                same(written.path, read.path) && same(written.have, read.have) &&
                same(written.have_ref, read.have_ref) &&
                same(written.credentials.username_file, read.credentials.username_file) &&
                same(written.credentials.ca_file, read.credentials.ca_file));
        require(read.fast_forward_only == written.fast_forward_only && !read.read_anyway && !read.commit);
        require(read.gpg_key_count == written.gpg_key_count && (!keys[0] || same(keys[0], read.gpg_keys[0])));
}

static bool same_or_none(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

/*
 * A URL let through to libgit2 and ssh; and what it is taken for is what it says, also when it is
 * read once more.
 */
static void check_url(const struct url *url, struct input *input) {
        struct error err = { 0 };
        struct url again;
        size_t offset;

        require(!url->host || (url->host[0] != '-' && url->host[0] != '\0' && !strpbrk(url->host, "/@[] ")));
        require(!url->user || (url->user[0] != '-' && url->user[0] != '\0' && !strpbrk(url->user, "/: ")));
        require(!url->port || (*url->port && strspn(url->port, "0123456789") == strlen(url->port)));
        require((url->scheme == URL_FILE) == !url->host);
        require(url->path[0] != '\0' && url->path[0] != '-');
        require(url->scheme == URL_FILE || strncmp(url->path, "/-", 2) != 0);
        for (const char *at = url->text; *at; at++)
                require((unsigned char)*at >= 0x20 && *at != 0x7F);
        if (!text_is_utf8(url->text, strlen(url->text), &offset))
                return;
        require(url_parse(url->text, input->arena, &again, &err) == 0);
        require(again.scheme == url->scheme && same_or_none(again.host, url->host) &&
                same_or_none(again.port, url->port) && strcmp(again.path, url->path) == 0 &&
                strcmp(again.text, url->text) == 0);
        require(url->scheme != URL_SSH || same_or_none(again.user, url->user));
}

static void url(struct input *input) {
        const char *given = text_of(input), *text = given ? given : "", *shown;
        struct url found;
        struct error err = { 0 }, same_err = { 0 };
        bool usable = git_url_check(text, &same_err) == 0;
        size_t offset;

        shown = git_display_name(text, input->arena);
        require(text_is_utf8(shown, strlen(shown), &offset));
        if (url_parse(text, input->arena, &found, &err) == 0)
                check_url(&found, input);
        else
                require(err.message[0] != '\0' && strcmp(err.message, same_err.message) == 0);
        require(usable == (err.message[0] == '\0'));
}

/* Parts: what is before the user, the user, the host and all behind it. */
static void password(struct input *input) {
        const char *before = text_of(input), *user = text_of(input), *behind = text_of(input), *text;
        struct error err = { 0 };

        /* The same letters in a host's name are no secret. */
        if ((user && strstr(user, PASSWORD)) || (behind && strstr(behind, PASSWORD)))
                return;
        /* A user with one of these characters is invalid, and the text behind it is no password. */
        if (user && strpbrk(user, "/:@[]?#"))
                return;
        if (before && strcmp(before, "https://") != 0 && strcmp(before, "ssh://") != 0 &&
            strcmp(before, "http://") != 0 && strcmp(before, "git://") != 0)
                return;
        text = arena_printf(input->arena, "%s%s:" PASSWORD "@%s", before ? before : "", user ? user : "",
                            behind ? behind : "host/a.git");
        require(!strstr(git_display_name(text, input->arena), PASSWORD));
        if (git_url_check(text, &err) < 0)
                require(!strstr(err.message, PASSWORD));
        else
                require(!before); /* else "USER" is the host: scp's form, with a path that has an @ in it */
}

static void offer(struct input *input) {
        struct ssh_offer found;
        size_t length, offset;
        char *bytes = parts_next(&input->parts, &length);

        if (ssh_offer_read((const uint8_t *)bytes, length, input->arena, &found) == 1) {
                const char *said = ssh_offer_objection(&found, input->arena);

                require(!said || (text_is_utf8(said, strlen(said), &offset) && !strpbrk(said, "\r\n\33")));
        }
        free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static void (*const readers[])(struct input *) = {
                answer, request, framed_answer, written_answer, written_request, url, password, offer
        };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct input input = { .arena = arena };

        if (size < 1)
                return 0;
        input.parts = parts_of(data + 1, size - 1);
        readers[(size_t)(data[0] - '0') % (sizeof(readers) / sizeof(readers[0]))](&input);
        return 0;
}
