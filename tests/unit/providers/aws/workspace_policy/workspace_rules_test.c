/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/workspace_policy/workspace_rules.h"

#include "providers/aws/shared/support.h"

#include <stdlib.h>

#define NAMESPACE "http://s3.amazonaws.com/doc/2006-03-01/"
#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LifecycleConfiguration xmlns=\"" NAMESPACE "\">"
#define TAIL "</LifecycleConfiguration>\n"
#define FOR_ALL "<Filter><Prefix>workspaces/sessions/</Prefix></Filter><Status>Enabled</Status>"
#define FOR(name)                                                                                         \
        "<Filter><And><Prefix>workspaces/sessions/</Prefix><Tag><Key>berth:environment</Key><Value>" name \
        "</Value></Tag></And></Filter><Status>Enabled</Status>"
#define EXPIRE(days) "<Expiration><Days>" #days "</Days></Expiration>"
#define RULE(id, rest) "<Rule><ID>" id "</ID>" rest "</Rule>"

/* Specs as manifests give them, and the rules that say the same. */
static const struct {
        const char *spec, *rules;
        size_t count;
} pairs[] = {
        { "{\"selector\":{\"all\":true},\"expireAfterDays\":30}", RULE("berth:s:p", FOR_ALL EXPIRE(30)), 1 },
        { "{\"selector\":{\"all\":true},\"abortIncompleteUploadDays\":7}",
          RULE("berth:s:p:abort",
               FOR_ALL "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>"
                       "</AbortIncompleteMultipartUpload>"),
          1 },
        { "{\"selector\":{\"all\":true},\"expireAfterDays\":1095,\"noncurrentExpireAfterDays\":30,"
          "\"abortIncompleteUploadDays\":7}",
          RULE("berth:s:p",
               FOR_ALL EXPIRE(1095) "<NoncurrentVersionExpiration><NoncurrentDays>30</NoncurrentDays>"
                                    "</NoncurrentVersionExpiration>")
                  RULE("berth:s:p:abort",
                       FOR_ALL "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>"
                               "</AbortIncompleteMultipartUpload>"),
          2 },
        { "{\"selector\":{\"environments\":[\"b\",\"a\"]},\"environments\":[\"a\",\"b\"],\"transitions\":["
          "{\"afterDays\":30,\"storageClass\":\"STANDARD_IA\"},{\"afterDays\":0,\"storageClass\":\"INTELLIGENT_TIERING\"}]"
          ",\"expireAfterDays\":400}",
          RULE("berth:s:p:a",
               FOR("a") "<Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"
                        "<Transition><Days>0</Days><StorageClass>INTELLIGENT_TIERING</StorageClass>"
                        "</Transition>" EXPIRE(400))
                  RULE("berth:s:p:b",
                       FOR("b") "<Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"
                                "<Transition><Days>0</Days><StorageClass>INTELLIGENT_TIERING</StorageClass>"
                                "</Transition>" EXPIRE(400)),
          2 },
        { "{\"selector\":{\"all\":true},\"lineage\":\"u-1\",\"expireAfterDays\":30,\"abortIncompleteUploadDays\":7}",
          RULE("berth:s:p@u-1", FOR_ALL EXPIRE(30))
                  RULE("berth:s:p:abort@u-1",
                       FOR_ALL "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>"
                               "</AbortIncompleteMultipartUpload>"),
          2 },
        { "{\"selector\":{\"environments\":[\"a\"]},\"environments\":[\"a\"],\"lineage\":\"u-1\",\"expireAfterDays\":3}",
          RULE("berth:s:p:a@u-1", FOR("a") EXPIRE(3)), 1 },
        /* An environment of that name is no matter of unfinished uploads. */
        { "{\"selector\":{\"environments\":[\"abort\"]},\"environments\":[\"abort\"],\"expireAfterDays\":3}",
          RULE("berth:s:p:abort", FOR("abort") EXPIRE(3)), 1 },
        { "{\"selector\":{\"matchLabels\":{\"x\":\"y\"}},\"environments\":[],\"expireAfterDays\":3}", "", 0 },
        { "{\"selector\":{\"all\":true},\"maxDownloadFileMB\":25}", "", 0 },
};
#define PAIRS (sizeof(pairs) / sizeof(*pairs))

static void specs_become_rules(void **state) {
        (void)state;
        for (size_t i = 0; i < PAIRS; i++) {
                struct xml_document *document XML_CLEANUP = xml_new("LifecycleConfiguration", NAMESPACE);
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                const char *expected =
                        *pairs[i].rules ? arena_printf(arena, HEAD "%s" TAIL, pairs[i].rules) : NULL;

                workspace_rules_add(xml_root(document), "s", "p", value_of(pairs[i].spec), arena);
                assert_int_equal(workspace_rules_count(value_of(pairs[i].spec)), pairs[i].count);
                if (!expected) {
                        assert_null(xml_child(xml_root(document), NULL));
                        continue;
                }
                xml_write(document, &text);
                assert_string_equal(strbuf_text(&text), expected);
        }
}

static const struct value *read_rules(const char *rules, const char *recorded) {
        struct xml_document *document XML_CLEANUP = NULL;
        const char *text = arena_printf(arena, HEAD "%s" TAIL, rules);
        struct workspace_rules index;
        struct error err;

        assert_int_equal(xml_parse(text, strlen(text), "the test", &document, &err), 0);
        index = workspace_rules_index(xml_root(document), arena);
        return workspace_rules_read(&index, "s", "p", value_of(recorded), arena);
}

static void rules_become_specs(void **state) {
        (void)state;
        for (size_t i = 0; i < PAIRS; i++) {
                const struct value *spec = read_rules(pairs[i].rules, NULL);

                if (pairs[i].count == 0) {
                        assert_null(spec);
                        continue;
                }
                assert_non_null(spec);
                if (!value_equal(spec, workspace_rules_spec(value_of(pairs[i].spec), arena), NULL))
                        fail_msg("case %zu: %s", i, pairs[i].spec);
        }
}

/* Others' rules, and what is written back: of the second version all of them, which says the same. */
static void others_rules_are_of_one_version(void **state) {
        static const struct {
                const char *there, *written;
        } cases[] = {
                { RULE("v1", "<Prefix>logs/</Prefix><Status>Enabled</Status>" EXPIRE(3)),
                  RULE("v1", "<Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status>" EXPIRE(3)) },
                { RULE("all", "<Status>Enabled</Status><Prefix/>" EXPIRE(3)),
                  RULE("all", "<Status>Enabled</Status><Filter><Prefix></Prefix></Filter>" EXPIRE(3)) },
                { RULE("neither", "<Status>Enabled</Status>" EXPIRE(3)),
                  RULE("neither", "<Status>Enabled</Status>" EXPIRE(3) "<Filter/>") },
                { RULE("v2", FOR_ALL EXPIRE(3)), RULE("v2", FOR_ALL EXPIRE(3)) },
                { RULE("both", "<Prefix/>" FOR("a") EXPIRE(3)), RULE("both", FOR("a") EXPIRE(3)) },
                /* What of it holds is not for Berth to say: S3 refuses it. */
                { RULE("odd", "<Prefix>logs/</Prefix>" FOR_ALL EXPIRE(3)),
                  RULE("odd", "<Prefix>logs/</Prefix>" FOR_ALL EXPIRE(3)) },
                { RULE("dates",
                       "<Prefix>a &lt;&amp;&gt; \xc3\xbc</Prefix><Status>Disabled</Status>"
                       "<Transition><Date>2030-01-01T00:00:00.000Z</Date><StorageClass>GLACIER</StorageClass></Transition>"
                       "<NoncurrentVersionTransition><NoncurrentDays>30</NoncurrentDays><StorageClass>STANDARD_IA"
                       "</StorageClass></NoncurrentVersionTransition>"
                       "<Expiration><Date>2031-01-01T00:00:00.000Z</Date></Expiration>"),
                  RULE("dates",
                       "<Filter><Prefix>a &lt;&amp;&gt; \xc3\xbc</Prefix></Filter><Status>Disabled</Status>"
                       "<Transition><Date>2030-01-01T00:00:00.000Z</Date><StorageClass>GLACIER</StorageClass></Transition>"
                       "<NoncurrentVersionTransition><NoncurrentDays>30</NoncurrentDays><StorageClass>STANDARD_IA"
                       "</StorageClass></NoncurrentVersionTransition>"
                       "<Expiration><Date>2031-01-01T00:00:00.000Z</Date></Expiration>") },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct xml_document *before XML_CLEANUP = NULL;
                struct xml_document *after XML_CLEANUP = xml_new("LifecycleConfiguration", NAMESPACE);
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                const char *there = arena_printf(arena, HEAD "%s" TAIL, cases[i].there);
                struct error err;

                assert_int_equal(xml_parse(there, strlen(there), "the test", &before, &err), 0);
                workspace_rules_copy(xml_root(after), xml_child(xml_root(before), "Rule"), arena);
                xml_write(after, &text);
                assert_string_equal(strbuf_text(&text),
                                    arena_printf(arena, HEAD "%s" TAIL, cases[i].written));
        }
}

/* Rules of two lineages, or of one and of none, tell none: that is a difference whatever is desired. */
static void rules_of_several_tell_no_lineage(void **state) {
        static const char *const cases[] = {
                RULE("berth:s:p:a@u-1", FOR("a") EXPIRE(3)) RULE("berth:s:p:b@u-2", FOR("b") EXPIRE(3)),
                RULE("berth:s:p:a@u-1", FOR("a") EXPIRE(3)) RULE("berth:s:p:b", FOR("b") EXPIRE(3)),
                RULE("berth:s:p:a", FOR("a") EXPIRE(3)) RULE("berth:s:p:b@u-1", FOR("b") EXPIRE(3)),
                RULE("berth:s:p:a", FOR("a") EXPIRE(3)),
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                assert_null(value_get(read_rules(cases[i], NULL), "lineage"));
        assert_string_equal(
                value_get_text(read_rules(RULE("berth:s:p:a@u-1", FOR("a") EXPIRE(3)), NULL), "lineage"),
                "u-1");
}

/* All and none take no environments, and must never look alike for that. */
static void all_is_not_none(void **state) {
        const struct value *all = value_of("{\"selector\":{\"all\":true},\"expireAfterDays\":3}");
        const struct value *none = value_of(
                "{\"selector\":{\"matchLabels\":{\"x\":\"y\"}},\"environments\":[],\"expireAfterDays\":3}");

        (void)state;
        all = workspace_rules_spec(all, arena);
        none = workspace_rules_spec(none, arena);
        assert_false(value_equal(all, none, NULL));
        assert_true(workspace_rules_is_for_all(all));
        assert_false(workspace_rules_is_for_all(none));
        assert_int_equal(workspace_rules_count(all), 1);
        assert_int_equal(workspace_rules_count(none), 0);
}

#define ALL_AND(rest) "{\"appliesTo\":\"all\"," rest "}"

/* Rules as a person or a server left them, and the spec they amount to. */
static void altered_rules_read_as_what_they_do(void **state) {
        static const char two[] =
                "{\"selector\":{\"environments\":[\"a\",\"b\"]},\"environments\":[\"a\",\"b\"],"
                "\"expireAfterDays\":30}";
        static const char all[] = "{\"selector\":{\"all\":true},\"expireAfterDays\":30}";
        static const struct {
                const char *name, *recorded, *rules, *expected;
        } cases[] = {
                { "nobody's", two, "", NULL },
                { "others'", two,
                  RULE("mine", "<Filter><Prefix>x</Prefix></Filter><Status>Enabled</Status>" EXPIRE(1))
                          RULE("berth:other:p", FOR_ALL EXPIRE(1)) RULE("berth:s:pq", FOR_ALL EXPIRE(1))
                                  RULE("berth:s:q:p", FOR("p") EXPIRE(1)) RULE("berth:s", FOR_ALL EXPIRE(1)),
                  NULL },
                { "in another order", two,
                  RULE("berth:s:p:b", FOR("b") EXPIRE(30)) RULE("berth:s:p:a", FOR("a") EXPIRE(30)),
                  "{\"environments\":[\"a\",\"b\"],\"expireAfterDays\":30}" },
                { "with what servers add", all,
                  RULE("berth:s:p", "<Prefix/><Expiration><Days>30</Days><ExpiredObjectDeleteMarker>false"
                                    "</ExpiredObjectDeleteMarker></Expiration>" FOR_ALL),
                  ALL_AND("\"expireAfterDays\":30") },
                { "one is missing", two, RULE("berth:s:p:b", FOR("b") EXPIRE(30)),
                  "{\"environments\":[\"b\"],\"expireAfterDays\":30}" },
                { "one is disabled", two,
                  RULE("berth:s:p:a",
                       "<Filter><And><Prefix>workspaces/sessions/</Prefix><Tag><Key>berth:environment</Key>"
                       "<Value>a</Value></Tag></And></Filter><Status>Disabled</Status>" EXPIRE(30))
                          RULE("berth:s:p:b", FOR("b") EXPIRE(30)),
                  "{\"environments\":[\"b\"],\"expireAfterDays\":30}" },
                { "one is other than recorded", two,
                  RULE("berth:s:p:a", FOR("a") EXPIRE(1)) RULE("berth:s:p:b", FOR("b") EXPIRE(30)),
                  "{\"environments\":[\"b\"],\"expireAfterDays\":30}" },
                { "all are other than recorded", two,
                  RULE("berth:s:p:a", FOR("a") EXPIRE(1)) RULE("berth:s:p:b", FOR("b") EXPIRE(1)),
                  "{\"environments\":[\"a\",\"b\"],\"expireAfterDays\":1}" },
                { "one too many", two,
                  RULE("berth:s:p:a", FOR("a") EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30))
                          RULE("berth:s:p:c", FOR("c") EXPIRE(30)),
                  "{\"environments\":[\"a\",\"b\",\"c\"],\"expireAfterDays\":30}" },
                { "one for all too many", two,
                  RULE("berth:s:p:a", FOR("a") EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30))
                          RULE("berth:s:p", FOR_ALL EXPIRE(30)),
                  ALL_AND("\"environments\":[\"a\",\"b\"],\"expireAfterDays\":30") },
                { "another tag's value than its name says", two,
                  RULE("berth:s:p:a", FOR("z") EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30)),
                  "{\"environments\":[\"b\"],\"expireAfterDays\":30}" },
                { "the tag is gone", two,
                  RULE("berth:s:p:a", FOR_ALL EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30)),
                  "{\"environments\":[\"b\"],\"expireAfterDays\":30}" },
                { "an action was added", all,
                  RULE("berth:s:p",
                       FOR_ALL EXPIRE(30) "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
                                          "</NoncurrentVersionExpiration>"),
                  ALL_AND("\"expireAfterDays\":30,\"noncurrentExpireAfterDays\":1") },
                { "an action that no policy says", all,
                  RULE("berth:s:p",
                       FOR_ALL EXPIRE(30) "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays>"
                                          "<StorageClass>GLACIER</StorageClass>"
                                          "</NoncurrentVersionTransition>"),
                  "{\"appliesTo\":\"all\"}" },
                { "newer versions are kept", "{\"selector\":{\"all\":true},\"noncurrentExpireAfterDays\":1}",
                  RULE("berth:s:p", FOR_ALL "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
                                            "<NewerNoncurrentVersions>3</NewerNoncurrentVersions>"
                                            "</NoncurrentVersionExpiration>"),
                  "{\"appliesTo\":\"all\"}" },
                { "expires at a date", all,
                  RULE("berth:s:p", FOR_ALL "<Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration>"),
                  "{\"appliesTo\":\"all\"}" },
                { "by size as well", all,
                  RULE("berth:s:p",
                       "<Filter><And><Prefix>workspaces/sessions/</Prefix><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan>"
                       "</And></Filter><Status>Enabled</Status>" EXPIRE(30)),
                  "{\"appliesTo\":\"all\"}" },
                { "a size that is no condition", two,
                  RULE("berth:s:p:a",
                       "<Filter><And><Prefix>workspaces/sessions/</Prefix><Tag><Key>berth:environment</Key>"
                       "<Value>a</Value></Tag><ObjectSizeGreaterThan>0</ObjectSizeGreaterThan></And></Filter>"
                       "<Status>Enabled</Status>" EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30)),
                  "{\"environments\":[\"a\",\"b\"],\"expireAfterDays\":30}" },
                { "all in an And, with what is not set", all,
                  RULE("berth:s:p",
                       "<Prefix/><Filter><And><Prefix>workspaces/sessions/</Prefix><Tag/>"
                       "<ObjectSizeGreaterThan>0</ObjectSizeGreaterThan><ObjectSizeLessThan/></And></Filter>"
                       "<Status>Enabled</Status><Expiration><Days>30</Days>"
                       "<ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>"),
                  ALL_AND("\"expireAfterDays\":30") },
                { "no newer versions are kept",
                  "{\"selector\":{\"all\":true},\"noncurrentExpireAfterDays\":1}",
                  RULE("berth:s:p", FOR_ALL "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
                                            "<NewerNoncurrentVersions>0</NewerNoncurrentVersions>"
                                            "</NoncurrentVersionExpiration>"),
                  ALL_AND("\"noncurrentExpireAfterDays\":1") },
                { "another tag as well", two,
                  RULE("berth:s:p:a",
                       "<Filter><And><Prefix>workspaces/sessions/</Prefix><Tag><Key>berth:environment</Key>"
                       "<Value>a</Value></Tag><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>"
                       "<Status>Enabled</Status>" EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30)),
                  "{\"environments\":[\"b\"],\"expireAfterDays\":30}" },
                { "of another prefix", all,
                  RULE("berth:s:p",
                       "<Filter><Prefix>workspaces/</Prefix></Filter><Status>Enabled</Status>" EXPIRE(30)),
                  "{\"appliesTo\":\"all\"}" },
                { "only unfinished uploads are left",
                  "{\"selector\":{\"all\":true},\"expireAfterDays\":30,"
                  "\"abortIncompleteUploadDays\":7}",
                  RULE("berth:s:p:abort",
                       FOR_ALL "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>"
                               "</AbortIncompleteMultipartUpload>"),
                  ALL_AND("\"abortIncompleteUploadDays\":7") },
                { "one for all where none should be",
                  "{\"selector\":{\"matchLabels\":{\"z\":\"x\"}},\"expireAfterDays\":30}",
                  RULE("berth:s:p", FOR_ALL EXPIRE(30)), ALL_AND("\"expireAfterDays\":30") },
                { "one for all too many, that does something else", two,
                  RULE("berth:s:p:a", FOR("a") EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30))
                          RULE("berth:s:p", FOR_ALL EXPIRE(1)),
                  "{\"environments\":[\"* (altered)\",\"a\",\"b\"],\"expireAfterDays\":30}" },
                { "one too many, that does something else", two,
                  RULE("berth:s:p:a", FOR("a") EXPIRE(30)) RULE("berth:s:p:b", FOR("b") EXPIRE(30))
                          RULE("berth:s:p:c", FOR("c") EXPIRE(1)),
                  "{\"environments\":[\"a\",\"b\",\"c (altered)\"],\"expireAfterDays\":30}" },
                { "one for an environment beside the one for all", all,
                  RULE("berth:s:p:a", FOR("a") EXPIRE(30)) RULE("berth:s:p", FOR_ALL EXPIRE(30)),
                  ALL_AND("\"environments\":[\"a\"],\"expireAfterDays\":30") },
                { "nothing recorded, only unfinished uploads", NULL,
                  RULE("berth:s:p:abort",
                       FOR_ALL "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>"
                               "</AbortIncompleteMultipartUpload>"),
                  ALL_AND("\"abortIncompleteUploadDays\":7") },
                { "days that are no number", all,
                  RULE("berth:s:p", FOR_ALL "<Expiration><Days>soon</Days></Expiration>"),
                  "{\"appliesTo\":\"all\"}" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const struct value *spec = read_rules(cases[i].rules, cases[i].recorded);

                if ((spec == NULL) != (cases[i].expected == NULL))
                        fail_msg("%s: %s", cases[i].name, spec ? "read as a policy" : "not read");
                if (spec &&
                    !value_equal(spec, workspace_rules_spec(value_of(cases[i].expected), arena), NULL)) {
                        json_t *found JSON_CLEANUP = value_to_json(spec, NULL);

                        fail_msg("%s: %s, not %s", cases[i].name, json_compact(found), cases[i].expected);
                }
        }
}

/* A null in the desired spec turns an action that was added elsewhere into a difference. */
static void absent_actions_are_said(void **state) {
        const struct value *spec = workspace_rules_spec(value_of("{\"expireAfterDays\":1}"), arena);
        static const char *const names[] = { "environments", "transitions", "noncurrentExpireAfterDays",
                                             "abortIncompleteUploadDays" };

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
                assert_int_equal(value_get(spec, names[i])->type, VALUE_NULL);
        assert_int_equal(value_get_integer(spec, "expireAfterDays", -1), 1);
}

static void ids_are_ours_or_not(void **state) {
        static const struct {
                const char *id;
                bool ours;
        } cases[] = {
                { "berth:s:p", true },   { "berth:s:p:a", true }, { "berth:s:p:abort", true },
                { "berth:s:pp", false }, { "berth:s:", false },   { "berth:t:p", false },
                { "Berth:s:p", false },  { "", false },           { "berth:ss:p", false },
                { "xberth:s:p", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                if (workspace_rules_owns(cases[i].id, "s", "p") != cases[i].ours)
                        fail_msg("%s", cases[i].id);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(specs_become_rules),
                cmocka_unit_test(rules_become_specs),
                cmocka_unit_test(others_rules_are_of_one_version),
                cmocka_unit_test(rules_of_several_tell_no_lineage),
                cmocka_unit_test(all_is_not_none),
                cmocka_unit_test(altered_rules_read_as_what_they_do),
                cmocka_unit_test(absent_actions_are_said),
                cmocka_unit_test(ids_are_ours_or_not),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
