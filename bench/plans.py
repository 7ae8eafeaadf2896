# SPDX-License-Identifier: Apache-2.0
"""Offline plans: against the budget, and as the work grows."""

import shutil

from common import WORK, measure, peak_memory, report, run, under_time

ENVIRONMENTS = 10_000
AGENTS = 50_000
PER_FILE = 500
SIZES = (100, 1_000, 10_000, 100_000)
BINDINGS = (10_000, 100_000, 1_000_000)


def environment(number, retention=True):
    days = "  logRetentionDays: 30\n" if retention else ""  # which this machine has not
    return f"""apiVersion: berth/v1
kind: Environment
metadata:
  name: bench-{number}
  labels: {{team: team-{number % 20}}}
spec:
  description: Generated for the benchmark
  image: {{prebuilt: python}}
  memoryMB: {1769 + number % 4096}
  workspaceStorageMB: {512 + number % 1024}
{days}  variables:
    STAGE: bench
    NUMBER: "{number}"
"""


def agent(number, environments):
    return f"""apiVersion: berth/v1
kind: Agent
metadata:
  name: agent-{number}
  labels: {{team: team-{number % 20}}}
spec:
  type: specialist
  environment: bench-{number % environments}
  active: true
"""


def write_manifests(folder, environments, agents, retention=True):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "stack.yaml").write_text(
        "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: bench}\nspec: {provider: aws}\n"
    )
    for kind, document, count in (
        ("environments", lambda number: environment(number, retention), environments),
        ("agents", lambda number: agent(number, environments), agents),
    ):
        for start in range(0, count, PER_FILE):
            documents = [document(number) for number in range(start, min(start + PER_FILE, count))]
            (folder / f"{kind}-{start:06}.yaml").write_text("---\n".join(documents))


def compare(name, command, floor, times, budget=2.5):
    """By the wall, and by the CPU time that both took."""
    ours, theirs = measure(command, floor, times)
    report(name, ours.seconds, theirs.seconds, budget, "libyaml")
    report(f"{name}, CPU", ours.cpu, theirs.cpu, budget, "libyaml")


def memory_of(command):
    run(under_time(command, WORK / "peak"))
    return peak_memory(WORK / "peak")


def bench_plan(build, quick):
    del quick  # always the whole of it
    manifests = WORK / "manifests"
    write_manifests(manifests, ENVIRONMENTS, AGENTS)
    files = sorted(manifests.glob("*.yaml"))
    size = sum(file.stat().st_size for file in files)
    print(f"plan: {ENVIRONMENTS} environments and {AGENTS} agents, {size / 1e6:.1f} MB in {len(files)} files")

    state = WORK / "state"
    shutil.rmtree(state, ignore_errors=True)
    common = ["-f", manifests, "--state", state]
    floor = [build / "yaml_floor", *files]
    compare("validate", [build / "berth", "validate", *common], floor, 3)
    compare("plan, all new", [build / "berth", "plan", "--refresh", "none", *common], floor, 5, None)
    shutil.rmtree(state, ignore_errors=True)
    run([build / "settle", manifests, state])
    plan = [build / "berth", "plan", "--refresh", "none", *common]
    compare("plan, no change", plan, floor, 5)
    memory = memory_of(plan)
    print(f"{'plan, memory':<21} {memory:9.1f} MB   {'within' if memory <= 96 else 'OVER'} the budget of 96 MB")


def bench_growth(build, quick):
    """Offline plans in which nothing changed, ten times as large each: time and memory a resource should stay as they are."""
    manifests, state = WORK / "manifests", WORK / "state"
    print("growth: offline plans in which nothing changed; one agent for each environment")
    print(f"{'environments':>14} {'resources':>10} {'plan':>12} {'its CPU':>12} {'a resource':>12} {'libyaml':>12} {'ratio':>7} {'memory':>10}")
    for size in SIZES[:3] if quick else SIZES:
        write_manifests(manifests, size, size)
        shutil.rmtree(state, ignore_errors=True)
        run([build / "settle", manifests, state])
        plan = [build / "berth", "plan", "--refresh", "none", "-f", manifests, "--state", state]
        floor = [build / "yaml_floor", *sorted(manifests.glob("*.yaml"))]
        ours, theirs = measure(plan, floor, 3 if size > 10_000 else 7)
        print(
            f"{size:>14,} {size * 2 + 1:>10,} {ours.seconds * 1000:>9.1f} ms {ours.cpu * 1000:>9.1f} ms "
            f"{ours.cpu * 1e6 / (size * 2 + 1):>9.2f} us {theirs.cpu * 1000:>9.1f} ms {ours.cpu / theirs.cpu:>6.2f}x "
            f"{memory_of(plan):>7.1f} MB",
            flush=True,
        )


def bench_bindings(build, quick):
    """Up to a million bindings, a hundred agents to an environment: CPU time and memory of each should stay as they are."""
    manifests, state = WORK / "manifests", WORK / "state"
    print("scale: bindings, a hundred agents for each environment")
    print(f"{'bindings':>14} {'':<16} {'CPU':>12} {'a binding':>12} {'memory':>12} {'a binding':>12}")
    for size in BINDINGS[:2] if quick else BINDINGS:
        write_manifests(manifests, size // 100, size, retention=False)
        plan = [build / "berth", "plan", "--quiet", "--refresh", "none", "-f", manifests, "--state", state]
        for name, command, empty in (
            ("validate", [build / "berth", "validate", "-f", manifests], True),
            ("plan, all new", plan, True),
            ("apply, local", [build / "berth", "apply", "--provider", "local", "--yes", "--quiet", "-f", manifests, "--state", state], True),
            ("settle", [build / "settle", manifests, state], True),
            ("plan, no change", plan, False),
            ("map", [build / "berth", "map", "-f", manifests, "--state", state], False),
            ("map --json", [build / "berth", "map", "--json", "-f", manifests, "--state", state], False),
        ):
            if empty:
                shutil.rmtree(state, ignore_errors=True)
            cpu = run(under_time(command, WORK / "peak")).cpu
            memory = peak_memory(WORK / "peak")
            print(
                f"{size:>14,} {name:<16} {cpu:>10.2f} s {cpu * 1e6 / size:>9.2f} us "
                f"{memory:>9.1f} MB {memory * 1048576 / size:>10.0f} B",
                flush=True,
            )
    shutil.rmtree(manifests)
    shutil.rmtree(state)
