# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench: builds what is shipped and measures it. Sourced by dev.

run_bench() {
    need_packages "${BUILD_PACKAGES[@]}" python3
    build release berth yaml_floor settle
    /usr/bin/python3 bench/run --build build/release "$@"
}
