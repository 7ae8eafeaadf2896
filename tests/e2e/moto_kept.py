# SPDX-License-Identifier: Apache-2.0
"""
`python moto_kept.py --port PORT`: moto behind aiohttp. moto's own server makes a connection and a thread for each request, and looks
through moto's folders twice for each: that was most of what a request cost, and there are hundreds of thousands.
"""

import argparse
import asyncio
import functools
import io
import os
import signal
from types import SimpleNamespace

from aiohttp import web
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from multidict import CIMultiDict


class Application(DomainDispatcherApplication):
    """Whose part a request is, asked once for each name."""

    @functools.cache
    def get_backend_for_host(self, host):
        return super().get_backend_for_host(host)


class Request(MotoRequestHandler):
    """What moto's server makes of a request, without its socket: the body is here already."""

    def __init__(self, request, body, address):
        self.command, self.path, self.request_version = request.method, request.raw_path, "HTTP/1.1"
        self.client_address, self.connection, self.rfile = ("127.0.0.1", 0), None, io.BytesIO(body)
        self.server = SimpleNamespace(ssl_context=None, multithread=False, multiprocess=False, server_address=address)
        self.headers = CIMultiDict((k, v) for k, v in request.headers.items() if k.lower() not in ("content-length", "transfer-encoding"))
        if body or "Content-Length" in request.headers:
            self.headers["Content-Length"] = str(len(body))


async def answer(application, address, request):
    """moto is asked in this thread: it waits for nothing."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    said = []
    pieces = application(Request(request, await request.read(), address).make_environ(), lambda status, headers, _=None: said.append((status, headers)))
    try:
        body = b"".join(pieces)
    finally:
        getattr(pieces, "close", lambda: None)()
    status, headers = said[-1]
    kept = CIMultiDict((k, v) for k, v in headers if request.method == "HEAD" or k.lower() != "content-length")
    kept.setdefault("Content-Type", "application/octet-stream")
    return web.Response(status=int(status.split()[0]), headers=kept, body=None if request.method == "HEAD" else body)


async def serve(port):
    application = Application(create_backend_app)
    application.debug = True  # a fault of moto's own is shown, as its server does
    loop = asyncio.get_running_loop()

    def make_request(message, payload, protocol, writer, task):
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=256 * 1024 * 1024)

    server = web.Server(functools.partial(answer, application, ("127.0.0.1", port)), request_factory=make_request, access_log=None, keepalive_timeout=75)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=512).start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    os.environ["MOTO_PORT"] = str(port)
    asyncio.run(serve(port))
