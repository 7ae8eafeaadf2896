/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The /etc of a sandbox on the machine's own /usr: what programs need, and nothing that tells of the machine's people or
 * secrets. Put together by the child on its stage and bound as one: a tenth of the time of single binds.
 */
#include "base/files.h"
#include "base/strbuf.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/sandbox_view.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPIED_MAX (512 * 1024)

/* Of the machine's, where it has them. */
static const char *const borrowed[] = { "alternatives", "debian_version", "fonts",     "ld.so.cache",
                                        "localtime",    "magic",          "mailcap",   "matplotlibrc",
                                        "mime.types",   "os-release",     "protocols", "services" };

static const struct {
        const char *name, *text;
} written[] = {
        { "passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                    "agent:x:1000:1000:agent:/workspace:/bin/sh\n"
                    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n" },
        { "group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n" },
        { "hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n" },
        { "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n" },
};

const char *sandbox_etc_text(const char *name) {
        for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
                if (strcmp(written[i].name, name) == 0)
                        return written[i].text;
        }
        return "";
}

static int write_etc_file(int folder, const char *name, const char *text) {
        int file DESCRIPTOR_CLEANUP = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

        return file < 0 ? -1 : descriptor_write(file, text, strlen(text));
}

static int copy_file(int source, const char *target, size_t length) {
        int file DESCRIPTOR_CLEANUP = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

        return file >= 0 && sendfile(file, source, NULL, length) == (ssize_t)length ? 0 : -1;
}

/*
 * Files are copied: a mount costs more, and makes every later one dearer. A file that is too large
 * for that is left out.
 */
static int borrow(const char *stage, const char *name, struct error *err) {
        char *source TEXT_CLEANUP = path_join("/etc", name), *target TEXT_CLEANUP = path_join("etc", name);
        int file DESCRIPTOR_CLEANUP = open(source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat status;

        if (file < 0 || fstat(file, &status) < 0)
                return 0;
        if (S_ISDIR(status.st_mode))
                return sandbox_view_mount(file, NULL, stage, target, err);
        if (S_ISREG(status.st_mode) && status.st_size <= COPIED_MAX &&
            copy_file(file, target, (size_t)status.st_size) < 0)
                return error_set(err, "cannot copy %s: %s", source, strerror(errno));
        return 0;
}

int sandbox_etc_make_hosts(struct error *err) {
        return write_etc_file(AT_FDCWD, SANDBOX_ETC_HOSTS, sandbox_etc_text("hosts")) < 0
                       ? error_set(err, "cannot write hosts: %s", strerror(errno))
                       : 0;
}

void sandbox_etc_name(int hosts, const char *lines, size_t length) {
        static const char taken[] = "abcdefghijklmnopqrstuvwxyz0123456789-. \n";
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < length; i++) {
                if (!memchr(taken, lines[i], sizeof(taken) - 1))
                        return;
        }
        strbuf_append(&text, sandbox_etc_text("hosts"));
        strbuf_append_bytes(&text, lines, length);
        /*
         * Lengthened first and cut then: a concurrent reader may see old lines, but none that is
         * cut.
         */
        if (hosts >= 0 && pwrite(hosts, text.data, text.length, 0) == (ssize_t)text.length)
                (void)!ftruncate(hosts, (off_t)text.length);
}

int sandbox_etc_make(const char *stage, struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1;

        if (mkdir("etc", 0755) < 0 || chmod("etc", 0755) < 0 ||
            (folder = open("etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
                return error_set(err, "cannot make a folder for /etc: %s", strerror(errno));
        for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
                if (write_etc_file(folder, written[i].name, written[i].text) < 0)
                        return error_set(err, "cannot write %s: %s", written[i].name, strerror(errno));
        }
        for (size_t i = 0; i < sizeof(borrowed) / sizeof(borrowed[0]); i++) {
                if (borrow(stage, borrowed[i], err) < 0)
                        return -1;
        }
        return 0;
}
