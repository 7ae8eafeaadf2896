/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a document holds secrets, so that diagnostics do not quote them.
 *
 * This is worked out from the tree alone, before anything is decoded: a secret must not be shown either where its field is
 * misspelt, where it stands in the wrong place, or where the document is of no kind that Berth knows. So every map that has
 * a key `sensitive` is taken for one that holds a secret, unless it says false.
 */
#include "schema/decode.h"

#include <string.h>

void decode_hide(const struct decoder *decoder, const struct node *node) {
        const struct node *target = node_target(node);

        if (target->type == NODE_SCALAR || (target->type == NODE_BROKEN && target->end_line > 0))
                problem_add_secret(decoder->loading, (struct secret_place){
                                                             .file = decoder->file,
                                                             .line = target->line,
                                                             .column = target->column,
                                                             .end_line = target->end_line,
                                                             .end_column = target->end_column,
                                                     });
        else if (target->type == NODE_LIST || target->type == NODE_MAP)
                for (const struct node *child = target->first; child; child = child->next)
                        decode_hide(decoder, child);
}

static bool is_key(const struct node *key, const char *name) {
        const struct node *target = node_target(key);

        return target->type == NODE_SCALAR && strcmp(target->text, name) == 0;
}

void decode_hide_all_but_sensitive(const struct decoder *decoder, const struct node *map) {
        for (const struct node *key = map->first; key; key = key->next->next) {
                if (!is_key(key, "sensitive"))
                        decode_hide(decoder, key->next);
        }
}

/* Only a plain false: anything else that stands there may be a slip, and hides more rather than less. */
static bool is_false(const struct node *node) {
        const struct node *target = node_target(node);

        return target->type == NODE_SCALAR && scalar_type_of(target) == SCALAR_BOOLEAN &&
               !scalar_boolean(target);
}

void decode_hide_secrets(const struct decoder *decoder, const struct node *node) {
        if (node->type != NODE_LIST && node->type != NODE_MAP)
                return;
        for (const struct node *key = node->first; node->type == NODE_MAP && key; key = key->next->next) {
                if (is_key(key, "sensitive") && !is_false(key->next)) {
                        decode_hide_all_but_sensitive(decoder, node);
                        return;
                }
        }
        for (const struct node *child = node->first; child; child = child->next)
                decode_hide_secrets(decoder, child);
}

bool decode_may_hold_password(const char *url) {
        const char *scheme = strstr(url, "://"), *user = scheme ? scheme + 3 : url;
        const char *end = strrchr(user, '@');

        return end && memchr(user, ':', (size_t)(end - user));
}
