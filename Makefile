# Every target makes what it needs in .venv; a second call finds it made. Begin with: make demo

PYTHON ?= python3
VENV := .venv
PIP = $(VENV)/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt
OUT := demo
RUNS := experiments

.DEFAULT_GOAL := help
.PHONY: help demo experiment test coverage lint bench browser clean

help:
	@echo "make demo        simulate 2,000 variables, learn their DAG, score it, draw it; into $(OUT)/"
	@echo "make experiment  run the paper's experiments, scaled to a laptop; into $(RUNS)/"
	@echo "make test        run all tests"
	@echo "make coverage    what the tests of the kernels reach, with the compiler switched off"
	@echo "make lint        ruff and mypy"
	@echo "make bench       run the benchmark of the engine"
	@echo "make clean       remove $(OUT)/, $(VENV)/ and what tools left behind"

demo: export PATH := $(abspath $(VENV)/bin):$(PATH)
demo: $(VENV)/.installed-plot
	@mkdir -p $(OUT)
	bigdag simulate --d 2000 --k 1 --n 1000 --seed 1 --out $(OUT)/world --force
	@echo
	bigdag fit $(OUT)/world/train.parquet --method proximas --time-limit 60 \
	  --out $(OUT)/dag.parquet --force
	@echo
	bigdag evaluate $(OUT)/dag.parquet --truth $(OUT)/world/truth.parquet \
	  --train $(OUT)/world/train.parquet --data $(OUT)/world/validation.parquet
	@echo
	bigdag show $(OUT)/dag.parquet --top 10
	@echo
	bigdag show $(OUT)/dag.parquet --threshold 0.3 --variable x132 --radius 2 \
	  --plot $(OUT)/x132.png --force

# Some methods need torch. Stopped and called again, it does what is missing.
experiment: $(VENV)/.installed-torch $(VENV)/.installed-experiments
	@mkdir -p $(RUNS)
	$(VENV)/bin/bigdag experiment plan all --preset laptop
	$(VENV)/bin/bigdag experiment run all --preset laptop --store $(RUNS)/runs.db
	$(VENV)/bin/bigdag experiment report $(RUNS)/runs.db --out $(RUNS)/report

test: $(VENV)/.installed-test
	$(VENV)/bin/python -m pytest $(ARGS)

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
	test -x $(VENV)/bin/pip || $(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	  $(PYTHON) -m pip --python $(VENV)/bin/python install -q pip; }
	$(VENV)/bin/python -m pip install -q -U pip
	@touch $@

$(VENV)/.installed-%: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e '.[$*]'
	@touch $@

.PRECIOUS: $(VENV)/.installed-%

clean:
	rm -rf $(OUT) $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
