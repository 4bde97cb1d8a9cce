"""The objects of other packages that these pages link to, as inventories that intersphinx reads.

Their own inventories would have to be fetched at every build. These hold what is named here and no
more, so that a name that is not in the list is a warning, with or without a network.
"""

from __future__ import annotations

import zlib
from pathlib import Path

OBJECTS = {
    "numpy": (
        "https://numpy.org/doc/stable",
        {
            "numpy.ndarray": ("class", "reference/generated/numpy.ndarray.html"),
            "numpy.random.Generator": ("class", "reference/random/generator.html"),
        },
    ),
    "scipy": (
        "https://docs.scipy.org/doc/scipy",
        {
            "scipy.sparse.csc_array": (
                "class",
                "reference/generated/scipy.sparse.csc_array.html",
            ),
        },
    ),
    "pandas": (
        "https://pandas.pydata.org/docs",
        {"pandas.DataFrame": ("class", "reference/api/pandas.DataFrame.html")},
    ),
    "sklearn": (
        "https://scikit-learn.org/stable",
        {
            "sklearn.base.BaseEstimator": (
                "class",
                "modules/generated/sklearn.base.BaseEstimator.html",
            ),
            "sklearn.pipeline.make_pipeline": (
                "function",
                "modules/generated/sklearn.pipeline.make_pipeline.html",
            ),
        },
    ),
    "networkx": (
        "https://networkx.org/documentation/stable",
        {"networkx.DiGraph": ("class", "reference/classes/digraph.html")},
    ),
}


def mapping(folder: Path) -> dict[str, tuple[str, str]]:
    """Write the inventories into a folder, and return what ``intersphinx_mapping`` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for package, (address, objects) in OBJECTS.items():
        lines = [f"{name} py:{role} 1 {page}#{name} -\n" for name, (role, page) in objects.items()]
        head = (
            "# Sphinx inventory version 2\n"
            f"# Project: {package}\n# Version: stable\n"
            "# The remainder of this file is compressed using zlib.\n"
        )
        path = folder / f"{package}.inv"
        path.write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
        found[package] = (address, str(path))
    return found
