/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of docs/ that tables of the program write. BERTH_WRITE_DOCS=1: the test writes its page
 * again.
 */
#ifndef BERTH_TESTS_UNIT_PAGE_H
#define BERTH_TESTS_UNIT_PAGE_H

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* docs/NAME must be what `print` prints; `data` is the test's folder (TEST_DATA). */
static inline void page_check(const char *data, const char *name, void (*print)(FILE *stream)) {
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT, committed STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };
        char *text = NULL;
        size_t length;
        FILE *stream = open_memstream(&text, &length);

        strbuf_printf(&path, "%s/../../../docs/%s", data, name);
        assert_non_null(stream);
        print(stream);
        assert_int_equal(fclose(stream), 0);
        if (getenv("BERTH_WRITE_DOCS"))
                assert_int_equal(file_write_atomic(strbuf_text(&path), text, length, 0644, &err), 0);
        assert_int_equal(file_read(strbuf_text(&path), (size_t)1024 * 1024, &committed, &err), 0);
        if (strcmp(strbuf_text(&committed), text) != 0)
                fail_msg(
                        "docs/%s is not what the program's tables say: run this test with BERTH_WRITE_DOCS=1",
                        name);
        free(text);
}

#endif
