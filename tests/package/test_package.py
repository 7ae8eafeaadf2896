# SPDX-License-Identifier: Apache-2.0
"""One package in one Debian, from its installation to its purge: the tests of a release run in this order."""

import re
import shutil

import pytest
from conftest import ROOT, shell

pytestmark = pytest.mark.timeout(3600)
README = (ROOT / "README.md").read_text()
START = README[README.index("\n## Start\n") : README.index("\n## Sessions\n")]
MANIFEST = re.search(r"^```yaml\n(.*?)^```$", START, re.S | re.M).group(1)
COMMANDS = [line.split("  #")[0].strip() for line in re.findall(r"^    (berth .*)$", START, re.M) if " image " not in line]
UNITS = "berth-controller.service berth-serve.service berth-launcher.service berth-launcher.socket"


def start_of_the_readme(words=""):
    """As a reader types it, but for the answer to the question of apply; `words`: what is added to exec."""
    lines = [line + (" --yes" if " apply " in line else words if " exec " in line else "") for line in COMMANDS]
    return "\n".join(["set -e", "mkdir try", "cd try", "mkdir agents", f"cat >agents/stack.yaml <<'END'\n{MANIFEST}END", *lines])


def test_everything_can_be_loaded(debian):
    assert len(COMMANDS) == 5
    debian.write("root/lab/stack.yaml", "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\nspec: {provider: local}\n")
    said = debian.run("cd /root/lab && berth doctor", check=False).stdout
    assert re.search(r"ok +libraries +all \d+ can be loaded", said) and re.search(r"ok +sandbox", said) and re.search(r"ok +runtime", said), said


def test_the_start_of_the_readme_as_root(debian):
    assert debian.run(f"cd; {start_of_the_readme()}").stdout.endswith("42\n")


def test_the_start_of_the_readme_as_a_user(debian):
    """In this bare Debian no cgroups are delegated to the user: that is refused unless the user takes it, as doctor says."""
    debian.run("useradd --create-home --shell /bin/bash tester")
    first = debian.run(start_of_the_readme(), user="tester", check=False)
    if first.returncode:
        assert "no cgroup was delegated to this user" in first.stderr, first.stderr
        assert debian.run("cd try && " + COMMANDS[-1] + " --accept-degraded", user="tester").stdout == "42\n"
    else:
        assert first.stdout.endswith("42\n")


def test_it_brings_what_belongs(debian):
    debian.run("test -s /usr/share/doc/berth/copyright; test -s /usr/share/man/man1/berth.1; test -s /usr/share/bash-completion/completions/berth")
    assert debian.run("getent passwd berth; stat -c '%U %a' /var/lib/berth").stdout.endswith("berth 700\n")
    assert debian.run("dpkg --verify berth").stdout == ""


@pytest.fixture(scope="module")
def before(debian, tmp_path_factory):
    """The version before, as a package: its name where it lies in the Debian. Its programs are built of the last commit that had its number."""
    found = shell("package_commit_before")
    if found.returncode:
        pytest.skip("the history of this clone does not reach the version before")
    folder = tmp_path_factory.mktemp("before")
    made = shell('package_before "$@"', debian.release, debian.deb, found.stdout.strip(), folder)
    assert made.returncode == 0, made.stderr
    shutil.copy(folder / "before.deb", debian.root / "tmp")
    return "/tmp/before.deb"


UPGRADE = """
dpkg -i --force-downgrade {before} >&2
mkdir /root/upgraded && cd /root/upgraded && cp -r /root/try/agents . && rm -rf agents/.berth
berth version
berth apply -f agents --yes -q >&2
berth serve -f agents >/tmp/served 2>&1 &
server=$!
for i in $(seq 600); do ! grep -q 'it serves what was applied' /tmp/served || break; kill -0 $server; sleep 0.1; done
berth session run -f agents --conversation thesis -c 'import os; x = 41; open("note", "w").write("of the version before"); os.getpid()' >/tmp/pid
dpkg -i {now} >&2
berth version
berth session run -f agents --conversation thesis -c 'x' # the server of the version before, a program that was deleted, with the new client
{end} $server
while kill -0 $server 2>/dev/null; do sleep 0.1; done
berth serve -f agents >/tmp/served.again 2>&1 &
server=$!
for i in $(seq 600); do ! grep -q 'it serves what was applied' /tmp/served.again || break; kill -0 $server; sleep 0.1; done
berth session run -f agents --conversation thesis -c 'x + 1, open("note").read()'
berth session run -f agents --conversation thesis -c 'import os; os.getpid()' | cmp - /tmp/pid
berth plan -f agents
berth state verify -f agents
kill $server
wait $server || true
rm -r /root/upgraded
"""


@pytest.mark.parametrize("end", ["kill -9", "kill -TERM"])
def test_an_upgrade_beside_a_living_session(debian, before, end):
    """The version before has made the state and a session, which lives; the new one takes its place, and all goes on: the same process."""
    done = debian.run(UPGRADE.format(before=before, now=f"/tmp/{debian.deb.name}", end=end))
    old, new, first, second, plan, *_ = done.stdout.splitlines()
    assert old.split()[1] != new.split()[1] == debian.deb.name.split("_")[1].split("-")[0], done.stdout
    assert (first, second, plan) == ("41", "(42, 'of the version before')", "Nothing to do: 3 resources are as declared."), done.stdout


def test_units_are_read_by_systemd(debian):
    """systemd itself is installed after the package, which does not need it."""
    debian.run("apt-get -q -y --no-install-recommends install systemd")
    done = debian.run(f"cd /usr/lib/systemd/system && systemd-analyze verify --man=no {UNITS}", check=False)
    assert done.returncode == 0 and "berth-" not in done.stderr, done.stderr
    assert "disabled" in debian.run("systemctl is-enabled berth-serve.service", check=False).stdout


@pytest.mark.parametrize("state", [True, False], ids=["a state", "nothing"])
def test_a_purge_leaves_what_users_made(debian, state):
    if state:
        debian.run("runuser -u berth -- sh -c 'cd /var/lib/berth && touch state'")
    debian.run("apt-get -q -y purge berth")
    left = debian.run("find / -xdev -iname '*berth*' ! -path '/tmp/*' ! -path '/root/*' ! -path '/home/*' ! -path '/proc/*' ! -path '/var/cache/*'").stdout.split()
    # A list of apt's or dpkg's own may go on naming it.
    left = [path for path in left if not path.startswith(("/var/log", "/var/lib/systemd/deb-systemd"))]
    assert left == (["/var/lib/berth"] if state else [])
    assert bool(debian.run("getent passwd berth", check=False).stdout) is state
    assert debian.run("ls /root/try/agents/.berth /home/tester/try/agents/.berth").stdout
    if state:
        debian.run("rm /var/lib/berth/state")
        debian.run(f"apt-get -q -y --no-install-recommends install /tmp/{debian.deb.name}")
