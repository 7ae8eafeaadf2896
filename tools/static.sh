#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# static.sh BINARY: whether a program runs in any image: it needs no library, and less than 1 MiB of it is loaded. One of the tests
# (ctest), of berth-runtime.
set -euo pipefail

headers=$(readelf --wide --file-header --program-headers "$1")
loaded=0
while read -r size; do
  loaded=$((loaded + size))
done < <(awk '$1 == "LOAD" { print $5 }' <<<"$headers")

fail() {
  echo "$1"
  exit 1
}
! grep --quiet INTERP <<<"$headers" || fail "needs a loader and libraries"
grep --quiet 'Type: *DYN' <<<"$headers" || fail "is at an address that does not change"
grep --quiet GNU_RELRO <<<"$headers" || fail "what is relocated stays writable"
grep --extended-regexp --quiet 'GNU_STACK.* RW +0x' <<<"$headers" || fail "has a stack that can be executed"
[ "$loaded" -gt 0 ] && [ "$loaded" -lt 1048576 ] || fail "$loaded bytes of it are loaded"
echo "$loaded bytes of it are loaded"
