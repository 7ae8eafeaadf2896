/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an HTTP answer says, in each protocol's own form: the error's code, message and request id, and a JSON body.
 *
 *     REST-JSON   x-amzn-ErrorType, or `code` or `__type` in the body; `message` or `Message`
 *     JSON 1.1    the same
 *     REST-XML    <Error><Code/><Message/><RequestId/></Error>
 *     query       <ErrorResponse><Error><Code/><Message/></Error><RequestId/></ErrorResponse>
 *
 * Where there is no such body (HEAD, a proxy's page), the code comes from the status: "NotFound" for 404.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_ANSWER_H
#define BERTH_PROVIDERS_AWS_CLIENT_ANSWER_H

#include "http/http.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/service_facts.h"

/*
 * Fills in everything of `ret` but its body. Fails where a 2xx answer cannot be what the protocol promises (JSON that
 * is cut short, a page of a proxy): as good as a broken connection. `answer`'s body stays where it is.
 */
int answer_read(enum service_protocol protocol, const char *what, const struct http_response *answer,
                struct aws_response *ret, struct error *err) MUST_USE;

/*
 * For an answer of an endpoint that is not AWS's own: that may be any server which this machine can
 * reach and the author of the endpoint's URL cannot. So that its answers cannot be read out through
 * messages, a code stays only in the form that AWS's codes have, and the request id goes.
 * error_message stays, for decisions: messages leave it out, see explain.h.
 */
void answer_withhold(struct aws_response *response);

#endif
