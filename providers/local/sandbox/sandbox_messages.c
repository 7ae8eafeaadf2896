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

/* --- a table of members, so that each is named once and is within its range, or the message is refused --- */

enum member_type { MEMBER_NUMBER, MEMBER_BOOL };

struct message_member {
        const char *name;
        enum member_type type;
        int64_t least, most; /* of a number */
        int64_t number;
};

static json_t *members_json(const struct message_member *members, size_t count) {
        json_t *json = json_object();

        for (size_t i = 0; i < count; i++)
                json_put(json, members[i].name,
                         members[i].type == MEMBER_BOOL ? json_boolean(members[i].number)
                                                        : json_integer(members[i].number));
        return json;
}

/* All of them must be there, and `others` more, which the caller reads. */
static int read_members(const json_t *json, struct message_member *members, size_t count, size_t others,
                        struct error *err) {
        if (!json_is_object(json))
                return -1;
        if (json_object_size(json) != count + others)
                return error_set(err, "a message has %zu members instead of %zu", json_object_size(json),
                                 count + others);
        for (size_t i = 0; i < count; i++) {
                const json_t *value = json_object_get(json, members[i].name);

                if (members[i].type == MEMBER_BOOL ? !json_is_boolean(value) : !json_is_integer(value))
                        return error_set(err, "a message has no %s", members[i].name);
                members[i].number =
                        members[i].type == MEMBER_BOOL ? json_is_true(value) : json_integer_value(value);
                if (members[i].type == MEMBER_NUMBER &&
                    (members[i].number < members[i].least || members[i].number > members[i].most))
                        return error_set(err, "a message has %s out of range", members[i].name);
        }
        return 0;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NUMBER(name, least, most, value) \
        { name, MEMBER_NUMBER, least, most, (int64_t)(value) }
#define BOOL(name, value) \
        { name, MEMBER_BOOL, 0, 0, (value) }

/* --- a way out --- */

static json_t *network_json(const struct allow_list *network) {
        json_t *json, *entries;

        if (network->count == 0)
                return json_null();
        json = json_object();
        entries = json_array();
        for (size_t i = 0; i < network->count; i++) {
                if (json_array_append_new(entries, json_string(network->entries[i])) < 0)
                        abort();
        }
        json_put(json, "allow", entries);
        json_put(json, "bytes", json_integer((json_int_t)network->bytes_max));
        return json;
}

static int read_network(const json_t *json, struct arena *arena, struct allow_list *ret, struct error *err) {
        struct message_member bytes[] = { NUMBER("bytes", 1, NUMBER_MAX, 0) };
        const json_t *allow = json_object_get(json, "allow");
        size_t count = json_array_size(allow);
        const char **entries;

        *ret = (struct allow_list){ 0 };
        if (json_is_null(json))
                return 0;
        if (!json_is_object(json) || read_members(json, bytes, COUNT(bytes), 1, err) < 0 || count == 0 ||
            count > ALLOW_ENTRIES_MAX)
                return error_set(err, "a message has a network that is none");
        entries = arena_array(arena, count, sizeof(*entries));
        for (size_t i = 0; i < count; i++) {
                const char *entry = json_string_value(json_array_get(allow, i));

                if (!entry || !allow_is_entry(entry))
                        return error_set(err, "a message allows a host that is none");
                entries[i] = arena_strdup(arena, entry);
        }
        *ret = (struct allow_list){ entries, count, (uint64_t)bytes[0].number };
        return 0;
}

/* --- PLACE --- */

#define LIMITS 6
#define LIMIT_MEMBERS(l)                                                       \
        NUMBER("memoryBytes", 1, NUMBER_MAX, (l)->memory_bytes),               \
                NUMBER("cpuMillis", 1, 1000000000, (l)->cpu_millis),           \
                NUMBER("processes", 1, 1000000, (l)->processes),               \
                NUMBER("workspaceBytes", 1, NUMBER_MAX, (l)->workspace_bytes), \
                NUMBER("workspaceFiles", 1, INT32_MAX, (l)->workspace_files),  \
                NUMBER("deadlineMs", 1, NUMBER_MAX, (l)->deadline_ms)

static struct sandbox_limits limits_of(const struct message_member members[LIMITS]) {
        return (struct sandbox_limits){
                .memory_bytes = (uint64_t)members[0].number,
                .cpu_millis = (unsigned)members[1].number,
                .processes = (unsigned)members[2].number,
                .workspace_bytes = (uint64_t)members[3].number,
                .workspace_files = (uint64_t)members[4].number,
                .deadline_ms = members[5].number,
        };
}

#define PLACING_MEMBERS(p)                                                                                   \
        {                                                                                                    \
                LIMIT_MEMBERS(&(p)->limits), NUMBER("uid", 0, UINT32_MAX - 1, (p)->uid),                     \
                        NUMBER("gid", 0, UINT32_MAX - 1, (p)->gid), NUMBER("entries", 0, 4, (p)->entries),   \
                        NUMBER("held", 0, SANDBOX_HELD_MAX, (p)->held), BOOL("image", (p)->image),           \
                        BOOL("born", (p)->born), BOOL("scope", (p)->scope),                                  \
                        BOOL("limitAddressSpace", (p)->limit_address_space), BOOL("lasts", (p)->lasts),      \
                        BOOL("disk", (p)->disk), NUMBER("owner", 0, UINT32_MAX - 1, (p)->owner),             \
                        BOOL("diesWithParent", (p)->dies_with_parent), BOOL("forAnother", (p)->for_another), \
                        NUMBER("patienceMs", 0, NUMBER_MAX, (p)->patience_ms), BOOL("gauges", (p)->gauges),  \
                        BOOL("joins", (p)->joins), BOOL("kept", (p)->kept),                                  \
        }

void sandbox_placing_write(const struct sandbox_placing *placing, struct strbuf *ret) {
        struct message_member members[] = PLACING_MEMBERS(placing);
        json_t *json = members_json(members, COUNT(members));

        json_put(json, "network", network_json(&placing->network));
        append_json(json, ret);
}

int sandbox_placing_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_placing *ret,
                         struct error *err) {
        struct sandbox_placing none = { 0 };
        struct allow_list network;
        struct message_member members[] = PLACING_MEMBERS(&none);
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);

        if (read_members(json, members, COUNT(members), 1, err) < 0 ||
            read_network(json_object_get(json, "network"), arena, &network, err) < 0)
                return -1;
        *ret = (struct sandbox_placing){
                .limits = limits_of(members),
                .uid = (unsigned)members[6].number,
                .gid = (unsigned)members[7].number,
                .entries = (unsigned)members[8].number,
                .held = (unsigned)members[9].number,
                .image = members[10].number,
                .born = members[11].number,
                .scope = members[12].number,
                .limit_address_space = members[13].number,
                .lasts = members[14].number,
                .disk = members[15].number,
                .owner = (unsigned)members[16].number,
                .dies_with_parent = members[17].number,
                .for_another = members[18].number,
                .patience_ms = members[19].number,
                .gauges = members[20].number,
                .joins = members[21].number,
                .kept = members[22].number,
                .network = network,
        };
        return 0;
}

/* --- START --- */

#define FAMILY_MEMBER(f) NUMBER("familyCpuMillis", 0, INT32_MAX, (f)->cpu_millis)

void sandbox_starting_write(const struct sandbox_starting *starting, struct strbuf *ret) {
        struct message_member members[] = { LIMIT_MEMBERS(&starting->limits),
                                            FAMILY_MEMBER(&starting->family), BOOL("disk", starting->disk) };
        json_t *json = members_json(members, COUNT(members));

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
        struct message_member members[] = { FAMILY_MEMBER(family) };
        json_t *json = members_json(members, COUNT(members));

        json_put(json, "family", json_string(family->name));
        append_json(json, ret);
}

int sandbox_family_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_family *ret,
                        struct error *err) {
        struct sandbox_family none = { 0 };
        struct message_member members[] = { FAMILY_MEMBER(&none) };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const char *name = json_string_value(json_object_get(json, "family"));

        if (read_members(json, members, COUNT(members), 1, err) < 0)
                return -1;
        if (!is_family(name))
                return error_set(err, "a message has a family that is none");
        *ret = (struct sandbox_family){ .name = arena_strdup(arena, name),
                                        .cpu_millis = (unsigned)members[0].number };
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
        struct sandbox_limits none = { 0 };
        struct sandbox_family alone = { 0 };
        struct message_member members[] = { LIMIT_MEMBERS(&none), FAMILY_MEMBER(&alone), BOOL("disk", 0) };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const json_t *image = json_object_get(json, "image"), *name = json_object_get(json, "name"),
                     *family = json_object_get(json, "family"), *kept = json_object_get(json, "kept");

        if (read_members(json, members, COUNT(members), kept ? 5 : 4, err) < 0 ||
            read_network(json_object_get(json, "network"), arena, &ret->network, err) < 0)
                return -1;
        if (!json_is_null(family) && !is_family(json_string_value(family)))
                return error_set(err, "a message has a family that is none");
        if (!json_is_null(name) && !is_worker_name(json_string_value(name)))
                return error_set(err, "a message has a name that is none");
        if (!json_is_null(image) && !is_digest(json_string_value(image)))
                return error_set(err, "a message has an image that is no digest");
        if (kept && !is_family(json_string_value(kept)))
                return error_set(err, "a message has a workspace that is none");
        ret->limits = limits_of(members);
        ret->family = (struct sandbox_family){
                .name = json_is_null(family) ? NULL : arena_strdup(arena, json_string_value(family)),
                .cpu_millis = (unsigned)members[LIMITS].number,
        };
        ret->disk = members[LIMITS + 1].number;
        ret->joins = NULL;
        ret->kept = kept ? arena_strdup(arena, json_string_value(kept)) : NULL;
        ret->name = json_is_null(name) ? NULL : arena_strdup(arena, json_string_value(name));
        ret->image = json_is_null(image) ? NULL : arena_strdup(arena, json_string_value(image));
        return 0;
}

/* --- KEEP --- */

#define KEEPING_MEMBERS(k)                                                                             \
        {                                                                                              \
                NUMBER("bytes", 1, NUMBER_MAX, (k)->bytes), NUMBER("files", 1, INT32_MAX, (k)->files), \
                        BOOL("make", (k)->make), BOOL("remove", (k)->remove),                          \
        }

void sandbox_keeping_write(const struct sandbox_keeping *keeping, struct strbuf *ret) {
        struct message_member members[] = KEEPING_MEMBERS(keeping);
        json_t *json = members_json(members, COUNT(members));

        json_put(json, "name", json_string(keeping->name));
        append_json(json, ret);
}

int sandbox_keeping_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_keeping *ret,
                         struct error *err) {
        struct sandbox_keeping none = { 0 };
        struct message_member members[] = KEEPING_MEMBERS(&none);
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const char *name = json_string_value(json_object_get(json, "name"));

        if (read_members(json, members, COUNT(members), 1, err) < 0)
                return -1;
        if (!is_family(name))
                return error_set(err, "a message has a workspace that is none");
        *ret = (struct sandbox_keeping){ .name = arena_strdup(arena, name),
                                         .bytes = (uint64_t)members[0].number,
                                         .files = (uint64_t)members[1].number,
                                         .make = members[2].number,
                                         .remove = members[3].number };
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

        if (read_members(json, NULL, 0, 1, err) < 0)
                return -1;
        if (!after || (after[0] && !is_family(after)))
                return error_set(err, "a message has a workspace that is none");
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

        if (read_members(json, NULL, 0, 1, err) < 0)
                return -1;
        names = arena_array(arena, json_array_size(list) + 1, sizeof(*names));
        json_array_foreach (list, index, item) {
                if (!is_family(json_string_value(item)))
                        return error_set(err, "a message has a workspace that is none");
                names[index] = arena_strdup(arena, json_string_value(item));
        }
        *ret = names;
        *ret_count = json_array_size(list);
        return 0;
}

/* --- STARTED, KILL, MEASURE, MEASURED --- */

#define PROBLEM_MAX 1000
#define RUN_MEMBER(r) NUMBER("run", 1, NUMBER_MAX, r)

void sandbox_started_write(const struct sandbox_started *started, struct strbuf *ret) {
        struct message_member members[] = { RUN_MEMBER(started->run),
                                            NUMBER("missing", 0, CGROUP_EVERYTHING, started->missing) };
        json_t *json = members_json(members, COUNT(members));

        json_put(json, "problem", json_string(started->problem));
        append_json(json, ret);
}

int sandbox_started_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_started *ret,
                         struct error *err) {
        struct message_member members[] = { RUN_MEMBER(0), NUMBER("missing", 0, CGROUP_EVERYTHING, 0) };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const json_t *problem = json_object_get(json, "problem");

        if (read_members(json, members, COUNT(members), 1, err) < 0)
                return -1;
        if (!json_is_string(problem) || json_string_length(problem) > PROBLEM_MAX)
                return error_set(err, "a message has no problem, or a long one");
        *ret = (struct sandbox_started){ .run = (uint64_t)members[0].number,
                                         .missing = (unsigned)members[1].number,
                                         .problem = arena_strdup(arena, json_string_value(problem)) };
        return 0;
}

void sandbox_number_write(uint64_t run, struct strbuf *ret) {
        struct message_member members[] = { RUN_MEMBER(run) };

        append_json(members_json(members, COUNT(members)), ret);
}

int sandbox_number_read(const char *bytes, size_t length, uint64_t *ret, struct error *err) {
        struct message_member members[] = { RUN_MEMBER(0) };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);

        if (read_members(json, members, COUNT(members), 0, err) < 0)
                return -1;
        *ret = (uint64_t)members[0].number;
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

        if (read_members(json, NULL, 0, 1, err) < 0)
                return -1;
        if (!is_worker_name(name))
                return error_set(err, "a message has a name that is none");
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

        if (read_members(json, NULL, 0, 2, err) < 0)
                return -1;
        if (!is_worker_name(name) || !is_worker_name(to))
                return error_set(err, "a message has a name that is none");
        *ret_name = arena_strdup(arena, name);
        *ret_to = arena_strdup(arena, to);
        return 0;
}

#define MEASURED_MEMBERS(r, u)                                                            \
        {                                                                                 \
                RUN_MEMBER(r), BOOL("usageKnown", (u)->known),                            \
                        NUMBER("peakMemoryBytes", 0, NUMBER_MAX, (u)->peak_memory_bytes), \
                        NUMBER("cpuUs", 0, NUMBER_MAX, (u)->cpu_us),                      \
                        NUMBER("memoryKills", 0, NUMBER_MAX, (u)->memory_kills),          \
        }

void sandbox_measured_write(const struct sandbox_measured *measured, struct strbuf *ret) {
        struct message_member members[] = MEASURED_MEMBERS(measured->run, &measured->usage);

        append_json(members_json(members, COUNT(members)), ret);
}

int sandbox_measured_read(const char *bytes, size_t length, struct sandbox_measured *ret, struct error *err) {
        struct sandbox_measured none = { 0 };
        struct message_member members[] = MEASURED_MEMBERS(none.run, &none.usage);
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);

        if (read_members(json, members, COUNT(members), 0, err) < 0)
                return -1;
        *ret = (struct sandbox_measured){ .run = (uint64_t)members[0].number,
                                          .usage = { .known = members[1].number,
                                                     .peak_memory_bytes = (uint64_t)members[2].number,
                                                     .cpu_us = (uint64_t)members[3].number,
                                                     .memory_kills = (uint64_t)members[4].number } };
        return 0;
}

/* --- RUN --- */

void sandbox_running_write(const struct sandbox_running *running, struct strbuf *ret) {
        json_t *files = json_array();

        for (size_t i = 0; i < running->file_count; i++)
                json_add(files, json_string(running->files[i]));
        append_json(json_pack("{s:I, s:b, s:b, s:o}", "deadlineMs", (json_int_t)running->deadline_ms, "waits",
                              running->waits, "session", running->session, "files", files),
                    ret);
}

/* It becomes part of a path that bubblewrap makes. */
static bool is_plain_name(const char *name) {
        size_t length = name ? strlen(name) : 0;

        return length > 0 && length <= 200 && name[0] != '.' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == length;
}

int sandbox_running_read(const char *bytes, size_t length, struct arena *arena, struct sandbox_running *ret,
                         struct error *err) {
        struct message_member members[] = { NUMBER("deadlineMs", 1, NUMBER_MAX, 0), BOOL("waits", 0),
                                            BOOL("session", 0) };
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);
        const json_t *files = json_object_get(json, "files");
        struct sandbox_running running = { 0 };

        if (read_members(json, members, COUNT(members), 1, err) < 0)
                return -1;
        if (!json_is_array(files) || json_array_size(files) > SANDBOX_FILES_MAX)
                return error_set(err, "a message has no files, or more than %d", SANDBOX_FILES_MAX);
        running.deadline_ms = members[0].number;
        running.waits = members[1].number;
        running.session = members[2].number;
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

#define ENDING_MEMBERS(e)                                                                              \
        {                                                                                              \
                NUMBER("exitCode", 0, 255, (e)->exit_code), NUMBER("killedBy", 0, 64, (e)->killed_by), \
                        NUMBER("wallMs", 0, NUMBER_MAX, (e)->wall_ms),                                 \
                        NUMBER("cpuMs", 0, NUMBER_MAX, (e)->cpu_ms),                                   \
                        NUMBER("peakMemoryBytes", 0, NUMBER_MAX, (e)->peak_memory_bytes),              \
                        NUMBER("groupPeakMemoryBytes", 0, NUMBER_MAX, (e)->usage.peak_memory_bytes),   \
                        NUMBER("groupCpuUs", 0, NUMBER_MAX, (e)->usage.cpu_us),                        \
                        NUMBER("groupMemoryKills", 0, NUMBER_MAX, (e)->usage.memory_kills),            \
                        BOOL("groupKnown", (e)->usage.known), BOOL("started", (e)->started),           \
                        BOOL("deadline", (e)->deadline), BOOL("cancelled", (e)->cancelled),            \
                        BOOL("sockets", (e)->sockets), BOOL("locks", (e)->locks),                      \
        }

void sandbox_ending_write(const struct sandbox_ending *ending, struct strbuf *ret) {
        struct message_member members[] = ENDING_MEMBERS(ending);

        append_json(members_json(members, COUNT(members)), ret);
}

int sandbox_ending_read(const char *bytes, size_t length, struct sandbox_ending *ret, struct error *err) {
        struct sandbox_ending none = { 0 };
        struct message_member members[] = ENDING_MEMBERS(&none);
        json_t *json JSON_CLEANUP = parse_message(bytes, length, err);

        if (read_members(json, members, COUNT(members), 0, err) < 0)
                return -1;
        *ret = (struct sandbox_ending){
                .exit_code = (int)members[0].number,
                .killed_by = (int)members[1].number,
                .wall_ms = members[2].number,
                .cpu_ms = members[3].number,
                .peak_memory_bytes = (uint64_t)members[4].number,
                .usage = { .peak_memory_bytes = (uint64_t)members[5].number,
                           .cpu_us = (uint64_t)members[6].number,
                           .memory_kills = (uint64_t)members[7].number,
                           .known = members[8].number },
                .started = members[9].number,
                .deadline = members[10].number,
                .cancelled = members[11].number,
                .sockets = members[12].number,
                .locks = members[13].number,
        };
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
