# Everything runs in .venv, made on first use with Python >= 3.11. Each target installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --constraint constraints.txt
JOBS ?= 2
SINGLE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.DEFAULT_GOAL := help
.PHONY: help demo test coverage fuzz test-slow lint bench bench-peers docs release-check examples hashes clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit("counterplay needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/base: $(VENV)/made pyproject.toml constraints.txt
	@echo "installing counterplay into $(VENV) ..."
	$(PIP) --editable .
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml constraints.txt
	@echo "installing counterplay with everything the tests need into $(VENV) ..."
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/slow: $(VENV)/dev
	$(PIP) --editable '.[dev,ray]'
	@touch $@

demo: $(VENV)/base ## run the quick studies of all areas and write build/report.html and build/audit.html
	$(BIN)/counterplay audit demo -o build/audit.html
	$(BIN)/counterplay report --run --refresh --scale quick --jobs $(JOBS)

test: $(VENV)/dev ## all tests, doctests and examples; what lint checks and the site, too
	$(SINGLE) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" --require-claims --durations 30 \
	  -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

coverage: $(VENV)/dev ## the same tests, slower, with a table of lines that none of them runs
	$(SINGLE) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" \
	  --cov --cov-report=term:skip-covered

fuzz: $(VENV)/dev ## hostile inputs, states, stores, replies and kills; prints the table of failures
	$(SINGLE) $(BIN)/python -m tests.zoo
	$(SINGLE) $(BIN)/python -m tests.fuzz --jobs $(JOBS)

test-slow: $(VENV)/slow ## long studies and cluster tests
	$(SINGLE) $(BIN)/python -m pytest -m slow

lint: $(VENV)/dev ## ruff, mypy --strict, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev ## side by side with the alternatives; prints ratios from one run
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(SINGLE) $(BIN)/python $$script || exit 1; done

bench-peers: ## every benchmark beside every peer that installs; writes benchmarks/results.jsonl
	$(SINGLE) $(PYTHON) benchmarks/peers.py

docs: $(VENV)/dev ## build the site of this version into site/VERSION
	$(BIN)/python docs/versions.py

release-check: $(VENV)/dev ## build, check and try out what a release would upload; needs a package index
	$(SINGLE) $(BIN)/python tools/release_check.py

examples: $(VENV)/dev ## run the examples and keep what they print and draw for their pages
	$(SINGLE) $(BIN)/python docs/render_examples.py

hashes: $(VENV)/made ## pin the base dependencies of a release with their hashes
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --constraint constraints.txt --generate-hashes --universal \
	  --python-version 3.11 --no-emit-index-url --no-annotate --no-header --quiet -o requirements-release.txt

clean: ## remove what the other targets made
	rm -rf $(VENV) .venv-peers .venv-peers-apart build dist site .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
