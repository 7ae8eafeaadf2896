# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev test: build, ctest, pytest. Sourced by dev. pytest runs last, so that its closing line is the run's. --quick: tests/e2e/quick.py.

# A sanitizer's report must fail the test in which it happens: Berth's own exit codes are 0 to 4, so this is another one, and a
# test that expects 1 does not take a crash for it.
sanitizer_environment() {
    local common=exitcode=86:halt_on_error=1
    export ASAN_OPTIONS=$common:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
    export UBSAN_OPTIONS=$common:print_stacktrace=1
    export TSAN_OPTIONS=$common:second_deadlock_stack=1
    export LSAN_OPTIONS=exitcode=86
}

# Three workers more than there are processors: a test waits for two thirds of its time. Each has stand-ins of its own, 600 MB
# with them; a test may need as much again. More than eight would only be more servers to start. A test named by its file is not
# worth them: it runs in this process.
workers() {
    local count most
    count=$(($(nproc) + 3))
    most=$(awk '$1 == "MemAvailable:" { print int($2 / 1200000) }' /proc/meminfo)
    most=$((most > 8 ? 8 : most < 1 ? 1 : most))
    echo $((count > most ? most : count))
}

# What processes of the tests compile is kept in build/pycache, whatever this machine's habit is.
tests_python() {
    env -u PYTHONDONTWRITEBYTECODE BERTH_BIN="$PWD/build/$preset/berth" PYTHONPATH=tests/e2e PYTHONPYCACHEPREFIX="$PWD/build/pycache" \
        "$VENV/bin/python" "$@"
}

run_test() {
    local preset=dev unit=yes e2e=yes quick=no failed=0 arguments=() paths=(tests/e2e)
    local parallel=(--numprocesses "$(workers)" --dist loadscope)
    while [ $# -gt 0 ]; do
        case $1 in
        --preset)
            [ $# -ge 2 ] || die "--preset needs a name"
            preset=$2
            shift
            ;;
        --preset=*) preset=${1#*=} ;;
        --unit) e2e=no ;;
        --e2e) unit=no ;;
        --quick)
            quick=yes
            arguments+=(--quick)
            rm -f build/quick.verbs build/quick.routes
            export BERTH_VERBS=$PWD/build/quick.verbs BERTH_ROUTES=$PWD/build/quick.routes
            ;;
        *)
            # A test named by its file takes the place of the whole suite.
            if [ -e "${1%%::*}" ]; then
                paths=()
                parallel=()
            fi
            arguments+=("$1")
            ;;
        esac
        shift
    done

    need_tests
    need_node
    build "$preset"
    sanitizer_environment

    # Each of pytest's processes collects all tests, and compiling them is three quarters of that: it is done once, beside ctest.
    local compiled=''
    if [ "$unit$e2e" = yesyes ] && [ ${#parallel[@]} -gt 0 ]; then
        tests_python -m pytest --collect-only --quiet "${paths[@]}" >/dev/null 2>&1 </dev/null &
        compiled=$!
    fi
    if [ "$unit" = yes ]; then
        say "unit tests"
        ctest --preset "$preset" --parallel "$(workers)" || failed=$?
        "$VENV/bin/node" --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --test --test-reporter=dot tests/unit/panel/*.mjs || failed=$?
    fi
    [ -z "$compiled" ] || wait "$compiled" || true # pytest below says what is wrong
    if [ "$e2e" = yes ]; then
        say "end-to-end tests"
        local code=0
        tests_python -m pytest "${parallel[@]}" "${paths[@]}" "${arguments[@]}" || code=$?
        [ "$failed" -eq 0 ] || say "the unit tests failed too: their list stands above pytest's output"
        [ "$code" -eq 0 ] || failed=$code
        if [ "$quick" = yes ] && [ "$code" -eq 0 ]; then
            "$VENV/bin/python" tests/e2e/quick.py "$PWD/build/$preset/berth" "$BERTH_VERBS" "$BERTH_ROUTES" || failed=$?
        fi
    fi
    return "$failed"
}
