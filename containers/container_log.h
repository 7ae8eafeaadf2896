/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container has printed: both streams, with times, in a ring of files. One writer, which
 * alone knows what was there; any number of readers, each at a position of its own.
 *
 *      container_log_open -> container_log_append ...           container_log_read(position) -> position of the next
 *
 * A position stays valid while older records go: a reader that continues from its position gets
 * each record once, or is told that some have gone meanwhile. Nothing is synced: a record survives
 * the death of any process, and a power loss as far as the disk had it.
 */
#ifndef BERTH_CONTAINERS_CONTAINER_LOG_H
#define BERTH_CONTAINERS_CONTAINER_LOG_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The last of what was printed is kept: at least half of this, and at most all of it, with 32 bytes for each record. */
#define CONTAINER_LOG_MAX ((uint64_t)10 << 20)
#define CONTAINER_LOG_RECORD_MAX ((size_t)65536) /* bytes of one record; more are cut into several */

enum container_stream { CONTAINER_STDOUT, CONTAINER_STDERR, CONTAINER_NOTE /* Berth's own */ };

struct container_log;

/* `path` is the beginning of the files' names. What a death has left half written is cut off. */
int container_log_open(const char *path, struct container_log **ret, struct error *err) MUST_USE;
void container_log_close(struct container_log *log); /* NULL is fine */
/* All of that path; it is open nowhere. */
void container_log_remove(const char *path);

/*
 * A piece of output, and where it comes from: the number of the container's start, and of the
 * place's event.
 */
struct container_log_entry {
        uint32_t start;
        uint64_t event;
        enum container_stream stream;
        int64_t at_ms;
        const char *bytes;
        size_t length;
};
/*
 * An entry that is no later than the one appended last is there already, and is left out. -1: the disk does not take it; it is counted
 * then, and a note says so once there is room.
 */
int container_log_append(struct container_log *log, const struct container_log_entry *entry,
                         struct error *err) MUST_USE;

struct container_log_record {
        enum container_stream stream;
        int64_t at_ms;
        uint64_t next; /* where the next one is read */
        bool gap;      /* some that came before it have gone */
};
/* Where the first one is that is kept; and where the next one will be. */
uint64_t container_log_first(const struct container_log *log);
uint64_t container_log_end(const struct container_log *log);
/*
 * 1: the record at the position, or the first one that is kept, and its bytes; 0: nothing there
 * yet; -1: it cannot be read.
 */
int container_log_read(const struct container_log *log, uint64_t position, struct container_log_record *ret,
                       struct strbuf *bytes, struct error *err) MUST_USE;

#endif
