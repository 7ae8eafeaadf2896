/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever credentials are read from. The parts of the input: letters that choose sources (c a container's server, w web
 * identity by variables, e keys in variables, n no profile named), the config file, the credentials file, the file that
 * holds a token (SSO's, that of `aws login`, a web identity's), and answers as in cloud.h: of STS, SSO, the sign-in service, the
 * container, the instance, and of credential_process. The profile is "p", the SSO session and the login_session "s".
 */
#include "base/files.h"
#include "cloud.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/config_file.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/login_token.h"
#include "providers/aws/client/sso_token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void set(const char *name, const char *value) {
        if ((value ? setenv(name, value, 1) : unsetenv(name)) != 0)
                abort();
}

static void set_up(void) {
        struct error err;

        cloud_environment();
        set("HOME", scratch_folder());
        if (chdir(scratch_folder()) < 0 || folder_make(".aws/sso/cache", &err) < 0 ||
            folder_make(".aws/login/cache", &err) < 0)
                abort();
}

static void choose_sources(const char *letters) {
        bool container = strchr(letters, 'c'), web = strchr(letters, 'w'), keys = strchr(letters, 'e');

        set("AWS_CONTAINER_CREDENTIALS_FULL_URI", container ? "http://127.0.0.1/container" : NULL);
        set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", container ? "token" : NULL);
        set("AWS_WEB_IDENTITY_TOKEN_FILE", web ? "token" : NULL);
        set("AWS_ROLE_ARN", web ? "arn:aws:iam::111111111111:role/web" : NULL);
        set("AWS_ACCESS_KEY_ID", keys ? "AKIDEXAMPLE" : NULL);
        set("AWS_SECRET_ACCESS_KEY", keys ? "secret" : NULL);
        set("AWS_PROFILE", strchr(letters, 'n') ? NULL : "p");
        set("AWS_REGION", strpbrk(letters, "ne") ? "us-east-1" : NULL);
}

static void put_file(const char *path, const char *text) {
        FILE *file = fopen(path, "we");

        if (!file || (*text && fputs(text, file) == EOF) || fclose(file) != 0)
                abort();
}

static void put_token(const char *text) {
        static const char *const keys[] = { "s", "https://start.example" };

        char *login TEXT_CLEANUP = login_token_path("s");

        put_file("token", text);
        put_file(login, text);
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                struct error err;
                char *path TEXT_CLEANUP = sso_token_path(keys[i], &err);

                if (path)
                        put_file(path, text);
        }
}

/* The files' form by itself, from memory of exactly their size. */
static void parse_alone(const char *text, size_t length) {
        struct config_file *file;
        struct error err;

        if (config_file_parse(text, length, "config", &file, &err) < 0)
                return;
        for (size_t i = 0; i < file->count; i++) {
                const struct config_section *section = &file->sections[i];

                for (size_t k = 0; k < section->count; k++) {
                        const char *found = config_file_get(file, section, section->options[k].name);
                        const char *inner;
                        size_t inner_length;

                        if (!found || strcmp(found, section->options[k].value) != 0)
                                abort();
                        if (config_file_nested(found, "region", &inner, &inner_length) &&
                            (inner < found || inner + inner_length > found + strlen(found)))
                                abort();
                }
        }
        config_file_free(file);
}

static void use_client(void) {
        struct aws_client_options options = { .clock = &cloud_clock };
        struct aws_client *client;
        const char *account, *arn;
        struct error err = { 0 };

        if (aws_client_open_with(&options, &client, &err) < 0) {
                if (err.message[0] == '\0')
                        abort();
                return;
        }
        for (int hour = 0; hour < 3; hour++) {
                struct aws_request request = { .service = AWS_STS, .operation = "GetSessionToken" };
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

                if (aws_client_account(client, &account, &arn, &err) < 0 && err.message[0] == '\0')
                        abort();
                if (aws_call(client, &request, &response, &err) < 0 && err.message[0] == '\0')
                        abort();
                cloud_advance(cloud_clock.monotonic_ms(&cloud_clock) + INT64_C(3600000));
        }
        aws_client_close(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const variables[] = { "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE" };
        static bool ready;
        struct parts parts = parts_of(data, size);
        char *letters = parts_next_text(&parts), *token;
        int descriptors[2];

        if (!ready)
                set_up();
        ready = true;
        choose_sources(letters);
        for (size_t i = 0; i < 2; i++) {
                char path[MEMORY_PATH_SIZE];
                size_t length;
                char *text = parts_next(&parts, &length);

                parse_alone(text, length);
                descriptors[i] = memory_file(text, length, path);
                set(variables[i], path);
                free(text);
        }
        token = parts_next_text(&parts);
        put_token(token);
        cloud_load(&parts);
        use_client();
        cloud_forget();
        for (size_t i = 0; i < 2; i++)
                close(descriptors[i]);
        free(token);
        free(letters);
        return 0;
}
