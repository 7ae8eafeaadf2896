#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the machine, as root: the job that ./dev vm was given. Output and exit code go back to it.
cd /berth || exit 1
# shellcheck source=tools/vm/ways.sh
source tools/vm/ways.sh
eval "set -- $(cat job)"

# The session's bus is there as soon as the user's manager is.
systemctl start user@1000.service

export BERTH_BIN=/berth/build/dev/berth PYTHONPATH=/berth/tests/e2e:/python PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8

run_tests() {
    local ways=$1 way failed=0
    shift
    local paths=(tests/e2e/vm tests/e2e/escape tests/e2e/test_local.py tests/e2e/test_local_images.py) argument
    for argument in "$@"; do
        [ ! -e "${argument%%::*}" ] || paths=()
    done
    for way in ${ways:-$WAYS}; do
        echo "== way: $way ($(uname -r), $(systemctl --version | head -n 1))"
        # Software emulation is some ten times slower.
        BERTH_TEST_WAY=$way BERTH_TEST_TIMEOUT=600 "way_$way" /usr/bin/python3 -m pytest -o timeout=1200 "${paths[@]}" "$@" || failed=$?
    done
    return $failed
}

job=$1 ways=$2
shift 2
case $job in
test) run_tests "$ways" "$@" ;;
run)
    for way in $ways; do
        BERTH_TEST_WAY=$way "way_$way" bash -c "$*" || exit $?
    done
    ;;
esac
