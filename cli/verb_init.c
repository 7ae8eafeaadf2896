/* SPDX-License-Identifier: Apache-2.0 */
/* A starter stack: one file, small enough to read, which validates and applies as it is. */
#include "base/files.h"
#include "base/json.h"
#include "cli/session.h"
#include "cli/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const char starter[] =
        "# A Berth stack: environments in which agents run code, and the agents that use them.\n"
        "#   berth validate           check it, offline\n"
        "#   berth plan               what would change\n"
        "#   berth apply              make it so\n"
        "#   berth exec --env python -c 'print(6 * 7)'\n"
        "#   berth explain Environment   every field, with its range and default\n"
        "apiVersion: berth/v1\n"
        "kind: Stack\n"
        "metadata: {name: starter}\n"
        "spec:\n"
        "  provider: local          # sandboxes on this machine; aws: Lambda, in the account that AWS's tools find\n"
        "  tags: {managed-by: berth}\n"
        "---\n"
        "apiVersion: berth/v1\n"
        "kind: Environment\n"
        "metadata: {name: python, labels: {team: everyone}}\n"
        "spec:\n"
        "  description: Python and a shell, for agents that need nothing special\n"
        "  image: {prebuilt: python}\n"
        "  memoryMB: 2048           # 1769 is one vCPU\n"
        "  workspaceStorageMB: 1024\n"
        "---\n"
        "apiVersion: berth/v1\n"
        "kind: Agent\n"
        "metadata: {name: assistant, labels: {team: everyone}}\n"
        "spec: {type: general, environment: python, active: true}\n"
        "---\n"
        "apiVersion: berth/v1\n"
        "kind: WorkspacePolicy\n"
        "metadata: {name: tidy}\n"
        "spec:\n"
        "  selector: {all: true}\n"
        "  expireAfterDays: 90\n"
        "  abortIncompleteUploadDays: 7\n";

static int write_new(const char *path, const char *text, struct error *err) {
        int descriptor DESCRIPTOR_CLEANUP = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        if (descriptor < 0 && errno == EEXIST)
                return error_set(err, "%s exists already, and berth init overwrites nothing", path);
        if (descriptor < 0 || descriptor_write(descriptor, text, strlen(text)) < 0)
                return error_set(err, "cannot write %s: %s", path, strerror(errno));
        return 0;
}

int verb_init(const struct options *options, struct error *err) {
        const char *folder = options->operand_count ? options->operands[0] : ".";
        char *stack TEXT_CLEANUP = path_join(folder, "stack.yaml");
        char *ignore TEXT_CLEANUP = path_join(folder, ".gitignore");
        struct error exists;

        if (folder_make(folder, err) < 0 || write_new(stack, starter, err) < 0)
                return -1;
        /* The state is not to be committed. An existing .gitignore is left to its owner. */
        if (write_new(ignore, ".berth/\n", &exists) < 0 && !options->quiet)
                fprintf(stderr, "%s exists already: add the line .berth/ to it.\n", ignore);
        if (options->json)
                print_json(json_pack("{s:o}", "file", json_from_text(stack)));
        else
                printf("Wrote %s. Next: berth validate -f %s\n", stack, folder);
        return EXIT_DONE;
}
