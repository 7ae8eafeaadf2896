/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record may be anything by the time we read it: people edit these files. It is opened without following links and without
 * blocking on a pipe, must be a regular file, and has a maximum size. Its marks (stack, kind, name) decide whose it is before
 * anything else in it counts: a file without them is not ours, and says nothing. The same spec always gives the same bytes, so
 * that their SHA-256 tells whether a record changed.
 */
#include "providers/local/record.h"

#include "base/array.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sorted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_BYTES_MAX (4u << 20)

const char *record_revision(const struct local_record *record, struct arena *arena) {
        char *revision = arena_alloc(arena, SHA256_HEX_SIZE);

        digest_sha256_hex(record->bytes, record->length, revision);
        return revision;
}

const char *record_path(const struct record_place *place, struct arena *arena) {
        return path_join_in(place->root, local_record_name(place->kind, place->name, arena), arena);
}

/* ---- from bytes ---- */

static int fail_damaged(struct error *err, const char *path, const char *what) {
        return error_set(err, "%s is damaged: %s; repair it, or remove it and apply again", path, what);
}

/* {"value": TEXT, "sensitive": true} becomes the marked text that it means. */
static void read_variables(struct value *spec, struct arena *arena) {
        const struct value *variables = value_get(spec, "variables");
        struct value *read = value_new_map(arena);

        if (!variables || variables->type != VALUE_MAP)
                return;
        for (uint32_t i = 0; i < variables->count; i++) {
                const struct member *member = &variables->members[i];
                const struct value *text = value_get(&member->value, "value");
                struct value variable = member->value;

                if (text && text->type == VALUE_TEXT) {
                        variable = *text;
                        variable.sensitive = value_get_boolean(&member->value, "sensitive", false);
                }
                value_set(arena, read, member->name, variable);
        }
        value_set(arena, spec, "variables", *read);
}

static bool member_is(const json_t *json, const char *name, const char *expected) {
        const char *text = json_text(json, name);

        return text && strcmp(text, expected) == 0;
}

/* Whose the record is, by its stack, kind and name. A copy of another record of ours is not ours under this name. */
static void read_marks(const struct record_place *place, const json_t *json, struct arena *arena,
                       struct local_record *ret) {
        const char *stack = json_text(json, "stack"), *kind = json_text(json, "kind"),
                   *name = json_text(json, "name");

        ret->ownership = OWNER_NONE;
        if (!stack || !kind || !name)
                return;
        if (strcmp(stack, place->stack) == 0 && strcmp(kind, kinds[place->kind]->name) == 0 &&
            strcmp(name, place->name) == 0) {
                ret->ownership = OWNER_SELF;
                return;
        }
        ret->ownership = OWNER_OTHER;
        ret->owner = strcmp(stack, place->stack) != 0
                             ? arena_printf(arena, "stack %s", stack)
                             : arena_printf(arena, "%s/%s (it is a copy of that record)", kind, name);
}

int record_parse(const struct record_place *place, const char *text, size_t length, struct arena *arena,
                 struct local_record *ret, struct error *err) {
        json_error_t failure;
        json_t *json JSON_CLEANUP = json_loadb(text, length, JSON_REJECT_DUPLICATES, &failure);
        const json_t *spec = json_object_get(json, "spec");

        if (!json)
                return fail_damaged(
                        err, ret->path,
                        arena_printf(arena, "it is not JSON (line %d: %s)", failure.line, failure.text));
        if (!json_is_object(json))
                return fail_damaged(err, ret->path, "it is not a JSON object");
        read_marks(place, json, arena, ret);
        if (ret->ownership != OWNER_NONE && !member_is(json, "formatVersion", RECORD_FORMAT))
                return error_set(err,
                                 "%s has format %s, and this version of berth knows %s: use the version that "
                                 "wrote it",
                                 ret->path,
                                 json_text(json, "formatVersion") ? json_text(json, "formatVersion") : "?",
                                 RECORD_FORMAT);
        if (ret->ownership == OWNER_SELF && !json_is_object(spec))
                return fail_damaged(err, ret->path, "it has no spec");
        ret->exists = true;
        ret->spec = value_new_map(arena);
        if (ret->ownership != OWNER_NONE && json_is_object(spec))
                *ret->spec = value_from_json(arena, spec);
        if (place->kind == KIND_ENVIRONMENT)
                read_variables(ret->spec, arena);
        ret->bytes = arena_strndup(arena, text, length);
        ret->length = length;
        return 0;
}

/* ---- to bytes ---- */

static struct value written_variables(const struct value *variables, struct arena *arena) {
        struct value *written = value_new_map(arena);

        for (uint32_t i = 0; i < variables->count; i++) {
                const struct member *member = &variables->members[i];
                struct value text = member->value, *marked = value_new_map(arena);

                text.sensitive = false;
                if (member->value.sensitive) {
                        value_set(arena, marked, "value", text);
                        value_set_boolean(arena, marked, "sensitive", true);
                }
                value_set(arena, written, member->name, member->value.sensitive ? *marked : text);
        }
        return *written;
}

/* Empty values are left out of the file. */
static bool is_empty(const struct value *value) {
        return value->type == VALUE_NULL ||
               ((value->type == VALUE_MAP || value->type == VALUE_LIST) && value->count == 0);
}

static struct value written_map(const struct value *map, struct arena *arena) {
        struct value *written = value_new_map(arena);

        for (uint32_t i = 0; map && i < map->count; i++) {
                const struct member *member = &map->members[i];
                struct value value = member->value;

                if (strcmp(member->name, "variables") == 0 && value.type == VALUE_MAP)
                        value = written_variables(&value, arena);
                else if (value.type == VALUE_MAP)
                        value = written_map(&value, arena);
                if (!is_empty(&value))
                        value_set(arena, written, member->name, value);
        }
        return *written;
}

const char *record_text(const struct record_place *place, const struct value *spec, struct arena *arena) {
        struct value written = written_map(spec, arena);
        json_t *json JSON_CLEANUP = NULL;
        const char *copy;
        char *text;

        json = json_pack("{s:s, s:s, s:s, s:s, s:o}", "formatVersion", RECORD_FORMAT, "stack", place->stack,
                         "kind", kinds[place->kind]->name, "name", place->name, "spec",
                         value_to_json(&written, NULL));
        text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
        if (!text)
                abort();
        copy = arena_printf(arena, "%s\n", text);
        free(text);
        return copy;
}

/* ---- on disk ---- */

static int fail_record(struct error *err, const char *verb, const char *path) {
        return error_set(err, "cannot %s %s: %s", verb, path, strerror(errno));
}

/* The open file; -1 where it does not exist (*ret_missing) or cannot be opened (err). */
static int open_record(const char *path, bool *ret_missing, struct error *err) {
        int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        struct stat status;

        *ret_missing = descriptor < 0 && errno == ENOENT;
        if (descriptor < 0 && errno == ELOOP)
                return error_set(err, "%s is a link, not a record: remove it, and apply again", path);
        if (descriptor < 0)
                return *ret_missing ? -1 : fail_record(err, "open", path);
        if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
                return descriptor;
        close(descriptor);
        return error_set(err, "%s is not a file: remove it, and apply again", path);
}

static int read_bounded(int descriptor, const char *path, struct strbuf *ret, struct error *err) {
        int result = descriptor_read(descriptor, RECORD_BYTES_MAX, ret);

        if (result < 0)
                return fail_record(err, "read", path);
        return result ? fail_damaged(err, path, "it is too large for a record") : 0;
}

int record_read(const struct record_place *place, struct arena *arena, struct local_record *ret,
                struct error *err) {
        struct local_record found = { .path = record_path(place, arena) };
        struct strbuf text STRBUF_CLEANUP = STRBUF_SECRET;
        bool missing;
        int descriptor DESCRIPTOR_CLEANUP = open_record(found.path, &missing, err);

        if (descriptor < 0 && !missing)
                return -1;
        if (!missing && (read_bounded(descriptor, found.path, &text, err) < 0 ||
                         record_parse(place, strbuf_text(&text), text.length, arena, &found, err) < 0))
                return -1;
        *ret = found;
        return 0;
}

static char *folder_path(const char *root, enum kind_id kind) {
        const char *folder = local_record_folder(kind);

        return folder[0] ? path_join(root, folder) : strdup(root);
}

int record_write(const struct record_place *place, const char *text, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *folder TEXT_CLEANUP = folder_path(place->root, place->kind);

        if (!folder)
                abort();
        if (folder_make(folder, err) < 0)
                return -1;
        return file_write_atomic(record_path(place, arena), text, strlen(text), 0600, err);
}

int record_remove(const struct record_place *place, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *folder TEXT_CLEANUP = folder_path(place->root, place->kind);
        const char *path = record_path(place, arena);
        struct error failure;

        if (!folder)
                abort();
        if (unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
                return fail_record(err, "remove", path);
        if (folder_sync(folder, &failure) == 0 || failure.kind == ERROR_NOT_FOUND)
                return 0;
        *err = failure;
        return -1;
}

static bool is_leftover(const char *name) {
        const char *marker = strstr(name, ".json.");

        return marker && marker != name && file_is_leftover(name);
}

void record_tidy(const char *root, enum kind_id kind) {
        char *path TEXT_CLEANUP = folder_path(root, kind);
        DIR *folder = path ? opendir(path) : NULL;
        const struct dirent *entry;

        if (!folder)
                return;
        while ((entry = readdir(folder))) {
                if (is_leftover(entry->d_name))
                        unlinkat(dirfd(folder), entry->d_name, 0);
        }
        closedir(folder);
}

int record_list(const char *root, enum kind_id kind, struct arena *arena, const char ***ret,
                size_t *ret_count, struct error *err) {
        char *path TEXT_CLEANUP = path_join(root, local_record_folder(kind));
        DIR *folder = opendir(path);
        const struct dirent *entry;
        const char **names = NULL;
        size_t count = 0;

        if (!folder && errno != ENOENT)
                return error_set(err, "cannot open %s: %s", path, strerror(errno));
        while (folder && (entry = readdir(folder))) {
                size_t length = strlen(entry->d_name);

                if (length <= 5 || entry->d_name[0] == '.' ||
                    strcmp(entry->d_name + length - 5, ".json") != 0)
                        continue;
                names = array_grow(arena, names, count, sizeof(*names));
                names[count++] = arena_strndup(arena, entry->d_name, length - 5);
        }
        if (folder)
                closedir(folder);
        if (count > 1)
                qsort(names, count, sizeof(*names), sorted_compare_texts);
        *ret = names;
        *ret_count = count;
        return 0;
}
