/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program sees: bubblewrap's arguments, NUL-separated in an anonymous file. They do not stand on a command line,
 * where every user of the machine could read the variables.
 */
#include "base/beneath.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "providers/local/sandbox/sandbox_own.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/sandbox_view.h"
#include "providers/local/sandbox/seccomp_filter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of an image's /home, at most this many are shown beside the workspace. */
#define HOMES_MAX 32

/* Where a program finds the certificates of authorities that it is to trust. */
#define AUTHORITIES "/run/berth/ca-certificates.crt"

void sandbox_passed_close(struct sandbox_passed *passed) {
        while (passed->count > 0)
                close(passed->descriptors[--passed->count]);
}

/* The number that bubblewrap will know it by. */
static int pass(struct sandbox_passed *passed, int descriptor) {
        if (passed->count == SANDBOX_DESCRIPTORS_MAX)
                abort();
        passed->descriptors[passed->count] = descriptor;
        return SANDBOX_DESCRIPTORS_FIRST + (int)passed->count++;
}

static void word(struct strbuf *words, const char *text) {
        strbuf_append_bytes(words, text, strlen(text) + 1);
}

static void words_of(struct strbuf *words, const char *const *list) {
        for (; *list; list++)
                word(words, *list);
}

#define WORDS(buffer, ...) words_of(buffer, (const char *const[]){ __VA_ARGS__, NULL })

static int write_memory(const char *name, const void *bytes, size_t length, int *ret, struct error *err) {
        int descriptor DESCRIPTOR_CLEANUP = memfd_create(name, MFD_CLOEXEC);

        if (descriptor < 0 || descriptor_write(descriptor, bytes, length) < 0 ||
            lseek(descriptor, 0, SEEK_SET) < 0)
                return error_set(err, "no memory for %s: %s", name, strerror(errno));
        *ret = descriptor;
        descriptor = -1;
        return 0;
}

/* Folders that the sandbox makes itself, whatever the image has there. */
static bool is_sandbox_folder(const char *name) {
        static const char *const names[] = { ".",   "..",  "proc",      "sys", "dev",
                                             "tmp", "run", "workspace", "home" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(name, names[i]) == 0)
                        return true;
        }
        return false;
}

/* One entry of the root: a link as a link, all else bound read-only. */
static void add_entry(struct strbuf *words, const char *mounted, const char *name) {
        char *source TEXT_CLEANUP = path_join(mounted, name);
        char *target_path TEXT_CLEANUP = path_join("/", name), target[4096];
        struct stat status;
        ssize_t length;

        if (lstat(source, &status) < 0)
                return;
        if (S_ISLNK(status.st_mode)) {
                length = readlink(source, target, sizeof(target) - 1);
                if (length <= 0)
                        return;
                target[length] = '\0';
                WORDS(words, "--symlink", target, target_path);
        } else if (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode)) {
                WORDS(words, "--ro-bind", source, target_path);
        }
}

static bool is_dot(const char *name) {
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* How many entries a folder of the folder has, up to most + 1; 0 where it is no folder. */
static size_t count_entries(int parent, const char *name, size_t most) {
        int handle = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *folder = handle >= 0 ? fdopendir(handle) : NULL;
        const struct dirent *entry;
        size_t count = 0;

        if (!folder) {
                close_descriptor(&handle);
                return 0;
        }
        while (count <= most && (entry = readdir(folder)))
                count += !is_dot(entry->d_name);
        closedir(folder);
        return count;
}

/*
 * /home/user is the workspace: models write that path, which it has in other sandboxes. What else the image has in its /home is
 * there as well. It is the image's own where that is a link, has too many entries, or has files in /home/user.
 */
static void add_home(struct strbuf *words, const char *mounted) {
        char *home TEXT_CLEANUP = path_join(mounted, "home");
        int handle DESCRIPTOR_CLEANUP = open(home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *folder = handle >= 0 ? opendir(home) : NULL;
        bool is_link = handle < 0 && (errno == ELOOP || errno == ENOTDIR);
        const struct dirent *entry;

        if (is_link || (folder && (count_entries(AT_FDCWD, home, HOMES_MAX) > HOMES_MAX ||
                                   count_entries(handle, "user", 0) > 0))) {
                add_entry(words, mounted, "home");
        } else {
                WORDS(words, "--perms", "0755", "--dir", "/home", "--symlink", "/workspace", "/home/user");
                while (folder && (entry = readdir(folder))) {
                        char *name TEXT_CLEANUP = path_join("home", entry->d_name);

                        if (!is_dot(entry->d_name) && strcmp(entry->d_name, "user") != 0)
                                add_entry(words, mounted, name);
                }
        }
        if (folder)
                closedir(folder);
}

/* Whether a mount may go over it: bubblewrap would follow a link, wherever that leads. */
static bool image_has(int image, const char *path, int type) {
        int found DESCRIPTOR_CLEANUP = beneath_open(image, path, O_PATH | O_NOFOLLOW | type);
        struct stat status;

        return found >= 0 && fstat(found, &status) == 0 &&
               (type == O_DIRECTORY ? S_ISDIR(status.st_mode) : S_ISREG(status.st_mode));
}

/* An image knows neither the user that its programs run as, nor the name of their machine. */
static int add_names(struct sandbox_root *root, struct strbuf *words, int image, const char *stage,
                     struct error *err) {
        static const char *const names[] = { "passwd", "group" };
        char *hosts TEXT_CLEANUP = path_join(stage, SANDBOX_ETC_HOSTS);
        char path[32], number[16];
        int file;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const char *text = sandbox_etc_text(names[i]);

                snprintf(path, sizeof(path), "/etc/%s", names[i]);
                if (!image_has(image, path + 1, 0))
                        continue;
                if (write_memory(path, text, strlen(text), &file, err) < 0)
                        return -1;
                snprintf(number, sizeof(number), "%d", pass(&root->passed, file));
                WORDS(words, "--perms", "0444", "--ro-bind-data", number, path);
        }
        if (image_has(image, "etc/hosts", 0))
                WORDS(words, "--ro-bind", hosts, "/etc/hosts");
        return 0;
}

/*
 * All that is in the image's root folder, each entry by itself: the root itself is ours, so that nothing that the image
 * has under a name that we mount over can be in the way.
 */
static int add_image(struct sandbox_root *root, struct strbuf *words, const char *stage, struct error *err) {
        char *mounted TEXT_CLEANUP = path_join(stage, "image"),
                      *tmp TEXT_CLEANUP = path_join(stage, "scratch/tmp");
        int handle DESCRIPTOR_CLEANUP = open(mounted, O_PATH | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = opendir(mounted);
        const struct dirent *entry;

        if (!folder || handle < 0) {
                if (folder)
                        closedir(folder);
                return error_set(err, "cannot read the image's root folder: %s", strerror(errno));
        }
        while ((entry = readdir(folder))) {
                if (!is_sandbox_folder(entry->d_name))
                        add_entry(words, mounted, entry->d_name);
        }
        closedir(folder);
        add_home(words, mounted);
        if (image_has(handle, "var/tmp", O_DIRECTORY))
                WORDS(words, "--bind", tmp, "/var/tmp");
        return add_names(root, words, handle, stage, err);
}

/* The machine's own programs, and the /etc that sandbox_etc.c puts together. */
static void add_host(struct strbuf *words, const char *stage) {
        char *etc TEXT_CLEANUP = path_join(stage, "etc"),
                  *shown TEXT_CLEANUP = path_join(stage, SANDBOX_VIEW_HOST);

        for (const char *const *name = sandbox_view_names; *name; name++)
                add_entry(words, shown, *name);
        WORDS(words, "--ro-bind", etc, "/etc");
        WORDS(words, "--perms", "0755", "--dir", "/var", "--symlink", "/tmp", "/var/tmp");
        WORDS(words, "--perms", "0755", "--dir", "/home", "--symlink", "/workspace", "/home/user");
}

static void add_namespaces(struct strbuf *words) {
        WORDS(words, "--unshare-all", "--share-net", "--unshare-user", "--disable-userns", "--uid", "1000",
              "--gid", "1000");
        WORDS(words, "--hostname", "sandbox", "--new-session", "--die-with-parent", "--cap-drop", "ALL");
}

/*
 * Below /proc, files that describe the machine to all users are covered. The kernel checks the
 * writer of a sysctl and of what is root's against the host's user as well, which is why Berth
 * never runs bubblewrap as root.
 */
static void add_proc(struct strbuf *words, const char *stage) {
        char *no_file TEXT_CLEANUP = path_join(stage, SANDBOX_OWN_NO_FILE),
                      *no_folder TEXT_CLEANUP = path_join(stage, SANDBOX_OWN_NO_FOLDER);
        static const char *const covered[] = {
                "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/sched_debug", "/proc/timer_list",
                "/proc/vmallocinfo", "/proc/kcore",
                /* reading it holds up all lockers of files, on the whole machine */
                "/proc/locks",
                /* what each disk reads and writes: a loop device is another sandbox's workspace */
                "/proc/diskstats", "/proc/partitions", "/proc/interrupts"
        };
        /* /proc/fs tells of each mounted file system what is read, written and free: of other sandboxes' workspaces, too. */
        static const char *const emptied[] = { "/proc/acpi", "/proc/fs", "/proc/scsi" };
        struct stat status;

        WORDS(words, "--proc", "/proc");
        for (size_t i = 0; i < sizeof(covered) / sizeof(covered[0]); i++) {
                /* What only root reads need not be covered, and each mount costs time. */
                if (stat(covered[i], &status) == 0 && (status.st_mode & S_IROTH))
                        WORDS(words, "--ro-bind", no_file, covered[i]);
        }
        for (size_t i = 0; i < sizeof(emptied) / sizeof(emptied[0]); i++) {
                if (access(emptied[i], F_OK) == 0)
                        WORDS(words, "--ro-bind", no_folder, emptied[i]);
        }
        /*
         * All of it read-only, /proc/sys and every process's mem with it. Not by binding the
         * machine's own /proc/sys: mounts below that would come along, systemd's binfmt_misc for
         * one, which the first access mounts.
         */
        WORDS(words, "--remount-ro", "/proc");
}

/* Its devices, and writable places, each with a quota: sandbox_place.c mounts them, /dev/shm too. */
static void add_own(struct strbuf *words, const char *stage) {
        char *devices TEXT_CLEANUP = path_join(stage, SANDBOX_OWN_DEVICES),
                      *workspace TEXT_CLEANUP = path_join(stage, "workspace"),
                      *tmp TEXT_CLEANUP = path_join(stage, "scratch/tmp");

        WORDS(words, "--dev-bind", devices, "/dev");
        WORDS(words, "--bind", tmp, "/tmp", "--bind", workspace, "/workspace", "--chdir", "/workspace");
}

bool sandbox_takes_variable(const char *name) {
        return strncmp(name, "AWS_", 4) != 0 && strncmp(name, "BERTH_", 6) != 0 && name[0] &&
               !strchr(name, '=');
}

/*
 * The machine's own certificates of authorities, its company's among them: an image may have none,
 * or others. They are public on the machine anyway.
 */
static int open_authorities(void) {
        static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
                                              "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem" };
        int file = -1;

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && file < 0; i++)
                file = open(places[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        return file;
}

/*
 * The way out, as programs look for it. ALL_PROXY is not set: what is neither HTTP nor TLS does not get through. Each library has a
 * name of its own for the certificates.
 */
static void add_proxy(const struct sandbox_seen *seen, struct sandbox_root *root, struct strbuf *words) {
        static const char *const proxied[] = { "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY" };
        static const char *const trusting[] = { "SSL_CERT_FILE",    "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
                                                "PIP_CERT",         "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS",
                                                "npm_config_cafile" };
        static const char *const direct[] = { "no_proxy", "NO_PROXY" };
        int authorities = open_authorities();
        char text[64];

        snprintf(text, sizeof(text), "http://127.0.0.1:%u", seen->proxy_port);
        for (size_t i = 0; i < sizeof(proxied) / sizeof(proxied[0]); i++)
                WORDS(words, "--setenv", proxied[i], text);
        for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++)
                WORDS(words, "--setenv", direct[i], "localhost,127.0.0.1,::1");
        /* node has its own reading of proxies, and waits to be told. */
        WORDS(words, "--setenv", "NODE_USE_ENV_PROXY", "1");
        if (authorities < 0)
                return;
        snprintf(text, sizeof(text), "%d", pass(&root->passed, authorities));
        WORDS(words, "--perms", "0444", "--file", text, AUTHORITIES);
        for (size_t i = 0; i < sizeof(trusting) / sizeof(trusting[0]); i++)
                WORDS(words, "--setenv", trusting[i], AUTHORITIES);
}

static void add_variables(struct strbuf *words, const struct sandbox_seen *seen) {
        for (size_t i = 0; i + 1 < seen->variable_count; i += 2) {
                if (sandbox_takes_variable(seen->variables[i]))
                        WORDS(words, "--setenv", seen->variables[i], seen->variables[i + 1]);
        }
}

static void add_files(struct sandbox_seen *seen, struct sandbox_root *root, struct strbuf *words) {
        char path[512], number[16];

        WORDS(words, "--perms", "0755", "--dir", "/run", "--perms", "0755", "--dir", "/run/berth");
        for (size_t i = 0; i < seen->file_count; i++) {
                snprintf(path, sizeof(path), "/run/berth/%s", seen->files[i]);
                snprintf(number, sizeof(number), "%d", pass(&root->passed, seen->contents[i]));
                WORDS(words, "--perms", seen->executable ? "0555" : "0444", "--file", number, path);
        }
}

int sandbox_root_prepare(struct sandbox_seen *seen, int status, struct sandbox_root *root,
                         struct error *err) {
        struct strbuf words STRBUF_CLEANUP = STRBUF_SECRET;
        char told[16], number[16];
        int filter, arguments;

        *root = (struct sandbox_root){ .words = -1 };
        snprintf(told, sizeof(told), "%d", pass(&root->passed, status));
        if (seccomp_filter_open(&filter, err) < 0)
                return -1;
        snprintf(number, sizeof(number), "%d", pass(&root->passed, filter));
        add_namespaces(&words);
        /*
         * The runtime of a session waits for orphans itself, and no other process may inspect it.
         * Bubblewrap as process 1 keeps its standard output, and code could write there what the
         * runtime alone should say (/proc/1/fd/1).
         */
        if (seen->executable)
                word(&words, "--as-pid-1");
        /*
         * /proc comes first, because it takes the most mounts: for each mount bubblewrap reads the list of all mounts made before.
         * No file of an image is bound below /proc afterwards: is_sandbox_folder() and image_has(), which follows no link, prevent it.
         */
        add_proc(&words, seen->stage);
        if (!seen->image)
                add_host(&words, seen->stage);
        else if (add_image(root, &words, seen->stage, err) < 0)
                return -1;
        add_own(&words, seen->stage);
        add_files(seen, root, &words);
        WORDS(&words, "--clearenv");
        if (seen->proxy_port)
                add_proxy(seen, root, &words);
        WORDS(&words, "--remount-ro", "/");
        add_variables(&words, seen);
        WORDS(&words, "--seccomp", number, "--json-status-fd", told);
        if (write_memory("arguments", words.data, words.length, &arguments, err) < 0)
                return -1;
        root->words = pass(&root->passed, arguments);
        return 0;
}
