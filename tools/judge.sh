# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev judge: programs in ipykernel and in sessions, cell by cell: tests/e2e/judge. Sourced by dev.

# ./dev judge [WORD ...]: all programs, or those that have one of these words in their name.
run_judge() {
    local list=tests/e2e/judge/requirements.txt wanted folder=build/judge/venv
    need_tests
    build dev berth berth-runtime
    export PYTHONPYCACHEPREFIX=$PWD/build/pycache
    wanted=$(sha256sum <"$list")
    if [ "$(cat "$folder/.requirements.sha256" 2>/dev/null)" != "$wanted" ]; then
        say "installing the packages of $list into $folder"
        environment "$folder" --requirement "$list" || die "uv could not install $list"
        echo "$wanted" >"$folder/.requirements.sha256"
    fi
    PYTHONPATH=tests/e2e "$VENV/bin/python" -m judge "$PWD/build/dev/berth-runtime" "$PWD/$folder/bin/python" build/judge/galleries "$@"
}
