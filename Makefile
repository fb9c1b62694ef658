# `make run` and `make test` set up everything from nothing; all they need is Python 3.11, 3.12 or 3.13 and Git.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: run test test-all gallery serve deploy verify check format lock

# Real handwritten digits through ingest, train, validate and export.
run: $(READY)
	$(BIN)/python -m flows.training --pipeline digits

test: $(READY)
	$(BIN)/pytest -n 2 -m "not slow"

# The slow tests too: kills at random moments, fresh clones, larger-than-RAM data.
test-all: $(READY)
	$(BIN)/pytest -n 2

# Every pipeline of the gallery that needs no network, and its page.
gallery: $(READY)
	cd gallery && ../$(BIN)/tapeline repair
	cd gallery && ../$(BIN)/dvc --wait-for-lock repro $$(../$(BIN)/tapeline list --offline --targets)
	$(BIN)/python gallery/page.py

# What prefect.yaml schedules, on this machine: a server on http://127.0.0.1:4200 if none is running, until Ctrl-C.
serve: $(READY)
	$(BIN)/python -m flows.serve

# Bring the server of PREFECT_API_URL to prefect.yaml; `prefect worker start --pool tapeline` runs it then.
deploy: $(READY)
	$(BIN)/python -m flows.deploy

# Rebuild HEAD in a temporary clone and compare every out with dvc.lock.
verify: $(READY)
	$(BIN)/tapeline verify

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@plan=$$($(BIN)/dvc repro --dry --allow-missing); ! grep '^Running stage' <<< "$$plan" || \
	  { echo "dvc.lock is stale against the code or params.yaml: run \`dvc repro\` and commit it"; exit 1; }

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "tapeline needs Python 3.11, 3.12 or 3.13; %s is %s: make PYTHON=python3.12 ..." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Resolve the newest versions that pyproject.toml allows, with hashes and without an index address.
lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --upgrade --output-file requirements.lock
