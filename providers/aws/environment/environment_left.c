/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others added to a function beside what the manifest declares: another network, a URL,
 * statements of its resource policy. No change follows from them, since their owner may need them;
 * they are told as drift that stays, until they are gone or the manifest accepts them.
 *
 * The VPC comes with the function. URL and policy are two calls a function, and Lambda takes fifteen such a second: they are
 * read where everything is (--refresh full). Without the right to read them the answer is a line that says so, not an error.
 */
#include "base/json.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/services/lambda.h"

struct sight {
        struct provider *provider;
        struct arena *arena;
        const char *function;
        const struct value *accepted;
        struct left_drift_list left;
        const char *unknown; /* why an answer is missing; or NULL */
};

static void leave_drift(struct sight *sight, const char *word, const char *path, const json_t *there,
                        const char *remedy) {
        struct value *after = arena_alloc(sight->arena, sizeof(*after));

        *after = value_from_json(sight->arena, there);
        aws_leave(&sight->left, sight->accepted, word,
                  (struct left_drift){ .path = path, .after = after, .remedy = remedy }, sight->arena);
}

static int fetch_fact(struct sight *sight, const struct aws_request *request, struct aws_response *ret,
                      struct error *err) {
        static const char *const codes[] = { "ResourceNotFoundException", NULL };
        const char *unknown;

        if (aws_ask_fact(sight->provider, request, codes, ret, &unknown, sight->arena, err) < 0)
                return -1;
        if (unknown && aws_code_is_denied(ret->error_code))
                unknown = "allow lambda:GetFunctionUrlConfig and lambda:GetPolicy";
        if (unknown)
                sight->unknown = unknown;
        return 0;
}

static int see_url(struct sight *sight, struct error *err) {
        struct aws_request request = lambda_get_url(sight->function, sight->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        json_t *shown JSON_CLEANUP = NULL;
        const char *type;

        if (fetch_fact(sight, &request, &response, err) < 0)
                return -1;
        type = json_text(response.json, "AuthType");
        if (*response.error_code || !type)
                return 0;
        shown = json_object();
        json_set_text(shown, "authType", type);
        json_set_text(shown, "functionUrl", json_text(response.json, "FunctionUrl"));
        leave_drift(sight, "url", "url", shown,
                    aws_json_says(response.json, "AuthType", "NONE")
                            ? "anyone on the internet may call the function there, without credentials; "
                              "delete the URL, or accept it: accept: [url]"
                            : "delete the URL, or accept it: accept: [url]");
        return 0;
}

static int see_permissions(struct sight *sight, struct error *err) {
        struct aws_request request = lambda_get_policy(sight->function, sight->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        json_t *policy JSON_CLEANUP = NULL;
        const json_t *statements;
        const char *text;

        if (fetch_fact(sight, &request, &response, err) < 0)
                return -1;
        text = *response.error_code ? NULL : json_text(response.json, "Policy");
        policy = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
        statements = json_object_get(policy, "Statement");
        if (json_array_size(statements) == 0 && !json_is_object(statements))
                return 0;
        leave_drift(
                sight, "permissions", "permissions", statements,
                "others may call or use the function by its resource policy; remove the statements, or accept "
                "them: accept: [permissions]");
        return 0;
}

/*
 * Where manifests say what network the function has, that is compared, and put back. Otherwise it
 * must not move: the network should be the one that manifests named last, and Lambda's own if they
 * never named one.
 */
static void see_vpc(struct sight *sight, const struct wanted *wanted, const struct value *spec) {
        const struct provider *provider = sight->provider;
        const struct value *said = value_get(wanted->recorded, "network"),
                           *vpc = value_get(spec, ENVIRONMENT_VPC);
        struct value *there;

        if (environment_says_network(provider, wanted->desired->spec) ||
            !environment_knows_network(provider, wanted->recorded))
                return;
        there = arena_alloc(sight->arena, sizeof(*there));
        *there = environment_network_of_vpc(provider, vpc, sight->arena);
        if (said ? value_equal(said, there, NULL) : !vpc)
                return;
        aws_leave(
                &sight->left, sight->accepted, "network",
                (struct left_drift){
                        .path = ENVIRONMENT_VPC,
                        .before = said,
                        .after = vpc ? vpc : there,
                        .remedy =
                                said ? "the function was moved out of the network that its manifests said last; "
                                       "say it again to have it back, or accept it: accept: [network]"
                                     : "the function was put into a VPC; take it out, or accept it: "
                                       "accept: [network]",
                },
                sight->arena);
}

/* The console's Throttle button sets 0, which turns every call away. A manifest that says a number has it put back. */
static void see_concurrency(struct sight *sight, const struct wanted *wanted, const struct value *spec) {
        const struct value *there = value_get(spec, "reservedConcurrency");

        if (!there || value_get(wanted->desired->spec, "reservedConcurrency") ||
            value_get(wanted->recorded, "reservedConcurrency"))
                return;
        aws_leave(
                &sight->left, sight->accepted, "concurrency",
                (struct left_drift){
                        .path = "reservedConcurrency",
                        .after = there,
                        .remedy =
                                there->integer == 0
                                        ? "nothing runs there any more: the function is throttled (reserved "
                                          "concurrency 0); unthrottle it, or accept it: accept: [concurrency]"
                                        : "it gets no more than these, and others in the account as many less; "
                                          "say them in the manifest, delete them, or accept them: accept: "
                                          "[concurrency]",
                },
                sight->arena);
}

static bool is_looked_at(const struct wanted *wanted, const struct observation *observation) {
        return wanted->desired && wanted->recorded && observation->exists &&
               observation->ownership == OWNER_SELF;
}

void environment_see_left_ahead(struct provider *provider, const struct wanted *wanted,
                                const struct observation *seen, struct arena *arena) {
        const char *function = environment_function(provider, wanted->name, arena);
        const struct aws_request requests[] = { lambda_get_url(function, arena),
                                                lambda_get_policy(function, arena) };

        for (size_t i = 0; i < 2 && is_looked_at(wanted, seen); i++)
                aws_ahead(provider->client, &requests[i]);
}

int environment_see_left(struct provider *provider, const struct observe_args *args,
                         struct observation *observations, struct error *err) {
        struct observation *first = NULL;
        const char *unknown = NULL;

        for (size_t i = 0; i < args->count; i++) {
                const struct wanted *wanted = &args->wanted[i];
                struct sight sight = {
                        .provider = provider,
                        .arena = args->arena,
                        .function = environment_function(provider, wanted->name, args->arena),
                };

                if (!is_looked_at(wanted, &observations[i]))
                        continue;
                sight.left = (struct left_drift_list){ observations[i].left, observations[i].left_count };
                sight.accepted = value_get(wanted->desired->spec, "accept");
                see_vpc(&sight, wanted, observations[i].spec);
                see_concurrency(&sight, wanted, observations[i].spec);
                /* Where one cannot be asked for, the others are not either: each would be tried again and again. */
                if (args->refresh == REFRESH_FULL && !unknown &&
                    (see_url(&sight, err) < 0 || see_permissions(&sight, err) < 0))
                        return -1;
                observations[i].left = sight.left.items;
                observations[i].left_count = sight.left.count;
                if (sight.unknown && !unknown) {
                        first = &observations[i];
                        unknown = sight.unknown;
                }
        }
        if (first)
                aws_warn(
                        first,
                        arena_printf(args->arena,
                                     "whether functions have URLs and permissions of others is not known: %s",
                                     unknown),
                        args->arena);
        return 0;
}
