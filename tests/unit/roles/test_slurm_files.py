# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the role slurm writes, compared with ones that were read over: golden/HOST/FILE.

After a change that is meant, look at the difference that the test shows and edit the golden file by hand.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import slurmd_env

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = pathlib.Path(__file__).parent / "golden"
TEMPLATES = REPOSITORY / "roles/slurm/templates"


def compute_host(scale_set: str, instance_id: str | None, name: str, size: str, address: str) -> dict[str, Any]:
    """A compute node as the inventory plugin describes it."""
    return {
        "azure_vmss": scale_set,
        "azure_instance_id": instance_id,
        "azure_computer_name": name,
        "azure_vm_size": size,
        "azure_private_ipv4": address,
    }


OVERRIDES: dict[str, Any] = {
    "slurm_memory_margin_percent": 10,
    "slurm_spare_nodes": 0,
    "slurm_conf": {
        "MpiDefault": None,
        "ReturnToService": 0,
        "SlurmctldParameters": ["enable_configless", "idle_on_node_suspend"],
        "TaskPlugin": [],
        "MailProg": "/usr/bin/mail -s hpc",
        "DebugFlags": [],
        "UsePAM": True,
    },
    "slurm_cgroup_conf": {"ConstrainDevices": None, "CgroupPlugin": "autodetect"},
    "slurm_partitions": {
        "compute": {"MaxTime": "24:00:00", "OverSubscribe": False},
        "spare": None,
        "all": {"Nodes": "ALL", "AllowGroups": ["admin", "ops"]},
    },
}
FILES = {
    "ctl": ["slurm.conf", "cgroup.conf"],
    # The same cluster with the user's settings.
    "overridden": ["slurm.conf", "cgroup.conf"],
    "compute00000H": ["slurmd.conf"],
}
CLUSTER: dict[str, Any] = {
    "all": {
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "azure_tags": {"hpcai_cluster": "golden"},
            "hpcai_vm_sizes": {"Standard_X8": {"vcpus": 8, "memory_mib": 10000}},
        },
        "children": {
            "hpcai_controller": {"hosts": {"ctl": {"azure_private_ipv4": "10.77.0.4"}, "overridden": OVERRIDES}},
            "hpcai_compute": {
                "hosts": {
                    "compute00000H": compute_host("compute", "17", "compute00000H", "standard_nd96asr_v4", "10.77.0.7"),
                    "compute000000": compute_host("compute", "0", "compute000000", "Standard_ND96asr_v4", "10.77.0.6"),
                    "compute000003": compute_host("compute", "3", "compute000003", "Standard_ND96asr_v4", "10.77.0.9"),
                    "mixed-a": compute_host("mixed", None, "mixed-a", "Standard_X8", "10.77.1.4"),
                    "mixed-b": compute_host("mixed", None, "mixed-b", "Standard_ND96isr_H100_v5", "10.77.1.5"),
                    "mixed-c": compute_host("mixed", None, "mixed-c", "Standard_X8", "10.77.1.6"),
                    "spare-1": compute_host("spare", None, "spare-1", "Standard_ND128isr_GB300_v6", "10.77.2.4"),
                }
            },
        },
    }
}


@pytest.fixture(scope="module")
def written(
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """The folder with what Ansible makes of the role's templates: HOST/FILE. None of the role's tasks runs."""
    folder = tmp_path_factory.mktemp("slurm_files")
    for host in FILES:
        (folder / host).mkdir()
    template = {
        "src": f"{TEMPLATES}/{{{{ item }}}}.j2",
        "dest": f"{folder}/{{{{ inventory_hostname }}}}/{{{{ item }}}}",
    }
    playbook = {
        "name": "Write the role's files",
        "hosts": ",".join(FILES),
        "gather_facts": False,
        "roles": ["hpcai.azure.slurm"],
        "post_tasks": [
            {
                "name": "Stand in for the gathered fact",
                "ansible.builtin.set_fact": {"hostname": "ctl", "cacheable": True},
                "tags": "render",
            },
            {
                "name": "Write a file",
                "ansible.builtin.template": template,
                "loop": "{{ files[inventory_hostname] }}",
                "vars": {"files": FILES},
                "tags": "render",
            },
            {
                "name": "Write what tells slurmd its name",
                "ansible.builtin.copy": {
                    "content": "{{ __slurm_slurmd_line }}",
                    "dest": f"{folder}/{{{{ inventory_hostname }}}}/slurmd.line",
                },
                "tags": "render",
            },
        ],
    }
    (folder / "render.yml").write_text(yaml.safe_dump([playbook], sort_keys=False), encoding="utf-8")
    (folder / "hosts.yml").write_text(yaml.safe_dump(CLUSTER, sort_keys=False), encoding="utf-8")
    done = ansible_playbook(folder, "-i", "hosts.yml", "render.yml", "--tags", "render")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("name", [f"{host}/{file}" for host, files in FILES.items() for file in files])
def test_the_file_is_the_golden_one(written: pathlib.Path, name: str) -> None:
    assert (written / name).read_text(encoding="utf-8") == (GOLDEN / name).read_text(encoding="utf-8")


def test_a_null_or_an_empty_list_deletes_a_setting_of_the_role(written: pathlib.Path) -> None:
    before = (written / "ctl/slurm.conf").read_text(encoding="utf-8")
    after = (written / "overridden/slurm.conf").read_text(encoding="utf-8")
    for setting in ("MpiDefault=", "TaskPlugin="):
        assert setting in before
        assert setting not in after


def test_slurmd_is_told_the_same_as_by_the_node_itself(written: pathlib.Path) -> None:
    """Else a node that joined by itself would have its slurmd restarted."""
    by_node = slurmd_env("compute-17", ["10.77.0.4"])
    assert (written / "compute00000H/slurmd.line").read_text(encoding="utf-8") == by_node.splitlines()[-1]


def test_every_file_says_that_it_is_managed(written: pathlib.Path) -> None:
    for name in (f"{host}/{file}" for host, files in FILES.items() for file in files):
        assert "Ansible managed" in (written / name).read_text(encoding="utf-8").splitlines()[1]
