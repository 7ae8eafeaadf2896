/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML document as a tree of nodes: what was written and where, before anything is known of its meaning.
 *
 * Nodes live in the scratch arena of the load. Aliases stay nodes of their own, which point at what they stand for:
 * the tree is a graph without circles.
 */
#ifndef BERTH_SCHEMA_NODE_H
#define BERTH_SCHEMA_NODE_H

#include "schema/loading.h"

enum node_type {
        NODE_SCALAR,
        NODE_LIST,
        NODE_MAP, /* children: key, value, key, value ... */
        NODE_ALIAS,
        NODE_BROKEN /* an error was reported: to be passed over */
};

enum node_tag { TAG_NONE, TAG_TEXT, TAG_INTEGER, TAG_BOOLEAN, TAG_NULL, TAG_OTHER };

struct node {
        uint8_t type;                  /* enum node_type */
        uint8_t tag;                   /* enum node_tag: a core tag that was written (!!str) */
        bool plain;                    /* a scalar without quotes */
        bool complete;                 /* everything below has been read */
        uint32_t line, column;         /* 1-based */
        uint32_t end_line, end_column; /* of a scalar: the first character behind it */
        uint32_t count;                /* bytes of a scalar, children of a list or map */
        uint32_t weight; /* roughly the memory that it takes once its aliases are expanded; saturates */
        struct node *next;
        union {
                const char *text; /* NUL-terminated, holds no other NUL */
                struct node *first;
                struct node *target; /* of an alias; never an alias itself */
        };
};

/* What a scalar is by the core schema of YAML 1.2. */
enum scalar_type { SCALAR_NULL, SCALAR_BOOLEAN, SCALAR_INTEGER, SCALAR_FLOAT, SCALAR_TEXT };

/* document.c: reads every document of a file and hands each to decode_document(). */
void document_read_all(struct loading *loading, uint16_t file);

/* scalar.c */
enum scalar_type scalar_type_of(const struct node *scalar);
bool scalar_boolean(const struct node *scalar); /* of a SCALAR_BOOLEAN */
/* Of a SCALAR_INTEGER; false where it exceeds 64 bits. */
bool scalar_integer(const struct node *scalar, int64_t *ret);

/* The node itself, or what the alias stands for. */
static inline const struct node *node_target(const struct node *node) {
        return node->type == NODE_ALIAS ? node->target : node;
}

/* Whether nothing is written there, or null, or an alias for that. */
static inline bool node_is_null(const struct node *node) {
        const struct node *target = node_target(node);

        return target->type == NODE_SCALAR && scalar_type_of(target) == SCALAR_NULL;
}

#endif
