"""Draw docs/picture.svg, the picture of the README; call: python docs/picture.py.

It is what was learnt around one variable of a simulated table with 2,000 columns.
"""

from pathlib import Path

import matplotlib as mpl
import pandas as pd

from bigdag import BootstrapDAG, simulate
from bigdag.graph.draw import draw

mpl.rcParams["svg.hashsalt"] = "bigdag"  # the same file each time
truth = simulate.random_dag(2000, 1.3, rng=11, weights=(0.3, 0.9))
table = pd.DataFrame(simulate.sample(truth, 400, variance="NV", rng=12), columns=truth.names)
model = BootstrapDAG(n_resamples=30, random_state=0).fit(table / table.std())
degree = (model.dag_.weights != 0).sum(axis=0) + (model.dag_.weights != 0).sum(axis=1)
sizes = {v: model.dag_.neighbourhood(int(v), 2).n_nodes for v in degree.argsort()[-300:]}
middle = max(sizes, key=lambda v: sizes[v] if sizes[v] <= 26 else -1)
name = model.dag_.names[middle]
draw(
    model.dag_.neighbourhood(int(middle), 2),
    Path(__file__).with_name("picture.svg"),
    highlight=name,
    title=f"Two steps around {name}, of 2,000 variables",
    force=True,
)
