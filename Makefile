# Everything that a newcomer or CI runs. `make demo` and `make test` set up what they need.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 8000

BUILD := $(VENV)/.ready-build
RUN := $(VENV)/.ready-run
DEV := $(VENV)/.ready-dev
SDK := $(VENV)/.ready-sdk
SEGMENT := $(VENV)/.ready-segment
NPM := cd sdk/js && PATH="$$PATH:$(CURDIR)/$(BIN)" npm --loglevel=error
PACK = ($(NPM) run build -- --log-level error) && ($(NPM) pack --silent --pack-destination ../../dist)
# A worker more than CI has cores: each waits a third of its time for files, processes and pages.
PYTEST = $(BIN)/pytest -n 3 --dist worksteal
UV_COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --generate-hashes

# Python may store compiled modules: to compile them takes half of the start of each worker.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BUILD): requirements-setup.lock scripts/setup
	@scripts/setup build

$(RUN): requirements.lock pyproject.toml scripts/setup | $(BUILD)
	@scripts/setup run

$(DEV): requirements.lock requirements-dev.lock pyproject.toml scripts/setup | $(BUILD)
	@scripts/setup dev

$(SDK): sdk/js/package-lock.json scripts/setup | $(BUILD)
	@scripts/setup sdk

# After the SDK, not beside it: both install Node.js where it is missing.
$(SEGMENT): tests/segment/clients/package-lock.json tests/segment/clients/requirements.lock scripts/setup | $(SDK)
	@scripts/setup segment

.PHONY: setup
setup: $(DEV) ## Create .venv with everything for development

.PHONY: demo
demo: $(RUN) ## Start a service with the events of a demo shop (PORT=8000)
	@$(BIN)/penstock demo --host $(HOST) --port $(PORT)

.PHONY: serve
serve: $(RUN) ## Start the service (PORT=8000; DATA=folder for another than the user's data folder)
	@$(BIN)/penstock serve --host $(HOST) --port $(PORT) $(if $(DATA),--data $(DATA))

.PHONY: check
check: $(DEV) ## Check style, types, imports between rooms and dependencies
	@$(MAKE) --no-print-directory --jobs 2 types style imports dependencies runs

.PHONY: types style imports dependencies runs
types:
	@scripts/timed types $(BIN)/mypy
style:
	@scripts/timed style $(BIN)/ruff check
	@scripts/timed style $(BIN)/ruff format --check
imports:
	@scripts/timed imports $(BIN)/lint-imports
dependencies:
	@scripts/timed dependencies $(BIN)/deptry src
	@scripts/timed dependencies $(BIN)/deptry tests bench docsite examples --ignore DEP002,DEP004
runs:
	@$(BIN)/python -m tests.full --age

# Tests that ARGS names, such as ARGS="tests/funnels/test_filters.py", need no checks and few packages.
CHOSEN := $(filter tests/%,$(ARGS))
NEEDED := $(if $(filter tests tests/segment% tests/sdk% tests/browser%,$(CHOSEN)),$(SEGMENT))

.PHONY: test
ifeq ($(CHOSEN),)
test: checks ## Run all checks, then the tests of every rule: under 20 minutes (ARGS="tests/funnels -k tie" for some)
	@scripts/setup tests
	@PENSTOCK_TIER=test scripts/timed tests $(PYTEST) $(ARGS)
	@scripts/timed --print
else
test: pytest
endif

# All checks, and the packages that tests need, timed in parts.
.PHONY: checks
checks: $(DEV)
	@rm -f $(VENV)/parts
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target types test-sdk $(SEGMENT) style imports dependencies runs

# Tests that somebody names: all of them, also those of the full run.
.PHONY: pytest
pytest: $(DEV) $(NEEDED)
	@scripts/setup tests
	$(PYTEST) $(ARGS)

.PHONY: quick
quick: $(DEV) ## Run the tests that need no event store, service or browser in minutes (ROOM=links for one room)
	PENSTOCK_TIER=quick $(PYTEST) -n 2 $(if $(ROOM),tests/$(ROOM),tests) $(ARGS)
	@$(MAKE) --no-print-directory style imports

.PHONY: test-full
test-full: $(DEV) $(SEGMENT) ## Run everything, in parts that resume (PART="http shards"); hours: see docs/development/test-runs.md
	@$(BIN)/python -m tests.full $(PART)

.PHONY: test-http
test-http: $(DEV) ## Test everything that reads or writes events, with the event store behind HTTP
	@scripts/setup tests
	PENSTOCK_TEST_ENGINE=http $(PYTEST) tests/activity tests/catalogue tests/events tests/funnels tests/health tests/identity \
		tests/jobs tests/links tests/nodes/test_outcomes.py tests/providers tests/stores tests/warehouse $(ARGS)

.PHONY: test-shards
test-shards: $(DEV) ## Test everything that reads or deletes events over two shards, and kill them (KILLS=30, divided by 3)
	@scripts/setup tests
	PENSTOCK_TEST_ENGINE=shards PENSTOCK_KILLS=$(or $(KILLS),30) $(PYTEST) tests/activity tests/catalogue \
		tests/events/deletions tests/funnels tests/identity tests/jobs tests/links/statistics tests/webhooks \
		tests/warehouse/test_cluster.py tests/warehouse/test_shards.py tests/warehouse/test_shared_folds.py \
		tests/warehouse/test_shard_faults.py $(ARGS)

.PHONY: test-replicas
test-replicas: $(DEV) ## Kill, freeze and hold back each of two shards' two replicas, with a real ZooKeeper, which it installs
	@scripts/setup tests
	@scripts/setup replicas
	PENSTOCK_TEST_ENGINE=replicas $(BIN)/pytest -n 0 tests/replicas $(ARGS)

.PHONY: test-install
test-install: $(DEV) ## Install the wheel in each documented way, on each Python and on bare Debian; print the seconds
	PENSTOCK_TEST_INSTALL=1 $(BIN)/pytest -s -v tests/deploy/test_install.py tests/deploy/test_bare_debian.py $(ARGS)

.PHONY: test-cluster
test-cluster: $(DEV) ## Like test-shards without kills, on an installed cluster (see tests/clickhouse_database.py)
	@scripts/setup tests
	PENSTOCK_TEST_ENGINE=cluster $(PYTEST) tests/activity tests/catalogue tests/events/deletions tests/funnels \
		tests/identity tests/jobs tests/links/statistics $(ARGS)

.PHONY: sdk
sdk: $(SDK) ## Check, test and build the JavaScript client; update /t.js of the service
	$(NPM) run all
	cp sdk/js/dist/t.iife.js src/penstock/web/client/t.js

.PHONY: test-sdk
test-sdk: $(SDK) ## Check, test and build the JavaScript client; /t.js of the service must be current
	@scripts/timed sdk $(SHELL) -c '$(NPM) run all'
	@cmp sdk/js/dist/t.iife.js src/penstock/web/client/t.js || { echo "/t.js is not built from sdk/js; run: make sdk" >&2; exit 1; }

.PHONY: test-android
test-android: ## Compile and test the Java core for Android (needs a JDK and JUnit 4; not a part of `make test`)
	@scripts/setup android
	@scripts/test-android

.PHONY: property
property: $(DEV) ## Compare SQL with plain Python on EXAMPLES=20000 random cases
	PENSTOCK_EXAMPLES=$(or $(EXAMPLES),20000) $(PYTEST) -v --maxfail=1 tests/funnels/test_property.py $(ARGS)

.PHONY: forecast-sets
forecast-sets: $(DEV) ## Print how forecasts of ten sets of events did, replayed on 120 days each
	@$(BIN)/python -m tests.funnels.forecast_sets
	@echo "set | replays | mean error of the service | of the reference | inside by the service | by the reference"
	@$(BIN)/pytest -q -n 0 -s tests/funnels/test_forecast_sets.py

.PHONY: replay
replay: $(DEV) ## Check alerts for each hour of 90 days of the demo, and print a row for each rule: half an hour
	@scripts/setup tests
	$(BIN)/pytest -n 0 -s tests/alerts/test_replay.py $(ARGS)

.PHONY: browsers
browsers: $(DEV) ## Test /t.js with EVENTS=10000 events in Chromium, and in Firefox and WebKit, which it installs
	@scripts/setup tests
	@scripts/setup browsers
	PENSTOCK_CLIENT_EVENTS=$(or $(EVENTS),10000) $(BIN)/pytest -s -ra tests/browser/test_client_script.py \
		tests/browser/test_other_browsers.py

.PHONY: fuzz
fuzz: $(DEV) ## Send EXAMPLES=500 random requests to each route; compare random use with a model; decode random bytes
	PENSTOCK_FUZZ_EXAMPLES=$(or $(EXAMPLES),500) $(BIN)/pytest -v -s tests/fuzz tests/events/test_times.py

.PHONY: kills
kills: $(DEV) ## Kill the service KILLS=200 times while clients post events
	PENSTOCK_KILLS=$(or $(KILLS),200) $(BIN)/pytest -s tests/events/test_kills.py

.PHONY: segment
segment: $(SEGMENT) ## Kill the service KILLS=20 times while clients of Segment and RudderStack send
	@scripts/setup tests
	PENSTOCK_SEGMENT_KILLS=$(or $(KILLS),20) $(BIN)/pytest -s tests/segment/test_clients.py

.PHONY: faults
faults: $(DEV) ## Kill the service KILLS=1000 times, at every boundary, and break disks and databases
	PENSTOCK_KILLS=$(or $(KILLS),1000) $(BIN)/pytest -s tests/events/test_kills.py
	PENSTOCK_KILLS=$(or $(KILLS),1000) $(BIN)/pytest -s tests/funnels/test_outcome_kills.py
	PENSTOCK_KILLS=$(or $(KILLS),1000) $(BIN)/pytest -s tests/webhooks/test_kills.py
	PENSTOCK_FAULTS=all $(BIN)/pytest tests/faults tests/backup tests/stores/test_upgrade.py tests/events/test_nodes.py \
		tests/warehouse/test_written_parts.py tests/warehouse/test_server_restart.py tests/warehouse/test_http.py

.PHONY: soak
soak: $(DEV) ## Run mixed load for MINUTES=30 and print memory, descriptors and latencies
	$(BIN)/python -m tests.faults.soak $(or $(MINUTES),30)

.PHONY: webhooks
webhooks: $(DEV) ## Send RATE=1000 outcomes a second to a webhook for SECONDS=30, and print how fast they arrive
	$(BIN)/python -m tests.webhooks.load $(or $(RATE),1000) $(or $(SECONDS),30)

.PHONY: attacks
attacks: $(DEV) ## Measure what attacks cost other workspaces (BODIES=8 RUNS=3; ARGS="patterns" for some; MINUTES=10 for seven at once)
	BODIES=$(or $(BODIES),8) RUNS=$(or $(RUNS),3) MINUTES=$(or $(MINUTES),0) $(BIN)/python -m tests.faults.attacks $(ARGS)

.PHONY: bench
bench: $(DEV) ## Measure everything in about half an hour (ARGS="funnel intake" or "--small"; BASE=commit to compare)
	@scripts/setup tests
	@scripts/setup bench
	$(BIN)/python -m bench $(if $(BASE),--base $(BASE)) $(ARGS)

.PHONY: screenshots
screenshots: $(DEV) ## Take screenshots of every page at three widths, into docs/images/ (ARGS="login" for some)
	@scripts/setup tests
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

.PHONY: docs
docs: $(DEV) ## Build the documentation site, without network, into build/docs/html
	@$(BIN)/python -m docsite build/docs

.PHONY: pictures
pictures: $(DEV) ## Draw the pictures of docs/counting.md from traces of the engine
	PENSTOCK_DRAW_PICTURES=1 $(BIN)/pytest -q tests/docsite/test_counting_pictures.py

.PHONY: examples
examples: $(DEV) ## Record the examples of the API reference from a running application
	PENSTOCK_RECORD_EXAMPLES=1 $(BIN)/pytest -q tests/docsite/test_reference_examples.py

.PHONY: format
format: $(DEV) ## Fix what the formatter and linter can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: lock
lock: $(DEV) ## Pin the newest allowed versions in requirements*.lock
	$(UV_COMPILE) --upgrade --group pyproject.toml:setup --group pyproject.toml:build -o requirements-setup.lock
	$(UV_COMPILE) --upgrade --group pyproject.toml:build --extra postgresql pyproject.toml -o requirements.lock
	$(UV_COMPILE) --upgrade --group pyproject.toml:build --group pyproject.toml:dev --extra postgresql pyproject.toml -c requirements.lock -o requirements-dev.lock
	$(UV_COMPILE) --upgrade tests/segment/clients/requirements.in -o tests/segment/clients/requirements.lock
	$(UV_COMPILE) --upgrade tests/exports/storage/requirements.in -o tests/exports/storage/requirements.lock

.PHONY: release
release: $(BUILD) $(SDK) ## Prepare a release without publishing it: versions, changelog, packages, tag (VERSION=1.2.3)
	@scripts/release $(VERSION)
	@$(PACK)

.PHONY: dist
dist: $(BUILD) $(SDK) ## Build the packages of the current version in dist/: the service and both clients
	@scripts/release --build
	@$(PACK)

.PHONY: clean
clean: ## Remove .venv and caches; data folders stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .schemathesis .import_linter_cache
