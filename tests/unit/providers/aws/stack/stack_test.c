/* SPDX-License-Identifier: Apache-2.0 */
/* The Stack's pure half: what its bucket and role shall be, and what making them so costs. */
#include "providers/aws/stack/stack.h"

#include "providers/aws/shared/support.h"

static struct provider provider_of(const char *spec) {
        struct provider provider = team;

        provider.stack = value_of(spec);
        return provider;
}

static struct value *desire(const struct provider *provider, const struct value *recorded) {
        const struct resource resource = { .kind = kinds[KIND_STACK],
                                           .name = "team",
                                           .spec = provider->stack };
        struct observation observed = { .name = "team" };
        struct value *spec = NULL;
        struct error err;

        assert_int_equal(aws_stack_ops.desire(provider, &resource, &observed, recorded, arena, &spec, &err),
                         0);
        return spec;
}

static void bucket_and_role_are_desired(void **state) {
        const struct provider provider = provider_of("{\"tags\":{\"team\":\"research\"}}");
        const struct value *spec = desire(&provider, NULL);
        const struct value *expected = value_of(
                "{\"name\":\"lab-workspaces-123456789012-eu-west-1\",\"encryption\":\"AES256\",\"publicAccessBlock\":true,"
                "\"tlsOnly\":true,\"tags\":{\"team\":\"research\",\"berth:stack\":\"team\",\"berth:kind\":\"Stack\","
                "\"berth:name\":\"team\"}}");

        (void)state;
        assert_true(value_equal(value_get(spec, "bucket"), expected, NULL));
        assert_string_equal(value_text_of(value_path(spec, "role.name")), "lab-execution-eu-west-1");
        assert_true(value_equal(value_path(spec, "role.tags"), value_get(expected, "tags"), NULL));
        assert_int_equal(value_path(spec, "role.policy.Statement")->count, 1);
        assert_non_null(value_path(spec, "role.trust.Statement"));
}

static void what_others_own_is_named_only(void **state) {
        struct provider provider = provider_of("{}");
        const struct value *spec;

        (void)state;
        provider.manages_bucket = false;
        provider.manages_role = false;
        provider.execution_role = "arn:aws:iam::123456789012:role/theirs";
        spec = desire(&provider, NULL);
        assert_true(value_equal(spec,
                                value_of("{\"bucket\":{\"name\":\"lab-workspaces-123456789012-eu-west-1\"},"
                                         "\"role\":{\"arn\":\"arn:aws:iam::123456789012:role/theirs\"}}"),
                                NULL));
        assert_false(stack_has_bucket(spec));
        assert_false(stack_has_role(spec));
}

/*
 * A function that was made and given up is kept in mind while it is there, the role as long as
 * functions run with it.
 */
static void what_was_given_up_is_kept_in_mind(void **state) {
        struct provider provider = provider_of("{}");
        const struct value *applied = desire(&provider, NULL), *spec;
        const struct resource resource = { .kind = kinds[KIND_STACK],
                                           .name = "team",
                                           .spec = provider.stack };
        struct observation observed = { .exists = true, .spec = applied };
        struct value *wish, *extra = value_new_map(arena);
        struct error err;

        (void)state;
        provider.manages_bucket = provider.manages_role = false;
        provider.execution_role = "arn:aws:iam::123456789012:role/theirs";
        spec = desire(&provider, applied);
        assert_string_equal(stack_own_bucket(spec), provider.bucket);
        assert_string_equal(stack_own_role(spec), "lab-execution-eu-west-1");
        assert_true(value_equal(desire(&provider, spec), spec, NULL));
        value_set_boolean(arena, extra, "formerRoleUnused", true);
        observed.extra = extra;
        assert_int_equal(aws_stack_ops.desire(&provider, &resource, &observed, applied, arena, &wish, &err),
                         0);
        assert_null(stack_own_role(wish));
        assert_non_null(stack_own_bucket(wish));
}

/* A manifest that names no key leaves the one that was applied; what stands there then is compared with nothing. */
static void a_key_stays_until_another_is_named(void **state) {
        struct provider provider = provider_of("{}");
        const struct value *applied, *spec;

        (void)state;
        provider.kms_key = "arn:aws:kms:eu-west-1:123456789012:key/a";
        applied = desire(&provider, NULL);
        assert_string_equal(value_text_of(value_path(applied, "bucket.kmsKey")), provider.kms_key);
        assert_int_equal(value_path(applied, "role.policy.Statement")->count, 1);
        assert_string_equal(aws_observed_key(&provider, "other", "k"), "other");
        assert_null(aws_observed_key(&provider, "", "k"));
        provider.kms_key = NULL;
        assert_true(value_equal(desire(&provider, applied), applied, NULL));
        assert_string_equal(aws_observed_key(&provider, "other", "k"), "k");
        provider.kms_key = "arn:aws:kms:eu-west-1:123456789012:key/b";
        spec = desire(&provider, applied);
        assert_string_equal(value_text_of(value_path(spec, "bucket.kmsKey")), provider.kms_key);
}

/*
 * A plan without refresh does not look up the caller's identity: what was applied must not look
 * changed for that.
 */
static void without_identity_nothing_differs(void **state) {
        struct provider provider = provider_of("{\"tags\":{\"a\":\"b\"}}");
        const struct value *applied = desire(&provider, NULL);

        (void)state;
        provider.account = NULL;
        provider.bucket = NULL;
        provider.execution_role = NULL;
        assert_true(value_equal(desire(&provider, applied), applied, NULL));
}

/* The observed bucket, and the calls that lead from there to the desired one. */
static void changes_cost_what_differs(void **state) {
        static const struct {
                const char *missing;     /* path that the observation lacks; "" for none */
                const char *path, *text; /* one that it has otherwise */
                unsigned s3, iam;
        } cases[] = {
                { "bucket", NULL, NULL, 9, 0 },
                { "role", NULL, NULL, 0, 2 },
                { "", "bucket.encryption", "none", 2, 0 },
                { "", "bucket.publicAccessBlock", "", 1, 0 },
                { "", "bucket.tlsOnly", "", 2, 0 },
                { "", "bucket.tags", "", 2, 0 },
                { "", "role.tags", "", 0, 1 },
                { "", "role.trust", "", 0, 2 },
                { "", "role.policy", "", 0, 1 },
                { "", "role.policy", "another", 0, 2 },
                { "", NULL, NULL, 0, 0 },
        };
        const struct provider provider = provider_of("{}");

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const struct value *wish = desire(&provider, NULL);
                struct value *seen = desire(&provider, NULL);
                struct observation observed = { .exists = true, .spec = seen };
                struct change change = { .action = ACTION_UPDATE, .desired = wish, .observed = &observed };
                unsigned s3 = 0, iam = 0;
                struct cost cost = { .arena = arena };

                if (*cases[i].missing)
                        value_unset(seen, cases[i].missing);
                if (cases[i].path) {
                        const char *dot = strchr(cases[i].path, '.');
                        const char *part = arena_strndup(arena, cases[i].path, (size_t)(dot - cases[i].path));
                        struct value inner = value_copy(arena, value_get(seen, part));

                        /* Tags and the switches stay there, but say nothing: they mark what Berth manages. */
                        if (strcmp(dot, ".tags") == 0)
                                value_set(arena, &inner, dot + 1, *value_new_map(arena));
                        else if (*cases[i].text)
                                value_set_text(arena, &inner, dot + 1, cases[i].text);
                        else if (strcmp(part, "bucket") == 0)
                                value_set_boolean(arena, &inner, dot + 1, false);
                        else
                                value_unset(&inner, dot + 1);
                        value_set(arena, seen, part, inner);
                }
                aws_stack_ops.cost(&provider, &change, &cost);
                for (size_t k = 0; k < cost.count; k++)
                        *(strcmp(cost.calls[k].service, "s3") == 0 ? &s3 : &iam) += cost.calls[k].count;
                if (s3 != cases[i].s3 || iam != cases[i].iam)
                        fail_msg("case %zu: %u s3, %u iam", i, s3, iam);
        }
}

static void all_of_it_costs_the_sum(void **state) {
        const struct provider provider = provider_of("{}");
        struct observation nothing = { .exists = false };
        struct change change = { .action = ACTION_CREATE,
                                 .desired = desire(&provider, NULL),
                                 .observed = &nothing };
        struct cost cost = { .arena = arena };

        (void)state;
        aws_stack_ops.cost(&provider, &change, &cost);
        assert_int_equal(cost.count, 2);
        assert_int_equal(cost.calls[0].count + cost.calls[1].count, 11);
}

static void deletion_costs_only_what_is_managed(void **state) {
        struct provider provider = provider_of("{}");
        struct observation observed = { .exists = true, .spec = desire(&provider, NULL) };
        struct change change = { .action = ACTION_DELETE, .observed = &observed };
        struct cost whole = { .arena = arena }, none = whole;

        (void)state;
        aws_stack_ops.cost(&provider, &change, &whole);
        assert_int_equal(whole.count, 2);
        provider.manages_bucket = false;
        provider.manages_role = false;
        observed.spec = desire(&provider, NULL);
        aws_stack_ops.cost(&provider, &change, &none);
        assert_int_equal(none.count, 1); /* its lineage's note goes */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bucket_and_role_are_desired),
                cmocka_unit_test(what_others_own_is_named_only),
                cmocka_unit_test(what_was_given_up_is_kept_in_mind),
                cmocka_unit_test(a_key_stays_until_another_is_named),
                cmocka_unit_test(without_identity_nothing_differs),
                cmocka_unit_test(changes_cost_what_differs),
                cmocka_unit_test(all_of_it_costs_the_sum),
                cmocka_unit_test(deletion_costs_only_what_is_managed),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
