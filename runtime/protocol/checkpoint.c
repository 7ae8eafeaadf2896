/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/protocol/checkpoint.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

static const char *const type_names[] = { [CHECKPOINT_CONTEXT] = "context",
                                          [CHECKPOINT_DATA] = "data",
                                          [CHECKPOINT_END] = "end",
                                          [CHECKPOINT_OVER] = "over" };

/* --- one part --- */

static int read_reason(const json_t *reason, struct checkpoint_part *part) {
        if (!json_is_null(reason) && !json_is_string(reason))
                return -1;
        part->reason = json_string_value(reason);
        return part->reason && json_string_length(reason) > CONTENT_REASON_MAX ? -1 : 0;
}

static int read_context(json_t *head, struct checkpoint_part *part, struct error *err) {
        json_int_t generation, flags, kept, lost_count;
        json_t *python = NULL, *lost = NULL, *reason = NULL;
        const char *type;
        json_error_t said;

        if (json_unpack_ex(head, &said, 0, "{s:s, s:s, s:I, s:o, s:I, s:I, s:o, s:I, s:o !}", "type", &type,
                           "context", &part->context, "generation", &generation, "python", &python, "flags",
                           &flags, "kept", &kept, "lost", &lost, "lostCount", &lost_count, "reason",
                           &reason) != 0)
                return error_set(err, "invalid context of a checkpoint: %s", said.text);
        if (!content_is_context(part->context) || generation < 1 || generation > CONTENT_GENERATION_MAX ||
            flags < 0 || flags > UINT32_MAX || kept < 0 || !content_is_lost(lost) ||
            lost_count < (json_int_t)json_array_size(lost) || read_reason(reason, part) < 0)
                return error_set(err, "a checkpoint's context that is out of its bounds");
        if (!json_is_null(python) && (!json_is_string(python) || json_string_length(python) > 32))
                return error_set(err, "invalid version of Python in a checkpoint");
        part->python = json_string_value(python);
        if ((part->python != NULL) == (part->reason != NULL) || (!part->python && kept > 0))
                return error_set(err, "a checkpoint's context that is kept and lost, or neither");
        part->generation = generation;
        part->flags = flags;
        part->kept = kept;
        part->lost = lost;
        part->lost_count = lost_count;
        return 0;
}

static int read_end(json_t *head, struct checkpoint_part *part, struct error *err) {
        json_int_t total, checksum;
        json_t *reason = NULL;
        const char *type;
        json_error_t said;

        if (json_unpack_ex(head, &said, 0, "{s:s, s:I, s:I, s:o !}", "type", &type, "bytes", &total, "crc32",
                           &checksum, "reason", &reason) != 0)
                return error_set(err, "invalid end of a checkpoint's context: %s", said.text);
        if (total < 0 || checksum < 0 || checksum > UINT32_MAX || read_reason(reason, part) < 0)
                return error_set(err, "the end of a checkpoint's context that is out of its bounds");
        part->total = total;
        part->checksum = checksum;
        return 0;
}

int checkpoint_part_read(const struct message *message, struct checkpoint_part *ret, struct error *err) {
        struct checkpoint_part part = { 0 };
        int index = content_index(type_names, CONTENT_COUNT(type_names), json_text(message->head, "type"));

        if (index < 0)
                return error_set(err, "a part of a checkpoint of no known type");
        part.type = (enum checkpoint_part_type)index;
        if ((part.type == CHECKPOINT_DATA) != (message->body.length > 0) ||
            message->body.length > CHECKPOINT_DATA_MAX)
                return error_set(err, "a part of a checkpoint with too many bytes, or too few");
        if (part.type == CHECKPOINT_CONTEXT && read_context(message->head, &part, err) < 0)
                return -1;
        if (part.type == CHECKPOINT_END && read_end(message->head, &part, err) < 0)
                return -1;
        if ((part.type == CHECKPOINT_DATA || part.type == CHECKPOINT_OVER) &&
            json_object_size(message->head) != 1)
                return error_set(err, "a part of a checkpoint with unknown members");
        part.bytes = message->body.data;
        part.length = message->body.length;
        *ret = part;
        return 0;
}

static json_t *text_or_null(const char *text) {
        return json_checked(text ? json_string(text) : json_null());
}

void checkpoint_part_write(const struct checkpoint_part *part, struct strbuf *to) {
        json_t *head = json_checked(json_pack("{s:s}", "type", type_names[part->type]));

        if (part->type == CHECKPOINT_CONTEXT) {
                json_put(head, "context", json_string(part->context));
                json_put(head, "generation", json_integer(part->generation));
                json_put(head, "python", text_or_null(part->python));
                json_put(head, "flags", json_integer(part->flags));
                json_put(head, "kept", json_integer(part->kept));
                json_put(head, "lost", part->lost ? json_deep_copy(part->lost) : json_array());
                json_put(head, "lostCount", json_integer(part->lost_count));
        }
        if (part->type == CHECKPOINT_END) {
                json_put(head, "bytes", json_integer(part->total));
                json_put(head, "crc32", json_integer(part->checksum));
        }
        if (part->type == CHECKPOINT_CONTEXT || part->type == CHECKPOINT_END)
                json_put(head, "reason", text_or_null(part->reason));
        message_write(to, head, part->bytes, part->length);
        json_decref(head);
}

/* --- the file --- */

void checkpoint_reader_release(struct checkpoint_reader *reader) {
        message_reader_release(&reader->messages);
        *reader = (struct checkpoint_reader){ 0 };
}

bool checkpoint_reader_is_over(const struct checkpoint_reader *reader) {
        return reader->over && message_reader_is_between(&reader->messages);
}

/* Whether the part may come now. */
static int check_order(struct checkpoint_reader *reader, const struct checkpoint_part *part,
                       struct error *err) {
        if (reader->over)
                return error_set(err, "a checkpoint that goes on behind its end");
        if (reader->in_context != (part->type == CHECKPOINT_DATA || part->type == CHECKPOINT_END))
                return error_set(err, "a checkpoint whose parts are in no order");
        if (part->type == CHECKPOINT_DATA)
                reader->total += (int64_t)part->length;
        if (part->type == CHECKPOINT_END && part->total != reader->total)
                return error_set(err, "a checkpoint's context with %lld bytes that says %lld",
                                 (long long)reader->total, (long long)part->total);
        if (part->type == CHECKPOINT_CONTEXT) {
                for (size_t i = 0; i < reader->context_count; i++) {
                        if (strcmp(reader->contexts[i], part->context) == 0)
                                return error_set(err, "a checkpoint with one context twice");
                }
                if (reader->context_count == CHECKPOINT_CONTEXTS_MAX)
                        return error_set(err, "a checkpoint of more than %d contexts",
                                         CHECKPOINT_CONTEXTS_MAX);
                snprintf(reader->contexts[reader->context_count++], sizeof(reader->contexts[0]), "%s",
                         part->context);
                reader->in_context = part->python != NULL;
                reader->total = 0;
        } else if (part->type == CHECKPOINT_END)
                reader->in_context = false;
        else
                reader->over = part->type == CHECKPOINT_OVER;
        return 0;
}

int checkpoint_read(struct checkpoint_reader *reader, const void *bytes, size_t length, size_t *ret_used,
                    struct message *ret_message, struct checkpoint_part *ret, struct error *err) {
        static const char line[] = CHECKPOINT_LINE;
        const char *next = bytes;
        size_t at = 0, used = 0;
        int answer;

        while (reader->line_come < sizeof(line) - 1 && at < length) {
                if (next[at++] != line[reader->line_come++])
                        return error_set(err, "this is no checkpoint, or one of another version of Berth");
        }
        answer = message_read(&reader->messages, next + at, length - at, &used, ret_message, err);
        if (answer < 0)
                return error_context(err, "a checkpoint that cannot be read");
        *ret_used = at + used;
        if (answer == MESSAGE_MORE)
                return MESSAGE_MORE;
        if (checkpoint_part_read(ret_message, ret, err) < 0 || check_order(reader, ret, err) < 0) {
                message_release(ret_message);
                return -1;
        }
        return MESSAGE_WHOLE;
}
