# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev arm64: the program and its unit tests, built for arm64 by a cross compiler in a fresh Debian, and run there by qemu-user, which
# gives the architecture's instructions and none of its kernel. Sourced by dev.

# shellcheck source=tools/crossing.sh
source tools/crossing.sh

ARM64_PACKAGES=(build-essential cmake ninja-build pkg-config python3 git crossbuild-essential-arm64 qemu-user)
# What qemu-user has not or cannot be: "TESTS: why they are left out". It is said each time.
ARM64_LEFT_OUT=(
    'base/beneath_|sessions/workspace_still_: qemu-user has no openat2(2)'
    'controller/transfer_|state/shared_interleaving_|providers/aws/client/quota_shared_|providers/aws/shared/lock_holder_: locks and memory shared by processes'
    'gitops/controller_metrics_|server/self_: a process that looks at itself in /proc sees qemu-user'
    'process/|providers/aws/client/command_|providers/local/|server/listen_: namespaces, filters, cgroups, Landlock, how processes start and end'
)

# arm64_libraries: those that the program and its tests are built with, of that architecture.
arm64_libraries() {
    local package
    for package in "${BUILD_PACKAGES[@]}" "${PRESET_PACKAGES[@]}"; do
        case $package in lib*-dev) echo "$package:arm64" ;; esac
    done
}

run_arm64() {
    local root=$ROOTS/bookworm-crossing libraries row left_out=''
    need_roots
    mapfile -t libraries < <(arm64_libraries)
    root_unpack "$(root_archive bookworm arm64 "${ARM64_PACKAGES[@]}" "${libraries[@]}")" "$root"
    for row in "${ARM64_LEFT_OUT[@]}"; do
        say "left out: ${row%%: *}: ${row#*: }"
        left_out+=${left_out:+|}${row%%: *}
    done
    crossing_test "$root" arm64 "^($left_out)" "$@"
}
