# SPDX-License-Identifier: Apache-2.0
# The preset "musl": built with Debian's package of musl and the libraries that musl_libraries.sh has built for it.
set(CMAKE_C_COMPILER gcc)
set(CMAKE_C_FLAGS_INIT "-specs=/usr/lib/x86_64-linux-musl/musl-gcc.specs -specs=${CMAKE_CURRENT_LIST_DIR}/musl.specs")
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-musl)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/x86_64-linux-musl/pkgconfig)
