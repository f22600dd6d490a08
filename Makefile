# Every target does its own set-up: a virtual environment in .venv, made by Python >= 3.10.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 4

.PHONY: demo test lint types contracts docs bench clean

demo: $(VENV)/.demo
	$(BIN)/python sample_project/demo.py

test: lint types contracts
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.test
	$(BIN)/mypy

contracts: $(VENV)/.test
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -n -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.test $(VENV)/.bench
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/queue.py
	$(BIN)/python benchmarks/starvation.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/simulation.py --out benchmarks/results
	$(BIN)/python benchmarks/worst_seed.py --out benchmarks/results
	$(BIN)/python benchmarks/queueing.py --out benchmarks/results
	$(BIN)/python benchmarks/sweep.py --out benchmarks/results
	$(BIN)/python benchmarks/ablation.py --out benchmarks/results
	$(BIN)/python benchmarks/crawls/run.py --minutes 10 --out benchmarks/crawls/results

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e ".[$*]"
	touch $@

clean:
	rm -rf $(VENV) docs/_build sample_project/run .mypy_cache .ruff_cache .hypothesis
