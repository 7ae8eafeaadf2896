/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/format.h"

#include "schema/support.h"

/* The input, and the output, which stays as it is. */
static const struct {
        const char *name, *text, *wanted;
} cases[] = {
        { "nothing", "", "" },
        { "empty lines alone", "\n\n\n", "" },
        { "the end of the last line", "a: 1", "a: 1\n" },
        { "line breaks", "a: 1\r\nb: 2\rc: 3\n", "a: 1\nb: 2\nc: 3\n" },
        { "line breaks of Windows", "a:\r\n    b: |\r\n      c\r\n\r\n    # d\r\n    e: 1",
          "a:\r\n  b: |\r\n    c\r\n\r\n  # d\r\n  e: 1\r\n" },
        { "a byte order mark",
          "\xEF\xBB\xBF"
          "a: 1\n",
          "a: 1\n" },
        { "levels", "a:\n    b:\n      c: 1\n    d: 2\ne: 3\n", "a:\n  b:\n    c: 1\n  d: 2\ne: 3\n" },
        { "lists below their keys", "a:\n- 1\n-   2\nb:\n        - 3\n", "a:\n  - 1\n  - 2\nb:\n  - 3\n" },
        { "lists of maps and of lists", "-    a:   1\n     b: 2\n-   - c\n    -  - d\n",
          "- a: 1\n  b: 2\n- - c\n  - - d\n" },
        { "a dash alone", "a:\n-\n    b: 1\n- # why\n      c: 1\n",
          "a:\n  -\n    b: 1\n  - # why\n    c: 1\n" },
        { "behind a colon", "a:    1\nb:  # why\n  c:   [1,  2]\n\"d\":   x\n",
          "a: 1\nb:  # why\n  c: [1,  2]\n\"d\": x\n" },
        { "empty lines and ends of lines", "\n\na: 1   \n\n\n\nb: 2\t\n  \n", "a: 1\n\nb: 2\n" },
        { "comments go with what is below", "# top\na:\n    # b\n    b: 1\n# c\nc: 2\n# end\n",
          "# top\na:\n  # b\n  b: 1\n# c\nc: 2\n# end\n" },
        { "comments at the end of a block",
          "a:\n     b:\n          c: 1\n          # of c\n     # of b\nd: 1\n",
          "a:\n  b:\n    c: 1\n    # of c\n  # of b\nd: 1\n" },
        { "comments of nowhere", "a:\n    b: 1\n      # deep\nc: 1\n", "a:\n  b: 1\n  # deep\nc: 1\n" },
        { "comments beside", "a: 1     # aligned\nb: 22    # too\n", "a: 1     # aligned\nb: 22    # too\n" },
        { "block texts move whole",
          "a:\n    b: |\n        one\n          two\n\n        # three   \n    c: >-\n     x\n",
          "a:\n  b: |\n      one\n        two\n\n      # three   \n  c: >-\n   x\n" },
        { "block texts with a number", "a:\n    b: |2\n        one\n    c: 1\n",
          "a:\n  b: |2\n      one\n  c: 1\n" },
        { "a block text that keeps its end", "a:\n    b: |+\n      one\n\n\n    c: 1\n",
          "a:\n  b: |+\n    one\n\n\n  c: 1\n" },
        { "texts over lines", "a:\n    b: \"one  \n      two\\  \n      three\"\n    c: d\n      e\n",
          "a:\n  b: \"one  \n    two\\  \n    three\"\n  c: d\n    e\n" },
        { "brackets over lines", "a:\n    b: [1,\n        2,   # two\n    ]\n    c: {d: 1,\n\n      e: 2}\n",
          "a:\n  b: [1,\n      2,   # two\n  ]\n  c: {d: 1,\n\n    e: 2}\n" },
        { "anchors, tags, aliases", "a: &x\n    b: 1\nc: !!map\n    d: 2\ne: &y !!seq\n- *x\n",
          "a: &x\n  b: 1\nc: !!map\n  d: 2\ne: &y !!seq\n  - *x\n" },
        { "documents", "%YAML 1.1\n---\na:\n    b: 1\n...\n\n\n---   # next\n-  1\n",
          "%YAML 1.1\n---\na:\n  b: 1\n...\n\n---   # next\n- 1\n" },
        { "characters of several bytes", "\"\xC3\xA4\xC3\xB6\":   \xE6\x97\xA5\nb:\n    \xC3\xBC:  1\n",
          "\"\xC3\xA4\xC3\xB6\": \xE6\x97\xA5\nb:\n  \xC3\xBC: 1\n" },
        { "keys with a question mark", "a:\n    ? [b,  c]\n    :   d\n", "a:\n  ? [b,  c]\n  :   d\n" },
        { "a dash that is text", "a:\n    - -1\n    -  --- x\n", "a:\n  - -1\n  - --- x\n" },
};

static void lay_out(void **unused) {
        (void)unused;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf once STRBUF_CLEANUP = STRBUF_INIT, twice STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                if (format_yaml(cases[i].text, strlen(cases[i].text), &once, &err) < 0)
                        fail_msg("%s: %s", cases[i].name, err.message);
                if (strcmp(strbuf_text(&once), cases[i].wanted) != 0)
                        fail_msg("%s:\n%s\ninstead of\n%s", cases[i].name, strbuf_text(&once),
                                 cases[i].wanted);
                assert_int_equal(format_yaml(strbuf_text(&once), once.length, &twice, &err), 0);
                assert_string_equal(strbuf_text(&twice), cases[i].wanted);
        }
}

/* Nothing is appended where it fails. */
static void refuse(void **unused) {
        static const struct {
                const char *text, *message;
        } wrong[] = {
                { "a: [1\nb: 2\n", "line 2: no YAML" },
                { "a:\n\t- 1\n", "line 2: no YAML" },
                { "a: \xFF\n", "no YAML" },
                { "a: 1\xC2\x85"
                  "b: 2\n",
                  "YAML 1.1" },
                { "a: 1\n---\n\xEF\xBB\xBF"
                  "b: 2\n",
                  "byte order mark" },
        };

        (void)unused;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct strbuf to STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                assert_int_equal(format_yaml(wrong[i].text, strlen(wrong[i].text), &to, &err), -1);
                if (!strstr(err.message, wrong[i].message))
                        fail_msg("%s: %s", wrong[i].text, err.message);
                assert_int_equal(to.length, 0);
        }
}

static void refuse_depth(void **unused) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, to STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        (void)unused;
        for (int i = 0; i < 200; i++)
                strbuf_append(&text, "- ");
        strbuf_append(&text, "x\n");
        assert_int_equal(format_yaml(strbuf_text(&text), text.length, &to, &err), -1);
        assert_non_null(strstr(err.message, "64 levels"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lay_out),
                cmocka_unit_test(refuse),
                cmocka_unit_test(refuse_depth),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
