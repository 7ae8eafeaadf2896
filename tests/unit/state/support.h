/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the state share: a folder that goes away, children that must end by themselves, short builders. */
#ifndef BERTH_TESTS_STATE_SUPPORT_H
#define BERTH_TESTS_STATE_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "folder.h"
#include "state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka's assertions do not tell the compiler that they end the test. */
#define REQUIRE(condition) assert_true(condition)

/* A new folder for one test; in memory where there is room for that, since a disk syncs each of thousands of commits. */
static inline int make_place(void **state) {
        char memory[] = "/dev/shm/berth-state-XXXXXX", disk[] = "/tmp/berth-state-XXXXXX";
        char *path = mkdtemp(memory);

        if (!path)
                path = mkdtemp(disk);
        if (!path)
                return -1;
        *state = strdup(path);
        return *state ? 0 : -1;
}

static inline int remove_place(void **state) {
        folder_remove(*state);
        free(*state);
        return 0;
}

static inline const char *below(const char *place, const char *name, struct arena *arena) {
        return arena_printf(arena, "%s/%s", place, name);
}

static inline struct state *open_state(const char *folder, enum state_mode mode) {
        struct state *state = NULL;
        struct error err = { 0 };

        if (state_open(folder, mode, &state, &err) < 0)
                fail_msg("%s", err.message);
        return state;
}

static inline void commit_ops(struct state *state, const struct state_op *ops, size_t count) {
        struct error err = { 0 };

        if (state_commit(state, ops, count, &err) < 0)
                fail_msg("%s", err.message);
}

static inline uint64_t serial_of(struct state *state) {
        struct error err = { 0 };
        uint64_t serial = UINT64_MAX;

        if (state_serial(state, &serial, &err) < 0)
                fail_msg("%s", err.message);
        return serial;
}

/* A record with a spec of one text, fingerprint and all. */
static inline struct record make_record(struct state *state, struct arena *arena, const char *address,
                                        const char *text) {
        struct record record = {
                .address = address, .provider = "aws", .id = "an-id", .applied_ms = 1700000000123
        };
        struct value *spec = value_new_map(arena);

        value_set_text(arena, spec, "text", text);
        value_set_integer(arena, spec, "memoryMB", 2048);
        value_fingerprint(spec, state_secret_key(state), record.fingerprint);
        record.spec = spec;
        return record;
}

static inline void put_record(struct state *state, const char *address, const char *text) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record record = make_record(state, arena, address, text);
        struct state_op op = { .type = STATE_PUT_RECORD, .record = &record };

        commit_ops(state, &op, 1);
}

static inline size_t verify_state(struct state *state, struct arena *arena, const char ***ret) {
        struct error err = { 0 };
        const char **problems = NULL;
        size_t count = 0;

        if (state_verify(state, arena, &problems, &count, &err) < 0)
                fail_msg("%s", err.message);
        if (ret)
                *ret = problems;
        return count;
}

static inline void expect_sound(struct state *state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char **problems = NULL;

        if (verify_state(state, arena, &problems) > 0)
                fail_msg("%s", problems[0]);
}

/* Runs `body` in a child; its exit status, or -1 where a signal ended it. No state may be open in the parent. */
static inline int in_child(int (*body)(const void *), const void *context) {
        pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(body(context));
        if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
                return -1;
        return WEXITSTATUS(status);
}

static inline void expect_text(const char *text, const char *part) {
        if (!strstr(text, part))
                fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

#endif
