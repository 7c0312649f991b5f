# decider: every task of the repository. `make` alone lists them.
#
# Nothing but Go is needed to run decider; `make test` fetches what else the
# tests use. CI (.ci/run) calls these targets and nothing else.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -s -w -X main.version=$(VERSION)
GO      ?= go

# The modules of the repository that hold the project's own code.
MODULES  = . clients/go clients/go/examples clients/conformance clients/demo bench

# golangci-lint takes minutes to build, so its binary is kept by version.
LINT_VERSION = $(shell awk '$$1 ~ /golangci-lint\/v2$$/ && $$2 ~ /^v/ {print $$2}' tools/go.mod)
LINT         = .cache/golangci-lint-$(LINT_VERSION)
REDOCLY      = @redocly/cli@2.77.0

# fuzz: seconds for all targets together. bench: which, and how often.
FUZZ_SECONDS ?= 60
BENCH        ?= .
BENCH_COUNT  ?= 6
IMAGE        ?= decider:$(VERSION)

# bench-peers: seconds for each server in each of the rounds, and whom it is measured against.
BENCH_SECONDS ?= 3
BENCH_ROUNDS  ?= 3
BENCH_PAGE    ?=
RATELIMIT      = github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36
GUBERNATOR     = github.com/gubernator-io/gubernator/v2/cmd/gubernator@v2.13.0
BENCH_FLAGS    = -decider bin/decider -seconds $(BENCH_SECONDS) -rounds $(BENCH_ROUNDS) -page '$(BENCH_PAGE)'
SOAK_SECONDS ?= 1800

# goals: a JSON file of values measured with real processes, if there is one.
MEASURED     ?= testdata/goals-measured.json

.DEFAULT_GOAL := help
.PHONY: help run build test test-short test-browser test-deploy needs vet lint generate generate-check spec-lint fuzz bench bench-peers bench-growth bench-layers bench-doc test-chaos test-contract soak demo docker compose-test cases goals docs-goals docs-figures clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build decider and serve on 127.0.0.1:8080 (memory store; nothing else is needed)
	exec bin/decider serve

build: ## build bin/decider with its version stamped in
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/decider ./cmd/decider

test: needs vet ## run every test of every module, with the race detector; installs what they need
	@set -e; for module in $(MODULES); do \
		echo "== go test -race -shuffle=on ./... in $$module"; \
		(cd $$module && CI=true $(GO) test -race -shuffle=on -timeout 30m ./...); \
	done

test-short: ## run the quick tests of every module, without the race detector or a Redis
	@set -e; for module in $(MODULES); do (cd $$module && $(GO) test -short ./...); done

test-chaos: needs ## play every failure of the store at length, and hold the answers to their time; wants a quiet machine
	DECIDER_CHAOS=long $(GO) test -count=1 -timeout 30m -v ./internal/chaos

BROWSERTEST = internal/console/browsertest

test-browser: build ## drive the console in a real Chromium; its pictures are in .cache/console
	@tools/need chromium redis-server curl node npm
	@cd $(BROWSERTEST) && { [ node_modules/.package-lock.json -nt package-lock.json ] || $(CURDIR)/tools/retry npm ci; } && npm test

test-deploy: ## test what deploy/ holds: rules, dashboard, chart, compose file, unit
	@tools/need promtool prometheus redis-server docker-compose systemd-analyze
	cd deploy/test && $(CURDIR)/tools/retry $(GO) mod download && $(GO) vet ./... && CI=true $(GO) test -count=1 -timeout 30m ./...

test-contract: build ## ask a running decider all that its contract allows, and much that it does not (schemathesis)
	@tools/need python3 && { python3 -c 'import ensurepip' 2>/dev/null || tools/need python3-venv; }
	@tools/contract/run bin/decider

soak: needs ## let a decider work at half its peak, with faults, for SOAK_SECONDS (1800), and hold its footprint flat
	SOAK_SECONDS=$(SOAK_SECONDS) $(GO) test -count=1 -timeout $$(( $(SOAK_SECONDS) + 300 ))s -run '^TestSoak$$' -v ./cmd/decider

needs:
	@tools/need redis-server gcc curl python3
	@set -e; for module in $(MODULES); do (cd $$module && $(CURDIR)/tools/retry $(GO) mod download); done

vet:
	@set -e; for module in $(MODULES); do (cd $$module && $(GO) vet ./...); done

lint: $(LINT) ## run the linter over every module (the first time builds it: minutes)
	@failed=0; for module in $(MODULES) deploy/test; do \
		echo "== golangci-lint in $$module"; \
		(cd $$module && $(CURDIR)/$(LINT) run --config $(CURDIR)/.golangci.yml ./...) || failed=1; \
	done; exit $$failed

$(LINT):
	@mkdir -p $(@D)
	@echo "== building golangci-lint $(LINT_VERSION)"
	@tools/retry $(GO) mod download -modfile=tools/go.mod
	@nice -n 5 $(GO) build -modfile=tools/go.mod -trimpath -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

generate: ## write the generated code and the policy file's JSON Schema anew
	@set -e; for module in $(MODULES); do (cd $$module && $(GO) generate ./...); done

generate-check: ## fail where what is generated is not what is committed
	@mkdir -p .cache
	@tools/tree > .cache/before && $(MAKE) --no-print-directory generate && tools/tree > .cache/after
	@diff .cache/before .cache/after || { echo 'make generate changed these files: commit what it writes' >&2; git --no-pager diff --stat; exit 1; }

spec-lint: ## lint the contract
	@REDOCLY_TELEMETRY=off npm_config_ignore_scripts=true tools/retry npx --yes $(REDOCLY) --version
	REDOCLY_TELEMETRY=off npm_config_ignore_scripts=true npx --yes $(REDOCLY) lint --config api/redocly.yaml api/openapi.yaml

fuzz: ## fuzz every target, FUZZ_SECONDS (60) in total
	@GO=$(GO) tools/fuzz $(FUZZ_SECONDS)

bench: ## run the benchmarks BENCH_COUNT (6) times, side by side; .cache/bench.txt is benchstat's input
	@mkdir -p .cache
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) ./... | tee .cache/bench.txt
	$(GO) tool -modfile=tools/go.mod benchstat .cache/bench.txt

bench-peers: .cache/peers/service_cmd .cache/peers/gubernator .cache/bench-tool ## measure decider beside its peers on this machine: minutes, tables, .cache/bench/peers.svg
	.cache/bench-tool peers $(BENCH_FLAGS) -ratelimit .cache/peers/service_cmd -gubernator .cache/peers/gubernator

bench-growth: .cache/bench-tool ## measure what decisions cost as connections, dependencies, callers, rules and replicas grow
	.cache/bench-tool growth $(BENCH_FLAGS)

bench-layers: .cache/bench-tool ## run the benchmarks of each layer; .cache/bench/layers.txt is benchstat's input
	.cache/bench-tool layers $(BENCH_FLAGS)

bench-doc: ## measure all of it, and write docs/performance.md anew; wants a quiet machine
	$(MAKE) --no-print-directory bench-layers bench-growth bench-peers BENCH_PAGE=docs/performance.md

# The tool and the decider that it measures are always those of the tree.
.PHONY: .cache/bench-tool
.cache/bench-tool: build
	@tools/need wrk redis-server
	cd bench && $(GO) build -trimpath -o $(CURDIR)/$@ .

# The peers take minutes to build, and are kept.
.cache/peers/service_cmd:
	GOBIN=$(CURDIR)/$(@D) $(GO) install -trimpath $(RATELIMIT)

.cache/peers/gubernator:
	GOBIN=$(CURDIR)/$(@D) $(GO) install -trimpath $(GUBERNATOR)

demo: build needs ## show a retry storm, and what becomes of it with decider: two minutes, a table and .cache/demo.svg
	@mkdir -p .cache
	cd clients/demo && $(GO) build -trimpath -buildvcs=false -o $(CURDIR)/.cache/demo .
	.cache/demo -decider bin/decider -out .cache/demo.svg

docker: ## build the image (IMAGE, GO_IMAGE)
	docker build --build-arg VERSION='$(VERSION)' $(if $(GO_IMAGE),--build-arg GO_IMAGE='$(GO_IMAGE)') -t '$(IMAGE)' .

compose-test: ## bring docker-compose.yml up, ask both deciders, and take it down again
	@VERSION='$(VERSION)' tools/compose-test

cases: build ## run the executable cases of testdata against bin/decider from outside
	@tools/cases --bin bin/decider testdata/cases/given

goals: build ## play every goal in virtual time and show which are met (minutes); MEASURED adds values of real processes
	bin/decider simulate goals --measured '$(MEASURED)'

docs-goals: build needs ## measure G1, G2, G3 and G14 with real processes and a Redis, play all goals, and write both to docs/goals.md (ten minutes)
	@mkdir -p .cache
	cd clients/demo && $(GO) build -trimpath -buildvcs=false -o $(CURDIR)/.cache/demo .
	.cache/demo -decider bin/decider -goals '$(MEASURED)'
	bin/decider simulate goals --measured '$(MEASURED)' --output markdown > .cache/goals.md
	mv .cache/goals.md docs/goals.md

docs-figures: build ## draw the pictures of docs/storms.md anew
	tools/docs-figures

clean: ## remove what was built, the cached linter included
	rm -rf bin .cache
