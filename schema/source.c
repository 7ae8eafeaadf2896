/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a load: found, read, checked to be text. Errors of one file are diagnostics and the
 * others are read nevertheless; only a path that leads nowhere fails the load.
 *
 * A file counts as a document found even if it could not be read: an unreadable file must not pass for a stack
 * without resources.
 *
 * Lines are counted as libyaml counts them, since the positions of nodes come from there (see breaks.h for its other breaks). Where each line begins is
 * worked out once for a file, when the first diagnostic needs it.
 */
#include "base/text.h"
#include "schema/loading.h"

#include "base/array.h"
#include "base/files.h"
#include "base/sorted.h"
#include "base/text_utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK "\xEF\xBB\xBF"
#define MARK_SIZE (sizeof(MARK) - 1)

uint16_t source_add(struct loading *loading, const char *path) {
        loading->sources =
                array_grow(loading->work, loading->sources, loading->source_count, sizeof(*loading->sources));
        loading->sources[loading->source_count] =
                (struct source){ .path = arena_strdup(loading->arena, path) };
        return (uint16_t)loading->source_count++;
}

void source_release(struct source *source) {
        strbuf_release(&source->bytes);
        free(source->line_starts);
}

static void whole_file_error(struct loading *loading, const char *path, const char *hint,
                             const char *message) {
        diagnostics_add(loading->diagnostics, (struct diagnostic){
                                                      .severity = SEVERITY_ERROR,
                                                      .file = arena_strdup(loading->arena, path),
                                                      .message = message,
                                                      .hint = hint,
                                                      .span = 1,
                                              });
}

bool source_is_manifest_name(const char *name) {
        return text_ends_with(name, ".yaml") || text_ends_with(name, ".yml");
}

static void search_folder(struct loading *loading, const char *folder);

/* Names that begin with a dot are passed over: editors and desktops keep locks and metadata under names like ours. */
static void consider_entry(struct loading *loading, const char *folder, const struct dirent *entry) {
        struct stat status;
        char *path TEXT_CLEANUP = NULL;

        if (entry->d_name[0] == '.')
                return;
        if (entry->d_type == DT_REG && !source_is_manifest_name(entry->d_name))
                return;
        path = path_join(folder, entry->d_name);
        if (lstat(path, &status) < 0)
                return; /* gone since */
        if (S_ISDIR(status.st_mode)) {
                search_folder(loading, path);
                return;
        }
        if (!source_is_manifest_name(entry->d_name) || loading->source_count > FILE_COUNT_MAX)
                return;
        /* A link that leads nowhere, or round in circles, stays in the list: reading it says so. */
        if (S_ISLNK(status.st_mode) && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
                return;
        source_add(loading, path);
}

static void search_folder(struct loading *loading, const char *folder) {
        DIR *directory = opendir(folder[0] ? folder : ".");
        const struct dirent *entry;

        if (!directory) {
                whole_file_error(
                        loading, folder, NULL,
                        arena_printf(loading->arena, "the folder cannot be read: %s", strerror(errno)));
                return;
        }
        while ((entry = readdir(directory)))
                consider_entry(loading, folder, entry);
        closedir(directory);
}

static int compare_sources(const void *a, const void *b) {
        return strcmp(((const struct source *)a)->path, ((const struct source *)b)->path);
}

/*
 * A pipe named like a manifest would make Berth wait forever: only regular files are read, unless
 * people name another.
 */
static bool is_readable_kind(int descriptor, bool named) {
        struct stat status;

        return fstat(descriptor, &status) == 0 &&
               (S_ISREG(status.st_mode) || (named && !S_ISDIR(status.st_mode)));
}

static int open_source(const struct source *source, bool named) {
        if (named && strcmp(source->path, "<stdin>") == 0)
                return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        return open(source->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (named ? 0 : O_NONBLOCK));
}

/*
 * Whether a byte order mark between the `length` bytes of `before` and `rest` stands where a document may begin: first
 * thing in the file, or on a line of "---"; comments, directives and empty lines may come between.
 */
static bool begins_document(const char *before, size_t length, const char *rest) {
        return length == 0 || ((before[length - 1] == '\n' || before[length - 1] == '\r') &&
                               (strncmp(rest, "---", 3) == 0 || strchr("#%\r\n", *rest)));
}

/* Files joined into one bring their byte order marks along; libyaml knows the first alone. The bytes end with a NUL. */
static void remove_marks(struct strbuf *bytes) {
        char *mark = bytes->data ? memmem(bytes->data, bytes->length, MARK, MARK_SIZE) : NULL;
        size_t kept, from;

        if (!mark)
                return;
        kept = from = (size_t)(mark - bytes->data);
        while (from < bytes->length) {
                const char *at = bytes->data + from;

                if (strncmp(at, MARK, MARK_SIZE) == 0 && begins_document(bytes->data, kept, at + MARK_SIZE))
                        from += MARK_SIZE;
                else
                        bytes->data[kept++] = bytes->data[from++];
        }
        bytes->length = kept;
        bytes->data[kept] = '\0';
}

static void refuse_large(struct loading *loading, struct source *source) {
        whole_file_error(loading, source->path, "split it: a folder may hold many files",
                         "the file is larger than 16 MiB");
        strbuf_release(&source->bytes);
        source->documents = 1;
}

void source_read(struct loading *loading, uint16_t number, int descriptor, bool named) {
        struct source *source = &loading->sources[number];
        bool readable = descriptor >= 0 && is_readable_kind(descriptor, named);
        int result = readable ? descriptor_read(descriptor, FILE_SIZE_MAX, &source->bytes) : 0;

        if (descriptor < 0 || result < 0) {
                whole_file_error(
                        loading, source->path, NULL,
                        arena_printf(loading->arena, "the file cannot be read: %s", strerror(errno)));
                strbuf_release(&source->bytes);
                source->documents = 1;
                return;
        }
        if (!readable) {
                whole_file_error(loading, source->path, NULL, "this is no regular file");
                source->documents = 1;
        } else if (result > 0) {
                refuse_large(loading, source);
        } else {
                remove_marks(&source->bytes);
        }
}

static void open_and_read(struct loading *loading, uint16_t number, bool named) {
        int descriptor DESCRIPTOR_CLEANUP = open_source(&loading->sources[number], named);

        source_read(loading, number, descriptor, named);
}

static void read_named(struct loading *loading, const char *path) {
        uint16_t number = source_add(loading, path);

        loading->sources[number].named = true;
        open_and_read(loading, number, true);
}

int source_gather(struct loading *loading, const char *path, struct error *err) {
        size_t from = loading->source_count;
        bool is_folder;
        struct stat status;

        if (strcmp(path, "-") == 0) {
                read_named(loading, "<stdin>");
                return 0;
        }
        if (stat(path, &status) < 0)
                return error_set_kind(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED,
                                      "cannot read manifests from %s: %s", path, strerror(errno));
        is_folder = S_ISDIR(status.st_mode);
        if (from == 0)
                loading->is_folder = is_folder;
        if (is_folder)
                search_folder(loading, path);
        if (loading->source_count + !is_folder > FILE_COUNT_MAX)
                return error_set(err, "%s%s more than %d manifest files", path,
                                 from == 0 ? " holds" : " and what comes before it hold", FILE_COUNT_MAX);
        if (!is_folder) {
                read_named(loading, path);
                return 0;
        }
        if (loading->source_count - from > 1)
                qsort(loading->sources + from, loading->source_count - from, sizeof(*loading->sources),
                      compare_sources);
        for (size_t i = from; i < loading->source_count; i++)
                open_and_read(loading, (uint16_t)i, false);
        return 0;
}

int source_gather_files(struct loading *loading, const struct manifest_file *files, size_t count,
                        struct error *err) {
        if (count > FILE_COUNT_MAX)
                return error_set(err, "there are more than %d manifest files", FILE_COUNT_MAX);
        loading->is_folder = true; /* so many come from a folder somewhere */
        for (size_t i = 0; i < count; i++) {
                uint16_t number = source_add(loading, files[i].name);
                struct source *source = &loading->sources[number];

                source->tree_path = arena_strdup(loading->arena, files[i].path);
                if (files[i].length > FILE_SIZE_MAX) {
                        refuse_large(loading, source);
                } else if (files[i].length > 0) {
                        strbuf_append_bytes(&source->bytes, files[i].bytes, files[i].length);
                        remove_marks(&source->bytes);
                }
        }
        return 0;
}

/* The length of the line break at the text's begin; or 0. */
static size_t break_size(const char *text, size_t length) {
        if (text[0] == '\r')
                return length > 1 && text[1] == '\n' ? 2 : 1;
        return text[0] == '\n';
}

/* Lines begin at `starts`, which may be NULL to count them only. */
static size_t find_lines(const struct source *source, uint32_t *starts) {
        const char *text = strbuf_text(&source->bytes);
        size_t count = 0;

        if (starts)
                starts[count] = 0;
        count++;
        for (size_t at = 0; at < source->bytes.length;) {
                size_t size = break_size(text + at, source->bytes.length - at);

                at += size ? size : 1;
                if (size == 0)
                        continue;
                if (starts)
                        starts[count] = (uint32_t)at;
                count++;
        }
        return count;
}

static void index_lines(struct source *source) {
        source->line_count = find_lines(source, NULL);
        source->line_starts = calloc(source->line_count, sizeof(*source->line_starts));
        if (!source->line_starts)
                abort();
        find_lines(source, source->line_starts);
}

const char *source_line(struct source *source, uint32_t line, size_t *ret_length) {
        const char *text = strbuf_text(&source->bytes);
        size_t start, end;

        if (!source->line_starts)
                index_lines(source);
        if (line == 0 || line > source->line_count)
                return NULL;
        start = source->line_starts[line - 1];
        end = line < source->line_count ? source->line_starts[line] : source->bytes.length;
        if (line < source->line_count) {
                size_t next = end;

                do
                        end--;
                while (break_size(text + end, next - end) == 0);
                /* Back from the second byte of a CRLF to its first. */
                if (text[end] == '\n' && end > start && text[end - 1] == '\r')
                        end--;
        }
        *ret_length = end - start;
        return text + start;
}

/* A line's start comes before every byte of it, its first one too. */
static int compare_to_line_start(const void *sought, const void *item) {
        return *(const size_t *)sought >= *(const uint32_t *)item ? 1 : -1;
}

void source_locate(struct source *source, size_t offset, uint32_t *ret_line, uint32_t *ret_column) {
        const char *text = strbuf_text(&source->bytes);
        size_t line;

        if (!source->line_starts)
                index_lines(source);
        line = sorted_first(source->line_starts, source->line_count, sizeof(*source->line_starts), &offset,
                            compare_to_line_start);
        *ret_line = (uint32_t)line;
        *ret_column = 1;
        for (size_t at = source->line_starts[line - 1]; at < offset; at++)
                *ret_column += ((unsigned char)text[at] & 0xC0) != 0x80;
}

/* Finds the first byte that no text holds. A mebibyte takes about a millisecond. */
static bool find_control(const struct strbuf *bytes, size_t *ret_offset, bool *ret_high) {
        const unsigned char *data = (const unsigned char *)bytes->data;

        *ret_high = false;
        for (size_t i = 0; i < bytes->length; i++) {
                unsigned char byte = data[i];

                if (byte >= 0x20 && byte < 0x7F)
                        continue;
                if (byte >= 0x80) {
                        *ret_high = true;
                } else if (byte != '\n' && byte != '\r' && byte != '\t') {
                        *ret_offset = i;
                        return true;
                }
        }
        return false;
}

static struct place place_of_offset(struct loading *loading, uint16_t file, size_t offset) {
        struct place place = { .file = file };

        source_locate(&loading->sources[file], offset, &place.line, &place.column);
        return place;
}

/* A byte order mark that is left and begins a line with a manifest's part: a file was joined to this one without a "---". */
static bool find_joint(const struct strbuf *bytes, size_t *ret_offset) {
        static const char *const joints[] = { "\n" MARK "apiVersion:", "\n" MARK "kind:",
                                              "\n" MARK "metadata:", "\n" MARK "spec:" };

        for (size_t i = 0; i < sizeof(joints) / sizeof(joints[0]); i++) {
                const char *found = memmem(bytes->data, bytes->length, joints[i], strlen(joints[i]));

                if (found) {
                        *ret_offset = (size_t)(found - bytes->data) + 1;
                        return true;
                }
        }
        return false;
}

static bool check_encoding(struct loading *loading, uint16_t file) {
        const struct strbuf *bytes = &loading->sources[file].bytes;
        size_t offset = 0;
        bool high;

        if (bytes->length >= 2 &&
            (memcmp(bytes->data, "\xFF\xFE", 2) == 0 || memcmp(bytes->data, "\xFE\xFF", 2) == 0)) {
                problem_error(loading, (struct place){ .file = file }, "save it as UTF-8",
                              "this file is UTF-16");
                return false;
        }
        if (find_control(bytes, &offset, &high)) {
                problem_error(loading, place_of_offset(loading, file, offset), NULL,
                              "a control character (byte 0x%02X) cannot stand in a manifest",
                              (unsigned char)bytes->data[offset]);
                return false;
        }
        if (high && !text_is_utf8(bytes->data, bytes->length, &offset)) {
                problem_error(loading, place_of_offset(loading, file, offset), "save the file as UTF-8",
                              "invalid UTF-8 (byte 0x%02X)", (unsigned char)bytes->data[offset]);
                return false;
        }
        if (high && find_joint(bytes, &offset)) {
                problem_error(loading, place_of_offset(loading, file, offset), "put a line of --- before it",
                              "a byte order mark (U+FEFF) without --- before it: another file begins here");
                return false;
        }
        return true;
}

bool source_check_text(struct loading *loading, uint16_t file) {
        size_t first = loading->diagnostics->count;

        if (check_encoding(loading, file))
                return true;
        problem_quote_nothing_unread(loading, file, first, 1, UINT32_MAX);
        return false;
}
