/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to libxml2: no other file knows its types. Answers are hostile: no network, no entities, no document type,
 * a bound on size, and an HTML page is no answer even where it is well-formed. The parser's own messages are not
 * passed on, since they quote the text, and AssumeRole's answers hold keys; these are overwritten before a document
 * is freed.
 */
#include "providers/aws/client/xml.h"

#include "base/library.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* libxml2's own types behind ours: a document and its nodes are handed out as they are. */
struct xml_document {
        xmlDoc *tree;
};

#define XML_SYMBOLS(X)          \
        X(xmlAddChild)          \
        X(xmlCtxtGetLastError)  \
        X(xmlCtxtReadMemory)    \
        X(xmlDictOwns)          \
        X(xmlDocCopyNode)       \
        X(xmlDocDumpMemoryEnc)  \
        X(xmlDocGetRootElement) \
        X(xmlDocSetRootElement) \
        X(xmlFree)              \
        X(xmlFreeDoc)           \
        X(xmlFreeNs)            \
        X(xmlFreeParserCtxt)    \
        X(xmlInitParser)        \
        X(xmlNewDoc)            \
        X(xmlNewDocNode)        \
        X(xmlNewNs)             \
        X(xmlNewParserCtxt)     \
        X(xmlNewTextChild)      \
        X(xmlNodeGetContent)    \
        X(xmlSetNs)             \
        X(xmlStrEqual)

XML_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol xml_symbols[] = { XML_SYMBOLS(LIBRARY_SYMBOL) };
static struct library xml = LIBRARY(XML_SONAME, "libxml2", "reading AWS's answers in XML", xml_symbols);

static pthread_once_t once = PTHREAD_ONCE_INIT;

static xmlNode *inner(const struct xml_node *node) {
        /* libxml2 takes nodes that are not const even to read them. */
        return (xmlNode *)(uintptr_t)node;
}

static struct xml_node *outer(xmlNode *node) {
        return (struct xml_node *)node;
}

static const xmlChar *chars(const char *text) {
        return (const xmlChar *)text;
}

static struct xml_document *wrap(xmlDoc *tree) {
        struct xml_document *document = calloc(1, sizeof(*document));

        if (!document || !tree)
                abort();
        document->tree = tree;
        return document;
}

int xml_parse(const char *text, size_t length, const char *what, struct xml_document **ret,
              struct error *err) {
        xmlParserCtxt *context;
        xmlDoc *tree;
        int result = 0;

        if (library_load(&xml, err) < 0)
                return -1;
        pthread_once(&once, sym_xmlInitParser);
        if (length == 0)
                return error_set(err, "%s is empty where XML was expected: try again", what);
        if (length > 64U * 1024U * 1024U)
                return error_set(err, "%s is too large: %zu bytes of XML", what, length);
        context = sym_xmlNewParserCtxt();
        if (!context)
                abort();
        tree = sym_xmlCtxtReadMemory(context, text, (int)length, NULL, NULL,
                                     XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                                             XML_PARSE_NOCDATA);
        if (!tree) {
                const xmlError *problem = sym_xmlCtxtGetLastError(context);

                /* Without the parser's words: they quote what stands there. */
                result = error_set(
                        err, "%s is not XML (line %d); something on the way may have changed it: try again",
                        what, problem ? problem->line : 0);
        } else if (tree->intSubset || tree->extSubset) {
                /* No AWS answer has one, and entities are declared there: refused before anything is read. */
                result = error_set(err, "%s carries a document type declaration, which no AWS answer does",
                                   what);
        } else if (!sym_xmlDocGetRootElement(tree)) {
                result = error_set(err, "%s has no root element", what);
        } else if (strcasecmp((const char *)sym_xmlDocGetRootElement(tree)->name, "html") == 0) {
                /* A proxy's page may be well-formed XML. Read as an answer it would say: no rules, no objects, no roles. */
                result = error_set(
                        err,
                        "%s is a web page and not an answer of AWS's; look for a proxy on the way there, "
                        "and try again",
                        what);
        }
        sym_xmlFreeParserCtxt(context);
        if (result < 0)
                sym_xmlFreeDoc(tree);
        else
                *ret = wrap(tree);
        return result;
}

struct xml_document *xml_new(const char *root, const char *namespace_uri) {
        struct xml_document *document;
        xmlNode *node;

        library_need(&xml);
        pthread_once(&once, sym_xmlInitParser);
        document = wrap(sym_xmlNewDoc(chars("1.0")));
        node = sym_xmlNewDocNode(document->tree, NULL, chars(root), NULL);
        if (!node)
                abort();
        sym_xmlDocSetRootElement(document->tree, node);
        if (namespace_uri) {
                xmlNs *space = sym_xmlNewNs(node, chars(namespace_uri), NULL);

                if (!space)
                        abort();
                sym_xmlSetNs(node, space);
        }
        return document;
}

/* Texts may be credentials (AssumeRole): overwritten. What the dictionary owns is shared and short. */
static void wipe_texts(xmlNode *node, const xmlDict *dictionary) {
        for (; node; node = node->next) {
                if (node->type == XML_TEXT_NODE && node->content &&
                    !(dictionary && sym_xmlDictOwns((xmlDict *)(uintptr_t)dictionary, node->content)))
                        explicit_bzero(node->content, strlen((const char *)node->content));
                wipe_texts(node->children, dictionary);
        }
}

void xml_free(struct xml_document *document) {
        if (!document)
                return;
        wipe_texts(document->tree->children, document->tree->dict);
        sym_xmlFreeDoc(document->tree);
        free(document);
}

void xml_freep(struct xml_document **document) {
        xml_free(*document);
}

struct xml_node *xml_root(struct xml_document *document) {
        return outer(sym_xmlDocGetRootElement(document->tree));
}

const char *xml_name(const struct xml_node *node) {
        return (const char *)inner(node)->name;
}

static xmlNode *first_element(xmlNode *node, const char *name, size_t length) {
        for (; node; node = node->next) {
                if (node->type != XML_ELEMENT_NODE)
                        continue;
                if (!name)
                        return node;
                if (strlen((const char *)node->name) == length && memcmp(node->name, name, length) == 0)
                        return node;
        }
        return NULL;
}

struct xml_node *xml_child(const struct xml_node *node, const char *name) {
        return node ? outer(first_element(inner(node)->children, name, name ? strlen(name) : 0)) : NULL;
}

struct xml_node *xml_next(const struct xml_node *node, const char *name) {
        return node ? outer(first_element(inner(node)->next, name, name ? strlen(name) : 0)) : NULL;
}

const char *xml_text(const struct xml_node *node, const char *path, struct arena *arena) {
        xmlNode *at = node ? inner(node) : NULL;
        xmlChar *content;
        char *copy;

        while (at && *path) {
                size_t length = strcspn(path, "/");

                at = first_element(at->children, path, length);
                path += length;
                path += *path == '/';
        }
        if (!at)
                return NULL;
        content = sym_xmlNodeGetContent(at);
        if (!content)
                abort();
        copy = arena_strdup(arena, (const char *)content);
        explicit_bzero(content, strlen((const char *)content));
        (*sym_xmlFree)(content);
        return copy;
}

struct xml_node *xml_add(struct xml_node *parent, const char *name, const char *text) {
        xmlNode *above = inner(parent);
        xmlNode *node = sym_xmlNewTextChild(above, above->ns, chars(name), text ? chars(text) : NULL);

        if (!node)
                abort();
        return outer(node);
}

/* A copy brings its namespace's declaration along. Where the parent has the same one, the copy takes that. */
static void adopt_namespace(xmlNode *node, xmlNs *space) {
        for (; node; node = node->next) {
                if (node->type != XML_ELEMENT_NODE)
                        continue;
                if (node->ns && space && node->ns != space && !node->ns->prefix &&
                    sym_xmlStrEqual(node->ns->href, space->href))
                        node->ns = space;
                adopt_namespace(node->children, space);
        }
}

static void drop_declaration(xmlNode *node, const xmlNs *space) {
        for (xmlNs **at = &node->nsDef; *at; at = &(*at)->next) {
                xmlNs *declared = *at;

                if (declared->prefix || !sym_xmlStrEqual(declared->href, space->href))
                        continue;
                *at = declared->next;
                sym_xmlFreeNs(declared);
                return;
        }
}

struct xml_node *xml_add_copy(struct xml_node *parent, const struct xml_node *node) {
        xmlNode *above = inner(parent);
        xmlNode *copy = sym_xmlDocCopyNode(inner(node), above->doc, 1);

        if (!copy || !sym_xmlAddChild(above, copy))
                abort();
        if (above->ns) {
                adopt_namespace(copy, above->ns);
                drop_declaration(copy, above->ns);
        }
        return outer(copy);
}

void xml_write(struct xml_document *document, struct strbuf *ret) {
        xmlChar *text = NULL;
        int size = 0;

        sym_xmlDocDumpMemoryEnc(document->tree, &text, &size, "UTF-8");
        if (!text)
                abort();
        strbuf_append_bytes(ret, text, (size_t)size);
        (*sym_xmlFree)(text);
}
