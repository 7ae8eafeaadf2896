/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event is measured before it is parsed: what it nests and how many values it has is bounded, since jansson makes forty times the
 * text of the worst. The request in it is protocol 1's, so it is read by request_read(), as a message that is put together here.
 */
#include "runtime/protocol/invocation.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8
/* A file has four, and each its place in a list. */
#define VALUES_MAX ((size_t)6 * INVOCATION_FILES_MAX)
#define BYTES_MAX ((int64_t)1 << 40)
#define FIELD_MAX 8192

static const char *const answer_names[] = {
        [INVOCATION_STREAM] = "stream", [INVOCATION_BUFFERED] = "buffered"
};
static const char *const fate_names[] = { [INVOCATION_CHANGED] = "changed",
                                          [INVOCATION_DELETED] = "deleted",
                                          [INVOCATION_GONE] = "gone",
                                          [INVOCATION_SKIPPED] = "skipped" };
static const char *const was_names[] = { [INVOCATION_NEW] = "new",
                                         [INVOCATION_KEPT] = "kept",
                                         [INVOCATION_RESET] = "reset",
                                         [INVOCATION_STALE] = "stale",
                                         [INVOCATION_CLEANED] = "cleaned" };
static const char *const refusal_names[] = {
        [INVOCATION_TAKEN] = "taken",       [INVOCATION_LATE] = "late",
        [INVOCATION_REPEATED] = "repeated", [INVOCATION_FOREIGN] = "foreign",
        [INVOCATION_UNCLEAN] = "unclean",   [INVOCATION_FAILED] = "failed"
};

static const char *const restore_names[] = { [INVOCATION_UNNAMED] = "none",
                                             [INVOCATION_UNNEEDED] = "unneeded",
                                             [INVOCATION_LOADED] = "loaded",
                                             [INVOCATION_UNUSABLE] = "unusable" };

const char *invocation_was_name(enum invocation_was was) {
        return was_names[was];
}

const char *invocation_refusal_name(enum invocation_refusal refusal) {
        return refusal_names[refusal];
}

const char *invocation_restore_name(enum invocation_restore restore) {
        return restore_names[restore];
}

void invocation_release(struct invocation *invocation) {
        json_decref(invocation->event);
        strbuf_release(&invocation->input);
        *invocation = (struct invocation)INVOCATION_INIT;
}

int64_t invocation_deadline_ms(const struct invocation *invocation) {
        return invocation->started_ms + invocation->timeout_ms + INVOCATION_LATE_MS;
}

/* --- what is checked on both sides --- */

bool invocation_is_path(const char *path) {
        const char *at = path;

        if (!*path || strlen(path) > INVOCATION_PATH_MAX)
                return false;
        for (;;) {
                size_t length = strcspn(at, "/");

                if (length == 0 || (length == 1 && at[0] == '.') ||
                    (length == 2 && at[0] == '.' && at[1] == '.'))
                        return false;
                if (!at[length])
                        return true;
                at += length + 1;
        }
}

/* The name behind http:// has to end there: "http://127.0.0.1.example.org/" is not this machine. */
static bool is_loopback(const char *authority) {
        static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };

        for (size_t i = 0; i < CONTENT_COUNT(names); i++) {
                if (text_begins_with(authority, names[i]) && strchr(":/", authority[strlen(names[i])]) &&
                    authority[strlen(names[i])])
                        return !memchr(authority, '@', strcspn(authority, "/"));
        }
        return false;
}

bool invocation_is_url(const char *url) {
        size_t length = strlen(url);

        if (length > INVOCATION_URL_MAX)
                return false;
        for (size_t i = 0; i < length; i++) {
                if (url[i] <= ' ' || url[i] > '~' || strchr("\"<>\\^`{|}", url[i]))
                        return false;
        }
        if (text_begins_with(url, "http://"))
                return is_loopback(url + strlen("http://"));
        return text_begins_with(url, "https://") && url[strlen("https://")] && url[strlen("https://")] != '/';
}

static bool is_hex(const char *text, size_t length) {
        return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

static bool is_session(const char *text) {
        size_t length = strlen(text);

        return length >= 1 && length <= INVOCATION_SESSION_MAX &&
               strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/=+-@ ") ==
                       length;
}

/* {get, bytes, sha256}; of a file of the workspace with its path. */
static bool is_object(const json_t *json, bool has_path) {
        const char *get = NULL, *sha256 = NULL, *path = NULL;
        json_int_t bytes = -1;

        if (json_unpack((json_t *)json, has_path ? "{s:s, s:I, s:s, s:s !}" : "{s:s, s:I, s:s !}", "get",
                        &get, "bytes", &bytes, "sha256", &sha256, "path", &path) != 0)
                return false;
        return invocation_is_url(get) && bytes >= 0 && bytes <= BYTES_MAX &&
               is_hex(sha256, SHA256_HEX_SIZE - 1) && (!has_path || invocation_is_path(path));
}

/* {url, prefix, fields: {NAME: text}}: a POST policy for all keys that begin so. */
static bool is_policy(const json_t *json) {
        const char *url, *prefix, *name;
        json_t *fields, *field;

        if (json_unpack((json_t *)json, "{s:s, s:s, s:o !}", "url", &url, "prefix", &prefix, "fields",
                        &fields) != 0 ||
            !invocation_is_url(url) || strlen(prefix) > INVOCATION_PATH_MAX || !json_is_object(fields) ||
            json_object_size(fields) > INVOCATION_FIELDS_MAX)
                return false;
        json_object_foreach (fields, name, field) {
                if (!json_is_string(field) || json_string_length(field) > FIELD_MAX || !*name ||
                    strlen(name) > CONTENT_NAME_MAX || strpbrk(name, "\"\r\n"))
                        return false;
        }
        return true;
}

static bool is_workspace(const json_t *json) {
        json_t *files, *more = NULL, *put, *file;
        json_int_t bytes, count;
        size_t index;

        if (json_unpack((json_t *)json, "{s:o, s?:o, s:o, s:I, s:I !}", "files", &files, "more", &more, "put",
                        &put, "maxBytes", &bytes, "maxFiles", &count) != 0 ||
            !json_is_array(files) || json_array_size(files) > INVOCATION_FILES_MAX || !is_policy(put) ||
            bytes < 0 || bytes > BYTES_MAX || count < 0 || count > BYTES_MAX ||
            (more && !is_object(more, false)))
                return false;
        json_array_foreach (files, index, file) {
                if (!is_object(file, true))
                        return false;
        }
        return true;
}

/* --- the event --- */

/*
 * The event's other members count the input of a body: the head that request_read() gets has none.
 */
static int read_body(json_t *head, const char *code, const char *input, struct invocation *invocation,
                     struct error *err) {
        json_int_t bytes, count = json_integer_or(head, "stdinBytes", -1);

        if (!is_object(invocation->body, false) || *code || input)
                return error_set(err, "invalid body, or not all of the code and the input");
        bytes = json_integer_or(invocation->body, "bytes", 0);
        if (bytes > (json_int_t)MESSAGE_BODY_MAX)
                return error_set(err, "code and standard input that are too long");
        if (json_object_get(head, "stdinBytes") && (count < 0 || count > bytes))
                return error_set(err, "a standard input that is longer than its body");
        invocation->body_input = count;
        (void)json_object_del(head, "stdinBytes");
        return 0;
}

static int read_request(json_t *head, const char *code, const char *input, size_t input_length,
                        struct invocation *invocation, struct error *err) {
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        const char *type = json_text(head, "type");

        if (!type || (strcmp(type, "execute") != 0 && strcmp(type, "prepare") != 0 &&
                      strcmp(type, "restart") != 0 && strcmp(type, "status") != 0))
                return error_set(err, "a request that an invocation cannot carry");
        if (invocation->body && read_body(head, code, input, invocation, err) < 0)
                return -1;
        if (json_object_get(head, "stdinBytes"))
                return error_set(err, "a request that counts its standard input by itself");
        if (strcmp(type, "execute") != 0 && (*code || input || invocation->body))
                return error_set(err, "code for a request that runs none");
        /* A body is what request_read() checks code in; texts that it lends are the head's, which the event keeps. */
        message.head = json_incref(head);
        strbuf_append(&message.body, code);
        if (request_read(&message, &invocation->request, err) < 0)
                return -1;
        if (input && invocation->request.code_length + input_length > MESSAGE_BODY_MAX)
                return error_set(err, "code and standard input that are too long");
        invocation->request.code = invocation->request.code ? code : NULL;
        if (input) {
                invocation->request.input = strbuf_text(&invocation->input);
                invocation->request.input_length = input_length;
        }
        if (invocation->request.type == REQUEST_EXECUTE && invocation->request.n != invocation->n)
                return error_set(err, "an execution whose number is not the event's");
        return 0;
}

static int read_checkpoint_orders(const json_t *json, struct invocation *invocation, struct error *err) {
        json_t *take = NULL;
        json_int_t bytes = INVOCATION_CHECKPOINT_BYTES, max_ms = INVOCATION_CHECKPOINT_MS;

        if (json_unpack((json_t *)json, "{s?:o, s?:s, s?:o !}", "restore", &invocation->restore, "lacks",
                        &invocation->restore_lacks, "take", &take) != 0)
                return error_set(err, "invalid checkpoint");
        if (invocation->restore && (!is_object(invocation->restore, false) || invocation->restore_lacks))
                return error_set(err, "invalid checkpoint to restore");
        if (invocation->restore_lacks && strlen(invocation->restore_lacks) > CONTENT_REASON_MAX)
                return error_set(err, "a reason for a checkpoint that is too long");
        if (take &&
            (json_unpack(take, "{s?:I, s?:I !}", "maxBytes", &bytes, "maxMs", &max_ms) != 0 || bytes < 1 ||
             bytes > REQUEST_CHECKPOINT_BYTES_MAX || max_ms < 1 || max_ms > REQUEST_TIMEOUT_MS_MAX))
                return error_set(err, "invalid checkpoint to take");
        if (take) {
                invocation->take_bytes = bytes;
                invocation->take_ms = max_ms;
        }
        return 0;
}

static int read_previous(const json_t *json, struct invocation *invocation, struct error *err) {
        json_int_t n;

        if (json_unpack((json_t *)json, "{s:I, s?:s !}", "n", &n, "boot", &invocation->previous_boot) != 0 ||
            n < 1 || n > CONTENT_GENERATION_MAX ||
            (invocation->previous_boot && !is_hex(invocation->previous_boot, INVOCATION_BOOT_SIZE - 1)))
                return error_set(err, "invalid previous execution");
        invocation->previous_n = n;
        return 0;
}

static int decode_input(const char *text, size_t length, struct strbuf *ret, struct error *err) {
        ssize_t count;

        if (!strbuf_reserve(ret, length / 4 * 3 + 1))
                return error_set(err, "a standard input that is too long");
        count = digest_from_base64(text, length, (uint8_t *)ret->data);
        if (count < 0)
                return error_set(err, "a standard input that is no base64");
        ret->length = (size_t)count;
        ret->data[count] = '\0';
        return 0;
}

static int read_members(struct invocation *invocation, struct error *err) {
        const char *answer = "stream", *code = "", *input = NULL;
        json_int_t version, n, started_ms, timeout_ms, answer_bytes = 0;
        json_t *previous = NULL, *request, *checkpoint = NULL;
        json_error_t said;
        size_t input_length = 0;
        int shared = 0, index;

        version = json_integer_or(invocation->event, "berth", 0);
        if (version != INVOCATION_VERSION)
                return error_set(err, "an event of version %lld, and this runtime reads version %d",
                                 (long long)version, INVOCATION_VERSION);
        if (json_unpack_ex(
                    invocation->event, &said, 0,
                    "{s:I, s:s, s:I, s:I, s:I, s?:s, s?:I, s?:b, s?:o, s?:o, s:o, s?:s, s?:s%, s?:o, s?:o, "
                    "s?:o, s?:o, s?:o !}",
                    "berth", &version, "session", &invocation->session, "n", &n, "startedAtMs", &started_ms,
                    "timeoutMs", &timeout_ms, "answer", &answer, "answerBytes", &answer_bytes, "shared",
                    &shared, "previous", &previous, "contexts", &invocation->contexts, "request", &request,
                    "code", &code, "stdin", &input, &input_length, "checkpoint", &checkpoint, "workspace",
                    &invocation->workspace, "transfer", &invocation->transfer, "interrupt",
                    &invocation->interrupt, "body", &invocation->body) != 0)
                return error_set(err, "invalid event: %s", said.text);
        index = content_index(answer_names, CONTENT_COUNT(answer_names), answer);
        if (index < 0 || answer_bytes < 0 || answer_bytes > INVOCATION_STREAM_BYTES_MAX)
                return error_set(err, "an answer that cannot be given");
        if (!is_session(invocation->session) || n < 1 || n > CONTENT_GENERATION_MAX)
                return error_set(err, "invalid session or number");
        if (started_ms < 1 || started_ms > BYTES_MAX * 16 || timeout_ms < 1 ||
            timeout_ms > REQUEST_TIMEOUT_MS_MAX)
                return error_set(err, "a start or a time that is out of range");
        invocation->n = n;
        invocation->started_ms = started_ms;
        invocation->timeout_ms = timeout_ms;
        invocation->answer = (enum invocation_answer)index;
        invocation->answer_bytes = answer_bytes;
        invocation->shared = shared;
        if (invocation->contexts && !request_is_contexts(invocation->contexts))
                return error_set(err, "contexts that are none");
        if (invocation->workspace && !is_workspace(invocation->workspace))
                return error_set(err, "invalid workspace");
        if (invocation->transfer && !is_policy(invocation->transfer))
                return error_set(err, "invalid policy for transfers");
        if (invocation->interrupt) {
                const char *get;

                if (json_unpack((json_t *)invocation->interrupt, "{s:s !}", "get", &get) != 0 ||
                    !invocation_is_url(get))
                        return error_set(err, "invalid address for interrupts");
        }
        if ((previous && read_previous(previous, invocation, err) < 0) ||
            (checkpoint && read_checkpoint_orders(checkpoint, invocation, err) < 0) ||
            (input && decode_input(input, input_length, &invocation->input, err) < 0))
                return -1;
        return read_request(request, code, input, invocation->input.length, invocation, err);
}

int invocation_read(const char *event, size_t length, struct invocation *ret, struct error *err) {
        struct invocation invocation INVOCATION_CLEANUP = INVOCATION_INIT;
        struct json_extent extent;
        json_error_t said;

        if (length > INVOCATION_EVENT_MAX)
                return error_set(err, "an event of %zu bytes, and %zu are the most", length,
                                 INVOCATION_EVENT_MAX);
        extent = json_measure(event, length);
        if (extent.depth > DEPTH_MAX || extent.values > VALUES_MAX)
                return error_set(err, "an event that nests too deep, or has too many values");
        invocation.event = json_loadb(event, length, JSON_REJECT_DUPLICATES, &said);
        if (!invocation.event)
                return error_set(err, "an event that is no JSON: %s", said.text);
        if (read_members(&invocation, err) < 0)
                return -1;
        *ret = invocation;
        /* Its own cleanup finds nothing. */
        invocation = (struct invocation)INVOCATION_INIT;
        return 0;
}

int invocation_take_body(struct invocation *invocation, struct strbuf *bytes, struct error *err) {
        size_t input = invocation->body_input > 0 ? (size_t)invocation->body_input : 0;
        struct request *request = &invocation->request;

        if ((json_int_t)bytes->length != json_integer_or(invocation->body, "bytes", 0))
                return error_set(err, "code and input of another length");
        if (memchr(strbuf_text(bytes), '\0', bytes->length - input))
                return error_set(err, "code with a NUL in it");
        strbuf_release(&invocation->input);
        invocation->input = *bytes;
        *bytes = (struct strbuf)STRBUF_INIT;
        request->code = strbuf_text(&invocation->input);
        request->code_length = invocation->input.length - input;
        if (invocation->body_input >= 0) {
                request->input = request->code + request->code_length;
                request->input_length = input;
        }
        return 0;
}

static void put_copy(json_t *object, const char *name, const json_t *value) {
        if (value)
                json_put(object, name, json_deep_copy(value));
}

static json_t *request_head(const struct invocation *invocation) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        struct request request = invocation->request;
        struct error err;
        size_t used;

        /* Its texts stand in the event. */
        request.code_length = 0;
        request.input = NULL;
        request_write(&request, &bytes);
        if (message_read(&reader, strbuf_text(&bytes), bytes.length, &used, &message, &err) != MESSAGE_WHOLE)
                abort();
        if (invocation->body && invocation->body_input >= 0)
                json_put(message.head, "stdinBytes", json_integer(invocation->body_input));
        return json_incref(message.head);
}

static void put_input(json_t *event, const struct request *request) {
        char *text;

        if (!request->input)
                return;
        text = malloc(4 * ((request->input_length + 2) / 3) + 1);
        if (!text)
                abort();
        digest_base64((const uint8_t *)request->input, request->input_length, text);
        json_put(event, "stdin", json_string(text));
        free(text);
}

static void put_checkpoint(json_t *event, const struct invocation *invocation) {
        json_t *checkpoint;

        if (!invocation->restore && !invocation->restore_lacks && invocation->take_bytes == 0)
                return;
        checkpoint = json_checked(json_object());
        put_copy(checkpoint, "restore", invocation->restore);
        if (invocation->restore_lacks)
                json_put(checkpoint, "lacks", json_string(invocation->restore_lacks));
        if (invocation->take_bytes > 0)
                json_put(checkpoint, "take",
                         json_pack("{s:I, s:I}", "maxBytes", (json_int_t)invocation->take_bytes, "maxMs",
                                   (json_int_t)invocation->take_ms));
        json_put(event, "checkpoint", checkpoint);
}

int invocation_write(const struct invocation *invocation, struct strbuf *to, struct error *err) {
        json_t *event JSON_CLEANUP = json_checked(json_pack(
                "{s:i, s:s, s:I, s:I, s:I, s:s}", "berth", INVOCATION_VERSION, "session", invocation->session,
                "n", (json_int_t)invocation->n, "startedAtMs", (json_int_t)invocation->started_ms,
                "timeoutMs", (json_int_t)invocation->timeout_ms, "answer", answer_names[invocation->answer]));
        char *text TEXT_CLEANUP = NULL;

        if (invocation->answer_bytes > 0)
                json_put(event, "answerBytes", json_integer(invocation->answer_bytes));
        if (invocation->shared)
                json_put(event, "shared", json_true());
        if (invocation->previous_n > 0) {
                json_t *previous = json_checked(json_pack("{s:I}", "n", (json_int_t)invocation->previous_n));

                if (invocation->previous_boot)
                        json_put(previous, "boot", json_string(invocation->previous_boot));
                json_put(event, "previous", previous);
        }
        put_copy(event, "contexts", invocation->contexts);
        json_put(event, "request", request_head(invocation));
        put_copy(event, "body", invocation->body);
        if (!invocation->body && invocation->request.code_length > 0) {
                json_t *code = json_stringn(invocation->request.code, invocation->request.code_length);

                if (!code)
                        return error_set(err, "the code is not UTF-8: on Lambda it has to be");
                json_put(event, "code", code);
        }
        if (!invocation->body)
                put_input(event, &invocation->request);
        put_checkpoint(event, invocation);
        put_copy(event, "workspace", invocation->workspace);
        put_copy(event, "transfer", invocation->transfer);
        put_copy(event, "interrupt", invocation->interrupt);
        text = json_dumps(event, JSON_COMPACT);
        if (!text)
                abort();
        if (strlen(text) > INVOCATION_EVENT_MAX)
                return error_set(err, "code and input are %zu bytes as an event, and Lambda takes %zu",
                                 strlen(text), INVOCATION_EVENT_MAX);
        strbuf_append(to, text);
        return 0;
}

/* --- the answer --- */

enum invocation_said invocation_said(const struct message *message) {
        const char *type = json_text(message->head, "type");

        return type && strcmp(type, "file") == 0  ? INVOCATION_FILE
               : type && strcmp(type, "end") == 0 ? INVOCATION_END
                                                  : INVOCATION_REPORT;
}

json_t *invocation_text(const char *text, size_t most) {
        size_t length = text ? strlen(text) : 0;
        struct strbuf plain STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json;

        if (!text)
                return json_checked(json_null());
        if (length > most) {
                for (length = most; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80; length--)
                        ;
        }
        json = json_stringn(text, length);
        if (json)
                return json;
        for (size_t i = 0; i < length; i++)
                strbuf_append_char(&plain, (unsigned char)text[i] < 0x80 ? text[i] : '?');
        return json_checked(json_string(strbuf_text(&plain)));
}

/* Takes a text or null; false where it is neither, or too long. */
static bool take_text(const json_t *json, size_t most, const char **ret) {
        *ret = json_string_value(json);
        return json_is_null(json) || (*ret && json_string_length(json) <= most);
}

int invocation_file_read(const struct message *message, struct invocation_file *ret, struct error *err) {
        const char *type, *fate;
        struct invocation_file file = { 0 };
        json_t *sha256, *reason;
        json_error_t said;
        json_int_t bytes;
        int index;

        if (json_unpack_ex(message->head, &said, 0, "{s:s, s:s, s:s, s:I, s:o, s:o !}", "type", &type, "fate",
                           &fate, "path", &file.path, "bytes", &bytes, "sha256", &sha256, "reason",
                           &reason) != 0)
                return error_set(err, "invalid file: %s", said.text);
        index = content_index(fate_names, CONTENT_COUNT(fate_names), fate);
        if (index < 0 || strcmp(type, "file") != 0 || message->body.length > 0)
                return error_set(err, "a file of no known fate");
        file.fate = (enum invocation_file_fate)index;
        if (!take_text(sha256, SHA256_HEX_SIZE - 1, &file.sha256) ||
            (file.sha256 && !is_hex(file.sha256, SHA256_HEX_SIZE - 1)) ||
            (file.sha256 != NULL) != (file.fate == INVOCATION_CHANGED) || bytes < 0 || bytes > BYTES_MAX ||
            !take_text(reason, CONTENT_REASON_MAX, &file.reason))
                return error_set(err, "invalid size, digest or reason of a file");
        if (file.fate == INVOCATION_SKIPPED ? strlen(file.path) > 4 * INVOCATION_PATH_MAX
                                            : !invocation_is_path(file.path))
                return error_set(err, "invalid path of a file");
        file.bytes = (uint64_t)bytes;
        *ret = file;
        return 0;
}

void invocation_file_write(const struct invocation_file *file, struct strbuf *to) {
        json_t *head JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:s, s:I}", "type", "file", "fate", fate_names[file->fate],
                                       "bytes", (json_int_t)file->bytes));

        json_put(head, "path", invocation_text(file->path, 4 * (size_t)INVOCATION_PATH_MAX));
        json_put(head, "sha256", invocation_text(file->sha256, SHA256_HEX_SIZE - 1));
        json_put(head, "reason", invocation_text(file->reason, CONTENT_REASON_MAX));
        message_write(to, head, "", 0);
}

/* [{context, generation, kept, lost, reason}] */
static bool is_outcomes(const json_t *list) {
        const json_t *item;
        size_t index;

        if (!json_is_array(list) || json_array_size(list) > REPORT_CONTEXTS_MAX)
                return false;
        json_array_foreach (list, index, item) {
                json_int_t generation, kept, lost;
                const char *context, *reason;
                json_t *why;

                if (json_unpack((json_t *)item, "{s:s, s:I, s:I, s:I, s:o !}", "context", &context,
                                "generation", &generation, "kept", &kept, "lost", &lost, "reason",
                                &why) != 0 ||
                    !content_is_context(context) || generation < 0 || generation > CONTENT_GENERATION_MAX ||
                    kept < 0 || lost < 0 || !take_text(why, CONTENT_REASON_MAX, &reason))
                        return false;
        }
        return true;
}

static int read_end_checkpoint(const json_t *json, struct invocation_end *end, struct error *err) {
        json_t *sha256, *contexts, *reason;
        json_int_t bytes, ms;

        if (json_unpack((json_t *)json, "{s:I, s:I, s:o, s:o, s:o !}", "bytes", &bytes, "ms", &ms, "sha256",
                        &sha256, "contexts", &contexts, "reason", &reason) != 0 ||
            bytes < 0 || bytes > 2 * REQUEST_CHECKPOINT_BYTES_MAX || ms < 0 ||
            !take_text(sha256, SHA256_HEX_SIZE - 1, &end->checkpoint_sha256) ||
            (end->checkpoint_sha256 && !is_hex(end->checkpoint_sha256, SHA256_HEX_SIZE - 1)) ||
            (end->checkpoint_sha256 != NULL) != (bytes > 0) ||
            (!json_is_null(contexts) && !is_outcomes(contexts)) ||
            !take_text(reason, CONTENT_REASON_MAX, &end->checkpoint_reason))
                return error_set(err, "invalid checkpoint at the end");
        end->checkpoint_bytes = bytes;
        end->checkpoint_ms = ms;
        end->checkpoint_contexts = json_is_null(contexts) ? NULL : contexts;
        return 0;
}

static int read_end_restore(const json_t *json, struct invocation_end *end, struct error *err) {
        json_t *reason;
        const char *did;
        json_int_t ms;
        int index = -1;

        if (json_unpack((json_t *)json, "{s:s, s:I, s:o !}", "did", &did, "ms", &ms, "reason", &reason) == 0)
                index = content_index(restore_names, CONTENT_COUNT(restore_names), did);
        if (index < 0 || ms < 0 || ms > BYTES_MAX ||
            !take_text(reason, CONTENT_REASON_MAX, &end->restore_reason) ||
            (end->restore_reason != NULL) != (index == INVOCATION_UNUSABLE))
                return error_set(err, "invalid restored checkpoint at the end");
        end->restore = (enum invocation_restore)index;
        end->restore_ms = ms;
        return 0;
}

int invocation_end_read(const struct message *message, struct invocation_end *ret, struct error *err) {
        const char *type, *boot, *was, *refusal;
        struct invocation_end end = { 0 };
        json_t *reason, *checkpoint, *restore, *files_reason;
        json_int_t n, counts[11];
        int was_index, refusal_index, complete, left;
        json_error_t said;

        if (json_unpack_ex(message->head, &said, 0,
                           "{s:s, s:I, s:s, s:I, s:I, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o, "
                           "s:{s:b, s:o, s:I, s:I, s:I, s:I !}, s:b !}",
                           "type", &type, "n", &n, "boot", &boot, "starts", &counts[0], "served", &counts[1],
                           "was", &was, "refused", &refusal, "reason", &reason, "idleMs", &counts[2],
                           "frozenMs", &counts[3], "cutBytes", &counts[4], "cpuMs", &counts[5],
                           "peakMemoryBytes", &counts[6], "checkpoint", &checkpoint, "restore", &restore,
                           "files", "complete", &complete, "reason", &files_reason, "inMs", &counts[7],
                           "outMs", &counts[8], "leftOut", &counts[9], "skippedLeftOut", &counts[10],
                           "leftResult", &left) != 0)
                return error_set(err, "invalid end of an answer: %s", said.text);
        was_index = content_index(was_names, CONTENT_COUNT(was_names), was);
        refusal_index = content_index(refusal_names, CONTENT_COUNT(refusal_names), refusal);
        if (strcmp(type, "end") != 0 || message->body.length > 0 || was_index < 0 || refusal_index < 0 ||
            !is_hex(boot, INVOCATION_BOOT_SIZE - 1) || n < 0 || n > CONTENT_GENERATION_MAX)
                return error_set(err, "an end of an answer with a word that is not known");
        for (size_t i = 0; i < CONTENT_COUNT(counts); i++) {
                if (counts[i] < (i < 2 ? 1 : 0) || counts[i] > BYTES_MAX)
                        return error_set(err, "an end of an answer with a number out of range");
        }
        if (!take_text(reason, CONTENT_REASON_MAX, &end.reason) ||
            !take_text(files_reason, CONTENT_REASON_MAX, &end.files_reason))
                return error_set(err, "invalid reason at the end of an answer");
        if (read_end_checkpoint(checkpoint, &end, err) < 0 || read_end_restore(restore, &end, err) < 0)
                return -1;
        end.n = n;
        memcpy(end.boot, boot, INVOCATION_BOOT_SIZE);
        end.starts = counts[0];
        end.served = counts[1];
        end.was = (enum invocation_was)was_index;
        end.refusal = (enum invocation_refusal)refusal_index;
        end.idle_ms = counts[2];
        end.frozen_ms = counts[3];
        end.cut_bytes = counts[4];
        end.cpu_ms = counts[5];
        end.peak_memory_bytes = counts[6];
        end.files_in_ms = counts[7];
        end.files_out_ms = counts[8];
        end.files_left_out = counts[9];
        end.skipped_left_out = counts[10];
        end.files_complete = complete;
        end.left_result = left;
        *ret = end;
        return 0;
}

void invocation_end_write(const struct invocation_end *end, struct strbuf *to) {
        json_t *head JSON_CLEANUP = json_checked(json_pack(
                "{s:s, s:I, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "type", "end", "n",
                (json_int_t)end->n, "boot", end->boot, "starts", (json_int_t)end->starts, "served",
                (json_int_t)end->served, "was", was_names[end->was], "refused", refusal_names[end->refusal],
                "idleMs", (json_int_t)end->idle_ms, "frozenMs", (json_int_t)end->frozen_ms, "cutBytes",
                (json_int_t)end->cut_bytes, "cpuMs", (json_int_t)end->cpu_ms, "peakMemoryBytes",
                (json_int_t)end->peak_memory_bytes, "leftResult", (int)end->left_result));
        json_t *checkpoint = json_checked(json_pack("{s:I, s:I}", "bytes", (json_int_t)end->checkpoint_bytes,
                                                    "ms", (json_int_t)end->checkpoint_ms));
        json_t *restore = json_checked(json_pack("{s:s, s:I}", "did", restore_names[end->restore], "ms",
                                                 (json_int_t)end->restore_ms));
        json_t *files = json_checked(json_pack(
                "{s:b, s:I, s:I, s:I, s:I}", "complete", (int)end->files_complete, "inMs",
                (json_int_t)end->files_in_ms, "outMs", (json_int_t)end->files_out_ms, "leftOut",
                (json_int_t)end->files_left_out, "skippedLeftOut", (json_int_t)end->skipped_left_out));

        json_put(checkpoint, "sha256", invocation_text(end->checkpoint_sha256, SHA256_HEX_SIZE - 1));
        json_put(checkpoint, "contexts",
                 end->checkpoint_contexts ? json_deep_copy(end->checkpoint_contexts) : json_null());
        json_put(checkpoint, "reason", invocation_text(end->checkpoint_reason, CONTENT_REASON_MAX));
        json_put(restore, "reason", invocation_text(end->restore_reason, CONTENT_REASON_MAX));
        json_put(files, "reason", invocation_text(end->files_reason, CONTENT_REASON_MAX));
        json_put(head, "reason", invocation_text(end->reason, CONTENT_REASON_MAX));
        json_put(head, "checkpoint", checkpoint);
        json_put(head, "restore", restore);
        json_put(head, "files", files);
        message_write(to, head, "", 0);
}
