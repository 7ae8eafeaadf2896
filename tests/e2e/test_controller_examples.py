# SPDX-License-Identifier: Apache-2.0
"""examples/controller and docs/controller.md: what stands there to be copied is loaded, checked and run."""

import hashlib
import hmac
import re
import shlex
import shutil
import subprocess
import time

import pytest

import binary
from lib.controller_http import SECRET, Server
from lib.documented import write_alone
from lib.metrics import promtool

EXAMPLES = binary.ROOT / "examples/controller"
PAGE = (binary.ROOT / "docs/controller.md").read_text()
UNIT = (EXAMPLES / "berth-controller.service").read_text()
CONTAINERFILE = (EXAMPLES / "Containerfile").read_text().replace("\\\n", " ")


def test_the_controller_is_loaded(offline):
    write_alone(offline, (EXAMPLES / "controller.yaml").read_text())
    assert "a Controller of 3 sources" in offline("validate", "-f", "alone.yaml").expect(0).out


# --- systemd ---


def setting(name):
    return re.findall(rf"^{name}=(.*)$", UNIT, re.M)


def test_the_unit_starts_what_there_is(offline):
    words = shlex.split(setting("ExecStart")[0])
    helped = offline(words[1], "--help").expect(0).out
    for word in words[2:]:
        if word.startswith("-"):
            assert f" {word} " in helped or f" {word}," in helped, word
    assert setting("Type") == ["notify"]
    assert setting("Environment") == ["BERTH_STATE=/var/lib/" + setting("StateDirectory")[0]]
    assert words[words.index("--state") + 1] == "/var/lib/" + setting("StateDirectory")[0]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_unit_is_read_by_systemd(binary, tmp_path):
    unit = tmp_path / "berth-controller.service"
    unit.write_text(UNIT.replace("/usr/bin/berth", str(binary)))
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert checked.returncode == 0 and "berth-controller" not in checked.stderr, checked.stderr
    # Exposure from 0 to 10, here times ten.
    judged = subprocess.run(
        ["systemd-analyze", "security", "--no-pager", "--offline=yes", "--threshold=20", str(unit)], capture_output=True, text=True
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr


# --- Prometheus ---


def known_metrics():
    source = "".join((binary.ROOT / name).read_text() for name in ("gitops/controller_metrics.c", "server/metrics.c", "server/self.c"))
    return set(re.findall(r'"((?:berth|process)_[a-z_]+)"', source)) | {"berth_build_info"}


def test_alerts_are_rules_about_metrics_that_exist():
    checked = subprocess.run([promtool(), "check", "rules", str(EXAMPLES / "alerts.yaml")], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    used = set(re.findall(r"\bberth_[a-z_]+", (EXAMPLES / "alerts.yaml").read_text()))
    assert used and used <= known_metrics(), used - known_metrics()


def test_each_metric_is_documented():
    documented = set(re.findall(r"^\| `(berth_[a-z_]+)` \|", PAGE, re.M))
    assert documented == {name for name in known_metrics() if name.startswith("berth_")}


# --- the image ---


def packages(text):
    words = [w for w in text.split() if w != "&&" and not w.startswith("-")]
    return set(words[words.index("install") + 1 :])


def test_the_image_has_the_packages_that_it_needs():
    build, run = [packages(p) for p in re.findall(r"apt-get install ([^&]*)", CONTAINERFILE.replace("install -y", "install install -y"))][:2]
    setup = (binary.ROOT / "tools/setup.sh").read_text()
    needed = set(re.search(r"BUILD_PACKAGES=\((.*?)\)", setup, re.S).group(1).split())
    assert build == needed
    install = (binary.ROOT / "docs/install.md").read_text()
    documented = set(re.search(r"apt-get install --no-install-recommends (.*?)\n\n", install, re.S).group(1).replace("\\", " ").split())
    # No sandboxes and no prompt in a container; and who reaps children there.
    assert run == documented - {"bubblewrap", "libedit2", "libc-ares2"} | {"tini"}


def test_the_image_is_built_from_all_there_is():
    cmake = (binary.ROOT / "CMakeLists.txt").read_text()
    folders = {f.split("/")[0] for f in re.findall(r"^berth_folder\((\S+)", cmake, re.M)} | {"cli", "packaging", "panel"}
    assert set(re.findall(r"^COPY (\w+) \1$", CONTAINERFILE, re.M)) == folders
    assert re.findall(r"^FROM (\S+)", CONTAINERFILE, re.M) == ["debian:12", "debian:12-slim"]
    user = re.search(r"^USER (\d+):(\d+)$", CONTAINERFILE, re.M)
    assert user and int(user.group(1)) > 0 and CONTAINERFILE.rindex("USER ") > CONTAINERFILE.rindex("FROM ")


# --- what the page says to run ---


def block(language, part):
    found = [text for name, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.S | re.M) if name == language and part in text]
    assert len(found) == 1
    return found[0]


def test_a_hook_by_hand(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/webhook").write_text(SECRET + "\n")
    (tmp_path / "secrets/webhook").chmod(0o600)
    server = Server()
    script = block("sh", "openssl").replace("127.0.0.1:9470", f"127.0.0.1:{server.port}").replace("curl ", "curl -sS --noproxy '*' ")
    done = subprocess.run(["sh", "-euc", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "the source will look\n", done.stderr
    assert server.woken() == ["wake research"]
    server.stop()


def test_a_receivers_check():
    code = block("python", "compare_digest")
    now = str(int(time.time()))
    mac = hmac.new(b"s", now.encode() + b".{}", hashlib.sha256).hexdigest()
    cases = [
        (b"s", b"{}", now, mac, True),
        (b"t", b"{}", now, mac, False),
        (b"s", b"{ }", now, mac, False),
        (b"s", b"{}", str(int(now) - 400), mac, False),
    ]
    for secret, body, timestamp, signature, genuine in cases:
        names = {"hmac": hmac, "hashlib": hashlib, "time": time, "secret": secret, "body": body}
        names["headers"] = {"X-Berth-Timestamp": timestamp, "X-Berth-Signature": "sha256=" + signature}
        exec(code, names)
        assert names["genuine"] is genuine
