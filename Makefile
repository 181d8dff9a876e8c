# Verbs only; each does all it needs.
SHELL := /bin/bash
export CGO_ENABLED ?= 0
# sudo's PATH lacks the usual place of Go.
export PATH := $(PATH):/usr/local/go/bin

VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X github.com/plumbline/plumbline/suites/stage.version=$(VERSION)

# What `make e2e` passes on, such as E2E='--rollouts=1 --rows=plumb-nftables:fallback'.
E2E ?=

# What `make bench` passes on, such as BENCH='--services=1000,10000 --rows=plumb-nftables'.
BENCH ?=

# How long each target of `make fuzz` runs.
FUZZTIME ?= 30s

.PHONY: build host test peer e2e bench microbench fuzz lint clean

build:
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ ./tools/...
	go test -ldflags '$(LDFLAGS)' -c -o bin/disruption.test ./suites/disruption

host:
	ci/host/prepare.sh

# As root all of it, on a prepared host; otherwise what needs root skips by name.
test: build
	if [ $$(id -u) = 0 ]; then ci/host/prepare.sh; fi
	go vet ./...
	go test ./...

# The contract's cases against upstream kube-proxy, in both modes.
peer: host
	PLUMBLINE_PEER=1 go test -count=1 -parallel 4 -timeout 20m ./suites/peer

e2e: host build
	PLUMBLINE_E2E=1 bin/disruption.test --ginkgo.v=false $(E2E)

bench: host build
	bin/plumbline bench $(BENCH)

microbench:
	go test -run '^$$' -bench . -benchmem ./dataplane/... ./fixtures/api ./suites/...

fuzz:
	for f in $$(go test -list '^Fuzz' ./dataplane/dptest | grep ^Fuzz); do go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./dataplane/dptest || exit 1; done

lint:
	gofmt -l . | (! grep .)
	go vet ./...
	go test ./ci/presubmit

clean: build
	bin/plumbline clean
