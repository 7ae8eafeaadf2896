/* SPDX-License-Identifier: Apache-2.0 */
/* import: an existing resource becomes this stack's, in the state; nothing about it changes until the next apply. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/adopt.h"

int verb_import(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP = { 0 };
        const char *address = options->operands[0], *name;
        const struct kind *kind;
        struct plan_args args;

        session_init(&session);
        if (address_parse(address, &kind, &name, err) < 0 || session_load(&session, options, true, err) < 0)
                return -1;
        interrupt_install();
        if (session_open_provider(&session, options, err) < 0 ||
            session_take_lease(&session, options, "import", err) < 0)
                return -1;
        args = session_plan_args(&session, options, false);
        if (adopt_resource(&args, address, options->operands[1], session.arena, err) < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:s, s:s}", "address", address, "id", options->operands[1]));
        else
                printf("Imported %s. berth plan shows what would change about it.\n", address);
        return EXIT_DONE;
}
