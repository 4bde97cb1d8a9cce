"""What a table may need before it is learnt from; the public path of the transformers.

Examples
--------
>>> from sklearn.pipeline import make_pipeline
>>> from bigdag import OrderSearch, simulate
>>> from bigdag.transforms import NormalScores
>>> X = simulate.sample(simulate.random_dag(5, 1, rng=0), 200, rng=1)
>>> make_pipeline(NormalScores(), OrderSearch(criterion="bic")).fit(X)[-1].dag_.n_nodes
5
"""

from bigdag.data.standardising import standardise
from bigdag.data.transforms import Adjust, Log1p, NormalScores

__all__ = ["Adjust", "Log1p", "NormalScores", "standardise"]
