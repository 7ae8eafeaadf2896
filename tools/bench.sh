# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench [--preset NAME] [NAME ...]: builds what is shipped, or that preset, and measures it. Sourced by dev.

run_bench() {
    local preset=release
    if [ "${1:-}" = --preset ]; then
        preset=$2
        shift 2
    fi
    need_tests # whose stand-in for AWS it applies to
    need_packages time valgrind
    # A peer to compare with, not something that Berth needs: without the right to install it, it is left out by name.
    [ "$(id -u)" -ne 0 ] || need_packages podman runc
    build "$preset" berth berth-runtime yaml_floor settle pretend agree
    "$VENV/bin/python" bench/run --build "build/$preset" "$@"
}
