# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev release: everything of a release in one folder, from what is committed: docs/releasing.md. Sourced by dev.

# shellcheck source=tools/package.sh
source tools/package.sh

# A release says which commit it is, and that must be all there is to say.
release_version() {
    local version changed
    version=$(sed -n 's/^project(berth VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
    changed=$(git status --porcelain) || die "a release is made from a clone of the repository"
    [ -z "$changed" ] || die "a release is made of what is committed; these files differ from it:"$'\n'"$changed"
    grep -Eqx "## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}" CHANGELOG.md ||
        die "CHANGELOG.md has no '## [$version] - YYYY-MM-DD': CMakeLists.txt says that this is $version"
    echo "$version"
}

run_release() {
    local version folder epoch release deb
    version=$(release_version)
    need_roots
    need_carried
    folder=build/releases/$version
    epoch=$(git log -1 --format=%ct)
    rm -rf "$folder" "$folder.new"
    mkdir -p "$folder.new"
    git archive --prefix="berth-$version/" HEAD | gzip -n -9 >"$folder.new/berth-$version.tar.gz"
    for release in "${RELEASES[@]}"; do
        package_make "$release" "$PACKAGES/$release"
        deb=$(echo "$PACKAGES/$release"/*.deb)
        say "looking at the package for $release where it is installed"
        package_install "$release" "$deb" tini gpgv openssh-client
        cp "$deb" "$folder.new/"
        deb=${deb##*/}
        /usr/bin/python3 tools/release/sbom.py "$ROOTS/$release-installed" "$folder.new/$deb" "$epoch" "$folder.new/${deb%.deb}.spdx.json"
    done
    # Of the newest release: the last one.
    say "making the image"
    /usr/bin/python3 tools/release/image.py "$ROOTS/$release-installed" "$epoch" "$folder.new/berth-$version-oci.tar"
    (cd "$folder.new" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
    mv "$folder.new" "$folder"
    say "the release is in $folder:"
    (cd "$folder" && ls -l >&2)
}
