/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "cli/session.h"
#include "cli/verbs.h"

#include <commit.h>

/* Without a history beside the sources the commit is not known. */
int verb_version(const struct options *options, struct error *err) {
        const char *commit = BERTH_COMMIT;

        (void)err;
        if (options->json)
                print_json(json_checked(json_pack("{ss, ss?, ss?}", "version", BERTH_VERSION, "commit",
                                                  *commit ? commit : NULL, "date",
                                                  *commit ? BERTH_COMMIT_DAY : NULL)));
        else if (*commit)
                printf("berth %s (%s of %s)\n", BERTH_VERSION, commit, BERTH_COMMIT_DAY);
        else
                puts("berth " BERTH_VERSION);
        return EXIT_DONE;
}
