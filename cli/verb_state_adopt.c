/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state adopt: what carries the stack's marks, and is in no state, taken into this one. Names and owners are what tags and
 * keys in AWS say, which others may write: on a terminal they are printed safe, and in JSON as UTF-8.
 */
#include "base/interrupt.h"
#include "base/json.h"
#include "base/terminal.h"
#include "cli/perform.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/state_adopt.h"

#include <string.h>

static json_t *adoption_json(const struct state_adoption *adoption, bool taken) {
        json_t *items = json_array(), *orphans = json_array(), *lineages = json_array(),
               *refusals = json_array();

        for (size_t i = 0; i < adoption->count; i++)
                json_array_append_new(
                        items, json_pack("{s:s, s:o}", "address", adoption->items[i].subject->address, "id",
                                         json_from_text(adoption->items[i].subject->observed->id)));
        for (size_t i = 0; i < adoption->orphan_count; i++)
                json_array_append_new(orphans, json_from_text(adoption->orphans[i]));
        for (size_t i = 0; i < adoption->lineage_count; i++)
                json_array_append_new(lineages, json_from_text(adoption->lineages[i]));
        for (size_t i = 0; i < adoption->refusal_count; i++)
                json_array_append_new(refusals,
                                      json_pack("{s:s, s:o, s:o}", "id", adoption->refusals[i].id, "message",
                                                json_from_text(adoption->refusals[i].message), "remedy",
                                                json_from_text(adoption->refusals[i].remedy)));
        return json_pack("{s:b, s:o, s:o, s:o, s:o}", "taken", taken, "resources", items, "orphans", orphans,
                         "lineages", lineages, "refusals", refusals);
}

static void print_adoption(const struct state_adoption *adoption) {
        for (size_t i = 0; i < adoption->count; i++) {
                const struct subject *subject = adoption->items[i].subject;

                printf("  + %s  ", subject->address);
                terminal_print_line(stdout, subject->observed->id ? subject->observed->id : "", 0, 4);
        }
        for (size_t i = 0; i < adoption->refusal_count; i++) {
                const struct refusal *refusal = &adoption->refusals[i];

                printf("  ! %s: ", refusal->id);
                terminal_print_wrapped(stdout, refusal->message, 6 + (int)strlen(refusal->id), 4);
                fputs("    remedy: ", stdout);
                terminal_print_wrapped(stdout, refusal->remedy, 12, 4);
        }
        if (adoption->orphan_count > 0)
                puts("No manifest declares these: they are left, unless they are named (berth state adopt KIND/NAME); "
                     "an apply then deletes them.");
        for (size_t i = 0; i < adoption->orphan_count; i++) {
                fputs("  ? ", stdout);
                terminal_print_line(stdout, adoption->orphans[i], 4, 4);
        }
}

/* A dry run takes no lease: it may look while others work. */
static int open_for_adoption(struct session *session, const struct options *options, struct error *err) {
        if (options->dry_run)
                return session_open(session, options, err);
        if (session_load(session, options, true, err) < 0)
                return -1;
        interrupt_install_at_once();
        return session_open_provider(session, options, err) < 0 ||
                               session_take_lease(session, options, "state adopt", err) < 0
                       ? -1
                       : 0;
}

int verb_state_adopt(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP = { 0 };
        struct state_adoption adoption;
        struct plan_args args;
        struct plan asked;
        bool takes = false;

        session_init(&session);
        if (open_for_adoption(&session, options, err) < 0)
                return -1;
        args = session_plan_args(&session, options, false);
        if (state_adopt_look(&args, options->operands + 1, options->operand_count - 1, session.arena,
                             &adoption, err) < 0)
                return -1;
        takes = !options->dry_run && adoption.refusal_count == 0 && adoption.count > 0;
        if (!options->json)
                print_adoption(&adoption);
        fflush(stdout);
        asked = (struct plan){ .change_count = adoption.count };
        if (takes && (perform_confirm(options, &asked, false, err) < 0 ||
                      state_adopt_take(&args, &adoption, session.arena, err) < 0))
                return -1;
        if (options->json)
                print_json(adoption_json(&adoption, takes));
        else if (adoption.refusal_count > 0)
                puts("Refused: nothing was taken.");
        else if (adoption.count == 0)
                puts("Nothing to take: all that carries this stack's marks, and is declared, is in the state.");
        else
                printf("%s %zu %s.%s\n", takes ? "Took" : "Would take", adoption.count,
                       adoption.count == 1 ? "resource" : "resources",
                       takes ? " berth plan shows what would change about them." : "");
        return adoption.refusal_count > 0 ? EXIT_REFUSED : EXIT_DONE;
}
