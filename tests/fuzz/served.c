/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Its port is any free one, which only listen_open() knows, and no client asks too often: those two
 * functions are wrapped. All else is what `berth serve` runs.
 */
#include "served.h"

#include "base/files.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "broker/auth/rate.h"
#include "broker/auth/token.h"
#include "broker/serve.h"
#include "parts.h"
#include "server/listen.h"
#include "sessions/fake_place.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#define INPUTS_PER_LIFE 2000 /* records and keys of idempotency grow until then */
#define LINES_MAX 64         /* of one execution: the place keeps FAKE_EVENTS */
#define SANDBOXES_MAX (FAKE_SANDBOXES - 32)

const char *const served_names[SERVED_WHO_COUNT] = { "me", "desk", "cron", "admin", "nobody", "raw" };
static const char *const tokens[SERVED_WHO_COUNT] = { [SERVED_DESK] = "desk-0123456789abcdef",
                                                      [SERVED_CRON] = "cron-0123456789abcdef",
                                                      [SERVED_ADMIN] = "admin-0123456789abcdef" };

static const char manifest[] =
        "apiVersion: berth/v1\nkind: Server\nmetadata: {name: fuzz}\nspec:\n"
        "  sessions: {perOwner: 8, total: 16}\n"
        "  workspaces: {perOwnerMB: 1}\n"
        "  clients:\n"
        "  - {name: desk, realm: company, actsFor: users, may: [execute, observe], tokenSha256: \"%s\"}\n"
        "  - {name: cron, may: [execute, containers], environments: [python], tokenSha256: \"%s\"}\n"
        "  - {name: admin, actsFor: users, may: [observe, administer], tokenSha256: \"%s\"}\n";

static char folder[128];
static struct fake_place place = { .lock = PTHREAD_MUTEX_INITIALIZER };
static size_t opened;    /* of the place, with its lock */
static bool goes_on;     /* the same */
static atomic_uint port; /* the server's thread says it */
static pthread_t thread;
static bool runs;
static size_t inputs;

const char *served_token(enum served_who who) {
        return tokens[who];
}

static void fail(const char *what, const struct error *err) {
        fprintf(stderr, "%s: %s\n", what, err->message);
        abort();
}

/* --- what is wrapped --- */

int __real_listen_open(const char *address, int *ret_socket, unsigned *ret_port, struct error *err);
int __wrap_listen_open(const char *address, int *ret_socket, unsigned *ret_port, struct error *err);
bool __wrap_rate_take(struct rate *rate, int64_t per_second, int64_t now_ms);

int __wrap_listen_open(const char *address, int *ret_socket, unsigned *ret_port, struct error *err) {
        int result = __real_listen_open(address, ret_socket, ret_port, err);

        atomic_store(&port, result == 0 ? *ret_port : 0);
        return result;
}

bool __wrap_rate_take(struct rate *rate, int64_t per_second, int64_t now_ms) {
        (void)rate;
        (void)per_second;
        (void)now_ms;
        return true;
}

/* --- the place --- */

static void run_on(struct fake_sandbox *sandbox) {
        while (sandbox->holding) {
                sandbox->holding = false;
                fake_run(sandbox);
        }
}

static int open_one(struct place *base, const struct place_opening *opening, struct place_session **ret,
                    struct error *err) {
        bool full;
        int result;

        pthread_mutex_lock(&place.lock);
        full = place.count >= SANDBOXES_MAX;
        opened++;
        pthread_mutex_unlock(&place.lock);
        result = full ? error_set(err, "the machine is full") : fake_class.open(base, opening, ret, err);
        if (result == 0)
                return 0;
        pthread_mutex_lock(&place.lock);
        opened--;
        pthread_mutex_unlock(&place.lock);
        return -1;
}

static void leave(struct place_session *session) {
        if (!session)
                return;
        fake_class.leave(session);
        pthread_mutex_lock(&place.lock);
        opened--;
        pthread_mutex_unlock(&place.lock);
}

static int execute(struct place_session *session, const struct place_execution *execution,
                   struct error *err) {
        struct place_execution shorter = *execution;
        size_t lines = 0;
        int result;

        shorter.code_length = 0;
        while (shorter.code_length < execution->code_length && lines < LINES_MAX)
                lines += execution->code[shorter.code_length++] == '\n';
        result = fake_class.execute(session, &shorter, err);
        pthread_mutex_lock(&place.lock);
        if (goes_on)
                run_on(session->sandbox);
        pthread_mutex_unlock(&place.lock);
        return result;
}

static void close_place(struct place *base) {
        (void)base;
}

static int open_place(void *context, const char *state, struct applied *applied,
                      const struct applied_stack *stack, const struct workspace_bounds *bounds,
                      struct arena *arena, struct broker_place *ret, struct error *err) {
        static struct place_class class;

        (void)context;
        (void)applied;
        (void)bounds;
        (void)err;
        class = fake_class;
        class.open = open_one;
        class.leave = leave;
        class.execute = execute;
        class.close = close_place;
        place.place.class = &class;
        place.agent_max = 2;
        ret->place = &place.place;
        ret->workspaces = (struct workspaces){ .folder = path_join_in(state, "workspaces", arena),
                                               .stack = stack->name };
        ret->files_max = 1000;
        return 0;
}

void served_go_on(void) {
        pthread_mutex_lock(&place.lock);
        goes_on = true;
        for (size_t i = 0; i < place.count; i++)
                run_on(&place.sandboxes[i]);
        pthread_mutex_unlock(&place.lock);
}

void served_settle(void) {
        pthread_mutex_lock(&place.lock);
        goes_on = false;
        if (opened == 0) {
                for (size_t i = 0; i < place.count; i++)
                        fake_forget(&place.sandboxes[i]);
                memset(place.sandboxes, 0, place.count * sizeof(*place.sandboxes));
                place.count = 0;
                place.restarted[0] = '\0';
        }
        pthread_mutex_unlock(&place.lock);
}

/* --- what was applied --- */

static const struct value *spec_of(struct arena *arena, const char *text) {
        json_t *json = json_loads(text, 0, NULL);
        struct value value;

        if (!json)
                abort();
        value = value_from_json(arena, json);
        json_decref(json);
        return memcpy(arena_alloc(arena, sizeof(value)), &value, sizeof(value));
}

static void apply(void) {
        static const struct {
                const char *address, *spec;
        } applied[] = {
                { "Stack/fuzz", "{\"provider\": \"local\"}" },
                { "Environment/python",
                  "{\"image\": {\"digest\": \"sha256:abc\"}, \"memoryMB\": 256, \"workspaceStorageMB\": 1, \"timeoutSeconds\": 60}" },
                { "Environment/other",
                  "{\"image\": {\"digest\": \"sha256:def\"}, \"workspaceStorageMB\": 1}" },
                { "Agent/analyst",
                  "{\"environment\": \"python\", \"limits\": {\"containers\": 2, \"onLimit\": \"reject\"}, \"labels\": {\"team\": \"blue\"}}" },
                { "WorkspacePolicy/small", "{\"selector\": {\"all\": true}, \"maxDownloadFileMB\": 1}" },
        };
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct binding binding = { .environment = "python",
                                         .dependent = "Agent/analyst",
                                         .active = true };
        struct state_op ops[sizeof(applied) / sizeof(applied[0]) + 1];
        size_t count = 0;
        struct state *state;
        struct error err;

        for (; count < sizeof(applied) / sizeof(applied[0]); count++) {
                struct record *record = arena_alloc(arena, sizeof(*record));

                *record = (struct record){ .address = applied[count].address,
                                           .provider = "local",
                                           .spec = spec_of(arena, applied[count].spec),
                                           .applied_ms = 1700000000000 };
                ops[count] = (struct state_op){ .type = STATE_PUT_RECORD, .record = record };
        }
        ops[count++] = (struct state_op){ .type = STATE_PUT_BINDING, .binding = &binding };
        if (state_open(folder, STATE_CREATE, &state, &err) < 0 || state_commit(state, ops, count, &err) < 0)
                fail("the state", &err);
        state_close(state);
}

/* --- its life --- */

static struct arena *config_arena;
static struct broker_config config;

static void load_config(void) {
        struct diagnostics diagnostics;
        char hashes[SERVED_WHO_COUNT][2 * SHA256_SIZE + 1];
        char *path TEXT_CLEANUP = path_join(scratch_folder(), "server.yaml");
        const char *text;
        struct error err;

        diagnostics_init(&diagnostics, config_arena);
        for (size_t who = SERVED_DESK; who <= SERVED_ADMIN; who++) {
                uint8_t hash[SHA256_SIZE];

                token_hash(tokens[who], hash);
                digest_hex(hash, SHA256_SIZE, hashes[who]);
        }
        text = arena_printf(config_arena, manifest, hashes[SERVED_DESK], hashes[SERVED_CRON],
                            hashes[SERVED_ADMIN]);
        if (file_write_atomic(path, text, strlen(text), 0600, &err) < 0 ||
            broker_config_load(path, false, config_arena, &config, &diagnostics, &err) < 0) {
                diagnostics_print(&diagnostics, stderr);
                fail("the configuration", &err);
        }
        config.listen = "127.0.0.1:0";
}

static void *serve(void *context) {
        static const struct broker_places places = { .open = open_place, .keep_apart = true };
        struct error err;

        if (serve_run(&config, folder, &places, &err) < 0)
                fail("serve", &err);
        return context;
}

/* The wish to stop is the process's, and is taken back: there is another life. */
static void stop(void) {
        struct interrupt *interrupt = interrupt_of_user();
        uint64_t ignored;

        if (!runs)
                return;
        runs = false;
        interrupt_raise_to(interrupt, INTERRUPT_FINISH);
        pthread_join(thread, NULL);
        atomic_store(&interrupt->level, INTERRUPT_NONE);
        atomic_store(&port, 0);
        if (read(interrupt_descriptor(interrupt, INTERRUPT_FINISH), &ignored, sizeof(ignored)) < 0)
                abort();
        served_settle();
        arena_free(config_arena);
        scratch_remove(folder);
}

static int try_connecting(enum served_who who) {
        struct sockaddr_un path = { .sun_family = AF_UNIX };
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)atomic_load(&port)),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const struct linger at_once = { .l_onoff = 1 };
        int descriptor = socket(who == SERVED_SOCKET ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int result;

        if (descriptor < 0)
                abort();
        if (who == SERVED_SOCKET) {
                snprintf(path.sun_path, sizeof(path.sun_path), "%.90s/serve.sock", folder);
                result = connect(descriptor, (const struct sockaddr *)&path, sizeof(path));
        } else {
                /* Thousands a second would use up the ports by connections that have ended. */
                setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
                result = connect(descriptor, (const struct sockaddr *)&address, sizeof(address));
        }
        if (result < 0)
                close_descriptor(&descriptor);
        return descriptor;
}

int served_connect(enum served_who who) {
        int descriptor = try_connecting(who);

        if (descriptor < 0)
                abort();
        return descriptor;
}

/* The two sockets do not listen at the same moment. */
static void await(enum served_who who) {
        int descriptor;

        while ((descriptor = try_connecting(who)) < 0)
                usleep(1000);
        close(descriptor);
}

void served_begin(void) {
        static bool at_exit;

        if (inputs++ % INPUTS_PER_LIFE == 0)
                stop();
        if (runs)
                return;
        log_set_level(LOG_LEVEL_ERROR);
        (void)interrupt_of_user();
        snprintf(folder, sizeof(folder), "%s/state", scratch_folder());
        config_arena = arena_new();
        load_config();
        /* Registered behind what removes the scratch folder and what ends libcrypto, it runs before them. */
        if (!at_exit && atexit(stop) != 0)
                abort();
        at_exit = true;
        apply();
        if (pthread_create(&thread, NULL, serve, NULL) != 0)
                abort();
        runs = true;
        await(SERVED_SOCKET);
        await(SERVED_NOBODY);
}
