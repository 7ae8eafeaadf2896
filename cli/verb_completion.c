/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts, made from the tables of verbs and options. */
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/verbs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void list_verbs(const char *separator) {
        for (const struct verb *verb = verbs; verb->name; verb++)
                printf("%s%s", verb == verbs ? "" : separator, verb->name);
}

/* Of one of the verb's commands, or, with NULL, of the verb. */
static bool takes(const struct verb *verb, const struct verb_command *command, const struct option_row *row) {
        return command ? commands_take(command, row) : options_row_takes(row, verb);
}

static void list_options(const struct verb *verb, const struct verb_command *command) {
        for (const struct option_row *row = options_rows; row->name; row++) {
                if (takes(verb, command, row))
                        printf(" --%s", row->name);
        }
}

/* The first command of a verb that has a name; NULL where it has no commands. */
static const struct verb_command *first_command(const struct verb *verb) {
        return verb->commands && !verb->commands->name[0] ? verb->commands + 1 : verb->commands;
}

static void list_commands(const struct verb *verb, const char *separator) {
        for (const struct verb_command *command = first_command(verb); command->name; command++)
                printf("%s%s", command == first_command(verb) ? "" : separator, command->name);
}

static bool has_letter(const struct option_row *row) {
        return row->id < 256;
}

/* Those behind which a value stands, as they are typed. */
static void list_options_with_values(const char *separator) {
        const char *between = "";

        for (const struct option_row *row = options_rows; row->name; row++) {
                if (!row->argument)
                        continue;
                if (has_letter(row))
                        printf("%s-%c", between, row->id);
                printf("%s--%s", has_letter(row) ? separator : between, row->name);
                between = separator;
        }
}

/*
 * The words that can follow a verb or an option, from its usage ("show|release"): alternatives in lower case. Words in
 * capitals stand for the user's own.
 */
static const char *first_word(const char *usage) {
        return usage + (usage[0] == '[');
}

static bool has_words(const char *usage) {
        return usage && *first_word(usage) >= 'a' && *first_word(usage) <= 'z';
}

static void list_words(const char *usage) {
        for (const char *at = first_word(usage); *at >= 'a' && *at <= 'z';) {
                size_t length = strcspn(at, "| []");

                printf("%s%.*s", at == first_word(usage) ? "" : " ", (int)length, at);
                at += length + (at[length] == '|');
        }
}

/*
 * The kind whose names can stand there, by the usage's word in capitals: "" for whole addresses, NULL for none. They are those that
 * were applied: berth get says them from the state.
 */
static const char *kind_of_names(const char *option, const char *usage) {
        static const struct {
                const char *word, *kind;
        } words[] = { { "ENV", "Environment" }, { "ADDR", "" }, { "KIND[/NAME]", "" } };

        if (option && strcmp(option, "agent") == 0)
                return "Agent";
        for (size_t i = 0; usage && i < sizeof(words) / sizeof(words[0]); i++) {
                size_t length = strlen(words[i].word);

                if (strncmp(first_word(usage), words[i].word, length) == 0 &&
                    !isupper((unsigned char)first_word(usage)[length]))
                        return words[i].kind;
        }
        return NULL;
}

/* Behind these commands stands an image's name, behind others files and names that are made. */
static const char *const image_words[] = { "check", "runtime", "remove" };

static bool takes_images(const struct verb_command *command) {
        return command && strncmp(command->operands, "IMAGE", 5) == 0;
}

static void list_image_words(const char *separator) {
        for (size_t i = 0; i < sizeof(image_words) / sizeof(image_words[0]); i++)
                printf("%s%s", i == 0 ? "" : separator, image_words[i]);
}

/* What bash offers behind a verb, or behind one of its commands. */
static void print_bash_words(const struct verb *verb, const struct verb_command *command) {
        const char *operands = command ? command->operands : verb->operands;
        const char *kind = command ? NULL : kind_of_names(NULL, operands);

        fputs("COMPREPLY=($(compgen -W \"", stdout);
        list_options(verb, command);
        if (has_words(operands)) {
                printf(" $([[ ${told[%d]} ]] || echo ", command ? 2 : 1);
                list_words(operands);
                putchar(')');
        }
        if (kind)
                printf(" $([[ $word == -* ]] || _berth_names %s)", kind);
        fputs("\" -- \"$word\"))", stdout);
}

static void print_bash_verb(const struct verb *verb) {
        if (!verb->commands) {
                printf("    %s/) ", verb->name);
                print_bash_words(verb, NULL);
                fputs(" ;;\n", stdout);
                return;
        }
        for (const struct verb_command *command = first_command(verb); command->name; command++) {
                printf("    %s/%s) ", verb->name, command->name);
                if (takes_images(command))
                        fputs("[[ $word == -* ]] || { _berth_images; return; }; ", stdout);
                print_bash_words(verb, command);
                fputs(" ;;\n", stdout);
        }
        printf("    %s/*) COMPREPLY=($(compgen -W \"$([[ $word == -* ]] && echo", verb->name);
        list_options(verb, NULL);
        fputs(" || echo ", stdout);
        list_commands(verb, " ");
        fputs(")\" -- \"$word\")) ;;\n", stdout);
}

static void list_verbs_with_commands(const char *separator) {
        const char *between = "";

        for (const struct verb *verb = verbs; verb->name; verb++) {
                if (!verb->commands)
                        continue;
                printf("%s%s", between, verb->name);
                between = separator;
        }
}

static void print_bash(void) {
        fputs("# berth completion for bash: source <(berth completion bash)\n"
              "_berth_told() {\n"
              "    local i where=()\n"
              "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
              "        case ${COMP_WORDS[i]} in\n"
              "        -f|--manifests|--state) where+=(\"${COMP_WORDS[i]}\" \"${COMP_WORDS[i+1]}\") ;;\n"
              "        esac\n"
              "    done\n"
              /* compgen expands what it is given, as the shell would: what a registry or a state calls by more than letters is left out. */
              "    \"${COMP_WORDS[0]}\" \"$@\" -o name \"${where[@]}\" 2>/dev/null | LC_ALL=C grep -xE '[A-Za-z0-9._/:-]+'\n"
              "}\n"
              "_berth_names() { _berth_told get $1 | sed \"${1:+s|.*/||}\"; }\n"
              "# Readline parts words at a colon, and puts what it is given in the place of the last part.\n"
              "_berth_images() {\n"
              "    local line=${COMP_LINE:0:COMP_POINT} parted=\n"
              "    line=${line##*[[:space:]]}\n"
              "    [[ $line != *:* || $COMP_WORDBREAKS != *:* ]] || parted=${line%:*}:\n"
              "    COMPREPLY=($(compgen -W \"$(_berth_told images)\" -- \"$line\"))\n"
              "    COMPREPLY=(\"${COMPREPLY[@]#\"$parted\"}\")\n"
              "}\n"
              "_berth() {\n"
              "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} told=() command= i\n"
              /* The verb, its command and what stands behind: neither options nor their values. At "=" words are parted as well. */
              "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
              "        case ${COMP_WORDS[i]} in\n"
              "        ",
              stdout);
        list_options_with_values("|");
        fputs(") [[ ${COMP_WORDS[i+1]} != = ]] || ((i++)); ((i++)) ;;\n"
              "        -*) ;;\n"
              "        *) told+=(\"${COMP_WORDS[i]}\") ;;\n"
              "        esac\n"
              "    done\n"
              "    case ${told[0]} in\n"
              "    ",
              stdout);
        list_verbs_with_commands("|");
        fputs(") command=${told[1]} ;;\n"
              "    esac\n"
              "    case $previous in\n"
              "    -f|--manifests|-o|--output) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
              "    --state) COMPREPLY=($(compgen -d -- \"$word\")); return ;;\n",
              stdout);
        for (const struct option_row *row = options_rows; row->name; row++) {
                const char *kind = kind_of_names(row->name, row->argument);

                if (!has_words(row->argument) && !kind)
                        continue;
                printf("    --%s) COMPREPLY=($(compgen -W \"", row->name);
                if (kind)
                        printf("$(_berth_names %s)", kind);
                else
                        list_words(row->argument);
                fputs("\" -- \"$word\")); return ;;\n", stdout);
        }
        fputs("    esac\n"
              "    case ${told[0]}/$command in\n"
              "    /) COMPREPLY=($(compgen -W \"",
              stdout);
        list_verbs(" ");
        fputs("\" -- \"$word\")) ;;\n", stdout);
        for (const struct verb *verb = verbs; verb->name; verb++)
                print_bash_verb(verb);
        fputs("    esac\n}\ncomplete -o default -F _berth berth\n", stdout);
}

/* A text inside of single quotes for zsh and fish, with a backslash before each of the characters in `escaped`. */
static void print_quoted(const char *text, const char *escaped) {
        for (; *text; text++) {
                if (*text == '\'') {
                        fputs("'\\''", stdout);
                        continue;
                }
                if (strchr(escaped, *text))
                        putchar('\\');
                putchar(*text);
        }
}

/* The options and operands of a verb, or of one of its commands, which is itself an operand then. */
static void print_zsh_arguments(const struct verb *verb, const struct verb_command *command) {
        const char *operands = command ? command->operands : verb->operands;

        fputs("_arguments", stdout);
        for (const struct option_row *row = options_rows; row->name; row++) {
                if (!takes(verb, command, row))
                        continue;
                /* What takes a value may be given again; _arguments counts it and its value under either name. */
                if (row->argument)
                        fputs(" '*'", stdout);
                else if (has_letter(row))
                        printf(" '(-%c --%s)'", row->id, row->name);
                else
                        putchar(' ');
                if (has_letter(row))
                        printf("{-%c,--%s}'[", row->id, row->name);
                else
                        printf("'--%s[", row->name);
                print_quoted(row->doc, "[]:");
                fputs("]", stdout);
                if (row->argument)
                        printf(":%s:", row->name);
                if (kind_of_names(row->name, row->argument)) {
                        printf(" _berth_names %s'", kind_of_names(row->name, row->argument));
                } else if (has_words(row->argument)) {
                        fputs("(", stdout);
                        list_words(row->argument);
                        fputs(")'", stdout);
                } else {
                        fputs(row->argument ? "_files'" : "'", stdout);
                }
        }
        if (command)
                printf(" '1:command:(%s)'", command->name);
        if (!command && kind_of_names(NULL, operands))
                printf(" '1:name: _berth_names %s'", kind_of_names(NULL, operands));
        if (verb->commands && !command) {
                fputs(" '1:command:(", stdout);
                list_commands(verb, " ");
                fputs(")'", stdout);
        } else if (has_words(operands)) {
                printf(" '%d:what:(", command ? 2 : 1);
                list_words(operands);
                fputs(")'", stdout);
        }
        if (takes_images(command))
                fputs(" '2:image:_berth_images'", stdout);
        fputs(" '*:file:_files' ;;\n", stdout);
}

static void print_zsh_verb(const struct verb *verb) {
        printf("    %s) ", verb->name);
        if (verb->commands) {
                fputs("case $command in\n", stdout);
                for (const struct verb_command *command = first_command(verb); command->name; command++) {
                        printf("        %s) ", command->name);
                        print_zsh_arguments(verb, command);
                }
                fputs("        *) ", stdout);
        }
        print_zsh_arguments(verb, NULL);
        if (verb->commands)
                fputs("        esac ;;\n", stdout);
}

static void print_zsh(void) {
        fputs("#compdef berth\n"
              "# berth completion for zsh: source <(berth completion zsh)\n"
              "_berth_told() {\n"
              "    local -a where\n"
              "    local i\n"
              "    for ((i = 2; i < CURRENT; i++)); do\n"
              "        [[ $words[i] == (-f|--manifests|--state) ]] && where+=($words[i] $words[i+1])\n"
              "    done\n"
              "    names=(${(f)\"$(${program:-$words[1]} $@ -o name $where 2>/dev/null)\"})\n"
              "}\n"
              "_berth_names() {\n"
              "    local -a names\n"
              "    _berth_told get $1\n"
              "    [[ -n $1 ]] && names=(${names##*/})\n"
              "    compadd -a names\n"
              "}\n"
              "_berth_images() {\n"
              "    local -a names\n"
              "    [[ ${words[(r)(",
              stdout);
        list_image_words("|");
        fputs(")]} != '' ]] || { _files; return }\n"
              "    _berth_told images\n"
              "    compadd -a names\n"
              "}\n"
              "_berth() {\n"
              "    local -a verbs\n"
              "    verbs=(\n",
              stdout);
        for (const struct verb *verb = verbs; verb->name; verb++) {
                printf("        '%s:", verb->name);
                print_quoted(verb->doc, ":");
                fputs("'\n", stdout);
        }
        fputs("    )\n"
              "    if (( CURRENT == 2 )); then\n"
              "        _describe 'verb' verbs\n"
              "        return\n"
              "    fi\n"
              "    local program=$words[1] command= i\n" /* what _arguments counts begins behind the verb */
              "    shift words\n"
              "    (( CURRENT-- ))\n"
              "    for ((i = 2; i < CURRENT; i++)); do\n"
              "        case $words[i] in\n"
              "        ",
              stdout);
        list_options_with_values("|");
        fputs(") ((i++)) ;;\n"
              "        -*) ;;\n"
              "        *) command=$words[i]; break ;;\n"
              "        esac\n"
              "    done\n"
              "    case $words[1] in\n",
              stdout);
        for (const struct verb *verb = verbs; verb->name; verb++)
                print_zsh_verb(verb);
        /* In a file of $fpath this is the function's own body; sourced, it has to be made known. */
        fputs("    esac\n}\n"
              "if [[ $funcstack[1] == _berth ]]; then\n"
              "    _berth \"$@\"\n"
              "else\n"
              "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
              "    compdef _berth berth\n"
              "fi\n",
              stdout);
}

/* `at`: where it can stand, as what __berth_at takes. */
static void print_fish_option(const char *at, const struct option_row *row) {
        printf("complete -c berth -n '__berth_at %s' -l %s%s", at, row->name, row->argument ? " -r" : "");
        if (has_letter(row))
                printf(" -s %c", row->id);
        fputs(" -d '", stdout);
        print_quoted(row->doc, "");
        if (kind_of_names(row->name, row->argument)) {
                printf("' -f -a '(__berth_names %s)", kind_of_names(row->name, row->argument));
        } else if (has_words(row->argument)) {
                fputs("' -f -a '", stdout);
                list_words(row->argument);
        }
        fputs("'\n", stdout);
}

/* For the options and operands of a verb, or of one of its commands. */
static void print_fish_arguments(const struct verb *verb, const struct verb_command *command) {
        const char *operands = command ? command->operands : verb->operands;
        char at[64];

        snprintf(at, sizeof(at), "%s%s%s", verb->name, command ? " " : "", command ? command->name : "");
        if (!command && kind_of_names(NULL, operands))
                printf("complete -c berth -n '__berth_at %s' -f -a '(__berth_names %s)'\n", at,
                       kind_of_names(NULL, operands));
        if (has_words(operands)) {
                printf("complete -c berth -n '__berth_at %s; and __berth_is %d' -f -a '", at,
                       command ? 2 : 1);
                list_words(operands);
                fputs("'\n", stdout);
        }
        if (takes_images(command))
                printf("complete -c berth -n '__berth_at %s' -f -a '(__berth_told images)'\n", at);
        for (const struct option_row *row = options_rows; row->name; row++) {
                if (takes(verb, command, row))
                        print_fish_option(at, row);
        }
}

static void print_fish_commands(const struct verb *verb) {
        char at[64];

        for (const struct verb_command *command = first_command(verb); command->name; command++) {
                printf("complete -c berth -n '__berth_at %s; and __berth_is 1' -f -a %s -d '", verb->name,
                       command->name);
                print_quoted(command->doc, "");
                fputs("'\n", stdout);
                print_fish_arguments(verb, command);
        }
        /* In front of the command, and without one. */
        snprintf(at, sizeof(at), "%s; and __berth_is 1", verb->name);
        for (const struct option_row *row = options_rows; row->name; row++) {
                if (options_row_takes(row, verb))
                        print_fish_option(at, row);
        }
}

static void print_fish(void) {
        fputs("# berth completion for fish: berth completion fish > ~/.config/fish/completions/berth.fish\n"
              "function __berth_told\n"
              "    set -l words (commandline -opc)\n"
              "    set -l where\n"
              "    for i in (seq 2 (count $words))\n"
              "        contains -- $words[$i] -f --manifests --state; and set -a where $words[$i] $words[(math $i + 1)]\n"
              "    end\n"
              "    $words[1] $argv -o name $where 2>/dev/null\n"
              "end\n"
              "function __berth_names\n"
              "    set -l names (__berth_told get $argv)\n"
              "    test -n \"$argv\"; and set names (string replace -r '.*/' '' -- $names)\n"
              "    printf '%s\\n' $names\n"
              "end\n"
              "# The verb, its command and what stands behind: neither options nor their values.\n"
              "function __berth_operands\n"
              "    set -l skip no\n"
              "    for word in (commandline -opc)[2..-1]\n"
              "        if test $skip = yes\n"
              "            set skip no\n"
              "        else if contains -- $word ",
              stdout);
        list_options_with_values(" ");
        fputs("\n"
              "            set skip yes\n"
              "        else if not string match -q -- '-*' $word\n"
              "            printf '%s\\n' $word\n"
              "        end\n"
              "    end\n"
              "end\n"
              "# Whether the line goes so; whether it has so many operands yet.\n"
              "function __berth_at\n"
              "    set -l operands (__berth_operands)\n"
              "    set -l count (count $argv)\n"
              "    test \"$operands[1..$count]\" = \"$argv\"\n"
              "end\n"
              "function __berth_is\n"
              "    test (count (__berth_operands)) -eq $argv[1]\n"
              "end\n",
              stdout);
        for (const struct verb *verb = verbs; verb->name; verb++) {
                fputs("complete -c berth -n '__berth_is 0' -f -a ", stdout);
                printf("%s -d '", verb->name);
                print_quoted(verb->doc, "");
                fputs("'\n", stdout);
                if (verb->commands)
                        print_fish_commands(verb);
                else
                        print_fish_arguments(verb, NULL);
        }
}

int verb_completion(const struct options *options, struct error *err) {
        static const struct {
                const char *name;
                void (*print)(void);
        } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };

        for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
                if (strcmp(options->operands[0], shells[i].name) == 0) {
                        shells[i].print();
                        return EXIT_DONE;
                }
        }
        return error_set(err, "berth completion takes bash, zsh or fish, not \"%s\"", options->operands[0]);
}
