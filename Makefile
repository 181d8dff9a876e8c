# Verbs only; each does all it needs.
SHELL := /bin/bash
export CGO_ENABLED ?= 0
# What one clone has compiled serves another.
export GOFLAGS ?= -trimpath
# sudo's PATH lacks the usual place of Go.
export PATH := $(PATH):/usr/local/go/bin

# Root may build in a clone of somebody else's: git, and Go which asks it, refuse that by themselves.
export GIT_CONFIG_COUNT ?= 1
export GIT_CONFIG_KEY_0 ?= safe.directory
export GIT_CONFIG_VALUE_0 ?= $(CURDIR)

VERSION := $(shell git -c safe.directory='$(CURDIR)' describe --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/plumbline/plumbline/ci/version.version=$(VERSION)

# What `make e2e` passes on, such as E2E='--rollouts=1 --rows=plumb-nftables:fallback'.
E2E ?=

# What `make bench` passes on, such as BENCH='--services=1000,10000 --rows=plumb-nftables'.
BENCH ?=

# How long each target of `make fuzz` runs.
FUZZTIME ?= 1m

.PHONY: pages build host generate test tc legacy interrupted lives switches test-fast update verify race peer differential e2e filled selftest truth lab installed haproxy kernels agree conformance observed teeth bench microbench fuzz soak mutants nightly lint clean

build:
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ ./tools/...
	@cp NOTICE ci/licenses.txt bin/

host:
	ci/host/prepare.sh

# The packages with tests that depend on real time (ci/realtime.txt), and those without.
REALTIME = $(addprefix ./,$(shell cut -d' ' -f1 ci/realtime.txt | sort -u))
PURE = $(filter-out $(addprefix github.com/plumbline/plumbline/,$(REALTIME:./%=%)),$(shell go list ./...))

# Ginkgo's suites refuse -parallel.
GINKGO = ./suites/conformance

# Whose tests need the processors, too, and go fewer at a time. Most of what they do is done by threads of
# their own, in a namespace, and Go's scheduler hands its turns from one to the other: with more turns than
# processors none waits for one that the kernel could run (userspace's contract: 126 s, and 91 s with eight).
BACKENDS = ./dataplane/iptables ./dataplane/nftables ./dataplane/userspace

# Of iptables' second flavour what is about differences, which both make in the same way, takes minutes of starting
# programs: a verb of its own. Its packets are in `make test`.
LEGACY = ^TestContract$$/^legacy$$/^(Sequence|Faults|Interrupted|Histories|Random)$$
legacy: host
	go test -count=1 -cpu 8 -parallel 8 -timeout 20m -run '$(LEGACY)' ./dataplane/iptables

# Whose tests wait, for Kubernetes' own times and for each other: one after another they take a fifth of a
# processor (37 s in 199). These packages go side by side, all at once, so that their programs are linked before
# most of it.
WAITING = ./dataplane/dptest ./dataplane/watch ./fixtures/api ./fixtures/lab/control ./fixtures/lab/kubelet ./fixtures/lab/network ./fixtures/probe ./fixtures/probe/remote ./suites/conformance/kit ./suites/lifecycle ./suites/run ./suites/stage ./suites/verdict

# Tests that are run each time are linked each time: nobody debugs these programs.
BARE = -ldflags='-s -w'

# The eBPF dataplane at devices alone, by tcx and by clsact: its contract takes minutes, and is that of
# `make test` without the programs at sockets.
TC = ./dataplane/ebpf
ATDEVICES = ^(TestContract|TestClsact)$$
tc:
	ci/expedited go test -count=1 -parallel 8 -timeout 20m $(TC)

# Changes that end at each of their writes, of all backends.
interrupted:
	go test -count=1 -p 1 -parallel 8 -timeout 60m -run 'Test(Contract|AtSockets)/Interrupted|TestContract/(nft|legacy)/Interrupted' ./dataplane/nftables ./dataplane/iptables ./dataplane/userspace ./dataplane/ebpf -args -places=1000

# An agent of eBPF that is killed, and builds with another layout of the maps, over and over under load.
lives:
	go test -count=1 -v -timeout 30m ./tools/internal/proxy -run '^TestLives$$' -lives=25

# Every ordered pair of backends, changed ten times under load.
switches:
	go test -count=1 -timeout 30m ./tools/internal/proxy -run '^TestSwitch$$' -switches=10

# As root all of it, on a prepared host; otherwise what needs root skips by name. What
# depends on real time has no compiler beside it, for which all is built before, and no more packages than it leaves
# processors for: those that only wait all at once, the others two at a time, which are linked meanwhile (one after
# another they use two fifths of two processors), the backends one by one (two at a time take as long).
# Within a package those that mostly wait go side by side. It is run every time: what it
# depends on, kernel and host, Go's cache of results does not know.
test: build
	go vet ./...
	go build ./...
	go test $(PURE)
	if [ $$(id -u) = 0 ]; then ci/host/prepare.sh; fi
	go test $(BARE) -count=1 -p $(words $(WAITING)) -parallel 16 $(WAITING)
	go test $(BARE) -count=1 -p 2 -parallel 16 $(filter-out $(GINKGO) $(TC) $(BACKENDS) $(WAITING),$(REALTIME))
	go test $(BARE) -count=1 -p 1 $(GINKGO)
	go test $(BARE) -count=1 -p 1 -cpu 8 -parallel 8 -skip '$(LEGACY)' $(BACKENDS)
	ci/expedited go test $(BARE) -count=1 -parallel 12 -skip '$(ATDEVICES)' $(TC)

# What needs no root and no kernel: before a commit.
test-fast:
	go test -short $(PURE)

# Generated files and golden sections, written anew; look at the difference. As root: kernels
# say what backends wrote.
SCHEMAS = ./suites/report ./suites/report/conformance ./suites/tape ./suites/bench ./tools/plumbline
GOLDEN = ./suites/report ./suites/run ./suites/report/conformance ./suites/conformance/behaviours ./suites/conformance/teeth
update:
	go test -count=1 ./ci/presubmit -run '^(TestRealTimeList|TestGraph)$$' -update
	for p in $(GOLDEN); do go test -count=1 $$p -update || exit 1; done
	go test -count=1 ./ci -run '^TestLicenses$$' -update
	for p in $(SCHEMAS); do go test -count=1 $$p -run '^TestSchemas?$$' -update || exit 1; done
	go test -count=1 ./lbprovider/haproxy -run '^TestGolden$$' -update
	go test -count=1 ./tools/internal/proxy -run '^TestShow$$' -update
	go test -count=1 ./tools/plumbline -run '^TestHelp$$' -update
	go test -count=1 ./dataplane/dptest -run '^(TestPlans|TestChecklist)$$' -update
	for p in $(patsubst %/render.go,%,$(wildcard dataplane/*/render.go)); do \
	  go test -count=1 ./$$p -run '^(TestContract|TestGolden)$$/^Golden$$' -update && \
	  go test -count=1 ./$$p -run '^(TestGolden|TestNftLists|TestPath)$$' -update || exit 1; done

# The eBPF programs, by the clang of ci/versions.env (Debian: clang-19 llvm-19 libbpf-dev). A test
# says whether what is there is what this makes.
generate:
	. ci/versions.env; clang-19 --version | grep -q " $$CLANG_VERSION " || { echo "clang $$CLANG_VERSION is needed: apt-get install clang-19 llvm-19 libbpf-dev" >&2; exit 1; }
	go generate ./dataplane/ebpf

# What is generated is what would be, and the rules of the repository hold.
verify: lint update
	git diff --exit-code

# The pure packages and those with goroutines of their own under the race detector, which
# needs a C compiler. Left out are tests that need a static binary or judge rollouts, and
# TestServiceController: upstream's service controller races with itself there
# (k8s.io/cloud-provider v0.36.6, controllers/service/controller.go:339 and 503).
RACE = $(PURE) $(addprefix ./,dataplane/loop dataplane/watch dataplane/healthz fixtures/api fixtures/lab/control \
	fixtures/observe fixtures/probe fixtures/probe/remote fixtures/probe/schedule fixtures/probe/sock lbprovider/balancer lbprovider/records suites/run ci/soak tools/internal/proxy dataplane/agent)
race:
	CGO_ENABLED=1 go test -race -p 1 -skip '^TestServiceController$$' $(RACE)

# The contract's cases against upstream kube-proxy, in both modes.
peer: host
	go test -count=1 -parallel 6 -timeout 20m ./suites/peer -modes=nftables,iptables
	go test -count=1 -timeout 10m -run TestTakeOver ./tools/internal/proxy -kube-proxy=nftables,iptables

# The lab's API beside the real one: the same requests to both (fixtures/api/differential).
# DIFFERENTIAL=-update writes down anew what the real one says.
DIFFERENTIAL ?=
differential: host
	go test -count=1 -timeout 60m -v ./fixtures/api/differential -beside-real $(DIFFERENTIAL)

# The main job, on kind.
e2e: host build
	bin/plumbline run --cluster=kind $(E2E)

# Whether the last report says all that its cluster could tell.
filled:
	go test -count=1 ./suites/disruption -run '^TestReportFilled$$' -report=$(CURDIR)/results/latest

# The harness itself on real clusters: stopped at many steps (CLUSTER=lab or kind), or among
# other people's things (CLUSTER=existing), such as SELFTEST=-ginkgo.focus-file=lookalikes.
SELFTEST ?=
selftest: build
	ci/host/prepare.sh $(if $(filter lab,$(CLUSTER)),--lab)
	go test -v -count=1 -timeout 200m ./suites/selftest -cluster=$(CLUSTER) -results=$(CURDIR)/results -ginkgo.v $(SELFTEST)

# What a lab's reports say, held against who put trouble into it, against the model, and against
# each other. Part of `make selftest CLUSTER=lab`.
truth:
	$(MAKE) selftest CLUSTER=lab SELFTEST='-ginkgo.focus-file=truth_test -ginkgo.focus-file=prediction_test'

# The main job without Docker, such as `make lab ROWS=all` or LAB='--workers=5'.
ROWS ?= plumb-nftables:fallback,plumb-nftables:ignore+drop,plumb-nftables:ignore+reject,plumb-ebpf:fallback
LAB ?=
lab: build
	ci/host/prepare.sh --lab
	bin/plumbline run --cluster=lab --profile=l4-fast --delay=6s --rollouts=1 --rows='$(ROWS)' $(LAB)

# What go install of this commit gives, in an empty folder.
installed:
	ci/host/prepare.sh --lab
	ci/installed

# The load balancer with HAProxy of Debian's newer releases, such as SUITES=trixie.
haproxy: host
	ci/haproxy $(SUITES)

# The eBPF dataplane on Debian's kernels 6.1 and 6.12 in emulated machines, such as
# SUITES=bookworm TESTS='^TestCapabilities$$'.
kernels:
	TESTS='$(TESTS)' ci/kernels $(SUITES)

# The same scenario on kind and in a lab, side by side, such as AGREE='--rows=all'.
AGREE ?=
agree: host build
	bin/plumbline run --cluster=kind --results=results/kind $(AGREE)
	bin/plumbline run --cluster=lab --results=results/lab $(AGREE)
	bin/plumbline compare results/kind/latest results/lab/latest

# Which Service semantics a dataplane keeps, such as
# make conformance DATAPLANE=kube-proxy:nftables CLUSTER=lab CONFORMANCE='--focus=affinity'.
DATAPLANE ?= plumb-nftables
CLUSTER ?= kind
CONFORMANCE ?=
conformance: build
	ci/host/prepare.sh $(if $(filter lab existing,$(CLUSTER)),--lab)
	bin/plumbline conformance --cluster=$(CLUSTER) --dataplane=$(DATAPLANE) $(CONFORMANCE)

# Whether the last runs of it, in labs, have looked at every behaviour between them.
REPORTS ?= 1
observed:
	@there=$$(ls -d results/*-conformance-* 2>/dev/null | wc -l); ((there >= $(REPORTS))) || { echo "observed: $$there reports of conformance runs are in results, and $(REPORTS) wanted" >&2; exit 2; }
	go test -count=1 ./suites/conformance -run '^TestObserved$$' -reports=$$(ls -d $(CURDIR)/results/*-conformance-* | tail -n $(REPORTS) | paste -sd,)

# Whether the conformance suite notices dataplanes that are broken on purpose, such
# as make teeth TEETH='affinity.*|hcnp.*': those whose row in the table is missing or older, a few seconds each.
TEETH ?= .*
teeth: build
	ci/host/prepare.sh --lab
	go build -tags mutations -o bin/mutant/ ./tools/plumb-mutant
	go build -ldflags '$(LDFLAGS)' -o bin/teeth ./ci/teeth
	failed=0; for family in ipv4 dual; do \
	  bin/teeth --ip-family=$$family --mutations='$(TEETH)' --table=suites/conformance/teeth/TEETH.md || failed=1; \
	done; exit $$failed

bench: host build
	bin/plumbline bench $(BENCH)

microbench:
	go test -run '^$$' -bench . -benchmem ./dataplane/... ./fixtures/api ./fixtures/lab/network ./suites/...

# Every target there is, in the folder that has it. What it finds is a file in testdata/fuzz.
fuzz:
	for p in $$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for f in $$(go test -list '^Fuzz' $$p | grep ^Fuzz); do \
			echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p || exit 1; \
		done; \
	done

# Every test over and over beside busy loops, on from where ci/soak.tsv stands, such as
# make soak SOAK='--time=1h --packages=^tools/'; with --halt=700ms on a host that stands still so long of every 2 s.
SOAK ?=
soak: host build
	go run ./ci/soak $(SOAK)

# Which small changes of what decides about packets no test notices, on from where
# ci/mutants.tsv stands, such as make mutants MUTANTS='--time=1h --packages=plan$$ --contract=false'.
MUTANTS ?=
mutants: host
	go run ./ci/mutants $(MUTANTS)

# Reports as a browser shows them, such as
# make pages PAGES=results/latest/report.html.
PAGES ?= suites/run/testdata/kept-judged/report.html suites/report/testdata/report.html suites/report/conformance/testdata/report.html
pages:
	ci/host/prepare.sh --pages
	go run ./ci/pages $(PAGES)

# What takes too long for .ci/run.
nightly: host build
	$(MAKE) agree
	$(MAKE) selftest CLUSTER=kind
	$(MAKE) selftest CLUSTER=lab
	$(MAKE) selftest CLUSTER=existing
	$(MAKE) conformance CLUSTER=kind
	$(MAKE) conformance observed CLUSTER=lab
	$(MAKE) conformance CLUSTER=lab DATAPLANE=plumb-ebpf
	$(MAKE) e2e E2E='--rows=plumb-ebpf:ignore+drop,plumb-ebpf:ignore+reject'
	$(MAKE) differential
	$(MAKE) tc
	$(MAKE) legacy
	$(MAKE) interrupted
	$(MAKE) lives
	$(MAKE) switches
	$(MAKE) kernels
	$(MAKE) haproxy
	$(MAKE) installed
	$(MAKE) race
	$(MAKE) fuzz
	$(MAKE) soak SOAK='--time=1h'
	$(MAKE) soak SOAK='--time=1h --halt=700ms'
	$(MAKE) mutants MUTANTS='--time=1h'
	$(MAKE) pages

lint:
	gofmt -l . | (! grep .)
	go vet ./...
	go vet -tags mutations ./tools/plumb-mutant
	go test ./ci/presubmit
	go test ./tools/plumbline -run '^(TestHelp|TestQuoted)$$'
	go tool actionlint
	go tool staticcheck ./...
	go tool unparam ./...
	ci/errcheck
	ci/vulnerabilities

clean: build
	bin/plumbline clean
