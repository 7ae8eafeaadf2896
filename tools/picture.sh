# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev picture: draws docs/terminal.svg, session.svg and page.png anew, from what the program prints and shows. Sourced by dev.

run_picture() {
    need_tests
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --no-input rich==15.0.0 </dev/null >&2
    build release berth berth-runtime
    "$VENV/bin/python" tools/picture.py build/release/berth docs
}
