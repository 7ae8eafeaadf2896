# SPDX-License-Identifier: Apache-2.0
"""
`python ministack_kept.py --port PORT`: MiniStack behind uvicorn, which reads HTTP with httptools. MiniStack's own server reads it in Python: that
was half of what a request cost, and there are hundreds of thousands.
"""

import argparse
import os
import resource

import uvicorn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    os.environ["GATEWAY_PORT"] = str(port)
    import ministack.app  # which reads that

    # As its own server does: connections come in bursts.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # The application gives each answer its date, and none a server's name, as AWS does.
    uvicorn.run(
        ministack.app.app, host="127.0.0.1", port=port, ws="none", log_level="warning", access_log=False, date_header=False,
        server_header=False, timeout_keep_alive=75, timeout_graceful_shutdown=1,
    )  # fmt: skip


if __name__ == "__main__":
    main()
