# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev lint: the rules of the tree first (seconds), then the compilers (minutes). Every check runs and
# says all that it found; the command fails if one of them found anything. Sourced by dev.

# Headers of other projects, and how many modules (a .c and its .h) may include them. Tests are free.
THIRD_PARTY=(
    '<lmdb\.h> 1'
    '<curl/ 1'
    '<yaml\.h> 3' # reading, printing, laying out
    '<git2\.h> 1'
    '<libxml/ 1'
    '<utf8proc\.h> 1'
    '<seccomp\.h> 2' # the sandbox's filter and the cages'
    '<dlfcn\.h> 1'
    '<histedit\.h> 1'
    '<openssl/ 4' # hashes; public keys; TLS; ClientHellos of those who go out
    '<archive(_entry)?\.h> 3' # reading, writing tars, writing zips
)
# No bound, no reentrancy, no error, or a shell: use what base/ has instead.
BANNED='rand|srand|strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|localtime|gmtime|ctime|asctime|tmpnam|mktemp|system|popen|alloca'

FAILED_CHECKS=()

# check NAME COMMAND [ARGUMENT ...]: a check fails if it says anything on stdout, or by its exit code.
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1) && [ -z "$output" ]; then
        say "ok      $name"
    else
        say "FAILED  $name"
        printf '%s\n' "$output" >&2
        FAILED_CHECKS+=("$name")
    fi
}

# The files that git knows and that are still there, one a line.
tracked() {
    local file
    while IFS= read -r -d '' file; do
        [ ! -f "$file" ] || printf '%s\n' "$file"
    done < <(git -c safe.directory="$PWD" ls-files -z -- "$@")
}

# Files that become part of the program.
product_files() { tracked '*.c' '*.h' | grep -Ev '^(tests|bench)/' || true; }

each_folder_has_a_readme() {
    local folder
    tracked | sed -n 's|^\(.*\)/[^/]*$|\1|p' | sort -u |
        grep -Ev '^(\.|docs|examples/manifests)|/.*/' | while IFS= read -r folder; do
        [ "$folder" = tests ] || [ -f "$folder/README.md" ] || echo "$folder/: no README.md"
    done
}

each_source_says_its_licence() {
    local file
    tracked '*.c' '*.h' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' '*.yaml' dev bench/run .ci/run |
        grep -Ev '^tests/(golden|fuzz|unit|e2e)/.*\.ya?ml$' | while IFS= read -r file; do
        [ ! -s "$file" ] || head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
            echo "$file: no SPDX line on top"
    done
}

third_party_stays_in_one_module() {
    local row pattern most modules
    for row in "${THIRD_PARTY[@]}"; do
        pattern=${row% *} most=${row##* }
        modules=$(product_files | xargs -r grep -lE "^#include $pattern" | sed 's/\.[ch]$//' | sort -u || true)
        [ "$(grep -c . <<<"$modules")" -le "$most" ] ||
            printf '%s is included in more than %s module:\n%s\n' "$pattern" "$most" "$modules"
    done
}

# Beside threads, a fork copies locks that are never freed; and a process that is started elsewhere has no bounds. A sandbox's
# first process begins in its cgroup, which posix_spawn cannot do; the worker of a command on the host has no threads, and gives
# up its rights in between.
programs_are_started_in_one_place() {
    product_files | grep -Ev '^(process|providers/local/sandbox)/|^approvals/shell_worker\.c$' | xargs -r grep -nEw '(v?fork|posix_spawnp?) ?\(' || true
}

nothing_banned_is_called() { product_files | xargs -r grep -nEw "($BANNED) ?\(" || true; }

each_header_compiles_alone() {
    local flags has
    read -ra flags < <(pkg-config --cflags jansson lmdb libcurl libxml-2.0 libcrypto yaml-0.1 libutf8proc cmocka)
    configure clang # which finds out what the C library has: base/libc.h
    mapfile -t has < <(grep -o -- '-DBERTH_HAS_[A-Z0-9_]*' build/clang/compile_commands.json | sort -u)
    tracked '*.h' | xargs -r -P "$(nproc)" -I '{}' clang -fsyntax-only -x c -std=c17 -D_GNU_SOURCE -Wall -Wextra \
        -Wno-unused-function -Werror -I. -Itests/unit "${has[@]}" "${flags[@]}" '{}'
}

# Undefined names, names defined twice, and unused imports. A test's parameter may have the name of the fixture that it imports:
# what stands that far to the right is one.
python_names_are_sound() {
    tracked '*.py' | xargs -r flake8 --isolated --select=F |
        awk -F: '!/ F811 / || $3 < 9' || true
}

words_are_plain() { python3 tools/words.py; }

sizes_and_names() { "$VENV/bin/python" tools/ceilings.py; }

formatting() {
    tracked '*.c' '*.h' | xargs -r clang-format --dry-run -Werror 2>&1 | sed -n 's/:[0-9]*:[0-9]*: error: .*//p' |
        sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2: \1 places; .\/dev format mends them/'
}

# On to the end, so that one run shows every warning.
clang_builds_it() {
    configure clang
    # Ninja says that even if it should be quiet.
    cmake --build --preset clang -- --quiet -k 0 | sed '/^ninja: no work to do\.$/d'
}

# The analyzer, nearly all of the time that this takes, looks at what ships. Tests run under sanitizers, which see what it guesses.
clang_tidy() {
    local files failed=0
    files=$(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/clang/compile_commands.json | sort -u)
    grep -v '/tests/' <<<"$files" | xargs -r -P "$(nproc)" -n 1 clang-tidy -p build/clang --quiet 2>/dev/null || failed=1
    grep '/tests/' <<<"$files" |
        xargs -r -P "$(nproc)" -n 16 clang-tidy -p build/clang --quiet --checks='-clang-analyzer-*' 2>/dev/null || failed=1
    return "$failed"
}

run_lint() {
    need_lint
    check "each folder has a README.md" each_folder_has_a_readme
    check "each source has its SPDX line" each_source_says_its_licence
    check "third-party headers stay in one module" third_party_stays_in_one_module
    check "programs are started in one place" programs_are_started_in_one_place
    check "no banned function is called" nothing_banned_is_called
    check "names in Python" python_names_are_sound
    check "plain words" words_are_plain
    check "sizes and names" sizes_and_names
    check "formatting" formatting
    check "each header compiles alone" each_header_compiles_alone
    check "clang builds everything without a warning" clang_builds_it
    if [[ ${FAILED_CHECKS[*]} != *"clang builds"* ]]; then
        check "clang-tidy" clang_tidy
    else
        say "skipped clang-tidy: what does not compile only confuses it"
    fi
    [ ${#FAILED_CHECKS[@]} -eq 0 ] || die "failed: $(printf '%s; ' "${FAILED_CHECKS[@]}")"
    say "lint found nothing"
}
