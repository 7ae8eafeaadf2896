/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/workspace/layout.h"

#include "base/digest.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "providers/aws/client/encode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS "workspaces/sessions/"
#define OWNERS "workspaces/owners/"
#define OWNER_DIGITS 40
#define TAG "berth:environment" /* workspace_policy/workspace_rules.h goes by it */
#define ROW_PARTS 6
#define FIRST "made" /* behind all digits */
#define NO_AGENT "-" /* no name of an agent begins with one */

const char *layout_session(const char *id, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/", id);
}

const char *layout_files(const char *id, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/workspace/", id);
}

const char *layout_file(const char *id, const char *path, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/workspace/%s", id, path);
}

const char *layout_transfers(const char *id, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/transfer/", id);
}

const char *layout_transfer(const char *id, int64_t n, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/transfer/%" PRId64 "/", id, n);
}

const char *layout_checkpoint(const char *id, int64_t n, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/transfer/%" PRId64 "/checkpoint", id, n);
}

const char *layout_all_staged(const char *id, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/transfer/staged-", id);
}

const char *layout_staged(const char *id, const char *name, struct arena *arena) {
        return arena_printf(arena, SESSIONS "%s/transfer/staged-%s/", id, name);
}

const char *layout_index(const char *id, struct arena *arena) {
        return arena_printf(arena, LAYOUT_INDEXES "%s", id);
}

const char *layout_removed(const char *id, struct arena *arena) {
        return arena_printf(arena, LAYOUT_REMOVED "%s", id);
}

/* Names of stacks have no line break, so that no two pairs are one text. */
const char *layout_owner(const char *stack, const char *owner, struct arena *arena) {
        const char *both = arena_printf(arena, "%s\n%s", stack, owner);
        char digest[SHA256_HEX_SIZE];

        digest_sha256_hex(both, strlen(both), digest);
        return arena_printf(arena, OWNERS "%.*s/", OWNER_DIGITS, digest);
}

const char *layout_row_key(const char *stack, const char *owner, const struct layout_row *row,
                           struct arena *arena) {
        const char *size = row->first ? FIRST : arena_printf(arena, "%" PRIu64, row->megabytes);

        return arena_printf(arena, "%s%s/%s/%s/%" PRId64 "/%s/%" PRId64, layout_owner(stack, owner, arena),
                            row->id, row->environment, row->agent ? row->agent : NO_AGENT, row->created_ms,
                            size, row->lives_until_ms);
}

/* The number that is all of the text; false if the text is not a number. */
static bool parse_whole(const char *text, int64_t *ret) {
        char *end;

        if (*text < '0' || *text > '9' || strlen(text) > 18)
                return false;
        *ret = strtoll(text, &end, 10);
        return !*end;
}

bool layout_row_read(const char *owner, const char *key, struct arena *arena, struct layout_row *ret) {
        const char *parts[ROW_PARTS];
        char *rest;
        int64_t megabytes = 0;

        if (!text_begins_with(key, owner))
                return false;
        rest = arena_strdup(arena, key + strlen(owner));
        for (size_t i = 0; i < ROW_PARTS; i++) {
                char *slash = strchr(rest, '/');

                if (!*rest || *rest == '/' || (i < ROW_PARTS - 1) != (slash != NULL))
                        return false;
                parts[i] = rest;
                if (slash) {
                        *slash = '\0';
                        rest = slash + 1;
                }
        }
        ret->first = strcmp(parts[4], FIRST) == 0;
        if (!parse_whole(parts[3], &ret->created_ms) || (!ret->first && !parse_whole(parts[4], &megabytes)) ||
            !parse_whole(parts[5], &ret->lives_until_ms))
                return false;
        ret->id = parts[0];
        ret->environment = parts[1];
        ret->agent = strcmp(parts[2], NO_AGENT) == 0 ? NULL : parts[2];
        ret->megabytes = (uint64_t)megabytes;
        return true;
}

const char *layout_tag_header(const char *environment, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        encode_percent(&text, TAG, strlen(TAG), false);
        strbuf_append_char(&text, '=');
        encode_percent(&text, environment, strlen(environment), false);
        return arena_strdup(arena, strbuf_text(&text));
}

/* Names of environments have nothing in them that XML would take for its own (schema/). */
const char *layout_tag_xml(const char *environment, struct arena *arena) {
        return arena_printf(
                arena, "<Tagging><TagSet><Tag><Key>" TAG "</Key><Value>%s</Value></Tag></TagSet></Tagging>",
                environment);
}
