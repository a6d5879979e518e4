#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The main job without Azure: a simulated resource group, site.yml on it through the real inventory plugin, a real job.
# site.sh up | down
set -euo pipefail
cd "$(dirname "$0")/../.."

name=site
inventory=inventories/simulated/azure_vmss.yml
began=$SECONDS

step() { printf '\n== %s  [%d s]\n' "$1" $((SECONDS - began)); }

# failed WHAT WHAT-TO-DO
failed() {
    printf '\nmake site: %s failed after %d s.\n%s\n' "$1" $((SECONDS - began)) "$2" >&2
    exit 1
}

simulator() { PYTHONPATH=tests .venv/bin/python -m simulator "$@"; }

up() {
    step "1/5 Packages of the distribution"
    tests/setup/host.sh || failed "installing packages" "The package manager says why, above."
    step "2/5 Python environment"
    tests/setup/venv.sh || failed "making .venv" "pip says why, above; 'make clean' starts afresh."
    step "3/5 Simulated resource group: nodes are systemd containers, Azure Resource Manager is a process on loopback"
    simulator up "tests/simulator/scenarios/$name.yml" --name "$name" --backend containers ||
        failed "starting the simulated resource group" "See .simulator/$name/simulator.log; 'make site-down' clears up."
    step "4/5 ansible-playbook playbooks/site.yml -i $inventory"
    .venv/bin/ansible-playbook playbooks/site.yml -i "$inventory" ||
        failed "site.yml" "The summary above names the nodes; the nodes stay up for you to look at ('make site-down' removes them)."
    step "5/5 A job of four MPI ranks on two nodes, submitted on the login node"
    .venv/bin/ansible-playbook tests/site/job.yml -i "$inventory" ||
        failed "the job" "Look at 'sinfo' and 'squeue' on the login node, and at /var/log/slurm there and on the nodes."
    summary
}

summary() {
    local login
    login=$(.venv/bin/ansible-inventory -i "$inventory" --host ctl 2>/dev/null |
        .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["azure_private_ipv4"])')
    cat <<END

== Done in $((SECONDS - began)) s: Slurm runs on a simulated scale set, and a job ran on two of its nodes.
   Real:       the inventory plugin and the Azure SDK, ssh, the site playbook, systemd, munge, Slurm, Open MPI.
   Simulated:  Azure Resource Manager and instance metadata; the nodes are containers on this machine, without GPUs,
               InfiniBand or NVMe disks, and with this machine's CPUs instead of a Standard_ND96asr_v4's.
   Look:       ssh -F none -i .simulator/$name/id_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null azureuser@$login sinfo
   Again:      make site         (nothing changes)
   Remove:     make site-down
END
}

down() {
    [ -x .venv/bin/python ] || tests/setup/venv.sh
    simulator down --name "$name"
}

case "${1:-}" in
up) up ;;
down) down ;;
*)
    echo "usage: tests/setup/site.sh up|down" >&2
    exit 64
    ;;
esac
