/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth session files: a workspace has its session's id, and is there when the session has ended. Files move piece by piece, whatever
 * their size; what comes here is a file only once all of it has come.
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "cli/sessions.h"
#include "client/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX ((size_t)100 << 20) /* for standard input, whose length is not known before its end */
#define PATH_COLUMN 24

static const char *workspace_path(struct sessions *sessions, const char *id, const char *rest) {
        return arena_printf(sessions->session.arena, "/v1/workspaces/%s%s", id, rest);
}

static const char *file_path(struct sessions *sessions, const char *id, const char *name) {
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;

        client_append_escaped(&path, name, true);
        return workspace_path(sessions, id,
                              arena_printf(sessions->session.arena, "/files/%s", strbuf_text(&path)));
}

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* --- to here --- */

/* Where bytes go: into a file that is replaced when all are there, or to standard output, made safe where that is a terminal. */
struct coming {
        struct file_replacement file; /* its descriptor is -1 for standard output */
        struct shown shown;
        int failure; /* errno */
};

static bool take_bytes(void *context, const char *bytes, size_t length) {
        struct coming *coming = context;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int descriptor = coming->file.descriptor >= 0 ? coming->file.descriptor : STDOUT_FILENO;

        if (coming->shown.is_terminal) {
                shown_append(&coming->shown, bytes, length, &text);
                bytes = strbuf_text(&text);
                length = text.length;
        }
        if (descriptor_write(descriptor, bytes, length) == 0)
                return true;
        coming->failure = errno;
        return false;
}

static int download(struct sessions *sessions, const char *path, const char *to, struct error *err) {
        struct coming coming = { .file = FILE_REPLACEMENT_INIT };
        bool prints = strcmp(to, "-") == 0;
        const struct client_call call = { .method = "GET",
                                          .path = path,
                                          .interrupt = interrupt_of_user(),
                                          .sink = take_bytes,
                                          .context = &coming };
        int result;

        if (!prints && !sessions->options->force && access(to, F_OK) == 0)
                return error_set(err, "%s already exists: --force replaces it", to);
        if (!prints && file_replace_begin(to, 0666, &coming.file, err) < 0)
                return -1;
        coming.shown.is_terminal = prints && isatty(STDOUT_FILENO);
        interrupt_install_at_once();
        result = client_ask(sessions->client, &call, NULL, err);
        if (result < 0 && coming.failure)
                result = coming.failure == EPIPE
                                 ? EXIT_DONE
                                 : error_set(err, "cannot write %s: %s", prints ? "the result" : to,
                                             strerror(coming.failure));
        else if (result == 0 && !prints)
                result = file_replace_finish(&coming.file, err);
        file_replace_close(&coming.file);
        return result;
}

/* A folder as target means a file in it. */
static const char *target_of(struct sessions *sessions, const char *to, const char *name) {
        struct stat status;

        if (strcmp(to, "-") != 0 && stat(to, &status) == 0 && S_ISDIR(status.st_mode))
                return path_join_in(to, name, sessions->session.arena);
        return to;
}

static int run_get(struct sessions *sessions, const char *id, const char *const *rest, size_t count,
                   struct error *err) {
        const char *name = base_name(rest[0]);

        if (!*name)
                return error_set(err, "\"%s\" names no file", rest[0]);
        return download(sessions, file_path(sessions, id, rest[0]),
                        target_of(sessions, count > 1 ? rest[1] : name, name), err);
}

static int run_zip(struct sessions *sessions, const char *id, const char *const *rest, size_t count,
                   struct error *err) {
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;
        const char *name;

        strbuf_append(&path, workspace_path(sessions, id, "/archive"));
        if (count > 1) {
                strbuf_append(&path, "?prefix=");
                client_append_escaped(&path, rest[1], false);
        }
        name = arena_printf(sessions->session.arena, "%s.zip", id);
        return download(sessions, strbuf_text(&path), target_of(sessions, count > 0 ? rest[0] : name, name),
                        err);
}

/* --- from here --- */

struct going {
        int descriptor; /* -1: `input` */
        struct strbuf input;
        int64_t left;
        bool failed; /* the file ended before its length, or could not be read */
};

static ssize_t give_bytes(void *context, char *buffer, size_t size) {
        struct going *going = context;
        ssize_t got;

        if ((int64_t)size > going->left)
                size = (size_t)going->left;
        if (size == 0)
                return 0;
        if (going->descriptor < 0) {
                memcpy(buffer, going->input.data + going->input.length - (size_t)going->left, size);
                got = (ssize_t)size;
        } else {
                do
                        got = read(going->descriptor, buffer, size);
                while (got < 0 && errno == EINTR);
        }
        going->failed = got <= 0;
        if (going->failed)
                return -1;
        going->left -= got;
        return got;
}

static int open_going(const char *from, struct going *ret, struct error *err) {
        struct stat status;
        int result;

        if (strcmp(from, "-") == 0) {
                result = descriptor_read(STDIN_FILENO, INPUT_MAX, &ret->input);
                if (result != 0)
                        return result < 0
                                       ? error_set(err, "cannot read standard input: %s", strerror(errno))
                                       : error_set(err, "standard input is larger than 100 MiB: put a file");
                ret->left = (int64_t)ret->input.length;
                return 0;
        }
        ret->descriptor = open(from, O_RDONLY | O_CLOEXEC);
        if (ret->descriptor < 0 || fstat(ret->descriptor, &status) < 0)
                return error_set(err, "cannot read %s: %s", from, strerror(errno));
        if (!S_ISREG(status.st_mode))
                return error_set(err, "%s is no regular file", from);
        ret->left = (int64_t)status.st_size;
        return 0;
}

static int run_put(struct sessions *sessions, const char *id, const char *const *rest, size_t count,
                   struct error *err) {
        const char *name = count > 1 ? rest[1] : base_name(rest[0]);
        struct going going = { .descriptor = -1 };
        struct client_call call = { .method = "PUT",
                                    .path = file_path(sessions, id, name),
                                    .interrupt = interrupt_of_user(),
                                    .source = give_bytes,
                                    .context = &going };
        json_t *file JSON_CLEANUP = NULL;
        int result;

        if (count < 2 && (strcmp(rest[0], "-") == 0 || !*name))
                return error_set(err,
                                 "what is the file to be called? berth session files put SESSION FILE PATH");
        result = open_going(rest[0], &going, err);
        if (result == 0) {
                call.source_length = going.left;
                interrupt_install_at_once();
                result = client_ask(sessions->client, &call, &file, err);
                if (result < 0 && going.failed)
                        result = error_set(err, "%s became shorter while it was read, or cannot be read",
                                           rest[0]);
        }
        close_descriptor(&going.descriptor);
        strbuf_release(&going.input);
        if (result == 0 && sessions->options->json)
                print_json(json_incref(file));
        return result;
}

/* --- there --- */

static void print_file(const json_t *file) {
        int64_t written_ms = clock_parse(json_text(file, "writtenAt")), now_ms = clock_wall_ms();
        char age[32] = "-";

        if (written_ms >= 0)
                clock_format_span(now_ms - written_ms, age, sizeof(age));
        printf("%12" JSON_INTEGER_FORMAT "  %8s  ", json_integer_or(file, "bytes", 0), age);
        terminal_print_line(stdout, json_text(file, "path") ? json_text(file, "path") : "-", PATH_COLUMN,
                            PATH_COLUMN);
}

static int run_list_files(struct sessions *sessions, const char *id, const char *const *rest, size_t count,
                          struct error *err) {
        struct strbuf query STRBUF_CLEANUP = STRBUF_INIT;
        json_t *list JSON_CLEANUP = NULL, *file;
        size_t i;

        if (count > 0) {
                strbuf_append(&query, "?prefix=");
                client_append_escaped(&query, rest[0], false);
        }
        if (sessions_list(sessions, workspace_path(sessions, id, "/files"), strbuf_text(&query), &list, err) <
            0)
                return -1;
        if (sessions->options->json) {
                print_json(json_incref(list));
                return EXIT_DONE;
        }
        if (json_array_size(list) == 0) {
                fputs("No files.\n", stderr);
                return EXIT_DONE;
        }
        printf("%s%12s  %8s  %s%s\n", terminal_style(stdout, STYLE_BOLD), "BYTES", "WRITTEN", "PATH",
               terminal_style(stdout, STYLE_PLAIN));
        json_array_foreach (list, i, file)
                print_file(file);
        return EXIT_DONE;
}

static int run_rm(struct sessions *sessions, const char *id, const char *const *rest, size_t count,
                  struct error *err) {
        for (size_t i = 0; i < count; i++) {
                if (sessions_ask(sessions, "DELETE", file_path(sessions, id, rest[i]), NULL, NULL, err) < 0)
                        return error_context(err, "%s", rest[i]);
        }
        return EXIT_DONE;
}

/* Existing files stay without --force: then not everything was copied, and that is an error. */
static int run_copy(struct sessions *sessions, const char *id, const char *const *rest, size_t count,
                    struct error *err) {
        json_t *from = json_checked(json_object()), *body = json_checked(json_object()),
               *answer JSON_CLEANUP = NULL, *item;
        size_t i;

        if (sessions_check_id(rest[0], err) < 0) {
                json_decref(from);
                json_decref(body);
                return -1;
        }
        json_set_text(from, "workspace", id);
        json_put(from, "paths", json_from_texts(rest + 1, count - 1));
        json_put(body, "from", from);
        if (sessions->options->force)
                json_put(body, "replace", json_true());
        if (sessions_ask(sessions, "POST", workspace_path(sessions, rest[0], "/copy"), body, &answer, err) <
            0)
                return -1;
        if (sessions->options->json) {
                print_json(json_incref(answer));
        } else {
                json_array_foreach (json_object_get(answer, "changed"), i, item) {
                        terminal_print_safe(stdout, json_text(item, "path") ? json_text(item, "path") : "-");
                        putchar('\n');
                }
        }
        json_array_foreach (json_object_get(answer, "skipped"), i, item)
                log_warning("not copied: %s: %s", json_text(item, "path") ? json_text(item, "path") : "-",
                            json_text(item, "reason") ? json_text(item, "reason") : "");
        json_array_foreach (json_object_get(answer, "conflict"), i, item)
                log_warning("not copied: %s already exists (--force replaces it)",
                            json_string_value(item) ? json_string_value(item) : "-");
        return json_array_size(json_object_get(answer, "conflict")) ||
                               json_array_size(json_object_get(answer, "skipped"))
                       ? error_set(err, "not all was copied")
                       : EXIT_DONE;
}

#define MANY 1000

static const struct command {
        const char *name, *usage;
        size_t least, most; /* operands behind the session */
        bool replaces;      /* takes --force */
        int (*run)(struct sessions *sessions, const char *id, const char *const *rest, size_t count,
                   struct error *err);
} commands[] = {
        { "list", "SESSION [PREFIX]", 0, 1, false, run_list_files },
        { "get", "SESSION PATH [FILE|-]", 1, 2, true, run_get },
        { "put", "SESSION FILE|- [PATH]", 1, 2, false, run_put },
        { "rm", "SESSION PATH...", 1, MANY, false, run_rm },
        { "zip", "SESSION [FILE|-] [PREFIX]", 0, 2, true, run_zip },
        { "copy", "SESSION TO-SESSION PATH...", 2, MANY, true, run_copy },
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

int sessions_files(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        const struct command *command = suggest_row("berth session files", operands[0], commands,
                                                    COMMAND_COUNT, sizeof(*commands), err);

        if (!command)
                return -1;
        if (count < 2 + command->least || count > 2 + command->most)
                return error_set(err, "usage: berth session files %s %s", command->name, command->usage);
        if (sessions->options->force && !command->replaces)
                return error_set(err, "berth session files %s takes no --force", command->name);
        if (sessions_check_id(operands[1], err) < 0)
                return -1;
        return command->run(sessions, operands[1], operands + 2, count - 2, err);
}
