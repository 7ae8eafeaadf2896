/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen() and dlsym() into a table of pointers, once, under a lock. A library that is missing, or
 * is another version, is an error of the caller that needs it; the program starts without it.
 */
#include "base/library.h"

#include "base/log.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Debian 13 gave those with a time in their interface another name, and has another release of libgit2. */
static const struct {
        const char *debian_12, *debian_13;
} renamed[] = {
        { "libcurl4", "libcurl4t64" },
        { "libssl3", "libssl3t64" },
        { "libarchive13", "libarchive13t64" },
        { "libgit2-1.5", "libgit2-1.9" },
};

/* What os-release(5) says of this machine: ID or VERSION_ID, without quotes; "" where it says nothing. */
static void read_release(const char *field, char ret_value[static 32]) {
        FILE *file = fopen("/etc/os-release", "re");
        size_t length = strlen(field);
        char line[256];

        ret_value[0] = 0;
        while (file && fgets(line, sizeof(line), file)) {
                if (strncmp(line, field, length) != 0 || line[length] != '=')
                        continue;
                line[strcspn(line, "\n")] = 0;
                snprintf(ret_value, 32, "%s", line + length + 1 + (line[length + 1] == '"'));
                ret_value[strcspn(ret_value, "\"")] = 0;
        }
        if (file)
                fclose(file);
}

const char *library_package(const char *debian_12) {
        char name[32], version[32];
        bool later;

        read_release("ID", name);
        read_release("VERSION_ID", version);
        /* Debian's testing has no VERSION_ID. */
        later = strcmp(name, "debian") == 0 && (!version[0] || strtol(version, NULL, 10) >= 13);
        for (size_t i = 0; later && i < sizeof(renamed) / sizeof(renamed[0]); i++)
                if (strcmp(renamed[i].debian_12, debian_12) == 0)
                        return renamed[i].debian_13;
        return debian_12;
}

static int resolve_symbols(const struct library *library, void *handle, struct error *err) {
        for (size_t i = 0; i < library->symbol_count; i++) {
                const struct library_symbol *symbol = &library->symbols[i];
                void *address = dlsym(handle, symbol->name);

                if (!address)
                        return error_set(
                                err, "%s, needed for %s, has no %s: another version than Berth was built for",
                                library->soname, library->purpose, symbol->name);
                /* By memcpy: C has no conversion from an object's address to a function's. */
                memcpy(symbol->pointer, &address, sizeof(address));
        }
        return 0;
}

static void *crypto_new(size_t size, const char *file, int line) {
        (void)file;
        (void)line;
        return memory_new(size);
}

static void *crypto_resize(void *memory, size_t size, const char *file, int line) {
        (void)file;
        (void)line;
        return memory_resize(memory, size);
}

static void crypto_free(void *memory, const char *file, int line) {
        (void)file;
        (void)line;
        free(memory);
}

/*
 * OpenSSL's libcrypto, which comes with other libraries as well, takes such functions before its first allocation alone. Without
 * memory it would crash as it starts, or say that a signature is wrong.
 */
static void set_memory_functions(void *handle) {
        int (*set)(void *(*)(size_t, const char *, int), void *(*)(void *, size_t, const char *, int),
                   void (*)(void *, const char *, int));
        void *address = dlsym(handle, "CRYPTO_set_mem_functions");

        memcpy(&set, &address, sizeof(set));
        if (set)
                (void)set(crypto_new, crypto_resize, crypto_free);
}

static int load_once(struct library *library, struct error *err) {
        /* Local, so that its names do not reach other libraries; lazy, since few of its functions are called. */
        void *handle = dlopen(library->soname, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
        const char *problem;

        if (!handle) {
                problem = dlerror();
                return error_set(err, "cannot load %s, needed for %s: %s; on Debian it is in the package %s",
                                 library->soname, library->purpose, problem ? problem : "unknown problem",
                                 library_package(library->package));
        }
        set_memory_functions(handle);
        return resolve_symbols(library, handle, err);
}

int library_load(struct library *library, struct error *err) {
        int result = 0;

        if (atomic_load_explicit(&library->loaded, memory_order_acquire))
                return 0;
        pthread_mutex_lock(&library->lock);
        if (!atomic_load_explicit(&library->loaded, memory_order_relaxed)) {
                result = load_once(library, err);
                if (result == 0)
                        atomic_store_explicit(&library->loaded, true, memory_order_release);
        }
        pthread_mutex_unlock(&library->lock);
        return result;
}

void library_need(struct library *library) {
        struct error err;

        if (library_load(library, &err) == 0)
                return;
        log_error("%s", err.message);
        abort();
}
