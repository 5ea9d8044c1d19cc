# Heddle: an InfiniBand subnet manager. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := build

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X heddle/internal/version.Version=$(VERSION)
export CGO_ENABLED ?= 0

# How long each fuzz target runs under `make fuzz`.
FUZZTIME ?= 20s

.PHONY: help build heddle-etcd packages image test-packages test-migration run check test test-only test-etcd same race fuzz-some test-long test-kernel soak campaign bench bench-repair bench-page bench-peers fuzz lint fmt deps deps-packages clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## bin/heddle, one static binary
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/heddle ./cmd/heddle

heddle-etcd: ## bin/heddle-etcd, etcd with presets for the managers of a subnet
	cd cmd/heddle-etcd && $(GO) build -trimpath -ldflags '-s -w' -o ../../bin/heddle-etcd .

packages: ## bin/packages: heddle and heddle-etcd as deb and rpm
	@packaging/build.sh bin/packages

# CONTAINER builds it: podman, docker or buildah, whose build takes the same words.
CONTAINER ?= podman

bin/rootfs.tar: build
	@contrib/container/rootfs.sh bin/heddle bin/rootfs.tar

image: bin/rootfs.tar ## the container image heddle:latest
	@mkdir -p bin/image && cp contrib/container/Containerfile bin/rootfs.tar bin/image
	$(CONTAINER) build -t heddle:latest -f bin/image/Containerfile bin/image

# A target that skips what it is for has not passed. PACKAGES_REQUIRE= permits it.
PACKAGES_REQUIRE ?= root,unshare,namespaces,mmdebstrap,debian,nfpm,dpkg,dpkg-deb,lintian,rpmlint,fuse,setpriv,systemd,systemd-analyze,git

test-packages: deps-packages ## installs the packages in a clean Debian root, upgrades, removes and purges them
	@HEDDLE_LONG=1 HEDDLE_REQUIRE=$(PACKAGES_REQUIRE) ./internal/deps/test.sh -v -count=1 -timeout 30m -skip '^TestMigration$$' ./packaging/

test-migration: deps-packages ## from OpenSM to Heddle and back in a clean Debian with systemd, by the commands of docs/opensm.md
	@HEDDLE_LONG=1 HEDDLE_REQUIRE=$(PACKAGES_REQUIRE) ./internal/deps/test.sh -v -count=1 -timeout 30m -run '^TestMigration$$' ./packaging/

run: build ## a simulated 648-host fat tree, its subnet manager and the status page
	bin/heddle up

deps: ## install the Debian packages the tests use, where we may
	@./internal/deps/install.sh

deps-packages: # and those that test the packages
	@./internal/deps/install.sh packages

# What needs a real tool for long, or a fabric for long, is left to make test.
check: ## before each commit, in less than a minute: formatting, vet, the quick tests of what changed
	@list=$$($(TOOL) gofumpt -l .); if [ -n "$$list" ]; then echo "not formatted (make fmt): $$list"; exit 1; fi
	@$(GO) vet ./...
	@set -o pipefail; $(GO) test -short -timeout 30m $$($(GO) list ./... | grep -vE '/(lab|interop|bench|umadfs|matrix)$$') | grep -v 'no test files'

# Fuzzing is a search with its own targets; the inputs that it found once are tests. The tests come
# last, because their summary is what one reads; all parts run, whatever becomes of the others.
test: deps ## everything that must hold: lint, race detector, tests with the real tools
	@failed=0; for part in lint race test-only; do $(MAKE) --no-print-directory $$part || failed=1; done; exit $$failed

# interop comes first: it waits for real programs, and others use the processors meanwhile.
test-only: deps ## the tests alone
	@failed=0; $(MAKE) --no-print-directory test-etcd || failed=1; \
	  echo '== tests'; ./internal/deps/test.sh -timeout 30m ./internal/interop ./... || failed=1; exit $$failed

# The first time it compiles etcd, which takes a minute or two; after that it takes seconds.
test-etcd: ## the module of heddle-etcd
	@echo '== heddle-etcd'; cd cmd/heddle-etcd && $(GO) vet ./... && $(GO) test ./...

# TESTS and HEDDLE_SEEDS choose what runs.
same: ## does the work tree do what commit BASE does, datagram by datagram?
	@./tools/same.sh $(or $(BASE),HEAD) '$(or $(value TESTS),.)'

race: ## the race detector over what is concurrent
	@echo '== race'; ./internal/deps/race.sh

fuzz-some: ## every fuzz target for 1,000 executions
	@echo '== fuzz'; ./internal/deps/fuzz.sh

test-long: deps ## the full matrices, stress counts and fault campaigns
	@HEDDLE_LONG=1 ./internal/deps/test.sh -timeout 170m ./...

# How long make soak runs, as Go writes durations, up to 24h. HEDDLE_SEED chooses the faults.
HEDDLE_SOAK ?= 30m

soak: ## a pair under load for HEDDLE_SOAK, a random fault every 30 s: nothing is lost, nothing grows
	@HEDDLE_SOAK=$(HEDDLE_SOAK) $(GO) test -count=1 -timeout 0 -v -run '^TestPairSoak$$' ./internal/interop

campaign: ## 20,000 random schedules of three managers with etcd, and faults, in virtual time: twelve minutes on one core. HEDDLE_SEEDS has another number, HEDDLE_SEED one schedule
	@HEDDLE_SEEDS=$${HEDDLE_SEEDS:-20000} $(GO) test -count=1 -timeout 0 -v -run '^TestCampaign$$' ./daemon/process

test-kernel: ## transport/umad against a real kernel's ib_umad, in QEMU
	@HEDDLE_KERNEL=1 $(GO) test -count=1 -timeout 30m -v ./transport/umad/...

bench: build deps ## the numbers of docs/benchmarks.md, peers measured in the same run
	$(GO) run ./internal/bench

bench-repair: build deps ## how fast faults are repaired: every engine in virtual time, OpenSM in real time
	$(GO) run ./internal/bench -only repair

bench-page: deps ## the page's map of 11,664 hosts in Chromium without a GPU: first picture, frames/s, heap
	HEDDLE_PAGE_SPEED=1 $(GO) test -count=1 -v -run TestPageSpeed ./internal/interop

bench-peers: build deps ## every routing engine beside OpenSM's, each peer run at most 120 s
	$(GO) run ./internal/bench -only routes -runs 3

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
	  dir=$$($(GO) list -f '{{.Dir}}' $$pkg); \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go 2>/dev/null | sed 's/^func //'); do \
	    echo "== $$pkg $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 50x $$pkg; \
	  done; done

TOOL := $(GO) tool -modfile=tools/go.mod

lint: ## gofumpt, go vet, go fix, staticcheck (pinned in tools/go.mod)
	@echo '== lint'; ./internal/deps/lint.sh

fmt: ## write what lint's formatters want
	$(TOOL) gofumpt -w .
	$(GO) fix ./...

clean: ## remove what was built
	rm -rf bin
