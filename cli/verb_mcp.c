/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp: MCP on standard input and output, for programs that start their servers. It joins the
 * stack's server where one runs. Where none does it starts one, a process of its own that listens
 * on the Unix socket alone and ends with us, however we end: its input is a pipe whose other end
 * only we have. Another client of that server then starts a new one; sessions outlive them all.
 */
#include "base/files.h"
#include "base/interrupt.h"
#include "cli/sessions.h"
#include "cli/verbs.h"
#include "client/bridge.h"
#include "process/process.h"
#include "process/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 50
#define START_MS 60000
#define END_MS 1500

struct own {
        struct sessions *sessions;
        struct process process;
        int lifeline;       /* the end of its input that we hold */
        struct relay relay; /* its standard error: it may take longer to end than we wait */
};

static int start_server(struct own *own, struct error *err) {
        const struct options *options = own->sessions->options;
        const char *arguments[12] = { "/proc/self/exe", "serve", "--attached", "-f", options->path };
        size_t count = 5;
        struct process_args args = { .arguments = arguments,
                                     .environment = (const char *const *)environ,
                                     .group = PROCESS_OWN_SESSION };
        int ends[2], result;

        if (options->state) {
                arguments[count++] = "--state";
                arguments[count++] = options->state;
        }
        if (options->launcher) {
                arguments[count++] = "--launcher";
                arguments[count++] = options->launcher;
        }
        if (options->accept_degraded)
                arguments[count++] = "--accept-degraded";
        close_descriptor(&own->lifeline);
        process_end(&own->process);
        if (own->relay.output < 0 && relay_start(&own->relay, err) < 0)
                return -1;
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_set(err, "cannot make a pipe: %s", strerror(errno));
        args.descriptors[args.descriptor_count++] = (struct process_descriptor){ ends[0], STDIN_FILENO };
        args.descriptors[args.descriptor_count++] =
                (struct process_descriptor){ own->relay.output, STDERR_FILENO };
        result = process_start(&args, &own->process, err);
        close_descriptor(&ends[0]);
        own->lifeline = ends[1];
        return result;
}

/* 0 if a server answers there. ERROR_NOT_FOUND if none listens. */
static int find_server(struct sessions *sessions, struct error *err) {
        const struct client_call call = { .method = "GET", .path = "/v1/environments?limit=1" };

        return sessions_connect(sessions, err) < 0 ? -1 : client_ask(sessions->client, &call, NULL, err);
}

static bool has_exited(const struct own *own, int wait_ms) {
        struct pollfd polled = { .fd = own->process.pidfd, .events = POLLIN };

        return poll(&polled, 1, wait_ms) > 0;
}

/*
 * Until the server that was started answers, or another that was quicker. A server that has ended
 * said why on standard error, unless another one serves the state: that one may still be starting.
 */
static int await_server(struct own *own, struct error *err) {
        for (int waited = 0; waited < START_MS; waited += LOOK_MS) {
                if (find_server(own->sessions, err) == 0)
                        return 0;
                if (err->kind != ERROR_NOT_FOUND && err->kind != ERROR_UNREACHABLE)
                        return -1;
                if (own->process.pid == 0)
                        poll(NULL, 0, LOOK_MS);
                else if (has_exited(own, LOOK_MS)) {
                        struct process_status status = process_reap(&own->process);

                        if (status.signalled || status.code != EXIT_LOCKED)
                                return error_set(err, "the server of the stack could not be started");
                }
        }
        return error_set(err, "the server of the stack does not answer");
}

static int ensure_server(void *context, struct error *err) {
        struct own *own = context;

        if (find_server(own->sessions, err) == 0)
                return 0;
        if (err->kind != ERROR_NOT_FOUND)
                return -1;
        return start_server(own, err) < 0 ? -1 : await_server(own, err);
}

/* It ends as its input does, and takes two seconds at most for what is on its way: it is not waited for longer than clients wait for us. */
static void leave_server(struct own *own) {
        close_descriptor(&own->lifeline);
        if (own->process.pid && has_exited(own, END_MS))
                (void)process_reap(&own->process);
        own->process = (struct process)PROCESS_NONE;
        relay_end(&own->relay);
}

int verb_mcp(const struct options *options, struct error *err) {
        struct sessions sessions SESSIONS_CLEANUP;
        struct own own = {
                .sessions = &sessions, .process = PROCESS_NONE, .lifeline = -1, .relay = RELAY_NONE
        };
        int result = sessions_open(&sessions, options, err);

        interrupt_install();
        interrupt_on_hangup();
        if (result < 0 && err->kind == ERROR_NOT_FOUND)
                result = ensure_server(&own, err);
        if (result == 0)
                bridge_run(&(const struct bridge_config){ .client = sessions.client,
                                                          .input = STDIN_FILENO,
                                                          .output = STDOUT_FILENO,
                                                          .interrupt = interrupt_of_user(),
                                                          .revive = ensure_server,
                                                          .context = &own });
        leave_server(&own);
        return result < 0 ? -1 : EXIT_DONE;
}
