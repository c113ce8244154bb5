# Every target creates .venv when it is missing and installs what it needs; a second run starts at once.
# Another interpreter: make PYTHON=python3.13 test

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
PYTEST := $(PY) -m pytest -n auto --dist loadgroup
METADATA := pyproject.toml omnigraph_sql/_version.py
GOLDEN := tests/golden/test_golden.py
STORE_SUITES := tests/invariants tests/crash tests/concurrency tests/unit/writes tests/property/test_writes.py tests/s3 \
	$(GOLDEN)::test_write $(GOLDEN)::test_load_larger_than_memory $(GOLDEN)::test_read_another_way
TYPED := compiler/omnigraph_compiler udfs/omnigraph_udfs omnigraph_sql ogsql pyspark_omnigraph tests bench

.DEFAULT_GOAL := help
.PHONY: help demo check test test-all test-s3 test-s3-all lint format grammar reference bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## a first look: run the quickstart example
	@$(PY) examples/quickstart/demo.py

check: lint ## lint, types and a slice of every family of tests, in a few minutes
	$(PYTEST) --tier check

test: $(VENV)/.installed-dev ## every family of tests, engine and invariant
	$(PYTEST) --tier test

test-all: $(VENV)/.installed-dev ## everything, the long set included
	$(PYTEST) --tier all

test-s3: $(VENV)/.installed-dev ## the store suites with their graphs on an S3 emulator; slow
	$(PY) -m pytest -n auto -m "not slow" --store s3 $(STORE_SUITES)

test-s3-all: $(VENV)/.installed-dev ## the same with the long set
	$(PY) -m pytest -n auto --store s3 $(STORE_SUITES)

lint: $(VENV)/.installed-dev ## style, types and import directions
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy $(TYPED)
	$(VENV)/bin/lint-imports

format: $(VENV)/.installed-dev ## rewrite the Python files in the project's style
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

grammar: $(VENV)/.installed-dev ## rebuild the parser tables after editing a grammar
	$(PY) -c 'from omnigraph_compiler.tables import write_tables; write_tables()'

reference: $(VENV)/.installed-dev ## rewrite the page of the Python API after editing a docstring
	$(PY) -m tests.docs.python_api

bench: $(VENV)/.installed-bench ## measure speed against other systems
	$(PY) -m bench

docs: $(VENV)/.installed-dev ## build the documentation into site/
	$(PY) -m mkdocs build --strict

clean: ## remove everything the other targets made, .venv included
	rm -rf $(VENV) site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "omnigraph-sql needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Name another interpreter, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created $(METADATA)
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --quiet --editable ".[dev]"
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	$(PIP) install --quiet --editable ".[dev,bench]"
	@touch $@
