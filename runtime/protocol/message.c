/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not process/frame.h's form: that one carries descriptors over a socket of this machine, which a
 * sandbox must not hand out, and these messages go over pipes and HTTP too.
 */
#include "runtime/protocol/message.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define LENGTHS 8

void message_release(struct message *message) {
        json_decref(message->head);
        message->head = NULL;
        strbuf_release(&message->body);
}

void message_reader_release(struct message_reader *reader) {
        strbuf_release(&reader->head);
        strbuf_release(&reader->body);
        *reader = (struct message_reader){ 0 };
}

bool message_reader_is_between(const struct message_reader *reader) {
        return reader->lengths_come == 0;
}

static size_t number_at(const unsigned char *bytes) {
        return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

static int read_lengths(struct message_reader *reader, struct error *err) {
        reader->head_length = number_at(reader->lengths);
        reader->body_length = number_at(reader->lengths + 4);
        if (reader->head_length > MESSAGE_HEAD_MAX || reader->body_length > MESSAGE_BODY_MAX)
                return error_set(err, "a message of %zu and %zu bytes, and %zu and %zu are the most",
                                 reader->head_length, reader->body_length, MESSAGE_HEAD_MAX,
                                 MESSAGE_BODY_MAX);
        return 0;
}

/* Our own messages are two or three levels deep. Copying or printing one walks it by recursion. */
static bool is_shallow(const json_t *json, int levels) {
        json_t *value;
        size_t index;
        const char *name;

        if (!json_is_object(json) && !json_is_array(json))
                return true;
        if (levels == 0)
                return false;
        json_array_foreach (json, index, value) {
                if (!is_shallow(value, levels - 1))
                        return false;
        }
        json_object_foreach ((json_t *)json, name, value) {
                if (!is_shallow(value, levels - 1))
                        return false;
        }
        return true;
}

static int finish_message(struct message_reader *reader, struct message *ret, struct error *err) {
        json_error_t said;
        json_t *head =
                json_loadb(strbuf_text(&reader->head), reader->head.length, JSON_REJECT_DUPLICATES, &said);

        if (!head)
                return error_set(err, "a message whose head is no JSON: %s", said.text);
        if (!json_is_object(head) || !is_shallow(head, MESSAGE_DEPTH_MAX)) {
                json_decref(head);
                return error_set(err, "a message whose head is no object, or is nested deeper than %d",
                                 MESSAGE_DEPTH_MAX);
        }
        *ret = (struct message){ .head = head, .body = reader->body };
        reader->body = (struct strbuf)STRBUF_INIT;
        message_reader_release(reader);
        return MESSAGE_WHOLE;
}

/* Appends what is still missing of `whole` bytes, as far as there is any. */
static size_t fill(struct strbuf *buffer, size_t whole, const char *bytes, size_t length) {
        size_t taken = whole - buffer->length < length ? whole - buffer->length : length;

        strbuf_append_bytes(buffer, bytes, taken);
        return taken;
}

int message_read(struct message_reader *reader, const void *bytes, size_t length, size_t *ret_used,
                 struct message *ret, struct error *err) {
        const char *next = bytes;
        size_t left = length, taken;

        while (reader->lengths_come < LENGTHS && left > 0) {
                reader->lengths[reader->lengths_come++] = (unsigned char)*next++;
                left--;
                if (reader->lengths_come == LENGTHS && read_lengths(reader, err) < 0)
                        return -1;
        }
        if (reader->lengths_come == LENGTHS) {
                taken = fill(&reader->head, reader->head_length, next, left);
                next += taken, left -= taken;
                left -= fill(&reader->body, reader->body_length, next, left);
        }
        *ret_used = length - left;
        if (reader->lengths_come < LENGTHS || reader->head.length < reader->head_length ||
            reader->body.length < reader->body_length)
                return MESSAGE_MORE;
        return finish_message(reader, ret, err);
}

static void append_number(struct strbuf *to, size_t number) {
        const unsigned char bytes[4] = { (unsigned char)(number >> 24), (unsigned char)(number >> 16),
                                         (unsigned char)(number >> 8), (unsigned char)number };

        strbuf_append_bytes(to, bytes, sizeof(bytes));
}

void message_write(struct strbuf *to, const json_t *head, const void *body, size_t length) {
        char *text = json_plain(head);
        size_t head_length = strlen(text);

        if (head_length > MESSAGE_HEAD_MAX || length > MESSAGE_BODY_MAX)
                abort();
        append_number(to, head_length);
        append_number(to, length);
        strbuf_append_bytes(to, text, head_length);
        strbuf_append_bytes(to, body, length);
        free(text);
}
