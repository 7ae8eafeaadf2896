/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth session run [SESSION] [FILE|-]: the code goes into the session's line, and is followed to its end. A session that is not named
 * is made, and stays: its id is said, so that the next run can name it.
 */
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cli/sessions.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define CODE_MAX ((size_t)16 << 20)

/* The first operand is a session where it has the form of an id, so that a file needs no option. */
static int read_operands(const struct options *options, const char *const *operands, size_t count,
                         const char **ret_id, const char **ret_file, struct error *err) {
        *ret_id = count > 0 && client_is_id(operands[0]) ? operands[0] : NULL;
        if (*ret_id) {
                operands++;
                count--;
        }
        *ret_file = count > 0 ? operands[0] : NULL;
        if (count > 1)
                return error_set(err, "berth session run: \"%s\" is one too many", operands[1]);
        if (options->code && *ret_file)
                return error_set(err,
                                 *ret_id ? "there is code in -c and in the file %s: one of them"
                                         : "\"%s\" is no session's id, and the code is in -c: berth session "
                                           "list shows the sessions there are",
                                 *ret_file);
        if (options->interactive && (options->code || *ret_file))
                return error_set(err, "-i reads code at a prompt: it takes no other code");
        if (*ret_id && (options->environment || options->agent || options->conversation ||
                        options->label_count || options->idle_s || options->ttl_s))
                return error_set(
                        err,
                        "a session that is there has its environment, labels and times already: name "
                        "either %s or what a new one needs",
                        *ret_id);
        return 0;
}

static int read_code(const struct options *options, const char *file, struct strbuf *ret, struct error *err) {
        int result;

        if (options->code) {
                strbuf_append(ret, options->code);
                return 0;
        }
        if (strcmp(file, "-") != 0)
                return file_read(file, CODE_MAX, ret, err);
        result = descriptor_read(STDIN_FILENO, CODE_MAX, ret);
        if (result < 0)
                return error_set(err, "cannot read standard input: %s", strerror(errno));
        return result ? error_set(err, "the code on standard input is larger than 16 MiB") : 0;
}

static int create_session(struct sessions *sessions, const char **ret_id, struct error *err) {
        json_t *session JSON_CLEANUP = NULL;
        bool made;

        if (sessions_create(sessions, &session, &made, err) < 0)
                return -1;
        *ret_id = arena_strdup(sessions->session.arena, json_text(session, "id"));
        if (made && !sessions->options->json)
                log_info("session %s: again with berth session run %s%s, ended by berth session end %s%s",
                         *ret_id, *ret_id, sessions->where, *ret_id, sessions->where);
        return 0;
}

static int run_code(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        const struct options *options = sessions->options;
        struct sessions_code code = { .with_variables = true };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *id, *file;
        bool prompts;
        json_int_t n;

        if (read_operands(options, operands, count, &id, &file, err) < 0)
                return -1;
        prompts = options->interactive || (!options->code && !file && isatty(STDIN_FILENO));
        if (!options->code && !file && !prompts)
                return error_set(
                        err,
                        "berth session run needs code: -c CODE, a FILE, - for standard input, or -i for a prompt");
        code.language = options->language                     ? options->language
                        : file && text_ends_with(file, ".sh") ? "sh"
                                                              : "python";
        if (!prompts && read_code(options, file, &text, err) < 0)
                return -1;
        if (!prompts && strcmp(code.language, "python") == 0 && sessions_decode(&text, err) < 0)
                return -1;
        code.with_input = !prompts && !(file && strcmp(file, "-") == 0);
        code.code = strbuf_text(&text);
        code.length = text.length;
        if (sessions_open(sessions, options, err) < 0 || (!id && create_session(sessions, &id, err) < 0))
                return -1;
        if (prompts)
                return sessions_prompt(sessions, id, err);
        interrupt_install();
        if (sessions_begin(sessions, id, &code, &n, err) < 0)
                return -1;
        return sessions_follow(sessions, id, n, interrupt_of_user(), true, err);
}

int sessions_run(const struct options *options, const char *const *operands, size_t count) {
        struct sessions sessions SESSIONS_CLEANUP = { .options = options };
        struct error err;
        int code = run_code(&sessions, operands, count, &err);

        if (code >= 0)
                return code;
        log_error("%s", err.message);
        return EXIT_EXEC_FAILED;
}
