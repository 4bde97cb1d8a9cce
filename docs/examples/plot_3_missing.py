"""
Missing values
==============

Most tables have holes. What happens to an answer if a tenth, or a fifth, of all values is missing, and
which of the ways to go on loses least?
"""

# %%
# Two tables of 60 columns and 600 rows. In the first, variables are loosely related; in the second, most of
# a variable's variance comes from others.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bigdag
from bigdag import OrderSearch, metrics, simulate

rng = np.random.default_rng(3)
worlds = {}
for name, weights in [("loosely related", (0.2, 0.6)), ("closely related", (0.4, 1.2))]:
    truth = simulate.random_dag(60, 2, rng=rng, weights=weights)
    table = simulate.standardise(simulate.sample(truth, 600, variance="NV", rng=rng))
    worlds[name] = truth, table


def with_holes(table, share):
    """Return a data frame with this share of the values missing at random."""
    table = table.copy()
    table[rng.random(table.shape) < share] = np.nan
    return pd.DataFrame(table)


# %%
# The check of a table says what is there, and what to do about it:

for finding in bigdag.check(with_holes(worlds["loosely related"][1], 0.1)).itertuples():
    print(f"{finding.finding}: {finding.detail}; {finding.remedy}")

# %%
# Four ways
# ---------
#
# - ``pairwise``: each correlation from the rows in which both values are there; for tables of any width;
# - ``em``: a Gaussian model of the whole table, fitted to what is there; up to 2,000 columns;
# - means in place of the holes, which many do;
# - ``drop``: only rows without a hole. With 60 columns and a tenth missing, hardly any is whole.


def f1(truth, table, way):
    """Return how well the arcs are found; nothing where too few rows are left."""
    if way == "means":
        ready = table.fillna(table.mean())
    elif way == "drop" and len(table.dropna()) < 10:
        return np.nan
    else:
        ready = bigdag.prepare(table, missing=way).data
    return metrics.arc_metrics(OrderSearch(criterion="bic").fit(ready).dag_, truth).f1


ways = ["em", "pairwise", "means", "drop"]
rows = []
for name, (truth, whole) in worlds.items():
    for share in (0.0, 0.05, 0.1, 0.2):
        holes = with_holes(whole, share)
        rows.append((name, share, *(f1(truth, holes, way) for way in ways)))
scores = pd.DataFrame(rows, columns=["table", "missing", *ways]).set_index(["table", "missing"])
scores.round(2)

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for ax, name in zip(axes, worlds, strict=True):
    scores.loc[name].plot(ax=ax, style=["o-", "s-", "^-", "x-"], legend=name == "closely related",
                          color=["#009E73", "#0072B2", "#E69F00", "#999999"])  # fmt: skip
    ax.set(title=name, xlabel="share of missing values", ylabel="F1 of the arcs", ylim=(0, 1))
plt.tight_layout()

# %%
# The Gaussian model (``em``) is best, or nearly so, in both tables. Correlations of pairs do well with few holes in
# loosely related columns, and badly in closely related ones: there a small error of a correlation is large beside what
# a variable's causes leave of it, and false arcs come in for it, more than with means. `AutoDAG` and
# ``bigdag fit`` therefore take the pairs where these fit together, and the Gaussian model where they hardly do and it takes
# less than about half a minute; else say ``missing="em"`` (``--missing em``). Dropping rows loses everything at once.
#
# All of this supposes that values are missing at random: where a value is missing *because* it is large,
# no way of filling helps.
