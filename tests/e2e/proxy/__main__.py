# SPDX-License-Identifier: Apache-2.0
"""`python -m proxy --upstream URL --flavor ministack|moto --port 0`: print the address, serve until the end."""

import argparse
import asyncio
import signal

from .server import serve


def main():
    parser = argparse.ArgumentParser(prog="proxy", description="a judging fault proxy in front of a stand-in for AWS")
    parser.add_argument("--upstream", required=True, help="the stand-in's URL")
    parser.add_argument("--flavor", required=True, choices=("ministack", "moto"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    options = parser.parse_args()
    asyncio.run(_run(options))


async def _run(options):
    task = asyncio.current_task()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, task.cancel)
    try:
        await serve(options.upstream, options.flavor, options.host, options.port, lambda url: print(url, flush=True))
    except asyncio.CancelledError:
        pass


if __name__ == "__main__":
    main()
