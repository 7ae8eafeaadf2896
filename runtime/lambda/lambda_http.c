/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for HTTP would be larger than all else in this program, which is static and has one server to speak to, on the same machine: so
 * the part that this server speaks is here.
 */
#include "runtime/lambda/lambda_http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Of a chunk: its size, its bytes, the line's end behind them; and the trailers behind the last. */
enum { PART_SIZE, PART_BYTES, PART_END, PART_TRAILERS };
#define LINE_MAX_BYTES 1024
#define TRAILERS_MAX LAMBDA_HTTP_HEAD_MAX

void lambda_http_release(struct lambda_http *answer) {
        strbuf_release(&answer->head);
        strbuf_release(&answer->body);
        strbuf_release(&answer->line);
}

/* ASCII in any case; libc's own comes in a dozen forms for a dozen processors, 40 KB of them. */
static bool is_same_ignoring_case(const char *one, const char *other, size_t length) {
        for (size_t i = 0; i < length; i++) {
                unsigned char a = (unsigned char)one[i], b = (unsigned char)other[i];

                if (a != b && (!isalpha(a) || (a | 32) != (b | 32) || !isalpha(b)))
                        return false;
        }
        return true;
}

int lambda_http_header(const struct lambda_http *answer, const char *name, char *ret, size_t size) {
        const char *line = strstr(strbuf_text(&answer->head), "\r\n");
        size_t length = strlen(name);
        int found = 0;

        ret[0] = '\0';
        while (line && line[2] != '\r' && line[2]) {
                const char *at = line + 2, *end = strstr(at, "\r\n");

                line = end;
                if (!end || (size_t)(end - at) <= length || !is_same_ignoring_case(at, name, length) ||
                    at[length] != ':')
                        continue;
                at += length + 1;
                while (at < end && (*at == ' ' || *at == '\t'))
                        at++;
                while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
                        end--;
                if (found++ || (size_t)(end - at) >= size)
                        return -1;
                for (size_t i = 0; i < (size_t)(end - at); i++) {
                        if (at[i] < ' ' || at[i] > '~')
                                return -1;
                }
                memcpy(ret, at, (size_t)(end - at));
                ret[end - at] = '\0';
        }
        return found;
}

static int parse_digits(const char *text, int base, uint64_t most, uint64_t *ret) {
        uint64_t number = 0;

        if (!*text)
                return -1;
        for (; *text; text++) {
                const char *digits = "0123456789abcdef",
                           *digit = strchr(digits, *text | (*text > '9' ? 32 : 0));

                if (!digit || digit - digits >= base)
                        return -1;
                number = number * (uint64_t)base + (uint64_t)(digit - digits);
                if (number > most)
                        return -1;
        }
        *ret = number;
        return 0;
}

/* Lines end with CR and LF, no line is folded, each header has a name and a colon behind it. */
static bool is_head(const char *head) {
        const char *line = strstr(head, "\r\n");

        if (strpbrk(head, "\n") && strpbrk(head, "\n") != strstr(head, "\r\n") + 1)
                return false;
        while (line && strncmp(line, "\r\n\r\n", 4) != 0) {
                const char *at = line + 2, *end = strstr(at, "\r\n");
                size_t name = strspn(
                        at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~");

                if (!end || name == 0 || at[name] != ':' || memchr(at, '\n', (size_t)(end - at)) ||
                    memchr(at, '\r', (size_t)(end - at)))
                        return false;
                line = end;
        }
        return line != NULL;
}

static int read_answer_head(struct lambda_http *answer, struct error *err) {
        const char *head = answer->head.data;
        char length[32], coding[32];
        uint64_t status;
        char digits[4];
        int has_length, has_coding;

        if (strlen(head) != answer->head.length || strncmp(head, "HTTP/1.1 ", 9) != 0 || strlen(head) < 14 ||
            (head[12] != ' ' && head[12] != '\r') || !is_head(head))
                return error_set(err, "an answer that is not HTTP/1.1");
        memcpy(digits, head + 9, 3);
        digits[3] = '\0';
        if (parse_digits(digits, 10, 599, &status) < 0 || status < 200)
                return error_set(err, "an answer with the status %s", digits);
        has_length = lambda_http_header(answer, "Content-Length", length, sizeof(length));
        has_coding = lambda_http_header(answer, "Transfer-Encoding", coding, sizeof(coding));
        if (has_length < 0 || has_coding < 0 || (has_length && has_coding) ||
            (has_coding && (strlen(coding) != 7 || !is_same_ignoring_case(coding, "chunked", 7))))
                return error_set(err, "an answer whose length is said in two ways, or in none that is known");
        if (has_length && parse_digits(length, 10, answer->body_max, &answer->left) < 0)
                return error_set(err, "an answer of %s bytes, and %zu are the most", length,
                                 answer->body_max);
        answer->status = (int)status;
        answer->headed = true;
        answer->chunked = has_coding;
        answer->to_end = !has_length && !has_coding && status != 204 && status != 304;
        answer->whole = !answer->chunked && !answer->to_end && answer->left == 0;
        return 0;
}

/* A line of chunks, without its end: 1; 0: more has to come. */
static int take_chunk_line(struct lambda_http *answer, const char **bytes, size_t *length, size_t most,
                           struct error *err) {
        const char *end = memchr(*bytes, '\n', *length);
        size_t piece = end ? (size_t)(end - *bytes) + 1 : *length;

        if (piece > most - answer->line.length)
                return error_set(err, "an answer with a line that is too long");
        strbuf_append_bytes(&answer->line, *bytes, piece);
        *bytes += piece;
        *length -= piece;
        if (!end)
                return 0;
        if (answer->line.length < 2 || answer->line.data[answer->line.length - 2] != '\r')
                return error_set(err, "an answer with a line that ends without CR");
        answer->line.length -= 2;
        answer->line.data[answer->line.length] = '\0';
        return 1;
}

static int read_chunks(struct lambda_http *answer, const char *bytes, size_t length, struct error *err) {
        while (length > 0 && !answer->whole) {
                size_t piece = answer->left < length ? (size_t)answer->left : length;
                int result = 1;

                if (answer->part == PART_BYTES) {
                        strbuf_append_bytes(&answer->body, bytes, piece);
                        bytes += piece, length -= piece, answer->left -= piece;
                        if (answer->left == 0)
                                answer->part = PART_END;
                        continue;
                }
                result = take_chunk_line(answer, &bytes, &length, LINE_MAX_BYTES, err);
                if (result <= 0)
                        return result;
                if (answer->part == PART_SIZE) {
                        answer->line.data[strcspn(answer->line.data, ";")] = '\0';
                        if (parse_digits(answer->line.data, 16, answer->body_max - answer->body.length,
                                         &answer->left) < 0)
                                return error_set(err,
                                                 "an answer has an invalid chunk, or one that is too long");
                        answer->part = answer->left > 0 ? PART_BYTES : PART_TRAILERS;
                } else if (answer->part == PART_END) {
                        if (answer->line.length > 0)
                                return error_set(err, "an answer with bytes behind a chunk");
                        answer->part = PART_SIZE;
                } else {
                        answer->whole = answer->line.length == 0;
                        answer->left += answer->line.length;
                        if (answer->left > TRAILERS_MAX)
                                return error_set(err, "an answer with too many trailers");
                }
                strbuf_clear(&answer->line);
        }
        return 0;
}

static int read_answer_body(struct lambda_http *answer, const char *bytes, size_t length, struct error *err) {
        if (answer->chunked)
                return read_chunks(answer, bytes, length, err);
        if (answer->to_end && length > answer->body_max - answer->body.length)
                return error_set(err, "an answer that is longer than %zu bytes", answer->body_max);
        if (!answer->to_end && length > answer->left)
                length = (size_t)answer->left;
        strbuf_append_bytes(&answer->body, bytes, length);
        if (!answer->to_end)
                answer->left -= length;
        answer->whole = !answer->to_end && answer->left == 0;
        return 0;
}

int lambda_http_read(struct lambda_http *answer, const char *bytes, size_t length, struct error *err) {
        size_t before = answer->head.length, piece;
        const char *end;

        if (answer->whole)
                return 1;
        if (length == 0) {
                answer->whole = answer->headed && answer->to_end;
                return answer->whole ? 1
                                     : error_set(err, "the connection has ended in the middle of an answer");
        }
        if (answer->headed)
                return read_answer_body(answer, bytes, length, err) < 0 ? -1 : answer->whole;
        /* Its end may have begun in an earlier piece. */
        piece = length < LAMBDA_HTTP_HEAD_MAX - before ? length : LAMBDA_HTTP_HEAD_MAX - before;
        strbuf_append_bytes(&answer->head, bytes, piece);
        end = memmem(answer->head.data + (before < 3 ? 0 : before - 3),
                     answer->head.length - (before < 3 ? 0 : before - 3), "\r\n\r\n", 4);
        if (!end)
                return answer->head.length == LAMBDA_HTTP_HEAD_MAX
                               ? error_set(err, "an answer with too many headers")
                               : 0;
        answer->head.length = (size_t)(end - answer->head.data) + 4;
        answer->head.data[answer->head.length] = '\0';
        if (read_answer_head(answer, err) < 0 ||
            (!answer->whole && answer->head.length - before < length &&
             read_answer_body(answer, bytes + (answer->head.length - before),
                              length - (answer->head.length - before), err) < 0))
                return -1;
        return answer->whole;
}
