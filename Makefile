.DEFAULT_GOAL := help

.PHONY: help
help: ## Lists the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Builds ./hookonce.
	go build ./cmd/hookonce

.PHONY: test
test: ## Runs the tests that need only Go and PostgreSQL.
	go test ./...

.PHONY: race
race: ## Does the same under the race detector (needs a C compiler).
	.ci/race ./...

.PHONY: all
all: ## Runs all groups of tests, in their short form.
	HOOKONCE_TEST=all go test -timeout 30m ./...

.PHONY: nightly
nightly: ## Runs everything in full, for hours; goes on where it was interrupted.
	.ci/nightly

.PHONY: steady
steady: ## Runs go test ./... N times: make steady N=5 HOW=quiet, busy (four busy loops) or single (one processor).
	.ci/steady $(or $(N),5) $(or $(HOW),quiet)

.PHONY: soak
soak: ## Runs the proof of exactly-once with 100,000 events on every store, and long suites in full.
	HOOKONCE_TEST=all,long go test -count=1 -timeout 3h -v ./internal/test/proof
	HOOKONCE_TEST=all,long go test -count=1 -timeout 1h -run Pooler ./hookpgx ./hooksql
	HOOKONCE_TEST=all,long go test -count=1 -timeout 1h -run Faults ./internal/test/receivers
	HOOKONCE_TEST=all,long go test -count=1 -timeout 10m -v -run Desync ./internal/send

.PHONY: proof
proof: ## Runs the trials of the proof with N events each, plants faults that tests must notice, and writes docs/proof.md: make proof N=100000.
	HOOKONCE_TEST=all,long HOOKONCE_PROOF=$(or $(N),100000) go test -count=1 -timeout 5h -v -run TestProofPage ./internal/test/proof

.PHONY: bench
bench: ## Measures hookonce beside other ways to do the work, and writes docs/performance.md and bench/targets.md; takes an hour.
	HOOKONCE_TEST=bench HOOKONCE_BENCH=full go test -count=1 -timeout 3h -v ./bench

.PHONY: scale
scale: ## Runs the tests of several gateways and of failover in full, and writes docs/scale.md.
	HOOKONCE_TEST=scale,cluster HOOKONCE_SCALE=full go test -count=1 -timeout 3h -v $(wildcard ./internal/test/scale ./internal/test/failover)

.PHONY: sdk
sdk: ## Holds the catalog of providers against their own SDKs; needs Node and npm.
	internal/test/sdk/run

.PHONY: acme
acme: ## Gets certificates from Pebble, an authority for tests.
	internal/test/acme/run

.PHONY: fuzz
fuzz: ## Runs each fuzz target for 30 s.
	.ci/fuzz 30s

.PHONY: fmt
fmt: ## Formats the Go files.
	.ci/tool gofumpt -w .

.PHONY: lint
lint: ## Runs the linters, and the tests of the project's own rules.
	.ci/tool golangci-lint run ./...
	go test ./internal/test/deps

.PHONY: release
release: ## Builds a release into dist, twice: make release VERSION=v1.2.3, or a trial of the last commit.
	.ci/release $(or $(VERSION),-snapshot v0.0.0)

.PHONY: packages
packages: ## Installs the packages on a bare Debian, and runs the image; needs root.
	HOOKONCE_TEST=packages go test -count=1 -timeout 1h -v ./internal/test/packaging

.PHONY: bare
bare: ## Runs the README's commands and all tests on a new bare Debian; needs root.
	.ci/bare all

.PHONY: ci
ci: ## Runs all checks that a change must pass.
	.ci/run
