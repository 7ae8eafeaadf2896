/* SPDX-License-Identifier: Apache-2.0 */
/* serve: the server of a stack, by the file of a Server or, given a folder of manifests, without one. */
#include "base/interrupt.h"
#include "base/log.h"
#include "broker/serve.h"
#include "cli/session.h"
#include "cli/verbs.h"

#include <sys/stat.h>

/* Warnings are printed as well, where the file could be loaded. */
static int load_config(struct session *session, const struct options *options, struct broker_config *ret,
                       struct error *err) {
        struct stat status;
        int result;

        if (stat(options->path, &status) == 0 && S_ISDIR(status.st_mode)) {
                broker_config_without_file(options->path, session->arena, ret);
                return 0;
        }
        result = broker_config_load(options->path, false, session->arena, ret, &session->diagnostics, err);
        if (result == 0 || err->kind == ERROR_DIAGNOSED) {
                diagnostics_sort(&session->diagnostics);
                diagnostics_print(&session->diagnostics, stderr);
        }
        return result;
}

int verb_serve(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct options of_stack = *options;
        struct broker_config config;

        session_init(&session);
        if (load_config(&session, options, &config, err) < 0)
                return -1;
        of_stack.path = config.stack;
        log_set_json(options->json);
        interrupt_install();
        interrupt_on_hangup();
        return serve_run(&config, session_state_folder(&session, &of_stack), err) < 0 ? -1 : EXIT_DONE;
}
