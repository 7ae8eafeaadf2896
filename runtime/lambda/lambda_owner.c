/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an environment has in its memory is the session's only if the session's last execution ran in it: Lambda may have had two, and
 * used the other meanwhile. So the event says which execution that was, and where; what does not fit is ended, never continued.
 */
#include "base/clock.h"
#include "runtime/lambda/lambda_parts.h"

#include <stdio.h>
#include <string.h>

#define CLEAN_MS 20000

bool lambda_owner_is_last(const struct lambda_environment *environment, const struct invocation *invocation) {
        return invocation->previous_n == environment->last_n &&
               (!invocation->previous_boot || strcmp(invocation->previous_boot, environment->boot) == 0);
}

enum invocation_refusal lambda_owner_admit(const struct lambda *lambda, const struct invocation *invocation,
                                           const struct lambda_event *event, struct error *err) {
        const struct lambda_environment *environment = &lambda->environment;
        int64_t now = clock_wall_ms();
        bool is_ours = strcmp(environment->session, invocation->session) == 0;

        if (event->tenant[0] && strcmp(event->tenant, invocation->session) != 0) {
                (void)error_set(err, "the invocation's tenant is not the event's session");
                return INVOCATION_FOREIGN;
        }
        if (event->tenant[0] && environment->session[0] && environment->has_tenant && !is_ours) {
                (void)error_set(err, "this environment is another tenant's");
                return INVOCATION_FOREIGN;
        }
        if (!event->tenant[0] && (!invocation->shared || environment->has_tenant)) {
                (void)error_set(err,
                                "the function has no tenants, and the event does not say that sessions share "
                                "its environments");
                return INVOCATION_FOREIGN;
        }
        if (invocation->request.type == REQUEST_EXECUTE &&
            invocation->n <= lambda_environment_last(environment, invocation->session)) {
                (void)error_set(err,
                                "this execution began here before, and how it ended is not known any more");
                return INVOCATION_REPEATED;
        }
        if (now > invocation_deadline_ms(invocation)) {
                (void)error_set(err, "it came %lld ms after its deadline",
                                (long long)(now - invocation_deadline_ms(invocation)));
                return INVOCATION_LATE;
        }
        if (invocation->started_ms > now + INVOCATION_AHEAD_MS) {
                (void)error_set(err, "its start is %lld ms ahead of this clock",
                                (long long)(invocation->started_ms - now));
                return INVOCATION_LATE;
        }
        return INVOCATION_TAKEN;
}

/* Nothing of the session before is left, and the environment is this one's. */
static int give_to(struct lambda *lambda, const char *session, struct error *err) {
        lambda_inner_end(&lambda->inner);
        lambda->lost[0] = '\0';
        lambda_answer_forget(&lambda->answer);
        lambda_transfer_end(&lambda->transfer);
        lambda_transfer_forget(&lambda->transfer);
        return lambda_environment_give(&lambda->environment, session, clock_now_ms() + CLEAN_MS, err);
}

enum invocation_refusal lambda_owner_settle(struct lambda *lambda, const struct invocation *invocation,
                                            const struct lambda_event *event, enum invocation_was *ret_was,
                                            struct error *err) {
        struct lambda_environment *environment = &lambda->environment;
        bool is_ours = strcmp(environment->session, invocation->session) == 0;
        bool is_first = !lambda->settled, was_nobodys = !environment->session[0];

        /* Without a tenant, it is unknown what an earlier start has left here. */
        if ((!is_ours && !was_nobodys) || lambda->unclean || (!event->tenant[0] && is_first)) {
                *ret_was = environment->starts == 1 && was_nobodys && !lambda->unclean ? INVOCATION_NEW
                                                                                       : INVOCATION_CLEANED;
                lambda->unclean = true;
                if (give_to(lambda, invocation->session, err) < 0)
                        return INVOCATION_UNCLEAN;
                lambda->unclean = false;
        } else if (was_nobodys) {
                *ret_was = environment->starts == 1 ? INVOCATION_NEW : INVOCATION_RESET;
                (void)snprintf(environment->session, sizeof(environment->session), "%s", invocation->session);
        } else if (is_first)
                *ret_was = INVOCATION_RESET;
        else if (lambda_owner_is_last(environment, invocation))
                *ret_was = INVOCATION_KEPT;
        else {
                *ret_was = INVOCATION_STALE;
                if (lambda->inner.used)
                        lambda_code_lose(lambda, "the session's last execution was elsewhere");
        }
        environment->has_tenant = event->tenant[0] != '\0';
        lambda->settled = true;
        return INVOCATION_TAKEN;
}
