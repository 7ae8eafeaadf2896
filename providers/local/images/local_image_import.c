/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The import of one image as a user sees it: the path is opened here, with the user's rights; what is in it was made
 * by others and is read in a cage (image_worker); what came out is put under its tag. An image that Berth would
 * refuse to run is no error but a row with its problem and a remedy, as `berth images` shows it.
 */
#include "providers/local/images/local_image_import.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "providers/local/images/image_source.h"
#include "providers/local/images/image_worker.h"
#include "providers/local/images/local_reference.h"

#include <inttypes.h>

struct import {
        struct arena *arena;
        struct local_reference name;
        struct image_store store;
        struct image_prepared prepared;
        const char *weak; /* of the cage that it was read in; or NULL */
};

static void end_import(struct import *import) {
        image_store_close(&import->store);
}

static void note_count(struct strbuf *text, uint64_t count, const char *one, const char *many) {
        if (count > 0)
                strbuf_printf(text, "%s%" PRIu64 " %s", text->length ? ", " : "", count,
                              count == 1 ? one : many);
}

/* Why something of the image is not there; NULL where all of it is. */
static const char *describe_left_out(const struct unpack_tally *tally, const char *weak,
                                     struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        note_count(&text, tally->privileged, "file's set-uid, set-gid or sticky bit",
                   "files' set-uid, set-gid or sticky bits");
        note_count(&text, tally->capabilities, "file's capabilities", "files' capabilities");
        note_count(&text, tally->devices, "device", "devices");
        note_count(&text, tally->specials, "FIFO or socket", "FIFOs or sockets");
        if (text.length)
                return arena_printf(arena, "left out: %s%s%s", strbuf_text(&text), weak ? "; " : "",
                                    weak ? weak : "");
        return weak;
}

/* A row of `berth images`: the same fields, whether it went in or was refused. */
static void fill_import_row(const struct import *import, const char *path, struct image_row *ret) {
        const struct image_verdict *verdict = &import->prepared.verdict;

        *ret = (struct image_row){
                .repository = import->name.repository,
                .tags = arena_array(import->arena, 1, sizeof(*ret->tags)),
                .tag_count = 1,
                .digest = import->prepared.digest,
                .size = verdict->size,
                .media_type = verdict->media_type,
                .platform = verdict->platform,
                .runtime = verdict->runtime,
                .problem = verdict->problem,
        };
        ret->tags[0] = import->name.tag;
        if (!verdict->problem) {
                ret->pushed_ms = clock_wall_ms();
                ret->note = describe_left_out(&import->prepared.tally, import->weak, import->arena);
                return;
        }
        ret->message = arena_printf(import->arena, "%s %s", path, verdict->seen);
        ret->remedy = local_reference_remedy(&import->name, verdict->problem, import->arena);
}

/* All of it is made in a work folder; the commit moves it into place, its name last, so that a name never leads nowhere. */
static int import_image(struct import *import, const char *store, const char *path, bool caged,
                        struct error *err) {
        struct image_prepared *prepared = &import->prepared;
        int given DESCRIPTOR_CLEANUP = -1;

        if (image_store_open(store, &import->store, err) < 0 || image_source_find(path, &given, err) < 0)
                return -1;
        if ((caged ? image_worker_prepare(&import->store, given, path, &import->name, import->arena, prepared,
                                          &import->weak, err)
                   : image_prepare(&import->store, given, path, &import->name, import->arena, prepared,
                                   err)) < 0)
                return -1;
        if (prepared->verdict.problem)
                return 0;
        return image_store_commit(
                &import->store,
                arena_printf(import->arena, "%s:%s", import->name.repository, import->name.tag),
                prepared->digest, !prepared->present, import->arena, err);
}

static int import_as(const char *store, const char *name, const char *path, bool caged, struct arena *arena,
                     struct image_row *ret, struct error *err) {
        struct import import
                __attribute__((cleanup(end_import))) = { .arena = arena, .store = IMAGE_STORE_INIT };

        if (local_reference_parse(name, arena, &import.name, err) < 0)
                return -1;
        if (import.name.digest)
                return error_set(err, "%s is a digest: an image is imported as REPOSITORY:TAG", name);
        if (import_image(&import, store, path, caged, err) < 0)
                return -1;
        fill_import_row(&import, path, ret);
        return 0;
}

int local_image_import(const char *store, const char *name, const char *path, struct arena *arena,
                       struct image_row *ret, struct error *err) {
        return import_as(store, name, path, true, arena, ret, err);
}

int local_image_import_here(const char *store, const char *name, const char *path, struct arena *arena,
                            struct image_row *ret, struct error *err) {
        return import_as(store, name, path, false, arena, ret, err);
}
