/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's notifications without a controller: notify_cli URL SECRETFILE; each line of input is a message. */
#include "gitops/notifier.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
        struct notify_target target = { .events = NOTIFY_APPLIED };
        struct metrics *metrics = controller_metrics_new();
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct notifier *notifier;
        struct error err = { 0 };
        char line[4096];

        if (argc != 3)
                return 2;
        target.url = argv[1];
        target.secret_file = argv[2];
        if (notifier_start(&target, 1, metrics, NULL, &notifier, &err) < 0) {
                fprintf(stderr, "%s\n", err.message);
                metrics_free(metrics);
                return 1;
        }
        while (fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = '\0';
                notifier_post(notifier, NOTIFY_APPLIED, json_pack("{s:s}", "message", line));
        }
        notifier_stop(notifier, 20000);
        metrics_write(metrics, &text);
        fputs(strbuf_text(&text), stdout);
        metrics_free(metrics);
        return 0;
}
