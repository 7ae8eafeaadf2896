#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In a fresh Debian, as root: builds what Berth links and loads for musl, from Debian's own sources, to where musl-gcc looks for headers
# and musl's loader for libraries. Debian has no packages of these. Run by musl.sh.
set -eu

FOLDER=x86_64-linux-musl
LIBRARIES=/usr/lib/$FOLDER
HEADERS=/usr/include/$FOLDER
SOURCES=/usr/src/musl
export CC=musl-gcc CFLAGS='-O2 -fPIC' PKG_CONFIG_LIBDIR=$LIBRARIES/pkgconfig CMAKE_GENERATOR=Ninja
JOBS=$(nproc)

# unpack NAME: the current folder is the source of that name then, with Debian's patches. Where a security update's is not to be had, the
# release's own.
unpack() {
    rm -rf "${SOURCES:?}"
    mkdir -p "$SOURCES"
    cd "$SOURCES"
    echo "musl: $1" >&2
    apt-get -q --only-source source "$1" || apt-get -q --only-source source "$1/$(. /etc/os-release && echo "$VERSION_CODENAME")"
    cd "$SOURCES/$1"-*/
}

with_cmake() { # FOLDER [OPTION ...]
    folder=$1
    shift
    cmake -S "$folder" -B made -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_PREFIX=/usr \
        -DCMAKE_INSTALL_LIBDIR="lib/$FOLDER" -DCMAKE_INSTALL_INCLUDEDIR="include/$FOLDER" -DCMAKE_LIBRARY_ARCHITECTURE="$FOLDER" \
        -DCMAKE_POLICY_DEFAULT_CMP0075=NEW -Wno-dev "$@"
    cmake --build made
    cmake --install made
}

with_configure() { # [OPTION ...]
    ./configure --prefix=/usr --libdir="$LIBRARIES" --includedir="$HEADERS" --build="$(gcc -dumpmachine)" --host="$FOLDER" "$@"
    make -j"$JOBS"
    make install
}

# The kernel's headers are no C library's.
for headers in linux asm-generic; do
    ln -sfn "../$headers" "$HEADERS/$headers"
done
ln -sfn "../$(gcc -dumpmachine)/asm" "$HEADERS/asm"

sed -i 'p; s/^deb /deb-src /' /etc/apt/sources.list
apt-get -q update

unpack jansson
autoreconf -fi
with_configure

unpack libyaml
autoreconf -fi
with_configure --disable-static

unpack utf8proc
with_cmake .

unpack lmdb
(
    cd libraries/liblmdb
    make -j"$JOBS" CC="$CC" XCFLAGS="$CFLAGS" prefix=/usr
    make install CC="$CC" prefix=/usr libdir="$LIBRARIES" includedir="$HEADERS"
)
sed "s,@prefix@,/usr,; s,@exec_prefix@,/usr,; s,@libdir@,$LIBRARIES,; s,@includedir@,$HEADERS,; s,@PACKAGE_VERSION@,0," \
    debian/lmdb.pc.in >"$LIBRARIES/pkgconfig/lmdb.pc"

unpack cmocka
with_cmake . -DWITH_EXAMPLES=OFF -DUNIT_TESTING=OFF

unpack libseccomp
with_configure --disable-static --disable-python

unpack zlib
./configure --prefix=/usr --libdir="$LIBRARIES" --includedir="$HEADERS"
make -j"$JOBS"
make install

unpack libzstd
with_cmake build/cmake -DZSTD_BUILD_STATIC=OFF -DZSTD_BUILD_PROGRAMS=OFF

unpack libxml2
autoreconf -fi
with_configure --disable-static --without-python --without-lzma --without-iconv --without-icu

unpack c-ares
with_cmake . -DCARES_BUILD_TOOLS=OFF

unpack ncurses
with_configure --with-shared --without-debug --without-ada --without-cxx-binding --without-manpages --without-tests --without-progs \
    --disable-widec --disable-db-install --with-default-terminfo-dir=/usr/share/terminfo --disable-stripping --with-normal=no
# They name each other by the folder's name, as if it were one of those that headers are looked for in.
sed -i "s,<$FOLDER/,<," "$HEADERS"/*curses*.h "$HEADERS"/term*.h

# musl's wchar_t is ISO 10646, and says so nowhere; what Debian has libbsd for here is musl's own or libedit's.
unpack libedit
autoreconf -fi
with_configure --disable-static --disable-examples CPPFLAGS="-D__STDC_ISO_10646__=201103L" LIBBSD_CFLAGS=' ' LIBBSD_LIBS=' '

unpack openssl
perl Configure linux-x86_64 --prefix=/usr --libdir="lib/$FOLDER" --openssldir=/etc/ssl shared no-tests no-engine no-afalgeng no-legacy
make -j"$JOBS" build_libs
make -j"$JOBS" install_dev
mv /usr/include/openssl "$HEADERS/"

unpack libssh2
with_cmake . -DCRYPTO_BACKEND=OpenSSL -DBUILD_EXAMPLES=OFF -DBUILD_TESTING=OFF -DENABLE_ZLIB_COMPRESSION=OFF

unpack curl
with_cmake . -DBUILD_CURL_EXE=OFF -DCURL_USE_OPENSSL=ON -DCURL_USE_LIBSSH2=OFF -DCURL_DISABLE_LDAP=ON -DCURL_CA_PATH=/etc/ssl/certs \
    -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt -DBUILD_TESTING=OFF

unpack libarchive
autoreconf -fi
with_configure --disable-static --disable-bsdtar --disable-bsdcpio --disable-bsdcat --without-bz2lib --without-lzma --without-libb2 \
    --without-lz4 --without-xml2 --without-expat --without-openssl --without-nettle

unpack http-parser
make -j"$JOBS" library package
make install PREFIX=/usr LIBDIR="$LIBRARIES" INCLUDEDIR="$HEADERS"

unpack libgit2
with_cmake . -DBUILD_TESTS=OFF -DBUILD_CLI=OFF -DUSE_SSH=ON -DUSE_HTTPS=OpenSSL -DREGEX_BACKEND=regcomp -DUSE_HTTP_PARSER=system -DUSE_NTLMCLIENT=OFF

rm -rf "$SOURCES"
