/* SPDX-License-Identifier: Apache-2.0 */
/* U+0085, U+2028 and U+2029 are characters like others wherever they stand, as in YAML 1.2; they begin no line. */
#include "schema/breaks.h"

#include "support.h"

#define HEAD \
        "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x}\nspec:\n  image: {prebuilt: python}\n"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const breaks[] = { "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9" };

/* "@" stands for each of them. `description` is what is read; or `said` is. */
static const struct {
        const char *yaml, *description, *said;
} cases[] = {
        { HEAD "  # a comment@  description: read\n  memoryMB: 2048\n", NULL, "" },
        { HEAD "  memoryMB: 2048 # a comment@  description: read\n", NULL, "" },
        { HEAD "  # a comment@---\n  description: one\n", "one", "" },
        { "# a comment@%YAML 1.1\n" HEAD "  description: one\n", "one", "" },
        { HEAD "  description: one@  protect: true\n", NULL,
          "m.yaml:6:29: not valid YAML: a second \": \" on one line [a text that holds \": \" needs quotes; a map begins on a line of its own]\n" },
        { HEAD "  description: one@two\n", "one@two", "" },
        { HEAD "  description: \"one @ two\"\n", "one @ two", "" },
        { HEAD "  description: 'one@two@'\n", "one@two@", "" },
        { HEAD "  description: |\n    one@two\n", "one@two\n", "" },
        { HEAD "  description: >-\n    one@two\n    three\n", "one@two three", "" },
        { HEAD "  description: &a@b one\n", NULL,
          "m.yaml:6:18: not valid YAML: did not find expected alphabetic or numeric character [while scanning an anchor that begins on line 6]\n" },
        { HEAD "  # @ @\n  memoryMB: 1\n", NULL, "m.yaml:7:13: memoryMB must be 1769 to 10240, found 1\n" },
        { HEAD "  # @\n  memoryMB: [\n---\n# @\n" HEAD "  memoryMB: 1\n", NULL,
          "m.yaml:8:1: not valid YAML: did not find expected node content [while parsing a flow node that begins on line 8]\nm.yaml:15:13: memoryMB must be 1769 to 10240, found 1\n" },
        /* Texts with what could stand for them, as it is and escaped. */
        { HEAD "  description: \"@ \\u0710 \\u3410 \\U00003430 \xDC\x91\"\n",
          "@ \xDC\x90 \xE3\x90\x90 \xE3\x90\xB0 \xDC\x91", "" },
        { HEAD "  description: \"\\N\\L\\P\" # @\n", "\xC2\x85\xE2\x80\xA8\xE2\x80\xA9", "" },
};

static void with_break(const char *text, const char *one, struct strbuf *ret) {
        for (; *text; text++) {
                if (*text == '@')
                        strbuf_append(ret, one);
                else
                        strbuf_append_char(ret, *text);
        }
}

static void wherever_they_stand(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(cases) * COUNT(breaks); i++) {
                const char *one = breaks[i % COUNT(breaks)];
                size_t row = i / COUNT(breaks);
                struct strbuf yaml STRBUF_CLEANUP = STRBUF_INIT, wanted STRBUF_CLEANUP = STRBUF_INIT;
                struct loaded loaded;

                with_break(cases[row].yaml, one, &yaml);
                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", strbuf_text(&yaml));
                loaded_load(&loaded, "m.yaml", NULL);
                if (strcmp(said_without_folder(&loaded), cases[row].said) != 0)
                        fail_msg("%s\n%s", strbuf_text(&yaml), said_without_folder(&loaded));
                if (!*cases[row].said) {
                        const char *found = value_get_text(loaded.manifests.resources[0].spec, "description");

                        with_break(cases[row].description ? cases[row].description : "", one, &wanted);
                        if (strcmp(found ? found : "", strbuf_text(&wanted)) != 0)
                                fail_msg("%s\n\"%s\" instead of \"%s\"", strbuf_text(&yaml),
                                         found ? found : "", strbuf_text(&wanted));
                }
                loaded_end(&loaded);
        }
}

/* A text that has every character that could stand for one is refused. */
static void none_is_left(void **state) {
        static const unsigned firsts[] = { 0x710, 0x3410, 0x3430 };

        (void)state;
        for (size_t i = 0; i < COUNT(breaks); i++) {
                struct strbuf yaml STRBUF_CLEANUP = STRBUF_INIT;
                struct loaded loaded;

                strbuf_printf(&yaml, HEAD "  # %s\n", breaks[i]);
                for (unsigned code = 0; code < 16; code++)
                        strbuf_printf(&yaml, "  # \\u%04x\n", firsts[i] + code);
                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", strbuf_text(&yaml));
                loaded_load(&loaded, "m.yaml", NULL);
                assert_string_equal(
                        said_without_folder(&loaded),
                        "m.yaml:0:0: this file has U+0085, U+2028 or U+2029 as characters [remove them, or write \\N, \\L or \\P in double quotes]\n");
                loaded_end(&loaded);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(wherever_they_stand),
                cmocka_unit_test(none_is_left),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
