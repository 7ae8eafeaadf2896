/* SPDX-License-Identifier: Apache-2.0 */
/* The log is written, and then what enemies and power cuts do is done to its files. */
#include "approvals/audit.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ENTRIES 5

struct fixture {
        char folder[64], log[96], head[80];
};

static void add(struct audit *audit, const char *event) {
        struct error err;

        assert_int_equal(audit_append(audit, json_pack("{s:s}", "event", event), &err), 0);
}

static int set_up(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        struct audit *audit = NULL;
        struct error err;

        if (!fixture)
                return -1;
        snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/berth-audit-XXXXXX");
        if (!mkdtemp(fixture->folder))
                return -1;
        snprintf(fixture->log, sizeof(fixture->log), "%s/000000000001.log", fixture->folder);
        snprintf(fixture->head, sizeof(fixture->head), "%s/head", fixture->folder);
        *state = fixture;
        if (audit_open(fixture->folder, 0, NULL, NULL, &audit, &err) < 0)
                return -1;
        for (int i = 0; i < ENTRIES; i++)
                add(audit, "asked");
        audit_close(audit);
        return 0;
}

static int tear_down(void **state) {
        struct fixture *fixture = *state;

        unlink(fixture->log);
        unlink(fixture->head);
        rmdir(fixture->folder);
        free(fixture);
        return 0;
}

static struct audit_found look(const struct fixture *fixture) {
        struct audit_found found = { 0 };
        struct error err;

        assert_int_equal(audit_read(fixture->folder, NULL, NULL, &found, &err), 0);
        return found;
}

static bool opens(const struct fixture *fixture) {
        struct audit *audit = NULL;
        struct error err;
        bool opened = audit_open(fixture->folder, 0, NULL, NULL, &audit, &err) == 0;

        audit_close(audit);
        return opened;
}

/* find -print0 prints it, and the client that asks for a command chooses what that prints. */
static void test_nul_in_output(void **state) {
        const struct fixture *fixture = *state;
        struct audit *audit = NULL;
        struct error err;

        assert_int_equal(audit_open(fixture->folder, 0, NULL, NULL, &audit, &err), 0);
        assert_int_equal(
                audit_append(audit, json_pack("{s:s, s:s#}", "event", "ended", "content", "a\0b", 3), &err),
                0);
        audit_close(audit);
        assert_int_equal(look(fixture).state, AUDIT_WHOLE);
        assert_int_equal(look(fixture).entries, ENTRIES + 1);
        assert_true(opens(fixture));
}

static void read_log(const struct fixture *fixture, struct strbuf *ret) {
        struct error err;

        assert_int_equal(file_read(fixture->log, 1 << 20, ret, &err), 0);
}

static void write_log(const struct fixture *fixture, const char *bytes, size_t length) {
        FILE *file = fopen(fixture->log, "w");

        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, length, file), length);
        assert_int_equal(fclose(file), 0);
}

static void test_whole(void **state) {
        struct audit_found found = look(*state);

        assert_int_equal(found.state, AUDIT_WHOLE);
        assert_int_equal(found.entries, ENTRIES);
        assert_true(opens(*state));
}

/* Any byte that is another one is found; that of the last newline makes the last entry half a one, which the head knows. */
static void test_each_byte(void **state) {
        struct strbuf log STRBUF_CLEANUP = STRBUF_INIT;

        read_log(*state, &log);
        for (size_t i = 0; i < log.length; i++) {
                log.data[i] ^= 1;
                write_log(*state, log.data, log.length);
                if (look(*state).state != AUDIT_DAMAGED)
                        fail_msg("byte %zu may be another", i);
                log.data[i] ^= 1;
        }
        write_log(*state, log.data, log.length);
        assert_int_equal(look(*state).state, AUDIT_WHOLE);
}

/* Wherever it is cut: an entry whose head was written was answered, and is missed. */
static void test_each_cut(void **state) {
        struct strbuf log STRBUF_CLEANUP = STRBUF_INIT;

        read_log(*state, &log);
        for (size_t length = 0; length < log.length; length++) {
                write_log(*state, log.data, length);
                if (look(*state).state != AUDIT_DAMAGED)
                        fail_msg("it may be cut to %zu bytes", length);
        }
        assert_false(opens(*state));
}

/* A server that died in the midst of an entry: whatever of it is there goes, and what was answered stays. */
static void test_torn(void **state) {
        static const char *const torn[] = { "a", "0123 {\"event\":\"as" };
        struct strbuf log STRBUF_CLEANUP = STRBUF_INIT, torn_log STRBUF_CLEANUP = STRBUF_INIT;
        struct audit_found found;

        read_log(*state, &log);
        for (size_t i = 0; i < 2; i++) {
                strbuf_clear(&torn_log);
                strbuf_append_bytes(&torn_log, log.data, log.length);
                strbuf_append(&torn_log, torn[i]);
                write_log(*state, torn_log.data, torn_log.length);
                found = look(*state);
                assert_int_equal(found.state, AUDIT_TORN);
                assert_int_equal(found.torn_bytes, strlen(torn[i]));
                assert_int_equal(found.entries, ENTRIES);
        }
        assert_true(opens(*state));
        found = look(*state);
        assert_int_equal(found.state, AUDIT_WHOLE);
        assert_int_equal(found.entries, ENTRIES + 1); /* which says that something was cut */
}

/*
 * It died between an entry and its head: one entry more than the head says is whole, two are
 * invalid.
 */
static void test_head_behind(void **state) {
        struct fixture *fixture = *state;
        struct strbuf head STRBUF_CLEANUP = STRBUF_INIT;
        struct audit *audit = NULL;
        struct error err;

        assert_int_equal(file_read(fixture->head, 256, &head, &err), 0);
        for (int more = 1; more <= 2; more++) {
                assert_int_equal(audit_open(fixture->folder, 0, NULL, NULL, &audit, &err), 0);
                add(audit, "more");
                if (more == 2)
                        add(audit, "more");
                audit_close(audit);
                assert_int_equal(file_write_atomic(fixture->head, head.data, head.length, 0600, &err), 0);
                assert_int_equal(look(fixture).state, more == 1 ? AUDIT_WHOLE : AUDIT_DAMAGED);
                if (more == 1) {
                        assert_true(opens(fixture)); /* which sets it right */
                        strbuf_clear(&head);
                        assert_int_equal(file_read(fixture->head, 256, &head, &err), 0);
                }
        }
        unlink(fixture->head);
        assert_int_equal(look(fixture).state, AUDIT_DAMAGED);
        assert_false(opens(fixture));
}

/* Lines that are whole, in another order, twice, or not there. */
static void test_mixed_up(void **state) {
        static const char *const orders[] = { "12435", "1235", "2345", "123455", "1234", "54321" };
        struct strbuf log STRBUF_CLEANUP = STRBUF_INIT;
        const char *lines[ENTRIES + 1];

        read_log(*state, &log);
        lines[0] = strbuf_text(&log);
        for (size_t i = 1; i <= ENTRIES; i++)
                lines[i] = strchr(lines[i - 1], '\n') + 1;
        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
                struct strbuf mixed STRBUF_CLEANUP = STRBUF_INIT;

                for (const char *number = orders[i]; *number; number++) {
                        size_t at = (size_t)(*number - '1');

                        strbuf_append_bytes(&mixed, lines[at], (size_t)(lines[at + 1] - lines[at]));
                }
                write_log(*state, strbuf_text(&mixed), mixed.length);
                if (look(*state).state != AUDIT_DAMAGED)
                        fail_msg("the order %s was taken", orders[i]);
        }
}

static bool count_entry(void *context, const json_t *entry) {
        if (strcmp(json_text(entry, "event"), "large") == 0)
                ++*(size_t *)context;
        return true;
}

/* Large entries fill a file, and the chain goes on in the next. */
static void test_files(void **state) {
        struct fixture *fixture = *state;
        struct audit *audit = NULL;
        struct error err;
        struct audit_found found;
        size_t count = 0, length = (size_t)1 << 20;
        char *text = malloc(length + 1), command[128];

        assert_non_null(text);
        memset(text, 'x', length);
        text[length] = '\0';
        assert_int_equal(audit_open(fixture->folder, 0, NULL, NULL, &audit, &err), 0);
        for (int i = 0; i < 20; i++)
                assert_int_equal(
                        audit_append(audit, json_pack("{s:s, s:s}", "event", "large", "text", text), &err),
                        0);
        audit_close(audit);
        free(text);
        assert_int_equal(audit_read(fixture->folder, count_entry, &count, &found, &err), 0);
        assert_int_equal(found.state, AUDIT_WHOLE);
        assert_int_equal(found.entries, ENTRIES + 20);
        assert_int_equal(count, 20);
        assert_true(opens(fixture));
        /* The first file of two is gone. */
        unlink(fixture->log);
        assert_int_equal(look(fixture).state, AUDIT_DAMAGED);
        snprintf(command, sizeof(command), "%s/000000000021.log", fixture->folder);
        unlink(command);
}

/* A full disk takes the line, say, and no head any more: then nothing of that entry is found later, and the next one follows. */
static void test_head_that_cannot_be_written(void **state) {
        const struct fixture *fixture = *state;
        struct audit *audit = NULL;
        struct audit_found found;
        char kept[96];
        struct error err;

        snprintf(kept, sizeof(kept), "%s/kept", fixture->folder);
        assert_int_equal(audit_open(fixture->folder, 0, NULL, NULL, &audit, &err), 0);
        assert_int_equal(rename(fixture->head, kept), 0);
        assert_int_equal(mkdir(fixture->head, 0700), 0); /* no file can be put in its place */
        for (int i = 0; i < 2; i++)
                assert_int_equal(audit_append(audit, json_pack("{s:s}", "event", "refused"), &err), -1);
        assert_int_equal(rmdir(fixture->head), 0);
        assert_int_equal(rename(kept, fixture->head), 0);
        found = look(fixture);
        assert_int_equal(found.state, AUDIT_WHOLE);
        assert_int_equal(found.entries, ENTRIES);
        /* Once the file is the one that it was, the same server goes on. */
        add(audit, "asked");
        audit_close(audit);
        found = look(fixture);
        assert_int_equal(found.state, AUDIT_WHOLE);
        assert_int_equal(found.entries, ENTRIES + 1);
        assert_true(opens(fixture));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_whole, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_nul_in_output, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_each_byte, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_each_cut, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_torn, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_head_behind, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_mixed_up, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_head_that_cannot_be_written, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
