/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Started in this order: the lock, which keeps a second server out of the folder; the token, where there must be one; the sockets;
 * HTTP. The main thread waits for signals, feeds systemd's watchdog, and looks each second whether the state still is where it was
 * and can be read. Whether all else works it looks once a probe asks.
 */
#include "broker/serve.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/libc.h"
#include "base/log.h"
#include "broker/api/api.h"
#include "broker/auth/first_token.h"
#include "broker/auth/issuers.h"
#include "broker/e2b/e2b.h"
#include "broker/mcp/mcp.h"
#include "broker/panel.h"
#include "broker/request/answers.h"
#include "broker/service/broker.h"
#include "broker/service/measures.h"
#include "broker/unbuilt.h"
#include "broker/work/approvals.h"
#include "server/listen.h"
#include "server/systemd.h"
#include "server/tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Clients of these read their own form of errors. */
static const struct answers_form *const forms[] = { &e2b_form, &mcp_form, NULL };

#define LOOK_MS 1000
#define WORKING 384 /* requests at a time: of one address half of them */

struct serving {
        struct broker broker;
        struct broker_client *clients;
        struct server *server;
        struct issuers *issuers;
        unsigned port;
        char told[sizeof(((struct error *)NULL)->message)]; /* why there are no sessions */
};

/* A user who may write to the folder could put another socket, token or state there. */
static void mention_open_folder(const struct serving *serving, const char *folder) {
        struct stat status;

        if (fstat(serving->broker.instance.folder, &status) == 0 && status.st_mode & (S_IWGRP | S_IWOTH))
                log_warning(
                        "%s can be written by other users, who could put a state of their own there: chmod go-w",
                        folder);
}

/* The operations, and what is no part of that API: the page, MCP, E2B's. */
static void gather_routes(struct broker *broker, struct arena *arena) {
        bool with_sessions = broker->sessions != NULL;
        const struct operation *operation;
        struct server_route *routes;
        size_t count = 0;

        for (size_t at = 0; api_next(&at, with_sessions);)
                count++;
        routes = arena_array(arena, count + panel_route_count + mcp_route_count + e2b_route_count,
                             sizeof(*routes));
        for (size_t at = 0; (operation = api_next(&at, with_sessions));) {
                routes[at - 1] = operation->route;
                routes[at - 1].about = operation;
        }
        memcpy(routes + count, panel_routes, panel_route_count * sizeof(*routes));
        count += panel_route_count;
        if (with_sessions) {
                memcpy(routes + count, mcp_routes, mcp_route_count * sizeof(*routes));
                count += mcp_route_count;
        }
        if (with_sessions && broker->e2b) {
                memcpy(routes + count, e2b_routes, e2b_route_count * sizeof(*routes));
                count += e2b_route_count;
        }
        broker->routes = routes;
        broker->route_count = count;
}

/*
 * Clients call it by the name or address that it listens at, beside the configured ones: no other
 * party can resolve an address elsewhere.
 */
static int start_http(struct serving *serving, const struct broker_config *config, struct arena *arena,
                      struct error *err) {
        const char **hosts = arena_array(arena, config->host_count + 1, sizeof(*hosts));
        const char *colon = strrchr(config->listen, ':');
        struct server_config http = {
                .sockets = { -1, -1 },
                .context = &serving->broker,
                .hosts = hosts,
                .host_count = config->host_count,
                .behind_proxy = value_get_boolean(config->spec, "behindProxy", false),
                .tls = serving->broker.tls,
                .working = WORKING,
                .say = answers_unrouted,
                .answered = measures_answered,
                .shook_hands = measures_shook_hands,
        };

        gather_routes(&serving->broker, arena);
        http.routes = serving->broker.routes;
        http.route_count = serving->broker.route_count;
        for (size_t i = 0; i < config->host_count; i++)
                hosts[i] = config->hosts[i];
        if (colon && colon > config->listen)
                hosts[http.host_count++] =
                        arena_strndup(arena, config->listen, (size_t)(colon - config->listen));
        if (instance_listen(&serving->broker.instance, &http.sockets[0], err) < 0)
                return -1;
        http.socket_count = 1;
        if (*config->listen && listen_open(config->listen, &http.sockets[1], &serving->port, err) < 0) {
                close_descriptor(&http.sockets[0]);
                return -1;
        }
        http.socket_count += *config->listen != '\0';
        if (server_start(&http, &serving->server, err) < 0)
                return -1;
        atomic_store(&serving->broker.server, serving->server);
        return 0;
}

/*
 * Root, or a launcher, gives each session a user of the host. Without one, code of one owner could reach another's, which is
 * fine only where there is one owner, whose machine this is, or where all trust each other.
 */
static bool owners_are_apart(const struct broker_config *config, const struct broker_places *places) {
        return places->keep_apart || config->own_token ||
               value_get_boolean(value_get(config->spec, "sessions"), "sharedUser", false);
}

/* Code that runs elsewhere has no user of this host. Of a stack that is not applied yet that is not known. */
static bool runs_elsewhere(struct applied *applied) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct applied_stack stack;
        struct error ignored;

        /* A state that machines share is of no sandboxes on one of them: also where it cannot be read yet. */
        return applied_is_shared(applied) ||
               (applied_stack(applied, arena, &stack, &ignored) == 0 && strcmp(stack.provider, "local") != 0);
}

/* An obstacle is logged once, until it changes. */
static bool open_sessions(struct serving *serving, struct error *ret_why) {
        if (!serving->broker.sessions || broker_sessions_try(serving->broker.sessions, ret_why) == 0)
                return true;
        if (strcmp(serving->told, ret_why->message) != 0) {
                snprintf(serving->told, sizeof(serving->told), "%s", ret_why->message);
                log_info("no sessions yet: %s", ret_why->message);
        }
        return false;
}

static int start(struct serving *serving, const struct broker_config *config, const char *folder,
                 const struct broker_places *places, struct arena *arena, struct error *err) {
        struct error why;

        if (folder_make(folder, err) < 0 ||
            instance_open(folder, "serve", &serving->broker.instance, err) < 0)
                return -1;
        mention_open_folder(serving, folder);
        if (ready_open(&serving->broker.ready, err) < 0)
                return -1;
        for (size_t i = 0; i < config->client_count; i++)
                serving->clients[i] = config->clients[i];
        if (config->own_token &&
            first_token(folder, FIRST_TOKEN_FILE, serving->clients[0].token_hash, err) < 0)
                return -1;
        if (config->certificate_file &&
            tls_open(config->certificate_file, config->key_file, &serving->broker.tls, err) < 0)
                return -1;
        serving->broker.metrics = measures_new();
        serving->broker.applied = places->open_state ? applied_new_shared(places->open_state, places->context)
                                                     : applied_new(folder);
        if (e2b_new(config, folder, &serving->broker.e2b, err) < 0)
                return -1;
        if (issuers_new(serving->clients, config->client_count, serving->broker.metrics, MEASURE_KEY_FETCHES,
                        &serving->issuers, err) < 0)
                return -1;
        serving->broker.door = door_new(serving->clients, config->client_count, serving->issuers);
        serving->broker.load = load_new();
        serving->broker.tickets = tickets_new();
        if (owners_are_apart(config, places) || runs_elsewhere(serving->broker.applied))
                serving->broker.sessions = broker_sessions_new(config, folder, serving->broker.applied,
                                                               places, serving->broker.metrics);
        /* Their routes are among those of sessions. */
        if (serving->broker.sessions && broker_approvals_open(config, folder, serving->broker.sessions,
                                                              &serving->broker.approvals, err) < 0)
                return -1;
        if (serving->broker.approvals)
                door_serve_shell(serving->broker.door);
        (void)open_sessions(serving, &why);
        return start_http(serving, config, arena, err);
}

/* The server does not refuse an expired certificate: clients notice, and the log says it. */
static void tell_certificate(const struct serving *serving) {
        int64_t expires_ms = tls_expires_s(serving->broker.tls) * 1000;
        char until[32];

        clock_format(expires_ms, until, sizeof(until));
        if (expires_ms <= clock_wall_ms())
                log_warning("the TLS certificate expired on %s", until);
        else
                log_info("the certificate that is served is valid until %s", until);
}

static void tell_what_is_served(const struct serving *serving, const struct broker_config *config,
                                const char *folder) {
        if (serving->port)
                log_info("listening on port %u (%s%s) and on %s/serve.sock", serving->port, config->listen,
                         serving->broker.tls ? ", by TLS" : "", folder);
        else
                log_info("listening on %s/serve.sock", folder);
        if (config->own_token && serving->port)
                log_info("the token of client %s is in %s/serve.token", config->clients[0].name, folder);
        if (!serving->broker.sessions)
                log_warning(
                        "no sessions are served, nor containers and commands on the host: this user cannot keep owners apart. Give it a berth launcher (--launcher SOCKET, see "
                        "docs/launcher.md), run it as root, or set sessions.sharedUser: true where all owners trust each other");
        if (serving->broker.tls)
                tell_certificate(serving);
        unbuilt_tell(config);
        log_info("it serves what was applied%s, by HTTP and MCP",
                 serving->broker.sessions ? ", sessions, containers and workspaces" : "");
}

static void look_at_certificate(const struct serving *serving) {
        struct error why;

        switch (serving->broker.tls ? tls_look(serving->broker.tls, &why) : 0) {
        case 0:
                break;
        case 1:
                log_info("the certificate was replaced: new connections get the one that lies there now");
                tell_certificate(serving);
                break;
        default:
                log_error("the certificate was not replaced, and the one from before is served on: %s",
                          why.message);
        }
}

/* -1 where the folder is not there any more: a second server could be started in another of that name. */
static int wait_for_end(struct serving *serving, const char *folder, struct error *err) {
        const struct interrupt *interrupt = interrupt_of_user();
        struct pollfd polled[] = {
                { .fd = interrupt_descriptor(interrupt, INTERRUPT_FINISH), .events = POLLIN },
                { .fd = ready_descriptor(&serving->broker.ready), .events = POLLIN },
        };
        int64_t watchdog_ms = systemd_watchdog_ms();
        int pause_ms = watchdog_ms > 0 && watchdog_ms < LOOK_MS ? (int)watchdog_ms : LOOK_MS;
        struct error why;

        while (interrupt_level(interrupt) == INTERRUPT_NONE) {
                ready_look(&serving->broker.ready, &serving->broker,
                           open_sessions(serving, &why) ? NULL : &why);
                look_at_certificate(serving);
                issuers_look(serving->issuers);
                if (serving->broker.approvals)
                        approvals_look(serving->broker.approvals);
                if (!instance_is_in_place(&serving->broker.instance))
                        return error_set(err, "the folder %s was removed or replaced: start the server again",
                                         folder);
                if (watchdog_ms > 0)
                        systemd_tell("WATCHDOG=1");
                poll(polled, 2, pause_ms);
        }
        return 0;
}

static void end(struct serving *serving) {
        issuers_stop(serving->issuers);
        ready_end(&serving->broker.ready);
        server_stop(serving->server);
        tls_close(serving->broker.tls);
        /* It tells the followers of sessions how its commands ended. */
        approvals_close(serving->broker.approvals);
        broker_sessions_free(serving->broker.sessions);
        door_free(serving->broker.door);
        issuers_free(serving->issuers);
        load_free(serving->broker.load);
        tickets_free(serving->broker.tickets);
        e2b_free(serving->broker.e2b);
        applied_free(serving->broker.applied);
        metrics_free(serving->broker.metrics);
        ready_close(&serving->broker.ready);
        instance_close(&serving->broker.instance);
}

int serve_run(const struct broker_config *config, const char *folder, const struct broker_places *places,
              struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct serving serving = {
                .broker = { .instance = INSTANCE_NONE, .ready = { .wakes = -1 }, .forms = forms },
                .clients = arena_array(arena, config->client_count + 1, sizeof(*serving.clients))
        };
        int result;

        /*
         * A list of a thousand sessions takes megabytes for a moment, and each arena of the C library would keep as much as ever was
         * used in it: it may keep 128 KiB, also where something larger was freed before.
         */
        heap_keep_little(4);
        atomic_init(&serving.broker.server, NULL);
        result = start(&serving, config, folder, places, arena, err);
        if (result == 0) {
                tell_what_is_served(&serving, config, folder);
                systemd_tell("READY=1");
                result = wait_for_end(&serving, folder, err);
                systemd_tell("STOPPING=1");
        }
        end(&serving);
        return result;
}
