/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/servers.h"

#include "base/arena.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE 500

/* Where a process can be looked for: its kernel's start, its namespace of processes, its id, and when it began. */
struct process {
        char boot[40];
        uint64_t space, id, began;
};

struct other {
        char number[33];
        uint64_t version; /* of its record, as it was seen */
        int64_t at_ms; /* by that server's clock: one that went and came again may have a version that was seen before */
        int64_t since_ms; /* when that was seen first */
        struct process process;
        bool seen; /* by the look that is under way */
};

struct servers {
        struct servers_config config;
        char *key;
        struct process process;
        pthread_t thread;
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t wake;
        bool started, stopping;
        bool hurries;     /* the next record is due at once: this server may not act before it */
        int64_t valid_ms; /* others take it for living until then at least */
        uint64_t lapses;  /* how often that was over before the next record was written */
        bool lapsed;      /* it is over, and counted */
        struct other *others;
        size_t count;
};

/* It goes on while the machine is suspended: who wakes up again has missed that time. */
static int64_t now_ms(void) {
        struct timespec now;

        if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
                abort();
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool read_text(const char *path, char *text, size_t size) {
        int descriptor = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = descriptor < 0 ? -1 : read(descriptor, text, size - 1);

        if (descriptor >= 0)
                close(descriptor);
        text[length > 0 ? length : 0] = '\0';
        return length > 0;
}

/* When the process of that id began, in the kernel's ticks, which are never 0, and its state. False: that cannot be told. */
static bool began(uint64_t id, uint64_t *ret, char *ret_state) {
        char path[64], text[1024], *at;

        /* Of its first thread, which is as old: process/identity.c says why. */
        snprintf(path, sizeof(path), "/proc/%llu/task/%llu/stat", (unsigned long long)id,
                 (unsigned long long)id);
        if (!read_text(path, text, sizeof(text)) || !(at = strrchr(text, ')')) || at[1] != ' ')
                return false;
        *ret_state = at[2];
        /* The name may have blanks; behind it comes the third of the fields, and the 22nd is the one. */
        for (int field = 2; field < 22 && at; field++)
                at = strchr(at + 1, ' ');
        *ret = at ? strtoull(at, NULL, 10) : 0;
        return *ret != 0;
}

static struct process own_process(void) {
        struct process process = { .id = (uint64_t)getpid() };
        struct stat space;
        char state;

        if (read_text("/proc/sys/kernel/random/boot_id", process.boot, sizeof(process.boot)))
                process.boot[strcspn(process.boot, "\n")] = '\0';
        if (stat("/proc/self/ns/pid", &space) == 0)
                process.space = space.st_ino;
        if (!began(process.id, &process.began, &state))
                process.began = 0;
        return process;
}

/* Known for certain: what cannot be looked at, as where /proc shows others' processes to nobody, may live. */
static bool has_ended(const struct servers *servers, const struct process *process) {
        const struct process *own = &servers->process;
        uint64_t at;
        char state;

        if (!own->boot[0] || !own->space || !own->began || !process->began || process->id == 0 ||
            process->id > INT_MAX || strcmp(own->boot, process->boot) != 0 || own->space != process->space)
                return false;
        if (kill((pid_t)process->id, 0) < 0 && errno == ESRCH)
                return true;
        return began(process->id, &at, &state) && (at != process->began || state == 'Z' || state == 'X');
}

static char *own_text(const struct servers *servers) {
        const struct process *own = &servers->process;
        json_t *json JSON_CLEANUP = json_checked(json_pack(
                "{s:s, s:I, s:I, s:I, s:I}", "boot", own->boot, "space", (json_int_t)own->space, "process",
                (json_int_t)own->id, "began", (json_int_t)own->began, "at", (json_int_t)clock_wall_ms()));

        return json_compact(json);
}

/* With the lock. */
static void count_lapse(struct servers *servers) {
        if (servers->lapsed || now_ms() < servers->valid_ms)
                return;
        servers->lapsed = true;
        servers->lapses++;
        servers->hurries = true;
        pthread_cond_signal(&servers->wake);
}

/*
 * Its time counts from before the write: whoever looks sees the record later than that. It is written whatever is there: who was taken for
 * dead lives again, and what it held is by then somebody else's, or still its own, as the sessions' records say.
 */
static int beat(struct servers *servers, bool *ret_recovered, struct error *err) {
        char *text = own_text(servers);
        const struct session_change change = { SESSION_TABLE_SESSIONS, servers->key, text,
                                               SESSION_EXPECT_NOTHING, 0 };
        int64_t begun_ms = now_ms(), spare_ms = servers->config.silent_ms / 5;
        int written = session_store_write(servers->config.store, &change, 1, err);

        free(text);
        if (written < 0)
                return -1;
        pthread_mutex_lock(&servers->lock);
        count_lapse(servers);
        *ret_recovered = servers->lapsed;
        servers->lapsed = servers->hurries = false;
        servers->valid_ms = begun_ms + servers->config.silent_ms - spare_ms;
        pthread_mutex_unlock(&servers->lock);
        return 0;
}

/* With the lock. */
static struct other *find(struct servers *servers, const char *number) {
        for (size_t i = 0; i < servers->count; i++) {
                if (strcmp(servers->others[i].number, number) == 0)
                        return &servers->others[i];
        }
        return NULL;
}

/* With the lock. What its record says of its process is looked at, and not believed beyond that: it may be anybody's. */
static struct other *remember_other(struct servers *servers, const char *number,
                                    const struct session_item *item) {
        json_t *json JSON_CLEANUP = json_loads(item->value, JSON_REJECT_DUPLICATES, NULL);
        int64_t at_ms = json_integer_or(json, "at", 0);
        const char *boot = json_text(json, "boot");
        struct other *other = find(servers, number);

        if (!other) {
                servers->others = array_grow_alone(servers->others, servers->count, sizeof(struct other));
                other = &servers->others[servers->count++];
                *other = (struct other){ .version = 0 };
                snprintf(other->number, sizeof(other->number), "%s", number);
        }
        other->seen = true;
        if (other->version == item->version && other->at_ms == at_ms)
                return other;
        other->version = item->version;
        other->at_ms = at_ms;
        other->since_ms = now_ms();
        snprintf(other->process.boot, sizeof(other->process.boot), "%s", boot ? boot : "");
        other->process.space = (uint64_t)json_integer_or(json, "space", 0);
        other->process.id = (uint64_t)json_integer_or(json, "process", 0);
        other->process.began = (uint64_t)json_integer_or(json, "began", 0);
        return other;
}

static bool is_dead(const struct servers *servers, const struct other *other) {
        return now_ms() - other->since_ms >= servers->config.silent_ms || has_ended(servers, &other->process);
}

/* Of one that is dead its record goes, unless it has changed meanwhile: then it lives after all. */
static bool bury(const struct servers *servers, const struct other *other) {
        char key[sizeof(SERVERS_PREFIX) + sizeof(other->number)];
        const struct session_change change = { SESSION_TABLE_SESSIONS, key, NULL, SESSION_EXPECT_VERSION,
                                               other->version };
        struct error err = { 0 };
        int written;

        snprintf(key, sizeof(key), SERVERS_PREFIX "%s", other->number);
        written = session_store_write(servers->config.store, &change, 1, &err);
        if (written < 0)
                log_warning("the record of a server that has ended stays: %s", err.message);
        if (written > 0)
                log_info("the server %s does not live any more: what it held is taken over", other->number);
        return written > 0;
}

static int list_others(struct servers *servers, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *after = NULL;
        struct session_item *items;
        size_t count;

        do {
                if (session_store_list(servers->config.store, SESSION_TABLE_SESSIONS, SERVERS_PREFIX, after,
                                       false, PAGE, arena, &items, &count, err) < 0)
                        return -1;
                pthread_mutex_lock(&servers->lock);
                for (size_t i = 0; i < count; i++) {
                        const char *number = items[i].key + strlen(SERVERS_PREFIX);

                        after = items[i].key;
                        if (strcmp(number, servers->config.number) != 0 &&
                            strlen(number) < sizeof(servers->others->number))
                                (void)remember_other(servers, number, &items[i]);
                }
                pthread_mutex_unlock(&servers->lock);
        } while (count == PAGE);
        return 0;
}

/* Whoever is not there any more is forgotten; who is dead is buried. True: somebody is no more. */
static bool check_others(struct servers *servers) {
        struct error err = { 0 };
        bool died = false;

        pthread_mutex_lock(&servers->lock);
        for (size_t i = 0; i < servers->count; i++)
                servers->others[i].seen = false;
        pthread_mutex_unlock(&servers->lock);
        if (list_others(servers, &err) < 0) {
                log_warning("which servers live cannot be seen: %s", err.message);
                return false;
        }
        pthread_mutex_lock(&servers->lock);
        for (size_t i = 0; i < servers->count;) {
                struct other other = servers->others[i];
                bool gone = !other.seen;

                if (!gone && is_dead(servers, &other)) {
                        pthread_mutex_unlock(&servers->lock);
                        gone = bury(servers, &other);
                        pthread_mutex_lock(&servers->lock);
                }
                if (gone && i < servers->count && strcmp(servers->others[i].number, other.number) == 0)
                        servers->others[i] = servers->others[--servers->count];
                else
                        i++;
                died = died || gone;
        }
        pthread_mutex_unlock(&servers->lock);
        return died;
}

static void *run(void *context) {
        struct servers *servers = context;

        pthread_mutex_lock(&servers->lock);
        while (!servers->stopping) {
                const struct timespec until = clock_after_ms(servers->config.beat_ms);
                bool recovered = false;
                struct error err = { 0 };

                while (!servers->stopping && !servers->hurries &&
                       pthread_cond_timedwait(&servers->wake, &servers->lock, &until) != ETIMEDOUT)
                        continue;
                if (servers->stopping)
                        break;
                servers->hurries = false;
                pthread_mutex_unlock(&servers->lock);
                if (beat(servers, &recovered, &err) < 0)
                        log_warning("that this server lives cannot be written: %s", err.message);
                if (check_others(servers) || recovered)
                        servers->config.changed(servers->config.context);
                pthread_mutex_lock(&servers->lock);
        }
        pthread_mutex_unlock(&servers->lock);
        return NULL;
}

static void free_servers(struct servers *servers) {
        pthread_cond_destroy(&servers->wake);
        pthread_mutex_destroy(&servers->lock);
        array_free_alone(servers->others);
        free(servers->key);
        free(servers);
}

int servers_open(const struct servers_config *config, struct servers **ret, struct error *err) {
        struct servers *servers = calloc(1, sizeof(*servers));
        pthread_condattr_t monotonic;
        bool recovered;
        int code;

        if (!servers)
                abort();
        servers->config = *config;
        servers->config.beat_ms = config->beat_ms ? config->beat_ms : SERVERS_BEAT_MS;
        servers->config.silent_ms = config->silent_ms ? config->silent_ms : SERVERS_SILENT_MS;
        if (asprintf(&servers->key, SERVERS_PREFIX "%s", config->number) < 0)
                abort();
        servers->process = own_process();
        pthread_mutex_init(&servers->lock, NULL);
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&servers->wake, &monotonic);
        pthread_condattr_destroy(&monotonic);
        if (beat(servers, &recovered, err) < 0) {
                free_servers(servers);
                return -1;
        }
        (void)check_others(servers);
        code = pthread_create(&servers->thread, NULL, run, servers);
        if (code != 0) {
                servers_close(servers);
                return error_set(err, "cannot start a thread: %s", strerror(code));
        }
        servers->started = true;
        *ret = servers;
        return 0;
}

void servers_close(struct servers *servers) {
        struct session_change change = { .table = SESSION_TABLE_SESSIONS };
        struct error err = { 0 };

        if (!servers)
                return;
        pthread_mutex_lock(&servers->lock);
        servers->stopping = true;
        servers->valid_ms = 0;
        pthread_cond_signal(&servers->wake);
        pthread_mutex_unlock(&servers->lock);
        if (servers->started)
                pthread_join(servers->thread, NULL);
        change.key = servers->key;
        if (session_store_write(servers->config.store, &change, 1, &err) < 0)
                log_warning("others will notice this server's end only after a while: %s", err.message);
        free_servers(servers);
}

bool servers_hold(struct servers *servers) {
        bool holds;

        pthread_mutex_lock(&servers->lock);
        holds = now_ms() < servers->valid_ms;
        pthread_mutex_unlock(&servers->lock);
        return holds;
}

uint64_t servers_lapses(struct servers *servers) {
        uint64_t lapses;

        pthread_mutex_lock(&servers->lock);
        count_lapse(servers);
        lapses = servers->lapses;
        pthread_mutex_unlock(&servers->lock);
        return lapses;
}

uint64_t servers_term(struct servers *servers) {
        uint64_t term;

        pthread_mutex_lock(&servers->lock);
        count_lapse(servers);
        term = servers->lapsed ? 0 : servers->lapses + 1;
        pthread_mutex_unlock(&servers->lock);
        return term;
}

bool servers_know(struct servers *servers, const char *number) {
        const struct other *other;
        bool known;

        pthread_mutex_lock(&servers->lock);
        other = find(servers, number);
        known = other && !is_dead(servers, other);
        pthread_mutex_unlock(&servers->lock);
        return known;
}

bool servers_alone(struct servers *servers) {
        bool alone;

        pthread_mutex_lock(&servers->lock);
        alone = servers->count == 0;
        pthread_mutex_unlock(&servers->lock);
        return alone;
}

/* One that was not seen yet may have come since the last look. */
int servers_lives(struct servers *servers, const char *number, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        struct other *other, copy = { 0 };
        int found;

        if (strcmp(number, servers->config.number) == 0)
                return 1;
        if (!*number || strlen(number) >= sizeof(copy.number))
                return 0;
        pthread_mutex_lock(&servers->lock);
        other = find(servers, number);
        if (other)
                copy = *other;
        pthread_mutex_unlock(&servers->lock);
        if (other && !is_dead(servers, &copy))
                return 1;
        found = session_store_get(servers->config.store, SESSION_TABLE_SESSIONS,
                                  arena_printf(arena, SERVERS_PREFIX "%s", number), arena, &item, err);
        if (found <= 0)
                return found;
        pthread_mutex_lock(&servers->lock);
        copy = *remember_other(servers, number, &item);
        pthread_mutex_unlock(&servers->lock);
        return !is_dead(servers, &copy) || !bury(servers, &copy);
}
