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
    local way=$1 status=0
    shift
    local paths=(tests/e2e/vm tests/e2e/escape tests/e2e/test_local.py tests/e2e/test_local_images.py) argument
    for argument in "$@"; do
        [ ! -e "${argument%%::*}" ] || paths=()
    done
    echo "== way: $way ($(uname -r), $(systemctl --version | head -n 1))"
    touch /run/results.xml && chmod 666 /run/results.xml
    # Software emulation is some ten times slower. Two plugins have parts for the Python of build/venv, which may not be this one.
    BERTH_TEST_WAY=$way BERTH_TEST_TIMEOUT=600 "way_$way" /usr/bin/python3 -m pytest -p no:hypothesispytest -p no:schemathesis \
        -o timeout=1200 --junitxml=/run/results.xml "${paths[@]}" "$@" || status=$?
    cat /run/results.xml >/dev/virtio-ports/berth.results
    return $status
}

job=$1 status=0
shift
# Which way is no part of the disk, which several machines share.
for way in $(grep -o 'berth.ways=[^ ]*' /proc/cmdline | cut -d= -f2 | tr , ' '); do
    case $job in
    test) run_tests "$way" "$@" || status=$? ;;
    restart)
        BERTH_TEST_BOOT=$(grep -o 'berth.boot=[^ ]*' /proc/cmdline | cut -d= -f2)
        export BERTH_TEST_BOOT
        run_tests "$way" "$@" || status=$?
        [ "$BERTH_TEST_BOOT" = 1 ] && [ "$status" = 0 ] || continue
        # What was answered has to be on the disk a second later. Nothing is told to end, and nothing is synced.
        echo 0 >/dev/virtio-ports/berth.status
        sleep 2
        echo b >/proc/sysrq-trigger
        ;;
    run) BERTH_TEST_WAY=$way "way_$way" bash -c "$*" || exit $? ;;
    esac
done
exit $status
