"""Graphs for other packages, which are optional: pgmpy and pywhy-graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag.errors import missing_extra

if TYPE_CHECKING:
    from bigdag.graph.dag import DAG

__all__ = ["to_pgmpy", "to_pywhy"]


def to_pgmpy(dag: DAG) -> Any:
    """Return a pgmpy ``LinearGaussianBayesianNetwork``; see :meth:`bigdag.DAG.to_pgmpy`."""
    try:
        from pgmpy.factors.continuous import LinearGaussianCPD
        from pgmpy.models import LinearGaussianBayesianNetwork
    except ImportError as error:
        raise missing_extra("pgmpy", "handover", "DAG.to_pgmpy") from error
    network = LinearGaussianBayesianNetwork()
    network.add_nodes_from(dag.names)
    arcs = dag._arcs()
    names = dag.names
    network.add_edges_from(
        (names[i], names[j]) for i, j in zip(arcs.source.tolist(), arcs.target.tolist())
    )
    noise = dag.node_data.get("noise_variance")
    if noise is None:
        return network
    mean = dag.node_data.get("mean", np.zeros(dag.n_nodes))
    # A variable is its own constant and its parents' values times their weights.
    constant = mean - dag.weights.T @ mean
    W = dag.weights
    for v, name in enumerate(names):
        parents = slice(W.indptr[v], W.indptr[v + 1])
        network.add_cpds(
            LinearGaussianCPD(
                name,
                [float(constant[v]), *W.data[parents].tolist()],
                float(np.sqrt(noise[v])),
                [names[i] for i in W.indices[parents]],
            )
        )
    return network


def to_pywhy(dag: DAG) -> Any:
    """Return a pywhy-graphs ``CPDAG``; see :meth:`bigdag.DAG.to_pywhy`."""
    try:
        from pywhy_graphs import CPDAG
    except ImportError as error:
        raise missing_extra("pywhy_graphs", "handover", "DAG.to_pywhy") from error
    graph = CPDAG()
    graph.add_nodes_from(dag.names)
    arcs = dag._arcs()
    open_arcs = np.zeros(dag.n_arcs, dtype=bool) if arcs.reversible is None else arcs.reversible
    names = dag.names
    for i, j, is_open in zip(arcs.source.tolist(), arcs.target.tolist(), open_arcs.tolist()):
        kind = graph.undirected_edge_name if is_open else graph.directed_edge_name
        graph.add_edge(names[i], names[j], kind)
    return graph
