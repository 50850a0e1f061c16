# Windlass: `make` lists what can be done. Every target may be run again at any time.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup binary build demo test bench conformance docs clean

cache := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/windlass
# A CI run is a fresh clone in another folder: what cargo made before is kept in the cache folder.
ifeq ($(CI),true)
export CARGO_TARGET_DIR ?= $(cache)/target
endif
built := $(or $(CARGO_TARGET_DIR),target)/x86_64-unknown-linux-gnu/release/windlass
windlass := target/release/windlass
say = printf '\033[1m==> %s\033[0m\n' "$(1)" >&2

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Check this computer and install what is missing from Debian
	@scripts/setup

binary: setup
	@$(call say,building windlass (the first time about ten minutes on two cores))
	@cargo build --release --locked --workspace --bins
	@mkdir -p target/release
	@cmp --quiet $(built) $(windlass) || install -m 755 $(built) $(windlass)

build: binary ## Build the binary, the bundle of Kubernetes and the machine image
	@$(call say,building the bundle and the machine image (the first time about twenty-five minutes on two cores))
	@$(windlass) bundle build
	@scripts/kubectl $(windlass)

demo: build ## Raise examples/local.yaml and say what to do with it
	@scripts/demo $(windlass)

test: build ## Run every test
	@scripts/test $(windlass)

bench: build ## Measure against kubeadm: a table and target/bench.json
	@kubeadm=$$($(windlass) bundle build --extra kubeadm --no-machine-image | tail -n 1); \
	WINDLASS=$(windlass) $(dir $(built))windlass-bench --kubeadm "$$kubeadm" --output target/bench.json

conformance: build ## Run Kubernetes's own conformance suite on a cluster of 1 + 2
	@tests/conformance/run $(windlass)

docs: binary ## Write the generated pages of docs/reference anew
	@cargo xtask docs --write

clean: ## Remove what was built here; the cache folder stays
	@rm -rf target
