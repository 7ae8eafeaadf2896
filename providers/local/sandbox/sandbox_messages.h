/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox's worker is told, and tells, over its socket (process/frame.h):
 *
 *     keeper -> worker   PLACE      limits, host user, cgroup: from a keeper with root's rights, first and once
 *     client -> worker   ARGUMENTS, VARIABLES, RUN   the program: read after root's rights are gone
 *     worker -> client   READY      with the client's ends of the three pipes, and the workspace's folder before them
 *     client -> worker   GO         start it; only where RUN asked to wait for it
 *     client -> worker   CANCEL     kill it
 *     worker -> client   ENDED, or FAILED with a text
 *
 * A worker that was placed for another process (forAnother) gives no folder: a descriptor of it would keep all of the
 * workspace's memory, and outlive every limit. It moves the files itself, which are its user's then:
 *
 *     client -> worker   PUT        before GO: "x" or "-", and the name; with it a regular file, read from where it stands
 *     worker -> client   DONE
 *     client -> worker   LIST       after ENDED: a folder's path, "" for the workspace
 *     worker -> client   ENTRIES ... ENTRIES without words; ABSENT where it cannot be read
 *     client -> worker   READ       after ENDED: a regular file's path
 *     worker -> client   CONTENT ... CONTENT without bytes; or ABSENT
 *
 * Such a worker ends by itself if its client says nothing for too long.
 *
 * A lasting worker does not end with its client, nor with its keeper, but by its deadline, which
 * counts from PLACE, and soon if its socket has lost its name and no client is there. It is found
 * again at that socket, by its owner alone: a client that comes there replaces the last one, and
 * gets
 *
 *     worker -> client   READY      with our ends of output and errors; what came before was read by others, or is still there
 *                        ENDED      once it has; the files are there to be asked for
 *     client -> worker   TAKEN      the outcome is safe: the worker ends. A client that only closes may come again
 *
 * The worker of a session (RUN's `session`) keeps the program's pipes for itself. The program's
 * output is a stream whose bytes are numbered from 0; the worker keeps unacknowledged bytes, and
 * sends them again to the next client. Requests are whole messages, so that a client that dies in
 * the middle of one leaves nothing of it.
 *
 *     worker -> client   READY      24 bytes: the number of the first byte that is kept, how many have come, the last mark
 *                        TOLD       8 bytes: the number of the first of them; bytes of the program's output
 *     client -> worker   SAY        8 bytes: a mark, or 0; 1 byte: 1 where it is the last piece; bytes of a message for the program
 *                        HEARD      8 bytes: all bytes below this number are safe
 *                        LIFE       8 bytes, struct sandbox_life: when it ends by itself
 *                        HOLD       with a descriptor, a lock, that is kept open until the sandbox is dead; one alone
 *
 * Its memory (sandbox_checkpoint.h), while nothing runs:
 *
 *     client -> worker   PARK       struct sandbox_wish; a file for the checkpoint
 *     worker -> client   PARKED     "", or the reason of a failure; the program lives on
 *     client -> worker   RESTORE    8 bytes: how many to restore; a message that announces them; the file
 *                        ARM        as PARK, for a worker that gets SIGTERM without a client: it takes the checkpoint, and ends
 *     worker -> client   LEAVING    it got SIGTERM: PARK it, or it ends
 *
 * A worker whose network is shared, with others of its owner and agent, in front of RUN and at any time behind READY:
 *
 *     client -> worker   PORTS      2 bytes for each port of the sandbox; as many sockets that listen outside, for it. With READY comes
 *                                   the network namespace then, the last of its descriptors
 *                        NAMES      lines for the sandbox's /etc/hosts, in place of those that it was told before
 *
 * A worker with a way out, at any time between READY and ENDED:
 *
 *     worker -> client   REACHED    what went through its proxy since the last one (egress/tally.h)
 *
 * Numbers are 64 bits in the machine's order. ENDED comes behind all that is TOLD. With READY comes the workspace's folder, where the
 * client could keep its memory anyhow: it is root, or the run's own user. To any other client comes a socket instead, on which LIST
 * and READ are answered as above, at any time, and
 *
 *     client -> worker   REPLACE    "x" or "-", and the name; CONTENT ... CONTENT without bytes: a file, whatever stood there
 *                        FOLDER     a path: it is there, with those above it
 *                        REMOVE     a path: a file, or an empty folder
 *     worker -> client   DONE; or FAILED with a text, and the next question is answered as ever
 *
 * and behind it, where the cgroup tells what is used, the four files of struct cgroup_gauges, open for reading.
 *
 * Descriptions are JSON; words that are any bytes are
 * NUL-ended in frames of their own. Inside of the sandbox module, but for what `berth launcher` is asked and answers.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_MESSAGES_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_MESSAGES_H

#include "providers/local/sandbox/cgroup.h"
#include "providers/local/sandbox/sandbox.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "egress/allow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SANDBOX_HELD_MAX 8

enum sandbox_message {
        MESSAGE_PLACE = 1,
        MESSAGE_ARGUMENTS,
        MESSAGE_VARIABLES,
        MESSAGE_RUN,
        MESSAGE_READY,
        MESSAGE_GO,
        MESSAGE_CANCEL,
        MESSAGE_ENDED,
        MESSAGE_FAILED,
        MESSAGE_PUT,
        MESSAGE_DONE,
        MESSAGE_LIST,
        MESSAGE_ENTRIES,
        MESSAGE_READ,
        MESSAGE_CONTENT,
        MESSAGE_ABSENT,
        MESSAGE_TAKEN,
        MESSAGE_SAY,
        MESSAGE_TOLD,
        MESSAGE_HEARD,
        MESSAGE_LIFE,
        MESSAGE_HOLD,
        MESSAGE_REPLACE,
        MESSAGE_FOLDER,
        MESSAGE_REMOVE,
        MESSAGE_PARK,
        MESSAGE_ARM,
        MESSAGE_RESTORE,
        MESSAGE_PARKED,
        MESSAGE_LEAVING,
        MESSAGE_REACHED,
        MESSAGE_PORTS,
        MESSAGE_NAMES
};

/*
 * PLACE. Descriptors, in this order: the image's root folder where `image`; where `born`, the
 * folder of a cgroup of version 2; `entries` files of cgroups that a process writes itself into;
 * `held` more that are kept open as long as the run lives; where `lasts`, the socket at which the
 * worker is found again, which listens, and the file that has its name (O_PATH); where `gauges`,
 * those of struct cgroup_gauges; where `disk`, the image of the workspace (sandbox_disk.h), or the
 * root of one that is `kept` (sandbox_kept.h); where `joins`, the network namespace of another
 * sandbox, which becomes its own.
 */
struct sandbox_placing {
        struct sandbox_limits limits; /* the deadline is the longest that RUN may ask for */
        unsigned uid, gid;
        bool image, born, scope, limit_address_space;
        bool dies_with_parent; /* with the process that started the worker, and with the client */
        bool for_another;      /* the client did not place it */
        int64_t patience_ms;   /* the time in which such a client must say what to run */
        bool lasts;            /* beyond client and keeper: for_another alone */
        bool disk;             /* the workspace is an image that comes with it; else it is in memory */
        bool kept;             /* what comes with it is no image, but the root of a workspace that stays */
        bool joins;
        unsigned owner; /* the user that may come to its socket */
        bool gauges;    /* for a session's client that cannot look at the cgroup */
        unsigned entries, held;
        struct allow_list network; /* in the arena; without entries there is no way out */
};
void sandbox_placing_write(const struct sandbox_placing *placing, struct strbuf *ret);
int sandbox_placing_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_placing *ret,
                         struct error *err) MUST_USE;

/*
 * LIFE: it ends by itself after `age_ms`, but not after its deadline; and `idle_ms` from now if no
 * client is there and all that it said was heard. One number, as version 0.1.0 had it for the first
 * alone, since sessions outlive an upgrade: in its lower 40 bits the first, in the upper 24 the
 * second, in seconds, or nothing where it is not sooner. To a worker of that version the whole is a
 * time beyond its deadline: with no server it lives until then.
 */
struct sandbox_life {
        int64_t age_ms, idle_ms;
};
uint64_t sandbox_life_pack(const struct sandbox_life *life);
struct sandbox_life sandbox_life_unpack(uint64_t number);

/* --- what `berth launcher` is asked and answers (providers/local/launcher.h) --- */

enum launcher_message {
        LAUNCHER_START = 32,
        LAUNCHER_STARTED,
        LAUNCHER_REFUSED,
        LAUNCHER_KILL,
        LAUNCHER_ENDED,
        LAUNCHER_MEASURE,
        LAUNCHER_MEASURED,
        LAUNCHER_CLEAR,
        LAUNCHER_RENAME,
        LAUNCHER_RENAMED,
        LAUNCHER_SHARE,
        LAUNCHER_KEEP,
        LAUNCHER_KEPT,
        LAUNCHER_NAMES,
        LAUNCHER_NAMED,
        LAUNCHER_BUSY
};

/* START. An image by its digest; NULL: the machine's own /usr. With it may come a network namespace, for `joins` of PLACE. */
struct sandbox_starting {
        struct sandbox_limits limits;
        const char *image; /* in the arena */
        /* of a lasting one: small letters, digits and dashes; NULL: it ends with its client */
        const char *name;
        struct sandbox_family family; /* but for the owner, which is the client */
        /*
         * of a lasting one: its workspace should lie on a disk, where the launcher has one for it
         */
        bool disk;
        /* of a lasting one: the name of its workspace, which stays (KEEP); NULL: it does not */
        const char *kept;
        struct allow_list network; /* as of struct sandbox_placing */
        const int *
                joins; /* borrowed: the network namespace that it is to have; NULL: a new one. A descriptor, and no member */
};
void sandbox_starting_write(const struct sandbox_starting *starting, struct strbuf *ret);
int sandbox_starting_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_starting *ret,
                          struct error *err) MUST_USE;

/*
 * KEEP: the client's workspace of that name, which stays (sandbox_kept.h). KEPT answers, with its
 * root, in which the client owns everything; without one if it is missing and `make` is false, or
 * if the request was to remove it.
 */
struct sandbox_keeping {
        const char *name; /* as a family's; in the arena */
        uint64_t bytes, files;
        bool make, remove;
};
void sandbox_keeping_write(const struct sandbox_keeping *keeping, struct strbuf *ret);
int sandbox_keeping_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_keeping *ret,
                         struct error *err) MUST_USE;

/*
 * NAMES: of the client's workspaces that stay, those whose names come after this one; all where it is "". NAMED answers: in order, the first
 * SANDBOX_NAMES_MAX of them, which a socket takes at once.
 */
#define SANDBOX_NAMES_MAX 1000
bool sandbox_is_kept_name(const char *text);
void sandbox_after_write(const char *after, struct strbuf *ret);
int sandbox_after_read(const char *bytes, size_t length, struct arena *arena, const char **ret,
                       struct error *err) MUST_USE;
void sandbox_names_write(const char *const *names, size_t count, struct strbuf *ret);
int sandbox_names_read(const char *bytes, size_t length, struct arena *arena, const char ***ret,
                       size_t *ret_count, struct error *err) MUST_USE;

/* SHARE, which has no answer: what the client's family of that name may use from now on. */
void sandbox_family_write(const struct sandbox_family *family, struct strbuf *ret);
int sandbox_family_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_family *ret,
                        struct error *err) MUST_USE;

/* STARTED: the run's number, and what of its limits is not held (enum cgroup_limit), with the reason. */
struct sandbox_started {
        uint64_t run;
        unsigned missing;
        const char *problem; /* "" where nothing is missing; in the arena */
};
void sandbox_started_write(const struct sandbox_started *started, struct strbuf *ret);
int sandbox_started_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_started *ret,
                         struct error *err) MUST_USE;

/* KILL and MEASURE: the run's number. */
void sandbox_number_write(uint64_t run, struct strbuf *ret);
int sandbox_number_read(const char *bytes, size_t length, uint64_t *ret, struct error *err) MUST_USE;

/* CLEAR: the name of a worker that lasts; in the arena. */
void sandbox_name_write(const char *name, struct strbuf *ret);
int sandbox_name_read(const char *bytes, size_t length, struct arena *arena, const char **ret,
                      struct error *err) MUST_USE;

/* RENAME: two such names. */
void sandbox_renaming_write(const char *name, const char *to, struct strbuf *ret);
int sandbox_renaming_read(const char *bytes, size_t length, struct arena *arena, const char **ret_name,
                          const char **ret_to, struct error *err) MUST_USE;

/* ENDED and MEASURED. */
struct sandbox_measured {
        uint64_t run;
        struct cgroup_usage usage;
};
void sandbox_measured_write(const struct sandbox_measured *measured, struct strbuf *ret);
int sandbox_measured_read(const char *bytes, size_t length, struct sandbox_measured *ret,
                          struct error *err) MUST_USE;

/* --- the program --- */

#define SANDBOX_FILES_MAX 8

/* RUN. Descriptors: the content of each file, open at its beginning. */
struct sandbox_running {
        int64_t deadline_ms;
        bool waits; /* for GO */
        /* the worker speaks with the program; files can be executed. For a lasting one only */
        bool session;
        const char *files[SANDBOX_FILES_MAX]; /* names below /run/berth, plain ones; in the arena */
        size_t file_count;
};
void sandbox_running_write(const struct sandbox_running *running, struct strbuf *ret);
int sandbox_running_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_running *ret,
                         struct error *err) MUST_USE;

/* ENDED. */
struct sandbox_ending {
        bool started;  /* bubblewrap came so far as to start the program */
        int exit_code; /* meaningful where it did */
        bool deadline, cancelled;
        bool sockets, locks; /* it had more than SANDBOX_SOCKETS_MAX, SANDBOX_LOCKS_MAX */
        int killed_by;       /* the signal with which another process killed process 1; 0: none */
        int64_t wall_ms, cpu_ms;
        uint64_t peak_memory_bytes; /* of the largest process */
        struct cgroup_usage usage;  /* of a group that the worker itself made: known or not */
};
void sandbox_ending_write(const struct sandbox_ending *ending, struct strbuf *ret);
int sandbox_ending_read(const char *bytes, size_t length, struct sandbox_ending *ret,
                        struct error *err) MUST_USE;

/* NUL-ended words one after the other, as a list ended by NULL whose texts lie in `bytes`. */
int sandbox_words_read(const char *bytes, size_t length, struct arena *arena, const char *const **ret,
                       size_t *ret_count, struct error *err) MUST_USE;

#endif
