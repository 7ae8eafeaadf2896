# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev package: Debian packages, each made in a fresh Debian of its release, and tried in another. Sourced by dev.

# shellcheck source=tools/roots.sh
source tools/roots.sh

PACKAGES=build/packages

package_usage() {
    cat >&2 <<'END'
usage: ./dev package [--release bookworm|trixie] COMMAND

  build                      makes the packages of both releases in build/packages/RELEASE, without any network
  test [PYTEST ARGUMENTS]    makes them, and tries them: tests/package/README.md
END
}

# package_sources [COMMIT]: what a commit says; without one this tree, with its changes.
package_sources() {
    if [ $# -gt 0 ] || [ -z "$(git status --porcelain)" ]; then
        git archive "${1:-HEAD}"
    else
        git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
            [ ! -e "$file" ] || printf '%s\0' "$file"
        done | tar -c --null -T -
    fi
}

# package_unpack RELEASE WHERE [COMMIT]: a fresh Debian that can build, with the sources there; locked until descriptor 7 is
# closed.
package_unpack() {
    local root=$ROOTS/$1-making
    mkdir -p "$ROOTS"
    exec 7>"$root.lock" && flock 7
    root_unpack "$(root_archive "$1" build file "${BUILD_PACKAGES[@]}")" "$root"
    mkdir -p "$root$2/build/tools"
    package_sources "${@:3}" | tar -C "$root$2" -x
    cp -r build/tools/cloudpickle-* "$root$2/build/tools/"
}

# package_make RELEASE FOLDER [WHERE]: the package of the release, in the folder. WHERE it is built, in the fresh Debian, does
# not matter.
package_make() {
    local release=$1 folder=$2 where=${3:-/usr/src/berth} root=$ROOTS/$1-making epoch
    epoch=$(git log -1 --format=%ct)
    package_unpack "$release" "$where"
    mkdir -p "$folder"
    say "making the package for $release"
    # shellcheck disable=SC2016 # the inner shell's own
    root_enter "$root" unshare --net nice sh -euc '
        cd "$1"
        export SOURCE_DATE_EPOCH=$2
        cmake --preset package >build/log
        cmake --build --preset package -- --quiet -k 0
        cd build/package
        cpack -G DEB
    ' sh "$where" "$epoch" >"$folder/log" 2>&1 || {
        tail -n 30 "$folder/log" >&2
        die "the package could not be made: $folder/log"
    }
    rm -f "$folder"/*.deb
    cp "$root$where"/build/package/*.deb "$folder/"
    rm -rf --one-file-system "$root"
    exec 7>&-
}

# package_commit_before: the last commit of the version before this one; fails where the history here does not reach it.
package_commit_before() {
    local commit said now=''
    while read -r commit; do
        said=$(git show "$commit:CMakeLists.txt" 2>/dev/null | sed -n 's/^project(berth VERSION \([0-9.]*\) .*/\1/p')
        now=${now:-$said}
        [ "$said" = "$now" ] || {
            echo "$commit"
            return
        }
    done < <(git rev-list --first-parent HEAD)
    return 1
}

# package_before RELEASE DEB COMMIT FOLDER: a package in which the programs are those of COMMIT, an older version's. The files
# around them are DEB's, since there were versions before there were packages.
package_before() {
    local release=$1 root=$ROOTS/$1-making where=/usr/src/berth
    package_unpack "$release" "$where" "$3"
    cp "$2" "$root/tmp/now.deb"
    say "making the package of the version before for $release"
    # shellcheck disable=SC2016 # the inner shell's own
    root_enter "$root" unshare --net nice sh -euc '
        cd "$1"
        cmake -S . -B build/before -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr
        cmake --build build/before -- --quiet
        DESTDIR=/tmp/old cmake --install build/before --strip
        version=$(/tmp/old/usr/bin/berth version | cut -d" " -f2)
        dpkg-deb -R /tmp/now.deb /tmp/before
        cp /tmp/old/usr/bin/berth /tmp/before/usr/bin/
        cp /tmp/old/usr/libexec/berth/berth-runtime /tmp/before/usr/libexec/berth/
        sed -i "s/^Version: [^-]*/Version: $version/" /tmp/before/DEBIAN/control
        cd /tmp/before
        find usr -type f -exec md5sum {} + >DEBIAN/md5sums
        dpkg-deb --root-owner-group -b . /tmp/before.deb
    ' sh "$where" >"$4/before.log" 2>&1 || {
        tail -n 30 "$4/before.log" >&2
        die "the package of the version before could not be made: $4/before.log"
    }
    cp "$root/tmp/before.deb" "$4/"
    rm -rf --one-file-system "$root"
    exec 7>&-
}

# package_install RELEASE DEB [PACKAGE ...]: into a fresh Debian, build/roots/RELEASE-installed, with other packages beside it.
package_install() {
    local root=$ROOTS/$1-installed
    root_unpack "$(root_archive "$1" plain)" "$root"
    cp "$2" "$root/tmp/"
    root_enter "$root" sh -euc 'apt-get -q update; apt-get -q -y --no-install-recommends install "$@"' sh "/tmp/${2##*/}" "${@:3}" >"$root.log" 2>&1 || {
        tail -n 30 "$root.log" >&2
        die "the package could not be installed: $root.log"
    }
}

run_package() {
    local releases=("${RELEASES[@]}") release
    while [ $# -gt 0 ]; do
        case $1 in
        --release) releases=("${2:-}") && shift ;;
        *) break ;;
        esac
        shift
    done
    case ${1:-} in
    build | test) ;;
    *)
        package_usage
        die "unknown command '${1:-}'"
        ;;
    esac
    need_roots
    need_carried
    for release in "${releases[@]}"; do
        package_make "$release" "$PACKAGES/$release"
    done
    [ "$1" = test ] || return 0
    shift
    need_tests
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --no-input spdx-tools==0.8.5 </dev/null >&2 # judges lists of parts
    BERTH_PACKAGES=$PWD/$PACKAGES BERTH_PACKAGE_RELEASES="${releases[*]}" PYTHONPATH=tests/e2e PYTHONPYCACHEPREFIX=$PWD/build/pycache \
        "$VENV/bin/python" -m pytest -c tests/e2e/pytest.ini --rootdir tests/package tests/package "$@"
}
