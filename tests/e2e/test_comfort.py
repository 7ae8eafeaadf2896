# SPDX-License-Identifier: Apache-2.0
"""The command line itself: help, suggestions, completion, manual pages, init, doctor, map, markdown."""

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
import unicodedata

import pytest
import layouts
import stacks
import yaml

from controllers import wait_until

VERBS = (
    "init validate plan apply destroy refresh drift get map disassociate reassociate import schema explain state lock "
    "doctor completion help version"
).split()


def test_help_fits_a_screen(offline):
    out = offline("--help").expect(0).out
    lines = out.splitlines()
    assert len(lines) <= 56
    assert [line for line in lines if len(line) > 80] == []
    for verb in VERBS:
        assert f"\n  {verb} " in out or f"\n  {verb}\n" in out
    for verb in VERBS:
        lines = offline(verb, "--help").expect(0).out.splitlines()
        assert [line for line in lines if len(line) > 80 and not line.startswith("usage: ")] == [], verb


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["plann"], 'did you mean "plan"?'),
        (["plan", "--refersh", "full"], "did you mean --refresh?"),
        (["validate", "--yes"], "berth validate takes no --yes"),
        (["plan", "-xv"], "there is no option -x;"),
        (["plan", "-vx"], "there is no option -x;"),
        (["plan", "--wibble"], "there is no option --wibble;"),
        (["apply", "--yes=1"], "--yes takes no value"),
        (["plan", "--refresh", "all"], "--refresh takes sweep, full or none"),
        (["plan", "--refresh"], "--refresh needs a value"),
        (["apply", "--parallel", "0"], "--parallel takes a whole number"),
        (["apply", "--parallel", "12x"], "--parallel takes a whole number"),
        (["plan", "extra"], "one too many"),
        (["help", "plna"], 'did you mean "plan"?'),
        (["help", "session", "rnu"], "did you mean run? It takes create, list, "),
        (["help", "plan", "x"], 'berth plan has no "x"'),
        (["approvals", "aprove"], "did you mean approve? It takes list, show, approve or deny"),
        (["audit", "verfy"], "did you mean verify? It takes list or verify"),
        (["images", "-o", "wide"], "berth images -o takes name"),
        (["apply", "--lock-timeout", "soon"], "--lock-timeout takes whole seconds from 1 to 86400"),
        (["plan", "--lock-timeout", "5"], "berth plan takes no --lock-timeout"),
        (["import", "Agent/x"], "berth import needs an argument"),
        (["map", "--format", "svg"], "--format takes"),
        (["state", "lst"], 'did you mean list?'),
        (["state", "frobnicate"], 'there is no "berth state frobnicate": it takes list, show, mv, rm, '),
        (["lock", "shw"], "did you mean show? It takes show or release\n"),
        (["image", "chek", "x"], "did you mean check? It takes check, instructions, "),
        (["schema", "agnt"], "did you mean Agent?"),
        (["get", "Enviroment"], "did you mean Environment?"),
        (["completion", "csh"], "takes bash, zsh or fish"),
        (["disassociate", "x"], "say --all"),
        (["state", "list", "--dry-run"], "berth state list takes no --dry-run: it goes with state adopt\n"),
        (["controller", "--wait"], "berth controller takes no --wait: it goes with controller sync, controller approve\n"),
        (["controller", "sync", "--once"], "berth controller sync takes no --once: it goes with controller\n"),
        (["session", "show", "--watch"], "berth session takes no --watch\n"),
    ],
)
def test_mistakes_are_named(offline, arguments, message):
    offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    result = offline(*arguments).expect(1)
    assert message in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["exec", "--env", "x", "--file", "agents", "-c", "1"], "--file takes NAME=PATH"),
        (["exec", "--env", "x", "--file", "a=b", "--file", "agents"], 'not "agents"; for manifests, use -f'),
        (["exec", "--env", "x", "--timeout", "86401"], "--timeout takes whole seconds from 1 to 86400"),
        (["exec", "--env", "x", "--timeout", "0"], "--timeout takes whole seconds"),
        (["-f", "deep", "--state", "s", "exec", "--bogus"], "there is no option --bogus"),
        (["exec", "-c"], "-c needs a value"),
        (["exec", "run.py", "--env", "x"], "before FILE, since what stands behind it is the program's"),
    ],
)
def test_mistakes_in_exec_are_not_taken_for_the_program_s(offline, arguments, message):
    assert message in offline(*arguments).expect(125).err


def test_a_name_that_is_no_image_s(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    for name in ("a:1", "Data/etl", "data/etl:", "-x/y"):
        result = offline("image", "check", "--provider", "local", "--", name).expect(1)
        assert f'"{name}" is no image: REPOSITORY' in result.err and "2 to 256" in result.err


def test_options_stand_anywhere(offline):
    offline.write("deep/m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    assert offline("--json", "-f", "deep", "validate").expect(0).json()["valid"] is True
    assert offline("validate", "-f", "deep", "--json").expect(0).json()["valid"] is True
    assert offline("validate", "-fdeep").expect(0).out.startswith("Valid")
    offline.write("a=b/m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    assert offline("validate", "--manifests", "a=b").expect(0).out.startswith("Valid")
    assert offline("validate", "--file", "a=b").expect(0).out.startswith("Valid")
    assert "given twice" in offline("validate", "--provider", "local", "--provider", "aws").expect(1).err


def test_help_is_a_verb_too(offline):
    assert offline("help").expect(0).out == offline("--help").expect(0).out
    assert offline("help", "plan").expect(0).out == offline("plan", "--help").expect(0).out
    for words in (("session", "run"), ("controller", "status")):
        assert offline("help", *words).expect(0).out == offline(*words, "--help").expect(0).out
    assert offline("help", "completion", "fish").expect(0).out == offline("completion", "--help").expect(0).out


def commands_of(offline, verb):
    """The commands of a verb, and the line of each, as its help lists them."""
    listed = re.search(r"\ncommands:\n(.*?)\n\n", offline(verb, "--help").expect(0).out, re.S)
    return dict(re.findall(r"^  ([a-z]+)(.*)$", listed[1], re.M)) if listed else {}


VERBS_WITH_COMMANDS = "image state lock controller session containers approvals audit".split()


@pytest.mark.parametrize("verb", VERBS_WITH_COMMANDS)
def test_help_of_a_command_is_of_that_one(offline, verb):
    """Each option of the verb's is that of a command, and each command refuses those that are of others."""
    of_verb = set(re.findall(r"^ .*?--([a-z-]+)", offline(verb, "--help").expect(0).out.partition("\noptions:\n")[2], re.M))
    values = dict(re.findall(r"^ .*?--([a-z-]+) ([^ a-z][^ ]*|[a-z]+\|[^ ]*)", offline(verb, "--help").out, re.M))
    taken = set()
    for command in commands_of(offline, verb):
        helped = offline(verb, command, "--help").expect(0).out
        assert helped.startswith(f"usage: berth {verb} {command}") and offline("help", verb, command).expect(0).out == helped
        own = set(re.findall(r"^ .*?--([a-z-]+)", helped.partition("\noptions:\n")[2], re.M))
        assert {"json", "help"} <= own <= of_verb
        taken |= own
        for option in of_verb - own:
            given = [f"--{option}", *(["1"] if option in values else [])]
            if option in ("allow", "refresh", "label", "variable"):
                given[1] = {"allow": "protected", "refresh": "full"}.get(option, "a=b")
            refused = offline(verb, command, *given)
            assert refused.code in (1, 125) and f"berth {verb} {command} takes no --{option}: it goes with {verb}" in refused.err, refused.err
    assert taken | ({"once", "parallel"} if verb == "controller" else set()) == of_verb


def test_help_of_a_command_says_nothing_of_others(offline):
    run = offline("session", "run", "--help").expect(0).out
    assert "a prompt, and one execution after the other" in run and "run: " not in run and "list: " not in run
    assert "those labelled so" in offline("session", "list", "--help").expect(0).out
    assert "dot, mermaid" not in offline("plan", "--help").expect(0).out


def test_explain_alone_lists_the_kinds(offline):
    text = offline("explain").expect(0).out
    kinds = [row["kind"] for row in offline("explain", "--json").expect(0).json()]
    assert kinds[0] == "Stack" and {"Environment", "Agent", "Server"} <= set(kinds)
    assert [line for line in text.splitlines() if line in kinds] == kinds
    assert offline("explain", kinds[-1]).expect(0).out.startswith(kinds[-1])


def test_what_follows_the_file_of_exec_is_the_programs(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(provider="local"), stacks.environment("x")))
    offline("apply", "--yes").expect(0)
    offline.write("show.py", "import sys; print(sys.argv[1:])")
    run = ("exec", "--accept-degraded", "--env", "x")
    told = offline(*run, "show.py", "--env", "other", "-v", "--json", "--", "--help").expect(0)
    assert told.out == "['--env', 'other', '-v', '--json', '--', '--help']\n"
    assert offline(*run, "-c", "import sys; print(sys.argv[1:])", "one", "-q").expect(0).out == "['one', '-q']\n"


@pytest.mark.skipif(not shutil.which("git"), reason="no git on this machine")
def test_git_does_not_take_the_state_along(offline, tmp_path):
    offline.write("m.yaml", stacks.text(stacks.stack(provider="local"), stacks.environment("x")))
    offline("apply", "--yes").expect(0)
    held = offline.stack / ".berth" / ".gitignore"
    assert (offline.stack / ".berth" / "data.mdb").exists() and held.read_text().endswith("\n*\n")

    def added():
        work = ["git", "--git-dir", str(tmp_path / "repository"), "--work-tree", str(offline.stack)]
        subprocess.run([*work, "init", "-q"], check=True)
        subprocess.run([*work, "add", "-A"], check=True)
        return subprocess.run([*work, "ls-files"], check=True, capture_output=True, text=True).stdout.split()

    assert "m.yaml" in added() and not [name for name in added() if ".berth" in name]
    held.write_text("mine\n")  # whoever has changed it keeps it so
    offline("apply", "--yes").expect(0)
    assert held.read_text() == "mine\n"


def test_version(offline):
    assert offline("version").expect(0).out.startswith("berth ")
    assert offline("--version").out == offline("version").out
    told = offline("version", "--json").expect(0).json()
    assert offline("version").out in (
        f"berth {told['version']} ({told['commit']} of {told['date']})\n",
        f"berth {told['version']}\n",  # built from an archive that knows no commit
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_parse(offline, shell, tmp_path):
    script = tmp_path / "completion"
    script.write_text(offline("completion", shell).expect(0).out)
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")
    subprocess.run([shell, "-n", str(script)], check=True)


def completed(berth, *words):
    """What shells are told to offer for the last of the words; None where they offer files."""
    offers, *lines = berth("completion", "answer", "--", *words).expect(0).out.splitlines()
    return [line.partition("\t")[0] for line in lines] if offers == "words" else None


def test_completion_of_verbs_and_options(offline):
    def complete(line):
        return completed(offline, *line.split(" "))

    assert set(VERBS) <= set(complete(""))
    assert complete("pl") == ["plan"]
    assert "--detailed-exitcode" in complete("plan --det")
    assert complete("validate --detailed") == []
    assert complete("state ver") == ["verify"]
    assert complete("plan --refresh ") == ["sweep", "full", "none"]
    assert complete("plan --refresh=f") == ["--refresh=full"]
    assert complete("plan --yes=f") == complete("plan --unknown=f") == complete("nonsense --re") == []
    assert complete("--provider l") == ["local"]
    assert "--json" in complete("plan ")
    assert complete("completion ") == ["bash", "zsh", "fish"]
    # Files, where nothing else is known, and behind the file that `exec` runs.
    assert complete("fmt ") is complete("plan -f ") is complete("exec x.py --j") is complete("exec -- --j") is None
    assert offline("completion", "answer", "--", "plan", "--state", "x").expect(0).out == "folders\n"
    # Commands behind their verb, wherever options stand; and behind each command its own options.
    assert complete("session ") == list(commands_of(offline, "session"))
    assert complete("image -f run pr") == ["prune"]
    assert complete("image -vf run pr") == ["prune"]
    assert complete("image -frun pr") == ["prune"]
    assert complete("--env=list session sh") == ["show"]
    assert complete("session list --i") == []
    assert sorted(complete("session run --i")) == ["--idle", "--interactive"]
    assert complete("session files z") == ["zip"]
    assert complete("session files zip g") is None
    assert complete("controller s") == ["status", "sync", "suspend"]
    assert offline("completion", "answer").expect(0).out == offline("completion", "answer", "--", "").expect(0).out


@pytest.fixture
def named(offline):
    """A stack with two environments and an agent, applied on this machine; `berth` is on the path."""
    offline.write("m.yaml", stacks.text(stacks.stack(provider="local"), stacks.environment("east"), stacks.environment("west"), stacks.agent("a-one", "east")))
    offline("apply", "--yes").expect(0)

    def run(*command):
        env = {**offline.env, "PATH": f"{offline.binary.parent}:{os.environ['PATH']}"}
        return subprocess.run(command, cwd=offline.stack, env=env, capture_output=True, text=True, check=True).stdout.split()

    return run


def test_completion_of_names(named, offline):
    def complete(*words):
        return completed(offline, *words)

    assert complete("exec", "--env", "") == ["east", "west"]
    assert complete("exec", "--env=w") == ["--env=west"]
    assert complete("exec", "--agent", "a") == ["a-one"]
    assert complete("disassociate", "w") == ["west"]
    assert complete("plan", "--target", "Environment/w") == ["Environment/west"]
    assert complete("get", "Agent") == ["Agent/a-one"]
    assert complete("get", "") == ["Stack/team", "Environment/east", "Environment/west", "Agent/a-one"]
    assert complete("map", "--j") == ["--json"]
    (offline.stack / "none").mkdir()
    assert complete("-f", "none", "exec", "--env", "") == []
    assert complete("-f", str(offline.stack), "exec", "--env", "") == ["east", "west"]


@pytest.fixture
def imaged(named, offline, tmp_path):
    """And two images in its store."""
    layouts.Made(layouts.system()).write(tmp_path / "system")
    for name in ("data/etl:1", "data/etl:stable"):
        offline("image", "import", name, tmp_path / "system").expect(0)
    assert offline("images", "-o", "name").expect(0).out.split() == ["data/etl:1", "data/etl:stable"]
    return named


def test_completion_of_images(imaged, offline):
    def complete(*words):
        return completed(offline, *words)

    assert complete("image", "check", "") == complete("image", "remove", "-f", ".", "") == ["data/etl:1", "data/etl:stable"]
    assert complete("image", "remove", "data/etl:s") == ["data/etl:stable"]
    assert complete("image", "remove", "data/etl:1", "") is complete("image", "build", "") is None


def test_bash_parts_words(imaged):
    """Readline parts words at colons and equals signs, and puts what it is given in the place of the last part."""

    def complete(*words):
        script = 'source <(berth completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _berth; echo "${COMPREPLY[@]}"'
        return imaged("bash", "-c", script, "bash", "berth", *words)

    assert complete("image", "check", "") == ["data/etl:1", "data/etl:stable"]
    assert complete("image", "remove", "data/etl", ":", "s") == ["stable"]
    assert complete("image", "runtime", "data/etl", ":") == ["1", "stable"]
    assert complete("exec", "--env", "=", "w") == complete("exec", "--env", "w") == ["west"]
    assert complete("exec", "--env", "=") == ["east", "west"]
    assert complete("plan", "--state", "sta") == complete("fmt", "none") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_are_not_run(offline, tmp_path, shell):
    """What reaches a shell's completion is shown as it is."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")
    (tmp_path / "completion").write_text(offline("completion", shell).expect(0).out)
    (tmp_path / "berth").write_text("#!/bin/sh\nprintf '%s\\n' words '$(touch got)' '`touch got`' 'a;touch got' 'team/good:1'\n")
    (tmp_path / "berth").chmod(0o755)
    script = {
        "bash": 'source ./completion; COMP_WORDS=(berth image check ""); COMP_CWORD=3; _berth; echo "${COMPREPLY[@]}"',
        "zsh": "source ./completion; _describe() { print -l ${(P)4} }; words=(berth image check ''); CURRENT=4; _berth",
        "fish": "source ./completion; complete -C 'berth image check '",
    }[shell]
    env = {**offline.env, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([shell, *(["-f"] if shell == "zsh" else []), "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "$(touch got)" in done.stdout and "team/good" in done.stdout and not (tmp_path / "got").exists(), done.stdout + done.stderr


@pytest.mark.parametrize("shell, words", [("bash", "--norc --noprofile"), ("zsh", "-f"), ("fish", "--no-config")])
def test_shells_at_a_terminal(imaged, offline, tmp_path, shell, words):
    """As somebody types it, with Tab, into the shell itself."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")
    source = "berth completion fish | source" if shell == "fish" else f"source <(berth completion {shell})"
    env = {**offline.env, "PATH": f"{offline.binary.parent}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(tmp_path)}
    ours, its = pty.openpty()
    process = subprocess.Popen(["setsid", "--ctty", shell, *words.split(), "-i"], cwd=offline.stack, env=env, stdin=its, stdout=its, stderr=its)
    os.close(its)
    shown = bytearray()

    def typed(text, until):
        os.write(ours, text.encode())
        wait_until(lambda: until.encode() in shown, 60)

    def letters():
        return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|[\x00-\x1f]", b"", shown)

    def follow():
        with contextlib.suppress(OSError):  # EIO: the shell has gone
            while piece := os.read(ours, 65536):
                shown.extend(piece)

    reader = threading.Thread(target=follow)
    reader.start()
    try:
        typed(source + "; echo so''urced\n", "sourced\r\n")
        typed("berth exec --accept-degraded --env we\t-c 'print(6 * 7, \"of the code\")' </dev/null\n", "42 of the code")
        typed("berth map we\t; echo d''one\n", "done\r\n")
        assert b"map west" in shown
        typed("berth get -f . Ag\t-o name; echo d''one again\n", "done again\r\n")
        assert b"Agent/a-one" in shown
        typed("berth session -f . fil\tzi\t; echo d''one with files\n", "done with files\r\n")
        assert re.search(rb"files +zip", letters())
        typed("berth session list --statu\tpark\t; echo d''one with a list\n", "done with a list\r\n")
        assert re.search(rb"--status[ =]+parked", letters())
        typed("berth image rem\tdata/etl:s\t", "data/etl:stable")
    except AssertionError:
        raise AssertionError(shown.decode(errors="replace")) from None
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)


def test_get_in_other_forms(offline):
    labels = {"truth": "yes", "number": "1e3", "none": "null", "sly": "a\u202eb", "umlaut": "für alle", "day": "2026-01-31", "colon": "a: b #c"}
    offline.write("m.yaml", stacks.text(stacks.stack(provider="local"), stacks.environment("x"), stacks.agent("a", "x", labels=labels)))
    offline("apply", "--yes").expect(0)
    as_json = offline("get", "-o", "json").expect(0)
    assert as_json.json() == offline("get", "--json").expect(0).json()
    as_yaml = offline("get", "-o", "yaml").expect(0)
    assert yaml.safe_load(as_yaml.out) == as_json.json()  # of YAML 1.1, where "yes" is a truth
    assert "\u202e" not in as_yaml.out and [row for row in as_json.json() if row["spec"].get("labels") == labels]
    assert offline("get", "Agent", "-o", "name").expect(0).out == "Agent/a\n"
    assert offline("get", "Swarm", "-o", "name").expect(0).out == ""
    assert "berth get -o takes json, yaml or name" in offline("get", "-o", "wide").expect(1).err


def test_two_states_of_one_stack_are_named(offline):
    offline.write("agents/m.yaml", stacks.text(stacks.stack(provider="local"), stacks.environment("x")))
    offline("apply", "-f", "agents", "--yes").expect(0)
    said = "warning: the state is .berth; another one lies beside the Stack, in agents/.berth, and is not looked at: -f agents uses that\n"
    plan = offline("plan").expect(0)
    assert plan.err.count(said) == 1 and "2 to create" in plan.out
    for quiet in (("-f", "agents"), ("-q",), ("--state", "elsewhere")):
        assert "another one" not in offline("plan", *quiet).expect(0).err
    told = offline("plan", "-f", "agents", env={"BERTH_STATE": "elsewhere"}).expect(0).err
    assert "the state is elsewhere, as BERTH_STATE says; another one lies beside the Stack, in agents/.berth" in told


def test_a_state_is_of_one_provider(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    offline("apply", "--yes", "--provider", "local").expect(0)
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "none", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    for verb in (("plan",), ("apply", "--yes"), ("destroy", "--yes")):
        err = offline(*verb, "--provider", "aws", env=keys).expect(1).err
        assert "the state in .berth is of provider local (it has " in err and "this run is of provider aws" in err and "--state DIR" in err


@pytest.mark.parametrize("page", ["berth", "manifests"])
def test_manual_pages_are_clean_roff(offline, page):
    roff = offline("manual", page).expect(0).out
    if not shutil.which("groff"):
        pytest.skip("no groff on this machine")
    done = subprocess.run(["groff", "-man", "-ww", "-z"], input=roff, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    if page == "manifests":
        assert "memoryMB" in roff


def test_init_then_validate(offline):
    offline("init").expect(0)
    assert offline("validate").expect(0).out.startswith("Valid: 4 resources")
    again = offline("init").expect(1)
    assert "overwrites nothing" in again.err
    offline("apply", "--yes").expect(0)  # with no account and no cloud
    assert offline("exec", "--env", "python", "--accept-degraded", "-c", "print(6 * 7)").expect(0).out == "42\n"
    offline("init", "elsewhere").expect(0)
    offline("validate", "-f", "elsewhere").expect(0)


def test_init_gives_a_name_that_is_not_everybodys(offline):
    names = []
    for folder in ("My Agents_2", "7", "agents", "team/agents"):
        offline("init", folder).expect(0)
        offline("validate", "-f", folder).expect(0)
        names.append(stacks.read((offline.stack / folder / "stack.yaml").read_text())[0]["metadata"]["name"])
    assert all(re.fullmatch(pattern, name) for pattern, name in zip([r"my-agents-2-[0-9a-f]{4}", r"stack-[0-9a-f]{4}", r"agents-[0-9a-f]{4}", r"agents-[0-9a-f]{4}"], names)), names
    assert len(set(names)) == 4


@pytest.mark.parametrize("typed, name", [("research-2\n", "research-2"), ("\n", None), ("No Name\n", False), ("a}: {b\n", False), ("x" * 80 + "\n", False)])
def test_init_asks_on_a_terminal(offline, typed, name):
    leader, follower = os.openpty()
    process = subprocess.Popen([offline.binary, "init", "agents"], cwd=offline.stack, env=offline.env, stdin=follower, stderr=follower, stdout=subprocess.DEVNULL)
    os.close(follower)
    os.write(leader, typed.encode())
    code = process.wait(timeout=60)
    os.close(leader)
    written = offline.stack / "agents" / "stack.yaml"
    if name is False:
        assert code == 1 and not written.exists()
        return
    found = stacks.read(written.read_text())[0]["metadata"]["name"]
    assert code == 0 and (found == name if name else re.fullmatch(r"agents-[0-9a-f]{4}", found))


# What a terminal acts on or does not show: CSI as one character, an override of the direction, a line separator, a tag.
SLY = "\u009b31m \u202e evil \u2066 \u2028 \u200b \U000e0041 \x7f"
HIDDEN = re.compile("[\x7f-\x9f\u200b\u202a-\u202e\u2028\u2029\u2066-\u2069\U000e0000-\U000e007f]")


def texts(data):
    for item in data.values() if isinstance(data, dict) else data:
        if isinstance(item, str):
            yield item
        elif isinstance(item, (dict, list)):
            yield from texts(item)


def test_what_a_terminal_would_act_on_is_shown(offline):
    offline("init").expect(0)
    offline("apply", "--yes").expect(0)
    result = offline("exec", "--env", "python", "--accept-degraded", "--json", "-c", f"print({SLY!r}, end='')").expect(0)
    assert not HIDDEN.search(result.out) and "\\u202E" in result.out
    assert json.loads(result.out)["stdout"]["content"] == SLY
    # In what people wrote: shown in the plan's data and in its text.
    offline.write("sly.yaml", stacks.text(stacks.environment("sly", variables={"SLY": "a " + SLY})))
    plan = offline("plan", "--json").expect(0)
    assert not HIDDEN.search(plan.out)
    [change] = [c for c in json.loads(plan.out)["changes"] if c["address"] == "Environment/sly"]
    assert any(text == "a " + SLY for text in texts(change))
    shown = offline("plan", "-v").expect(0)
    assert not HIDDEN.search(shown.out + shown.err) and "\\u202E" in shown.out
    offline("apply", "--yes").expect(0)
    for words in (["get", "Environment/sly"], ["get", "Environment/sly", "--json"], ["state", "show", "Environment/sly"]):
        assert not HIDDEN.search(offline(*words).expect(0).out), words
    # And where it is refused: the message and its data.
    offline.write("sly.yaml", stacks.text(stacks.environment("sly", memoryMB=SLY)))
    for words in (["validate"], ["validate", "--json"]):
        result = offline(*words).expect(1)
        assert not HIDDEN.search(result.out + result.err), words


def test_doctor(cloud, berth, prebuilt):
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    told = berth("doctor", "--json").expect(0).json()
    assert told["works"] is True
    found = {finding["name"]: finding for finding in told["findings"]}
    assert "in us-east-1" in found["access"]["detail"]
    assert found["skopeo"]["works"] and found["skopeo"]["optional"] and not found["access"]["optional"]
    told = berth("doctor", "--json", env={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}).expect(1).json()
    assert told["works"] is False
    assert not cloud.changing_calls()


def test_names_of_what_was_applied(offline):
    """Each that a command line may name, mistyped."""
    offline.write(
        "m.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"}), stacks.environment("quality"), stacks.agent("reader", "quality"))
    )  # fmt: skip
    offline("apply", "--yes").expect(0)
    for words, code, near in (
        (("exec", "--env", "qualty", "-c", "1"), 125, "quality"),
        (("exec", "--agent", "raeder", "-c", "1"), 125, "reader"),
        (("plan", "--target", "Agent/readr"), 1, "Agent/reader"),
        (("plan", "--exclude", "Enviroment/quality"), 1, "Environment/quality"),
        (("destroy", "--target", "Agent/readr", "--yes"), 1, "Agent/reader"),
        (("map", "qualitty"), 1, "quality"),
        (("get", "env/qualty"), 1, "Environment/quality"),
        (("state", "show", "Agent/readr"), 1, "Agent/reader"),
        (("disassociate", "qualty", "--all", "--yes"), 1, "quality"),
    ):
        assert f"did you mean {near}?" in offline(*words).expect(code).err, words
    # A name that is near to nothing is not guessed at, and what is no name reaches no file.
    assert "did you mean" not in offline("exec", "--env", "workshop", "-c", "1").expect(125).err
    assert "cannot be the name" in offline("exec", "--env", "../agents/reader", "-c", "1").expect(125).err


def test_a_prebuilt_image_mistyped(offline):
    offline.write("m.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"}), stacks.environment("x", image={"prebuilt": "pyhton"})))
    valid = offline("validate").expect(0)
    assert valid.out == "Valid: 2 resources in 1 file.\n" and "m.yaml:" in valid.err and valid.err.count("did you mean python?") == 1, valid.err
    assert "(did you mean {prebuilt: python}?) is not in the local image store" in " ".join(offline("plan").expect(0).out.split())
    offline.write("m.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"}), stacks.environment("x", image={"prebuilt": "node"})))
    assert "did you mean" not in offline("plan").expect(0).out
    assert offline("validate").expect(0).err == ""


SONAMES = [b"lmdb", b"crypto", b"ssl", b"curl", b"xml2", b"archive", b"git2", b"cares", b"edit"]


@pytest.mark.skipif(os.geteuid() != 0, reason="hides libraries in a mount namespace")
@pytest.mark.parametrize("name", SONAMES, ids=bytes.decode)
def test_doctor_without_a_library(offline, name):
    """It is named with what is needed for it, and nothing ends the program."""
    offline.write("m.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"}), stacks.environment("x")))
    (soname,) = set(re.findall(rb"lib" + name + rb"\.so\.[0-9.]*[0-9]", offline.binary.read_bytes()))
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    place = re.search(rf"\t{re.escape(soname.decode())} .*=> (/\S*)", known).group(1)
    hidden = ["unshare", "--mount", "sh", "-euc", 'mount --bind /dev/null "$(realpath "$1")"; shift; exec "$@"', "sh", place]
    done = subprocess.run([*hidden, str(offline.binary), "doctor", "--json"], cwd=offline.stack, env=offline.env, capture_output=True, text=True, timeout=120)
    assert done.returncode in ((0, 1) if name == b"edit" else (1,)) and done.stderr == "", done.stderr
    lost = [finding["detail"] for finding in json.loads(done.stdout)["findings"] if finding["name"] == "libraries" and finding["optional"] == (name == b"edit")]
    assert any(soname.decode() in detail and "on Debian it is in the package lib" in detail for detail in lost), lost


def test_doctor_without_a_region(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    result = offline("doctor", env={"AWS_REGION": ""}).expect(1)
    assert "AWS_REGION" in result.out


@pytest.fixture
def mapped(cloud, berth, prebuilt):
    berth.write(
        "m.yaml",
        stacks.text(
            stacks.stack(), stacks.environment("x"), stacks.environment("y"), stacks.agent("a", "x"),
            stacks.agent("b", "x"), stacks.swarm("s", ["a", "b"], "y"),
        ),
    )  # fmt: skip
    berth.apply()
    return berth


def test_map(mapped):
    told = mapped("map", "--json").expect(0).json()
    assert {e["name"]: [d["address"] for d in e["dependents"]] for e in told["environments"]} == {
        "x": ["Agent/a", "Agent/b"],
        "y": ["Swarm/s"],
    }
    assert [e["name"] for e in mapped("map", "y", "--json").json()["environments"]] == ["y"]
    assert "did you mean" in mapped("map", "xx").expect(1).err or "no environment" in mapped("map", "xx").err
    text = mapped("map").expect(0).out
    assert "Agent/a" in text and "Swarm/s" in text
    mermaid = mapped("map", "--format", "mermaid").expect(0).out
    assert mermaid.startswith("graph LR\n") and "Agent_a" in mermaid
    dot = mapped("map", "--format", "dot").expect(0).out
    assert '"Agent/a" -> "Environment/x"' in dot
    if shutil.which("dot"):
        drawn = subprocess.run(["dot", "-Tplain"], input=dot, capture_output=True, text=True, check=True).stdout
        assert sum(line.startswith("edge") for line in drawn.splitlines()) == 3


def test_disassociate_and_reassociate(cloud, mapped):
    def record(name, kind="agents"):
        body = cloud.aws("s3").get_object(Bucket=f"alphaagent-workspaces-{cloud.account}-us-east-1", Key=f"registry/team/{kind}/{name}.json")["Body"]
        return json.loads(body.read())

    mark = cloud.mark()
    mapped("disassociate", "x", "--all", "--yes").expect(0)
    assert {call["operation"] for call in cloud.changing_calls(mark)} == {"PutObject"}
    assert record("a")["active"] is False and not record("a").get("environment")
    assert record("s", "swarms")["environment"] == "y"
    plan = mapped.plan("--detailed-exitcode")
    assert any("Agent/a is disassociated from x" in warning for warning in plan["warnings"])
    # Not fought by an apply, not forgotten by it either.
    mapped.apply()
    assert record("a")["active"] is False
    assert [d["active"] for d in mapped("map", "x", "--json").json()["environments"][0]["dependents"]] == [False, False]
    assert "already" in mapped("disassociate", "x", "--all", "--yes").expect(1).err
    assert "nothing is disassociated" in mapped("reassociate", "y", "--all", "--yes").expect(1).err
    mapped("reassociate", "x", "--all", "--yes").expect(0)
    assert record("a")["active"] is True and record("a")["environment"] == "x"
    assert mapped.plan("--detailed-exitcode")["warnings"] == []


def test_markdown_for_pull_requests(cloud, berth, prebuilt):
    nasty = "a | b `c` [x](http://evil) <script> @someone"
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", description=nasty)))
    berth.apply()
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", description=nasty + " #1", memoryMB=4096)))
    out = berth("plan", "--format", "markdown").expect(0).out
    assert out.startswith("### Berth plan: ")
    rows = [line for line in out.splitlines() if line.startswith("| <code>Environment/x")]
    assert len(rows) == 2 and all(row.count("|") == 5 for row in rows)
    assert "<script>" not in out and "@someone" not in out and "](http" not in out
    assert "4096" in out


def test_names_that_are_not_utf8(offline):
    """A folder may be called anything; JSON holds UTF-8 alone, and shows the byte instead of nothing, or of dying."""
    folder = offline.stack / os.fsdecode(b"bad\xff")
    made = offline("init", "--json", folder).expect(0).json()
    assert made["file"].endswith("bad\\xFF/stack.yaml")
    offline("apply", "--yes", "--provider", "local", "-f", folder).expect(0)
    assert offline("state", "show", "--json", "-f", folder).expect(0).json()["folder"].endswith("bad\\xFF/.berth")
    copy = offline("state", "backup", "--json", "-f", folder, offline.stack / os.fsdecode(b"copy\xff")).expect(0).json()
    assert copy["path"].endswith("copy\\xFF")
    assert {f["name"] for f in offline("doctor", "--json", "-f", folder).json()["findings"]} > {"state", "manifests"}
    for command in ("sync", "status"):
        assert "no controller" in offline("controller", command, os.fsdecode(b"lab\xff")).expect(1).err


@pytest.mark.parametrize(
    "arguments",
    [["plan", "-f", "-"], ["apply", "--yes", "-f", "-"], ["refresh", "-f", "-"], ["import", "Environment/x", "x", "-f", "-"], ["exec", "--env", "x", "-"]],
    ids=lambda words: words[0],
)
def test_interrupted_while_it_waits_for_its_input(offline, arguments):
    process = offline.popen(*arguments, stdin=subprocess.PIPE)
    try:
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM
    finally:
        process.kill()
        process.communicate()


def test_validate_reads_a_pipe_once(offline, tmp_path):
    pipe = tmp_path / "stack.yaml"
    os.mkfifo(pipe)
    process = offline.popen("validate", "-f", pipe)
    pipe.write_text(stacks.text(stacks.stack(), stacks.environment("x")))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"Valid: 2 resources in 1 file.\n", b"")


def test_get_says_what_there_is_none_of(offline):
    offline.write("m.yaml", stacks.text(stacks.environment("x")))
    assert offline("get").expect(0).err == "Nothing was applied yet.\n"
    offline("apply", "--yes", "--provider", "local").expect(0)
    assert offline("get", "agents").expect(0).err == "No Agent was applied yet.\n"


def on_terminal(berth, *arguments, columns=80):
    """What the command shows on a terminal of that width, where standard output and standard error are both shown."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [str(berth.binary), *map(str, arguments)], cwd=berth.stack, env={**berth.env, "NO_COLOR": "1", "TERM": "xterm"},
        stdin=subprocess.DEVNULL, stdout=its, stderr=its,
    )  # fmt: skip
    os.close(its)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other side is closed
        while piece := os.read(ours, 65536):
            shown += piece
    process.wait(timeout=30)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n").splitlines()


def width_of(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def test_messages_fit_the_terminal(offline):
    whole = offline("apply", "nothing.plan", "--target", "Environment/x").expect(1).err
    lines = on_terminal(offline, "state", "show")
    assert len(lines) > 1 and max(map(width_of, lines)) <= 80
    assert all(line.startswith(" " * len("error: ")) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == offline("state", "show").expect(1).err.strip()
    assert len(whole.splitlines()) == 1  # a file or a pipe gets each whole

    offline.write("m.yaml", "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x}\nspec: {image: {prebuilt: python}, <<: {}, " + "x" * 16 + ": 1}\n")
    for command in (["validate"], ["doctor"]):
        lines = on_terminal(offline, *command)
        assert max(map(width_of, lines)) <= 80, "\n".join(lines)


@pytest.mark.parametrize("columns", [76, 80, 120])
def test_plan_fits_the_terminal(offline, columns):
    long = "e" * 43
    wide = "漢字" * 40
    environment = "apiVersion: berth/v1\nkind: Environment\nmetadata: {{name: {0}}}\nspec: {{image: {{prebuilt: python}}, description: {1}}}\n"

    def write(*texts):
        offline.write("m.yaml", "---\n".join(environment.format(n, t) for n, t in zip((long, "short"), texts)))

    write(wide, wide)
    lines = on_terminal(offline, "plan", "--verbose", columns=columns)
    assert max(map(width_of, lines)) <= columns, "\n".join(lines)
    offline("apply", "--yes").expect(0)
    write("語" + wide, wide + "語")
    lines = on_terminal(offline, "plan", columns=columns)
    assert max(map(width_of, lines)) <= columns, "\n".join(lines)
    assert any(line.rstrip().endswith("語") for line in lines)


def test_a_long_address_leaves_the_others_their_notes(offline):
    offline.write("m.yaml", stacks.text(stacks.environment("e" * 48), stacks.environment("short")))
    lines = [line for line in on_terminal(offline, "plan", "--provider", "local", columns=50) if "Environment/short" in line]
    assert len(lines) == 1 and width_of(lines[0]) <= 50 and "2048" in lines[0], lines


@pytest.mark.parametrize("columns", [40, 80])
def test_tables_fit_the_terminal(offline, columns):
    long, store = "e" * 48, offline.stack / "store" / "roots" / "sha256" / ("ab" * 32)
    offline.write("stack.yaml", "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: s}\nspec: {provider: local, local: {images: ../store}}\n")
    offline.write("m.yaml", stacks.text(stacks.environment("short"), *([stacks.environment(long)] if columns == 80 else [])))
    store.mkdir(parents=True)
    (offline.stack / "store" / "index.json").write_text(
        json.dumps({"formatVersion": "1", "images": {"data/some-repository:a-long-tag": "sha256:" + "ab" * 32}})
    )
    offline("apply", "--yes").expect(0)
    verbs = ["--help"], ["image", "--help"], ["controller", "--help"], ["get"], ["map"], ["images"]
    for lines in (on_terminal(offline, *verb, columns=columns) for verb in verbs):
        assert lines and max(map(width_of, lines)) <= columns, "\n".join(lines)


def test_a_state_that_may_only_be_read(offline):
    """A plan keeps what it saw, so it needs a state that it can write: it says what to do."""
    offline.write("m.yaml", stacks.text(stacks.environment("x")))
    offline("apply", "--yes", "--provider", "local").expect(0)
    read_only = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
    for verb in ("plan", "drift"):
        rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        command = ["unshare", *rights, "--mount", "sh", "-c", read_only, "sh", offline.stack / ".berth", offline.binary, verb, "--provider", "local"]
        result = subprocess.run(list(map(str, command)), cwd=offline.stack, env=offline.env, capture_output=True, text=True)
        assert result.returncode == 1 and "use a copy of it (--state)" in result.stderr, result


def test_manifests_from_a_pipe_have_their_state_here(offline, tmp_path):
    text = stacks.text({"apiVersion": "berth/v1", "kind": "Stack", "metadata": {"name": "s"}, "spec": {"provider": "local"}}, stacks.environment("x"))
    command = ["bash", "-c", '"$1" apply --yes -f <(printf %s "$2")', "bash", str(offline.binary), text]
    subprocess.run(command, cwd=tmp_path, env=offline.env, check=True, capture_output=True)
    assert (tmp_path / ".berth" / "data.mdb").exists()
