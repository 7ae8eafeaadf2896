# SPDX-License-Identifier: Apache-2.0
# input(): what a program asks, and the end of what there is.
# %% stdin: Ada
name = input("Name? ")
print("Hello", name)
# %% stdin: 3\n4
a, b = int(input("a: ")), int(input("b: "))
a * b
# %%
name.upper(), a + b
