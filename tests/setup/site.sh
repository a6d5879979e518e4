#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# A complete run without Azure: an empty simulated subscription, provision.yml makes a cluster's resources in it, site.yml
# configures them through the real inventory plugin, and real jobs run: one on static nodes, one for which a node of an
# elastic set appears, and a training. In the end, teardown.yml deletes the resources.
# site.sh up | down
set -euo pipefail
cd "$(dirname "$0")/../.."

name=site
inventory=inventories/simulated/azure_vmss.yml
endpoint=http://127.0.0.1:8474
stack=tests/site/stack.yml
began=$SECONDS
# Records the folder with the release files of enroot and pyxis with which the site was created.
recorded=.simulator/$name/enroot_files
# What the nodes' time was used for.
ledger=.simulator/$name/goodput.json
# The variables for site.yml that provision.yml writes: the elastic set.
variables=.simulator/$name/inventory/group_vars/all/hpcai_stack.yml
# Everything that differs from the roles' defaults.
settings=(-e "@$variables" -e slurm_accounting=true -e hpcai_monitoring=true -e hpcai_training=true)
key=(-F none -i ".simulator/$name/id_ed25519" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null)
# Health reports of the nodes, a folder for each tier.
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

# keep_enroot_files GIVEN: a running site keeps the files with which it was created. GIVEN is not empty if the caller
# set HPCAI_ENROOT_FILES.
keep_enroot_files() {
    local created_with
    grep -q "^$name  up" <<<"$(simulator list)" || return 0
    created_with=$(cat "$recorded" 2>/dev/null || true)
    if [ -z "$1" ]; then
        HPCAI_ENROOT_FILES=$created_with
    elif [ -n "$HPCAI_ENROOT_FILES" ] && [ -z "$created_with" ]; then
        failed "adding enroot and pyxis to a running site" "Its nodes were created without them. Run 'make site-down' first."
    elif [ -z "$HPCAI_ENROOT_FILES" ] && [ -n "$created_with" ]; then
        failed "removing enroot and pyxis from a running site" "Its nodes were created with them. Run 'make site-down' first."
    fi
}

# addresses GROUP: the private addresses of a group's machines, one per line
addresses() {
    .venv/bin/ansible-inventory -i "$inventory" --list 2>/dev/null | .venv/bin/python -c '
import json, sys
found = json.load(sys.stdin)
for host in found.get(sys.argv[1], {}).get("hosts", []):
    # Text from Azure is never a template; ansible-inventory shows this mark.
    print(found["_meta"]["hostvars"][host]["azure_private_ipv4"]["__ansible_unsafe"])' "$1"
}

# train: a training on two nodes, if these have PyTorch or get it from HPCAI_TORCH_FILES
train() {
    local python nodes
    mapfile -t nodes < <(addresses hpcai_compute)
    python=$(PYTHONPATH=tests .venv/bin/python tests/site/pytorch.py "$endpoint" ".simulator/$name" "${nodes[@]}") || return 1
    [ -n "$python" ] || return 0
    .venv/bin/ansible-playbook tests/site/training.yml -i "$inventory" -e "training_check_python=$python"
}

up() {
    local given=${HPCAI_ENROOT_FILES+given}
    step "1/12 Packages of the distribution, release files of enroot and pyxis"
    tests/setup/host.sh || failed "installing packages" "See the package manager's messages above."
    HPCAI_ENROOT_FILES=$(tests/setup/enroot_files.sh) ||
        failed "looking for the release files of enroot and pyxis" "See the message above."
    export HPCAI_ENROOT_FILES
    step "2/12 Python environment"
    tests/setup/venv.sh || failed "making .venv" "See pip's messages above. 'make clean' removes the environment, and the next run creates it again."
    step "3/12 An empty simulated subscription: Azure Resource Manager is a process on loopback, without any machine"
    keep_enroot_files "$given"
    simulator up empty --name "$name" --network 10.77.0.0/24 --backend containers ||
        failed "starting the simulated subscription" "See the message above and .simulator/$name/simulator.log. 'make site' always uses port 8474: end the program that has it. If that is another site, run 'make site-down' in its clone. Here it removes what was started."
    printf '%s' "$HPCAI_ENROOT_FILES" >"$recorded"
    step "4/12 ansible-playbook playbooks/provision.yml -e @$stack: its checks first, then the resources; nodes are systemd containers"
    .venv/bin/ansible-playbook playbooks/provision.yml -i localhost, -e "@$stack" -e "simulator_state=$PWD/.simulator/$name" ||
        failed "provision.yml" "The message above names the resource. See also .simulator/$name/simulator.log. 'make site-down' removes everything."
    step "5/12 The scale set, which was made without instances, gets two"
    PYTHONPATH=tests .venv/bin/python tests/site/grow.py "$endpoint" 2 ||
        failed "growing the scale set" "See .simulator/$name/simulator.log. 'make site-down' removes everything."
    step "6/12 ansible-playbook playbooks/site.yml -i $inventory ${settings[*]}"
    .venv/bin/ansible-playbook playbooks/site.yml -i "$inventory" "${settings[@]}" ||
        failed "site.yml" "The summary above names the nodes. They stay up so that you can look at them; 'make site-down' removes them."
    step "7/12 A job of four MPI ranks on two nodes, submitted on the login node"
    .venv/bin/ansible-playbook tests/site/job.yml -i "$inventory" ||
        failed "the job" "Look at 'sinfo' and 'squeue' on the login node, and at /var/log/slurm there and on the nodes."
    .venv/bin/ansible-playbook tests/site/goodput.yml -i "$inventory" -e "ledger_file=$PWD/$ledger" ||
        failed "the job's goodput" "Run 'sudo hpcnode goodput' on the controller, and look at 'systemctl status slurmdbd' there."
    step "8/12 A job for the elastic set, which has no machine: a node appears"
    .venv/bin/ansible-playbook tests/site/elastic.yml -i "$inventory" -e "@$stack" -e "@$variables" ||
        failed "the job on the elastic set" "Run 'hpcnode elastic status' and 'journalctl -u hpcai-elastic' on the controller."
    if [ -n "$HPCAI_ENROOT_FILES" ]; then
        step "9/12 A job in a container of another system on two nodes"
        .venv/bin/ansible-playbook tests/site/container.yml -i "$inventory" ||
            failed "the job in a container" "Run 'hpcnode containers status' on a node, and look at /var/log/slurm/slurmd.log there."
    else
        step "9/12 No job in a container: there are no release files of enroot and pyxis (HPCAI_ENROOT_FILES names a folder)"
    fi
    step "10/12 Health checks of the tiers prolog and periodic on all nodes, with a report; the console's first page"
    for tier in prolog periodic; do
        .venv/bin/ansible-playbook playbooks/health_check.yml -i "$inventory" \
            -e "hpcai_health_tier=$tier" -e "hpcai_health_report=$PWD/$health/$tier" ||
            failed "the health check (tier $tier)" "The report in $health/$tier lists the failed checks of each node."
    done
    .venv/bin/ansible-playbook tests/site/console.yml -i "$inventory" ||
        failed "opening the console" "Look at 'systemctl status hpcai-prometheus' on the controller."
    step "11/12 The elastic set's node is idle, and goes"
    .venv/bin/ansible-playbook tests/site/elastic_gone.yml -i "$inventory" -e "@$stack" -e "@$variables" ||
        failed "waiting for the end of an idle node" "Run 'hpcnode elastic status' and 'journalctl -u hpcai-elastic' on the controller."
    step "12/12 A training of the size tiny on two nodes, with its report"
    train ||
        failed "the training" "See the files in /var/tmp/hpcai-site on the nodes."
    tests/setup/estimate.sh save "$kind" $((SECONDS - began))
    summary
}

summary() {
    local controller also=""
    if [ -n "$HPCAI_ENROOT_FILES" ]; then
        also=", and another one in a container"
    fi
    controller=$(addresses hpcai_controller)
    cat <<END

== Done in $((SECONDS - began)) s: provision made a cluster in an empty simulated subscription, Slurm runs on it, and a job ran on two of its nodes$also.
$(tests/setup/site_parts.sh "$HPCAI_ENROOT_FILES")
   Log in:     ssh ${key[*]} azureuser@$controller sinfo
   Console:    http://127.0.0.1:9090/consoles/hpcai.html     (a page for your browser, through this tunnel:)
               ssh ${key[*]} -N -L 9090:127.0.0.1:9090 azureuser@$controller
   Goodput:    $(.venv/bin/python tests/site/goodput_line.py "$ledger")
   Health:     $PWD/$health/periodic/report.html     (a page for your browser)
   Again:      make site         (nothing changes)
   Remove:     make site-down
END
}

down() {
    # That is the time of `up`.
    estimate=
    [ -x .venv/bin/python ] || tests/setup/venv.sh
    if grep -q "^$name  up" <<<"$(simulator list)"; then
        step "1/2 ansible-playbook playbooks/teardown.yml: deletes what provision.yml made"
        # Whatever the state of the site is, it can be removed.
        .venv/bin/ansible-playbook playbooks/teardown.yml -i "$inventory" -e "@$stack" -e @tests/site/teardown.yml \
            -e "simulator_state=$PWD/.simulator/$name" ||
            printf '\nteardown.yml failed, see its message above. The simulated subscription is removed with all resources.\n' >&2
    fi
    step "2/2 Remove the simulated subscription"
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
