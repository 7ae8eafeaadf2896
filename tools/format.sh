# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev format: rewrites the C files in place. Sourced by dev.

run_format() {
    need_packages clang-format git
    git ls-files -z --cached --others --exclude-standard '*.c' '*.h' | xargs -0r clang-format -i
}
