/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Started in this order: the lock, which keeps a second server out of the folder; the token, where there must be one; the sockets;
 * HTTP. The main thread waits for signals, feeds systemd's watchdog, and looks each second whether the state still is where it was
 * and can be read: probes only look at what it found, so that asking for them costs nothing.
 */
#include "broker/serve.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "broker/answers.h"
#include "broker/api_sessions.h"
#include "broker/api_workspaces.h"
#include "broker/broker.h"
#include "broker/first_token.h"
#include "broker/unbuilt.h"
#include "server/listen.h"
#include "server/systemd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MS 1000
#define WORKING 384 /* requests at a time: of one address half of them, of one owner LOAD_PER_OWNER */

struct serving {
        struct broker broker;
        struct broker_client *clients;
        struct server *server;
        unsigned port;
        char told[sizeof(((struct error *)NULL)->message)]; /* why there are no sessions */
};

/* Whoever may write to the folder could put another socket, token or state there. */
static void mention_open_folder(const struct serving *serving, const char *folder) {
        struct stat status;

        if (fstat(serving->broker.instance.folder, &status) == 0 && status.st_mode & (S_IWGRP | S_IWOTH))
                log_warning(
                        "%s can be written by other users, who could put a state of their own there: chmod go-w",
                        folder);
}

/*
 * Clients call it by the name or address that it listens at, beside those that are configured: an address is nobody's to resolve
 * elsewhere.
 */
static int start_http(struct serving *serving, const struct broker_config *config, struct arena *arena,
                      struct error *err) {
        const char **hosts = arena_array(arena, config->host_count + 1, sizeof(*hosts));
        const char *colon = strrchr(config->listen, ':');
        struct server_route *routes =
                arena_array(arena, broker_route_count + api_sessions_route_count + api_workspaces_route_count,
                            sizeof(*routes));
        struct server_config http = {
                .sockets = { -1, -1 },
                .routes = routes,
                .route_count = broker_route_count,
                .context = &serving->broker,
                .hosts = hosts,
                .host_count = config->host_count,
                .behind_proxy = value_get_boolean(config->spec, "behindProxy", false),
                .working = WORKING,
                .say = answers_unrouted,
        };

        memcpy(routes, broker_routes, broker_route_count * sizeof(*routes));
        if (serving->broker.sessions) {
                memcpy(routes + broker_route_count, api_sessions_routes,
                       api_sessions_route_count * sizeof(*routes));
                http.route_count += api_sessions_route_count;
                memcpy(routes + http.route_count, api_workspaces_routes,
                       api_workspaces_route_count * sizeof(*routes));
                http.route_count += api_workspaces_route_count;
        }
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
        return server_start(&http, &serving->server, err);
}

/*
 * Root, or a launcher, gives each session a user of the host. Without one, code of one owner could reach another's, which is
 * fine only where there is one owner, whose machine this is, or where all trust each other.
 */
static bool owners_are_apart(const struct broker_config *config, const struct broker_places *places) {
        return places->keep_apart || config->own_token ||
               value_get_boolean(value_get(config->spec, "sessions"), "sharedUser", false);
}

/* What stands in the way is told once, until it is another thing. */
static void open_sessions(struct serving *serving) {
        struct error why;

        if (!serving->broker.sessions || broker_sessions_try(serving->broker.sessions, &why) == 0 ||
            strcmp(serving->told, why.message) == 0)
                return;
        snprintf(serving->told, sizeof(serving->told), "%s", why.message);
        log_info("no sessions yet: %s", why.message);
}

static int start(struct serving *serving, const struct broker_config *config, const char *folder,
                 const struct broker_places *places, struct arena *arena, struct error *err) {
        if (unbuilt_check(config, err) < 0 || folder_make(folder, err) < 0 ||
            instance_open(folder, "serve", &serving->broker.instance, err) < 0)
                return -1;
        mention_open_folder(serving, folder);
        for (size_t i = 0; i < config->client_count; i++)
                serving->clients[i] = config->clients[i];
        if (config->own_token && first_token(folder, serving->clients[0].token_hash, err) < 0)
                return -1;
        serving->broker.metrics = answers_metrics_new();
        serving->broker.applied = applied_new(folder);
        serving->broker.door = door_new(serving->clients, config->client_count);
        serving->broker.load = load_new();
        if (owners_are_apart(config, places))
                serving->broker.sessions =
                        broker_sessions_new(config, folder, serving->broker.applied, places);
        open_sessions(serving);
        return start_http(serving, config, arena, err);
}

static void tell_what_is_served(const struct serving *serving, const struct broker_config *config,
                                const char *folder) {
        if (serving->port)
                log_info("listening on port %u (%s) and on %s/serve.sock", serving->port, config->listen,
                         folder);
        else
                log_info("listening on %s/serve.sock", folder);
        if (config->own_token && serving->port)
                log_info("the token of client %s is in %s/serve.token", config->clients[0].name, folder);
        if (!serving->broker.sessions)
                log_warning(
                        "no sessions are served: this user cannot keep owners apart. Give it a berth launcher (--launcher SOCKET, see "
                        "docs/launcher.md), run it as root, or set sessions.sharedUser: true where all owners trust each other");
        unbuilt_tell(config);
}

/* -1 where the folder is not there any more: a second server could be started in another of that name. */
static int wait_for_end(struct serving *serving, const char *folder, struct error *err) {
        const struct interrupt *interrupt = interrupt_of_user();
        struct pollfd polled = { .fd = interrupt_descriptor(interrupt, INTERRUPT_FINISH), .events = POLLIN };
        int64_t watchdog_ms = systemd_watchdog_ms();
        int pause_ms = watchdog_ms > 0 && watchdog_ms < LOOK_MS ? (int)watchdog_ms : LOOK_MS;
        struct error why;

        while (interrupt_level(interrupt) == INTERRUPT_NONE) {
                bool readable = applied_check(serving->broker.applied, &why) == 0;

                if (!readable && atomic_load(&serving->broker.ready))
                        log_error("%s", why.message);
                atomic_store(&serving->broker.ready, readable);
                open_sessions(serving);
                if (!instance_is_in_place(&serving->broker.instance))
                        return error_set(err, "the folder %s was removed or replaced: start the server again",
                                         folder);
                if (watchdog_ms > 0)
                        systemd_tell("WATCHDOG=1");
                poll(&polled, 1, pause_ms);
        }
        return 0;
}

static void end(struct serving *serving) {
        server_stop(serving->server);
        broker_sessions_free(serving->broker.sessions);
        door_free(serving->broker.door);
        load_free(serving->broker.load);
        applied_free(serving->broker.applied);
        metrics_free(serving->broker.metrics);
        instance_close(&serving->broker.instance);
}

int serve_run(const struct broker_config *config, const char *folder, const struct broker_places *places,
              struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct serving serving = { .broker = { .instance = INSTANCE_NONE },
                                   .clients = arena_array(arena, config->client_count + 1,
                                                          sizeof(*serving.clients)) };
        int result;

        atomic_init(&serving.broker.ready, true);
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
