"""
How sure is an arc?
===================

One fit gives one graph. The bootstrap learns again from resampled rows, counts how often each arc comes
back, and answers with the graph that the resamples agree on.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bigdag import BootstrapDAG, OrderSearch, metrics, simulate
from bigdag.graph.draw import draw

truth = simulate.random_dag(40, 1.5, rng=2, weights=(0.2, 0.9))
table = pd.DataFrame(simulate.sample(truth, 200, variance="NV", rng=5), columns=truth.names)
table /= table.std()

model = BootstrapDAG(n_resamples=100, random_state=0).fit(table)
frame = model.to_frame()
frame.head(8).round(2)

# %%
# ``frequency`` is the share of the resamples with the arc in this direction. ``adjacency`` is how probable it is
# that the two variables are joined at all, and ``probability`` that times the share of the resamples with this
# direction. Where they differ, the pair is sure and the direction is not.
#
# Does the number mean anything? Here the truth is known, so pairs can be sorted by their probability.

pairs = metrics.calibration(model.edge_prob_, truth, directed=False)
pairs.round(2)

# %%
one = OrderSearch(criterion="bic").fit(table)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
joined = (truth.weights + truth.weights.T).toarray() != 0
upper = np.triu_indices(40, 1)
probability = model.adjacency_prob_.toarray()[upper]
is_true = joined[upper]
bins = np.linspace(0, 1, 11)
axes[0].hist(
    [probability[is_true], probability[~is_true & (probability > 0)]],
    bins,
    stacked=True,
    color=["#0072B2", "#E69F00"],
    label=["true pairs", "false pairs"],
)
axes[0].set(xlabel="probability that the pair is joined", ylabel="pairs", ylim=(0, 40))
axes[0].legend()
ranked = {
    "one fit, by weight": metrics.average_precision(one.dag_, truth, by="weight"),
    "one fit, by evidence": metrics.average_precision(one.dag_, truth),
    "bootstrap": metrics.average_precision(model.edge_prob_, truth),
}
axes[1].barh(list(ranked), list(ranked.values()), color="#0072B2")
axes[1].set(xlim=(0, 1.1), xlabel="average precision of the arcs")
axes[1].bar_label(axes[1].containers[0], fmt="%.2f", padding=3)
plt.tight_layout()

# %%
# On the left, nearly all pairs with a high probability are true; the many false pairs near zero are cut off at
# 40. On the right, arcs ranked by how often they are found are nearer to the truth than those of one fit.
#
# What all resamples share, such as a common cause that was not measured, no bootstrap can see.
#
# The sure part as a picture: unsure arcs are paler, and those without a head are undirected.

draw(model.get_consensus_graph(0.8), "sure.png", title="Found in at least 80 %", force=True)
plt.figure(figsize=(9, 5))
plt.imshow(plt.imread("sure.png"))
plt.axis("off")
plt.tight_layout()
