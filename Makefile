# `make` lists the commands.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 4
CASES ?= tests/data/pulsar-cases.json
N ?= 100
SEED ?= 0

# Every process of a test run would compile Evenkeel again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup java browser demo check test lint types contracts quick unit cases bench-plan bench-apply bench-start bench-audit faults matrix audit mutants format docs lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: java $(STAMP) ## create .venv with the locked versions, and check for Java
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "ready; to put evenkeel on your path: source $(VENV)/bin/activate",true)

$(STAMP): requirements.lock pyproject.toml infra/setup/venv
	@PYTHON="$(PYTHON)" bash infra/setup/venv "$(VENV)"
	@touch $@

java:
	@bash infra/setup/java

browser:
	@bash infra/setup/browser .evenkeel/browser

demo: setup ## rebalance a simulated cluster from end to end with a real Airflow, Spark and ZooKeeper
	@$(BIN)/evenkeel demo $(ARGS)

check: setup ## lint, types, contracts and all tests without a server or JVM: under two minutes
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types quick
	@$(MAKE) --no-print-directory lint contracts

test: setup lint types contracts unit ## lint, types, contracts and all tests, with coverage: what CI runs

lint: setup ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy, strict
	$(BIN)/mypy plugins spark benchmarks dags

contracts: setup ## import contracts between packages
	$(BIN)/lint-imports

quick: setup ## the tests without a server or JVM
	$(BIN)/pytest --quiet -m quick -n 4 $(TESTS)

unit: setup browser ## all tests, with coverage, in WORKERS processes
	$(BIN)/coverage erase
	EVENKEEL_TEST_COVERAGE=1 $(BIN)/pytest -n $(WORKERS) $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover | tail -n 40

cases: setup ## replay recorded decisions of Pulsar's own classes: make cases CASES=FILE
	@$(BIN)/python tests/support/pulsar_cases.py "$(CASES)"

bench-plan: setup ## compare plans with their bounds and with Pulsar's shedders: make bench-plan ARGS=--quick
	@$(BIN)/python -m benchmarks.plan $(ARGS)

bench-apply: setup ## compare the guarded writer's speed with a bare loop of writes
	@$(BIN)/python -m benchmarks.apply $(ARGS)

bench-start: setup ## compare the time of plan, move, check and --help with bare programs
	@$(BIN)/python -m benchmarks.start $(ARGS)

bench-audit: setup ## audit three windows on a fleet whose messages cost different cpu by namespace: the error must shrink
	@$(BIN)/python -m benchmarks.audit $(ARGS)

faults: setup ## inject faults into runs of the guarded writer: make faults N=1000 [SEED=0] [CASE="…"]
	@PYTHONPATH=tests $(BIN)/python -m faults --runs $(N) --seed $(SEED) $(if $(CASE),--case "$(CASE)") $(ARGS)

audit: setup ## check the locked packages for known vulnerabilities; needs PyPI or OSV
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python infra/audit/audit.py

mutants: setup ## make the writer unsafe in one way after the other, and print what has caught each
	@PYTHONPATH=tests $(BIN)/python -m faults.hunt $(ARGS)

matrix: setup ## run a full cycle on real brokers of every supported version and kind, and write it down: about an hour
	@PYTHONPATH=tests $(BIN)/python -m matrix $(ARGS); code=$$?; $(BIN)/python docs/generate.py; exit $$code

format: setup ## format the code and apply ruff's fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## generate docs/reference from the code
	$(BIN)/python docs/generate.py

lock: setup ## resolve dependencies again into requirements.lock: versions and hashes only
	$(BIN)/uv pip compile pyproject.toml --extra dev --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --output-file requirements.lock

clean: ## remove what setup and runs created
	rm -rf $(VENV) .evenkeel .mypy_cache .ruff_cache .pytest_cache .coverage .coverage.*
