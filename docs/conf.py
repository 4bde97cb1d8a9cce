"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpydoc.xref
from sphinx_gallery.sorting import FileNameSortKey

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import bigdag  # noqa: E402
import elsewhere  # noqa: E402

project = "bigdag"
author = "The bigdag developers"
copyright = "the bigdag developers"
version = release = bigdag.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    # Ours, in _ext:
    "command_pages",
    "explore_example",
    "markdown_paths",
    "names_in_backticks",
]
exclude_patterns = ["_build", "examples/*", "results/report/*", "gallery/*.ipynb"]
templates_path = ["_templates"]
nitpicky = True
suppress_warnings = ["config.cache"]  # FileNameSortKey is a class, which Sphinx cannot pickle

# Markdown
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# The pages of the library, from its docstrings
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings have the types, in words
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc.xref.DEFAULT_LINKS.clear()  # Python's own types need no link
numpydoc_xref_ignore = "all"  # only the words of this list become links
numpydoc_xref_aliases = {
    "DAG": "bigdag.DAG",
    "Dataset": "bigdag.Dataset",
    "Knowledge": "bigdag.Knowledge",
    "LinearModel": "bigdag.LinearModel",
    "DataFrame": "pandas.DataFrame",
    "Generator": "numpy.random.Generator",
    "ndarray": "numpy.ndarray",
    "csc_array": "scipy.sparse.csc_array",
}

# Links to other packages: the few objects that these pages name, listed in _ext/elsewhere.py, so
# that nothing is fetched while the site is built.
intersphinx_mapping = elsewhere.mapping(HERE / "_build" / "inventories")
intersphinx_disabled_reftypes = ["std:doc"]

# The gallery: every example is run
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": FileNameSortKey,
    "doc_module": ("bigdag",),
    "reference_url": {"bigdag": None},
    "backreferences_dir": None,
    "min_reported_time": 0,
    "show_memory": False,
    "thumbnail_size": (480, 336),
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "matplotlib_animations": False,
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# What it looks like
html_theme = "pydata_sphinx_theme"
html_title = "bigdag"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "changelog": []}
html_theme_options = {
    "logo": {"text": "bigdag"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
