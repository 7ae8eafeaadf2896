#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hardened.sh BINARY: whether a release build has what it should have against bugs in memory. One of its tests (ctest).
set -euo pipefail

binary=$1
failed=0
headers=$(readelf --wide --file-header --program-headers "$binary")
dynamic=$(readelf --wide --dynamic "$binary")
symbols=$(readelf --wide --dyn-syms "$binary")
notes=$(readelf --wide --notes "$binary")

must() { # TEXT COMMAND...
  local text=$1
  shift
  if "$@" >/dev/null; then
    echo "ok   $text"
  else
    echo "MISSING   $text"
    failed=1
  fi
}
has() { grep --extended-regexp --quiet -- "$2" <<<"$1"; }
lacks() { ! has "$1" "$2"; }

must "is at an address that changes (PIE)" has "$headers" 'Type: +DYN'
must "is a program, not a library" has "$headers" 'INTERP'
must "what is relocated is read-only afterwards (RELRO)" has "$headers" 'GNU_RELRO'
must "all of it is relocated at the start (BIND_NOW)" has "$dynamic" 'BIND_NOW|FLAGS_1.*NOW'
must "has a stack that cannot be executed" has "$headers" 'GNU_STACK.* RW +0x'
must "has no segment to write and execute" lacks "$headers" ' LOAD .* RWE '
must "looks at the stack before it returns (stack protector)" has "$symbols" '__stack_chk_fail'
if lacks "$headers" 'interpreter: .*/ld-musl-'; then # musl has none
  must "checks sizes of buffers (FORTIFY)" has "$symbols" '__(memcpy|snprintf|vsnprintf|read)_chk'
fi
must "names no folder to load libraries from" lacks "$dynamic" 'R(UN)?PATH'
if has "$headers" 'X86-64'; then
  must "marks where jumps may lead (CET)" test "$(objdump --disassemble "$binary" | grep --count endbr64)" -gt 1000
  # The kernel is told of it by a note, which is there where the C library's own objects have it: not on Debian 12.
  if readelf --wide --notes "$(gcc --print-file-name=crt1.o)" | grep --quiet IBT; then
    must "says so (IBT, SHSTK)" has "$notes" 'IBT, SHSTK'
  fi
fi
exit $failed
