/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `controller status` where no controller runs: each source's status as its state has kept it. The states are opened for
 * reading, and one that cannot be read is an error: a list that lacks a source would say that all is well.
 */
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "gitops/folders.h"
#include "gitops/follow.h"
#include "gitops/source.h"
#include "gitops/status.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int load_one(const char *folder, json_t **ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = NULL;
        const char *text = NULL;
        int result = state_open(folder, STATE_READ, &state, err);

        if (result == 0)
                result = state_load_meta(state, STATUS_META, arena, &text, err);
        if (result == 0)
                *ret = text ? json_loads(text, 0, NULL) : NULL;
        state_close(state);
        if (result == 0 && !json_is_object(*ret)) {
                json_decref(*ret);
                *ret = NULL;
        }
        if (result == 0 && *ret)
                json_object_del(*ret, "internal");
        return result;
}

static int skip_hidden(const struct dirent *entry) {
        return entry->d_name[0] != '.';
}

/* Those of its folders, where its path is a pattern. */
static int load_children(const char *folder, const char *name, const json_t *parent, json_t *list,
                         struct error *err) {
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(parent, "folders"), i, item) {
                struct strbuf path STRBUF_CLEANUP = STRBUF_INIT, full STRBUF_CLEANUP = STRBUF_INIT;
                const char *child = json_text(item, "path");
                json_t *status = NULL;

                if (!child || !folders_is_name(child))
                        continue;
                strbuf_printf(&path, "%s/" CHILDREN_FOLDER "/%s", folder, child);
                strbuf_printf(&full, "%s/%s", name, child);
                /* Named by its parent, and not begun. */
                if (access(strbuf_text(&path), F_OK) < 0 && errno == ENOENT)
                        continue;
                if (load_one(strbuf_text(&path), &status, err) < 0)
                        return -1;
                if (!status)
                        continue;
                json_set_text(status, "name", strbuf_text(&full));
                json_set_text(status, "parent", name);
                json_add(list, status);
        }
        return 0;
}

static int load_all(const char *folder, struct dirent **entries, int count, json_t *list, struct error *err) {
        for (int i = 0; i < count; i++) {
                char *path TEXT_CLEANUP = path_join(folder, entries[i]->d_name);
                json_t *status = NULL;

                if (load_one(path, &status, err) < 0)
                        return -1;
                if (!status)
                        continue;
                /* The folder's name is the source's: a person may have renamed both since. */
                json_set_text(status, "name", entries[i]->d_name);
                json_add(list, status);
                if (load_children(path, entries[i]->d_name, status, list, err) < 0)
                        return -1;
        }
        return 0;
}

int follow_persisted(const char *folder, json_t **ret, struct error *err) {
        char *sources TEXT_CLEANUP = path_join(folder, "sources");
        struct dirent **entries;
        int count = scandir(sources, &entries, skip_hidden, alphasort), result;
        json_t *list;

        if (count < 0)
                return error_set_kind(
                        err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED,
                        "no controller runs in %s, and none ever did: name its folder with --state, or its file with -f",
                        folder);
        list = json_array();
        result = load_all(sources, entries, count, list, err);
        while (count > 0)
                free(entries[--count]);
        free(entries);
        if (result < 0) {
                json_decref(list);
                return -1;
        }
        *ret = json_pack("{s:{s:b}, s:o}", "controller", "running", 0, "sources", list);
        return 0;
}
