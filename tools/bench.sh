# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench: builds what is shipped and measures it. Sourced by dev.

run_bench() {
    need_packages "${BUILD_PACKAGES[@]}" python3 bubblewrap
    # A peer to compare with, not something that Berth needs: without the right to install it, it is left out by name.
    [ "$(id -u)" -ne 0 ] || need_packages podman runc
    build release berth yaml_floor settle
    /usr/bin/python3 bench/run --build build/release "$@"
}
