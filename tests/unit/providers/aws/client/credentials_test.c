/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/credentials.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_MS INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */
#define MINUTE_MS INT64_C(60000)

/* --- a clock that stands, and an STS that answers what it is told --- */

static atomic_llong now_ms;

static int64_t read_now(const struct clock *clock) {
        (void)clock;
        return (int64_t)atomic_load(&now_ms);
}

static int never_sleep(const struct clock *clock, int64_t until_ms) {
        (void)clock, (void)until_ms;
        fail_msg("credentials must not sleep");
        return 0;
}

static const struct clock standing_clock = { read_now, read_now, never_sleep, NULL };

static atomic_int calls;
static bool sts_fails;
static const char *sts_expiration;
static char signers[512]; /* access keys that signed, in order */
static char last_form[1024];

static int fake_call(struct credentials_caller *caller, const char *operation,
                     const struct credentials *signer, const char *origin, const char *form,
                     struct strbuf *ret_answer, enum retry_reason *ret_reason, int64_t *ret_asked_ms,
                     struct error *err) {
        int call = atomic_fetch_add(&calls, 1) + 1;
        size_t used = strlen(signers);

        (void)caller;
        if (!signer)
                assert_non_null(origin);
        snprintf(signers + used, sizeof(signers) - used, "%s ",
                 signer ? credentials_keys(signer).access_key : "unsigned");
        snprintf(last_form, sizeof(last_form), "%s", form);
        if (sts_fails) {
                *ret_reason = RETRY_TRANSIENT;
                *ret_asked_ms = 7;
                return error_set(err, "sts is down");
        }
        strbuf_printf(ret_answer,
                      "<%sResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><%sResult>"
                      "<Credentials><AccessKeyId>ROLE%d</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                      "<SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials>"
                      "</%sResult></%sResponse>",
                      operation, operation, call, sts_expiration, operation, operation);
        return 0;
}

static struct credentials_caller fake_sts = { fake_call };

/* --- the files --- */

static char config_path[] = "/tmp/berth-config-XXXXXX", keys_path[] = "/tmp/berth-keys-XXXXXX";

/* clang-format off */
#define ROLE(name) "role_arn = arn:aws:iam::123456789012:role/" name "\n"
#define KEYS(name) "aws_access_key_id = " name "\naws_secret_access_key = s\n"

static const char config[] =
        "[profile config-keys]\n" KEYS("CONFIG")
        "[profile both]\n" KEYS("CONFIG")
        "[profile role]\n" ROLE("one") "source_profile = keys\nexternal_id = e/1\nrole_session_name = me\nduration_seconds = 900\n"
        "[profile chained]\n" ROLE("two") "source_profile = role\n"
        "[profile self]\n" ROLE("self") "source_profile = self\n" KEYS("SELF")
        "[profile loop-a]\n" ROLE("a") "source_profile = loop-b\n"
        "[profile loop-b]\n" ROLE("b") "source_profile = loop-a\n"
        "[profile loop-self]\n" ROLE("b") "source_profile = loop-self\n"
        "[profile lost]\n" ROLE("a") "source_profile = nowhere\n"
        "[profile neither]\n" ROLE("a")
        "[profile two-sources]\n" ROLE("a") "source_profile = keys\ncredential_source = Environment\n"
        "[profile from-environment]\n" ROLE("env") "credential_source = Environment\n"
        "[profile from-metadata]\n" ROLE("a") "credential_source = Ec2InstanceMetadata\n"
        "[profile from-container]\n" ROLE("a") "credential_source = EcsContainer\n"
        "[profile from-somewhere]\n" ROLE("a") "credential_source = environment\n"
        "[profile mfa]\n" ROLE("a") "source_profile = keys\nmfa_serial = arn:aws:iam::1:mfa/me\n"
        "[profile duration]\n" ROLE("a") "source_profile = keys\nduration_seconds = 60\n"
        "[profile web]\n" ROLE("web") "web_identity_token_file = /dev/null\n"
        "[profile on-process]\n" ROLE("on-process") "source_profile = process\n"
        "[profile sso-lost]\nsso_session = corp\nsso_role_name = r\nsso_account_id = 1\n"
        "[profile sso-half]\nsso_start_url = https://x\nsso_role_name = r\nsso_account_id = 1\n"
        "[profile sso-differs]\nsso_session = s\nsso_role_name = r\nsso_account_id = 1\nsso_region = eu-west-1\n"
        "[sso-session s]\nsso_start_url = https://x\nsso_region = us-east-1\n"
        "[profile process]\ncredential_process = /bin/echo '{\"Version\": 1, \"AccessKeyId\": \"PROCESS\", \"SecretAccessKey\": \"s\"}'\n"
        "[profile login]\nlogin_session = arn:aws:iam::1:user/me\n"
        "[profile empty]\nregion = eu-west-1\n"
        "[profile half]\naws_access_key_id = HALF\n"
        "[profile hollow]\naws_access_key_id =\naws_secret_access_key = s\n"
        "[profile split]\naws_secret_access_key = s\n"
        "[profile source-half]\n" ROLE("a") "source_profile = half\n"
        "[profile source-empty]\n" ROLE("a") "source_profile = empty\n"
        "[profile \"a name\"]\n" KEYS("QUOTED");
/* clang-format on */
static const char keys[] =
        "[keys]\naws_access_key_id = KEYS\naws_secret_access_key = s\naws_session_token = tok\n"
        "[both]\naws_access_key_id = FILE\naws_secret_access_key = s\n"
        "[split]\naws_access_key_id = SPLIT\n";

static int write_file(char *path, const char *text) {
        int descriptor = mkstemp(path);

        if (descriptor < 0 || write(descriptor, text, strlen(text)) != (ssize_t)strlen(text))
                return -1;
        return close(descriptor);
}

static int write_files(void **state) {
        (void)state;
        return write_file(config_path, config) < 0 || write_file(keys_path, keys) < 0 ? -1 : 0;
}

static int remove_files(void **state) {
        (void)state;
        return unlink(config_path) | unlink(keys_path);
}

struct fixture {
        struct profiles *profiles;
        struct credentials_chain *chain;
};

static int begin(void **state) {
        (void)state;
        setenv("AWS_CONFIG_FILE", config_path, 1);
        setenv("AWS_SHARED_CREDENTIALS_FILE", keys_path, 1);
        setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
        unsetenv("AWS_ACCESS_KEY_ID");
        unsetenv("AWS_SECRET_ACCESS_KEY");
        unsetenv("AWS_SESSION_TOKEN");
        unsetenv("AWS_CREDENTIAL_EXPIRATION");
        unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
        atomic_store(&now_ms, START_MS);
        atomic_store(&calls, 0);
        sts_fails = false;
        sts_expiration = "2026-01-31T13:00:00Z";
        signers[0] = last_form[0] = '\0';
        return 0;
}

static void set_environment_keys(void) {
        setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT", 1);
        setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
}

static bool by_stack; /* the profile is named by the Stack, not by a variable */

static struct fixture open_chain(const char *profile, const char *assume_role) {
        struct fixture fixture = { 0 };
        struct error err = { 0 };
        struct credentials_settings settings = {
                .profile = profile ? profile : "default",
                .profile_named_by = profile ? by_stack ? "the Stack's aws.profile" : "AWS_PROFILE" : NULL,
                .no_environment = by_stack,
                .session_profile = profile ? profile : "default",
                .region = "eu-west-1",
                .assume_role = assume_role,
                .clock = &standing_clock,
                .caller = &fake_sts,
        };

        assert_int_equal(profiles_load(&fixture.profiles, &err), 0);
        settings.profiles = fixture.profiles;
        fixture.chain = credentials_chain_new(&settings);
        return fixture;
}

static void close_chain(struct fixture *fixture) {
        credentials_chain_free(fixture->chain);
        profiles_free(fixture->profiles);
}

static struct credentials *get(const struct fixture *fixture) {
        struct credentials *credentials = NULL;
        enum retry_reason reason;
        struct error err = { 0 };
        int64_t asked_ms;

        if (credentials_chain_get(fixture->chain, &credentials, &reason, &asked_ms, &err) < 0)
                fail_msg("%s", err.message);
        return credentials;
}

static void assert_key(const struct fixture *fixture, const char *access_key) {
        struct credentials *credentials CREDENTIALS_CLEANUP = get(fixture);

        assert_string_equal(credentials_keys(credentials).access_key, access_key);
}

/* --- where keys come from --- */

static const struct {
        const char *profile; /* NULL: none named */
        const char *assume_role;
        bool environment;
        const char *access_key;
        const char *signers;
        const char *origin;
} found[] = {
        { NULL, NULL, true, "ENVIRONMENT", "", "AWS_ACCESS_KEY_ID" },
        { "keys", NULL, true, "ENVIRONMENT", "",
          "AWS_ACCESS_KEY_ID" }, /* AWS_PROFILE does not set it aside */
        { "keys", NULL, false, "KEYS", "", "the profile keys" },
        { "config-keys", NULL, false, "CONFIG", "", "the profile config-keys" },
        { "both", NULL, false, "FILE", "", "the profile both" },
        { "a name", NULL, false, "QUOTED", "", "the profile a name" },
        { "role", NULL, false, "ROLE1", "KEYS ", "the role arn:aws:iam::123456789012:role/one" },
        { "chained", NULL, false, "ROLE2", "KEYS ROLE1 ", "the role arn:aws:iam::123456789012:role/two" },
        { "self", NULL, false, "ROLE1", "SELF ", "the role arn:aws:iam::123456789012:role/self" },
        { "process", NULL, false, "PROCESS", "", "the profile process" },
        { "on-process", NULL, false, "ROLE1", "PROCESS ",
          "the role arn:aws:iam::123456789012:role/on-process" },
        { NULL, "arn:aws:iam::1:role/top", true, "ROLE1", "ENVIRONMENT ",
          "the role arn:aws:iam::1:role/top" },
        { "chained", "arn:aws:iam::1:role/top", false, "ROLE3", "KEYS ROLE1 ROLE2 ",
          "the role arn:aws:iam::1:role/top" },
};

static void keys_come_from_where_the_sdks_look(void **state) {
        for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
                struct fixture fixture;
                struct credentials *credentials;

                begin(state);
                if (found[i].environment)
                        set_environment_keys();
                fixture = open_chain(found[i].profile, found[i].assume_role);
                credentials = get(&fixture);
                assert_string_equal(credentials_keys(credentials).access_key, found[i].access_key);
                assert_string_equal(credentials_origin(credentials), found[i].origin);
                assert_string_equal(signers, found[i].signers);
                credentials_unref(credentials);
                close_chain(&fixture);
        }
}

static const struct {
        const char *profile;
        const char *message;
} refused[] = {
        { "nobody", "the profile nobody, named by AWS_PROFILE, is in neither" },
        { "loop-a", "lead to each other by source_profile" },
        { "loop-self", "lead to each other by source_profile" },
        { "lost", "names the source_profile nowhere, which is in neither" },
        { "neither", "neither source_profile nor credential_source" },
        { "two-sources", "both source_profile and credential_source" },
        { "from-environment", "credential_source = Environment, which has" },
        { "from-metadata",
          "credential_source = Ec2InstanceMetadata, which has no credentials: the instance's metadata "
          "(AWS_EC2_METADATA_DISABLED is set)" },
        { "from-container", "credential_source = EcsContainer, which has no credentials" },
        { "from-somewhere", "credential_source = environment: it must be Environment, EcsContainer or" },
        { "web", "/dev/null holds no token" },
        { "mfa", "has mfa_serial" },
        { "duration", "it must be 900 to 43200" },
        { "sso-lost", "names the sso-session corp, which is not in" },
        { "sso-half", "is to use SSO, but sso_region is not set" },
        { "sso-differs", "the profile sso-differs and its sso-session s differ in sso_region" },
        { "login", "run aws login --profile login" },
        { "hollow", "the profile hollow has an empty aws_access_key_id" },
        { "split",
          "the profile split has aws_access_key_id but no aws_secret_access_key" }, /* files do not add up */
        { "empty", "no AWS credentials found" },
        { "half", "the profile half has aws_access_key_id but no aws_secret_access_key" },
        { "source-half", "the profile half has aws_access_key_id but no aws_secret_access_key" },
        { "source-empty", "the profile empty has no credentials" },
        { NULL,
          "Looked at: the environment (AWS_ACCESS_KEY_ID is not set); the profile default (no role_arn); web identity "
          "(AWS_WEB_IDENTITY_TOKEN_FILE is not set); SSO (" },
};

static void what_is_wrong_is_said(void **state) {
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                struct credentials *credentials = NULL;
                enum retry_reason reason = RETRY_TRANSIENT;
                struct error err = { 0 };
                struct fixture fixture;
                int64_t asked_ms;

                begin(state);
                fixture = open_chain(refused[i].profile, NULL);
                assert_int_equal(credentials_chain_get(fixture.chain, &credentials, &reason, &asked_ms, &err),
                                 -1);
                print_message("  %s\n", err.message);
                assert_non_null(strstr(err.message, refused[i].message));
                assert_int_equal(reason, RETRY_NOT);
                assert_null(credentials);
                close_chain(&fixture);
        }
}

static void half_an_environment_is_an_error(void **state) {
        struct credentials *credentials = NULL;
        struct fixture fixture;
        enum retry_reason reason;
        struct error err = { 0 };
        int64_t asked_ms;

        (void)state;
        setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT", 1);
        fixture = open_chain(NULL, NULL);
        assert_int_equal(credentials_chain_get(fixture.chain, &credentials, &reason, &asked_ms, &err), -1);
        assert_non_null(strstr(err.message, "AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not"));
        close_chain(&fixture);
}

static void a_profile_of_the_stack_sets_the_environment_aside(void **state) {
        struct fixture fixture;

        (void)state;
        set_environment_keys();
        by_stack = true;
        fixture = open_chain("keys", NULL);
        assert_key(&fixture, "KEYS");
        close_chain(&fixture);
        fixture = open_chain("from-environment", NULL); /* but not where the profile asks for it */
        assert_key(&fixture, "ROLE1");
        assert_string_equal(signers, "ENVIRONMENT ");
        close_chain(&fixture);
        by_stack = false;
}

static void web_identity_is_unsigned(void **state) {
        char path[] = "/tmp/berth-token-XXXXXX";
        struct fixture fixture;

        (void)state;
        assert_int_equal(write_file(path, "a.b/c"), 0);
        setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
        fixture = open_chain("web", NULL);
        assert_key(&fixture, "ROLE1");
        assert_string_equal(signers, "unsigned ");
        assert_non_null(strstr(
                last_form, "&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fweb&RoleSessionName=berth-"));
        assert_non_null(strstr(last_form, "&WebIdentityToken=a.b%2Fc"));
        close_chain(&fixture);
        unlink(path);
}

static void variables_may_have_an_end(void **state) {
        struct credentials *credentials = NULL;
        struct fixture fixture = open_chain(NULL, NULL);
        enum retry_reason reason;
        struct error err = { 0 };
        int64_t asked_ms;

        (void)state;
        set_environment_keys();
        setenv("AWS_CREDENTIAL_EXPIRATION", "2026-01-31T13:05:00+01:00", 1); /* five minutes from now */
        assert_key(&fixture, "ENVIRONMENT");
        assert_key(&fixture, "ENVIRONMENT");
        atomic_store(&now_ms, START_MS + 5 * MINUTE_MS);
        assert_int_equal(credentials_chain_get(fixture.chain, &credentials, &reason, &asked_ms, &err), -1);
        assert_non_null(strstr(err.message, "AWS_ACCESS_KEY_ID have expired (2026-01-31T12:05:00Z)"));
        setenv("AWS_CREDENTIAL_EXPIRATION", "soon", 1);
        assert_int_equal(credentials_chain_get(fixture.chain, &credentials, &reason, &asked_ms, &err), -1);
        assert_non_null(strstr(err.message, "is no time like"));
        close_chain(&fixture);
}

/* Some sources' keys never have ten minutes left: they are fetched once a minute, not once a call. */
static void short_lived_keys_are_not_fetched_for_each_call(void **state) {
        struct fixture fixture = open_chain("role", NULL);

        (void)state;
        sts_expiration = "2026-01-31T12:05:00Z";
        assert_key(&fixture, "ROLE1");
        assert_key(&fixture, "ROLE1");
        atomic_store(&now_ms, START_MS + MINUTE_MS);
        assert_key(&fixture, "ROLE2");
        close_chain(&fixture);
}

static void the_session_token_travels(void **state) {
        struct fixture fixture = open_chain("keys", NULL);
        struct credentials *credentials CREDENTIALS_CLEANUP = get(&fixture);

        (void)state;
        assert_string_equal(credentials_keys(credentials).token, "tok");
        close_chain(&fixture);
}

static void a_role_is_asked_for_as_the_profile_says(void **state) {
        struct fixture fixture = open_chain("role", NULL);
        char expected[256];

        (void)state;
        assert_key(&fixture, "ROLE1");
        assert_string_equal(last_form,
                            "&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fone&RoleSessionName=me"
                            "&ExternalId=e%2F1&DurationSeconds=900");
        close_chain(&fixture);
        fixture = open_chain("keys", "arn:aws:iam::1:role/top");
        assert_key(&fixture, "ROLE2");
        snprintf(expected, sizeof(expected),
                 "&RoleArn=arn%%3Aaws%%3Aiam%%3A%%3A1%%3Arole%%2Ftop&RoleSessionName=berth-%ld",
                 (long)getpid());
        assert_string_equal(last_form, expected);
        close_chain(&fixture);
}

/* --- keeping them fresh --- */

static void keys_are_renewed_before_they_end(void **state) {
        struct fixture fixture = open_chain("role", NULL); /* good for 60 minutes */

        (void)state;
        assert_key(&fixture, "ROLE1");
        atomic_store(&now_ms, START_MS + 44 * MINUTE_MS);
        assert_key(&fixture, "ROLE1");
        sts_expiration = "2026-01-31T14:00:00Z";
        atomic_store(&now_ms, START_MS + 46 * MINUTE_MS); /* 14 minutes are left */
        assert_key(&fixture, "ROLE2");
        assert_key(&fixture, "ROLE2");
        assert_int_equal(atomic_load(&calls), 2);
        close_chain(&fixture);
}

static void a_failed_renewal_uses_the_old_ones_up_to_a_point(void **state) {
        struct credentials *credentials = NULL;
        struct fixture fixture = open_chain("role", NULL);
        enum retry_reason reason;
        struct error err = { 0 };
        int64_t asked_ms;

        (void)state;
        assert_key(&fixture, "ROLE1");
        sts_fails = true;
        atomic_store(&now_ms, START_MS + 46 * MINUTE_MS);
        assert_key(&fixture, "ROLE1");
        assert_key(&fixture, "ROLE1"); /* does not ask again at once */
        assert_int_equal(atomic_load(&calls), 2);
        atomic_store(&now_ms, START_MS + 48 * MINUTE_MS);
        assert_key(&fixture, "ROLE1");
        assert_int_equal(atomic_load(&calls), 3);
        atomic_store(&now_ms, START_MS + 51 * MINUTE_MS); /* 9 minutes are left */
        assert_int_equal(credentials_chain_get(fixture.chain, &credentials, &reason, &asked_ms, &err), -1);
        assert_string_equal(err.message,
                            "cannot assume the role arn:aws:iam::123456789012:role/one: sts is down");
        assert_int_equal(reason, RETRY_TRANSIENT);
        assert_int_equal(asked_ms, 7);
        sts_fails = false;
        sts_expiration = "2026-01-31T14:00:00Z";
        assert_key(&fixture, "ROLE5");
        close_chain(&fixture);
}

static void roles_behind_one_another_are_renewed_as_needed(void **state) {
        struct fixture fixture = open_chain("chained", NULL);

        (void)state;
        assert_key(&fixture, "ROLE2");
        sts_expiration = "2026-01-31T14:00:00Z";
        atomic_store(&now_ms, START_MS + 46 * MINUTE_MS);
        assert_key(&fixture, "ROLE3"); /* the first role's keys still last */
        assert_string_equal(signers, "KEYS ROLE1 ROLE1 ");
        atomic_store(&now_ms, START_MS + 110 * MINUTE_MS);
        sts_expiration = "2026-01-31T15:00:00Z";
        assert_key(&fixture, "ROLE5");
        assert_string_equal(signers, "KEYS ROLE1 ROLE1 KEYS ROLE4 ");
        close_chain(&fixture);
}

static void refused_keys_are_forgotten_once(void **state) {
        struct fixture fixture = open_chain("role", NULL);
        struct credentials *refused_keys = get(&fixture);

        (void)state;
        assert_true(credentials_chain_expired(fixture.chain, refused_keys));
        assert_key(&fixture, "ROLE2");
        assert_true(
                credentials_chain_expired(fixture.chain, refused_keys)); /* newer ones are there already */
        assert_key(&fixture, "ROLE2");
        credentials_unref(refused_keys);
        close_chain(&fixture);

        fixture = open_chain("keys", NULL); /* nothing else would come back */
        refused_keys = get(&fixture);
        assert_false(credentials_chain_expired(fixture.chain, refused_keys));
        credentials_unref(refused_keys);
        close_chain(&fixture);
}

static void answers_without_keys_are_refused(void **state) {
        static const char *const expirations[] = { "", "tomorrow", "2026-01-31" };

        for (size_t i = 0; i < sizeof(expirations) / sizeof(expirations[0]); i++) {
                struct credentials *credentials = NULL;
                struct fixture fixture;
                enum retry_reason reason;
                struct error err = { 0 };
                int64_t asked_ms;

                begin(state);
                sts_expiration = expirations[i];
                fixture = open_chain("role", NULL);
                assert_int_equal(credentials_chain_get(fixture.chain, &credentials, &reason, &asked_ms, &err),
                                 -1);
                assert_non_null(strstr(err.message, "holds no complete credentials"));
                close_chain(&fixture);
        }
}

static void *take_many(void *opaque) {
        const struct fixture *fixture = opaque;

        for (int i = 0; i < 200; i++) {
                struct credentials *credentials = NULL;
                enum retry_reason reason;
                struct error err;
                int64_t asked_ms;

                if (credentials_chain_get(fixture->chain, &credentials, &reason, &asked_ms, &err) < 0)
                        return "failed";
                credentials_unref(credentials);
                if (i == 100)
                        atomic_store(&now_ms, START_MS + 46 * MINUTE_MS);
        }
        return NULL;
}

static void one_thread_renews_for_all(void **state) {
        struct fixture fixture = open_chain("role", NULL);
        pthread_t threads[8];

        (void)state;
        sts_expiration = "2026-01-31T13:00:00Z";
        for (size_t i = 0; i < 8; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, take_many, &fixture), 0);
        for (size_t i = 0; i < 8; i++) {
                void *result;

                pthread_join(threads[i], &result);
                assert_null(result);
        }
        assert_true(atomic_load(&calls) >= 2);
        close_chain(&fixture);
}

static void a_thousand_sharers_ask_once(void **state) {
        struct fixture fixture = open_chain("role", NULL);

        (void)state;
        for (int i = 0; i < 1000; i++)
                assert_key(&fixture, "ROLE1");
        assert_int_equal(atomic_load(&calls), 1);
        close_chain(&fixture);
}

/* Fresh enough for a call is not enough for what is used for twenty minutes. */
static void keys_for_what_lives_long(void **state) {
        struct fixture fixture = open_chain("role", NULL);

        (void)state;
        assert_key(&fixture, "ROLE1");
        atomic_store(&now_ms, START_MS + 42 * MINUTE_MS); /* 18 minutes are left */
        assert_key(&fixture, "ROLE1");
        sts_expiration = "2026-01-31T13:01:00Z";
        for (int i = 0; i < 3; i++) {
                struct credentials *credentials CREDENTIALS_CLEANUP = NULL;
                enum retry_reason reason;
                struct error err = { 0 };
                int64_t asked_ms;

                assert_int_equal(credentials_chain_get_long(fixture.chain, 20 * MINUTE_MS, &credentials,
                                                            &reason, &asked_ms, &err),
                                 0);
                /* A source whose keys never live that long is not asked for each call. */
                assert_string_equal(credentials_keys(credentials).access_key, i < 2 ? "ROLE2" : "ROLE3");
                if (i == 1) {
                        atomic_fetch_add(&now_ms, 2 * MINUTE_MS);
                        sts_expiration = "2026-01-31T14:00:00Z";
                }
        }
        assert_int_equal(atomic_load(&calls), 3);
        close_chain(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(keys_come_from_where_the_sdks_look, begin),
                cmocka_unit_test_setup(what_is_wrong_is_said, begin),
                cmocka_unit_test_setup(half_an_environment_is_an_error, begin),
                cmocka_unit_test_setup(a_profile_of_the_stack_sets_the_environment_aside, begin),
                cmocka_unit_test_setup(web_identity_is_unsigned, begin),
                cmocka_unit_test_setup(variables_may_have_an_end, begin),
                cmocka_unit_test_setup(short_lived_keys_are_not_fetched_for_each_call, begin),
                cmocka_unit_test_setup(the_session_token_travels, begin),
                cmocka_unit_test_setup(a_role_is_asked_for_as_the_profile_says, begin),
                cmocka_unit_test_setup(keys_are_renewed_before_they_end, begin),
                cmocka_unit_test_setup(a_failed_renewal_uses_the_old_ones_up_to_a_point, begin),
                cmocka_unit_test_setup(roles_behind_one_another_are_renewed_as_needed, begin),
                cmocka_unit_test_setup(refused_keys_are_forgotten_once, begin),
                cmocka_unit_test_setup(answers_without_keys_are_refused, begin),
                cmocka_unit_test_setup(one_thread_renews_for_all, begin),
                cmocka_unit_test_setup(a_thousand_sharers_ask_once, begin),
                cmocka_unit_test_setup(keys_for_what_lives_long, begin),
        };

        return cmocka_run_group_tests(tests, write_files, remove_files);
}
