# Two commands matter: `make demo` and `make test`. Both start from nothing but Python >= 3.11.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3,11) <= sys.version_info < (3,15))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.PHONY: demo test lint format conformance interop bench setup clean

demo: $(VENV)/.local
	$(BIN)/adapter tour

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=term --cov-fail-under=95 $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

conformance: $(VENV)/.test
	$(BIN)/python -m tests.conformance.run

interop: $(VENV)/.test
	$(BIN)/python -m tests.interop.run

bench: $(VENV)/.test
	$(BIN)/python -m bench.run

setup: $(VENV)/.test

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 is needed; set PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

$(VENV)/.local: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local,test]'
	@touch $@ $(VENV)/.local

clean:
	rm -rf $(VENV) .interop .node .coverage* htmlcov .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
