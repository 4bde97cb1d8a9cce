"""How good a DAG is, against a truth or on data it has not seen; the public path of the metrics.

Examples
--------
>>> from bigdag import DAG, metrics
>>> metrics.average_precision(DAG([[0, 0.5], [0, 0]]), DAG([[0, 1.0], [0, 0]]))
1.0
"""

from bigdag.evaluation.compare import Comparison, compare
from bigdag.evaluation.markov import MarkovCheck, markov_check
from bigdag.evaluation.metrics import (
    ArcMetrics,
    arc_metrics,
    average_precision,
    calibration,
    cpdag,
    evaluate,
    gaussian_nll,
    order_errors,
    parent_aid,
    shd_cpdag,
    threshold_curve,
)
from bigdag.evaluation.sortability import r2_sortability, var_sortability

__all__ = [
    "ArcMetrics",
    "Comparison",
    "MarkovCheck",
    "arc_metrics",
    "average_precision",
    "calibration",
    "compare",
    "cpdag",
    "evaluate",
    "gaussian_nll",
    "markov_check",
    "order_errors",
    "parent_aid",
    "r2_sortability",
    "shd_cpdag",
    "threshold_curve",
    "var_sortability",
]
