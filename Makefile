# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Each target installs what it needs. Debian 12, Debian 13 or Ubuntu 24.04 needs only make and git.
.DEFAULT_GOAL := help
.PHONY: help setup check test test-all test-hardware release-check mutants breakages site site-down docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create or update the virtual environment .venv
	@tests/setup/venv.sh

site: ## make a Slurm cluster in an empty simulated subscription, and run a job on it
	@tests/setup/site.sh up

site-down: ## tear the simulated cluster down, and remove the simulated subscription
	@tests/setup/site.sh down

check: setup ## the quick checks, for daily work (STEPS="unit mypy": only these)
	@.venv/bin/python tests/setup/run_checks.py --quick $(STEPS)

test: setup ## all checks, including a complete cluster (STEPS="unit molecule": only these and what they need)
	@.venv/bin/python tests/setup/run_checks.py $(STEPS)

test-all: setup ## all of make test, the tests marked thorough, mutants and breakages; takes hours (RESUME=1: continue)
	@.venv/bin/python tests/setup/run_checks.py --all $(if $(RESUME),--resume) $(STEPS)

test-hardware: setup ## the tests on an emulated machine with NVMe disks and NUMA nodes
	@tests/setup/hardware.sh

release-check: setup ## install the previous release, upgrade to this one while a job runs, run again
	@tests/setup/host.sh
	@.venv/bin/python -m pytest tests/release --timeout=3600

mutants: setup ## invert each decision of the health checks, and list those that no test detects (ONLY="swap judge")
	@PYTHONPATH=tests:tests/setup .venv/bin/python -m mutation.health_checks $(ONLY)

breakages: setup ## break what the tables in tests/mutation list, and name what no test detects (ONLY="teardown scratch")
	@PYTHONPATH=tests:tests/setup .venv/bin/python -m mutation.breaking $(ONLY)

docs: setup ## build the documentation site
	@tests/setup/docs.sh

bench: setup ## compare the inventory with azure_rm and with bare SDK calls
	@tests/benchmarks/run.sh

clean: ## remove the environments, caches and logs of this clone (to remove a running site: make site-down)
	rm -rf .venv .venv-oldest .venv-newest .venv-bench .nox .cache .test-logs .ansible .mypy_cache .pytest_cache .ruff_cache
