/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words as Python's shlex takes them apart, since that is what botocore does with credential_process: quotes,
 * backslashes, no variables, no patterns. What differs between the two would run another program than the AWS CLI
 * runs.
 */
#include "providers/aws/client/command.h"

#include "base/clock.h"
#include "process/run.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

int command_split(const char *line, struct arena *arena, char ***ret, struct error *err) {
        size_t length = strlen(line), count = 0, used = 0;
        char **words = arena_array(arena, length + 2, sizeof(*words));
        char *word = arena_alloc(arena, length + 1);
        bool in_word = false;
        char quote = '\0';

        for (const char *at = line; *at; at++) {
                if (!quote && strchr(" \t\r\n", *at)) {
                        if (in_word)
                                words[count++] = arena_strndup(arena, word, used);
                        in_word = false;
                        used = 0;
                        continue;
                }
                in_word = true;
                if (quote ? *at == quote : *at == '"' || *at == '\'') {
                        quote = quote ? '\0' : *at;
                } else if (*at == '\\' && quote != '\'') {
                        at++;
                        if (!*at)
                                return error_set(err, "it ends with a backslash");
                        if (quote && *at != '"' && *at != '\\')
                                word[used++] = '\\';
                        word[used++] = *at;
                } else {
                        word[used++] = *at;
                }
        }
        if (quote)
                return error_set(err, "a %c is not closed", quote);
        if (in_word)
                words[count++] = arena_strndup(arena, word, used);
        if (count == 0)
                return error_set(err, "it is empty");
        *ret = words;
        return 0;
}

int command_run(char *const *argv, const struct command_limits *limits, struct strbuf *ret,
                struct error *err) {
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct run_args args = {
                .process = { .arguments = (const char *const *)argv,
                             .environment = (const char *const *)environ },
                .output_max = limits->output,
                .deadline_ms = clock_now_ms() + limits->timeout_ms,
                .interrupt = limits->interrupt,
                .grace_ms = -1,
        };

        if (run_to_end(&args, &result, err) < 0 || run_check(&result, argv[0], err) < 0)
                return -1;
        strbuf_append_bytes(ret, strbuf_text(&result.output), result.output.length);
        return 0;
}
