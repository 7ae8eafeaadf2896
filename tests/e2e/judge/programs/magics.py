# SPDX-License-Identifier: Apache-2.0
# What notebooks have beside Python.
# %%
%matplotlib inline
name = "world"
# %%
!echo hello {name}
# %%
files = !printf 'a\nb\n'
files
# %%
%%bash
for i in 1 2; do echo "row $i"; done
# %%
%%writefile made.txt
one
two
# %%
open("made.txt").read()
# %%
%env JUDGED=yes
# %%
import os
os.environ["JUDGED"]
# %%
%%time
sum(range(10))
# %%
%timeit -n 1 -r 1 pass
# %%
%%capture caught
print("hidden")
# %%
caught.stdout
# %%
%no_such_magic
# %%
_ = 3
_
# %%
7 * 6
# %%
_
# %%
%cd -q .
%pwd
# %%
%%python3
print("another process")
# %%
get_ipython().run_line_magic("who_ls", "") != []
# %%
!exit 3
# %%
_exit_code
