/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/iam.h"

#include "providers/aws/xml.h"

#include <stdio.h>
#include <string.h>

/* The form so far into the arena, as the request's body. */
static struct aws_request request_of(const char *operation, const struct strbuf *form, struct arena *arena) {
        return (struct aws_request){ .service = AWS_IAM,
                                     .operation = operation,
                                     .method = "POST",
                                     .body = arena_strndup(arena, strbuf_text(form), form->length),
                                     .body_length = form->length };
}

static void add_tags(struct strbuf *form, const struct value *tags) {
        for (uint32_t i = 0; tags && i < tags->count; i++) {
                char name[48];

                snprintf(name, sizeof(name), "Tags.member.%u.Key", i + 1);
                aws_form_add(form, name, tags->members[i].name);
                snprintf(name, sizeof(name), "Tags.member.%u.Value", i + 1);
                aws_form_add(form, name, value_text_of(&tags->members[i].value));
        }
}

struct aws_request iam_get_role(const char *role, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        aws_form_add(&form, "RoleName", role);
        return request_of("GetRole", &form, arena);
}

static int parse(const struct aws_response *response, const char *what, struct xml_document **ret,
                 struct error *err) {
        return xml_parse(strbuf_text(&response->body), response->body.length, what, ret, err);
}

static int hex_digit(char character) {
        if (character >= '0' && character <= '9')
                return character - '0';
        if (character >= 'a' && character <= 'f')
                return character - 'a' + 10;
        if (character >= 'A' && character <= 'F')
                return character - 'A' + 10;
        return -1;
}

const char *iam_decode_document(const char *text, struct arena *arena) {
        char *copy, *to;

        /* JSON begins with a brace; a percent sign within it is then its own. */
        if (!text || text[strspn(text, " \t\r\n")] == '{')
                return text;
        copy = to = arena_strdup(arena, text);
        for (const char *from = copy; *from; from++) {
                if (*from == '%' && hex_digit(from[1]) >= 0 && hex_digit(from[2]) >= 0) {
                        *to++ = (char)(hex_digit(from[1]) * 16 + hex_digit(from[2]));
                        from += 2;
                } else {
                        *to++ = *from;
                }
        }
        *to = '\0';
        return copy;
}

static struct value *read_tags(const struct xml_node *tags, struct arena *arena) {
        struct value *map = value_new_map(arena);

        for (struct xml_node *tag = xml_child(tags, "member"); tag; tag = xml_next(tag, "member")) {
                const char *key = xml_text(tag, "Key", arena), *text = xml_text(tag, "Value", arena);

                if (key)
                        value_set_text(arena, map, key, text ? text : "");
        }
        return map;
}

int iam_read_role(const struct aws_response *response, struct arena *arena, struct iam_role *ret,
                  struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const struct xml_node *role;
        struct iam_role result;

        if (parse(response, "the answer to iam GetRole", &document, err) < 0)
                return -1;
        role = xml_child(xml_child(xml_root(document), "GetRoleResult"), "Role");
        result.arn = xml_text(role, "Arn", arena);
        result.trust = iam_decode_document(xml_text(role, "AssumeRolePolicyDocument", arena), arena);
        result.tags = read_tags(xml_child(role, "Tags"), arena);
        if (!result.arn)
                return error_set(err, "the answer to iam GetRole names no role");
        *ret = result;
        return 0;
}

struct aws_request iam_create_role(const char *role, const char *trust, const char *description,
                                   const struct value *tags, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        aws_form_add(&form, "RoleName", role);
        aws_form_add(&form, "AssumeRolePolicyDocument", trust);
        aws_form_add(&form, "Description", description);
        add_tags(&form, tags);
        return request_of("CreateRole", &form, arena);
}

struct aws_request iam_update_trust(const char *role, const char *trust, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        aws_form_add(&form, "RoleName", role);
        aws_form_add(&form, "PolicyDocument", trust);
        return request_of("UpdateAssumeRolePolicy", &form, arena);
}

struct aws_request iam_delete_role(const char *role, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        aws_form_add(&form, "RoleName", role);
        return request_of("DeleteRole", &form, arena);
}

struct aws_request iam_tag_role(const char *role, const struct value *tags, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        aws_form_add(&form, "RoleName", role);
        add_tags(&form, tags);
        return request_of("TagRole", &form, arena);
}

struct aws_request iam_untag_role(const char *role, const struct value *keys, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        aws_form_add(&form, "RoleName", role);
        for (uint32_t i = 0; i < keys->count; i++) {
                char name[48];

                snprintf(name, sizeof(name), "TagKeys.member.%u", i + 1);
                aws_form_add(&form, name, keys->members[i].name);
        }
        return request_of("UntagRole", &form, arena);
}

static void add_policy_name(struct strbuf *form, const char *role, const char *policy) {
        aws_form_add(form, "RoleName", role);
        aws_form_add(form, "PolicyName", policy);
}

struct aws_request iam_get_role_policy(const char *role, const char *policy, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        add_policy_name(&form, role, policy);
        return request_of("GetRolePolicy", &form, arena);
}

int iam_read_role_policy(const struct aws_response *response, struct arena *arena, const char **ret,
                         struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const char *text;

        if (parse(response, "the answer to iam GetRolePolicy", &document, err) < 0)
                return -1;
        text = xml_text(xml_root(document), "GetRolePolicyResult/PolicyDocument", arena);
        if (!text)
                return error_set(err, "the answer to iam GetRolePolicy holds no document");
        *ret = iam_decode_document(text, arena);
        return 0;
}

struct aws_request iam_put_role_policy(const char *role, const char *policy, const char *document,
                                       struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        add_policy_name(&form, role, policy);
        aws_form_add(&form, "PolicyDocument", document);
        return request_of("PutRolePolicy", &form, arena);
}

struct aws_request iam_delete_role_policy(const char *role, const char *policy, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        add_policy_name(&form, role, policy);
        return request_of("DeleteRolePolicy", &form, arena);
}
