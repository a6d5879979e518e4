# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vmss_instances on simulated sets: what the inventory saw is treated by its id, and never anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .clusters import CLUSTER, COMPUTE
from .lists import INSTANCES
from .reading import Finished, Source, ansible, facts


def wanted(source: Source, *hosts: str) -> list[dict[str, str]]:
    """The instances behind these hosts, as the inventory has them."""
    inventory = source.read(include_vms="tagged")
    found = [facts(inventory, host) for host in hosts]
    return [{"azure_id": host["azure_id"], "vm_id": host["azure_vm_id"]} for host in found]


def remove(source: Source, instances: list[dict[str, str]], *flags: str, **options: Any) -> Finished:
    """Run the module, with the connection options of the inventory's file."""
    arguments = {"instances": instances, "sources": [str(source.path)], **options}
    return ansible(
        "ansible",
        "localhost",
        "-i",
        "localhost,",
        "-m",
        "hpcai.azure.vmss_instances",
        "-a",
        json.dumps(arguments),
        *flags,
        cwd=source.path.parent,
        env={"ANSIBLE_NOCOLOR": "1"},
    )


def answer(done: Finished) -> dict[str, Any]:
    """What the module answered."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.partition("=> ")[2]))


def posts(source: Source) -> list[str]:
    """What was asked of Azure but to look."""
    return [item["path"] for item in source.simulator.requests() if item["method"] != "GET"]


def test_deletes_by_instance_id_and_never_by_capacity(source: Source) -> None:
    done = answer(remove(source, wanted(source, "compute000000", "compute000003")))

    assert done["changed"] is True
    assert [name.rsplit("/", 1)[1] for name in done["deleted"]] == ["0", "3"]
    assert set(source.read().hosts) & {"compute000000", "compute000003", "compute00000H"} == {"compute00000H"}
    (asked,) = posts(source)
    assert asked.lower().endswith("/virtualmachinescalesets/compute/delete")


def test_gone_already_is_unchanged(source: Source) -> None:
    instances = wanted(source, "compute000003")
    answer(remove(source, instances))

    again = answer(remove(source, instances))

    assert again["changed"] is False
    assert again["deleted"] == []
    assert again["gone"] == [instances[0]["azure_id"]]


def test_check_mode_looks_and_deletes_nothing(source: Source) -> None:
    instances = wanted(source, "compute000003")

    done = answer(remove(source, instances, "--check"))

    assert (done["changed"], done["deleted"]) == (True, [instances[0]["azure_id"]])
    assert posts(source) == []
    assert "compute000003" in source.read().hosts


def test_refuses_all_where_one_id_belongs_to_another_machine_by_now(source: Source) -> None:
    right, wrong = wanted(source, "compute000000", "compute000003")

    done = remove(source, [right, {**wrong, "vm_id": "99999999-0000-4000-8000-000000000000"}])

    assert done.returncode != 0
    assert "Nothing was done." in done.stdout
    assert "the id now belongs to another machine" in done.stdout
    assert posts(source) == []


@pytest.mark.thorough
def test_member_of_a_flexible_set_is_deleted_as_a_virtual_machine(source: Source) -> None:
    inventory = source.read()
    member = next(name for name in inventory.hosts if name.startswith("flex"))

    done = answer(remove(source, wanted(source, member)))

    assert len(done["deleted"]) == 1
    (asked,) = posts(source)
    assert "/virtualmachines/" in asked.lower()
    assert "virtualmachinescalesets" not in asked.lower()
    assert member not in source.read().hosts


def test_list_that_fails_takes_nothing_for_gone(source: Source) -> None:
    instances = wanted(source, "compute000003")
    source.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")

    done = remove(source, instances)

    assert done.returncode != 0
    assert "could not list the instances of scale set compute" in done.stdout
    assert "Give the identity the action Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read" in done.stdout
    assert posts(source) == []


@pytest.mark.thorough
def test_missing_permission_to_delete_is_named(source: Source) -> None:
    instances = wanted(source, "compute000003")
    source.simulator.add_fault(r"/delete\?", status=403, code="AuthorizationFailed")

    done = remove(source, instances)

    assert done.returncode != 0
    assert "could not delete the instances 3 of scale set compute" in done.stdout
    assert "Microsoft.Compute/virtualMachineScaleSets/delete/action" in done.stdout


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("azure_id", "vm_id", "words"),
    [
        ("/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/compute", "x", "is no"),
        ("compute-3", "x", "is not the resource id of an instance"),
    ],
)
def test_what_is_no_instance_is_refused(source: Source, azure_id: str, vm_id: str, words: str) -> None:
    source.write()

    done = remove(source, [{"azure_id": azure_id, "vm_id": vm_id}])

    assert done.returncode != 0
    assert words in done.stdout
    assert source.simulator.requests() == []


@pytest.mark.thorough
def test_source_of_another_subscription_is_not_used(source: Source) -> None:
    instances = wanted(source, "compute000003")
    source.write(subscription_ids=["11111111-2222-3333-4444-555555555555"])

    done = remove(source, instances)

    assert done.returncode != 0
    assert "is in none of these sources" in done.stdout


@pytest.mark.thorough
def test_connection_options_of_the_task_do_without_a_source(source: Source) -> None:
    instances = wanted(source, "compute000003")

    done = remove(source, instances, sources=[], endpoint=source.simulator.endpoint, token=source.simulator.token)

    assert len(answer(done)["deleted"]) == 1


def test_token_is_not_told(source: Source) -> None:
    done = remove(source, wanted(source, "compute000003"), "-vvv")

    assert done.returncode == 0
    assert source.simulator.token not in done.stdout + done.stderr


@pytest.mark.thorough
def test_file_that_is_no_source_is_named(source: Source, tmp_path: Path) -> None:
    instances = wanted(source, "compute000003")

    done = remove(source, instances, sources=[str(tmp_path / "hosts.ini")])

    assert done.returncode != 0
    assert "hosts.ini is not a source of hpcai.azure.azure_vmss" in done.stdout


def test_redeployment_keeps_the_machine_and_asks_for_these_instances_only(source: Source) -> None:
    instances = wanted(source, "compute000000", "compute000003")
    done = answer(remove(source, instances, state="redeployed"))

    assert done["changed"] is True
    assert [name.rsplit("/", 1)[1] for name in done["redeployed"]] == ["0", "3"]
    assert done["deleted"] == []
    (asked,) = posts(source)
    assert asked.lower().endswith("/virtualmachinescalesets/compute/redeploy")
    after = source.read(include_vms="tagged")
    assert [facts(after, host)["azure_vm_id"] for host in ("compute000000", "compute000003")] == [
        item["vm_id"] for item in instances
    ]


@pytest.mark.thorough
def test_member_of_a_flexible_set_is_redeployed_as_a_virtual_machine(source: Source) -> None:
    member = next(name for name in source.read().hosts if name.startswith("flex"))

    done = answer(remove(source, wanted(source, member), state="redeployed"))

    assert len(done["redeployed"]) == 1
    (asked,) = posts(source)
    assert "/virtualmachines/" in asked.lower()
    assert asked.lower().endswith("/redeploy")


def test_redeployment_is_refused_for_another_machine(source: Source) -> None:
    (wrong,) = wanted(source, "compute000003")

    done = remove(source, [{**wrong, "vm_id": "99999999-0000-4000-8000-000000000000"}], state="redeployed")

    assert done.returncode != 0
    assert "Nothing was done." in done.stdout
    assert posts(source) == []


def test_replacement_brings_as_many_new_instances(source: Source) -> None:
    done = answer(remove(source, wanted(source, "compute000000", "compute000003"), state="replaced"))

    assert [name.rsplit("/", 1)[1] for name in done["deleted"]] == ["0", "3"]
    assert done["capacity_left_alone"] == []
    uniform = source.simulator.scale_set("compute")
    assert uniform.capacity == len(uniform.members) == 3
    assert not {"0", "3"} & set(uniform.members)
    assert "17" in uniform.members


@pytest.mark.thorough
def test_replacement_without_room_for_new_instances_says_what_to_do(source: Source) -> None:
    words = "The quota of the family is used up."
    source.simulator.add_fault(r"(PATCH|PUT) .*/compute\?", status=409, code="QuotaExceeded", message=words)

    done = remove(source, wanted(source, "compute000003"), state="replaced")

    assert done.returncode != 0
    assert "The instances were deleted, but not replaced: could not set the capacity" in done.stdout
    assert f"409 QuotaExceeded: {words}" in done.stdout
    assert "--resource-group hpcai-sim --name compute --new-capacity 3" in done.stdout
    assert source.simulator.scale_set("compute").capacity == 2


@pytest.mark.thorough
def test_set_that_lost_instances_gets_new_ones_although_another_set_refuses(simulate: Callable[..., Source]) -> None:
    sets = [{"name": name, "capacity": 2, "tags": COMPUTE} for name in ("left", "right")]
    source = simulate({"virtual_machines": CLUSTER["virtual_machines"], "scale_sets": sets})
    source.simulator.add_fault(r"POST .*/right/delete\?", status=409, code="Conflict")

    done = remove(source, wanted(source, "left000000", "right000000"), state="replaced")

    assert done.returncode != 0
    assert "could not delete the instances 0 of scale set right" in done.stdout
    assert [source.simulator.scale_set(name).capacity for name in ("left", "right")] == [2, 2]
    assert "0" not in source.simulator.scale_set("left").members


@pytest.mark.thorough
def test_replacement_leaves_the_capacity_of_a_set_that_lost_nothing(source: Source) -> None:
    instances = wanted(source, "compute000003")
    answer(remove(source, instances))

    again = answer(remove(source, instances, state="replaced"))

    assert (again["changed"], again["deleted"]) == (False, [])
    assert source.simulator.scale_set("compute").capacity == 2


def test_replacement_is_refused_where_no_set_brings_another(source: Source) -> None:
    done = remove(source, wanted(source, "ctl"), state="replaced")

    assert done.returncode != 0
    assert "not in a Uniform scale set, so Azure would not replace it; redeploy it instead" in done.stdout
    assert posts(source) == []


@pytest.mark.thorough
def test_reimage_is_no_state(source: Source) -> None:
    done = remove(source, wanted(source, "compute000003"), state="reimaged")

    assert done.returncode != 0
    assert "must be one of: absent, redeployed, replaced" in done.stdout
