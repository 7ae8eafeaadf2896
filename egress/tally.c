/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/tally.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX (INT64_C(1) << 53)

void tally_add(struct tally *tally, const struct tally_line *line) {
        struct tally_line *of = NULL;

        for (size_t i = 0; i < tally->count && !of; i++) {
                struct tally_line *other = &tally->lines[i];

                if (other->port == line->port && strcmp(other->host, line->host) == 0 &&
                    strcmp(other->outcome, line->outcome) == 0)
                        of = other;
        }
        if (!of && tally->count < TALLY_LINES) {
                of = &tally->lines[tally->count++];
                *of = *line;
                of->connections = of->sent_bytes = of->received_bytes = 0;
        } else if (!of) {
                of = &tally->lines[TALLY_LINES];
                if (tally->count == TALLY_LINES)
                        *of = (struct tally_line){ .outcome = "more hosts than are told one by one" };
                tally->count = TALLY_LINES + 1;
        }
        of->connections += line->connections;
        of->sent_bytes += line->sent_bytes;
        of->received_bytes += line->received_bytes;
}

void tally_write(const struct tally *tally, struct strbuf *ret) {
        json_t *json = json_array();
        char *text;

        for (size_t i = 0; i < tally->count; i++) {
                const struct tally_line *line = &tally->lines[i];
                json_t *item = json_object();

                json_put(item, "host", json_string(line->host));
                json_put(item, "port", json_integer(line->port));
                json_put(item, "outcome", json_string(line->outcome));
                json_put(item, "connections", json_integer((json_int_t)line->connections));
                json_put(item, "sentBytes", json_integer((json_int_t)line->sent_bytes));
                json_put(item, "receivedBytes", json_integer((json_int_t)line->received_bytes));
                if (json_array_append_new(json, item) < 0)
                        abort();
        }
        text = json_compact(json);
        strbuf_append(ret, text);
        free(text);
        json_decref(json);
}

static bool read_bounded(const json_t *object, const char *name, uint64_t most, uint64_t *ret) {
        const json_t *value = json_object_get(object, name);
        json_int_t number = json_integer_value(value);

        if (!json_is_integer(value) || number < 0 || (uint64_t)number > most)
                return false;
        *ret = (uint64_t)number;
        return true;
}

/* It goes into logs: letters of ASCII alone. */
static bool is_printable(const char *text) {
        for (; *text; text++) {
                if (*text < ' ' || *text >= 0x7f)
                        return false;
        }
        return true;
}

static bool read_tally_line(const json_t *object, struct tally_line *ret) {
        const char *host = json_text(object, "host"), *outcome = json_text(object, "outcome");
        uint64_t port;

        if (json_object_size(object) != 6 || !host || !outcome || (host[0] && !allow_is_host(host)) ||
            strlen(outcome) >= TALLY_OUTCOME_MAX || !is_printable(outcome) ||
            !read_bounded(object, "port", UINT16_MAX, &port) ||
            !read_bounded(object, "connections", NUMBER_MAX, &ret->connections) ||
            !read_bounded(object, "sentBytes", NUMBER_MAX, &ret->sent_bytes) ||
            !read_bounded(object, "receivedBytes", NUMBER_MAX, &ret->received_bytes))
                return false;
        ret->port = (uint16_t)port;
        snprintf(ret->host, sizeof(ret->host), "%s", host);
        snprintf(ret->outcome, sizeof(ret->outcome), "%s", outcome);
        return true;
}

int tally_read(const char *bytes, size_t length, struct tally *ret, struct error *err) {
        json_error_t problem;
        json_t *json JSON_CLEANUP = json_loadb(bytes ? bytes : "", length, JSON_REJECT_DUPLICATES, &problem);

        if (!json_is_array(json) || json_array_size(json) > TALLY_LINES + 1)
                return error_set(err, "what a proxy tells is no list of hosts");
        ret->count = json_array_size(json);
        for (size_t i = 0; i < ret->count; i++) {
                if (!read_tally_line(json_array_get(json, i), &ret->lines[i]))
                        return error_set(err, "a proxy's report has an invalid line");
        }
        return 0;
}

void tally_describe(const struct tally_line *line, struct strbuf *ret) {
        if (line->host[0])
                strbuf_printf(ret, "%s:%u: ", line->host, line->port);
        if (line->outcome[0])
                strbuf_printf(ret, "refused, %s: ", line->outcome);
        strbuf_printf(ret, "%" PRIu64 " connection%s", line->connections, line->connections == 1 ? "" : "s");
        if (line->sent_bytes || line->received_bytes)
                strbuf_printf(ret, ", %" PRIu64 " bytes sent, %" PRIu64 " received", line->sent_bytes,
                              line->received_bytes);
}
