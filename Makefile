# The habits of the house. `make demo` and `make test` set up what they need.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
CARGO ?= cargo
WALLFINDER := target/release/wallfinder
# The tool that is tested: the tests' own build, whose hot path is optimised and whose sums are
# checked for overflow. TOOL=target/release/wallfinder tests what `make build` builds.
TOOL ?= target/debug/wallfinder
export WALLFINDER_SUBJECTS := $(CURDIR)/bin

.PHONY: help
help: ## Say what there is.
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: tools
tools: ## Say what is missing to build, and install what may be installed.
	@./scripts/need.sh

.PHONY: subjects
subjects: subjects-go subjects-rust nats-server ## Build the servers that studies load, and the one that a fleet meets at.

.PHONY: subjects-go
subjects-go: tools
	@mkdir -p bin
	@cd subjects/go && go build -p $(JOBS) -o ../../bin/ ./cmd/...

# At the version of subjects/nats/go.mod.
.PHONY: nats-server
nats-server: tools
	@mkdir -p bin
	@cd subjects/nats && CGO_ENABLED=0 go build -p $(JOBS) -trimpath -ldflags '-s -w' -o ../../bin/nats-server github.com/nats-io/nats-server/v2

.PHONY: subjects-rust
subjects-rust: tools
	@mkdir -p bin
	@cd subjects/rust && $(LINTED) $(CARGO) build --release --locked -j $(JOBS)
	@install -t bin $(addprefix subjects/rust/target/release/,knownwall knownwall-client echo-rs)

# The echo subjects with another constant of Go's runtime or of grpc-go, for a study of what 32 KB means: the limit of
# small objects, and HTTP/2 frames.
.PHONY: variants
variants: subjects ## Build the echo subjects with other limits of objects and frames, for `size-sweep --with anomalies`.
	@cd subjects/go && while read -r name option; do \
		changed=$$(go run ./overlay $$option --into ../../target/$$name) \
			&& go build -p $(JOBS) $$changed -o ../../bin/$$name/ ./cmd/echo ./cmd/echo-client || exit 1; \
	done <<< $$'small20k --limit 20480\nframes8k --frames 8192\nframes32k --frames 32768'

# The tool goes to other hosts as it is, whichever C library they have: it holds its own.
LINKED := -C target-feature=+crt-static
# What is there twice is kept once, by a linker that can: Rust's own, which it has on this architecture as rustup installs it.
FOLDED := ./scripts/folds.sh && echo -C link-arg=-Wl,--icf=all
# Addresses to be moved take an eighth of a byte each in place of 24, if the C library can read that: glibc from 2.36 on.
ifneq ($(shell getconf GNU_LIBC_VERSION 2>/dev/null | awk '$$2 >= 2.36'),)
LINKED += -C link-arg=-Wl,-z,pack-relative-relocs
endif

.PHONY: build
build: tools subjects ## Build the tool and the subjects.
	@$(VERSIONED) $(CARGO) rustc --release --locked -j $(JOBS) -p wallfinder --bin wallfinder -- $(LINKED) $$($(FOLDED))
	@./scripts/strip.sh $(WALLFINDER)

# With the revision of its sources, so that a record tells which build made it.
REVISION = $(shell git describe --always --dirty 2>/dev/null)
VERSIONED = WALLFINDER_VERSION=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)$(addprefix +,$(REVISION))

PREFIX ?= /usr/local
LIBEXEC := $(DESTDIR)$(PREFIX)/libexec/wallfinder
SERVICES := $(DESTDIR)$(PREFIX)/lib/systemd/system
MANUAL := $(DESTDIR)$(PREFIX)/share/man/man1
COMPLETIONS := bash:bash-completion/completions/wallfinder zsh:zsh/site-functions/_wallfinder \
	fish:fish/vendor_completions.d/wallfinder.fish

# What `make build` built; it builds nothing itself, so that root need not.
.PHONY: install
install: ## Install the tool, the bundled servers, manual pages and completions under PREFIX (/usr/local).
	@test -x $(WALLFINDER) && test -f $(WALLFINDER).debug && test -x bin/catalogue || { echo 'install: nothing is built yet: make build' >&2; exit 1; }
	@install -D -m 755 $(WALLFINDER) $(DESTDIR)$(PREFIX)/bin/wallfinder
	@install -m 644 $(WALLFINDER).debug $(DESTDIR)$(PREFIX)/bin/wallfinder.debug
	@install -d $(LIBEXEC) $(MANUAL)
	@install -m 755 $(wildcard bin/*-client bin/*-rs) bin/catalogue bin/content bin/echo bin/knownwall bin/nats-server $(LIBEXEC)
	@install -d $(SERVICES) && sed 's#/usr/local#$(PREFIX)#' install/wallfinder-agent.service > $(SERVICES)/wallfinder-agent.service
	@$(WALLFINDER) man $(MANUAL)
	@for each in $(COMPLETIONS); do file=$(DESTDIR)$(PREFIX)/share/$${each#*:}; install -d $${file%/*} \
		&& $(WALLFINDER) completions $${each%%:*} > $$file || exit 1; done

.PHONY: uninstall
uninstall: ## Remove what `make install` installed under PREFIX.
	@rm -rf $(LIBEXEC) $(addprefix $(DESTDIR)$(PREFIX)/bin/,wallfinder wallfinder.debug) $(SERVICES)/wallfinder-agent.service $(MANUAL)/wallfinder.1 $(MANUAL)/wallfinder-*.1
	@for each in $(COMPLETIONS); do rm -f $(DESTDIR)$(PREFIX)/share/$${each#*:}; done

.PHONY: demo
demo: build drivers ## Whose number is autocannon's? What is ours? Which wall stands behind a link? In two minutes.
	@./scripts/demo.sh $(WALLFINDER)

.PHONY: drivers
drivers: ## Foreign load generators that the demo and the benchmarks use, where they can be had.
	@./scripts/drivers.sh

.PHONY: servers
servers: ## nginx, node and HAProxy, where they can be had: the labelled suite loads them too.
	@./scripts/servers.sh

# A test build is made once, on machines that are new: nothing is kept to make the next one
# quicker, nothing is told to debuggers, and lints look at what is compiled anyway.
TEST_BUILD := CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 \
	RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__

# What can be made side by side is: some of it waits for the network, some for a disk, and each compiler
# ends with one thread.
.PHONY: test
test: ## Everything that must hold: style, lints, unit tests, black-box tests, the subjects.
	@$(MAKE) --no-print-directory tools style
	@$(MAKE) --no-print-directory -j4 fetched tested-go compiled-rust compiled
	@cd subjects/rust && $(TEST_BUILD) $(CARGO) test --release --locked -j $(JOBS)
	@$(TEST_BUILD) ./scripts/test-programs.sh
	@WALLFINDER_BIN=$(abspath $(TOOL)) $(TEST_BUILD) ./scripts/test-blackbox.sh
	@target/debug/wallfinder-walls --wallfinder $(TOOL) --smoke --again 2

.PHONY: test-elsewhere
test-elsewhere: subjects compiled ## Some of it on Debian 12's kernel with control groups of version 2, in an emulated machine (root).
	@WALLFINDER_BIN=$(abspath $(TOOL)) $(TEST_BUILD) ./scripts/test-elsewhere.sh
	@./scripts/find-elsewhere.sh $(TOOL)

# One after the other: Debian's packages are installed by one program at a time.
.PHONY: fetched
fetched:
	@./scripts/drivers.sh
	@./scripts/servers.sh

.PHONY: tested-go
tested-go: subjects-go nats-server
	@cd subjects/go && go vet ./...
	@cd subjects/go && go test -vet=off -p $(JOBS) ./...
	@cd install/manifests && go test -p $(JOBS) ./...

.PHONY: compiled-rust
compiled-rust: LINTED := $(TEST_BUILD)
compiled-rust: subjects-rust
	@cd subjects/rust && $(TEST_BUILD) $(CARGO) test --release --no-run --locked -j $(JOBS)

.PHONY: compiled
compiled:
	@$(TEST_BUILD) $(CARGO) build --workspace --bins --tests --examples --locked -j $(JOBS)

.PHONY: check
check: style ## Formatting, lints and the rules of the house, as errors, in a minute.
	@$(CARGO) clippy --workspace --all-targets --locked -j $(JOBS) -- -D warnings
	@$(CARGO) test --locked -j $(JOBS) -p wallfinder-tests --test house
	@cd subjects/rust && $(CARGO) clippy --release --all-targets --locked -j $(JOBS) -- -D warnings
	@cd subjects/go && go vet ./...
	@cd install/manifests && go vet ./...

.PHONY: style
style:
	@$(CARGO) fmt --all -- --check
	@cd subjects/rust && $(CARGO) fmt --all -- --check
	@unformatted=$$(gofmt -l subjects/go install/manifests); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi

.PHONY: bench
bench: build ## Ours beside its peers: client CPU per request as ratios with intervals.
	@./bench/install-peers.sh
	@$(CARGO) run --release --locked -j $(JOBS) -p wallfinder-bench

.PHONY: bench-samples
bench-samples: tools ## Ten million requests as Parquet and their quantiles, beside pandas.
	@$(CARGO) build --release --locked -j $(JOBS) -p wallfinder -p wallfinder-store --bin wallfinder --example sample_writer
	@bench/.peers/pandas/bin/python -c 'import pandas, pyarrow' 2>/dev/null || { python3 -m venv bench/.peers/pandas \
		&& bench/.peers/pandas/bin/python -m pip install -q pandas==2.3.3 pyarrow==21.0.0; }
	@bench/.peers/pandas/bin/python bench/samples.py

.PHONY: walls
walls: build servers drivers ## Servers whose wall is known: how many does find name? ARGS='--smoke' for two of them.
	@$(CARGO) run --release --locked -j $(JOBS) -p wallfinder-walls -- $(ARGS)

.PHONY: kills
kills: build ## Runs killed at random moments, KILLS (200) of them, and nothing may be left; OF=kills_on_hosts, kills_at_a_hub or power_cut of others.
	@WALLFINDER_KILLS=$${KILLS:-200} $(CARGO) test --locked -j $(JOBS) -p wallfinder-tests --test blackbox $${OF:-kills}:: -- --ignored --nocapture

.PHONY: fuzz
fuzz: ## Each decoder under the fuzzer, FUZZ_SECONDS (600) of it.
	@cd fuzz && targets=$$(cargo +nightly fuzz list) || { echo 'fuzz: it needs a nightly toolchain and cargo-fuzz:' \
		'rustup toolchain install nightly && cargo install cargo-fuzz' >&2; exit 1; }; for target in $$targets; do \
		dictionary=dictionaries/$$target.dict; mkdir -p corpus/$$target; \
		cargo +nightly fuzz run $$target corpus/$$target $$(ls -d seeds/$$target 2>/dev/null) -- -max_len=4096 \
			$$(ls $$dictionary 2>/dev/null | sed s/^/-dict=/) -max_total_time=$${FUZZ_SECONDS:-600}; done

.PHONY: clean
clean: ## Remove what was built.
	@$(CARGO) clean
	@cd subjects/rust && $(CARGO) clean
	@rm -rf bin
