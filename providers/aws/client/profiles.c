/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two files of the AWS CLI. In ~/.aws/config a section is "profile NAME" (or "default"), "sso-session NAME" or
 * "services NAME"; in ~/.aws/credentials it is the profile's name alone. A key in the credentials file hides the same
 * one in the config file, as in botocore. A file that does not exist is an empty one.
 */
#include "providers/aws/client/profiles.h"

#include "providers/aws/client/config_file.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct profiles {
        char *config_path;
        char *credentials_path;
        struct config_file *config;      /* NULL where there is no such file */
        struct config_file *credentials; /* the same */
};

static void append_home(struct strbuf *path) {
        const char *home = getenv("HOME");
        struct passwd entry, *found = NULL;
        char buffer[4096];

        if (!home || !*home) {
                if (getpwuid_r(getuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found)
                        home = found->pw_dir;
        }
        strbuf_append(path, home ? home : "");
}

char *profiles_expand(const char *given) {
        struct strbuf path = STRBUF_INIT;

        if (given[0] == '~' && (given[1] == '/' || given[1] == '\0')) {
                append_home(&path);
                given++;
        }
        strbuf_append(&path, given);
        return strbuf_take(&path);
}

/* The variable's path, or the usual one. */
static char *find_path(const char *variable, const char *usual) {
        const char *given = getenv(variable);

        return profiles_expand(given && *given ? given : usual);
}

static int read_if_there(const char *path, struct config_file **ret, struct error *err) {
        struct error local = { 0 };

        if (config_file_read(path, ret, &local) == 0)
                return 0;
        if (local.kind == ERROR_NOT_FOUND)
                return 0;
        *err = local;
        return -1;
}

int profiles_load(struct profiles **ret, struct error *err) {
        struct profiles *profiles = calloc(1, sizeof(*profiles));

        if (!profiles)
                abort();
        profiles->config_path = find_path("AWS_CONFIG_FILE", "~/.aws/config");
        profiles->credentials_path = find_path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
        if (read_if_there(profiles->config_path, &profiles->config, err) < 0 ||
            read_if_there(profiles->credentials_path, &profiles->credentials, err) < 0) {
                profiles_free(profiles);
                return -1;
        }
        *ret = profiles;
        return 0;
}

void profiles_free(struct profiles *profiles) {
        if (!profiles)
                return;
        config_file_free(profiles->config);
        config_file_free(profiles->credentials);
        free(profiles->config_path);
        free(profiles->credentials_path);
        free(profiles);
}

/* Whether `title` is `word` and then `name`, which may be quoted as in a shell: [profile "my name"]. */
static bool title_is(const char *title, const char *word, const char *name) {
        size_t length = strlen(word);
        char quote = '\0';

        if (strncmp(title, word, length) != 0 || !strchr(" \t", title[length]) || !title[length])
                return false;
        title += length;
        title += strspn(title, " \t");
        for (; *title; title++) {
                if (quote ? *title == quote : *title == '"' || *title == '\'') {
                        quote = quote ? '\0' : *title;
                        continue;
                }
                if (!quote && strchr(" \t", *title))
                        break;
                if (*title == '\\' && quote != '\'' && title[1])
                        title++;
                if (*name != *title)
                        return false;
                name++;
        }
        return !*name && !quote && title[strspn(title, " \t")] == '\0';
}

static const struct config_section *find_titled(const struct config_file *file, const char *word,
                                                const char *name) {
        for (size_t i = 0; file && i < file->count; i++) {
                if (title_is(file->sections[i].name, word, name))
                        return &file->sections[i];
        }
        return NULL;
}

/* The default profile needs no "profile" in its title. */
static const struct config_section *config_section(const struct profiles *profiles, const char *profile) {
        const struct config_section *section = find_titled(profiles->config, "profile", profile);

        if (!section && strcmp(profile, "default") == 0)
                section = config_file_section(profiles->config, "default");
        return section;
}

static const struct config_section *credentials_section(const struct profiles *profiles,
                                                        const char *profile) {
        return config_file_section(profiles->credentials, profile);
}

bool profiles_has(const struct profiles *profiles, const char *profile) {
        return config_section(profiles, profile) || credentials_section(profiles, profile);
}

int profiles_check(const struct profiles *profiles, const char *profile, const char *named_by,
                   struct error *err) {
        if (!named_by || profiles_has(profiles, profile))
                return 0;
        return error_set(err, "the profile %s, named by %s, is in neither %s nor %s", profile, named_by,
                         profiles_config_path(profiles), profiles_credentials_path(profiles));
}

const char *profiles_get(const struct profiles *profiles, const char *profile, const char *key) {
        const char *value =
                config_file_get(profiles->credentials, credentials_section(profiles, profile), key);

        return value ? value : config_file_get(profiles->config, config_section(profiles, profile), key);
}

const char *profiles_get_from(const struct profiles *profiles, bool credentials_file, const char *profile,
                              const char *key) {
        return credentials_file
                       ? config_file_get(profiles->credentials, credentials_section(profiles, profile), key)
                       : config_file_get(profiles->config, config_section(profiles, profile), key);
}

bool profiles_has_sso_session(const struct profiles *profiles, const char *name) {
        return find_titled(profiles->config, "sso-session", name) != NULL;
}

const char *profiles_sso_session(const struct profiles *profiles, const char *name, const char *key) {
        return config_file_get(profiles->config, find_titled(profiles->config, "sso-session", name), key);
}

static bool take_nested(const char *block, const char *inner, struct strbuf *ret) {
        const char *value;
        size_t length;

        strbuf_clear(ret);
        if (!config_file_nested(block, inner, &value, &length))
                return false;
        strbuf_append_bytes(ret, value, length);
        return true;
}

bool profiles_nested(const struct profiles *profiles, const char *profile, const char *key, const char *inner,
                     struct strbuf *ret) {
        return take_nested(profiles_get(profiles, profile, key), inner, ret);
}

bool profiles_service(const struct profiles *profiles, const char *profile, const char *service,
                      const char *inner, struct strbuf *ret) {
        const char *name = profiles_get(profiles, profile, "services");
        const struct config_section *section = name ? find_titled(profiles->config, "services", name) : NULL;

        return take_nested(config_file_get(profiles->config, section, service), inner, ret);
}

const char *profiles_config_path(const struct profiles *profiles) {
        return profiles->config_path;
}

const char *profiles_credentials_path(const struct profiles *profiles) {
        return profiles->credentials_path;
}
