/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root's name is checked before anything is read: of another document every element would be absent, and read as
 * "none".
 */
#include "providers/aws/client/aws_xml_answer.h"

#include <stdio.h>
#include <string.h>

int aws_answer_xml(const struct aws_response *response, const char *what, const char *root,
                   struct xml_document **ret, struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        char name[96];

        snprintf(name, sizeof(name), "the answer to %s", what);
        if (xml_parse(strbuf_text(&response->body), response->body.length, name, &document, err) < 0)
                return -1;
        if (strcmp(xml_name(xml_root(document)), root) != 0)
                return error_set(
                        err,
                        "%s is not <%s>, as it should be; look for a proxy on the way there, and try again",
                        name, root);
        *ret = document;
        document = NULL;
        return 0;
}

struct value *aws_tags_from_xml(const struct xml_node *list, const char *name, struct arena *arena) {
        struct value *map = value_new_map(arena);

        for (const struct xml_node *tag = xml_child(list, name); tag; tag = xml_next(tag, name)) {
                const char *key = xml_text(tag, "Key", arena), *text = xml_text(tag, "Value", arena);

                if (key)
                        value_set_text(arena, map, key, text ? text : "");
        }
        return map;
}
