/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/images/local_reference.h"

#include <string.h>

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_references(void **state) {
        static const struct {
                const char *text, *repository, *tag, *digest; /* repository NULL: refused */
        } rows[] = {
                { "data/etl", "data/etl", "latest", NULL },
                { "data/etl:1.10", "data/etl", "1.10", NULL },
                { "data/etl@" DIGEST, "data/etl", NULL, DIGEST },
                { "data/etl:", NULL, NULL, NULL },
                { "data/etl:a:b", NULL, NULL, NULL },
                { "data/etl:1@" DIGEST, NULL, NULL, NULL },
                { "data/etl@sha256:12", NULL, NULL, NULL },
                { "localhost:5000/etl:1", NULL, NULL, NULL },
                { "", NULL, NULL, NULL },
                { "../etl", NULL, NULL, NULL },
        };
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct local_reference reference;
                struct error err = { 0 };
                int result = local_reference_parse(rows[i].text, arena, &reference, &err);

                if ((result == 0) != (rows[i].repository != NULL))
                        fail_msg("%s", rows[i].text);
                if (result < 0)
                        continue;
                assert_string_equal(reference.repository, rows[i].repository);
                assert_string_equal(reference.tag ? reference.tag : "-", rows[i].tag ? rows[i].tag : "-");
                assert_string_equal(reference.digest ? reference.digest : "-",
                                    rows[i].digest ? rows[i].digest : "-");
        }
}

static void test_remedies(void **state) {
        static const struct {
                const char *repository, *tag, *problem, *says;
        } rows[] = {
                { "data/etl", "1", "missing", "berth image import data/etl:1 PATH" },
                { "data/etl", NULL, "missing", "berth image import data/etl:TAG PATH" },
                { "prebuilt/python", "latest", "missing", "berth image build python" },
                { "data/etl", "1", "index", "skopeo copy --override-os linux --override-arch amd64" },
                { "data/etl", "1", "platform", "--platform linux/amd64" },
                { "data/etl", "1", "size", "make it smaller" },
                { "data/etl", "1", "media-type", "berth image import data/etl:1 image.tar" },
        };
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct local_reference reference = { rows[i].repository, rows[i].tag, NULL };
                const char *remedy = local_reference_remedy(&reference, rows[i].problem, arena);

                if (!strstr(remedy, rows[i].says))
                        fail_msg("%s: %s", rows[i].problem, remedy);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_references),
                                            cmocka_unit_test(test_remedies) };

        return cmocka_run_group_tests_name("image_reference", tests, NULL, NULL);
}
