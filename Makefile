# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Each target sets up what it needs; on Debian 12, 13 or Ubuntu 24.04 nothing but make and git has to be there.
.DEFAULT_GOAL := help
.PHONY: help setup check test test-all test-hardware release-check mutants site site-down docs bench clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make the virtual environment .venv, or bring it up to date
	@tests/setup/venv.sh

site: ## bring up a simulated resource group with a Slurm cluster, and run a job on it
	@tests/setup/site.sh up

site-down: ## remove the simulated resource group and its cluster
	@tests/setup/site.sh down

check: setup ## the quick checks, for daily work (STEPS="unit mypy" runs these only)
	@.venv/bin/python tests/setup/run_checks.py --quick $(STEPS)

test: setup ## all checks, a whole cluster included (STEPS="unit molecule" runs these only)
	@.venv/bin/python tests/setup/run_checks.py $(STEPS)

test-all: setup ## everything of make test, the tests marked thorough and the mutants; takes hours
	@.venv/bin/python tests/setup/run_checks.py --all $(STEPS)

test-hardware: setup ## the tests on an emulated machine with NVMe disks and NUMA nodes
	@tests/setup/hardware.sh

release-check: setup ## install the archive of the release before, upgrade to this one while a job runs, run again
	@tests/setup/host.sh
	@.venv/bin/python -m pytest tests/release --timeout=3600

mutants: setup ## turn each decision of the health checks round, and tell which no test notices (ONLY="swap judge")
	@PYTHONPATH=tests:tests/setup .venv/bin/python -m mutation.health_checks $(ONLY)

docs: setup ## build the documentation site
	@tests/setup/docs.sh

bench: setup ## compare the inventory with azure_rm and with bare SDK calls
	@tests/benchmarks/run.sh

clean: ## remove the environments, caches and logs of this clone (a running site stays: make site-down)
	rm -rf .venv .venv-oldest .venv-newest .venv-bench .nox .cache .test-logs .ansible .mypy_cache .pytest_cache .ruff_cache
