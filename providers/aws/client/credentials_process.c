/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile's credential_process: a program of the user's that prints keys.
 *
 *     {"Version": 1, "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"}      the last two where it has them
 */
#include "providers/aws/client/credentials.h"

#include "base/arena.h"
#include "providers/aws/client/command.h"
#include "providers/aws/client/credentials_answer.h"

#include <stdlib.h>

#define TIMEOUT_MS (60 * 1000)
#define OUTPUT_MAX ((size_t)64 * 1024)

struct process_source {
        struct credentials_source source;
        const struct clock *clock;
        const char *profile;
        const char *line;
};

static int parse_output(const struct process_source *self, const struct strbuf *output,
                        struct credentials **ret, struct error *err) {
        struct strbuf origin STRBUF_CLEANUP = STRBUF_INIT;
        struct credentials_answer_form form = { .what = "its output", .token = "SessionToken" };
        json_t *object CREDENTIALS_ANSWER_CLEANUP = NULL;
        const json_t *version;

        if (credentials_answer_parse(output, form.what, &object, err) < 0)
                return -1;
        version = json_object_get(object, "Version");
        if (!json_is_integer(version) || json_integer_value(version) != 1)
                return error_set(err, "its output has no \"Version\": 1");
        strbuf_printf(&origin, "the profile %s", self->profile);
        form.origin = strbuf_text(&origin);
        return credentials_answer_read_keys(object, &form, self->clock, ret, err);
}

static int fetch_process(struct credentials_source *source, struct credentials **ret,
                         enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        const struct process_source *self = (const struct process_source *)source;
        const struct command_limits limits = { TIMEOUT_MS, OUTPUT_MAX, self->clock->interrupt };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf output = STRBUF_SECRET;
        char **argv;
        int result;

        (void)ret_reason, (void)ret_asked_ms;
        result = command_split(self->line, arena, &argv, err);
        if (result == 0)
                result = command_run(argv, &limits, &output, err);
        if (result == 0)
                result = parse_output(self, &output, ret, err);
        strbuf_release(&output);
        return result < 0 ? error_context(err, "credential_process of the profile %s", self->profile) : 0;
}

static void release_process(struct credentials_source *source) {
        free(source);
}

static const struct credentials_source_ops ops = { fetch_process, release_process };

int credentials_process(const struct credentials_settings *settings, struct credentials_source **ret,
                        struct strbuf *tried, struct error *err) {
        struct process_source *self;
        const char *line = profiles_get(settings->profiles, settings->profile, "credential_process");

        (void)err;
        if (!line) {
                strbuf_printf(tried, "the profile %s (no credential_process)", settings->profile);
                return 0;
        }
        if (!(self = calloc(1, sizeof(*self))))
                abort();
        self->source.ops = &ops;
        self->clock = settings->clock;
        self->profile = settings->profile;
        self->line = line;
        *ret = &self->source;
        return 1;
}
