/* SPDX-License-Identifier: Apache-2.0 */
#include "server/answer.h"

#include "server/head.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* RFC 9110, 15: those that this server and its routes give, or may come to. */
static const char *phrase_of(unsigned status) {
        static const struct {
                unsigned status;
                const char *phrase;
        } phrases[] = {
                { 200, "OK" },
                { 201, "Created" },
                { 202, "Accepted" },
                { 204, "No Content" },
                { 206, "Partial Content" },
                { 304, "Not Modified" },
                { 400, "Bad Request" },
                { 401, "Unauthorized" },
                { 403, "Forbidden" },
                { 404, "Not Found" },
                { 405, "Method Not Allowed" },
                { 406, "Not Acceptable" },
                { 408, "Request Timeout" },
                { 409, "Conflict" },
                { 412, "Precondition Failed" },
                { 413, "Content Too Large" },
                { 414, "URI Too Long" },
                { 415, "Unsupported Media Type" },
                { 416, "Range Not Satisfiable" },
                { 417, "Expectation Failed" },
                { 421, "Misdirected Request" },
                { 422, "Unprocessable Content" },
                { 429, "Too Many Requests" },
                { 431, "Request Header Fields Too Large" },
                { 500, "Internal Server Error" },
                { 501, "Not Implemented" },
                { 502, "Bad Gateway" },
                { 503, "Service Unavailable" },
                { 507, "Insufficient Storage" },
                { 505, "HTTP Version Not Supported" },
        };

        for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
                if (phrases[i].status == status)
                        return phrases[i].phrase;
        }
        return "";
}

bool answer_has_body(unsigned status) {
        return status >= 200 && status != 204 && status != 304;
}

static void write_field(const char *name, const char *value, struct strbuf *ret) {
        strbuf_printf(ret, "%s: ", name);
        for (; *value; value++)
                strbuf_append_char(ret, (char)(head_is_text(*value) ? *value : ' '));
        strbuf_append(ret, "\r\n");
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", whatever language the program's user speaks. */
static void write_date(int64_t wall_ms, struct strbuf *ret) {
        static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        time_t seconds = (time_t)(wall_ms / 1000);
        struct tm parts;

        gmtime_r(&seconds, &parts);
        strbuf_printf(ret, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + 3 * parts.tm_wday,
                      parts.tm_mday, months + 3 * parts.tm_mon, parts.tm_year + 1900, parts.tm_hour,
                      parts.tm_min, parts.tm_sec);
}

static bool has_header(const struct answer_head *head, const char *name) {
        for (size_t i = 0; i < head->header_count; i++) {
                if (strcmp(head->headers[i].name, name) == 0)
                        return true;
        }
        return false;
}

void answer_head_write(const struct answer_head *head, struct strbuf *ret) {
        strbuf_printf(ret, "HTTP/1.1 %u %s\r\n", head->status, phrase_of(head->status));
        write_date(head->wall_ms, ret);
        if (head->last)
                write_field("Connection", "close", ret);
        if (head->length == ANSWER_CHUNKED)
                write_field("Transfer-Encoding", "chunked", ret);
        else if (head->length >= 0)
                strbuf_printf(ret, "Content-Length: %" PRId64 "\r\n", head->length);
        if (head->length != ANSWER_BODILESS && head->type)
                write_field("Content-Type", head->type, ret);
        if (!has_header(head, "Cache-Control"))
                write_field("Cache-Control", "no-store", ret);
        write_field("X-Content-Type-Options", "nosniff", ret);
        for (size_t i = 0; i < head->header_count; i++)
                write_field(head->headers[i].name, head->headers[i].value, ret);
        strbuf_append(ret, "\r\n");
}
