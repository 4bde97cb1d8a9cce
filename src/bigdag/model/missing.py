"""Missing values filled in by their conditional means under a linear Gaussian model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from bigdag.data.missing import rows_with_same_gaps
from bigdag.errors import GraphError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.graph.dag import DAG

__all__ = ["filled_in"]


def filled_in(
    X: NDArray[np.float64], dag: DAG, means: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return X (n, d) with NaN replaced by the mean given what is known in the same row.

    With ``B = (I - W) / sd`` by column, the precision matrix of the variables is ``B Bᵀ``. The
    missing ones of a row, M, solve ``B_M B_Mᵀ x_M = -B_M e``, where e is the scaled residual of the
    row with its missing values at their means: only the arcs of M are looked at. Rows with the same
    missing values share the matrix.

    Examples
    --------
    >>> from bigdag import DAG
    >>> one = np.array([[np.nan, 4.0]])
    >>> filled_in(one, DAG([[0, 2.0], [0, 0]]), np.zeros(2), np.array([1.0, 4.0]))
    array([[1., 4.]])
    """
    W = dag.weights
    sure = noise == 0
    caused = np.flatnonzero(sure & (np.diff(W.indptr) > 0))
    if len(caused):
        raise GraphError(
            f"{dag.names[caused[0]]!r} has causes and no noise, so that its causes cannot be told "
            "apart. Give it a noise variance above 0."
        )
    filled = X - means
    gaps = np.isnan(filled)
    filled[gaps] = 0.0
    missing = gaps.copy()
    missing[:, sure] = False  # what does not vary is at its mean
    inverse = np.divide(1.0, np.sqrt(noise), out=np.zeros_like(noise), where=~sure)
    B = sp.csr_array((sp.eye_array(dag.n_nodes, format="csr") - W) @ sp.diags_array(inverse))
    residuals = (B.T @ filled.T).T  # (n, d)
    for same, M in rows_with_same_gaps(missing):
        B_M = B[M]
        right = -(B_M @ residuals[same].T)  # (|M|, rows)
        filled[np.ix_(same, M)] = _solved(sp.csc_array(B_M @ B_M.T), right).T
    return np.where(gaps, filled + means, X)  # what is known stays to the bit


def _solved(precision: sp.csc_array, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve a sparse, positive definite system whose variables may differ much in scale."""
    scale = sp.diags_array(1 / np.sqrt(precision.diagonal()))
    system = sp.csc_array(scale @ precision @ scale)
    factor = splu(system, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    return scale @ factor.solve(scale @ right)
