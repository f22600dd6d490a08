# Every target does its own set-up: a virtual environment in .venv, made by Python >= 3.10.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compiled tests are kept: each of the processes would compile them anew.
unexport PYTHONDONTWRITEBYTECODE
# More tests at a time than processors: most of them wait for crawls.
JOBS ?= 6

.PHONY: demo test soak test-scrapy lint types contracts docs bench clean

demo: $(VENV)/.demo
	$(BIN)/python sample_project/demo.py

test: lint types contracts
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# What chance decides, more often than `make test` has time for.
soak: $(VENV)/.test
	SOAK_KILLS=10 $(BIN)/python -m pytest -q -s tests/acceptance/test_journal.py -k killed
	SOAK_KILLS=20 SOAK_PAGES=3000 SOAK_STOPS=20 SOAK_LEASE=10 $(BIN)/python -m pytest -q -s \
		-o timeout=3000 tests/acceptance/test_killed.py tests/acceptance/test_workers.py
	SOAK_OUTAGE=60 SOAK_RECRAWLED=3000 $(BIN)/python -m pytest -q -s -o timeout=3000 \
		tests/acceptance/test_frontier_troubles.py tests/acceptance/test_recrawls.py \
		-k "restarted or only_what_has_changed"
	SOAK_KILLS=10 SOAK_PAGES=3000 $(BIN)/python -m pytest -q -s -o timeout=3000 \
		tests/acceptance/test_redis_faults.py -k "killed or join"
	RULES_AWAY=60 RULES_ASLEEP=60 RULES_DRAWN=10000 $(BIN)/python -m pytest -q -s -o timeout=900 \
		tests/acceptance/test_rules_lost.py tests/acceptance/test_rules.py tests/rules/test_reading.py \
		-k "stalls_nothing or costs_the_others or chance"
	QUOTA_HITS=500 QUOTA_SECONDS=120 QUOTA_KILLS=10 $(BIN)/python -m pytest -q -s \
		tests/rules/test_quotas.py -k never_overspent

# Scrapy's own tests, from its source distribution, with the add-on switched on.
test-scrapy: $(VENV)/.test $(VENV)/.test-scrapy
	$(BIN)/python -m tests.scrapys_own.run --jobs 4

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

# One that misses its bound does not keep the others from running; the whole fails in the end.
bench: $(VENV)/.test $(VENV)/.bench
	@failed=; \
	for it in overhead meters queue_cost "journal_size --out benchmarks/results" journal_cost starvation "step --out benchmarks/results" \
		"simulation --out benchmarks/results" "worst_seed --out benchmarks/results" \
		"queueing --out benchmarks/results" "sweep --out benchmarks/results" \
		"ablation --out benchmarks/results" \
		"random_servers --seed 712 --count 300 --laws hold --rows --pages 100000000 --out benchmarks/results" \
		"shared_limit --drawn 1 --seed 77 --out benchmarks/results" \
		"known_limits --out benchmarks/results" rules_cost \
		"known_limits_crawls --minutes 10 --out benchmarks/results" \
		"memory --out benchmarks/results" "handing_over --out benchmarks/results" \
		"simulated_workers --minutes 60 --out benchmarks/results" \
		frontier frontier_cost frontier_workers redis_frontier redis_trips \
		"beside_stock --seed 112727 --shapes 16 --out benchmarks/results" \
		"crawls/run --minutes 10 --out benchmarks/crawls/results"; do \
		set -- $$it; name=benchmarks/$$1.py; shift; echo "$$name $$*"; \
		$(BIN)/python $$name "$$@" || failed="$$failed $$name"; \
	done; \
	test -z "$$failed" || { echo "failed, or missed a bound:$$failed"; exit 1; }

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e ".[$*]"
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build sample_project/run .mypy_cache .pytest_cache .ruff_cache .hypothesis
