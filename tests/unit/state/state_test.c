/* SPDX-License-Identifier: Apache-2.0 */
/* Round trips of every operation, the serial's rules, opening and reading absent states. */
#include "support.h"

#include "state/state_parts.h"

#include <sched.h>
#include <sys/mount.h>

static void absent_state_reads_as_empty(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "no/such/folder", arena);
        struct state *state = open_state(folder, STATE_READ);
        struct error err = { 0 };
        struct record *records;
        struct sighting *sightings;
        struct binding *bindings;
        struct journal_entry *journal;
        struct history_entry *history;
        struct lease_holder *holder;
        struct stat status;
        const char *text;
        size_t count = 1;

        assert_string_equal(state_lineage(state), "");
        assert_string_equal(state_folder(state), folder);
        assert_int_equal(serial_of(state), 0);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(state_load_sightings(state, arena, &sightings, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(state_load_bindings(state, arena, &bindings, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(state_load_journal(state, arena, &journal, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(state_load_history(state, 0, arena, &history, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(state_load_meta(state, "stack", arena, &text, &err), 0);
        assert_null(text);
        assert_int_equal(state_lease_show(state, arena, &holder, &err), 0);
        assert_null(holder);
        assert_int_equal(verify_state(state, arena, NULL), 0);
        assert_int_equal(state_backup(state, below(*place, "backup", arena), &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(state_lease_acquire(state, "apply", &err), -1);
        assert_int_equal(lstat(below(*place, "no", arena), &status), -1);
        state_close(state);
}

static void files_are_private(void **place) {
        static const char *const names[] = { "data.mdb", "lock.mdb", "lineage" };
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "a/state", arena);
        struct stat status;
        mode_t before = umask(0);

        state_close(open_state(folder, STATE_CREATE));
        umask(before);
        assert_int_equal(stat(folder, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0700);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                assert_int_equal(stat(below(folder, names[i], arena), &status), 0);
                assert_int_equal(status.st_mode & 0777, 0600);
        }
        assert_int_equal(stat(below(folder, "new", arena), &status), -1);
}

/*
 * A state is made in "new" below its folder, and what a dead process left there goes first: a
 * user's own state there does not.
 */
static void a_state_in_a_folder_called_new_stays(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *inner = below(*place, "states/new", arena), *outer = below(*place, "states", arena);
        struct state *state = open_state(inner, STATE_CREATE);
        const char *lineage = arena_strdup(arena, state_lineage(state));
        struct error err = { 0 };

        state_close(state);
        assert_int_equal(state_open(outer, STATE_CREATE, &state, &err), -1);
        expect_text(err.message, "another one lies in");
        state = open_state(inner, STATE_READ);
        assert_string_equal(state_lineage(state), lineage);
        state_close(state);
}

static void identity_stays(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "state", arena), *lineage;
        struct state *state = open_state(folder, STATE_CREATE);
        uint8_t key[SHA256_SIZE], zero[SHA256_SIZE] = { 0 };

        lineage = arena_strdup(arena, state_lineage(state));
        memcpy(key, state_secret_key(state), sizeof(key));
        assert_int_equal(strlen(lineage), 36);
        assert_memory_not_equal(key, zero, sizeof(key));
        state_close(state);
        state = open_state(folder, STATE_READ);
        assert_string_equal(state_lineage(state), lineage);
        assert_memory_equal(state_secret_key(state), key, sizeof(key));
        state_close(state);
        state = open_state(below(*place, "other", arena), STATE_CREATE);
        assert_string_not_equal(state_lineage(state), lineage);
        assert_memory_not_equal(state_secret_key(state), key, sizeof(key));
        state_close(state);
}

static struct value *rich_spec(struct arena *arena) {
        struct value *spec = value_new_map(arena), *list = value_new_list(arena),
                     *inner = value_new_map(arena);
        struct value secret = value_text(arena, "correct horse battery");

        secret.sensitive = true;
        value_append(arena, list, value_integer(-3));
        value_append(arena, list, value_text(arena, "gr\xc3\xbc\xc3\x9f \"dich\"\n"));
        value_append(arena, list, value_null());
        value_set(arena, inner, "PASSWORD", secret);
        value_set_text(arena, inner, "PLAIN", "yes");
        value_set(arena, spec, "list", *list);
        value_set(arena, spec, "variables", *inner);
        value_set_boolean(arena, spec, "protect", true);
        value_set_integer(arena, spec, "large", INT64_MAX);
        return spec;
}

static bool file_contains(const char *path, const char *text) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        if (file_read(path, SIZE_MAX / 2, &bytes, &err) < 0)
                fail_msg("%s", err.message);
        return memmem(bytes.data, bytes.length, text, strlen(text)) != NULL;
}

static void records_round_trip(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "state", arena);
        struct state *state = open_state(folder, STATE_CREATE);
        struct value *spec = rich_spec(arena);
        struct record full = {
                .address = "Environment/b",
                .provider = "aws",
                .id = "alphaagent-env-b",
                .spec = spec,
                .applied_ms = 1700000000123,
                .source = { 1, 2, [SOURCE_SIZE - 1] = 0xFF },
                .incomplete = true,
                .serial = 999, /* not the caller's to say */
        };
        struct record bare = { .address = "Agent/a", .provider = "aws", .spec = value_new_map(arena) };
        struct state_op ops[] = {
                { .type = STATE_PUT_RECORD, .record = &full },
                { .type = STATE_PUT_RECORD, .record = &bare },
        };
        struct record *records;
        struct error err = { 0 };
        size_t count;

        value_fingerprint(spec, state_secret_key(state), full.fingerprint);
        value_fingerprint(bare.spec, state_secret_key(state), bare.fingerprint);
        commit_ops(state, ops, 2);
        state_close(state);
        assert_false(file_contains(below(folder, "data.mdb", arena), "correct horse"));

        state = open_state(folder, STATE_READ);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_int_equal(count, 2);
        assert_string_equal(records[0].address, "Agent/a");
        assert_null(records[0].id);
        assert_false(records[0].incomplete);
        assert_string_equal(records[1].address, "Environment/b");
        assert_string_equal(records[1].provider, "aws");
        assert_string_equal(records[1].id, "alphaagent-env-b");
        assert_memory_equal(records[1].fingerprint, full.fingerprint, SHA256_SIZE);
        assert_memory_equal(records[1].source, full.source, SOURCE_SIZE);
        assert_int_equal(records[1].serial, 1);
        assert_int_equal(records[1].applied_ms, 1700000000123);
        assert_true(records[1].incomplete);
        assert_null(records[1].spec);
        assert_int_equal(record_decode(&records[1], arena, &err), 0);
        assert_true(value_equal(records[1].spec, spec, state_secret_key(state)));
        assert_int_equal(value_get_integer(records[1].spec, "large", 0), INT64_MAX);
        assert_int_equal(value_path(records[1].spec, "variables.PASSWORD")->type, VALUE_SECRET);
        assert_int_equal(verify_state(state, arena, NULL), 0);
        state_close(state);
}

static void undecoded_record_keeps_its_spec(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct record *records, empty = { .address = "Agent/none", .provider = "aws" };
        struct state_op op = { .type = STATE_PUT_RECORD };
        struct error err = { 0 };
        size_t count;

        put_record(state, "Agent/x", "kept");
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        records[0].incomplete = true;
        op.record = &records[0];
        commit_ops(state, &op, 1);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_true(records[0].incomplete);
        assert_int_equal(record_decode(&records[0], arena, &err), 0);
        assert_string_equal(value_get_text(records[0].spec, "text"), "kept");

        op.record = &empty;
        assert_int_equal(state_commit(state, &op, 1, &err), -1);
        expect_text(err.message, "Agent/none");
        state_close(state);
}

static void sightings_round_trip(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct sighting full = {
                .address = "Environment/x",
                .exists = true,
                .id = "function",
                .fingerprint = "revision",
                .owner = "other",
                .health_reason = "why",
                .ownership = 2,
                .health = -1,
                .spec = rich_spec(arena),
                .extra = value_new_map(arena),
                .seen_ms = 42,
        };
        struct sighting absent = { .address = "Environment/y" };
        struct state_op ops[] = {
                { .type = STATE_PUT_SIGHTING, .sighting = &full },
                { .type = STATE_PUT_SIGHTING, .sighting = &absent },
        };
        struct sighting *sightings;
        struct error err = { 0 };
        size_t count;

        commit_ops(state, ops, 2);
        assert_int_equal(serial_of(state), 0);
        assert_int_equal(state_load_sightings(state, arena, &sightings, &count, &err), 0);
        assert_int_equal(count, 2);
        assert_true(sightings[0].exists);
        assert_string_equal(sightings[0].id, "function");
        assert_string_equal(sightings[0].fingerprint, "revision");
        assert_string_equal(sightings[0].owner, "other");
        assert_string_equal(sightings[0].health_reason, "why");
        assert_int_equal(sightings[0].ownership, 2);
        assert_int_equal(sightings[0].health, -1);
        assert_int_equal(sightings[0].seen_ms, 42);
        assert_null(sightings[0].spec);
        assert_int_equal(sighting_decode(&sightings[0], arena, &err), 0);
        assert_true(value_equal(sightings[0].spec, full.spec, state_secret_key(state)));
        assert_non_null(sightings[0].extra);
        assert_false(sightings[1].exists);
        assert_null(sightings[1].id);
        assert_null(sightings[1].fingerprint);
        assert_int_equal(sighting_decode(&sightings[1], arena, &err), 0);
        assert_null(sightings[1].spec);
        assert_null(sightings[1].extra);

        ops[0] = (struct state_op){ .type = STATE_DELETE_SIGHTING, .address = "Environment/x" };
        commit_ops(state, ops, 1);
        assert_int_equal(state_load_sightings(state, arena, &sightings, &count, &err), 0);
        assert_int_equal(count, 1);
        assert_string_equal(sightings[0].address, "Environment/y");
        state_close(state);
}

static void bindings_round_trip(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct binding first = { "one", "Agent/a", true }, moved = { "two", "Agent/a", false },
                       swarm = { "one", "Swarm/s", true }, none = { NULL, "Agent/z", true };
        struct state_op ops[] = {
                { .type = STATE_PUT_BINDING, .binding = &first },
                { .type = STATE_PUT_BINDING, .binding = &swarm },
                { .type = STATE_PUT_BINDING, .binding = &moved },
        };
        struct binding *bindings;
        struct error err = { 0 };
        size_t count;

        commit_ops(state, ops, 3);
        assert_int_equal(state_load_bindings(state, arena, &bindings, &count, &err), 0);
        assert_int_equal(count, 2);
        assert_string_equal(bindings[0].dependent, "Agent/a");
        assert_string_equal(bindings[0].environment, "two");
        assert_false(bindings[0].active);
        assert_string_equal(bindings[1].dependent, "Swarm/s");
        assert_true(bindings[1].active);

        ops[0] = (struct state_op){ .type = STATE_DELETE_BINDING, .address = "Agent/a" };
        ops[1] = (struct state_op){ .type = STATE_DELETE_BINDING, .address = "Agent/never-there" };
        commit_ops(state, ops, 2);
        assert_int_equal(state_load_bindings(state, arena, &bindings, &count, &err), 0);
        assert_int_equal(count, 1);
        ops[0] = (struct state_op){ .type = STATE_PUT_BINDING, .binding = &none };
        assert_int_equal(state_commit(state, ops, 1, &err), -1);
        state_close(state);
}

static void overrides_round_trip(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct override first = { "Agent/a", "one" }, second = { "Swarm/s", "two" },
                        none = { "Agent/z", NULL };
        struct state_op ops[] = {
                { .type = STATE_PUT_OVERRIDE, .override = &second },
                { .type = STATE_PUT_OVERRIDE, .override = &first },
        };
        struct override *overrides;
        struct error err = { 0 };
        size_t count;

        commit_ops(state, ops, 2);
        assert_int_equal(serial_of(state), 1);
        assert_int_equal(state_load_overrides(state, arena, &overrides, &count, &err), 0);
        assert_int_equal(count, 2);
        assert_string_equal(overrides[0].dependent, "Agent/a");
        assert_string_equal(overrides[0].environment, "one");
        assert_string_equal(overrides[1].dependent, "Swarm/s");
        assert_string_equal(overrides[1].environment, "two");
        expect_sound(state);

        ops[0] = (struct state_op){ .type = STATE_DELETE_OVERRIDE, .address = "Agent/a" };
        commit_ops(state, ops, 1);
        assert_int_equal(serial_of(state), 2);
        assert_int_equal(state_load_overrides(state, arena, &overrides, &count, &err), 0);
        assert_int_equal(count, 1);
        ops[0] = (struct state_op){ .type = STATE_PUT_OVERRIDE, .override = &none };
        assert_int_equal(state_commit(state, ops, 1, &err), -1);
        state_close(state);
}

static void journal_cycle(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct value *data = value_new_map(arena);
        struct journal_entry entry = {
                .run = 1,
                .address = "Environment/x",
                .action = "create",
                .stage = 0,
                .answered = true, /* the operation says, not this */
                .at_ms = 5,
        };
        struct state_op op = { .type = STATE_JOURNAL_BEGIN, .journal = &entry };
        struct journal_entry *journal;
        struct error err = { 0 };
        size_t count;

        commit_ops(state, &op, 1);
        assert_int_equal(state_load_journal(state, arena, &journal, &count, &err), 0);
        assert_int_equal(count, 1);
        assert_string_equal(journal[0].address, "Environment/x");
        assert_string_equal(journal[0].action, "create");
        assert_int_equal(journal[0].run, 1);
        assert_int_equal(journal[0].stage, 0);
        assert_false(journal[0].answered);
        assert_null(journal[0].data);
        assert_int_equal(journal[0].at_ms, 5);

        value_set_text(arena, data, "revision", "r1");
        entry.data = data;
        entry.stage = 2;
        op.type = STATE_JOURNAL_ANSWER;
        commit_ops(state, &op, 1);
        assert_int_equal(state_load_journal(state, arena, &journal, &count, &err), 0);
        assert_int_equal(count, 1);
        assert_true(journal[0].answered);
        assert_int_equal(journal[0].stage, 2);
        assert_string_equal(value_get_text(journal[0].data, "revision"), "r1");

        op = (struct state_op){ .type = STATE_JOURNAL_END, .address = "Environment/x" };
        commit_ops(state, &op, 1);
        assert_int_equal(state_load_journal(state, arena, &journal, &count, &err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(serial_of(state), 0);
        state_close(state);
}

static void history_newest_first(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct history_entry *history;
        struct error err = { 0 };
        size_t count;

        for (uint64_t i = 1; i <= 12; i++) {
                struct history_entry entry = {
                        .at_ms = (int64_t)i,
                        .who = "me@here",
                        .command = "apply",
                        .commit = i % 2 ? "abc" : NULL,
                        .outcome = "begun",
                };
                struct state_op op = { .type = STATE_PUT_HISTORY, .history = &entry };

                assert_int_equal(state_new_run(state, &entry.run, &err), 0);
                assert_int_equal(entry.run, i);
                commit_ops(state, &op, 1);
                entry.outcome = "done";
                entry.serial = i + 100;
                entry.detail = i == 12 ? rich_spec(arena) : NULL;
                commit_ops(state, &op, 1);
        }
        assert_int_equal(state_load_history(state, 0, arena, &history, &count, &err), 0);
        assert_int_equal(count, 12);
        assert_int_equal(history[0].run, 12);
        assert_int_equal(history[11].run, 1);
        assert_int_equal(history[0].serial, 112);
        assert_string_equal(history[0].outcome, "done");
        assert_string_equal(history[0].who, "me@here");
        assert_null(history[0].commit);
        assert_string_equal(history[1].commit, "abc");
        assert_null(history[1].detail);
        assert_int_equal(value_path(history[0].detail, "variables.PASSWORD")->type, VALUE_SECRET);
        assert_int_equal(state_load_history(state, 3, arena, &history, &count, &err), 0);
        assert_int_equal(count, 3);
        assert_int_equal(history[2].run, 10);
        assert_int_equal(verify_state(state, arena, NULL), 0);
        state_close(state);
}

static uint64_t one_run(struct state *state) {
        struct history_entry entry = { .who = "me@here", .command = "apply", .outcome = "begun" };
        struct state_op op = { .type = STATE_PUT_HISTORY, .history = &entry };
        struct error err;

        assert_int_equal(state_new_run(state, &entry.run, &err), 0);
        commit_ops(state, &op, 1);
        return entry.run;
}

/* The last STATE_HISTORY_KEPT stay, the one under way among them; one that left no entry is no hole for older ones. */
static void history_is_pruned(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct history_entry *history;
        struct error err = { 0 };
        uint64_t silent;
        size_t count;

        for (uint64_t i = 1; i <= STATE_HISTORY_KEPT; i++)
                one_run(state);
        assert_int_equal(state_load_history(state, 0, arena, &history, &count, &err), 0);
        assert_int_equal(count, STATE_HISTORY_KEPT);
        assert_int_equal(history[count - 1].run, 1);

        one_run(state);
        assert_int_equal(state_load_history(state, 0, arena, &history, &count, &err), 0);
        assert_int_equal(count, STATE_HISTORY_KEPT);
        assert_int_equal(history[0].run, STATE_HISTORY_KEPT + 1);
        assert_int_equal(history[count - 1].run, 2);

        for (int i = 0; i < 10; i++)
                assert_int_equal(state_new_run(state, &silent, &err), 0);
        assert_int_equal(state_load_history(state, 0, arena, &history, &count, &err), 0);
        assert_int_equal(count, STATE_HISTORY_KEPT - 10);
        assert_int_equal(history[count - 1].run, 12);
        assert_int_equal(verify_state(state, arena, NULL), 0);
        state_close(state);
}

static void meta_round_trip(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct state_op ops[] = {
                { .type = STATE_PUT_META, .meta = { "stack", "research" } },
                { .type = STATE_PUT_META, .meta = { "serial", "no number" } }, /* its own room: no clash */
        };
        struct error err = { 0 };
        const char *text;

        commit_ops(state, ops, 2);
        assert_int_equal(state_load_meta(state, "stack", arena, &text, &err), 0);
        assert_string_equal(text, "research");
        assert_int_equal(state_load_meta(state, "region", arena, &text, &err), 0);
        assert_null(text);
        assert_int_equal(serial_of(state), 0);
        ops[0].meta.text = NULL;
        commit_ops(state, ops, 1);
        assert_int_equal(state_load_meta(state, "stack", arena, &text, &err), 0);
        assert_null(text);
        state_close(state);
}

static void serial_rises_once_a_call(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct record a = make_record(state, arena, "Agent/a", "a"),
                      b = make_record(state, arena, "Agent/b", "b");
        struct binding binding = { "e", "Agent/a", true };
        struct sighting sighting = { .address = "Agent/a" };
        struct journal_entry journal = { .address = "Agent/a", .action = "create" };
        struct state_op put_both[] = {
                { .type = STATE_PUT_RECORD, .record = &a },
                { .type = STATE_PUT_RECORD, .record = &b },
                { .type = STATE_PUT_BINDING, .binding = &binding },
                { .type = STATE_PUT_SIGHTING, .sighting = &sighting },
        };
        const struct {
                struct state_op op;
                uint64_t rise;
        } cases[] = {
                { { .type = STATE_PUT_RECORD, .record = &a }, 1 },
                { { .type = STATE_PUT_BINDING, .binding = &binding }, 1 },
                { { .type = STATE_DELETE_BINDING, .address = "Agent/a" }, 1 },
                { { .type = STATE_DELETE_RECORD, .address = "Agent/a" }, 1 },
                { { .type = STATE_PUT_SIGHTING, .sighting = &sighting }, 0 },
                { { .type = STATE_DELETE_SIGHTING, .address = "Agent/a" }, 0 },
                { { .type = STATE_JOURNAL_BEGIN, .journal = &journal }, 0 },
                { { .type = STATE_JOURNAL_END, .address = "Agent/a" }, 0 },
                { { .type = STATE_PUT_META, .meta = { "x", "y" } }, 0 },
        };
        struct error err = { 0 };
        struct record *records;
        size_t count;

        commit_ops(state, put_both, 4);
        assert_int_equal(serial_of(state), 1);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_int_equal(records[0].serial, 1);
        assert_int_equal(records[1].serial, 1);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint64_t before = serial_of(state);

                commit_ops(state, &cases[i].op, 1);
                assert_int_equal(serial_of(state), before + cases[i].rise);
        }
        commit_ops(state, NULL, 0);
        state_close(state);
}

static void bad_names_change_nothing(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        char long_name[600];
        const char *const names[] = { NULL, "", long_name };

        memset(long_name, 'x', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = '\0';
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                struct record good = make_record(state, arena, "Agent/a", "a");
                struct state_op ops[] = {
                        { .type = STATE_PUT_RECORD, .record = &good },
                        { .type = STATE_DELETE_RECORD, .address = names[i] },
                };
                struct error err = { 0 };
                struct record *records;
                size_t count;

                assert_int_equal(state_commit(state, ops, 2, &err), -1);
                assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
                assert_int_equal(count, 0);
                assert_int_equal(serial_of(state), 0);
        }
        state_close(state);
}

static void reading_never_writes(void **place) {
        struct state *state = open_state(*place, STATE_CREATE);
        struct state_op op = { .type = STATE_PUT_META, .meta = { "a", "b" } };
        struct error err = { 0 };
        uint64_t run;

        state_close(state);
        state = open_state(*place, STATE_READ);
        assert_int_equal(state_commit(state, &op, 1, &err), -1);
        expect_text(err.message, "reading only");
        assert_int_equal(state_new_run(state, &run, &err), -1);
        assert_int_equal(state_lease_acquire(state, "apply", &err), -1);
        assert_int_equal(state_lease_break(state, true, &err), -1);
        state_close(state);
}

static void second_open_in_a_process_is_refused(void **place) {
        struct state *state = open_state(*place, STATE_CREATE), *second;
        struct error err = { 0 };

        assert_int_equal(state_open(*place, STATE_READ, &second, &err), -1);
        expect_text(err.message, "already");
        state_close(state);
        state_close(open_state(*place, STATE_READ));
}

static void unusable_folders(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *file = below(*place, "file", arena);
        struct error err = { 0 };
        struct state *state;

        assert_int_equal(file_write_atomic(file, "x", 1, 0600, &err), 0);
        assert_int_equal(state_open(file, STATE_CREATE, &state, &err), -1);
        expect_text(err.message, file);
        assert_int_equal(state_open(file, STATE_READ, &state, &err), -1);
        assert_int_equal(state_open(below(file, "below", arena), STATE_CREATE, &state, &err), -1);
        assert_int_equal(state_open("/proc/berth-state", STATE_CREATE, &state, &err), -1);
        expect_text(err.message, "/proc/berth-state");
}

/* As a user without permission, which root never is: in a child that gives root up. */
static int open_as_nobody(const void *context) {
        const char *const *folders = context;
        struct error err = { 0 };
        struct state *state;

        if (setgid(65534) < 0 || setuid(65534) < 0)
                return 1;
        /* A state that may be read and not written: read without the lock file, not opened for writing. */
        if (state_open(folders[0], STATE_READ, &state, &err) < 0)
                return 2;
        if (serial_of(state) != 1)
                return 3;
        state_close(state);
        if (state_open(folders[0], STATE_CREATE, &state, &err) == 0 ||
            !strstr(err.message, "ermission denied"))
                return 4;
        if (state_open(folders[1], STATE_CREATE, &state, &err) == 0 ||
            !strstr(err.message, "ermission denied"))
                return 5;
        return 0;
}

static void permissions(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "state", arena),
                   *folders[] = { folder, below(*place, "other", arena) };
        struct state *state = open_state(folder, STATE_CREATE);

        if (geteuid() != 0)
                skip();
        put_record(state, "Agent/a", "a");
        state_close(state);
        REQUIRE(chmod(*place, 0755) == 0 && chmod(folder, 0755) == 0);
        REQUIRE(chmod(below(folder, "data.mdb", arena), 0644) == 0);
        REQUIRE(chmod(below(folder, "lineage", arena), 0644) == 0);
        assert_int_equal(in_child(open_as_nobody, folders), 0);
}

/* LMDB would leave its data file open for whatever Berth starts. */
static void nothing_is_inherited(void **place) {
        static const enum state_mode modes[] = { STATE_CREATE, STATE_READ };

        for (size_t i = 0; i < 2; i++) {
                struct state *state = open_state(*place, modes[i]);
                struct arena *arena ARENA_CLEANUP = arena_new();
                int ours = 0;

                for (int descriptor = 3; descriptor < 256; descriptor++) {
                        const char *link = arena_printf(arena, "/proc/self/fd/%d", descriptor);
                        char target[512] = { 0 };

                        if (readlink(link, target, sizeof(target) - 1) < 0 || !strstr(target, *place))
                                continue;
                        ours++;
                        if (!(fcntl(descriptor, F_GETFD) & FD_CLOEXEC))
                                fail_msg("%s is inherited", target);
                }
                assert_true(ours >= 2);
                state_close(state);
        }
}

enum { CANNOT_MOUNT = 77 };

static int read_on_read_only(const void *folder) {
        struct error err = { 0 };
        struct state *state;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(folder, folder, NULL, MS_BIND, NULL) < 0 ||
            mount("none", folder, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
                return CANNOT_MOUNT;
        if (state_open(folder, STATE_READ, &state, &err) < 0) {
                fprintf(stderr, "%s\n", err.message);
                return 1;
        }
        if (serial_of(state) != 1)
                return 2;
        state_close(state);
        if (state_open(folder, STATE_CREATE, &state, &err) == 0 ||
            !strstr(err.message, "Read-only file system"))
                return 3;
        return 0;
}

static void read_only_file_system(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        int result;

        put_record(state, "Agent/a", "a");
        state_close(state);
        for (int lock = 1; lock >= 0; lock--) {
                if (!lock)
                        REQUIRE(unlink(below(*place, "lock.mdb", arena)) == 0);
                result = in_child(read_on_read_only, *place);
                if (result == CANNOT_MOUNT) {
                        print_message("no permission to mount here\n");
                        skip();
                }
                assert_int_equal(result, 0);
        }
}

#define STATE_TEST(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

/*
 * Values that only another program can have written: whole by their checksum, and without what
 * every reader takes for granted.
 */
static void what_lacks_its_texts_is_an_error(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(below(*place, "state", arena), STATE_CREATE);
        struct record record = make_record(state, arena, "Agent/a", "one"), *records;
        const struct history_entry entry = { .run = 1, .who = "anna", .outcome = "done" };
        const struct state_op ops[] = { { .type = STATE_PUT_RECORD, .record = &record },
                                        { .type = STATE_PUT_HISTORY, .history = &entry } };
        struct history_entry *history;
        struct error err = { 0 };
        size_t count;

        record.provider = NULL;
        commit_ops(state, ops, 2);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), -1);
        expect_text(err.message, "names no provider");
        assert_int_equal(state_load_history(state, 0, arena, &history, &count, &err), -1);
        expect_text(err.message, "who did what");
        state_close(state);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                STATE_TEST(absent_state_reads_as_empty),
                STATE_TEST(files_are_private),
                STATE_TEST(a_state_in_a_folder_called_new_stays),
                STATE_TEST(identity_stays),
                STATE_TEST(records_round_trip),
                STATE_TEST(undecoded_record_keeps_its_spec),
                STATE_TEST(sightings_round_trip),
                STATE_TEST(bindings_round_trip),
                STATE_TEST(overrides_round_trip),
                STATE_TEST(journal_cycle),
                STATE_TEST(history_newest_first),
                STATE_TEST(history_is_pruned),
                STATE_TEST(meta_round_trip),
                STATE_TEST(serial_rises_once_a_call),
                STATE_TEST(bad_names_change_nothing),
                STATE_TEST(reading_never_writes),
                STATE_TEST(second_open_in_a_process_is_refused),
                STATE_TEST(unusable_folders),
                STATE_TEST(permissions),
                STATE_TEST(nothing_is_inherited),
                STATE_TEST(read_only_file_system),
                STATE_TEST(what_lacks_its_texts_is_an_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
