/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes are collected until a message is whole. How long it is says the prelude, which has a checksum of its own: only then is room made
 * for it, and never more than what has come needs.
 */
#include "providers/aws/client/event_stream.h"

#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

#define PRELUDE 12U
#define CHECKSUM 4U

/* Of headers that name the message and have a text that is no longer; what there is of others is not looked at. */
#define TEXT_MAX 1024

/* Types of headers' values, and how long those are that are not told. */
enum {
        TYPE_TRUE,
        TYPE_FALSE,
        TYPE_BYTE,
        TYPE_SHORT,
        TYPE_INTEGER,
        TYPE_LONG,
        TYPE_BYTES,
        TYPE_TEXT,
        TYPE_TIME,
        TYPE_UUID
};
static const size_t value_lengths[] = {
        [TYPE_TRUE] = 0,    [TYPE_FALSE] = 0, [TYPE_BYTE] = 1, [TYPE_SHORT] = 2,
        [TYPE_INTEGER] = 4, [TYPE_LONG] = 8,  [TYPE_TIME] = 8, [TYPE_UUID] = 16
};

struct event_stream {
        event_stream_take *take;
        void *context;
        struct strbuf held; /* of a message that is not whole */
        bool broken;
};

/* The texts of one message, each with the NUL that it comes without. */
enum { NAME_TYPE, NAME_EVENT, NAME_EXCEPTION, NAME_CODE, NAME_TEXT, NAME_COUNT };
static const char *const names[] = { ":message-type", ":event-type", ":exception-type", ":error-code",
                                     ":error-message" };
struct texts {
        char text[NAME_COUNT][TEXT_MAX + 1];
        bool there[NAME_COUNT];
};

uint32_t event_stream_crc(uint32_t before, const void *bytes, size_t length) {
        static const uint32_t table[16] = { 0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
                                            0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                            0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                            0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C };
        const uint8_t *at = bytes;
        uint32_t crc = ~before;

        for (size_t i = 0; i < length; i++) {
                crc = table[(crc ^ at[i]) & 15] ^ (crc >> 4);
                crc = table[(crc ^ (uint32_t)(at[i] >> 4)) & 15] ^ (crc >> 4);
        }
        return ~crc;
}

static uint32_t number_at(const uint8_t *at) {
        return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

struct event_stream *event_stream_new(event_stream_take *take, void *context) {
        struct event_stream *stream = calloc(1, sizeof(*stream));

        if (!stream)
                abort();
        stream->take = take;
        stream->context = context;
        return stream;
}

void event_stream_free(struct event_stream *stream) {
        if (!stream)
                return;
        strbuf_release(&stream->held);
        free(stream);
}

void event_stream_freep(struct event_stream **stream) {
        event_stream_free(*stream);
}

/* A header that comes twice would say two things; one with a NUL in it another than it shows. */
static int keep_text(struct texts *texts, const uint8_t *name, size_t name_length, const uint8_t *text,
                     size_t length, struct error *err) {
        for (size_t i = 0; i < NAME_COUNT; i++) {
                if (strlen(names[i]) != name_length || memcmp(names[i], name, name_length) != 0)
                        continue;
                if (texts->there[i] || memchr(text, 0, length))
                        return error_set(err, "a message has the header %s twice, or with a NUL", names[i]);
                if (length > TEXT_MAX)
                        length = TEXT_MAX;
                memcpy(texts->text[i], text, length);
                texts->text[i][length] = '\0';
                texts->there[i] = true;
        }
        return 0;
}

/* How many bytes the value has, those that tell its length not counted, which are *ret_told; -1 where it does not fit. */
static int measure_value(uint8_t type, const uint8_t *at, size_t left, size_t *ret_told, size_t *ret_length) {
        size_t told = 0, length;

        if (type > TYPE_UUID)
                return -1;
        if (type == TYPE_BYTES || type == TYPE_TEXT) {
                if (left < 2)
                        return -1;
                told = 2;
                length = (size_t)at[0] << 8 | at[1];
        } else {
                length = value_lengths[type];
        }
        if (left - told < length)
                return -1;
        *ret_told = told;
        *ret_length = length;
        return 0;
}

static int read_headers(const uint8_t *at, size_t length, struct texts *texts, struct error *err) {
        const uint8_t *end = at + length;

        while (at < end) {
                size_t name_length = *at++, told, value;
                const uint8_t *name = at;
                uint8_t type;

                if (name_length == 0 || (size_t)(end - at) <= name_length)
                        return error_set(err, "a message's headers are not what their lengths say");
                type = name[name_length];
                at += name_length + 1;
                if (measure_value(type, at, (size_t)(end - at), &told, &value) < 0)
                        return error_set(err, "a message's headers are not what their lengths say");
                if (type == TYPE_TEXT && keep_text(texts, name, name_length, at + told, value, err) < 0)
                        return -1;
                at += told + value;
        }
        return 0;
}

/* A message that is whole and whose lengths fit each other. */
static int read_message(const struct event_stream *stream, const uint8_t *at, size_t total,
                        struct error *err) {
        size_t headers = number_at(at + 4);
        struct texts texts;
        struct event_stream_message message;

        memset(texts.there, 0, sizeof(texts.there));
        if (event_stream_crc(0, at, total - CHECKSUM) != number_at(at + total - CHECKSUM))
                return error_set(err, "a message's checksum does not fit");
        if (read_headers(at + PRELUDE, headers, &texts, err) < 0)
                return -1;
        message = (struct event_stream_message){
                .type = texts.there[NAME_TYPE] ? texts.text[NAME_TYPE] : NULL,
                .event = texts.there[NAME_EVENT] ? texts.text[NAME_EVENT] : NULL,
                .exception = texts.there[NAME_EXCEPTION] ? texts.text[NAME_EXCEPTION] : NULL,
                .code = texts.there[NAME_CODE] ? texts.text[NAME_CODE] : NULL,
                .text = texts.there[NAME_TEXT] ? texts.text[NAME_TEXT] : NULL,
                .payload = at + PRELUDE + headers,
                .length = total - PRELUDE - headers - CHECKSUM,
        };
        return stream->take(stream->context, &message, err);
}

/* How long the message is that begins here; 0 where that is not known yet; -1 where it cannot be one. */
static int measure_message(const uint8_t *at, size_t length, size_t *ret, struct error *err) {
        size_t total, headers;

        *ret = 0;
        if (length < PRELUDE)
                return 0;
        total = number_at(at);
        headers = number_at(at + 4);
        if (event_stream_crc(0, at, PRELUDE - CHECKSUM) != number_at(at + PRELUDE - CHECKSUM))
                return error_set(
                        err, "what comes is no stream of events: the checksum of a beginning does not fit");
        if (total > EVENT_STREAM_MESSAGE_MAX || headers > EVENT_STREAM_HEADERS_MAX ||
            total < PRELUDE + CHECKSUM + headers)
                return error_set(err, "a message of %zu bytes with %zu of headers cannot be", total, headers);
        *ret = total;
        return 0;
}

static int read_messages(struct event_stream *stream, struct error *err) {
        const uint8_t *bytes = (const uint8_t *)stream->held.data;
        size_t at = 0, total;

        for (;;) {
                if (measure_message(bytes + at, stream->held.length - at, &total, err) < 0)
                        return -1;
                if (total == 0 || stream->held.length - at < total)
                        break;
                if (read_message(stream, bytes + at, total, err) < 0)
                        return -1;
                at += total;
        }
        if (at > 0) {
                memmove(stream->held.data, stream->held.data + at, stream->held.length - at);
                stream->held.length -= at;
                stream->held.data[stream->held.length] = '\0';
        }
        return 0;
}

int event_stream_add(struct event_stream *stream, const void *bytes, size_t length, struct error *err) {
        if (stream->broken)
                return error_set(err, "the stream of events was broken before");
        if (length == 0)
                return 0;
        strbuf_append_bytes(&stream->held, bytes, length);
        if (read_messages(stream, err) < 0) {
                stream->broken = true;
                return -1;
        }
        return 0;
}

int event_stream_end(const struct event_stream *stream, struct error *err) {
        if (stream->broken || stream->held.length > 0)
                return error_set(err, "the stream of events ended in the middle of a message");
        return 0;
}
