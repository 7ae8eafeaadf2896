# SPDX-License-Identifier: Apache-2.0
# The standard library: iterators, dates, JSON, files, regular expressions, decimals, threads.
# %%
import collections, datetime, decimal, itertools, json, pathlib, random, re, threading

random.seed(3)
[random.randint(1, 6) for _ in range(5)]
# %%
random.random(), random.choice("abc")
# %%
decimal.getcontext().prec = 6
decimal.Decimal(1) / 3
# %%
decimal.Decimal(2) / 3
# %%
pathlib.Path("data").mkdir()
pathlib.Path("data/a.json").write_text(json.dumps({"n": [1, 2]}))
# %%
f = open("data/log.txt", "w")
print("line", file=f)
# %%
f.write("more")
# %%
collections.Counter("mississippi").most_common(2), collections.OrderedDict(a=1)
# %%
found = []
threads = [threading.Thread(target=found.append, args=(n,)) for n in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sorted(found)
# %%
steps = itertools.count(5)
next(steps)
# %%
next(steps)
# %%
numbers = (n * n for n in range(5))
next(numbers)
# %%
list(numbers)
# %%
re.match(r"(\w+) (\w+)", "hello world").groups(), datetime.date(2024, 2, 29) + datetime.timedelta(365)
# %%
json.loads(pathlib.Path("data/a.json").read_text())["n"]
# %%
{n: "x" * n for n in range(30)}
# %%
list(range(1200))
# %%
"text\nwith lines", b"bytes", 1e300 * 10, float("nan"), {3, 1, 2}, ..., print
