# SPDX-License-Identifier: Apache-2.0
# What can I do here? `make` answers. Needs Python 3.11 or newer; everything else comes from requirements.lock.

PYTHON ?= python3
VENV ?= .venv
DATA ?= data
BIND ?= 127.0.0.1:8080
WORKERS ?= 2

BIN := $(VENV)/bin
comma := ,
STAMP := $(VENV)/installed

.DEFAULT_GOAL := help
.PHONY: help demo run install tools test test-browser check check-static bench scorecard screenshots format lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## Show a fleet, a bad GPU that comes back under a new name, and the refusal (KEEP=1 leaves it running)
	$(BIN)/pratique demo $(if $(KEEP),--keep)

run: $(STAMP) ## Serve on 127.0.0.1:8080 with the records in ./data (BIND=, DATA=, WORKERS= to choose)
	mkdir -p $(DATA)
	PRATIQUE_DATA_DIR=$(abspath $(DATA)) $(BIN)/pratique migrate
	PRATIQUE_DATA_DIR=$(abspath $(DATA)) $(BIN)/pratique serve --bind $(BIND) --workers $(WORKERS)

install: $(STAMP) ## Make the virtual environment, from the lock file alone

# The stamp is the last thing written: an install that was interrupted is begun again, a finished one is not repeated.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=/path/to/python3" \
		if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

test: $(STAMP) ## Run the tests, on SQLite and on a throw-away PostgreSQL
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-browser: $(STAMP) ## Run the tests that drive a real browser
	$(BIN)/python -m pytest -m browser

check: check-static test ## Everything that must hold before a commit: form, lint, types, contracts, tests

check-static: $(STAMP) ## The part of check that runs nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP) ## Measure through HTTP on both engines (BENCH=full: a million devices too; BENCH_DATA= keeps fleets)
	$(BIN)/python -m tests.bench.http $(if $(filter full,$(BENCH)),--sizes small$(comma)large) \
		$(if $(BENCH_DATA),--data $(BENCH_DATA))
	$(BIN)/python -m tests.bench.agent_cost
	$(BIN)/python -m tests.bench.blame
	$(BIN)/python -m tests.bench.response

# The fleets of rows 14 and 16 take half an hour to load: BENCH_DATA=FOLDER keeps them for the next run.
scorecard: $(STAMP) ## Try the promises under faults, resumable, into SCORECARD.md (ROW=3, SHARE=0.1, N=, SEED=, ENGINE=)
	$(if $(BENCH_DATA),BENCH_DATA=$(abspath $(BENCH_DATA))) $(BIN)/python -m tests.scorecard $(addprefix --row ,$(ROW)) $(addprefix --share ,$(SHARE)) $(addprefix --n ,$(N)) \
		$(addprefix --seed ,$(SEED)) $(addprefix --engine ,$(ENGINE))

tools: $(STAMP) ## Bring Helm and promtool, which some tests of deploy/ run and are skipped without
	$(BIN)/python -m tests.deploy.tools

screenshots: $(STAMP) ## Take pictures of the console's pages into docs/screenshots (PAGES="fleet device" for some)
	$(BIN)/python -m tests.console.screenshots $(PAGES)

format: $(STAMP) ## Put the code into the house's form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(STAMP) ## Write requirements.lock anew from pyproject.toml (UPGRADE=1 takes the newest of everything)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-annotate \
		--no-header --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade) \
		--output-file requirements.lock pyproject.toml
	printf '%s\n%s\n' '# SPDX-License-Identifier: Apache-2.0' \
		'# Every distribution of every extra, by version and digest, for any index. Written by: make lock' \
		| cat - requirements.lock > requirements.lock.new
	mv requirements.lock.new requirements.lock

clean: ## Remove what was made here, the records in ./data excepted
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
