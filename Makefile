# Every target makes what it needs in .venv; a second call finds it made. Begin with: make demo

PYTHON ?= python3
VENV := .venv
PIP = $(VENV)/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt
OUT := demo
RUNS := experiments

.DEFAULT_GOAL := help
.PHONY: help demo docs experiment test coverage lint bench browser release-check clean

help:
	@echo "make demo        simulate a table as real ones are, check it, learn its DAG, score it, make its page; into $(OUT)/"
	@echo "make experiment  run the paper's experiments, scaled to a laptop; into $(RUNS)/"
	@echo "make docs        build the documentation, run its examples, check its links; into docs/_build/html/"
	@echo "make test        run all tests"
	@echo "make coverage    what the tests of the kernels reach, with the compiler switched off"
	@echo "make lint        ruff and mypy"
	@echo "make bench       run the benchmark of the engine"
	@echo "make release-check  build wheel and sdist into dist/, and look at both"
	@echo "make clean       remove $(OUT)/, $(VENV)/ and what tools left behind"

demo: export PATH := $(abspath $(VENV)/bin):$(PATH)
demo: $(VENV)/.installed-plot
	@mkdir -p $(OUT)
	@echo "1. A table as real ones are: 300 columns in mixed units, 500 rows, outliers, holes. Its graph is known."
	bigdag simulate --d 300 --k 1 --n 500 --variance NV --mixed-units --outliers 0.005 \
	  --missing 0.02 --seed 1 --out $(OUT)/world --force
	@echo
	@echo "2. What is odd in it?"
	bigdag check $(OUT)/world/train.parquet
	@echo
	@echo "3. Learn its graph, from the table and from up to 100 resamples of its rows. The first time compiles for some ten seconds."
	bigdag fit $(OUT)/world/train.parquet --out $(OUT)/dag.parquet --page $(OUT)/dag.html --force
	@echo
	@echo "4. Is it right? Against the graph that the table came from:"
	bigdag evaluate $(OUT)/dag.parquet --truth $(OUT)/world/truth.parquet --threshold 0
	@echo
	@echo "5. The same table for ProxiMAS, a method that reads variances and is misled by units:"
	bigdag fit $(OUT)/world/train.parquet --method proximas --missing pairwise --time-limit 10 \
	  --threshold auto --out $(OUT)/proximas.parquet --force
	@echo
	bigdag evaluate $(OUT)/proximas.parquet --truth $(OUT)/world/truth.parquet --threshold 0
	@echo
	@echo "6. What the two agree on:"
	bigdag compare $(OUT)/dag.parquet $(OUT)/proximas.parquet --top 5
	@echo
	@echo "Open this page in a browser to explore the graph: $(abspath $(OUT))/dag.html"

# Some methods need torch. Stopped and called again, it does what is missing.
experiment: $(VENV)/.installed-torch $(VENV)/.installed-experiments
	@mkdir -p $(RUNS)
	$(VENV)/bin/bigdag experiment plan all --preset laptop
	$(VENV)/bin/bigdag experiment run all --preset laptop --store $(RUNS)/runs.db
	$(VENV)/bin/bigdag experiment report $(RUNS)/runs.db --out $(RUNS)/report

# Any warning ends it. An example is run when it is new or was edited; make clean forgets all runs.
docs: $(VENV)/.installed-docs
	$(VENV)/bin/python -m sphinx -n -W --keep-going -q docs docs/_build/html
	$(VENV)/bin/python docs/check_links.py docs/_build/html
	@echo "The documentation is in docs/_build/html/index.html"

release-check: $(VENV)/.installed-release $(VENV)/.installed-test
	rm -rf dist
	$(VENV)/bin/python -m build --no-isolation --outdir dist .
	$(VENV)/bin/twine check --strict dist/*
	BIGDAG_DIST=dist $(VENV)/bin/python -m pytest tests/test_wheel.py

# Tests start many processes, which begin sooner from compiled modules.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.installed-test
	$(VENV)/bin/python -m pytest -n 2 --no-loadscope-reorder $(ARGS)

# The tests of the page need a browser.
ifneq ($(wildcard tests/test_report_page.py),)
test: browser
endif

# With the compiler switched off, so that the lines of the kernels count. Some three minutes.
coverage: $(VENV)/.installed-dev
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest tests/test_lasso.py tests/test_insertion.py \
	  tests/test_acyclic.py tests/test_orders.py tests/test_moves.py \
	  --cov=bigdag.engine --cov=bigdag.search --cov=bigdag.graph $(ARGS)

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(VENV)/.installed-test
	$(VENV)/bin/python benchmarks/engine.py $(ARGS)

# Debian's chromium, where there is none and this user may install it; else the tests skip.
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	{ test "$$(id -u)" = 0 && command -v apt-get && \
	  { apt-get update -qq; DEBIAN_FRONTEND=noninteractive \
	    apt-get install -qq -y --no-install-recommends chromium; }; } >/dev/null 2>&1 || true

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bigdag needs Python 3.11 \
	or later. Name one: make PYTHON=python3.12")'
	@# Where Debian left ensurepip out of Python, the pip outside puts one into the environment.
	@echo "Making an environment in $(VENV)/ ..."
	@test -x $(VENV)/bin/pip || $(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	  $(PYTHON) -m pip --python $(VENV)/bin/python install -q pip; }
	@$(VENV)/bin/python -m pip install -q -U pip
	@touch $@

# Tests import a part of what they install, and compile that part as they import it.
$(VENV)/.installed-%: $(VENV)/.made pyproject.toml constraints.txt
	@if test '$*' = test -a $(VENV)/.installed-dev -nt pyproject.toml -a \
	  $(VENV)/.installed-dev -nt constraints.txt; then true; else \
	  echo "Installing bigdag and what '$*' needs into $(VENV)/: a minute or two, once ..."; \
	  $(PIP) $(if $(filter dev test,$*),--no-compile) -e '.[$*]'; fi
	@touch $@

.PRECIOUS: $(VENV)/.installed-%

clean:
	rm -rf $(OUT) $(VENV) build dist docs/_build docs/gallery docs/generated docs/command.md .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
