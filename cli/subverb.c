/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/subverb.h"

#include "base/strbuf.h"

#include <string.h>

static bool takes(const struct subverb *subverb, const char *option) {
        struct strbuf word STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&word, " %s ", option);
        return strstr(subverb->takes, word.data) != NULL;
}

int subverb_check(const char *verb, const struct subverb *subverb, const struct options *options,
                  struct error *err) {
        const struct {
                const char *name;
                bool given;
        } given[] = {
                { "env", options->environment },
                { "agent", options->agent },
                { "conversation", options->conversation },
                { "label", options->label_count > 0 },
                { "variable", options->variable_count > 0 },
                { "idle", options->idle_s > 0 },
                { "ttl", options->ttl_s > 0 },
                { "status", options->status },
                { "context", options->context },
                { "interactive", options->interactive },
                { "code", options->code },
                { "lang", options->language },
                { "timeout", options->timeout_s > 0 },
                { "force", options->force },
                { "name", options->name },
                { "service", options->service },
                { "restart", options->restart },
                { "port", options->port_count > 0 },
                { "follow", options->follow },
                { "tail", options->tail },
                { "since", options->since },
        };
        size_t count = options->operand_count - 1;

        for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
                if (given[i].given && !takes(subverb, given[i].name))
                        return error_set(err, "%s %s takes no --%s", verb, subverb->name, given[i].name);
        }
        if (count < subverb->least)
                return error_set(err, "%s %s needs an argument: %s %s %s", verb, subverb->name, verb,
                                 subverb->name, subverb->usage);
        if (count > subverb->most)
                return error_set(err, "%s %s: \"%s\" is one too many; usage: %s %s %s", verb, subverb->name,
                                 options->operands[1 + subverb->most], verb, subverb->name, subverb->usage);
        return 0;
}
