# SPDX-License-Identifier: Apache-2.0
# NumPy as in a first notebook: views, random numbers, print options, errors.
# %%
import numpy as np
rng = np.random.default_rng(7)
a = rng.normal(size=(200, 60))
a.shape, a.dtype
# %%
a[:3, :3].round(3)
# %%
view = a[10:12]
view[:] = 1
a.sum().round(6)
# %%
view[:] = 2
print(a[10, 0], a[11, 59], np.shares_memory(a, view))
# %%
np.set_printoptions(precision=2, suppress=True)
a[0, :4]
# %%
a @ np.ones(7)
# %%
np.float64(1) / 0
# %%
np.log(np.array([-1.0, 0.0]))
# %%
np.arange(3) == np.array([0, 1, 2])
# %%
_.all(), __  # noqa: F821
