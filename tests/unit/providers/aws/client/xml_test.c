/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/xml.h"

#include <stdbool.h>
#include <string.h>

#define S3 "http://s3.amazonaws.com/doc/2006-03-01/"
#define DECLARATION "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"

static struct xml_document *parse(const char *text) {
        struct xml_document *document = NULL;
        struct error err = { 0 };

        assert_int_equal(xml_parse(text, strlen(text), "the test", &document, &err), 0);
        return document;
}

static void reading(void **state) {
        struct xml_document *document XML_CLEANUP = parse(
                "<?xml version=\"1.0\"?><!-- c --><R xmlns=\"" S3 "\">\n <Rule><ID>a&amp;b</ID><Filter><And>"
                "<Prefix>x/</Prefix></And></Filter></Rule>\n <Other/><Rule><ID>two</ID><E/></Rule>"
                "<C><![CDATA[<raw>]]></C></R>");
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct xml_node *root = xml_root(document), *rule = xml_child(root, "Rule");

        (void)state;
        assert_string_equal(xml_name(root), "R");
        assert_string_equal(xml_text(rule, "ID", arena), "a&b");
        assert_string_equal(xml_text(rule, "Filter/And/Prefix", arena), "x/");
        assert_null(xml_text(rule, "Filter/Prefix", arena));
        assert_null(xml_text(rule, "Filt", arena));
        assert_null(xml_text(NULL, "ID", arena));
        assert_string_equal(xml_name(xml_next(rule, NULL)), "Other");
        rule = xml_next(rule, "Rule");
        assert_string_equal(xml_text(rule, "ID", arena), "two");
        assert_string_equal(xml_text(rule, "E", arena), "");
        assert_null(xml_next(rule, "Rule"));
        assert_string_equal(xml_text(root, "C", arena), "<raw>");
        assert_null(xml_child(NULL, "x"));
        assert_null(xml_next(NULL, NULL));
        assert_string_equal(xml_name(xml_child(root, NULL)), "Rule");
}

static const struct {
        const char *text;
        const char *message;
} refusals[] = {
        { "", "is empty" },
        { "not xml", "is not XML" },
        { "<a>", "is not XML" },
        { "<a></b>", "is not XML" },
        { "{\"a\": 1}", "is not XML" },
        { "<html><body>Sign in</body></html>", "a web page" },
        { "<HTML xmlns=\"http://www.w3.org/1999/xhtml\"/>", "a web page" },
        { "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", "document type" },
        { "<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><a>&e;</a>", "document type" },
        { "<!DOCTYPE l [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]><l>&b;&b;</l>",
          "document type" },
};

static void refusing(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                struct xml_document *document = NULL;
                struct error err = { 0 };

                assert_int_equal(
                        xml_parse(refusals[i].text, strlen(refusals[i].text), "the test", &document, &err),
                        -1);
                assert_null(document);
                assert_non_null(strstr(err.message, refusals[i].message));
                assert_int_equal(strncmp(err.message, "the test ", 9), 0);
        }
}

static void deep_nesting_ends(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct xml_document *document = NULL;
        struct error err = { 0 };

        (void)state;
        for (int i = 0; i < 100000; i++)
                strbuf_append(&text, "<a>");
        assert_int_equal(xml_parse(strbuf_text(&text), text.length, "the test", &document, &err), -1);
}

static void writing(void **state) {
        struct xml_document *document XML_CLEANUP = xml_new("LifecycleConfiguration", S3);
        struct xml_node *rule = xml_add(xml_root(document), "Rule", NULL);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        xml_add(rule, "ID", "a<b>&\"c\" ü");
        xml_add(rule, "Filter", NULL);
        xml_write(document, &text);
        assert_string_equal(strbuf_text(&text), DECLARATION "<LifecycleConfiguration xmlns=\"" S3
                                                            "\"><Rule><ID>a&lt;b&gt;&amp;\"c\" ü</ID>"
                                                            "<Filter/></Rule></LifecycleConfiguration>\n");
}

static void carrying_over(void **state) {
        struct xml_document *from XML_CLEANUP =
                parse("<L xmlns=\"" S3 "\"><Rule><ID>1</ID><New><Unknown a=\"b\">x</Unknown></New></Rule>"
                      "<Rule><ID>2</ID></Rule></L>");
        struct xml_document *to XML_CLEANUP = xml_new("L", S3);
        struct xml_node *kept = xml_add_copy(xml_root(to), xml_child(xml_root(from), "Rule"));
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct xml_node *second;

        (void)state;
        second = xml_add_copy(xml_root(to), xml_next(xml_child(xml_root(from), "Rule"), "Rule"));
        assert_string_equal(xml_text(second, "ID", arena), "2");
        assert_string_equal(xml_text(kept, "New/Unknown", arena), "x");
        xml_write(to, &text);
        assert_string_equal(strbuf_text(&text),
                            DECLARATION "<L xmlns=\"" S3 "\"><Rule><ID>1</ID><New><Unknown a=\"b\">x"
                                        "</Unknown></New></Rule><Rule><ID>2</ID></Rule></L>\n");
        /* The source is as it was. */
        assert_string_equal(xml_text(xml_root(from), "Rule/ID", arena), "1");
}

static void without_a_namespace(void **state) {
        struct xml_document *from XML_CLEANUP = parse("<L><Rule><ID>1</ID></Rule></L>");
        struct xml_document *to XML_CLEANUP = xml_new("L", NULL);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        xml_add_copy(xml_root(to), xml_child(xml_root(from), "Rule"));
        xml_write(to, &text);
        assert_string_equal(strbuf_text(&text), DECLARATION "<L><Rule><ID>1</ID></Rule></L>\n");
}

static void a_rule_without_namespace_joins_ours(void **state) {
        struct xml_document *from XML_CLEANUP = parse("<L><Rule><ID>1</ID></Rule></L>");
        struct xml_document *to XML_CLEANUP = xml_new("L", S3);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        xml_add_copy(xml_root(to), xml_child(xml_root(from), "Rule"));
        xml_write(to, &text);
        assert_string_equal(strbuf_text(&text),
                            DECLARATION "<L xmlns=\"" S3 "\"><Rule><ID>1</ID></Rule></L>\n");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reading),
                cmocka_unit_test(refusing),
                cmocka_unit_test(deep_nesting_ends),
                cmocka_unit_test(writing),
                cmocka_unit_test(carrying_over),
                cmocka_unit_test(without_a_namespace),
                cmocka_unit_test(a_rule_without_namespace_joins_ours),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
