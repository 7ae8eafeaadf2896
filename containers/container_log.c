/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two files at most, PATH.NUMBER, half of the ring each. Output is appended to the newer one; when
 * that is full, the older one goes, and the next is begun. A position is a file's number and the
 * place in it, in one number that only rises.
 *
 * A record is a head and its bytes. A head has a mark and a checksum over itself: a file that was
 * cut by a death, or damaged, ends at the first invalid head. Nothing is read beyond the end that
 * the writer knows.
 */
#include "containers/container_log.h"

#include "base/files.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (CONTAINER_LOG_MAX / 2)
/* A position is NUMBER * STEP + the place in the file, which is always less. */
#define STEP ((uint64_t)1 << 24)
#define NUMBER_MAX ((uint64_t)1 << 39)
#define MARK 0x6c6f6731u /* log1 */

struct head {
        uint32_t mark, check;
        uint32_t length;
        uint16_t start_high, stream; /* of the start's number, the upper half */
        uint32_t start_low;
        uint32_t padding;
        int64_t at_ms;
        uint64_t event;
};

struct container_log {
        char *path;
        /* The older one, and the newer one. descriptor -1: no such file. */
        struct part {
                uint64_t number;
                int descriptor;
                uint64_t length; /* of whole records */
        } parts[2];
        uint32_t start; /* of the last record */
        uint64_t event;
        uint64_t dropped; /* bytes that the disk did not take, and no note tells of */
};

static char *part_path(const char *path, uint64_t number) {
        struct strbuf name = STRBUF_INIT;

        strbuf_printf(&name, "%s.%" PRIu64, path, number);
        return strbuf_take(&name);
}

/* FNV-1a: it finds what a death left half done. No other process writes here. */
static uint32_t check_of(const struct head *head) {
        struct head copy = *head;
        const unsigned char *bytes = (const unsigned char *)&copy;
        uint32_t hash = 2166136261u;

        copy.check = 0;
        for (size_t i = 0; i < sizeof(copy); i++)
                hash = (hash ^ bytes[i]) * 16777619u;
        return hash;
}

/* 1: a head, and all of its bytes lie before `end`; 0: none. */
static int read_record_head(int file, uint64_t at, uint64_t end, struct head *ret) {
        return end - at >= sizeof(*ret) &&
               pread(file, ret, sizeof(*ret), (off_t)at) == (ssize_t)sizeof(*ret) && ret->mark == MARK &&
               ret->check == check_of(ret) && ret->length <= CONTAINER_LOG_RECORD_MAX &&
               ret->stream <= CONTAINER_NOTE && end - at - sizeof(*ret) >= ret->length;
}

/* --- found again --- */

static int find_end(struct container_log *log, struct part *part) {
        struct stat status;
        struct head head;
        uint64_t size;

        if (fstat(part->descriptor, &status) < 0)
                return -1;
        size = (uint64_t)status.st_size < STEP ? (uint64_t)status.st_size : STEP - 1;
        for (part->length = 0; read_record_head(part->descriptor, part->length, size, &head);
             part->length += sizeof(head) + head.length) {
                log->start = (uint32_t)head.start_high << 16 | head.start_low;
                log->event = head.event;
        }
        return ftruncate(part->descriptor, (off_t)part->length);
}

static int open_part(struct container_log *log, struct part *part, uint64_t number, int flags,
                     struct error *err) {
        char *name TEXT_CLEANUP = part_path(log->path, number);

        part->number = number;
        part->descriptor = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
        part->length = 0;
        if (part->descriptor < 0)
                return error_set(err, "cannot open %s: %s", name, strerror(errno));
        if (!(flags & O_CREAT) && find_end(log, part) < 0)
                return error_set(err, "cannot read %s: %s", name, strerror(errno));
        return 0;
}

/* The numbers of the files of that path, to `each`. -1 with errno where the folder cannot be read. */
static int for_each_part(const char *path, void (*each)(const char *path, uint64_t number, void *context),
                         void *context) {
        const char *base = strrchr(path, '/');
        char *folder TEXT_CLEANUP = base ? strndup(path, (size_t)(base - path)) : strdup(".");
        size_t length = strlen(base ? base + 1 : path);
        const struct dirent *entry;
        DIR *directory;

        if (!folder)
                abort();
        directory = opendir(*folder ? folder : "/");
        if (!directory)
                return errno == ENOENT ? 0 : -1;
        while ((entry = readdir(directory))) {
                char *end;
                unsigned long long number;

                if (!text_begins_with(entry->d_name, base ? base + 1 : path) ||
                    entry->d_name[length] != '.' || entry->d_name[length + 1] < '1' ||
                    entry->d_name[length + 1] > '9')
                        continue;
                errno = 0;
                number = strtoull(entry->d_name + length + 1, &end, 10);
                if (errno == 0 && *end == '\0' && number < NUMBER_MAX)
                        each(path, number, context);
        }
        closedir(directory);
        return 0;
}

static void note_newest(const char *path, uint64_t number, void *context) {
        uint64_t *newest = context;

        (void)path;
        if (number > newest[1]) {
                newest[0] = newest[1];
                newest[1] = number;
        } else if (number > newest[0]) {
                newest[0] = number;
        }
}

int container_log_open(const char *path, struct container_log **ret, struct error *err) {
        struct container_log *log = calloc(1, sizeof(*log));
        uint64_t newest[2] = { 0, 0 };

        if (!log || !(log->path = strdup(path)))
                abort();
        log->parts[0].descriptor = log->parts[1].descriptor = -1;
        if (for_each_part(path, note_newest, newest) < 0) {
                container_log_close(log);
                return error_set(err, "cannot look for the output of before at %s: %s", path,
                                 strerror(errno));
        }
        /* Without a file between them the older one is no part of what is kept. */
        if ((newest[0] > 0 && newest[0] + 1 == newest[1] &&
             open_part(log, &log->parts[0], newest[0], 0, err) < 0) ||
            open_part(log, &log->parts[1], newest[1] ? newest[1] : 1, newest[1] ? 0 : O_CREAT | O_EXCL, err) <
                    0) {
                container_log_close(log);
                return -1;
        }
        *ret = log;
        return 0;
}

void container_log_close(struct container_log *log) {
        if (!log)
                return;
        close_descriptor(&log->parts[0].descriptor);
        close_descriptor(&log->parts[1].descriptor);
        free(log->path);
        free(log);
}

static void remove_part(const char *path, uint64_t number, void *context) {
        char *name TEXT_CLEANUP = part_path(path, number);

        (void)context;
        (void)unlink(name);
}

void container_log_remove(const char *path) {
        for_each_part(path, remove_part, NULL);
}

/* --- written --- */

static int begin_next(struct container_log *log, struct error *err) {
        struct part next = { .descriptor = -1 };

        /* A file left by a process that died right here has nothing in it. */
        remove_part(log->path, log->parts[1].number + 1, NULL);
        if (open_part(log, &next, log->parts[1].number + 1, O_CREAT | O_EXCL, err) < 0)
                return -1;
        if (log->parts[0].descriptor >= 0)
                remove_part(log->path, log->parts[0].number, NULL);
        close_descriptor(&log->parts[0].descriptor);
        log->parts[0] = log->parts[1];
        log->parts[1] = next;
        return 0;
}

/* A record is there once its end is counted: who reads looks no further. */
static int write_log_record(struct container_log *log, const struct head *wanted, const char *bytes,
                            struct error *err) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT;
        struct head head = *wanted;
        struct part *part = &log->parts[1];
        size_t done = 0;

        if (part->length + sizeof(head) + head.length > FILE_MAX && begin_next(log, err) < 0)
                return -1;
        head.check = check_of(&head);
        strbuf_append_bytes(&whole, &head, sizeof(head));
        strbuf_append_bytes(&whole, bytes, head.length);
        while (done < whole.length) {
                ssize_t count = pwrite(part->descriptor, whole.data + done, whole.length - done,
                                       (off_t)(part->length + done));

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0) {
                        (void)error_set(err, "cannot write %s.%" PRIu64 ": %s", log->path, part->number,
                                        strerror(errno));
                        (void)!ftruncate(part->descriptor, (off_t)part->length);
                        return -1;
                }
                done += (size_t)count;
        }
        part->length += whole.length;
        return 0;
}

static struct head make_head(uint32_t start, uint64_t event, enum container_stream stream, int64_t at_ms,
                             size_t length) {
        return (struct head){ .mark = MARK,
                              .length = (uint32_t)length,
                              .start_high = (uint16_t)(start >> 16),
                              .start_low = start & 0xffff,
                              .stream = (uint16_t)stream,
                              .at_ms = at_ms,
                              .event = event };
}

/* What a full disk has cost is said where it would stand. */
static int tell_dropped(struct container_log *log, int64_t at_ms, struct error *err) {
        char text[128];
        struct head head;

        if (log->dropped == 0)
                return 0;
        snprintf(text, sizeof(text), "%" PRIu64 " bytes of output were lost: the disk did not take them\n",
                 log->dropped);
        head = make_head(log->start, log->event, CONTAINER_NOTE, at_ms, strlen(text));
        if (write_log_record(log, &head, text, err) < 0)
                return -1;
        log->dropped = 0;
        return 0;
}

int container_log_append(struct container_log *log, const struct container_log_entry *entry,
                         struct error *err) {
        int result = tell_dropped(log, entry->at_ms, err);

        if (entry->start < log->start ||
            (entry->start == log->start && entry->event > 0 && entry->event <= log->event))
                return 0;
        for (size_t at = 0; result == 0 && at < entry->length;) {
                size_t left = entry->length - at,
                       piece = left < CONTAINER_LOG_RECORD_MAX ? left : CONTAINER_LOG_RECORD_MAX;
                /*
                 * The runtime says no more than a record at once. A backend that says more may
                 * repeat part of it after a death.
                 */
                struct head head = make_head(entry->start, piece < left ? log->event : entry->event,
                                             entry->stream, entry->at_ms, piece);

                result = write_log_record(log, &head, entry->bytes + at, err);
                at += piece;
        }
        if (result < 0)
                log->dropped += entry->length;
        log->start = entry->start;
        log->event = entry->event > 0 ? entry->event : log->event;
        return result;
}

/* --- read --- */

static const struct part *oldest(const struct container_log *log) {
        return log->parts[0].descriptor >= 0 ? &log->parts[0] : &log->parts[1];
}

uint64_t container_log_first(const struct container_log *log) {
        return oldest(log)->number * STEP;
}

uint64_t container_log_end(const struct container_log *log) {
        return log->parts[1].number * STEP + log->parts[1].length;
}

int container_log_read(const struct container_log *log, uint64_t position, struct container_log_record *ret,
                       struct strbuf *bytes, struct error *err) {
        const struct part *part = oldest(log);
        bool gap = position > 0 && position < container_log_first(log);
        uint64_t at;
        struct head head;

        if (position < container_log_first(log))
                position = container_log_first(log);
        while (part->number < position / STEP && part < &log->parts[1])
                part++;
        at = position % STEP;
        if (part == &log->parts[0] && at >= part->length) {
                part++;
                at = 0;
        }
        if (part->number != position / STEP && at != 0)
                return error_set(err, "there is no such place in the log");
        if (at >= part->length)
                return 0;
        if (!read_record_head(part->descriptor, at, part->length, &head))
                return error_set(err, "the log is damaged");
        strbuf_clear(bytes);
        if (!strbuf_reserve(bytes, head.length + 1) ||
            pread(part->descriptor, bytes->data, head.length, (off_t)(at + sizeof(head))) !=
                    (ssize_t)head.length)
                return error_set(err, "the log cannot be read");
        bytes->length = head.length;
        bytes->data[bytes->length] = '\0';
        *ret = (struct container_log_record){ .stream = (enum container_stream)head.stream,
                                              .at_ms = head.at_ms,
                                              .next = part->number * STEP + at + sizeof(head) + head.length,
                                              .gap = gap };
        return 1;
}
