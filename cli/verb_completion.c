/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion of a command line, for three shells. Each has a short script that asks this program what
 * can stand at the cursor, so one function answers all of them, out of the tables of verbs and options:
 *
 *      berth completion answer -- WORD...      the words behind "berth", the last one as far as it is typed
 *
 *      words | files | folders                 what the shell is to offer; with "words", those follow,
 *      WORD TAB DESCRIPTION                     a line each
 */
#include "base/arena.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "process/run.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX (1024 * 1024) /* bytes, of what a state or a store of images may list */

/* A command line up to the word that is typed. */
struct told {
        const struct verb *verb;
        const struct verb_command *command;
        size_t operands;                 /* behind the verb, or behind its command */
        const struct option_row *valued; /* the option whose value is typed; NULL: none */
        bool only_operands;              /* "--" was given */
        /* The options that say where the state is, to ask it for names. */
        const char *where[16];
        size_t where_count;
};

struct answer {
        const char *typed; /* what each word must begin with */
        /* Of "--env=we" the first six bytes, which stand before each word: `typed` begins behind them. */
        const char *before;
        size_t before_length;
        struct strbuf words;
};

static void offer(struct answer *answer, const char *word, size_t length, const char *doc) {
        size_t typed = strlen(answer->typed);

        if (length < typed || memcmp(word, answer->typed, typed) != 0)
                return;
        strbuf_append_bytes(&answer->words, answer->before, answer->before_length);
        strbuf_append_bytes(&answer->words, word, length);
        strbuf_printf(&answer->words, "\t%s\n", doc);
}

/* --- what was told --- */

static const struct option_row *row_of_name(const char *name, size_t length) {
        for (const struct option_row *row = options_rows; row->name; row++) {
                if (strlen(row->name) == length && memcmp(row->name, name, length) == 0)
                        return row;
        }
        return NULL;
}

static const struct option_row *row_of_letter(char letter) {
        for (const struct option_row *row = options_rows; row->name; row++) {
                if (row->id == letter)
                        return row;
        }
        return NULL;
}

static void keep_where(struct told *told, const struct option_row *row, const char *value) {
        if ((row->id != 'f' && strcmp(row->name, "state") != 0) || told->where_count + 2 > 16)
                return;
        told->where[told->where_count++] = row->id == 'f' ? "-f" : "--state";
        told->where[told->where_count++] = value;
}

/* An option whose value stands in the same word, or is the next one. */
static void read_option(struct told *told, const char *word) {
        const struct option_row *row;
        const char *value;

        if (word[1] == '-') {
                size_t length = strcspn(word + 2, "=");

                row = row_of_name(word + 2, length);
                value = word[2 + length] ? word + 2 + length + 1 : "";
        } else {
                /* Letters without a value may share a word with others. */
                while ((row = row_of_letter(*++word)) && !row->argument && word[1])
                        continue;
                value = row ? word + 1 : "";
        }
        if (!row || !row->argument)
                return;
        if (*value)
                keep_where(told, row, value);
        else
                told->valued = row;
}

static void read_operand(struct told *told, const char *word) {
        struct error ignored;

        if (!told->verb && told->operands == 0) {
                if (options_find_verb(word, &told->verb, &ignored) == 0)
                        return;
        } else if (told->verb && told->verb->commands && !told->command && told->operands == 0) {
                told->command = commands_find(told->verb, word);
                if (told->command)
                        return;
        }
        told->operands++;
}

static void read_told(const char *const *words, size_t count, struct told *ret) {
        *ret = (struct told){ 0 };
        for (size_t i = 0; i < count; i++) {
                if (ret->valued) {
                        keep_where(ret, ret->valued, words[i]);
                        ret->valued = NULL;
                } else if (!ret->only_operands && strcmp(words[i], "--") == 0) {
                        ret->only_operands = true;
                } else if (!ret->only_operands && words[i][0] == '-' && words[i][1]) {
                        read_option(ret, words[i]);
                } else {
                        read_operand(ret, words[i]);
                        /* What follows the file of `exec` belongs to the program. */
                        if (ret->verb && ret->verb->traits & VERB_RUNS_PROGRAM && ret->operands > 0)
                                ret->only_operands = true;
                }
        }
}

/* --- what can stand there --- */

/*
 * The words that a usage names ("show|release"): alternatives in lower case. Words in capitals stand for
 * the user's own.
 */
static bool has_words(const char *usage) {
        usage += usage[0] == '[';
        return *usage >= 'a' && *usage <= 'z';
}

static void offer_words(struct answer *answer, const char *usage) {
        for (const char *at = usage + (usage[0] == '['); *at >= 'a' && *at <= 'z';) {
                size_t length = strcspn(at, "| []");

                offer(answer, at, length, "");
                at += length + (at[length] == '|');
        }
}

/*
 * Names that this program lists, a line each. A shell's user may take one without a look at it: those
 * with more than letters and a few signs are left out, whatever a registry or a state calls its own.
 */
static void offer_listed(struct answer *answer, const struct told *told, const char *verb, const char *kind) {
        static const char signs[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/:-";
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        const char *arguments[24] = { "berth", verb };
        struct run_args args = {
                .process = { .arguments = arguments,
                             .program = "/proc/self/exe",
                             .environment = (const char *const *)environ,
                             .group = PROCESS_OUR_GROUP },
                .output_max = NAMES_MAX,
                .errors = RUN_ERRORS_DROPPED,
                .deadline_ms = RUN_NO_DEADLINE,
        };
        struct error ignored;
        size_t count = 2;

        if (kind && *kind)
                arguments[count++] = kind;
        arguments[count++] = "-o";
        arguments[count++] = "name";
        memcpy(arguments + count, told->where, told->where_count * sizeof(told->where[0]));
        if (run_to_end(&args, &result, &ignored) < 0)
                return;
        for (const char *at = strbuf_text(&result.output), *end; (end = strchr(at, '\n')); at = end + 1) {
                const char *slash = kind && *kind ? memchr(at, '/', (size_t)(end - at)) : NULL;
                const char *name = slash ? slash + 1 : at;

                if (strspn(name, signs) == (size_t)(end - name))
                        offer(answer, name, (size_t)(end - name), "");
        }
}

/* The kind whose names stand there, by the word of its usage: "" where they are addresses; NULL: none. */
static const char *kind_of_usage(const char *usage) {
        static const struct {
                const char *word, *kind;
        } words[] = { { "ENV", "Environment" }, { "ADDR", "" }, { "KIND[/NAME]", "" } };

        usage += usage[0] == '[';
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                size_t length = strlen(words[i].word);

                if (strncmp(usage, words[i].word, length) == 0 && !isupper((unsigned char)usage[length]))
                        return words[i].kind;
        }
        return NULL;
}

/* NULL: `answer` has the words; else what else the shell offers there. */
static const char *answer_value(struct answer *answer, const struct told *told) {
        const struct option_row *row = told->valued;
        const char *kind = strcmp(row->name, "agent") == 0 ? "Agent" : kind_of_usage(row->argument);

        if (kind)
                offer_listed(answer, told, "get", kind);
        else if (has_words(row->argument))
                offer_words(answer, row->argument);
        else
                return strcmp(row->name, "state") == 0 ? "folders" : "files";
        return NULL;
}

static void offer_options(struct answer *answer, const struct told *told) {
        for (const struct option_row *row = options_rows; row->name; row++) {
                struct strbuf name STRBUF_CLEANUP = STRBUF_INIT;

                if (told->command ? !commands_take(told->command, row)
                                  : told->verb && !options_row_takes(row, told->verb))
                        continue;
                strbuf_printf(&name, "--%s", row->name);
                offer(answer, strbuf_text(&name), name.length, row->doc);
        }
}

static void offer_verbs(struct answer *answer) {
        for (const struct verb *verb = verbs; verb->name; verb++)
                offer(answer, verb->name, strlen(verb->name), verb->doc);
}

static void offer_commands(struct answer *answer, const struct verb *verb) {
        for (const struct verb_command *command = verb->commands; command->name; command++) {
                if (command->name[0])
                        offer(answer, command->name, strlen(command->name), command->doc);
        }
}

static const char *answer_operand(struct answer *answer, const struct told *told) {
        const char *usage = told->command ? told->command->operands : told->verb->operands;
        const char *kind = kind_of_usage(usage);

        if (told->verb->commands && !told->command && told->operands == 0)
                offer_commands(answer, told->verb);
        else if (kind && !told->command)
                offer_listed(answer, told, "get", kind);
        else if (told->command &&
                 text_is_among(told->command->name,
                               (const char *const[]){ "check", "runtime", "remove", NULL }) &&
                 text_begins_with(usage, "IMAGE") && told->operands == 0)
                offer_listed(answer, told, "images", NULL);
        else if (has_words(usage) && told->operands == 0)
                offer_words(answer, usage);
        else if (!*usage && !told->only_operands)
                offer_options(answer, told);
        else
                return "files";
        return NULL;
}

static const char *answer_word(struct answer *answer, struct told *told) {
        const char *equals = strchr(answer->typed, '=');

        if (!told->valued && !told->only_operands && text_begins_with(answer->typed, "--") && equals) {
                told->valued = row_of_name(answer->typed + 2, (size_t)(equals - answer->typed) - 2);
                if (!told->valued || !told->valued->argument)
                        return NULL;
                answer->typed = equals + 1;
                answer->before_length = (size_t)(answer->typed - answer->before);
        }
        if (told->valued)
                return answer_value(answer, told);
        if (!told->verb && told->operands > 0)
                return NULL; /* there is no such verb */
        if (!told->only_operands && answer->typed[0] == '-')
                offer_options(answer, told);
        else if (!told->verb)
                offer_verbs(answer);
        else
                return answer_operand(answer, told);
        return NULL;
}

static void answer_line(const struct options *options) {
        static const char *const nothing[] = { "" };
        bool any = options->operand_count > 1;
        const char *const *words = any ? options->operands + 1 : nothing;
        size_t told_count = any ? options->operand_count - 2 : 0;
        struct answer answer = { .typed = words[told_count], .before = words[told_count] };
        const char *others;
        struct told told;

        read_told(words, told_count, &told);
        others = answer_word(&answer, &told);
        printf("%s\n%s", others ? others : "words", others ? "" : strbuf_text(&answer.words));
        strbuf_release(&answer.words);
}

/* --- the scripts --- */

/* Readline parts words at = and :, and puts what it is given in the place of the last part. */
static const char bash_script[] =
        "# berth completion for bash: source <(berth completion bash)\n"
        "_berth() {\n"
        "    local words=() word glued= offers candidate doc i\n"
        "    for ((i = 1; i <= COMP_CWORD; i++)); do\n"
        "        word=${COMP_WORDS[i]}\n"
        "        if [[ ${#words[@]} -gt 0 && ( $glued || $word == [:=]* ) ]]; then\n"
        "            words[${#words[@]}-1]+=$word\n"
        "        else\n"
        "            words+=(\"$word\")\n"
        "        fi\n"
        "        [[ $word == [:=]* ]] && glued=yes || glued=\n"
        "    done\n"
        "    word=${words[${#words[@]}-1]}\n"
        "    COMPREPLY=()\n"
        "    while IFS=$'\\t' read -r candidate doc; do\n"
        "        if [[ ! $offers ]]; then\n"
        "            offers=$candidate\n"
        "        else\n"
        "            COMPREPLY+=(\"${candidate#\"${word%\"${word##*[:=]}\"}\"}\")\n"
        "        fi\n"
        "    done < <(\"${COMP_WORDS[0]}\" completion answer -- \"${words[@]}\" 2>/dev/null)\n"
        "    [[ $offers != folders ]] || mapfile -t COMPREPLY < <(compgen -d -- \"${word##*[:=]}\")\n"
        "}\n"
        "complete -o default -F _berth berth\n";

/* In a file of $fpath this is the function's own body; sourced, it has to be made known. */
static const char zsh_script[] =
        "#compdef berth\n"
        "# berth completion for zsh: source <(berth completion zsh)\n"
        "_berth() {\n"
        "    local -a answer\n"
        "    answer=(\"${(@f)$($words[1] completion answer -- \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
        "    case $answer[1] in\n"
        "    files) compset -P '--*='; _files ;;\n"
        "    folders) compset -P '--*='; _files -/ ;;\n"
        "    *)\n"
        "        answer=(\"${(@)answer[2,-1]//:/\\\\:}\")\n"
        "        answer=(\"${(@)answer//$'\\t'/:}\")\n"
        "        _describe -t words word answer ;;\n"
        "    esac\n"
        "}\n"
        "if [[ $funcstack[1] == _berth ]]; then\n"
        "    _berth \"$@\"\n"
        "else\n"
        "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
        "    compdef _berth berth\n"
        "fi\n";

static const char fish_script[] =
        "# berth completion for fish: berth completion fish > ~/.config/fish/completions/berth.fish\n"
        "function __berth\n"
        "    set -l told (commandline -opc)\n"
        "    set -l word (commandline -ct)\n"
        "    set -l answer ($told[1] completion answer -- $told[2..-1] \"$word\" 2>/dev/null)\n"
        "    switch \"$answer[1]\"\n"
        "        case files\n"
        "            __fish_complete_path \"$word\"\n"
        "        case folders\n"
        "            __fish_complete_directories \"$word\"\n"
        "        case '*'\n"
        "            string match -rv '^words$' -- $answer\n"
        "    end\n"
        "end\n"
        "complete -c berth -f -a '(__berth)'\n";

int verb_completion(const struct options *options, struct error *err) {
        static const struct {
                const char *name, *script;
        } shells[] = { { "bash", bash_script }, { "zsh", zsh_script }, { "fish", fish_script } };
        const char *asked = options->operands[0];

        if (strcmp(asked, "answer") == 0) {
                answer_line(options);
                return EXIT_DONE;
        }
        for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
                if (strcmp(asked, shells[i].name) == 0 && options->operand_count == 1) {
                        fputs(shells[i].script, stdout);
                        return EXIT_DONE;
                }
        }
        return error_set(err, "berth completion takes bash, zsh or fish, not \"%s\"",
                         options->operands[options->operand_count - 1]);
}
