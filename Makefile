# Two commands matter: `make demo` and `make test`. Both start from nothing but Python >= 3.11.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3,11) <= sys.version_info < (3,15))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
PACKAGE_VENV := .venv-package
PACKAGE_BIN := $(PACKAGE_VENV)/bin
E2E_VENV := .venv-e2e
E2E_BIN := $(E2E_VENV)/bin
PORT := 4566

.PHONY: demo test lint format conformance interop bench package-test e2e emulator setup clean

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

# The deployment, as far as it can be proven without an account: templates, build, package, container. The credentials
# are none; the SAM CLI only wants some to be there.
package-test: export SAM_CLI_TELEMETRY = 0
package-test: export AWS_DEFAULT_REGION = us-east-1
package-test: export AWS_ACCESS_KEY_ID = none
package-test: export AWS_SECRET_ACCESS_KEY = none
package-test: $(PACKAGE_VENV)/.ready
	$(PACKAGE_BIN)/cfn-lint template.yaml infra/fargate.yaml
	$(PACKAGE_BIN)/sam validate --lint
	PYTHON=$(abspath $(PACKAGE_BIN)/python) $(PACKAGE_BIN)/sam build
	$(PACKAGE_BIN)/python -m tests.package.package
	PACKAGE_TEST=1 $(PACKAGE_BIN)/python -m pytest tests/package $(PYTEST_ARGS)

# The same template deployed to an AWS on this machine, and called. Three environments, since their versions do not
# agree: the tests', the SAM CLI's, the emulator's.
e2e: export SAM_CLI_TELEMETRY = 0
e2e:
	@$(MAKE) --no-print-directory -j 3 $(VENV)/.test $(PACKAGE_VENV)/.ready $(E2E_VENV)/.ready
	ADAPTER_BUILD=native PYTHON=$(abspath $(E2E_BIN)/python) $(PACKAGE_BIN)/sam build --build-dir .aws-sam/e2e
	E2E_TEST=1 $(BIN)/python -m pytest tests/deployed $(PYTEST_ARGS)

emulator: $(VENV)/.local $(PACKAGE_VENV)/.ready $(E2E_VENV)/.ready
	@$(E2E_BIN)/python -m tests.deployed.emulator --port $(PORT)

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

$(PACKAGE_VENV)/.ready: tests/package/constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 is needed; set PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(PACKAGE_VENV)
	$(PACKAGE_BIN)/python -m pip install --quiet --disable-pip-version-check -c tests/package/constraints.txt \
		aws-sam-cli cfn-lint packaging pytest pytest-asyncio PyYAML
	@touch $@

$(E2E_VENV)/.ready: tests/deployed/constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 is needed; set PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(E2E_VENV)
	$(E2E_BIN)/python -m pip install --quiet --disable-pip-version-check -c tests/deployed/constraints.txt \
		ministack aws-sam-translator boto3 mcp-proxy-for-aws uvicorn
	@touch $@

clean:
	rm -rf $(VENV) $(PACKAGE_VENV) $(E2E_VENV) .aws-sam .interop .node .coverage* htmlcov .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache
