# SPDX-License-Identifier: Apache-2.0
"""The proxy's controls over HTTP, under /_proxy/; nothing of it reaches the stand-in.

    GET  health                     GET  calls[?since=N]        GET  violations
    POST reset                      POST settings {name: value} POST faults [rule, ...] (replaces all)
    GET  faults                     POST credentials {access_key, secret, token}
    POST registry {account, region, repository, policy, images: [{tag, digest, manifest, type}]}: another account's
    GET  environments               functions' environments, as environments.py tells them
    GET  invocations                what they ran, and when: [[tenant, begun, ended], ...]
    POST environments {"do": "lose" | "freeze" | "thaw" | "restart", "tenant": ID}     of the tenant, or of all
    PUT  blobs/DIGEST               a layer or config that GetDownloadUrlForLayer then leads to
"""

import json

from aiohttp import web


def _reply(value, status=200):
    return web.Response(status=status, text=json.dumps(value), content_type="application/json")


async def handle(proxy, request, body):
    name = request.path.removeprefix("/_proxy/")
    try:
        if name.startswith("blobs/"):
            proxy.registry.blobs[name.removeprefix("blobs/")] = body
            return _reply({})
        if name == "environments" and request.method == "POST":
            return _reply(await proxy.environments.control(**json.loads(body)))
        if request.method == "GET":
            return _reply(_read(proxy, name, request.query))
        return _reply(_change(proxy, name, json.loads(body or b"null")))
    except (KeyError, ValueError, TypeError) as error:
        return _reply({"error": str(error)}, 400)


def _read(proxy, name, query):
    if name == "calls":
        return proxy.record.calls[int(query.get("since", 0)) :]
    if name == "violations":
        return proxy.record.violations
    if name == "faults":
        return proxy.faults.report()
    if name == "environments":
        return proxy.environments.report()
    if name == "invocations":
        return proxy.environments.invocations
    if name == "health":
        return {"flavor": proxy.flavor, "busy": proxy.busy}
    raise ValueError(f"no such control: GET {name}")


def _change(proxy, name, value):
    if name == "reset":
        proxy.reset()
    elif name == "settings":
        proxy.settings.update(value)
    elif name == "faults":
        proxy.faults.replace(value)
    elif name == "credentials":
        proxy.credentials.add(value["access_key"], value["secret"], value.get("token"))
    elif name == "registry":
        proxy.registry.add_other(value)
    else:
        raise ValueError(f"no such control: POST {name}")
    return {}
