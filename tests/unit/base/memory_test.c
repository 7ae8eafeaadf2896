/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas, arrays, growing texts, errors: what holds everything else's data. */
#include "base/arena.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sorted.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void arena_gives_zeroed_aligned_memory(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t size = 0; size < 5000; size += 37) {
                unsigned char *memory = arena_alloc(arena, size);

                assert_int_equal((uintptr_t)memory % 8, 0);
                for (size_t i = 0; i < size; i++)
                        assert_int_equal(memory[i], 0);
                memset(memory, 0xAA, size);
        }
        assert_non_null(arena_alloc(arena, (size_t)8 * 1024 * 1024));
        assert_true(arena_size(arena) >= (size_t)8 * 1024 * 1024);
}

/* Texts of all lengths, so that some end where a block does; what did not fit there leaves nothing behind. */
static void arena_texts_fit_and_leave_zeroes(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *texts[600];

        (void)state;
        for (int i = 0; i < 600; i++) {
                const unsigned char *memory;

                texts[i] = arena_printf(arena, "%0*d", i + 1, i);
                memory = arena_alloc(arena, 24);
                for (size_t at = 0; at < 24; at++)
                        assert_int_equal(memory[at], 0);
        }
        for (int i = 0; i < 600; i++) {
                assert_int_equal(strlen(texts[i]), i + 1);
                assert_int_equal(strtol(texts[i], NULL, 10), i);
        }
}

static void cleared_arena_starts_anew(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        arena_clear(arena);
        for (int round = 0; round < 3; round++) {
                for (int i = 0; i < 1000; i++) {
                        unsigned char *memory = arena_alloc(arena, 100);

                        assert_int_equal(memory[0] | memory[99], 0);
                        memset(memory, 0xAA, 100);
                }
                arena_clear(arena);
                assert_true(arena_size(arena) <= (size_t)64 * 1024);
        }
}

static const char needle_hidden[] = "Ftbjxgfv[ibt[mjfr[jm[jvhct&Ftbjxgfv[ibt[mjfr[jm[jvhct&";
#define NEEDLE_SIZE (sizeof(needle_hidden) - 1)

/* Whether the needle's text stands anywhere in what this process may write. It is never there but where fill_with_needles() puts it. */
static bool memory_has_needle(void) {
        static unsigned char bytes[64 * 1024];
        FILE *maps = fopen("/proc/self/maps", "re");
        int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        char line[512];
        bool found = false;

        assert_non_null(maps);
        assert_true(memory >= 0);
        while (!found && fgets(line, sizeof(line), maps)) {
                unsigned long start, end;
                char mode[8];

                /* AddressSanitizer's own notes are terabytes. */
                if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 || mode[1] != 'w' ||
                    end - start > 256UL * 1024 * 1024)
                        continue;
                for (unsigned long at = start; !found && at < end; at += sizeof(bytes) - NEEDLE_SIZE) {
                        size_t want = end - at < sizeof(bytes) ? end - at : sizeof(bytes);
                        ssize_t got = pread(memory, bytes, want, (off_t)at);

                        for (ssize_t i = 0; !found && i + (ssize_t)NEEDLE_SIZE <= got; i++) {
                                size_t same = 0;

                                while (same < NEEDLE_SIZE &&
                                       (bytes[i + (ssize_t)same] ^ 1) == needle_hidden[same])
                                        same++;
                                found = same == NEEDLE_SIZE;
                        }
                }
        }
        memset(bytes, 0, sizeof(bytes));
        close(memory);
        fclose(maps);
        return found;
}

static void fill_with_needles(struct arena *arena) {
        for (int n = 0; n < 500; n++) {
                char *text = arena_alloc(arena, NEEDLE_SIZE + 1);

                for (size_t i = 0; i < NEEDLE_SIZE; i++)
                        text[i] = (char)(needle_hidden[i] ^ 1);
        }
}

static void an_arena_of_secrets_leaves_none(void **state) {
        struct arena *arena = arena_new();

        (void)state;
        fill_with_needles(arena);
        assert_true(memory_has_needle());
        arena_wipe_when_freed(arena);
        arena_clear(arena);
        assert_false(memory_has_needle());
        fill_with_needles(arena);
        assert_true(memory_has_needle());
        arena_free(arena);
        assert_false(memory_has_needle());
}

/* The needle between two texts, appended. */
static void write_needle(struct strbuf *ret, const char *before, const char *behind) {
        strbuf_append(ret, before);
        for (size_t i = 0; i < NEEDLE_SIZE; i++)
                strbuf_append_char(ret, (char)(needle_hidden[i] ^ 1));
        strbuf_append(ret, behind);
}

static void a_buffer_of_secrets_leaves_none(void **state) {
        struct strbuf buffer = STRBUF_SECRET, moved;

        (void)state;
        write_needle(&buffer, "", "");
        assert_true(memory_has_needle());
        /* It grows again and again, and only the last place may hold it. */
        for (int i = 0; i < 20000; i++)
                strbuf_append(&buffer, "0123456789");
        memset(buffer.data, 'x', NEEDLE_SIZE);
        assert_false(memory_has_needle());
        strbuf_clear(&buffer);
        write_needle(&buffer, "", "");
        moved = buffer;
        strbuf_release(&moved);
        assert_false(memory_has_needle());
        assert_true(moved.secret);
}

/* Neither the values nor the parser's and the writer's own buffers, whether the text is right or not. */
static void json_of_secrets_leaves_none(void **state) {
        static const char *const behind[] = { "\", \"b\": [1]}", "\"", "\", \"\\u12", "" };

        (void)state;
        for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
                struct strbuf text = STRBUF_SECRET;
                json_t *json;

                write_needle(&text, "{\"a\": \"", behind[i]);
                json_secret_begin();
                json = json_loadb(text.data, text.length, 0, NULL);
                strbuf_release(&text);
                if (i == 0) {
                        char *written = json_compact(json);

                        assert_true(memory_has_needle());
                        explicit_bzero(written, strlen(written));
                        free(written);
                }
                json_secret_end();
                assert_true((i == 0) == (json != NULL));
                json_forget(json);
                assert_false(memory_has_needle());
        }
}

static void arena_texts(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        assert_null(arena_strdup(arena, NULL));
        assert_string_equal(arena_strdup(arena, "text"), "text");
        assert_memory_equal(arena_strndup(arena, "a\0b", 3), "a\0b", 4);
        assert_string_equal(arena_printf(arena, "%d %s", 7, "x"), "7 x");
}

static void arrays_grow(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint16_t *items = NULL, *full = NULL;
        size_t moves = 0;

        (void)state;
        for (size_t count = 0; count < 1000; count++) {
                uint16_t *grown = array_grow(arena, items, count, sizeof(*items));

                if (!grown)
                        abort();
                moves += grown != items;
                if (count == 512)
                        full = items;
                items = grown;
                assert_int_equal(items[count], 0);
                items[count] = (uint16_t)(count + 1);
        }
        for (size_t i = 0; i < 1000; i++)
                assert_int_equal(items[i], i + 1);
        assert_int_equal(moves, 9); /* 4 8 16 32 64 128 256 512 1024 */
        /* The array that was replaced is left as it was, for readers that still use it. */
        assert_ptr_not_equal(full, items);
        items[0] = 7;
        assert_int_equal(full[0], 1);
        assert_int_equal(full[511], 512);
        /* An array that has lost items has the room that it had. */
        assert_ptr_equal(array_grow(arena, items, 3, sizeof(*items)), items);
}

/* An array of three that was made elsewhere may lack room for a fourth. */
static void an_array_made_elsewhere_is_refused(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint16_t *items = (uint16_t *)arena_alloc(arena, 64) + 24;
        pid_t child = fork();
        int status;

        (void)state;
        assert_true(child >= 0);
        if (child == 0) {
                setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
                signal(SIGABRT, SIG_DFL);
                _exit(array_grow(arena, items, 3, sizeof(*items)) == items ? 1 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
}

static int compare_numbers(const void *sought, const void *item) {
        int a = *(const int *)sought, b = *(const int *)item;

        return (a > b) - (a < b);
}

static void places_in_sorted_arrays(void **state) {
        static const int items[] = { 1, 3, 3, 3, 7 };
        static const struct {
                int sought;
                size_t count, place;
        } cases[] = {
                { 0, 5, 0 }, { 1, 5, 0 }, { 2, 5, 1 }, { 3, 5, 1 }, { 4, 5, 4 },
                { 7, 5, 4 }, { 8, 5, 5 }, { 3, 2, 1 }, { 9, 1, 1 }, { 1, 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(sorted_first(items, cases[i].count, sizeof(*items), &cases[i].sought,
                                              compare_numbers),
                                 cases[i].place);
        assert_int_equal(sorted_first(NULL, 0, sizeof(int), &cases[0].sought, compare_numbers), 0);
}

static void strbuf_keeps_its_limit(void **state) {
        struct strbuf buffer STRBUF_CLEANUP = { .limit = 5 };

        (void)state;
        assert_string_equal(strbuf_text(&buffer), "");
        strbuf_append(&buffer, "abc");
        strbuf_append(&buffer, "def");
        assert_true(buffer.overflow);
        assert_string_equal(strbuf_text(&buffer), "abc");
        strbuf_clear(&buffer);
        strbuf_printf(&buffer, "%s", "abcde");
        assert_false(buffer.overflow);
        assert_string_equal(strbuf_text(&buffer), "abcde");
}

static void strbuf_gives_away(void **state) {
        struct strbuf buffer = STRBUF_INIT;
        char *text = strbuf_take(&buffer);

        (void)state;
        assert_string_equal(text, "");
        free(text);
        strbuf_append_bytes(&buffer, "a\0b", 3);
        text = strbuf_take(&buffer);
        assert_memory_equal(text, "a\0b", 4);
        assert_null(buffer.data);
        free(text);
}

static void errors_take_context(void **state) {
        struct error err = { 0 };
        char text[3000];

        (void)state;
        assert_int_equal(error_set_kind(&err, ERROR_LOCKED, "pid %d", 7), -1);
        assert_int_equal(error_context(&err, "state in %s", "x"), -1);
        assert_string_equal(err.message, "state in x: pid 7");
        assert_int_equal(err.kind, ERROR_LOCKED);
        /* An argument may be the message itself. */
        error_set(&err, "again: %s", err.message);
        assert_string_equal(err.message, "again: state in x: pid 7");
        assert_int_equal(err.kind, ERROR_FAILED);
        memset(text, 'm', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        error_set(&err, "%s", text);
        error_context(&err, "%s", text);
        assert_true(strlen(err.message) < sizeof(err.message));
        assert_true(strlen(err.message) > 1500);
        /* A short context costs a long message no more than its own length. */
        error_set(&err, "%s", text);
        error_context(&err, "x");
        assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(arena_gives_zeroed_aligned_memory),
                cmocka_unit_test(arena_texts_fit_and_leave_zeroes),
                cmocka_unit_test(cleared_arena_starts_anew),
                cmocka_unit_test(an_arena_of_secrets_leaves_none),
                cmocka_unit_test(a_buffer_of_secrets_leaves_none),
                cmocka_unit_test(json_of_secrets_leaves_none),
                cmocka_unit_test(arena_texts),
                cmocka_unit_test(arrays_grow),
                cmocka_unit_test(an_array_made_elsewhere_is_refused),
                cmocka_unit_test(places_in_sorted_arrays),
                cmocka_unit_test(strbuf_keeps_its_limit),
                cmocka_unit_test(strbuf_gives_away),
                cmocka_unit_test(errors_take_context),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
