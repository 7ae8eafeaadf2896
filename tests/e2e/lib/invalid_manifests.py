# SPDX-License-Identifier: Apache-2.0
"""Manifests that are invalid, each with the place and words of its error."""

PREBUILT = "  image: {prebuilt: python}\n"


def environment(name="x", spec=""):
    return f"apiVersion: berth/v1\nkind: Environment\nmetadata:\n  name: {name}\nspec:\n{PREBUILT}{spec}"


def agent(spec, name="a"):
    return f"apiVersion: berth/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec:\n{spec}"


def policy(spec):
    return f"apiVersion: berth/v1\nkind: WorkspacePolicy\nmetadata: {{name: p}}\nspec:\n{spec}"


def marked(source):
    """(text, [(line, column)]): the marks taken out, and where they stood."""
    places, lines = [], []
    for number, line in enumerate(source.split("\n"), 1):
        while "§" in line:
            places.append((number, line.index("§") + 1))
            line = line.replace("§", "", 1)
        lines.append(line)
    return "\n".join(lines), places


# name: (source, what the messages must hold in the order of the marks)
CASES = {
    "memory too small": (environment(spec="  memoryMB: §1768\n"), ["1769"]),
    "memory too large": (environment(spec="  memoryMB: §10241\n"), ["10240"]),
    "memory a fraction": (environment(spec="  memoryMB: §2048.5\n"), ["integer"]),
    "memory in quotes": (environment(spec='  memoryMB: §"2048"\n'), ["integer"]),
    "memory no": (environment(spec="  memoryMB: §no\n"), ["integer"]),
    "memory of 20 digits": (environment(spec="  memoryMB: §99999999999999999999\n"), ["10240"]),
    "memory negative": (environment(spec="  memoryMB: §-1\n"), ["1769"]),
    "memory a list": (environment(spec="  memoryMB: §[2048]\n"), ["integer"]),
    "memory a map": (environment(spec="  memoryMB: §{a: 1}\n"), ["integer"]),
    "storage too small": (environment(spec="  workspaceStorageMB: §511\n"), ["512"]),
    "another timeout": (environment(spec="  timeoutSeconds: §899\n"), ["900"]),
    "retention of no kind": (environment(spec="  logRetentionDays: §31\n"), ["30"]),
    "boolean as text": (environment(spec='  protect: §"true"\n'), ["boolean"]),
    "boolean as yes": (environment(spec="  protect: §yes\n"), ["boolean"]),
    "unknown field": (environment(spec="  §memoryMb: 2048\n"), ["memoryMB"]),
    "unknown field deep": (agent("  type: general\n  limits: {memoryMB: 512, §cpu: 1}\n"), ["cpus"]),
    "duplicate key": (environment(spec="  memoryMB: 2048\n  §memoryMB: 2048\n"), ["memoryMB"]),
    "unknown kind": (environment().replace("Environment", "§Enviroment"), ["Environment"]),
    "another api": (environment().replace("berth/v1", "§berth/v2"), ["berth/v1"]),
    "name too long": (environment(name="§" + "n" * 49), ["48"]),
    "name with capitals": (environment(name="§Name"), [""]),
    "name with a dash at its end": (environment(name="§name-"), [""]),
    "variable of one letter": (environment(spec="  variables:\n    §A: x\n"), [""]),
    "reserved variable": (environment(spec="  variables:\n    §AWS_REGION: x\n"), ["AWS_REGION"]),
    "variable that is a map": (environment(spec="  variables:\n    AB: {value: x, §hidden: true}\n"), ["sensitive"]),
    "image with tag and digest": (
        environment().replace("{prebuilt: python}", "{repository: team/x, tag: a, §digest: 'sha256:" + "a" * 64 + "'}"), [""],
    ),
    "image with a bad digest": (environment().replace("{prebuilt: python}", "{repository: team/x, digest: §'sha256:abc'}"), ["sha256"]),
    "unknown image": (environment().replace("{prebuilt: python}", "§absent"), ["absent"]),
    "missing environment": (agent("  type: general\n  environment: §absent\n"), ["absent"]),
    "nearest environment": (environment("scratch") + "---\n" + agent("  type: general\n  environment: §scrtch\n"), ["scratch"]),
    "active specialist without environment": (agent("  type: specialist\n  active: §true\n"), ["specialist"]),
    "unknown type of agent": (agent("  type: §expert\n"), ["specialist"]),
    "swarm of a missing agent": (
        "apiVersion: berth/v1\nkind: Swarm\nmetadata: {name: s}\nspec:\n  agents: [§absent]\n", ["absent"],
    ),
    "early IA transition": (
        policy("  selector: {all: true}\n  transitions:\n    - {afterDays: §5, storageClass: STANDARD_IA}\n"), ["30"],
    ),
    "expiry before the transition": (
        policy("  selector: {all: true}\n  transitions:\n    - {afterDays: 60, storageClass: GLACIER}\n  expireAfterDays: §60\n"), ["60"],
    ),
    "abort with a selector of some": (
        environment() + "---\n" + policy("  selector: {environments: [x]}\n  expireAfterDays: 5\n  abortIncompleteUploadDays: §3\n"), ["all"],
    ),
    "policy for a missing environment": (policy("  selector: {environments: [§absent]}\n  expireAfterDays: 5\n"), ["absent"]),
    "unknown storage class": (
        policy("  selector: {all: true}\n  transitions:\n    - {afterDays: 60, storageClass: §COLD}\n"), ["GLACIER"],
    ),
    "a range of nothing": (
        "apiVersion: berth/v1\nkind: ResourceRange\nmetadata: {name: r}\nspec:\n  selector: {matchLabels: {a: b}}\n"
        "  memoryMB: {min: 4000, max: §3000}\n", [""],
    ),
    "name too long for AWS": (
        "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: s}\nspec: {provider: aws, aws: {namePrefix: " + "p" * 20 + "}}\n---\n"
        + environment(name="§" + "n" * 48), ["64"],
    ),
    "unicode before the value": (environment(spec="  variables: {NÄME: x, §Ü: y}\n").replace("NÄME", "NAME"), [""]),
    "tabs for indentation": (environment() + "§\tx: 1\n", [""]),
    "alias to itself": (environment(spec="  variables: &a\n    NAME: §*a\n"), [""]),
    "many errors": (
        environment(spec="  memoryMB: §1\n  workspaceStorageMB: §1\n  §colour: red\n") + "---\n" + agent("  type: §x\n"),
        ["1769", "512", "colour", "specialist"],
    ),
}  # fmt: skip

# Those which a text's structure alone does not show: no schema can refuse them.
NOT_IN_SCHEMA = {
    "duplicate key", "unknown image", "missing environment", "nearest environment", "swarm of a missing agent",
    "early IA transition", "expiry before the transition", "policy for a missing environment", "a range of nothing",
    "name too long for AWS", "tabs for indentation", "alias to itself",
}  # fmt: skip
