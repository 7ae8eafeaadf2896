/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared libraries that are loaded when they are first used, and not with the program: those that are large, or bring
 * many others, while most commands never call them. libcurl alone brings thirty more and costs 4 ms at each start.
 *
 * To add one, in the only module that includes its header:
 *
 *     #define GIT_SYMBOLS(X) X(git_libgit2_init) X(git_repository_open)
 *
 *     GIT_SYMBOLS(LIBRARY_POINTER)       // static ... *sym_git_libgit2_init: of the type that the header declares
 *     static const struct library_symbol git_symbols[] = { GIT_SYMBOLS(LIBRARY_SYMBOL) };
 *     static struct library git = LIBRARY(GIT_SONAME, "libgit2-1.5", "reading Git repositories", git_symbols);
 *
 *     if (library_load(&git, err) < 0)   // where it is first used, and each time: it costs nothing then
 *             return -1;
 *     sym_git_libgit2_init();
 *
 * In CMakeLists.txt `berth_loaded(GIT libgit2)` takes the place of pkg_check_modules(): it finds the headers, reads
 * the name that the library will have at run time (GIT_SONAME), and makes the target Loaded::GIT, which a folder names
 * among its LIBRARIES. Add it to the table in cli/verb_doctor.c, and the package to the list in docs/install.md, since
 * dpkg-shlibdeps cannot see it.
 *
 * A name that the header defines as a macro for another one is listed as that other one; a variable of the library
 * works too, sym_ being its address. Small libraries that every command uses are linked: loading one later is dearer.
 */
#ifndef BERTH_BASE_LIBRARY_H
#define BERTH_BASE_LIBRARY_H

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct library_symbol {
        const char *name;
        void *pointer; /* the address of the pointer to fill */
};

#define LIBRARY_POINTER(symbol) static __typeof__(symbol) *sym_##symbol;
#define LIBRARY_SYMBOL(symbol) { #symbol, (void *)&sym_##symbol },

struct library {
        const char *soname;  /* "libcurl.so.4" */
        const char *package; /* Debian 12's, for the message where it is missing */
        const char *purpose; /* "HTTP": what cannot be done without it */
        const struct library_symbol *symbols;
        size_t symbol_count;
        pthread_mutex_t lock;
        atomic_bool loaded; /* only ever set once all pointers are filled */
};

#define LIBRARY(name, debian, use, table)                                                             \
        {                                                                                             \
                .soname = (name), .package = (debian), .purpose = (use), .symbols = (table),          \
                .symbol_count = sizeof(table) / sizeof((table)[0]), .lock = PTHREAD_MUTEX_INITIALIZER \
        }

/*
 * Any thread, any number of times; tries again where it failed before. The error names library and
 * package. A loaded library stays to the end of the process: leak checkers need its names after
 * main(), and threads may still be in it.
 */
int library_load(struct library *library, struct error *err) MUST_USE;

/* What the package that Debian 12 calls so is called on this machine (/etc/os-release): a literal, or the argument itself. */
const char *library_package(const char *debian_12);

/* For callers that cannot fail: says the error on stderr and aborts, as when memory runs out. */
void library_need(struct library *library);

#endif
