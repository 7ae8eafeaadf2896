/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `berth launcher` has options of its own and none of the verbs': it runs as root for others, has no manifests, and reads
 * nothing but its command line. That is why it is no row of the verbs' table.
 */
#include "cli/launcher.h"

#include "base/interrupt.h"
#include "base/log.h"
#include "process/relay.h"
#include "providers/local/launcher.h"
#include "providers/local/sandbox/sandbox_keeper.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT_MAX 100000
#define USAGE                                                                                                                                            \
        "berth launcher --socket PATH --for USER [--group GROUP] [--images FOLDER] [--workers FOLDER] [--disk FOLDER] [--users FIRST+COUNT] [--runs N] " \
        "[--runs-each N] [--kept-each N] [--patience SECONDS] [--accept-degraded]"

static const char help[] =
        "usage: " USAGE "\n\n"
        "Starts sandboxes for a server that has no rights of its own: docs/launcher.md.\n\n"
        "  --socket PATH        where it listens; not needed where systemd passes the socket\n"
        "  --for USER           users that may use it: a name or a number; repeats\n"
        "  --group GROUP        may open the socket as well (with more than one USER)\n"
        "  --images FOLDER      the image store; requests name its images by digest\n"
        "  --workers FOLDER     for the sockets of sandboxes that outlive their client\n"
        "  --disk FOLDER        the disk for large workspaces of those sandboxes\n"
        "  --users FIRST+COUNT  host users that runs are given (1900000000+65536)\n"
        "  --runs N             runs at once, at most (256)\n"
        "  --runs-each N        runs at once of each USER, at most (an even share)\n"
        "  --kept-each N        workspaces of each USER that containers share, at most\n"
        "                       (as many as its runs)\n"
        "  --patience SECONDS   the time a USER has to send the program (60)\n"
        "  --accept-degraded    run even if this machine cannot enforce every limit\n";

static int parse_number(const char *text, unsigned long most, unsigned *ret) {
        char *end;
        unsigned long number;

        errno = 0;
        number = strtoul(text, &end, 10);
        if (errno != 0 || end == text || *end || number > most || *text == '-')
                return -1;
        *ret = (unsigned)number;
        return 0;
}

static int parse_user(const char *text, uid_t *ret) {
        const struct passwd *entry = getpwnam(text);
        unsigned number;

        if (!entry && parse_number(text, UINT_MAX - 1, &number) < 0)
                return -1;
        *ret = entry ? entry->pw_uid : number;
        return 0;
}

static int parse_group(const char *text, gid_t *ret) {
        const struct group *entry = getgrnam(text);
        unsigned number;

        if (!entry && parse_number(text, UINT_MAX - 1, &number) < 0)
                return -1;
        *ret = entry ? entry->gr_gid : number;
        return 0;
}

/* "1900000000+65536" */
static int parse_range(const char *text, struct sandbox_users *ret) {
        const char *plus = strchr(text, '+');
        char first[16];

        if (!plus || (size_t)(plus - text) >= sizeof(first))
                return -1;
        snprintf(first, sizeof(first), "%.*s", (int)(plus - text), text);
        if (parse_number(first, UINT_MAX - 1, &ret->first) < 0 ||
            parse_number(plus + 1, 1U << 24, &ret->count) < 0 || ret->first < 1000 || ret->count == 0 ||
            ret->first > UINT_MAX - 1 - ret->count)
                return -1;
        return 0;
}

static int parse_arguments(int argc, char **argv, struct launcher_config *ret) {
        static const struct option options[] = {
                { "socket", required_argument, NULL, 's' },
                { "for", required_argument, NULL, 'f' },
                { "group", required_argument, NULL, 'g' },
                { "images", required_argument, NULL, 'i' },
                { "workers", required_argument, NULL, 'w' },
                { "disk", required_argument, NULL, 'k' },
                { "users", required_argument, NULL, 'u' },
                { "runs", required_argument, NULL, 'r' },
                { "runs-each", required_argument, NULL, 'e' },
                { "kept-each", required_argument, NULL, 'n' },
                { "patience", required_argument, NULL, 'p' },
                { "accept-degraded", no_argument, NULL, 'd' },
                { NULL, 0, NULL, 0 },
        };
        unsigned seconds;
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (option) {
                case 's':
                        ret->socket = optarg;
                        break;
                case 'f':
                        if (ret->client_count == LAUNCHER_CLIENTS_MAX ||
                            parse_user(optarg, &ret->clients[ret->client_count++]) < 0)
                                return -1;
                        break;
                case 'g':
                        if (parse_group(optarg, &ret->group) < 0)
                                return -1;
                        break;
                case 'i':
                        ret->images = optarg;
                        break;
                case 'w':
                        ret->workers = optarg;
                        break;
                case 'k':
                        ret->disk = optarg;
                        break;
                case 'u':
                        if (parse_range(optarg, &ret->users) < 0)
                                return -1;
                        break;
                case 'r':
                        if (parse_number(optarg, LAUNCHER_RUNS_MAX, &ret->runs_max) < 0)
                                return -1;
                        break;
                case 'e':
                        if (parse_number(optarg, LAUNCHER_RUNS_MAX, &ret->runs_each) < 0)
                                return -1;
                        break;
                case 'n':
                        if (parse_number(optarg, KEPT_MAX, &ret->kept_each) < 0 || ret->kept_each == 0)
                                return -1;
                        break;
                case 'p':
                        if (parse_number(optarg, 86400, &seconds) < 0 || seconds == 0)
                                return -1;
                        ret->patience_ms = (int64_t)seconds * 1000;
                        break;
                case 'd':
                        ret->accept_degraded = true;
                        break;
                default:
                        return -1;
                }
        }
        if (ret->client_count == 0 || optind != argc || (!ret->socket && !getenv("LISTEN_FDS")))
                return -1;
        if (ret->runs_each == 0)
                ret->runs_each =
                        (ret->runs_max + (unsigned)ret->client_count - 1) / (unsigned)ret->client_count;
        if (ret->kept_each == 0)
                ret->kept_each = ret->runs_each;
        return 0;
}

int launcher_main(int argc, char **argv) {
        struct launcher_config config = {
                .group = (gid_t)-1,
                .users = SANDBOX_USERS_DEFAULT,
                .most = launcher_limits_default(),
                .runs_max = 256,
                .patience_ms = 60000,
        };
        struct relay relay = RELAY_NONE;
        struct error err;
        int result;

        if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                fputs(help, stdout);
                return EXIT_SUCCESS;
        }
        if (parse_arguments(argc, argv, &config) < 0) {
                log_error("usage: %s", USAGE);
                return EXIT_FAILURE;
        }
        if (config.client_count > 1 && config.socket && config.group == (gid_t)-1) {
                log_error("more than one --for needs --group GROUP: a socket is one user's and one group's");
                return EXIT_FAILURE;
        }
        if (geteuid() != 0 && (config.client_count > 1 || config.clients[0] != geteuid())) {
                log_error("berth launcher starts sandboxes for another user as root only");
                return EXIT_FAILURE;
        }
        interrupt_install();
        result = relay_start(&relay, &err);
        if (result == 0) {
                sandbox_keeper_errors_to(relay.output); /* sandboxes outlive us */
                result = launcher_run(&config, interrupt_of_user(), &err);
        }
        relay_end(&relay);
        if (result < 0)
                log_error("%s", err.message);
        return result < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const char *launcher_usual(void) {
        static const char path[] = "/run/berth-launcher/socket";

        return geteuid() != 0 && access(path, W_OK) == 0 ? path : NULL;
}
