/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event of an invocation. All that it needs of the bucket comes with it as presigned requests, each for one object or one folder of this
 * session: the function itself has no right to any data.
 */
#include "base/digest.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/aws/client/aws_presign.h"
#include "providers/aws/session/place_parts.h"
#include "providers/aws/workspace/layout.h"

#include <string.h>

/*
 * What is signed lives until the event's deadline, behind all the time for which throttling is waited for, and a little longer. No longer, since
 * it ends with the keys that it is signed with, and a server's may have few minutes left.
 */
#define SIGNED_MORE_MS 60000
/*
 * Code and input that an event carries itself. As JSON a character of code may be six, and there is more in an event: beyond this they are
 * an object beside it.
 */
#define CARRIED_MAX ((size_t)512 << 10)
/*
 * The bound of all under transfer/N/: the result has 8 MiB, a checkpoint its data and what comes
 * beside them.
 */
#define TRANSFER_BYTES ((uint64_t)16 << 20)

const char *place_key(const struct place_session *session, int64_t n, const char *name, struct arena *arena) {
        return arena_printf(arena, "%s%s", layout_transfer(session->id, n, arena), name);
}

void place_call_release(struct place_call *call) {
        strbuf_release(&call->event);
        place_files_release(&call->files);
}

int place_sign_get(const struct place_session *session, const char *key, struct arena *arena,
                   const char **ret, struct error *err) {
        return aws_presign_get(session->place->config.client, session->place->config.bucket.name, key,
                               session->signed_seconds, arena, ret, err);
}

/* {url, prefix, fields}; NULL with err. */
json_t *place_sign_folder(const struct place_session *session, const char *prefix, uint64_t bytes_max,
                          struct arena *arena, struct error *err) {
        const struct aws_post_policy policy = {
                .bucket = session->place->config.bucket.name,
                .key = prefix,
                .is_prefix = true,
                .bytes_max = bytes_max,
                .tagging = layout_tag_xml(session->environment, arena),
                .seconds = session->signed_seconds,
        };
        struct aws_post_form form;
        json_t *fields;

        if (aws_presign_post(session->place->config.client, &policy, arena, &form, err) < 0)
                return NULL;
        fields = json_checked(json_object());
        for (size_t i = 0; i < form.count; i++)
                json_put(fields, form.fields[i].name, json_string(form.fields[i].value));
        return json_checked(
                json_pack("{s:s, s:s, s:o}", "url", form.url, "prefix", prefix, "fields", fields));
}

/* [{context, generation}], or NULL where no kernel began. */
static json_t *contexts_of(const struct place_memory *memory) {
        json_t *list, *generation;
        const char *name;

        if (json_object_size(memory->contexts) == 0)
                return NULL;
        list = json_checked(json_array());
        json_object_foreach (memory->contexts, name, generation)
                json_add(list, json_pack("{s:s, s:O}", "context", name, "generation", generation));
        return list;
}

/* {get, bytes, sha256} of an object transfer/N/NAME, which is written now; NULL with err. A new reference. */
json_t *place_put_object(const struct place_session *session, int64_t n, const char *name, const void *bytes,
                         size_t length, const char *type, struct arena *arena, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        char sha256[SHA256_HEX_SIZE];
        const struct s3_write write = {
                .key = place_key(session, n, name, arena),
                .body = bytes,
                .length = length,
                .content_type = type,
                .tagging = layout_tag_header(session->environment, arena),
        };
        struct aws_request request = s3_write_object(&session->place->config.bucket, &write, arena);
        const char *get;

        request.ended_by = &session->left;
        if (aws_call(session->place->config.client, &request, &response, err) < 0 ||
            place_sign_get(session, write.key, arena, &get, err) < 0)
                return NULL;
        digest_sha256_hex(bytes, length, sha256);
        return json_checked(
                json_pack("{s:s, s:I, s:s}", "get", get, "bytes", (json_int_t)length, "sha256", sha256));
}

/* Code and input beyond what an event carries, as protocol 1 has them: one behind the other. */
static int add_body(const struct place_session *session, const struct request *request, struct arena *arena,
                    struct place_call *call, struct invocation *event, json_t **ret, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

        if (request->code_length + request->input_length <= CARRIED_MAX)
                return 0;
        strbuf_append_bytes(&bytes, request->code, request->code_length);
        if (request->input)
                strbuf_append_bytes(&bytes, request->input, request->input_length);
        *ret = place_put_object(session, request->n, "body", bytes.data, bytes.length,
                                "application/octet-stream", arena, err);
        if (!*ret)
                return error_context(err, "its code and input");
        call->has_body = true;
        event->body = *ret;
        event->body_input = request->input ? (int64_t)request->input_length : -1;
        return 0;
}

static uint64_t transfer_bytes(const struct place_session *session) {
        uint64_t checkpoint = (uint64_t)session->checkpoint_bytes_max + ((uint64_t)8 << 20);

        return checkpoint > TRANSFER_BYTES ? checkpoint : TRANSFER_BYTES;
}

/* What to begin with where the kernels are not there any more, and whether their memory is kept afterwards. */
static int add_checkpoint(const struct place_session *session, bool takes, struct arena *arena,
                          struct invocation *event, json_t **ret_restore, struct error *err) {
        const struct place_memory *memory = &session->memory;
        const char *get;

        if (memory->checkpoint.digest[0]) {
                if (place_sign_get(session, layout_checkpoint(session->id, memory->checkpoint_n, arena),
                                   arena, &get, err) < 0)
                        return -1;
                *ret_restore = json_checked(json_pack("{s:s, s:I, s:s}", "get", get, "bytes",
                                                      (json_int_t)memory->checkpoint.bytes, "sha256",
                                                      memory->checkpoint.digest));
                event->restore = *ret_restore;
        } else if (event->contexts && memory->lacks[0]) {
                event->restore_lacks = memory->lacks;
        }
        if (takes) {
                event->take_bytes = session->checkpoint_bytes_max;
                event->take_ms = session->checkpoint_ms;
        }
        return 0;
}

int place_call_make(struct place_session *session, const struct request *request, const char *staged,
                    int64_t n, int64_t timeout_ms, struct arena *arena, struct place_call *ret,
                    struct error *err) {
        struct aws_place *place = session->place;
        const struct place_memory *memory = &session->memory;
        bool executes = request->type == REQUEST_EXECUTE;
        json_t *contexts JSON_CLEANUP = contexts_of(memory), *transfer JSON_CLEANUP = NULL;
        json_t *restore JSON_CLEANUP = NULL, *interrupt JSON_CLEANUP = NULL, *body JSON_CLEANUP = NULL;
        struct invocation event = INVOCATION_INIT;
        const char *get;

        if (place->config.find(place->config.context, session->environment, arena, &ret->environment, err) <
            0)
                return -1;
        ret->tenant = ret->environment.tenants ? session->id : NULL;
        ret->started_ms = aws_client_wall_ms(place->config.client);
        event = (struct invocation){
                .session = session->id,
                .n = n,
                .started_ms = ret->started_ms,
                .timeout_ms = timeout_ms,
                .answer = atomic_load(&place->streams_missing) ? INVOCATION_BUFFERED : INVOCATION_STREAM,
                .shared = !ret->environment.tenants,
                .previous_n = memory->n,
                .previous_boot = memory->n > 0 && memory->boot[0] ? memory->boot : NULL,
                .contexts = contexts,
                .request = *request,
        };
        ret->deadline_ms = invocation_deadline_ms(&event);
        session->signed_seconds =
                (ret->deadline_ms - ret->started_ms + place->config.throttled_ms + SIGNED_MORE_MS) / 1000;
        if (executes) {
                transfer = place_sign_folder(session, layout_transfer(session->id, n, arena),
                                             transfer_bytes(session), arena, err);
                if (!transfer ||
                    place_sign_get(session, place_key(session, n, "interrupt", arena), arena, &get, err) < 0)
                        return -1;
                interrupt = json_checked(json_pack("{s:s}", "get", get));
                if (add_body(session, request, arena, ret, &event, &body, err) < 0 ||
                    (staged &&
                     place_files_stage(session, staged, &ret->environment, arena, &ret->skipped, err) < 0) ||
                    place_files_offer(session, n, &ret->environment, arena, &ret->files, err) < 0)
                        return -1;
                ret->files.since_ms = ret->started_ms;
                event.workspace = ret->files.offer;
                event.transfer = transfer;
                event.interrupt = interrupt;
                if (add_checkpoint(session, request->language == REQUEST_PYTHON, arena, &event, &restore,
                                   err) < 0)
                        return -1;
        }
        return invocation_write(&event, &ret->event, err);
}
