"""
Handing a graph on: networkx, pgmpy, dowhy
==========================================

A learnt graph is often the first step: then paths, adjustment sets or a model are wanted from another
package. Each is one call.
"""

# %%
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd

from bigdag import DAG, AutoDAG, simulate

names = ["rain", "river", "pump", "flood", "damage"]
weights = np.zeros((5, 5))
weights[0, 1] = 1.5  # rain -> river
weights[1, 3] = 0.8  # river -> flood
weights[2, 3] = -0.6  # pump -> flood
weights[3, 4] = 2.0  # flood -> damage
weights[0, 4] = 0.5  # rain -> damage
truth = DAG(weights, names)
table = pd.DataFrame(simulate.sample(truth, 2000, rng=0), columns=names)
model = AutoDAG().fit(table)
model.dag_.edges().round(2)

# %%
# networkx
# --------
#
# :meth:`bigdag.DAG.to_networkx` is a `networkx.DiGraph` of the names, with the weights, and whatever else is
# known, on its arcs.

graph = model.dag_.to_networkx()
print(nx.ancestors(graph, "damage"))
print(list(nx.all_simple_paths(graph, "rain", "damage")))

# %%
# What separates pump and damage? networkx answers questions of d-separation.

print(nx.find_minimal_d_separator(graph, {"pump"}, {"damage"}))
print(nx.is_d_separator(graph, {"pump"}, {"rain"}, set()))

# %%
for layer, level in enumerate(nx.topological_generations(graph)):
    for name in level:
        graph.nodes[name]["layer"] = layer
place = nx.multipartite_layout(graph, subset_key="layer")
plt.figure(figsize=(7, 3.2))
labels = {(a, b): f"{data['weight']:.2f}" for a, b, data in graph.edges(data=True)}
nx.draw_networkx(graph, place, node_color="#CFE4F2", node_size=1900, font_size=9, arrowsize=16)
nx.draw_networkx_edge_labels(graph, place, labels, font_size=8)
plt.axis("off")
plt.margins(0.12)
plt.tight_layout()

# %%
# One sees the graph that the table was drawn from, with weights near the true ones.
#
# pgmpy
# -----
#
# A learnt DAG brings its means and noise variances, so that the network is ready to be asked.

network = model.dag_.to_pgmpy()
mean, covariance = network.to_joint_gaussian()
print(network.check_model(), np.round(mean, 1))

# %%
# dowhy
# -----
#
# dowhy takes the networkx graph as it is. It is not run here, as it asks for an older SciPy:
#
# .. code-block:: python
#
#    from dowhy import CausalModel
#
#    causal = CausalModel(table, treatment="rain", outcome="damage", graph=model.dag_.to_networkx())
#    estimand = causal.identify_effect(proceed_when_unidentifiable=True)
#    causal.estimate_effect(estimand, method_name="backdoor.linear_regression").value
#
# Its answer estimates what the model already knows, the total effect along all paths:

print(f"{model.total_effect('rain', 'damage'):.2f}, in truth {1.5 * 0.8 * 2.0 + 0.5:.2f}")

# %%
# A ``DiGraph`` directs every arc, also those that data cannot direct. Where the learner marks arcs as undirected, look at
# ``reversible`` on the arcs, or at ``possible_effects``, first. Files for Cytoscape, Gephi, R and others are in :doc:`/interop`.
