# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Breakages whose tests need a cluster. `make breakages` does not try them, but prints the commands to do that."""

from __future__ import annotations

from mutation.breakages import CONTAINERS, NODE, Breakage, broken

MOLECULE = "molecule/cluster/tests"
CLUSTER = "tests/cluster"

NODE_BREAKAGES: tuple[Breakage, ...] = (
    *broken(
        "tests/simulator/scenarios/site.yml",
        f"{MOLECULE}/test_cluster.py",
        (
            "the scale set has one machine less",
            "    capacity: 2\n",
            "    capacity: 1\n",
            "test_there_are_two_compute_nodes",
        ),
    ),
    *broken(
        "roles/slurm/vars/main/os.yml",
        f"{MOLECULE}/test_cluster.py",
        (
            "Debian's nodes lack the library of PMIx",
            "other: [munge, libpmix-dev, e2fsprogs, acl]",
            "other: [munge, e2fsprogs, acl]",
            "test_mpi_ranks_see_each_other",
        ),
    ),
    *broken(
        f"{NODE}/boot/steps/key.py",
        f"{MOLECULE}/test_cluster.py",
        (
            "munge can write to its key",
            "MODE = 0o400\n",
            "MODE = 0o600\n",
            "test_all_machines_have_the_same_private_munge_key",
        ),
    ),
    *broken(
        "roles/slurm/tasks/install.yml",
        f"{MOLECULE}/test_cluster.py",
        (
            "slurmd does not start at boot",
            "    enabled: \"{{ item in ['munge', 'slurmd'] }}\"\n",
            "    enabled: \"{{ item == 'munge' }}\"\n",
            "test_services_run_where_they_belong_and_start_at_boot",
        ),
    ),
    *broken(
        "playbooks/tasks/before_contact.yml",
        f"{MOLECULE}/test_host_keys.py",
        (
            "host keys are not verified",
            "  when: hpcai_verify_host_keys | default('available') != 'never'\n",
            "  when: false\n",
            "test_an_impostor_is_refused_at_the_first_contact",
        ),
    ),
    *broken(
        "tests/simulator/images/customize.sh",
        f"{CLUSTER}/test_nodes_containers.py",
        (
            "all machines have the same machine-id",
            ': > "$root/etc/machine-id"\n',
            'echo 0123456789abcdef0123456789abcdef > "$root/etc/machine-id"\n',
            "test_each_machine_has_its_own_identity",
        ),
    ),
    *broken(
        f"{CONTAINERS}/firewall.py",
        f"{CLUSTER}/test_nodes_containers.py",
        (
            "the table of a killed simulator stays in the packet filter",
            '        run(["nft", "delete", "table", "ip", _table(tag)], check=False)\n',
            "        pass\n",
            "test_cleanup_after_a_kill_removes_everything_but_foreign_containers",
        ),
    ),
    *broken(
        f"{CONTAINERS}/backend.py",
        f"{CLUSTER}/test_instances.py",
        (
            "a redeployed machine keeps its local disk",
            "            shutil.rmtree(disk)\n            disk.mkdir()\n",
            "            pass\n",
            "test_a_redeployment_erases_only_the_local_disk",
        ),
    ),
)
