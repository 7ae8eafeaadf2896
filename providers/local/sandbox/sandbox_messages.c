/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_messages.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX (INT64_C(1) << 53)

static void append_json(json_t *json, struct strbuf *ret) {
        char *text;

        if (!json)
                abort();
        text = json_compact(json);
        strbuf_append(ret, text);
        free(text);
        json_decref(json);
}

static json_t *parse_message(const char *bytes, size_t length, struct error *err) {
        json_error_t problem;
        json_t *json = json_loadb(bytes ? bytes : "", length, JSON_REJECT_DUPLICATES, &problem);

        if (!json)
                (void)error_set(err, "a message is no JSON: %s", problem.text);
        else if (!json_is_object(json))
                (void)error_set(err, "a message is no JSON object");
        return json;
}

/*
 * A message's members that are numbers and truths are a table: the name of each, its range, and where it lies in the
 * message's struct. Writer and reader go through the same table, so neither depends on the order of its rows.
 */

enum member_type { MEMBER_BOOL, MEMBER_INT, MEMBER_UNSIGNED, MEMBER_INT64, MEMBER_UINT64 };

struct message_member {
        const char *name;
        enum member_type type;
        size_t offset;
        int64_t least, most; /* of a number */
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FIELD(of, field) (((of *)0)->field)
#define NUMBER(of, field, name, least, most)                \
        {                                                   \
                name,                                       \
                        _Generic(FIELD(of, field), int      \
                                 : MEMBER_INT, unsigned     \
                                 : MEMBER_UNSIGNED, int64_t \
                                 : MEMBER_INT64, uint64_t   \
                                 : MEMBER_UINT64),          \
                        offsetof(of, field), least, most    \
        }
#define BOOL(of, field, name) \
        { name, _Generic(FIELD(of, field), bool : MEMBER_BOOL), offsetof(of, field), 0, 0 }

static int64_t get_member(const struct message_member *member, const void *message) {
        const void *at = (const char *)message + member->offset;
        const uint64_t *number = at;

        switch (member->type) {
        case MEMBER_BOOL:
                return *(const bool *)at;
        case MEMBER_INT:
                return *(const int *)at;
        case MEMBER_UNSIGNED:
                return *(const unsigned *)at;
        case MEMBER_INT64:
                return *(const int64_t *)at;
        case MEMBER_UINT64:
                break;
        }
        return (int64_t)*number;
}

/* The value is within the member's range, which its type holds. */
static void set_member(const struct message_member *member, void *message, int64_t value) {
        void *at = (char *)message + member->offset;

        switch (member->type) {
        case MEMBER_BOOL:
                *(bool *)at = value;
                break;
        case MEMBER_INT:
                *(int *)at = (int)value;
                break;
        case MEMBER_UNSIGNED:
                *(unsigned *)at = (unsigned)value;
                break;
        case MEMBER_INT64:
                *(int64_t *)at = value;
                break;
        case MEMBER_UINT64:
                *(uint64_t *)at = (uint64_t)value;
                break;
        }
}

static json_t *members_json(const struct message_member *members, size_t count, const void *message) {
        json_t *json = json_object();

        for (size_t i = 0; i < count; i++) {
                int64_t value = get_member(&members[i], message);

                json_put(json, members[i].name,
                         members[i].type == MEMBER_BOOL ? json_boolean(value) : json_integer(value));
        }
        return json;
}

/* A message must have exactly the members of the table, and `others` more that the caller reads. */
static int read_members(const json_t *json, const struct message_member *members, size_t count, size_t others,
                        void *message, struct error *err) {
        if (!json_is_object(json))
                return -1;
        if (json_object_size(json) != count + others)
                return error_set(err, "a message has %zu members instead of %zu", json_object_size(json),
                                 count + others);
        for (size_t i = 0; i < count; i++) {
                const struct message_member *member = &members[i];
                const json_t *value = json_object_get(json, member->name);
                bool is_truth = member->type == MEMBER_BOOL;
                int64_t number = is_truth ? json_is_true(value) : json_integer_value(value);

                if (is_truth ? !json_is_boolean(value) : !json_is_integer(value))
                        return error_set(err, "a message has no %s", member->name);
                if (!is_truth && (number < member->least || number > member->most))
                        return error_set(err, "a message has %s out of range", member->name);
                set_member(member, message, number);
        }
        return 0;
}

/* --- a way out --- */

static const struct message_member network_members[] = { NUMBER(struct allow_list, bytes_max, "bytes", 1,
                                                                NUMBER_MAX) };

static json_t *network_json(const struct allow_list *network) {
        json_t *json, *entries;

        if (network->count == 0)
                return json_null();
        json = members_json(network_members, COUNT(network_members), network);
        entries = json_array();
        for (size_t i = 0; i < network->count; i++) {
                if (json_array_append_new(entries, json_string(network->entries[i])) < 0)
                        abort();
        }
        json_put(json, "allow", entries);
        return json;
}

static int read_network(const json_t *json, struct arena *arena, struct allow_list *ret, struct error *err) {
        const json_t *allow = json_object_get(json, "allow");
        size_t count = json_array_size(allow);
        struct allow_list network = { 0 };
        const char **entries;

        *ret = network;
        if (json_is_null(json))
                return 0;
        if (!json_is_object(json) ||
            read_members(json, network_members, COUNT(network_members), 1, &network, err) < 0 || count == 0 ||
            count > ALLOW_ENTRIES_MAX)
                return error_set(err, "a message has an invalid network");
        entries = arena_array(arena, count, sizeof(*entries));
        for (size_t i = 0; i < count; i++) {
                const char *entry = json_string_value(json_array_get(allow, i));

                if (!entry || !allow_is_entry(entry))
                        return error_set(err, "a message allows an invalid host");
                entries[i] = arena_strdup(arena, entry);
        }
        network.entries = entries;
        network.count = count;
        *ret = network;
        return 0;
}

/* --- PLACE --- */

#define LIMIT_MEMBERS(of)                                                            \
        NUMBER(of, limits.memory_bytes, "memoryBytes", 1, NUMBER_MAX),               \
                NUMBER(of, limits.cpu_millis, "cpuMillis", 1, 1000000000),           \
                NUMBER(of, limits.processes, "processes", 1, 1000000),               \
                NUMBER(of, limits.workspace_bytes, "workspaceBytes", 1, NUMBER_MAX), \
                NUMBER(of, limits.workspace_files, "workspaceFiles", 1, INT32_MAX),  \
                NUMBER(of, limits.deadline_ms, "deadlineMs", 1, NUMBER_MAX)

static const struct message_member placing_members[] = {
        LIMIT_MEMBERS(struct sandbox_placing),
        NUMBER(struct sandbox_placing, uid, "uid", 0, UINT32_MAX - 1),
        NUMBER(struct sandbox_placing, gid, "gid", 0, UINT32_MAX - 1),
        NUMBER(struct sandbox_placing, entries, "entries", 0, 4),
        NUMBER(struct sandbox_placing, held, "held", 0, SANDBOX_HELD_MAX),
        BOOL(struct sandbox_placing, image, "image"),
        BOOL(struct sandbox_placing, born, "born"),
        BOOL(struct sandbox_placing, scope, "scope"),
        BOOL(struct sandbox_placing, limit_address_space, "limitAddressSpace"),
        BOOL(struct sandbox_placing, lasts, "lasts"),
        BOOL(struct sandbox_placing, disk, "disk"),
        NUMBER(struct sandbox_placing, owner, "owner", 0, UINT32_MAX - 1),
        BOOL(struct sandbox_placing, dies_with_parent, "diesWithParent"),
        BOOL(struct sandbox_placing, for_another, "forAnother"),
        NUMBER(struct sandbox_placing, patience_ms, "patienceMs", 0, NUMBER_MAX),
        BOOL(struct sandbox_placing, gauges, "gauges"),
        BOOL(struct sandbox_placing, joins, "joins"),
        BOOL(struct sandbox_placing, kept, "kept"),
};

void sandbox_placing_write(const struct sandbox_placing *placing, struct strbuf *ret) {
        json_t *json = members_json(placing_members, COUNT(placing_members), placing);

        json_put(json, "network", network_json(&placing->network));
        append_json(json, ret);
}

int sandbox_placing_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_placing *ret,
                         struct error *err) {
        struct sandbox_placing placing = { 0 };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);

        if (read_members(json, placing_members, COUNT(placing_members), 1, &placing, err) < 0 ||
            read_network(json_object_get(json, "network"), arena, &placing.network, err) < 0)
                return -1;
        *ret = placing;
        return 0;
}

/* --- START --- */

static const struct message_member starting_members[] = {
        LIMIT_MEMBERS(struct sandbox_starting),
        NUMBER(struct sandbox_starting, family.cpu_millis, "familyCpuMillis", 0, INT32_MAX),
        BOOL(struct sandbox_starting, disk, "disk"),
};

static const struct message_member family_members[] = { NUMBER(struct sandbox_family, cpu_millis,
                                                               "familyCpuMillis", 0, INT32_MAX) };

void sandbox_starting_write(const struct sandbox_starting *starting, struct strbuf *ret) {
        json_t *json = members_json(starting_members, COUNT(starting_members), starting);

        json_put(json, "image", starting->image ? json_string(starting->image) : json_null());
        json_put(json, "name", starting->name ? json_string(starting->name) : json_null());
        json_set_text(json, "kept", starting->kept);
        json_put(json, "family", starting->family.name ? json_string(starting->family.name) : json_null());
        json_put(json, "network", network_json(&starting->network));
        append_json(json, ret);
}

/* It becomes a part of a folder's name. */
static bool is_family(const char *text) {
        size_t length = text ? strlen(text) : 0;

        return length > 0 && length <= SANDBOX_FAMILY_NAME_MAX && strspn(text, "0123456789abcdef") == length;
}

void sandbox_family_write(const struct sandbox_family *family, struct strbuf *ret) {
        json_t *json = members_json(family_members, COUNT(family_members), family);

        json_put(json, "family", json_string(family->name));
        append_json(json, ret);
}

int sandbox_family_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_family *ret,
                        struct error *err) {
        struct sandbox_family family = { 0 };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const char *name = json_string_value(json_object_get(json, "family"));

        if (read_members(json, family_members, COUNT(family_members), 1, &family, err) < 0)
                return -1;
        if (!is_family(name))
                return error_set(err, "a message has an invalid family");
        family.name = arena_strdup(arena, name);
        *ret = family;
        return 0;
}

/* "sha256:" and 64 digits as a digest is written: it becomes a part of a path. */
static bool is_digest(const char *text) {
        return text && strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 &&
               strspn(text + 7, "0123456789abcdef") == 64;
}

#define AGE_BITS 40
#define AGE_MAX (((uint64_t)1 << AGE_BITS) - 1)
#define IDLE_MAX_S \
        (((uint64_t)1 << (64 - AGE_BITS - 1)) - 1) /* the number's sign stays free: it was added to a time */

uint64_t sandbox_life_pack(const struct sandbox_life *life) {
        uint64_t age = life->age_ms > 0 ? (uint64_t)life->age_ms : 0,
                 idle_s = life->idle_ms > 0 ? ((uint64_t)life->idle_ms + 999) / 1000 : 1;

        if (age > AGE_MAX)
                age = AGE_MAX;
        if (idle_s > IDLE_MAX_S || idle_s * 1000 >= age)
                return age;
        return idle_s << AGE_BITS | age;
}

struct sandbox_life sandbox_life_unpack(uint64_t number) {
        uint64_t age = number & AGE_MAX, idle_s = number >> AGE_BITS;

        return (struct sandbox_life){ .age_ms = (int64_t)age,
                                      .idle_ms = idle_s ? (int64_t)(idle_s * 1000) : (int64_t)age };
}

/* It becomes a part of a path, too. */
static bool is_worker_name(const char *text) {
        size_t length = text ? strlen(text) : 0;

        return length > 0 && length <= 40 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

int sandbox_starting_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_starting *ret,
                          struct error *err) {
        struct sandbox_starting starting = { 0 };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const json_t *image = json_object_get(json, "image"), *name = json_object_get(json, "name"),
                     *family = json_object_get(json, "family"), *kept = json_object_get(json, "kept");

        if (read_members(json, starting_members, COUNT(starting_members), kept ? 5 : 4, &starting, err) < 0 ||
            read_network(json_object_get(json, "network"), arena, &starting.network, err) < 0)
                return -1;
        if (!json_is_null(family) && !is_family(json_string_value(family)))
                return error_set(err, "a message has an invalid family");
        if (!json_is_null(name) && !is_worker_name(json_string_value(name)))
                return error_set(err, "a message has an invalid name");
        if (!json_is_null(image) && !is_digest(json_string_value(image)))
                return error_set(err, "a message has an image that is no digest");
        if (kept && !is_family(json_string_value(kept)))
                return error_set(err, "a message has an invalid workspace");
        /* json_string_value() of null is NULL, and so is its copy. */
        starting.family.name = arena_strdup(arena, json_string_value(family));
        starting.kept = arena_strdup(arena, json_string_value(kept));
        starting.name = arena_strdup(arena, json_string_value(name));
        starting.image = arena_strdup(arena, json_string_value(image));
        *ret = starting;
        return 0;
}

/* --- KEEP --- */

static const struct message_member keeping_members[] = {
        NUMBER(struct sandbox_keeping, bytes, "bytes", 1, NUMBER_MAX),
        NUMBER(struct sandbox_keeping, files, "files", 1, INT32_MAX),
        BOOL(struct sandbox_keeping, make, "make"),
        BOOL(struct sandbox_keeping, remove, "remove"),
};

void sandbox_keeping_write(const struct sandbox_keeping *keeping, struct strbuf *ret) {
        json_t *json = members_json(keeping_members, COUNT(keeping_members), keeping);

        json_put(json, "name", json_string(keeping->name));
        append_json(json, ret);
}

int sandbox_keeping_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_keeping *ret,
                         struct error *err) {
        struct sandbox_keeping keeping = { 0 };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const char *name = json_string_value(json_object_get(json, "name"));

        if (read_members(json, keeping_members, COUNT(keeping_members), 1, &keeping, err) < 0)
                return -1;
        if (!is_family(name))
                return error_set(err, "a message has an invalid workspace");
        keeping.name = arena_strdup(arena, name);
        *ret = keeping;
        return 0;
}

/* --- NAMES, NAMED --- */

bool sandbox_is_kept_name(const char *text) {
        return is_family(text);
}

void sandbox_after_write(const char *after, struct strbuf *ret) {
        json_t *json = json_object();

        json_put(json, "after", json_string(after));
        append_json(json, ret);
}

int sandbox_after_read(const char *bytes, size_t length, struct arena *arena, const char **ret,
                       struct error *err) {
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const char *after = json_string_value(json_object_get(json, "after"));

        if (read_members(json, NULL, 0, 1, NULL, err) < 0)
                return -1;
        if (!after || (after[0] && !is_family(after)))
                return error_set(err, "a message has an invalid workspace");
        *ret = arena_strdup(arena, after);
        return 0;
}

void sandbox_names_write(const char *const *names, size_t count, struct strbuf *ret) {
        json_t *json = json_object(), *list = json_array();

        for (size_t i = 0; i < count; i++)
                json_add(list, json_string(names[i]));
        json_put(json, "names", list);
        append_json(json, ret);
}

int sandbox_names_read(const char *bytes, size_t length, struct arena *arena, const char ***ret,
                       size_t *ret_count, struct error *err) {
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const json_t *list = json_object_get(json, "names"), *item;
        const char **names;
        size_t index;

        if (read_members(json, NULL, 0, 1, NULL, err) < 0)
                return -1;
        names = arena_array(arena, json_array_size(list) + 1, sizeof(*names));
        json_array_foreach (list, index, item) {
                if (!is_family(json_string_value(item)))
                        return error_set(err, "a message has an invalid workspace");
                names[index] = arena_strdup(arena, json_string_value(item));
        }
        *ret = names;
        *ret_count = json_array_size(list);
        return 0;
}

/* --- STARTED, KILL, MEASURE, MEASURED --- */

#define PROBLEM_MAX 1000

static const struct message_member started_members[] = {
        NUMBER(struct sandbox_started, run, "run", 1, NUMBER_MAX),
        NUMBER(struct sandbox_started, missing, "missing", 0, CGROUP_EVERYTHING),
};

void sandbox_started_write(const struct sandbox_started *started, struct strbuf *ret) {
        json_t *json = members_json(started_members, COUNT(started_members), started);

        json_put(json, "problem", json_string(started->problem));
        append_json(json, ret);
}

int sandbox_started_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_started *ret,
                         struct error *err) {
        struct sandbox_started started = { 0 };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const json_t *problem = json_object_get(json, "problem");

        if (read_members(json, started_members, COUNT(started_members), 1, &started, err) < 0)
                return -1;
        if (!json_is_string(problem) || json_string_length(problem) > PROBLEM_MAX)
                return error_set(err, "a message has no problem, or a long one");
        started.problem = arena_strdup(arena, json_string_value(problem));
        *ret = started;
        return 0;
}

/* The message is its number. */
static const struct message_member number_members[] = { { "run", MEMBER_UINT64, 0, 1, NUMBER_MAX } };

void sandbox_number_write(uint64_t run, struct strbuf *ret) {
        append_json(members_json(number_members, COUNT(number_members), &run), ret);
}

int sandbox_number_read(const char *bytes, size_t length, uint64_t *ret, struct error *err) {
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        uint64_t run = 0;

        if (read_members(json, number_members, COUNT(number_members), 0, &run, err) < 0)
                return -1;
        *ret = run;
        return 0;
}

void sandbox_name_write(const char *name, struct strbuf *ret) {
        json_t *json = json_object();

        json_put(json, "name", json_string(name));
        append_json(json, ret);
}

int sandbox_name_read(const char *bytes, size_t length, struct arena *arena, const char **ret,
                      struct error *err) {
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const char *name = json_string_value(json_object_get(json, "name"));

        if (read_members(json, NULL, 0, 1, NULL, err) < 0)
                return -1;
        if (!is_worker_name(name))
                return error_set(err, "a message has an invalid name");
        *ret = arena_strdup(arena, name);
        return 0;
}

void sandbox_renaming_write(const char *name, const char *to, struct strbuf *ret) {
        json_t *json = json_object();

        json_put(json, "name", json_string(name));
        json_put(json, "to", json_string(to));
        append_json(json, ret);
}

int sandbox_renaming_read(const char *bytes, size_t length, struct arena *arena, const char **ret_name,
                          const char **ret_to, struct error *err) {
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const char *name = json_string_value(json_object_get(json, "name")),
                   *to = json_string_value(json_object_get(json, "to"));

        if (read_members(json, NULL, 0, 2, NULL, err) < 0)
                return -1;
        if (!is_worker_name(name) || !is_worker_name(to))
                return error_set(err, "a message has an invalid name");
        *ret_name = arena_strdup(arena, name);
        *ret_to = arena_strdup(arena, to);
        return 0;
}

static const struct message_member measured_members[] = {
        NUMBER(struct sandbox_measured, run, "run", 1, NUMBER_MAX),
        BOOL(struct sandbox_measured, usage.known, "usageKnown"),
        NUMBER(struct sandbox_measured, usage.peak_memory_bytes, "peakMemoryBytes", 0, NUMBER_MAX),
        NUMBER(struct sandbox_measured, usage.cpu_us, "cpuUs", 0, NUMBER_MAX),
        NUMBER(struct sandbox_measured, usage.memory_kills, "memoryKills", 0, NUMBER_MAX),
};

void sandbox_measured_write(const struct sandbox_measured *measured, struct strbuf *ret) {
        append_json(members_json(measured_members, COUNT(measured_members), measured), ret);
}

int sandbox_measured_read(const char *bytes, size_t length, struct sandbox_measured *ret, struct error *err) {
        struct sandbox_measured measured = { 0 };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);

        if (read_members(json, measured_members, COUNT(measured_members), 0, &measured, err) < 0)
                return -1;
        *ret = measured;
        return 0;
}

/* --- RUN --- */

static const struct message_member running_members[] = {
        NUMBER(struct sandbox_running, deadline_ms, "deadlineMs", 1, NUMBER_MAX),
        BOOL(struct sandbox_running, waits, "waits"),
        BOOL(struct sandbox_running, session, "session"),
};

void sandbox_running_write(const struct sandbox_running *running, struct strbuf *ret) {
        json_t *json = members_json(running_members, COUNT(running_members), running), *files = json_array();

        for (size_t i = 0; i < running->file_count; i++)
                json_add(files, json_string(running->files[i]));
        json_put(json, "files", files);
        append_json(json, ret);
}

/* It becomes part of a path that bubblewrap makes. */
static bool is_plain_name(const char *name) {
        size_t length = name ? strlen(name) : 0;

        return length > 0 && length <= 200 && name[0] != '.' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == length;
}

int sandbox_running_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_running *ret,
                         struct error *err) {
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const json_t *files = json_object_get(json, "files");
        struct sandbox_running running = { 0 };

        if (read_members(json, running_members, COUNT(running_members), 1, &running, err) < 0)
                return -1;
        if (!json_is_array(files) || json_array_size(files) > SANDBOX_FILES_MAX)
                return error_set(err, "a message has no files, or more than %d", SANDBOX_FILES_MAX);
        running.file_count = json_array_size(files);
        for (size_t i = 0; i < running.file_count; i++) {
                const char *name = json_string_value(json_array_get(files, i));

                if (!is_plain_name(name))
                        return error_set(err, "a message has a file without a plain name");
                for (size_t j = 0; j < i; j++) {
                        if (strcmp(name, running.files[j]) == 0)
                                return error_set(err, "a message has two files named %s", name);
                }
                running.files[i] = arena_strdup(arena, name);
        }
        *ret = running;
        return 0;
}

/* --- ENDED --- */

static const struct message_member ending_members[] = {
        NUMBER(struct sandbox_ending, exit_code, "exitCode", 0, 255),
        NUMBER(struct sandbox_ending, killed_by, "killedBy", 0, 64),
        NUMBER(struct sandbox_ending, wall_ms, "wallMs", 0, NUMBER_MAX),
        NUMBER(struct sandbox_ending, cpu_ms, "cpuMs", 0, NUMBER_MAX),
        NUMBER(struct sandbox_ending, peak_memory_bytes, "peakMemoryBytes", 0, NUMBER_MAX),
        NUMBER(struct sandbox_ending, usage.peak_memory_bytes, "groupPeakMemoryBytes", 0, NUMBER_MAX),
        NUMBER(struct sandbox_ending, usage.cpu_us, "groupCpuUs", 0, NUMBER_MAX),
        NUMBER(struct sandbox_ending, usage.memory_kills, "groupMemoryKills", 0, NUMBER_MAX),
        BOOL(struct sandbox_ending, usage.known, "groupKnown"),
        BOOL(struct sandbox_ending, started, "started"),
        BOOL(struct sandbox_ending, deadline, "deadline"),
        BOOL(struct sandbox_ending, cancelled, "cancelled"),
        BOOL(struct sandbox_ending, sockets, "sockets"),
        BOOL(struct sandbox_ending, locks, "locks"),
};

void sandbox_ending_write(const struct sandbox_ending *ending, struct strbuf *ret) {
        append_json(members_json(ending_members, COUNT(ending_members), ending), ret);
}

int sandbox_ending_read(const char *bytes, size_t length, struct sandbox_ending *ret, struct error *err) {
        struct sandbox_ending ending = { 0 };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);

        if (read_members(json, ending_members, COUNT(ending_members), 0, &ending, err) < 0)
                return -1;
        *ret = ending;
        return 0;
}

/* --- words --- */

int sandbox_words_read(const char *bytes, size_t length, struct arena *arena, const char *const **ret,
                       size_t *ret_count, struct error *err) {
        size_t count = 0;
        const char **words;

        if (length > 0 && bytes[length - 1] != '\0')
                return error_set(err, "a list of words does not end with one");
        for (size_t at = 0; at < length; at += strlen(bytes + at) + 1)
                count++;
        words = arena_array(arena, count + 1, sizeof(*words));
        *ret_count = count;
        for (size_t at = 0; at < length; at += strlen(bytes + at) + 1)
                words[*ret_count - count--] = bytes + at;
        words[*ret_count] = NULL;
        *ret = words;
        return 0;
}
