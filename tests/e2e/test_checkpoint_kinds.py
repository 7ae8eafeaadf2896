# SPDX-License-Identifier: Apache-2.0
"""
Values of all kinds through a checkpoint. Each row of a table is a setup and a probe. Two kernels run the probe: the one that the
checkpoint was taken from, and the one that it was restored in. Both must answer the same, or the row's names are lost and named.
"""

import json
import os
import sys
from pathlib import Path

from runtime_client import Runtime

# The Python of the tests: it has NumPy and the other libraries of requirements.txt.
SCIENCE = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def names_of(runtime):
    return set(json.loads(eval(runtime.ok("__import__('json').dumps([name for name in globals() if not name.startswith('__')])").text)))


def walk(program, imports, rows):
    """{setup: what is wrong with it}. A row of three has the names that must be lost."""
    with Runtime(program, env=SCIENCE) as first, Runtime(program, env=SCIENCE) as second:
        first.ok(imports)
        known, owned = names_of(first), {}
        for setup, *_ in rows:
            result = first.run(setup)
            assert result.status == "ok", (setup, result)
            owned[setup] = names_of(first) - known
            known |= owned[setup]
        said, file = first.checkpoint(max_bytes=200 << 20)
        assert said["contexts"][0]["reason"] is None, said
        said = second.restore(file)
        state = second.ok("1").state
        assert state["was"] == "restored", state
        lost = {item["name"]: item["why"] for item in state["lost"]}
        wrong = {}
        for setup, probe, *expected in rows:
            gone = {name: lost[name] for name in owned[setup] & set(lost)}
            if set(gone) != set(expected[0] if expected else ()):
                wrong[setup] = f"lost: {gone}"
            elif not gone:
                before, after = (runtime.run(probe) for runtime in (first, second))
                if before.status != "ok" or (before.text, before.error) != (after.text, after.error):
                    wrong[setup] = f"before {before.text} {before.error}, after {after.text} {after.error}"
        return wrong


LARGE = [
    ("plain = np.arange(10_000.0)", "plain.sum(), plain.flags.writeable, plain.shape"),
    ("columns = np.asfortranarray(np.arange(40_000).reshape(200, 200))", "columns[3, 5], columns.flags.f_contiguous, columns.flags.c_contiguous"),
    ("sealed = np.arange(20_000); sealed.flags.writeable = False", "sealed.sum(), sealed.flags.writeable"),
    ("huge = np.ones(3 << 20, dtype='u1')", "huge.sum(), huge.nbytes"),
    ("strings = np.array(['some text'] * 10_000)", "strings[9_999], strings.dtype"),
    ("record = np.zeros(9_000, dtype=[('a', 'f8'), ('b', 'i4')])", "record.dtype, record['b'].sum()"),
    ("masked = np.ma.masked_less(np.arange(20_000), 5)", "masked.sum(), masked.mask.sum()"),
    ("matrix = np.matrix(np.eye(200))", "type(matrix), matrix.trace()"),
    ("holder = {'a': [np.ones(10_000)], 'b': plain}", "holder['a'][0].sum(), holder['b'] is plain"),
    ("frame = pd.DataFrame({'x': range(10**5), 'y': 1.5, 'z': 'text'})", "frame.x.sum(), frame.y.sum(), frame.z[99_999], frame.dtypes.to_dict()"),
    ("category = pd.Series(['a', 'b'] * 50_000, dtype='category')", "category.value_counts().to_dict(), category.dtype"),
    ("index = pd.MultiIndex.from_product([range(300), range(300)])", "index[-1], len(index)"),
    ("times = pd.date_range('2024', periods=20_000, freq='h', tz='Europe/Berlin')", "times[-1], times.freq"),
    ("many = [np.full(9_000, i) for i in range(50)]", "[int(one.sum()) for one in many]"),
]


def test_large_arrays_and_what_holds_them(program):
    """64 KiB and more of contiguous memory goes to a pickler's file by another way than all else."""
    assert walk(program, "import numpy as np, pandas as pd", LARGE) == {}
