# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters as templates call them: with their full names, Ansible's own values, and errors in one line."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.template import trust_as_template

Render = Callable[..., Any]
COMPUTE = {
    "inventory_hostname": "compute000003",
    "azure_vmss": "compute",
    "azure_instance_id": "3",
    "azure_vm_size": "Standard_ND96asr_v4",
    "azure_private_ipv4": "10.77.0.5",
}


def test_slurm_config_renders_settings_then_lines(render: Render) -> None:
    text = render(
        "settings | hpcai.azure.slurm_config(lines)",
        settings={"ClusterName": "sim", "SlurmctldParameters": ["enable_configless"], "SlurmUser": None},
        lines=[{"NodeName": "a", "CPUs": 2}, {"PartitionName": "p", "Nodes": "a", "Default": True}],
    )
    assert text == (
        "ClusterName=sim\nSlurmctldParameters=enable_configless\nNodeName=a CPUs=2\n"
        "PartitionName=p Nodes=a Default=YES\n"
    )


def test_slurm_config_needs_no_lines(render: Render) -> None:
    assert render("{'A': 1} | hpcai.azure.slurm_config") == "A=1\n"


def test_slurm_config_omits_settings_that_are_null(render: Render) -> None:
    merged = "{'A': 1, 'B': 2} | combine({'A': none, 'C': [1, 2]}) | hpcai.azure.slurm_config"
    assert render(merged) == "B=2\nC=1,2\n"


@pytest.mark.parametrize(
    ("settings", "lines", "words"),
    [
        ({"A": "x\ny"}, [], "A contains a line break"),
        ({}, [{"B": "x\ny"}], "B contains a line break"),
        ({"A": {"b": 1}}, [], "A is a mapping"),
        (["A=1"], [], "slurm_config takes a mapping of settings, not"),
        ("A=1", [], "slurm_config takes a mapping of settings, not"),
    ],
)
def test_slurm_config_refuses_invalid_settings(render: Render, settings: Any, lines: Any, words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        render("settings | hpcai.azure.slurm_config(lines)", settings=settings, lines=lines)


def test_health_settings_have_the_format_of_the_settings_file(render: Render) -> None:
    stated = {
        "skip": ["gemm"],
        "warn_only": None,
        "limits": {"cpu_stream": 200, "gemm": None},
        "options": {"load": {"zombies": 9, "of_cpus": None}},
    }
    assert render("stated | hpcai.azure.health_settings", stated=stated) == {
        "off": ["gemm"],
        "limits": {"cpu_stream": 200},
        "options": {"load": {"zombies": 9}},
    }


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (
            {"skip": ["gem"]},
            r"health_checks_config: skip: there is no check gem, did you mean gemm\?\. 'hpcnode",
        ),
        ({"warn_only": ["laod"]}, r"warn_only: there is no check laod, did you mean load\?"),
        ({"limits": {"gpu_host_bandwith": 1}}, r"limit gpu_host_bandwith, did you mean gpu_host_bandwidth\?"),
        ({"limits": {"ib_flap": 1}}, r"limits: there is no limit ib_flap, did you mean ib_flaps\?"),
        ({"limits": {"nccl_allreduce": "460"}}, "limits.nccl_allreduce is '460', but must be a finite number"),
        ({"options": {"servces": {}}}, r"options: there is no check servces, did you mean services\?"),
        (
            {"options": {"services": {"neded": []}}},
            r"options.services: .* no option neded, did you mean needed\?",
        ),
        ({"options": {"vm_size": {"x": 1}}}, "options.vm_size: there is no option x, and there are no others"),
        ({"options": {"services": {"needed": "nscd"}}}, r"options.services.needed is 'nscd', but must be like \[\]"),
        ({"off": ["gemm"]}, "there is no key off; valid: skip, "),
        ([], r"health_checks_config must be a mapping, not \[\]"),
    ],
)
def test_health_settings_refuse_unknown_names(render: Render, stated: Any, words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        render("stated | hpcai.azure.health_settings", stated=stated)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"confirm": {"free_spce": 3}}, r"arbiter: confirm: there is no check free_spce, did you mean free_space\?"),
        (
            {"confirm": {"free_space": 9}},
            "arbiter: confirm.free_space must be a whole number from 1 to 5, not 9",
        ),
        ({"max_outs": 4}, "arbiter: has unknown keys max_outs; known are max_out, "),
        ({"max_out": "many"}, "arbiter: max_out must be a number of nodes, or a share as '10%', not 'many'"),
        ([], r"health_checks_arbiter must be a mapping, not \[\]"),
    ],
)
def test_health_arbiter_settings_refuse_invalid_settings(render: Render, stated: Any, words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        render("stated | hpcai.azure.health_arbiter_settings", stated=stated)


def test_health_arbiter_settings_returns_valid_settings_unchanged(render: Render) -> None:
    stated = {"max_out": 4, "confirm": {"free_space": 3}, "interval_s": None}
    assert render("stated | hpcai.azure.health_arbiter_settings", stated=stated) == stated


def test_slurm_node_name_maps_over_hosts(render: Render) -> None:
    hosts = [COMPUTE, {"inventory_hostname": "ctl", "azure_computer_name": "head"}]
    assert render("hosts | map('hpcai.azure.slurm_node_name') | list", hosts=hosts) == ["compute-3", "head"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({}, "the Slurm release of the controller is unknown: set slurm_release"),
        ({"release": "24.11", "gress": {}}, "slurm_files does not know gress; known are .*gres, "),
        ({"release": "24.11", "conf": {"A": "x\ny"}}, "A contains a line break"),
        ({"release": "24.11", "partitions": {"x": {}}}, "partition x of slurm_partitions has no Nodes"),
        ({"release": "24.11", "vm_sizes": {"nd96asr_v4": {"cpus": 1}}}, "unknown keys cpus"),
    ],
)
def test_slurm_files_refuses_invalid_options(render: Render, wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        render("hosts | hpcai.azure.slurm_files(wanted)", hosts=[COMPUTE], wanted=wanted)


def test_slurm_files_treats_null_as_not_set(render: Render) -> None:
    wanted = {"release": "24.11", "plugstack": None, "gres": None}
    files = render("hosts | hpcai.azure.slurm_files(wanted)", hosts=[COMPUTE], wanted=wanted)
    assert [file["name"] for file in files if file["text"]] == ["slurm.conf", "gres.conf", "topology.conf"]


def test_text_from_azure_is_never_rendered_as_a_template(render: Render) -> None:
    hostile = "{{ 7*6 }}"
    hosts = [{**COMPUTE, "azure_vmss": hostile}]
    names = render("hosts | map('hpcai.azure.slurm_node_name') | list", hosts=hosts)
    assert names == ["{{ 7*6 }}-3"]
    text = render("{'ClusterName': tag} | hpcai.azure.slurm_config", tag=hostile)
    assert text == 'ClusterName="{{ 7*6 }}"\n'


def test_inventory_problems_returns_a_list(render: Render) -> None:
    expression = "inventory | hpcai.azure.inventory_problems(groups, hosts, sources)"
    good = {"hpcai_controller": ["a"], "hpcai_compute": ["b"]}
    assert render(expression, inventory={}, groups=good, hosts=[], sources=[]) == []
    [problem] = render(expression, inventory={}, groups=good | {"hpcai_compute": []}, hosts=[], sources=[])
    assert problem.startswith("No host is in the group hpcai_compute")


def test_role_problems_returns_a_list_and_accepts_controllers_as_text(render: Render) -> None:
    expression = "inventory | hpcai.azure.role_problems(groups, hosts, controllers)"
    groups = {"hpcai_controller": ["a", "b"]}
    assert render(expression, inventory={}, groups=groups, hosts=[], controllers="a, b") == []
    [problem] = render(expression, inventory={}, groups=groups, hosts=[], controllers=["a"])
    assert "hpcai_controllers does not list b." in problem


def test_inventory_report_returns_a_line_for_each_scale_set(render: Render) -> None:
    line = "compute: 1 of 2 Standard_ND96asr_v4, Uniform, single placement group yes, accelerated networking unknown"
    inventory = {"sources": [{"scale_sets": [line]}]}
    assert render("inventory | hpcai.azure.inventory_report", inventory=inventory) == [line]
    assert render("{} | hpcai.azure.inventory_report") == []


FOLDER = pathlib.Path(__file__).resolve().parents[4] / "plugins/filter"
GPU_1 = "11111111-2222-4333-8444-555555555555"
EXAMPLES: dict[str, list[Any]] = {
    "monitoring_targets": ["[]"],
    "blob_grants": [
        {
            "schema": 1,
            "grants": [
                {
                    "groups": ["research"],
                    "account_url": "https://training.blob.core.windows.net",
                    "container": "cosmoflow",
                    "rights": "read",
                }
            ],
        }
    ],
    "cluster_settings": [
        '{"hpcai": {"schema": 1, "cluster": "training", "functions": ["compute"], "controllers": ["10.0.0.4"], "key": '
        '{"source": "key_vault", "vault": "https://training-keys.vault.azure.net", "secret": "munge-key", '
        '"client_id": null}}}'
    ],
    "elastic_machines": [[{"node": "gpu-1", "vm_id": GPU_1}]],
    "elastic_names": [{"elastic": ["gpu-0", "gpu-1"], "others": ["compute-3"]}],
    "elastic_settings": [
        {
            "schema": 1,
            "sets": {
                "gpu": {
                    "id": "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hpc/providers/"
                    "Microsoft.Compute/virtualMachineScaleSets/gpu",
                    "vm_size": "Standard_ND96asr_v4",
                    "max": 16,
                }
            },
        }
    ],
    "health_arbiter_settings": [{"max_out": "5%", "confirm": {"free_space": 3}}],
    "health_settings": [{"off": ["gpu_power"], "limits": {"gpu_host_bandwidth": 24}}],
    "inventory_problems": [""],
    "inventory_report": [[]],
    "release_files": [["/srv/releases (enroot_pyxis_files) has no v0.24.0.tar.gz or pyxis-0.24.0.tar.gz."]],
    "role_problems": [""],
    "roll_report": ["Reimaged: compute-3. Resumed: compute-3."],
    "roll_set": [["compute: 2.0.0, before 1.0.0; 1 of 2 instances have it"]],
    "scratch_disks": [2],
    "slurm_files": [
        "NodeName=compute-3 Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-47\n"
        "NodeName=compute-3 Name=gpu Type=a100 File=/dev/nvidia[4-7] Cores=48-95\n"
    ],
    "private_networks": [["10.0.0.4/31", "10.1.0.0/24"]],
    "slurm_config": [
        "ClusterName=hpc\nSlurmctldParameters=enable_configless\n"
        "PartitionName=compute Nodes=compute-[0,3] Default=YES\n"
    ],
    "slurm_missing": [[]],
    "slurm_node_name": ["compute-3"],
    "slurm_retirement": [
        {
            "leaving": [
                {"node": "compute-3", "host": "compute000003", "azure_id": "/instances/3", "vm_id": "vm-3"},
                {"node": "compute-17", "host": "compute00000H", "azure_id": "/instances/17", "vm_id": "vm-17"},
            ],
            "gone": [],
        }
    ],
    "slurm_spare_nodes": ["compute-[0-2,4-5]"],
    "slurm_upgrade": [{"oldest": "22.05.8", "pending": ["gpu1"], "found": "22.05.8 on gpu1; 23.11.4 on ctl"}],
    "has_gpus": [True],
    "vm_size": ["12 CPUs for each of 8 A100-SXM4-40GB", "1 1 0 0 3 3 2 2", 8, 0],
}


def texts_in(node: Any) -> list[str]:
    """Every text in a task."""
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts_in(value)]
    if isinstance(node, list):
        return [text for value in node for text in texts_in(value)]
    return [node] if isinstance(node, str) else []


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yml")), ids=lambda file: file.stem)
def test_the_documented_examples_return_the_expected_values(render: Render, file: pathlib.Path) -> None:
    examples = yaml.safe_load(yaml.safe_load(file.read_text(encoding="utf-8"))["EXAMPLES"])
    # Four hosts, because an example retires some of them, and never all hosts of a scale set.
    siblings = {
        name: {
            **COMPUTE,
            "inventory_hostname": name,
            "azure_instance_id": instance,
            "azure_id": f"/instances/{instance}",
            "azure_vm_id": f"vm-{instance}",
        }
        for name, instance in (
            ("compute000003", "3"),
            ("compute000004", "4"),
            ("compute000005", "5"),
            ("compute00000H", "17"),
        )
    }
    known = {
        **COMPUTE,
        "hostvars": siblings,
        "groups": {
            "hpcai_compute": ["compute000003"],
            "hpcai_controller": ["compute000003"],
            "azure_role_compute": list(siblings),
        },
        "hpcai_elastic": {},
        "images": {
            "scale_sets": [
                {"name": "compute", "before": "1.0.0", "image": "2.0.0", "outdated": ["x"], "current": ["y"]},
            ]
        },
        "rolled": {
            "to_do": [],
            "drained": [],
            "left_out": {},
            "stopped": "",
            "reimaged": ["compute-3"],
            "resumed": ["compute-3"],
        },
        "status": {"stdout": json.dumps({"sets": {"gpu": {"slots": [{"slot": "gpu-1", "vm_id": GPU_1}]}}})},
        "ansible_inventory_sources": [],
        "azure_inventory": {},
    }
    answers = []
    for example in examples:
        assert f"| hpcai.azure.{file.stem}" in str(example) or f"'hpcai.azure.{file.stem}'" in str(example)
        own = {
            name: trust_as_template(value) if isinstance(value, str) else value
            for name, value in example.pop("vars", {}).items()
        }
        del example["name"]
        [expression] = [text for text in texts_in(example) if "{{" in text]
        inner = expression.strip().removeprefix("{{").removesuffix("}}")
        answers.append(render(inner, **known, **own))
    assert answers == EXAMPLES[file.stem]
