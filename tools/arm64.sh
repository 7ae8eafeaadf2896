# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev arm64: the program and its unit tests, built for arm64 by a cross compiler in a fresh Debian, and run there by qemu-user, which
# gives the architecture's instructions and none of its kernel. Sourced by dev.

# shellcheck source=tools/crossing.sh
source tools/crossing.sh

ARM64_PACKAGES=(build-essential cmake ninja-build pkg-config python3 git crossbuild-essential-arm64 qemu-user)
# Tests of what qemu-user has not or cannot be: namespaces, filters, cgroups, Landlock, openat2(2), processes looked at in /proc, locks and
# shared memory between processes.
ARM64_LEFT_OUT='^(base/beneath_|controller/transfer_|gitops/controller_metrics_|process/|providers/aws/client/(command|quota_shared)_'
ARM64_LEFT_OUT+='|providers/aws/shared/lock_holder_|providers/local/|server/(listen|self)_|state/shared_interleaving_)'

# arm64_libraries: those that the program and its tests are built with, of that architecture.
arm64_libraries() {
    local package
    for package in "${BUILD_PACKAGES[@]}" "${PRESET_PACKAGES[@]}"; do
        case $package in lib*-dev) echo "$package:arm64" ;; esac
    done
}

run_arm64() {
    local root=$ROOTS/bookworm-crossing libraries
    need_roots
    mapfile -t libraries < <(arm64_libraries)
    root_unpack "$(root_archive bookworm arm64 "${ARM64_PACKAGES[@]}" "${libraries[@]}")" "$root"
    crossing_test "$root" arm64 "$ARM64_LEFT_OUT" "$@"
}
