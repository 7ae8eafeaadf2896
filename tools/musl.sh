# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev musl: the program and its unit tests with musl as their C library, in a fresh Debian whose packages of musl they are built with.
# Of the libraries Debian has none for musl: they are made of its sources once, and kept. Sourced by dev.

# shellcheck source=tools/crossing.sh
source tools/crossing.sh

# The last of them are for making the libraries.
MUSL_PACKAGES=(build-essential cmake ninja-build pkg-config python3 git musl-tools gperf autoconf automake libtool)
MUSL_FOLDERS=(usr/lib/x86_64-linux-musl usr/include/x86_64-linux-musl)
MUSL_LEFT_OUT='^$'

# musl_libraries ROOT: those that the program is built with, in a Debian that is unpacked; made where they are not, or another way.
musl_libraries() {
    local archive=$ROOTS/bookworm-musl-libraries.tar wanted
    wanted=$(sha256sum <tools/musl_libraries.sh)
    if [ "$(cat "$archive.made" 2>/dev/null)" = "$wanted" ]; then
        tar -C "$1" -xf "$archive"
        return
    fi
    say "making the libraries for musl: a quarter of an hour"
    rm -f "$archive.made"
    cp tools/musl_libraries.sh "$1/usr/src/"
    root_enter "$1" nice sh /usr/src/musl_libraries.sh >"$archive.log" 2>&1 || {
        tail -n 30 "$archive.log" >&2
        die "the libraries for musl could not be made: $archive.log"
    }
    tar -C "$1" -cf "$archive" "${MUSL_FOLDERS[@]}"
    echo "$wanted" >"$archive.made"
}

run_musl() {
    local root=$ROOTS/bookworm-musl
    [ "$(uname -m)" = x86_64 ] || die "musl is tried on x86-64 alone"
    need_roots
    root_unpack "$(root_archive bookworm musl "${MUSL_PACKAGES[@]}")" "$root"
    musl_libraries "$root"
    crossing_test "$root" musl "$MUSL_LEFT_OUT" "$@"
}
