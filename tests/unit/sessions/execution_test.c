/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of an execution whose code says whatever it likes: caps, characters cut in two,
 * floods, what history has.
 */
#include "sessions/execution.h"

#include "base/arena.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

/* One stream as events from `from` on tell it, from memory or from a record: its text, and how many bytes are missing where. */
static void read_from(const struct execution *execution, json_t *record, int64_t from, const char *stream,
                      struct strbuf *ret, size_t *ret_gap, size_t *ret_at) {
        struct engine_event event = { 0 };
        int64_t last = from - 1;

        *ret_gap = 0;
        *ret_at = SIZE_MAX;
        while (last < (int64_t)execution->event_count) {
                const json_t *gap;
                bool is_gap;

                assert_true(record ? execution_kept_event(record, last + 1, &event)
                                   : execution_event(execution, last + 1, &event));
                assert_true(event.id > last);
                last = event.id;
                is_gap = strcmp(event.name, "gap") == 0 &&
                         strcmp(json_text(event.data, "stream"), stream) == 0;
                gap = is_gap                            ? event.data
                      : strcmp(event.name, stream) == 0 ? json_object_get(event.data, "gap")
                                                        : NULL;
                if (gap) {
                        size_t at = ret->length + (size_t)json_integer_or(gap, "at", 0);

                        assert_true(*ret_at == SIZE_MAX || *ret_at == at); /* one hole */
                        *ret_at = at;
                        *ret_gap += (size_t)json_integer_or(gap, "bytes", 0);
                }
                if (strcmp(event.name, stream) == 0)
                        strbuf_append(ret, json_text(event.data, "text"));
                json_decref(event.data);
        }
        assert_string_equal(event.name, "done");
        *ret_at = *ret_at == SIZE_MAX ? ret->length : *ret_at;
}

/* A client that has read some events live reads the rest of what was kept by the same ids, and is told what is missing. */
static void events_keep_their_numbers(void **state) {
        struct execution *execution = begin();
        const struct content_display display = { .parts = { { "text/html", "<p>", 3 } }, .count = 1 };
        json_t *record JSON_CLEANUP = NULL, *thin JSON_CLEANUP = NULL;
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *text;
        int64_t count;

        (void)state;
        for (int i = 0; i < 5; i++) {
                execution_output(execution, i == 2, "line\n", 5);
                if (i == 3)
                        execution_display(execution, &(struct place_event){ .display = &display });
        }
        for (int i = 0; i < 200; i++) {
                char line[1001];

                snprintf(line, sizeof(line), "%01000d", i);
                execution_output(execution, false, line, 1000);
        }
        end(execution, 200020, 5);
        record = kept(execution);
        count = (int64_t)execution->event_count;
        for (int64_t from = 1; from <= count; from++) {
                struct strbuf live STRBUF_CLEANUP = STRBUF_INIT, later STRBUF_CLEANUP = STRBUF_INIT;
                struct engine_event event;
                size_t none, gap, at;

                if (execution_event(execution, from, &event)) {
                        struct engine_event again;

                        assert_true(execution_kept_event(record, from, &again));
                        if (again.id == from && strcmp(again.name, "gap") != 0)
                                assert_string_equal(event.name, again.name);
                        json_decref(event.data);
                        json_decref(again.data);
                }
                read_from(execution, NULL, from, "stdout", &live, &none, &at);
                read_from(execution, record, from, "stdout", &later, &gap, &at);
                assert_int_equal(none, 0);
                assert_int_equal(later.length + gap, live.length);
                assert_memory_equal(strbuf_text(&live), strbuf_text(&later), at);
                assert_string_equal(strbuf_text(&later) + at, strbuf_text(&live) + at + gap);
        }
        text = execution_record(execution, "python", NULL);
        thin = execution_read_record(execution_record_thin(text, arena));
        free(text);
        {
                struct strbuf later STRBUF_CLEANUP = STRBUF_INIT;
                size_t gap, at;

                read_from(execution, thin, count - 3, "stdout", &later, &gap, &at);
                assert_int_equal(later.length, 0);
                assert_int_equal(gap, 200020);
        }
        execution_drop(execution);
}

/* The first and the last half of each cap, and what is missing between, in events, results and what is kept. */
static void long_output_has_its_end(void **state) {
        static const size_t sizes[] = { 1000,
                                        ENGINE_STREAM_MAX / 2 + 1,
                                        ENGINE_STREAM_MAX,
                                        ENGINE_STREAM_MAX + 3,
                                        3 * ENGINE_STREAM_MAX / 2,
                                        5 * ENGINE_STREAM_MAX };

        (void)state;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct execution *execution = begin();
                struct strbuf all STRBUF_CLEANUP = STRBUF_INIT, heard STRBUF_CLEANUP = STRBUF_INIT;
                json_t *record JSON_CLEANUP = NULL;
                size_t missing, at;

                while (all.length < sizes[i])
                        strbuf_printf(&all, "%zu \xe2\x82\xac\n", all.length);
                for (size_t sent = 0; sent < all.length; sent += 777)
                        execution_output(execution, true, strbuf_text(&all) + sent,
                                         all.length - sent < 777 ? all.length - sent : 777);
                end(execution, 0, (int64_t)all.length);
                record = kept(execution);
                for (int k = 0; k < 2; k++) {
                        json_t *stream = json_object_get(
                                k ? json_object_get(record, "result") : execution->result, "stderr");
                        size_t cap = k ? ENGINE_STREAM_STORED : ENGINE_STREAM_MAX;
                        const json_t *content = json_object_get(stream, "content"),
                                     *gap = json_object_get(stream, "gap");
                        size_t length = json_string_length(content),
                               cut = (size_t)json_integer_or(gap, "at", (json_int_t)length);

                        assert_string_equal(json_text(stream, "encoding"), "utf-8");
                        assert_int_equal(json_integer_or(stream, "bytesReturned", 0), length);
                        assert_true(length <= cap && (all.length <= cap ? !gap : length > cap - 8));
                        assert_int_equal(length + (size_t)json_integer_or(gap, "bytes", 0), all.length);
                        assert_true(!gap || (cut > cap / 2 - 4 && cut <= cap / 2));
                        assert_memory_equal(json_string_value(content), strbuf_text(&all), cut);
                        assert_string_equal(json_string_value(content) + cut,
                                            strbuf_text(&all) + all.length - (length - cut));
                }
                read_from(execution, NULL, 1, "stderr", &heard, &missing, &at);
                assert_int_equal(heard.length + missing, all.length);
                assert_int_equal(missing > 0, all.length > 3 * ENGINE_STREAM_MAX / 2);
                assert_memory_equal(strbuf_text(&heard), strbuf_text(&all), at);
                assert_string_equal(strbuf_text(&heard) + at, strbuf_text(&all) + at + missing);
                execution_drop(execution);
        }
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
        assert_int_equal(text.length, ENGINE_STREAM_MAX + ENGINE_STREAM_MAX / 2);
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
        /* Bytes that are not UTF-8 come as base64; an end that never comes too. */
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

/*
 * Control characters grow sixfold in JSON, file names without end, a traceback, displays: it fits
 * nevertheless.
 */
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

/* A newer server has put it in line: this one would run it as a language that it does not know. */
static void a_language_of_another_version(void **state) {
        static const struct {
                const char *language;
                bool known;
        } cases[] = { { "python", true }, { "sh", true }, { "bash", true }, { "r", false }, { "", false } };
        struct execution *execution = begin();
        char *text = execution_record_pending(execution, "s-x", "python", NULL);

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *record JSON_CLEANUP = execution_read_record(text);
                struct execution *again;

                json_set_text(record, "language", cases[i].language);
                again = execution_revive(7, record, NULL);
                assert_int_equal(again != NULL, cases[i].known);
                if (again)
                        execution_drop(again);
        }
        free(text);
        execution_drop(execution);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(events_keep_their_numbers),
                cmocka_unit_test(long_output_has_its_end),
                cmocka_unit_test(output_is_capped_twice),
                cmocka_unit_test(characters_stay_whole),
                cmocka_unit_test(a_flood_of_pieces),
                cmocka_unit_test(what_history_keeps_always_fits),
                cmocka_unit_test(no_success_that_nobody_saw),
                cmocka_unit_test(a_head_that_was_kept),
                cmocka_unit_test(a_language_of_another_version),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
