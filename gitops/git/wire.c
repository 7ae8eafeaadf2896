/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: a length in digits, a line end, and that many bytes of JSON. The request is one frame;
 * the answer is phases ("+N" lines) while the worker works, then one frame, then the bytes of the
 * files that it lists.
 *
 * The answer is not trusted. Every name is checked again as a path, every length against the limits and against the
 * bytes that came; files must be sorted and unique; nothing may be left over.
 */
#include "gitops/git/wire.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define JSON_MAX ((size_t)64 * 1024 * 1024)

const struct git_limits git_limits_default = {
        .entries = 50000,
        .blob_bytes = (size_t)16 * 1024 * 1024,
        .total_bytes = (size_t)64 * 1024 * 1024,
        .depth = 32,
        .pack_bytes = (size_t)2 * 1024 * 1024 * 1024,
        .timeout_ms = 120000,
};

struct git_limits wire_limits(const struct git_limits *limits) {
        const struct git_limits *other = &git_limits_default;

        return (struct git_limits){
                .entries = limits->entries ? limits->entries : other->entries,
                .blob_bytes = limits->blob_bytes ? limits->blob_bytes : other->blob_bytes,
                .total_bytes = limits->total_bytes ? limits->total_bytes : other->total_bytes,
                .depth = limits->depth ? limits->depth : other->depth,
                .pack_bytes = limits->pack_bytes ? limits->pack_bytes : other->pack_bytes,
                .timeout_ms = limits->timeout_ms > 0 ? limits->timeout_ms : other->timeout_ms,
        };
}

bool wire_is_id(const char *text) {
        return strlen(text) == 40 && strspn(text, "0123456789abcdef") == 40;
}

static void append_frame(struct strbuf *to, const json_t *json) {
        char *text = json_compact(json);

        strbuf_printf(to, "%zu\n%s", strlen(text), text);
        free(text);
}

static json_t *credentials_json(const struct git_credentials *credentials) {
        json_t *object = json_object();

        json_set_text(object, "usernameFile", credentials->username_file);
        json_set_text(object, "passwordFile", credentials->password_file);
        json_set_text(object, "sshKeyFile", credentials->ssh_key_file);
        json_set_text(object, "knownHostsFile", credentials->known_hosts_file);
        json_set_text(object, "caFile", credentials->ca_file);
        return object;
}

static json_t *limits_json(const struct git_limits *limits) {
        struct git_limits all = wire_limits(limits);
        json_t *object = json_object();

        json_put(object, "entries", json_integer((json_int_t)all.entries));
        json_put(object, "blobBytes", json_integer((json_int_t)all.blob_bytes));
        json_put(object, "totalBytes", json_integer((json_int_t)all.total_bytes));
        json_put(object, "depth", json_integer((json_int_t)all.depth));
        json_put(object, "packBytes", json_integer((json_int_t)all.pack_bytes));
        json_put(object, "timeoutMs", json_integer((json_int_t)all.timeout_ms));
        return object;
}

void wire_write_request(const struct git_request *request, struct strbuf *ret) {
        json_t *object JSON_CLEANUP = json_object();

        json_set_text(object, "url", request->url);
        json_set_text(object, "branch", request->branch);
        json_set_text(object, "tag", request->tag);
        json_set_text(object, "proxy", request->proxy);
        json_set_text(object, "path", request->path);
        json_put(object, "pattern", json_boolean(request->pattern));
        json_put(object, "credentials", credentials_json(&request->credentials));
        json_put(object, "gpgKeys", json_from_texts(request->gpg_keys, request->gpg_key_count));
        json_set_text(object, "sshAllowedSigners", request->ssh_allowed_signers);
        json_put(object, "fastForwardOnly", json_boolean(request->fast_forward_only));
        json_set_text(object, "acceptedRewrite", request->accepted_rewrite);
        json_set_text(object, "folder", request->folder);
        json_set_text(object, "have", request->have);
        json_set_text(object, "haveRef", request->have_ref);
        json_put(object, "readAnyway", json_boolean(request->read_anyway));
        json_set_text(object, "commit", request->commit);
        json_put(object, "limits", limits_json(&request->limits));
        append_frame(ret, object);
}

/* Takes one frame off the front. NULL if there is no whole one. */
static json_t *take_frame(const char **at, const char *end) {
        const char *line = memchr(*at, '\n', (size_t)(end - *at));
        size_t length = 0;
        json_t *json;

        if (!line || line == *at)
                return NULL;
        for (const char *digit = *at; digit < line; digit++) {
                if (*digit < '0' || *digit > '9' || length > JSON_MAX)
                        return NULL;
                length = length * 10 + (size_t)(*digit - '0');
        }
        line++;
        if (length > JSON_MAX || length > (size_t)(end - line))
                return NULL;
        json = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(json)) {
                json_decref(json);
                return NULL;
        }
        *at = line + length;
        return json;
}

static const char *copy_member(const json_t *object, const char *name, struct arena *arena) {
        return arena_strdup(arena, json_text(object, name));
}

static size_t size_or(const json_t *object, const char *name, size_t otherwise) {
        json_int_t found = json_integer_or(object, name, 0);

        return found > 0 ? (size_t)found : otherwise;
}

static struct git_limits read_limits(const json_t *object) {
        return (struct git_limits){
                .entries = size_or(object, "entries", 0),
                .blob_bytes = size_or(object, "blobBytes", 0),
                .total_bytes = size_or(object, "totalBytes", 0),
                .depth = size_or(object, "depth", 0),
                .pack_bytes = size_or(object, "packBytes", 0),
                .timeout_ms = json_integer_or(object, "timeoutMs", 0),
        };
}

static const char **read_texts(const json_t *array, struct arena *arena, size_t *ret_count) {
        const char **items = arena_array(arena, json_array_size(array), sizeof(*items));
        const json_t *item;
        size_t i;

        *ret_count = 0;
        json_array_foreach (array, i, item) {
                if (json_is_string(item))
                        items[(*ret_count)++] = arena_strdup(arena, json_string_value(item));
        }
        return items;
}

int wire_read_request(const char *data, size_t length, struct arena *arena, struct git_request *ret,
                      struct error *err) {
        const char *at = data;
        json_t *object JSON_CLEANUP = take_frame(&at, data + length);
        const json_t *credentials = json_object_get(object, "credentials");
        struct git_limits limits;

        if (!object)
                return error_set(err, "git-worker is Berth's own, and expects a request on standard input");
        limits = read_limits(json_object_get(object, "limits"));
        *ret = (struct git_request){
                .url = copy_member(object, "url", arena),
                .branch = copy_member(object, "branch", arena),
                .tag = copy_member(object, "tag", arena),
                .proxy = copy_member(object, "proxy", arena),
                .path = copy_member(object, "path", arena),
                .pattern = json_is_true(json_object_get(object, "pattern")),
                .credentials = {
                        .username_file = copy_member(credentials, "usernameFile", arena),
                        .password_file = copy_member(credentials, "passwordFile", arena),
                        .ssh_key_file = copy_member(credentials, "sshKeyFile", arena),
                        .known_hosts_file = copy_member(credentials, "knownHostsFile", arena),
                        .ca_file = copy_member(credentials, "caFile", arena),
                },
                .ssh_allowed_signers = copy_member(object, "sshAllowedSigners", arena),
                .fast_forward_only = !json_is_false(json_object_get(object, "fastForwardOnly")),
                .accepted_rewrite = copy_member(object, "acceptedRewrite", arena),
                .folder = copy_member(object, "folder", arena),
                .have = copy_member(object, "have", arena),
                .have_ref = copy_member(object, "haveRef", arena),
                .read_anyway = json_is_true(json_object_get(object, "readAnyway")),
                .commit = copy_member(object, "commit", arena),
                .limits = wire_limits(&limits),
        };
        ret->gpg_keys = read_texts(json_object_get(object, "gpgKeys"), arena, &ret->gpg_key_count);
        return ret->url && ret->folder ? 0 : error_set(err, "the request names no repository, or no folder");
}

void wire_write_answer(const struct wire_answer *answer, struct strbuf *ret) {
        const struct git_answer *found = &answer->answer;
        json_t *object JSON_CLEANUP = json_object(), *files = json_array();

        json_put(object, "ok", json_boolean(!answer->failed));
        if (answer->failed) {
                json_put(object, "failure", json_integer((json_int_t)answer->failure));
                json_set_text(object, "message", answer->message);
        }
        json_put(object, "moved", json_boolean(found->moved));
        json_put(object, "fetched", json_boolean(found->fetched));
        json_set_text(object, "commit", found->commit);
        json_set_text(object, "ref", found->ref);
        json_set_text(object, "subject", found->subject);
        json_set_text(object, "author", found->author);
        json_put(object, "committedMs", json_integer((json_int_t)found->committed_ms));
        json_set_text(object, "signer", found->signer);
        json_put(object, "bytesReceived", json_integer((json_int_t)found->bytes_received));
        json_put(object, "warnings", json_from_texts(found->warnings, found->warning_count));
        for (size_t i = 0; i < answer->file_count; i++) {
                json_t *file = json_object();

                json_set_text(file, "path", answer->files[i].path);
                json_put(file, "length", json_integer((json_int_t)answer->files[i].length));
                if (json_array_append_new(files, file) < 0)
                        abort();
        }
        json_put(object, "files", files);
        append_frame(ret, object);
        for (size_t i = 0; i < answer->file_count; i++)
                strbuf_append_bytes(ret, answer->files[i].bytes, answer->files[i].length);
}

static const char *take_phases(const char *data, const char *end, enum git_phase *ret_phase) {
        while (end - data >= 3 && data[0] == '+' && data[2] == '\n') {
                if (data[1] >= '0' && data[1] < '0' + PHASE_COUNT)
                        *ret_phase = (enum git_phase)(data[1] - '0');
                data += 3;
        }
        return data;
}

/* Cut out of the bytes that follow the header. */
static int cut_file(const json_t *item, const struct git_limits *limits, struct arena *arena,
                    const char *prefix, const char **at, const char *end, struct git_file *ret) {
        const char *path = json_text(item, "path");
        json_int_t length = json_integer_or(item, "length", -1);

        if (!path || git_path_objection(path) || length < 0 || (size_t)length > limits->blob_bytes ||
            (size_t)length > (size_t)(end - *at))
                return -1;
        ret->name = arena_printf(arena, "%s%s", prefix, path);
        ret->path = ret->name + strlen(prefix);
        ret->bytes = arena_strndup(arena, *at, (size_t)length);
        ret->length = (size_t)length;
        *at += length;
        return 0;
}

static int cut_files(const json_t *array, const struct git_request *request, struct arena *arena,
                     const char *at, const char *end, struct git_answer *answer) {
        struct git_limits limits = wire_limits(&request->limits);
        const char *prefix =
                arena_printf(arena, "%s@%.12s:", git_display_name(request->url, arena), answer->commit);
        size_t count = json_array_size(array), total = 0;

        if (count > limits.entries)
                return -1;
        answer->files = arena_array(arena, count, sizeof(*answer->files));
        for (size_t i = 0; i < count; i++) {
                struct git_file *file = &answer->files[i];

                if (cut_file(json_array_get(array, i), &limits, arena, prefix, &at, end, file) < 0)
                        return -1;
                total += file->length;
                if (total > limits.total_bytes || (i > 0 && strcmp(file[-1].name, file->name) >= 0))
                        return -1;
        }
        answer->file_count = count;
        return at == end ? 0 : -1;
}

static void read_found(const json_t *object, struct arena *arena, struct git_answer *ret) {
        const char *commit = json_text(object, "commit");

        *ret = (struct git_answer){
                .moved = json_is_true(json_object_get(object, "moved")),
                .fetched = json_is_true(json_object_get(object, "fetched")),
                .commit = commit && wire_is_id(commit) ? arena_strdup(arena, commit) : NULL,
                .ref = copy_member(object, "ref", arena),
                .subject = copy_member(object, "subject", arena),
                .author = copy_member(object, "author", arena),
                .committed_ms = json_integer_or(object, "committedMs", 0),
                .signer = copy_member(object, "signer", arena),
                .bytes_received = (uint64_t)json_integer_or(object, "bytesReceived", 0),
        };
        ret->warnings = read_texts(json_object_get(object, "warnings"), arena, &ret->warning_count);
}

int wire_read_answer(const char *data, size_t length, const struct git_request *request, struct arena *arena,
                     struct wire_answer *ret, enum git_phase *ret_phase, struct error *err) {
        const char *end = data + length, *at = take_phases(data, end, ret_phase);
        json_t *object JSON_CLEANUP = take_frame(&at, end);
        struct wire_answer answer = { 0 };
        json_int_t failure;

        if (!object)
                return error_set(err, "git-worker gave no whole answer");
        read_found(object, arena, &answer.answer);
        answer.failed = !json_is_true(json_object_get(object, "ok"));
        failure = json_integer_or(object, "failure", GIT_LOCAL);
        answer.failure = failure >= 0 && failure <= GIT_LOCAL ? (enum git_failure)failure : GIT_LOCAL;
        answer.message = copy_member(object, "message", arena);
        if (answer.failed && !answer.message)
                answer.message = "git-worker failed, and does not say why";
        if (!answer.failed &&
            (!answer.answer.commit || (!answer.answer.ref && !request->commit) ||
             cut_files(json_object_get(object, "files"), request, arena, at, end, &answer.answer) < 0))
                return error_set(err, "git-worker gave an answer that cannot be right");
        *ret = answer;
        return 0;
}
