/* SPDX-License-Identifier: Apache-2.0 */
/* A starter stack: one file, small enough to read, which validates and applies as it is. */
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/session.h"
#include "cli/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE 64
#define NAME_MAX_LENGTH 48
#define DERIVED_MAX 24 /* of the folder's name */

static const char before_name[] =
        "# A Berth stack: environments in which agents run code, and the agents that use them.\n"
        "#   berth validate           check it, offline\n"
        "#   berth plan               what would change\n"
        "#   berth apply              make it so\n"
        "#   berth exec --env python -c 'print(6 * 7)'\n"
        "#   berth explain Environment   every field, with its range and default\n"
        "apiVersion: berth/v1\n"
        "kind: Stack\n"
        "metadata: {name: ";
static const char after_name[] =
        "}\n"
        "spec:\n"
        "  provider: local          # sandboxes on this machine; aws: Lambda, in the account that AWS's tools find\n"
        "  aws: {network: isolated} # in AWS: code reaches this stack's bucket and nothing else; open: everything\n"
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

/*
 * A name that others are unlikely to have: the folder's, and four digits. Two teams that both begin
 * in a folder "agents" have two names, and in a shared account two sets of records and rules.
 */
static void derive_name(const char *folder, char name[NAME_SIZE]) {
        char *whole TEXT_CLEANUP = realpath(folder, NULL);
        const char *slash = whole ? strrchr(whole, '/') : NULL;
        unsigned char random[2];
        char digits[2 * sizeof(random) + 1];
        size_t length = 0;

        for (const char *at = slash ? slash + 1 : ""; *at && length < DERIVED_MAX; at++) {
                bool plain = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9');

                if (*at >= 'A' && *at <= 'Z')
                        name[length++] = (char)(*at - 'A' + 'a');
                else if (plain && (length > 0 || *at > '9'))
                        name[length++] = *at;
                else if (length > 0 && name[length - 1] != '-')
                        name[length++] = '-';
        }
        while (length > 0 && name[length - 1] == '-')
                length--;
        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), digits);
        if (length == 0)
                length = (size_t)snprintf(name, NAME_SIZE, "stack");
        snprintf(name + length, NAME_SIZE - length, "-%s", digits);
}

/*
 * On a terminal without --yes the user names the stack. An empty line takes the name that is shown.
 */
static int ask_name(const struct options *options, char name[NAME_SIZE], struct error *err) {
        char answer[NAME_SIZE];
        size_t length;

        if (options->yes || options->quiet || options->json || !isatty(STDIN_FILENO) ||
            !isatty(STDERR_FILENO))
                return 0;
        fprintf(stderr, "Name of the stack, which others in the same account must not have [%s]: ", name);
        fflush(stderr);
        if (!fgets(answer, sizeof(answer), stdin))
                return error_set(err, "nothing was written");
        length = strcspn(answer, "\n");
        answer[length] = '\0';
        if (length == 0)
                return 0;
        if (length > NAME_MAX_LENGTH || strspn(answer, "abcdefghijklmnopqrstuvwxyz0123456789-") != length ||
            *answer == '-' || answer[length - 1] == '-')
                return error_set(
                        err,
                        "\"%s\" is no name for a stack: at most %d small letters, digits and hyphens, with no "
                        "hyphen at either end",
                        answer, NAME_MAX_LENGTH);
        snprintf(name, NAME_SIZE, "%s", answer);
        return 0;
}

int verb_init(const struct options *options, struct error *err) {
        const char *folder = options->operand_count ? options->operands[0] : ".";
        char *stack TEXT_CLEANUP = path_join(folder, "stack.yaml");
        char *ignore TEXT_CLEANUP = path_join(folder, ".gitignore");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error exists;
        char name[NAME_SIZE];

        if (folder_make(folder, err) < 0)
                return -1;
        derive_name(folder, name);
        /* Existing files are found first, before a question that would be in vain. */
        if (access(stack, F_OK) < 0 && ask_name(options, name, err) < 0)
                return -1;
        strbuf_printf(&text, "%s%s%s", before_name, name, after_name);
        if (write_new(stack, strbuf_text(&text), err) < 0)
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
