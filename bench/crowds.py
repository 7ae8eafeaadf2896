# SPDX-License-Identifier: Apache-2.0
"""
A thousand requests a second for a list of sessions, on a few connections that are kept, as fast clients and pages together would
ask: how many are answered, how soon, and what each costs the server's processor beside the same number of GET /healthz, which is
HTTP and nothing else.
"""

import os
import pathlib
import statistics
import threading
import time

from sessions import Client, say, serving, verdict

A_SECOND, CONNECTIONS, LISTED = 1_000, 8, 20


def processor_s(pid):
    """Of the process, user and system."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask_at_pace(port, path, until, taken, refused):
    """One connection's share of them; who is late does not wait, and does not skip."""
    client = Client(port)
    request, due = client.request("GET", path), time.perf_counter()
    while due < until:
        if (early := due - time.perf_counter()) > 0:
            time.sleep(early)
        start = time.perf_counter()
        client.socket.sendall(request)
        status, _ = client.answer()
        taken.append(time.perf_counter() - start)
        if status != 200:
            refused.append(status)
        due += CONNECTIONS / A_SECOND
    client.close()


def crowd(process, port, path, seconds):
    """(Answers a second, refusals, milliseconds of each in order, processor's microseconds each.)"""
    taken, refused = [], []
    before, start = processor_s(process.pid), time.perf_counter()
    threads = [
        threading.Thread(target=ask_at_pace, args=(port, path, start + seconds, taken, refused)) for _ in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    return len(taken) / took, refused, sorted(t * 1000 for t in taken), (processor_s(process.pid) - before) / len(taken) * 1e6


def bench_requests(build, quick):
    seconds = 3 if quick else 15
    with serving(build) as (process, port):
        client = Client(port)
        made, floor = [client.create() for _ in range(LISTED)], None
        for path, name in (("/healthz", "GET /healthz"), (f"/v1/sessions?limit={LISTED}", f"GET /v1/sessions, {LISTED} of them")):
            rate, refused, taken, cost = crowd(process, port, path, seconds)
            last = taken[len(taken) * 99 // 100]
            floor = floor or cost
            judged = verdict(not refused and rate >= 0.98 * A_SECOND, f"{A_SECOND} a second, none refused")
            beside = f"{statistics.median(taken):.2f} ms, of a hundred the last {last:.2f} ms"
            say(name, f"{rate:.0f} a second", beside, f"{cost:.0f} us each, {cost / floor:.1f}x; {judged}")
        for session in made:
            client.end(session)
        client.close()
