# `make` alone lists the targets. The first complete build takes some minutes, because of the dependencies.

.DEFAULT_GOAL := help
# The package manager uses all cores and locks its build folder, so make must not start two builds at once.
.NOTPARALLEL:

# JOBS=n limits how many compilers run at once. ARGS passes options to `demo`, `test`, `simulate` and `bench`:
#   make demo ARGS='--store my.db'     make test ARGS='--filter Footprint'     make bench ARGS=--quick
JOBS ?=
ARGS ?=
SWIFT_BUILD = swift build $(if $(JOBS),--jobs $(JOBS))
# Every test uses Swift Testing; Scripts/check-repository checks this.
SWIFT_TEST = Scripts/run-tests $(if $(JOBS),--jobs $(JOBS))

# All tests of one process start at once. Targets that write many files and run many programs have their own processes, because
# tests of the network would otherwise wait for a processor and time out. All other targets run in the first process.
TESTED_APART = AnnalsStoreTests AnnalsSyncTests EndToEndTests CrashTests
# These run once more with the relay's logs in PostgreSQL, each with its own server.
TESTED_ON_POSTGRES = RelayLogTests RelayPostgresTests RelayTests EndToEndTests\.PostgresRelayTests
# These test the built program: the operator's page in a browser, the relay against its OpenAPI document, and the manifests.
TESTED_BESIDE = page-tests api-tests dependency-tests
space := $(subst ,, )

.PHONY: help
help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-14s %s\n", $$1, $$2 }'

.PHONY: demo
demo: dependencies ## show Annals on sample data: two stores, a relay, a conflict, a replay of history
	$(SWIFT_BUILD) --product annals
	@.build/debug/annals demo $(ARGS)

.PHONY: test
test: test-dependencies ## run all tests; ARGS='--filter NAME' runs some
ifneq ($(ARGS),)
	$(SWIFT_TEST) $(ARGS)
else
	$(SWIFT_TEST) --skip '^($(subst $(space),|,$(TESTED_APART)))\.'
	$(foreach target,$(TESTED_APART),$(SWIFT_TEST) --skip-build --filter '^$(target)\.' &&) true
	$(foreach suites,$(TESTED_ON_POSTGRES),Scripts/with-postgres $(SWIFT_TEST) --skip-build --filter '^$(suites)[./]' &&) true
	$(foreach target,$(TESTED_BESIDE),$(MAKE) --no-print-directory $(target) &&) true
endif

.PHONY: page-tests
page-tests: test-dependencies ## test the operator's page in a headless Chromium; part of `make test`
	$(SWIFT_BUILD) --product annals
	python3 -B -m unittest discover --start-directory Tests/PageTests

.PHONY: api-tests
api-tests: test-dependencies ## test the relay against its OpenAPI document; part of `make test`
	$(SWIFT_BUILD) --product annals
	python3 -B -m unittest discover --start-directory Tests/APITests

.PHONY: dependency-tests
dependency-tests: dependencies ## compare what an app and the program link with the documents and the bill of materials; part of `make test`
	$(SWIFT_BUILD) --product annals
	python3 -B -m unittest discover --start-directory Tests/DependencyTests

.PHONY: suites
suites: build ## run test suites of other projects on plain, tracked and joined files; ARGS='django --source peewee=FOLDER'
	python3 -B Tests/Suites/run.py --program .build/release/annals $(ARGS)

.PHONY: docs
docs: dependencies ## build the library's documentation, a static site at .build/docs; warnings are errors
	Scripts/build-documentation

.PHONY: build
build: dependencies ## build the release binary, at .build/release/annals
	$(SWIFT_BUILD) --configuration release --product annals
	@echo "built .build/release/annals"

.PHONY: third-party
third-party: build ## write the bill of materials and the licenses of the release binary to .build/third-party
	Scripts/third-party

# SEEDS is one seed, a range, or a number of random seeds: SEEDS=17, SEEDS=1..3000, SEEDS=500r.
SEEDS ?= 1..1000
.PHONY: simulate
simulate: dependencies ## simulate worlds of replicas, each from one seed, and check every law; SEEDS=17 replays one
	$(SWIFT_BUILD) --configuration release --product annals-simulate
	@.build/release/annals-simulate $(SEEDS) $(ARGS)

.PHONY: bench
bench: dependencies ## run the benchmarks with the release build; ARGS=--quick for a short run
	$(SWIFT_BUILD) --configuration release --product annals
	$(SWIFT_BUILD) --configuration release --product annals-bench
	@.build/release/annals-bench $(ARGS)

.PHONY: lint
lint: dependencies ## check the code layout, the rules of the repository, and the links in the documents
	Scripts/format
	Scripts/check-repository
	python3 -B -m unittest discover --start-directory Tests/ScriptTests

.PHONY: format
format: dependencies ## format the code as `make lint` requires
	Scripts/format --in-place

.PHONY: check
check: ## run what every change must pass: lint, a build without warnings, the tests, the documentation
	bash .ci/run

.PHONY: check-full
check-full: dependencies ## run the long checks, for example before closing an issue: sanitizers, release tests, simulation, fuzzing, memory, quick benchmarks, instruction counts; STAGES="threads memory" runs some
	Scripts/check-full $(STAGES)

.PHONY: dependencies
dependencies:
	@Scripts/install-dependencies

.PHONY: test-dependencies
test-dependencies:
	@Scripts/install-dependencies --tests

.PHONY: clean
clean: ## remove everything that was built
	rm -rf .build .build-*
