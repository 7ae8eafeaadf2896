/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of an execution whose code says whatever it likes: caps, characters cut in two, floods, what history has. */
#include "sessions/execution.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct execution_owner owner = { "s-x", "python", NULL };

static struct execution *begin(void) {
        struct execution *execution = execution_new(
                7, &(struct engine_code){ .code = "x", .code_length = 1, .timeout_seconds = 1 }, 1000);

        execution_started(execution, &(struct place_event){ .generation = 1, .context = "main" }, 1001);
        return execution;
}

static void end(struct execution *execution, int64_t stdout_bytes, int64_t stderr_bytes) {
        execution_done(execution, &owner,
                       &(struct place_event){ .status = REPORT_OK,
                                              .stdout_bytes = stdout_bytes,
                                              .stderr_bytes = stderr_bytes },
                       1002);
}

static json_t *kept(const struct execution *execution) {
        char *text = execution_record(execution, "python", NULL);
        json_t *json = execution_read_record(text);

        assert_true(strlen(text) <= SESSION_VALUE_MAX);
        free(text);
        assert_non_null(json);
        return json;
}

/* All that events told of one stream, one behind the other. */
static size_t told(const struct execution *execution, const char *stream, struct strbuf *ret) {
        struct engine_event event;
        size_t count = 0;

        for (int64_t id = 1; execution_event(execution, id, &event); id++) {
                if (strcmp(event.name, stream) == 0) {
                        count++;
                        strbuf_append(ret,
                                      json_text(event.data, "text") ? json_text(event.data, "text") : "?");
                }
                json_decref(event.data);
        }
        return count;
}

static void output_is_capped_twice(void **state) {
        struct execution *execution = begin();
        char line[1000];
        json_t *record JSON_CLEANUP = NULL, *stream;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        memset(line, 'x', sizeof(line));
        for (int i = 0; i < 3000; i++)
                execution_output(execution, i % 3 == 0, line, sizeof(line));
        end(execution, 2000000, 1000000);
        stream = json_object_get(execution->result, "stdout");
        assert_int_equal(json_integer_or(stream, "bytesTotal", 0), 2000000);
        assert_int_equal(json_integer_or(stream, "bytesReturned", 0), ENGINE_STREAM_MAX);
        assert_true(json_is_true(json_object_get(stream, "truncated")));
        assert_non_null(json_text(stream, "sha256"));
        told(execution, "stdout", &text);
        assert_int_equal(text.length, ENGINE_STREAM_MAX);
        record = kept(execution);
        stream = json_object_get(json_object_get(record, "result"), "stderr");
        assert_int_equal(json_integer_or(stream, "bytesTotal", 0), 1000000);
        assert_int_equal(json_integer_or(stream, "bytesReturned", 0), ENGINE_STREAM_STORED);
        assert_string_equal(json_text(stream, "sha256"),
                            json_text(json_object_get(execution->result, "stderr"), "sha256"));
        execution_drop(execution);
}

/* Characters come in pieces: no event ends inside of one, and none is lost. */
static void characters_stay_whole(void **state) {
        static const char text[] = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z";
        struct execution *execution = begin();
        struct strbuf heard STRBUF_CLEANUP = STRBUF_INIT;
        json_t *stream;

        (void)state;
        for (size_t i = 0; i < sizeof(text) - 1; i++)
                execution_output(execution, false, text + i, 1);
        assert_int_equal(told(execution, "stdout", &heard), 5);
        assert_string_equal(strbuf_text(&heard), text);
        /* What is no UTF-8 comes as base64; an end that never comes too. */
        execution_output(execution, true, "\xff\xfe", 2);
        execution_output(execution, true, "\xe2\x82", 2);
        end(execution, sizeof(text) - 1, 4);
        stream = json_object_get(execution->result, "stdout");
        assert_string_equal(json_text(stream, "encoding"), "utf-8");
        assert_string_equal(json_text(stream, "content"), text);
        stream = json_object_get(execution->result, "stderr");
        assert_string_equal(json_text(stream, "encoding"), "base64");
        assert_string_equal(json_text(stream, "content"), "//7igg==");
        execution_drop(execution);
}

/* A program that prints single characters costs no structure for each. */
static void a_flood_of_pieces(void **state) {
        struct execution *execution = begin();
        struct strbuf heard STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        for (int i = 0; i < 500000; i++)
                execution_output(execution, i % 2, "y", 1);
        end(execution, 250000, 250000);
        assert_true(execution->event_count < 16384 + 500);
        told(execution, "stdout", &heard);
        assert_int_equal(heard.length, 250000);
        execution_drop(execution);
}

/* Control characters grow sixfold in JSON, file names without end, a traceback, displays: it fits all the same. */
static void what_history_keeps_always_fits(void **state) {
        struct execution *execution = begin();
        struct place_file *files = calloc(100000, sizeof(*files));
        char *zeros = calloc(1, ENGINE_STREAM_MAX), *big = malloc(65536);
        json_t *record JSON_CLEANUP = NULL, *result;
        const struct content_display display = {
                .parts = { { "text/html", big, 65535 }, { "image/png", zeros, 65535 } }, .count = 2
        };

        (void)state;
        memset(big, '\x01', 65535);
        big[65535] = '\0';
        for (size_t i = 0; i < 100000; i++)
                files[i] =
                        (struct place_file){ .path = "some/folder/\x1b[31mname", .bytes = 1, .sha256 = "00" };
        execution_output(execution, false, zeros, ENGINE_STREAM_MAX);
        execution_output(execution, true, zeros, ENGINE_STREAM_MAX);
        for (int i = 0; i < 64; i++)
                execution_display(execution, &(struct place_event){ .display = &display, .file = "d.png" });
        execution_done(execution, &owner,
                       &(struct place_event){
                               .status = REPORT_ERROR,
                               .exit_code = 1,
                               .stdout_bytes = ENGINE_STREAM_MAX,
                               .stderr_bytes = ENGINE_STREAM_MAX,
                               .value = { "str", big, true },
                               .error = { "E", big, NULL },
                               .changed = { files, 100000 },
                       },
                       1002);
        record = kept(execution);
        result = json_object_get(record, "result");
        assert_string_equal(json_text(result, "status"), "error");
        assert_true(json_is_true(json_object_get(json_object_get(result, "files"), "truncated")));
        assert_int_equal(json_array_size(json_object_get(execution->result, "displays")), 64);
        execution_drop(execution);
        free(files);
        free(zeros);
        free(big);
}

/* Whatever the place says: 0 goes with ok, and nothing else does. */
static void no_success_that_nobody_saw(void **state) {
        static const struct {
                enum report_status status;
                int64_t exit_code;
                int expected; /* -1: null */
        } cases[] = {
                { REPORT_OK, 0, 0 },      { REPORT_ERROR, 0, -1 },   { REPORT_ERROR, 3, 3 },
                { REPORT_FAILED, 0, -1 }, { REPORT_KILLED, -1, -1 }, { REPORT_OK, 5, -1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct execution *execution = begin();
                json_t *code;

                execution_done(
                        execution, &owner,
                        &(struct place_event){ .status = cases[i].status, .exit_code = cases[i].exit_code },
                        1002);
                code = json_object_get(execution->result, "exitCode");
                if (cases[i].expected < 0)
                        assert_true(json_is_null(code));
                else
                        assert_int_equal(json_integer_value(code), cases[i].expected);
                execution_drop(execution);
        }
}

/* The server died amid more output than the place keeps: the head is the record's, and nothing claims to be whole. */
static void a_head_that_was_kept(void **state) {
        struct execution *execution = begin(), *again;
        json_t *record JSON_CLEANUP = NULL, *stream;
        char *text;

        (void)state;
        execution_output(execution, false, "head\xff", 5);
        execution->heard_early = true;
        text = execution_record_pending(execution, "s-x", "python", NULL);
        record = execution_read_record(text);
        free(text);
        execution_drop(execution);
        again = execution_revive(7, record, NULL);
        assert_non_null(again);
        execution_output(again, false, "tail", 4);
        end(again, 9000000, 0);
        stream = json_object_get(again->result, "stdout");
        assert_int_equal(json_integer_or(stream, "bytesTotal", 0), 9000000);
        assert_int_equal(json_integer_or(stream, "bytesReturned", 0), 5);
        assert_true(json_is_true(json_object_get(stream, "truncated")));
        assert_true(json_is_null(json_object_get(stream, "sha256")));
        assert_string_equal(json_text(stream, "content"), "aGVhZP8=");
        execution_drop(again);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(output_is_capped_twice),
                cmocka_unit_test(characters_stay_whole),
                cmocka_unit_test(a_flood_of_pieces),
                cmocka_unit_test(what_history_keeps_always_fits),
                cmocka_unit_test(no_success_that_nobody_saw),
                cmocka_unit_test(a_head_that_was_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
