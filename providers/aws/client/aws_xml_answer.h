/* SPDX-License-Identifier: Apache-2.0 */
/* Answers in XML: taken only where they are what was asked for; and tags in them. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_AWS_XML_ANSWER_H
#define BERTH_PROVIDERS_AWS_CLIENT_AWS_XML_ANSWER_H

#include "base/arena.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/xml.h"
#include "schema/value.h"

/*
 * The answer's body parsed; `what` is the call, for the error: "s3 ListObjectsV2". Fails where its root is not `root`:
 * whatever that is, it does not say that there are no objects, no rules, no tags.
 */
int aws_answer_xml(const struct aws_response *response, const char *what, const char *root,
                   struct xml_document **ret, struct error *err) MUST_USE;

/* From the elements `name` of `list` (NULL is empty), each with Key and Value: a map of texts. */
struct value *aws_tags_from_xml(const struct xml_node *list, const char *name, struct arena *arena);

#endif
