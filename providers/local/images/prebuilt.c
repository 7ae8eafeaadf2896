/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/prebuilt.h"

#include "base/strbuf.h"
#include "base/suggest.h"

#include <string.h>

#define LIST(...)                 \
        (const char *const[]) {   \
                __VA_ARGS__, NULL \
        }
#define PREBUILT_MAX 32

/*
 * In Debian 12 matplotlib depends, through fonttools and scipy, on a compiler and all of Boost's headers: 700 MB of 1.2 GB.
 * They are not unpacked, and their packages are removed at the end, so that dpkg lists what is there.
 *
 * Python's caches are made once, at the end, and are valid whatever the files' dates (unchecked-hash): an image is never
 * changed in place, and unpacking it need not keep dates.
 */
const struct prebuilt prebuilt_table[] = {
        {
                .name = "python",
                .doc = "Debian 12 with Python 3.11, numpy, pandas, matplotlib, scipy, sympy, openpyxl, pip, git",
                .suite = "bookworm",
                .dated_s = 1686355200, /* 2023-06-10, when Debian 12 came out */
                .packages = LIST("python3", "python-is-python3", "python3-numpy", "python3-pandas",
                                 "python3-matplotlib", "python3-openpyxl", "python3-pip", "git", "procps",
                                 "fonts-wqy-microhei"),
                .kept_out = LIST("path-exclude=/usr/share/man/*", "path-exclude=/usr/share/info/*",
                                 "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/unicode/*",
                                 "path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
                                 /* each session has a Python of its own, so pip may install */
                                 "path-exclude=/usr/lib/python3.*/EXTERNALLY-MANAGED",
                                 "path-exclude=/usr/include/*", "path-exclude=/usr/lib/gcc/*",
                                 "path-exclude=/usr/lib/*.a", "path-exclude=/usr/bin/py3compile",
                                 "path-exclude=/usr/lib/python3/dist-packages/pythran/*",
                                 "path-exclude=/usr/lib/python3/dist-packages/*/tests/*"),
                .removed = LIST("*-dev", "gcc", "gcc-12", "g++", "g++-12", "cpp", "cpp-12", "binutils*",
                                "libbinutils", "libgprofng0", "libctf*", "lib*san?", "python3-pythran",
                                "unicode-data", "perl", "perl-modules-5*", "libperl5*"),
                .finish =
                        "python3 -m compileall -f -q -j0 --invalidation-mode unchecked-hash /usr/lib/python3 "
                        "/usr/lib/python3.11\n"
                        "sed -i 's/^#font[.]family: .*/font.family: sans-serif, WenQuanYi Micro Hei/' /etc/matplotlibrc\n"
                        "grep -q '^font.family' /etc/matplotlibrc\n"
                        "python3 -c 'import numpy, pandas, matplotlib, scipy, sympy, openpyxl, pip'\n"
                        /* on Lambda, where the root cannot be written; a sandbox has its own of both */
                        "ln -s /tmp/workspace /workspace && ln -s /workspace /home/user\n"
                        "git --version\ncommand -v ps\n",
                .variables = LIST("PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "MPLBACKEND=Agg"),
                .command = LIST("python3"),
        },
        { 0 },
};

const char *prebuilt_nearest(const char *name) {
        const char *names[PREBUILT_MAX];
        size_t count = 0;

        for (const struct prebuilt *row = prebuilt_table; row->name && count < PREBUILT_MAX; row++)
                names[count++] = row->name;
        return suggest_nearest(name, names, count);
}

static int fail_unknown(const char *name, struct error *err) {
        const char *near = prebuilt_nearest(name);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (const struct prebuilt *row = prebuilt_table; row->name; row++)
                strbuf_printf(&text, "%s%s (%s)", text.length ? ", " : "", row->name, row->doc);
        return error_set_kind(
                err, ERROR_NOT_FOUND, "there is no recipe for an image \"%s\"%s%s%s; there are: %s", name,
                near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", strbuf_text(&text));
}

int prebuilt_find(const char *name, const struct prebuilt **ret, struct error *err) {
        for (const struct prebuilt *row = prebuilt_table; row->name; row++) {
                if (strcmp(row->name, name) == 0) {
                        *ret = row;
                        return 0;
                }
        }
        return fail_unknown(name, err);
}

const char *prebuilt_script(const struct prebuilt *prebuilt, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_append(&text, "set -e\n");
        if (prebuilt->removed[0]) {
                /* dpkg-query fails where nothing matches a pattern: that is no failure here. */
                strbuf_append(&text, "set -- $(dpkg-query -W -f '${Package}\\n'");
                for (const char *const *at = prebuilt->removed; *at; at++)
                        strbuf_printf(&text, " '%s'", *at);
                strbuf_append(&text, " 2>/dev/null | sort -u)\n"
                                     "[ $# -eq 0 ] || dpkg --force-depends --purge \"$@\" 2>&1\n");
        }
        if (prebuilt->finish)
                strbuf_append(&text, prebuilt->finish);
        return arena_strdup(arena, strbuf_text(&text));
}
