/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The query protocol: a form in the body, lists as numbered members that begin with 1. client/request.c adds Action and
 * Version. Answers are XML in which documents stand percent-encoded, and AWS's own stand-ins leave that out.
 */
#include "providers/aws/services/iam.h"

#include "providers/aws/client/aws_xml_answer.h"
#include "providers/aws/client/encode.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/client/xml.h"

#include <stdio.h>
#include <string.h>

static void add_tags(struct strbuf *form, const struct value *tags) {
        for (uint32_t i = 0; tags && i < tags->count; i++) {
                char name[48];

                snprintf(name, sizeof(name), "Tags.member.%u.Key", i + 1);
                encode_form_add(form, name, tags->members[i].name);
                snprintf(name, sizeof(name), "Tags.member.%u.Value", i + 1);
                encode_form_add(form, name, value_text_of(&tags->members[i].value));
        }
}

/* A form into the arena, as the request's body. */
static struct aws_request iam_request(const char *operation, const struct strbuf *form, struct arena *arena) {
        return (struct aws_request){ .service = AWS_IAM,
                                     .operation = operation,
                                     .method = "POST",
                                     .body = arena_strndup(arena, strbuf_text(form), form->length),
                                     .body_length = form->length };
}

/* What else a call about a role says, but for tags. */
struct fields {
        const char *policy, *document, *trust, *description, *marker, *path, *boundary; /* NULL: not said */
};

/* A member without a text would be an empty one, which IAM refuses. */
static void add_field(struct strbuf *form, const char *name, const char *text) {
        if (text)
                encode_form_add(form, name, text);
}

static struct aws_request on_role(const char *operation, const char *role, struct fields fields,
                                  const struct value *tags, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        encode_form_add(&form, "RoleName", role);
        add_field(&form, "PolicyName", fields.policy);
        add_field(&form, "PolicyDocument", fields.document);
        add_field(&form, "AssumeRolePolicyDocument", fields.trust);
        add_field(&form, "Description", fields.description);
        add_field(&form, "Marker", fields.marker);
        add_field(&form, "Path", fields.path);
        add_field(&form, "PermissionsBoundary", fields.boundary);
        add_tags(&form, tags);
        return iam_request(operation, &form, arena);
}

struct aws_request iam_get_role(const char *role, struct arena *arena) {
        return on_role("GetRole", role, (struct fields){ 0 }, NULL, arena);
}

const char *iam_decode_document(const char *text, struct arena *arena) {
        char *copy;

        /* JSON begins with a brace; a percent sign within it is then its own. */
        if (!text || text[strspn(text, " \t\r\n")] == '{')
                return text;
        copy = arena_strdup(arena, text);
        encode_undo(copy, false);
        return copy;
}

int iam_read_role(const struct aws_response *response, struct arena *arena, struct iam_role *ret,
                  struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const struct xml_node *role;
        struct iam_role result;

        if (aws_answer_xml(response, "iam GetRole", "GetRoleResponse", &document, err) < 0)
                return -1;
        role = xml_child(xml_child(xml_root(document), "GetRoleResult"), "Role");
        result.arn = xml_text(role, "Arn", arena);
        result.id = xml_text(role, "RoleId", arena);
        result.trust = iam_decode_document(xml_text(role, "AssumeRolePolicyDocument", arena), arena);
        result.boundary = xml_text(role, "PermissionsBoundary/PermissionsBoundaryArn", arena);
        result.tags = aws_tags_from_xml(xml_child(role, "Tags"), "member", arena);
        if (!result.arn)
                return error_set(err, "the answer to iam GetRole names no role");
        *ret = result;
        return 0;
}

struct aws_request iam_create_role(const struct iam_new_role *role, struct arena *arena) {
        const struct fields fields = {
                .trust = role->trust,
                .description = role->description,
                .path = role->path,
                .boundary = role->boundary,
        };

        return on_role("CreateRole", role->name, fields, role->tags, arena);
}

const char *iam_read_created_id(const struct aws_response *response, struct arena *arena) {
        struct xml_document *document XML_CLEANUP = NULL;
        struct error ignored;

        if (aws_answer_xml(response, "iam CreateRole", "CreateRoleResponse", &document, &ignored) < 0)
                return NULL;
        return xml_text(xml_child(xml_child(xml_root(document), "CreateRoleResult"), "Role"), "RoleId",
                        arena);
}

struct aws_request iam_update_trust(const char *role, const char *trust, struct arena *arena) {
        return on_role("UpdateAssumeRolePolicy", role, (struct fields){ .document = trust }, NULL, arena);
}

struct aws_request iam_put_role_boundary(const char *role, const char *boundary, struct arena *arena) {
        return on_role("PutRolePermissionsBoundary", role, (struct fields){ .boundary = boundary }, NULL,
                       arena);
}

struct aws_request iam_delete_role_boundary(const char *role, struct arena *arena) {
        return on_role("DeleteRolePermissionsBoundary", role, (struct fields){ 0 }, NULL, arena);
}

struct aws_request iam_delete_role(const char *role, struct arena *arena) {
        return on_role("DeleteRole", role, (struct fields){ 0 }, NULL, arena);
}

struct aws_request iam_tag_role(const char *role, const struct value *tags, struct arena *arena) {
        return on_role("TagRole", role, (struct fields){ 0 }, tags, arena);
}

struct aws_request iam_untag_role(const char *role, const struct value *keys, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        encode_form_add(&form, "RoleName", role);
        for (uint32_t i = 0; i < keys->count; i++) {
                char name[48];

                snprintf(name, sizeof(name), "TagKeys.member.%u", i + 1);
                encode_form_add(&form, name, keys->members[i].name);
        }
        return iam_request("UntagRole", &form, arena);
}

struct aws_request iam_get_role_policy(const char *role, const char *policy, struct arena *arena) {
        return on_role("GetRolePolicy", role, (struct fields){ .policy = policy }, NULL, arena);
}

int iam_read_role_policy(const struct aws_response *response, struct arena *arena, const char **ret,
                         struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const char *text;

        if (aws_answer_xml(response, "iam GetRolePolicy", "GetRolePolicyResponse", &document, err) < 0)
                return -1;
        text = xml_text(xml_root(document), "GetRolePolicyResult/PolicyDocument", arena);
        if (!text)
                return error_set(err, "the answer to iam GetRolePolicy holds no document");
        *ret = iam_decode_document(text, arena);
        return 0;
}

struct aws_request iam_put_role_policy(const char *role, const char *policy, const char *document,
                                       struct arena *arena) {
        return on_role("PutRolePolicy", role, (struct fields){ .policy = policy, .document = document }, NULL,
                       arena);
}

struct aws_request iam_delete_role_policy(const char *role, const char *policy, struct arena *arena) {
        return on_role("DeleteRolePolicy", role, (struct fields){ .policy = policy }, NULL, arena);
}

struct aws_request iam_list_role_policies(const char *role, const char *marker, struct arena *arena) {
        return on_role("ListRolePolicies", role, (struct fields){ .marker = marker }, NULL, arena);
}

struct aws_request iam_list_attached_policies(const char *role, const char *marker, struct arena *arena) {
        return on_role("ListAttachedRolePolicies", role, (struct fields){ .marker = marker }, NULL, arena);
}

int iam_read_policy_names(const struct aws_response *response, bool attached, struct arena *arena,
                          struct value *names, const char **ret_marker, struct error *err) {
        const char *root = attached ? "ListAttachedRolePoliciesResponse" : "ListRolePoliciesResponse";
        const char *call = attached ? "iam ListAttachedRolePolicies" : "iam ListRolePolicies";
        struct xml_document *document XML_CLEANUP = NULL;
        const struct xml_node *result, *member;
        const char *truncated;

        if (aws_answer_xml(response, call, root, &document, err) < 0)
                return -1;
        result = xml_child(xml_root(document),
                           attached ? "ListAttachedRolePoliciesResult" : "ListRolePoliciesResult");
        member = xml_child(xml_child(result, attached ? "AttachedPolicies" : "PolicyNames"), "member");
        for (; member; member = xml_next(member, "member"))
                value_append(arena, names,
                             value_text(arena, xml_text(member, attached ? "PolicyArn" : "", arena)));
        truncated = xml_text(result, "IsTruncated", arena);
        *ret_marker = texts_same(truncated, "true") ? xml_text(result, "Marker", arena) : NULL;
        return 0;
}
