/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files are named by the number of their first entry, so that their names' order is the log's. A writer holds the folder's lock (flock(2)) while
 * it adds; a reader only while it notes how far the log goes, and reads so far: no reader keeps a server waiting.
 */
#include "approvals/audit.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_DIGITS 12
#define NAME_SIZE (NAME_DIGITS + sizeof(".log"))
#define NO_HASH "0000000000000000000000000000000000000000000000000000000000000000"
#define HASH_LENGTH ((size_t)SHA256_HEX_SIZE - 1)

struct audit {
        char *folder;
        int lock; /* the folder */
        int file; /* the last one; -1: no file yet */
        uint64_t entries, size;
        char head[SHA256_HEX_SIZE];
        bool broken;
};

struct log_file {
        char name[NAME_SIZE];
        uint64_t size;
        int64_t changed_ms;
};

/* What there is, as it was at one moment. */
struct log_files {
        struct log_file *items; /* base/array.h */
        size_t count;
        uint64_t head_n;
        char head[SHA256_HEX_SIZE]; /* "" where there is no head */
};

struct reading {
        audit_take *take;
        void *context;
        struct audit_found *found;
        const struct log_files *files;
        const char *file;
        bool anchored, enough;
        uint64_t whole_bytes; /* of the file that is read, up to its last whole entry */
};

static void release_files(struct log_files *files) {
        array_free_alone(files->items);
        *files = (struct log_files){ 0 };
}
#define LOG_FILES_CLEANUP __attribute__((cleanup(release_files)))

static int compare_log_files(const void *one, const void *two) {
        return strcmp(((const struct log_file *)one)->name, ((const struct log_file *)two)->name);
}

static bool is_log(const char *name) {
        return strlen(name) == NAME_SIZE - 1 && strspn(name, "0123456789") == NAME_DIGITS &&
               text_ends_with(name, ".log");
}

/* "N HASH\n"; what is no such text is no head. */
static int read_head_file(const char *folder, struct log_files *files, struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, "head");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error why;
        char *end;

        if (file_read(path, 256, &text, &why) < 0) {
                if (why.kind == ERROR_NOT_FOUND)
                        return 0;
                *err = why;
                return -1;
        }
        files->head_n = strtoull(strbuf_text(&text), &end, 10);
        if (*end != ' ' || strlen(end) != HASH_LENGTH + 2)
                return error_set(err, "%s is no head of a log: it was changed", path);
        memcpy(files->head, end + 1, HASH_LENGTH);
        return 0;
}

static int list_log_files(const char *folder, int lock, struct log_files *ret, struct error *err) {
        DIR *open = opendir(folder);
        const struct dirent *entry;

        if (!open)
                return error_set(err, "cannot read %s: %s", folder, strerror(errno));
        while ((entry = readdir(open))) {
                struct log_file file = { 0 };
                struct stat status;

                if (!is_log(entry->d_name) || fstatat(lock, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                memcpy(file.name, entry->d_name, NAME_SIZE);
                file.size = (uint64_t)status.st_size;
                file.changed_ms = (int64_t)status.st_mtim.tv_sec * 1000;
                ret->items = array_grow_alone(ret->items, ret->count, sizeof(*ret->items));
                ret->items[ret->count++] = file;
        }
        closedir(open);
        if (ret->count > 1)
                qsort(ret->items, ret->count, sizeof(*ret->items), compare_log_files);
        return read_head_file(folder, ret, err);
}

/* --- read --- */

static bool report_damage(struct reading *reading, const char *what, uint64_t n) {
        reading->found->state = AUDIT_DAMAGED;
        snprintf(reading->found->why, sizeof(reading->found->why), "%s: entry %" PRIu64 " %s", reading->file,
                 n, what);
        return false;
}

/* One whole line, without its end. */
static bool read_log_line(struct reading *reading, const char *line, size_t length) {
        struct audit_found *found = reading->found;
        uint64_t n = found->entries + 1;
        json_t *entry JSON_CLEANUP = NULL;
        char hash[SHA256_HEX_SIZE];
        const char *previous;

        if (length < HASH_LENGTH + 3 || line[HASH_LENGTH] != ' ')
                return report_damage(reading, "is no entry", n);
        digest_sha256_hex(line + HASH_LENGTH + 1, length - HASH_LENGTH - 1, hash);
        if (memcmp(hash, line, HASH_LENGTH) != 0)
                return report_damage(reading, "was changed: its hash is another", n);
        /* What a command printed may have a NUL in it. */
        entry = json_loadb(line + HASH_LENGTH + 1, length - HASH_LENGTH - 1,
                           JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        previous = json_text(entry, "previous");
        if (!previous || strlen(previous) != HASH_LENGTH)
                return report_damage(reading, "does not name the one before", n);
        if (!reading->anchored) {
                n = (uint64_t)json_integer_or(entry, "n", 0);
                reading->anchored = true;
        } else if (strcmp(previous, found->head[0] ? found->head : NO_HASH) != 0 ||
                   (uint64_t)json_integer_or(entry, "n", 0) != n) {
                return report_damage(
                        reading, "does not follow the one before: some are missing, or in another order", n);
        }
        found->entries = n;
        memcpy(found->head, hash, sizeof(hash));
        if (n == reading->files->head_n && strcmp(hash, reading->files->head) != 0)
                return report_damage(reading, "is another than the head says", n);
        if (reading->take && !reading->take(reading->context, entry))
                reading->enough = true;
        return true;
}

/*
 * False where it is damaged. Text behind the last newline is half an entry, which only the last
 * file may have.
 */
static bool read_log_file(struct reading *reading, const char *text, size_t length, bool last) {
        const char *at = text, *end = text + length, *newline;

        while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
                if (!read_log_line(reading, at, (size_t)(newline - at)))
                        return false;
                at = newline + 1;
        }
        reading->whole_bytes = (uint64_t)(at - text);
        reading->found->torn_bytes = (uint64_t)(end - at);
        if (at == end)
                return true;
        if (!last)
                return report_damage(reading, "is cut", reading->found->entries + 1);
        reading->found->state = AUDIT_TORN;
        return true;
}

/* The server may have died between the last entry and its head: that, and no more, may be missing there. */
static void check_head(struct reading *reading) {
        struct audit_found *found = reading->found;
        uint64_t head_n = reading->files->head_n;

        reading->file = "head";
        if (found->state == AUDIT_DAMAGED || reading->enough)
                return;
        if (head_n > found->entries)
                (void)report_damage(reading,
                                    found->torn_bytes > 0 ? "is the last one, and the log ends in its midst"
                                                          : "is the last one, and the log ends before it",
                                    head_n);
        else if (found->entries > head_n + 1)
                (void)report_damage(reading, "was not added by a writer of the head", head_n + 2);
}

/* From the file of that number on: `found` says how it went. */
static int read_files(const char *folder, const struct log_files *files, size_t first,
                      struct reading *reading, struct error *err) {
        for (size_t i = first; i < files->count && !reading->enough; i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                char *path TEXT_CLEANUP = path_join(folder, files->items[i].name);
                bool last = i + 1 == files->count;
                size_t length;

                if (file_read(path, AUDIT_FILE_MAX + AUDIT_ENTRY_MAX, &text, err) < 0)
                        return -1;
                length = last && files->items[i].size < text.length ? (size_t)files->items[i].size
                                                                    : text.length;
                reading->file = files->items[i].name;
                if (!read_log_file(reading, strbuf_text(&text), length, last))
                        return 0;
        }
        check_head(reading);
        return 0;
}

int audit_read(const char *folder, audit_take *take, void *context, struct audit_found *ret,
               struct error *err) {
        struct log_files files LOG_FILES_CLEANUP = { 0 };
        int lock DESCRIPTOR_CLEANUP = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct audit_found found = { 0 };
        struct reading reading = { take, context, &found, &files, "", true, false, 0 };

        if (lock < 0)
                return error_set_kind(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED,
                                      "cannot open %s: %s", folder, strerror(errno));
        if (flock(lock, LOCK_SH) < 0)
                return error_set(err, "cannot lock %s: %s", folder, strerror(errno));
        if (list_log_files(folder, lock, &files, err) < 0)
                return -1;
        flock(lock, LOCK_UN);
        if (read_files(folder, &files, 0, &reading, err) < 0)
                return -1;
        *ret = found;
        return 0;
}

/* --- added to --- */

static int write_head_file(const struct audit *audit, struct error *err) {
        char *path TEXT_CLEANUP = path_join(audit->folder, "head");
        char text[32 + SHA256_HEX_SIZE];
        int length = snprintf(text, sizeof(text), "%" PRIu64 " %s\n", audit->entries, audit->head);

        return file_write_atomic(path, text, (size_t)length, 0600, err);
}

static int begin_file(struct audit *audit, uint64_t n, struct error *err) {
        char name[NAME_SIZE + 16];
        int file;

        snprintf(name, sizeof(name), "%0*" PRIu64 ".log", NAME_DIGITS, n);
        file = openat(audit->lock, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                      0600);
        if (file < 0 || fsync(audit->lock) < 0) {
                close_descriptor(&file);
                return error_set(err, "cannot make %s/%s: %s", audit->folder, name, strerror(errno));
        }
        close_descriptor(&audit->file);
        audit->file = file;
        audit->size = 0;
        return 0;
}

/*
 * A line that was not written whole is taken back: the disk is full, say. Where even that fails, or
 * a sync does, the file's content is unknown.
 */
static int append_entry_line(struct audit *audit, const struct strbuf *line, struct error *err) {
        int reason;

        if (descriptor_write(audit->file, strbuf_text(line), line->length) == 0) {
                if (fdatasync(audit->file) == 0)
                        return 0;
                audit->broken = true;
        }
        reason = errno;
        if (!audit->broken && (ftruncate(audit->file, (off_t)audit->size) < 0 || fdatasync(audit->file) < 0))
                audit->broken = true;
        return error_set(err, "cannot write to %s: %s", audit->folder, strerror(reason));
}

/*
 * Which file it is; 0: there is no such file. Asked for without a descriptor, of which there may be
 * no more.
 */
static uint64_t head_inode(const struct audit *audit) {
        struct stat status;

        return fstatat(audit->lock, "head", &status, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)status.st_ino : 0;
}

/* An entry that no head tells of goes again, so that nothing of it is found later: the disk is full, say. */
static void take_back(struct audit *audit, const struct audit *before, uint64_t head_before) {
        audit->entries = before->entries;
        memcpy(audit->head, before->head, sizeof(audit->head));
        audit->size = audit->file == before->file ? before->size : 0;
        audit->broken = head_inode(audit) != head_before || ftruncate(audit->file, (off_t)audit->size) < 0 ||
                        fdatasync(audit->file) < 0;
}

static int append_locked(struct audit *audit, json_t *entry, struct error *err) {
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;
        char *text TEXT_CLEANUP = NULL;
        char hash[SHA256_HEX_SIZE], at[32];
        const struct audit before = *audit;
        uint64_t n = audit->entries + 1, head_before = head_inode(audit);

        clock_format(clock_wall_ms(), at, sizeof(at));
        json_put(entry, "n", json_integer((json_int_t)n));
        json_put(entry, "at", json_string(at));
        json_put(entry, "previous", json_string(audit->head[0] ? audit->head : NO_HASH));
        text = json_compact(entry);
        if (strlen(text) > AUDIT_ENTRY_MAX - HASH_LENGTH - 2)
                return error_set(err, "an entry of %zu bytes is too large for %s", strlen(text),
                                 audit->folder);
        digest_sha256_hex(text, strlen(text), hash);
        strbuf_printf(&line, "%s ", hash);
        strbuf_append(&line, text);
        strbuf_append_char(&line, '\n');
        if ((audit->file < 0 || audit->size + line.length > AUDIT_FILE_MAX) && begin_file(audit, n, err) < 0)
                return -1;
        if (append_entry_line(audit, &line, err) < 0)
                return -1;
        audit->size += line.length;
        audit->entries = n;
        memcpy(audit->head, hash, sizeof(hash));
        if (write_head_file(audit, err) == 0)
                return 0;
        take_back(audit, &before, head_before);
        return -1;
}

int audit_append(struct audit *audit, json_t *entry, struct error *err) {
        json_t *owned JSON_CLEANUP = entry;
        int result;

        if (audit->broken)
                return error_set(err, "%s could not be written before: start the server again",
                                 audit->folder);
        if (flock(audit->lock, LOCK_EX) < 0)
                return error_set(err, "cannot lock %s: %s", audit->folder, strerror(errno));
        result = append_locked(audit, owned, err);
        flock(audit->lock, LOCK_UN);
        return result;
}

/* The last file, for adding; half an entry at its end goes. */
static int resume_file(struct audit *audit, const struct log_files *files, const struct reading *reading,
                       struct error *err) {
        const char *name = files->items[files->count - 1].name;
        uint64_t torn = reading->found->torn_bytes;

        audit->file = openat(audit->lock, name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
        audit->size = reading->whole_bytes;
        if (audit->file < 0 ||
            (torn > 0 && (ftruncate(audit->file, (off_t)audit->size) < 0 || fdatasync(audit->file) < 0)))
                return error_set(err, "cannot open %s/%s to add to it: %s", audit->folder, name,
                                 strerror(errno));
        if (files->head_n != audit->entries && write_head_file(audit, err) < 0)
                return -1;
        if (torn == 0)
                return 0;
        return audit_append(audit, json_pack("{s:s, s:I}", "event", "torn", "bytes", (json_int_t)torn), err);
}

int audit_open(const char *folder, int64_t since_ms, audit_take *take, void *context, struct audit **ret,
               struct error *err) {
        struct log_files files LOG_FILES_CLEANUP = { 0 };
        struct audit_found found = { 0 };
        struct reading reading = { take, context, &found, &files, "", true, false, 0 };
        struct audit *audit;
        size_t first = 0;

        if (folder_make(folder, err) < 0)
                return -1;
        audit = calloc(1, sizeof(*audit));
        if (!audit || !(audit->folder = strdup(folder)))
                abort();
        audit->file = -1;
        audit->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (audit->lock < 0) {
                (void)error_set(err, "cannot open %s: %s", folder, strerror(errno));
                goto failed;
        }
        if (list_log_files(folder, audit->lock, &files, err) < 0)
                goto failed;
        /* The last may have been begun without a whole entry in it: how far the log goes stands in the one before then. */
        while (first + 2 < files.count && files.items[first].changed_ms < since_ms)
                first++;
        reading.anchored = first == 0;
        if (read_files(folder, &files, first, &reading, err) < 0)
                goto failed;
        if (found.state == AUDIT_DAMAGED) {
                (void)error_set(err, "the log in %s is damaged: %s", folder, found.why);
                goto failed;
        }
        audit->entries = found.entries;
        memcpy(audit->head, found.head, sizeof(found.head));
        if (files.count > 0 && resume_file(audit, &files, &reading, err) < 0)
                goto failed;
        *ret = audit;
        return 0;
failed:
        audit_close(audit);
        return -1;
}

void audit_close(struct audit *audit) {
        if (!audit)
                return;
        close_descriptor(&audit->file);
        close_descriptor(&audit->lock);
        free(audit->folder);
        free(audit);
}
