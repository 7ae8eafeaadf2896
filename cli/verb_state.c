/* SPDX-License-Identifier: Apache-2.0 */
/* The state's own tools: state list|show|history|restore|mv|rm|verify|backup, lock show|release. Each is a row of a table below. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "cli/perform.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/state_edit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define UNFINISHED_SHOWN 3

struct subverb {
        const char *name;
        size_t operands; /* at the most, after its name */
        bool changes;    /* opens an existing state to write; `run` itself takes the lease */
        bool gone_too;   /* also where the state has moved elsewhere */
        int (*run)(struct session *session, const struct options *options, struct error *err);
};

/* `state list`: addresses alone, one a line, for scripts. */
static int list_state(struct session *session, const struct options *options, struct error *err) {
        struct record *records;
        size_t count;

        if (state_load_records(session->state, session->arena, &records, &count, err) < 0)
                return -1;
        if (options->json) {
                json_t *list = json_array();

                for (size_t i = 0; i < count; i++)
                        json_array_append_new(list, json_string(records[i].address));
                print_json(list);
                return EXIT_DONE;
        }
        for (size_t i = 0; i < count; i++)
                puts(records[i].address);
        return EXIT_DONE;
}

static json_t *history_json(const struct history_entry *entry) {
        char at[32];

        clock_format(entry->at_ms, at, sizeof(at));
        return json_pack("{s:I, s:s, s:o, s:s, s:s?, s:s, s:o}", "run", (json_int_t)entry->run, "at", at,
                         "who", json_from_text(entry->who), "command", entry->command, "commit",
                         entry->commit, "outcome", entry->outcome, "detail",
                         entry->detail ? value_to_json(entry->detail, NULL) : json_null());
}

static json_t *history_short_json(const struct history_entry *entry) {
        char at[32];

        clock_format(entry->at_ms, at, sizeof(at));
        return json_pack("{s:o, s:s, s:o, s:s, s:s?}", "serial",
                         entry->serial ? json_integer((json_int_t)entry->serial) : json_null(), "at", at,
                         "who", json_from_text(entry->who), "command", entry->command, "commit",
                         entry->commit);
}

/* `state history`: what each run left behind. */
static int list_history(struct session *session, const struct options *options, struct error *err) {
        struct history_entry *history;
        size_t count;
        json_t *list;

        if (state_load_history(session->state, 0, session->arena, &history, &count, err) < 0)
                return -1;
        list = json_array();
        for (size_t i = 0; i < count; i++)
                json_array_append_new(list, history_short_json(&history[i]));
        if (options->json) {
                print_json(json_pack("{s:o}", "entries", list));
                return EXIT_DONE;
        }
        json_decref(list);
        for (size_t i = 0; i < count; i++) {
                char at[32], serial[24] = "-";

                clock_format(history[i].at_ms, at, sizeof(at));
                if (history[i].serial)
                        snprintf(serial, sizeof(serial), "%" PRIu64, history[i].serial);
                terminal_print_safe(stdout, arena_printf(session->arena, "%6s  %s  %-12s %-20s %s", serial,
                                                         at, history[i].command, history[i].who,
                                                         history[i].commit ? history[i].commit : "-"));
                putchar('\n');
        }
        return EXIT_DONE;
}

static json_t *journal_json(const struct journal_entry *entry) {
        char at[32];

        clock_format(entry->at_ms, at, sizeof(at));
        return json_pack("{s:I, s:s, s:s, s:i, s:b, s:s}", "run", (json_int_t)entry->run, "address",
                         entry->address, "action", entry->action, "stage", entry->stage, "answered",
                         entry->answered, "at", at);
}

/* The whole state: identity, counts, unfinished changes, the last runs. */
static int summarise_json(struct session *session, json_t **ret, struct error *err) {
        struct arena *arena = session->arena;
        struct record *records;
        struct binding *bindings;
        struct journal_entry *journal;
        struct history_entry *history;
        size_t record_count, binding_count, journal_count, history_count;
        const char *stack, *account, *region;
        uint64_t serial;
        json_t *journal_list = json_array(), *history_list = json_array();

        if (state_load_records(session->state, arena, &records, &record_count, err) < 0 ||
            state_load_bindings(session->state, arena, &bindings, &binding_count, err) < 0 ||
            state_load_journal(session->state, arena, &journal, &journal_count, err) < 0 ||
            state_load_history(session->state, 10, arena, &history, &history_count, err) < 0 ||
            state_load_meta(session->state, "stack", arena, &stack, err) < 0 ||
            state_load_meta(session->state, "account", arena, &account, err) < 0 ||
            state_load_meta(session->state, "region", arena, &region, err) < 0 ||
            state_serial(session->state, &serial, err) < 0) {
                json_decref(journal_list);
                json_decref(history_list);
                return -1;
        }
        for (size_t i = 0; i < journal_count; i++)
                json_array_append_new(journal_list, journal_json(&journal[i]));
        for (size_t i = 0; i < history_count; i++)
                json_array_append_new(history_list, history_json(&history[i]));
        *ret = json_pack("{s:o, s:s?, s:s?, s:s?, s:s, s:I, s:I, s:I, s:o, s:o}", "folder",
                         json_from_text(state_folder(session->state)), "stack", stack, "account", account,
                         "region", region, "lineage", state_lineage(session->state), "serial",
                         (json_int_t)serial, "resources", (json_int_t)record_count, "bindings",
                         (json_int_t)binding_count, "journal", journal_list, "history", history_list);
        return 0;
}

static const char *text_or(json_t *object, const char *name) {
        const char *text = json_string_value(json_object_get(object, name));

        return text ? text : "-";
}

/* The summary's text is made from its JSON, so that the two cannot tell different things. */
static void print_state(json_t *summary) {
        json_t *entry;
        size_t i;

        printf("folder     %s\nstack      %s\naccount    %s\nregion     %s\nlineage    %s\nserial     %" JSON_INTEGER_FORMAT
               "\nresources  %" JSON_INTEGER_FORMAT "\n",
               text_or(summary, "folder"), text_or(summary, "stack"), text_or(summary, "account"),
               text_or(summary, "region"), text_or(summary, "lineage"),
               json_integer_value(json_object_get(summary, "serial")),
               json_integer_value(json_object_get(summary, "resources")));
        if (json_array_size(json_object_get(summary, "journal")))
                printf("\nunfinished (the next run reads these first)\n");
        json_array_foreach (json_object_get(summary, "journal"), i, entry) {
                printf("  %s  %s\n", text_or(entry, "address"), text_or(entry, "action"));
        }
        if (json_array_size(json_object_get(summary, "history")))
                printf("\nlast runs\n");
        json_array_foreach (json_object_get(summary, "history"), i, entry) {
                printf("  %4" JSON_INTEGER_FORMAT "  %s  %-8s %-12s ",
                       json_integer_value(json_object_get(entry, "run")), text_or(entry, "at"),
                       text_or(entry, "command"), text_or(entry, "outcome"));
                terminal_print_safe(stdout, text_or(entry, "who"));
                putchar('\n');
        }
}

/*
 * Shows the last applied spec and the last observation. It is JSON also without --json: a spec has
 * no better text.
 */
static int show_address(struct session *session, const char *address, struct error *err) {
        struct record *records;
        struct sighting *sightings;
        size_t record_count, sighting_count;
        json_t *object = json_object();
        bool found = false;

        if (state_load_records(session->state, session->arena, &records, &record_count, err) < 0 ||
            state_load_sightings(session->state, session->arena, &sightings, &sighting_count, err) < 0)
                goto failed;
        for (size_t i = 0; i < record_count; i++) {
                if (strcmp(records[i].address, address) != 0)
                        continue;
                if (record_decode(&records[i], session->arena, err) < 0)
                        goto failed;
                found = true;
                json_object_set_new(object, "recorded",
                                    json_pack("{s:s?, s:b, s:o}", "id", records[i].id, "incomplete",
                                              records[i].incomplete, "spec",
                                              value_to_json(records[i].spec, NULL)));
        }
        for (size_t i = 0; i < sighting_count; i++) {
                if (strcmp(sightings[i].address, address) != 0)
                        continue;
                if (sighting_decode(&sightings[i], session->arena, err) < 0)
                        goto failed;
                found = true;
                json_object_set_new(
                        object, "observed",
                        json_pack("{s:b, s:s?, s:s?, s:o}", "exists", sightings[i].exists, "id",
                                  sightings[i].id, "fingerprint", sightings[i].fingerprint, "spec",
                                  sightings[i].spec ? value_to_json(sightings[i].spec, NULL) : json_null()));
        }
        if (!found) {
                state_edit_not_found(records, record_count, address, session->arena, err);
                goto failed;
        }
        print_json(object);
        return EXIT_DONE;
failed:
        json_decref(object);
        return -1;
}

static int show_state(struct session *session, const struct options *options, struct error *err) {
        json_t *summary;

        if (options->operand_count > 1)
                return show_address(session, options->operands[1], err);
        if (summarise_json(session, &summary, err) < 0)
                return -1;
        if (options->json) {
                print_json(summary);
        } else {
                print_state(summary);
                json_decref(summary);
        }
        return EXIT_DONE;
}

/* `state verify` has printed the problems when it fails: the error only counts them and says what helps. */
static int verify_state(struct session *session, const struct options *options, struct error *err) {
        const char **problems;
        size_t count;

        if (state_verify(session->state, session->arena, &problems, &count, err) < 0)
                return -1;
        if (options->json) {
                json_t *list = json_array();

                for (size_t i = 0; i < count; i++)
                        json_array_append_new(list, json_from_text(problems[i]));
                print_json(json_pack("{s:b, s:o}", "valid", count == 0, "problems", list));
        } else if (count == 0) {
                printf("The state in %s is sound.\n", state_folder(session->state));
        } else {
                for (size_t i = 0; i < count; i++)
                        puts(problems[i]);
        }
        if (count == 0)
                return EXIT_DONE;
        return error_set(
                err, "the state in %s has %zu %s: %s", state_folder(session->state), count,
                count == 1 ? "problem" : "problems",
                state_is_shared(session->state)
                        ? "put back the older versions of objects that are named, or an earlier serial (berth state restore)"
                        : "restore a copy made by berth state backup");
}

/* state_backup() checks the copy, so that a copy that was announced can be restored. */
static int back_up_state(struct session *session, const struct options *options, struct error *err) {
        if (options->operand_count < 2)
                return error_set(err, "berth state backup needs a path: berth state backup FILE");
        if (state_backup(session->state, options->operands[1], err) < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:o}", "path", json_from_text(options->operands[1])));
        else
                printf("Copied to %s.\n", options->operands[1]);
        return EXIT_DONE;
}

static int confirm_edit(const struct options *options, size_t resources, const char *question,
                        struct error *err) {
        const struct plan counted = { .change_count = resources };

        if (!options->yes && !options->quiet)
                terminal_print_line(stderr, question, 0, 0);
        return perform_confirm(options, &counted, false, err);
}

/* Asks, then commits the edit. The resource itself is not touched. */
static int commit_edit(struct session *session, const struct options *options, struct state_edit *edit,
                       const char *command, const char *question, struct error *err) {
        if (confirm_edit(options, 1, question, err) < 0)
                return -1;
        return state_edit_commit(session->state, edit, command, options->operands[1], clock_wall_ms(),
                                 session->arena, err);
}

/* `state rm`. The lease first: what is asked about must still be so when the answer comes. */
static int forget_resource(struct session *session, const struct options *options, struct error *err) {
        const char *address = options->operand_count > 1 ? options->operands[1] : NULL;
        struct state_edit edit;

        if (!address)
                return error_set(err, "berth state rm needs an address: berth state rm KIND/NAME");
        if (session_take_lease(session, options, "state rm", err) < 0 ||
            state_edit_forget(session->state, address, session->arena, &edit, err) < 0 ||
            commit_edit(session, options, &edit, "state rm",
                        arena_printf(session->arena, "The state forgets %s; %s itself is not touched.",
                                     address, edit.id ? edit.id : "the resource"),
                        err) < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:s, s:s?}", "address", address, "id", edit.id));
        else
                terminal_print_line(stdout,
                                    arena_printf(session->arena,
                                                 "Forgot %s; %s was not touched. While a manifest declares "
                                                 "it, the next plan takes it in again.",
                                                 address, edit.id ? edit.id : "the resource"),
                                    0, 0);
        return EXIT_DONE;
}

/*
 * `state mv`, for a resource that was renamed in its manifest: without it a plan would delete one and create the
 * other.
 */
static int move_resource(struct session *session, const struct options *options, struct error *err) {
        const char *from, *to;
        struct state_edit edit;

        if (options->operand_count < 3)
                return error_set(err, "berth state mv needs two addresses: berth state mv OLD NEW");
        from = options->operands[1];
        to = options->operands[2];
        if (session_take_lease(session, options, "state mv", err) < 0 ||
            state_edit_move(session->state, from, to, session->arena, &edit, err) < 0 ||
            commit_edit(session, options, &edit, "state mv",
                        arena_printf(session->arena, "%s becomes %s in the state.", from, to), err) < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:s, s:s, s:s?}", "from", from, "to", to, "id", edit.id));
        else
                printf("%s is %s now; berth plan shows what its manifest changes.\n", from, to);
        return EXIT_DONE;
}

static int parse_serial(const struct options *options, uint64_t *ret, struct error *err) {
        const char *text = options->operand_count > 1 ? options->operands[1] : "";
        char *end;

        errno = 0;
        *ret = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || *end || errno)
                return error_set(
                        err, "berth state restore needs a serial: berth state restore SERIAL; berth state "
                             "history shows what each run left behind");
        return 0;
}

static const char *describe_past(const struct state_past *past, struct arena *arena) {
        return arena_printf(
                arena,
                "The state becomes what it was at serial %" PRIu64
                ": %zu come back, %zu are forgotten, %zu are recorded as they were. The resources "
                "themselves are not touched.",
                past->serial, past->back, past->forgotten, past->changed);
}

/* `state restore`, of a state that is shared. The next plan shows what that means for the resources. */
static int restore_state(struct session *session, const struct options *options, struct error *err) {
        struct state_past past;
        uint64_t serial;

        if (parse_serial(options, &serial, err) < 0 ||
            session_take_lease(session, options, "state restore", err) < 0 ||
            state_past_read(session->state, serial, session->arena, &past, err) < 0)
                return -1;
        if (past.count > 0 &&
            (confirm_edit(options, past.back + past.forgotten + past.changed,
                          describe_past(&past, session->arena), err) < 0 ||
             state_edit_restore(session->state, &past, clock_wall_ms(), session->arena, err) < 0))
                return -1;
        if (state_serial(session->state, &serial, err) < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:I, s:I, s:I, s:I, s:I}", "restored", (json_int_t)past.serial,
                                     "serial", (json_int_t)serial, "back", (json_int_t)past.back, "forgotten",
                                     (json_int_t)past.forgotten, "changed", (json_int_t)past.changed));
        else if (past.count == 0)
                printf("The state is what it was at serial %" PRIu64 ": nothing to do.\n", past.serial);
        else
                printf("Serial %" PRIu64 " is what serial %" PRIu64
                       " was; berth plan shows what that changes.\n",
                       serial, past.serial);
        return EXIT_DONE;
}

/* "process 4711 on ci-7 (anna: apply) since 2026-01-31T12:00:00Z". */
static const char *describe_holder(const struct lease_holder *holder, struct arena *arena) {
        char since[32];

        clock_format(holder->since_ms, since, sizeof(since));
        return arena_printf(arena, "process %ld on %s (%s%s%s) since %s", holder->pid,
                            holder->host ? holder->host : "?", holder->who ? holder->who : "",
                            holder->who ? ": " : "", holder->command ? holder->command : "?", since);
}

/* What the run that has the lock is in the middle of, "Environment/x (create), Agent/y (update) and 3 more"; NULL: of nothing. */
static int describe_unfinished(struct session *session, const char **ret, json_t **ret_list,
                               struct error *err) {
        struct journal_entry *journal;
        const char *text = NULL;
        size_t count;

        if (state_load_journal(session->state, session->arena, &journal, &count, err) < 0)
                return -1;
        *ret_list = json_array();
        for (size_t i = 0; i < count; i++) {
                json_array_append_new(*ret_list, journal_json(&journal[i]));
                if (i < UNFINISHED_SHOWN)
                        text = arena_printf(session->arena, "%s%s%s (%s)", text ? text : "", text ? ", " : "",
                                            journal[i].address, journal[i].action);
        }
        if (count > UNFINISHED_SHOWN)
                text = arena_printf(session->arena, "%s and %zu more", text, count - UNFINISHED_SHOWN);
        *ret = text;
        return 0;
}

static json_t *holder_json(const struct lease_holder *holder, json_t *unfinished) {
        char since[32];

        clock_format(holder->since_ms, since, sizeof(since));
        return json_pack("{s:I, s:o, s:o, s:o, s:s, s:b, s:o}", "pid", (json_int_t)holder->pid, "host",
                         json_from_text(holder->host), "who", json_from_text(holder->who), "command",
                         json_from_text(holder->command), "since", since, "alive", holder->alive,
                         "unfinished", unfinished);
}

/* Needs no lease itself: a user that waits for the lease wants to know its holder. */
static int show_lock(struct session *session, const struct options *options, struct error *err) {
        struct lease_holder *holder;
        const char *doing = NULL;
        json_t *unfinished = NULL, *object;

        if (state_lease_show(session->state, session->arena, &holder, err) < 0 ||
            (holder && describe_unfinished(session, &doing, &unfinished, err) < 0))
                return -1;
        object = holder ? holder_json(holder, unfinished) : json_object();
        json_object_set_new(object, "held", json_boolean(holder != NULL));
        if (options->json) {
                print_json(object);
                return EXIT_DONE;
        }
        json_decref(object);
        if (!holder)
                puts("The lock is free.");
        else
                terminal_print_line(
                        stdout,
                        arena_printf(
                                session->arena, "Held by %s%s%s%s.", describe_holder(holder, session->arena),
                                doing ? ", in the middle of " : "", doing ? doing : "",
                                holder->alive
                                        ? ""
                                        : "; that process is dead or was cut off, and the next run takes the lock"),
                        0, 0);
        return EXIT_DONE;
}

/* Says whose lock it was: the next run begins with what that one left. */
static int release_lock(struct session *session, const struct options *options, struct error *err) {
        struct lease_holder *holder = NULL;
        const char *doing = NULL;
        json_t *unfinished = NULL, *object;
        struct error failure;

        /* By force a lock that cannot even be read is freed. */
        if (state_lease_show(session->state, session->arena, &holder, &failure) < 0 && !options->force) {
                *err = failure;
                return -1;
        }
        if (holder && describe_unfinished(session, &doing, &unfinished, err) < 0)
                return -1;
        object = json_pack("{s:b}", "held", 0);
        if (holder)
                json_object_set_new(object, "released", holder_json(holder, unfinished));
        if (state_lease_break(session->state, options->force, err) < 0) {
                json_decref(object);
                return -1;
        }
        if (options->json) {
                print_json(object);
                return EXIT_DONE;
        }
        json_decref(object);
        terminal_print_line(
                stdout,
                holder ? arena_printf(session->arena, "The lock is free. It was held by %s%s%s.",
                                      describe_holder(holder, session->arena),
                                      doing ? ", in the middle of " : "",
                                      doing ? arena_printf(session->arena,
                                                           "%s: the next run reads that first", doing)
                                            : "")
                       : "The lock is free.",
                0, 0);
        return EXIT_DONE;
}

/* Opens an existing state to change it: a mistyped --state must not make an empty one. */
static int open_to_change(struct session *session, const struct options *options, struct error *err) {
        interrupt_install();
        if (session_open_existing(session, options, err) < 0)
                return -1;
        state_close(session->state);
        session->state = NULL;
        return session_open_state(session, options, STATE_CREATE, err);
}

static int run_subverb(const struct subverb *subverb, const char *verb, const struct options *options,
                       struct error *err) {
        struct session session SESSION_CLEANUP;

        session_init(&session);
        if (options->operand_count > 1 + subverb->operands)
                return error_set(err, "berth %s %s takes nothing more, found \"%s\"", verb, subverb->name,
                                 options->operands[1 + subverb->operands]);
        session.gone_too = subverb->gone_too;
        if ((subverb->changes ? open_to_change(&session, options, err)
                              : session_open_existing(&session, options, err)) < 0)
                return -1;
        return subverb->run(&session, options, err);
}

int verb_state(const struct options *options, struct error *err) {
        static const struct subverb subverbs[] = {
                { "list", 0, false, false, list_state },      { "show", 1, false, false, show_state },
                { "mv", 2, true, false, move_resource },      { "rm", 1, true, false, forget_resource },
                { "verify", 0, false, true, verify_state },   { "backup", 1, false, true, back_up_state },
                { "adopt", 1000, false, false, NULL },        { "history", 0, false, false, list_history },
                { "restore", 1, true, false, restore_state }, { "migrate", 1, true, true, NULL },
        };

        const struct subverb *subverb =
                suggest_row("berth state", options->operands[0], subverbs,
                            sizeof(subverbs) / sizeof(subverbs[0]), sizeof(*subverbs), err);

        if (!subverb)
                return -1;
        /* The only one for which there need be no state yet. */
        if (strcmp(subverb->name, "adopt") == 0)
                return verb_state_adopt(options, err);
        if (strcmp(subverb->name, "migrate") == 0)
                return verb_state_migrate(options, err);
        return run_subverb(subverb, "state", options, err);
}

int verb_lock(const struct options *options, struct error *err) {
        static const struct subverb subverbs[] = {
                { "show", 0, false, true, show_lock },
                { "release", 0, true, true, release_lock },
        };
        const struct subverb *subverb =
                suggest_row("berth lock", options->operands[0], subverbs,
                            sizeof(subverbs) / sizeof(subverbs[0]), sizeof(*subverbs), err);

        return subverb ? run_subverb(subverb, "lock", options, err) : -1;
}
