# `make` alone lists the targets. Every target first makes what it needs.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := .venv/.stamp
CODE := src tests tools $(wildcard bench)
ARGS ?=

.PHONY: help setup fix check controlplane test coverage soak bench bench-kube demo docs

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP)  ## create the environment in .venv, exactly as locked

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Mooring needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --no-deps --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

fix: $(STAMP)  ## format, and the safe fixes of the linter
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

check: $(STAMP)  ## format, lint, types, layers, limits
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/python tools/limits.py

controlplane: $(STAMP)  ## find or build Kubernetes for the tests; the first time takes 10 minutes
	@$(BIN)/python tools/controlplane.py

test: $(STAMP) controlplane  ## the whole suite, in parallel; ARGS="-k name" for a part
	$(BIN)/python -m pytest -n 2 $(ARGS)

coverage: $(STAMP) controlplane  ## the same, with a table of what no test has run; it takes twice as long
	$(BIN)/python -m pytest -n 2 --cov $(ARGS)

soak: $(STAMP) controlplane  ## the long profiles: properties, faults, fuzz
	MOORING_PROFILE=night $(BIN)/python -m pytest -n 2 -m "soak or not soak" $(ARGS)

bench: $(STAMP)  ## benchmarks: a table and build/bench.json
	$(BIN)/python -m bench $(ARGS)

bench-kube: $(STAMP) controlplane  ## the same on a real API server, beside kube-scheduler: build/bench-kube.json; a quarter of an hour
	$(BIN)/python -m bench.kube $(ARGS)

demo: $(STAMP)  ## a day of a lab under three policies, and its report; half a minute
	@mkdir -p build
	$(BIN)/mooring demo --report build/demo.html $(ARGS)

docs: $(STAMP)  ## build and check the manual
	$(BIN)/python tools/docs.py
