# What people run. CI calls the same words.
.PHONY: dev build check test test-fast test-real test-long bench bench-fresh

CARGO ?= cargo

dev: ## weir in front of a simulated cluster
	$(CARGO) run --quiet --bin weir -- dev

build:
	$(CARGO) build --release --bin weir

check: ## formatting, lints, licences: the fast ones
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	tests/deny.sh

test: ## everything that CI runs
	tests/run.sh

test-fast: ## unit, property and integration tests, without the real apiserver
	$(CARGO) test --workspace --quiet

test-real: ## the suite against the real etcd, kube-apiserver, kubectl and client-go
	$(CARGO) build --quiet --bin weir
	tests/real/run.sh

test-long: ## more seeds, more faults, more requests
	WEIR_SEEDS=20000 $(CARGO) test --workspace --quiet
	$(CARGO) build --quiet --bin weir
	WEIR_LONG=1 tests/real/run.sh

bench: ## micro-benchmarks, and the bounds measured
	$(CARGO) bench --quiet -p weir-bench

bench-fresh: ## answers that have to be fresh, before real apiservers and beside their own; about 10 minutes
	$(CARGO) build --release --quiet --bin weir
	WEIR_BIN=$(CURDIR)/target/release/weir tests/real/bench/run.sh
