# SPDX-License-Identifier: Apache-2.0
"""One apply that is disturbed at each of its steps."""

import collections
import signal
import subprocess

from crossing import Crossing
from disk import Disk
from lib.steps import SEED, note, sample


def commits_of(writes):
    """Each commit as the numbers of its first write, of its sync, and of the write that makes it count (LMDB's meta page)."""
    commits, first = [], 1
    for number, (call, _, _) in enumerate(writes, 1):
        if call == "fdatasync":
            commits.append((first, number, number + 1))
            first = number + 2
    return commits


class Trial:
    """A crossing that is disturbed over and over: here to there, there to here."""

    def __init__(self, cloud, berth, tmp_path):
        self.cloud, self.berth = cloud, berth
        self.crossing = Crossing(cloud, berth)
        self.crossing.settle()
        self.pidfile = tmp_path / "pid"
        self.disk = Disk(tmp_path, berth.stack / ".berth")
        self.figures = collections.Counter()

    def start(self, env, *args):
        """The apply, whose pid is in the pidfile before it begins."""
        self.pidfile.unlink(missing_ok=True)
        shell = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.pidfile), str(self.berth.binary), "apply", "--yes", *args]
        return subprocess.Popen(shell, cwd=self.berth.stack, env={**self.berth.env, **env}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def record(self, *args):
        """What an undisturbed crossing does: its calls as (service, operation, which of these), and its commits."""
        mark, seen, calls = self.cloud.mark(), collections.Counter(), []
        self.crossing.turn()
        process = self.start(self.disk.env(), *args)
        out, err = process.communicate(timeout=self.berth.timeout)
        assert process.returncode == 0, (out, err)
        for call in self.cloud.calls(mark):
            key = (call["service"], call["operation"])
            seen[key] += 1
            calls.append((*key, seen[key]))
        commits = commits_of(self.disk.writes())
        self.crossing.recover("undisturbed")
        return calls, commits

    def disturb(self, note, code, rules=(), env=None, args=()):
        """One crossing that ends with that code, or comes through; then everything is as it shall be. The code, and what it said."""
        before, _ = self.crossing.runs()
        self.cloud.faults(*rules)
        mark = self.cloud.mark()
        self.crossing.turn()
        process = self.start(env or {}, *args)
        try:
            out, err = process.communicate(timeout=self.berth.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{note}: it hangs\n{process.communicate()}") from None
        text = (out + err).decode("utf-8", "replace")
        assert process.returncode in {0, code, min(code, 1)}, f"{note}: ended with {process.returncode}\n{text}"
        self.crossing.wait_idle()
        self.tell(note, process.returncode, before, [c for c in self.cloud.changing_calls(mark) if c["status"]], text)
        self.crossing.recover(note)
        self.berth("state", "verify").expect(0)
        self.figures["done" if process.returncode == 0 else "disturbed"] += 1
        return process.returncode, text

    def tell(self, note, code, before, changing, text):
        """The history has it: who died stays "begun"; a run that changed something is there in any case."""
        runs, journal = self.crossing.runs()
        new = {run: outcome for run, outcome in runs.items() if run not in before}
        expected = {0: {"done"}, 3: set(), 1: {"failed", "interrupted", "done", "begun"}, -signal.SIGKILL: {"begun", "done"}}[code]
        assert set(new.values()) <= expected and len(new) <= 1, f"{note}: {new}\n{text}"
        assert new or not changing, f"{note}: changed {len(changing)} things, and the history knows nothing\n{text}"
        assert code != 0 or not journal, f"{note}: done, and the journal is not empty: {journal}"
        self.figures["in history as " + (list(new.values()) or ["nothing"])[0]] += 1

    def each(self, name, steps, most, disturb):
        """All steps; what went wrong is told at the end, with the stack made anew after each."""
        failures, chosen = [], sample(steps, most, self.cloud.flavor)
        for number, step in enumerate(chosen, 1):
            try:
                disturb(*step)
            except AssertionError as error:
                failures.append(f"--- {name} {step}\n{error}")
                note(f"{self.cloud.flavor} {failures[-1][:3000]}")
                self.anew()
            if number % 50 == 0 or number == len(chosen):
                note(f"{self.cloud.flavor} {name}: {number} of {len(chosen)} ({len(steps)} steps in all), {len(failures)} failed, {dict(self.figures)}")
        self.crossing.turn()
        self.crossing.recover("at last, undisturbed", locks_may_stay=False)
        assert not failures, f"{len(failures)} of {len(chosen)}; again with BERTH_SEED={SEED}\n" + "\n".join(failures[:10])

    def anew(self):
        """As at the beginning, after a failure."""
        subprocess.run(["rm", "-rf", self.berth.stack / ".berth"], check=True)
        self.cloud.reset()
        self.crossing = Crossing(self.cloud, self.berth)
        self.crossing.settle()
