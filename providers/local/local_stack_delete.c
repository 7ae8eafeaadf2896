/* SPDX-License-Identifier: Apache-2.0 */
/* Deleting a stack's folder. The image store stays: imported images are not the stack's. */
#include "base/files.h"
#include "providers/local/local_workspaces.h"
#include "providers/local/provider_local.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct sessions {
        const char *workspaces;
        struct local_session *list;
        size_t count;
};

/* The sessions that are certainly this stack's. */
static int list_own(const struct provider *provider, const struct value *stack, struct arena *arena,
                    struct sessions *ret, struct error *err) {
        size_t found, kept = 0;

        ret->workspaces = local_workspaces_folder(provider->root, stack, arena);
        if (local_sessions_list(ret->workspaces, provider->stack_name, arena, &ret->list, &found, err) < 0)
                return -1;
        for (size_t i = 0; i < found; i++) {
                if (!ret->list[i].problem)
                        ret->list[kept++] = ret->list[i];
        }
        ret->count = kept;
        return 0;
}

static int count_files(const struct sessions *sessions, struct arena *arena, uint64_t *ret_files,
                       uint64_t *ret_bytes, struct error *err) {
        const struct workspace_span all = { INT64_MIN, INT64_MAX };

        for (size_t i = 0; i < sessions->count; i++) {
                struct workspace_tally tally;

                if (local_workspace_expire(sessions->workspaces, sessions->list[i].id, all, false, arena,
                                           &tally, err) < 0)
                        return -1;
                *ret_files += tally.files;
                *ret_bytes += tally.bytes;
        }
        return 0;
}

int local_stack_ask(struct provider *provider, struct change *change, struct arena *arena,
                    struct error *err) {
        struct sessions sessions;
        uint64_t files = 0, bytes = 0;

        if (change->action != ACTION_DELETE)
                return 0;
        if (list_own(provider, change->observed->spec, arena, &sessions, err) < 0 ||
            count_files(&sessions, arena, &files, &bytes, err) < 0)
                return -1;
        provider->sessions_refused = sessions.count > 0;
        if (sessions.count == 0)
                return 0;
        records_refuse(change,
                       (struct refusal){
                               .id = "bucket-not-empty",
                               .message = arena_printf(arena,
                                                       "%s holds %zu %s of this stack, with %" PRIu64
                                                       " %s, %" PRIu64 " bytes",
                                                       sessions.workspaces, sessions.count,
                                                       sessions.count == 1 ? "session" : "sessions", files,
                                                       files == 1 ? "file" : "files", bytes),
                               .remedy =
                                       "save what is needed, or --allow bucket-not-empty, which deletes the "
                                       "sessions with everything in them",
                       },
                       arena);
        return 0;
}

int local_stack_clear(struct provider *provider, const struct change *change, struct arena *arena,
                      struct error *err) {
        struct sessions sessions;

        if (list_own(provider, change->observed->spec, arena, &sessions, err) < 0)
                return -1;
        if (sessions.count > 0 && !provider->sessions_refused)
                return error_set(err, "sessions were started below %s since the plan was made: plan again",
                                 sessions.workspaces);
        for (size_t i = 0; i < sessions.count; i++) {
                if (local_session_remove(sessions.workspaces, sessions.list[i].id, err) < 0)
                        return -1;
        }
        return 0;
}

static void remove_empty(const char *folder, const char *name) {
        char *path TEXT_CLEANUP = path_join(folder, name);

        (void)rmdir(path);
}

/* Only empty folders go. Any other holds images, or something that Berth did not put there. */
void local_stack_fold(const struct provider *provider, struct arena *arena) {
        static const char *const folders[] = {
                "environments",    "policies",        "registry/agents",
                "registry/swarms", "registry/images", "registry",
        };
        const char *slash = strrchr(provider->root, '/');

        for (int kind = 0; kind < KIND_COUNT; kind++) {
                if (local_record_folder((enum kind_id)kind))
                        record_tidy(provider->root, (enum kind_id)kind);
        }
        for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
                remove_empty(provider->root, folders[i]);
        remove_empty(provider->root, "workspaces/" SESSIONS_FOLDER);
        remove_empty(provider->root, "workspaces");
        remove_empty(provider->root, "images");
        (void)rmdir(provider->root);
        if (slash)
                (void)rmdir(arena_strndup(arena, provider->root, (size_t)(slash - provider->root)));
}
