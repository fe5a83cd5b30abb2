# make            lists what can be made
# make verify     proves the reference consumer; ADAPTER="node my-adapter.mjs" proves another

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The command of the consumer's adapter; empty for the reference consumer.
ADAPTER ?=
# More flags: of parkproof verify (verify, repeat) or explore, of go test (test), of the benchmark (bench).
ARGS ?=
# How often repeat runs the suite.
N ?= 20
# How long fuzz runs each target.
FUZZTIME ?= 60s
# The Debian suites whose RabbitMQ is made an image: bullseye (3.8), bookworm (3.10), trixie (4.0), forky (4.3).
SUITE ?= bookworm

export N FUZZTIME

.PHONY: build
build: ## build bin/parkproof
	@.ci/build

.PHONY: verify
verify: ## prove a consumer: make verify ADAPTER="node my-adapter.mjs" ARGS="--case RTY-004"
	@.ci/verify $(ARGS) $(if $(strip $(ADAPTER)),-- $(ADAPTER))

.PHONY: explore
explore: ## break a consumer's paths at every point on the wire: make explore ADAPTER="..." ARGS="--queue classic"
	@.ci/explore $(ARGS) $(if $(strip $(ADAPTER)),-- $(ADAPTER))

.PHONY: test
test: ## run all tests, and lint
	@.ci/test $(ARGS)

.PHONY: lint
lint: ## check the code without running it: gofumpt, go vet, staticcheck
	@.ci/lint

.PHONY: bench
bench: ## measure parkproof's speed beside what it is compared with
	@.ci/bench $(ARGS)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (60s)
	@.ci/fuzz $(FUZZTIME)

.PHONY: repeat
repeat: ## run the suite N (20) times in a row on a busy machine
	@.ci/repeat $(N) $(ARGS)

.PHONY: docs
docs: ## write the generated parts of the pages anew, and check the pages
	@.ci/docs

.PHONY: image
image: ## make container images of Debian's RabbitMQ: make image SUITE="bookworm trixie"
	@for suite in $(SUITE); do .ci/image $$suite || exit; done

.PHONY: nightly
nightly: ## repeat, container versions, fuzz and bench
	@.ci/nightly

.PHONY: clean
clean: ## remove what was built and reported
	rm -rf bin parkproof-report

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
