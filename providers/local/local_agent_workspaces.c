/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/local_agent_workspaces.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/folder_names.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "providers/local/local_workspaces.h"
#include "schema/kind.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_LENGTH 40
#define INDEX_BYTES_MAX ((size_t)64 << 10)
#define OTHERS_FILE "others.json" /* no agent's name */
#define OTHERS_BYTES_MAX ((size_t)16 << 20)

const char *local_hash(const char *const *texts, size_t count, struct arena *arena) {
        struct strbuf all STRBUF_CLEANUP = STRBUF_INIT;
        uint8_t digest[SHA256_SIZE];
        char hex[2 * SHA256_SIZE + 1];

        for (size_t i = 0; i < count; i++)
                strbuf_append_bytes(&all, texts[i], strlen(texts[i]) + 1);
        digest_sha256(all.data, all.length, digest);
        digest_hex(digest, sizeof(digest), hex);
        return arena_strndup(arena, hex, HASH_LENGTH);
}

bool local_is_agent(const char *name) {
        size_t length = strlen(name);

        return length > 0 && length <= NAME_LENGTH_MAX &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static bool is_agent(const char *name, const void *none) {
        (void)none;
        return local_is_agent(name);
}

static bool is_hash(const char *name, const void *none) {
        (void)none;
        return strlen(name) == HASH_LENGTH && strspn(name, "0123456789abcdef") == HASH_LENGTH;
}

const char *local_agent_folder(const char *workspaces, const char *stack, const char *agent, const char *hash,
                               struct arena *arena) {
        return arena_printf(arena, "%s/" AGENTS_FOLDER "/%s/%s/%s", workspaces, stack, agent, hash);
}

/* --- read --- */

static bool says(const json_t *json, const char *member, const char *text) {
        const char *said = json_text(json, member);

        return said && strcmp(said, text) == 0;
}

/* A file that contradicts its place is not trusted. */
static void read_row(int all, const char *stack, struct arena *arena, struct local_agent_workspace *row) {
        const char *path = arena_printf(arena, "%s/%s/" SESSION_FILE, row->agent, row->hash), *owner;
        int descriptor DESCRIPTOR_CLEANUP = beneath_open(all, path, O_RDONLY);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json JSON_CLEANUP = NULL;
        struct stat status;

        if (descriptor < 0 || fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode) ||
            descriptor_read(descriptor, INDEX_BYTES_MAX, &text) != 0)
                return;
        json = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
        owner = json_text(json, "owner");
        if (!owner || !json_text(json, "environment") || !says(json, "formatVersion", SESSION_FORMAT) ||
            !says(json, "stack", stack) || !says(json, "agent", row->agent) ||
            strcmp(local_hash(&owner, 1, arena), row->hash) != 0)
                return;
        row->owner = arena_strdup(arena, owner);
        row->environment = arena_strdup(arena, json_text(json, "environment"));
        row->created_ms = json_integer_or(json, "createdMs", 0);
        if (json_integer_or(json, "bytes", 0) > 0)
                row->bytes = (uint64_t)json_integer_or(json, "bytes", 0);
}

/* The folder of all of the stack's; -1 with errno. Its path is trusted; what is below it is looked at. */
static int open_all(const char *workspaces, const char *stack) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        return open(arena_printf(arena, "%s/" AGENTS_FOLDER "/%s", workspaces, stack),
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Names in a folder below, of those that are asked for, in order. A file has none. */
static int list_names(int all, const char *path, folder_name_wanted *is_name, struct arena *arena,
                      const char ***ret, size_t *ret_count) {
        int folder DESCRIPTOR_CLEANUP = beneath_open(all, path, O_RDONLY | O_DIRECTORY);

        *ret_count = 0;
        if (folder < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
        return folder_names(folder, is_name, NULL, arena, ret, ret_count);
}

int local_agents_list(const char *workspaces, const char *stack, struct arena *arena,
                      struct local_agent_workspace **ret, size_t *ret_count, struct error *err) {
        int all DESCRIPTOR_CLEANUP = open_all(workspaces, stack);
        struct local_agent_workspace *rows = NULL;
        const char **agents = NULL, **hashes = NULL;
        size_t agent_count = 0, hash_count = 0, count = 0;

        if (all < 0 && errno != ENOENT)
                return error_set(err, "cannot open %s/" AGENTS_FOLDER "/%s: %s", workspaces, stack,
                                 strerror(errno));
        if (all >= 0 && list_names(all, ".", is_agent, arena, &agents, &agent_count) < 0)
                return error_set(err, "cannot read %s/" AGENTS_FOLDER "/%s: %s", workspaces, stack,
                                 strerror(errno));
        for (size_t i = 0; i < agent_count; i++) {
                /* A folder that may not be read, or is another file system, hides no other. */
                if (list_names(all, agents[i], is_hash, arena, &hashes, &hash_count) < 0)
                        log_warning("cannot read %s/" AGENTS_FOLDER
                                    "/%s/%s: %s. This workspace is not among the workspaces of agents",
                                    workspaces, stack, agents[i], strerror(errno));
                for (size_t j = 0; j < hash_count; j++) {
                        rows = array_grow(arena, rows, count, sizeof(*rows));
                        rows[count] = (struct local_agent_workspace){ .agent = agents[i], .hash = hashes[j] };
                        read_row(all, stack, arena, &rows[count++]);
                }
        }
        *ret = rows;
        *ret_count = count;
        return 0;
}

int local_agent_read(const char *workspaces, const char *stack, const char *agent, const char *owner,
                     struct arena *arena, struct local_agent_workspace *ret, struct error *err) {
        int all DESCRIPTOR_CLEANUP = open_all(workspaces, stack);
        struct local_agent_workspace row = { .agent = agent, .hash = local_hash(&owner, 1, arena) };

        if (all >= 0 && local_is_agent(agent))
                read_row(all, stack, arena, &row);
        if (!row.owner)
                return error_set_kind(err, ERROR_NOT_FOUND, "the index has no such workspace");
        *ret = row;
        return 0;
}

/* --- written --- */

static bool says_the_same(const struct local_agent_workspace *a, const struct local_agent_workspace *b) {
        return strcmp(a->environment, b->environment) == 0 && a->created_ms == b->created_ms &&
               a->bytes == b->bytes;
}

int local_agent_write(const char *workspaces, const char *stack, const struct local_agent_workspace *row,
                      struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder =
                local_agent_folder(workspaces, stack, row->agent, local_hash(&row->owner, 1, arena), arena);
        char *path TEXT_CLEANUP = path_join(folder, SESSION_FILE);
        struct local_agent_workspace there;
        json_t *json JSON_CLEANUP = NULL;
        char *text TEXT_CLEANUP = NULL;
        struct error missing;

        if (local_agent_read(workspaces, stack, row->agent, row->owner, arena, &there, &missing) == 0 &&
            says_the_same(row, &there))
                return 0;
        json = json_checked(json_pack("{ss, ss, ss, ss, ss, sI, sI, sI}", "formatVersion", SESSION_FORMAT,
                                      "stack", stack, "environment", row->environment, "owner", row->owner,
                                      "agent", row->agent, "createdMs", (json_int_t)row->created_ms,
                                      "livesUntilMs", (json_int_t)0, "bytes", (json_int_t)row->bytes));
        text = json_compact(json);
        return folder_make(folder, err) < 0 || file_write_atomic(path, text, strlen(text), 0600, err) < 0
                       ? -1
                       : folder_sync(path_folder(folder, arena), err);
}

/* What a writer left that died goes, too. Takes the descriptor. */
static int forget_files(int folder) {
        DIR *stream = fdopendir(folder);
        const struct dirent *entry;
        int result = 0;

        if (!stream) {
                close_descriptor(&folder);
                return -1;
        }
        while ((entry = readdir(stream))) {
                if ((strcmp(entry->d_name, SESSION_FILE) == 0 || file_is_leftover(entry->d_name)) &&
                    unlinkat(dirfd(stream), entry->d_name, 0) < 0 && errno != ENOENT)
                        result = -1;
        }
        closedir(stream);
        return result;
}

int local_agent_forget(const char *workspaces, const char *stack, const char *agent, const char *hash,
                       struct error *err) {
        int all DESCRIPTOR_CLEANUP = open_all(workspaces, stack), above DESCRIPTOR_CLEANUP = -1, folder = -1;

        if (all >= 0)
                above = beneath_open(all, agent, O_RDONLY | O_DIRECTORY);
        if (above >= 0)
                folder = beneath_open(above, hash, O_RDONLY | O_DIRECTORY);
        if (folder < 0 && errno == ENOENT)
                return 0;
        if (folder < 0 || forget_files(folder) < 0 ||
            (unlinkat(above, hash, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENOTEMPTY))
                return error_set(err, "cannot remove %s/" AGENTS_FOLDER "/%s/%s/%s: %s", workspaces, stack,
                                 agent, hash, strerror(errno));
        return 0;
}

/* --- other stacks' --- */

/* Names are made of the folder's path: of another one they mean other workspaces. */
static const char *real_path(const char *workspaces, struct arena *arena) {
        char *whole TEXT_CLEANUP = realpath(workspaces, NULL);

        return arena_strdup(arena, whole ? whole : workspaces);
}

void local_others_read(const char *workspaces, const char *stack, struct arena *arena, const char ***ret,
                       size_t *ret_count) {
        int all DESCRIPTOR_CLEANUP = open_all(workspaces, stack), file DESCRIPTOR_CLEANUP = -1;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json JSON_CLEANUP = NULL, *names, *name;
        size_t i, count = 0;

        *ret_count = 0;
        if (all >= 0)
                file = beneath_open(all, OTHERS_FILE, O_RDONLY);
        if (file < 0 || descriptor_read(file, OTHERS_BYTES_MAX, &text) != 0)
                return;
        json = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
        if (!says(json, "formatVersion", SESSION_FORMAT) ||
            !says(json, "workspaces", real_path(workspaces, arena)))
                return;
        names = json_object_get(json, "names");
        *ret = arena_array(arena, json_array_size(names) + 1, sizeof(**ret));
        json_array_foreach (names, i, name) {
                const char *said = json_string_value(name);

                /* In no order, they are not as they were written. */
                if (!said || (count > 0 && strcmp(said, (*ret)[count - 1]) <= 0))
                        return;
                (*ret)[count++] = arena_strdup(arena, said);
        }
        *ret_count = count;
}

int local_others_write(const char *workspaces, const char *stack, const char *const *names, size_t count,
                       struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = arena_printf(arena, "%s/" AGENTS_FOLDER "/%s", workspaces, stack);
        char *path TEXT_CLEANUP = path_join(folder, OTHERS_FILE);
        json_t *json JSON_CLEANUP = NULL, *all = json_array();
        char *text TEXT_CLEANUP = NULL;

        for (size_t i = 0; i < count; i++)
                json_add(all, json_string(names[i]));
        json = json_checked(json_pack("{ss, ss, so}", "formatVersion", SESSION_FORMAT, "workspaces",
                                      real_path(workspaces, arena), "names", all));
        text = json_compact(json);
        return folder_make(folder, err) < 0 ? -1 : file_write_atomic(path, text, strlen(text), 0600, err);
}
