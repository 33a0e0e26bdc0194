# One-word verbs; `make` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CASES ?= tests/data/pulsar-cases.json
N ?= 100
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup java demo test lint types contracts unit cases bench-plan bench-apply faults format docs lock clean

help: ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: java $(STAMP) ## make .venv with the locked versions, and look for Java

$(STAMP): requirements.lock pyproject.toml infra/setup/venv
	@PYTHON="$(PYTHON)" bash infra/setup/venv "$(VENV)"
	@touch $@

java:
	@bash infra/setup/java

demo: setup ## rebalance a simulated cluster, all the way, with a real Airflow, Spark and ZooKeeper
	@$(BIN)/evenkeel demo $(ARGS)

test: setup lint types contracts unit ## everything that must hold: lint, types, room contracts, tests with coverage

lint: setup ## ruff, rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy, strict
	$(BIN)/mypy plugins/evenkeel spark/evenkeel_spark infra/bench infra/apply_bench

contracts: setup ## the rooms' import contracts
	$(BIN)/lint-imports

unit: setup ## the tests, with coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover | tail -n 40

cases: setup ## run concrete inputs with the outcome of Pulsar's real classes: make cases CASES=FILE
	@$(BIN)/python tests/support/pulsar_cases.py "$(CASES)"

bench-plan: setup ## hold the plans against bounds, Pulsar's shedders, time and memory: make bench-plan ARGS=--quick
	@$(BIN)/python -m infra.bench $(ARGS)

bench-apply: setup ## hold the guarded writer's speed against a bare loop of writes, in one run
	@$(BIN)/python -m infra.apply_bench $(ARGS)

faults: setup ## break runs of the guarded writer and judge their histories: make faults N=1000 [SEED=0]
	@PYTHONPATH=tests $(BIN)/python -m faults --runs $(N) --seed $(SEED) $(ARGS)

format: setup ## let ruff format and mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write docs/reference anew from the code
	$(BIN)/python infra/docs/generate.py

lock: setup ## choose versions anew: requirements.lock, versions and hashes only
	$(BIN)/uv pip compile pyproject.toml --extra dev --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --output-file requirements.lock

clean: ## remove what setup and runs left behind
	rm -rf $(VENV) .evenkeel .mypy_cache .ruff_cache .pytest_cache .coverage .coverage.*
