/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/library.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

double no_such_function(double x);

/* The C library's mathematics: there wherever this runs. */
#define MATH_SYMBOLS(X) X(cos) X(signgam)
#define LACKING_SYMBOLS(X) X(sin) X(no_such_function)

MATH_SYMBOLS(LIBRARY_POINTER)
LACKING_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol math_symbols[] = { MATH_SYMBOLS(LIBRARY_SYMBOL) };
static const struct library_symbol lacking_symbols[] = { LACKING_SYMBOLS(LIBRARY_SYMBOL) };

static void functions_and_variables_are_found(void **unused) {
        struct library math = LIBRARY("libm.so.6", "libc6", "angles", math_symbols);
        struct error err = { 0 };

        (void)unused;
        assert_int_equal(library_load(&math, &err), 0);
        assert_true(sym_cos(0.0) > 0.999);
        *sym_signgam = 7;
        assert_int_equal(*sym_signgam, 7);
        assert_int_equal(library_load(&math, &err), 0);
        library_need(&math);
        assert_int_equal(err.kind, ERROR_NONE);
}

static const struct {
        const char *soname;
        const struct library_symbol *symbols;
        size_t count;
        const char *says[4];
} failures[] = {
        { "libberth-none.so.9",
          math_symbols,
          2,
          { "libberth-none.so.9", "angles", "package libberth-none9", "No such file" } },
        { "libm.so.6", lacking_symbols, 2, { "libm.so.6", "angles", "no_such_function", "another version" } },
};

static void failures_say_what_is_missing(void **unused) {
        (void)unused;
        for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
                struct library library = { .soname = failures[i].soname,
                                           .package = "libberth-none9",
                                           .purpose = "angles",
                                           .symbols = failures[i].symbols,
                                           .symbol_count = failures[i].count,
                                           .lock = PTHREAD_MUTEX_INITIALIZER };

                /* Twice: what failed is tried again, not taken for loaded. */
                for (int attempt = 0; attempt < 2; attempt++) {
                        struct error err = { 0 };

                        assert_int_equal(library_load(&library, &err), -1);
                        for (size_t word = 0; word < 4; word++)
                                assert_non_null(strstr(err.message, failures[i].says[word]));
                }
        }
}

/* By another word of the same file than the program goes by. */
static void packages_are_called_as_on_this_machine(void **unused) {
        FILE *file = fopen("/etc/os-release", "re");
        char text[4096] = "";
        bool bookworm, trixie;

        (void)unused;
        if (file) {
                text[fread(text, 1, sizeof(text) - 1, file)] = 0;
                fclose(file);
        }
        bookworm = strstr(text, "VERSION_CODENAME=bookworm") != NULL;
        trixie = strstr(text, "VERSION_CODENAME=trixie") != NULL;
        assert_string_equal(library_package("libedit2"), "libedit2");
        if (!bookworm && !trixie)
                skip();
        assert_string_equal(library_package("libcurl4"), trixie ? "libcurl4t64" : "libcurl4");
        assert_string_equal(library_package("libgit2-1.5"), trixie ? "libgit2-1.9" : "libgit2-1.5");
}

#define THREADS 8

static struct library shared = LIBRARY("libm.so.6", "libc6", "angles", math_symbols);

static void *load_and_call(void *ret_found) {
        struct error err;

        *(bool *)ret_found = library_load(&shared, &err) == 0 && sym_cos(0.0) > 0.999;
        return NULL;
}

static void many_threads_may_be_the_first(void **unused) {
        pthread_t threads[THREADS];
        bool found[THREADS] = { false };

        (void)unused;
        for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, load_and_call, &found[i]), 0);
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                assert_true(found[i]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(functions_and_variables_are_found),
                cmocka_unit_test(failures_say_what_is_missing),
                cmocka_unit_test(packages_are_called_as_on_this_machine),
                cmocka_unit_test(many_threads_may_be_the_first),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
