/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged files: opening one must end in an error that names it, or in the very same content. Never in a crash, never
 * in other content, never in a fresh start. Each try runs in a child, which must end by itself.
 *
 * BERTH_DAMAGE_STEP=N changes how many bytes lie between two flipped bits (1 flips one in each byte).
 */
#include "support.h"

#include "state/state_parts.h"

#include <inttypes.h>

#define RECORDS 120

enum outcome { SAME = 60, REFUSED = 61, OTHER = 62, NAMELESS = 63 };

struct sample {
        const char *folder, *data;
        struct strbuf bytes; /* of the sound file */
        uint8_t content[SHA256_SIZE];
        enum state_mode mode;
};

/* Small and large values, several levels of pages, freed pages, every database. */
static void fill(struct state *state) {
        struct error err = { 0 };

        for (int i = 0; i < RECORDS; i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const char *address = arena_printf(arena, "Agent/%03d", i);
                char *text = arena_alloc(arena, 9001);
                struct record record, environment = make_record(state, arena, "Environment/e", "e");
                struct sighting sighting = { .address = address, .exists = true, .fingerprint = "f" };
                struct binding binding = { "e", address, true };
                struct journal_entry journal = { .address = address, .action = "create" };
                struct history_entry history = { .who = "me", .command = "apply", .outcome = "done" };

                memset(text, 'a' + i % 26, i % 10 ? 300 : 9000);
                record = make_record(state, arena, address, text);
                sighting.spec = record.spec;
                REQUIRE(state_new_run(state, &history.run, &err) == 0);
                journal.run = history.run;
                struct state_op ops[] = {
                        { .type = STATE_PUT_RECORD, .record = &record },
                        { .type = STATE_PUT_RECORD, .record = &environment },
                        { .type = STATE_PUT_SIGHTING, .sighting = &sighting },
                        { .type = STATE_PUT_BINDING, .binding = &binding },
                        { .type = STATE_JOURNAL_BEGIN, .journal = &journal },
                        { .type = STATE_PUT_HISTORY, .history = &history },
                };
                commit_ops(state, ops, sizeof(ops) / sizeof(ops[0]));
        }
}

/* Everything that can be loaded, as one text. */
static int read_content(struct state *state, struct strbuf *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record *records;
        struct sighting *sightings;
        struct binding *bindings;
        struct journal_entry *journal;
        struct history_entry *history;
        size_t count, i;
        uint64_t serial;

        if (state_serial(state, &serial, err) < 0 ||
            state_load_records(state, arena, &records, &count, err) < 0)
                return -1;
        strbuf_printf(ret, "%s %" PRIu64 "\n", state_lineage(state), serial);
        strbuf_append_bytes(ret, state_secret_key(state), SHA256_SIZE);
        for (i = 0; i < count; i++) {
                strbuf_printf(ret, "%s %s %" PRIu64 " %s\n", records[i].address, records[i].id,
                              records[i].serial, records[i].raw);
                strbuf_append_bytes(ret, records[i].fingerprint, SHA256_SIZE);
                if (record_decode(&records[i], arena, err) < 0)
                        return -1;
        }
        if (state_load_sightings(state, arena, &sightings, &count, err) < 0)
                return -1;
        for (i = 0; i < count; i++)
                strbuf_printf(ret, "%s %d %s\n", sightings[i].address, sightings[i].exists, sightings[i].raw);
        if (state_load_bindings(state, arena, &bindings, &count, err) < 0)
                return -1;
        for (i = 0; i < count; i++)
                strbuf_printf(ret, "%s %s %d\n", bindings[i].dependent, bindings[i].environment,
                              bindings[i].active);
        if (state_load_journal(state, arena, &journal, &count, err) < 0)
                return -1;
        for (i = 0; i < count; i++)
                strbuf_printf(ret, "%s %s %" PRIu64 "\n", journal[i].address, journal[i].action,
                              journal[i].run);
        if (state_load_history(state, 0, arena, &history, &count, err) < 0)
                return -1;
        for (i = 0; i < count; i++)
                strbuf_printf(ret, "%" PRIu64 " %s %s\n", history[i].run, history[i].who, history[i].outcome);
        return 0;
}

static int digest_content(struct state *state, uint8_t ret[SHA256_SIZE], struct error *err) {
        struct strbuf content STRBUF_CLEANUP = STRBUF_INIT;

        if (read_content(state, &content, err) < 0)
                return -1;
        digest_sha256(content.data, content.length, ret);
        return 0;
}

static int refused(const struct sample *sample, const struct error *err) {
        /* Either the file is named or, for one value of it, the database and key; and what to do. */
        bool named = strstr(err->message, sample->folder) || strstr(err->message, "in the state's database");

        if (getenv("BERTH_DAMAGE_SHOW"))
                fprintf(stderr, "%s\n", err->message);
        if (named && strlen(err->message) > 30)
                return REFUSED;
        fprintf(stderr, "%s\n", err->message);
        return NAMELESS;
}

static int try_open(const void *context) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct sample *sample = context;
        uint8_t content[SHA256_SIZE];
        struct error err = { 0 };
        struct state *state;
        const char **problems;
        size_t count;

        if (state_open(sample->folder, sample->mode, &state, &err) < 0)
                return refused(sample, &err);
        if (digest_content(state, content, &err) < 0)
                return refused(sample, &err);
        if (memcmp(content, sample->content, sizeof(content)) != 0)
                return OTHER;
        if (state_verify(state, arena, &problems, &count, &err) < 0)
                return refused(sample, &err);
        /* A writer walks the lists of free pages and splits pages. */
        for (int i = 0; sample->mode == STATE_CREATE && i < 4; i++) {
                struct record record = make_record(state, arena, arena_printf(arena, "Swarm/%d", i), "new");
                struct state_op ops[] = {
                        { .type = STATE_PUT_RECORD, .record = &record },
                        { .type = STATE_DELETE_RECORD, .address = "Agent/050" },
                        { .type = STATE_DELETE_SIGHTING,
                          .address = arena_printf(arena, "Agent/%03d", i * 30) },
                };

                if (state_commit(state, ops, 3, &err) < 0)
                        return refused(sample, &err);
        }
        state_close(state);
        return SAME;
}

static void write_file(const char *path, const void *bytes, size_t length) {
        int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        REQUIRE(descriptor >= 0);
        REQUIRE(write(descriptor, bytes, length) == (ssize_t)length);
        close(descriptor);
}

static int make_sample(void **place) {
        struct sample *sample = calloc(1, sizeof(*sample));
        struct error err = { 0 };
        struct state *state;
        char *data;

        if (!sample || make_place((void **)&sample->folder) < 0)
                return -1;
        data = path_join(sample->folder, "data.mdb");
        sample->data = data;
        state = open_state(sample->folder, STATE_CREATE);
        fill(state);
        if (digest_content(state, sample->content, &err) < 0)
                return -1;
        state_close(state);
        *place = sample;
        return file_read(sample->data, SIZE_MAX / 2, &sample->bytes, &err);
}

static int remove_sample(void **place) {
        struct sample *sample = *place;
        void *folder = (void *)(uintptr_t)sample->folder;

        free((void *)(uintptr_t)sample->data);
        strbuf_release(&sample->bytes);
        remove_place(&folder);
        free(sample);
        return 0;
}

/* Tries the file in both modes. Returns how often it was refused. */
static int try_bytes(struct sample *sample, const void *bytes, size_t length, const char *what) {
        int refusals = 0;

        for (int mode = STATE_READ; mode <= STATE_CREATE; mode++) {
                int outcome;

                write_file(sample->data, bytes, length);
                sample->mode = (enum state_mode)mode;
                outcome = in_child(try_open, sample);
                if (outcome != SAME && outcome != REFUSED)
                        fail_msg("%s, mode %d: outcome %d", what, mode, outcome);
                refusals += outcome == REFUSED;
        }
        return refusals;
}

static void sound_file_is_the_same(void **place) {
        struct sample *sample = *place;

        assert_int_equal(try_bytes(sample, sample->bytes.data, sample->bytes.length, "sound"), 0);
}

static void flipped_bits(void **place) {
        struct sample *sample = *place;
        const char *step_text = getenv("BERTH_DAMAGE_STEP");
        size_t step = step_text ? strtoul(step_text, NULL, 10) : 0, refusals = 0, tries = 0;
        uint32_t random = 12345;

        /* Headers of pages and the two meta pages hold most of what can hurt: every fourth of their bytes. */
        for (size_t i = 0; i < sample->bytes.length; i += step ? step : 1) {
                size_t in_page = i % 4096;
                char what[64];

                random = random * 1664525 + 1013904223;
                if (!step && !(i < 8192 ? in_page < 160 && random >> 30 == 0
                                        : (in_page < 24 && random >> 27 == 0) || (random >> 16) % 1021 == 0))
                        continue;
                snprintf(what, sizeof(what), "byte %zu, bit %u", i, random >> 8 & 7);
                sample->bytes.data[i] ^= (char)(1 << (random >> 8 & 7));
                refusals += (size_t)try_bytes(sample, sample->bytes.data, sample->bytes.length, what);
                sample->bytes.data[i] ^= (char)(1 << (random >> 8 & 7));
                tries += 2;
        }
        print_message("%zu tries, %zu refused\n", tries, refusals);
        assert_true(refusals > tries / 10);
}

static void truncated(void **place) {
        struct sample *sample = *place;

        for (size_t length = 0; length < sample->bytes.length;
             length += length < 8192 ? 1021 : 4096 * 7 + 13) {
                char what[64];

                snprintf(what, sizeof(what), "cut to %zu bytes", length);
                /* A file may end in free pages: losing only those is no loss. */
                if (try_bytes(sample, sample->bytes.data, length, what) != 2 &&
                    length < sample->bytes.length / 2)
                        fail_msg("%s: accepted", what);
        }
}

static void zeroed_and_overwritten(void **place) {
        struct sample *sample = *place;
        static const char text[] = "These are my notes; I wrote them over the state by mistake.\n";
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        char *page = calloc(1, 4096);

        REQUIRE(page);
        assert_int_equal(try_bytes(sample, "", 0, "empty"), 2);
        assert_int_equal(try_bytes(sample, text, sizeof(text) - 1, "short text"), 2);
        for (size_t i = 0; i < 3000; i++)
                strbuf_append(&bytes, text);
        assert_int_equal(try_bytes(sample, bytes.data, bytes.length, "long text"), 2);
        memset(bytes.data, 0, bytes.length);
        assert_int_equal(try_bytes(sample, bytes.data, bytes.length, "zeroes"), 2);
        strbuf_clear(&bytes);
        strbuf_append_bytes(&bytes, sample->bytes.data, sample->bytes.length);
        for (size_t i = 0; i + 4096 <= bytes.length; i += 4096 * 3) {
                char what[64];

                memcpy(bytes.data + i, page, 4096);
                snprintf(what, sizeof(what), "page at %zu zeroed", i);
                try_bytes(sample, bytes.data, bytes.length, what);
                memset(bytes.data + i, 'x', 4096);
                try_bytes(sample, bytes.data, bytes.length, what);
                /* The page of another place, sound in itself. */
                memcpy(bytes.data + i, sample->bytes.data + (i + 8192) % (bytes.length - 4096) / 4096 * 4096,
                       4096);
                try_bytes(sample, bytes.data, bytes.length, what);
                memcpy(bytes.data + i, sample->bytes.data + i, 4096);
        }
        strbuf_append_bytes(&bytes, page, 4096);
        assert_int_equal(try_bytes(sample, bytes.data, bytes.length, "garbage behind"), 0);
        free(page);
}

static void lost_file_is_no_fresh_start(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sample *sample = *place;
        const char *lock = below(sample->folder, "lock.mdb", arena);
        const char *lineage = below(sample->folder, "lineage", arena);
        struct error err = { 0 };
        struct state *state;

        REQUIRE(unlink(sample->data) == 0);
        for (int mode = STATE_READ; mode <= STATE_CREATE; mode++) {
                assert_int_equal(state_open(sample->folder, (enum state_mode)mode, &state, &err), -1);
                expect_text(err.message, "data.mdb");
                expect_text(err.message, "berth state backup");
        }
        REQUIRE(unlink(lock) == 0);
        assert_int_equal(state_open(sample->folder, STATE_CREATE, &state, &err), -1);
        expect_text(err.message, "lineage");
        write_file(sample->data, sample->bytes.data, sample->bytes.length);
        write_file(lineage, "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f\n", 37);
        assert_int_equal(state_open(sample->folder, STATE_READ, &state, &err), -1);
        expect_text(err.message, "mixes two states");
        write_file(lineage, "nonsense", 8);
        assert_int_equal(state_open(sample->folder, STATE_CREATE, &state, &err), -1);
        expect_text(err.message, "lineage");
        REQUIRE(unlink(lineage) == 0);
        sample->mode = STATE_CREATE;
        assert_int_equal(in_child(try_open, sample), SAME);
        REQUIRE(access(lineage, R_OK) == 0);
}

static void lock_file_may_be_anything(void **place) {
        static const char text[] = "no lock at all";
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sample *sample = *place;
        const char *lock = below(sample->folder, "lock.mdb", arena);
        char *noise = arena_alloc(arena, 65536);

        write_file(lock, text, sizeof(text));
        assert_int_equal(try_bytes(sample, sample->bytes.data, sample->bytes.length, "lock of text"), 0);
        memset(noise, 0xa5, 65536);
        write_file(lock, noise, 65536);
        assert_int_equal(try_bytes(sample, sample->bytes.data, sample->bytes.length, "lock of noise"), 0);
        REQUIRE(unlink(lock) == 0);
        assert_int_equal(try_bytes(sample, sample->bytes.data, sample->bytes.length, "no lock"), 0);
        REQUIRE(unlink(lock) == 0 && mkdir(lock, 0700) == 0);
        sample->mode = STATE_CREATE;
        assert_int_equal(in_child(try_open, sample), REFUSED);
}

static void other_things_in_its_place(void **place) {
        struct sample *sample = *place;
        static const enum state_mode modes[] = { STATE_READ, STATE_CREATE };

        for (size_t i = 0; i < 2; i++) {
                sample->mode = modes[i];
                REQUIRE(unlink(sample->data) == 0 && mkdir(sample->data, 0700) == 0);
                assert_int_equal(in_child(try_open, sample), REFUSED);
                REQUIRE(rmdir(sample->data) == 0 && mkfifo(sample->data, 0600) == 0);
                assert_int_equal(in_child(try_open, sample), REFUSED);
                REQUIRE(unlink(sample->data) == 0 && symlink("nowhere", sample->data) == 0);
                assert_int_equal(in_child(try_open, sample), REFUSED);
        }
}

/* A value that is whole, under another key or in another database, is not taken for what it is not. */
static int swap_values(struct store_txn *txn, void *context, struct error *err) {
        struct slice value;
        uint8_t copy[1024];
        size_t length;

        (void)context;
        if (store_get(txn, STORE_RECORDED, "Agent/001", &value, err) != 1 || value.length > sizeof(copy))
                return -1;
        memcpy(copy, value.data, value.length);
        length = value.length;
        return store_put(txn, STORE_RECORDED, "Agent/002", copy, length, err);
}

static void values_belong_to_their_keys(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sample *sample = *place;
        struct state *state = open_state(sample->folder, STATE_CREATE);
        struct error err = { 0 };
        struct record *records;
        const char **problems = NULL;
        size_t count;

        REQUIRE(store_write(state->store, swap_values, NULL, &err) == 0);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), -1);
        expect_text(err.message, "\"Agent/002\" in the state's database \"recorded\"");
        expect_text(err.message, "berth state backup");
        assert_int_equal(verify_state(state, arena, &problems), 1);
        expect_text(problems[0], "Agent/002");
        state_close(state);
}

#define DAMAGE_TEST(test) cmocka_unit_test_setup_teardown(test, make_sample, remove_sample)

int main(void) {
        const struct CMUnitTest tests[] = {
                DAMAGE_TEST(sound_file_is_the_same),
                DAMAGE_TEST(flipped_bits),
                DAMAGE_TEST(truncated),
                DAMAGE_TEST(zeroed_and_overwritten),
                DAMAGE_TEST(lost_file_is_no_fresh_start),
                DAMAGE_TEST(lock_file_may_be_anything),
                DAMAGE_TEST(other_things_in_its_place),
                DAMAGE_TEST(values_belong_to_their_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
