# SPDX-License-Identifier: Apache-2.0
# Errors: of syntax, chained, of one's own, in a group, SystemExit, warnings, what goes to stderr.
# %%
import sys
import warnings

1 / 0
# %%
def f(x)
    return x
# %%
  indented = 1
# %%
class OwnError(Exception):
    def __str__(self):
        return f"own: {self.args}"

raise OwnError("a", 1)
# %%
try:
    int("x")
except ValueError as error:
    raise OwnError("chained") from error
# %%
raise ExceptionGroup("several", [ValueError("a"), TypeError("b")])
# %%
warnings.warn("careful")
# %%
warnings.warn("careful")
warnings.warn("old", DeprecationWarning)
# %%
print("out")
print("err", file=sys.stderr)
sys.stdout.write("text\n")
# %%
undefined_name
# %%
{}["key"]
# %%
assert 1 == 2, "not equal"
# %%
print("before")
raise KeyboardInterrupt
# %%
sys.exit(3)
# %%
indented
# %%
"\ud800"
# %%
def deep(n):
    return deep(n + 1)

deep(0)
# %%
None
# %%
x = 5;
x;
# %%
print("é", "日本", "\t|", end="")
# %%
eval("1 +")
