/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/lineage.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/sorted.h"
#include "controller/history.h"
#include "controller/planning.h"
#include "providers/lineage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One line of a file, without its end; "" where it cannot be read. */
static const char *read_line(const char *path, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;

        if (file_read(path, 256, &text, &ignored) < 0)
                return "";
        return arena_strndup(arena, strbuf_text(&text), strcspn(strbuf_text(&text), "\n"));
}

/*
 * A name for this machine that another one with the same host name has not, so that a folder there is not taken for the
 * folder of that path here. Where the machine has no id of its own (containers), its boot has one. The id itself is
 * nobody's business: it goes out as a digest.
 */
const char *lineage_machine(struct arena *arena) {
        char host[256] = "localhost", digest[SHA256_HEX_SIZE];
        const char *id = read_line("/etc/machine-id", arena);

        if (!*id)
                id = read_line("/proc/sys/kernel/random/boot_id", arena);
        gethostname(host, sizeof(host) - 1);
        id = arena_printf(arena, "berth lineage %s", id);
        digest_sha256_hex(id, strlen(id), digest);
        return arena_printf(arena, "%s/%.16s", host, digest);
}

static const char *whole_path(const char *folder, struct arena *arena) {
        char *resolved TEXT_CLEANUP = realpath(folder, NULL);

        return arena_strdup(arena, resolved ? resolved : folder);
}

/* A list of words in meta. */
static const char *const *split(const char *text, struct arena *arena) {
        size_t count = 0;
        const char **words = arena_array(arena, text ? strlen(text) + 1 : 1, sizeof(*words));

        while (text && *(text += strspn(text, " "))) {
                size_t length = strcspn(text, " ");

                words[count++] = arena_strndup(arena, text, length);
                text += length;
        }
        words[count] = NULL;
        return words;
}

int lineage_announce(const struct plan_args *args, struct arena *arena, struct error *err) {
        const struct lineage_ops *ops = args->provider_ops->lineage;
        const char *id = state_lineage(args->state), *taken;
        struct lineage lineage;

        if (!ops || !*id)
                return 0;
        if (state_load_meta(args->state, "taken", arena, &taken, err) < 0)
                return -1;
        lineage = (struct lineage){
                .id = id,
                .taken = split(taken, arena),
                .who = history_who(arena),
                .machine = lineage_machine(arena),
                .folder = whole_path(state_folder(args->state), arena),
        };
        ops->set(args->provider, &lineage);
        return 0;
}

void lineage_note_orphans(const struct plan_args *args, struct plan *plan, struct arena *arena) {
        const struct lineage_ops *ops = args->provider_ops->lineage;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const struct orphan *orphans = NULL;
        size_t count = 0;

        if (ops && args->refresh != PLAN_REFRESH_NONE)
                ops->orphans(args->provider, &orphans, &count);
        if (count == 0)
                return;
        plan->orphans = arena_array(arena, count, sizeof(*plan->orphans));
        for (size_t i = 0; i < count; i++)
                plan->orphans[i] =
                        arena_printf(arena, "%s/%s", kinds[orphans[i].kind]->name, orphans[i].name);
        plan->orphan_count = count;
        qsort(plan->orphans, count, sizeof(*plan->orphans), sorted_compare_texts);
        strbuf_printf(
                &text,
                "%zu %s this stack's marks and %s in no state and no manifest: nobody manages %s; berth "
                "state adopt takes %s into the state",
                count, count == 1 ? "resource carries" : "resources carry", count == 1 ? "stands" : "stand",
                count == 1 ? "it" : "them", count == 1 ? "it" : "them");
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "\n%s", plan->orphans[i]);
        plan_warn(arena, plan, arena_strdup(arena, strbuf_text(&text)));
}

int lineage_renew(const struct plan_args *args, struct error *err) {
        const struct lineage_ops *ops = args->provider_ops->lineage;

        /* What is being taken down need not be said to live. */
        return ops ? ops->renew(args->provider, !args->destroy, err) : 0;
}
