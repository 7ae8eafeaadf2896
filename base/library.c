/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen() and dlsym() into a table of pointers, once, under a lock. A library that is missing, or is another
 * version, is an error of whoever needs it; the program starts without it.
 */
#include "base/library.h"

#include "base/log.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

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

static int load_once(struct library *library, struct error *err) {
        /* Local, so that its names do not reach other libraries; lazy, since few of its functions are called. */
        void *handle = dlopen(library->soname, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
        const char *problem;

        if (!handle) {
                problem = dlerror();
                return error_set(err, "cannot load %s, needed for %s: %s; on Debian it is in the package %s",
                                 library->soname, library->purpose, problem ? problem : "unknown problem",
                                 library->package);
        }
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
