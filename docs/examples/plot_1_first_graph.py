"""
A first graph
=============

Thirty variables, a thousand rows, and nothing known beforehand: what caused what?
"""

# %%
# A table with a known answer
# ---------------------------
#
# We draw a random graph, and a table from the linear model on it. In a table of your own you have only
# the second; here the first lets us see whether the answer is right.

import matplotlib.pyplot as plt
import pandas as pd

from bigdag import AutoDAG, metrics, simulate
from bigdag.graph.draw import draw

truth = simulate.random_dag(30, 1, rng=4)
table = pd.DataFrame(simulate.sample(truth, 1000, rng=1), columns=truth.names)
table.iloc[:4, :6].round(2)

# %%
# Learn it
# --------
#
# One call. The table may be a data frame, an array, a Polars or Arrow table, or ``AnnData``.

model = AutoDAG().fit(table)
model.dag_

# %%
# The model says in words what it chose, why, and what would change the answer. That is worth reading
# before the arcs are believed.

print(model.explanation_)

# %%
# The arcs, the strongest first:

model.dag_.edges(top=8).round(2)

# %%
# A picture
# ---------
#
# Causes stand above their effects. Blue arcs have positive weights; vermillion, dashed ones
# negative weights; the width grows with the weight.

draw(model.dag_, "first.png", title="What was learnt", force=True)
plt.figure(figsize=(9, 6))
plt.imshow(plt.imread("first.png"))
plt.axis("off")
plt.tight_layout()

# %%
# Is it right?
# ------------
#
# Against the truth: which arcs are in both, turned round, or in one only.

print(metrics.compare(model.dag_, truth).counts)

# %%
# This table is an easy one: every noise has the same variance, which the model found out, and with which
# every arc can be directed. Tables from the field are rarely so kind:
# :ref:`sphx_glr_gallery_plot_5_standardised.py` shows what is left when units say nothing.
#
# What does a variable do? The total effect adds up all directed paths.

strongest = model.dag_.edges(top=1).iloc[0]
print(f"Raising {strongest.source} by one changes:")
model.effects(strongest.source).head().round(2)
