# `make run` and `make test` set up everything themselves; they need only Python 3.11, 3.12 or 3.13 and Git.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# uv has the version and hash of requirements.lock. pip does the same but takes four times as long, and reads pip.conf:
# `make INSTALL=".venv/bin/pip install"`. Byte code is left to the first import, because a run needs a quarter of all
# modules, unless an import must not write it. Set UV_COMPILE_BYTECODE=1 if who runs it cannot write to .venv.
INSTALL ?= $(if $(PYTHONDONTWRITEBYTECODE),UV_COMPILE_BYTECODE=1) $(BIN)/uv pip install --python $(BIN)/python
LOCKED := --quiet --no-deps --require-hashes
BENCH := benchmarks/.venv
MUTATION := tests/mutants/.packages

.PHONY: run test test-all mutants gallery serve deploy verify bench check format release audit lock lock-bench lock-audit \
  environment

# Real handwritten digits through ingest, train, validate and export.
run: $(READY)
	$(BIN)/tapeline run --pipeline digits

test: $(READY)
	$(BIN)/pytest -n 3 -m "not slow"

# Also the slow tests and those too long for CI: kills at random moments, fresh clones, larger-than-RAM data, each recipe
# in every mode.
test-all: $(READY)
	$(BIN)/pytest -n 3 -m "not alone"
	$(BIN)/pytest -m alone

# Whether the fast tests detect what they should: 100 small changes to the source, one at a time. About an hour on an idle
# machine with two cores. `make mutants MUTANTS="--seed 7 --count 20 --only registry/gate/decision.py"` runs a part of it.
MUTANTS ?=
mutants: $(MUTATION)/ready
	PYTHONPATH=$(MUTATION) $(BIN)/python -m tests.mutants $(MUTANTS)

# Build every pipeline of the gallery that needs no network, and its page.
gallery: $(READY)
	cd gallery && ../$(BIN)/tapeline repair
	cd gallery && targets=$$(../$(BIN)/tapeline list --offline --targets) && ../$(BIN)/dvc --wait-for-lock repro $$targets
	$(BIN)/python gallery/page.py

# What prefect.yaml schedules, on this machine: a server on http://127.0.0.1:4200 if none is running, until Ctrl-C.
serve: $(READY)
	$(BIN)/tapeline serve

# Update the server of PREFECT_API_URL to match prefect.yaml; `prefect worker start --pool tapeline` then runs it.
deploy: $(READY)
	$(BIN)/tapeline deploy

# Rebuild HEAD in a temporary clone and compare every output with dvc.lock.
verify: $(READY)
	$(BIN)/tapeline verify

# Tapeline against its peers, all workloads: hours. `make bench BENCHMARKS="mlp --repeats 3"` runs one of them.
BENCHMARKS ?=
bench: $(BENCH)/ready
	$(BENCH)/bin/python -m benchmarks.run $(BENCHMARKS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/tapeline lock --check
	cd gallery && ../$(BIN)/tapeline lock --check
	@for project in . gallery; do \
	  cd "$(CURDIR)/$$project"; \
	  targets=$$("$(CURDIR)/$(BIN)/tapeline" list --offline --targets); \
	  plan=$$("$(CURDIR)/$(BIN)/dvc" repro --dry --allow-missing $$targets 2>&1) && ! grep '^Running stage' <<< "$$plan" || \
	    { tail -n 1 <<< "$$plan"; echo "$$project/dvc.lock is stale against the code or params.yaml: rebuild and commit it"; exit 1; }; \
	done

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Wheel, source distribution and bill of materials (CycloneDX), the same bytes on every machine.
release: $(READY)
	rm -rf dist
	$(BIN)/python -P -m hatchling build -d dist
	for wheel in dist/*.whl; do $(BIN)/python -m release.sbom "$$wheel" > "$${wheel%-py3-none-any.whl}.cdx.json"; done
	cd dist && sha256sum * > SHA256SUMS

# Look up known advisories for what is locked. The program exits with 1 if there are any, and with 3 if it could not check
# everything; make exits with 2 for either. `make audit AUDIT="--vulnerability-service osv"` asks another service.
AUDIT ?=
audit: $(READY)
	@$(BIN)/python -m release.audit $(AUDIT)

# Without its interpreter, which an upgrade of the system may have removed, .venv is made again.
$(shell [[ -x $(BIN)/python || -L .venv ]] || rm -f $(READY))

# One at a time: a second `make` waits for the first.
$(READY): requirements.lock pyproject.toml
	@exec 9>> $<; ! command -v flock > /dev/null || flock -n 9 || { echo "another make sets up .venv: waiting for it"; flock 9; }; \
	[[ $@ -nt $< && $@ -nt pyproject.toml ]] || $(MAKE) --no-print-directory environment

# Without the mark an earlier call was ended on its way: what it left counts as installed and lacks files, so it goes.
environment:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "tapeline needs Python 3.11, 3.12 or 3.13; %s is %s: make PYTHON=python3.12 ..." % (sys.executable, sys.version.split()[0]))'
	@[[ ! -L .venv ]] || { echo ".venv is a link, and the folder behind it would be changed: remove the link first"; exit 2; }
	$(PYTHON) -m venv $(if $(wildcard $(READY)),,--clear) .venv
	@rm -f $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check $(LOCKED) -r <(awk '/^[^ ]/ { uv = /^uv==/ } uv' requirements.lock)
	$(INSTALL) $(LOCKED) -r requirements.lock
	$(INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)

# The peers see the project's packages and add their own. BENCH_PIP: more options for pip, such as the index of PyTorch's
# CPU-only builds; without it, on Linux x86-64, PyTorch's contenders are left out.
BENCH_PIP ?=
BENCH_INSTALL = $(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes $(BENCH_PIP)
$(BENCH)/ready: $(READY) benchmarks/requirements.lock
	$(BIN)/python -m venv --clear $(BENCH)
	$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$($(BENCH)/bin/python -c 'import site; print(site.getsitepackages()[0])')/project.pth"
	$(BENCH_INSTALL) -r <(sed '/^torch==/,$$d' benchmarks/requirements.lock)
	$(BENCH_INSTALL) -r <(sed -n '/^torch==/,$$p' benchmarks/requirements.lock) || \
	  echo "no PyTorch, so its contenders are left out: benchmarks/NOTES.md says how to name the index that has it"
	@touch $@

# Installed beside the project's packages, and visible only to `make mutants`.
$(MUTATION)/ready: $(READY) tests/mutants/requirements.lock
	rm -rf $(MUTATION)
	$(INSTALL) $(LOCKED) --target $(MUTATION) -r tests/mutants/requirements.lock
	@touch $@

# Resolve the newest versions that pyproject.toml allows, with hashes and without an index address. Then check what
# `python -m release.licences` says about the licences.
lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --upgrade --output-file requirements.lock

# The benchmarks' peers. uv gives no hash for a file in a local folder (UV_FIND_LINKS), so PyTorch's is inserted here.
TORCH_CPU := 6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
lock-bench: $(READY)
	$(BIN)/uv pip compile --group bench --no-deps --constraint requirements.lock --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --upgrade \
	  --output-file benchmarks/requirements.lock
	sed -i -E 's/^(torch==.*\+cpu [^\]*[^\ ])$$/\1 \\\n    --hash=sha256:$(TORCH_CPU)/' benchmarks/requirements.lock

# pip-audit, which `make audit` installs beside the project.
lock-audit: $(READY)
	echo pip-audit | $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate --upgrade --output-file release/audit.lock
