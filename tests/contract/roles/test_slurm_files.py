# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the role slurm writes are equal to reviewed files: golden/HOST/FILE.

After an intended change, check the difference that the test shows, and edit the golden file by hand.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import slurmd_env

from .conftest import LOCAL, Evaluate

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = pathlib.Path(__file__).parent / "golden"
ROLE = "hpcai.azure.slurm"
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
    "slurm_cgroup_conf": {"ConstrainDevices": None, "CgroupPlugin": "cgroup/v1"},
    "slurm_partitions": {
        "compute": {"MaxTime": "24:00:00", "OverSubscribe": False, "DefMemPerCPU": None},
        "spare": None,
        "all": {"Nodes": "ALL", "AllowGroups": ["admin", "ops"]},
    },
    "slurm_release": "24.11.5",
    "slurm_node_state": "cloud",
    "slurm_node_conf": {
        "nd96asr_v4": {"MemSpecLimit": 16384, "Weight": 10, "ThreadsPerCore": None},
        "hopper": {"Weight": 20, "Gres": "gpu:h100:8,nic:8", "State": "UNKNOWN"},
    },
    "slurm_gpu_autodetect": "nvidia",
    "slurm_gres": {
        "nd128isr_gb300_v6": {"Name": "gpu", "Type": "b300", "File": "/dev/nvidia[0-3]", "Flags": "nvidia_gpu_env"},
        "hopper": [{"NodeName": "hopper-[0-1]", "AutoDetect": "nvml"}],
        "adapters": {"NodeName": "hopper-[0-1]", "Name": "nic", "Count": 8},
    },
    "slurm_topology": {"mixed": None, "spare": {"Nodes": "spare-[1-2]"}, "root": {"Switches": ["compute", "hopper"]}},
    "slurm_plugstack": {"/usr/lib/slurm/lua.so": {"required": False, "args": ["/etc/slurm/plugin.lua"]}},
    "slurm_containers": True,
    "slurm_private_tmp": "",
}
NAMES = ["slurm.conf", "cgroup.conf", "gres.conf", "topology.conf", "plugstack.conf", "job_container.conf"]
# The first controller runs 22.05, like Debian 12. The others are the same cluster with another release or settings.
RELEASES = {"ctl": "22.05", "23.11": "23.11.10", "24.11": "24.11", "25.11": "25.11"}
CONTROLLERS = [*RELEASES, "overridden"]
CLUSTER: dict[str, Any] = {
    "all": {
        "vars": {
            **LOCAL,
            "azure_tags": {"hpcai_cluster": "golden"},
            "hpcai_vm_sizes": {"Standard_X8": {"vcpus": 8, "memory_mib": 10000}},
        },
        "children": {
            "hpcai_controller": {
                "hosts": {
                    **{name: {"azure_private_ipv4": "10.77.0.4", "slurm_release": RELEASES[name]} for name in RELEASES},
                    "overridden": OVERRIDES,
                }
            },
            "hpcai_compute": {
                "hosts": {
                    "compute00000H": compute_host("compute", "17", "compute00000H", "standard_nd96asr_v4", "10.77.0.7"),
                    "compute000000": compute_host("compute", "0", "compute000000", "Standard_ND96asr_v4", "10.77.0.6"),
                    "compute000003": compute_host("compute", "3", "compute000003", "Standard_ND96asr_v4", "10.77.0.9"),
                    "hopper000000": compute_host(
                        "hopper", "0", "hopper000000", "Standard_ND96isr_H100_v5", "10.77.3.4"
                    ),
                    "hopper000001": compute_host(
                        "hopper", "1", "hopper000001", "Standard_ND96isr_H100_v5", "10.77.3.5"
                    ),
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
def written(evaluate: Evaluate, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the role's templates as Ansible renders them: HOST/FILE. No task of the role runs."""
    folder = tmp_path_factory.mktemp("slurm_files")
    template = (
        f"lookup('ansible.builtin.template', '{TEMPLATES}/%s.j2', template_vars={{'item': {{'text': '@TEXT@'}}}})"
    )
    facts = {"hostname": "ctl"}
    of_controllers = {"files": "{{ __slurm_files }}", "frame": f"{{{{ {template % 'slurm_file.conf'} }}}}"}
    of_nodes = {"slurmd.conf": f"{{{{ {template % 'slurmd.conf'} }}}}", "slurmd.line": "{{ __slurm_slurmd_line }}"}
    made = {
        host: {file["name"]: one["frame"].replace("@TEXT@\n", file["text"]) for file in one["files"] if file["text"]}
        for host, one in evaluate(ROLE, CLUSTER, of_controllers, "hpcai_controller", ansible_facts=facts).items()
    }
    for host, files in {**made, **evaluate(ROLE, CLUSTER, of_nodes, "compute00000H")}.items():
        (folder / host).mkdir()
        for name, text in files.items():
            (folder / host / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("host", [*CONTROLLERS, "compute00000H"])
def test_the_files_equal_the_golden_files(written: pathlib.Path, host: str) -> None:
    golden = {file.name: file.read_text(encoding="utf-8") for file in (GOLDEN / host).glob("*.conf")}
    made = {file.name: file.read_text(encoding="utf-8") for file in (written / host).glob("*.conf")}
    assert made == golden
    # A file without content is not written.
    assert set(golden) <= {*NAMES, "slurmd.conf"}


def settings(written: pathlib.Path, host: str, name: str = "slurm.conf") -> dict[str, str]:
    """The settings of a file, without the lines of nodes and partitions."""
    lines = (written / host / name).read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key: value for key, value in pairs if key not in ("NodeName", "PartitionName")}


def test_a_null_or_an_empty_list_deletes_a_setting_of_the_role(written: pathlib.Path) -> None:
    before, after = settings(written, "24.11"), settings(written, "overridden")
    for key in ("MpiDefault", "TaskPlugin"):
        assert key in before
        assert key not in after


@pytest.mark.parametrize(
    ("file", "key", "by_release"),
    [
        ("slurm.conf", "PrivateData", ["cloud", None, None, None]),
        ("slurm.conf", "JobContainerType", ["job_container/tmpfs"] * 3 + [None]),
        ("slurm.conf", "NamespaceType", [None, None, None, "namespace/tmpfs"]),
        ("slurm.conf", "CryptoType", [None] * 4),
        ("slurm.conf", "CredType", ["cred/munge"] * 4),
        (
            "slurm.conf",
            "PrologFlags",
            ["Alloc,Contain,DeferBatch"] + ["Alloc,Contain,DeferBatch,ForceRequeueOnFail"] * 3,
        ),
        ("cgroup.conf", "CgroupPlugin", ["autodetect"] * 3 + ["cgroup/v2"]),
        ("cgroup.conf", "CgroupAutomount", [None] * 4),
    ],
)
def test_keys_are_written_only_for_releases_that_know_them(
    written: pathlib.Path, file: str, key: str, by_release: list[str | None]
) -> None:
    assert [settings(written, host, file).get(key) for host in RELEASES] == by_release


def test_the_defaults_check_the_hardware_and_constrain_jobs(written: pathlib.Path) -> None:
    for host in CONTROLLERS:
        text = (written / host / "slurm.conf").read_text(encoding="utf-8")
        assert "config_overrides" not in text
        assert "linuxproc" not in text
        assert "ProctrackType=proctrack/cgroup" in text
        assert "X11" not in text


def test_unkillable_processes_get_five_times_the_time_of_a_message(written: pathlib.Path) -> None:
    """Otherwise, nodes that are only slow are drained: slurm.conf(5) of 25.11, UnkillableStepTimeout."""
    ours = settings(written, "25.11")
    assert int(ours["UnkillableStepTimeout"]) >= 5 * int(ours["MessageTimeout"])


def test_the_role_writes_the_same_slurmd_options_as_the_node(written: pathlib.Path) -> None:
    """Otherwise, the role would restart slurmd on a node that joined automatically."""
    by_node = slurmd_env("compute-17", ["10.77.0.4"])
    assert (written / "compute00000H/slurmd.line").read_text(encoding="utf-8") == by_node.splitlines()[-1]


def test_every_file_is_marked_as_managed_by_ansible(written: pathlib.Path) -> None:
    files = list(written.glob("*/*.conf"))
    assert len(files) > len(RELEASES)
    for file in files:
        assert "Ansible managed" in file.read_text(encoding="utf-8").splitlines()[1]
