# SPDX-License-Identifier: Apache-2.0
"""
compile.py KERNEL.PY OUTPUT: the kernel as this Python compiles it, for the same Python to begin with; another one compiles the source.
Eight digits say how long the code is, compressed; then 32 bytes which Python it is for, as kernel.c's first program reads them.
"""

import marshal
import sys
import zlib
from _frozen_importlib_external import MAGIC_NUMBER

with open(sys.argv[1], "rb") as source:
    code = zlib.compress(marshal.dumps(compile(source.read(), "<berth kernel>", "exec", dont_inherit=True, optimize=0)), 9)
with open(sys.argv[2], "wb") as output:
    output.write(b"%08d" % len(code) + (MAGIC_NUMBER.hex() + " " + str(sys.implementation.cache_tag)).encode()[:32].ljust(32) + code)
