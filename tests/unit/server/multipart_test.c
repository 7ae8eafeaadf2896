/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of multipart/form-data: the same in whatever pieces they come, and invalid ones are
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/multipart.h"

#include "base/strbuf.h"

#include <string.h>

/* "name=data;" for each part, '$' at the end of a whole body; '!' where it is refused. */
static void read_all(const char *body, size_t length, size_t step, struct strbuf *ret) {
        static struct multipart multipart;

        multipart_begin(&multipart, "XX");
        for (size_t at = 0; at < length;) {
                size_t piece = step < length - at ? step : length - at;
                struct multipart_event event;
                ssize_t used = multipart_take(&multipart, body + at, piece, &event);

                if (used < 0) {
                        assert_non_null(multipart.why);
                        strbuf_append(ret, "!");
                        return;
                }
                at += (size_t)used;
                if (event.type == MULTIPART_PART)
                        strbuf_printf(ret, "%s%s%s=", multipart.name, multipart.filename[0] ? "|" : "",
                                      multipart.filename);
                else if (event.type == MULTIPART_DATA)
                        strbuf_append_bytes(ret, event.bytes, event.length);
                else if (event.type == MULTIPART_PART_END)
                        strbuf_append(ret, ";");
        }
        if (multipart_ended(&multipart))
                strbuf_append(ret, "$");
}

#define PART(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static void bodies(void **state) {
        static const char *const cases[][2] = {
                { "--XX\r\n" PART("a") "1\r\n--XX--", "a=1;$" },
                { "--XX\r\n" PART("a") "1\r\n--XX--\r\n", "a=1;$" },
                { "--XX\r\n" PART("a") "\r\n--XX\r\n" PART("b/c.txt") "2\r\n--XX--\r\n", "a=;b/c.txt=2;$" },
                /* What only begins as a delimiter is data. */
                { "--XX\r\n" PART("a") "\r\r\n\r\n-\r\n--X\r\n--Y--XX\r\n--XX--",
                  "a=\r\r\n\r\n-\r\n--X\r\n--Y--XX;$" },
                { "--XX\r\n" PART("a") "\r\n\r\n--XX--", "a=\r\n;$" },
                { "--XX\r\ncontent-disposition:form-data;name=a;filename=\"x\"\r\nContent-Type: text/plain\r\n\r\n"
                  "1\r\n--XX--",
                  "a|x=1;$" },
                { "--XX\r\nContent-Disposition: form-data; name=a; filename=\"p/\xc3\x9f\\\"%22\"\r\n\r\n\r\n--XX\r\n" PART(
                          "b") "\r\n--XX--",
                  "a|p/\xc3\x9f\"%22=;b=;$" },
                { "--XX\r\nContent-Disposition: form-data; name=a; filename=x; filename*=utf-8''%C3%9F\r\n\r\n\r\n--XX--",
                  "a|\xc3\x9f=;$" },
                { "--XX\r\nContent-Disposition: form-data; name=a; filename=x; filename=y\r\n\r\n\r\n--XX--",
                  "!" },
                { "--XX\r\n" PART("q\\\"b\\\\s\\n%22") "\r\n--XX--", "q\"b\\sn%22=;$" },
                { "--XX\r\nContent-Disposition: form-data; name*=utf-8''%C3%9F%2Fx\r\n\r\n\r\n--XX--",
                  "\xc3\x9f/x=;$" },
                { "--XX\r\n" PART("a") "1\r\n--XX", "a=1;" },
                { "--XX\r\n" PART("a") "1", "a=1" },
                { "--XX--", "$" },
                { "", "" },
                { "\r\n--XX--", "!" },
                { "preamble\r\n--XX--", "!" },
                { "--XY\r\n", "!" },
                { "--XX \r\n", "!" },
                { "--XX\n-", "!" },
                { "--XX--more", "!" },
                { "--XX--\r\n\r\n", "!" },
                { "--XX\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\nContent-Type: text/plain\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\n" PART("") "1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: form-data\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: form-data; name*=utf-8''a%00b\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: form-data; name*=latin1''a\r\n\r\n1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; "
                  "name=b\r\n\r\n1\r\n--XX--",
                  "!" },
                { "--XX\r\n"
                  "Content-Transfer-Encoding: base64\r\n" PART("a") "1\r\n--XX--",
                  "!" },
                { "--XX\r\nno field\r\n" PART("a") "1\r\n--XX--", "!" },
                { "--XX\r\nContent-Disposition: form-data; name=a\n\n1\r\n--XX--", "!" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (size_t step = 1; step <= strlen(cases[i][0]) + 1; step++) {
                        struct strbuf said STRBUF_CLEANUP = STRBUF_INIT;

                        read_all(cases[i][0], strlen(cases[i][0]), step, &said);
                        if (cases[i][1][0] == '!' ? said.length == 0 || said.data[said.length - 1] != '!'
                                                  : strcmp(strbuf_text(&said), cases[i][1]) != 0)
                                fail_msg("%s by %zu: %s", cases[i][0], step, strbuf_text(&said));
                }
        }
}

static void bounds(void **state) {
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT, said STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        strbuf_append(&body, "--XX\r\nX: ");
        for (int i = 0; i < MULTIPART_HEAD_MAX; i++)
                strbuf_append_char(&body, 'x');
        read_all(body.data, body.length, 100, &said);
        assert_string_equal(strbuf_text(&said), "!");
        strbuf_clear(&body);
        strbuf_clear(&said);
        strbuf_append(&body, "--XX");
        for (int i = 0; i <= MULTIPART_PARTS_MAX; i++)
                strbuf_append(&body, "\r\n" PART("a") "\r\n--XX");
        read_all(body.data, body.length, 10000, &said);
        assert_int_equal(said.length, 3 * MULTIPART_PARTS_MAX + 1);
        strbuf_clear(&body);
        strbuf_clear(&said);
        strbuf_append(&body, "--XX\r\nContent-Disposition: form-data; name=\"");
        for (int i = 0; i <= MULTIPART_NAME_MAX; i++)
                strbuf_append_char(&body, 'x');
        strbuf_append(&body, "\"\r\n\r\n");
        read_all(body.data, body.length, 100, &said);
        assert_string_equal(strbuf_text(&said), "!");
}

static void boundaries(void **state) {
        static const char *const cases[][2] = {
                { "multipart/form-data; boundary=abc", "abc" },
                { "Multipart/Form-Data;charset=utf-8; Boundary=\"a b'()+_,-./:=?\"", "a b'()+_,-./:=?" },
                { "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxk",
                  "----WebKitFormBoundary7MA4YWxk" },
                { "multipart/form-data", NULL },
                { "multipart/form-data; boundary=", NULL },
                { "multipart/form-data; boundary=\"\"", NULL },
                { "multipart/form-data; boundary=\"a \"", NULL },
                { "multipart/form-data; boundary=a; boundary=b", NULL },
                { "multipart/form-data; boundary=\"a\r\nb\"", NULL },
                { "multipart/form-data; boundary=a b", NULL },
                { "multipart/form-datax; boundary=a", NULL },
                { "multipart/mixed; boundary=a", NULL },
                { "multipart/form-data; boundary="
                  "12345678901234567890123456789012345678901234567890123456789012345678901",
                  NULL },
        };
        char found[MULTIPART_BOUNDARY_MAX + 1];

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                bool is_one = multipart_boundary(cases[i][0], found);

                if (is_one != (cases[i][1] != NULL) || (is_one && strcmp(found, cases[i][1]) != 0))
                        fail_msg("%s: %s", cases[i][0], is_one ? found : "none");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bodies),
                cmocka_unit_test(bounds),
                cmocka_unit_test(boundaries),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
