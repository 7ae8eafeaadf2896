/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS IAM (query protocol, 2010-05-08; one global host a partition): roles and their inline policies. One function a
 * call, and one for each answer that is read. Requests' texts and what answers say live in the arena.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_IAM_H
#define BERTH_PROVIDERS_AWS_SERVICES_IAM_H

#include "base/arena.h"
#include "providers/aws/client/aws_client.h"
#include "schema/value.h"

/* GetRole RoleName -> GetRoleResult/Role {Arn, RoleId, AssumeRolePolicyDocument, PermissionsBoundary, Tags}. 404 NoSuchEntity. */
struct aws_request iam_get_role(const char *role, struct arena *arena);
struct iam_role {
        const char *arn;
        const char *
                id; /* "AROA...": another one for each role that is made, whatever its name; NULL where none is said */
        const char *trust;        /* the document, JSON */
        const char *boundary;     /* the permissions boundary's ARN; NULL: none */
        const struct value *tags; /* a map of texts */
};
int iam_read_role(const struct aws_response *response, struct arena *arena, struct iam_role *ret,
                  struct error *err) MUST_USE;

/*
 * CreateRole RoleName, Path, AssumeRolePolicyDocument, Description, PermissionsBoundary, Tags.member.N -> Role. 409
 * EntityAlreadyExists: names are unique whatever the path.
 */
struct iam_new_role {
        const char *name, *trust, *description;
        const char *path, *boundary; /* may be NULL: "/", none */
        const struct value *tags;
};
struct aws_request iam_create_role(const struct iam_new_role *role, struct arena *arena);
/* The new role's id; NULL where the answer says none. */
const char *iam_read_created_id(const struct aws_response *response, struct arena *arena);
/* UpdateAssumeRolePolicy RoleName, PolicyDocument. */
struct aws_request iam_update_trust(const char *role, const char *trust, struct arena *arena);
/* PutRolePermissionsBoundary RoleName, PermissionsBoundary (an ARN). */
struct aws_request iam_put_role_boundary(const char *role, const char *boundary, struct arena *arena);
/* DeleteRolePermissionsBoundary RoleName. */
struct aws_request iam_delete_role_boundary(const char *role, struct arena *arena);
/* DeleteRole RoleName. 409 DeleteConflict while it has policies. */
struct aws_request iam_delete_role(const char *role, struct arena *arena);

/* TagRole RoleName, Tags.member.N.Key/Value: adds and replaces; other tags stay. */
struct aws_request iam_tag_role(const char *role, const struct value *tags, struct arena *arena);
/* UntagRole RoleName, TagKeys.member.N: the keys of a map. */
struct aws_request iam_untag_role(const char *role, const struct value *keys, struct arena *arena);

/* GetRolePolicy RoleName, PolicyName -> GetRolePolicyResult/PolicyDocument. 404 NoSuchEntity. */
struct aws_request iam_get_role_policy(const char *role, const char *policy, struct arena *arena);
/* The document, JSON. */
int iam_read_role_policy(const struct aws_response *response, struct arena *arena, const char **ret,
                         struct error *err) MUST_USE;
/* PutRolePolicy RoleName, PolicyName, PolicyDocument: makes or replaces. */
struct aws_request iam_put_role_policy(const char *role, const char *policy, const char *document,
                                       struct arena *arena);
/* DeleteRolePolicy RoleName, PolicyName. 404 NoSuchEntity. */
struct aws_request iam_delete_role_policy(const char *role, const char *policy, struct arena *arena);

/* ListRolePolicies RoleName, Marker -> PolicyNames of the inline ones, a page. 404 NoSuchEntity. */
struct aws_request iam_list_role_policies(const char *role, const char *marker, struct arena *arena);
/* ListAttachedRolePolicies RoleName, Marker -> AttachedPolicies, a page. 404 NoSuchEntity. */
struct aws_request iam_list_attached_policies(const char *role, const char *marker, struct arena *arena);
/*
 * Adds the page's names (inline) or ARNs (attached) to the list of texts `names`; *ret_marker is the next page's, NULL after the
 * last.
 */
int iam_read_policy_names(const struct aws_response *response, bool attached, struct arena *arena,
                          struct value *names, const char **ret_marker, struct error *err) MUST_USE;

/* Documents come back percent-encoded (RFC 3986); one that is not is taken as it is. In the arena. */
const char *iam_decode_document(const char *text, struct arena *arena);

#endif
