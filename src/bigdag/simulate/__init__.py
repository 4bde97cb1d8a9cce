"""Random DAGs and samples of linear models on them (section 4.1 of the paper).

Examples
--------
>>> from bigdag import simulate
>>> simulate.sample(simulate.random_dag(5, 1, rng=0), 100, rng=1).shape
(100, 5)
"""

from bigdag.simulate.models import (
    internally_standardised,
    noise_scales,
    random_dag,
    sample,
    standardise,
)

__all__ = ["internally_standardised", "noise_scales", "random_dag", "sample", "standardise"]
