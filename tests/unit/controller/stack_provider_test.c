/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/stack_provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct provider_config opened;

static int open_one(const struct provider_config *config, struct provider **ret, struct error *err) {
        if (strcmp(config->folder, "refused") == 0)
                return error_set(err, "no");
        opened = *config;
        *ret = (struct provider *)&opened;
        return 0;
}

static const struct provider_ops here = { .name = "local", .open = open_one },
                                 there = { .name = "cloud", .open = open_one },
                                 nowhere = { .name = "moon", .open = open_one };
static const struct provider_ops *const providers[] = { &here, &there, &nowhere };

/* Which provider is opened for a Stack whose spec says `declared`, where the command line says `asked`. */
static const char *open_for(const char *declared, const char *asked, const char *folder, size_t count,
                            struct error *err) {
        struct arena *arena = arena_new();
        struct value spec = { .type = VALUE_MAP };
        struct resource stack = { .name = "lab", .spec = &spec };
        struct manifests manifests = { .stack = &stack };
        struct provider_registry registry = { .providers = providers, .count = count };
        struct stack_provider_args args = { .registry = &registry,
                                            .manifests = &manifests,
                                            .provider = asked,
                                            .folder = folder,
                                            .clock = &clock_system };
        const struct provider_ops *ops = NULL;
        struct provider *provider = NULL;

        if (declared)
                value_set_text(arena, &spec, "provider", declared);
        if (stack_provider_open(&args, &ops, &provider, err) < 0) {
                assert_null(ops);
                assert_null(provider);
        } else {
                assert_ptr_equal(provider, &opened);
                assert_string_equal(opened.stack_name, "lab");
                assert_ptr_equal(opened.clock, &clock_system);
        }
        arena_free(arena);
        return ops ? ops->name : NULL;
}

static void test_which_provider(void **state) {
        struct error err;

        (void)state;
        assert_string_equal(open_for(NULL, NULL, "x", 3, &err), "local");
        assert_string_equal(open_for("cloud", NULL, "x", 3, &err), "cloud");
        assert_string_equal(open_for("cloud", "moon", "x", 3, &err), "moon");
}

static void test_none_of_that_name(void **state) {
        struct error err;

        (void)state;
        assert_null(open_for("mars", NULL, "x", 3, &err));
        assert_string_equal(err.message,
                            "there is no provider \"mars\"; this version has local, cloud and moon");
        assert_null(open_for("moon", "mars", "x", 2, &err));
        assert_string_equal(err.message, "there is no provider \"mars\"; this version has local and cloud");
        assert_null(open_for("local", NULL, "refused", 3, &err));
        assert_string_equal(err.message, "no");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_which_provider),
                cmocka_unit_test(test_none_of_that_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
