/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log of commands on the host: read as it lies there, whether a server runs or not. */
#include "approvals/approvals.h"
#include "approvals/audit.h"
#include "approvals/words.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "cli/session.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <string.h>

struct listing {
        bool json, begun;
};

/* The client that asked, or the one that decided. */
static bool print_entry(void *context, const json_t *entry) {
        struct listing *listing = context;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *client = json_text(entry, "client"), *owner = json_text(entry, "owner"),
                   *event = json_text(entry, "event"), *id = json_text(entry, "id"),
                   *at = json_text(entry, "at");
        const json_t *result = json_object_get(entry, "result");

        if (listing->json) {
                char *shown TEXT_CLEANUP = json_for_eyes(entry, JSON_SORT_KEYS);

                printf("%s%s", listing->begun ? ",\n" : "[\n", shown);
                listing->begun = true;
                return true;
        }
        strbuf_printf(&text, "%5lld  %s  %-8s  %s", (long long)json_integer_or(entry, "n", 0), at ? at : "-",
                      event ? event : "-", id ? id : "-");
        if (client)
                strbuf_printf(&text, "  by %s", client);
        if (client && owner && strcmp(owner, client) != 0) {
                strbuf_append(&text, " for ");
                words_show_text(owner, &text);
        }
        if (json_text(result, "status"))
                strbuf_printf(&text, "  %s", json_text(result, "status"));
        terminal_print_safe(stdout, strbuf_text(&text));
        strbuf_clear(&text);
        if (json_object_get(entry, "command")) {
                strbuf_append(&text, json_is_true(json_object_get(entry, "trusted")) ? "  trusted: " : "  ");
                words_show(json_object_get(entry, "command"), &text);
        }
        puts(strbuf_text(&text));
        return true;
}

/* 0 where it is as it was written; -1 with what is wrong. */
static int check_audit(const struct audit_found *found, const char *folder, struct error *err) {
        if (found->state == AUDIT_DAMAGED)
                return error_set(err, "the log in %s is damaged: %s", folder, found->why);
        if (found->state == AUDIT_TORN)
                log_warning(
                        "%s ends with half an entry of %" PRIu64
                        " bytes, which was never confirmed: a server died while it wrote. The next server repairs the log",
                        folder, found->torn_bytes);
        return 0;
}

static int verify(const struct options *options, const char *folder, struct error *err) {
        struct audit_found found;

        if (audit_read(folder, NULL, NULL, &found, err) < 0 || check_audit(&found, folder, err) < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:I, s:s, s:b}", "entries", (json_int_t)found.entries, "head",
                                     found.head, "torn", found.state == AUDIT_TORN));
        else
                printf("%" PRIu64 " %s, none of them changed, missing or moved; the head is %s\n",
                       found.entries, found.entries == 1 ? "entry" : "entries",
                       found.entries ? found.head : "none yet");
        return EXIT_DONE;
}

static int list_entries(const struct options *options, const char *folder, struct error *err) {
        struct listing listing = { .json = options->json };
        struct audit_found found;
        int result = audit_read(folder, print_entry, &listing, &found, err);

        if (listing.json)
                puts(listing.begun ? "\n]" : "[]");
        return result < 0 || check_audit(&found, folder, err) < 0 ? -1 : EXIT_DONE;
}

static const struct command {
        const char *name;
        int (*run)(const struct options *options, const char *folder, struct error *err);
} commands[] = { { "list", list_entries }, { "verify", verify } };

int verb_audit(const struct options *options, struct error *err) {
        const struct command *command =
                suggest_row("berth audit", options->operands[0], commands,
                            sizeof(commands) / sizeof(commands[0]), sizeof(commands[0]), err);
        struct session session;
        char *folder TEXT_CLEANUP = NULL;
        struct error why;
        int code;

        if (!command)
                return -1;
        session_init(&session);
        folder = path_join(session_state_folder(&session, options), APPROVALS_FOLDER);
        code = command->run(options, folder, &why);
        if (code < 0 && why.kind == ERROR_NOT_FOUND)
                (void)error_set_kind(err, ERROR_NOT_FOUND,
                                     "there is no log in %s: a server writes one once its `shell` is enabled",
                                     folder);
        else if (code < 0)
                *err = why;
        session_close(&session);
        return code;
}
