# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and an HTTP server on this machine that counts requests, and the bytes of their bodies, both ways."""

import asyncio
import collections
import threading

HEAD_LIMIT = 1 << 20


class Counted:
    def __init__(self):
        self.requests = collections.Counter()  # by method
        self.up = self.down = 0  # bytes of bodies

    def __str__(self):
        methods = ", ".join(f"{count} {method}" for method, count in sorted(self.requests.items()))
        return f"{sum(self.requests.values()):>7,} requests  {self.up / 1e6:>9.2f} MB up  {self.down / 1e6:>9.2f} MB down   ({methods})"


class Relay:
    """`with Relay(port) as relay:` relay.url; relay.take() is what was counted since it was asked last."""

    def __init__(self, upstream_port):
        self.upstream_port, self.counted = upstream_port, Counted()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        begun = asyncio.run_coroutine_threadsafe(asyncio.start_server(self.serve, "127.0.0.1", 0, limit=HEAD_LIMIT), self.loop)
        self.server = begun.result()
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def take(self):
        counted, self.counted = self.counted, Counted()
        return counted

    async def serve(self, reader, writer):
        there_reader = there_writer = None
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.upstream_port, limit=HEAD_LIMIT)
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method = head.split(b" ", 1)[0].decode()
                there_writer.write(head)
                if b"100-continue" in head:  # it may be sent without waiting
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self.counted.requests[method] += 1
                self.counted.up += await pass_body(head, reader, there_writer)
                answer = await there_reader.readuntil(b"\r\n\r\n")
                while answer.startswith(b"HTTP/1.1 100"):
                    answer = await there_reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                if method != "HEAD" and not answer.startswith((b"HTTP/1.1 204", b"HTTP/1.1 304")):
                    self.counted.down += await pass_body(answer, there_reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one of them has closed
        finally:
            for one in (writer, there_writer):
                if one:
                    one.close()


def headers_of(head):
    lines = head.lower().split(b"\r\n")[1:]
    return dict(line.split(b":", 1) for line in lines if b":" in line)


async def pass_body(head, reader, writer):
    """Its bytes, without those that only cut it into pieces."""
    headers = headers_of(head)
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        return await pass_chunks(reader, writer)
    left = length = int(headers.get(b"content-length", b"0"))
    while left > 0:
        piece = await reader.read(min(left, 1 << 18))
        if not piece:
            raise ConnectionError("cut off")
        left -= len(piece)
        writer.write(piece)
        await writer.drain()
    await writer.drain()
    return length


async def pass_chunks(reader, writer):
    length = 0
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        writer.write(line + await reader.readexactly(size + 2))
        await writer.drain()
        length += size
        if size == 0:
            return length
