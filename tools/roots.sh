# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Fresh Debians in folders, in which packages are made and tried. Sourced by package.sh and release.sh.
#
# One is unpacked from an archive in build/roots, which mmdebstrap has made once, by the sources of packages that it knows by itself.
# Its processes have it as their whole file system, and not by chroot(2): below that, the kernel lets nobody make a user namespace, and
# Berth no sandbox.

RELEASES=(bookworm trixie)
ROOTS=build/roots

need_roots() {
    [ "$(id -u)" -eq 0 ] || die "fresh Debians take root here: sudo ./dev ..."
    need_packages mmdebstrap
}

# root_archive RELEASE KIND [PACKAGE ...]: its path. It is made again when the packages are others, and when it is a week old.
root_archive() {
    local release=$1 kind=$2 archive=$ROOTS/$1-$2.tar packages architectures
    shift 2
    packages=$(IFS=, && echo "ca-certificates,mount${*:+,$*}")
    # A package "NAME:ARCHITECTURE" brings that architecture.
    architectures=$( (dpkg --print-architecture && printf '%s\n' "$@" | sed -n 's/.*://p' | sort -u) | paste -sd,)
    if [ "$(cat "$archive.made" 2>/dev/null)" != "$packages" ] || [ -n "$(find "$archive" -mtime +7)" ]; then
        say "making a Debian $release ($kind)"
        mkdir -p "$ROOTS"
        rm -f "$archive.made"
        nice mmdebstrap --variant=apt --architectures="$architectures" --include="$packages" "$release" "${archive%.tar}.new.tar" </dev/null >"$archive.log" 2>&1 ||
            die "mmdebstrap failed: $archive.log"
        mv "${archive%.tar}.new.tar" "$archive"
        echo "$packages" >"$archive.made"
    fi
    echo "$archive"
}

# root_unpack ARCHIVE FOLDER: in place of what lay there.
root_unpack() {
    rm -rf --one-file-system "$2"
    mkdir -p "$2"
    tar -C "$2" -xf "$1"
    [ -e "$2/etc/hosts" ] || printf '127.0.0.1 localhost\n::1 localhost\n' >"$2/etc/hosts"
    # Packages are fetched as this machine does: its resolver, its proxies.
    cp /etc/resolv.conf "$2/etc/"
    apt-config dump | grep -E '^Acquire::https?::Proxy' >"$2/etc/apt/apt.conf.d/99machine" || true
}

# root_enter FOLDER COMMAND [ARGUMENT ...]: there, as root, with processes of its own; what is left of them ends with the command.
root_enter() {
    # shellcheck disable=SC2016 # the inner shell's own
    unshare --mount --pid --uts --ipc --fork --kill-child sh -euc '
        root=$1
        shift
        mount --make-rprivate /
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        mount -t tmpfs -o mode=755 tmpfs "$root/run"
        mkdir "$root/run/before"
        cd "$root"
        pivot_root . run/before
        umount -l /run/before
        rmdir /run/before
        exec env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' sh "$(realpath "$1")" "${@:2}"
}
