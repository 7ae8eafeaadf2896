# SPDX-License-Identifier: Apache-2.0
"""Notifications as a receiver sees them, verified as docs/controller.md tells receivers to: by Python's own hmac."""

import hashlib
import hmac
import http.server
import json
import subprocess
import threading
import time

import pytest

import binary

SECRET = "a secret of the receiver"


class Receiver(http.server.ThreadingHTTPServer):
    """Answers what `script` says, then 200. Keeps (headers, body) of each request."""

    daemon_threads = True

    def __init__(self, script=()):
        self.received, self.script = [], list(script)
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/services/T0/secret-of-the-url"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.headers, body))
        self.send_response(self.server.script.pop(0) if self.server.script else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def verify(headers, body):
    """As in docs/controller.md."""
    timestamp = headers["X-Berth-Timestamp"]
    if abs(time.time() - int(timestamp)) > 300:
        return False
    expected = hmac.new(SECRET.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest("sha256=" + expected, headers["X-Berth-Signature"])


@pytest.fixture
def notify(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)

    def run(url, *messages):
        done = subprocess.run(
            [binary.tool("notify_cli"), url, str(secret)],
            input="".join(m + "\n" for m in messages), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_each_is_signed_as_documented(notify):
    receiver = Receiver()
    notify(receiver.url, "one", "zwei \u00fc", '"quoted" \\ {}')
    assert [json.loads(body) for _, body in receiver.received] == [
        {"formatVersion": "1", "message": message} for message in ("one", "zwei \u00fc", '"quoted" \\ {}')
    ]
    for headers, body in receiver.received:
        assert verify(headers, body)
        assert not verify(headers, body + b" ")
        assert headers["Content-Type"] == "application/json" and headers["X-Berth-Event"] == "applied"
        assert headers["User-Agent"].startswith("berth/")
    assert len({headers["X-Berth-Delivery"] for headers, _ in receiver.received}) == 3


def test_a_receiver_that_was_away_gets_each_once_more_in_order(notify):
    receiver = Receiver([500, 429, 502])
    done = notify(receiver.url, "one", "two")
    bodies = [json.loads(body)["message"] for _, body in receiver.received]
    assert bodies == ["one", "one", "one", "one", "two"]
    assert len({headers["X-Berth-Delivery"] for headers, _ in receiver.received}) == 2
    assert all(verify(headers, body) for headers, body in receiver.received)
    assert 'berth_notifications_total{result="sent"} 2\n' in done.stdout
    assert 'berth_notifications_total{result="retried"} 3\n' in done.stdout


def test_no_secret_of_a_url_is_logged(notify):
    receiver = Receiver([500, 404])
    done = notify(receiver.url, "one", "two")
    assert "it answered 500" in done.stderr and "it answered 404" in done.stderr
    assert "secret" not in done.stderr and SECRET not in done.stderr + done.stdout
