# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev fuzz [NAME ...] [--seconds N]: each fuzzer named, or all, one after the other. What they find is kept in
# build/found/NAME, and the input of a crash beside it. Sourced by dev.

# An input of a length that gets through in good time.
longest_input() {
    case $1 in
    state_file) echo 170000 ;;
    local_image | saved_plan) echo 16384 ;;
    aws_functions | aws_storage) echo 12288 ;;
    *) echo 8192 ;;
    esac
}

fuzz_one() {
    local name=$1 seconds=$2 seeds=$PWD/tests/fuzz/corpus/$1 found=$PWD/build/found/$1 dictionary=() leaks=1
    [ "$name" != manifest ] || seeds=$PWD/tests/unit/schema/corpus
    case $name in
    aws_functions | aws_storage) dictionary=("-dict=tests/fuzz/aws.dict") ;;
    *) [ ! -f "tests/fuzz/$name.dict" ] || dictionary=("-dict=tests/fuzz/$name.dict") ;;
    esac
    # Threads of a server are in the midst of things when an input ends: what leaks is looked for when they have ended.
    [ "$name" != broker ] || leaks=0
    mkdir -p "$found"
    UBSAN_OPTIONS=print_stacktrace=1 "build/fuzz/tests/fuzz/${name}_fuzz" -max_total_time="$seconds" -rss_limit_mb=1024 \
        -detect_leaks="$leaks" -timeout=25 -print_final_stats=1 -artifact_prefix="$PWD/build/found/$name-" -max_len="$(longest_input "$name")" \
        "${dictionary[@]}" "$found" "$seeds" </dev/null >"$PWD/build/found/$name.log" 2>&1
}

run_fuzz() {
    local seconds=900 names=() name failed=()
    while [ $# -gt 0 ]; do
        case $1 in
        --seconds)
            [ $# -ge 2 ] || die "--seconds needs a number"
            seconds=$2
            shift
            ;;
        *)
            [ -f "tests/fuzz/$1_fuzz.c" ] || die "no such fuzzer: $1 (see tests/fuzz/README.md)"
            names+=("$1")
            ;;
        esac
        shift
    done
    need_packages "${BUILD_PACKAGES[@]}" "${PRESET_PACKAGES[@]}" clang libclang-rt-dev
    build fuzz fuzzers
    if [ ${#names[@]} -eq 0 ]; then
        for name in tests/fuzz/*_fuzz.c; do
            name=${name##*/}
            names+=("${name%_fuzz.c}")
        done
    fi
    mkdir -p build/found
    for name in "${names[@]}"; do
        say "$name: $seconds s, log in build/found/$name.log"
        if ! fuzz_one "$name" "$seconds"; then
            failed+=("$name")
            tail -n 40 "build/found/$name.log" >&2
        fi
    done
    [ ${#failed[@]} -eq 0 ] || die "found something: ${failed[*]}"
    say "found nothing"
}
