# SPDX-License-Identifier: Apache-2.0
# pandas: frames, groups, options, a file that is written and read.
# %%
import pandas as pd
import numpy as np

df = pd.DataFrame({"city": ["Oslo", "Bern", "Oslo", "Rome"] * 5000, "t": np.linspace(-5, 30, 20000), "n": range(20000)})
df.head()
# %%
df.describe()
# %%
df.groupby("city").agg({"t": "mean", "n": ["min", "max"]})
# %%
pd.DataFrame(np.arange(30).reshape(2, 15) * 1234567)
# %%
df
# %%
df.to_csv("table.csv", index=False)
pd.read_csv("table.csv").tail(2)
# %%
df["t"].rolling(3).mean().dropna()
# %%
df["no such column"]
# %%
pd.set_option("display.precision", 1)
df.head(2)
# %%
df.style.highlight_max(subset=["n"]).to_html()[:6]
# %%
df.info(memory_usage=False)
# %%
from IPython.display import display, HTML, Markdown

display(df.head(1), HTML("<b>x</b>"))
display(Markdown("*text*"))
df.tail(1)
