/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `state rm` and `state mv` do to the state what an apply would, without the resource. They refuse whatever would
 * leave the state at odds with itself: a binding to an environment that it does not know, a record under a name from
 * which the next apply would make a second resource, a resource that a journal entry still speaks of.
 *
 * Sightings are forgotten rather than moved: the next plan reads the resource again.
 */
#include "controller/state_edit.h"

#include "base/strbuf.h"
#include "base/suggest.h"
#include "controller/history.h"
#include "schema/manifests.h"

#include <inttypes.h>
#include <string.h>

static void add_op(struct state_edit *edit, struct state_op op) {
        edit->ops[edit->count++] = op;
}

static struct record *find_record(struct record *records, size_t count, const char *address) {
        for (size_t i = 0; i < count; i++) {
                if (strcmp(records[i].address, address) == 0)
                        return &records[i];
        }
        return NULL;
}

int state_edit_not_found(const struct record *records, size_t count, const char *address, struct arena *arena,
                         struct error *err) {
        const char **names = arena_array(arena, count + 1, sizeof(*names)), *near;

        for (size_t i = 0; i < count; i++)
                names[i] = records[i].address;
        near = suggest_nearest(address, names, count);
        if (near)
                return error_set_kind(err, ERROR_NOT_FOUND, "the state has no %s; did you mean %s?", address,
                                      near);
        return error_set_kind(err, ERROR_NOT_FOUND, "the state has no %s; berth state list shows what it has",
                              address);
}

static int load_record_of(struct state *state, const char *address, struct arena *arena,
                          struct record **ret_records, size_t *ret_count, struct record **ret,
                          struct error *err) {
        if (state_load_records(state, arena, ret_records, ret_count, err) < 0)
                return -1;
        *ret = find_record(*ret_records, *ret_count, address);
        return *ret ? 0 : state_edit_not_found(*ret_records, *ret_count, address, arena, err);
}

/* Bindings outlive no environment: who still uses it has to be forgotten first. */
static int check_dependents(struct state *state, const char *address, const char *name, struct arena *arena,
                            struct error *err) {
        struct strbuf users STRBUF_CLEANUP = STRBUF_INIT;
        struct binding *bindings;
        size_t count;

        if (state_load_bindings(state, arena, &bindings, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(bindings[i].environment, name) == 0)
                        strbuf_printf(&users, "%s%s", users.length ? ", " : "", bindings[i].dependent);
        }
        if (users.length == 0)
                return 0;
        return error_set_kind(
                err, ERROR_REFUSED,
                "has-dependents: %s is still used by %s: forget these first (berth state rm), or re-point "
                "them and apply",
                address, strbuf_text(&users));
}

int state_edit_forget(struct state *state, const char *address, struct arena *arena, struct state_edit *ret,
                      struct error *err) {
        struct record *records, *record;
        const struct kind *kind;
        const char *name;
        struct state_edit edit = { 0 };
        size_t count;

        if (address_parse(address, &kind, &name, err) < 0 ||
            load_record_of(state, address, arena, &records, &count, &record, err) < 0)
                return -1;
        if (kind_is_bound_to(kind) && check_dependents(state, address, name, arena, err) < 0)
                return -1;
        edit.id = record->id;
        add_op(&edit, (struct state_op){ .type = STATE_DELETE_RECORD, .address = address });
        add_op(&edit, (struct state_op){ .type = STATE_DELETE_SIGHTING, .address = address });
        add_op(&edit, (struct state_op){ .type = STATE_JOURNAL_END, .address = address });
        if (kind_binding(kind)) {
                add_op(&edit, (struct state_op){ .type = STATE_DELETE_BINDING, .address = address });
                add_op(&edit, (struct state_op){ .type = STATE_DELETE_OVERRIDE, .address = address });
        }
        *ret = edit;
        return 0;
}

static int check_move(const struct kind *kind, const struct kind *to_kind, const struct record *record,
                      const char *to, struct error *err) {
        if (kind != to_kind)
                return error_set(err, "%s cannot become %s: a resource keeps its kind", record->address, to);
        if (strcmp(record->address, to) == 0)
                return error_set(err, "%s is its address already", to);
        if (kind->named_by_spec)
                return 0;
        return error_set(
                err,
                "%s cannot be moved: its name there (%s) follows from its name here, so the next "
                "apply would make another one for %s and leave this one unmanaged. Declare %s beside "
                "it, re-point the resources that use it, apply, then remove %s",
                record->address, record->id ? record->id : "its id", to, to, record->address);
}

static int check_journal(struct state *state, const char *from, const char *to, struct arena *arena,
                         struct error *err) {
        struct journal_entry *entries;
        size_t count;

        if (state_load_journal(state, arena, &entries, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(entries[i].address, from) == 0 || strcmp(entries[i].address, to) == 0)
                        return error_set(err, "an earlier run did not finish %s: run berth apply first",
                                         entries[i].address);
        }
        return 0;
}

int state_edit_move(struct state *state, const char *from, const char *to, struct arena *arena,
                    struct state_edit *ret, struct error *err) {
        struct record *records, *record;
        const struct kind *kind, *to_kind;
        const char *name, *to_name;
        struct state_edit edit = { 0 };
        size_t count;

        if (address_parse(from, &kind, &name, err) < 0 || address_parse(to, &to_kind, &to_name, err) < 0 ||
            load_record_of(state, from, arena, &records, &count, &record, err) < 0 ||
            check_move(kind, to_kind, record, to, err) < 0)
                return -1;
        if (find_record(records, count, to))
                return error_set(err, "the state has %s already: forget one of them first (berth state rm)",
                                 to);
        if (check_journal(state, from, to, arena, err) < 0 || record_decode(record, arena, err) < 0)
                return -1;
        edit.id = record->id;
        add_op(&edit, (struct state_op){ .type = STATE_DELETE_RECORD, .address = from });
        add_op(&edit, (struct state_op){ .type = STATE_DELETE_SIGHTING, .address = from });
        add_op(&edit, (struct state_op){ .type = STATE_DELETE_SIGHTING, .address = to });
        record->address = to;
        add_op(&edit, (struct state_op){ .type = STATE_PUT_RECORD, .record = record });
        *ret = edit;
        return 0;
}

int state_edit_commit(struct state *state, struct state_edit *edit, const char *command, const char *address,
                      int64_t wall_ms, struct arena *arena, struct error *err) {
        struct history_entry *entry = arena_alloc(arena, sizeof(*entry));

        if (history_of_edit(state, command, address, wall_ms, arena, entry, err) < 0)
                return -1;
        add_op(edit, (struct state_op){ .type = STATE_PUT_HISTORY, .history = entry });
        return state_commit(state, edit->ops, edit->count, err);
}

int state_edit_restore(struct state *state, const struct state_past *past, int64_t wall_ms,
                       struct arena *arena, struct error *err) {
        struct history_entry entry;

        if (history_of_edit(state, "state restore", arena_printf(arena, "serial %" PRIu64, past->serial),
                            wall_ms, arena, &entry, err) < 0)
                return -1;
        return state_past_restore(state, past, &entry, err);
}
