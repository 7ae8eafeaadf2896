/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests in a temporary folder, loaded, and what was said about them as one text. */
#ifndef BERTH_TESTS_UNIT_SCHEMA_SUPPORT_H
#define BERTH_TESTS_UNIT_SCHEMA_SUPPORT_H

#include "folder.h"

#include "schema/manifests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct loaded {
        struct arena *arena;
        struct manifests manifests;
        struct diagnostics diagnostics;
        struct error err;
        int result;
        struct strbuf said; /* "FILE:LINE:COLUMN: MESSAGE [HINT]", a line each; FILE without the folder */
        char folder[64];
};

static inline void loaded_begin(struct loaded *loaded) {
        memset(loaded, 0, sizeof(*loaded));
        loaded->arena = arena_new();
        diagnostics_init(&loaded->diagnostics, loaded->arena);
        folder_make_temporary(loaded->folder);
}

static inline const char *loaded_path(struct loaded *loaded, const char *name) {
        return arena_printf(loaded->arena, "%s%s%s", loaded->folder, *name ? "/" : "", name);
}

static inline void loaded_write_bytes(struct loaded *loaded, const char *name, const void *bytes,
                                      size_t length) {
        const char *path = loaded_path(loaded, name), *slash = strrchr(path, '/');
        char *folder = arena_strndup(loaded->arena, path, (size_t)(slash - path));

        assert_int_equal(folder_make(folder, &loaded->err), 0);
        assert_int_equal(file_write_atomic(path, bytes, length, 0600, &loaded->err), 0);
}

static inline void loaded_write(struct loaded *loaded, const char *name, const char *text) {
        loaded_write_bytes(loaded, name, text, strlen(text));
}

static inline void say(struct loaded *loaded, const struct diagnostic *diagnostic) {
        size_t length = strlen(loaded->folder);
        const char *file = diagnostic->file ? diagnostic->file : "";

        if (strncmp(file, loaded->folder, length) == 0)
                file += file[length] == '/' ? length + 1 : length;
        strbuf_printf(&loaded->said, "%s:%u:%u: %s%s", file, diagnostic->line, diagnostic->column,
                      diagnostic->severity == SEVERITY_WARNING ? "warning: " : "", diagnostic->message);
        if (diagnostic->hint)
                strbuf_printf(&loaded->said, " [%s]", diagnostic->hint);
        strbuf_append_char(&loaded->said, '\n');
}

/* Loads `name` below the folder ("" for the folder itself). */
static inline void loaded_load(struct loaded *loaded, const char *name, const struct load_options *options) {
        static const struct load_options none = { 0 };

        loaded->result = manifests_load(loaded_path(loaded, name), options ? options : &none, loaded->arena,
                                        &loaded->manifests, &loaded->diagnostics, &loaded->err);
        for (size_t i = 0; i < loaded->diagnostics.count; i++)
                say(loaded, &loaded->diagnostics.items[i]);
}

/* What messages say of places holds the temporary folder's name: tests write FOLDER. */
static inline const char *said_without_folder(struct loaded *loaded) {
        struct strbuf text = STRBUF_INIT;
        const char *rest = strbuf_text(&loaded->said), *at;

        while ((at = strstr(rest, loaded->folder))) {
                strbuf_append_bytes(&text, rest, (size_t)(at - rest));
                strbuf_append(&text, "FOLDER");
                rest = at + strlen(loaded->folder);
        }
        strbuf_append(&text, rest);
        at = arena_strdup(loaded->arena, strbuf_text(&text));
        strbuf_release(&text);
        return at;
}

static inline void loaded_end(struct loaded *loaded) {
        folder_remove(loaded->folder);
        strbuf_release(&loaded->said);
        arena_free(loaded->arena);
}

/* One file that is loaded by itself, and what is said of it; "": it is good. */
struct alone_case {
        const char *text, *says;
};

/* In all of the texts the word pa55word is a secret, which is never shown. */
static inline void check_alone_cases(const struct kind *kind, const struct alone_case *cases, size_t count) {
        const struct load_options options = { .alone = kind };

        for (size_t i = 0; i < count; i++) {
                struct loaded loaded;

                loaded_begin(&loaded);
                loaded_write(&loaded, "c.yaml", cases[i].text);
                loaded_load(&loaded, "c.yaml", &options);
                if (!*cases[i].says
                            ? loaded.result != 0
                            : (loaded.result == 0 || !strstr(strbuf_text(&loaded.said), cases[i].says)))
                        fail_msg("%s\nsaid: %s\nexpected: %s", cases[i].text, strbuf_text(&loaded.said),
                                 cases[i].says);
                assert_null(strstr(strbuf_text(&loaded.said), "pa55word"));
                for (size_t k = 0; k < loaded.diagnostics.count; k++) {
                        const char *line = loaded.diagnostics.items[k].source_line;

                        assert_true(!line || !strstr(line, "pa55word"));
                }
                loaded_end(&loaded);
        }
}

/* Among a stack's manifests it is a mistake, and said so once. */
static inline void check_not_in_a_stack(const char *text, const char *says) {
        struct loaded loaded;

        loaded_begin(&loaded);
        loaded_write(&loaded, "c.yaml", text);
        loaded_load(&loaded, "", NULL);
        assert_int_equal(loaded.result, -1);
        assert_string_equal(strbuf_text(&loaded.said), says);
        loaded_end(&loaded);
}

#endif
