/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session.h"
#include "cli/verbs.h"

int verb_version(const struct options *options, struct error *err) {
        (void)err;
        if (options->json)
                print_json(json_pack("{s:s}", "version", BERTH_VERSION));
        else
                puts("berth " BERTH_VERSION);
        return EXIT_DONE;
}
