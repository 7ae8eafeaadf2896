# SPDX-License-Identifier: Apache-2.0
# matplotlib: figures by pyplot, by objects, as a value, several in a cell, with a style.
# %%
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 10, 200)
# %%
plt.plot(x, np.sin(x))
# %%
plt.plot(x, np.cos(x))
plt.title("cosine")
plt.show()
# %%
fig, ax = plt.subplots()
ax.scatter(x, x**2)
fig
# %%
ax.set_xlabel("x")
print("nothing is shown")
# %%
fig
# %%
for k in range(3):
    plt.figure(figsize=(2, 2))
    plt.plot(x, k * x)
# %%
plt.style.use("ggplot")
fig, axes = plt.subplots(1, 2)
axes[0].hist(np.random.default_rng(1).normal(size=500))
axes[1].imshow(np.eye(4));
# %%
plt.rcParams["axes.facecolor"], plt.get_fignums()
# %%
from IPython.display import display

fig, ax = plt.subplots()
display(fig)
plt.close(fig)
# %%
plt.plot([1, 2], [1])
