/* SPDX-License-Identifier: Apache-2.0 */
/* No state is opened: what the registry holds does not hang on what was applied. The account is checked, as for a plan. */
#include "cli/registry.h"

#include "base/json.h"

#include <string.h>

int registry_open(struct session *session, const struct options *options, struct error *err) {
        struct caller_identity identity;
        const char *declared;

        if (session_load(session, options, false, err) < 0 ||
            session_open_provider(session, options, err) < 0)
                return -1;
        if (!session->provider_ops->images)
                return error_set(err, "the provider %s has no registry of images",
                                 session->provider_ops->name);
        if (session->provider_ops->identify(session->provider, session->arena, &identity, err) < 0)
                return -1;
        declared = value_get_text(value_get(session->manifests.stack->spec, "aws"), "account");
        if (declared && strcmp(session->provider_ops->name, "aws") == 0 &&
            strcmp(declared, identity.account) != 0)
                return error_set_kind(err, ERROR_REFUSED,
                                      "wrong-account: the credentials are of account %s, the Stack's "
                                      "aws.account says %s",
                                      identity.account, declared);
        return 0;
}

json_t *registry_row_json(const struct image_row *row) {
        json_t *tags = json_array();
        char pushed[32];

        for (size_t i = 0; i < row->tag_count; i++)
                json_array_append_new(tags, json_string(row->tags[i]));
        clock_format(row->pushed_ms, pushed, sizeof(pushed));
        return json_pack("{s:s, s:o, s:s?, s:s?, s:I, s:s?, s:s?, s:s?, s:o, s:s?, s:o, s:o, s:o, s:s?}",
                         "repository", row->repository, "tags", tags, "digest", row->digest, "pushedAt",
                         row->pushed_ms > 0 ? pushed : NULL, "sizeBytes", (json_int_t)row->size, "mediaType",
                         row->media_type, "platform", row->platform, "runtime", row->runtime, "usable",
                         row->unverified ? json_null() : json_boolean(row->problem == NULL), "problem",
                         row->problem, "message", json_from_text(row->message), "remedy",
                         json_from_text(row->remedy), "unverified", json_from_text(row->unverified), "note",
                         row->note);
}

const char *registry_size(int64_t bytes, char *buffer, size_t size) {
        static const char *const units[] = { "B", "KB", "MB", "GB" };
        double amount = (double)bytes;
        size_t unit = 0;

        for (; amount >= 1000 && unit < 3; unit++)
                amount /= 1024;
        if (bytes <= 0)
                snprintf(buffer, size, "-");
        else
                snprintf(buffer, size, unit ? "%.1f %s" : "%.0f %s", amount, units[unit]);
        return buffer;
}
