# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What every command of ./dev shares: messages, packages, the Python environment, builds.
# Sourced from the project's root, under `set -euo pipefail`.

# The program alone. With python3 its kernel is compiled when Berth is built, and not by each sandbox.
BUILD_PACKAGES=(build-essential cmake ninja-build pkg-config libyaml-dev libcurl4-openssl-dev libssl-dev
    libjansson-dev liblmdb-dev libxml2-dev libseccomp-dev libarchive-dev libgit2-dev libedit-dev
    libutf8proc-dev libc-ares-dev python3-venv ca-certificates)
# Besides, for the presets, which build the unit tests as well.
PRESET_PACKAGES=(libcmocka-dev git)
# What berth exec needs on the machine that it runs on.
RUN_PACKAGES=(bubblewrap python3)
TEST_PACKAGES=(python3 skopeo bubblewrap graphviz groff-base zsh fish
    chromium fonts-dejavu-core apache2-bin gnupg gpgv openssh-client libwrap0 mmdebstrap curl jq openssl zstd mount)
# Their programs are used by tests, but installed they would start services on the user's machine.
UNPACKED_PACKAGES=(openssh-server prometheus)
# Debian 13 has promtool in a package of its own, and a sshd that wants one library more.
if [ "$(. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-}")" != 12 ]; then
    TEST_PACKAGES+=(libwtmpdb0)
    UNPACKED_PACKAGES=(openssh-server promtool)
fi
LINT_PACKAGES=(clang clang-format clang-tidy flake8 universal-ctags)

VENV=build/venv

say() { printf 'dev: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# Asked once for all of them: each dpkg-query reads what is known of every package.
missing_packages() {
    local package found
    found=$'\n'$(dpkg-query -W -f='${Package} ${Status}\n' "$@" 2>/dev/null || true)$'\n'
    for package in "$@"; do
        [[ $found == *$'\n'"$package install ok installed"$'\n'* ]] || echo "$package"
    done
}

# Installs the packages named that are not installed yet.
need_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "not a Debian system: taking these to be installed: $*"
        return
    fi
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        say "these packages are missing; run this, then try again:"
        die "  sudo apt-get install -y --no-install-recommends ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    apt_get update
    apt_get install --no-install-recommends "${missing[@]}"
}

# Quiet unless it fails; waits for another apt that holds the lock.
apt_get() {
    local log
    log=$(mktemp)
    if ! DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
        "$@" </dev/null >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get $1 failed"
    fi
    rm -f "$log"
}

# Unpacks the packages named into build/tools/PACKAGE, and runs nothing of them.
need_unpacked() {
    local package folder download=build/tools/download
    for package in "$@"; do
        folder=build/tools/$package
        [ ! -d "$folder" ] || continue
        if ! command -v dpkg-deb >/dev/null; then
            say "not a Debian system: taking the programs of $package to be on the PATH"
            continue
        fi
        say "unpacking $package into $folder"
        [ "$(id -u)" -ne 0 ] || apt_get update
        rm -rf "$download" "$folder.new"
        mkdir -p "$download"
        (cd "$download" && apt_get download "$package")
        dpkg-deb -x "$download/${package}"_*.deb "$folder.new"
        mv "$folder.new" "$folder"
        rm -rf "$download"
    done
}

# uv, one of the packages of the pinned list, is quick, and environments share the files that they have in common.
uv() {
    UV_CACHE_DIR=$PWD/build/tools/uv UV_HTTP_TIMEOUT=180 "$VENV/bin/uv" --quiet "$@" </dev/null >&2
}

# The virtual environment is made from the pinned lists alone, and again only when one of them has changed. Older SDKs of E2B, which
# would stand in the newest one's way, have folders of their own in it.
need_python() {
    local requirements=tests/e2e/requirements.txt wanted older folder
    wanted=$(cat "$requirements" tests/e2e/e2b_older/*.txt | sha256sum)
    [ "$(cat "$VENV/.requirements.sha256" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing the packages of $requirements into $VENV"
    [ -x "$VENV/bin/pip" ] || /usr/bin/python3 -m venv --clear "$VENV"
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --no-input "$(grep '^uv==' "$requirements")" \
        </dev/null >&2 || die "pip could not install uv"
    uv pip install --python "$VENV/bin/python" --requirement "$requirements" || die "uv could not install $requirements"
    folder=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/e2b_older
    rm -rf "$folder"
    for older in tests/e2e/e2b_older/*.txt; do
        uv pip install --python "$VENV/bin/python" --no-deps --requirement "$older" \
            --target "$folder/$(basename "$older" .txt)" || die "uv could not install $older"
    done
    echo "$wanted" >"$VENV/.requirements.sha256"
}

# What tests import in node, by their lockfile; node itself is one of Python's packages, since Debian 12's is too old for them.
need_node() {
    local folder=build/tools/node wanted
    wanted=$(cat tests/e2e/node/package.json tests/e2e/node/package-lock.json | sha256sum)
    [ "$(cat "$folder/.made" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing the packages of tests/e2e/node into $folder"
    mkdir -p "$folder"
    cp tests/e2e/node/package.json tests/e2e/node/package-lock.json "$folder/"
    (PATH=$PWD/$VENV/bin:$PATH && cd "$folder" &&
        npm ci --silent --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier </dev/null >&2) ||
        die "npm could not install the packages of tests/e2e/node"
    echo "$wanted" >"$folder/.made"
}

# environment FOLDER ARGUMENTS: a virtual environment with what these arguments of `pip install` name.
environment() {
    local folder=$1
    shift
    uv venv --clear --no-python-downloads --python /usr/bin/python3 "$folder" &&
        uv pip install --python "$folder/bin/python" "$@"
}

# The agent frameworks that tests run, each in an environment of its own: they pin different versions of the same packages.
need_frameworks() {
    local list folder wanted
    for list in tests/e2e/frameworks/*.txt; do
        folder=build/frameworks/$(basename "$list" .txt)
        wanted=$(sha256sum <"$list")
        [ "$(cat "$folder/.requirements.sha256" 2>/dev/null)" != "$wanted" ] || continue
        say "installing the packages of $list into $folder"
        environment "$folder" --requirement "$list" || die "uv could not install $list"
        echo "$wanted" >"$folder/.requirements.sha256"
    done
}

# What berth-runtime carries of PyPI's: into build/tools, so that builds need no network.
need_carried() { cmake -P runtime/cloudpickle.cmake >&2 || die "berth-runtime's library is missing"; }

# The source package whose gallery the suite runs a sample of.
need_gallery() {
    PYTHONPATH=tests/e2e PYTHONPYCACHEPREFIX=$PWD/build/pycache "$VENV/bin/python" -m judge.programs build/judge/galleries networkx </dev/null >&2 ||
        die "the source package of networkx could not be fetched"
}

need_tests() {
    need_packages "${BUILD_PACKAGES[@]}" "${PRESET_PACKAGES[@]}" "${RUN_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    need_unpacked "${UNPACKED_PACKAGES[@]}"
    need_carried
    need_python
    need_frameworks
    need_gallery
}

need_lint() {
    need_packages "${BUILD_PACKAGES[@]}" "${PRESET_PACKAGES[@]}" "${LINT_PACKAGES[@]}"
    need_carried
    need_python
}

# configure PRESET: says something only where that fails.
configure() {
    local log=build/configure-$1.log
    mkdir -p build
    if ! cmake --preset "$1" >"$log" 2>&1; then
        cat "$log" >&2
        die "cmake could not configure the preset $1"
    fi
}

# build PRESET [TARGET ...]
build() {
    local preset=$1 target arguments=()
    shift
    configure "$preset"
    for target in "$@"; do
        arguments+=(--target "$target")
    done
    say "building preset $preset"
    cmake --build --preset "$preset" "${arguments[@]}" -- --quiet >&2 || die "the build of preset $preset failed"
}

run_setup() {
    case ${1:-} in
    --build)
        need_packages "${BUILD_PACKAGES[@]}"
        need_carried
        say "what building needs is installed; the program alone:"
        say "  cmake -S . -B build/mine -G Ninja && cmake --build build/mine"
        return
        ;;
    '' | lint) ;;
    *) die "setup takes --build or lint, and not '$1'" ;;
    esac
    need_tests
    need_node
    [ "${1:-}" != lint ] || need_lint
    say "everything is installed"
}
