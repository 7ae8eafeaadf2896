/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-runtime: the program inside a sandbox that runs the code of a session. Its caller is on standard input and output, or Lambda's Runtime
 * API; standard error is for what goes wrong with the runtime itself.
 */
#include "base/files.h"
#include "runtime/lambda/lambda.h"
#include "runtime/protocol/report.h"
#include "runtime/serve/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int print_usage(void) {
        (void)fputs("usage: berth-runtime serve [--memory BYTES]\n"
                    "       berth-runtime lambda\n"
                    "       berth-runtime version\n",
                    stderr);
        return 2;
}

static int read_bytes(const char *text, size_t *ret) {
        char *end;
        unsigned long long number;

        errno = 0;
        number = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || *end || errno != 0 || number > SIZE_MAX)
                return -1;
        *ret = (size_t)number;
        return 0;
}

/* The caller moves out of the way of what children have as 0 and 1. */
static int take_caller(struct runtime_options *options) {
        int null DESCRIPTOR_CLEANUP = open("/dev/null", O_RDWR | O_CLOEXEC);

        options->input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 16);
        options->output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 16);
        return null < 0 || options->input < 0 || options->output < 0 || dup2(null, STDIN_FILENO) < 0 ||
                               dup2(null, STDOUT_FILENO) < 0
                       ? -1
                       : 0;
}

int main(int argc, char **argv) {
        struct runtime_options options = { .input = -1, .output = -1 };
        struct error err;

        if (argc == 2 && strcmp(argv[1], "version") == 0) {
                printf("berth-runtime %s, protocol %d\n", BERTH_VERSION, REPORT_PROTOCOL);
                return 0;
        }
        if (argc == 2 && strcmp(argv[1], "lambda") == 0) {
                if (lambda_serve(&err) < 0)
                        (void)fprintf(stderr, "berth-runtime: %s\n", err.message);
                return 1;
        }
        if (argc < 2 || strcmp(argv[1], "serve") != 0)
                return print_usage();
        if (argc == 4 && (strcmp(argv[2], "--memory") != 0 || read_bytes(argv[3], &options.memory_max) < 0))
                return print_usage();
        if (argc != 2 && argc != 4)
                return print_usage();
        if (take_caller(&options) < 0 || runtime_serve(&options, &err) < 0) {
                (void)fprintf(stderr, "berth-runtime: %s\n",
                              options.output < 0 ? "standard input and output are not open" : err.message);
                return 1;
        }
        return 0;
}
