# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vmss_instances on simulated scale sets: it acts only on instances with the ids that the inventory listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .clusters import CLUSTER, COMPUTE
from .lists import INSTANCES
from .reading import Finished, Source, ansible, facts


def instances_of(source: Source, *hosts: str) -> list[dict[str, str]]:
    """The ids of these hosts' instances from the inventory."""
    inventory = source.read(include_vms="tagged")
    found = [facts(inventory, host) for host in hosts]
    return [{"azure_id": host["azure_id"], "vm_id": host["azure_vm_id"]} for host in found]


def run(source: Source, instances: list[dict[str, str]], *flags: str, **options: Any) -> Finished:
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


def result_of(done: Finished) -> dict[str, Any]:
    """The result of the module, which must succeed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.partition("=> ")[2]))


def write_requests(source: Source) -> list[str]:
    """The paths of all requests to Azure that were not only reads."""
    return [item["path"] for item in source.simulator.requests() if item["method"] != "GET"]


def test_instances_are_deleted_by_id_and_not_by_capacity(source: Source) -> None:
    done = result_of(run(source, instances_of(source, "compute000000", "compute000003")))

    assert done["changed"] is True
    assert [name.rsplit("/", 1)[1] for name in done["deleted"]] == ["0", "3"]
    assert set(source.read().hosts) & {"compute000000", "compute000003", "compute00000H"} == {"compute00000H"}
    (path,) = write_requests(source)
    assert path.lower().endswith("/virtualmachinescalesets/compute/delete")


def test_deleted_instances_are_unchanged(source: Source) -> None:
    instances = instances_of(source, "compute000003")
    result_of(run(source, instances))

    again = result_of(run(source, instances))

    assert again["changed"] is False
    assert again["deleted"] == []
    assert again["gone"] == [instances[0]["azure_id"]]


def test_check_mode_deletes_nothing(source: Source) -> None:
    instances = instances_of(source, "compute000003")

    done = result_of(run(source, instances, "--check"))

    assert (done["changed"], done["deleted"]) == (True, [instances[0]["azure_id"]])
    assert write_requests(source) == []
    assert "compute000003" in source.read().hosts


def test_nothing_is_done_if_one_id_belongs_to_another_machine(source: Source) -> None:
    right, wrong = instances_of(source, "compute000000", "compute000003")

    done = run(source, [right, {**wrong, "vm_id": "99999999-0000-4000-8000-000000000000"}])

    assert done.returncode != 0
    assert "Nothing was done." in done.stdout
    assert "the id now belongs to another machine" in done.stdout
    assert write_requests(source) == []


@pytest.mark.thorough
def test_a_flexible_instance_is_deleted_as_a_virtual_machine(source: Source) -> None:
    inventory = source.read()
    member = next(name for name in inventory.hosts if name.startswith("flex"))

    done = result_of(run(source, instances_of(source, member)))

    assert len(done["deleted"]) == 1
    (path,) = write_requests(source)
    assert "/virtualmachines/" in path.lower()
    assert "virtualmachinescalesets" not in path.lower()
    assert member not in source.read().hosts


def test_a_failed_list_does_not_mean_that_instances_are_deleted(source: Source) -> None:
    instances = instances_of(source, "compute000003")
    source.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")

    done = run(source, instances)

    assert done.returncode != 0
    assert "could not list the instances of scale set compute" in done.stdout
    assert "Give the identity the action Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read" in done.stdout
    assert write_requests(source) == []


@pytest.mark.thorough
def test_a_missing_permission_to_delete_is_named(source: Source) -> None:
    instances = instances_of(source, "compute000003")
    source.simulator.add_fault(r"/delete\?", status=403, code="AuthorizationFailed")

    done = run(source, instances)

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
def test_an_id_that_is_no_instance_is_refused(source: Source, azure_id: str, vm_id: str, words: str) -> None:
    source.write()

    done = run(source, [{"azure_id": azure_id, "vm_id": vm_id}])

    assert done.returncode != 0
    assert words in done.stdout
    assert source.simulator.requests() == []


@pytest.mark.thorough
def test_a_source_of_another_subscription_is_not_used(source: Source) -> None:
    instances = instances_of(source, "compute000003")
    source.write(subscription_ids=["11111111-2222-3333-4444-555555555555"])

    done = run(source, instances)

    assert done.returncode != 0
    assert "is in none of these sources" in done.stdout


@pytest.mark.thorough
def test_connection_options_of_the_task_replace_a_source(source: Source) -> None:
    instances = instances_of(source, "compute000003")

    done = run(source, instances, sources=[], endpoint=source.simulator.endpoint, token=source.simulator.token)

    assert len(result_of(done)["deleted"]) == 1


def test_the_token_is_not_shown(source: Source) -> None:
    done = run(source, instances_of(source, "compute000003"), "-vvv")

    assert done.returncode == 0
    assert source.simulator.token not in done.stdout + done.stderr


@pytest.mark.thorough
def test_a_file_that_is_no_source_is_refused(source: Source, tmp_path: Path) -> None:
    instances = instances_of(source, "compute000003")

    done = run(source, instances, sources=[str(tmp_path / "hosts.ini")])

    assert done.returncode != 0
    assert "hosts.ini is not a source of hpcai.azure.azure_vmss" in done.stdout


def test_a_redeployment_keeps_the_machines_and_affects_only_these(source: Source) -> None:
    instances = instances_of(source, "compute000000", "compute000003")
    done = result_of(run(source, instances, state="redeployed"))

    assert done["changed"] is True
    assert [name.rsplit("/", 1)[1] for name in done["redeployed"]] == ["0", "3"]
    assert done["deleted"] == []
    (path,) = write_requests(source)
    assert path.lower().endswith("/virtualmachinescalesets/compute/redeploy")
    after = source.read(include_vms="tagged")
    assert [facts(after, host)["azure_vm_id"] for host in ("compute000000", "compute000003")] == [
        item["vm_id"] for item in instances
    ]


@pytest.mark.thorough
def test_a_flexible_instance_is_redeployed_as_a_virtual_machine(source: Source) -> None:
    member = next(name for name in source.read().hosts if name.startswith("flex"))

    done = result_of(run(source, instances_of(source, member), state="redeployed"))

    assert len(done["redeployed"]) == 1
    (path,) = write_requests(source)
    assert "/virtualmachines/" in path.lower()
    assert path.lower().endswith("/redeploy")


def test_a_redeployment_of_another_machine_is_refused(source: Source) -> None:
    (wrong,) = instances_of(source, "compute000003")

    done = run(source, [{**wrong, "vm_id": "99999999-0000-4000-8000-000000000000"}], state="redeployed")

    assert done.returncode != 0
    assert "Nothing was done." in done.stdout
    assert write_requests(source) == []


def test_a_replacement_creates_as_many_new_instances(source: Source) -> None:
    done = result_of(run(source, instances_of(source, "compute000000", "compute000003"), state="replaced"))

    assert [name.rsplit("/", 1)[1] for name in done["deleted"]] == ["0", "3"]
    assert done["capacity_left_alone"] == []
    uniform = source.simulator.scale_set("compute")
    assert uniform.capacity == len(uniform.members) == 3
    assert not {"0", "3"} & set(uniform.members)
    assert "17" in uniform.members


@pytest.mark.thorough
def test_a_replacement_without_quota_fails_with_advice(source: Source) -> None:
    words = "The quota of the family is used up."
    source.simulator.add_fault(r"(PATCH|PUT) .*/compute\?", status=409, code="QuotaExceeded", message=words)

    done = run(source, instances_of(source, "compute000003"), state="replaced")

    assert done.returncode != 0
    assert "The instances were deleted, but not replaced: could not set the capacity" in done.stdout
    assert f"409 QuotaExceeded: {words}" in done.stdout
    assert "--resource-group hpcai-sim --name compute --new-capacity 3" in done.stdout
    assert source.simulator.scale_set("compute").capacity == 2


@pytest.mark.thorough
def test_a_scale_set_gets_new_instances_although_another_one_refuses(simulate: Callable[..., Source]) -> None:
    sets = [{"name": name, "capacity": 2, "tags": COMPUTE} for name in ("left", "right")]
    source = simulate({"virtual_machines": CLUSTER["virtual_machines"], "scale_sets": sets})
    source.simulator.add_fault(r"POST .*/right/delete\?", status=409, code="Conflict")

    done = run(source, instances_of(source, "left000000", "right000000"), state="replaced")

    assert done.returncode != 0
    assert "could not delete the instances 0 of scale set right" in done.stdout
    assert [source.simulator.scale_set(name).capacity for name in ("left", "right")] == [2, 2]
    assert "0" not in source.simulator.scale_set("left").members


@pytest.mark.thorough
def test_a_replacement_without_deletions_keeps_the_capacity(source: Source) -> None:
    instances = instances_of(source, "compute000003")
    result_of(run(source, instances))

    again = result_of(run(source, instances, state="replaced"))

    assert (again["changed"], again["deleted"]) == (False, [])
    assert source.simulator.scale_set("compute").capacity == 2


def test_a_replacement_outside_a_uniform_scale_set_is_refused(source: Source) -> None:
    done = run(source, instances_of(source, "ctl"), state="replaced")

    assert done.returncode != 0
    assert "not in a Uniform scale set, so Azure would not replace it; redeploy it instead" in done.stdout
    assert write_requests(source) == []


@pytest.mark.thorough
def test_reimaged_is_not_a_valid_state(source: Source) -> None:
    done = run(source, instances_of(source, "compute000003"), state="reimaged")

    assert done.returncode != 0
    assert "must be one of: absent, redeployed, replaced" in done.stdout
