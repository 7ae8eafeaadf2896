# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench: builds what is shipped and measures it. Sourced by dev.

run_bench() {
    need_tests # whose stand-in for AWS it applies to
    need_packages time
    # A peer to compare with, not something that Berth needs: without the right to install it, it is left out by name.
    [ "$(id -u)" -ne 0 ] || need_packages podman runc
    build release berth berth-runtime yaml_floor settle pretend agree
    "$VENV/bin/python" bench/run --build build/release "$@"
}
