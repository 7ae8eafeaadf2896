/* SPDX-License-Identifier: Apache-2.0 */
/* The little XML that S3, STS and IAM speak, by libxml2: no network, no entities, no DTD, sizes limited. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_XML_H
#define BERTH_PROVIDERS_AWS_CLIENT_XML_H

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>

struct xml_document;
struct xml_node; /* an element; borrowed from its document */

/* `what` names the answer in errors: "the answer to s3 ListObjectsV2". */
int xml_parse(const char *text, size_t length, const char *what, struct xml_document **ret,
              struct error *err) MUST_USE;
/* A document of one empty element; `namespace_uri` may be NULL. Aborts where libxml2 cannot be had. */
struct xml_document *xml_new(const char *root, const char *namespace_uri);
void xml_free(struct xml_document *document);
void xml_freep(struct xml_document **document);
#define XML_CLEANUP __attribute__((cleanup(xml_freep)))

struct xml_node *xml_root(struct xml_document *document); /* never NULL */
const char *xml_name(const struct xml_node *node);        /* local name; borrowed */
struct xml_node *xml_child(const struct xml_node *node,
                           const char *name); /* the first of that name (NULL: any); NULL-safe */
struct xml_node *xml_next(const struct xml_node *node,
                          const char *name); /* the next sibling of that name (NULL: any) */
/* "Filter/And/Prefix" below node; the element's text copied into the arena; NULL where there is no such element. */
const char *xml_text(const struct xml_node *node, const char *path, struct arena *arena);

struct xml_node *xml_add(struct xml_node *parent, const char *name,
                         const char *text); /* text NULL: an empty element */
/* A deep copy of an element of another document, as the last child: foreign lifecycle rules are carried over whole. */
struct xml_node *xml_add_copy(struct xml_node *parent, const struct xml_node *node);
void xml_write(struct xml_document *document,
               struct strbuf *ret); /* appends, as UTF-8 with its declaration */

#endif
