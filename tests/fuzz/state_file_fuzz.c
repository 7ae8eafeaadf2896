/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary bytes as the state's file: LMDB trusts what it maps, so that whatever state_open() lets through must be
 * readable to the last record, and writable, without a crash.
 */
#include "base/files.h"
#include "parts.h"
#include "state/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Pauses are for other writers, which do not exist here. */
int __wrap_nanosleep(const struct timespec *request, struct timespec *left);
int __wrap_nanosleep(const struct timespec *request, struct timespec *left) {
        (void)request;
        (void)left;
        return 0;
}

static void place_file(const char *folder, const uint8_t *data, size_t size) {
        char *path TEXT_CLEANUP = path_join(folder, "data.mdb");
        int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
                abort();
        close(descriptor);
}

/* Whatever can be loaded; errors are as good as values. */
static void load_all(struct state *state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record *records;
        struct sighting *sightings;
        struct binding *bindings;
        struct override *overrides;
        struct journal_entry *journal;
        struct history_entry *history;
        struct lease_holder *holder;
        const char **problems, *name;
        size_t count;
        uint64_t serial;
        struct error err;

        if (state_load_records(state, arena, &records, &count, &err) == 0) {
                for (size_t i = 0; i < count; i++) {
                        if (record_decode(&records[i], arena, &err) < 0 && err.message[0] == '\0')
                                abort();
                }
        }
        if (state_load_sightings(state, arena, &sightings, &count, &err) == 0) {
                for (size_t i = 0; i < count; i++) {
                        if (sighting_decode(&sightings[i], arena, &err) < 0 && err.message[0] == '\0')
                                abort();
                }
        }
        if (state_load_sighting_heads(state, arena, &sightings, &count, &err) < 0 ||
            state_load_bindings(state, arena, &bindings, &count, &err) < 0 ||
            state_load_overrides(state, arena, &overrides, &count, &err) < 0 ||
            state_load_journal(state, arena, &journal, &count, &err) < 0 ||
            state_load_history(state, 0, arena, &history, &count, &err) < 0 ||
            state_load_meta(state, "stack", arena, &name, &err) < 0 ||
            state_lease_show(state, arena, &holder, &err) < 0 || state_serial(state, &serial, &err) < 0 ||
            state_verify(state, arena, &problems, &count, &err) < 0) {
                if (err.message[0] == '\0')
                        abort();
        }
}

static void write_some(struct state *state) {
        struct binding binding = { "a", "Agent/fuzz", true };
        struct state_op ops[] = { { .type = STATE_PUT_BINDING, .binding = &binding },
                                  { .type = STATE_DELETE_RECORD, .address = "Environment/a" },
                                  { .type = STATE_DELETE_SIGHTING, .address = "Environment/a" } };
        struct error err;

        if (state_commit(state, ops, sizeof(ops) / sizeof(ops[0]), &err) < 0 && err.message[0] == '\0')
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const enum state_mode modes[] = { STATE_READ, STATE_CREATE };
        const char *folder = scratch_folder();
        struct state *state;
        struct error err;

        if (size == 0)
                return 0;
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                place_file(folder, data, size);
                if (state_open(folder, modes[i], &state, &err) < 0) {
                        if (err.message[0] == '\0')
                                abort();
                        continue;
                }
                load_all(state);
                if (modes[i] == STATE_CREATE)
                        write_some(state);
                state_close(state);
        }
        return 0;
}
