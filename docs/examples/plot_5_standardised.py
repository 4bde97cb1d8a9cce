"""
Standardised data: what is left without units
=============================================

Simulated tables often give their answer away: variances grow from causes to effects, and sorting the
columns by variance finds the order. Standardise the columns, and that is gone.
"""

# %%
# The same table twice: as it was drawn, and with every column divided by its standard deviation. The
# *sortability* says how far sorting by variance finds the true order: 0.5 is chance.

import matplotlib.pyplot as plt
import pandas as pd

from bigdag import AutoDAG, OrderSearch, ProxiMAS, SortRegress, metrics, simulate

truth = simulate.random_dag(150, 2, rng=0)
raw = simulate.sample(truth, 1000, rng=1)
tables = {"raw": raw, "standardised": simulate.standardise(raw)}
for name, X in tables.items():
    print(f"{name}: var-sortability {metrics.var_sortability(X, truth):.2f}")

# %%
# Four learners on both. ``SortRegress`` is the trivial one: it sorts the columns by variance, and regresses
# each on those before it.

learners = {
    "sort by variance": SortRegress(),
    "ProxiMAS": ProxiMAS(time_limit=20),
    "OrderSearch, BIC": OrderSearch(criterion="bic"),
    "AutoDAG": AutoDAG(),
}
scores = pd.DataFrame(index=list(learners), columns=list(tables), dtype=float)
for method, learner in learners.items():
    for units, X in tables.items():
        dag = learner.fit(X).dag_
        scores.loc[method, units] = metrics.average_precision(dag, truth)
scores.round(2)

# %%
axes = scores.plot.barh(figsize=(7, 3.6), color=["#0072B2", "#E69F00"])
axes.invert_yaxis()
axes.set(xlim=(0, 1), xlabel="average precision")
axes.legend(loc="lower right", title="columns")
plt.tight_layout()

# %%
# What reads variances falls to a third or less as soon as the units are gone. The extended BIC gives each
# variable a variance of its own and finds the same graph in any units; `AutoDAG` chooses by the data which of the
# two a table bears, and says so:

print(AutoDAG().fit(tables["standardised"]).explanation_)

# %%
# So before you believe any learner on simulated data, standardise the table; and before you believe one on
# your own, run ``bigdag fit --method sort-variance`` beside it. The full story, with all methods, is in
# :doc:`/benchmarks`.
