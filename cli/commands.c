/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/options.h"

#include <string.h>

const struct verb_command commands_of_image[] = {
        { "check", "IMAGE", "", "say whether it can run, and why not", false },
        { "instructions", "[REPOSITORY]", "", "print how it is built and pushed", false },
        { "import", "NAME:TAG PATH", "", "take an archive or a folder into this machine's store", false },
        { "build", "NAME", " output mirror ", "make one of Debian's packages: python", false },
        { "runtime", "IMAGE [TAG]", " output push ", "put the runtime of sessions on an image", false },
        { "remove", "IMAGE", "", "remove it from this machine's store", false },
        { "prune", "", " yes ", "show the images without a name; with --yes, remove them", false },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command commands_of_state[] = {
        { "list", "", "", "list the addresses in it", false },
        { "show", "[ADDR]", "", "show it, or one resource's record", false },
        { "history", "", "", "list its runs, the newest first", false },
        { "restore", "SERIAL", " yes lock-timeout ", "make it what it was at that serial", false },
        { "migrate", "PLACE", " yes lock-timeout ", "move it to a folder or to s3://BUCKET/PREFIX", false },
        { "mv", "FROM TO", " yes lock-timeout ", "record a resource under another address", false },
        { "rm", "ADDR", " yes lock-timeout ", "forget a resource, and do not touch it", false },
        { "verify", "", "", "check that it is whole", false },
        { "backup", "PATH", "", "copy it while it is in use", false },
        { "adopt", "[ADDR]...", " yes lock-timeout dry-run allow ", "make a lost one again, of what exists",
          false },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command commands_of_lock[] = {
        { "show", "", "", "say who holds it, and what is being done", false },
        { "release", "", " force ", "free it where its holder is dead", false },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command commands_of_controller[] = {
        { "", "", " once parallel ", "follow Git repositories and apply their stacks", false },
        { "status", "[NAME]", "", "show the sources, or one in full", false },
        { "sync", "[NAME]", " wait ", "reconcile now", false },
        { "suspend", "[NAME]", "", "fetch and change nothing from now on", false },
        { "resume", "[NAME]", "", "go on", false },
        { "approve", "NAME [PLAN]", " wait allow ", "let what waits for a person through", false },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command commands_of_session[] = {
        { "create", "", " env agent conversation label variable idle ttl ", "make one", false },
        { "list", "", " env agent label status ", "list them", false },
        { "show", "SESSION", "", "show all that is known of one", false },
        { "run", "[SESSION] [FILE|-]",
          " env agent conversation label variable idle ttl code lang timeout context interactive ",
          "run code in one, there or new, and follow it", true },
        { "interrupt", "SESSION [N]", "", "stop what runs and what waits, or one of them", false },
        { "restart", "SESSION", " context ", "give it a fresh kernel", false },
        { "park", "SESSION", "", "put its memory into a checkpoint, and end its sandbox", false },
        { "end", "SESSION...", "", "end it; its workspace stays", false },
        { "history", "SESSION [N]", "", "list what ran, or show one from its first output on", false },
        { "files", "list|get|put|rm|zip|copy SESSION [PATH]...", " force ", "the files of its workspace",
          false },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command commands_of_containers[] = {
        { "list", "", " agent status name ", "list them", false },
        { "run", "--agent AGENT -- COMMAND [ARG]...",
          " agent name service restart port variable timeout code lang ", "run a command, or begin a service",
          true },
        { "stats", "[CONTAINER]...", " agent follow ", "show what they use", false },
        { "logs", "CONTAINER", " agent follow tail since ", "show what it printed", false },
        { "stop", "CONTAINER...", " agent ", "stop it, and leave it stopped", false },
        { "start", "CONTAINER...", " agent ", "start it again", false },
        { "restart", "CONTAINER...", " agent ", "stop it and start it again", false },
        { "rm", "CONTAINER...", " agent ", "end it, and forget it", false },
        { "exec", "CONTAINER -- COMMAND [ARG]...", " agent variable timeout code lang ",
          "run a command in one that runs", true },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command commands_of_approvals[] = {
        { "list", "", " all watch ", "list those that wait", false },
        { "show", "ID", "", "show one, and the command that it is about", false },
        { "approve", "ID", " note ", "let its command run", false },
        { "deny", "ID", " note ", "refuse it", false },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command commands_of_audit[] = {
        { "list", "", "", "print the log", false },
        { "verify", "", "", "check that none of it was changed", false },
        { NULL, NULL, NULL, NULL, false },
};

const struct verb_command *commands_find(const struct verb *verb, const char *name) {
        for (const struct verb_command *command = verb->commands; command && command->name; command++) {
                if (strcmp(command->name, name) == 0)
                        return command;
        }
        return NULL;
}

const struct verb_command *commands_of_line(const struct verb *verb, const struct options *options) {
        return commands_find(verb, options->operand_count > 0 ? options->operands[0] : "");
}

bool commands_take(const struct verb_command *command, const struct option_row *row) {
        size_t length = strlen(row->name);
        const char *at = command->takes;

        if (!row->verbs)
                return true;
        while ((at = strstr(at, row->name))) {
                if (at[-1] == ' ' && at[length] == ' ')
                        return true;
                at += length;
        }
        return false;
}

bool commands_any_takes(const struct verb *verb, const struct option_row *row) {
        for (const struct verb_command *command = verb->commands; command && command->name; command++) {
                if (commands_take(command, row))
                        return true;
        }
        return false;
}

void commands_list_takers(const struct verb *verb, const struct option_row *row, struct strbuf *ret) {
        const char *separator = "";

        for (const struct verb_command *command = verb->commands; command->name; command++) {
                if (!commands_take(command, row))
                        continue;
                strbuf_printf(ret, "%s%s%s%s", separator, verb->name, command->name[0] ? " " : "",
                              command->name);
                separator = ", ";
        }
}

void commands_print_operands(const struct verb *verb, struct strbuf *ret) {
        const struct verb_command *first = verb->commands;

        if (first) {
                bool optional = !first->name[0];

                strbuf_append(ret, optional ? "[" : "");
                first += optional;
                for (const struct verb_command *command = first; command->name; command++)
                        strbuf_printf(ret, "%s%s", command == first ? "" : "|", command->name);
                strbuf_printf(ret, "%s%s%s", verb->operands[0] ? " " : "", verb->operands,
                              optional ? "]" : "");
                return;
        }
        strbuf_append(ret, verb->operands);
}

int commands_check_operands(const char *verb, const struct options *options, size_t least, size_t most,
                            struct error *err) {
        const struct verb_command *command = options->command;
        size_t count = options->operand_count - 1;

        if (count < least)
                return error_set(err, "berth %s %s needs an argument: berth %s %s %s", verb, command->name,
                                 verb, command->name, command->operands);
        if (count > most)
                return error_set(err, "berth %s %s: \"%s\" is one too many; usage: berth %s %s%s%s", verb,
                                 command->name, options->operands[1 + most], verb, command->name,
                                 command->operands[0] ? " " : "", command->operands);
        return 0;
}
