# SPDX-License-Identifier: Apache-2.0
"""
Bytes and requests of a state in S3: plans and applies of as many resources, by a machine that has a copy and by one that has none;
beside a folder, and beside OpenTofu's S3 backend, where `tofu` is found on the PATH or named by BERTH_BENCH_TOFU.
"""

import os
import resource
import shutil
import subprocess
import sys
import time
import urllib.request

import plans
from common import OFFLINE, ROOT, WORK, peak_memory, under_time
from counting import Relay

sys.path.insert(1, str(ROOT / "tests" / "e2e"))  # before what PyPI has of the same name

SIZES = (1_000, 10_000, 100_000)
TOFU_SIZES = (1_000, 10_000)
AGENTS_AN_ENVIRONMENT = 99  # and the Stack is a resource, too
BUCKET = "bench-state"


def environment_of(machine, url):
    """A machine has a home of its own, in which its copy of the state is."""
    machine.mkdir(parents=True, exist_ok=True)
    keep = {name: value for name, value in OFFLINE.items() if name != "HOME"}
    return {**keep, "HOME": str(machine), "AWS_ENDPOINT_URL": url, "NO_COLOR": "1"}


class Timed:
    def __init__(self, command, env, cwd=None):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(under_time(command, WORK / "peak"), env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = time.perf_counter() - start
        self.cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.written = (after.ru_oublock - before.ru_oublock) * 512
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command[:6]))} ... ended with {done.returncode}:\n{done.stdout.decode()[-500:]}{done.stderr.decode()[-2000:]}")
        self.memory = peak_memory(WORK / "peak")

    def __str__(self):
        return f"{self.seconds:6.1f} s, CPU {self.cpu:5.1f} s, {self.memory:6.0f} MB"


def show(size, name, counted, timed):
    print(f"{size:>9,} {name:<28} {counted}   {timed}", flush=True)


def change_one(manifests, count):
    """The first agent may have that many containers."""
    file = sorted(manifests.glob("agents-*.yaml"))[0]
    first, rest = file.read_text().split("---\n", 1)
    lines = [line for line in first.splitlines() if not line.startswith("  limits:")]
    file.write_text("\n".join([*lines, f"  limits: {{containers: {count}}}"]) + "\n---\n" + rest)


def change_all(manifests):
    for file in manifests.glob("agents-*.yaml"):
        file.write_text(file.read_text().replace("type: specialist", "type: general"))


def bench_size(build, relay, size):
    manifests, machines = WORK / "manifests", WORK / "machines"
    shutil.rmtree(machines, ignore_errors=True)
    environments = size // (AGENTS_AN_ENVIRONMENT + 1)
    rewrite = lambda: plans.write_manifests(manifests, environments, size - environments - 1, retention=False)  # noqa: E731
    rewrite()
    place, folder = f"s3://{BUCKET}/{size}", machines / "state"

    def apply(name, machine, state=place):
        env = environment_of(machines / machine, relay.url)
        relay.take()
        timed = Timed([build / "pretend", manifests, state], env)
        if name and state == place:
            show(size, name, relay.take(), timed)
        elif name:
            print(f"{size:>9,} {name:<28} {timed.written / 1e6:>29.2f} MB written to disk   {timed}", flush=True)

    def plan(name, machine):
        env = environment_of(machines / machine, relay.url)
        relay.take()
        timed = Timed([build / "berth", "plan", "--quiet", "--refresh", "none", "-f", manifests, "--state", place], env)
        show(size, name, relay.take(), timed)

    apply("apply, all new", "first")
    apply(None, "first")  # the Stack says by whom it is owned, which a state that is made by this very apply cannot tell
    plan("plan, no change", "first")
    plan("plan, no change, no copy", "second")
    change_one(manifests, 1)
    apply("apply, one field", "first")
    change_one(manifests, 2)
    apply("apply, one field, no copy", "third")
    change_all(manifests)
    apply("apply, every agent", "first")
    plan("plan, no change, no copy", "fourth")
    rewrite()
    apply("a folder: apply, all new", "folder", folder)
    apply(None, "folder", folder)
    change_one(manifests, 1)
    apply("a folder: apply, one field", "folder", folder)
    change_all(manifests)
    apply("a folder: apply, every agent", "folder", folder)
    print(f"{size:>9,} {'a folder: its file':<28} {(folder / 'data.mdb').stat().st_size / 1e6:>29.2f} MB", flush=True)
    shutil.rmtree(machines)
    shutil.rmtree(manifests)


def tofu_manifest(size, text, url):
    return f"""
terraform {{
  backend "s3" {{
    bucket = "{BUCKET}"
    key = "tofu/{size}"
    region = "us-east-1"
    endpoints = {{ s3 = "{url}" }}
    use_path_style = true
    use_lockfile = true
    skip_credentials_validation = true
    skip_metadata_api_check = true
    skip_region_validation = true
    skip_requesting_account_id = true
  }}
}}
variable "one" {{ default = "first" }}
resource "terraform_data" "agent" {{
  count = {size}
  input = {{
    name = "agent-${{count.index}}"
    description = count.index == 0 ? var.one : "{text}"
    environment = "bench-${{count.index % {size // 100}}}"
    type = "specialist"
    active = true
  }}
}}
"""


def bench_tofu(relay, size, tofu):
    folder = WORK / "tofu"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env = {**environment_of(WORK / "tofu-home", relay.url), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}

    def run(name, *arguments):
        relay.take()
        timed = Timed([tofu, *arguments, "-no-color"], env, folder)
        if name:
            show(size, f"tofu: {name}", relay.take(), timed)

    (folder / "main.tf").write_text(tofu_manifest(size, "Generated", relay.url))
    run(None, "init", "-input=false")
    run("apply, all new", "apply", "-auto-approve", "-input=false")
    run("plan, no change", "plan", "-input=false")
    run("apply, one field", "apply", "-auto-approve", "-input=false", "-var", "one=second")
    (folder / "main.tf").write_text(tofu_manifest(size, "Changed", relay.url))
    run("apply, all", "apply", "-auto-approve", "-input=false", "-var", "one=second")
    shutil.rmtree(folder)


def bench_state(build, quick):
    from servers import Standin  # not from the standard library, as what it starts is not

    tofu = os.environ.get("BERTH_BENCH_TOFU") or shutil.which("tofu")
    standin = Standin("ministack")
    try:
        request = urllib.request.Request(f"{standin.url}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).close()
        with Relay(int(standin.url.rsplit(":", 1)[1])) as relay:
            print("state: in S3; bytes are those of bodies; a copy is what a machine remembers")
            for size in SIZES[:1] if quick else SIZES:
                bench_size(build, relay, size)
            if not tofu:
                print("tofu is not on the PATH (or named by BERTH_BENCH_TOFU): nothing to compare with")
            for size in (TOFU_SIZES[:1] if quick else TOFU_SIZES) if tofu else ():
                bench_tofu(relay, size, tofu)
    finally:
        standin.stop()
