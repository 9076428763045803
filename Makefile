# `make` alone lists the targets. The first build of all takes some minutes, because of the dependencies.

.DEFAULT_GOAL := help
# The package manager builds on every core by itself, and locks its build folder: make must not start two at once.
.NOTPARALLEL:

# JOBS=n limits how many compilers run at once. ARGS passes more to `demo`, `test` and `bench`:
#   make demo ARGS='--store my.db'     make test ARGS='--filter Footprint'     make bench ARGS=--quick
JOBS ?=
ARGS ?=
SWIFT_BUILD = swift build $(if $(JOBS),--jobs $(JOBS))
# Every test uses Swift Testing; Scripts/check-repository sees to that.
SWIFT_TEST = Scripts/run-tests $(if $(JOBS),--jobs $(JOBS))

# Tests of one process start all at once. Those that write files and run programs by the hundred have processes of their
# own, or tests of the network would wait for a processor until they give up. Any other target is in the first process.
TESTED_APART = AnnalsStoreTests AnnalsSyncTests EndToEndTests CrashTests
# And these run once more with the relay's logs in PostgreSQL, a server of their own each.
TESTED_ON_POSTGRES = RelayLogTests RelayPostgresTests RelayTests EndToEndTests\.PostgresRelayTests
# And these ask the program that was built: the operator's page in a browser, and the relay by its OpenAPI document; and the manifests.
TESTED_BESIDE = page-tests api-tests dependency-tests
space := $(subst ,, )

.PHONY: help
help: ## lists these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-14s %s\n", $$1, $$2 }'

.PHONY: demo
demo: dependencies ## the whole story on sample data: two stores, a relay, a conflict, history replayed
	$(SWIFT_BUILD) --product annals
	@.build/debug/annals demo $(ARGS)

.PHONY: test
test: test-dependencies ## every test; ARGS='--filter NAME' for some
ifneq ($(ARGS),)
	$(SWIFT_TEST) $(ARGS)
else
	$(SWIFT_TEST) --skip '^($(subst $(space),|,$(TESTED_APART)))\.'
	$(foreach target,$(TESTED_APART),$(SWIFT_TEST) --skip-build --filter '^$(target)\.' &&) true
	$(foreach suites,$(TESTED_ON_POSTGRES),Scripts/with-postgres $(SWIFT_TEST) --skip-build --filter '^$(suites)[./]' &&) true
	$(foreach target,$(TESTED_BESIDE),$(MAKE) --no-print-directory $(target) &&) true
endif

.PHONY: page-tests
page-tests: test-dependencies ## the operator's page in a headless Chromium; part of `make test`
	$(SWIFT_BUILD) --product annals
	python3 -B -m unittest discover --start-directory Tests/PageTests

.PHONY: api-tests
api-tests: test-dependencies ## the relay held to its OpenAPI document; part of `make test`
	$(SWIFT_BUILD) --product annals
	python3 -B -m unittest discover --start-directory Tests/APITests

.PHONY: dependency-tests
dependency-tests: dependencies ## what an app and the program link, held to documents and bill of materials; part of `make test`
	$(SWIFT_BUILD) --product annals
	python3 -B -m unittest discover --start-directory Tests/DependencyTests

.PHONY: docs
docs: dependencies ## the library's documentation, as a static site at .build/docs; warnings are errors
	Scripts/build-documentation

.PHONY: build
build: dependencies ## the release binary, at .build/release/annals
	$(SWIFT_BUILD) --configuration release --product annals
	@echo "built .build/release/annals"

.PHONY: third-party
third-party: build ## bill of materials and licenses of what the release binary holds, at .build/third-party
	Scripts/third-party

# SEEDS names one seed, a range, or a number of random ones: SEEDS=17, SEEDS=1..3000, SEEDS=500r.
SEEDS ?= 1..1000
.PHONY: simulate
simulate: dependencies ## worlds of replicas, each from one seed, with every law held against them; SEEDS=17 replays one
	$(SWIFT_BUILD) --configuration release --product annals-simulate
	@.build/release/annals-simulate $(SEEDS) $(ARGS)

.PHONY: bench
bench: dependencies ## the benchmarks, release build; ARGS=--quick for a short run
	$(SWIFT_BUILD) --configuration release --product annals
	$(SWIFT_BUILD) --configuration release --product annals-bench
	@.build/release/annals-bench $(ARGS)

.PHONY: lint
lint: dependencies ## layout of the code, rules of the repository, links in the documents
	Scripts/format
	Scripts/check-repository
	python3 -B -m unittest discover --start-directory Tests/ScriptTests

.PHONY: format
format: dependencies ## lays the code out as `make lint` wants it
	Scripts/format --in-place

.PHONY: check
check: ## what every change must pass: lint, a build without warnings, the tests
	bash .ci/run

.PHONY: check-full
check-full: dependencies ## STAGES="threads memory" for some of: sanitizers, release tests, fuzzing, memory, quick benchmarks, counted instructions: before closing an issue, not for each change
	Scripts/check-full $(STAGES)

.PHONY: dependencies
dependencies:
	@Scripts/install-dependencies

.PHONY: test-dependencies
test-dependencies:
	@Scripts/install-dependencies --tests

.PHONY: clean
clean: ## removes everything that was built
	rm -rf .build .build-*
