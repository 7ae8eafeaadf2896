# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The program and its unit tests for another architecture or another C library than this machine's, built and run in a fresh Debian.
# Sourced by arm64.sh and musl.sh.

# shellcheck source=tools/roots.sh
source tools/roots.sh
# shellcheck source=tools/package.sh
source tools/package.sh

# crossing_test ROOT PRESET LEFT_OUT [CTEST ARGUMENT ...]: of this tree, in a Debian that is unpacked. Tests that match LEFT_OUT are not run.
crossing_test() {
    local root=$1
    shift
    need_carried
    mkdir -p "$root/usr/src/berth/build/tools"
    package_sources | tar -C "$root/usr/src/berth" -x
    cp -r build/tools/cloudpickle-* "$root/usr/src/berth/build/tools/"
    say "building for $1: a few minutes"
    # shellcheck disable=SC2016 # the inner shell's own
    root_enter "$root" nice sh -euc '
        cd /usr/src/berth
        preset=$1
        left_out=$2
        shift 2
        cmake --preset "$preset" >build/log
        cmake --build --preset "$preset" -- --quiet -k 0 >&2
        exec ctest --preset "$preset" --exclude-regex "$left_out" "$@"
    ' sh "$@"
}
