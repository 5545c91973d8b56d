# Everything a developer does here, by name. Needs make and Python 3.11 or newer with venv and pip; the rest is
# installed into .venv, which is this Makefile's own: no activated environment is needed, and none is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
REPOSITORY := deploy/models
ARGS ?=
PROCESSES ?= 0
PEER ?= mlserver

# What the two kinds of work install. A stamp is as new as the pyproject.toml that it was installed from.
ENVIRONMENT := $(VENV)/.environment
RUNTIME := $(VENV)/.runtime
TOOLS := $(VENV)/.tools

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo serve check format-check lint types proto-lint image-lint test format coverage bench bench-peer programs soak fuzz versions proto proto-baseline image clean

help: ## List these targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## Start a server, classify the bundled photos in four ways, stop it again
	@$(BIN)/inferwire demo --models $(REPOSITORY) --photos deploy/images $(ARGS)

serve: $(RUNTIME) ## Serve the example models: HTTP on 8000, gRPC on 8001 (more flags: ARGS='--help')
	@$(BIN)/inferwire serve --model-repository $(REPOSITORY) $(ARGS)

check: format-check lint types proto-lint image-lint test ## Everything that must be green: what CI runs

format-check: $(TOOLS) ## Check the formatting
	$(BIN)/ruff format --check .

lint: $(TOOLS) ## Lint the Python
	@# What counts as ours depends on other files, which the cache does not look at.
	$(BIN)/ruff check --no-cache .

types: $(TOOLS) ## Check the types, strictly
	$(BIN)/pyright --pythonpath $(BIN)/python
	@# What callers run has to find what it uses on their systems, too.
	$(BIN)/pyright --pythonpath $(BIN)/python --pythonplatform Darwin client proto
	$(BIN)/pyright --pythonpath $(BIN)/python --pythonplatform Windows client proto

proto-lint: $(TOOLS) ## Lint the protos and compare them with the committed baseline
	cd proto && ../$(BIN)/buf lint
	@# As one image: of a folder, buf would compare each module by itself with the whole baseline.
	cd proto && ../$(BIN)/buf build --output - | ../$(BIN)/buf breaking - --against baseline.binpb

image-lint: $(TOOLS) ## Lint the Dockerfile
	$(BIN)/hadolint Dockerfile

test: $(TOOLS) ## Run every test (on all cores: PROCESSES=auto; some of them: ARGS='tests/core -k queue')
	$(BIN)/python -m pytest -q --numprocesses $(PROCESSES) --maxprocesses 8 --dist loadfile --no-loadscope-reorder $(ARGS)

coverage: $(TOOLS) ## Run every test and say which lines they miss
	$(BIN)/coverage run -m pytest -q $(ARGS)
	$(BIN)/coverage report --skip-covered --show-missing

format: $(TOOLS) ## Format and fix what can be fixed by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(TOOLS) ## Measure every way into the server against openvino in process (what else: ARGS='--help')
	$(BIN)/python -m tests.bench $(ARGS)

bench-peer: $(TOOLS) ## Measure another server beside this one, such as PEER=mosec, which is installed first
	$(BIN)/python -m tests.bench peer $(PEER) $(ARGS)

soak: $(TOOLS) ## Some minutes of mixed load and faults; nothing may be left after it (longer: ARGS='--minutes 60')
	$(BIN)/python -m tests.soak $(ARGS)

fuzz: $(TOOLS) ## Bytes nobody meant for every codec and REST call (some of them, longer: ARGS='--only rest --seconds 60')
	$(BIN)/python -m tests.fuzz $(ARGS)

versions: $(TOOLS) ## Run the tests with the oldest packages that may be, and with the newest (one of them: ARGS='--only oldest')
	$(BIN)/python -m tests.versions $(ARGS)

programs: $(TOOLS) ## Run programs of others against a server: openvino's, the protocol's, Prometheus (downloads 2 GB, once; with a torch for GPUs, 5; one of them: ARGS='--only prometheus')
	$(BIN)/python -m tests.programs $(ARGS)

proto: $(TOOLS) ## Generate the stubs from the .proto files
	$(BIN)/python proto/generate.py

proto-baseline: $(TOOLS) ## Take what is new in the protos into the baseline; what is in it already has to be there still
	cd proto && if [ -e baseline.binpb ]; then \
	  ../$(BIN)/buf build --output - | ../$(BIN)/buf breaking - --against baseline.binpb; fi
	cd proto && ../$(BIN)/buf build --exclude-source-info --output baseline.binpb

image: ## Build the Docker image inferwire:latest
	docker build --tag inferwire:latest .

clean: ## Remove the environment and everything that can be made again
	rm -rf $(VENV) build dist .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# `pip install --group` came with pip 25.1; Debian's and Ubuntu's venvs start with an older one.
$(ENVIRONMENT):
	@echo "making a private environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(RUNTIME): $(ENVIRONMENT) pyproject.toml
	@echo "installing inferwire with its server and command line (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --editable '.[server,cli]'
	@touch $@

$(TOOLS): $(ENVIRONMENT) pyproject.toml
	@echo "installing inferwire with the tools that check it (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --editable '.[server,cli]' --group dev
	@touch $(RUNTIME) $@
