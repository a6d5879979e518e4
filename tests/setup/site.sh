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
# The folder with the release files of enroot and pyxis that the site was made with.
remembered=.simulator/$name/enroot_files
# Reports on the nodes' health, a folder for each tier.
health=.simulator/$name/health

# A first run makes the nodes, which a further one finds. What each took last time says how far this one is.
kind=site-new
if [ -e ".simulator/$name/state.json" ]; then
    kind=site-again
fi
kind=$kind-${HPCAI_SUITE:-trixie}
estimate=$(tests/setup/estimate.sh show "$kind")

step() { printf '\n== %s  [%d s%s]\n' "$1" $((SECONDS - began)) "${estimate:+ of $estimate}"; }

# failed WHAT WHAT-TO-DO
failed() {
    printf '\nmake site: %s failed after %d s.\n%s\n' "$1" $((SECONDS - began)) "$2" >&2
    exit 1
}

simulator() { PYTHONPATH=tests .venv/bin/python -m simulator "$@"; }

# containers_of_the_site GIVEN: a site that is up keeps what it was made with. GIVEN says whether somebody wants otherwise.
containers_of_the_site() {
    local made_with
    simulator list | grep -q "^$name  up" || return 0
    made_with=$(cat "$remembered" 2>/dev/null || true)
    if [ -z "$1" ]; then
        HPCAI_ENROOT_FILES=$made_with
    elif [ -n "$HPCAI_ENROOT_FILES" ] && [ -z "$made_with" ]; then
        failed "giving enroot and pyxis to a site that is up" "Its nodes were made without them: 'make site-down' first."
    elif [ -z "$HPCAI_ENROOT_FILES" ] && [ -n "$made_with" ]; then
        failed "taking enroot and pyxis from a site that is up" "Its nodes were made with them: 'make site-down' first."
    fi
}

up() {
    local given=${HPCAI_ENROOT_FILES+given}
    step "1/7 Packages of the distribution, release files of enroot and pyxis"
    tests/setup/host.sh || failed "installing packages" "The package manager says why, above."
    HPCAI_ENROOT_FILES=$(tests/setup/enroot_files.sh) ||
        failed "looking for the release files of enroot and pyxis" "It is said above what is wrong with them."
    export HPCAI_ENROOT_FILES
    step "2/7 Python environment"
    tests/setup/venv.sh || failed "making .venv" "pip says why, above; 'make clean' starts afresh."
    step "3/7 Simulated resource group: nodes are systemd containers, Azure Resource Manager is a process on loopback"
    containers_of_the_site "$given"
    simulator up "tests/simulator/scenarios/$name.yml" --name "$name" --backend containers ||
        failed "starting the simulated resource group" "See .simulator/$name/simulator.log; 'make site-down' clears up."
    printf '%s' "$HPCAI_ENROOT_FILES" >"$remembered"
    step "4/7 ansible-playbook playbooks/site.yml -i $inventory"
    .venv/bin/ansible-playbook playbooks/site.yml -i "$inventory" ||
        failed "site.yml" "The summary above names the nodes; the nodes stay up for you to look at ('make site-down' removes them)."
    step "5/7 A job of four MPI ranks on two nodes, submitted on the login node"
    .venv/bin/ansible-playbook tests/site/job.yml -i "$inventory" ||
        failed "the job" "Look at 'sinfo' and 'squeue' on the login node, and at /var/log/slurm there and on the nodes."
    if [ -n "$HPCAI_ENROOT_FILES" ]; then
        step "6/7 A job in a container of another system on two nodes"
        .venv/bin/ansible-playbook tests/site/container.yml -i "$inventory" ||
            failed "the job in a container" "'hpcnode containers status' on a node tells more, and /var/log/slurm/slurmd.log there."
    else
        step "6/7 No job in a container: there are no release files of enroot and pyxis (HPCAI_ENROOT_FILES names a folder)"
    fi
    step "7/7 Health of the nodes, as a job's prolog and slurmd's regular look see it, and a report of all nodes"
    for tier in prolog periodic; do
        .venv/bin/ansible-playbook playbooks/health_check.yml -i "$inventory" \
            -e "hpcai_health_tier=$tier" -e "hpcai_health_report=$PWD/$health/$tier" ||
            failed "the health check (tier $tier)" "The report in $health/$tier says what is wrong with which node."
    done
    tests/setup/estimate.sh save "$kind" $((SECONDS - began))
    summary
}

summary() {
    local login also="" parts="Slurm, Open MPI"
    if [ -n "$HPCAI_ENROOT_FILES" ]; then
        also=", and another one in a container"
        parts="$parts, enroot and pyxis of $HPCAI_ENROOT_FILES"
    fi
    login=$(.venv/bin/ansible-inventory -i "$inventory" --host ctl 2>/dev/null |
        .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["azure_private_ipv4"])')
    cat <<END

== Done in $((SECONDS - began)) s: Slurm runs on a simulated scale set, and a job ran on two of its nodes$also.
   Real:       the inventory plugin and the Azure SDK, ssh, the site playbook, systemd, munge, $parts.
   Simulated:  Azure Resource Manager and instance metadata; the nodes are containers on this machine, without GPUs,
               InfiniBand or NVMe disks, and with this machine's CPUs instead of a Standard_ND96asr_v4's.
   Look:       ssh -F none -i .simulator/$name/id_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null azureuser@$login sinfo
   Health:     $PWD/$health/periodic/report.html     (a page for your browser)
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
